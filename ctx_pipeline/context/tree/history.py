"""Snapshots of a context: taken in no time, kept by what changed, read as they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import UnknownSnapshot
from ctx_pipeline.context.tree.diff import compared
from ctx_pipeline.context.tree.dump import dumped
from ctx_pipeline.context.tree.selectors.matching import matched
from ctx_pipeline.context.tree.selectors.parsing import parse
from ctx_pipeline.context.tree.tree import Snapshot
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.context.tree.context import Context
    from ctx_pipeline.context.tree.history_file import HistoryFile
    from ctx_pipeline.context.tree.selectors.query import Moment, Query
    from ctx_pipeline.context.tree.tree import Tree


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
