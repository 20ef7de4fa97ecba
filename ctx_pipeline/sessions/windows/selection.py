"""What a selector means in the window of a session: in one moment, in all of them, or from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.tree.selectors.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ctx_pipeline.context.recorded import Moment
    from ctx_pipeline.context.tree.context import Context
    from ctx_pipeline.context.tree.node import Node
    from ctx_pipeline.sessions.windows.history import SessionWindow


class Selection(NamedTuple):
    """The components that a selector means, or how they differ over a range of time."""

    moment: Moment
    """the window that was read; of several the last one"""
    every: bool
    """components of all windows up to that one"""
    rows: list[dict[str, Any]]
    differences: dict[str, Any] | None


def selected(window: SessionWindow, moment: Moment, selector: str) -> Selection:
    """Return what a selector means, seen from a moment: ``@t0`` is that moment, ``@t-1`` the one before it.

    A turn, a container or a region stands for what is in it. Over a range of time the
    differences between its windows come as ``select`` gives them, with the name of each
    moment and with components as rows. ``@*`` gives each component once, as the last
    window that holds it does, in the order of events. Raises InvalidSelector and
    UnknownSnapshot.
    """
    query = parse(selector)
    context = window.context(moment)
    found = context.select(selector)
    if query.ranged:
        return Selection(moment, False, [], _differences(window, moment, found))
    if not query.every:
        read = _moment(window, moment, query.moments[0].kind, query.moments[0].value)
        return Selection(read, False, rows_of(window.context(read), found), None)
    rows: dict[str, dict[str, Any]] = {}
    left = list(found)
    for past in reversed([m for m in window.moments if m.episode <= moment.episode]):
        there = window.context(past)
        nodes = there.nodes
        for row in rows_of(there, [name for name in left if name in nodes]):
            rows.setdefault(row["id"], row)
        left = [name for name in left if name not in nodes]
    return Selection(moment, True, sorted(rows.values(), key=lambda row: -1 if row["seq"] is None else row["seq"]), None)


def component_row(node: Node) -> dict[str, Any]:
    """Return one component: where it stands, which event it was, what it weighs, what it says."""
    from ctx_pipeline.model.codec import iso

    said = node.attributes
    return {
        "id": node.id,
        "place": [node.depth, *([] if node.depth == -1 else [0]), node.offset],
        "seq": said.get("data_seq"),
        "time": iso(node.created_at_ns // 1000) if "data_seq" in said else None,
        "role": node.role,
        "kind": node.kind,
        "tool": said.get("data_tool"),
        "tags": node.tags,
        "tokens": said.get("data_tokens", 0),
        "text": node.content,
    }


def rows_of(context: Context, ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return the components that ids name or that stand below them, each once."""
    nodes = context.nodes
    rows: dict[str, dict[str, Any]] = {}
    for name in ids:
        for node in _leaves(nodes[name]):
            if node.id not in rows:
                rows[node.id] = component_row(node)
    return list(rows.values())


def change_rows(change: dict[str, Any], before: Context, after: Context) -> dict[str, list[dict[str, Any]]]:
    """Return a difference by id (``{added, removed, changed}``) as component rows; what only moved is left out."""
    old, new = before.nodes, after.nodes
    changed = []
    for item in change["changed"]:
        name = item["id"]
        if new[name].structure == "block" and {*item["fields"]} - {"offset", "parent"}:
            weight = old[name].attributes.get("data_tokens", 0)
            changed.append({**component_row(new[name]), "fields": item["fields"], "tokens_before": weight})
    return {
        "removed": _only(rows_of(before, change["removed"]), new),
        "added": _only(rows_of(after, change["added"]), old),
        "changed": changed,
    }


def _only(rows: Sequence[dict[str, Any]], other: Collection[str]) -> list[dict[str, Any]]:
    """Return the rows of components that the other window does not hold: a turn that is new may hold an older message."""
    return [row for row in rows if row["id"] not in other]


def _differences(window: SessionWindow, moment: Moment, found: dict[str, Any]) -> dict[str, Any]:
    names = {ref["label"]: _moment(window, moment, ref["kind"], abs(ref["value"])) for ref in found["snapshots"]}

    def named(ref: dict[str, Any]) -> dict[str, Any]:
        return {**ref, "moment": names[ref["label"]].trigger, "seq": names[ref["label"]].seq}

    diffs = []
    for step in found["diffs"]:
        before, after = (window.context(names[step[end]["label"]]) for end in ("to", "from"))
        ids = {"added": step["added_ids"], "removed": step["removed_ids"], "changed": step["changed"]}
        rows = change_rows(ids, before, after)
        diffs.append({**step, "from": named(step["from"]), "to": named(step["to"]), "components": rows})
    return {**found, "snapshots": [named(ref) for ref in found["snapshots"]], "diffs": diffs}


def _moment(window: SessionWindow, here: Moment, kind: str, value: int | None) -> Moment:
    """Return the moment of a time that was found: of a cycle the last, else so many before ``here``."""
    past = [m for m in window.moments if m.episode < here.episode]
    if kind == "c":
        return next(m for m in reversed(past) if window.context(m).cycle == value)
    back = len(past) if value is None else value
    return past[-back] if back else here


def _leaves(node: Node) -> Iterable[Node]:
    if node.structure == "block":
        yield node
    for child in node.children:
        yield from _leaves(child)
