"""From the bytes of a JSONL stream to typed records with line numbers and byte ranges.

The whole file goes through one ``decode_lines`` call when four checks say that every
line is one object; any doubt leads to the per-line ladder: decode, drop the field that
has a wrong type, repair the text, quarantine.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.model.raw import Quarantined, StreamBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_INT = 2**62
"""Bound every integer field with ``msgspec.Meta(ge=-MAX_INT, le=MAX_INT)``: larger ones break a column."""

_PATH = re.compile(r"`\$([^`]*)`$")
_DROPS = 16


class Records(NamedTuple):
    """Decoded records with their line numbers and byte ranges, all of one length."""

    values: Sequence[Any]
    lines: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    quarantined: list[Quarantined]
    repaired: int
    count: int
    """records seen: decoded and quarantined, blank lines not"""


def read_records(stream: StreamBytes, decoder: msgspec.json.Decoder) -> Records:
    """Return the records of a stream; never raises on any bytes."""
    data = stream.data
    if not data:
        return Records((), (), (), (), [], 0, 0)
    starts, ends, clean = _offsets(data)
    if clean:
        try:
            values = decoder.decode_lines(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if len(values) == len(starts):
                return Records(values, range(len(values)), starts, ends, [], 0, len(values))
    return _one_by_one(stream, starts, ends, decoder)


def _offsets(data: bytes) -> tuple[list[int], list[int], bool]:
    """Return first byte and byte after each line, and whether each line is ``{...}``."""
    import numpy as np

    view = np.frombuffer(data, dtype=np.uint8)
    newlines = np.flatnonzero(view == 10)
    ends = newlines + 1
    if not len(ends) or ends[-1] != len(data):
        ends = np.append(ends, len(data))
        whole = False
    else:
        whole = True
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1]
    clean = False
    if whole and bool((ends - starts > 2).all()):
        last = view[newlines - 1]
        last = np.where(last == 13, view[newlines - 2], last)
        clean = bool((view[starts] == 123).all() and (last == 125).all())
    return starts.tolist(), ends.tolist(), clean


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
            value = decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            value, reason = _repair(raw, decoder)
            if reason:
                bad.append(Quarantined(stream.stream, stream.generation, line, start, end, reason))
                continue
            repaired += 1
        values.append(value)
        lines.append(line)
        firsts.append(start)
        afters.append(end)
    return Records(values, lines, firsts, afters, bad, repaired, len(values) + len(bad))


def _repair(raw: bytes, decoder: msgspec.json.Decoder) -> tuple[Any, str]:
    """Return a value and no reason, or None and why the line is given up."""
    if not raw.strip(b"\0 \t\r\n"):
        return None, "only NUL bytes"
    text = raw.decode("utf-8", "replace").lstrip("\ufeff").strip("\0 \t\r\n")
    try:
        value = json.loads(text, strict=False)
    except RecursionError:
        return None, "nested too deep"
    except ValueError as error:
        return None, f"not JSON: {getattr(error, 'msg', 'unreadable')}"
    if not isinstance(value, dict):
        return None, f"not an object: {type(value).__name__}"
    for _ in range(_DROPS):
        try:
            clean = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            return decoder.decode(clean), ""
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
