"""Takes a plan over: files are laid out as homes in the store, checked, captured, and compared with what was captured."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError, StoreDamaged, UsageError
from ctx_pipeline.model.codec import Plain, digest
from ctx_pipeline.pipeline.capture.retention import require_disk_space
from ctx_pipeline.pipeline.forget.sessions import TAKEN, keep_forgotten_out
from ctx_pipeline.pipeline.forget.shared_files import keep_out
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import temporary
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.ledger.forgotten import Forgotten
from ctx_pipeline.storage.ledger.links import identify
from ctx_pipeline.storage.raw import segments
from ctx_pipeline.storage.raw.segments import read_stream, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Origin
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

__all__ = ["Adopted", "Entry", "adopt", "entries_of", "plan"]


# What lies in a foreign folder: the documented flat-file archive, or another store of this package.


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
    raise UsageError(f"{folder} is neither an archive nor a store", hint="name a folder that holds raw/<host>/...")


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


_HEAD = 65_536


@dataclass(slots=True)
class Adopted:
    """What became of the files of an archive."""

    entries: list[Entry]
    verified: int = 0
    """files that were captured and read back with their checksum"""
    unverified: list[str] = field(default_factory=list)
    sessions: int = 0
    """sessions in the store that were not there before"""

    def counts(self) -> dict[str, int]:
        """Return how many files each fate has."""
        return dict(sorted(Counter(e.does for e in self.entries).items()))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "files": self.counts(),
            "verified": self.verified,
            "unverified": self.unverified,
            "sessions": self.sessions,
            "left_out": [e.to_json() for e in self.entries if e.does not in (TAKE, NEWER, HELD)],
        }


def plan(store: Store, settings: Settings, folder: Path) -> list[Entry]:
    """Return the files of a folder with what will become of each: what the store lacks is taken.

    A file is compared with what the store has of the same thread: the same bytes, or
    fewer of them, are held; more are newer; others are a conflict. Raises UsageError for
    a folder that is neither archive nor store.
    """
    found = entries_of(folder)
    threads: dict[tuple[str, str], list[Any]] = {}
    places: dict[tuple[str, str], list[Any]] = {}
    forgotten = Forgotten(store.ledger.tombstones())
    for source in store.ledger.sources().values():
        places.setdefault((source.host, source.rel), []).append(source)
        if source.thread_id:
            threads.setdefault((source.host, source.thread_id), []).append(source)
    for entry in found:
        if entry.does != TAKE:
            continue
        if settings.ignored(f"{entry.root}/{entry.rel}") or any(settings.ignored(part) for part in entry.rel.split("/")):
            entry.does = IGNORED
            continue
        data = entry.read()
        host = discovery.hosts()[entry.host]
        kind = host.files.classify(entry.rel) or ""
        identity = identify(host, kind, entry.rel, _plain(data)[:_HEAD])[0] if kind in host.files.session_kinds else None
        ids = (identity.thread_id, identity.root_session_id) if identity else ()
        if any(name and forgotten.thread(entry.host, name) for name in ids) or (
            identity is not None and forgotten.content(entry.host, data)
        ):
            entry.does = FORGOTTEN
            continue
        known = threads.get((entry.host, identity.thread_id), []) if identity else places.get((entry.host, entry.rel), [])
        entry.does = _fate(data, [text for source in known for text in _generations(store, source)], lines=identity is not None)
    return found


def _fate(data: bytes, held: list[bytes], *, lines: bool) -> str:
    """Return what becomes of a file, given what the store has in its place."""
    text = _plain(data)
    if any(one == text or (lines and one.startswith(text)) for one in held):
        return HELD
    if not held or not lines:
        return TAKE
    return NEWER if any(text.startswith(one) for one in held) else CONFLICT


def _plain(data: bytes) -> bytes:
    return unpack(data) if data[:4] == ZSTD else data


def _generations(store: Store, source: Any) -> list[bytes]:
    """Return the bytes of every generation of a source, unpacked."""
    by_number: dict[int, list[Any]] = {}
    for segment in store.ledger.segments_of([source.stream]).get(source.stream, ()):
        by_number.setdefault(segment.generation, []).append(segment)
    return [_plain(read_stream(store.files, members)) for _, members in sorted(by_number.items())]


def adopt(store: Store, settings: Settings, folder: Path, *, found: list[Entry] | None = None, conflicts: bool = False) -> Adopted:
    """Take over what the store lacks of an archive or another store, and return what became of every file.

    Files are first laid out in ``taken/`` and read back by their checksums; only when all
    are there they are captured, a generation at a time, as files of homes of their own.
    Then raw is compared with the checksums, and the copies in ``taken/`` go. An
    interrupted take-over is done again: what was captured is held by then. ``found`` is a
    plan that was shown before; ``conflicts`` takes both sides of a conflict. Sessions and
    lines that were forgotten stay so. Raises StoreDamaged when a file is no
    longer what the plan says.
    """
    require_disk_space(settings)
    found = plan(store, settings, folder) if found is None else found
    for entry in found:
        if conflicts and entry.does == CONFLICT:
            entry.does = TAKE
    result = Adopted(found)
    before = {(s.host, s.session_id) for s in store.ledger.sessions()}
    base = settings.home / TAKEN / digest(str(folder.resolve()), size=16)
    wanted = [e for e in found if e.does in (TAKE, NEWER)]
    _part(wanted)
    with keep_forgotten_out(store, settings):
        for number in sorted({e.generation for e in wanted}):
            own = [e for e in wanted if e.generation == number]
            for entry in own:
                _lay_out(base, entry)
            wrong = [entry.name for entry in own if _sum(_place(base, entry)) != entry.sha256]
            if wrong:
                raise StoreDamaged(f"{len(wrong)} files are not what was planned, first: {wrong[0]}", hint="run it again")
            ingest(store, replace(settings, demo_roots=_homes(base)))
        keep_out(store, copies=_verify(store, base, wanted, result))
    result.sessions = len({(s.host, s.session_id) for s in store.ledger.sessions()} - before)
    if base.exists():
        shutil.rmtree(base)
    return result


def _part(wanted: list[Entry]) -> None:
    """Give files that would lie in one place, such as a packed and a plain copy, homes of their own."""
    taken: set[tuple[str, str, str, int]] = set()
    for entry in wanted:
        while (entry.host, entry.root, entry.rel, entry.generation) in taken:
            entry.root += "'"
        taken.add((entry.host, entry.root, entry.rel, entry.generation))


def _place(base: Path, entry: Entry) -> Path:
    return base / entry.host / digest(entry.root, size=8) / entry.rel


def _homes(base: Path) -> dict[str, tuple[Path, ...]]:
    """Return host -> the homes that were laid out for it; every other host has none."""
    found = {host: tuple(sorted((base / host).iterdir())) if (base / host).is_dir() else () for host in discovery.hosts()}
    return {host: roots or (base / host / "none",) for host, roots in found.items()}


def _lay_out(base: Path, entry: Entry) -> None:
    path = _place(base, entry)
    if path.exists() and _sum(path) == entry.sha256:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = base.parents[1] / temporary.name()
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(entry.read())
    os.utime(partial, ns=(entry.mtime_ns, entry.mtime_ns))
    partial.replace(path)


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _verify(store: Store, base: Path, wanted: list[Entry], result: Adopted) -> set[str]:
    """Compare raw with the checksums of what was taken and return its streams; a last line without its newline may wait outside."""
    roots = {str(path): path for home in _homes(base).values() for path in home}
    sources = {(s.root, s.rel): s for s in store.ledger.sources().values() if s.root in roots}
    for entry in wanted:
        source = sources.get((str(base / entry.host / digest(entry.root, size=8)), entry.rel))
        try:
            held = _generations(store, source) if source is not None else []
            data = _plain(entry.read())
        except CtxError:
            held, data = [], b""
        whole = data[: data.rfind(b"\n") + 1]
        if any(one in (data, whole) and (one or not data) for one in held):
            result.verified += 1
        else:
            result.unverified.append(entry.name)
    return {source.stream for source in sources.values()}
