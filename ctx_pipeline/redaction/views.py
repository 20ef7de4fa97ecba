"""Text as it reads: without terminal sequences, its unicode, URL and HTML escapes undone, each place known in the original."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import compiled, lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator, Sequence

_DEEP = rb"\\{1,15}+"
_ESC = rb"(?:\x1b|" + _DEEP + rb"(?:u001[bB]|x1[bB]|033|e(?=[\[\]]))|\^\[(?=[\[\]]))"
_END = rb"(?:\x07|\^G|" + _DEEP + rb"(?:u0007|x07|007|a)|" + _ESC + rb"\\{1,16})"
_CONTROL = (
    rb"(?:(?:" + _ESC + rb"\[|\xc2\x9b)[0-?]{0,64}+[ -/]{0,4}+[@-~]"
    rb"|" + _ESC + rb"[\]P_X^][^\x07\x1b\\^\n]{0,2000}+" + _END + rb"|" + _ESC + rb"[()*+][0-9A-B])"
)  # fmt: skip
_UNSEEN = (
    rb"(?:\xe2\x80[\x8b-\x8d]|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad"
    rb"|" + _DEEP + rb"(?:u(?:200[b-dB-D]|2060|[fF][eE][fF]{2}|00[aA][dD])|\r?\n)|(?<!\\)\\{3}(?:\\{4})?n)"
)  # fmt: skip
"""What nobody sees between two letters: blanks of no width, a soft hyphen, a line that a backslash continues."""

_ASCII = rb"[0-7][0-9a-fA-F]"
_WIDE = rb"u(?:00[89a-fA-F]|0[1-9a-fA-F][0-9a-fA-F]|[1-9a-fA-F][0-9a-fA-F]{2})[0-9a-fA-F]"
"""A letter beyond ASCII as JSON writes it; the pattern is one that Hyperscan reads too."""
_ENTITY = rb"(?:#[0-9]{1,6}|#[xX][0-9a-fA-F]{1,5}|quot|apos|amp|lt|gt|nbsp);"

_ESCAPE = (
    rb"(?P<gone>(?:" + _CONTROL + rb"|" + _UNSEEN + rb")+)|(?P<alone>" + _ESC + rb")"
    rb"|" + _DEEP + rb"(?:u(?P<unicode>[0-9a-fA-F]{4})|x(?P<byte>" + _ASCII + rb")|(?P<sign>[nrtbf\"'`/]))"
    rb"|%(?:25)*(?P<url>[0-9a-fA-F]{2})|&(?:amp;)*(?P<entity>" + _ENTITY + rb")"
)  # fmt: skip

SHAPE = _ESCAPE
"""Everything that is seen through, for the versions of what is made with it."""

_ONE = lazy_pattern(_ESCAPE)
_FEED = lazy_pattern(rb"(?:\r|\\{1,15}+r)?(?:\n|\\{1,15}+n)")
_FEEDS = (b"\r\n", b"\n", b"\\r\\n", b"\\n")

VEILS = (
    (rb"\x1b", rb""),
    (rb"\xc2", rb"\x9b"),
    (
        rb"\\",
        rb"(?:" + _WIDE + rb"|(?:u00|x)(?:0[9aAdD]|1[bB]|[2-7])|033|e[\[\]]|u200[b-dB-D]|u2060|u[fF][eE][fF]|u00[aA][dD]|\r?\n|\\\\n)",
    ),
    (rb"%", rb"[0-7][0-9a-fA-F]"),
    (rb"&", _ENTITY),
    (rb"\^\[", rb"[\[\]]"),
    (rb"\xe2", rb"(?:\x80[\x8b-\x8d]|\x81\xa0)"),
    (rb"\xef", rb"\xbb\xbf"),
    (rb"\xc2", rb"\xad"),
)
"""How each begins that hides what a text says, and what follows."""

# one search for each first byte: the engine finds a byte a hundred times as fast as one of several, and the
# empty group halves the time of a search for a single byte
_VEILS = tuple(compiled(first + (rb"(?=" + rest + rb")" if rest else rb"(?:)")) for first, rest in VEILS)
_SIGNS_OF_VEILS = (b"\x1b", b"\x9b", b"\\", b"%", b"&", b"^", b"\xe2", b"\xef", b"\xad")
"""A text without this byte holds no such veil: one byte is found four times as fast as by a pattern, two are not."""
_WIDE_OF_URL = lazy_pattern(rb"%(?=[89a-fA-F][0-9a-fA-F])")
_OF_JSON = lazy_pattern(rb"\\" + _WIDE)
_SIGN = lazy_pattern(rb"\\(?=[nrtbf\"'`/u])")
_BACKSLASH, _PERCENT = 0x5C, 0x25
_START_OF, _END_OF = itemgetter(0), itemgetter(1)


class View(NamedTuple):
    """Bytes as they read, and where they stand in the original."""

    data: bytes
    joins: tuple[int, ...]
    """Places of ``data`` at which a terminal sequence was taken out, ascending: a word may begin or end there. One letter after a
    lone escape character may belong to it, so the place behind that is one too."""
    at: tuple[int, ...]
    """where in ``data`` each piece begins, ascending"""
    pieces: tuple[tuple[int, int, bool], ...]
    """(first byte, end, as it stands) of each piece in the original"""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original that reads as ``data[start:end]``; the span is not empty."""
        begin, _, plain = self.pieces[first := bisect_right(self.at, start) - 1]
        stop, after, same = self.pieces[last := bisect_left(self.at, end) - 1]
        return begin + (start - self.at[first] if plain else 0), stop + end - self.at[last] if same else after

    def shown(self, start: int, end: int) -> tuple[int, int]:
        """Return a span of the original without terminal sequences at its ends; one that holds nothing else as it is."""
        first = bisect_right(self.pieces, start, key=_END_OF)
        last = bisect_left(self.pieces, end, key=_START_OF) - 1
        if first > last:
            return start, end
        return max(start, self.pieces[first][0]), min(end, self.pieces[last][1])


