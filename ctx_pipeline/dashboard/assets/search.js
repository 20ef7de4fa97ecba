// One search box over all history: "/" goes to it. From disk it reads pieces of what was said; a server asks the whole index.
"use strict";
(() => {
  const { el } = ctx;
  const box = document.getElementById("find");
  const panel = document.getElementById("found");
  if (!box || !panel) return;
  const KINDS = ["prompt", "answer", "title", "compaction", "error", "tool call", "tool result", "reasoning", "injected", "todo"];
  const [MOST, WIDTH] = [20, 240];

  const AT_ONCE = 30;
  const ID = /^[0-9a-z_-]{6,80}$/i;

  // What the page holds of the history, read once, in steps that leave the page to the person who types.
  let loaded = null;
  const held = (names) => (loaded ??= readAll(names));

  async function readAll(names) {
    const read = await Promise.all(names.map(ctx.words));
    const { keys = [], firsts = [], top = 0 } = read.find((piece) => piece.firsts) || {};
    const first = new Map(keys.map((key, n) => [key, firsts[n]]));
    const sessions = read.reverse().flatMap((piece) => {
      const own = (piece.sessions || []).map((key, n) => ({ key, first: first.get(key), rows: piece.rows[n], whole: piece.stamps[n].endsWith("+"), documents: [] }));
      // times and numbers of events are told by how far each is from the one before
      let [place, time, row] = [0, 0, 0];
      for (const [n, one] of own.entries()) {
        for (const end = place + piece.counts[n]; place < end; place++) {
          time += piece.times[place] ?? 0;
          row += piece.numbers[place];
          one.documents.push({ kind: piece.kinds[place], mark: piece.marks[place], at: piece.times[place] === null ? null : time, text: piece.texts[place], row });
        }
      }
      return own;
    });
    const index = new ctx.ranking.Index(top);
    let began = performance.now();
    for (const session of sessions.sort((a, b) => (a.first || 2 ** 53) - (b.first || 2 ** 53))) {
      index.add(session);
      if (performance.now() - began < AT_ONCE) continue;
      await new Promise((done) => setTimeout(done));
      began = performance.now();
    }
    return { index, whole: sessions.filter((session) => session.whole).length, all: sessions.length };
  }

  async function fromDisk(list, query, days) {
    ctx.ranking.use(list.scoring);
    const { index, whole, all } = await held(list.words);
    const keep = days.range().some(Boolean) ? ({ at }) => days.holds(at === null ? null : ctx.when(at, "iso")) : undefined;
    const { hits, words, corrected } = ctx.ranking.best(index, query, MOST, keep);
    const shown = hits.map(({ key, kind, mark, at, text }) => ({ key, kind: KINDS[kind], mark, at, ...cut(text, words) }));
    const rest = all < list.rows.length ? [`Searched from disk: the newest ${ctx.count(all)} sessions`] : [];
    if (whole < all) rest.push(`${rest.length ? "tool" : "Searched from disk: tool"} output of the newest ${ctx.count(whole)}`);
    const told = corrected.map(([word, other]) => `nothing here holds ${typed(word, query)}: ${other} was looked for`);
    return [shown, rest.length ? `${rest.join(", ")}. All of it: ` : "", told.join("; ")];
  }

  // A word that was looked for as it stands in the question.
  const typed = (word, query) => query.slice(query.toLowerCase().indexOf(word)).slice(0, word.length);

  // The part of a text where most of the words stand, and where in it they do.
  function cut(raw, words) {
    const text = ctx.ranking.QUOTING.test(raw) ? raw.replace(/\\[nrt]|\\([\\"])/g, (_, sign) => sign || " ") : raw;
    const choice = words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "")).join("|");
    const found = [`(?<![\\p{L}\\p{N}])(?:${choice})(?![\\p{L}\\p{N}])`, choice].map((form) => [...text.matchAll(new RegExp(form, "giu"))].slice(0, 500)).find((places) => places.length) || [];
    let [start, most] = [0, 0];
    found.forEach((place, i) => {
      const n = found.slice(i).findIndex((other) => other.index - place.index > (WIDTH * 3) / 4);
      const near = n < 0 ? found.length - i : n;
      if (near > most) [start, most] = [Math.max(0, place.index - WIDTH / 4), near];
    });
    const end = Math.min(text.length, start + WIDTH);
    const before = start ? "\u2026" : "";
    const marks = found.filter((place) => place.index >= start && place.index + place[0].length <= end).map((place) => [place.index - start + before.length, place.index + place[0].length - start + before.length]);
    return { snippet: `${before}${text.slice(start, end)}${end < text.length ? "\u2026" : ""}`, marks };
  }

  function marked(snippet, marks) {
    const parts = [];
    let at = 0;
    for (const [from, to] of marks) {
      if (from < at) continue;
      parts.push(snippet.slice(at, from), el("mark", snippet.slice(from, to)));
      at = to;
    }
    return [...parts, snippet.slice(at)];
  }

  ctx.take("sessions", (list) => {
    let asked = 0;
    const start = list.columns.indexOf("start");
    const newest = list.rows.reduce((last, row) => Math.max(last, row[start] ?? 0), 0);
    const days = ctx.period(() => ask(), newest ? ctx.when(newest, "iso") : "");
    const found = el("div");
    panel.append(el("p.when", days.nodes), found);
    const ask = async () => {
      const query = box.value.trim();
      const turn = (asked += 1);
      panel.hidden = !query;
      if (!query) return;
      found.replaceChildren(el("p.note", "Searching"));
      let hits;
      let where;
      let searched;
      try {
        if (ctx.ask) ({ hits, searched } = await ctx.ask(query, ...days.range()));
        else [hits, where, searched] = await fromDisk(list, query, days);
      } catch (error) {
        found.replaceChildren(el("p.note", ctx.lost("The search", error)));
        return;
      }
      if (asked !== turn) return;
      const named = (ID.test(query) ? ctx.named(query.toLowerCase()) : []).slice(0, MOST).map((session) => {
        const link = el("a", session.title || session.id);
        link.href = `#session-${session.key}`;
        link.addEventListener("click", () => (panel.hidden = true));
        return el("li", link, el("span.under", [session.project, ctx.when(session.start, "day")].filter(Boolean).join(" \u00b7 ")), el("p", el("mark", session.id.slice(0, query.length)), session.id.slice(query.length)));
      });
      const items = hits.map((hit, number) => {
        const session = ctx.session(hit.key);
        const place = [hit.kind, hit.at ? ctx.when(hit.at, "day") : ""].filter(Boolean).join(" \u00b7 ");
        const again = session && number && hits[number - 1].key === hit.key;
        const title = session ? session.title || session.id : hit.title || "a session that is not on this page yet";
        const link = el("a", again ? place : title);
        if (session) link.href = `#session-${hit.key}.e0-${hit.mark}`;
        link.addEventListener("click", () => (panel.hidden = true));
        const under = el("span.under", again ? link : [session && session.project, place].filter(Boolean).join(" \u00b7 "));
        return el(again ? "li.again" : "li", again ? "" : link, under, el("p", marked(hit.snippet, hit.marks)));
      });
      found.replaceChildren(
        named.length || items.length ? el("ol", named, items) : el("p.empty", "Nothing found."),
        searched ? el("p.note.searched", `${searched[0].toUpperCase()}${searched.slice(1)}.`) : "",
        where ? el("p.note", where, ctx.command(`ctx search '${query.replaceAll("'", "'\"'\"'")}'`), " or ", ctx.command("ctx open --serve")) : null ?? "",
      );
    };
    let pause;
    box.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(ask, 160);
    });
    box.addEventListener("focus", () => {
      if (box.value.trim()) panel.hidden = false;
      if (!ctx.ask) held(list.words).catch(() => (loaded = null));
    });
    box.form.addEventListener("submit", (event) => {
      event.preventDefault();
      ask();
    });
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, textarea, select");
      if (event.key === "/" && !typing && !document.querySelector("dialog[open]")) {
        event.preventDefault();
        box.focus();
      } else if (event.key === "Escape" && !panel.hidden && !document.querySelector("dialog[open]")) {
        panel.hidden = true;
        box.blur();
      } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !panel.hidden && (typing === box || panel.contains(event.target))) {
        const links = [...panel.querySelectorAll("a")];
        const at = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
        (links[at] || box).focus();
        event.preventDefault();
      }
    });
    document.addEventListener("pointerdown", (event) => {
      if (!panel.hidden && !event.target.closest("#found, #find")) panel.hidden = true;
    });
  });
})();
