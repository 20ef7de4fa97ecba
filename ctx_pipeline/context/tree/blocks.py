"""Blocks put into a tree and taken out of it many at a time: they cost what each changes, and not a tree each."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from ctx_pipeline.context.tree.tree import EMPTY, NONE, Kids, Row, Tree, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.tree.tree import Record


def appended(tree: Tree, records: Sequence[Record]) -> Tree:
    """Return the tree with stamped blocks, each the last below its parent, and the core of a parent that is empty.

    They have no key and no end of life.
    """
    if not records:
        return tree
    below: dict[str, list[str]] = {}
    nodes = tree.nodes.mutate()
    for record in records:
        if record.id in nodes:
            raise taken(record.id)
        nodes[record.id] = record
        below.setdefault(str(record.parent_id), []).append(record.id)
    kids = tree.kids
    for parent, ids in below.items():
        old = kids.get(parent, NONE)
        first = not len(old.core) and not len(old.post) and not len(old.pre)
        kids = kids.set(parent, Kids(old.pre, Row.of(ids[:1]), Row.of(ids[1:])) if first else old._replace(post=old.post.extended(ids)))
    last = records[-1]
    return replace(tree, nodes=nodes.finish(), kids=kids, last_ns=last.created_at_ns, index=last.creation_index + 1, cache=[])


def without_all(tree: Tree, blocks: Sequence[str]) -> Tree:
    """Return the tree without blocks of one parent, as :meth:`Tree.without` one after the other leaves it."""
    parent = tree.nodes[blocks[0]].parent_id if blocks else None
    kids = tree.kids.get(parent, NONE) if parent is not None else NONE
    if len(kids.core) != 1 or len(kids.pre) or _more_than_places(tree, blocks, kids.post):
        return reduce(Tree.without, blocks, tree)
    gone = set(blocks)
    left = [key for key in (*kids.core, *kids.post) if key not in gone]
    core = kids.core if kids.core[0] not in gone else Row.of(left[:1])
    nodes = tree.nodes.mutate()
    for key in blocks:
        del nodes[key]
    return replace(tree, nodes=nodes.finish(), kids=tree.kids.set(str(parent), Kids(EMPTY, core, Row.of(left[1:]))), cache=[])


def _more_than_places(tree: Tree, blocks: Sequence[str], row: Row) -> bool:
    """Tell whether removing blocks changes more than the places in a row: gaps and shared places, children, keys, ends of life."""
    return any(not isinstance(slot, str) for slot in row) or any(
        key in tree.kids or key in tree.mortal or tree.nodes[key].key is not None for key in blocks
    )
