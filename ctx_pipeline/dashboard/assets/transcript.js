// A session as it went: what was said as prose, each tool call with its result, all of it as text nodes.
"use strict";
(() => {
  const { el, prose } = ctx;
  const SAID = new Set(["prompt", "answer"]);
  const QUIET = new Set(["attachment", "injected", "session_start", "session_end", "todo", "permission", "unknown", "title", "reasoning"]);
  const SHOWS = [["work", "Session"], ["said", "Conversation"], ["tool", "Tools"], ["failed", "Failures"], ["mark", "Evidence"], ["", "Every record"]];
  const TARGETS = ["command", "cmd", "file_path", "path", "notebook_path", "pattern", "query", "url", "description", "prompt"];

  // What a call is about, from its arguments; they may be cut, and then are no JSON any more.
  function target(text) {
    let found = null;
    try {
      const given = JSON.parse(text);
      if (given && typeof given === "object") {
        const name = TARGETS.find((key) => typeof given[key] === "string" || Array.isArray(given[key]));
        found = name ? [].concat(given[name]).join(" ") : null;
      }
    } catch {
      const cut = /"(?:command|cmd|file_path|path|pattern|query|url)":\s*"((?:[^"\\]|\\.){1,400})/.exec(text);
      if (cut) found = cut[1].replaceAll('\\"', '"').replaceAll("\\n", "\n").replaceAll("\\\\", "\\");
    }
    return found ?? text;
  }

  // Removed and added lines of an edit; null where the arguments are no edit or were cut.
  function edit(text) {
    let given;
    try {
      given = JSON.parse(text);
    } catch {
      return /^\*\*\* (Begin Patch|Update File|Add File)/m.test(text) ? patch(text) : null;
    }
    const lines = (part, sign) => (typeof part === "string" && part ? part.split("\n").map((line) => [sign, line]) : []);
    if (given && typeof given === "object" && "old_string" in given) return [...lines(given.old_string, "-"), ...lines(given.new_string, "+")];
    if (given && typeof given === "object" && typeof given.content === "string" && given.file_path) return lines(given.content, "+");
    const whole = given && typeof given === "object" ? given.input ?? given.patch : null;
    return typeof whole === "string" && whole.includes("*** Begin Patch") ? patch(whole) : null;
  }
  const patch = (text) => text.split("\n").map((line) => (/^[+-]/.test(line) ? [line[0], line.slice(1)] : [" ", line]));

  function changed(lines) {
    return el("pre.diff", lines.map(([sign, line]) => el(sign === "+" ? "span.added" : sign === "-" ? "span.removed" : "span", `${sign} ${line}\n`)));
  }

  const tail = (text, size) => (size > text.length ? el("span.cut", `${ctx.count(size - text.length)} more characters are not on this page`) : null);

  function folded(text, size, most, lines) {
    if (text.length <= most && text.split("\n").length <= lines) return el("pre", text, tail(text, size));
    const start = text.split("\n").slice(0, lines).join("\n").slice(0, most);
    return el("details", el("summary", el("pre", start, el("span.cut", " show all"))), el("pre", text, tail(text, size)));
  }

  // The transcript of a chunk; `marked` are positions of events that something rests on, `words` what that is.
  ctx.transcript = (detail, marked, words, cut) => {
    if (!detail.events.length) return el("p.empty", "No event was recorded.");
    const list = el("ol.timeline");
    const calls = new Map();
    const nodes = new Map();
    let expected = 0;
    for (const [pos, thread, ts, kind, , text, size, tool, failed, asked] of detail.events) {
      if (pos > expected) list.append(el("li.gap", `${ctx.plural(pos - expected, "event")} not shown`));
      expected = pos + 1;
      const name = /^[a-z_]+$/.test(kind) ? kind : "unknown";
      const call = kind === "tool_result" ? calls.get(asked) : null;
      if (call) {
        nodes.set(pos, call);
        if (failed) call.classList.add("failed");
        call.append(el(failed ? "div.result.failed" : "div.result", failed ? el("b", "failed") : null, text ? folded(text, size, failed ? 600 : 240, failed ? 10 : 4) : el("span.muted", "no output")));
        continue;
      }
      const meta = el("p.meta", el("b", kind === "tool_call" && tool ? tool : kind.replaceAll("_", " ")), thread ? el("span", `thread ${thread + 1}`) : null, el("time", ctx.when(ts, "clock")));
      const node = el(`li.${name}`, meta, text ? bodyOf(kind, text, size) : null);
      if (kind === "tool_call") calls.set(pos, node);
      if (failed) node.classList.add("failed");
      node.dataset.show = SAID.has(kind) ? "said" : kind.startsWith("tool_") ? "tool" : QUIET.has(kind) ? "quiet" : "other";
      nodes.set(pos, node);
      list.append(node);
    }
    if (detail.events_total > expected) list.append(el("li.gap", `${ctx.plural(detail.events_total - expected, "event")} not shown`));
    const marks = [...new Set(marked.map((pos) => nodes.get(pos)).filter(Boolean))];
    marks.forEach((node) => node.classList.add("marked"));
    const options = SHOWS.filter(([value]) => value !== "mark" || marks.length).filter(([value]) => value !== "failed" || list.querySelector(".failed"));
    const choices = ctx.tabs("What is shown", options, (value) => {
      list.dataset.only = value;
    });
    choices.press("work");
    const box = el("div", words ? evidence(words, marks) : null, cut, choices.node, list);
    box.reveal = () => marks.length && marks[0].scrollIntoView({ block: "center" });
    return box;
  };

  function evidence(words, marks) {
    let at = 0;
    const go = (way) => {
      at = (at + way + marks.length) % marks.length;
      marks[at].scrollIntoView({ block: "center" });
      marks[at].tabIndex = -1;
      marks[at].focus({ preventScroll: true });
    };
    const buttons = marks.length > 1 ? ["Previous", "Next"].map((text, i) => {
      const button = el("button", text);
      button.type = "button";
      button.addEventListener("click", () => go(i ? 1 : -1));
      return button;
    }) : [];
    return el("p.evidence", el("span", `${marks.length ? ctx.plural(marks.length, "event is", "events are") : "No event on this page is"} evidence of: `, el("b", words)), ...buttons);
  }

  function bodyOf(kind, text, size) {
    if (kind === "tool_call") {
      const lines = edit(text);
      if (lines && lines.length) return el("div", el("pre.asked", short(target(text), 400)), lines.length > 14 ? el("details", el("summary", changed(lines.slice(0, 6)), el("span.cut", `show ${ctx.plural(lines.length, "line")}`)), changed(lines)) : changed(lines));
      const about = target(text);
      if (about === text) return folded(text, size, 240, 4);
      return el("details.arguments", el("summary", el("pre.asked", short(about, 400))), el("pre", text, tail(text, size)));
    }
    if (!SAID.has(kind)) return folded(text, size, QUIET.has(kind) ? 160 : 400, QUIET.has(kind) ? 2 : 6);
    if (text.length <= 900) return el("div", prose(text), tail(text, size));
    return el("details", el("summary", prose(text.slice(0, 600)), el("span.cut", "show all")), prose(text), tail(text, size));
  }
  const short = (text, most) => (text.length > most ? `${text.slice(0, most)}\u2026` : text);
})();
