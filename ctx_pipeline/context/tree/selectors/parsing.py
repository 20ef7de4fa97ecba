"""Selector text to a query; whatever does not fit raises with its position and a hint."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import InvalidSelector
from ctx_pipeline.context.tree.selectors.operators import operator_of, signs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Lark, Token, Tree

__all__ = ["Hop", "conditions", "parse"]


# A parsed selector.


@dataclass(frozen=True)
class Condition:
    """``name op value``; ``op`` is exists, in or a sign of ``operators.py``."""

    name: str
    op: str = "exists"
    value: object = None


@dataclass(frozen=True)
class Hop:
    """One step inside a position: offsets from ``low`` to ``high``, or a word, or a step of the selector language."""

    word: str = ""
    low: int | None = None
    high: int | None = None
    step: Step | None = None


@dataclass(frozen=True)
class Step:
    """What one node has to be."""

    root: str = ""
    depths: tuple[tuple[int, int | None], ...] = ()
    positions: tuple[tuple[Hop, ...], ...] = ()
    """Places in parentheses; the first hop of each holds its depths."""
    any: bool = False
    types: tuple[str, ...] = ()
    key: str | None = None
    tags: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    sides: tuple[str, ...] = ()
    among: tuple[tuple[str, int], ...] = ()
    """first, last or nth among the matches"""

    @property
    def zone(self) -> bool:
        """Whether the step only says on which side of the core: what follows may then be the node itself."""
        return bool(self.sides) and not (self.root or self.depths or self.positions or self.any or self.types or self.key or self.tags)


@dataclass(frozen=True)
class Chain:
    """Steps with what joins each to the one before: "" for the first, " " below, ">" directly below."""

    steps: tuple[tuple[str, Step], ...]


@dataclass(frozen=True)
class Moment:
    """A point in time: kind t (0 the working state, n the n-th newest snapshot; None the oldest) or c (a cycle)."""

    kind: str
    value: int | None

    @property
    def label(self) -> str:
        """The moment as it is written."""
        if self.kind == "c":
            return f"@c{self.value}"
        if self.value is None:
            return "@t-*"
        return f"@t-{self.value}" if self.value else "@t0"


@dataclass(frozen=True)
class Query:
    """A whole selector: when, what, and how much of it."""

    text: str
    chains: tuple[tuple[Chain, ...], ...]
    """A union of alternatives; of each tuple the first chain that finds something counts."""
    moments: tuple[Moment, ...] = ()
    timed: bool = False
    every: bool = False
    """``@*``: all snapshots."""
    ranged: bool = False
    pair: bool = False
    controls: dict[str, str] = field(default_factory=dict, hash=False)


LONGEST = 1_000
"""Characters of a pattern."""

SECONDS = 10.0
"""How long one condition may look; checked between texts."""

_AT_ONCE, _CHARACTERS = 1_000, 100_000
"""Texts, and their characters, that are looked at between two looks at the clock."""


class Expression:
    """A pattern in a selector; knows its place there for what it has to say."""

    def __init__(self, pattern: str, selector: str, position: int) -> None:
        self.pattern = pattern
        self._selector, self._position = selector, position
        if len(pattern) > LONGEST:
            raise self._refused(f"a pattern of {len(pattern)} characters", f"at most {LONGEST:,} are taken")
        self._matching([""])

    def matching(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether the pattern is found in it. Raises InvalidSelector when the time is over."""
        found: list[bool] = []
        deadline = time.monotonic() + SECONDS
        while len(found) < len(texts):
            if found and time.monotonic() > deadline:
                said = f"the pattern took more than {SECONDS:g} s for {len(found):,} of {len(texts):,} texts"
                raise self._refused(said, "choose fewer nodes before it, or write a simpler pattern")
            end, size = len(found), 0
            while end < len(texts) and end - len(found) < _AT_ONCE and (size := size + len(texts[end])) <= _CHARACTERS:
                end += 1
            found += self._matching(texts[len(found) : max(end, len(found) + 1)])
        return found

    def _matching(self, texts: Sequence[str]) -> list[bool]:
        import pyarrow as pa
        from pyarrow import compute

        column = pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.large_string())
        try:
            matched: list[Any] = compute.match_substring_regex(column, pattern=self.pattern).to_pylist()
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            said = str(error).removeprefix("Invalid regular expression: ")
            raise self._refused(f"{self.pattern!r} is no regular expression: {said}", "the syntax is RE2's: name~='pattern'") from None
        return matched

    def _refused(self, problem: str, hint: str) -> InvalidSelector:
        return InvalidSelector(self._selector, self._position, problem, hint)


