"""Which nodes of a view a query means."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.tree.component import header
from ctx_pipeline.context.tree.selectors.operators import OPERATORS, equal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.context.tree.selectors.parsing import Chain, Condition, Hop, Query, Step
    from ctx_pipeline.context.tree.tree import View

_CLASSES = {"seg": "seg", "mt": "seg", "cont": "cont", "mc": "cont", "block": "block", "cb": "block", "c": "cont", "b": "block"}
_REGIONS = {"sys": "sys", "ah": "ah", "seq": "seq", "root": "root"}
_DIRECT = {
    name: attrgetter(name)
    for name in ("id", "ttl", "cad", "priority", "cycle", "created_at_ns", "creation_index", "key", "role", "kind", "parent_id")
} | {"nodeType": attrgetter("node_type"), "type": attrgetter("node_type"), "cadence": attrgetter("cad")}
_WRITTEN = frozenset({"offset", "depth", "born_turn", "age", "created_at_iso", "content_hash"})
"""Headers that are made when they are asked for; every other name is one of the node's own fields."""


def matched(view: View, query: Query) -> list[int]:
    """Return the places of the nodes that a query means, in canonical order; of a union each part in its turn, no node twice."""
    found: dict[int, None] = {}
    for option in query.chains:
        for chain in option:
            places = _chain(view, chain)
            if places:
                found.update(dict.fromkeys(places))
                break
    return _controlled(view, list(found), query.controls)


def _controlled(view: View, places: list[int], controls: dict[str, str]) -> list[int]:
    if not controls:
        return places
    records = view.records
    if controls.get("mode") == "latest":
        latest: dict[str, int] = {}
        for place in places:
            name = records[place].key or records[place].id
            if name not in latest or records[latest[name]].order < records[place].order:
                latest[name] = place
        kept = set(latest.values())
        places = [place for place in places if place in kept]
    order = controls.get("order")
    if order == "path":
        places = sorted(places)
    elif order:
        places = sorted(places, key=lambda place: records[place].order, reverse=order == "newest")
    first = int(controls.get("offset", 0))
    last = 1 + first if "first" in controls else first + int(controls["limit"]) if "limit" in controls else None
    return places[first:last]


def _chain(view: View, chain: Chain) -> list[int]:
    current: list[int] = []
    before: Step | None = None
    for joint, step in chain.steps:
        if before is None:
            current = _filtered(view, _candidates(view, step), step, None)
        else:
            below = _candidates(view, step)
            zone = before.zone
            if joint == ">":
                holders = set(current)
                parents = view.parents
                below = [place for place in below if parents[place] in holders or (zone and place in holders)]
            else:
                below = _within(view, below, current, zone=zone)
            current = _filtered(view, below, step, current)
        before = step
        if not current:
            return []
    return current


def _within(view: View, places: list[int], holders: list[int], *, zone: bool) -> list[int]:
    """Return the places below any of the holders; both sorted."""
    out: list[int] = []
    reached = 0
    for holder in holders:
        begin = max(holder if zone else holder + 1, reached)
        end = view.ends[holder]
        if end > begin:
            out += places[bisect_left(places, begin) : bisect_left(places, end)]
            reached = end
    return out


def _candidates(view: View, step: Step) -> list[int]:
    if step.root:
        return list(view.by_structure.get(step.root, ()))
    if step.positions:
        return sorted({place for hops in step.positions for place in _positioned(view, hops)})
    if step.key is not None:
        return list(view.by_key.get(step.key, ()))
    if step.types:
        return list(_typed(view, step.types[0]))
    if step.tags:
        return list(view.by_tag.get(step.tags[0], ()))
    if step.depths:
        return _turns(view, step.depths)
    return list(range(1, len(view.records)))


def _typed(view: View, name: str) -> Sequence[int]:
    if name in _CLASSES:
        return view.by_structure.get(_CLASSES[name], ())
    if name in _REGIONS:
        return view.by_structure.get(name, ())
    base, _, own = name.partition(":")
    exact = view.by_type.get(name, ())
    if not own:
        # .summary also finds block:summary, whose canonical class is before the colon
        return sorted({*exact, *(p for t, places in view.by_type.items() if t.partition(":")[2] == name for p in places)})
    if base in _CLASSES:
        wanted = _CLASSES[base]
        return sorted({*exact, *(p for p in view.by_type.get(own, ()) if view.records[p].structure == wanted)})
    return exact


def _turns(view: View, depths: tuple[tuple[int, int | None], ...]) -> list[int]:
    turns = [p for name in ("sys", "seg", "ah") for p in view.by_structure.get(name, ()) if view.depths[p] is not None]
    inside = [
        p for p in turns if any(low <= (view.depths[p] or 0) and (high is None or (view.depths[p] or 0) <= high) for low, high in depths)
    ]
    return sorted(inside)


def _filtered(view: View, places: list[int], step: Step, holders: list[int] | None) -> list[int]:
    if step.types:
        anchored = bool(step.root or step.positions or step.key)
        for name in step.types if anchored else step.types[1:]:
            allowed = set(_typed(view, name))
            places = [place for place in places if place in allowed]
    if step.key is not None and (step.root or step.positions):
        places = [place for place in places if view.records[place].key == step.key]
    if step.depths and (step.types or step.tags or step.root or step.positions or step.key):
        turns = set(_turns(view, step.depths))
        places = [place for place in places if place in turns or (step.root == "seq" and view.parents[place] in turns)]
    for tag in step.tags:
        places = [place for place in places if tag in view.records[place].tags]
    for side in step.sides:
        places = _on_side(view, places, side)
    for condition in step.conditions:
        places = _conditioned(view, places, condition)
    for name, number in step.among:
        places = _among(view, places, name, number, holders)
    return places


