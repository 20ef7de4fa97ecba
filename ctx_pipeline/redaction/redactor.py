"""Secrets out of text: ``[REDACTED:<detector>]`` in their place."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import accumulate, chain, compress, count
from operator import not_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.lazy_pattern import compiled, lazy_pattern
from ctx_pipeline.redaction import packed, views
from ctx_pipeline.redaction.bulk import Bulk
from ctx_pipeline.redaction.detectors import DETECTORS
from ctx_pipeline.redaction.repeats import shortened
from ctx_pipeline.redaction.shapes import digits, marked, mixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.redaction.shapes import Detector

    _Found = tuple[int, int, int, str]


# One pass over many texts that finds those in which a secret may stand, and nothing where none does.


_BETWEEN = b"\0"
"""Stands between two texts: no literal holds it, and to a pattern it is what the edge of a text is."""

_BATCH_CHARS = 4_000_000

_ESCAPE = lazy_pattern(rb"(?:\\[nrtbf]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2})\Z")

_BODY = lazy_pattern(rb"[A-Za-z0-9_.+/=%~$:\\-]{12}|[A-Za-z0-9_.+/=%~$:-]{5,11}+\r?\n[A-Za-z0-9_.+/=%~$:-]{8}")
"""How every key begins that has a shape of its own, also one that a line break parts: asked before its pattern, which costs more."""

_DOLLAR = 0x24
_EDGES = 6
"""Ends of colored pieces at which a match is tried to end."""


class Look(NamedTuple):
    """What to try at a literal: the detector's rank, its compiled pattern, and where to begin."""

    rank: int
    detector: Detector
    pattern: re.Pattern[bytes]
    offset: int
    """Added to the literal's first byte."""


class Automaton(NamedTuple):
    """All literals as one machine, and what to try for each of them."""

    machine: Any
    looks: tuple[tuple[Look, ...], ...]
    begins: tuple[bool, ...]
    """for each literal, whether nothing but keys of their own shape begin with it"""


@cache
def automaton() -> Automaton:
    """Return the machine of all detectors; built once a process, at first use."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    found: dict[bytes, list[Look]] = {}
    for rank, detector in enumerate(DETECTORS):
        pattern = lazy_pattern(detector.pattern)  # most kinds stand in no session
        for literal in detector.literals:
            offset = len(literal) - 1 if detector.from_end else 0
            found.setdefault(literal, []).append(Look(rank, detector, pattern, offset))
    machine = BytesAhoCorasick(list(found), implementation=Implementation.DFA)
    looks = tuple(map(tuple, found.values()))
    return Automaton(machine, looks, tuple(all(look.detector.apart for look in tried) for tried in looks))


def literal_in(data: bytes) -> bool:
    """Tell whether a literal of any detector stands in a short text; no pattern is compiled for it, as a hook has no time to."""
    return any(map(data.__contains__, _literals()))


@cache
def _literals() -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(literal for detector in DETECTORS for literal in detector.literals))


_cleared = count()
"""Long texts of which it was asked in this process whether they are clear."""

_SHORT = 4_000
"""Bytes up to which a pattern is tried everywhere in a text."""

_LONG = 500_000
"""Characters from which on a search for each literal takes longer than to make the machine of all."""


def _may_match(data: bytes) -> bool:
    """Tell whether a detector may match in a short text; the patterns of those alone are compiled of which a literal stands there.

    A pattern is tried everywhere, so that nothing is overlooked that :func:`matches` finds.
    """
    if not literal_in(data):
        return False
    told = [d for d in DETECTORS if any(map(data.__contains__, d.literals))]
    # what a line break parts is put together by the machine of all detectors
    whole = len(data) <= _SHORT and b"\n" not in data and b"\r" not in data
    return not whole or any(compiled(d.pattern).search(data) for d in told)


class Literals(NamedTuple):
    """All literals and what they look like in base64, to be found in one pass where many texts are read."""

    bulk: Bulk
    """finds them, by their places in the tuples below"""
    looks: tuple[tuple[Look, ...], ...]
    """for each, what to try there"""
    begins: tuple[bool, ...]
    """for each, whether nothing but keys of their own shape begin with it"""
    signs: tuple[int | None, ...]
    """for each, how far its group of four begins before it; None for what is no sign"""


@cache
def _literals_and_signs() -> Literals:
    _, looks, begins = automaton()
    literals = _literals()
    tried, signs = dict(zip(literals, zip(looks, begins, strict=True), strict=True)), packed.signs()
    every = tuple(dict.fromkeys([*literals, *signs]))
    nothing: tuple[tuple[Look, ...], bool] = ((), False)
    told = [tried.get(one, nothing) for one in every]
    return Literals(Bulk(every), tuple(look for look, _ in told), tuple(begin for _, begin in told), tuple(map(signs.get, every)))


def matches(
    data: bytes, joins: Sequence[int] = (), reached: Mapping[int, int] = MappingProxyType({})
) -> Iterator[tuple[Look, re.Match[bytes]]]:
    """Yield every place where a detector's pattern matches, unchecked, in order of the literals.

    At ``joins``, ascending, a word may begin or end. ``reached`` says up to where a kind was told already, by its rank.
    """
    machine, looks, _ = automaton()
    joined = set(joins)
    for index, start, _ in machine.find_matches_as_indexes(data, overlapping=True):
        for look in looks[index]:
            if start + look.offset < reached.get(look.rank, 0) and not look.detector.back:
                continue
            if look.detector.apart and _in_word(data, start) and start not in joined:
                continue
            match = _try(look, data, start, len(data))
            if match is None and joins:
                after = bisect_right(joins, start)
                match = next((m for edge in joins[after : after + _EDGES] if (m := _try(look, data, start, edge))), None)
            if match is not None:
                yield look, match


def suspects(texts: Sequence[str]) -> list[int]:
    """Return the places of the texts in which a detector's pattern may match, unchecked, ascending.

    All texts go through one literal pass; a short pattern is tried at each literal found.
    """
    return [first + place for first, batch in _batches(list(map(shortened, texts))) for place in _suspects(batch)]


def _batches(texts: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield (place of the first, texts), each batch small enough to be joined."""
    if sum(map(len, texts)) <= _BATCH_CHARS:
        yield 0, texts
        return
    ends = list(accumulate(map(len, texts)))
    first = done = 0
    while first < len(texts):
        after = max(first + 1, bisect_right(ends, done + _BATCH_CHARS))
        yield first, texts[first:after]
        first, done = after, ends[after - 1]


