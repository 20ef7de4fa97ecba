"""Manifests: which parts make a cell of an asset, and which sessions in them are dead."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.errors import StoreDamaged, StoreError, refused
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import FACTS, FACTS_ASSET, NORMALIZED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from ctx_pipeline.storage.files import Files
    from ctx_pipeline.storage.verified import VerifiedFiles


FOLDER = "lake/_manifests"
_END = b"\n}"
_SEAL = b',\n "digest": "'
_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


class Part(msgspec.Struct, frozen=True):
    """One immutable Parquet file of whole sessions of one cell and table."""

    table: str
    path: str
    """relative to the store"""
    rows: int
    bytes: int
    sessions: tuple[str, ...]
    dead: tuple[str, ...] = ()
    """sessions whose rows in this part no longer count"""
    version: int = 1
    """version of the table when the part was written"""
    mtime_ns: int = 0
    """of the file when a manifest first named it: one with another time is read whole before it is trusted; 0 where nobody noted it"""

    @property
    def live(self) -> tuple[str, ...]:
        """Sessions whose rows count."""
        if not self.dead:
            return self.sessions
        gone = set(self.dead)
        return tuple(s for s in self.sessions if s not in gone)


class Manifest(msgspec.Struct, frozen=True):
    """What a cell of an asset consists of: the commit point of its rows."""

    asset: str
    host: str
    month: str
    code_version: str
    input_fp: str
    content_hash: str
    rows: dict[str, int]
    """live rows by table"""
    parts: tuple[Part, ...]
    hashes: dict[str, str] = {}
    """session -> hash of its rows in a table that is rewritten with its cell, where the writer keeps one; of facts the hash of
    their sources and of the rows of each table"""

    @classmethod
    def of(
        cls,
        asset: str,
        cell: Cell,
        parts: Iterable[Part],
        *,
        code_version: str,
        input_fp: str,
        content_hash: str,
        rows: Mapping[str, int] | None = None,
        hashes: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Return a manifest; ``rows`` need be given only where a part has dead sessions."""
        kept = tuple(sorted(parts, key=lambda p: p.table))
        counts: dict[str, int] = dict(rows or {})
        for part in kept if rows is None else ():
            counts[part.table] = counts.get(part.table, 0) + part.rows
        return cls(asset, cell.host, cell.month, code_version, input_fp, content_hash, counts, kept, dict(hashes or {}))

    @property
    def partition(self) -> Cell:
        """The partition it belongs to."""
        return Cell(self.host, self.month)

    def of_table(self, table: str) -> tuple[Part, ...]:
        """Return the parts of one table."""
        return tuple(p for p in self.parts if p.table == table)

    def without(self, sessions: Collection[str], tables: Collection[str]) -> tuple[Part, ...]:
        """Return the parts of the tables with these sessions dead; parts without a live session are left out."""
        kept = []
        for part in self.parts:
            if part.table not in tables:
                continue
            dead = tuple(s for s in part.sessions if s in sessions or s in part.dead)
            if len(dead) < len(part.sessions):
                kept.append(msgspec.structs.replace(part, dead=dead))
        return tuple(kept)


class _Unsealed(Manifest, frozen=True, forbid_unknown_fields=True):
    """A manifest without a digest, as older versions wrote them: one whose digest has another name now is damaged."""


_decoder, _unsealed = msgspec.json.Decoder(Manifest), msgspec.json.Decoder(_Unsealed)


SOURCE_COLUMNS = {
    "sessions": ("content_hash", "cwd", "repository", "title"),
    "threads": ("thread_id", "parent_thread_id", "kind", "cwd"),
}
"""Table -> columns whose values :func:`source_hash` needs."""


def source_hash(normalized: Manifest, session: Any, threads: Iterable[Any]) -> str:
    """Return what identifies the rows of one session that its facts are made of, whichever decoder made them."""
    calls = normalized.hashes.get(session.session_id, "") if any("model_calls" in t.made_of for t in FACTS.values()) else ""
    own = (session.content_hash, session.cwd, session.repository, session.title)
    return digest(own, sorted((t.thread_id, t.parent_thread_id or "", t.kind, t.cwd or "") for t in threads), calls, size=16)


def asset_name(asset: str) -> str:
    """Return the name under which an asset's manifests are kept.

    The tables of ``normalized`` share one manifest, so that they commit together.
    """
    if asset.partition("/")[0] == "normalized":
        return "normalized"
    name = asset.replace("/", ".")
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise StoreError(f"{asset!r} is no asset key", asset=asset)
    return name


def assets_of(table: str, names: Iterable[str]) -> list[str]:
    """Return which of the stored asset names hold rows of a table."""
    if table in NORMALIZED:
        return [n for n in names if n == "normalized"]
    if table in FACTS:
        return [n for n in names if n == asset_name(FACTS_ASSET)]
    prefix = {"readings": "signals.", "candidates": "mined.", "memories": "memory.consolidated", "token_counts": "tokens.exact"}.get(
        table, f"{table}."
    )
    return sorted(n for n in names if n.startswith(prefix))


def manifest_path(asset: str, cell: Cell) -> str:
    """Return where the manifest of a cell lies, relative to the store."""
    check_cell(cell)
    return f"{FOLDER}/{asset_name(asset)}/{cell.host}={cell.month}.json"