_BARE = re.compile(r"d-?\d+(\s*,\s*-?\d+)+")
_ENDLESS = re.compile(r"\d{1000,}")
_TIMED_ONLY = frozenset({"age", "born_turn"})
_NUMBERS = frozenset(
    {"age", "born_turn", "cad", "cadence", "created_at_ns", "creation_index", "cycle", "depth", "offset", "priority", "ttl"}
)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_PREDICATES = re.compile(r":(pre|core|post|first|last|nth|depth)\b", re.IGNORECASE)
_ORDERS = frozenset({"path", "newest", "oldest"})
_MODES = frozenset({"all", "latest", "pairwise"})


_STARTS = {"grammar": ["start", "step"], "conditions": ["start"], "parts": ["position", "depth", "among", "time"]}
DEPTH_HINT = "depths are -1 (system), 0 (active head), 1 and up; the smaller comes first"


@lru_cache(maxsize=3)
def _grammar(name: str) -> Lark:
    from lark import Lark  # most processes that load a tree never parse a selector

    text = files("ctx_pipeline.context.tree.selectors").joinpath(f"{name}.lark").read_text("utf-8")
    return Lark(text.replace("OPERATORS", signs()), parser="lalr", propagate_positions=True, start=_STARTS[name])


def parse(text: str) -> Query:
    """Return the query of a selector. Raises InvalidSelector."""
    if not isinstance(text, str):
        raise InvalidSelector(str(text), 0, f"a selector is text, not {type(text).__name__}", "write it as in '^ah .block'")
    return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> Query:
    if not text.strip():
        raise InvalidSelector(text, 0, "an empty selector", "for everything write ^root *")
    endless = _ENDLESS.search(text)
    if endless:
        raise InvalidSelector(text, endless.start(), "a number of a thousand digits", "depths, offsets and counts are small numbers")
    lead = len(text) - len(text.lstrip())
    bare = text.strip()
    # "d0, 1, 0" is the place (d0, 1, 0), not a union
    tree = _parsed("grammar", f"({bare})" if _BARE.fullmatch(bare) else bare, text, lead)
    return _query(text, tree, lead)


def _parsed(name: str, part: str, whole: str, lead: int, start: str = "start") -> Any:
    from lark.exceptions import UnexpectedInput

    try:
        return _grammar(name).parse(part, start=start)
    except UnexpectedInput as error:
        ended = getattr(getattr(error, "token", None), "type", "") == "$END"
        place = None if ended else getattr(error, "pos_in_stream", None)
        at = lead + (len(part) if place is None or place < 0 else min(place, len(part)))
        rest = whole[at : at + 12]
        raise InvalidSelector(
            whole, at, f"{rest!r} does not belong here" if rest else "the selector ends too early", _hint(rest.strip())
        ) from None


def _hint(rest: str) -> str:
    advice = {
        "@": (
            "controls are @limit=N @offset=N @mode=all|latest @order=path|newest|oldest @first @unique; "
            "a time (@t0, @t-1..@t-3, @c4) stands first"
        ),
        ":": "predicates are :pre :core :post :first :last :nth(n) :depth(n)",
        "^": "regions are ^sys ^seq ^ah ^root",
        "[": "close the bracket: [ttl<=2]",
        "{": "close the brace: {key='value'}",
        "(": "a position is (d1), (d1..d3), (d0, 1), ((d1,0),(d2,0))",
    }
    return advice.get(rest[:1], "steps are ^region .type #key +tag (d1, 0) {name='value'} [ttl<=2] :first, joined by a blank or >")


def _query(text: str, tree: Tree[Token], lead: int) -> Query:
    from lark import Token

    controls: dict[str, str] = {}
    times = ""
    chains: tuple[tuple[Chain, ...], ...] = ()
    for child in tree.children:
        if isinstance(child, Token):
            times = str(child) if child.type == "TIME" else times
        elif child.data == "control":
            _control(text, child.children[0], lead, controls)
        elif child.data == "union":
            chains = tuple(tuple(_chain(text, chain, lead) for chain in option.children) for option in child.children)  # type: ignore[union-attr]
    moments, every, ranged, pair = _times(text, times, lead)
    query = Query(text, chains, moments, bool(times), every, ranged, pair, controls)
    if not times:
        for condition in _conditions_of(query):
            if condition.name in _TIMED_ONLY:
                raise InvalidSelector(text, max(text.find(condition.name), 0), f"{condition.name} needs a time", "write @t0 in front")
        if controls.get("mode") == "pairwise":
            raise InvalidSelector(text, text.find("@mode"), "pairwise compares snapshots", "give a range, as in @t0..@t-3")
    return query


