"""What changed between two trees, by node id."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.tree.node import header

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.record import Record
    from ctx_pipeline.context.tree.tree import Tree

_FIELDS = ("nodeType", "ttl", "cad", "priority", "key", "role", "kind", "created_at_ns", "creation_index", "content_hash")
_MADE = frozenset({"implied"})
MODES = ("unified", "jsonpatch", "tokens")


def compared(
    older: Tree,
    newer: Tree,
    *,
    only: tuple[set[str], set[str]] | None = None,
    labels: tuple[str, str] = ("older", "newer"),
    include_content: bool = False,
    content_mode: str = "unified",
    context_lines: int = 3,
) -> dict[str, Any]:
    """Return ``{added, removed, changed}``: ids in the newer tree's order (removed in the older's).

    A change names the id, the fields and their old and new values in ``delta``; a move
    adds ``parent_changed`` or ``offset_changed``. ``only`` limits the comparison to ids
    (of the older, of the newer). With ``include_content`` a changed content is shown as
    unified text, as a JSON patch, or as tokens (words).
    """
    old, new = older.view, newer.view
    keep_old, keep_new = only or (None, None)
    added = [r.id for r in new.records if r.id not in old.place and (keep_new is None or r.id in keep_new)]
    removed = [r.id for r in old.records if r.id not in new.place and (keep_old is None or r.id in keep_old)]
    if only is not None:
        added += [k for k in new.place if k in only[1] and k not in only[0] and k in old.place]
        removed += [k for k in old.place if k in only[0] and k not in only[1] and k in new.place]
        added.sort(key=new.place.__getitem__)
        removed.sort(key=old.place.__getitem__)
    changes = []
    for place, record in enumerate(new.records):
        before = old.place.get(record.id)
        if before is None or (only is not None and not (record.id in only[0] and record.id in only[1])):
            continue
        was = old.records[before]
        if was is record and old.offsets[before] == new.offsets[place]:
            continue
        change = _change(was, old.offsets[before], record, new.offsets[place])
        if change is None:
            continue
        if include_content and "content_hash" in change["fields"]:
            change["content_diff"] = content_diff(was, record, content_mode, labels, context_lines)
        changes.append(change)
    return {"added": added, "removed": removed, "changed": changes}


def _change(was: Record, was_offset: int, now: Record, offset: int) -> dict[str, Any] | None:
    delta: dict[str, Any] = {}
    for name in _FIELDS:
        if name == "content_hash" and was.body == now.body and was.extra == now.extra:
            continue
        before, after = header(was, was_offset, name), header(now, offset, name)
        if before != after:
            delta[name] = {"from": before, "to": after}
    if was.tags != now.tags:
        delta["tag"] = {"from": list(was.tags), "to": list(now.tags)}
    for name in sorted({*was.extra, *now.extra}):
        if was.extra.get(name) != now.extra.get(name):
            delta[name] = {"from": was.extra.get(name), "to": now.extra.get(name)}
    change: dict[str, Any] = {"id": now.id, "fields": [*delta]}
    if was.parent_id != now.parent_id:
        change["fields"].append("parent")
        change["parent_changed"] = {"previous_parent_id": was.parent_id, "new_parent_id": now.parent_id}
    if was_offset != offset:
        change["fields"].append("offset")
        change["offset_changed"] = {"previous_offset": was_offset, "new_offset": offset}
    if not change["fields"]:
        return None
    change["fields"].sort()
    change["delta"] = delta
    return change


def content_diff(was: Record, now: Record, mode: str, labels: tuple[str, str], context_lines: int = 3) -> dict[str, Any]:
    """Return how a content changed, in one of :data:`MODES`."""
    before, after = _text(was.body), _text(now.body)
    summary: dict[str, Any] = {
        "bytesNewer": len(after.encode()),
        "bytesOlder": len(before.encode()),
        "identical": before == after,
        "truncated": False,
    }
    if mode == "jsonpatch":
        patch = [
            {"op": op, "path": path} | ({} if op == "remove" else {"value": value}) for op, path, value in _patch(was.body, now.body, "")
        ]
        return {"mode": mode, "mime": "application/json", "summary": summary, "patch": patch}
    if mode == "tokens":
        old, new = before.split(), after.split()
        counted = {"tokensNewer": len(new), "tokensOlder": len(old), "identical": old == new, "truncated": False}
        hunk = {"from": {"start": 0, "end": len(new)}, "to": {"start": 0, "end": len(old)}, "ops": _word_ops(old, new)}
        return {"mode": mode, "mime": "text/plain", "tokenizer": "word", "summary": counted, "hunks": [hunk]}
    if mode != "unified":
        raise ValueError(f"there is no content mode {mode!r}; use one of {', '.join(MODES)}")
    names = (f"older({labels[0]})/{was.id}", f"newer({labels[1]})/{now.id}")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=context_lines)
    return {"mode": mode, "mime": "text/plain", "summary": summary, "diff": "\n".join(lines) + "\n"}


def _text(body: Any) -> str:
    return body if isinstance(body, str) else "" if body is None else json.dumps(body, sort_keys=True, ensure_ascii=False)


def _word_ops(old: list[str], new: list[str]) -> list[dict[str, Any]]:
    ops: list[dict[str, Any]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        match tag:
            case "equal":
                ops.append({"op": "keep", "count": b - a})
            case "insert":
                ops.append({"op": "ins", "ins": new[c:d]})
            case "delete":
                ops.append({"op": "del", "del": b - a})
            case _:
                ops.append({"op": "rep", "del": b - a, "ins": new[c:d]})
    return ops


def _patch(old: Any, new: Any, path: str) -> list[tuple[str, str, Any]]:
    """Return RFC 6902 operations that turn one JSON value into another."""
    if old == new and type(old) is type(new):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        ops: list[tuple[str, str, Any]] = []
        for name in sorted({*old, *new}):
            at = f"{path}/{str(name).replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                ops.append(("remove", at, None))
            elif name not in old:
                ops.append(("add", at, new[name]))
            else:
                ops += _patch(old[name], new[name], at)
        return ops
    if isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old:
        return [("add", f"{path}/-", value) for value in new[len(old) :]]
    return [("replace", path, new)]
