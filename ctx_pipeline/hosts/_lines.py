"""From the bytes of a JSONL stream to typed records with line numbers and byte ranges.

The whole file goes through one ``decode_lines`` call; where its records are not its
lines (an editor has spread them, a crash has glued two) their places are looked for. A
file that cannot be read so goes through the per-line ladder: decode, drop the field
that has a wrong type, repair the text, quarantine.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.hosts.record_values import no_object
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Quarantined, StreamBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_INT = 2**62
"""Bound every integer field with ``msgspec.Meta(ge=-MAX_INT, le=MAX_INT)``: larger ones break a column."""

_PATH = lazy_pattern(r"`\$([^`]*)`$")
_DROPS = 16
_loose = json.JSONDecoder(strict=False)
_spans = msgspec.json.Decoder(msgspec.Raw)
_OPEN, _CLOSE = b"{}"
_before = lazy_pattern(rb"[ \t\r\n]*").match
_behind = lazy_pattern(rb"[ \t\r]*\n?").match
_between = lazy_pattern(r"[\0\s\ufeff]*").match


class Records(msgspec.Struct):
    """Decoded records with their line numbers and byte ranges, all of one length; records glued to one line share its number."""

    values: Sequence[Any]
    lines: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    quarantined: list[Quarantined]
    repaired: int
    count: int
    """records seen: decoded and quarantined, blank lines not"""
    glued: bool = False
    """Some line holds more than one record."""


def read_records(stream: StreamBytes, decoder: msgspec.json.Decoder) -> Records:
    """Return the records of a stream; never raises on any bytes."""
    data = stream.data
    if not data:
        return Records((), (), (), (), [], 0, 0)
    starts, ends, clean = _offsets(data)
    try:
        values = decoder.decode_lines(data)
        if not clean or len(values) != len(starts):
            return _placed(data, values)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _one_by_one(stream, starts, ends, decoder)
    return Records(values, range(len(values)), starts, ends, [], 0, len(values))


def _placed(data: bytes, values: list[Any]) -> Records:
    """Return the records of a file whose lines are not its records."""
    lines: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    at = line = counted = 0
    for raw in _spans.decode_lines(data):
        start = _end(_before(data, at))
        line += data.count(b"\n", counted, start)
        counted = start
        at = _end(_behind(data, start + len(raw)))
        lines.append(line)
        starts.append(start)
        ends.append(at)
    return Records(values, lines, starts, ends, [], 0, len(values), len(set(lines)) < len(lines))


def _end(match: re.Match[Any] | None) -> int:
    return match.end() if match else 0


def _offsets(data: bytes) -> tuple[list[int], list[int], bool]:
    """Return first byte and byte after each line, and whether each line is ``{...}``."""
    ends: list[int] = []
    note, find = ends.append, data.find
    clean = True
    start, newline = 0, find(b"\n")
    while newline >= 0:
        if data[start] != _OPEN or not (data[newline - 1] == _CLOSE or data.endswith(b"}\r", start, newline)):
            clean = False
        start = newline + 1
        note(start)
        newline = find(b"\n", start)
    if start < len(data):
        note(len(data))
        clean = False
    return [0, *ends[:-1]], ends, clean


def _one_by_one(stream: StreamBytes, starts: list[int], ends: list[int], decoder: msgspec.json.Decoder) -> Records:
    values: list[Any] = []
    lines: list[int] = []
    firsts: list[int] = []
    afters: list[int] = []
    bad: list[Quarantined] = []
    repaired = 0
    for line, (start, end) in enumerate(zip(starts, ends, strict=True)):
        raw = stream.data[start:end].strip()
        if not raw:
            continue
        try:
            found = [decoder.decode(raw)]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found, reason = _repair(raw, decoder)
            if reason:
                bad.append(Quarantined(stream.stream, stream.generation, line, start, end, reason))
            repaired += len(found)
        for value in found:
            values.append(value)
            lines.append(line)
            firsts.append(start)
            afters.append(end)
    return Records(values, lines, firsts, afters, bad, repaired, len(values) + len(bad), len(set(lines)) < len(lines))


def _repair(raw: bytes, decoder: msgspec.json.Decoder) -> tuple[list[Any], str]:
    """Return the records of a line, and why a part of it is given up.

    Two records stand on one line when the first was written without its newline.
    """
    if not raw.strip(b"\0 \t\r\n"):
        return [], "only NUL bytes"
    text = raw.decode("utf-8", "replace").strip("\ufeff\0 \t\r\n")
    found: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, end = _loose.raw_decode(text, at)
        except RecursionError:
            return found, "nested too deep"
        except ValueError as error:
            return found, f"not JSON: {getattr(error, 'msg', 'unreadable')}"
        at = _end(_between(text, end))
        if at < len(text) and not (isinstance(value, dict) and text[at] == "{"):
            return found, "not JSON: more than a value on the line"
        if not isinstance(value, dict):
            return found, no_object(value)
        record, reason = _shaped(value, decoder)
        if reason:
            return found, reason
        found.append(record)
    return found, ""


def _shaped(value: dict[str, Any], decoder: msgspec.json.Decoder) -> tuple[Any, str]:
    """Return a decoded record without the fields of a wrong type, or None and why not."""
    for _ in range(_DROPS):
        try:
            return decoder.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")), ""
        except RecursionError:
            return None, "nested too deep"
        except msgspec.ValidationError as error:
            if not _drop(value, str(error)):
                return None, "not the shape of a record"
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None, "not JSON after repair"
    return None, "too many fields of a wrong type"


def _drop(value: Any, message: str) -> bool:
    """Remove the field that the error names; False when it cannot be found."""
    match = _PATH.search(message)
    if not match:
        return False
    steps = re.findall(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]", match.group(1))
    if not steps:
        return False
    for name, index in steps[:-1]:
        if name and isinstance(value, dict) and name in value:
            value = value[name]
        elif index.isdecimal() and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return False
    name, index = steps[-1]
    if name and isinstance(value, dict) and name in value:
        del value[name]
        return True
    if index.isdecimal() and isinstance(value, list) and int(index) < len(value):
        del value[int(index)]
        return True
    return False