def _suspects(texts: Sequence[str]) -> list[int]:
    data, starts, order = _joined(texts)
    bulk, looks, begins, signs = _literals_and_signs()
    hits, hidden = bulk.places(data, starts)
    found: set[int] = set()
    groups: list[int] = []
    for index, start in hits:
        before = signs[index]
        if before is not None:
            groups.append(start - before)
        if not looks[index] or (begins[index] and (_BODY.match(data, start) is None or _in_word(data, start))):
            continue
        place = bisect_right(starts, start) - 1
        if place in found:
            continue
        end = starts[place + 1] - 1
        for look in looks[index]:
            if look.detector.apart and _in_word(data, start):
                continue
            if _try(look, data, start, end) or _parted(look, data, start, end):
                found.add(place)
                break
    coded = {bisect_right(starts, start) - 1 for start, _ in packed.spans(data, groups)}
    for place in (hidden | coded) - found:
        text = data[starts[place] : starts[place + 1] - 1]
        if any(next(matches(view.data, view.joins), None) for view in _views(text, base64=place in coded)):
            found.add(place)
    return sorted(order[place] for place in found)


def _joined(texts: Sequence[str]) -> tuple[bytes, list[int], list[int]]:
    """Return the texts as one, where each begins in it and the end, and the place of each among ``texts``.

    Those of ASCII come first, as one copy; a letter beyond Latin-1 would make all of the joined text two or four bytes a letter.
    """
    ascii_only = list(map(str.isascii, texts))
    plain = list(compress(texts, ascii_only))
    other = list(compress(range(len(texts)), map(not_, ascii_only)))
    encoded = [texts[place].encode("utf-8", "surrogatepass") for place in other]
    data = _BETWEEN.join([*([_BETWEEN.decode().join(plain).encode()] if plain else []), *encoded])
    starts = list(accumulate((size + 1 for size in chain(map(len, plain), map(len, encoded))), initial=0))
    return data, starts, [*compress(range(len(texts)), ascii_only), *other]


def _parted(look: Look, data: bytes, start: int, end: int) -> list[packed.Span]:
    """Return the line breaks that part a key at a literal, none where it is whole or none."""
    kind = look.detector
    if kind.back:
        return packed.parted_around(look.pattern, data, start, end, kind.back)
    if look.offset or kind.around or not (kind.apart or data[start] == _DOLLAR):
        return []
    return packed.parted(look.pattern, data, start, end)


def _breaks(data: bytes) -> set[packed.Span]:
    """Return the line breaks that part keys."""
    if b"\n" not in data:
        return set()
    machine, looks, _ = automaton()
    return {
        feed
        for index, start, _ in machine.find_matches_as_indexes(data, overlapping=True)
        for look in looks[index]
        if look.detector.back or not _in_word(data, start)
        for feed in _parted(look, data, start, len(data))
    }


