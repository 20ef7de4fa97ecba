// Search inside a session: as one types, every piece is unpacked and looked through, and the words are painted where they stand.
"use strict";
(() => {
  const { el } = ctx;
  const [WAIT, MOST] = [180, 2000];
  const held = new WeakMap();

  // What an event says, in small letters: of arguments the texts as they are drawn, and how they were written; of prose without its signs.
  function said(item) {
    if (held.has(item)) return held.get(item);
    const [, , , , kind, text, more] = item;
    const parts = [text, more.ran, more.r, more.why];
    if (kind === "tool_call") {
      try {
        JSON.parse(text, (_, value) => (typeof value === "string" && value.includes("\n") ? parts.push(value) : 0, value));
      } catch {
        // a command as it was typed
      }
    } else if (/[*`]/.test(text)) parts.push(text.replaceAll(/[*`]/g, ""));
    const low = parts.filter(Boolean).join("\n").toLowerCase();
    held.set(item, low);
    return low;
  }

  // Where words stand in what is drawn of an event, over the borders of its elements too.
  function ranges(node, words) {
    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    const texts = [];
    let whole = "";
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
      texts.push([whole.length, text]);
      whole += text.data;
    }
    const low = whole.toLowerCase();
    const place = (at) => {
      const [begin, text] = texts.findLast(([first]) => first <= at);
      return [text, Math.min(at - begin, text.data.length)];
    };
    const found = [];
    for (let at = low.indexOf(words); at >= 0 && found.length < MOST; at = low.indexOf(words, at + words.length)) {
      const range = new Range();
      range.setStart(...place(at));
      const [last, end] = place(at + words.length - 1);
      range.setEnd(last, Math.min(end + 1, last.data.length));
      found.push(range);
    }
    return found;
  }

  // `pieces` in order, `rows` gives a piece's events, `nodes` holds what is drawn by position, `go` shows an event, `from` says what is in view.
  ctx.finder = (pieces, rows, nodes, go, from) => {
    const input = el("input");
    input.type = "search";
    input.placeholder = "Find";
    input.setAttribute("aria-label", "Search in this session");
    const shown = el("span.muted");
    shown.setAttribute("role", "status");
    let [found, at, asked, later, turn, opened] = [[], 0, "", 0, 0, []];
    let [scanning, placed] = [null, false];

    // Folded parts of an event that hold the words alone are opened; the marks are painted anew.
    function paint(node, move) {
      const outside = (range) => range.startContainer.parentElement.closest("summary") === null;
      if (move && node) {
        for (const part of node.querySelectorAll("button.more, details details:not([open])")) {
          if (ranges(node, asked).some(outside)) break;
          if (part.matches("details")) {
            part.fill();
            part.open = true;
            opened.push(part);
          } else part.click();
        }
      }
      const here = node && asked ? ranges(node, asked) : [];
      if (move && here.length) (here.find(outside) || here[0]).startContainer.parentElement.scrollIntoView({ block: "center" });
      if (!window.Highlight || !CSS.highlights) return;
      const all = [];
      for (const pos of asked ? found : []) {
        const other = nodes.get(pos);
        if (other && all.length < MOST) all.push(...ranges(other, asked));
      }
      CSS.highlights.set("found", new Highlight(...all));
      const above = new Highlight(...here);
      above.priority = 1;
      CSS.highlights.set("found-here", above);
    }

    // Finds all events with these words, unless others are asked for meanwhile; a piece that cannot be loaded holds none.
    async function scan(words) {
      const all = [];
      for (const one of pieces) {
        let items = [];
        try {
          items = await rows(one);
        } catch {
          // its own place says that it is missing
        }
        if (asked !== words) return;
        for (const item of items) if (said(item).includes(words)) all.push(item[0]);
      }
      found = all;
    }

    async function look(way) {
      const words = input.value.trim().toLowerCase();
      const mine = (turn += 1);
      if (words !== asked) {
        asked = words;
        [found, at, placed] = [[], -1, false];
        for (const part of opened) part.open = false;
        opened = [];
        if (words) shown.textContent = "\u2026";
        scanning = words ? scan(words) : null;
      }
      await scanning;
      if (mine !== turn) return;
      if (!placed) {
        placed = true;
        // the first match is the one that stands in view or behind it
        const near = found.findIndex((pos) => pos >= from());
        at = way < 0 ? Math.max(0, near) : (near < 0 ? found.length : near) - 1;
        if (!way) way = 1;
      }
      shown.textContent = !words ? "" : found.length ? "" : "not found";
      if (!found.length) return paint(null);
      at = (at + way + found.length) % found.length;
      shown.textContent = `${ctx.count(at + 1)} of ${ctx.count(found.length)}`;
      const pos = found[at];
      const node = await go(pos, opened);
      if (mine !== turn) return;
      paint(node, true);
      input.focus({ preventScroll: true });
    }
    const buttons = [["Previous match", -1, "\u2191"], ["Next match", 1, "\u2193"]].map(([label, way, sign]) => {
      const button = el("button", sign);
      button.type = "button";
      button.setAttribute("aria-label", label);
      button.addEventListener("click", () => look(way));
      return button;
    });
    const soon = (way, ms) => {
      clearTimeout(later);
      later = setTimeout(() => look(way), ms);
    };
    input.addEventListener("input", () => soon(0, WAIT));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && input.value) {
        input.value = "";
        soon(0, 0);
      } else if (event.key === "Enter") soon(event.shiftKey ? -1 : 1, 0);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    const box = el("div.finder", input, ...buttons, shown);
    box.focus = () => {
      input.focus();
      input.select();
    };
    // a piece that is drawn later gets its marks
    box.repaint = () => found.length && paint(nodes.get(found[at]));
    return box;
  };
})();
