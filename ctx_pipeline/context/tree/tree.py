"""The tree of a context as a value: every change gives a new tree that shares all the rest with the old one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from immutables import Map

from ctx_pipeline.context.errors import ConflictingUpdate, NothingThere
from ctx_pipeline.context.tree.id_clock import LIVE, Births
from ctx_pipeline.context.tree.persistent_list import Row
from ctx_pipeline.context.tree.record import Record  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.context.tree.view import View

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
            raise ConflictingUpdate(
                f"there is a node {record.id!r} already", hint="leave the id out, or pact_update the node", id=record.id
            )
        parent = record.parent_id
        kids = self.kids.get(parent, NONE) if parent is not None else NONE
        tree = self.with_record(record)
        if parent is None:
            return tree
        return replace(tree, kids=tree.kids.set(parent, _pushed(kids, record.id, offset) if push else _joined(kids, record, offset, self)))

    def without(self, node_id: str) -> Tree:
        """Return the tree without a node and all below it; what stood farther out moves inward, a lost core is taken by offset 1."""
        record = self.record(node_id)
        nodes, kids, keys, mortal = self.nodes, self.kids, self.keys, self.mortal
        waiting = [node_id]
        while waiting:
            at = waiting.pop()
            gone = nodes[at]
            waiting += [key for key, _ in self.children(at)]
            nodes = nodes.delete(at)
            keys = _without_key(keys, gone)
            if at in mortal:
                mortal = mortal.delete(at)
            if at in kids:
                kids = kids.delete(at)
        parent = record.parent_id
        if parent is not None:
            kids = kids.set(parent, _taken(self.kids.get(parent, NONE), node_id, promote=parent not in {self.root, self.seq}))
        return replace(self, nodes=nodes, kids=kids, keys=keys, mortal=mortal, cache=[])

    @property
    def view(self) -> View:
        """The nodes in canonical order with indexes, made once for a tree."""
        if not self.cache:
            from ctx_pipeline.context.tree.view import View

            self.cache.append(View(self))
        found: View = self.cache[0]
        return found


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


def _taken(kids: Kids, node_id: str, *, promote: bool) -> Kids:
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
