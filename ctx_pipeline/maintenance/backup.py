"""Copies of a store in another folder, made and proved while others write; of one made before only what changed is copied.

A copy may be encrypted to recipients of age: names of files, sizes and times are plain then, what they hold is not.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import RawLocked, StoreDamaged, StoreError, UsageError
from ctx_pipeline.pipeline.forget import sessions as forgetting
from ctx_pipeline.storage import FORGETTING, Store, store_marker, temporary, wait_for_forget
from ctx_pipeline.storage.lake.manifests import FOLDER as MANIFESTS
from ctx_pipeline.storage.lake.manifests import decode
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline.storage.sealed_copies import SUFFIX, identities_of, recipients_of, seal, unseal
from ctx_pipeline.storage.served_tools import FILE as SERVED
from ctx_pipeline.storage.snapshots import copy_database, copy_file, sha256_of
from ctx_pipeline.storage.verified import FILE as VERIFIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.settings import Settings

INDEX = "backup.json"
"""File of a backup that lists all others with size, time and digest; written last."""

KNOWN = "backups.json"
"""File of the store that names the folders with its backups, and when each was made: what is forgotten goes from them too."""

SCHEMA = 1
_DATABASES = ("ledger.db", "journal.db", "contexts.db")
_MADE_ANEW = frozenset(
    {"dagster", "site", "serving", "signals", "outputs", "handoffs", "compactions", "taken", "tmp"}
    | {"search.db", "memory.db", "cases.db", "plan.json", "summary.json", "uses.json", "effect.json", VERIFIED}
    | {"memory_checks.json", "combined_candidates.json"}
    | {store_marker.NOTED, store_marker.REBUILT, FORGETTING, KNOWN, SERVED, "hooks.log", "hooks.log.1"}
)
"""First names below the store of what the next run makes, or of what is told to nobody."""

_ATTEMPTS = 5
"""Times a backup begins anew because raw objects were packed or forgotten meanwhile."""

_Entry = tuple[int, int, str]
"""size and time of change in nanoseconds of what was copied, SHA-256 of the copy"""


class _Moved(Exception):
    """A file that was named is gone: a writer replaced it meanwhile."""


@dataclass(slots=True)
class Backup:
    """What a backup holds and what was done for it."""

    folder: str
    files: int = 0
    bytes: int = 0
    copied: int = 0
    removed: int = 0
    """files that the store has no more"""
    damaged: list[str] = field(default_factory=list)
    """raw objects that are damaged in the store: not copied, and a whole copy that is there stays"""
    encrypted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


@dataclass(slots=True)
class Restored:
    """What was restored, and where the store that was there before lies now."""

    files: int
    bytes: int
    aside: str
    forgotten: int = 0
    """sessions of the backup that were forgotten since it was made, and are again"""


def backup(store: Store, folder: Path, *, encrypt: Sequence[str] = ()) -> Backup:
    """Bring the copy of a store in a folder up to date and prove it; return what was done.

    ``encrypt`` are recipients, or files of them; a copy that was begun encrypted stays so, with
    the recipients that it knows, where none is named.

    Databases are copied as of one moment, the ledger first, so that all it names is copied after
    it; every file that is written is read again. Caches, the page and the history of runs are left out:
    the first run after a restore makes them. Raises UsageError for a folder that holds anything else,
    and for a copy in plain text that is to be encrypted.
    """
    target = folder.absolute()
    store_id = _store_id(store.home)
    _demand(store.home, target, store_id)
    recipients = _recipients(target, encrypt)
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(target):
        for attempt in range(_ATTEMPTS):
            try:
                made = _copied(store, target, store_id, recipients)
            except _Moved:
                if attempt + 1 == _ATTEMPTS:
                    raise StoreError("the store changes faster than it can be copied", hint="try again later") from None
                time.sleep(0.1 * (attempt + 1))
            else:
                break
    _remember(store, target)
    return made


def check(folder: Path) -> list[tuple[str, str]]:
    """Read a backup whole; return (file, what is wrong) of all that is not what was copied."""
    found = []
    index = _index(folder)
    sealed = bool(index["recipients"])
    for rel, (size, _, told) in sorted(index["files"].items()):
        path = folder / _named(rel, sealed=sealed)
        try:
            if (not sealed and path.stat().st_size != size) or sha256_of(path) != told:
                found.append((rel, "is not what was copied"))
        except FileNotFoundError:
            found.append((rel, "is missing"))
        except OSError as error:
            found.append((rel, f"cannot be read: {error.strerror}"))
    return found


def restore(folder: Path, settings: Settings, *, identity: Path | None = None) -> Restored:
    """Put a backup in the place of the store; the one that was there is renamed.

    ``identity`` is the file with the private key of an encrypted one; without it UsageError.

    The backup is read whole first: StoreDamaged, and nothing is changed, where it is not what was copied.
    What was forgotten in the store since the backup was made is forgotten again.
    """
    folder = folder.absolute()
    index = _index(folder)
    sealed = bool(index["recipients"])
    if sealed and identity is None:
        raise UsageError(f"{folder} is encrypted", hint="name the file with the private key: --identity FILE")
    keys = identities_of(identity) if sealed and identity else []
    wrong = check(folder)
    if wrong:
        rel, what = wrong[0]
        raise StoreDamaged(f"{folder / rel} {what}, {len(wrong):,} files in all; nothing was restored", hint="use another backup")
    home = Path(settings.home).absolute()
    home.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    building = home.with_name(temporary.name())
    aside = ""
    try:
        for rel, (_, modified, _) in index["files"].items():
            if sealed:
                unseal(folder / _named(rel, sealed=True), building / rel, keys, modified_ns=modified)
            else:
                copy_file(folder / rel, building / rel, modified_ns=modified)
        stones = store_marker.facts_beside_journal(home)
        if home.exists() and any(home.iterdir()):
            aside = str(home.with_name(f"{home.name}.before-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"))
            home.rename(aside)
        elif home.exists():
            home.rmdir()
        building.rename(home)
    finally:
        _remove_tree(building)
    size = sum(size for size, _, _ in index["files"].values())
    with closing(Store(home, first_month=settings.first_month)) as store:
        store.ledger.drop_leases()
        return Restored(len(index["files"]), size, aside, forgetting.repeat_tombstones(store, settings, stones))


def update_known(store: Store) -> list[tuple[str, str]]:
    """Bring the backups up to date that lie where they were made, so that what was forgotten leaves them; return (folder, trouble)."""
    found = []
    for folder in known_backups(store):
        if not Path(folder, INDEX).exists():
            found.append((folder, "is not there: what was forgotten stays in it"))
            continue
        try:
            backup(store, Path(folder))
        except (StoreError, UsageError, OSError, ModuleNotFoundError) as error:
            found.append((folder, f"still holds what was forgotten: {error}"))
        else:
            found.append((folder, ""))
    return found


def _copied(store: Store, target: Path, store_id: str, recipients: Sequence[str]) -> Backup:
    wait_for_forget(store.home)
    plain = store.home / temporary.name()
    plain.mkdir(mode=0o700)
    try:
        return _copied_beside(store, target, store_id, recipients, plain)
    finally:
        _remove_tree(plain)


def _copied_beside(store: Store, target: Path, store_id: str, recipients: Sequence[str], plain: Path) -> Backup:
    """Copy all; ``plain`` is an empty private folder, for the databases of an encrypted copy before they are encrypted."""
    copying = _Copying(store, target, recipients, plain)
    now, made = copying.now, copying.made
    begun = time.time() - 1
    for name in _DATABASES:
        if (store.home / name).exists():
            copying.database(name)
    with closing(Store(plain if recipients else target, first_month="2025-01", read_only=True)) as copy:
        named = {segment.path for segment in copy.ledger.segments()}
    for rel in filter(_belongs, store.files.walk()):
        if rel.startswith(f"{MANIFESTS}/"):
            copying.partition(rel)
        elif rel.startswith("raw/") and rel not in named:
            copying.file(rel, before=begun)  # what is captured meanwhile is of the next backup, as its row of the ledger is
        elif not rel.startswith("lake/"):
            copying.file(rel)
    missing = named - now.keys() - {*made.damaged}
    if any(store.files.exists(path) for path in missing) or _packed(store, missing):
        raise _Moved
    made.damaged += sorted(missing)
    index = {
        "schema": SCHEMA,
        "store_id": store_id,
        "at": store_marker.now(),
        "recipients": [*recipients],
        "sizes": copying.sizes,
        "files": now,
    }
    fresh = target / temporary.name()
    fresh.touch(0o600)
    fresh.write_text(json.dumps(index), "utf-8")
    fresh.replace(target / INDEX)
    kept = {INDEX, _LOCK} | {_named(rel, sealed=bool(recipients)) for rel in now}
    for path in [path for path in target.rglob("*") if path.is_file()]:
        if path.relative_to(target).as_posix() not in kept:
            path.unlink(missing_ok=True)
            made.removed += 1
    made.files, made.bytes = len(now), sum(size for size, _, _ in now.values())
    return made


def _belongs(rel: str) -> bool:
    """Tell whether a file belongs into a backup; databases are copied apart."""
    first = rel.partition("/")[0]
    name = first.removesuffix("-wal").removesuffix("-shm")
    left_out = name in {*_MADE_ANEW, *_DATABASES} or first.endswith(".txt") or first.startswith(".rebuild")
    return not left_out and temporary.PREFIX not in rel and not rel.endswith(raw.ASIDE)


def _packed(store: Store, paths: set[str]) -> bool:
    """Tell whether the ledger of now no longer names objects that the copied one does."""
    return bool(paths) and not paths <= {segment.path for segment in store.ledger.segments()}


class _Copying:
    """One pass over the store: what a former backup has of it, and what this one has."""

    def __init__(self, store: Store, target: Path, recipients: Sequence[str], plain: Path) -> None:
        self.store = store
        self.target = target
        self.made = Backup(str(target), encrypted=bool(recipients))
        self._recipients = recipients
        self._plain = plain
        self.before: dict[str, _Entry] = {}
        self.sizes_before: dict[str, int] = {}
        with suppress(StoreError):
            former = _index(target)
            if former["recipients"] == [*recipients]:  # what is encrypted to others is made anew
                self.before, self.sizes_before = former["files"], former["sizes"]
        self.now: dict[str, _Entry] = {}
        self.sizes: dict[str, int] = {}
        """bytes of encrypted copies"""

    def database(self, name: str) -> None:
        """Copy a database as it is at one moment; an encrypted copy of it is always a new one."""
        copy = (self._plain if self._recipients else self.target) / name
        told = copy_database(self.store.home / name, copy)
        status = copy.stat()
        if self._recipients:
            told = self._sealed(copy, name)
        self.now[name] = (status.st_size, status.st_mtime_ns, told)
        self.made.copied += self.before.get(name, (0, 0, ""))[2] != told

    def partition(self, rel: str) -> None:
        """Copy the parts that a manifest names, then the manifest; parts that are merged meanwhile have another manifest already."""
        try:
            content = self.store.files.read(rel)
            for part in decode(content, rel).parts:
                if part.path not in self.now:
                    self.file(part.path)
            if self.store.files.read(rel) != content:
                raise _Moved
        except StoreDamaged:
            return  # the first run after a restore makes it again
        except StoreError:
            raise _Moved from None
        self.file(rel)

    def file(self, rel: str, *, before: float = math.inf) -> None:
        """Copy a file that is not, by size and time, the one that was copied before; a damaged raw object only is named.

        Files written at or after ``before``, in seconds since the epoch, are left out.
        """
        path, copy = self.store.home / rel, self.target / _named(rel, sealed=bool(self._recipients))
        try:
            status = path.stat()
            if status.st_mtime >= before:
                return
            known = self.before.get(rel)
            expected = self.sizes_before.get(rel, -1) if self._recipients else known[0] if known is not None else -1
            there = known is not None and copy.exists() and copy.stat().st_size == expected
            if known is not None and there and known[:2] == (status.st_size, status.st_mtime_ns):
                self._keep(rel, known)
                return
            if rel.startswith("raw/") and not self._whole(rel):
                self.made.damaged.append(rel)
                if known is not None and there:
                    self._keep(rel, known)
                return
            if self._recipients:
                told, size = self._sealed(path, rel), status.st_size
            else:
                told = copy_file(path, copy, modified_ns=status.st_mtime_ns)
                size = copy.stat().st_size
            self.now[rel] = (size, status.st_mtime_ns, told)
            self.made.copied += 1
        except FileNotFoundError:
            raise _Moved from None

    def _keep(self, rel: str, known: _Entry) -> None:
        self.now[rel] = known
        if rel in self.sizes_before:
            self.sizes[rel] = self.sizes_before[rel]

    def _sealed(self, path: Path, rel: str) -> str:
        copy = self.target / _named(rel, sealed=True)
        told = seal(path, copy, self._recipients)
        self.sizes[rel] = copy.stat().st_size
        return told

    def _whole(self, rel: str) -> bool:
        try:
            raw.read_checked(self.store.files, rel)
        except StoreDamaged:
            return False
        except RawLocked:
            raise
        except StoreError:
            raise _Moved from None
        return True


_LOCK = ".backup.lock"


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    handle = os.open(target / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _demand(home: Path, target: Path, store_id: str) -> None:
    mine, other = home.resolve(), target.resolve()
    if other == mine or mine in other.parents or other in mine.parents:
        raise UsageError(f"{target} is a part of the store", hint="name a folder outside of it, best on another disk")
    if not target.exists() or not {path.name for path in target.iterdir()} - {_LOCK}:
        return
    if not any((target / name).exists() for name in (INDEX, "ledger.db", _named("ledger.db", sealed=True))):
        raise UsageError(f"{target} is not empty and no backup", hint="name a new folder")
    with suppress(StoreError):
        if _index(target)["store_id"] != store_id:
            raise UsageError(f"{target} holds the backup of another store", hint="name a new folder")


def _named(rel: str, *, sealed: bool) -> str:
    """Return the name of a file's copy below a backup."""
    return f"{rel}{SUFFIX}" if sealed else rel


