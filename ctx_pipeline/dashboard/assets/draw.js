// Small drawings: lines of months, stacked columns, histograms. Every mark has words; colours come from classes.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";

  // svg("rect.c0", { x: 1 }, child...): an SVG element with classes and attributes.
  function svg(kind, attributes, ...children) {
    const [tag, ...classes] = kind.split(".");
    const node = document.createElementNS(SVG, tag);
    if (classes.length) node.setAttribute("class", classes.join(" "));
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
    return node;
  }

  const titled = (text) => svg("title", null, text);

  // A line through [words, value] points, the last one marked; missing values break it.
  function spark(points, tone = "", words = "") {
    const [wide, high] = [84, 26];
    const known = points.map(([, value]) => value).filter((value) => value !== null);
    const drawing = svg(`svg.spark${tone ? `.${tone}` : ""}`, { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": words || "trend" });
    if (!known.length) return drawing;
    const [low, top] = [Math.min(0, ...known), Math.max(...known, 0)];
    const x = (i) => (points.length < 2 ? wide / 2 : 4 + (i / (points.length - 1)) * (wide - 8));
    const y = (value) => (top === low ? high / 2 : high - 4 - ((value - low) / (top - low)) * (high - 8));
    let path = "";
    let pen = "M";
    points.forEach(([, value], i) => {
      if (value === null) pen = "M";
      else {
        path += `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = "L";
      }
    });
    const alone = points.flatMap(([, value], i) => (value !== null && (points[i - 1]?.[1] ?? null) === null && (points[i + 1]?.[1] ?? null) === null ? [svg("circle", { cx: x(i), cy: y(value), r: 1.4 })] : []));
    const last = points.findLastIndex(([, value]) => value !== null);
    drawing.append(titled(points.map(([name, value]) => `${name}: ${value === null ? "none" : ctx.short(value)}`).join("\n")), svg("path", { d: path }), ...alone, svg("circle", { cx: x(last), cy: y(points[last][1]), r: 2.6 }));
    return drawing;
  }

  // Columns over one another: columns are {words, values}, classes colour the values; ticks writes the scale.
  function stacked(columns, classes, ticks, title) {
    const top = ceiling(Math.max(0, ...columns.map((c) => c.values.reduce((a, b) => a + b, 0))));
    const wide = 10 * Math.max(1, columns.length);
    const gap = columns.length > 60 ? 1 : 2;
    const groups = columns.map((column, i) => {
      let base = 100;
      const rects = column.values.map((value, j) => {
        if (value <= 0) return null;
        const height = Math.max(0.6, (value / top) * 100);
        base -= height;
        return svg(`rect.${classes[j]}`, { x: i * 10 + gap / 2, y: Math.max(0, base).toFixed(2), width: 10 - gap, height: height.toFixed(2) });
      });
      return svg("g", null, svg("rect.hover", { x: i * 10, y: 0, width: 10, height: 100 }), rects, titled(column.words));
    });
    const plot = svg("svg.plot", { viewBox: `0 0 ${wide} 100`, preserveAspectRatio: "none", role: "img", tabindex: "0", "aria-label": title }, svg("path.grid", { d: `M0 0H${wide}M0 50H${wide}` }), groups);
    return ctx.el("div.chart", ctx.el("div.scale", [1, 0.5, 0].map((part) => ctx.el("span", ticks(top * part)))), plot);
  }

  // The words below a chart of as many columns, each below its column, the last among them; as figures.py places them.
  function axis(labels, most = 7) {
    const step = Math.max(1, Math.ceil((labels.length - 1) / (most - 1)));
    const words = labels.flatMap((text, i) => {
      if ((labels.length - 1 - i) % step) return [];
      const edge = i === 0 && labels.length > most;
      return [svg(`text${edge ? ".edge" : ""}`, { x: `${edge ? "0.00" : ((100 * (i + 0.5)) / labels.length).toFixed(2)}%`, y: 11 }, text)];
    });
    return svg("svg.axis", null, words);
  }

  // Bars of a histogram of [from, to, count] bins.
  function histogram(bins, unit) {
    const most = Math.max(...bins.map((bin) => bin[2]), 1);
    const low = bins[0][0];
    const step = bins[0][1] - low || (bins[bins.length - 1][1] - low) / 10 || 1;
    const bars = bins.map(([from, to, count]) => {
      const place = Math.min(9, Math.round((from - low) / step));
      const height = Math.max(2, (count / most) * 44);
      return svg("rect", { x: place * 20 + 1, y: 46 - height, width: 18, height }, titled(`${ctx.reading(from, unit)} to ${ctx.reading(to, unit)}: ${ctx.plural(count, "session")}`));
    });
    return svg("svg.histogram", { viewBox: "0 0 200 46", role: "img", tabindex: "0", "aria-label": "How many sessions read how much" }, bars);
  }

  function bar(part, whole, name = "bar-fill") {
    const length = whole > 0 ? Math.max(0, Math.min(100, (100 * part) / whole)) : 0;
    return svg("svg.bar", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, svg(`rect.${name}`, { width: length.toFixed(1), height: 4 }));
  }

  // One bar of [class, value, words] parts.
  function strip(parts) {
    const whole = parts.reduce((sum, [, value]) => sum + value, 0);
    let place = 0;
    const rects = parts.map(([name, value, words]) => {
      const length = whole ? (1000 * value) / whole : 0;
      const x = place;
      place += length;
      return length ? svg(`rect.${name}`, { x: x.toFixed(1), width: Math.max(0.5, length - 1.5).toFixed(1), height: 10 }, titled(words)) : null;
    });
    return svg("svg.strip", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": parts.map((part) => part[2]).join(", ") }, rects);
  }

  // The least of 1, 2, 4, 6, 10 times a power of ten that is not below the value; 1 for nothing.
  function ceiling(value) {
    if (value <= 0) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 4, 6, 10].find((step) => value <= step * power * (1 + 1e-9)) * power;
  }

  Object.assign(ctx, { svg, spark, stacked, axis, histogram, bar, strip });
})();