def _views(data: bytes, *, base64: bool) -> Iterator[views.View]:
    yield from views.readings(data)
    yield from views.with_percents(data)
    if base64:
        yield from packed.readings(data)


def _try(look: Look, data: bytes, start: int, end: int) -> re.Match[bytes] | None:
    """Try a pattern at a literal of a text that ends before byte ``end``."""
    if look.detector.back:
        return look.pattern.search(data, max(0, start - look.detector.back), min(end, start + 64))
    return look.pattern.match(data, start + look.offset, end)


def _in_word(data: bytes, start: int) -> bool:
    """Tell whether a letter or digit stands before a place that belongs to no escape."""
    before = data[max(0, start - 6) : start]
    return before[-1:].isalnum() and ((b"\\" not in before and b"%" not in before) or _ESCAPE.search(before) is None)


MARKER = lazy_pattern(r"\[REDACTED:([a-z0-9-]+)\]")
"""What stands where a secret stood; the group is the detector's name."""

_MARKER_BYTES = lazy_pattern(MARKER.pattern.encode())
_PASSES = 4

_VERSION = 12
"""Raised when checks, views or key blocks find other secrets by the same patterns."""

_WHOLE_RUN = (mixed, digits)
"""Checks that refuse every part of what they refuse: no need to look inside it again."""


