"""Single events straight from the pages of a part, without Arrow, whose import alone takes as long as a search.

Where the pages of three columns lie is noted when a part is indexed, with the size of the
file: a part is named by the hash of its content, so that a file of that size under its name
is the one that was noted. A page of another make than this package writes (version 1,
PLAIN, zstd), and one that does not add up, is left to Arrow.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pyarrow.parquet as pq
    from zstandard import ZstdDecompressor

COLUMNS = ("event_id", "ts", "text")
"""Columns whose pages are noted, in this order."""

_KEPT = 200
"""Pages that are kept, most of them only their headers."""

_KEPT_BYTES = 32 * 1024 * 1024
"""Unpacked bytes of the pages that are kept."""

_HEAD = 512
"""Bytes that hold a page's header: no statistics are written for these columns but of numbers."""

_LONGEST = 64 * 1024 * 1024
_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
_length = struct.Struct("<I")
_number = struct.Struct("<q")


class _Strange(Exception):
    """The pages are not of the make that is read here."""


class EventText(NamedTuple):
    """One event without what only Arrow reads; ``ts`` is microseconds since 1970."""

    event_id: str
    ts: int | None
    text: str | None


class _Header(NamedTuple):
    body: int
    """where the page's bytes begin"""
    packed: int
    unpacked: int
    values: int


def noted(path: Path) -> bytes:
    """Return the size of a part and where the pages of the three columns lie in each row group, as JSON; empty for another make."""
    from ctx_pipeline.storage.lake.reading import open_part

    groups: list[list[int]] = []
    with open_part(path) as file:
        metadata = file.metadata
        numbers = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
        if any(name not in numbers or _make(metadata.schema.column(numbers[name])) != made for name, made in _MADE.items()):
            return b""
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            places = []
            for name in COLUMNS:
                column = group.column(numbers[name])
                if column.compression != "ZSTD" or column.dictionary_page_offset is not None:
                    return b""
                places += [column.data_page_offset, column.total_compressed_size]
            groups.append([group.num_rows, *places])
    return json.dumps([path.stat().st_size, groups], separators=(",", ":")).encode()


_TEXT = (1, 0, "BYTE_ARRAY", "String")
_TIME = "Timestamp(isAdjustedToUTC=false, timeUnit=microseconds, is_from_converted_type=false, force_set_converted_type=false)"
_MADE = {"event_id": _TEXT, "ts": (1, 0, "INT64", _TIME), "text": _TEXT}
"""Columns as they are read here: nullable, not repeated, bytes or microseconds."""


def _make(column: pq.ColumnSchema) -> tuple[int, int, str, str]:
    return column.max_definition_level, column.max_repetition_level, column.physical_type, str(column.logical_type)


