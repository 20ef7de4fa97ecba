"""Secrets that a host cut in two: texts that it wrote in pieces, joined before they are looked through."""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import compiled, lazy_pattern
from ctx_pipeline.model.tables import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ctx_pipeline.model.host_records import ShellAnswers
    from ctx_pipeline.redaction import Redactor

    Columns = Sequence[Sequence[Any]]


_E = {name: place for place, name in enumerate(EVENTS.names)}
_SAID = frozenset({"answer", "reasoning"})
_LONGEST_RECORD = 100_000
_BY_CHANCE = 16
"""Characters from which a piece that begins with the one before it repeats that."""
_VALUE = lazy_pattern(r'"((?:[^"\\]|\\.)*+)"(\s*:)?|(-?\d+)')
_NAME = lazy_pattern(r"(?i)(?:.*_)?(?:call|item|message|msg|tool_?use|turn|thread|session|process|response)_?id|index|stream|(?:sub)?type")
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/]{4,}={0,2}")


class Piece(NamedTuple):
    """A piece of a text: where it stands in the text of an event."""

    row: int
    start: int
    end: int
    packed: bool = False
    """It is base64."""


class Found(NamedTuple):
    """A secret in the joined pieces of a text."""

    detector: str
    text: str
    start: int
    end: int
    row: int
    """the event that holds its first byte"""


class SplitSecrets(NamedTuple):
    """What stands in place of the texts of some events, by row, and every secret of the texts to which they belong."""

    rows: dict[int, str]
    found: list[Found]


def split_secrets(redactor: Redactor, events: Columns, shell: ShellAnswers) -> SplitSecrets:
    """Return what is seen only where the pieces of a text are joined, with what each of them shows by itself."""
    texts = events[_E["text"]]
    joined = [_joined(texts, pieces) for pieces in pieces_of(events, shell)]
    spans: dict[int, list[tuple[int, int, str]]] = {}
    found: list[Found] = []
    for place in redactor.suspects([text for text, _ in joined]):
        text, parts = joined[place]
        for detector, start, end in redactor.find(text):
            held = [(piece, max(start, at) - at, min(end, after) - at) for piece, at, after in parts if at < end and start < after]
            found.append(Found(detector, text, start, end, held[0][0].row))
            for piece, first, last in held:
                spans.setdefault(piece.row, []).append((*_place(texts, piece, first, last), detector))
    rows = {row: clean for row, cut in spans.items() if (clean := _cleaned(redactor, texts[row], cut)) is not None}
    return SplitSecrets(rows, [secret for secret in found if secret.row in rows])


def _cleaned(redactor: Redactor, text: str, cut: list[tuple[int, int, str]]) -> str | None:
    """Return a text without the parts of secrets that stand in it; None where it shows all of them by itself."""
    own = [(start, end, detector) for detector, start, end in redactor.find(text)]
    if all(any(first <= start and end <= last for first, last, _ in own) for start, end, _ in cut):
        return None
    parts: list[str] = []
    done = 0
    for start, end, detector in sorted({*own, *cut}):
        if start >= done:
            parts += (text[done:start], f"[REDACTED:{detector}]")
        done = max(done, end)
    return redactor.redact("".join((*parts, text[done:])))


def _joined(texts: Sequence[str], pieces: Sequence[Piece]) -> tuple[str, list[tuple[Piece, int, int]]]:
    """Return the text of pieces as one, and each piece with its span there; one that repeats the one before it and goes on replaces it."""
    found: list[tuple[Piece, int, int]] = []
    parts: list[str] = []
    before, length = "", 0
    said = [_text(texts[piece.row][piece.start : piece.end], packed=piece.packed) for piece in pieces]
    growing = all(later.startswith(one) for one, later in pairwise(said))
    for piece, text in zip(pieces, said, strict=True):
        # of short pieces one may begin with the one before it by chance: two times the same letter
        more = len(before) > 0 and text.startswith(before) and (growing or len(before) >= _BY_CHANCE)
        at = length - len(before) if more else length
        parts.append(text[len(before) :] if more else text)
        length = at + len(text)
        found.append((piece, at, length))
        before = text
    return "".join(parts), found


def _text(text: str, *, packed: bool) -> str:
    return base64.b64decode(text).decode("utf-8", "replace") if packed else text


def _place(texts: Sequence[str], piece: Piece, first: int, last: int) -> tuple[int, int]:
    """Return where characters of a piece stand in the text of its event."""
    if not piece.packed:
        return piece.start + first, piece.start + last
    said = _text(texts[piece.row][piece.start : piece.end], packed=True)
    low, high = len(said[:first].encode()), len(said[:last].encode())
    return piece.start + low // 3 * 4, min(piece.end, piece.start + -(-high // 3) * 4)


