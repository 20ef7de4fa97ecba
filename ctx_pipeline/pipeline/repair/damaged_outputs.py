"""Derived files that were damaged: noticed by size and time, judged by digest, and left to the next stages to make again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import NORMALIZED
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.pipeline.repair import damaged_raw, page_digests
from ctx_pipeline.pipeline.repair.missing_outputs import BESIDE, FILES, SEARCH, noted_of, save_notes
from ctx_pipeline.storage import session_figures, store_marker
from ctx_pipeline.storage.verified import VerifiedFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.lake import Damage

_SITE = "site"
_LAKE = "lake"
_CHUNKS = "chunks"
"""What was noted: scripts of the page's data that were found damaged."""

_DIGESTED = 64 << 20
"""Bytes of a search index up to which it is known by its digest; a larger one by whether SQLite finds it whole."""

_DATABASE = b"SQLite format 3\0"
_KEEPS_FIGURES = "warehouse/duckdb"

_CHANGED = "is not what was written"

_SMALL = ("sessions", "threads", "model_calls")
_AGAIN = "it is made again from raw"


class _Output(NamedTuple):
    """A file that an unpartitioned asset makes."""

    name: str
    asset: str


def release_damaged(store: Store, settings: Settings, *, deep: bool = False) -> list[str]:
    """Let go of derived data that is damaged, so that the stages after make it again; return a sentence for each.

    What is as the last run left it, by size and time, is not looked at closer, unless ``deep``.
    Normalized tables stay where they are until their cell is made anew, so that nobody reads
    less meanwhile than there is. Raw objects that were found damaged are restored from their sources.
    """
    said = damaged_raw.repair_noted(store, settings)
    noted, look = noted_of(store), VerifiedFiles(store.files, again=True) if deep else None
    if deep or noted.get(_LAKE) != _listing(store, _LAKE):
        found = [sentence for damage in (*store.lake.damages(deep=look), *_missing(store)) for sentence in _release(store, damage)]
        said += found
        if not found:
            store.lake.renote()
    site = store.home / _SITE
    if site.is_symlink():
        said.append(f"{_SITE} was a link to {site.resolve()}, which stays as it is: a folder takes its place")
        site.unlink()
    said += [_drop(store, output) for output in _outputs() if _is_damaged(store, output, noted.get(output.name), look)]
    chunks = noted.get(_CHUNKS)
    if deep or chunks:
        said += _drop_chunks(store, {*(rel for rel, _ in page_digests.damaged(site)), *(chunks or ())})
    if _figures_damaged(store, look):
        store.ledger.forget_asset(_KEEPS_FIGURES, [WHOLE])
        said.append(_drop(store, _Output(session_figures.FILE, _KEEPS_FIGURES)))
    left = {name: told for name, told in noted.items() if name != _CHUNKS and (name == _LAKE or store.files.exists(name))}
    if left != noted:
        save_notes(store, left)
    return said


def note(store: Store) -> None:
    """Note derived files as they are: a run has just made them, or found them to be right."""
    store.search.close()
    store.files.remove(store_marker.REBUILT)
    noted = noted_of(store)
    fresh: dict[str, Any] = {_LAKE: _listing(store, _LAKE)} | {name: noted[name] for name in (damaged_raw.RAW, _CHUNKS) if name in noted}
    for output in _outputs():
        if store.files.exists(output.name):
            fresh[output.name] = _state(store, output, noted.get(output.name))
    if fresh != noted:
        save_notes(store, fresh)


def note_damaged(store: Store, paths: Iterable[str]) -> None:
    """Remember what a thorough look found damaged and a run, which looks at sizes and times, would not see: the next one mends it."""
    found = sorted(paths)
    damaged_raw.note(store, [path for path in found if path.startswith("raw/")])
    chunks = [path.removeprefix(f"{_SITE}/") for path in found if page_digests.is_drawn_later(path.removeprefix(f"{_SITE}/"))]
    if chunks:
        save_notes(store, {**noted_of(store), _CHUNKS: chunks})


