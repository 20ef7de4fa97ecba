// One search box over all history: "/" goes to it. From disk it reads pieces of what was said; a server asks the whole index.
"use strict";
(() => {
  const { el } = ctx;
  const box = document.getElementById("find");
  const panel = document.getElementById("found");
  if (!box || !panel) return;
  const KINDS = ["prompt", "answer", "title", "compaction", "error", "tool call"];
  const STOP = new Set("a an and are as at be but by can did do does for from had has have how i if in is it its me my not of on or our so that the then there these they this to was we were what when where which who why will with would you your".split(" "));
  const MOST = 20;
  const AROUND = 2;
  const WEIGHTS = [1, 0.5, 0.4];
  const ENOUGH = 5;

  const plain = (text) => text.normalize("NFD").replace(/\p{M}+/gu, "").toLowerCase();
  const tokens = (text) => plain(text).match(/[\p{L}\p{N}]+/gu) || [];

  // Every document of the history, each piece loaded once.
  let loaded = null;
  function documents(words) {
    loaded ??= Promise.all(
      words.map(async (name) => {
        const { sessions, documents } = await ctx.unpack(await ctx.words(name));
        return documents.map(([session, kind, mark, at, text]) => ({ key: sessions[session], kind, mark, at, text, words: tokens(text) }));
      }),
    ).then((pieces) => pieces.reverse().flat());
    return loaded;
  }

  // The phrase first, then all words, then any; each document scored with its neighbours and its session.
  function ranked(all, query) {
    const asked = [...new Set(tokens(query))].slice(0, 24);
    const telling = asked.filter((word) => !STOP.has(word));
    const words = telling.length ? telling : asked;
    if (!words.length) return [];
    const phrase = tokens(query).join(" ");
    const usual = all.reduce((sum, one) => sum + one.words.length, 0) / Math.max(1, all.length);
    const times = new Map(words.map((word) => [word, 0]));
    const counts = new Map();
    const sessions = new Map();
    all.forEach((one, i) => {
      const session = sessions.get(one.key) || { length: 0, rows: new Map() };
      session.length += 1;
      sessions.set(one.key, session);
      let held = null;
      for (const word of one.words) {
        if (!times.has(word)) continue;
        held ??= new Map();
        held.set(word, (held.get(word) || 0) + 1);
      }
      if (!held) return;
      counts.set(i, held);
      for (const word of held.keys()) {
        times.set(word, times.get(word) + 1);
        session.rows.set(word, (session.rows.get(word) || 0) + 1);
      }
    });
    const weight = new Map(words.map((word) => [word, Math.max(0.05, Math.log((all.length - times.get(word) + 0.5) / (times.get(word) + 0.5)))]));
    const bm25 = (i) => [...counts.get(i)].reduce((sum, [word, n]) => sum + (weight.get(word) * n * 2.2) / (n + 1.2 * (0.25 + (0.75 * all[i].words.length) / usual)), 0);
    let hits = [...counts.keys()].map((i) => {
      const has = counts.get(i).size;
      const whole = asked.length > 1 && ` ${all[i].words.join(" ")} `.includes(` ${phrase} `);
      return { i, tier: whole || asked.length === 1 ? 0 : has === words.length && words.length <= 3 ? 1 : 2, alone: bm25(i) };
    });
    if (hits.filter((hit) => hit.tier < 2).length >= ENOUGH) hits = hits.filter((hit) => hit.tier < 2);
    hits.sort((a, b) => a.tier - b.tier || b.alone - a.alone);
    hits = hits.slice(0, 300);
    const averageLength = all.length / Math.max(1, sessions.size);
    for (const hit of hits) {
      const near = new Map();
      for (let j = hit.i - AROUND; j <= hit.i + AROUND; j += 1) if (all[j] && all[j].key === all[hit.i].key) for (const word of (counts.get(j) || new Map()).keys()) near.set(word, (near.get(word) || 0) + 1);
      hit.around = [...near].reduce((sum, [word, n]) => sum + (2 * weight.get(word) * n) / (n + 1), 0);
      const { length, rows } = sessions.get(all[hit.i].key);
      hit.session = [...rows].reduce((sum, [word, n]) => {
        const of = [...sessions.values()].filter((one) => one.rows.has(word)).length;
        return sum + (Math.log((sessions.size - of + 0.5) / (of + 0.5) + 1) * n * 2.2) / (n + 1.2 * (0.25 + (0.75 * length) / averageLength));
      }, 0);
    }
    const standard = (name) => {
      const mean = hits.reduce((sum, hit) => sum + hit[name], 0) / Math.max(1, hits.length);
      const spread = Math.sqrt(hits.reduce((sum, hit) => sum + (hit[name] - mean) ** 2, 0) / Math.max(1, hits.length));
      return (hit) => (spread > 1e-9 ? (hit[name] - mean) / spread : 0);
    };
    const parts = [standard("alone"), standard("around"), standard("session")];
    for (const hit of hits) hit.total = parts.reduce((sum, part, n) => sum + WEIGHTS[n] * part(hit), 0);
    hits.sort((a, b) => a.tier - b.tier || b.total - a.total || b.i - a.i);
    const seen = new Set();
    return hits.filter(({ i }) => !seen.has(all[i].text) && seen.add(all[i].text)).slice(0, MOST).map(({ i }) => ({ key: all[i].key, kind: KINDS[all[i].kind], mark: all[i].mark, at: all[i].at, ...cut(all[i].text, words) }));
  }

  // The part of a text where most of the words stand, and where in it they do.
  function cut(text, words) {
    const found = new RegExp(words.map((word) => word.replace(/[^\p{L}\p{N}]/gu, "")).join("|"), "giu");
    const first = text.search(found);
    const start = Math.max(0, first - 60);
    const end = start + 220;
    const snippet = `${start ? "\u2026" : ""}${text.length > end ? `${text.slice(start, end).replace(/\s+\S*$/, "")}\u2026` : text.slice(start)}`;
    return { snippet, marks: [...snippet.matchAll(found)].map((one) => [one.index, one.index + one[0].length]) };
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
    let asked = "";
    const ask = async () => {
      const query = box.value.trim();
      asked = query;
      panel.hidden = !query;
      if (!query) return;
      panel.replaceChildren(el("p.note", "Searching"));
      let hits;
      let where;
      try {
        [hits, where] = ctx.ask ? [await ctx.ask(query), ""] : [ranked(await documents(list.words), query), "From disk: what was typed and answered, and commands. Tool output too: "];
      } catch {
        panel.replaceChildren(el("p.note", "The search is not there. The page was made anew meanwhile: load it again."));
        return;
      }
      if (asked !== query) return;
      const items = hits.map((hit) => {
        const session = ctx.session(hit.key);
        const link = el("a", session ? session.title || session.id : hit.title || "a session that is not on this page yet");
        if (session) link.href = `#session-${hit.key}.e0-${hit.mark}`;
        link.addEventListener("click", () => (panel.hidden = true));
        return el("li", link, el("span.under", [hit.kind, session && session.project, hit.at ? ctx.when(hit.at, "day") : ""].filter(Boolean).join(" \u00b7 ")), el("p", marked(hit.snippet, hit.marks)));
      });
      panel.replaceChildren(
        items.length ? el("ol", items) : el("p.empty", "Nothing found."),
        where ? el("p.note", where, ctx.copyable(el("code.command", `ctx search '${query.replaceAll("'", "'\"'\"'")}'`)), " or ", ctx.copyable(el("code.command", "ctx open --serve"))) : null ?? "",
      );
    };
    let pause;
    box.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(ask, 160);
    });
    box.addEventListener("focus", () => box.value.trim() && (panel.hidden = false));
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