def veiled(data: bytes, starts: Sequence[int]) -> set[int]:
    """Return which of the texts that begin at ``starts`` hold an escape that hides what they say; the last of ``starts`` ends the last."""
    found: set[int] = set()
    for sign, veil in zip(_SIGNS_OF_VEILS, _VEILS, strict=True):
        at = veil.search(data) if sign in data else None
        while at is not None:
            place = bisect_right(starts, at.start()) - 1
            found.add(place)
            at = veil.search(data, starts[place + 1])
    return found


def readings(data: bytes, *, signs: bool = False) -> Iterator[View]:
    r"""Yield the views of a text; none where nothing in it is hidden.

    The first is the text as it reads; the second, where there is one, joins the lines
    that a terminal sequence breaks too. With ``signs``, ``\n`` and ``\"`` are read as JSON does; so they are
    where a letter beyond ASCII stands as JSON writes it, as a sign at the beginning of a line may be.
    """
    signs = signs or (b"\\u" in data and _OF_JSON.search(data) is not None)
    hidden = [at.start() for veil in (*_found_in(data), *([_SIGN] if signs else [])) for at in veil.finditer(data)]
    if not hidden:
        return
    if b"%" in data:
        hidden += (at.start() for at in _WIDE_OF_URL.finditer(data))
    escapes = list(_escapes(data, sorted(hidden)))
    yield _view(data, escapes)
    if not all(text for _, _, text, _ in escapes):
        lines = list(_with_feeds(data, escapes))
        if lines != escapes:
            yield _view(data, lines)


def with_percents(data: bytes) -> Iterator[View]:
    """Yield the view in which an escape of an address is a percent sign and what follows, as a password behind one may begin.

    Where an address stands in another, one level of it is undone; else its escapes are left, where others are not.
    """
    if b"%" not in data:
        return
    escapes = list(_escapes(data, sorted(at.start() for veil in _found_in(data) for at in veil.finditer(data))))
    others = [one for one in escapes if data[one[0]] != _PERCENT]
    nested = any(data.startswith(b"%25", start) for start, _, _, _ in escapes)
    if nested:
        yield _view(data, [one if data[one[0]] != _PERCENT else _once(data, one[0]) for one in escapes])
    elif others and (len(others) < len(escapes) or _WIDE_OF_URL.search(data)):
        yield _view(data, others)


def _once(data: bytes, start: int) -> _Escape:
    return start, start + 3, _figures(data[start + 1 : start + 3]), False


def _found_in(data: bytes) -> list[re.Pattern[bytes]]:
    return [veil for sign, veil in zip(_SIGNS_OF_VEILS, _VEILS, strict=True) if sign in data]


_Escape = tuple[int, int, bytes, bool]
"""Start, end, what it says (nothing where it is a terminal sequence), whether it is an escape character alone."""


def _escapes(data: bytes, hidden: list[int]) -> Iterator[_Escape]:
    """Yield the escapes that stand at some places, none inside another, each with all its backslashes."""
    done = 0
    for place in hidden:
        if place < done:
            continue
        start = place
        if data[place] == _BACKSLASH:
            while done < start and place - start < 14 and data[start - 1] == _BACKSLASH:
                start -= 1
        match = _ONE.match(data, start)
        if match is not None:
            kind = match.lastgroup or ""
            decoded = _DECODED.get(kind)
            done = match.end()
            yield start, done, decoded(match[kind]) if decoded else b"", kind == "alone"


def _with_feeds(data: bytes, escapes: list[_Escape]) -> Iterator[_Escape]:
    """Yield the escapes, terminal sequences with the line breaks beside them."""
    done = 0
    for start, end, text, lone in escapes:
        if not text:
            start = max(done, start - next((len(feed) for feed in _FEEDS if data.endswith(feed, done, start)), 0))  # noqa: PLW2901
            feed = _FEED.match(data, end)
            end = feed.end() if feed else end  # noqa: PLW2901
        done = end
        yield start, end, text, lone


def _view(data: bytes, escapes: list[_Escape]) -> View:
    parts: list[bytes] = []
    joins: set[int] = set()
    at: list[int] = []
    pieces: list[tuple[int, int, bool]] = []
    done = length = 0
    for start, end, text, lone in escapes:
        if start > done:
            parts.append(data[done:start])
            at.append(length)
            pieces.append((done, start, True))
            length += start - done
        if text:
            parts.append(text)
            at.append(length)
            pieces.append((start, end, False))
            length += len(text)
        else:
            joins.update((length, length + 1) if lone else (length,))
        done = end
    if done < len(data):
        parts.append(data[done:])
        at.append(length)
        pieces.append((done, len(data), True))
    return View(b"".join(parts), tuple(sorted(joins)), tuple(at), tuple(pieces))


def _figures(text: bytes) -> bytes:
    return bytes((int(text, 16),))


def _unicode(text: bytes) -> bytes:
    return chr(int(text, 16)).encode("utf-8", "surrogatepass")


def _sign(sign: bytes) -> bytes:
    return sign.translate(_SIGNS)


def _entity(name: bytes) -> bytes:
    import html  # no hook has a text with an entity

    return html.unescape(f"&{name.decode()}").encode("utf-8", "surrogatepass")


_SIGNS = bytes.maketrans(b"nrtbf", b"\n\r\t  ")
_DECODED: dict[str, Callable[[bytes], bytes]] = {"unicode": _unicode, "byte": _figures, "url": _figures, "sign": _sign, "entity": _entity}
