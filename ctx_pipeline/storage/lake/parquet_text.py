"""Single events straight from the pages of a part, without Arrow, whose import alone takes as long as a search.

Where the pages of three columns lie is noted when a part is indexed, with the size of the
file: a part is named by the hash of its content, so that a file of that size and time under
its name is the one that was noted. A page of another make than this package writes (version 1,
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
_STEP = 128 * 1024
"""Bytes that are unpacked at a time until the row is there: a block of zstd. Shorter pages are faster unpacked as a whole."""

_KEPT_NOTES = 1_000
"""Parts whose notes are kept."""

_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
_length = struct.Struct("<I")
_number = struct.Struct("<q")


class _UnsupportedEncoding(Exception):
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
    """Return size and time of a part and where the pages of the three columns lie in each row group, as JSON; empty for another make."""
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
    status = path.stat()
    return json.dumps([status.st_size, groups, status.st_mtime_ns], separators=(",", ":")).encode()


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
        self._notes: dict[str, tuple[bytes, str, int, list[list[int]], list[int]]] = {}
        self._decompressor: ZstdDecompressor | None = None
        self._lock = threading.Lock()

    def events(self, path: str, rows: Sequence[int], note: bytes) -> list[EventText] | None:
        """Return the event of each row; None when the part is gone, not the one that was noted, or not readable in this way."""
        try:
            known = self._notes.get(path)
            if known is None or known[0] != note:
                if len(self._notes) >= _KEPT_NOTES:
                    self._notes = {}
                size, groups, *time = json.loads(note)
                known = self._notes[path] = note, str(self._local(path)), size, groups, time
            _, local, size, groups, time = known
            file = os.open(local, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                status = os.fstat(file)
                if status.st_size != size or time not in ([], [status.st_mtime_ns]):
                    return None
                # from the last one on, so that a page is unpacked once, as far as the last row of it that is asked for
                found = {row: self._event(file, path, groups, row) for row in sorted(set(rows), reverse=True)}
                return [found[row] for row in rows]
            finally:
                os.close(file)
        except (OSError, ValueError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError, struct.error, _UnsupportedEncoding):
            return None

    def _event(self, file: int, path: str, groups: list[list[int]], row: int) -> EventText:
        for count, *places in groups:
            if 0 <= row < count:
                at = [self._page(file, path, (places[n], places[n] + places[n + 1]), row, by_row=n == 4) for n in (0, 2, 4)]
                (ids, first), (times, second), (texts, third) = at
                event_id, ts, text = ids.short(first), times.integer(second), texts.string(third)
                if event_id is None:
                    raise _UnsupportedEncoding
                return EventText(event_id.decode(), ts, None if text is None else text.decode())
            row -= count
        raise _UnsupportedEncoding

    def _page(self, file: int, path: str, column: tuple[int, int], row: int, *, by_row: bool) -> tuple[_Page, int]:
        """Return the page with a row, unpacked at least as far as it (``by_row``) or whole, and the row's number in it."""
        place, end = column
        while place < end:
            key = (path, place, end)
            with self._lock:
                page = self._kept.get(key)
                if page is None:
                    page = self._kept[key] = _Page(file, place, end)
                self._kept.move_to_end(key)
                if row < page.values:
                    self._bytes -= page.size
                    try:
                        page.unpack(file, self._decompressing(), row if by_row else None)
                    finally:
                        self._bytes += page.size
                while len(self._kept) > _KEPT or (self._bytes > _KEPT_BYTES and len(self._kept) > 1):
                    self._bytes -= self._kept.popitem(last=False)[1].size
            if row < page.values:
                return page, row
            row -= page.values
            place = page.end
        raise _UnsupportedEncoding

    def _decompressing(self) -> ZstdDecompressor:
        if self._decompressor is None:
            from zstandard import ZstdDecompressor

            # a new one for each page takes as long as a page
            self._decompressor = ZstdDecompressor()
        return self._decompressor


