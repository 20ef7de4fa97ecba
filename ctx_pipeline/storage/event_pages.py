"""Single events straight from the pages of a part, without Arrow, whose import alone takes as long as a search.

Where the pages of three columns lie is noted when a part is indexed. A page of another
make than this package writes (version 1, PLAIN, zstd) is left to Arrow.
"""

from __future__ import annotations

import json
import struct
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import BinaryIO

COLUMNS = ("event_id", "ts", "text")
"""Columns whose pages are noted, in this order."""

_KEPT = 200
"""Pages that are kept, most of them only their headers."""

_HEAD = 512
"""Bytes that hold a page's header: no statistics are written for these columns but of numbers."""

_LONGEST = 64 * 1024 * 1024
_DATA_PAGE, _PLAIN = 0, 0
_length = struct.Struct("<I")


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
    """Return where the pages of the three columns lie in each row group of a part, as JSON; empty where they are of another make."""
    from ctx_pipeline.storage.lake.reading import open_part

    groups = []
    with open_part(path) as file:
        metadata = file.metadata
        numbers = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            places = []
            for name in COLUMNS:
                column = group.column(numbers[name])
                if column.compression != "ZSTD" or column.dictionary_page_offset is not None:
                    return b""
                places += [column.data_page_offset, column.total_compressed_size]
            groups.append([group.num_rows, *places])
    return json.dumps(groups, separators=(",", ":")).encode()


class PageReader:
    """Reads events of parts whose pages were noted; keeps the last pages unpacked. Threads may share it."""

    def __init__(self, local: Callable[[str], Path]) -> None:
        self._local = local
        self._kept: OrderedDict[tuple[str, int, int], _Page] = OrderedDict()
        self._lock = threading.Lock()

    def events(self, path: str, rows: Sequence[int], note: bytes) -> list[EventText] | None:
        """Return the event of each row; None when the part is gone, shorter than that or not readable in this way."""
        try:
            groups = json.loads(note)
            with self._local(path).open("rb") as file:
                return [self._event(file, path, groups, row) for row in rows]
        except (OSError, ValueError, IndexError, KeyError, TypeError, ArithmeticError, struct.error, _Strange):
            return None

    def _event(self, file: BinaryIO, path: str, groups: list[list[int]], row: int) -> EventText:
        for count, *places in groups:
            if row < count:
                event_id, ts, text = (self._value(file, path, places[n], places[n + 1], row, number=n == 2) for n in (0, 2, 4))
                if not isinstance(event_id, bytes) or isinstance(ts, bytes) or isinstance(text, int):
                    raise _Strange
                return EventText(event_id.decode(), ts, None if text is None else text.decode())
            row -= count
        raise _Strange

    def _value(self, file: BinaryIO, path: str, start: int, size: int, row: int, *, number: bool) -> bytes | int | None:
        place, end = start, start + size
        while place < end:
            page = self._page(file, path, place, end)
            if row < page.values:
                page.unpack(file)
                return page.integer(row) if number else page.string(row)
            row -= page.values
            place = page.end
        raise _Strange

    def _page(self, file: BinaryIO, path: str, place: int, end: int) -> _Page:
        key = (path, place, end)
        with self._lock:
            page = self._kept.get(key)
            if page is None:
                page = self._kept[key] = _Page(file, place, end)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return page


class _Page:
    """One data page: definition levels, then the values that are not null; unpacked when a value of it is asked for."""

    def __init__(self, file: BinaryIO, place: int, end: int) -> None:
        file.seek(place)
        header = _header(file.read(min(_HEAD, end - place)))
        self.values = header.values
        self.end = place + header.body + header.packed
        self._header = header
        self._place = place
        self._unpacked: tuple[bytes, int, int] | None = None

    def unpack(self, file: BinaryIO) -> None:
        """Read the page, unless that was done: its bytes, which rows are not null as bits, and where the values begin."""
        if self._unpacked is not None:
            return
        from zstandard import ZstdDecompressor, ZstdError

        if not 0 < self._header.unpacked <= _LONGEST:
            raise _Strange
        file.seek(self._place + self._header.body)
        try:
            body = ZstdDecompressor().decompress(file.read(self._header.packed), max_output_size=self._header.unpacked)
        except ZstdError as error:
            raise _Strange from error
        size = _length.unpack_from(body)[0]
        self._unpacked = body, _levels(body[4 : 4 + size], self.values), 4 + size

    @property
    def _body(self) -> tuple[bytes, int, int]:
        if self._unpacked is None:
            raise _Strange
        return self._unpacked

    def _number(self, row: int) -> int | None:
        """Return how many values stand before that of a row; None for a null."""
        present = self._body[1]
        return (present & ((1 << row) - 1)).bit_count() if present >> row & 1 else None

    def integer(self, row: int) -> int | None:
        """Return the 64-bit number of a row."""
        body, _, start = self._body
        before = self._number(row)
        return None if before is None else int(struct.unpack_from("<q", body, start + 8 * before)[0])

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
        if size == 0:
            raise _Strange
        if head & 1:
            bits |= int.from_bytes(data[place : place + size], "little") << done
            place += size
            done += 8 * size
        else:
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
    if fields.get(1) != _DATA_PAGE or not isinstance(inner, dict) or inner.get(2) != _PLAIN:
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
