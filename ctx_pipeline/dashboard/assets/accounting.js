// Tokens and money by day, week, month, model, project or agent: one list of rows, added up in whole nano-dollars.
"use strict";
ctx.near("accounting", (body, data) => {
  const { el } = ctx;
  const [DAY, HOST, PROJECT, MODEL, IN, OUT, SHORT, LONG, READ, REASONING, CALLS, COST, UNPRICED] = Array.from({ length: 13 }, (_, i) => i);
  const KINDS = [["k0", "Fresh input", [IN]], ["k1", "Written to cache", [SHORT, LONG]], ["k2", "Read from cache", [READ]], ["k3", "Output", [OUT]]];
  const MOST_COLUMNS = 92;
  const newest = data.rows.reduce((last, row) => (row[DAY] && row[DAY] > last ? row[DAY] : last), "");
  const days = ctx.period(draw, newest);
  const host = ctx.choice("Agent", [["", "All agents"], ...data.hosts.map(([, title], i) => [String(i), title])], draw);
  const project = ctx.choice("Project", [["", "All projects"], ...data.projects.map((name, i) => [String(i), name || "no project"]).sort((a, b) => a[1].localeCompare(b[1]))], draw);
  const WAYS = [["day", "Day"], ["week", "Week"], ["month", "Month"], ["model", "Model"], ["project", "Project"], ["host", "Agent"]];
  const ways = ctx.tabs("Added up by", WAYS, draw);
  const totals = el("dl.figures");
  const kinds = el("div.kinds");
  const charts = el("div.charts");
  const table = el("div");
  body.append(el("div.filters", ...days.nodes, el("label", host), el("label", project)), totals, kinds, charts, ways.node, table);

  const sum = (rows, places) => rows.reduce((whole, row) => whole + places.reduce((part, place) => part + row[place], 0), 0);
  const dollars = (nano) => ctx.money(nano / 1e9);

  const PERIODS = new Map(data.days.map(([day, week, month]) => [day, { day, week, month }]));
  const start = (day, unit) => (day === null ? null : PERIODS.get(day)[unit]);
  function next(day, unit) {
    const date = new Date(`${day}T00:00:00Z`);
    if (unit === "month") date.setUTCMonth(date.getUTCMonth() + 1);
    else date.setUTCDate(date.getUTCDate() + (unit === "week" ? 7 : 1));
    return date.toISOString().slice(0, 10);
  }
  const spoken = (day, unit) => (day === null ? "without a time" : ctx.month(new Date(`${day}T00:00:00Z`).toLocaleDateString("en-GB", { timeZone: "UTC", ...(unit === "month" ? {} : { day: "numeric" }), month: "short", year: "numeric" })));
  const NAMES = { model: (row) => data.models[row[MODEL]] || "not recorded", project: (row) => data.projects[row[PROJECT]] || "no project", host: (row) => (data.hosts[row[HOST]] || ["", "unknown"])[1] };

  function grouped(rows, way) {
    const found = new Map();
    for (const row of rows) {
      const key = NAMES[way] ? NAMES[way](row) : start(row[DAY], way);
      const sums = found.get(key) || Array(13).fill(0);
      for (let place = IN; place <= UNPRICED; place++) sums[place] += row[place];
      found.set(key, sums);
    }
    return found;
  }

  function draw() {
    const way = ways.value();
    if (!way) return;
    const rows = data.rows.filter((row) => days.holds(row[DAY]) && (!host.value || String(row[HOST]) === host.value) && (!project.value || String(row[PROJECT]) === project.value));
    const cost = sum(rows, [COST]);
    const prompt = sum(rows, [IN, SHORT, LONG, READ]);
    const tokens = prompt + sum(rows, [OUT]);
    const active = new Set(rows.map((row) => row[DAY]).filter(Boolean)).size;
    const unpriced = sum(rows, [UNPRICED]);
    const figures = [
      ["Cost", dollars(cost), unpriced ? `${ctx.plural(unpriced, "call")} without a price` : active ? `${dollars(cost / active)} an active day` : ""],
      ["Tokens", ctx.short(tokens), `${ctx.short(sum(rows, [OUT]))} generated`],
      ["Model calls", ctx.count(sum(rows, [CALLS])), `on ${ctx.plural(active, "active day")}`],
      ["From the cache", ctx.share(sum(rows, [READ]), prompt), "of all prompt tokens"],
    ];
    totals.replaceChildren(...figures.map(([name, value, note]) => el("div", el("dt", name), el("dd", value), el("dd.note", note))));
    const parts = KINDS.map(([name, title, places]) => [name, sum(rows, places), title]);
    kinds.replaceChildren(
      ...(tokens ? [ctx.strip(parts.map(([name, value, title]) => [name, value, `${title}: ${ctx.short(value)} tokens, ${ctx.share(value, tokens)}`])), el("ul.legend", parts.map(([name, value, title]) => el(`li.${name}`, el("span", title), el("b", ctx.short(value)), el("i", ctx.share(value, tokens)))))] : []),
    );
    drawCharts(rows);
    drawTable(rows, way, cost);
  }

  function drawCharts(rows) {
    const timed = rows.filter((row) => row[DAY]).sort((a, b) => (a[DAY] < b[DAY] ? -1 : 1));
    charts.replaceChildren();
    if (!timed.length) return;
    const [first, last] = [timed[0][DAY], timed[timed.length - 1][DAY]];
    const span = (Date.parse(last) - Date.parse(first)) / 86400000 + 1;
    const unit = span <= MOST_COLUMNS ? "day" : span <= MOST_COLUMNS * 7 ? "week" : "month";
    const buckets = new Map();
    for (let day = start(first, unit); day <= last; day = next(day, unit)) buckets.set(day, []);
    for (const row of timed) buckets.get(start(row[DAY], unit)).push(row);
    const ranked = [...grouped(timed, "model")].sort((a, b) => b[1][COST] - a[1][COST]).filter(([, sums]) => sums[COST]);
    const shown = ranked.slice(0, ranked.length > 5 ? 4 : 5).map(([name]) => name);
    const others = ranked.length > shown.length ? 1 : 0;
    // a model has a shade of its agent's color
    const shade = (name) => {
      const own = grouped(timed.filter((row) => NAMES.model(row) === name), "host");
      const [first] = [...own].sort((a, b) => b[1][COST] - a[1][COST])[0];
      return (data.hosts.find(([, title]) => title === first) || ["", "", "m5"])[2];
    };
    const tones = shown.map(shade);
    const place = (row) => (shown.includes(NAMES.model(row)) ? shown.indexOf(NAMES.model(row)) : shown.length);
    const labels = [...buckets.keys()].map((day) => spoken(day, unit));
    const money = [...buckets].map(([day, found]) => {
      const values = Array(shown.length + 1).fill(0);
      for (const row of found) values[place(row)] += row[COST] / 1e9;
      const words = [...shown, "other models"].map((name, i) => (values[i] ? `${name}: ${ctx.money(values[i])}` : "")).filter(Boolean);
      return { values, words: [spoken(day, unit), ...(words.length ? words : ["nothing"])].join("\n") };
    });
    const used = [...buckets].map(([day, found]) => {
      const values = KINDS.map(([, , places]) => sum(found, places));
      return { values, words: [spoken(day, unit), ...KINDS.map(([, title], i) => `${title}: ${ctx.short(values[i])} tokens`)].join("\n") };
    });
    const classes = [...tones.map((tone, i) => `${tone}.s${tones.slice(0, i).filter((other) => other === tone).length}`), "m5"];
    charts.append(
      el("figure", el("figcaption", "Cost ", el("span", `in dollars by ${unit}, stacked by model`)), ctx.stacked(money, classes, (value) => (value === 0 || value >= 10 ? `$${ctx.count(value)}` : ctx.money(value)), `Cost in dollars by ${unit}, stacked by model`)),
      ctx.axis(labels),
      el("ul.legend", shown.map((name, i) => el(`li.${classes[i]}`, el("span", name))), others ? el("li.m5", el("span", ctx.plural(ranked.length - shown.length, "other model"))) : null),
      el("figure.low", el("figcaption", "Tokens ", el("span", `by ${unit}, stacked by kind`)), ctx.stacked(used, KINDS.map(([name]) => name), ctx.short, `Tokens by ${unit}, stacked by kind`)),
      ctx.axis(labels),
    );
  }

  function drawTable(rows, way, cost) {
    const lines = [...grouped(rows, way)].map(([key, sums]) => ({ key, sums, tokens: sum([sums], [IN, OUT, SHORT, LONG, READ]) }));
    const timed = !NAMES[way];
    const number = (name, place, kind) => ({ name, kind, key: (line) => line.sums[place], cell: (line) => ctx.short(line.sums[place]) });
    const columns = [
      { name: WAYS.find(([value]) => value === way)[1], kind: "name", first: timed ? "" : "up", key: (line) => (timed ? line.key : line.key.toLowerCase()), cell: (line) => (timed ? spoken(line.key, way) : line.key) },
      { ...number("Calls", CALLS, "n.hide-s"), cell: (line) => ctx.count(line.sums[CALLS]) },
      number("Fresh input", IN, "n.hide-m"),
      number("Written, 5 min", SHORT, "n.hide-m"),
      number("Written, 1 h", LONG, "n.hide-m"),
      number("From cache", READ, "n.hide-m"),
      number("Output", OUT, "n.hide-s"),
      { ...number("Reasoning", REASONING, "n.hide-m"), cell: (line) => (line.sums[REASONING] ? ctx.short(line.sums[REASONING]) : "") },
      { name: "Tokens", kind: "n", key: (line) => line.tokens, cell: (line) => ctx.short(line.tokens) },
      { name: "Cost", kind: "n.strong", key: (line) => line.sums[COST], cell: (line) => (line.sums[UNPRICED] === line.sums[CALLS] && !line.sums[COST] ? el("span.muted", "no price") : dollars(line.sums[COST])) },
      { name: "Share", kind: "bars.hide-s", key: null, cell: (line) => el("span", el("span.under", cost ? ctx.share(line.sums[COST], cost) : ""), ctx.bar(line.sums[COST], cost)) },
    ];
    const made = ctx.grid({ columns, page: 14, by: timed ? 0 : 9, down: true, label: `Usage by ${way}`, empty: "No model call on these days." });
    made.show(lines);
    table.replaceChildren(made.node);
  }

  ways.press("day");
});
