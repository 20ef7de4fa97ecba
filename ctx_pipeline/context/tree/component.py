"""What a person hands to a context: a component that is not placed yet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import InvalidLifecycle, InvalidPlacement, NothingThere
from ctx_pipeline.context.tree.tree import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.tree.tree import Record, Tree


_RESERVED = frozenset(
    {
        "id",
        "nodeType",
        "parent_id",
        "offset",
        "ttl",
        "cad",
        "priority",
        "cycle",
        "created_at_ns",
        "created_at_iso",
        "creation_index",
        "content_hash",
        "key",
        "tag",
        "tags",
        "role",
        "kind",
        "content",
        "children",
        "removable",
        "lifecycle",
    }
)


@dataclass(frozen=True)
class Pos:
    """A place with a life: ``Pos(0, 1, ttl=3)`` is depth 0, position 1, for three cycles."""

    place: tuple[int, ...]
    ttl: int | None = None
    cad: int | None = None

    def __init__(self, *place: int, ttl: int | None = None, cad: int | None = None) -> None:
        if len(place) < 1 or not all(isinstance(step, int) for step in place):
            raise InvalidPlacement(f"{place!r} is no place", hint="Pos(depth, position, ...), for example Pos(0, 1)")
        object.__setattr__(self, "place", tuple(place))
        object.__setattr__(self, "ttl", ttl)
        object.__setattr__(self, "cad", cad)


@dataclass
class Component:
    """A piece of context: content with a role, a key, tags and a life.

    ``ttl``: None stays, 0 goes at the next commit, N lives through N further commits.
    ``cad`` with ``ttl``: comes again every ``cad`` cycles and stays ``ttl`` of them; both 1
    is sticky, always there. ``attributes`` are fields of your own that selectors find.
    ``id`` is given when the component is placed.
    """

    content: Any = ""
    key: str | None = None
    tags: Sequence[str] = ()
    ttl: int | None = None
    cad: int | None = None
    priority: int = 0
    role: str | None = None
    kind: str | None = None
    node_type: str = "block"
    removable: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    stages: tuple[Stage, ...] = field(default=(), repr=False)
    rounds: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.tags, str):
            self.tags = (self.tags,)
        check_life(self.ttl, self.cad)
        taken = sorted(_RESERVED & set(self.attributes))
        if taken:
            raise InvalidPlacement(f"{', '.join(taken)}: reserved, not for attributes of your own", hint="prefix them, as in data_status")

    def render_lifecycle(self, stages: Sequence[Pos], *, cycle: bool | int = False) -> Component:
        """Plan the life of the component: it goes from place to place as each place's ttl runs out.

        After the last place it is removed; with ``cycle`` True it starts again for ever,
        with a number that many times. Returns the component.
        """
        if not stages:
            raise InvalidLifecycle("a lifecycle needs at least one stage", hint="pass [Pos(0, 1, ttl=2), ...]")
        for stage in stages:
            check_life(stage.ttl, None)
        self.stages = tuple(Stage(stage.place, stage.ttl) for stage in stages)
        self.rounds = -1 if cycle is True else int(cycle)
        self.ttl = stages[0].ttl
        return self


class TextContent(Component):
    """A component of text."""

    def __init__(self, content: str = "", **fields: Any) -> None:
        if not isinstance(content, str):
            raise InvalidPlacement(f"text content is a string, not {type(content).__name__}", hint="use Component for other content")
        super().__init__(content, **{"kind": "text", **fields})


def check_life(ttl: int | None, cad: int | None) -> None:
    """Raise InvalidLifecycle for a ttl or cadence that no component can have."""
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int) or ttl < 0):
        raise InvalidLifecycle(f"ttl is {ttl!r}", hint="None, or a number of cycles from 0 up")
    if cad is not None and (isinstance(cad, bool) or not isinstance(cad, int) or cad < 1):
        raise InvalidLifecycle(f"cad is {cad!r}", hint="a number of cycles from 1 up")
    if cad is not None and not ttl:
        raise InvalidLifecycle("a cadence needs a ttl of at least 1", hint="ttl=1, cad=1 is sticky")


# Places in a tree as people write them: "d0, 1, 0", [0, 1, 0], "(d1, 0)", Pos(0, 1).


_WRITTEN = re.compile(r"\(?\s*d\s*(-?\d{1,9})((?:\s*,\s*-?\d{1,9})*)\s*\)?")

_POINT = re.compile(r"\(\s*(d-?\d+\s*,(?:[^()]*,)?\s*(?:seg|cont(?:\[[^\]]*\])?))\s*,\s*(end|[+-]\d{1,9}|)\s*\)")


def place_of(value: Any) -> tuple[int, ...] | None:
    """Return (depth, position, ...) of a written place, or None when the value is something else."""
    if isinstance(value, Pos):
        return value.place
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return (value,)
    if isinstance(value, (tuple, list)):
        if value and all(isinstance(step, int) and not isinstance(step, bool) for step in value):
            return tuple(value)
        raise InvalidPlacement(f"{value!r} is no place", hint='use numbers, as in [0, 1, 0], or text, as in "d0, 1, 0"')
    if not isinstance(value, str):
        return None
    text = value.strip()
    found = _WRITTEN.fullmatch(text)
    if found is None or text.startswith("(") != text.endswith(")"):
        return None
    return (int(found[1]), *(int(step) for step in found[2].split(",")[1:]))


def insertion_of(value: Any) -> tuple[str, str] | None:
    """Return (selector of the parent, point) of a written insertion point, or None when the text is something else.

    ``(d0, seg, cont, )`` is the start, ``(…, end)`` the end, ``(…, +1)`` behind the child at
    offset 1, ``(…, -1)`` before it. Only behind ``seg`` or ``cont``: elsewhere -1 is an offset.
    """
    found = _POINT.fullmatch(value.strip()) if isinstance(value, str) else None
    return (f"({found[1]})", found[2] or "start") if found else None


def node_at(tree: Tree, place: tuple[int, ...]) -> str:
    """Return the id of the node at a place.

    (depth) is the turn, (depth, 0) its core container, (depth, 0, n) the block at offset n
    in it, (depth, p) the component attached at offset p. A last 0 names a component
    itself: (0, 1, 0) is (0, 1). Raises NothingThere.
    """
    at = tree.turn_at(place[0])
    for number, step in enumerate(place[1:], 1):
        below = tree.at_offset(at, step)
        if below:
            at = below[0]
        elif step == 0 and number > 1 and number == len(place) - 1:
            return at
        else:
            raise NothingThere(f"there is nothing at {written(place)}", hint=_what_is_there(tree, at, place[:number]), place=place)
    return at


def parent_and_offset(tree: Tree, place: tuple[int, ...]) -> tuple[str, int]:
    """Return the parent and the offset that an insertion at a place means; the first in anything but a turn is its core.

    Raises InvalidPlacement and NothingThere.
    """
    parent, offset = _asked(tree, place)
    empty = next(tree.children(parent), None) is None
    return parent, 0 if empty and tree.nodes[parent].structure not in {"seg", "ah"} else offset


def _asked(tree: Tree, place: tuple[int, ...]) -> tuple[str, int]:
    at = tree.turn_at(place[0])
    steps = list(place[1:])
    if not steps:
        return (at, 1) if at != tree.sys else (at, len(tree.kids[at].post) + 1 if at in tree.kids else 0)
    if at == tree.sys or steps[0] != 0:
        return _below(tree, at, steps, place)
    core = tree.at_offset(at, 0)
    if not core:
        raise InvalidPlacement(f"the turn at depth {place[0]} has no core container", place=place)
    inside = steps[1:]
    if not inside:
        kids = tree.kids.get(core[0])
        return core[0], 0 if kids is None or not len(kids.core) else len(kids.post) + 1
    return _below(tree, core[0], inside, place)


def _below(tree: Tree, at: str, steps: list[int], place: tuple[int, ...]) -> tuple[str, int]:
    for number, step in enumerate(steps):
        rest = steps[number + 1 :]
        if not rest or (len(rest) == 1 and rest[0] == 0 and not _is_container(tree, at, step)):
            return at, step
        below = tree.at_offset(at, step)
        if not below or not _is_container(tree, at, step):
            raise InvalidPlacement(
                f"{written(place)} lies inside a component that holds no others",
                hint=f"insert at {written(place[: -len(rest)])}",
                place=place,
            )
        at = below[0]
    raise InvalidPlacement(f"{written(place)} is no place for a component", place=place)


def _is_container(tree: Tree, parent: str, offset: int) -> bool:
    below = tree.at_offset(parent, offset)
    return bool(below) and (tree.nodes[below[0]].structure == "cont" or below[0] in tree.kids)


def written(place: tuple[int, ...]) -> str:
    """Return a place as people write it."""
    return ", ".join((f"d{place[0]}", *map(str, place[1:])))


def _what_is_there(tree: Tree, at: str, upto: tuple[int, ...]) -> str:
    offsets = [str(offset) for _, offset in tree.children(at)]
    shown = ", ".join(offsets[:8]) + (", ..." if len(offsets) > 8 else "")
    return f"{written(upto)} has {shown}" if offsets else f"{written(upto)} has nothing below it"


# A node as people read it.


HEADERS = (
    "id",
    "nodeType",
    "parent_id",
    "offset",
    "ttl",
    "priority",
    "cycle",
    "created_at_ns",
    "created_at_iso",
    "creation_index",
)
"""The headers that PACT requires, in the order in which they are written."""


class Node:
    """A node of a tree at one moment: reading it later gives the same, whatever happens to the context."""

    __slots__ = ("_record", "_tree")

    def __init__(self, tree: Tree, record: Record) -> None:
        self._tree = tree
        self._record = record

    id = property(lambda self: self._record.id, doc="The id, unique in its context.")
    content = property(lambda self: self._record.content, doc="The content; a copy when it is not plain text.")
    key = property(lambda self: self._record.key, doc="The key, or None.")
    tags = property(lambda self: list(self._record.tags), doc="The tags.")
    role = property(lambda self: self._record.role, doc="The role, or None.")
    kind = property(lambda self: self._record.kind, doc="The kind, such as text, call or result.")
    node_type = property(lambda self: self._record.node_type, doc="The type: seg, cont, block, a region, or one of your own.")
    ttl = property(lambda self: self._record.ttl, doc="Cycles to live, None for ever.")
    cad = property(lambda self: self._record.cad, doc="The cadence in cycles, or None.")
    priority = property(lambda self: self._record.priority, doc="The priority, 0 unless given.")
    cycle = property(lambda self: self._record.cycle, doc="The cycle that brought the node in.")
    created_at_ns = property(lambda self: self._record.created_at_ns, doc="Nanoseconds since 1970.")
    created_at_iso = property(lambda self: self._record.created_at_iso, doc="The same as ISO 8601 in UTC.")
    creation_index = property(lambda self: self._record.creation_index, doc="The number within its cycle.")
    parent_id = property(lambda self: self._record.parent_id, doc="The id of the parent, None for the root.")
    content_hash = property(lambda self: self._record.content_hash, doc="SHA-256 of the content, in hex.")
    structure = property(lambda self: self._record.structure, doc="The canonical class: root, sys, seq, ah, seg, cont or block.")
    attributes = property(lambda self: dict(self._record.extra), doc="Fields of your own.")

    @property
    def offset(self) -> int:
        """Where the node stands: below 0 before the core, 0 the core, above 0 after it."""
        if self._tree.cache:
            view = self._tree.view
            return view.offsets[view.place[self._record.id]]
        return self._tree.offset_of(self._record.id)

    @property
    def depth(self) -> int | None:
        """-1 system header, 0 active head, 1 the newest sealed turn; None for the root and the sequence."""
        if self._tree.cache:
            view = self._tree.view
            return view.depths[view.place[self._record.id]]
        return self._tree.depth_of(self._record.id)

    @property
    def children(self) -> list[Node]:
        """The nodes directly below, in canonical order."""
        return [Node(self._tree, self._tree.nodes[key]) for key, _ in self._tree.children(self._record.id)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other._record == self._record and other.offset == self.offset

    def __hash__(self) -> int:
        return hash(self._record.id)

    def __repr__(self) -> str:
        text = self._record.body if isinstance(self._record.body, str) else ""
        shown = f" {text[:40]!r}" if text else ""
        return f"<{self._record.node_type} {self._record.id}{shown}>"


def header(record: Record, offset: int, name: str) -> Any:
    """Return a header or a field of one's own by its PACT name, None when the node has none of that name."""
    match name:
        case "offset":
            return offset
        case "nodeType" | "type":
            return record.node_type
        case "tag" | "tags":
            return list(record.tags) or None
        case "created_at_iso" | "content_hash" | "content":
            return getattr(record, name)
        case "id" | "parent_id" | "ttl" | "cad" | "priority" | "cycle" | "created_at_ns" | "creation_index" | "key" | "role" | "kind":
            return getattr(record, name)
        case "cadence":
            return record.cad
        case _:
            return record.extra.get(name)
