"""Snapshots of a context: taken in no time, kept by what changed, read as they were."""

from __future__ import annotations

import difflib
import json
import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import UnknownSnapshot
from ctx_pipeline.context.tree.component import header
from ctx_pipeline.context.tree.dump import dumped
from ctx_pipeline.context.tree.selectors.evaluation import matched
from ctx_pipeline.context.tree.selectors.parsing import parse
from ctx_pipeline.context.tree.tree import Snapshot
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.context.tree.context import Context
    from ctx_pipeline.context.tree.history_file import HistoryFile
    from ctx_pipeline.context.tree.selectors.parsing import Moment, Query
    from ctx_pipeline.context.tree.tree import Record, Tree


# What changed between two trees, by node id.


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


class History:
    """Trees by episode, in memory or in a file: kept, compared, and read by selectors of a moment or a range."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._snapshots: dict[int, Snapshot] = {}
        self._lock = threading.RLock()
        self._last = 0
        self._file: HistoryFile | None = None
        if path is not None:
            from ctx_pipeline.context.tree.history_file import HistoryFile

            self._file = HistoryFile(path)
            self._take_in()

    @property
    def snapshots(self) -> Snapshots:
        """Episode -> ``{episode, trigger, created_at, context}``, oldest first; ``del`` forgets one."""
        return Snapshots(self)

    def record(self, tree: Tree, trigger: str, *, after: int = 0, at: float | None = None) -> int:
        """Keep a tree and return its episode, above every one before and above ``after``; ``at`` is its time, seconds since 1970."""
        if not isinstance(trigger, str) or not trigger.strip():
            raise UsageError("a snapshot needs a trigger", hint='context.seal(trigger="before_tool_call")')
        with self._lock:
            if self._file is not None:
                with self._file.locked():
                    self._take_in()
                    return self._append(tree, trigger, after, at)
            return self._append(tree, trigger, after, at)

    def diff(self, older: int, newer: int, selector: str | None = None, **options: Any) -> dict[str, Any]:
        """Return what changed between two snapshots, by id: ``{added, removed, changed}``; see :func:`diff.compared`."""
        a, b = self.snapshot(older).tree, self.snapshot(newer).tree
        only = None
        if selector is not None:
            query = parse(selector)
            only = (_ids(a, query), _ids(b, query))
        return compared(a, b, only=only, labels=(str(older), str(newer)), **options)

    def by_trigger(self, trigger: str) -> list[int]:
        """Return the episodes of a trigger, oldest first."""
        return [episode for episode, snapshot in list(self._snapshots.items()) if snapshot.trigger == trigger]

    def __len__(self) -> int:
        return len(self._snapshots)

    def __repr__(self) -> str:
        episodes = list(self._snapshots)
        span = f", episodes {min(episodes)} to {max(episodes)}" if episodes else ""
        return f"<{type(self).__name__} of {len(episodes)} snapshot{'' if len(episodes) == 1 else 's'}{span}>"

    def __iter__(self) -> Iterator[Snapshot]:
        return iter([snapshot for _, snapshot in sorted(self._snapshots.items())])

    # -- selection over time ------------------------------------------------------------

    def select(self, query: Query, context: Context, **options: Any) -> Any:
        """Return the ids that a query means at its time, or the differences over its range."""
        if query.every:
            found: dict[str, None] = {}
            trees = [snapshot.tree for snapshot in self._before(context)]
            if context.read_only:  # it is a snapshot itself
                trees.append(context._tree)  # noqa: SLF001
            for tree in reversed(trees):
                found.update(dict.fromkeys(_ordered(tree, query)))
            return list(found)
        if query.ranged:
            return self._range(query, context, options)
        return _ordered(self._at(query.moments[0], context), query)

    def tree_of(self, selector: str, context: Context) -> Tree:
        """Return the tree that a selector of one moment reads."""
        query = parse(selector)
        if query.ranged or query.every:
            raise UsageError(f"{selector!r} means several snapshots", hint="use select()")
        return self._at(query.moments[0], context)

    def _range(self, query: Query, context: Context, options: dict[str, Any]) -> dict[str, Any]:
        states = self._states(query.moments, context, pair=query.pair)
        limit = options.pop("max_snapshots", None)
        truncated = limit is not None and len(states) > limit
        states = states[:limit] if truncated else states
        picked = [(ref, tree, set(_ordered(tree, query))) for ref, tree in states]
        diffs = []
        for (new_ref, newer, in_newer), (old_ref, older, in_older) in pairwise(picked):
            change = compared(older, newer, only=(in_older, in_newer), labels=(old_ref["label"], new_ref["label"]), **options)
            diffs.append(
                {
                    "from": new_ref,
                    "to": old_ref,
                    "added_ids": change["added"],
                    "removed_ids": change["removed"],
                    "changed": change["changed"],
                    "stats": {"added": len(change["added"]), "removed": len(change["removed"]), "changed": len(change["changed"])},
                }
            )
        result = {
            "query": query.text,
            "selector": query.text,
            "snapshots": [ref for ref, _, _ in picked],
            "diffs": diffs,
            "mode": "pairwise",
        }
        if query.pair and len(diffs) == 1:
            result |= diffs[0]  # the specification writes a pair flat, and a range as a list
        return result | ({"limits": {"maxSnapshots": limit, "truncated": True}} if truncated else {})

    def _states(self, moments: tuple[Moment, ...], context: Context, *, pair: bool) -> list[tuple[dict[str, Any], Tree]]:
        """Return the states of a range, newest first; what lies beyond the oldest snapshot is left out."""
        first, last = moments
        before = list(self._before(context))[::-1]
        if first.kind == "c":
            low, high = sorted((first.value or 0, last.value or 0))
            cycles = {s.tree.cycle for s in before}
            if not cycles or high > max(cycles):
                raise UnknownSnapshot(f"@c{high}", cycles, written="@c")
            chosen = [s for s in before if low <= s.tree.cycle <= high]
            seen: dict[int, Snapshot] = {}
            for snapshot in chosen:  # the newest snapshot of a cycle stands for it
                seen.setdefault(snapshot.tree.cycle, snapshot)
            return [(_ref("c", cycle, f"@c{cycle}", s.tree), s.tree) for cycle, s in seen.items()]
        ends = [len(before) if m.value is None else m.value for m in moments]
        low, high = min(ends), max(ends)
        if low > len(before):
            raise self._beyond(low, before)
        steps = [low, high] if pair else range(low, high + 1)
        tree = context._tree  # noqa: SLF001
        states = []
        for step in steps:
            if step == 0:
                states.append((_ref("t", 0, "@t0", tree), tree))
            elif step <= len(before):
                found = before[step - 1].tree
                states.append((_ref("t", -step, f"@t-{step}", found), found))
            elif pair:
                raise self._beyond(step, before)
        return states

    def _at(self, moment: Moment, context: Context) -> Tree:
        before = list(self._before(context))[::-1]
        if moment.kind == "c":
            found = next((s for s in before if s.tree.cycle == moment.value), None)
            if found is None:
                raise UnknownSnapshot(moment.label, (s.tree.cycle for s in before), written="@c")
            return found.tree
        if moment.value == 0:
            return context._tree  # noqa: SLF001
        number = len(before) if moment.value is None else moment.value
        if not 0 < number <= len(before):
            raise self._beyond(number, before)
        return before[number - 1].tree

    @staticmethod
    def _beyond(number: int, before: list[Snapshot]) -> UnknownSnapshot:
        return UnknownSnapshot(f"@t-{number or '*'}", range(1, len(before) + 1), written="@t-")

    def _before(self, context: Context) -> Iterator[Snapshot]:
        """Yield what is the past of a context, oldest first: for one out of the history only what came before it."""
        limit = context.current_episode - 1 if context.read_only else None
        for episode, snapshot in sorted(self._snapshots.items()):
            if limit is None or episode <= limit:
                yield snapshot

    # -- storage ------------------------------------------------------------------------

    def snapshot(self, episode: int) -> Snapshot:
        """Return the tree of an episode. Raises UnknownSnapshot, a KeyError that names the nearest."""
        found = self._snapshots.get(episode) if isinstance(episode, int) else None
        if found is None:
            raise UnknownSnapshot(episode, self._snapshots)
        return found

    def _append(self, tree: Tree, trigger: str, after: int, at: float | None) -> int:
        episode = max(self._last, after) + 1
        snapshot = Snapshot(episode, trigger, time.time() if at is None else at, tree)
        if self._file is not None:
            self._file.append(snapshot)
        self._snapshots[episode] = snapshot
        self._last = episode
        return episode

    def _forget(self, episode: int) -> None:
        with self._lock:
            if self._file is None:
                self.snapshot(episode)
            else:
                with self._file.locked():
                    self._take_in()
                    self.snapshot(episode)
                    self._file.forget(episode)
            del self._snapshots[episode]

    def _take_in(self) -> None:
        if self._file is None:
            return
        for change in self._file.news():
            if isinstance(change, Snapshot):
                self._snapshots[change.episode] = change
                self._last = max(self._last, change.episode)
            else:
                self._snapshots.pop(change, None)


class _Unwritten:
    """Stands for a context that nobody has read yet; no writer takes it for data."""


_UNWRITTEN = _Unwritten()


class SnapshotData(dict[str, Any]):
    """One snapshot as ``{episode, trigger, created_at, context}``; the context is written out when it is read.

    ``json`` and everything that reads a mapping gets the context. Writers in C that look
    into a dict's memory (msgspec, orjson) refuse it until then: give them :meth:`copy`.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(episode=snapshot.episode, trigger=snapshot.trigger, created_at=snapshot.created_at, context=_UNWRITTEN)
        self._snapshot = snapshot

    def __getitem__(self, name: str) -> Any:
        if name == "context" and super().__getitem__(name) is _UNWRITTEN:
            self[name] = dumped(self._snapshot.tree, self._snapshot.episode)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or a default."""
        return self[name] if name in self else default  # noqa: SIM401 - dict.get would not write the context out

    def items(self) -> Any:
        """Return the fields with their values."""
        self["context"]
        return super().items()

    def values(self) -> Any:
        """Return the values of the fields."""
        self["context"]
        return super().values()

    def copy(self) -> dict[str, Any]:
        """Return an ordinary dict, the context written out."""
        return dict(self.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self.copy() == (other.copy() if isinstance(other, SnapshotData) else other)

    __hash__ = None

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)


class Snapshots(MutableMapping[int, dict[str, Any]]):
    """The snapshots of a history, oldest first."""

    def __init__(self, history: History) -> None:
        self._history = history

    def __getitem__(self, episode: int) -> dict[str, Any]:
        return SnapshotData(self._history.snapshot(episode))

    def __setitem__(self, episode: int, value: dict[str, Any]) -> None:
        raise UsageError("snapshots are made by sealing", hint="context.seal(trigger=...)", episode=episode)

    def __delitem__(self, episode: int) -> None:
        self._history._forget(episode)  # noqa: SLF001

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._history._snapshots))  # noqa: SLF001

    def __len__(self) -> int:
        return len(self._history)


def _ordered(tree: Tree, query: Query) -> list[str]:
    view = tree.view
    return [view.records[place].id for place in matched(view, query)]


def _ids(tree: Tree, query: Query) -> set[str]:
    return set(_ordered(tree, query))


def _ref(kind: str, value: int, label: str, tree: Tree) -> dict[str, Any]:
    return {"kind": kind, "value": value, "label": label, "cycle": tree.cycle}
