"""Every kind of file of a store is flipped, cut, emptied and deleted: is it noticed, told in a sentence, and mended or named as lost?"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctx_pipeline_tests.attack.world import World

SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"
GONE = "projects/-home-dev-ledger-app"
NOTES = re.compile(
    r"(checked|plan|summary|store)\.json|serving/(newest\.json|sessions\.db)|(packed|swept|redaction|raw_checked|serving/collected)\.txt|.*-(wal|shm)|dagster/.*"
)
"""Files that hold nothing that a person reads: their damage must change nothing."""

_READERS = (
    ("usage", "session", "--json"),
    ("list", "--json"),
    ("show", "claude", SESSION, "--json"),
    ("search", "export", "--json"),
    ("memory", "list", "--json"),
    ("signal", "show", "claude", SESSION, "--json"),
    ("sql", "select host, count(*) n, sum(hash(text) % 1000003) h from events group by all order by all", "--json"),
)
_GROUPS = (
    (re.compile(r"[0-9a-f]{8,}(-[0-9a-f]+)*|[0-9]{6}-"), "*"),
    (re.compile(r"[0-9]{4}-[0-9]{2}(?![0-9])"), "MONTH"),
    (re.compile(r"/(signals|mined)\.[a-z_]+/"), r"/\1/"),
    (re.compile(r"(?<=raw/)(claude|codex)/.*"), r"\1"),
    (re.compile(r"(claude|codex)(?==MONTH)|(?<=host=)(claude|codex)"), "HOST"),
    (re.compile(r"site/(?!data/|words/|index|made).*"), "site/others"),
    (re.compile(r"dagster/(?!dagster.yaml).*\.db.*"), "dagster/databases"),
)


class Outcome(NamedTuple):
    """What became of one trial; nothing in ``wrong`` is survived."""

    kind: str
    how: str
    path: str
    wrong: list[str]
    told: str
    lost: bool = False
    """whether something could not be made again, and a sentence named it"""

    @property
    def survived(self) -> bool:
        """Whether everything was as it must be."""
        return not self.wrong


def flip(path: Path, draw: random.Random) -> None:
    """Change one byte anywhere."""
    _change(path, draw.randrange)


def flip_in_the_middle(path: Path, draw: random.Random) -> None:
    """Change the byte in the middle."""
    _change(path, lambda size: size // 2)


def cut(path: Path, draw: random.Random) -> None:
    """Keep the first part of the file."""
    path.write_bytes(path.read_bytes()[: draw.randrange(1, max(2, path.stat().st_size))])


def empty(path: Path, draw: random.Random) -> None:
    """Leave nothing of the file but its name."""
    path.write_bytes(b"")


def delete(path: Path, draw: random.Random) -> None:
    """Remove the file."""
    path.unlink()


def folder(path: Path, draw: random.Random) -> None:
    """Put a folder in the place of the file."""
    path.unlink()
    path.mkdir()


WAYS: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": flip,
    "flip in the middle": flip_in_the_middle,
    "cut": cut,
    "empty": empty,
    "delete": delete,
    "folder": folder,
}


def _change(path: Path, place: Callable[[int], int]) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[place(len(data))] ^= 0xFF
        path.write_bytes(data)


def prepare(world: World) -> dict[str, Any]:
    """Make the store, with one transcript gone from its home, and return what its readers say."""
    world.make()
    before = world.folder / "before.json"
    if not before.exists():
        gone = sorted((world.folder / "codex").rglob("rollout-*.jsonl"))
        gone[0].unlink()
        world.put_back()
        world.apart(lambda: world.ctx("run"))
        shutil.rmtree(world.kept)
        shutil.copytree(world.home, world.kept)
        before.write_text(json.dumps(world.apart(lambda: state(world))))
    found: dict[str, Any] = json.loads(before.read_text())
    return found


def kinds(world: World) -> dict[str, list[str]]:
    """Return kind of file -> the files of that kind below the store."""
    found: dict[str, list[str]] = {}
    for path in sorted(world.kept.rglob("*")):
        if path.is_file():
            rel = kind = path.relative_to(world.kept).as_posix()
            for pattern, name in _GROUPS:
                kind = pattern.sub(name, kind)
            found.setdefault(kind, []).append(rel)
    return found


def attack(world: World, before: dict[str, Any], kind: str, how: str, seed: int) -> Outcome:
    """Damage one file of a kind in a fresh copy of the store, and look at what is told of it and what mends it."""
    draw = random.Random(f"{seed} {kind} {how}")
    rel = draw.choice(kinds(world)[kind])
    world.put_back()
    path = world.home / rel
    meant = _meaning(path)
    WAYS[how](path, draw)
    changed = not NOTES.fullmatch(rel) and _meaning(path) != meant
    try:
        wrong, told, lost = world.apart(lambda: _trial(world, before, rel, changed=changed))
    except AssertionError as error:
        wrong, told, lost = ["crash"], str(error), False
    return Outcome(kind, how, rel, wrong, told, lost)


def _trial(world: World, before: dict[str, Any], rel: str, *, changed: bool) -> tuple[list[str], str, bool]:
    from ctx_pipeline.pipeline import run

    if not rel.startswith("dagster/"):
        run.graph_installed = lambda: False  # type: ignore[assignment] - the stages are those of Dagster, which takes seconds to import
    wrong, told = [], []
    doctor = world.ctx("doctor")
    if changed and not doctor.code:
        wrong.append("sound")
    looked = {" ".join(words): world.ctx(*words) for words in _READERS}
    runs = [world.ctx("run"), world.ctx("run")]
    after = world.ctx("doctor")
    if after.code:
        runs.append(world.ctx("repair", "--yes"))
        after = world.ctx("doctor")
    for name, one in [("doctor", doctor), *looked.items(), *(("run", one) for one in runs), ("doctor after", after)]:
        if one.crashed:
            wrong.append("crash")
            told.append(f"{name}: {one.said[-1500:]}")
    # a wrong value is worse than an error: whoever answers says what is right, or that something is wrong
    for name, one in looked.items():
        if not one.code and not one.err and not _same(one.out, before["read"][name]):
            wrong.append(f"other values: {name}")
    said = "\n".join(one.said for one in (doctor, *looked.values(), *runs, after))
    differs = differences(state(world), before)
    lost = bool(differs or after.code)
    if lost and not re.search(r"\blost\b|is gone for good|put a backup", after.said + runs[0].said):
        wrong.append("not repaired")
        told.append(f"{differs[:5]} doctor after: {after.code} {after.said[:600]}; run: {runs[0].err[:500]}")
    if wrong:
        told.append(said[:300] if not told else "")
    return list(dict.fromkeys(wrong)), "\n".join(told), lost


def state(world: World) -> dict[str, Any]:
    """Return what readers say of the store, and the content hashes of all that it holds."""
    return {"read": _read(world), "contents": _contents(world)}


def differences(now: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return what of two states differs."""
    return [f"{part}: {key}" for part in now for key in {*before[part], *now[part]} if not _same(now[part].get(key), before[part].get(key))]