def _on_side(view: View, places: list[int], side: str) -> list[int]:
    offsets = view.offsets
    if side == "pre":
        return [place for place in places if offsets[place] < 0]
    if side == "post":
        return [place for place in places if offsets[place] > 0]
    return [place for place in places if not offsets[place] and view.records[place].structure in {"cont", "block"}]


def _among(view: View, places: list[int], name: str, number: int, holders: list[int] | None) -> list[int]:
    """Return the first, last or n-th of the matches of each holder; without holders, of each parent."""
    groups: dict[int, list[int]] = {}
    for place in places:
        if holders is None:
            owner = view.parents[place]
        else:
            at = bisect_right(holders, place) - 1
            while at > 0 and view.ends[holders[at]] <= place:
                at -= 1
            owner = holders[max(at, 0)]
        groups.setdefault(owner, []).append(place)
    wanted = {"first": 0, "last": -1}.get(name, number - 1)
    return [group[wanted] for group in groups.values() if -1 <= wanted < len(group)]


def _conditioned(view: View, places: list[int], condition: Condition) -> list[int]:
    records, name, op, value = view.records, condition.name, condition.op, condition.value
    if name == "ephemeral" and op == "exists":
        return [p for p in places if records[p].ttl in {0, 1} and records[p].cad is None]
    if name == "sticky" and op == "exists":
        return [p for p in places if records[p].ttl == 1 and records[p].cad == 1]
    operator = OPERATORS.get(op)
    if name in {"tag", "tags"}:
        if operator is not None and operator.is_pattern:
            return _by_expression([(p, tag) for p in places for tag in records[p].tags], value)
        return [p for p in places if _tagged(records[p].tags, op, value)]
    get = _getter(view, name)
    if op == "exists":
        return [p for p in places if get(p) is not None]
    if operator is None:
        options = value if isinstance(value, tuple) else ()
        return [p for p in places if any(equal(get(p), option) for option in options)]
    if operator.is_pattern:
        return _by_expression([(p, str(text)) for p in places if (text := get(p)) is not None], value)
    same = operator.same
    if same is not None:
        direct = _DIRECT.get(name)
        if direct is not None and not isinstance(value, (int, float)):
            return [p for p in places if same(direct(records[p]), value)]
        if direct is not None:
            text = str(value)
            return [p for p in places if same(_like(direct(records[p]), value, text), value)]
        if name not in _WRITTEN and isinstance(value, str) and value not in {"true", "false"}:
            if name == "content":
                return [p for p in places if same(records[p].body, value)]
            return [p for p in places if same(records[p].extra.get(name), value)]
    return [p for p in places if operator.test(get(p), value)]


def _by_expression(texts: list[tuple[int, str]], expression: Any) -> list[int]:
    """Return the places of which a text is matched, each once."""
    matched = expression.matching([text for _, text in texts])
    return list(dict.fromkeys(place for (place, _), fits in zip(texts, matched, strict=True) if fits))


def _getter(view: View, name: str) -> Callable[[int], Any]:
    records = view.records
    if name == "offset":
        return view.offsets.__getitem__
    if name == "depth":
        return view.depths.__getitem__
    if name in {"born_turn", "age"}:
        now = view.tree.cycle
        return (lambda p: now - records[p].cycle) if name == "age" else (lambda p: records[p].cycle)
    direct = _DIRECT.get(name)
    if direct is not None:
        return lambda p: direct(records[p])
    if name in _WRITTEN or name == "content":
        return lambda p: header(records[p], view.offsets[p], name)
    return lambda p: records[p].extra.get(name)


def _like(found: Any, value: Any, text: str) -> Any:
    """Return what is compared with a number: a text that is written like it counts as it."""
    return value if isinstance(found, str) and found == text else found


def _tagged(tags: tuple[str, ...], op: str, value: Any) -> bool:
    if op == "exists":
        return bool(tags)
    if op == "in":
        return any(option in tags for option in value)
    return OPERATORS[op].of_tags(tags, value)


def _positioned(view: View, hops: tuple[Hop, ...]) -> list[int]:
    depth = hops[0]
    current = _turns(view, ((depth.low or 0, depth.high),))
    for hop in hops[1:]:
        current = _hopped(view, current, hop)
    return current


def _hopped(view: View, current: list[int], hop: Hop) -> list[int]:
    if hop.word == "seg":
        return current
    children = {p: [view.place[key] for key, _ in view.tree.children(view.records[p].id)] for p in current}
    out: list[int] = []
    for place, below in children.items():
        match hop.word:
            case "offset":
                low, high = hop.low or 0, hop.high or 0
                chosen = [c for c in below if low <= view.offsets[c] <= high]
                # a last 0 names a component itself
                out += chosen if chosen or (low, high) != (0, 0) or below else [place]
            case "first" | "min":
                out += below[:1]
            case "last" | "max":
                out += below[-1:]
            case "all":
                out += below
            case "*":
                out += range(place + 1, view.ends[place])
            case "child" if hop.step is not None:
                allowed = set(_filtered(view, _candidates(view, hop.step), hop.step, None))
                out += [c for c in below if c in allowed]
            case "below" if hop.step is not None:
                every = _candidates(view, hop.step)
                out += _filtered(view, _within(view, every, [place], zone=False), hop.step, [place])
    return sorted(set(out))