def check_cell(cell: Cell) -> None:
    """Raise StoreError for a cell that is no host key and month."""
    if not re.fullmatch(r"[a-z0-9_\-]{0,40}", cell.host) or not re.fullmatch(r"(\d{4}-\d{2})?", cell.month):
        raise StoreError(f"{cell.key!r} is no partition", cell=cell.key)


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON, with a digest of all before it as the last field."""
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    return body.removesuffix(_END) + _SEAL + _digest(body) + b'"' + _END


def decode(data: bytes, path: str) -> Manifest:
    """Return the manifest of a file's bytes; raises StoreDamaged for one that is none or contradicts its digest."""
    body, seal, digest = data.rpartition(_SEAL)
    try:
        found = _decoder.decode(data) if seal else Manifest(*msgspec.structs.astuple(_unsealed.decode(data)))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise damaged(path, "is not a manifest") from error
    if seal and digest != _digest(body + _END) + b'"' + _END:
        raise damaged(path, "contradicts its digest")
    try:
        named = manifest_path(found.asset, found.partition)
    except StoreError as error:
        raise damaged(path, "is not a manifest") from error
    if named != path:
        raise damaged(path, f"says that it is {named}")
    return found


_MOST_DECODED = 2_048
_decoded: dict[tuple[Path, str], tuple[tuple[int, int, int], Manifest]] = {}


def decode_once(files: Files, rel: str, stamp: tuple[int, int, int]) -> Manifest:
    """Return the manifest of a file with this time, number and size; what this process decoded of it last is given again."""
    place = (files.root, rel)
    known = _decoded.get(place)
    if known is None or known[0] != stamp:
        if len(_decoded) >= _MOST_DECODED:
            _decoded.clear()
        known = _decoded[place] = (stamp, decode(files.read(rel), rel))
    return known[1]


def damaged(path: str, what: str) -> StoreDamaged:
    """Return the error of a derived file that cannot be trusted: it is made again from raw."""
    return StoreDamaged(f"{path} {what}", hint="it is made again from raw by: ctx run", path=path)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:32].encode()


# Whether parts are what was written: by size and time at each look, by the digest in their name where these differ.


_SOUNDNESS_NAME = re.compile(r"part-([0-9a-f]{24})\.parquet")


class Damage(NamedTuple):
    """A manifest or a part that cannot be trusted."""

    path: str
    reason: str
    manifest: str
    """the file that names the part, or the manifest itself"""
    part: Part | None = None

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"{self.path} {self.reason}"


class Soundness:
    """What is known of the parts of one store; a part that was found to be right is looked at again when its file changes."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._parts: dict[str, Part] = {}
        self._right: dict[str, tuple[int, int]] = {}

    def know(self, manifest: Manifest) -> None:
        """Remember what a manifest says of its parts."""
        self._parts.update((part.path, part) for part in manifest.parts)

    def noted(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the times of the files that it is the first to name."""
        parts = tuple(self._timed(part) if part.mtime_ns == 0 else part for part in manifest.parts)
        return msgspec.structs.replace(manifest, parts=parts)

    def renoted(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the times of files that have others and are right; itself where there is none."""
        parts = []
        for part in manifest.parts:
            new = self._timed(part)
            parts.append(new if new.mtime_ns != part.mtime_ns and not self.what_is_wrong(part) else part)
        return (
            manifest
            if all(a is b for a, b in zip(parts, manifest.parts, strict=True))
            else msgspec.structs.replace(manifest, parts=tuple(parts))
        )

    def demand(self, path: str, part: Part | None = None) -> None:
        """Raise StoreDamaged for a part that is missing or not what its manifest and its name say."""
        known = part or self._parts.get(path)
        if what := self.what_is_wrong(known) if known is not None else self._contradicts(path):
            raise damaged(path, what)

    def what_is_wrong(self, part: Part, *, deep: VerifiedFiles | None = None) -> str:
        """Return what is wrong with a part, empty where nothing is; read where its time is another, or ``deep`` knows it not."""
        try:
            status = os.stat(self._files.place(part.path))  # noqa: PTH116 - thousands of them
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            refused(error)
            return f"cannot be read: {error.strerror}"
        if stat.S_ISDIR(status.st_mode):
            return "is a folder"
        stamp = (status.st_size, status.st_mtime_ns)
        if status.st_size != part.bytes:
            return f"has {status.st_size} bytes, not {part.bytes}"
        if deep is not None:
            return deep.wrong_with(part.path, partial(self._contradicts, part.path))
        if part.mtime_ns in {0, status.st_mtime_ns} or self._right.get(part.path) == stamp:
            return ""
        wrong = self._contradicts(part.path)
        if not wrong:
            self._right[part.path] = stamp
        return wrong

    def _timed(self, part: Part) -> Part:
        mtime = self._files.modified(part.path)
        return msgspec.structs.replace(part, mtime_ns=mtime) if mtime else part

    def _contradicts(self, path: str) -> str:
        named = _SOUNDNESS_NAME.fullmatch(path.rpartition("/")[2])
        try:
            with self._files.local(path).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            refused(error)
            return f"cannot be read: {error.strerror}"
        return "contradicts its digest" if named is not None and not found.startswith(named[1]) else ""