def damaged(store: Store, *, deep: VerifiedFiles | None = None) -> list[tuple[str, str]]:
    """Return (file, what is wrong) of all derived data; ``deep`` reads whole what it does not know. Nothing is changed."""
    noted = noted_of(store)
    found = [(damage.path, f"{damage.reason}; {_AGAIN} by: ctx run") for damage in (*store.lake.damages(deep=deep), *_missing(store))]
    for output in _outputs():
        if _is_damaged(store, output, noted.get(output.name), deep):
            found.append((output.name, f"{_CHANGED}; it is made again by: ctx run"))
        elif not store.files.exists(output.name) and store.ledger.asset_cell(output.asset, WHOLE) is not None:
            found.append((output.name, "is missing; it is made again by: ctx run"))
    if _figures_damaged(store, deep):
        found.append((session_figures.FILE, f"{_CHANGED}; it is made again by: ctx repair"))
    site = store.home / _SITE
    if site.is_symlink():
        found.append((_SITE, f"is a link to {site.resolve()}, where what is forgotten stays; a folder takes its place by: ctx run"))
    if deep is not None:
        found += [(f"{_SITE}/{rel}", f"{what}; it is made again by: ctx run") for rel, what in page_digests.damaged(site, deep)]
    return found


def _figures_damaged(store: Store, deep: VerifiedFiles | None) -> bool:
    """Tell whether the figures of single sessions, each of which has its own digest, lie in no database or in a damaged one."""
    path = store.files.local(session_figures.FILE)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        begins = file.read(len(_DATABASE))
    if deep is not None and begins == _DATABASE:
        return bool(deep.wrong_with(session_figures.FILE, lambda: "" if _figures_as_kept(store) else _CHANGED))
    return begins != _DATABASE


def _figures_as_kept(store: Store) -> bool:
    from ctx_pipeline.pipeline.repair.rebuild import whole

    try:
        return whole(store.files.local(session_figures.FILE)) and session_figures.sealed_as_kept(store.home)
    except sqlite3.Error:
        return False


def _missing(store: Store) -> list[Damage]:
    """Return the manifests that the ledger has a record of and that are not there."""
    from ctx_pipeline.storage.lake import Damage
    from ctx_pipeline.storage.lake.manifests import manifest_path

    found: dict[str, Damage] = {}
    for asset, cell in store.ledger.recorded():
        if asset not in FILES and asset != "raw/segments":
            rel = manifest_path(asset, cell)
            if not store.files.exists(rel):
                found[rel] = Damage(rel, "is missing", rel)
    return [found[rel] for rel in sorted(found)]


def _release(store: Store, damage: Damage) -> Iterator[str]:
    folder, _, name = damage.manifest.removeprefix("lake/_manifests/").partition("/")
    host, _, month = name.removesuffix(".json").partition("=")
    cell = Cell(host, month)
    yield f"{damage}: {_AGAIN}"
    if folder != "normalized":
        store.files.remove(damage.manifest)
        store.ledger.forget_asset(folder.replace(".", "/", 1), [cell])
        return
    if not store.files.exists(damage.manifest):
        for table in NORMALIZED:
            store.ledger.forget_asset(f"{folder}/{table}", [cell])
    part = damage.part
    whole_cell = part is None or part.table in _SMALL
    sessions = {s.session_id for s in store.ledger.sessions(cells=[cell])} if whole_cell or part is None else set(part.live)
    kept = {s.session_id for s in store.ledger.undecodable_sessions() if s.partition == cell} & sessions
    store.ledger.forget_decoded_sessions(host, sessions - kept)
    for session in sorted(kept):
        what = "all that was made of it is" if part is None or part.table == "sessions" else f"its {part.table} are"
        yield f"{host} {session}: {what} lost: its raw was lost before"
    if part is None or part.table == "sessions":
        store.ledger.forget_rows((host, session) for session in kept)


def _drop(store: Store, output: _Output) -> str:
    """Remove a damaged output: the next stages miss it."""
    if _is_page(output):
        shutil.rmtree(store.home / _SITE, ignore_errors=True)
    store.search.close()
    for suffix in ("", "-wal", "-shm"):
        store.files.local(output.name + suffix).unlink(missing_ok=True)
    return f"{output.name} is damaged: it is made again"


