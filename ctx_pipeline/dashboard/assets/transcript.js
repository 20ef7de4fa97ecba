// A session as it went, turn by turn: pieces are unpacked as one comes near them; every word is a text node.
"use strict";
(() => {
  const { el, prose } = ctx;
  const SAID = new Set(["prompt", "answer"]);
  const OF_PERSON = new Set(["permission", "injected"]);
  const QUIET = new Set(["attachment", "injected", "session_start", "session_end", "todo", "permission", "unknown", "title", "reasoning", "subagent_start", "subagent_end"]);
  const SHOWS = [["work", "Session"], ["said", "Conversation"], ["prompt", "Prompts"], ["tool", "Tools"], ["failed", "Failures"], ["mark", "Evidence"], ["", "Every record"]];
  const TARGETS = ["command", "cmd", "file_path", "path", "notebook_path", "pattern", "query", "url", "description", "prompt", "skill"];
  const [LONG, SUMMARY, HEAD, REPEATS] = [6000, 160, 130, 4];

  // What a call is about, from its arguments.
  function target(text) {
    try {
      const given = JSON.parse(text);
      if (given && typeof given === "object") {
        const name = TARGETS.find((key) => typeof given[key] === "string" || Array.isArray(given[key]));
        if (name) return [].concat(given[name]).join(" ");
      }
    } catch {
      // a command as it was typed
    }
    return text;
  }

  // The same in a line: a patch by the files that it changes, a script by the call that it makes; arguments that name nothing one by one, those of few words alone.
  function asked(text) {
    const about = target(text).trim();
    const files = about.includes("*** Begin Patch") ? [...about.replaceAll("\\n", "\n").matchAll(/^\*\*\* (Add|Update|Delete) File: (.+)$/gm)] : [];
    if (files.length) return files.map(([, verb, path]) => `${verb.toLowerCase()} ${path.trim()}`).join(", ");
    if (about === text.trim() && about.startsWith("{")) {
      try {
        const given = Object.entries(JSON.parse(about)).filter(([, value]) => value !== null && value !== "" && typeof value !== "object");
        if (given.length || about === "{}") return given.map(([name, value]) => `${name}: ${String(value).split("\n")[0]}`).join(", ");
      } catch {
        // no arguments, but words
      }
    }
    const scripted = /^(?:(?:const|let|var)\s+\w+\s*=\s*)?await\s+\w+\.(?=\w+\()/.exec(about);
    return scripted ? about.slice(scripted[0].length).replace(/\s+/g, " ") : about.split("\n")[0];
  }

  // Removed and added lines of an edit; null where the arguments are no edit.
  function edit(text) {
    let given;
    try {
      given = JSON.parse(text);
    } catch {
      return /^\*\*\* (Begin Patch|Update File|Add File)/m.test(text) ? patch(text) : null;
    }
    const lines = (part) => (typeof part === "string" && part ? part.split("\n") : []);
    if (given && typeof given === "object" && Array.isArray(given.edits)) return given.edits.flatMap((one) => (one && typeof one === "object" ? compared(lines(one.old_string), lines(one.new_string)) : []));
    if (given && typeof given === "object" && "old_string" in given) return compared(lines(given.old_string), lines(given.new_string));
    if (given && typeof given === "object" && typeof given.content === "string" && given.file_path) return lines(given.content).map((line) => ["+", line]);
    const whole = given && typeof given === "object" ? given.input ?? given.patch : null;
    return typeof whole === "string" && whole.includes("*** Begin Patch") ? patch(whole) : null;
  }
  // Lines of two texts as removed, added and kept: the longest common lines stay, of long texts those at both ends.
  function compared(before, after) {
    let [head, tail] = [0, 0];
    const least = Math.min(before.length, after.length);
    while (head < least && before[head] === after[head]) head += 1;
    while (tail < least - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
    const [old, fresh] = [before.slice(head, before.length - tail), after.slice(head, after.length - tail)];
    const kept = (part) => part.map((line) => [" ", line]);
    return [...kept(before.slice(0, head)), ...(old.length * fresh.length > 250_000 ? [...old.map((line) => ["-", line]), ...fresh.map((line) => ["+", line])] : woven(old, fresh)), ...kept(before.slice(before.length - tail))];
  }
  function woven(old, fresh) {
    const wide = fresh.length + 1;
    const most = new Uint16Array((old.length + 1) * wide);
    for (let i = old.length - 1; i >= 0; i -= 1) for (let j = fresh.length - 1; j >= 0; j -= 1) most[i * wide + j] = old[i] === fresh[j] ? most[(i + 1) * wide + j + 1] + 1 : Math.max(most[(i + 1) * wide + j], most[i * wide + j + 1]);
    const found = [];
    let [i, j] = [0, 0];
    while (i < old.length || j < fresh.length) {
      if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
        found.push([" ", old[i]]);
        [i, j] = [i + 1, j + 1];
      } else if (j >= fresh.length || (i < old.length && most[(i + 1) * wide + j] >= most[i * wide + j + 1])) found.push(["-", old[i++]]);
      else found.push(["+", fresh[j++]]);
    }
    return found;
  }
  const patch = (text) => text.split("\n").map((line) => (/^[+-]/.test(line) ? [line[0], line.slice(1)] : [" ", line]));
  const changed = (lines) => el("pre.diff", lines.map(([sign, line]) => el(sign === "+" ? "span.added" : sign === "-" ? "span.removed" : "span", `${sign} ${line}\n`)));
  const short = (text, most) => (text.length > most ? `${text.slice(0, most)}\u2026` : text);

  // A long text shows its beginning and, behind a button, the rest.
  function long(text, draw = (words) => el("pre", words)) {
    if (text.length <= LONG) return draw(text);
    const box = el("div", draw(text.slice(0, LONG)));
    const more = el("button.link.more", `${ctx.count(text.length - LONG)} more characters`);
    more.type = "button";
    more.addEventListener("click", () => box.replaceChildren(draw(text)));
    box.append(more);
    return box;
  }

  // A part that is filled when it is opened for the first time.
  function folded(kind, summary, fill, open = false) {
    const box = el(`details.${kind}`, el("summary", summary));
    let filled = false;
    box.fill = () => {
      if (!filled) box.append(...[fill()].flat());
      filled = true;
    };
    box.addEventListener("toggle", () => box.open && box.fill());
    if (open) {
      box.fill();
      box.open = true;
    }
    return box;
  }

  // A session without a transcript yet; `again` looks whether it has been drawn meanwhile.
  ctx.notDrawn = (again) => {
    const button = el("button", "Look again");
    button.type = "button";
    button.addEventListener("click", again);
    return el("div.empty", el("p", "The conversation of this session is not on the page yet. This command adds it, with the page open: ", ctx.command("ctx open")), el("p", button));
  };

  // The transcript of a chunk. `marked` are positions that something rests on, `words` what that is, `place` where to begin.
  ctx.transcript = (session, detail, chunk, marked, words, place) => {
    const told = detail.transcript;
    if (!told.total) return el("p.empty", "No event was recorded.");
    const list = el("div.timelines");
    const slots = told.pieces.map(([first, last, count], i) => {
      const slot = el("ol.timeline.waiting");
      slot.style.minHeight = `${Math.min(6000, 40 * count)}px`;
      return { slot, first, last, number: i, items: null, wanted: null };
    });
    list.append(...slots.map((one) => one.slot));
    const turns = new Map(told.turns.map((turn, i) => [turn[0], [i + 1, ...turn]]));
    const marks = new Set(marked);
    const nodes = new Map();
    const watch = new IntersectionObserver((seen) => seen.forEach((one) => one.isIntersecting && draw(slots.find((s) => s.slot === one.target))), { root: document.getElementById("session"), rootMargin: "1200px 0px" });

    async function rows(one) {
      if (!one.items) {
        const [, , , , file, at] = told.pieces[one.number];
        const held = file === "" ? detail.inline : await ctx.load(`${chunk}-${file}`);
        one.items = held[at];
      }
      return one.items;
    }

    function draw(one) {
      one.wanted ??= rows(one).then(
        (items) => {
          const threads = new Map([[0, one.slot]]);
          let open = one.slot;
          let inside = 0;
          const models = new Map();
          const again = repeats(items);
          let [run, end] = [null, 0];
          for (const [at, item] of items.entries()) {
            const [pos, , thread, , kind] = item;
            if (thread !== inside) {
              inside = thread;
              open = thread ? agent(threads, thread, item) : one.slot;
            }
            if (thread === 0 && turns.has(pos)) open.append(turn(turns.get(pos), item));
            const node = line(item, models.get(thread));
            if (item[6].u) models.set(thread, item[6].u[0]);
            node.dataset.show = SAID.has(kind) || item[6].img ? "said" : kind.startsWith("tool_") ? "tool" : QUIET.has(kind) ? "quiet" : "other";
            if (marks.has(pos)) node.classList.add("marked");
            node.dataset.pos = pos;
            nodes.set(pos, node);
            if (again.has(at)) {
              end = again.get(at);
              run = repeated(items.slice(at, end));
              open.append(run);
            }
            (at < end ? run.querySelector("ol") : open).append(node);
          }
          one.slot.style.minHeight = "";
          one.slot.classList.remove("waiting");
          watch.unobserve(one.slot);
          finder.repaint();
        },
        (error) => one.slot.replaceChildren(el("li.gap", ctx.lost("This part", error))),
      );
      return one.wanted;
    }

    // Where the same call was made again and again and passed, as by an agent that waits: place of the first -> place after the last.
    function repeats(items) {
      const found = new Map();
      for (let at = 0; at < items.length; at += 1) {
        const [, , thread, , , text, { tool }] = items[at];
        const same = (other) => other[4] === "tool_call" && other[5] === text && other[6].tool === tool && (other[6].state ?? "passed") === "passed" && "r" in other[6];
        const silent = (other) => QUIET.has(other[4]) && !OF_PERSON.has(other[4]);
        if (!same(items[at])) continue;
        let [calls, end] = [1, at + 1];
        for (let i = end; i < items.length && items[i][2] === thread && !turns.has(items[i][0]) && (same(items[i]) || silent(items[i])); i += 1) if (same(items[i])) [calls, end] = [calls + 1, i + 1];
        if (calls < REPEATS) continue;
        found.set(at, end);
        at = end - 1;
      }
      return found;
    }

    // One line for calls that are the same; they are inside it.
    function repeated(items) {
      const calls = items.filter(([, , , , kind]) => kind === "tool_call");
      const took = calls.reduce((sum, [, , , , , , more]) => sum + (more.took || 0), 0);
      const head = [el("b", calls[0][6].tool || "tool call"), ` ${ctx.plural(calls.length, "time")} `, el("code.asked", short(asked(calls[0][5]), SUMMARY)), took > 999 ? el("span.took", ctx.duration(took / 1000)) : null, el("time", ctx.when(calls[0][3], "clock"))];
      const node = el("li.repeated", el("details.call", el("summary", head), el("ol.timeline")));
      node.dataset.show = "tool";
      return node;
    }

    // The list of a subagent's thread, inside the list that it was started from.
    function agent(threads, thread, item) {
      if (threads.has(thread)) return threads.get(thread);
      const [kind, name] = told.threads[thread] || ["thread", ""];
      const inner = el("ol.timeline");
      const box = el("details.agent", el("summary", el("b", `${kind.charAt(0).toUpperCase()}${kind.slice(1)}${name ? ` ${name}` : ""}`), " ", el("span.muted", short(item[5].trim() || `thread ${thread + 1}`, 120))), inner);
      const node = el("li.thread", box);
      node.dataset.show = "tool";
      const around = [...threads.values()].at(-1);
      around.append(node);
      threads.set(thread, inner);
      return inner;
    }

    // The link to an event; it is copied when it is pressed.
    function anchor(pos, mark, node, label) {
      const link = el("a.anchor", "#");
      link.href = `#session-${session.key}.e${pos}-${mark}`;
      link.title = label;
      link.setAttribute("aria-label", label);
      link.addEventListener("click", (event) => {
        event.preventDefault();
        history.replaceState(null, "", link.href);
        const copied = () => {
          link.textContent = "copied";
          setTimeout(() => (link.textContent = "#"), 1200);
        };
        if (navigator.clipboard) navigator.clipboard.writeText(link.href).then(copied, () => {});
        if (node) show(node);
      });
      return link;
    }

    function turn([number, , , ended, why, calls, tools, output, cost], item) {
      const state = { answered: "", open: "no final answer", interrupted: "stopped by you", failed: "failed" }[ended] ?? ended;
      const said = [calls ? ctx.plural(calls, "model call") : "", tools ? ctx.plural(tools, "tool call") : "", output ? `${ctx.short(output)} tokens out` : "", cost === null ? "" : ctx.money(cost)].filter(Boolean).join(", ");
      const node = el("li.turn", el("h3", `Turn ${number}`), el("span", said), state ? el(ended === "failed" || ended === "interrupted" ? "span.alert" : "span", why && ended !== "open" ? `${state}: ${why}` : state) : null, el("time", ctx.when(item[3], "minute")), anchor(item[0], item[1], null, "Copy the link to this turn"));
      node.dataset.turn = number;
      return node;
    }

    function line(item, before) {
      const [pos, mark, , at, kind, text, more] = item;
      const name = /^[a-z_]+$/.test(kind) ? kind : "unknown";
      const node = el(`li.${name}`);
      node.tabIndex = -1;
      const link = anchor(pos, mark, node, "Copy the link to this event");
      if (kind === "tool_call") {
        node.append(call(item, node, before), link);
        return node;
      }
      const meta = el("p.meta", el("b", kind.replaceAll("_", " ")), usage(more.u, before), el("time", ctx.when(at, "clock")), link);
      if (SAID.has(kind)) node.append(meta, long(text, prose));
      else if (more.img) node.append(meta, picture(more.img));
      else if (kind === "error" || kind === "compaction") node.append(meta, long(text));
      else if (text) node.append(folded("quiet", [el("b", kind.replaceAll("_", " ")), " ", el("span.muted", short(text.trim().split("\n")[0], 110)), link], () => long(text)));
      else node.append(meta);
      return node;
    }

    // Tokens and cost of the model call behind an event; its model where it is another one than before.
    function usage(u, before) {
      if (!u) return null;
      const [model, context, input, written, read, output, cost, owner] = u;
      const name = told.models[model] || "model";
      const box = el("span.usage", model === before ? "" : el("span", name), el("span", `${ctx.short(context)} in, ${ctx.short(output)} out`), owner ? (cost === null ? "" : el("span", ctx.money(cost))) : el("span", "counted in the session it was copied from"));
      box.title = `${name}: ${ctx.short(input)} fresh, ${ctx.short(written)} written to the cache, ${ctx.short(read)} read from it`;
      return box;
    }

    function call(item, node, before) {
      const [, , , at, , text, more] = item;
      const bad = more.state === "failed";
      if (bad) node.classList.add("failed");
      const said = bad ? `${more.exit ? `exit ${more.exit}` : "failed"}${more.why ? `: ${short(more.why, 90)}` : ""}` : { refused: "refused", running: "still running" }[more.state] || "";
      const head = [el("b", more.tool || "tool call"), " ", el("code.asked", short(more.ran ? more.ran.trim().replaceAll("\n", "; ") : asked(text), SUMMARY)), said ? el(bad ? "span.state.alert" : "span.state", said) : null, more.took > 999 ? el("span.took", ctx.duration(more.took / 1000)) : null, usage(more.u, before), el("time", ctx.when(at, "clock"))];
      return folded("call", head, () => {
        const lines = edit(text);
        const about = more.ran || target(text);
        const asked = lines && lines.length ? [about === text || about.length <= SUMMARY ? null : el("pre.asked", short(about, 2000)), changed(lines.slice(0, 4000))] : [el("pre.asked", short(about, 20000))];
        if (about !== text && !lines) asked.push(folded("arguments", more.ran ? "The script that ran it" : "Arguments", () => long(text)));
        const result = "r" in more ? el(bad ? "div.result.failed" : "div.result", bad && more.why ? el("b", more.why) : null, more.r ? long(more.r) : el("span.muted", "no output")) : el("p.muted", "no result was recorded");
        return [...asked.filter(Boolean), result];
      });
    }

    function picture([media, file]) {
      const box = el("div.picture", el("span.muted", "Picture"));
      ctx.load(`${chunk}-${file}`).then(([data]) => {
        const image = document.createElement("img");
        image.alt = "Picture in the transcript";
        image.loading = "lazy";
        image.src = `data:${media};base64,${data}`;
        box.replaceChildren(image);
      }, () => {});
      return box;
    }

    const holding = (pos) => slots.findLast((one) => one.first <= pos) || slots[0];

    // Scrolls to an event, and opens what it is folded in; what is opened is added to `opened`.
    async function go(pos, opened = [], mark = null, block = "center") {
      let one = holding(pos);
      if (mark !== null && !(await rows(one)).some((item) => item[0] === pos && (item[1] === mark || item[6].m === mark))) {
        for (const other of slots) {
          const found = (await rows(other)).find((item) => item[1] === mark || item[6].m === mark);
          if (found) [one, pos] = [other, found[0]];
        }
      }
      await draw(one);
      const node = nodes.get(pos) || nodes.get([...nodes.keys()].filter((at) => at <= pos).sort((a, b) => a - b).at(-1));
      if (node) show(node, opened, block);
      return node;
    }

    function show(node, opened = [], block = "center") {
      const own = node.querySelector(":scope > details");
      for (let box = own || node.closest("details"); box; box = box.parentElement.closest("details")) {
        if (box.fill) box.fill();
        if (!box.open) opened.push(box);
        box.open = true;
      }
      for (const value of ["work", ""]) if (!node.offsetParent) choices.press(value);
      node.scrollIntoView({ block });
      node.focus({ preventScroll: true });
      list.querySelectorAll(".here").forEach((other) => other.classList.remove("here"));
      node.classList.add("here");
    }

    // The position that somebody looks at: the event that was gone to, while it is in view, else right before the first one in view.
    function looked() {
      const inView = (node) => {
        const { top, bottom } = node.getBoundingClientRect();
        return bottom > 0 && top < innerHeight;
      };
      const here = list.querySelector(".here");
      if (here && inView(here)) return Number(here.dataset.pos);
      const below = [...nodes.keys()].filter((pos) => nodes.get(pos).getBoundingClientRect().bottom > HEAD);
      const waiting = slots.filter((one) => !one.slot.isConnected || one.slot.getBoundingClientRect().bottom > HEAD).map((one) => one.first);
      return Math.min(...(below.length ? below : waiting)) - 0.5;
    }

    // Goes to the next prompt, or to the one before.
    function prompt(way) {
      const at = looked();
      const starts = told.turns.map((turn) => turn[0]);
      const pos = way > 0 ? starts.find((start) => start > at) : starts.findLast((start) => start < at);
      if (pos !== undefined) go(pos, [], null, "start");
    }

    const fold = () => list.querySelectorAll("details[open]").forEach((box) => (box.open = false));

    // Goes to a turn by the words that it began with.
    function outline() {
      if (told.turns.length < 2) return null;
      const select = el("select.outline", ctx.option("", ctx.plural(told.turns.length, "turn")), told.turns.map((turn, i) => ctx.option(String(turn[0]), `${i + 1}  ${turn[8] || ""}`)));
      select.setAttribute("aria-label", "Go to a turn");
      select.addEventListener("change", () => {
        if (select.value) go(Number(select.value));
        select.value = "";
      });
      return select;
    }

    const options = SHOWS.filter(([value]) => value !== "mark" || marked.length);
    const choices = ctx.tabs("What is shown", options, (value) => {
      list.dataset.only = value;
    });
    choices.press("work");
    const finder = ctx.finder(slots, rows, nodes, go, looked);
    slots.forEach((one) => watch.observe(one.slot));
    const shut = el("button.fold", "Fold all");
    shut.type = "button";
    shut.title = "Close every tool call, record and subagent";
    shut.addEventListener("click", fold);
    const box = el("div", words ? evidence(words, marked, go) : null, clock(told.clock), ctx.windowCurve(told, go), el("div.reading", choices.node, outline(), shut, finder), list);
    const only = () => choices.press(choices.value() === "prompt" ? "work" : "prompt");
    box.keys = { j: () => prompt(1), k: () => prompt(-1), p: only, c: fold, f: finder.focus, "/": finder.focus };
    box.reveal = async () => {
      if (marked.length) await go(marked[0]);
      else if (place) await go(place[0], [], place[1]);
    };
    return box;
  };

  // That times cannot be believed, where they are those of a copy or run backward.
  function clock([many, at, backward]) {
    if (!many && !backward) return null;
    const copied = many ? `${ctx.count(many)} events carry the time of a copy, ${ctx.when(at, "minute")}` : "";
    const back = backward ? `times run backward in ${ctx.plural(backward, "place")}${many ? "" : ", as where records were copied"}` : "";
    const said = [copied, back].filter(Boolean).join(", and ");
    return el("p.note.clock", `${said.charAt(0).toUpperCase()}${said.slice(1)}: events stand in the order of the record.`);
  }

  function evidence(words, marked, go) {
    let at = 0;
    const buttons = marked.length > 1 ? ["Previous", "Next"].map((text, i) => {
      const button = el("button", text);
      button.type = "button";
      button.addEventListener("click", () => {
        at = (at + (i ? 1 : -1) + marked.length) % marked.length;
        go(marked[at]);
      });
      return button;
    }) : [];
    return el("p.evidence", el("span", `${marked.length ? ctx.plural(marked.length, "event is", "events are") : "No event on this page is"} evidence of: `, el("b", words)), ...buttons);
  }
})();
