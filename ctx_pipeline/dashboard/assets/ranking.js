// The order of `ctx search` over documents that the page holds: the same words, levels and scores as storage/search_index.
"use strict";
(() => {
  // Numbers and words come with the list of sessions, from the program that answers `ctx search`.
  let how = null;
  let stops = null;
  let irregular = null; // form -> all forms of its word
  let alike = null; // word -> words that are used for it
  const UNSPACED = "\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7af\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
  const SIGN = new RegExp(`[${UNSPACED}]`, "u");
  const SIGNS = new RegExp(`[${UNSPACED}]`, "gu");
  const RUNS = new RegExp(`[${UNSPACED}]+|[^${UNSPACED}]+`, "gu");
  const TOKEN = /[\p{L}\p{N}]+/gu;
  const CUT_OFF = /(?<=[\p{L}\p{N}_])['\u2019](t|m|d|ll|re|ve)(?![\p{L}\p{N}_])/giu; // says nothing
  const HUMPS = /[A-Z]?[a-z]+|[A-Z]+(?![a-z])/g; // the words of a name in code
  const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];
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

  // Numbers of the kinds of events that are what was done: error, tool_call, tool_result, todo.
  const DONE = new Set([4, 5, 6, 9]);

  // What JSON and scripts begin with: escapes in them are what they stand for.
  const QUOTING = /^(?:[[{]\s*["'[{]|(?:const|let|var|await) |text\()/;

  // One text as it is indexed: escapes of what a tool was given or printed are what they stand for, signs of unspaced scripts words of their own.
  function indexed(text, kind) {
    let told = text;
    if (DONE.has(kind) && QUOTING.test(told) && told.includes("\\")) told = told.replace(/\\[\\nrt]/g, " ").replace(/\\u([0-9a-fA-F]{4})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
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

  // A list that is longer than what is looked for: its beginning and its end.
  const ends = (list) => (list.length <= how.words ? [list] : [list.slice(0, how.words / 2), list.slice(-how.words / 2)]);

  // What to look for: each expression is a list of phrases, a phrase a list of tokens.
  function question(text) {
    const both = text.length <= how.characters ? text : `${text.slice(0, how.characters / 2)} ${text.slice(-how.characters / 2)}`;
    const runs = ends(both.split(/\s+/).map((part) => tokens(part)).filter((part) => part.length));
    const parts = runs.flat();
    const plain = (part) => tokens(folded(spaced(part.join(" "))));
    const words = parts.map(plain);
    const all = new Map(parts.flat().flatMap((token) => pieces(token)).map((piece) => piece.map(folded)).map((piece) => [piece.join(" "), piece]));
    const asked = ends([...all.values()]).flat();
    const idle = new Set([...stops, ...[...both.matchAll(CUT_OFF)].map(([, cut]) => cut.toLowerCase())]);
    const told = asked.filter((piece) => piece.length > 1 || !idle.has(piece[0]));
    const whole = words.filter((word) => !word.every((token) => idle.has(token)));
    const every = whole.length ? whole : words;
    const names = identifiers(parts.flat(), idle);
    return { asked, telling: told.length ? told : asked, names, phrases: runs.map((run) => run.flatMap(plain)), every, whole: new Set(every.map(String)).size };
  }

  // Names that words may be in code: telling words that follow on each other written as one, and the words of one such name.
  function identifiers(all, idle) {
    const told = all.map((token) => (/^[a-z]+$/i.test(token) && !idle.has(token.toLowerCase()) ? token.toLowerCase() : ""));
    const sizes = [...Array(how.joined - 1).keys()].map((n) => n + 2);
    const runs = told.flatMap((_, i) => sizes.map((size) => told.slice(i, i + size)).filter((run, n) => run.length === sizes[n] && run.every(Boolean)));
    const apart = all.filter((token) => /^[a-z]+$/i.test(token)).map((token) => token.match(HUMPS) || []).filter((words) => words.length > 1);
    const found = [...runs.map((run) => [run.join("")]), ...apart.map((words) => words.map((word) => word.toLowerCase()))];
    return [...new Map(found.map((name) => [name.join(" "), name])).values()].slice(0, how.words);
  }

  function stem(word) {
    for (const ending of how.endings) {
      const shortest = ending === "ly" ? 4 : 3;
      if (!word.endsWith(ending) || word.length - ending.length < shortest || (ending === "s" && "su".includes(word.at(-2)))) continue;
      const cut = word.slice(0, -ending.length);
      if (!/[aeiouy]/.test(cut)) continue;
      if (ending === "ies" || ending === "ied") return `${cut}y`;
      return cut.at(-1) === cut.at(-2) && !"lsz".includes(cut.at(-1)) && cut.length > 3 ? cut.slice(0, -1) : cut;
    }
    return word.endsWith("e") && word.length > 4 ? word.slice(0, -1) : word;
  }

  // The spellings that endings make of a word.
  function regular(word) {
    if (!/^[a-z]{4,}$/.test(word)) return [];
    const cut = stem(word);
    const vowel = (at) => "aeiouy".includes(cut.at(at));
    const found = how.added.map((ending) => cut + ending);
    if (cut.at(-1) === "y" && !vowel(-2)) found.push(...["ies", "ied", "ier"].map((ending) => cut.slice(0, -1) + ending));
    else if (!vowel(-1) && !"wxhs".includes(cut.at(-1)) && vowel(-2) && !vowel(-3)) found.push(...["ed", "ing", "er", "ers"].map((ending) => cut + cut.at(-1) + ending));
    return found.filter((form) => form.length >= 3);
  }

  function forms(word) {
    const known = irregular.get(word);
    const found = regular(known ? known[0] : word);
    const group = known || irregular.get(found.find((form) => irregular.has(form))) || [];
    return [...new Set([...found, ...group])].filter((form) => form !== word);
  }

  // The words that are used for a word or one of its forms.
  function synonyms(word) {
    const own = [word, ...forms(word)];
    return [...new Set(own.flatMap((form) => alike.get(form) || []))].filter((other) => !own.includes(other));
  }

  // Documents {kind, text, row} of sessions {key, first, rows}; a row counts over all events of all sessions in the order of months and ids, `top` of them.
  class Index {
    constructor(top) {
      this.spans = [];
      this.rows = new Map();
      this.top = top;
      this.length = 0;
      this.known = new Map();
      this.neighbors = new Map();
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

    // The last rows of a large index, all of a small one.
    few(rows, most) {
      return this.top > how.readWhole ? rows.slice(-most) : rows;
    }

    // The order of two rows that score alike: the newer event first, by quarters of an hour.
    newer(a, b) {
      const quarter = (row) => Math.floor((this.rows.get(row).at || 0) / 900_000);
      return quarter(b) - quarter(a) || b - a;
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
        if (this.known.size > 4000) this.known.clear(); // a long question has some five hundred forms
        this.known.set(name, held);
      }
      return this.known.get(name);
    }

    // neighbor of a word -> the documents that have it; read once for each word, since a question is asked anew with each key.
    near(word) {
      if (!this.neighbors.has(word)) {
        const near = neighbors(word);
        const held = new Map();
        const form = new RegExp(`(?<![\\p{L}\\p{N}])${word[0]}[a-z]{${word.length - 2},${word.length}}(?![\\p{L}\\p{N}])`, "gu");
        for (const one of this.rows.values()) {
          for (const other of new Set(one.words.match(form))) if (near.has(other)) (held.get(other) || held.set(other, []).get(other)).push(one);
        }
        if (this.neighbors.size > 100) this.neighbors.clear();
        this.neighbors.set(word, held);
      }
      return this.neighbors.get(word);
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
      if (total > how.readWhole && seen >= how.sample) {
        kept = rows.slice(-how.sample);
        seen = Math.max(how.sample, Math.floor((how.sample * total) / Math.max(1, total - kept[0] + 1)));
        complete = false;
        if (seen < how.pool) {
          kept = rows.slice(-how.sample - how.pool);
          complete = kept.length - how.sample !== how.pool;
          seen = kept.length;
        }
      }
      return { rows: kept, seen, complete };
    }

    way(way, share, token) {
      const weight = share * Math.max(way.seen < this.top ? Math.log((this.top - way.seen + 0.5) / (way.seen + 0.5)) : 0, 0.05);
      return { ...way, name: token.join(" "), token, share, weight, exact: new Set(way.rows), set: new Set(way.rows) };
    }

    // Names in code that some row has, at half weight since their words are looked for too.
    named(names) {
      const found = names.map((token) => this.way({ phrases: [token], typed: true, ...this.newest([token]) }, 0.5, token));
      return found.filter((way) => way.rows.length);
    }

    // The synonyms of words that some row has.
    others(telling) {
      const found = telling.filter((token) => token.length === 1).map((token) => ({ token, phrases: synonyms(token[0]).map((other) => [other]) }));
      const some = found.filter(({ phrases }) => phrases.length);
      const ways = some.map(({ token, phrases }) => ({ ...this.way({ phrases, typed: false, ...this.newest(phrases) }, how.ofSynonym, token), exact: new Set() }));
      return ways.filter((way) => way.rows.length);
    }

    // Each word as it was typed and, where that finds more, in all its forms.
    ways(telling) {
      return telling.flatMap((token) => {
        const found = [{ phrases: [token], typed: true, ...this.newest([token]) }];
        const wider = token.length === 1 ? [token, ...forms(token[0]).map((form) => [form])] : [];
        const either = wider.length > 1 ? this.newest(wider) : found[0];
        if (either.seen > found[0].seen) found.push({ phrases: wider, typed: false, ...either });
        const exact = new Set(found[0].rows);
        return found.map((way) => ({ ...this.way(way, 1 / found.length, token), exact }));
      });
    }

    once(row) {
      return SAID.has(this.rows.get(row).kind) ? how.saidCounts : 1;
    }

    // BM25 of rows, each word as it was typed and in all its forms; of rarer words it counts how often they stand there.
    alone(rows, ways, scoring) {
      const k = how.saturation;
      const usual = Math.max(1, this.usual);
      const lost = new Map(
        rows.map((row) => {
          const length = this.rows.get(row).long / usual;
          return [row, k * (1 - scoring.length + scoring.length * Math.min(length, scoring.long) + Math.max(0, length - scoring.long))];
        }),
      );
      const counted = new Set();
      let budget = how.counted;
      for (const way of ways.filter(({ typed }) => typed).sort((a, b) => a.seen - b.seen || (a.name < b.name ? -1 : 1))) {
        budget -= way.seen;
        if (budget < 0 || !way.complete || 2 * way.seen >= this.rows.size) break;
        counted.add(way.name);
      }
      return new Map(
        rows.map((row) => [
          row,
          sum(
            ways.map(({ set, exact, name, token, weight }) => {
              if (!set.has(row)) return 0;
              const once = this.once(row);
              const n = counted.has(name) && exact.has(row) ? this.found(token).get(row) * once : once;
              return (weight * (k + 1) * n) / (n + lost.get(row));
            }),
          ),
        ]),
      );
    }
  }

  const best = (own, tiers, index) => [...own.keys()].sort((a, b) => tiers.get(a) - tiers.get(b) || own.get(b) - own.get(a) || index.newer(a, b));

  // Words that differ from one in one letter behind the first.
  function neighbors(word) {
    const changed = (n) => {
      const [before, after] = [word.slice(0, n), word.slice(n)];
      const found = LETTERS.map((letter) => before + letter + after);
      if (after) found.push(before + after.slice(1), ...LETTERS.map((letter) => before + letter + after.slice(1)));
      return after.length > 1 ? [...found, before + after[1] + after[0] + after.slice(2)] : found;
    };
    return new Set([...word].flatMap((_, n) => changed(n + 1)).filter((other) => other !== word));
  }

  // The neighbor that most documents of those to keep have; of several the last one of the alphabet.
  function nearWord(index, word, keep) {
    const held = new Map([...index.near(word)].map(([other, rows]) => [other, Math.min(how.common, rows.filter(keep).length)]).filter(([, n]) => n));
    return [...held.keys()].reduce((best, other) => (best && (held.get(best) - held.get(other) || (best > other ? 1 : -1)) > 0 ? best : other), "");
  }

  // word -> what is looked for in its place, of words that stand nowhere.
  function nearWords(index, missing, keep) {
    const doubted = missing.filter((word) => word.length >= how.shortestTypo && /^[a-z]+$/.test(word)).slice(0, how.typos);
    const nowhere = doubted.filter((word) => !index.found([word]).size);
    return new Map(nowhere.map((word) => [word, nearWord(index, word, keep)]).filter(([, other]) => other));
  }

  // A question with other words in the place of some.
  function withWords(text, others) {
    return text.replace(TOKEN, (token) => (SIGN.test(token) ? token.match(RUNS) : [token]).map((run) => others.get(run.toLowerCase()) || run).join(""));
  }

  // Rows in order: the phrase, all words, any words, beginnings; each scored with its neighbours and its session.
  function ranked(index, text) {
    const asked = question(text);
    if (!asked.asked.length || !index.top) return { rows: [], scores: new Map(), ways: [], doubted: [] };
    const words = index.ways(asked.telling);
    const sought = [...words, ...index.named(asked.names)];
    const others = asked.whole > how.wordsAtOnce ? index.others(asked.telling) : [];
    const ways = [...sought, ...others];
    const tiers = new Map();
    let otherwise = new Map();
    const whole = words.filter((way) => way.typed && way.complete).sort((a, b) => a.rows.length - b.rows.length);
    if (asked.asked.length > 1 && (!whole.length || whole[0].rows.some((row) => whole.every((way) => way.set.has(row))))) {
      if (asked.whole > 1 && asked.whole <= how.wordsAtOnce) for (const row of index.few(index.every(asked.every), how.strict)) tiers.set(row, 1);
      for (const row of index.few(index.every(asked.phrases), how.strict)) tiers.set(row, 0);
    }
    const relaxed = tiers.size < how.enough;
    const add = (rows, tier) => rows.forEach((row) => tiers.has(row) || tiers.set(row, tier));
    if (relaxed) {
      const covered = new Map();
      for (const way of sought) for (const row of way.rows) covered.set(row, way.weight + (covered.get(row) || 0));
      for (const way of others) for (const row of way.rows) if (covered.has(row)) covered.set(row, way.weight + covered.get(row));
      const least = [...covered.values()].sort((a, b) => b - a)[Math.min(how.scored, covered.size) - 1];
      add([...covered.keys()].filter((row) => covered.get(row) >= least), 2);
      if (!tiers.size) otherwise = index.scored(index.few(index.any(asked.asked), how.pool), asked.asked);
      add([...otherwise.keys()], 2);
      if (tiers.size < how.enough) {
        const rows = index.few([...new Set(asked.telling.flatMap((token) => [...index.found(token, true).keys()]))].sort((a, b) => a - b), how.pool);
        const begun = index.scored(rows, asked.telling, true);
        add([...begun.keys()], 3);
        otherwise = new Map([...begun, ...otherwise]);
      }
    }
    const rows = [...tiers.keys()];
    const scoring = rows.some((row) => !SAID.has(index.rows.get(row).kind)) ? how.work : how.talk;
    const own = index.alone(rows, ways, scoring);
    for (const [row, score] of otherwise) own.set(row, own.get(row) || score);
    const scores = inContext(index, ways, own, tiers, scoring);
    const begun = [...tiers.values()].includes(3);
    const doubted = relaxed ? words.map((way) => ({ ...way, begun: begun ? [...index.found(way.token, true).keys()] : [] })) : [];
    return { rows: [...best(scores, tiers, index), ...best(own, tiers, index).filter((row) => !scores.has(row))], own, scores, ways: sought, doubted };
  }

  // Words of a question that no document to keep has, in no form.
  function missing(index, doubted, keep) {
    const meant = (row) => keep(index.rows.get(row));
    const held = new Set(doubted.filter(({ rows, begun }) => rows.some(meant) || begun.some(meant)).map(({ name }) => name));
    return [...new Set(doubted.map(({ name }) => name))].filter((name) => !held.has(name));
  }

  function inContext(index, ways, own, tiers, scoring) {
    const rows = best(own, tiers, index).slice(0, how.scored);
    const spans = rows.map((row) => index.spans[index.rows.get(row).session]);
    const near = rows.map((row, i) => {
      const { first, last } = spans[i];
      return sum(
        ways.map((way) => {
          let n = 0;
          for (let at = Math.max(first, row - how.around); at <= Math.min(last, row + how.around); at += 1) {
            if (way.set.has(at) && (at === row || SAID.has(index.rows.get(at).kind))) n += 1;
          }
          return ((how.saturation + 1) * way.weight * n) / (n + how.saturation);
        }),
      );
    });
    const weights = [scoring.alone, scoring.around, scoring.session];
    const whole = sessions(index, ways);
    const parts = [rows.map((row) => own.get(row)), near, spans.map((span) => whole.get(span.key) || 0)].map(standard);
    return new Map(rows.map((row, i) => [row, sum(parts.map((values, n) => weights[n] * values[i]))]));
  }

  // BM25 of whole sessions, in which a word counts once a row.
  function sessions(index, ways) {
    const scores = new Map();
    const total = index.spans.length;
    const usual = Math.max(1, index.top / Math.max(1, total));
    for (const way of ways) {
      const held = new Map();
      for (const row of way.rows) {
        const at = index.rows.get(row).session;
        held.set(at, (held.get(at) || 0) + 1);
      }
      const weight = way.share * Math.log((total - held.size + 0.5) / (held.size + 0.5) + 1);
      for (const [at, n] of held) {
        const { key, first, last } = index.spans[at];
        const gain = (weight * n * (how.saturation + 1)) / (n + how.saturation * (0.25 + (0.75 * (last - first + 1)) / usual));
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

  // The best documents for a question, of those to keep; what several sessions hold, the same words at the same moment, is one of them.
  // `corrected` are words that stand nowhere, each with the one that was looked for in its place.
  function bestOf(index, text, most, keep = () => true) {
    const first = ranked(index, text);
    const corrected = nearWords(index, missing(index, first.doubted, keep), keep);
    const meant = withWords(text, corrected);
    const { rows, ways } = meant === text ? first : ranked(index, meant);
    const seen = new Map();
    const hits = [];
    for (const row of rows) {
      const one = index.rows.get(row);
      if (!keep(one)) continue;
      const name = `${one.kind} ${one.at} ${one.text}`;
      const before = one.at === null ? undefined : seen.get(name);
      if (before !== undefined && before !== one.key) continue;
      seen.set(name, one.key);
      hits.push(one);
      if (hits.length === most) break;
    }
    return { hits, words: [...new Set(ways.flatMap((way) => way.phrases.map((phrase) => phrase.join(""))))], corrected: meant === text ? [] : [...corrected] };
  }

  function use(scoring) {
    how = scoring;
    stops = new Set(scoring.stop);
    irregular = new Map(scoring.irregular.flatMap((group) => group.map((form) => [form, group])));
    alike = new Map();
    for (const group of scoring.synonyms) for (const word of group) alike.set(word, [...(alike.get(word) || []), ...group.filter((other) => other !== word)]);
  }

  ctx.ranking = { Index, QUOTING, best: bestOf, forms, ranked, use };
})();