class PageReader:
    """Reads events of parts whose pages were noted; keeps the last pages unpacked. Threads may share it."""

    def __init__(self, local: Callable[[str], Path]) -> None:
        self._local = local
        self._kept: OrderedDict[tuple[str, int, int], _Page] = OrderedDict()
        self._bytes = 0
        self._decompressor: ZstdDecompressor | None = None
        self._lock = threading.Lock()

    def events(self, path: str, rows: Sequence[int], note: bytes) -> list[EventText] | None:
        """Return the event of each row; None when the part is gone, not the one that was noted, or not readable in this way."""
        try:
            size, groups = json.loads(note)
            file = os.open(self._local(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                if os.fstat(file).st_size != size:
                    return None
                return [self._event(file, path, groups, row) for row in rows]
            finally:
                os.close(file)
        except (OSError, ValueError, IndexError, KeyError, TypeError, ArithmeticError, struct.error, _Strange):
            return None

    def _event(self, file: int, path: str, groups: list[list[int]], row: int) -> EventText:
        for count, *places in groups:
            if 0 <= row < count:
                event_id, ts, text = (self._value(file, path, places[n], places[n + 1], row, number=n == 2) for n in (0, 2, 4))
                if not isinstance(event_id, bytes) or isinstance(ts, bytes) or isinstance(text, int):
                    raise _Strange
                return EventText(event_id.decode(), ts, None if text is None else text.decode())
            row -= count
        raise _Strange

    def _value(self, file: int, path: str, start: int, size: int, row: int, *, number: bool) -> bytes | int | None:
        place, end = start, start + size
        while place < end:
            page = self._page(file, path, place, end, row)
            if row < page.values:
                return page.integer(row) if number else page.string(row)
            row -= page.values
            place = page.end
        raise _Strange

    def _page(self, file: int, path: str, place: int, end: int, row: int) -> _Page:
        """Return a page, unpacked where it has that many rows."""
        key = (path, place, end)
        with self._lock:
            page = self._kept.get(key)
            if page is None:
                page = self._kept[key] = _Page(file, place, end)
            self._kept.move_to_end(key)
            if row < page.values and page.size == 0:
                if self._decompressor is None:
                    from zstandard import ZstdDecompressor

                    # a new one for each page takes as long as a page
                    self._decompressor = ZstdDecompressor()
                page.unpack(file, self._decompressor)
                self._bytes += page.size
            while len(self._kept) > _KEPT or (self._bytes > _KEPT_BYTES and len(self._kept) > 1):
                self._bytes -= self._kept.popitem(last=False)[1].size
        return page


class _Page:
    """One data page: definition levels, then the values that are not null; unpacked when a value of it is asked for."""

    def __init__(self, file: int, place: int, end: int) -> None:
        self._header = header = _header(os.pread(file, min(_HEAD, end - place), place))
        self.values = header.values
        self._place = place + header.body
        self.end = self._place + header.packed
        self.size = 0
        """bytes when it is unpacked, 0 before"""
        if header.packed <= 0 or header.values < 0 or self.end > end:
            raise _Strange

    def unpack(self, file: int, decompressor: ZstdDecompressor) -> None:
        """Read the page: its bytes, which rows are not null as bits, and where the values begin."""
        from zstandard import ZstdError

        header = self._header
        if not 0 < header.unpacked <= _LONGEST:
            raise _Strange
        try:
            body = decompressor.decompress(os.pread(file, header.packed, self._place), max_output_size=header.unpacked)
        except ZstdError as error:
            raise _Strange from error
        first = 4 + _length.unpack_from(body)[0]
        if len(body) != header.unpacked or first > len(body):
            raise _Strange
        self._body = body, _levels(body[4:first], self.values), first
        self.size = len(body)

    def _number(self, row: int) -> int | None:
        """Return how many values stand before that of a row; None for a null."""
        present = self._body[1]
        return (present & ((1 << row) - 1)).bit_count() if present >> row & 1 else None

    def integer(self, row: int) -> int | None:
        """Return the 64-bit number of a row."""
        body, _, start = self._body
        before = self._number(row)
        return None if before is None else int(_number.unpack_from(body, start + 8 * before)[0])

    def string(self, row: int) -> bytes | None:
        """Return the bytes of a row's text."""
        body, _, place = self._body
        before = self._number(row)
        if before is None:
            return None
        read = _length.unpack_from
        for _ in range(before):
            place += 4 + read(body, place)[0]
        size = read(body, place)[0]
        if place + 4 + size > len(body):
            raise _Strange
        return body[place + 4 : place + 4 + size]


def _levels(data: bytes, count: int) -> int:
    """Return the definition levels (0 or 1, runs and groups of eight mixed) as bits, the first row lowest."""
    bits = place = done = 0
    while done < count:
        head, place = _varint(data, place)
        size = head >> 1
        if size == 0 or size > count or (head & 1 and place + size > len(data)):
            raise _Strange
        if head & 1:
            bits |= int.from_bytes(data[place : place + size], "little") << done
            place += size
            done += 8 * size
        else:
            if data[place] > 1:
                raise _Strange
            if data[place]:
                bits |= ((1 << size) - 1) << done
            place += 1
            done += size
    return bits


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise _Strange


def _header(data: bytes) -> _Header:
    """Return what a page header (Thrift, compact protocol) says."""
    fields, place = _struct(data, 0)
    inner = fields.get(5)
    if fields.get(1) != _DATA_PAGE or not isinstance(inner, dict) or (inner.get(2), inner.get(3)) != (_PLAIN, _RLE):
        raise _Strange
    return _Header(place, int(fields[3]), int(fields[2]), int(inner[1]))


def _struct(data: bytes, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a Thrift struct by number: numbers and structs, the rest as None."""
    fields: dict[int, Any] = {}
    number = 0
    while data[place]:
        kind = data[place] & 15
        step = data[place] >> 4
        place += 1
        if step:
            number += step
        else:
            raw, place = _varint(data, place)
            number = (raw >> 1) ^ -(raw & 1)
        if kind in (1, 2):
            fields[number] = None
        elif kind in (4, 5, 6):
            raw, place = _varint(data, place)
            fields[number] = (raw >> 1) ^ -(raw & 1)
        elif kind == 8:
            size, place = _varint(data, place)
            place += size
        elif kind == 12 and depth < 4:
            fields[number], place = _struct(data, place, depth + 1)
        else:
            raise _Strange
    return fields, place + 1
