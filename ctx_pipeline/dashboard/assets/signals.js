// Signals as cards by group: the figure, how it moved from month to month, and in colour whether that is good.
"use strict";
ctx.near("signals", (body, { signals }) => {
  const { el } = ctx;
  const GROUPS = ["outcome", "cost", "context", "behavior", "activity", "risk"];
  const groups = [...new Set([...GROUPS, ...signals.map((s) => s.group)])].filter((group) => signals.some((s) => s.group === group));
  const MOST = 20;
  const title = (s) => ctx.signalWords(s.signal);
  const unitOf = (s) => (s.kind === "boolean" ? "share" : s.unit);
  // a change that its own figures do not show is none
  const told = (s) => [s.trend.before, s.trend.mean].map((level) => ctx.reading(level, unitOf(s)));
  for (const s of signals) if (s.trend && s.trend.verdict && new Set(told(s)).size === 1) s.trend = { ...s.trend, verdict: null, direction: "steady" };
  const moved = signals.filter((s) => s.trend && s.trend.verdict);
  const cards = el("div.cards");
  const search = el("input");
  search.type = "search";
  search.placeholder = "Search signals";
  search.setAttribute("aria-label", "Search signals");
  const first = signals.filter((s) => s.first !== null && s.first !== undefined).sort((a, b) => a.first - b.first);
  const options = [...(first.length ? [["first", "First", ctx.count(first.length)]] : []), ["moved", "Changed", ctx.count(moved.length)], ...groups.map((group) => [group, group[0].toUpperCase() + group.slice(1), ctx.count(signals.filter((s) => s.group === group).length)]), ["", "All", ctx.count(signals.length)]];
  const chosen = ctx.tabs("Groups of signals", options, draw);
  search.addEventListener("input", draw);
  const shown = el("p.note");
  shown.setAttribute("role", "status");
  const more = el("button", "Show the others");
  more.type = "button";
  more.addEventListener("click", () => {
    more.hidden = true;
    cards.append(...rest.map(card));
    rest = [];
  });
  let rest = [];
  const key = el("ul.legend", el("li.worse", el("span", "got worse from one month to the next")), el("li.better", el("span", "got better")), el("li.steady", el("span", "steady, perhaps chance, or neither direction is better")));
  body.append(el("div.filters", el("label.grow", search)), chosen.node, key, cards, el("div.pages", shown, el("div", more)));

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const group = words.length ? "" : chosen.value();
    let found = group === "first" ? first : signals.filter((s) => (group === "moved" ? s.trend && s.trend.verdict : !group || s.group === group));
    found = found.filter((s) => words.every((word) => `${title(s)} ${s.group} ${s.what}`.toLowerCase().includes(word)));
    if (group === "moved") found.sort((a, b) => Math.abs(b.trend.change ?? 0) - Math.abs(a.trend.change ?? 0));
    rest = found.slice(MOST);
    cards.replaceChildren(...found.slice(0, MOST).map(card));
    more.hidden = !rest.length;
    shown.textContent = found.length ? ctx.plural(found.length, "signal") : group === "moved" ? "No signal moved by more than a tenth from one month to the next." : "No signal fits.";
  }

  function figure(s) {
    if (!s.count) return ["none", Object.keys(s.reasons).length ? s.reasons[0][0] : "not measured"];
    const of = `of ${ctx.plural(s.count, "session")}`;
    if (s.kind === "boolean" || s.kind === "numeric") return [level(s, s), `${s.kind === "numeric" ? "median " : ""}${of}`];
    return s.labels.length ? [s.labels[0][0], `most often, ${ctx.count(s.labels[0][1])} ${of}`] : [ctx.count(s.count), "sessions with a text"];
  }

  const level = (s, figures, n = s.count) => (s.kind === "boolean" ? ctx.reading((figures.true ?? 0) / n, "share") : ctx.reading(figures.median, s.unit));
  const counted = (s) => s.kind === "numeric" || s.kind === "boolean";

  // One figure over all agents would mix what they record: each has its own.
  function byAgent(s) {
    return el("span.agents", el("span.of", s.kind === "numeric" ? "median of sessions, by agent" : "of sessions, by agent"), s.hosts.map(([name, n, figures]) => el("span", el("b", level(s, figures, n)), el("span.of", `${name}, ${ctx.count(n)}`))));
  }

  function change(s) {
    if (!s.trend || s.trend.direction === "steady") return s.trend ? "steady" : "";
    const arrow = s.trend.direction === "up" ? "\u2191" : "\u2193";
    const figures = `${s.kind === "boolean" ? "" : "mean "}${told(s).join(" \u2192 ")} in ${s.trend.month}`;
    return `${arrow} ${s.trend.verdict ? `${s.trend.verdict}: ` : ""}${figures}${s.hosts.length > 1 ? `, ${s.trend.host}` : ""}`;
  }

  function card(s) {
    const [value, note] = figure(s);
    const tone = (s.trend && s.trend.verdict) || "plain";
    const line = s.kind === "numeric" || s.kind === "boolean" ? s.months.map(([month, , level]) => [month, level]) : [];
    const button = el(
      `button.card.${tone}`,
      el("span.name", title(s)),
      ...(counted(s) && s.hosts.length > 1 ? [byAgent(s)] : [el(/^[\d$<\u2013-]/.test(value) ? "b.value" : "b.value.word", value), el("span.of", note)]),
      el("span.way", line.length > 1 ? ctx.spark(line, tone, `${title(s)} by month`) : null, el("span", change(s))),
    );
    button.type = "button";
    button.title = s.what;
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      cards.querySelectorAll(".card").forEach((other) => other.setAttribute("aria-expanded", "false"));
      cards.querySelectorAll(".opened").forEach((other) => other.remove());
      if (open) return;
      button.setAttribute("aria-expanded", "true");
      button.after(detail(s));
    });
    return button;
  }

  const better = { higher: "Higher is better.", lower: "Lower is better." };
  function detail(s) {
    const unit = unitOf(s);
    const FACTS = [["Median", "median"], ["Nine of ten at most", "p90"], ["Mean", "mean"], ["Highest", "max"], ["Lowest", "min"]];
    const facts = s.kind === "numeric" && s.hosts.length < 2 && s.count ? FACTS : [];
    const agents = s.kind === "numeric" && s.hosts.length > 1 ? s.hosts : [];
    const about = el(
      "div",
      el("h3", title(s)),
      el("p", s.what),
      s.how ? el("p.muted", s.how) : null,
      el("p.note", better[s.better] || "Neither direction is better in itself.", s.missing ? ` Without a value in ${ctx.plural(s.missing, "session")}: ${s.reasons.map(([why, n]) => `${why} (${ctx.count(n)})`).join("; ")}.` : ""),
      facts.length ? el("dl.small", facts.map(([name, key]) => el("div", el("dt", name), el("dd", ctx.reading(s[key], unit))))) : null,
      agents.length ? el("div.scroll", el("table.wide", el("thead", el("tr", el("th", "Agent"), FACTS.map(([name]) => el("th.n", name)))), el("tbody", agents.map(([name, , figures]) => el("tr", el("td", name), FACTS.map(([, key]) => el("td.n", ctx.reading(figures[key], unit)))))))) : null,
      el("p.note", ctx.command(`ctx signal summary --signal ${s.signal}`)),
    );
    const side = el("div");
    if (s.histogram.length > 1) side.append(el("h4", "How sessions spread"), ctx.histogram(s.histogram, unit), el("div.ends", el("span", ctx.reading(s.histogram[0][0], unit)), el("span", ctx.reading(s.histogram[s.histogram.length - 1][1], unit))));
    if (s.labels.length) side.append(bars("Sessions", s.labels.map(([label, n]) => [label, n, ctx.count(n)])));
    const months = s.months.filter(([, , level]) => level !== null);
    if (months.length > 1) side.append(bars(s.hosts.length > 1 && s.trend ? `By month, ${s.trend.host}, mean` : "By month, mean", months.map(([month, n, level]) => [month, level, ctx.reading(level, unit), n])));
    for (const [name, words] of [["project", "By project"], ["model", "By model"]]) {
      const found = s.by[name].filter(([, , level]) => level !== null && level !== undefined);
      if (found.length > 1) side.append(bars(`${words}, mean`, found.map(([bucket, n, level]) => [bucket || "none", level, ctx.reading(level, unit), n])));
    }
    const tops = s.tops.filter(([session]) => ctx.session && ctx.session(session));
    if (tops.length && s.kind === "numeric") {
      about.append(
        el("h4", "Where it reads highest"),
        el("ol.tops", tops.map(([session, value]) => {
          const link = el("a", ctx.session(session).title || ctx.session(session).id);
          link.href = `#session-${session}.${s.signal}`;
          return el("li", link, el("b", ctx.reading(value, unit)));
        })),
      );
    }
    return el("div.opened", about, side);
  }

  function bars(words, lines) {
    const top = Math.max(...lines.map((line) => Math.abs(line[1])), 0);
    return el("div", el("h4", words), el("table.bars-table", el("tbody", lines.map(([name, value, text, n]) => el("tr", el("td", name), el("td.drawn", ctx.bar(Math.abs(value), top)), el("td.n", text), n === undefined ? null : el("td.n.muted", ctx.plural(n, "session")))))));
  }

  chosen.press((options.find(([name]) => name !== "moved" || moved.length) ?? options[0])[0]);
});
