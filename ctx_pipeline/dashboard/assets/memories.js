// Memories: searched, filtered, opened; each leads to the events of the sessions it was drawn from.
"use strict";
ctx.near("memories", (body, { memories, total }) => {
  const { el } = ctx;
  const PAGE = 8;
  const spoken = (text) => text.replaceAll("_", " ");
  const values = (of) => [...new Set(memories.flatMap(of))].filter(Boolean).sort();
  const search = el("input");
  search.type = "search";
  search.placeholder = "Search lessons";
  search.setAttribute("aria-label", "Search lessons");
  const filters = [
    ["kind", "All kinds", (m) => [m.kind]],
    ["status", "Any status", (m) => [m.status]],
    ["scope", "All scopes", (m) => [m.scope]],
    ["method", "All methods", (m) => (m.methods.length ? m.methods : [m.source])],
    ["risk", "Any risk", (m) => [m.risk]],
    ["repository", "All projects", (m) => [m.repository]],
  ].map(([name, all, of]) => ({ of, select: ctx.choice(name[0].toUpperCase() + name.slice(1), [["", all], ...values(of).map((value) => [value, name === "repository" ? value.split("/").slice(-2).join("/") : spoken(value)])], draw) }));
  const ORDERS = { support: (m) => m.support, utility: (m) => m.utility, uses: (m) => m.uses, newest: (m) => m.last ?? 0 };
  const order = ctx.choice("Order", [["support", "Most sessions first"], ["newest", "Newest first"], ["utility", "Most useful first"], ["uses", "Most given first"]], draw);
  const days = ctx.period(draw, dayOf(Math.max(...memories.map((m) => m.last ?? 0), 0)));
  const list = el("ul.memories");
  const shown = el("p");
  shown.setAttribute("role", "status");
  const more = el("button", "Show more");
  more.type = "button";
  let most = PAGE;
  more.addEventListener("click", () => {
    most += PAGE;
    render();
  });
  body.append(el("div.filters", el("label.grow", search), ...filters.map((f) => el("label", f.select)), ...days.nodes, el("label", order)), list, el("div.pages", shown, el("div", more)));
  let found = [];
  search.addEventListener("input", draw);

  function dayOf(ms) {
    return ms ? ctx.when(ms, "iso") : "";
  }

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = memories.filter(
      (m) =>
        filters.every((f) => !f.select.value || f.of(m).includes(f.select.value)) &&
        days.holds(m.last === null ? null : dayOf(m.last)) &&
        words.every((word) => `${m.text} ${m.when_to_use ?? ""} ${m.memory_id} ${m.repository ?? ""} ${m.kind}`.toLowerCase().includes(word)),
    );
    found.sort((a, b) => ORDERS[order.value](b) - ORDERS[order.value](a));
    most = PAGE;
    render();
  }

  function render() {
    list.replaceChildren(...found.slice(0, most).map(card));
    more.hidden = found.length <= most;
    const all = total > memories.length ? ` The page holds ${ctx.count(memories.length)} of ${ctx.count(total)}.` : "";
    const older = found.filter((m) => m.superseded_by).length;
    const about = older ? `, ${ctx.count(older)} of them superseded by another` : "";
    shown.textContent = found.length ? `${ctx.count(Math.min(most, found.length))} of ${ctx.plural(found.length, "lesson")}${about}.${all}` : "No lesson fits. Clear the search or a filter.";
  }

  function card(m) {
    const facts = [
      `seen in ${ctx.plural(m.support, "session")}`,
      `${Math.round(m.confidence * 100)}% sure`,
      m.uses ? `given ${ctx.plural(m.uses, "time")}, ${Math.round(m.utility * 100)}% useful` : "never given yet",
      m.risk === "low" ? "" : `${m.risk} risk`,
      m.last === null ? "" : `last ${ctx.when(m.last, "day")}`,
    ].filter(Boolean);
    const links = m.sessions.map((key) => ctx.session && ctx.session(key)).filter(Boolean).map((session) => {
      const link = el("a", session.title || session.id);
      link.href = `#session-${session.key}.${m.memory_id}`;
      return el("li", link, el("i", ctx.when(session.start, "day")));
    });
    const rest = el(
      "details",
      el("summary", links.length ? `Evidence: ${ctx.plural(m.evidence, "event")} in ${ctx.plural(m.sessions.length, "session")}` : "More"),
      links.length ? el("ol.tops", links) : el("p.note", m.source === "authored" ? "A note of your own: it rests on no session." : "Its sessions are not on this page."),
      m.links.length ? el("p.note", "Links: ", m.links.map(([target, there]) => el(there ? "code" : "code.alert", there ? target : `${target} (nowhere)`, " "))) : null,
      m.superseded_by ? el("p.note", `Superseded by ${m.superseded_by}`) : null,
      el("p.note", (m.methods.length ? m.methods : [m.source]).map(spoken).join(", "), " ", ctx.command(`ctx memory show ${m.memory_id}`)),
    );
    const status = el(m.status === "needs_review" ? "span.status.alert" : "span.status", spoken(m.status));
    const node = el(
      "li",
      el("p.meta", el("b", spoken(m.kind)), status, el("span.status", m.repository ? m.repository.split("/").slice(-2).join("/") : m.scope)),
      el("p.text", ctx.inline(m.text)),
      m.when_to_use ? el("p.note", "When: ", ctx.inline(m.when_to_use)) : null,
      m.flags.length ? el("p.note.alert", `Held back: ${m.flags.join(", ")}`) : null,
      el("p.note", facts.join(" \u00b7 ")),
      ctx.judge ? ctx.judge(m, status) : null,
      rest,
    );
    return node;
  }

  for (const link of document.querySelectorAll("[data-memory]")) {
    link.addEventListener("click", () => {
      search.value = link.dataset.memory;
      filters.forEach((f) => (f.select.value = ""));
      days.all();
      draw();
    });
  }
  draw();
});
