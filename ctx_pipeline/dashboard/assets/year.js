// The last year as a map of days, a column a week; earlier years below it, folded.
"use strict";
ctx.near("year", (body, { days, steps }) => {
  const { el, svg } = ctx;
  const narrow = matchMedia("(max-width: 680px)").matches;
  const [DAY, WEEKS, STEP, SIDE, LEFT, TOP] = [86400000, narrow ? 26 : 53, 13, 11, 28, 16];
  if (!days.length) {
    body.append(el("p.empty", "No model call with a time has been recorded yet."));
    return;
  }
  const found = new Map(days.map((row) => [row[0], row]));
  const iso = (ms) => new Date(ms).toISOString().slice(0, 10);
  const said = (ms, words) => ctx.month(new Date(ms).toLocaleDateString("en-GB", { timeZone: "UTC", ...words }));
  const cost = (nano) => ctx.money(nano === null ? null : nano / 1e9);
  const level = (calls) => (calls ? 1 + Math.max(0, steps.findIndex((most) => calls <= most)) : 0);

  function map(first, last) {
    const cells = [];
    const months = [];
    for (let ms = first, number = 0; ms <= last; ms += DAY, number++) {
      const [week, weekday] = [Math.floor(number / 7), number % 7];
      const row = found.get(iso(ms));
      const words = `${said(ms, { weekday: "short", day: "numeric", month: "short", year: "numeric" })}: ${row ? `${ctx.plural(row[1], "call")}, ${ctx.short(row[2])} tokens, ${cost(row[3])}` : "nothing"}`;
      cells.push(svg(`rect.y${level(row ? row[1] : 0)}`, { x: LEFT + week * STEP, y: TOP + weekday * STEP, width: SIDE, height: SIDE, rx: 2 }, svg("title", null, words)));
      if (!weekday && new Date(ms).getUTCDate() <= 7) months.push(svg("text", { x: LEFT + week * STEP, y: 10 }, said(ms, { month: "short" })));
    }
    const names = ["Mon", "", "Wed", "", "Fri"].map((name, row) => (name ? svg("text", { x: 0, y: TOP + row * STEP + 9 }, name) : null));
    const label = `Model calls by day, ${said(first, { month: "short", year: "numeric" })} to ${said(last, { month: "short", year: "numeric" })}`;
    return svg("svg", { viewBox: `0 0 ${LEFT + WEEKS * STEP} ${TOP + 7 * STEP}`, role: "img", tabindex: "0", "aria-label": label }, months, names, cells);
  }

  // The longest run of days in a row among the active ones.
  function streak(active) {
    let [best, run, former] = [0, 0, 0];
    for (const [day] of active) {
      const ms = Date.parse(day);
      run = ms - former === DAY ? run + 1 : 1;
      former = ms;
      best = Math.max(best, run);
    }
    return best;
  }

  function year(first, last) {
    const active = days.filter(([day]) => day >= iso(first) && day <= iso(last));
    if (!active.length) return null;
    const sum = (place) => active.reduce((whole, row) => whole + row[place], 0);
    const about = `${ctx.plural(active.length, "day")} with a model call, ${ctx.plural(sum(1), "call")}, ${cost(active.every((row) => row[3] === null) ? null : sum(3))}, at most ${ctx.plural(streak(active), "day")} in a row`;
    const month = { month: "short", year: "numeric" };
    return el("figure.year", el("figcaption", `${said(first, month)} to ${said(last, month)} `, el("span", about)), map(first, last));
  }

  const years = [];
  let last = Date.parse(days[days.length - 1][0]);
  while (last >= Date.parse(days[0][0])) {
    const first = last - ((new Date(last).getUTCDay() + 6) % 7) * DAY - (WEEKS - 1) * 7 * DAY;
    years.push(year(first, last));
    last = first - DAY;
  }
  const [newest, ...earlier] = years.filter(Boolean);
  const bounds = [0, ...steps];
  const words = ["no call", ...steps.map((most, i) => (bounds[i] + 1 < most ? `${ctx.count(bounds[i] + 1)} to ${ctx.count(most)}` : ctx.count(most)))];
  words[words.length - 1] += " calls a day";
  body.append(newest, el("ul.legend.scale-of", words.map((text, i) => el(`li.y${i}`, el("span", text)))));
  if (earlier.length) body.append(el("details.as-table", el("summary", narrow ? "Earlier half years" : "Earlier years"), ...earlier));
});
