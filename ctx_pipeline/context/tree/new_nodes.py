"""New nodes: their ids, their clock, and the skeleton of an empty context."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from immutables import Map

from ctx_pipeline.context.tree.tree import LIVE, Births, Kids, Record, Row, Tree


def empty(births: Births = LIVE) -> Tree:
    """Return the tree of a new context: system header, sequence, active head with an empty core."""
    tree = Tree("root", "sys", "seq", "", Map(), Map(), births=births)
    tree, root = stamped(tree, Record("root", "^root", None))
    tree = tree.with_record(root)
    for name in ("sys", "seq"):
        tree, region = stamped(tree, Record(name, f"^{name}", "root"))
        tree = tree.placed(region, 0, push=False)
    return fresh_head(tree)


def fresh_head(tree: Tree) -> Tree:
    """Return the tree with a new active head and its empty core container."""
    tree, head = stamped(tree, Record("", "^ah", tree.root))
    tree, core = stamped(tree, Record("", "cont", head.id))
    nodes = tree.nodes.set(head.id, head).set(core.id, core)
    root = tree.kids.get(tree.root, Kids())
    kids = tree.kids.set(tree.root, root._replace(core=root.core.inserted(len(root.core), head.id)))
    kids = kids.set(head.id, Kids(core=Row.of((core.id,))))
    return replace(tree, nodes=nodes, kids=kids, head=head.id, cache=[])


def stamped(tree: Tree, record: Record) -> tuple[Tree, Record]:
    """Return the tree with its clock moved on, and the record with an id and the headers of its creation.

    Times rise strictly, also when the machine's clock stands still or goes back.
    """
    at = max(tree.births.now_ns(), tree.last_ns + 1)
    made = msgspec.structs.replace(
        record,
        id=record.id or tree.births.new_id(),
        cycle=tree.cycle,
        created_at_ns=at,
        creation_index=tree.index,
        born=tree.cycle,
    )
    return replace(tree, last_ns=at, index=tree.index + 1), made
