"""What lies in a foreign folder: the documented flat-file archive, or another store of this package."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreDamaged, UsageError
from ctx_pipeline.model.plain import Plain
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.raw import segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Origin

ZSTD = b"\x28\xb5\x2f\xfd"
_PACKED = ".zst"
_LONGEST_PART = 200
_ABOUT = ("import_meta.json", "thread.json")
_OWN = {"transcript.jsonl": "source_transcript", "rollout.jsonl": "source_rollout"}
"""A session's own file in the documented archive -> what says where it lay."""
TAKE, HELD, NEWER, CONFLICT, DAMAGED = "take", "held", "newer", "conflict", "damaged"
IGNORED, FORGOTTEN, NO_PLACE = "ignored", "forgotten", "no place"


@dataclass(slots=True)
class Entry(Plain):
    """One file that a folder holds, and what becomes of it."""

    host: str
    rel: str
    """path in a home of the host; empty where none is known"""
    root: str
    """home that it came from, as far as that is known"""
    name: str
    """where it lies in the folder"""
    size: int = 0
    sha256: str = ""
    mtime_ns: int = 0
    generation: int = 0
    does: str = TAKE
    """take, newer (continues what the store holds), held (the store has it), conflict, damaged, ignored, forgotten or no place"""
    read: Callable[[], bytes] = bytes

    shown = ("host", "rel", "name", "size", "sha256", "does")


def entries_of(folder: Path) -> list[Entry]:
    """Return the files of an archive or a store, each with its checksum; raises UsageError for a folder that is neither.

    Nothing is written there. A file that contradicts a checksum which the folder names
    is marked as damaged, one that fits no place in a home of its host as such.
    """
    raw = folder / "raw"
    if raw.is_dir():
        names = sorted(p.relative_to(folder).as_posix() for p in raw.rglob("*") if p.is_file() and not p.is_symlink())
        packed = [name for name in names if name.endswith(".zst") and not name.endswith(".jsonl")]
        archived = [name for name in names if name.rpartition("/")[2] in _ABOUT]
        if archived:
            return list(_archived(folder, names))
        if packed:
            return list(_stored(folder, packed))
    raise UsageError(f"{folder} is no archive and no store", hint="name a folder that holds raw/<host>/...")


def _hosts() -> dict[str, Host]:
    return {name: host for host in discovery.hosts().values() for name in (host.key, host.files.archive_name) if name}


def place_in(host: Host, path: str) -> str:
    """Return the longest end of a path that is one of a home of the host; empty where none is."""
    parts = [part for part in path.replace("\\", "/").split("/") if part]
    if any(part in (".", "..") or len(part) > _LONGEST_PART or not part.isprintable() for part in parts):
        return ""
    for first in range(len(parts)):
        rel = "/".join(parts[first:])
        kind = host.files.classify(rel)
        if kind is not None and kind not in host.files.databases:
            return rel
    return ""


def _archived(folder: Path, names: list[str]) -> Iterator[Entry]:
    """Yield the raw files of every session folder ``raw/<host>/<session>/``."""
    hosts = _hosts()
    about: dict[tuple[str, str], dict[str, Any]] = {}
    for name in names:
        parts = name.split("/")
        if len(parts) == 4 and parts[3] in _ABOUT:
            about.setdefault((parts[1], parts[2]), {}).update(_json(folder / name))
    for name in names:
        parts = name.split("/")
        if len(parts) < 4 or parts[3] in _ABOUT:
            continue
        host, inside = hosts.get(parts[1]), "/".join(parts[3:])
        told = about.get((parts[1], parts[2]), {})
        said = next((f for f in told.get("files", ()) if isinstance(f, dict) and f.get("file") == inside), {})
        source = str(said.get("source") or told.get(_OWN.get(inside, "")) or inside)
        rel = place_in(host, source) if host else ""
        path = folder / name
        data = path.read_bytes()
        unpacked = rel.endswith(_PACKED) and data[:4] != ZSTD
        if unpacked:
            rel, source = rel.removesuffix(_PACKED), source.removesuffix(_PACKED)
        entry = Entry(host.key if host else parts[1], rel, source.removesuffix(rel).rstrip("/") if rel else "", name)
        _measure(entry, data, path.stat().st_mtime_ns)
        number = said.get("generation")
        entry.generation = number if isinstance(number, int) else 0
        entry.read = path.read_bytes
        if not rel:
            entry.does = NO_PLACE
        elif _contradicts(said, entry, unpacked=unpacked):
            entry.does = DAMAGED
        yield entry


def _contradicts(said: dict[str, Any], entry: Entry, *, unpacked: bool) -> bool:
    """Tell whether a file is not what the archive says of it; the checksum of a packed source is not that of its text."""
    if said.get("size_bytes") not in (None, entry.size):
        return True
    sums = said.get("sha256")
    return not unpacked and isinstance(sums, list) and len(sums) == 1 and sums[0] != entry.sha256


def _json(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _stored(folder: Path, names: list[str]) -> Iterator[Entry]:
    """Yield the streams of another store, each of their generations whole, in order."""
    files = Files(folder)
    hosts = _hosts()
    held: dict[tuple[str, int], list[tuple[Origin, str]]] = {}
    for name in names:
        try:
            for origin in segments.read_origins(files, name):
                held.setdefault((origin.stream, origin.generation), []).append((origin, name))
        except StoreDamaged:
            yield Entry(name.split("/")[1] if "/" in name else "", "", "", name, does=DAMAGED)
    for (_, generation), members in sorted(held.items()):
        members.sort(key=lambda one: one[0].start)
        first = members[0][0]
        host = hosts.get(first.host)
        rel = place_in(host, first.rel) if host and "#" not in first.rel else ""
        entry = Entry(first.host, rel if rel == first.rel else "", first.root, members[0][1], generation=generation)
        entry.read = partial(_whole, files, members)
        try:
            data = entry.read()
        except StoreDamaged:
            entry.does = DAMAGED
        else:
            _measure(entry, data, members[-1][0].mtime_ns)
            entry.does = TAKE if entry.rel else NO_PLACE
        yield entry


def _whole(files: Files, members: list[tuple[Origin, str]]) -> bytes:
    """Return the bytes of a generation; raises StoreDamaged where a piece is missing or contradicts its hash."""
    pieces, at = [], 0
    for name in dict.fromkeys(name for _, name in members):
        origin, data = segments.read_segment(files, name)
        if origin.start != at:
            raise StoreDamaged(f"{name} does not continue what is before it", path=name)
        pieces.append(data)
        at = origin.end
    return b"".join(pieces)


def _measure(entry: Entry, data: bytes, mtime_ns: int) -> None:
    entry.size, entry.sha256, entry.mtime_ns = len(data), hashlib.sha256(data).hexdigest(), mtime_ns
