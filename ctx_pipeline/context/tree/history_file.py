"""A history on disk: a header with its version, then one JSON object a line, each with what changed since the line before."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from immutables import Map

from ctx_pipeline.context.errors import InvalidPlacement
from ctx_pipeline.context.tree.dump import SPEC_VERSION, check_version
from ctx_pipeline.context.tree.tree import (
    Kids,
    Record,
    Recurring,
    Row,
    Snapshot,
    Tree,
)
from ctx_pipeline.errors import StoreDamaged, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = 1
"""Version of the lines; files from before the header are of version 1 too."""

Edit = tuple[Literal["pre", "core", "post"], int, int, list[Any]]
"""(side, first slot, slots that go, slots that come)"""


class Header(msgspec.Struct):
    """The first line of the file; it is no snapshot."""

    schema: int
    spec_version: str


class Line(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A line of the file: a snapshot, or the episode that was forgotten."""

    episode: int = 0
    trigger: str = ""
    created_at: float = 0.0
    ids: tuple[str, str, str, str] = ("", "", "", "")
    """root, system header, sequence, active head"""
    clock: tuple[int, int, int] = (0, 0, 0)
    """cycle, newest time, next index"""
    put: list[Record] = []
    drop: list[str] = []
    kids: dict[str, list[Edit]] = {}
    recurring: dict[str, Recurring] = {}
    forget: int = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode
_decode_header = msgspec.json.Decoder(Header).decode
_HEADER = _encode(Header(SCHEMA, SPEC_VERSION)) + b"\n"


class HistoryFile:
    """Appends snapshots and reads what others appended; the file is made with access for its owner only."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._read = 0
        self._number = 0
        self._tree: Tree | None = None
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreError(
                f"{self._path} cannot be opened as a history: {error.strerror or error}",
                hint="name a file of JSON lines, or one that is not there yet in a folder that is",
                path=str(self._path),
            ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file against every other process."""
        with self._path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def news(self) -> Iterator[Snapshot | int]:
        """Yield the snapshots, and the episodes that were forgotten, of the lines not read yet.

        Raises StoreDamaged for a line that cannot be read (the file stays as it is), and
        SchemaTooNew.
        """
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole, newline, _ = data.rpartition(b"\n")
        for raw in whole.split(b"\n") if newline else ():
            self._number += 1
            line = None if self._number == 1 and self._headed(raw) else self._line(raw)
            self._read += len(raw) + 1
            if line is None:
                continue
            if line.forget:
                yield line.forget
                continue
            try:
                self._tree = _applied(self._tree, line)
            except (LookupError, ValueError) as error:
                raise self._damaged(f"line {self._number} does not fit the lines before it") from error
            yield Snapshot(line.episode, line.trigger, line.created_at, self._tree)

    def _headed(self, raw: bytes) -> bool:
        """Return whether the first line is a header. Raises SchemaTooNew for one of a newer version."""
        try:
            header = _decode_header(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False
        try:
            check_version(str(self._path), header.spec_version, header.schema)
        except InvalidPlacement as error:
            raise self._damaged(f"line 1: {error.message}") from error
        return True

    def _line(self, raw: bytes) -> Line:
        try:
            line = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._damaged(f"line {self._number} cannot be read: {error}") from error
        if (line.episode > 0) is (line.forget > 0):
            raise self._damaged(f"line {self._number} is neither a snapshot nor a forgotten episode")
        return line

    def append(self, snapshot: Snapshot) -> None:
        """Write a snapshot at the end and onto the disk; what a crash left of a last line is set aside first."""
        line = _difference(self._tree, snapshot)
        self._write(line)
        self._tree = snapshot.tree

    def forget(self, episode: int) -> None:
        """Write that an episode is no longer wanted."""
        self._write(Line(forget=episode))

    def _write(self, line: Line) -> None:
        with self._path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end > self._read:
                file.seek(self._read)
                torn = self._path.with_name(f"{self._path.name}.torn-{self._read}")
                torn.write_bytes(file.read())
                torn.chmod(0o600)
                file.truncate(self._read)
                file.seek(self._read)
            header = b"" if self._read else _HEADER
            raw = header + _encode(line) + b"\n"
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        self._read += len(raw)
        self._number += raw.count(b"\n")

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self._path}: {what}", hint="nothing was written; move the file away, or remove the line by hand", line=self._number
        )


