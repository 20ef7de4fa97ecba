// The order of `ctx search` over documents that the page holds: the same words, levels and scores as storage/search_index.
"use strict";
(() => {
  const STOP = new Set("a an and are as at be but by can did do does for from had has have how i if in is it its me my not of on or our so that the then there these they this to was we were what when where which who why will with would you your".split(" "));
  const ENDINGS = "ations ation ingly ments ings ions ment ness able ing ion ies ied ers ed er es ly s".split(" ");
  const ADDED = ["", ..."s ed ing er ers ion ions ation able ly ment e es".split(" ")];
  const [WORDS, ENOUGH, AT_ONCE, SELDOM, AROUND] = [24, 5, 3, 10, 2];
  const [SAMPLE, POOL, STRICT, RARE, SCORED] = [1000, 2500, 600, 4000, 300];
  const WEIGHTS = [1, 0.5, 0.4];
  const UNSPACED = "\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7af\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
  const SIGN = new RegExp(`[${UNSPACED}]`, "u");
  const SIGNS = new RegExp(`[${UNSPACED}]`, "gu");
  const RUNS = new RegExp(`[${UNSPACED}]+|[^${UNSPACED}]+`, "gu");
  const TOKEN = /[\p{L}\p{N}]+/gu;
  const OTHER = /[^\x00-\x7f]/;
  const SAID = new Set([0, 1, 2, 3, 7, 8]);

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const tokens = (text) => text.match(TOKEN) || [];
  const folded = (text) => (OTHER.test(text) ? text.normalize("NFD").replace(/\p{M}+/gu, "").normalize("NFC").toLowerCase() : text.toLowerCase());
  const spaced = (text) => (OTHER.test(text) ? text.replace(SIGNS, " $& ") : text);

  // Whether a letter or digit stands at a place; most are ASCII.
  function letter(text, at) {
    const code = text.charCodeAt(at);
    if (code < 128) return (code > 96 && code < 123) || (code > 47 && code < 58) || (code > 64 && code < 91);
    return code === code && /^[\p{L}\p{N}]/u.test(String.fromCodePoint(text.codePointAt(code > 0xdbff && code < 0xe000 ? at - 1 : at)));
  }

  // How often some tokens stand in a row in a text; `open` takes what begins with the last of them.
  function times(text, [first, ...rest], open) {
    let found = 0;
    for (let at = text.indexOf(first); at >= 0; at = text.indexOf(first, at + first.length)) {
      if (at && letter(text, at - 1)) continue;
      let end = at + first.length;
      if (open ? !rest.length : false) found += 1;
      else if (!letter(text, end)) {
        let held = true;
        for (const next of rest) {
          while (end < text.length && !letter(text, end)) end += 1;
          held = text.startsWith(next, end) && !letter(text, end + next.length);
          if (!held) break;
          end += next.length;
        }
        if (held) found += 1;
      }
    }
    return found;
  }

  // One text as it is indexed: an argument's escapes are what they stand for, signs of unspaced scripts words of their own.
  function indexed(text, kind) {
    let told = text;
    if (kind === 5 && (told[0] === "{" || told[0] === "[") && told.includes("\\")) told = told.replace(/\\[\\nrt]/g, " ").replace(/\\u([0-9a-fA-F]{4})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
    return folded(spaced(told));
  }

  function size(text) {
    if (OTHER.test(text)) return tokens(text).length;
    let found = 0;
    let before = false;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      const now = (code > 96 && code < 123) || (code > 47 && code < 58);
      if (now && !before) found += 1;
      before = now;
    }
    return found;
  }

  const pieces = (token) => (SIGN.test(token) ? token.match(RUNS).flatMap((run) => (SIGN.test(run) && [...run].length > 1 ? [...run].slice(1).map((sign, i) => [[...run][i], sign]) : [[run]])) : [[token]]);

  // What to look for: each expression is a list of phrases, a phrase a list of tokens.
  function question(text) {
    const parts = text.slice(0, 2000).split(/\s+/).map((part) => tokens(part)).filter((part) => part.length).slice(0, WORDS);
    const words = parts.map((part) => tokens(folded(spaced(part.join(" ")))));
    const all = new Map(parts.flat().flatMap((token) => pieces(token)).map((piece) => piece.map(folded)).map((piece) => [piece.join(" "), piece]));
    const asked = [...all.values()].slice(0, WORDS);
    const stop = (piece) => piece.length === 1 && STOP.has(piece[0]);
    const told = asked.filter((piece) => !stop(piece));
    const whole = words.filter((word) => !word.every((token) => STOP.has(token)));
    const every = whole.length ? whole : words;
    return { asked, telling: told.length ? told : asked, phrase: [words.flat()], every, whole: new Set(every.map(String)).size };
  }

  function stem(word) {
    for (const ending of ENDINGS) {
      const shortest = ending === "ly" ? 4 : 3;
      if (!word.endsWith(ending) || word.length - ending.length < shortest || (ending === "s" && "su".includes(word.at(-2)))) continue;
      const cut = word.slice(0, -ending.length);
      if (!/[aeiouy]/.test(cut)) continue;
      if (ending === "ies" || ending === "ied") return `${cut}y`;
      return cut.at(-1) === cut.at(-2) && !"lsz".includes(cut.at(-1)) && cut.length > 3 ? cut.slice(0, -1) : cut;
    }
    return word.endsWith("e") && word.length > 4 ? word.slice(0, -1) : word;
  }

  function forms(word) {
    if (!/^[a-z]{4,}$/.test(word)) return [];
    const cut = stem(word);
    const vowel = (at) => "aeiouy".includes(cut.at(at));
    const found = ADDED.map((ending) => cut + ending);
    if (cut.at(-1) === "y" && !vowel(-2)) found.push(...["ies", "ied", "ier"].map((ending) => cut.slice(0, -1) + ending));
    else if (!vowel(-1) && !"wxhs".includes(cut.at(-1)) && vowel(-2) && !vowel(-3)) found.push(...["ed", "ing", "er", "ers"].map((ending) => cut + cut.at(-1) + ending));
    return [...new Set(found)].filter((form) => form !== word && form.length >= 3);
  }

  // Documents {kind, text, row} of sessions {key, first, rows}; a row counts over all events of all sessions, as the index does, whose highest is `top`.
  class Index {
    constructor(top) {
      this.spans = [];
      this.rows = new Map();
      this.top = top;
      this.length = 0;
      this.known = new Map();
    }

    // Sessions come in the order of their rows, those without a place last.
    add({ key, first = this.top + 1, rows, documents }) {
      const last = first + rows - 1;
      this.top = Math.max(this.top, last);
      this.spans.push({ key, first, last });
      for (const one of documents) {
        const words = indexed(one.text, one.kind);
        const long = size(words);
        this.length += long;
        this.rows.set(first + one.row, { ...one, key, words, long, session: this.spans.length - 1 });
      }
    }

    get usual() {
      return this.length / Math.max(1, this.rows.size);
    }

    // row -> how often a phrase stands in it, the oldest row first.
    found(phrase, open = false) {
      const name = `${open}${phrase.join(" ")}`;
      if (!this.known.has(name)) {
        const held = new Map();
        const where = phrase.length > 1 ? [...this.found(phrase[0].length >= phrase.at(-1).length ? [phrase[0]] : [phrase.at(-1)]).keys()] : this.rows.keys();
        for (const row of where) {
          const n = times(this.rows.get(row).words, phrase, open);
          if (n) held.set(row, n);
        }
        if (this.known.size > 400) this.known.clear();
        this.known.set(name, held);
      }
      return this.known.get(name);
    }

    any(phrases) {
      if (phrases.length === 1) return [...this.found(phrases[0]).keys()];
      return [...new Set(phrases.flatMap((phrase) => [...this.found(phrase).keys()]))].sort((a, b) => a - b);
    }

    every(phrases) {
      const [first, ...rest] = phrases.map((phrase) => this.found(phrase));
      return [...first.keys()].filter((row) => rest.every((held) => held.has(row)));
    }

    // BM25 of rows: what was said counts twice.
    scored(rows, phrases, open = false) {
      const held = phrases.map((phrase) => this.found(phrase, open));
      const usual = this.usual;
      const weight = held.map(({ size: n }) => Math.max(Math.log((this.rows.size - n + 0.5) / (n + 0.5)), 1e-6));
      return new Map(
        rows.map((row) => {
          const { kind, long } = this.rows.get(row);
          const norm = 1.2 * (0.25 + (0.75 * long) / usual);
          let score = 0;
          held.forEach((one, i) => {
            const n = (one.get(row) || 0) * (SAID.has(kind) ? 2 : 1);
            score += (weight[i] * n * 2.2) / (n + norm);
          });
          return [row, score];
        }),
      );
    }

    newest(phrases) {
      const rows = this.any(phrases);
      const total = this.top;
      let seen = rows.length;
      let kept = rows;
      let complete = true;
      if (seen >= SAMPLE) {
        kept = rows.slice(-SAMPLE);
        seen = Math.max(SAMPLE, Math.floor((SAMPLE * total) / Math.max(1, total - kept[0] + 1)));
        complete = false;
        if (seen < POOL) {
          kept = rows.slice(-SAMPLE - POOL);
          complete = kept.length - SAMPLE !== POOL;
          seen = kept.length;
        }
      }
      return { rows: kept, seen, complete };
    }

    words(telling) {
      return telling.map((token) => {
        let phrases = [token];
        let found = this.newest(phrases);
        const others = found.seen <= SELDOM && token.length === 1 ? forms(token[0]) : [];
        if (others.length) {
          const wider = [token, ...others.map((form) => [form])];
          const more = this.newest(wider);
          if (more.seen > found.seen) [found, phrases] = [more, wider];
        }
        const weight = found.seen < this.top ? Math.max(Math.log((this.top - found.seen + 0.5) / (found.seen + 0.5)), 0.05) : 0.05;
        return { ...found, phrases, weight, set: new Set(found.rows) };
      });
    }
  }

  const best = (own, tiers) => [...own.keys()].sort((a, b) => (tiers ? tiers.get(a) - tiers.get(b) : 0) || own.get(b) - own.get(a) || b - a);

  // Rows in order: the phrase, all words, any words, beginnings; each scored with its neighbours and its session.
  function ranked(index, text) {
    const asked = question(text);
    if (!asked.asked.length || !index.top) return { rows: [], scores: new Map(), words: [] };
    const words = index.words(asked.telling);
    const tiers = new Map();
    const own = new Map();
    const weighed = (rows) => {
      const whole = sum(words.map((word) => word.weight));
      const usual = Math.max(1, sum(rows.map((row) => index.rows.get(row).long)) / Math.max(1, rows.length));
      return rows.map((row) => [row, (whole * 2.2) / (1 + 1.2 * (0.25 + (0.75 * index.rows.get(row).long) / usual))]);
    };
    const whole = words.filter((word) => word.complete).sort((a, b) => a.rows.length - b.rows.length);
    if (asked.asked.length > 1 && (!whole.length || whole[0].rows.some((row) => whole.every((word) => word.set.has(row))))) {
      if (asked.whole > 1 && asked.whole <= AT_ONCE) {
        const rows = index.every(asked.every);
        const few = sum(words.map((word) => word.seen)) <= RARE;
        for (const [row, score] of few ? index.scored(rows.slice(-POOL), asked.every) : weighed(rows.slice(-STRICT))) tiers.set(row, 1), own.set(row, score);
      }
      const phrase = index.any(asked.phrase).slice(-STRICT);
      for (const [row, score] of weighed(phrase.filter((row) => !own.has(row)))) own.set(row, score);
      for (const row of phrase) tiers.set(row, 0);
    }
    const add = (found, tier) => {
      for (const [row, score] of found) {
        if (!tiers.has(row)) tiers.set(row, tier);
        own.set(row, tier === 3 ? own.get(row) ?? score : Math.max(score, own.get(row) || 0));
      }
    };
    if (tiers.size < ENOUGH) {
      add(anyOf(index, words), 2);
      if (!tiers.size) add(index.scored(index.any(asked.asked).slice(-POOL), asked.asked), 2);
      if (tiers.size < ENOUGH) {
        const rows = [...new Set(asked.telling.flatMap((token) => [...index.found(token, true).keys()]))].sort((a, b) => a - b).slice(-POOL);
        add(index.scored(rows, asked.telling, true), 3);
      }
    }
    const scores = inContext(index, words, own, tiers);
    const order = [...scores.keys()].sort((a, b) => tiers.get(a) - tiers.get(b) || scores.get(b) - scores.get(a) || b - a);
    return { rows: [...order, ...best(own, tiers).filter((row) => !scores.has(row))], own, words };
  }

  function anyOf(index, words) {
    const rare = [];
    let budget = RARE;
    for (const word of [...words].sort((a, b) => a.seen - b.seen || (String(a.phrases[0].join(" ")) < String(b.phrases[0].join(" ")) ? -1 : 1))) {
      if (rare.length && (word.seen > budget || word.seen > 0.3 * index.top)) break;
      budget -= word.seen;
      if (word.seen) rare.push(word);
    }
    const covered = new Map();
    for (const word of words) for (const row of word.rows) covered.set(row, word.weight + (covered.get(row) || 0));
    const top = new Set(best(covered).slice(0, SCORED));
    const phrases = rare.flatMap((word) => word.phrases);
    const rows = index.any(phrases).filter((row) => top.has(row));
    const found = phrases.length ? index.scored(rows, phrases) : new Map();
    for (const word of words) if (!rare.includes(word)) for (const row of top) if (word.set.has(row)) found.set(row, (found.get(row) || 0) + word.weight * 0.75);
    return found;
  }

  function inContext(index, words, own, tiers) {
    const rows = best(own, tiers).slice(0, SCORED);
    const spans = rows.map((row) => index.spans[index.rows.get(row).session]);
    const near = rows.map((row, i) => {
      const { first, last } = spans[i];
      return sum(
        words.map((word) => {
          let n = 0;
          for (let at = Math.max(first, row - AROUND); at <= Math.min(last, row + AROUND); at += 1) n += word.set.has(at) ? 1 : 0;
          return (2 * word.weight * n) / (n + 1);
        }),
      );
    });
    const whole = sessions(index, words);
    const parts = [rows.map((row) => own.get(row)), near, spans.map((span) => whole.get(span.key) || 0)].map(standard);
    return new Map(rows.map((row, i) => [row, sum(parts.map((values, n) => WEIGHTS[n] * values[i]))]));
  }

  // BM25 of whole sessions, in which a word counts once a row.
  function sessions(index, words) {
    const scores = new Map();
    const total = index.spans.length;
    const usual = Math.max(1, index.top / Math.max(1, total));
    for (const word of words) {
      const held = new Map();
      for (const row of word.rows) {
        const at = index.rows.get(row).session;
        held.set(at, (held.get(at) || 0) + 1);
      }
      const weight = Math.log((total - held.size + 0.5) / (held.size + 0.5) + 1);
      for (const [at, n] of held) {
        const { key, first, last } = index.spans[at];
        const gain = (weight * n * 2.2) / (n + 1.2 * (0.25 + (0.75 * (last - first + 1)) / usual));
        scores.set(key, (scores.get(key) || 0) + gain);
      }
    }
    return scores;
  }

  function standard(values) {
    const mean = sum(values) / Math.max(1, values.length);
    const spread = Math.sqrt(sum(values.map((value) => (value - mean) ** 2)) / Math.max(1, values.length));
    return values.map((value) => (spread > 1e-9 ? (value - mean) / spread : 0));
  }

  // The best documents for a question; what several sessions hold, the same words at the same moment, is one of them.
  function bestOf(index, text, most) {
    const { rows, words } = ranked(index, text);
    const seen = new Map();
    const hits = [];
    for (const row of rows) {
      const one = index.rows.get(row);
      const name = `${one.kind} ${one.at} ${one.text}`;
      const before = one.at === null ? undefined : seen.get(name);
      if (before !== undefined && before !== one.key) continue;
      seen.set(name, one.key);
      hits.push(one);
      if (hits.length === most) break;
    }
    return { hits, words: [...new Set(words.flatMap((word) => word.phrases.map((phrase) => phrase.join(""))))] };
  }

  ctx.ranking = { Index, best: bestOf };
})();
