// The table of sessions: search, filter by host, project and day, sort, pages; only the rows of one page are in the document.
"use strict";
ctx.take("sessions", (list) => {
  const { el } = ctx;
  const table = document.getElementById("session-table");
  ctx.useZone(list.zone);
  const sessions = list.rows.map((row) => {
    const s = Object.fromEntries(list.columns.map((name, i) => [name, row[i]]));
    [s.hostKey, s.hostTitle, s.colour] = list.hosts[s.host];
    s.words = `${s.title} ${s.id} ${s.project} ${s.branch} ${s.hostTitle}`.toLowerCase();
    return s;
  });
  const byKey = new Map(sessions.map((s) => [s.key, s]));
  let found = sessions;
  ctx.session = (key) => byKey.get(key);
  ctx.named = (start) => sessions.filter((s) => s.id.toLowerCase().startsWith(start));
  ctx.neighbour = (key, step) => found[found.findIndex((s) => s.key === key) + step];
  if (!table) {
    ctx.follow();
    return;
  }
  const body = table.tBodies[0];
  const search = document.getElementById("search");
  const host = document.getElementById("host");
  const project = document.getElementById("project");
  const shown = document.getElementById("shown");
  const earlier = document.getElementById("earlier");
  const later = document.getElementById("later");
  const PAGE = 25;

  const days = ctx.period(() => select(), sessions.length ? day(sessions.reduce((last, s) => Math.max(last, s.start ?? 0), 0)) : "");
  const TRAITS = { failed: (s) => s.failed > 0, odd: (s) => s.odd > 0, unpriced: (s) => s.unpriced > 0 && s.tokens > 0, ended: (s) => s.status !== "completed" && s.status !== "unknown" };
  const trait = ctx.choice("Which", [["", "Any session"], ["failed", "With failed tools"], ["odd", "With odd records"], ["unpriced", "Without a price"], ["ended", "Not completed"]], () => select());
  document.getElementById("filters").append(...days.nodes, el("label", trait));
  const state = { by: "start", down: true, page: 0 };

  const textual = new Set(["title", "host"]);
  const value = (s, by) => (by === "title" ? s.title.toLowerCase() : by === "host" ? s.hostTitle : s[by]);

  // The day of the page's zone, as 2026-03-31.
  function day(ms) {
    return ctx.when(ms, "iso");
  }

  function select() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = sessions.filter(
      (s) =>
        (!host.value || s.hostKey === host.value) &&
        (!trait.value || TRAITS[trait.value](s)) &&
        (!project.value || s.project === project.value) &&
        days.holds(s.start === null ? null : day(s.start)) &&
        words.every((word) => s.words.includes(word)),
    );
    const sign = state.down ? -1 : 1;
    found.sort((a, b) => {
      const x = value(a, state.by);
      const y = value(b, state.by);
      if (x === y) return 0;
      if (x === null || x === "") return 1;
      if (y === null || y === "") return -1;
      return (x < y ? -1 : 1) * sign;
    });
    state.page = 0;
    draw();
  }

  function line(s) {
    const open = el("a", s.title || s.id);
    open.href = `#session-${s.key}`;
    const under = [s.project, s.branch].filter(Boolean).join(" / ");
    const odd = s.odd ? el("span.odd", ctx.plural(s.odd, "odd record")) : null;
    const origin = s.copy ? sessions.find((one) => one.id === s.copy && one.host === s.host) : null;
    const copy = s.copy ? el("span.copy", "copy of ", origin ? el("a", "another session") : "another session") : null;
    if (origin) copy.lastChild.href = `#session-${origin.key}`;
    if (copy) copy.title = `Its model calls count for ${s.copy}`;
    const unpriced = s.unpriced && !s.cost;
    const row = el(
      "tr",
      el("td.name", open, el("span.under", under, copy, odd)),
      el("td.hide-s", el(`span.host.${s.colour}`, s.hostTitle)),
      el("td.when", ctx.when(s.start, "day")),
      el("td.n.hide-m", ctx.duration(s.seconds)),
      el("td.n.hide-m", ctx.count(s.prompts)),
      el("td.n.hide-s", ctx.count(s.calls)),
      el("td.n.hide-m", ctx.count(s.tools)),
      el(s.failed ? "td.n.hide-s" : "td.n.hide-s.muted", ctx.count(s.failed)),
      el("td.n.hide-s", ctx.short(s.tokens)),
      el(unpriced ? "td.n.muted" : "td.n.strong", unpriced ? "no price" : ctx.money(s.cost)),
    );
    row.addEventListener("click", (event) => {
      if (!event.target.closest("a") && !getSelection().toString()) open.click();
    });
    return row;
  }

  function draw() {
    const first = state.page * PAGE;
    const rows = found.slice(first, first + PAGE).map(line);
    if (!rows.length) {
      const cell = el("td.empty", "No session fits. Clear the search or choose another agent, project or day.");
      cell.colSpan = 10;
      rows.push(el("tr", cell));
    }
    body.replaceChildren(...rows);
    const last = Math.min(first + PAGE, found.length);
    shown.textContent = found.length ? `${ctx.count(first + 1)} to ${ctx.count(last)} of ${ctx.plural(found.length, "session")}` : "";
    earlier.disabled = state.page === 0;
    later.disabled = last >= found.length;
    for (const head of table.tHead.rows[0].cells) {
      if (head.dataset.sort === state.by) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th[data-sort]");
    if (!head) return;
    const by = head.dataset.sort;
    state.down = state.by === by ? !state.down : !textual.has(by);
    state.by = by;
    select();
  });
  const turn = (step) => {
    state.page += step;
    draw();
    document.getElementById("filters").scrollIntoView({ block: "nearest" });
  };
  earlier.addEventListener("click", () => turn(-1));
  later.addEventListener("click", () => turn(1));
  let pause;
  search.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(select, 80);
  });
  host.addEventListener("change", select);
  project.addEventListener("change", select);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const link of document.querySelectorAll("[data-project]")) {
    link.addEventListener("click", () => {
      project.value = link.dataset.project;
      host.value = "";
      trait.value = "";
      search.value = "";
      days.all();
      select();
    });
  }

  select();
  ctx.follow();
});
