"""A window of a session as rows: its components, what they weigh, what two moments differ by."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.recorded import UNSEEN
from ctx_pipeline.context.tree.context import ContextHistory
from ctx_pipeline.context.tree.selectors.parsing import parse
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ctx_pipeline.context.recorded import Moment
    from ctx_pipeline.context.tree.component import Node
    from ctx_pipeline.context.tree.context import Context
    from ctx_pipeline.sessions.windows.window_history import SessionWindow
    from ctx_pipeline.settings import Settings


# What a selector means in the window of a session: in one moment, in all of them, or from one to the next.


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


SCHEMA = 1
"""Version of the JSON shapes of this page."""


def moment_row(moment: Moment) -> dict[str, Any]:
    """Return a moment: its name, how many components and tokens, and what of it no file holds.

    ``over_tokens`` is above 0 where more was counted than the call billed: the host had
    shortened something without a record of it.
    """
    sent = moment.sent
    return {
        "episode": moment.episode,
        "moment": moment.trigger,
        "seq": moment.seq,
        "time": iso(moment.at),
        "components": moment.components,
        "counted_tokens": moment.tokens,
        "unseen_tokens": sent.unseen if sent else None,
        "billed_tokens": sent.billed if sent else None,
        "over_tokens": max(0, sent.counted - sent.billed) if sent else 0,
    }


def component_rows(context: Context) -> list[dict[str, Any]]:
    """Return the components of a window in the order in which the model reads them."""
    return [component_row(node) for node in context.find(".block")]


def weights(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tokens by what they are (prompts, answers, results of each tool, unseen), the heaviest first, with their share."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["kind"] or "", row["tool"] or "")
        one = groups.setdefault(key, {"kind": key[0], "tool": key[1], "components": 0, "tokens": 0})
        one["components"] += 1
        one["tokens"] += row["tokens"]
    total = sum(one["tokens"] for one in groups.values())
    for one in groups.values():
        one["share"] = round(one["tokens"] / total, 4) if total else 0.0
    return sorted(groups.values(), key=lambda g: (-g["tokens"], g["kind"], g["tool"]))


def difference(window: SessionWindow, one: Moment, other: Moment, selector: str | None = None) -> dict[str, Any]:
    """Return what came, went and changed from the earlier of two moments to the later one, each as component rows.

    ``reordered`` says that the later moment was named first.
    """
    older, newer = sorted((one, other), key=lambda m: m.episode)
    change = window.history.diff(older.episode, newer.episode, selector)
    return {
        "from": moment_row(older),
        "to": moment_row(newer),
        "reordered": older is not one,
        **change_rows(change, window.context(older), window.context(newer)),
    }


def overview(window: SessionWindow) -> dict[str, Any]:
    """Return the session, its threads and every moment."""
    return {
        "schema": SCHEMA,
        "host": window.host,
        "session_id": window.session_id,
        "title": window.title,
        "thread_id": window.thread.thread_id,
        "model": window.model,
        "approximate": window.approximate,
        "largest_tokens": window.largest,
        "window_tokens": window.size.tokens,
        "window_source": window.size.source,
        "threads": [asdict(line) for line in window.threads],
        "moments": [moment_row(moment) for moment in window.moments],
    }


def export(window: SessionWindow, moment: Moment, path: Path | str, *, settings: Settings | None = None) -> dict[str, Any]:
    """Write a window to a file (0600, replaced whole) and return what it holds.

    A name that ends in ``.jsonl`` gets the whole history, which ``ContextHistory(path)``
    opens; any other the window at the moment, which ``Context.from_snapshot`` takes. The
    same session gives the same bytes. Raises StoreError for a file in the store or one
    that cannot be written.
    """
    import tempfile

    target = Path(path).absolute()
    with reading(settings) as (_, chosen):
        if target.resolve().is_relative_to(chosen.home.resolve()):
            raise StoreError(f"{target} lies in the store", hint="name a file outside it", path=str(target))
    whole = target.suffix == ".jsonl"
    partial = target
    try:
        handle, name = tempfile.mkstemp(prefix=".ctx-", dir=target.parent)
        os.close(handle)
        partial = Path(name)
        if whole:
            kept = ContextHistory(partial)
            for snapshot in window.history:
                kept.record(snapshot.tree, snapshot.trigger, at=snapshot.created_at)
        else:
            partial.write_text(window.context(moment).to_json() + "\n", encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}", hint="name another file", path=str(target)) from error
    finally:
        if partial != target:
            partial.unlink(missing_ok=True)
    return {"file": str(target), "snapshots": len(window.history) if whole else 1, "bytes": target.stat().st_size}


def component_text(row: dict[str, Any]) -> str:
    """Return what a component says, in words; what no file holds is named."""
    if row["kind"] == UNSEEN:
        return "system prompt, tool schemas, pictures, hidden reasoning, what a resumed session brought along: billed, and in no file"
    if row["kind"] == "result" and "cleared" in row.get("tags", ()):
        return "(cleared by the host)"
    text = row["text"]
    return text if isinstance(text, str) else "" if text is None else json.dumps(text, ensure_ascii=False)
