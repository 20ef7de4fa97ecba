"""A node as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.record import Record
    from ctx_pipeline.context.tree.tree import Tree

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
