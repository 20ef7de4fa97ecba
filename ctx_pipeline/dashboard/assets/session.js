// One session in a dialog: its chunk is loaded when it is opened; every word is set as text.
"use strict";
(() => {
  const { el } = ctx;
  const dialog = document.getElementById("session");
  const TABS = ["Transcript", "Overview", "Tools", "Models", "Model calls", "Signals", "Lessons"];
  let opener = null;

  ctx.follow = () => {
    const match = /^#session-([0-9a-f]{16})(?:\.([\w-]{1,80}))?$/.exec(location.hash);
    const session = match && ctx.session ? ctx.session(match[1]) : null;
    if (session) open(session, match[2] || "");
    else if (dialog && dialog.open) dialog.close();
  };
  if (!dialog) return;
  addEventListener("hashchange", ctx.follow);
  dialog.addEventListener("close", () => {
    if (location.hash.startsWith("#session-")) history.replaceState(null, "", location.pathname + location.search);
    document.title = dialog.dataset.title || document.title;
    if (opener && opener.isConnected) opener.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  const KEYS = [["j", "next prompt"], ["k", "prompt before"], ["p", "prompts alone"], ["f or /", "find in the session"], ["c", "fold all"], ["J", "next session"], ["K", "session before"], ["?", "these keys"], ["Esc", "close"]];
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("[role=tablist], input, select")) return;
    const keys = { J: () => step(1), K: () => step(-1), "?": help, ...dialog.querySelector(".tab > *")?.keys };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });

  function help() {
    const box = dialog.querySelector(".keys");
    box.hidden = !box.hidden;
    dialog.querySelector(".help").setAttribute("aria-expanded", String(!box.hidden));
  }

  function step(way) {
    const next = ctx.neighbour(dialog.dataset.key, way);
    if (next) location.hash = `#session-${next.key}`;
  }

  // What all memories say: memory id -> kind, text, status.
  let learned = new Map();
  const told = (name) => learned.get(name) || ["memory", name, "unknown"];

  // `about` names a memory or a signal: the transcript then opens at the events that it rests on.
  async function open(session, about) {
    if (!dialog.open) {
      opener = document.activeElement;
      dialog.dataset.title = document.title;
    }
    dialog.dataset.key = session.key;
    const body = el("div.loading", "Loading");
    dialog.replaceChildren(header(session), body);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    try {
      const detail = await ctx.load(session.chunk);
      if (detail.memories.length) learned = new Map((await ctx.panel("learned")).map(([name, ...told]) => [name, told]));
      if (dialog.dataset.key !== session.key) return;
      body.remove();
      const [strip, panel, choose] = tabs(session, detail);
      if (detail.facts.resume) dialog.querySelector("header").append(el("p.resume", el("span.muted", "Continue it: "), ctx.command(detail.facts.resume)));
      dialog.append(strip, panel);
      if (about) choose(0, about);
    } catch (error) {
      body.className = "empty";
      body.textContent = ctx.lost("This session's file", error);
    }
  }

  function header(session) {
    const close = el("button.close", "Close");
    close.type = "button";
    close.addEventListener("click", () => dialog.close());
    const heading = el("h2", session.title || session.id);
    heading.id = "session-title";
    heading.title = heading.textContent;
    heading.tabIndex = -1;
    heading.autofocus = true;
    const place = [session.project, session.branch].filter(Boolean).join(" / ");
    const ended = session.status === "unknown" ? null : el("span.ended", `${place ? " / " : ""}${session.status}`);
    const moves = [["Newer or above", -1, "\u2191"], ["Older or below", 1, "\u2193"]].map(([label, way, sign]) => {
      const move = el("button", sign);
      move.type = "button";
      move.setAttribute("aria-label", label);
      move.disabled = !ctx.neighbour(session.key, way);
      move.addEventListener("click", () => step(way));
      return move;
    });
    const asks = el("button.help", "?");
    asks.type = "button";
    asks.setAttribute("aria-label", "Keys");
    asks.setAttribute("aria-expanded", "false");
    asks.addEventListener("click", help);
    const keys = el("dl.keys", KEYS.map(([key, what]) => el("div", el("dt", key), el("dd", what))));
    keys.hidden = true;
    return el(
      "header",
      el("div.bar-top", el(`span.host.${session.colour}`, session.hostTitle), el("span.muted", ctx.when(session.start, "minute")), el("span.grow"), ...moves, asks, close),
      keys,
      heading,
      el("p.muted", place, ended),
      el("p.sums", sums(session)),
    );
  }

  // What it took, in one line.
  function sums(session) {
    const cost = session.unpriced && !session.cost ? "no price" : ctx.money(session.cost);
    const tools = [ctx.plural(session.tools, "tool call"), session.failed ? el("span.alert", ` (${ctx.count(session.failed)} failed)`) : null];
    return [el("b", cost), ctx.duration(session.seconds), ctx.plural(session.prompts, "prompt"), ctx.plural(session.calls, "model call"), tools, `${ctx.short(session.tokens)} tokens`]
      .filter((part) => part !== "")
      .map((part) => el("span", part));
  }

  function tabs(session, detail) {
    const drawn = [transcript, overview, tools, models, calls, signals, memories];
    const sizes = [detail.events_total, null, detail.tools_total, detail.models.length, detail.calls_total, detail.signals.length, detail.memories.length];
    const strip = el("div.tabs");
    strip.setAttribute("role", "tablist");
    const panel = el("div.tab");
    panel.setAttribute("role", "tabpanel");
    panel.id = "session-tab";
    panel.tabIndex = 0;
    const buttons = TABS.map((name, i) => {
      const button = el("button", name, sizes[i] === null ? null : el("span", ctx.count(sizes[i])));
      button.type = "button";
      button.id = `tab-${i}`;
      button.setAttribute("role", "tab");
      button.setAttribute("aria-controls", "session-tab");
      button.addEventListener("click", () => choose(i));
      return button;
    });
    function choose(i, about = "") {
      buttons.forEach((button, j) => {
        button.setAttribute("aria-selected", String(i === j));
        button.tabIndex = i === j ? 0 : -1;
      });
      panel.setAttribute("aria-labelledby", `tab-${i}`);
      const made = drawn[i](session, detail, about, (name) => choose(TABS.indexOf("Transcript"), name));
      panel.replaceChildren(made);
      if (made.reveal && about) made.reveal();
    }
    strip.addEventListener("keydown", (event) => {
      const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!way) return;
      const next = (buttons.indexOf(document.activeElement) + way + buttons.length) % buttons.length;
      choose(next);
      buttons[next].focus();
    });
    strip.append(...buttons);
    choose(0);
    return [strip, panel, choose];
  }

  const empty = (text) => el("p.empty", text);
  const cut = (have, total, noun) =>
    have >= total ? null : el("p.note", `${ctx.count(have)} of ${ctx.count(total)} ${noun}. All of them stand in the transcript.`);
  const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`);
  const command = (facts) => ctx.command(`ctx show ${quote(facts.host)} ${quote(facts.id)}`);

  function overview(session, detail) {
    const f = detail.facts;
    const [input, output, written, read, reasoning] = f.tokens;
    const [, missing] = detail.signals.find(([name]) => name === "estimated_missing_output") || [];
    const big = [
      ["Cost", session.unpriced && !session.cost ? "no price" : ctx.money(session.cost), session.unpriced ? `${ctx.plural(session.unpriced, "call")} without a price` : ""],
      ["Tokens", ctx.short(session.tokens), `${ctx.short(output)} generated`],
      ["Length", ctx.duration(session.seconds), f.threads > 1 ? ctx.plural(f.threads, "thread") : "one thread"],
      ["Prompts", ctx.count(session.prompts), ctx.plural(session.calls, "model call")],
      ["Tool calls", ctx.count(session.tools), `${ctx.count(session.failed)} failed`],
      ["Largest prompt", ctx.short(f.peak), f.compactions ? ctx.plural(f.compactions, "compaction") : "never compacted"],
    ];
    const facts = [
      ["Session", f.id],
      ["Folder", f.cwd],
      ["Branch", f.branch],
      ["Models", f.models.join(", ")],
      ["Version", f.version],
      ["Forked from", f.parent],
      ["Tokens", `${ctx.short(input)} fresh input, ${ctx.short(written)} written to cache, ${ctx.short(read)} read from cache, ${ctx.short(output)} output`],
      ["Not counted", missing ? `about ${ctx.short(missing)} output tokens: calls record only the first count of the output` : ""],
      ["Reasoning", reasoning ? `${ctx.short(reasoning)} tokens of the output` : ""],
      ["Commands", f.commands ? `${ctx.count(f.failed_commands)} of ${ctx.count(f.commands)} failed` : ""],
      ["Records", `${ctx.count(f.lines)} lines, ${ctx.size(f.bytes)}`],
      ["Not understood", f.unknown || f.quarantined ? `${ctx.count(f.unknown)} of an unknown kind, ${ctx.count(f.quarantined)} unreadable` : ""],
    ].filter(([, text]) => text);
    return el(
      "div",
      el("dl.figures", big.map(([name, text, note]) => el("div", el("dt", name), el("dd", text || "0"), el("dd.note", note)))),
      el("dl.facts", facts.map(([name, text]) => [el("dt", name), el("dd", text)]).flat()),
      el("p.note", "More: ", command(f)),
    );
  }

  const notDrawn = (session) => ctx.notDrawn(() => {
    ctx.forget(session.chunk);
    open(session, "");
  });

  function transcript(session, detail, about) {
    if (!detail.transcript) return notDrawn(session);
    const reading = detail.signals.find((row) => row[0] === about);
    const memory = detail.memories.find((row) => row[0] === about);
    const marked = reading ? reading[5] || [] : memory ? memory[1] : [];
    const words = reading ? ctx.signalWords(about) : memory ? told(about)[1].slice(0, 140) : "";
    const event = /^e(\d+)-(\d+)$/.exec(about);
    return ctx.transcript(session, detail, session.chunk, marked, words, event && [Number(event[1]), Number(event[2])]);
  }

  function grid(heads, rows) {
    const head = el("tr", heads.map(([name, kind]) => el(kind ? `th.${kind}` : "th", name)));
    const body = rows.map((cells) => el("tr", cells.map((cell, i) => el(heads[i][1] ? `td.${heads[i][1]}` : "td", cell))));
    return el("div.scroll", el("table.wide", el("thead", head), el("tbody", body)));
  }

  function tools(session, detail) {
    if (!detail.transcript) return notDrawn(session);
    if (!detail.tools.length) return empty("No tool was called.");
    const rows = detail.tools.map(([ts, tool, action, target, failed, exit, took, chars]) => [
      ctx.when(ts, "clock"),
      el("span", tool, el("span.under", action)),
      el("code", target || ""),
      failed ? el("span.alert", exit === null ? "failed" : `exit ${exit}`) : "",
      took === null ? "" : ctx.duration(took / 1000),
      ctx.short(chars),
    ]);
    const heads = [["Time", "hide-s"], ["Tool", "tool"], ["What", "what"], ["Outcome", ""], ["Took", "n.hide-s"], ["Characters", "n.hide-s"]];
    return el("div", cut(rows.length, detail.tools_total, "tool calls, the failed ones among them"), grid(heads, rows));
  }

  function calls(session, detail) {
    if (!detail.transcript) return notDrawn(session);
    if (!detail.calls.length) return empty("No model call counts here: it may be a fork whose calls belong to its parent.");
    const rows = detail.calls.map(([ts, model, input, output, written, read, context, cost, thread]) => [
      ctx.when(ts, "clock"),
      el("span", model || "not recorded", thread ? el("span.under", `thread ${thread + 1}`) : null),
      ctx.short(context),
      ctx.short(input),
      ctx.short(written),
      ctx.short(read),
      ctx.short(output),
      ctx.money(cost),
    ]);
    const heads = [["Time", "hide-s"], ["Model", ""], ["Prompt", "n"], ["Fresh", "n.hide-s"], ["Written", "n.hide-s"], ["Cached", "n.hide-s"], ["Output", "n"], ["Cost", "n"]];
    return el("div", cut(rows.length, detail.calls_total, "model calls, the most expensive"), grid(heads, rows));
  }

  function models(session, detail) {
    if (!detail.models.length) return empty("No model call counts here: it may be a fork whose calls belong to its parent.");
    const whole = detail.models.reduce((sum, row) => sum + (row[7] || 0), 0);
    const rows = detail.models.map(([model, n, input, output, short, long, read, cost]) => {
      const prompt = input + short + long + read;
      return [
        model || "not recorded",
        ctx.count(n),
        ctx.short(input),
        ctx.short(short),
        ctx.short(long),
        ctx.short(read),
        prompt ? ctx.share(read, prompt) : "",
        ctx.short(output),
        ctx.money(cost),
        whole && cost !== null ? ctx.share(cost, whole) : "",
      ];
    });
    const heads = [["Model", "name"], ["Calls", "n"], ["Fresh input", "n.hide-s"], ["Written, 5 min", "n.hide-s"], ["Written, 1 h", "n.hide-s"], ["From cache", "n.hide-s"], ["Cached", "n"], ["Output", "n.hide-s"], ["Cost", "n.strong"], ["Share", "n.hide-s"]];
    return el("div", grid(heads, rows), detail.threads.length ? threads(detail.threads, whole) : null);
  }

  function threads(list, whole) {
    const rows = list.map(([number, kind, agent, n, prompt, output, cost]) => [
      el("span", `${number + 1}. ${kind}`, agent ? el("span.under", agent) : null),
      ctx.count(n),
      ctx.short(prompt),
      ctx.short(output),
      ctx.money(cost),
      whole && cost !== null ? ctx.share(cost, whole) : "",
    ]);
    const heads = [["Thread", "name"], ["Calls", "n"], ["Prompts", "n.hide-s"], ["Output", "n.hide-s"], ["Cost", "n.strong"], ["Share", "n.hide-s"]];
    return el("div.apart", el("p.note", "By thread; a call belongs to the thread that made it."), grid(heads, rows));
  }

  // A button that shows the events something rests on; words alone where none of them is in this chunk.
  function toEvidence(name, places, total, show) {
    if (!places.length) return total ? el("span.muted", `${ctx.plural(total, "event")}, not on this page`) : "";
    const button = el("button.link", ctx.plural(places.length, "event"));
    button.type = "button";
    button.addEventListener("click", () => show(name));
    return button;
  }

  function signals(session, detail, _, show) {
    if (!detail.signals.length) return empty("No signal has been measured for this session yet.");
    const read = new Map(detail.signals.map((row) => [row[0], row]));
    const drawn = el("div.loading", "Loading");
    ctx.panel("readings").then((known) => {
      const rows = known.filter(([name]) => read.has(name)).map(([name, kind, unit, what]) => {
        const [, value, label, confidence, reason, places = [], total = 0] = read.get(name);
        return [
          el("span", el("span.named", ctx.signalWords(name)), el("span.under", what)),
          value === null && !label ? el("span.muted", reason || "not measured") : kind === "boolean" ? (value ? "yes" : "no") : label || ctx.reading(value, unit),
          toEvidence(name, places, total, show),
          `${Math.round(confidence * 100)}%`,
        ];
      });
      drawn.className = "";
      drawn.replaceChildren(grid([["Signal", ""], ["Reading", "n.wraps"], ["Evidence", "n"], ["Confidence", "n.hide-s"]], rows));
    });
    return drawn;
  }

  function memories(session, detail, _, show) {
    if (!detail.memories.length) return empty("No lesson rests on this session.");
    const items = detail.memories.map(([name, places]) => {
      const [kind, text, status] = told(name);
      const meta = el("p.meta", el("b", kind.replaceAll("_", " ")), el("span.status", status.replaceAll("_", " ")));
      return el("li", meta, el("p.text", text), el("p.note", places.length ? "Evidence: " : "Its evidence is not on this page.", toEvidence(name, places, 0, show)));
    });
    return el("ul.memories", items);
  }
})();
