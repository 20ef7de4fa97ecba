"""What a commit does: expiry, the next stages, the recurring, and the sealing of the active head."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
from immutables import Map

from ctx_pipeline.context.errors import NothingThere, PactError
from ctx_pipeline.context.tree.address import parent_and_offset
from ctx_pipeline.context.tree.factory import fresh_head, stamped
from ctx_pipeline.context.tree.tree import Kids, Recurring

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.record import Record
    from ctx_pipeline.context.tree.tree import Tree


def committed(tree: Tree) -> Tree:
    """Return the tree after a commit, in the order PACT gives: expiry with its cascade, sealing, the next cycle.

    A head without a message in its core is not sealed: nothing was said in it, so no turn
    is made and what is attached to it stays. Recurring components come back after the
    sealing, into the new cycle. Pruning is not done.
    """
    tree = _expired(replace(tree, cycle=tree.cycle + 1, index=0, cache=[]))
    core = tree.at_offset(tree.head, 0)
    if core and any(True for _ in tree.children(core[0])):
        tree = _sealed(tree)
    return _recurred(tree)


def _expired(tree: Tree) -> Tree:
    for node_id in list(tree.mortal):
        record = tree.nodes.get(node_id)
        if record is None or record.ttl is None:
            continue
        age = tree.cycle - record.born
        # a recurring component is shown for exactly ttl cycles; any other lives through ttl further commits
        if age < record.ttl if record.cad is not None else age <= record.ttl:
            continue
        tree = _next_stage(tree, record) if record.stages else _removed(tree, record)
    return tree


def _next_stage(tree: Tree, record: Record) -> Tree:
    stage, rounds = record.stage + 1, record.rounds
    if stage == len(record.stages):
        if not rounds:
            return _removed(tree, record)
        stage, rounds = 0, rounds if rounds < 0 else rounds - 1
    coming = record.stages[stage]
    try:
        bare = tree.without(record.id)
        parent, offset = parent_and_offset(bare, coming.place)
    except (NothingThere, PactError):
        return _removed(tree, record)  # the place of the next stage is gone
    moved = msgspec.structs.replace(record, parent_id=parent, ttl=coming.ttl, born=tree.cycle, stage=stage, rounds=rounds)
    return bare.placed(moved, offset)


def _removed(tree: Tree, record: Record) -> Tree:
    tree = tree.without(record.id)
    parent = tree.nodes.get(record.parent_id or "")
    while parent is not None and parent.removable and not any(True for _ in tree.children(parent.id)):
        tree = tree.without(parent.id)
        parent = tree.nodes.get(parent.parent_id or "")
    return tree


def _sealed(tree: Tree) -> Tree:
    head = tree.nodes[tree.head]
    turn = msgspec.structs.replace(head, node_type="seg", parent_id=tree.seq)
    kids = tree.kids
    root, row = kids.get(tree.root, Kids()), kids.get(tree.seq, Kids())
    kids = kids.set(tree.seq, row._replace(core=row.core.inserted(len(row.core), turn.id)))
    kids = kids.set(tree.root, root._replace(core=root.core.removed(root.core.find(tree.head))))
    return fresh_head(replace(tree, nodes=tree.nodes.set(turn.id, turn), kids=kids, cache=[]))


def _recurred(tree: Tree) -> Tree:
    gone: list[str] = []
    for name, again in tree.recurring.items():
        cadence = again.record.cad or 1
        if (tree.cycle - again.born) % cadence:
            continue
        for node_id in tree.keys.get(again.record.key or "", ()):
            if tree.nodes[node_id].cad is not None:
                tree = tree.without(node_id)
        try:
            parent, offset = parent_and_offset(tree, again.place)
        except (NothingThere, PactError):
            gone.append(name)
            continue
        tree, record = stamped(tree, msgspec.structs.replace(again.record, id="", parent_id=parent))
        tree = tree.placed(record, offset)
    if gone:
        left = Map({name: again for name, again in tree.recurring.items() if name not in gone})
        tree = replace(tree, recurring=left, cache=[])
    return tree


def recurring_of(record: Record, place: tuple[int, ...], cycle: int) -> Recurring:
    """Return how a component with a cadence comes again."""
    return Recurring(msgspec.structs.replace(record, parent_id=None), place, cycle)
