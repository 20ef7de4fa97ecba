// Prompts by weekday and hour: a circle's area is their number.
"use strict";
ctx.near("user_input", (body, { hours }) => {
  const { svg } = ctx;
  const NAMES = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const most = Math.max(...hours.flat(), 1);
  const narrow = matchMedia("(max-width: 680px)").matches;
  const [LEFT, STEP, HIGH] = narrow ? [30, 13, 20] : [34, 28, 22];
  const marks = hours.flatMap((row, day) =>
    row.map((n, hour) => {
      const words = `${NAMES[day]} ${String(hour).padStart(2, "0")}:00: ${ctx.plural(n, "prompt")}`;
      const at = { cx: LEFT + hour * STEP + STEP / 2, cy: day * HIGH + HIGH / 2, r: n ? Math.max(1.6, (narrow ? 6 : 9.5) * Math.sqrt(n / most)).toFixed(1) : 0.8 };
      return svg(n ? "circle.some" : "circle", at, svg("title", null, words));
    }),
  );
  const days = NAMES.map((name, day) => svg("text", { x: 0, y: day * HIGH + HIGH / 2 + 3.5 }, name));
  const clock = (narrow ? [0, 6, 12, 18] : [0, 3, 6, 9, 12, 15, 18, 21]).map((hour) => svg("text.centred", { x: LEFT + hour * STEP + STEP / 2, y: 7 * HIGH + 13 }, `${String(hour).padStart(2, "0")}:00`));
  body.append(svg("svg", { viewBox: `0 0 ${LEFT + 24 * STEP} ${7 * HIGH + 18}`, role: "img", tabindex: "0", "aria-label": "Prompts by weekday and hour" }, days, clock, marks));
});
