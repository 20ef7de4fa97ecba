// Trajectory figures of all sessions: a theme's columns, the median of each agent's that are shown, and every session below it.
"use strict";
ctx.near("scores", (body, { signals, rows }) => {
  const { el } = ctx;
  const short = (name) => name.replace(/^trajectory_/, "");
  const THEMES = [
    ["shape", "Shape", ["step_count", "phase_coverage", "phase_transition_count", "sequence_entropy", "balance_score", "exploration_ratio"]],
    ["again", "Repetition", ["4gram_repetition_ratio", "consecutive_repetition_count", "max_repetition_run", "repeated_action_without_progress", "action_redundancy"]],
    ["checks", "Validation", ["validation_presence", "fix_without_validation_count", "fix_validation_latency_steps", "test_fix_loop_count", "premature_finish_without_validation"]],
    ["mends", "Recovery", ["failure_ignored_count", "failed_result_recovery_steps", "error_to_search_or_edit_ratio", "result_token_reuse_ratio"]],
    ["acts", "Actions", signals.map(([name]) => short(name)).filter((name) => name.startsWith("action_ratio_"))],
  ];
  const named = new Set(THEMES.flatMap(([, , names]) => names));
  THEMES.push(["rest", "Others", signals.map(([name]) => short(name)).filter((name) => !named.has(name))]);
  const place = new Map(signals.map(([name], i) => [short(name), i + 1]));
  const sessions = rows.map((row) => ({ row, session: ctx.session ? ctx.session(row[0]) : null })).filter(({ session }) => session);
  const newest = sessions.reduce((last, { session }) => Math.max(last, session.start ?? 0), 0);
  const days = ctx.period(draw, newest ? ctx.when(newest, "iso") : "");
  const projects = [...new Set(sessions.map(({ session }) => session.project))].sort();
  const project = ctx.choice("Project", [["", "All projects"], ...projects.filter(Boolean).map((name) => [name, name])], draw);
  const themes = THEMES.filter(([, , names]) => names.some((name) => place.has(name)));
  const theme = ctx.tabs("Figures", themes.map(([value, text]) => [value, text]), draw);
  const table = el("div");
  body.append(el("div.filters", ...days.nodes, el("label", project)), theme.node, table);

  function median(values) {
    const known = values.filter((value) => value !== null).sort((a, b) => a - b);
    if (!known.length) return null;
    const middle = known.length >> 1;
    return known.length % 2 ? known[middle] : (known[middle - 1] + known[middle]) / 2;
  }

  function draw() {
    if (!theme.value()) return;
    const names = THEMES.find(([value]) => value === theme.value())[2].filter((name) => place.has(name));
    const found = sessions.filter(({ session }) => days.holds(session.start === null ? null : ctx.when(session.start, "iso")) && (!project.value || session.project === project.value));
    const shown = (name, value) => {
      const [, kind, unit] = signals[place.get(name) - 1];
      if (value === null) return el("span.muted", "\u2013");
      if (kind === "boolean") return value === 0 || value === 1 ? (value ? "yes" : "no") : ctx.reading(value, "share");
      return unit === "ratio" ? ctx.reading(value, unit) : ctx.short(value);
    };
    const columns = [
      {
        name: "Session",
        kind: "name",
        first: "up",
        key: ({ session }) => (session.title || session.id).toLowerCase(),
        cell: ({ session }) => {
          const link = el("a", session.title || session.id);
          link.href = `#session-${session.key}`;
          return [link, el("span.under", [session.project, ctx.when(session.start, "day")].filter(Boolean).join(" / "))];
        },
      },
      ...names.map((name) => ({
        name: ctx.signalWords(signals[place.get(name) - 1][0]).replace(/^action ratio /, ""),
        kind: "n.tight",
        title: signals[place.get(name) - 1][3],
        key: ({ row }) => row[place.get(name)],
        cell: ({ row }) => shown(name, row[place.get(name)]),
      })),
    ];
    const agents = [...new Set(found.map(({ session }) => session.hostTitle))].sort();
    const medians = agents.map((agent) => {
      const own = found.filter(({ session }) => session.hostTitle === agent);
      const words = `Median of ${ctx.plural(own.length, agents.length > 1 ? `${agent} session` : "session")}`;
      return [words, ...names.map((name) => shown(name, median(own.map(({ row }) => row[place.get(name)]))))];
    });
    const made = ctx.grid({ columns, page: 12, by: 1, label: "Trajectory figures by session", empty: "No session fits.", summary: medians });
    made.show(found);
    table.replaceChildren(made.node);
  }

  theme.press(themes[0][0]);
});
