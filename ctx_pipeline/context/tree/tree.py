"""The tree of a context as a value: every change gives a new tree that shares all the rest with the old one."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import msgspec
from immutables import Map

from ctx_pipeline.context.errors import ConflictingUpdate, NothingThere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# Where the times and the ids of new nodes come from.


class Births:
    """The clock and chance."""

    def now_ns(self) -> int:
        """Return the time of a birth in nanoseconds since 1970."""
        return time.time_ns()

    def new_id(self) -> str:
        """Return an id that no other node has."""
        return uuid4().hex[:16]


class ReplayedBirths(Births):
    """The recorded time and a number, so that playing the same record again gives the same tree."""

    def __init__(self) -> None:
        self.at_ns = 0
        self._made = 0

    def now_ns(self) -> int:
        """Return the time of the event that is played."""
        return self.at_ns

    def new_id(self) -> str:
        """Return ``turn-`` and a number; turns and their containers are all that a replay makes."""
        self._made += 1
        return f"turn-{self._made}"


LIVE = Births()


# What a tree stores of a node: its headers and its content, never changed in place.


_SEGMENTS = frozenset({"seg", "mt", "message_turn"})
_CONTAINERS = frozenset({"cont", "mc", "message_container"})
REGIONS = {"^sys": "sys", "^seq": "seq", "^ah": "ah", "^root": "root", "root": "root"}


class Stage(msgspec.Struct, frozen=True):
    """A stop in the life of a component: a place (depth, path) and for how many cycles it stays there."""

    place: tuple[int, ...]
    ttl: int | None


class Record(msgspec.Struct, frozen=True):
    """A node as it is stored. Its offset is not in here: it follows from where its parent lists it."""

    id: str
    node_type: str
    parent_id: str | None
    ttl: int | None = None
    priority: int = 0
    cycle: int = 0
    created_at_ns: int = 0
    creation_index: int = 0
    cad: int | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    role: str | None = None
    kind: str | None = None
    body: Any = None
    born: int = 0
    """The cycle from which the ttl counts."""
    removable: bool = False
    stages: tuple[Stage, ...] = ()
    stage: int = 0
    rounds: int = 0
    """How often the stages start again; -1 for ever."""
    extra: dict[str, Any] = {}
    given: tuple[str, ...] | None = None
    """The headers an imported node had, when it did not have all of them."""
    iso: str | None = None

    @property
    def content(self) -> Any:
        """The content; a copy of it when it is not plain text."""
        return self.body if isinstance(self.body, (str, int, float, bool, type(None))) else copy.deepcopy(self.body)

    @property
    def created_at_iso(self) -> str:
        """The time of creation as ISO 8601 in UTC, with microseconds."""
        if self.iso is not None:
            return self.iso
        seconds, rest = divmod(self.created_at_ns, 1_000_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def structure(self) -> str:
        """The canonical class: root, sys, seq, ah, seg, cont or block."""
        name = self.node_type
        if name in REGIONS:
            return REGIONS[name]
        head = name.partition(":")[0]
        if head in _SEGMENTS:
            return "seg"
        return "cont" if head in _CONTAINERS else "block"

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON of the content and the ``content_*`` and ``data_*`` fields, in hex."""
        hashed = {"content": self.body} | {k: v for k, v in self.extra.items() if k.startswith(("content_", "data_"))}
        text = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def order(self) -> tuple[int, int, str]:
        """What siblings at one offset are sorted by."""
        return self.created_at_ns, self.creation_index, self.id


# A sequence that shares its parts with the sequences it was made from.


_CHUNK = 64


