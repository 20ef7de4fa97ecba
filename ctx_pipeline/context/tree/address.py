"""Places in a tree as people write them: ``"d0, 1, 0"``, ``[0, 1, 0]``, ``"(d1, 0)"``, ``Pos(0, 1)``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import InvalidPlacement, NothingThere
from ctx_pipeline.context.tree.component import Pos

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.tree import Tree

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
