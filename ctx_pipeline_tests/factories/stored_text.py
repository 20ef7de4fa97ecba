"""Looks into every file of a store, also into compressed and columnar ones."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import zstandard

from ctx_pipeline.dashboard.page import unpacked_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator


def files_with(folder: Path, *marks: str, skip: tuple[str, ...] = ()) -> list[str]:
    """Return the files below a folder (relative, sorted) that hold one of the marks; ``skip`` names top folders."""
    wanted = [mark.encode() for mark in marks]
    return [rel for rel, data in contents(folder, skip=skip) if any(mark in data for mark in wanted)]


def contents(folder: Path, *, skip: tuple[str, ...] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield every file below a folder (relative, sorted) with its bytes and what they unpack to; ``skip`` names top folders."""
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        rel = path.relative_to(folder).as_posix()
        if rel.partition("/")[0] in skip:
            continue
        try:
            data = _content(path)
        except Exception:
            # a process that was orphaned by a kill may still take its temporary files away
            if path.exists():
                raise
            continue
        yield rel, data


def _content(path: Path) -> bytes:
    import pyarrow.parquet as pq

    data = path.read_bytes()
    if path.suffix == ".parquet":
        return data + repr(pq.read_table(path).to_pydict()).encode()
    if path.suffix == ".zst" and data[1:4] == b"\x2a\x4d\x18":
        # a skippable frame with the origin stands before the compressed one
        length = int.from_bytes(data[4:8], "little")
        return data + zstandard.ZstdDecompressor().stream_reader(data[8 + length :]).read()
    if path.suffix == ".js" and path.parent.name in {"data", "words"}:
        with suppress(ValueError):  # the list of sessions, and a file that was damaged
            data += msgspec.json.encode(unpacked_chunk(data))
    return data