class Row:
    """An immutable sequence in chunks of up to 64: a change copies one chunk and the list of chunks."""

    __slots__ = ("_chunks", "_size")

    def __init__(self, chunks: tuple[tuple[Any, ...], ...] = (), size: int = 0) -> None:
        self._chunks = chunks
        self._size = size

    @classmethod
    def of(cls, items: Iterable[Any]) -> Row:
        """Return a row of items."""
        every = tuple(items)
        return cls(tuple(every[n : n + _CHUNK] for n in range(0, len(every), _CHUNK)), len(every))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._chunks)

    def __reversed__(self) -> Iterator[Any]:
        return chain.from_iterable(map(reversed, reversed(self._chunks)))

    def __getitem__(self, place: int) -> Any:
        chunk, inside = self._locate(place)
        return self._chunks[chunk][inside]

    def inserted(self, place: int, item: Any) -> Row:
        """Return the row with an item before a place, 0 to the length."""
        if not self._chunks:
            return Row(((item,),), 1)
        chunk, inside = self._locate(place) if place < self._size else (len(self._chunks) - 1, len(self._chunks[-1]))
        old = self._chunks[chunk]
        new = (*old[:inside], item, *old[inside:])
        if len(new) <= _CHUNK:
            parts: tuple[tuple[Any, ...], ...] = (new,)
        elif inside == len(old):
            parts = (old, (item,))  # growing at an end leaves full chunks behind
        else:
            parts = (new[: _CHUNK // 2], new[_CHUNK // 2 :])
        return Row((*self._chunks[:chunk], *parts, *self._chunks[chunk + 1 :]), self._size + 1)

    def extended(self, items: Sequence[Any]) -> Row:
        """Return the row with items behind its last one."""
        if not items:
            return self
        full, last = (self._chunks[:-1], self._chunks[-1]) if self._chunks else ((), ())
        grown = (*last, *items)
        return Row((*full, *(grown[n : n + _CHUNK] for n in range(0, len(grown), _CHUNK))), self._size + len(items))

    def removed(self, place: int) -> Row:
        """Return the row without the item at a place."""
        chunk, inside = self._locate(place)
        old = self._chunks[chunk]
        new = (*old[:inside], *old[inside + 1 :])
        parts = (new,) if new else ()
        return Row((*self._chunks[:chunk], *parts, *self._chunks[chunk + 1 :]), self._size - 1)

    def replaced(self, place: int, item: Any) -> Row:
        """Return the row with another item at a place."""
        chunk, inside = self._locate(place)
        old = self._chunks[chunk]
        new = (*old[:inside], item, *old[inside + 1 :])
        return Row((*self._chunks[:chunk], new, *self._chunks[chunk + 1 :]), self._size)

    def find(self, item: Any) -> int:
        """Return the place of an item, -1 when it is not there."""
        before = 0
        for chunk in self._chunks:
            if item in chunk:
                return before + chunk.index(item)
            before += len(chunk)
        return -1

    def _locate(self, place: int) -> tuple[int, int]:
        if not 0 <= place < self._size:
            raise IndexError(place)
        if len(self._chunks[0]) > place:
            return 0, place
        for number, end in enumerate(accumulate(map(len, self._chunks))):
            if place < end:
                return number, place - (end - len(self._chunks[number]))
        raise IndexError(place)


EMPTY = Row()


class Kids(NamedTuple):
    """The children of a node by where they stand; a slot is an id, None for a gap, or several ids of one offset."""

    pre: Row = EMPTY
    """Slot 0 is offset -1, slot 1 is offset -2."""
    core: Row = EMPTY
    """All at offset 0, oldest first."""
    post: Row = EMPTY
    """Slot 0 is offset 1."""


NONE = Kids()
_NOTHING: Map[str, Any] = Map()


class Recurring(msgspec.Struct, frozen=True):
    """A component that comes again: what it is, where, and every how many cycles."""

    record: Record
    place: tuple[int, ...]
    born: int


@dataclass(frozen=True, slots=True)
class Tree:
    """All nodes of a context at one moment."""

    root: str
    sys: str
    seq: str
    head: str
    nodes: Map[str, Record]
    kids: Map[str, Kids]
    keys: Map[str, tuple[str, ...]] = _NOTHING
    """key -> ids, oldest first"""
    mortal: Map[str, bool] = _NOTHING
    """ids of the nodes that a commit has to look at"""
    recurring: Map[str, Recurring] = _NOTHING
    cycle: int = 0
    last_ns: int = 0
    index: int = 0
    births: Births = field(default=LIVE, compare=False, repr=False)
    cache: list[Any] = field(default_factory=list, compare=False, repr=False)

    def record(self, node_id: str) -> Record:
        """Return a node. Raises NothingThere."""
        found = self.nodes.get(node_id)
        if found is None:
            raise NothingThere(f"there is no node {node_id!r}", id=node_id)
        return found

    def children(self, node_id: str) -> Iterator[tuple[str, int]]:
        """Yield (id, offset) of the children in canonical order."""
        kids = self.kids.get(node_id, NONE)
        for slot in range(len(kids.pre) - 1, -1, -1):
            for key in _ids(kids.pre[slot]):
                yield key, -1 - slot
        for key in kids.core:
            yield key, 0
        for number, slot in enumerate(kids.post, 1):
            for key in _ids(slot):
                yield key, number

    def at_offset(self, node_id: str, offset: int) -> tuple[str, ...]:
        """Return the ids of the children at an offset."""
        kids = self.kids.get(node_id, NONE)
        if offset == 0:
            return tuple(kids.core)
        row, slot = (kids.post, offset - 1) if offset > 0 else (kids.pre, -1 - offset)
        return _ids(row[slot]) if slot < len(row) else ()

    def offset_of(self, node_id: str) -> int:
        """Return the offset of a node among its siblings."""
        parent = self.record(node_id).parent_id
        return _find(self.kids.get(parent, NONE), node_id)[1] if parent is not None else 0

    def turn_of(self, node_id: str) -> str:
        """Return the turn or region that a node stands in, below ``^seq`` the turn."""
        at = node_id
        while (parent := self.record(at).parent_id) not in {self.root, self.seq, None}:
            at = str(parent)
        return at

    def depth_of(self, node_id: str) -> int | None:
        """Return the depth of a node: -1 system, 0 active head, 1 the newest sealed turn; None for ^root and ^seq."""
        turn = self.turn_of(node_id)
        if turn == self.sys:
            return -1
        if turn == self.head:
            return 0
        row = self.kids.get(self.seq, NONE).core
        place = row.find(turn)
        return len(row) - place if place >= 0 else None

    def turn_at(self, depth: int) -> str:
        """Return the id of the turn at a depth. Raises NothingThere with what there is."""
        if depth == -1:
            return self.sys
        if depth == 0:
            return self.head
        row = self.kids.get(self.seq, NONE).core
        if depth < -1 or depth > len(row):
            raise NothingThere(f"there is no depth {depth}", hint=f"depths go from -1 (system) over 0 (active head) to {len(row)}")
        found: str = row[len(row) - depth]
        return found

    def with_record(self, record: Record) -> Tree:
        """Return the tree with a node in place of the one of the same id; its place stays."""
        old = self.nodes.get(record.id)
        keys = self.keys
        if old is not None and old.key != record.key:
            keys = _without_key(keys, old)
        if record.key is not None and (old is None or old.key != record.key):
            keys = keys.set(record.key, (*keys.get(record.key, ()), record.id))
        mortal = self.mortal
        if record.ttl is not None:
            mortal = mortal.set(record.id, True)
        elif record.id in mortal:
            mortal = mortal.delete(record.id)
        return replace(self, nodes=self.nodes.set(record.id, record), keys=keys, mortal=mortal, cache=[])

    def placed(self, record: Record, offset: int, *, push: bool = True) -> Tree:
        """Return the tree with a new node below ``record.parent_id``.

        With ``push`` what stands at the offset and beyond moves outward, an offset beyond
        the end becomes the next free one, and the first child of anything but a turn
        becomes its core. Without, the node joins whatever stands at exactly that offset.
        """
        if record.id in self.nodes:
            raise taken(record.id)
        parent = record.parent_id
        kids = self.kids.get(parent, NONE) if parent is not None else NONE
        tree = self.with_record(record)
        if parent is None:
            return tree
        return replace(tree, kids=tree.kids.set(parent, _pushed(kids, record.id, offset) if push else _joined(kids, record, offset, self)))

    def without(self, node_id: str) -> Tree:
        """Return the tree without a node and all below it; what stood farther out moves inward, a lost core is taken by offset 1."""
        record = self.record(node_id)
        keys, mortal = self.keys, self.mortal
        left, below = self.nodes.mutate(), self.kids.mutate()
        waiting = [node_id]
        while waiting:
            at = waiting.pop()
            keys = _without_key(keys, left.pop(at))
            if at in mortal:
                mortal = mortal.delete(at)
            if at in below:
                waiting += [key for key, _ in self.children(at)]
                del below[at]
        nodes, kids = left.finish(), below.finish()
        parent = record.parent_id
        if parent is not None:
            kids = kids.set(parent, _without(self.kids.get(parent, NONE), node_id, promote=parent not in {self.root, self.seq}))
        return replace(self, nodes=nodes, kids=kids, keys=keys, mortal=mortal, cache=[])

    @property
    def view(self) -> View:
        """The nodes in canonical order with indexes, made once for a tree."""
        if not self.cache:
            self.cache.append(View(self))
        found: View = self.cache[0]
        return found


def taken(node_id: str) -> ConflictingUpdate:
    """Return the error of a node whose id another one has."""
    return ConflictingUpdate(f"there is a node {node_id!r} already", hint="leave the id out, or pact_update the node", id=node_id)


def _ids(slot: Any) -> tuple[str, ...]:
    if slot is None:
        return ()
    return (slot,) if isinstance(slot, str) else slot


def _without_key(keys: Map[str, tuple[str, ...]], record: Record) -> Map[str, tuple[str, ...]]:
    if record.key is None or record.key not in keys:
        return keys
    rest = tuple(key for key in keys[record.key] if key != record.id)
    return keys.set(record.key, rest) if rest else keys.delete(record.key)


def _pushed(kids: Kids, node_id: str, offset: int) -> Kids:
    pre, core, post = kids
    if offset == 0:
        for old in reversed(tuple(core)):
            post = _slot_in(post, 0, old)
        return Kids(pre, Row.of((node_id,)), post)
    if offset > 0:
        return Kids(pre, core, _slot_in(post, min(offset - 1, len(post)), node_id))
    return Kids(_slot_in(pre, min(-1 - offset, len(pre)), node_id), core, post)


def _slot_in(row: Row, place: int, node_id: str) -> Row:
    if place < len(row) and row[place] is None:
        return row.replaced(place, node_id)
    return row.inserted(place, node_id)


def _joined(kids: Kids, record: Record, offset: int, tree: Tree) -> Kids:
    pre, core, post = kids
    if offset == 0:
        if not len(core) or tree.nodes[core[len(core) - 1]].order <= record.order:
            return Kids(pre, core.inserted(len(core), record.id), post)
        every = sorted([*core, record.id], key=lambda key: record.order if key == record.id else tree.nodes[key].order)
        return Kids(pre, Row.of(every), post)
    row, place = (post, offset - 1) if offset > 0 else (pre, -1 - offset)
    if place >= len(row):
        row = Row.of((*row, *(None for _ in range(place - len(row))), record.id)) if place > len(row) else row.inserted(place, record.id)
    else:
        both = sorted((*_ids(row[place]), record.id), key=lambda key: record.order if key == record.id else tree.nodes[key].order)
        row = row.replaced(place, both[0] if len(both) == 1 else tuple(both))
    return Kids(pre, core, row) if offset > 0 else Kids(row, core, post)


def _find(kids: Kids, node_id: str) -> tuple[str, int]:
    if kids.core.find(node_id) >= 0:
        return "core", 0
    for side, row, sign in (("post", kids.post, 1), ("pre", kids.pre, -1)):
        place = row.find(node_id)
        if place < 0:
            place = next((n for n, slot in enumerate(row) if isinstance(slot, tuple) and node_id in slot), -1)
        if place >= 0:
            return side, sign * (place + 1)
    raise NothingThere(f"there is no node {node_id!r}", id=node_id)


def _without(kids: Kids, node_id: str, *, promote: bool) -> Kids:
    side, offset = _find(kids, node_id)
    pre, core, post = kids
    if side == "core":
        core = core.removed(core.find(node_id))
        if promote and not len(core) and len(post):
            first = post[0]
            core, post = Row.of(_ids(first)), post.removed(0)
        return Kids(pre, core, post)
    row = post if side == "post" else pre
    place = abs(offset) - 1
    rest = tuple(key for key in _ids(row[place]) if key != node_id)
    row = row.removed(place) if not rest else row.replaced(place, rest[0] if len(rest) == 1 else rest)
    return Kids(pre, core, row) if side == "post" else Kids(row, core, post)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tree at an episode, and why it was kept."""

    episode: int
    trigger: str
    created_at: float
    tree: Tree


# A tree laid out in canonical order, with indexes for selection.


class View:
    """Arrays over the nodes in canonical order: system header, turns from the oldest, active head; in each pre, core, post."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.records: list[Record] = []
        self.offsets: list[int] = []
        self.depths: list[int | None] = []
        self.parents: list[int] = []
        self.ends: list[int] = []
        """Where the subtree of a node ends: its descendants are at ``place + 1`` to ``ends[place] - 1``."""
        self.place: dict[str, int] = {}
        self.by_structure: dict[str, list[int]] = {}
        self.by_type: dict[str, list[int]] = {}
        self.by_tag: dict[str, list[int]] = {}
        self.by_key: dict[str, list[int]] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        tree = self.tree
        turns = sum(1 for _ in tree.children(tree.seq)) if tree.seq in tree.nodes else 0
        waiting: list[tuple[str, int, int, int | None]] = [(tree.root, 0, -1, None)]
        seen_turns = 0
        while waiting:
            node_id, offset, parent, depth = waiting.pop()
            if node_id == "":
                self.ends[parent] = len(self.records)
                continue
            record = tree.nodes[node_id]
            if node_id == tree.sys:
                depth = -1
            elif node_id == tree.head:
                depth = 0
            elif record.parent_id == tree.seq:
                depth = turns - seen_turns
                seen_turns += 1
            place = len(self.records)
            self.records.append(record)
            self.offsets.append(offset)
            self.depths.append(depth)
            self.parents.append(parent)
            self.ends.append(place + 1)
            self.place[node_id] = place
            self.by_structure.setdefault(record.structure, []).append(place)
            self.by_type.setdefault(record.node_type, []).append(place)
            for tag in record.tags:
                self.by_tag.setdefault(tag, []).append(place)
            if record.key is not None:
                self.by_key.setdefault(record.key, []).append(place)
            if node_id in tree.kids:
                below = [(key, at, place, depth) for key, at in tree.children(node_id)]
                if below:
                    waiting.append(("", 0, place, None))
                    waiting.extend(reversed(below))
