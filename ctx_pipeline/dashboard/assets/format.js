// What every script of the page shares: data that arrives, elements made of text, figures with units.
"use strict";
const ctx = (() => {
  const arrived = new Map();
  const waiting = new Map();
  const coming = new Map();

  function receive(name, value) {
    const tell = waiting.get(name);
    waiting.delete(name);
    arrived.set(name, value);
    if (tell) tell(value);
  }

  // Resolves with the data of a chunk; the file's name is a hash made by us, never a word from a transcript.
  const load = (name) => (/^[0-9a-f]{8,64}(-i?\d{1,5})?$/.test(name) ? opened(name, `data/${name}.js`) : Promise.reject(new Error("not a chunk")));
  const forget = (name) => arrived.delete(name);
  const words = (name) => (/^[0-9a-f]{24}$/.test(name) ? opened(`words-${name}`, `words/${name}.js`) : Promise.reject(new Error("not a piece")));
  const panel = (name) => fetched(`panel-${name}`, `panels/${name}.js`);

  // A file that holds its data as zlib, byte for byte; a web server that names a character set for it makes other signs of the bytes.
  const NAMED = "character set";
  async function opened(name, place) {
    const text = await fetched(name, place, "x-user-defined");
    if (/[^\u0000-\u00ff\uf780-\uf7ff]/.test(text)) throw new Error(NAMED);
    return inflated(text);
  }

  // Why a part cannot be shown.
  const lost = (what, error) =>
    error.message === NAMED
      ? "The web server of this page names a character set for files in data/ and words/, whose bytes are then read as other signs: it must name none."
      : `${what} is not there. The page was made anew meanwhile: load it again.`;

  function fetched(name, place, charset = "utf-8") {
    if (arrived.has(name)) return Promise.resolve(arrived.get(name));
    if (coming.has(name)) return coming.get(name);
    const promise = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      waiting.set(name, (value) => {
        arrived.set(name, value);
        script.remove();
        resolve(value);
      });
      script.onerror = () => {
        waiting.delete(name);
        script.remove();
        if (ctx.gone) ctx.gone();
        reject(new Error("missing"));
      };
      script.charset = charset;
      script.src = place;
      document.head.append(script);
    });
    coming.set(name, promise);
    return promise.finally(() => coming.delete(name));
  }

  // JSON from zlib, unpacked off the main thread by the browser; a byte is the low eight bits of a sign, as x-user-defined has it.
  function inflated(text) {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  // The part that a link led to: it stays in view while panels above it are drawn and grow, until somebody moves on.
  let aim = null;
  // A link of an earlier page, to a part that has moved to a page of its own.
  const moved = /^#[a-z_]+$/.test(location.hash) && !document.getElementById(location.hash.slice(1)) && document.querySelector(`nav a[data-panels~="${location.hash.slice(1)}"]`);
  if (moved) location.replace(moved.href + location.hash);
  // On a narrow screen the parts of the page are a strip: the one that is open stands in view.
  const current = document.querySelector("nav a[aria-current]");
  if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft - 28;
  const aimAt = (hash) => (aim = /^#[a-z_]+$/.test(hash) ? document.querySelector(`section${hash}`) : null);
  aimAt(location.hash);
  addEventListener("hashchange", () => aimAt(location.hash));
  for (const move of ["wheel", "touchmove", "pointerdown", "keydown"]) addEventListener(move, () => (aim = null), { passive: true });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) aimAt(link.hash);
  });

  // Calls back with a panel's body and data when somebody comes near it; says so in words when its file is gone.
  // Not before the list of sessions, the last script of the page, has run: panels link to sessions and use its time zone.
  function near(name, draw) {
    const body = document.querySelector(`#${name} .live`);
    if (!body) return;
    const begin = () => {
      watch.disconnect();
      panel(name).then(
        (value) => {
          body.replaceChildren();
          draw(body, value);
          body.classList.add("drawn");
          if (aim) aim.scrollIntoView();
        },
        () => body.replaceChildren(el("p.empty", "The data of this part is not there. The page was made anew meanwhile: load it again.")),
      );
    };
    const watch = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && begin(), { rootMargin: "900px 0px" });
    addEventListener("DOMContentLoaded", () => watch.observe(body));
  }

  function take(name, then) {
    if (arrived.has(name)) then(arrived.get(name));
    else {
      const before = waiting.get(name);
      waiting.set(name, (value) => {
        if (before) before(value);
        then(value);
      });
    }
  }

  // el("td.n", "text", child...): an element with classes; strings become text nodes and nothing else.
  function el(kind, ...children) {
    const [tag, ...classes] = kind.split(".");
    const node = document.createElement(tag);
    if (classes.length) node.className = classes.join(" ");
    for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
    return node;
  }

  const grouped = new Intl.NumberFormat("en-US");
  const count = (n) => grouped.format(n);

  function short(n) {
    for (const [scale, letter] of [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
      if (Math.abs(n) >= scale * 0.9995) return figures(n / scale) + letter;
    }
    return Number.isInteger(n) ? String(n) : figures(n);
  }

  function figures(n) {
    const size = Math.abs(n);
    return n.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  }

  function money(dollars) {
    if (dollars === null) return "no price";
    const cents = Math.round(Math.abs(dollars) * 100);
    const sign = dollars < 0 ? "-" : "";
    if (dollars && !cents) return `${sign}<$0.01`;
    return `${sign}$${(cents / 100).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
  }

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "";
    const whole = Math.floor(seconds);
    if (whole < 60) return (seconds < 10 && seconds % 1 ? seconds.toFixed(1) : whole) + " s";
    if (whole < 3600) return Math.floor(whole / 60) + " min";
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  }

  function size(octets) {
    for (const [scale, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (octets >= scale) return `${figures(octets / scale)} ${unit}`;
    return `${octets} B`;
  }

  function share(part, whole) {
    if (!whole) return "\u2013";
    return part > 0 && part / whole < 0.01 ? "<1%" : `${Math.round((100 * part) / whole)}%`;
  }

  function reading(value, unit) {
    if (["share", "ratio", "fraction"].includes(unit)) return share(value, 1);
    if (["s", "second", "seconds"].includes(unit)) return duration(value);
    if (unit === "dollars") return money(value);
    return short(value) + (unit ? ` ${value === 1 && unit.endsWith("s") ? unit.replace(/(?<=ch|sh)es$|s$/, "") : unit}` : "");
  }

  // British English has one month of four letters; the rest of the page has three.
  const month = (text) => text.replace("Sept", "Sep");

  let zone;
  const formats = new Map();
  function when(ms, style) {
    if (ms === null) return "";
    if (!formats.has(style)) {
      const wanted = {
        day: { day: "numeric", month: "short", year: "numeric" },
        minute: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
        iso: { day: "2-digit", month: "2-digit", year: "numeric" },
        clock: { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
      }[style];
      let format;
      try {
        format = new Intl.DateTimeFormat(style === "iso" ? "en-CA" : "en-GB", { ...wanted, timeZone: zone });
      } catch {
        format = new Intl.DateTimeFormat(style === "iso" ? "en-CA" : "en-GB", wanted);
      }
      formats.set(style, format);
    }
    return month(formats.get(style).format(ms));
  }
  const useZone = (name) => {
    zone = name || undefined;
    formats.clear();
  };

  const SIGNAL_WORDS = {
    trajectory_sequence_entropy: "variety of steps",
    trajectory_balance_score: "balance of looking and doing",
    active_seconds: "time at work",
    idle_seconds: "time idle",
    session_duration_seconds: "length of the session",
    shell_seconds: "time in the shell",
    time_to_first_edit_seconds: "time to first edit",
    mcp_call_count: "MCP call count",
    capture_gap_signal: "capture gap",
    interrupted_signal: "interrupted",
    secret_exposure_signal: "secret exposure",
    trajectory_4gram_repetition_ratio: "repeated runs of four steps",
    trajectory_4gram_top: "most repeated four steps",
    trajectory_failed_result_recovery_steps: "steps from failure to recovery",
    trajectory_fix_validation_latency_steps: "steps from fix to check",
    trajectory_fix_without_validation_count: "fixes without a check",
    trajectory_max_repetition_run: "longest repetition",
    trajectory_premature_finish_without_validation: "ended without a check",
    user_satisfaction_lexical: "satisfaction in prompts"
  };
  const signalWords = (name) => SIGNAL_WORDS[name] ?? name.replace(/^trajectory_/, "").replaceAll("_", " ");
  const plural = (n, noun, more) => `${count(n)} ${n === 1 ? noun : more || `${noun}s`}`;

  // A command that breaks between its words and not inside `--until`, and is copied when it is pressed.
  const command = (text) => copyable(el("code.command", text.split(" ").flatMap((word, i) => [i ? " " : "", el("span.word", word)])));

  // A command is copied when it is pressed; without a clipboard it is selected instead.
  function copyable(code) {
    code.tabIndex = 0;
    code.setAttribute("role", "button");
    code.title = "Copy";
    const copy = () => {
      getSelection().selectAllChildren(code);
      const done = () => {
        code.classList.add("copied");
        setTimeout(() => code.classList.remove("copied"), 1200);
      };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(done, () => {});
    };
    code.addEventListener("click", copy);
    code.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        copy();
      }
    });
    return code;
  }

  document.querySelectorAll("[data-copy]").forEach(copyable);
  return { receive, load, forget, lost, words, panel, near, take, el, count, short, money, duration, size, share, reading, month, when, useZone, plural, signalWords, command };
})();
