// Text as people write it, made of elements and text nodes: fenced code, headings, lists, bold. Links stay text.
"use strict";
(() => {
  const { el } = ctx;

  function prose(text) {
    const box = el("div.prose");
    text.split(/^```/m).forEach((part, i) => {
      if (i % 2) {
        const code = part.replace(/^[^\n]*\n?/, "").replace(/\n$/, "");
        if (code) box.append(el("pre.code", code));
        return;
      }
      for (const block of part.split(/\n{2,}/)) {
        const lines = block.split("\n").filter((line) => line.trim());
        if (!lines.length) continue;
        const heading = /^#{1,6}\s+(.*)/.exec(lines[0]);
        if (heading) box.append(el("p.heading", inline(heading[1])));
        const rest = heading ? lines.slice(1) : lines;
        if (!rest.length) continue;
        if (rest.every((line) => /^\s*([-*+]|\d+[.)])\s/.test(line))) box.append(el("ul.points", rest.map((line) => el("li", inline(line.replace(/^\s*([-*+])\s+/, ""))))));
        else box.append(el("p", rest.map((line, n) => [n ? el("br") : null, ...inline(line)]).flat()));
      }
    });
    return box;
  }

  function inline(line) {
    return line.split(/(\*\*[^*]+\*\*|`[^`]+`)/).map((part) => {
      if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) return el("code", part.slice(1, -1));
      if (part.length > 4 && part.startsWith("**") && part.endsWith("**")) return el("b", inline(part.slice(2, -2)));
      return part;
    });
  }

  Object.assign(ctx, { prose, inline });
})();