def _drop_chunks(store: Store, names: Iterable[str]) -> list[str]:
    """Remove damaged scripts of the page's data and lists of them: the page is drawn again, and they are with it."""
    said = []
    for rel in sorted({*names}):
        if page_digests.is_drawn_later(rel):
            store.files.remove(f"{_SITE}/{rel}")
            store.files.remove(f"{_SITE}/index.html")
            said.append(f"{_SITE}/{rel} is damaged: it is made again")
    return said


def _outputs() -> list[_Output]:
    beside = [_Output(name, asset) for asset, names in BESIDE.items() for name in names]
    return [*(_Output(name, asset) for asset, name in FILES.items()), *beside]


def _is_damaged(store: Store, output: _Output, noted: Any, deep: VerifiedFiles | None) -> bool:
    """Tell whether a file that is there is not what was made: by what was noted of it, or by looking into one that was made since."""
    if not store.files.exists(output.name):
        return False
    sha256 = ""
    if isinstance(noted, dict) and noted.get("record") == _record(store, output):
        if deep is None and noted.get("stamp") == _stamp(store, output):
            return False
        sha256 = noted.get("sha256") or ""

    def look() -> str:
        as_made = _sha256(store, output) == sha256 if sha256 else _opens(store, output)
        return "" if as_made else _CHANGED

    if deep is None or _is_page(output):  # what is known of a file says nothing of the others of the page
        return bool(look())
    return bool(deep.wrong_with(output.name, look, sha256))


def _is_page(output: _Output) -> bool:
    return output.name.startswith(f"{_SITE}/")


def _state(store: Store, output: _Output, noted: Any) -> dict[str, Any]:
    stamp, record = _stamp(store, output), _record(store, output)
    if isinstance(noted, dict) and noted.get("stamp") == stamp and noted.get("record") == record:
        return noted
    path = store.files.local(output.name)
    # another process that has the index open writes its log into it later
    unsettled = output.name == SEARCH and (path.stat().st_size > _DIGESTED or path.with_name(f"{path.name}-wal").exists())
    return {"stamp": stamp, "record": record, "sha256": "" if unsettled else _sha256(store, output)}


def _record(store: Store, output: _Output) -> str:
    """Return what the ledger says of when the asset was made; a stage that made it since has another."""
    row = store.ledger.asset_cell(output.asset, WHOLE)
    return row.updated_at if row is not None else ""


def _members(store: Store, output: _Output) -> list[str]:
    """Return the files of an output; of the page those that drawing transcripts leaves as they are."""
    if not _is_page(output):
        return [output.name]
    own = (f"{_SITE}/data/", f"{_SITE}/{page_digests.NAME}", f"{_SITE}/{page_digests.UNDRAWN}")
    return [rel for rel in store.files.walk(_SITE) if not rel.startswith(own)]


def _stamp(store: Store, output: _Output) -> str:
    return digest([_status(store.files.local(rel)) for rel in _members(store, output)], size=16)


def _status(path: Any) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (-1, -1)
    return status.st_size, status.st_mtime_ns


def _sha256(store: Store, output: _Output) -> str:
    state = hashlib.sha256()
    for rel in _members(store, output):
        state.update(rel.encode())
        try:
            with store.files.local(rel).open("rb") as file:
                state.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            state.update(str(error.errno).encode())
    return state.hexdigest()


def _opens(store: Store, output: _Output) -> bool:
    """Tell whether a file is of its kind, as far as can be seen without knowing what was written."""
    from ctx_pipeline.pipeline.repair.rebuild import whole

    path = store.files.local(output.name)
    if output.name == SEARCH:
        return not store.search.damaged() and whole(path)
    if path.suffix == ".db":
        return whole(path)
    if path.suffix == ".json":
        try:
            json.loads(path.read_bytes())
        except (ValueError, OSError):
            return False
        return True
    if path.suffix == ".duckdb":
        from ctx_pipeline.storage.warehouse import database

        return bool(database.read_meta(path))
    return path.stat().st_size > 0


def _listing(store: Store, folder: str) -> str:
    """Return a digest of the names, sizes and times of all files below a folder."""
    top = str(store.files.local(folder))
    found: list[tuple[str, int, int]] = []
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        found.append((entry.path[len(top) :], status.st_size, status.st_mtime_ns))
        except OSError:
            continue
    return digest(sorted(found), size=16)