def _read(world: World) -> dict[str, str]:
    return {" ".join(words): world.ctx(*words).out for words in _READERS}


def _contents(world: World) -> dict[str, str]:
    """Return the content hashes of all assets, and of the bytes of all raw streams; of what cannot be read the error."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.storage import open_store

    found = {}
    try:
        with open_store(settings_module.load(world.environ)) as store:
            for asset in {a for a, _ in store.ledger.recorded()} - {"search/index", "raw/segments"}:
                found.update({f"{asset}@{row.partition.key}": row.content_hash for row in store.ledger.asset_cells(asset).values()})
            for segment in store.ledger.segments():
                found[f"{segment.stream} {segment.generation} {segment.start}"] = f"{segment.end} {segment.sha256}"
            # a step that was repeated may say the same twice
            found["journal"] = hashlib.sha256(repr(sorted({repr((f.kind, f.payload)) for f in store.journal.facts()})).encode()).hexdigest()
    except (CtxError, OSError) as error:
        found["error"] = str(error)
    for path in (world.home / "site").rglob("*"):
        if path.is_file() and path.suffix in {".html", ".css"}:
            found[path.relative_to(world.home).as_posix()] = str(path.stat().st_size)
    return found


def _meaning(path: Path) -> str:
    """Return a digest of what a file says: of a database its rows, of others its bytes."""
    if not path.exists():
        return "missing"
    if path.is_dir():
        return "a folder"
    data = path.read_bytes()
    if not data.startswith(b"SQLite format 3\0"):
        return hashlib.sha256(data).hexdigest()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as db:
            db.text_factory = bytes
            names = [name.decode() for (name,) in db.execute("SELECT name FROM sqlite_master WHERE sql NOT LIKE 'CREATE VIRTUAL%'")]
            rows = [db.execute(f'SELECT * FROM "{name}"').fetchall() for name in names if not _is_index(db, name)]
    except sqlite3.Error as error:
        return str(error)
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _is_index(db: sqlite3.Connection, name: str) -> bool:
    return db.execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0] != b"table"


_VOLATILE = re.compile(r'"(seconds|generated_at|age|as_of|now|row_id|score|rank)": *(\{[^}]*\}|[^,}\]]+)')


def _same(one: str | None, other: str | None) -> bool:
    return _VOLATILE.sub("", one or "") == _VOLATILE.sub("", other or "")
