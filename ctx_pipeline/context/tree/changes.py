"""Insertion, update and deletion, with the rules that a tree must keep."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
from immutables import Map

from ctx_pipeline.context.errors import ConflictingUpdate, InvalidPlacement, NothingThere, OverlapWouldViolateODI, PactError
from ctx_pipeline.context.tree.component import (
    Component,
    Node,
    TextContent,
    check_life,
    insertion_of,
    node_at,
    parent_and_offset,
    place_of,
    written,
)
from ctx_pipeline.context.tree.new_nodes import fresh_head, stamped
from ctx_pipeline.context.tree.selectors.evaluation import matched
from ctx_pipeline.context.tree.selectors.parsing import parse
from ctx_pipeline.context.tree.tree import Kids, Record, Recurring

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.tree import Tree


# What a commit does: expiry, the next stages, the recurring, and the sealing of the active head.


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


_JSON = (str, int, float, bool, type(None), list, dict, tuple)


@dataclass
class UpdateResult:
    """What an operation did; a refused one raises instead."""

    success: bool = True
    updated_components: list[Node] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def inserted(tree: Tree, selector: Any, component: Component | str) -> tuple[Tree, UpdateResult]:
    """Return the tree with a component at a place or behind a node."""
    given = _component(component)
    place = place_of(selector)
    point = insertion_of(selector)
    if place is not None:
        parent, offset = parent_and_offset(tree, place)
    elif point is not None:
        parent, offset = _at_point(tree, *point)
    else:
        at = tree.record(_one(tree, selector))
        inside = at.structure in {"cont", "sys"}
        parent, offset = (
            (at.id, len(tree.kids[at.id].post) + 1 if at.id in tree.kids else 0)
            if inside
            else (str(at.parent_id), tree.offset_of(at.id) + 1)
        )
        if at.structure in {"seg", "ah", "seq", "root"}:
            raise InvalidPlacement(f"{selector!r} names a turn or region", hint='give a place in it, as in "d0, 1"', selector=selector)
    _unsealed(tree, parent, offset)
    depth = tree.depth_of(parent)
    _odi(tree, given.key, 0 if depth is None else depth)
    record = _record(given, parent)
    tree, record = stamped(tree, record)
    tree = tree.placed(record, offset)
    if record.cad is not None:
        spot = place or (0 if depth is None else depth, tree.offset_of(record.id))
        tree = _with_recurring(tree, record, spot)
    given.id = record.id
    return tree, UpdateResult(updated_components=[Node(tree, record)])


def changed(tree: Tree, selector: Any, component: Component | str | None, mode: str, content: Any) -> tuple[Tree, UpdateResult]:
    """Return the tree with other content, or another component, in a place."""
    if mode not in {"replace", "append"}:
        raise InvalidPlacement(f"Invalid mode: {mode}", hint="replace or append")
    if component is None and content is None:
        raise InvalidPlacement("Component required for update", hint="pass a component or content=...")
    at = tree.record(_target(tree, selector))
    if mode == "append":
        holder = at.id if at.structure in {"cont", "sys", "seg", "ah"} else str(at.parent_id)
        _unsealed(tree, holder, 1)
        given = _component(component if component is not None else TextContent(content))
        _odi(tree, given.key, tree.depth_of(holder) or 0)
        tree, record = stamped(tree, _record(given, holder))
        kids = tree.kids.get(holder)
        tree = tree.placed(record, len(kids.post) + 1 if kids is not None else 0)
        given.id = record.id
        return tree, UpdateResult(updated_components=[Node(tree, record)])
    if at.structure != "block":
        raise InvalidPlacement(f"a {at.structure} cannot be replaced", hint="update the components in it", id=at.id)
    _unsealed(tree, str(at.parent_id), 0)
    if component is None:
        record = msgspec.structs.replace(at, body=_body(content))
    else:
        given = _component(component)
        if given.key != at.key:
            _odi(tree, given.key, tree.depth_of(at.id) or 0)
        fresh = _record(given, str(at.parent_id))
        record = msgspec.structs.replace(
            fresh, id=at.id, cycle=at.cycle, created_at_ns=at.created_at_ns, creation_index=at.creation_index, born=tree.cycle
        )
        given.id = at.id
    tree = tree.with_record(record)
    return tree, UpdateResult(updated_components=[Node(tree, record)])


def deleted(tree: Tree, selector: Any, *, key: str | None, node_id: str | None) -> tuple[Tree, UpdateResult]:
    """Return the tree without the nodes that are named."""
    if isinstance(selector, (Component, Node)):
        node_id, selector = selector.id, None
    if selector is not None:
        ids = [_target(tree, selector)] if place_of(selector) is not None else _every(tree, selector)
    elif key is not None:
        ids = list(tree.keys.get(key, ()))
    else:
        ids = [node_id] if node_id in tree.nodes else []  # type: ignore[list-item]
    if not ids:
        raise NothingThere(f"nothing to delete: {selector if selector is not None else key or node_id!r}", selector=selector)
    calls = {tree.nodes[i].extra.get("tool_call_id") for i in ids} - {None}
    if calls:
        ids += [i for i, r in tree.nodes.items() if r.extra.get("tool_call_id") in calls and i not in ids]
    gone = []
    for target in ids:
        record = tree.nodes.get(target)
        if record is None:
            continue  # it went with its parent
        if record.structure not in {"block", "cont", "seg"} or (
            target in tree.at_offset(tree.turn_of(target), 0) and record.structure == "cont"
        ):
            raise InvalidPlacement(f"{record.node_type} cannot be deleted", hint="delete what stands in it", id=target)
        if record.structure != "seg":
            _unsealed(tree, str(record.parent_id), 0)
        gone.append(Node(tree, record))
        tree = _without_recurring(tree.without(target), record)
    return tree, UpdateResult(updated_components=gone)


def _component(component: Component | str) -> Component:
    if isinstance(component, str):
        if not component.strip():
            raise InvalidPlacement("an empty text is no component")
        return TextContent(component)
    if not isinstance(component, Component):
        raise InvalidPlacement(f"a component is inserted, not {type(component).__name__}", hint="TextContent(content=...)")
    return component


def _record(given: Component, parent: str) -> Record:
    check_life(given.ttl, given.cad)
    return Record(
        id=given.id or "",
        node_type=given.node_type,
        parent_id=parent,
        ttl=given.ttl,
        priority=given.priority,
        cad=given.cad,
        key=given.key,
        tags=tuple(given.tags),
        role=given.role,
        kind=given.kind,
        body=_body(given.content),
        removable=given.removable,
        stages=given.stages,
        rounds=given.rounds,
        extra=copy.deepcopy(given.attributes),
    )


def _body(content: Any) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, _JSON):
        raise InvalidPlacement(f"content is {type(content).__name__}", hint="text, or what JSON can hold")
    try:
        return msgspec.json.decode(msgspec.json.encode(content))
    except (TypeError, ValueError) as error:
        raise InvalidPlacement(f"content cannot be written as JSON: {error}", hint="text, or what JSON can hold") from error


def _target(tree: Tree, selector: Any) -> str:
    place = place_of(selector)
    if place is not None:
        return node_at(tree, place)
    if isinstance(selector, (Component, Node)):
        return tree.record(selector.id or "").id
    return _one(tree, selector)


def _at_point(tree: Tree, selector: str, point: str) -> tuple[str, int]:
    """Return the parent and the offset of an insertion point."""
    parent = _one(tree, selector)
    turn = tree.nodes[parent].structure in {"seg", "ah"}
    kids = tree.kids.get(parent)
    if kids is None and not turn:
        return parent, 0
    past = len(kids.post) + 1 if kids is not None else 1
    match point:
        case "start":
            return parent, -1 - len(kids.pre) if turn and kids is not None else 0
        case "end":
            return parent, past
        case _:
            offset = int(point[1:]) + (1 if point[0] == "+" else 0)
            if turn and not offset:
                raise InvalidPlacement(f"{point} would stand at the core container", hint="use -1 for before the core, +0 for behind it")
            return parent, offset


def _every(tree: Tree, selector: Any) -> list[str]:
    query = parse(selector)
    if query.timed and (query.ranged or query.every or query.moments[0].value != 0):
        raise InvalidPlacement(f"{selector!r} names the past, which cannot be changed", hint="leave the time out", selector=selector)
    return [tree.view.records[place].id for place in matched(tree.view, query)]


def _one(tree: Tree, selector: Any) -> str:
    found = _every(tree, selector)
    if not found:
        raise NothingThere(f"nothing matches {selector!r}", selector=selector)
    return found[-1]


def _unsealed(tree: Tree, parent: str, offset: int) -> None:
    """Refuse changes inside the core of a sealed turn."""
    del offset
    if tree.nodes[parent].structure != "cont":
        return
    turn = tree.turn_of(parent)
    if tree.nodes[turn].parent_id == tree.seq and parent in tree.at_offset(turn, 0):
        depth = tree.depth_of(turn)
        raise ConflictingUpdate(
            f"the core of depth {depth} is sealed", hint=f'attach a correction beside it, as in "d{depth}, 1"', depth=depth
        )


def _odi(tree: Tree, key: str | None, depth: int) -> None:
    """Refuse a younger instance of a key that would not stand above every older one."""
    for node_id in tree.keys.get(key, ()) if key is not None else ():
        older = tree.depth_of(node_id)
        if older is not None and older <= depth:
            raise OverlapWouldViolateODI(
                f"the key {key!r} lives at {written((older,))} already; a new instance at {written((depth,))} would not stand above it",
                hint=f"pact_update('#{key}', ...) changes it; after a commit the older one stands deeper",
                key=key,
                depth=depth,
            )


def _with_recurring(tree: Tree, record: Record, place: tuple[int, ...]) -> Tree:
    return replace(tree, recurring=tree.recurring.set(record.id, recurring_of(record, place, tree.cycle)), cache=[])


def _without_recurring(tree: Tree, record: Record) -> Tree:
    """Stop a component from coming again once somebody deleted an instance of it."""
    if record.cad is None:
        return tree
    left = {n: a for n, a in tree.recurring.items() if n != record.id and (record.key is None or a.record.key != record.key)}
    return replace(tree, recurring=Map(left), cache=[])
