// Tables that are sorted, paged and filtered by date; only the rows of one page are in the document.
"use strict";
(() => {
  const { el } = ctx;
  const DAY = 86400000;

  // ctx.grid({columns: [{name, key, kind, cell, sort, first}], page, empty, label}): a table with its pages below.
  // `summary` are first lines of their own that are neither sorted nor paged.
  // `key` gives the value that is sorted by, `cell` what is shown; `first` is "up" where the first click sorts upwards.
  function grid({ columns, page = 15, empty = "Nothing fits.", label, by = 0, down = true, summary = [] }) {
    const state = { by, down, page: 0 };
    let rows = [];
    const heads = columns.map((column, i) => {
      const button = el("button", column.name);
      button.type = "button";
      button.addEventListener("click", () => {
        state.down = state.by === i ? !state.down : column.first !== "up";
        state.by = i;
        sort();
      });
      const head = el(column.kind ? `th.${column.kind}` : "th", column.key ? button : column.name);
      if (column.title) head.title = column.title;
      return head;
    });
    const body = el("tbody");
    const table = el("table.wide", el("thead", el("tr", heads)), body);
    if (label) table.setAttribute("aria-label", label);
    const shown = el("p");
    shown.setAttribute("role", "status");
    const [earlier, later] = ["Previous", "Next"].map((words, i) => {
      const button = el("button", words);
      button.type = "button";
      button.addEventListener("click", () => {
        state.page += i ? 1 : -1;
        draw();
      });
      return button;
    });
    const turning = el("div", earlier, later);
    const node = el("div.grid", el("div.scroll", table), el("div.pages", shown, turning));

    function sort() {
      const key = columns[state.by].key;
      const sign = state.down ? -1 : 1;
      rows = [...rows].sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === y) return 0;
        if (x === null || x === undefined || x === "") return 1;
        if (y === null || y === undefined || y === "") return -1;
        return (x < y ? -1 : 1) * sign;
      });
      state.page = 0;
      draw();
    }

    function draw() {
      const first = state.page * page;
      const lines = rows.slice(first, first + page).map((row) => {
        const line = el("tr", columns.map((column) => el(column.kind ? `td.${column.kind}` : "td", column.cell(row))));
        return line;
      });
      if (!lines.length) {
        const cell = el("td.empty", empty);
        cell.colSpan = columns.length;
        lines.push(el("tr", cell));
      }
      if (rows.length) lines.unshift(...summary.map((cells) => el("tr.summary", columns.map((column, i) => el(column.kind ? `td.${column.kind}` : "td", cells[i])))));
      body.replaceChildren(...lines);
      const last = Math.min(first + page, rows.length);
      shown.textContent = rows.length > page ? `${ctx.count(first + 1)} to ${ctx.count(last)} of ${ctx.count(rows.length)}` : "";
      turning.hidden = rows.length <= page;
      earlier.disabled = state.page === 0;
      later.disabled = last >= rows.length;
      heads.forEach((head, i) => {
        if (i === state.by) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
    }

    return { node, show: (found) => { rows = found; sort(); }, rows: () => rows };
  }

  // ctx.period(change): a choice of days; from and to are texts like 2026-03-31, or empty.
  function period(change, newest) {
    const select = el("select", [["", "All days"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["90", "Last 90 days"], ["365", "Last year"], ["own", "From, to"]].map(([value, text]) => option(value, text)));
    select.setAttribute("aria-label", "Days");
    const [from, to] = ["From", "To"].map((words) => {
      const input = el("input");
      input.type = "date";
      input.setAttribute("aria-label", words);
      input.addEventListener("change", () => change());
      return input;
    });
    const own = el("span.days", from, to);
    own.hidden = true;
    select.addEventListener("change", () => {
      own.hidden = select.value !== "own";
      change();
    });
    const range = () => {
      if (select.value === "own") return [from.value, to.value];
      if (!select.value || !newest) return ["", ""];
      return [new Date(Date.parse(newest) - (Number(select.value) - 1) * DAY).toISOString().slice(0, 10), ""];
    };
    return {
      nodes: [el("label", select), own],
      range,
      holds: (day) => {
        const [first, last] = range();
        return (!first || (day !== null && day >= first)) && (!last || (day !== null && day <= last));
      },
      all: () => {
        select.value = "";
        own.hidden = true;
      },
    };
  }

  function option(value, text) {
    const node = el("option", text);
    node.value = value;
    return node;
  }

  // ctx.choice(words, [[value, text]], change): a select with a name.
  function choice(words, options, change) {
    const select = el("select", options.map(([value, text]) => option(value, text)));
    select.setAttribute("aria-label", words);
    select.addEventListener("change", change);
    return select;
  }

  // ctx.tabs(label, [[value, text]], change): a row of buttons of which one is pressed.
  function tabs(label, options, change) {
    const bar = el("div.choices");
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", label);
    const buttons = options.map(([value, text, note]) => {
      const button = el("button", text, note === undefined ? null : el("span", note));
      button.type = "button";
      button.dataset.value = value;
      button.addEventListener("click", () => press(value));
      return button;
    });
    function press(value) {
      bar.dataset.value = value;
      buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === value)));
      change(value);
    }
    bar.append(...buttons);
    return { node: bar, press, value: () => bar.dataset.value };
  }

  Object.assign(ctx, { grid, period, choice, tabs, option });
})();