class _Page:
    """One data page: definition levels, then the values that are not null; unpacked when a value of it is asked for."""

    def __init__(self, file: int, place: int, end: int) -> None:
        self._header = header = _header(os.pread(file, min(_HEAD, end - place), place))
        self.values = header.values
        self._place = place + header.body
        self.end = self._place + header.packed
        self.size = 0
        """bytes that are unpacked"""
        self._body = b""
        self._present = 0
        """which rows are not null, as bits"""
        self._first = 0
        """where the values begin"""
        self._starts: list[int] = []
        """where the first strings begin, and where the one after them would"""
        if header.packed <= 0 or header.values < 0 or self.end > end or not 0 <= header.unpacked <= _LONGEST:
            raise _UnsupportedEncoding

    def unpack(self, file: int, decompressor: ZstdDecompressor, row: int | None = None) -> None:
        """Read the page, with ``row`` as far as its string: what follows is left packed, on average half of the page."""
        if row is None and self.size == self._header.unpacked:
            return
        if row is not None and len(self._starts) > (self._present & ((2 << row) - 1)).bit_count():
            return
        from zstandard import ZstdError

        packed = os.pread(file, self._header.packed, self._place)
        try:
            if row is not None and not self.size and self._header.unpacked > 3 * _STEP:
                self._unpack_to(row, packed, decompressor)
            else:
                self._take(decompressor.decompress(packed, max_output_size=self._header.unpacked))
        except ZstdError as error:
            raise _UnsupportedEncoding from error
        if row is None and self.size != self._header.unpacked:
            raise _UnsupportedEncoding
        if row is not None and not self._walk(row):
            raise _UnsupportedEncoding

    def _unpack_to(self, row: int, packed: bytes, decompressor: ZstdDecompressor) -> None:
        reader = decompressor.stream_reader(packed, read_size=len(packed))
        body = reader.read(self._header.unpacked * (row + 1) // max(1, self.values) + _STEP)
        self._take(body)
        while not self._walk(row) and (piece := reader.read(max(_STEP, len(body) // 2))):
            self._take(body := body + piece)

    def _take(self, body: bytes) -> None:
        """Take in what is unpacked by now, from the page's beginning on."""
        if not self._body:
            self._first = 4 + _length.unpack_from(body)[0]
            if self._first > len(body):
                raise _UnsupportedEncoding
            self._present = _levels(body[4 : self._first], self.values)
        self._body, self.size = body, len(body)

    def _walk(self, row: int) -> bool:
        """Note where strings begin, up to a row's; tell whether that one is unpacked."""
        body, starts, read = self._body, self._starts, _length.unpack_from
        if not starts:
            starts.append(self._first)
        count = (self._present & ((2 << row) - 1)).bit_count() + 1 - len(starts)
        place, last = starts[-1], len(body) - 4
        for _ in range(count):
            if place > last:
                break
            place += 4 + read(body, place)[0]
            starts.append(place)
        while starts[-1] > len(body):
            starts.pop()
        return len(starts) > (self._present & ((2 << row) - 1)).bit_count()

    def _number(self, row: int) -> int | None:
        """Return how many values stand before that of a row; None for a null."""
        return (self._present & ((1 << row) - 1)).bit_count() if self._present >> row & 1 else None

    def integer(self, row: int) -> int | None:
        """Return the 64-bit number of a row."""
        before = self._number(row)
        return None if before is None else int(_number.unpack_from(self._body, self._first + 8 * before)[0])

    def short(self, row: int) -> bytes | None:
        """Return the bytes of a row in a page of strings below 256 bytes: their lengths end in three zero bytes, which part them."""
        before = self._number(row)
        if before is None:
            return None
        pieces = self._body[self._first :].split(b"\0\0\0")
        if len(pieces) == self._present.bit_count() + 1 and len(pieces[before + 1]) == pieces[before][-1] + (before + 2 < len(pieces)):
            return pieces[before + 1][: pieces[before][-1]]
        return self.string(row) if self._walk(row) else None

    def string(self, row: int) -> bytes | None:
        """Return the bytes of a row's text, which must be unpacked."""
        before = self._number(row)
        return None if before is None else self._body[self._starts[before] + 4 : self._starts[before + 1]]


def _levels(data: bytes, count: int) -> int:
    """Return the definition levels (0 or 1, runs and groups of eight mixed) as bits, the first row lowest."""
    bits = place = done = 0
    while done < count:
        head, place = _varint(data, place)
        size = head >> 1
        if size == 0 or size > count or (head & 1 and place + size > len(data)):
            raise _UnsupportedEncoding
        if head & 1:
            bits |= int.from_bytes(data[place : place + size], "little") << done
            place += size
            done += 8 * size
        else:
            if data[place] > 1:
                raise _UnsupportedEncoding
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
            raise _UnsupportedEncoding


def _header(data: bytes) -> _Header:
    """Return what a page header (Thrift, compact protocol) says."""
    fields, place = _struct(data, 0)
    inner = fields.get(5)
    if fields.get(1) != _DATA_PAGE or not isinstance(inner, dict) or (inner.get(2), inner.get(3)) != (_PLAIN, _RLE):
        raise _UnsupportedEncoding
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
            raise _UnsupportedEncoding
    return fields, place + 1
