"""A tree laid out in canonical order, with indexes for selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.record import Record
    from ctx_pipeline.context.tree.tree import Tree


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