def _conditions_of(query: Query) -> list[Condition]:
    return [c for option in query.chains for chain in option for _, step in chain.steps for c in step.conditions]


def _control(text: str, token: Any, lead: int, controls: dict[str, str]) -> None:
    name, _, value = str(token).strip()[1:].partition("=")
    at = lead + (token.start_pos or 0)
    number = name in {"limit", "offset", "skip"}
    if number and not value.isdecimal():
        raise InvalidSelector(text, at, f"@{name} needs a number", f"write @{name}=10")
    if name == "mode" and value not in _MODES:
        raise InvalidSelector(text, at, f"there is no mode {value!r}", "@mode=all or @mode=latest")
    if name == "order" and value not in _ORDERS:
        raise InvalidSelector(text, at, f"there is no order {value!r}", "@order=path, @order=newest or @order=oldest")
    controls["offset" if name == "skip" else name] = value


def _times(text: str, written: str, lead: int) -> tuple[tuple[Moment, ...], bool, bool, bool]:
    if not written:
        return (Moment("t", 0),), False, False, False
    tree = _parsed("parts", written, text, lead, "time")
    if tree.data == "history":
        return (Moment("t", 0), Moment("t", None)), False, True, False
    parts = [{token.type: token for token in part.children} for part in tree.children]
    kind = str(parts[0].get("KIND", "t"))
    if tree.data == "now" and "STAR" in parts[0] and kind == "t":
        return (), True, False, False
    moments = []
    for part, tokens in zip(tree.children, parts, strict=True):
        end, at = written[part.meta.start_pos : part.meta.end_pos], lead + part.meta.start_pos
        count, sign, own = tokens.get("COUNT"), tokens.get("SIGN", ""), tokens.get("KIND")
        if count is None and own is None:
            raise InvalidSelector(text, at, f"{end!r} is not a time", "times are @t0, @t-1, @c4; the oldest is @t-*")
        if own not in {None, kind}:
            raise InvalidSelector(text, at, "a range mixes snapshots (@t) and cycles (@c)", "use one kind at both ends")
        if sign == "+" or (own == "t" and not sign and count and count.strip("0")):
            raise InvalidSelector(text, at, f"{end!r}: nothing is known of the future", "now is @t0, snapshots are @t-1, @t-2, ...")
        if kind == "c" and (sign or count is None):
            raise InvalidSelector(text, at, f"{end!r} is no cycle", "cycles are @c0, @c1, ...")
        moments.append(Moment(kind, None if count is None else int(count)))
    return tuple(moments), False, tree.data != "now", tree.data == "pair"


def _chain(text: str, tree: Any, lead: int) -> Chain:
    steps: list[tuple[str, Step]] = []
    joint = ""
    for child in tree.children:
        if child.data == "joint":
            joint = ">" if ">" in child.children[0] else " "
        else:
            steps.append((joint, _step(text, child, lead)))
    return Chain(tuple(steps))


def _step(text: str, tree: Any, lead: int) -> Step:
    fields: dict[str, Any] = {"types": (), "tags": (), "conditions": (), "sides": (), "among": (), "depths": ()}
    for part in tree.children:
        token = part.children[0] if part.children else None
        at = lead + (token.start_pos if token is not None else 0)
        written = str(token) if token is not None else ""
        match part.data:
            case "root":
                fields["root"] = written[1:]
            case "depth":
                fields["depths"] = (_depth(text, _parsed("parts", written, text, at, "depth"), at),)
            case "position":
                fields["positions"] = _positions(text, written, at)
            case "any":
                fields["any"] = True
            case "type":
                _no_predicate(text, written, at)
                fields["types"] += (written[1:],)
                if len(part.children) > 1:
                    args = part.children[1]
                    fields["conditions"] += conditions(text, str(args)[1:-1], lead + args.start_pos + 1)
            case "key":
                _no_predicate(text, written, at)
                fields["key"] = _unquoted(written[1:])
            case "tag":
                _no_predicate(text, written, at)
                fields["tags"] += (written[1:],)
            case "props" | "brackets":
                fields["conditions"] += conditions(text, written[1:-1], at + 1)
            case "side":
                fields["sides"] += (written[1:],)
            case "among":
                _among(text, written, at, fields)
    return Step(**fields)


def _positions(text: str, written: str, at: int) -> tuple[tuple[Hop, ...], ...]:
    """Return the hops of each place in parentheses."""
    tree = _parsed("parts", written, text, at, "position")
    places = [child.children[0] if child.data == "nested" else child for child in tree.children]
    return tuple(
        (Hop("depth", *_depth(text, place.children[0], at)), *(_hop(text, hop, at) for hop in place.children[1:])) for place in places
    )