class Redactor:
    """Finds secrets in text, and the few of many texts that may hold one.

    ``extra`` adds a person's own detectors, name -> regular expression; a group named
    ``s`` is the part to hide. Such a pattern is searched in every byte, so it costs its
    own time. Raises SettingsError for a pattern that does not compile or a name that is not lower-case letters, digits and dashes.
    """

    def __init__(self, extra: Mapping[str, str] = {}) -> None:
        self._extra: list[tuple[str, re.Pattern[bytes]]] = []
        for name, pattern in extra.items():
            if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
                raise SettingsError(f"redaction pattern name {name!r} cannot be used", hint="use lower-case letters, digits and dashes")
            try:
                self._extra.append((name, re.compile(pattern.encode())))
            except re.error as error:
                raise SettingsError(
                    f"redaction pattern {name} is not a regular expression: {error}", hint="fix it in config.toml"
                ) from error

    @property
    def version(self) -> str:
        """Hash of everything that is looked for; part of the code versions of what is made with it."""
        return digest(
            _VERSION,
            views.SHAPE,
            packed.SHAPE,
            [(d.name, d.literals, d.pattern) for d in DETECTORS],
            [(n, p.pattern) for n, p in self._extra],
            size=16,
        )

    def clears(self, text: str) -> bool:
        """Tell, without compiling every detector, that a text can hold no secret; False where that is not sure.

        A process that asks of a long text again, or of a very long one, makes the machine of all literals, which reads it once
        and not once a literal.
        """
        if len(text) > _SHORT and (len(text) > _LONG or next(_cleared)):
            return not self._extra and not self.suspects([text])
        data = text.encode("utf-8", "surrogatepass")
        seen = (view.data for view in (*views.readings(data), *views.with_percents(data), *packed.readings(data)))
        return not self._extra and not any(map(literal_in, seen)) and not _may_match(data)

    @staticmethod
    def expect_much() -> None:
        """Make this process, and those that it forks from now on, ready for :meth:`suspects` of much text."""
        _literals_and_signs().bulk.prepare()

    def suspects(self, texts: Sequence[str]) -> list[int]:
        """Return the places of the texts in which a secret may stand, ascending: a superset of those in which :meth:`find` finds one."""
        found = suspects(texts)
        if not self._extra:
            return found
        own = (n for n, text in enumerate(texts) if self._own(text.encode("utf-8", "surrogatepass")))
        return sorted({*found, *own})

    def find(self, text: str) -> list[tuple[str, int, int]]:
        """Return (detector, start, end) of every secret, in characters; overlapping ones are one."""
        data = text.encode("utf-8", "surrogatepass")
        spans = self._spans(data)
        if not spans or len(data) == len(text):
            return spans
        found, chars, at = [], 0, 0
        for name, start, end in spans:
            chars += len(data[at:start].decode("utf-8", "surrogatepass"))
            first = chars
            chars += len(data[start:end].decode("utf-8", "surrogatepass"))
            at = end
            found.append((name, first, chars))
        return found

    def redact(self, text: str) -> str:
        """Return the text with a marker for every secret; text without one is returned itself.

        Doing it twice changes nothing more. The time grows with the length of the text only.
        """
        data = text.encode("utf-8", "surrogatepass")
        changed = False
        for _ in range(_PASSES):
            spans = self._spans(data)
            if not spans:
                break
            changed = True
            parts: list[bytes] = []
            at = 0
            for name, start, end in spans:
                parts += (data[at:start], b"[REDACTED:%s]" % name.encode())
                at = end
            data = b"".join((*parts, data[at:]))
        return data.decode("utf-8", "surrogatepass") if changed else text

    def redact_values(self, value: Any) -> Any:
        """Return a value of JSON with each of its texts redacted by itself: a person's own pattern could eat a quote of the JSON."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {key: self.redact_values(member) for key, member in value.items()}
        return [self.redact_values(member) for member in value] if isinstance(value, list) else value

    def _own(self, data: bytes) -> bool:
        return any(pattern.search(data) or any(pattern.search(view.data) for view in views.readings(data)) for _, pattern in self._extra)

    def _spans(self, data: bytes) -> list[tuple[str, int, int]]:
        """Return merged (detector, start, end) in bytes; what touches a marker is no secret any more."""
        short = data if self._extra else shortened(data)
        if short is not data and not self._spans(short):
            return []
        seen = [*views.readings(data, signs=b"\\" in data and marked(data))]
        found = self._found(data, (), last=not seen)
        if seen:
            found = [(*seen[0].shown(start, end), rank, name) for start, end, rank, name in found]
            found += self._seen(seen[0])
        # keys alone are looked for where lines are joined
        for view, apart in (
            *((view, True) for view in seen[1:]),
            *((view, False) for view in (*views.with_percents(data), *packed.readings(data))),
        ):
            taken = _Taken((start, end) for start, end, _, _ in found)
            found += [one for one in self._seen(view, apart=apart) if not taken.touches(one[0], one[1])]
        if breaks := _breaks(data):
            found += [one for one in self._seen(packed.rejoined(data, breaks)) if any(one[0] < at < one[1] for at, _ in breaks)]
        if not found:
            return []
        found.sort()
        markers = _Taken(m.span() for m in _MARKER_BYTES.finditer(data))
        merged: list[_Found] = []
        for span in found:
            if merged and span[0] < merged[-1][1]:
                first = merged[-1]
                best = min(first, span, key=lambda s: s[2])
                merged[-1] = (first[0], max(first[1], span[1]), best[2], best[3])
            else:
                merged.append(span)
        return [(name, start, end) for start, end, _, name in merged if not markers.touches(start, end)]

    def _seen(self, view: views.View, *, apart: bool = False) -> list[_Found]:
        """Return what a view shows, at its place in the original."""
        return [(*view.original(start, end), rank, name) for start, end, rank, name in self._found(view.data, view.joins, apart=apart)]

    def _found(self, data: bytes, joins: Sequence[int], *, last: bool = True, apart: bool = False) -> list[_Found]:
        """Return (start, end, rank, detector) of every secret in bytes as they stand.

        What reaches over many lines is left to the ``last`` reading; ``apart`` asks only for kinds that never begin inside a word.
        """
        found: list[_Found] = []
        reached: dict[int, int] = {}
        for look, match in matches(data, joins, reached):
            kind = look.detector
            if match.start() < reached.get(look.rank, 0) or (apart and not kind.apart) or (kind.around and not last):
                continue
            span = kind.around(data, match) if kind.around else _hidden(match)
            if span is None:
                continue
            start, end = span
            accepted = kind.check is None or kind.check(data[start:end], match)
            if accepted:
                found.append((start, end, look.rank, kind.name))
            if accepted or kind.check in _WHOLE_RUN:
                reached[look.rank] = end
        if not apart:
            for order, (name, pattern) in enumerate(self._extra):
                found += [(*_hidden(m), order - len(self._extra), name) for m in pattern.finditer(data) if m.end() > m.start()]
        return found


@cache
def built_in() -> Redactor:
    """Return the detectors that every store has, whatever a person adds."""
    return Redactor()


def harmless(name: str) -> bool:
    """Tell whether an id or a name holds no secret that the built-in detectors know; a person's patterns change no id."""
    return built_in().clears(name) or not built_in().find(name)


def _hidden(match: re.Match[bytes]) -> tuple[int, int]:
    """Return the span to hide: the group s, else the value of an assignment, else all."""
    groups = match.re.groupindex
    for name in ("s", "quoted", "bare"):
        if name in groups and match.start(name) >= 0:
            return match.span(name)
    return match.span()


class _Taken:
    """Spans of which it is asked whether another one meets them; thousands of each cost no more than they must."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._reached = list(accumulate((end for _, end in ordered), max))

    def touches(self, start: int, end: int) -> bool:
        """Tell whether a span shares a byte with one of these."""
        before = bisect_left(self._starts, end)
        return before > 0 and self._reached[before - 1] > start
