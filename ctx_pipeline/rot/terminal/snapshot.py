"""Everything that the view shows of one session, read at one time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ctx_pipeline.facts.windows import ASSUMED, window_size
from ctx_pipeline.model.display import visible
from ctx_pipeline.rot.analysis import analyze_session
from ctx_pipeline.rot.content import decoded
from ctx_pipeline.rot.context_growth import layers
from ctx_pipeline.rot.repetition import ONSET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# The calls of a session as the tree in which the program made them.


@dataclass
class Node:
    """A call: its kind (module, lm_call, tool_call), what the log says of it, and the calls that it made."""

    kind: str
    call_id: str | None
    body: dict[str, Any]
    children: list[Node] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The module, tool or model."""
        return str(self.body.get("module") or self.body.get("tool") or self.body.get("model") or self.kind)

    @property
    def error(self) -> str | None:
        """Why it failed, None when it did not."""
        return self.body.get("error")

    @property
    def tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of this call and all below it."""
        usage = self.body.get("usage") or {}
        below = [child.tokens for child in self.children]
        return (
            (usage.get("prompt_tokens") or 0) + sum(t[0] for t in below),
            (usage.get("completion_tokens") or 0) + sum(t[1] for t in below),
        )


def call_tree(log: Sequence[dict[str, Any]]) -> list[Node]:
    """Return the outermost calls of a session's log, in the order in which they began.

    A call whose parent has no row stands outermost. Modules begin where their first row
    stands; model and tool calls are written when they end and are put in by their beginning.
    """
    nodes: dict[str, Node] = {}
    order: list[tuple[int, str | None, Node]] = []
    for row in log:
        body = decoded(row["payload"])
        body = body if isinstance(body, dict) else {}
        call_id = row["call_id"]
        if row["kind"] == "module_end":
            if call_id in nodes and body.get("error"):
                nodes[call_id].body["error"] = body["error"]
        elif row["kind"] in {"module_start", "lm_call", "tool_call"}:
            node = Node("module" if row["kind"] == "module_start" else row["kind"], call_id, body)
            began = body.get("started")
            order.append((began if isinstance(began, int) else row["at"], row["parent_call_id"], node))
            if call_id is not None:
                nodes[call_id] = node
    roots: list[Node] = []
    for _, parent, node in sorted(order, key=lambda entry: entry[0]):
        above = nodes.get(parent) if parent is not None and parent != node.call_id else None
        (roots if above is None else above.children).append(node)
    return roots


def safe(text: object) -> str:
    """Return text of a session without what a terminal would obey."""
    return visible(str(text))


@dataclass(frozen=True)
class Snapshot:
    """A session's figures and what is drawn from them."""

    session_id: str
    session: Mapping[str, Any]
    summary: Mapping[str, Any]
    layers: list[dict[str, Any]]
    tools: Mapping[int, list[dict[str, Any]]]
    tree: list[dict[str, Any]]
    calls: list[Node]
    """the calls as the program made them; empty where nothing says so"""
    analysis: Mapping[str, Any]
    window: int
    window_known: bool

    @property
    def nested(self) -> bool:
        """Whether the program's own tree says more than a list of its calls."""
        return any(node.children for node in self.calls)

    @property
    def is_rlm(self) -> bool:
        """Whether the session is a recursive one, shown as a tree first."""
        return any(row["call_type"] for row in self.tree)


def take(store: Any, session_id: str) -> Snapshot:
    """Return the state of a session now."""
    session = store.get_session(session_id) or {}
    growth = store.get_growth_data(session_id)
    tools = store.get_tools_by_iteration(session_id)
    model = growth[-1]["model"] if growth else session.get("model")
    largest = max((row["prompt_tokens"] or 0 for row in growth), default=0)
    window = window_size(session.get("context_window"), model, largest).tokens
    return Snapshot(
        session_id=session_id,
        session=session,
        summary=store.get_session_summary(session_id),
        layers=layers(growth, tools),
        tools=tools,
        tree=store.get_rlm_tree_data(session_id),
        calls=call_tree(store.get_log(session_id)) if hasattr(store, "get_log") else [],
        analysis=analyze_session(store, session_id),
        window=window or max(ASSUMED, largest),
        window_known=window is not None,
    )