def _hop(text: str, hop: Any, lead: int) -> Hop:
    token = hop.children[0]
    at = lead + token.start_pos
    match hop.data:
        case "offset":
            low, high = int(token), int(hop.children[-1])
            if high < low:
                raise InvalidSelector(text, at, f"{low}..{high} is no range", "the smaller offset comes first")
            return Hop("offset", low, high)
        case "word":
            return Hop(str(token))
        case "child":
            return Hop("child", step=_step(text, _parsed("grammar", f".{token.strip()}", text, at - 1, "step"), at - 1))
        case "below":
            return Hop("below", step=_step(text, _parsed("grammar", f".{token[2:].strip()}", text, at + 1, "step"), at + 1))
    return Hop("below", step=_step(text, _parsed("grammar", token.strip(), text, at, "step"), at))


def _no_predicate(text: str, written: str, at: int) -> None:
    """Refuse a predicate in capitals, which would be part of a name of one's own."""
    found = _PREDICATES.search(written) if written[1:2] not in {"'", '"'} else None
    if found:
        raise InvalidSelector(text, at + found.start(), f"there is no predicate {found[0]!r}", f"write {found[0].lower()!r}")


def _depth(text: str, tree: Any, at: int) -> tuple[int, int | None]:
    """Return the least and the greatest depth of a range, None for no end."""
    first, last = tree.children[0], tree.children[-1]
    low, high = int(first), None if last == "*" else int(last)
    if low < -1 or (high is not None and high < low):
        raise InvalidSelector(text, at + tree.meta.start_pos, f"{low}..{last} is no depth", DEPTH_HINT)
    return low, high


def _among(text: str, written: str, at: int, fields: dict[str, Any]) -> None:
    name, _, inside = written[1:].rstrip(")").partition("(")
    if name == "depth":
        spans = _parsed("parts", inside, text, at + len(name) + 2, "among").children
        fields["depths"] += tuple(_depth(text, span, at + len(name) + 2) for span in spans)
    elif name == "nth" and int(inside) < 1:
        raise InvalidSelector(text, at, "counting starts at 1", ":nth(1) is the first")
    else:
        fields["among"] += ((name, int(inside) if inside else 0),)


def conditions(text: str, inside: str, at: int) -> tuple[Condition, ...]:
    """Return the conditions between brackets or braces."""
    tree = _parsed("conditions", inside, text, at)
    found = tuple(_condition(text, item, at) for item in tree.children)
    if not found:
        raise InvalidSelector(text, at, "no condition", "[ttl<=2] or {key='value'}")
    return found


def _condition(text: str, item: Any, at: int) -> Condition:
    name = str(item.children[0])
    if item.data == "named":
        return Condition(name)
    if item.data == "contained":
        value = _value(item.children[1])
        if name in _NUMBERS:
            value = _numeric(text, name, item.children[1], value, at)
        return Condition(name, "in", value)
    operator, value = operator_of(str(item.children[1])), _value(item.children[2])
    if name in _NUMBERS and not operator.is_pattern:
        value = _numeric(text, name, item.children[2], value, at)
    if isinstance(value, tuple):
        if not operator.of_list:
            raise InvalidSelector(text, at, f"a list goes with = or in, not {item.children[1]}", "name in ['a', 'b']")
        return Condition(name, operator.of_list, value)
    if operator.is_pattern:
        value = Expression(str(value), text, at)
    return Condition(name, operator.sign, value)


def _numeric(text: str, name: str, item: Any, value: Any, at: int) -> Any:
    """Return the number that a quoted one means; refuse a word where only a number or null can match."""
    if isinstance(value, tuple):
        return tuple(_numeric(text, name, item, one, at) for one in value)
    if not isinstance(value, str):
        return value
    if not _NUMBER.fullmatch(value):
        raise InvalidSelector(text, at + item.meta.start_pos, f"{name} is a number, not {value!r}", f"write [{name}=1] or [{name}=null]")
    return float(value) if "." in value else int(value)


def _value(item: Any) -> Any:
    if item.data == "list":
        return tuple(_value(child) for child in item.children)
    written = str(item.children[0])
    if item.data == "number":
        return float(written) if "." in written else int(written)
    if item.data == "text":
        return _unquoted(written)
    return {"null": None, "None": None, "true": "true", "false": "false"}.get(written, written)


def _unquoted(written: str) -> str:
    return re.sub(r"\\(.)", r"\1", written[1:-1]) if written[:1] in {"'", '"'} else written