def _recipients(target: Path, said: Sequence[str]) -> list[str]:
    """Return whom a copy is encrypted to; those that it knows where none is named, and none for one in plain text."""
    before: list[str] | None = None
    with suppress(StoreError):
        before = _index(target)["recipients"]
    if not said:
        if before is None and (target / _named("ledger.db", sealed=True)).exists():
            raise UsageError(
                f"{target} was begun encrypted, and what it says of itself cannot be read", hint="name its recipients: --encrypt"
            )
        return before or []
    if before == []:
        raise UsageError(f"{target} holds a backup in plain text", hint="name a new folder, and delete this one when that is made")
    return recipients_of(said)


def _store_id(home: Path) -> str:
    try:
        return str(json.loads((home / store_marker.MARKER).read_bytes())["store_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _index(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / INDEX).read_bytes())
        found["sizes"] = {str(rel): int(size) for rel, size in found.get("sizes", {}).items()}
        found["recipients"] = [str(one) for one in found.get("recipients", ())]
        found["files"] = {str(rel): (int(size), int(time_), str(told)) for rel, (size, time_, told) in found["files"].items()}
    except FileNotFoundError:
        raise StoreError(f"{folder} holds no backup", hint="ctx backup DIR makes one") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"{folder / INDEX} cannot be read", hint="use another backup") from error
    if any(rel.startswith("/") or ".." in rel.split("/") for rel in found["files"]):
        raise StoreDamaged(f"{folder / INDEX} names files outside of the backup", hint="use another backup")
    return dict(found)


def known_backups(store: Store) -> dict[str, str]:
    """Return folder -> when the backup in it was made last, the latest first; empty for one of a version that did not write it down.

    The folders are not looked at: they may lie on a disk that is not there.
    """
    try:
        found = json.loads(store.files.read(KNOWN))
    except (StoreError, ValueError):
        return {}
    known = found if isinstance(found, dict) else dict.fromkeys(found, "") if isinstance(found, list) else {}
    return {str(folder): str(at) for folder, at in sorted(known.items(), key=lambda pair: str(pair[1]), reverse=True)}


def _remember(store: Store, target: Path) -> None:
    store.files.write(KNOWN, json.dumps({**known_backups(store), str(target): store_marker.now()}).encode())


def _remove_tree(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