def pieces_of(events: Columns, shell: ShellAnswers) -> list[list[Piece]]:
    """Return the texts of a session that stand in more than one event: the pieces of each, in order.

    These are the blocks of one message, the results of one call, what a command printed
    while calls waited for it, and the same text of records of a type that no parser knows.
    """
    found: dict[Any, list[Piece]] = {}
    for key, piece in (*_blocks(events), *_printed(events, shell), *_streamed(events)):
        found.setdefault(key, []).append(piece)
    for key in [key for key in found if key[0] == "packed"]:
        plain = ("streamed", *key[1:])
        del found[plain if len(found[key]) == len(found[plain]) else key]
    return [pieces for pieces in found.values() if len(pieces) > 1]


def _blocks(events: Columns) -> Iterator[tuple[Any, Piece]]:
    kinds, calls, keys, texts = (events[_E[name]] for name in ("kind", "call_id", "call_key", "text"))
    threads, lines = events[_E["thread_id"]], (events[_E[name]] for name in ("stream", "generation", "line"))
    rows: dict[Any, list[int]] = {}
    for row, (kind, call, key, line) in enumerate(zip(kinds, calls, keys, zip(*lines, strict=True), strict=True)):
        said = "answer" if kind == "injected" and key else kind  # a block of a message that holds blanks alone
        name = call if kind == "tool_result" else key or line if said in _SAID else None
        if name and texts[row]:
            rows.setdefault((said, threads[row], name), []).append(row)
    for name, same in rows.items():
        for row in same if len(same) > 1 else ():
            yield name, Piece(row, 0, len(texts[row]))


def _printed(events: Columns, shell: ShellAnswers) -> Iterator[tuple[Any, Piece]]:
    kinds, threads, calls, texts = (events[_E[name]] for name in ("kind", "thread_id", "call_id", "text"))
    waiting: dict[tuple[str, str], str] = {}
    for row, (kind, text) in enumerate(zip(kinds, texts, strict=True)):
        if kind == "tool_call" and text:
            head = text[: shell.head]
            for name in shell.waits_in:
                if name in head and (named := _group(shell.waits, head)):
                    waiting[threads[row], calls[row]] = named
                    break
    going: dict[tuple[str, str], int] = {}
    for row, kind in enumerate(kinds) if waiting else ():
        if kind != "tool_result" or not texts[row]:
            continue
        asked = waiting.get((threads[row], calls[row]))
        command = going.setdefault((threads[row], asked), row) if asked else None
        if named := _group(shell.running, texts[row][: shell.head]):
            command = going[threads[row], named] = row if command is None else command
        if command is not None:
            for number, start, end in _outputs(texts[row], shell):
                yield ("printed", command, number), Piece(row, start, end)


def _group(pattern: str, text: str) -> str:
    match = _compiled(pattern).search(text) if pattern else None
    return next(filter(None, match.groups()), "") if match else ""


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return compiled(pattern, re.MULTILINE)


def _outputs(text: str, shell: ShellAnswers) -> list[tuple[int, int, int]]:
    """Return (stream, start, end) of what a program printed, in an answer of its host."""
    quoted = [(0, match.start(1) + 1, match.end(1) - 1) for match in _compiled(shell.output).finditer(text)] if shell.output else []
    if quoted or not shell.printed:
        return quoted or [(0, 0, len(text))]
    return [(number, *match.span(1)) for number, pattern in enumerate(shell.printed) if (match := _compiled(pattern).search(text))]


def _streamed(events: Columns) -> Iterator[tuple[Any, Piece]]:
    """Yield the texts in records of a type that no parser knows; those of one stream differ in nothing that names something."""
    rows = [row for row, kind in enumerate(events[_E["kind"]]) if kind == "unknown"]
    texts, threads, types = events[_E["text"]], events[_E["thread_id"]], events[_E["subtype"]]
    for row in rows if len(rows) > 1 else ():
        if not texts[row].endswith(("}", "]")) or len(texts[row]) > _LONGEST_RECORD:
            continue
        names: list[tuple[str, str]] = []
        found: list[tuple[str, Piece]] = []
        key = ""
        for match in _VALUE.finditer(texts[row]):
            if match[2]:
                key = match[1]
            elif _NAME.fullmatch(key):
                names.append((key, match[0]))
            elif match[1]:
                found.append((key, Piece(row, *match.span(1))))
        for key, piece in found:
            one = (threads[row], types[row], tuple(names), key)
            yield ("streamed", *one), piece
            if _readable(texts[row][piece.start : piece.end]):
                yield ("packed", *one), piece._replace(packed=True)


def _readable(text: str) -> bool:
    """Tell whether a text is base64 of another one."""
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return False
    try:
        return base64.b64decode(text, validate=True).decode().isprintable() or b"\n" in base64.b64decode(text)
    except ValueError:
        return False