def _difference(before: Tree | None, snapshot: Snapshot) -> Line:
    tree = snapshot.tree
    old: Any = before.nodes if before is not None else Map()
    old_kids: Any = before.kids if before is not None else Map()
    kids = {parent: edits for parent, now in tree.kids.items() if (edits := _edits(old_kids.get(parent), now))}
    gone_parents = {parent: _edits(was, Kids()) for parent, was in old_kids.items() if parent not in tree.kids and parent in tree.nodes}
    put = sorted((r for key, r in tree.nodes.items() if old.get(key) is not r), key=lambda r: (r.cycle, r.order))
    return Line(
        episode=snapshot.episode,
        trigger=snapshot.trigger,
        created_at=snapshot.created_at,
        ids=(tree.root, tree.sys, tree.seq, tree.head),
        clock=(tree.cycle, tree.last_ns, tree.index),
        put=put,
        drop=sorted(key for key in old if key not in tree.nodes),
        kids=dict(sorted((kids | gone_parents).items())),
        recurring=dict(sorted(tree.recurring.items())),
    )


def _edits(was: Kids | None, now: Kids) -> list[Edit]:
    if was is now:
        return []
    edits: list[Edit] = []
    for side in ("pre", "core", "post"):
        old: Row = getattr(was, side) if was is not None else Row()
        new: Row = getattr(now, side)
        if old is new:
            continue
        a, b = list(old), list(new)
        first = 0
        while first < min(len(a), len(b)) and a[first] == b[first]:
            first += 1
        last = 0
        while last < min(len(a), len(b)) - first and a[-1 - last] == b[-1 - last]:
            last += 1
        if first < max(len(a), len(b)):
            come = b[first : len(b) - last]
            edits.append((side, first, len(a) - first - last, [list(s) if isinstance(s, tuple) else s for s in come]))
    return edits


def _applied(before: Tree | None, line: Line) -> Tree:
    root, sys, seq, head = line.ids
    tree = before or Tree(root, sys, seq, head, Map(), Map())
    keys, mortal, nodes = tree.keys, tree.mortal, tree.nodes
    for node_id in line.drop:
        gone = nodes[node_id]
        nodes = nodes.delete(node_id)
        keys = _less(keys, gone)
        mortal = mortal.delete(node_id) if node_id in mortal else mortal
    tree = replace(tree, root=root, sys=sys, seq=seq, head=head, nodes=nodes, keys=keys, mortal=mortal)
    for record in line.put:
        tree = tree.with_record(record)
    kids = tree.kids
    for node_id in line.drop:
        kids = kids.delete(node_id) if node_id in kids else kids
    for parent, edits in line.kids.items():
        now = kids.get(parent, Kids())
        for side, first, gone_slots, come in edits:
            row = getattr(now, side)
            if first + gone_slots > len(row):
                raise IndexError(parent)
            for _ in range(gone_slots):
                row = row.removed(first)
            for number, slot in enumerate(come):
                names = tuple(slot) if isinstance(slot, list) else slot
                if any(name not in tree.nodes for name in (names if isinstance(names, tuple) else (names,)) if name is not None):
                    raise KeyError(parent)
                row = row.inserted(first + number, names)
            now = now._replace(**{side: row})
        kids = kids.set(parent, now)
    if any(name not in tree.nodes for name in line.ids):
        raise KeyError(root)
    cycle, last_ns, index = line.clock
    return replace(tree, kids=kids, cycle=cycle, last_ns=last_ns, index=index, recurring=Map(line.recurring), cache=[])


def _less(keys: Map[str, tuple[str, ...]], record: Record) -> Map[str, tuple[str, ...]]:
    if record.key is None or record.key not in keys:
        return keys
    rest = tuple(key for key in keys[record.key] if key != record.id)
    return keys.set(record.key, rest) if rest else keys.delete(record.key)