def tool_costs(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return tool_name, calls, raw tokens (estimated) and context tokens (their part of what the prompt really gained), both on average.

    Of what a prompt has more than the one before, a tool's part is its share of the
    completion before and all raw outputs together.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    for before, after in zip(snapshot.layers, snapshot.layers[1:], strict=False):
        ran = snapshot.tools.get(before["seq"], [])
        raw = sum(t["output_tokens_est"] or 0 for t in ran)
        gained = max(0, after["prompt"] - before["prompt"])
        for tool in ran:
            own = tool["output_tokens_est"] or 0
            whole = before["output"] + raw
            found.setdefault(tool["tool_name"], []).append((own, own * gained / whole if whole else 0.0))
    rows = [
        {
            "tool_name": name,
            "calls": len(uses),
            "raw": sum(u[0] for u in uses) // len(uses),
            "context": round(sum(u[1] for u in uses) / len(uses)),
        }
        for name, uses in found.items()
    ]
    return sorted(rows, key=lambda r: -r["context"] * r["calls"])


# Charts and lists of the view as coloured text.


LAYERS = {"input": "#4e79a7", "reasoning": "#b07aa1", "tools": "#f28e2b", "output": "#59a14f"}
COMPRESSION = "#9c9c9c"
_LIMIT = "#e15759"
_GRID = (5, 20)


def chart(snapshot: Snapshot, width: int, height: int) -> Text:
    """Return stacked bars, one a call, the newest at the right; a red line where the window ends.

    The line stands when the tallest bar is above half of the window. A call whose prompt
    was compressed has a ▾ below it. More calls than columns: each bar is the last of several.
    """
    rows = snapshot.layers
    text = Text()
    if not rows:
        return text.append("no model calls yet", style="dim")
    high = max(_total(r) for r in rows) or 1
    limit = snapshot.window if high > snapshot.window / 2 else None
    high = max(high, int(snapshot.window * 1.05)) if limit else high
    left = max(8, len(f"{high:,}"))
    columns = max(1, width - left - 1)
    each = max(1, min(4, columns // len(rows)))
    if len(rows) > columns:
        step = -(-len(rows) // columns)
        rows = [rows[min(n + step, len(rows)) - 1] for n in range(0, len(rows), step)]
    limit_row = round(limit / high * height) - 1 if limit else None
    for level in reversed(range(height)):
        text.append(f"{int((level + 1) / height * high):>{left},} ", style="dim")
        for row in rows:
            style = _layer_at(row, (level + 0.5) / height * high)
            if level == limit_row and style is None:
                text.append("─" * each, style=_LIMIT)
            else:
                text.append(("█" * each if style else " " * each), style=style or "")
        text.append("\n")
    text.append(" " * (left + 1))
    for row in rows:
        text.append(("▾" if row["compression"] else "·").ljust(each), style=COMPRESSION)
    text.append("\n" + " " * (left + 1))
    for name, style in LAYERS.items():
        text.append("█ ", style=style).append(f"{name}  ")
    text.append("▾ ", style=COMPRESSION).append("compressed  ")
    if limit:
        text.append("─ ", style=_LIMIT).append(f"window {snapshot.window:,}")
    return text


def _total(row: Mapping[str, Any]) -> int:
    return sum(int(row[name]) for name in LAYERS)


def _layer_at(row: Mapping[str, Any], level: float) -> str | None:
    reached = 0
    for name, style in LAYERS.items():
        reached += row[name]
        if level < reached:
            return style
    return None


def grid(snapshot: Snapshot) -> Text:
    """Return 100 cells of the window after the last call, by what fills them, with a legend in percent."""
    text = Text()
    if not snapshot.layers:
        return text
    shares = shares_of_window(snapshot)
    cells = [style for name, style in LAYERS.items() for _ in range(round(shares[name]))]
    high, wide = _GRID
    cells = (cells + ["#3a3a3a"] * (high * wide))[: high * wide]
    for row in range(high):
        for style in cells[row * wide : (row + 1) * wide]:
            text.append("■ ", style=style)
        text.append("\n")
    for name, share in shares.items():
        text.append("■ ", style=LAYERS.get(name, "#3a3a3a")).append(f"{name} {share:.1f}%  ")
    return text


def shares_of_window(snapshot: Snapshot) -> dict[str, float]:
    """Return the percentages of the window that each layer fills after the last call, and what is free."""
    last = snapshot.layers[-1]
    shares = {name: last[name] / snapshot.window * 100 for name in LAYERS}
    return {**shares, "free": max(0.0, 100 - sum(shares.values()))}


def timeline(snapshot: Snapshot) -> Text:
    """Return one line a call: what the prompt was before, what was added, what came out."""
    text = Text()
    before: Mapping[str, Any] | None = None
    for number, row in enumerate(snapshot.layers, 1):
        text.append(f"#{row['seq']} ", style="bold")
        if row["compression"]:
            text.append(f"[compressed -> {row['prompt']:,}]", style=COMPRESSION)
        elif before is None:
            text.append(f"[{row['prompt']:,}]")
        else:
            ran = row["tools"] - before["tools"]
            text.append(f"[{before['prompt']:,} + {row['prompt'] - before['prompt'] - ran:,} + ")
            text.append(f"{ran:,}", style=LAYERS["tools"]).append(f" = {row['prompt']:,}]")
        text.append(f" -> {row['output']:,}", style=LAYERS["output"])
        names = ", ".join(safe(t["tool_name"]) for t in snapshot.tools.get(row["seq"], []))
        text.append(f"  {names}" if names else "", style=LAYERS["tools"])
        text.append(
            "  (final answer)\n" if number == len(snapshot.layers) and snapshot.session.get("terminal_state") else "\n", style="dim"
        )
        before = row if row["prompt"] else before
    return text


def tools(snapshot: Snapshot) -> Text:
    """Return one line a tool: calls, estimated tokens of an output, and what it really added to the context."""
    text = Text()
    for row in tool_costs(snapshot):
        text.append(safe(row["tool_name"]), style=LAYERS["tools"])
        text.append(
            f"  {row['calls']} {'call' if row['calls'] == 1 else 'calls'}, ~{row['raw']:,} tok -> ~{row['context']:,} tok in context\n"
        )
    return text or text.append("no tools\n", style="dim")


def rot(snapshot: Snapshot) -> Text:
    """Return the verdict with its reasons, and the scores of each call."""
    result = snapshot.analysis
    verdict = result["verdict"]
    text = Text(f"verdict: {verdict['severity']}\n", style="bold")
    for reason in verdict["reasons"]:
        text.append(f"  {safe(reason['text'])}\n")
    scores = {r["seq"]: r for r in result["repetition"] or ()}
    for row in result["efficiency"]:
        text.append(f"#{row['seq']:<5} efficiency {row['efficiency_ratio']:.4f}")
        score = scores.get(row["seq"])
        if score is not None:
            style = _LIMIT if score["ngram_jaccard"] > ONSET else ""
            text.append(
                f"  ngram {score['ngram_jaccard']:.3f}  seq {score['sequence_similarity']:.3f}  cumul {score['cumulative_max']:.3f}",
                style=style,
            )
        text.append("\n")
    return text


def bar(snapshot: Snapshot) -> Text:
    """Return the line at the bottom: window used, calls, tokens, cache, cost, time, repetition."""
    s, found = snapshot.summary, snapshot.analysis["summary"]
    parts = [
        snapshot.session.get("terminal_state") or "running",
        f"{s['max_prompt_tokens'] / snapshot.window:.1%} of {snapshot.window:,}",
        f"{s['total_calls']} calls",
        f"in {s['total_prompt']:,} out {s['total_completion']:,}",
        f"cache {s['cache_hit_pct']}%",
        f"${s['total_cost']:.4f}",
        f"{s['total_duration_ms'] / 1000:.1f} s",
        f"REP at #{found['onset_iteration']}"
        if found["repetition_detected"]
        else "REP: low"
        if snapshot.analysis["has_content"]
        else "REP: no content",
    ]
    text = Text(" │ ".join(parts))
    return text if snapshot.window_known else text.append(" │ unknown model", style=_LIMIT)


def label(node: Node) -> Text:
    """Return the line of a call in the tree: name, tokens with those below, cost, failure."""
    text = Text(safe(node.name), style=LAYERS["tools"] if node.kind == "tool_call" else "bold" if node.kind == "module" else "")
    sent, got = node.tokens
    if sent or got:
        text.append(f"  {sent:,}/{got:,}", style="")
    if node.body.get("cost") is not None:
        text.append(f"  ${node.body['cost']:.4f}")
    if node.body.get("output_tokens_est"):
        text.append(f"  +{node.body['output_tokens_est']:,} tok")
    kind = node.body.get("call_type")
    if kind:
        text.append(f"  [{kind} {node.body.get('iteration')}]", style="dim")
    completions = node.body.get("completions") or []
    if completions and isinstance(completions[0], str):
        text.append(f"  {_first(completions[0], 60)}", style="dim")
    if node.error:
        text.append(f"  failed: {safe(node.error)[:80]}", style=_LIMIT)
    return text


def branches(snapshot: Snapshot) -> list[tuple[Text, list[Text]]]:
    """Return the iterations of an RLM as labels, each with the labels below it: code, tools, sub-queries."""
    found: list[tuple[Text, list[Text]]] = []
    for row in snapshot.tree:
        if row["call_type"] == "sub_query" and found:
            found[-1][1].append(
                Text(f"sub_query #{row['seq']} {row['prompt_tokens']:,}/{row['completion_tokens']:,} {_first(row['completion'])}")
            )
            continue
        mark = " [extract]" if row["call_type"] == "extract" else ""
        name = f"Iter {row['iteration']}" if row["iteration"] is not None else f"Call {row['seq']}"
        cost = f"  ${row['cost']:.4f}" if row["cost"] is not None else ""
        label = Text(f"{name}  {row['prompt_tokens']:,}/{row['completion_tokens']:,}  {(row['duration_ms'] or 0) / 1000:.1f} s{cost}{mark}")
        below = [Text(_first(row["completion"]), style="dim")] if row["completion"] else []
        below += [
            Text(f"{safe(t['tool_name'])} +{t['output_tokens_est']:,} tok", style=LAYERS["tools"])
            for t in snapshot.tools.get(row["seq"], [])
        ]
        found.append((label, below))
    return found


def _first(text: Any, width: int = 80) -> str:
    lines: Sequence[str] = [line for line in safe(text or "").splitlines() if line.strip() and not line.startswith(("[[ ##", "```"))]
    return lines[0].strip()[:width] if lines else ""
