// How full the window was, call by call: a curve that is read with pointer, finger or arrow keys, and leads to its place.
"use strict";
(() => {
  const { el, svg } = ctx;
  const [WIDE, HIGH] = [1000, 100];

  ctx.windowCurve = (told, go) => {
    const points = told.curve;
    if (points.length < 2) return null;
    const [size, source] = told.window;
    const most = Math.max(...points.map((point) => point[2]));
    const top = Math.max(size || 0, most);
    const x = (i) => (i / (points.length - 1)) * WIDE;
    const y = (tokens) => HIGH - (tokens / top) * HIGH;
    const line = points.map((point, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(point[2]).toFixed(1)}`).join("");
    // before the first call behind it; a call that no event of the transcript belongs to has its time alone
    const cuts = told.compactions.map(([pos, at]) => x(points.findIndex(([place, ts]) => (place === null ? ts > at : place >= pos)))).map((at) => (at < 0 ? WIDE : at));
    const cursor = svg("path.cursor", { d: "M0 0V100" });
    const plot = svg("svg.plot", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" }, svg("path.grid", { d: `M0 0H${WIDE}M0 50H${WIDE}` }), svg("path.fill", { d: `${line}L${WIDE} ${HIGH}L0 ${HIGH}Z` }), svg("path.curve", { d: line }), cuts.map((at) => svg("path.cut-mark", { d: `M${at.toFixed(1)} 0V${HIGH}` })), cursor);
    const full = el("div.curve-of", plot);
    const says = el("p.note");
    full.tabIndex = 0;
    full.setAttribute("role", "slider");
    full.setAttribute("aria-label", "Fill of the context window by model call; Enter goes there");
    full.setAttribute("aria-valuemin", "1");
    full.setAttribute("aria-valuemax", String(points.length));
    let at = points.length - 1;

    function point(i) {
      at = Math.max(0, Math.min(points.length - 1, i));
      const [, ts, tokens, cost] = points[at];
      const share = size ? `, ${ctx.share(tokens, size)} of the window` : "";
      const words = `Call ${ctx.count(at + 1)} of ${ctx.count(points.length)}, ${ctx.when(ts, "minute")}: ${ctx.short(tokens)} tokens${share}${cost ? `, ${ctx.money(cost)}` : ""}`;
      cursor.setAttribute("d", `M${x(at).toFixed(1)} 0V${HIGH}`);
      full.setAttribute("aria-valuenow", String(at + 1));
      full.setAttribute("aria-valuetext", words);
      says.textContent = words;
    }
    const under = (event) => {
      const { left, width } = full.getBoundingClientRect();
      return Math.round(((event.clientX - left) / width) * (points.length - 1));
    };
    const jump = () => {
      const pos = points[at][0] ?? points.slice(0, at).findLast((point) => point[0] !== null)?.[0];
      if (pos !== undefined && pos !== null) go(pos);
    };
    full.addEventListener("pointermove", (event) => point(under(event)));
    full.addEventListener("click", (event) => {
      point(under(event));
      jump();
    });
    full.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -points.length, End: points.length }[event.key];
      if (step) point(at + step);
      else if (event.key === "Enter" || event.key === " ") jump();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    point(at);
    const ticks = [top, top / 2, 0].map((tokens) => el("span", ctx.short(tokens)));
    const note = size ? `of ${ctx.short(size)} tokens, ${source}` : "its size is not known";
    return el("figure.fill-of", el("figcaption", "Fill of the window ", el("span", `${note}${cuts.length ? `; ${ctx.plural(cuts.length, "compaction")} marked` : ""}`)), el("div.chart", full, el("div.scale", ticks)), says);
  };
})();
