"""The operators between a name and a value in a selector; an entry of ``OPERATORS`` is all that one needs."""

from __future__ import annotations

import re
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


def equal(found: Any, value: object) -> bool:
    """Tell whether a header has a value; a text that is written like a number counts as it."""
    if isinstance(found, bool):
        found = "true" if found else "false"
    if isinstance(found, str) and isinstance(value, (int, float)):
        return found == str(value)
    return bool(found == value)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return what compares by number where both are numbers or written like one, else as text; nothing is before or after null."""

    def test(found: Any, value: Any) -> bool:
        if found is None or value is None:
            return False
        try:
            return compare(float(found), float(value))
        except (TypeError, ValueError):
            return compare(str(found), str(value))

    return test


class Operator(NamedTuple):
    """One operator: ``test(found, value)`` of a node's header, and ``of_tags(tags, value)`` of all its tags."""

    sign: str
    test: Callable[[Any, Any], bool]
    of_tags: Callable[[tuple[str, ...], Any], bool] = lambda _tags, _value: False
    spellings: tuple[str, ...] = ()
    """other ways to write it"""
    is_pattern: bool = False
    """The value is a regular expression and ``test`` is not asked: texts are matched many at a time."""
    same: Callable[[Any, Any], bool] | None = None
    """``eq`` or ``ne`` where plain values can be compared without ``test``"""
    of_list: str = ""
    """the operator that a list of values makes of it; empty: it takes no list"""


OPERATORS: dict[str, Operator] = {
    operator.sign: operator
    for operator in (
        Operator("=", equal, lambda tags, v: v in tags if v is not None else not tags, same=eq, of_list="in"),
        Operator("!=", lambda found, v: not equal(found, v), lambda tags, v: v not in tags if v is not None else bool(tags), same=ne),
        Operator("<", _ordered(lt)),
        Operator("<=", _ordered(le)),
        Operator(">", _ordered(gt)),
        Operator(">=", _ordered(ge)),
        Operator("~", lambda _found, _value: False, spellings=("~=",), is_pattern=True),
    )
}
"""sign -> operator; ``in`` and a name alone have rules of their own in ``conditions.lark``"""


def operator_of(written: str) -> Operator:
    """Return the operator that is written so."""
    return OPERATORS.get(written) or next(o for o in OPERATORS.values() if written in o.spellings)


def signs() -> str:
    """Return the regular expression of everything that is an operator, longest first."""
    found = {written for o in OPERATORS.values() for written in (o.sign, *o.spellings)}
    return "|".join(re.escape(sign).replace("/", r"\/") for sign in sorted(found, key=lambda sign: (-len(sign), sign)))
