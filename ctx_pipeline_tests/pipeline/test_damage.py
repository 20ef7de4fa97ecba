"""Damage of each derived file: a sentence that names it, exit 1, no traceback; the next run makes it again with the same content."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import root
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline.plan import plan
from ctx_pipeline.pipeline.repair import damaged_outputs, rebuild
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import blocked, open_store, session_figures
from ctx_pipeline.storage.ledger import digests
from ctx_pipeline.storage.verified import VerifiedFiles
from ctx_pipeline_tests.waiting import remove

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"
SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"
MONTH = "host=claude/month=2026-09"

COMMANDS = {
    "usage": ["usage", "daily"],
    "projects": ["usage", "project"],
    "bare": [],
    "show": ["show", "claude", SESSION],
    "search": ["search", "export"],
    "sql": ["sql", "select count(*) from events"],
    "signal": ["signal", "show", "claude", SESSION],
    "memory": ["memory", "list"],
    "retrieve": ["memory", "retrieve", "-q", "upgrade the tests"],
    "verify": ["verify"],
    "list": ["list"],
    "status": ["status"],
    "doctor": ["doctor"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample homes and a store of them, at a place that every test has it in."""
    folder = tmp_path_factory.mktemp("made")
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, folder / host)
    chosen = settings_module.load(environ_of(folder))
    with open_store(chosen) as store:
        run_stages(store, chosen)
    shutil.copytree(folder / "store", folder / "kept")
    return folder


@pytest.fixture
def settings(made: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    remove(made / "store")
    shutil.copytree(made / "kept", made / "store")
    environ = environ_of(made)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return settings_module.load(environ)


def environ_of(folder: Path) -> dict[str, str]:
    (folder / "nobody").mkdir(exist_ok=True)
    return {
        "HOME": str(folder / "nobody"),
        "CTX_HOME": str(folder / "store"),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CODEX_HOME": str(folder / "codex"),
        "TZ": "UTC",
    }


def at(share: float) -> Callable[[Path], None]:
    """Change the byte at a share of the file (or, from the end, so many bytes before it)."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(len(data) * share) if 0 < share < 1 else int(share)] ^= 0xFF
        path.write_bytes(data)

    return flip


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def invalid_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"asset"', b'"\xff\xfeset"'))


def invalid_json(path: Path) -> None:
    path.write_bytes(b'{"asset": ')


def wrong_shape(path: Path) -> None:
    path.write_bytes(b"[1, 2]")


def other_digit(path: Path) -> None:
    data = path.read_bytes()
    place = data.index(b'"rows": ', data.index(b'"parts"')) + 8
    path.write_bytes(data[:place] + (b"7" if data[place : place + 1] != b"7" else b"8") + data[place + 1 :])


FLIPS = {"magic": at(0), "header": at(6), "page": at(0.2), "later page": at(0.6), "footer": at(-200), "length": at(-6), "last": at(-1)}
WHOLE = {"cut": cut, "empty": empty, "missing": missing}
TEXTS = {"invalid UTF-8": invalid_text, "invalid JSON": invalid_json, "wrong shape": wrong_shape, "empty": empty, "missing": missing}

CASES: list[tuple[str, dict[str, Callable[[Path], None]], list[str]]] = [
    (f"lake/events/{MONTH}/part-*.parquet", FLIPS | WHOLE, ["show", "sql", "search"]),
    (f"lake/model_calls/{MONTH}/part-*.parquet", {"page": at(0.2), "footer": at(-200), **WHOLE}, ["usage", "bare", "show"]),
    (f"lake/sessions/{MONTH}/part-*.parquet", {"page": at(0.2), "missing": missing}, ["projects", "list"]),
    (f"lake/readings/{MONTH}/part-*.parquet", {"page": at(0.2), "missing": missing}, ["signal"]),
    ("lake/_manifests/normalized/claude=2026-09.json", TEXTS | {"another digit": other_digit}, ["usage", "show", "sql", "verify"]),
    ("lake/_manifests/signals.activity/claude=2026-09.json", TEXTS, ["signal"]),
    ("search.db", {"header": at(3), "page": at(0.5), **WHOLE}, ["search"]),
    ("memory.db", {"header": at(3), **WHOLE}, ["retrieve", "memory"]),
    ("memory_checks.json", {"page": at(0.5), **WHOLE}, []),
    ("combined_candidates.json", {"page": at(0.5), **WHOLE}, []),
    ("serving/made.json", {"page": at(0.5), **WHOLE}, []),
    ("cases.db", {"page": at(0.5), "empty": empty}, []),
    ("serving/ctx.duckdb", {"header": at(20), "page": at(0.5), "cut": cut, "missing": missing}, []),
    ("site/index.html", {"page": at(0.5), "missing": missing}, []),
    ("uses.json", {"cut": cut}, []),
]
KEPT = ("usage", "bare", "projects")
"""Readers that may answer right from what is kept of sessions, without a look at the file."""
UNREAD = {("search.db", "page")}
"""What a reader cannot see: a word in an index."""


def told(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str]:
    """Return the exit status of a command and what it printed; any error that is no sentence fails the test."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        root.run(list(words))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return int(ended.value.code or 0), shown.out + shown.err


def contents(store) -> dict[str, str]:
    return {
        f"{r.asset}@{r.partition.key}": r.content_hash for a, _ in store.ledger.recorded() for r in store.ledger.asset_cells(a).values()
    }


@pytest.mark.feature("damage.sentence")
@pytest.mark.parametrize(
    ("pattern", "how", "readers"),
    [pytest.param(pattern, how, readers, id=f"{pattern.split('*')[0]}: {how}") for pattern, ways, readers in CASES for how in ways],
)
def test_damage_is_named_by_whoever_reads_it_and_mended_by_the_next_run(settings, capsys, pattern, how, readers):
    ways = next(ways for known, ways, _ in CASES if known == pattern)
    with open_store(settings) as store:
        before = contents(store)
    whole = {reader: told(capsys, COMMANDS[reader]) for reader in readers if reader in KEPT}
    (path, *_) = sorted(settings.home.glob(pattern))
    ways[how](path)
    name = path.name

    named = []
    for reader in readers:
        code, said = told(capsys, COMMANDS[reader])
        if (pattern, how) not in UNREAD and (code, said) != whole.get(reader):
            assert (code, name in said) == (1, True), f"{reader}: {said[-600:]}"
            assert "ctx run" in said or "ctx memory reindex" in said
            named.append(reader)
    assert named or not readers or (pattern, how) in UNREAD
    with open_store(settings) as store:
        found = doctor.examine(store, settings)
        assert not found.sound
        assert name in "\n".join(found.lines())
        sentences = damaged_outputs.release_damaged(store, settings)
        assert how == "missing" or any(name in sentence for sentence in sentences)
        run_stages(store, settings)
        assert contents(store) == before
        assert plan(store, settings).nothing_to_do
        assert damaged_outputs.damaged(store, deep=VerifiedFiles(store.files)) == []


@pytest.mark.feature("damage.sentence")
def test_no_reading_command_trips_over_damage_that_it_does_not_look_at(settings, capsys):
    for pattern in (f"lake/readings/{MONTH}/part-*.parquet", "cases.db", "serving/ctx.duckdb"):
        cut(min(settings.home.glob(pattern)))
    for reader in ("usage", "bare", "list", "search", "sql", "memory"):
        code, said = told(capsys, COMMANDS[reader])
        assert code == 0, said
    assert told(capsys, COMMANDS["status"])[0] == 1
    assert told(capsys, COMMANDS["doctor"])[0] == 1


@pytest.mark.feature("damage.copied")
def test_a_copy_of_a_store_with_other_times_is_sound_and_noted_anew(settings):
    for path in (settings.home / "lake").rglob("*.parquet"):
        os.utime(path, (1, 1))
    with open_store(settings) as store:
        before = contents(store)
        assert doctor.examine(store, settings).sound
        assert damaged_outputs.release_damaged(store, settings) == []
        assert run_stages(store, settings).sessions_parsed == 0
        assert contents(store) == before
        times = {
            part.mtime_ns for asset in ("normalized", "signals/activity") for m in store.lake.manifests(asset).values() for part in m.parts
        }
        assert times == {1_000_000_000}


@pytest.mark.feature("damage.raw")
@pytest.mark.parametrize("how", ["page", "cut", "empty", "missing"])
def test_a_damaged_raw_object_is_named_and_taken_again_from_its_source(settings, capsys, how):
    with open_store(settings) as store:
        before = contents(store)
        segment = next(s for s in store.ledger.segments() if f"{SESSION}" in str(store.ledger.sources_of([s.stream])[s.stream].rel))
    {"page": at(0.9), **WHOLE}[how](settings.home / segment.path)

    code, said = told(capsys, COMMANDS["doctor"])
    assert code == 1
    assert Path(segment.path).name in said
    code, said = told(capsys, ["doctor", "--rebuild-ledger"])
    assert (how == "missing") or Path(segment.path).name in said
    assert "before: 6 sessions, 46 model calls" in said
    assert "after:  6 sessions, 46 model calls" in said
    with open_store(settings) as store:
        run_stages(store, settings)
        run_stages(store, settings)
        now = contents(store)
        assert store.ledger.undecodable_sessions() == []
    assert {k: v for k, v in now.items() if k.startswith("normalized")} == {k: v for k, v in before.items() if k.startswith("normalized")}


@pytest.mark.feature("damage.raw")
@pytest.mark.parametrize("how", ["page", "missing"])
def test_the_run_after_the_doctor_restores_a_raw_object_byte_for_byte(settings, capsys, how):
    with open_store(settings) as store:
        segment = next(s for s in store.ledger.segments() if SESSION in str(store.ledger.sources_of([s.stream])[s.stream].rel))
    whole = (settings.home / segment.path).read_bytes()
    {"page": at(0.9), **WHOLE}[how](settings.home / segment.path)

    assert told(capsys, COMMANDS["doctor"])[0] == 1
    code, said = told(capsys, ["run"])
    assert code == 0
    assert f"{segment.path} was damaged: restored from its source" in said
    assert (settings.home / segment.path).read_bytes() == whole
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.folder")
@pytest.mark.parametrize(
    "pattern",
    [
        "raw/claude/*/*/*.jsonl.zst",
        f"lake/events/{MONTH}/part-*.parquet",
        "lake/_manifests/normalized/claude=2026-09.json",
        "lake/_manifests/signals.activity/claude=2026-09.json",
        "search.db",
        "memory.db",
        "memory_checks.json",
        "combined_candidates.json",
        "serving/ctx.duckdb",
    ],
)
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "with a file"])
def test_a_folder_in_the_place_of_a_file_is_named_and_the_next_run_makes_the_file_again(settings, capsys, pattern, filled):
    with open_store(settings) as store:
        before = contents(store)
    (path, *_) = sorted(settings.home.glob(pattern))
    path.unlink()
    path.mkdir()
    if filled:
        (path / "note.md").write_text("mine")

    code, said = told(capsys, COMMANDS["doctor"])
    assert (code, path.name in said) == (1, True), said
    runs = [told(capsys, ["run"]) for _ in range(2)]

    assert [code for code, _ in runs] == [0, 0], runs
    assert path.is_file()
    assert [note.read_text() for note in path.parent.glob(f"{path.name}.folder-*/note.md")] == ["mine"] * filled
    assert told(capsys, COMMANDS["doctor"])[0] == 0
    with open_store(settings) as store:
        assert contents(store) == before


@pytest.mark.feature("damage.folder")
def test_a_folder_in_the_place_of_the_page_is_a_missing_page(settings, capsys):
    page = settings.home / "site" / "index.html"
    page.unlink()
    page.mkdir()

    told(capsys, ["run"])

    assert page.is_file()
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.folder")
def test_folders_of_a_person_beside_the_store_and_those_in_the_place_of_what_guards_it_stay(settings, capsys):
    theirs = [settings.home / name for name in ("leveldb.db", "results.json", "notes.txt", "raw-encryption.json", "forgetting.json")]
    for folder in theirs:
        folder.mkdir()
    (theirs[0] / "CURRENT").write_text("mine")

    told(capsys, ["run"])

    assert [folder.is_dir() for folder in theirs] == [True] * len(theirs)
    assert (theirs[0] / "CURRENT").read_text() == "mine"


@pytest.mark.feature("damage.folder")
def test_every_note_that_a_run_leaves_at_the_top_of_a_store_is_one_for_which_way_is_made(settings, capsys):
    told(capsys, ["run"])
    notes = {path.name for path in settings.home.iterdir() if path.suffix in {".db", ".json", ".txt"}}
    assert notes
    for name in notes:
        (settings.home / name).unlink()
        (settings.home / name).mkdir()
    blocked.make_way_in(settings.home)
    assert [name for name in notes if (settings.home / name).exists()] == []


@pytest.mark.feature("damage.folder")
def test_a_folder_in_the_place_of_the_ledger_is_a_lost_ledger(settings, capsys):
    (settings.home / "ledger.db").unlink()
    (settings.home / "ledger.db").mkdir()

    code, said = told(capsys, COMMANDS["usage"])
    assert (code, "Traceback" in said) == (0, False), said
    assert told(capsys, ["run"])[0] == 0
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.repair")
def test_repair_names_lost_bytes_for_good_and_keeps_what_was_made_of_them(settings, capsys, made):
    (source,) = (made / "claude").rglob(f"{SESSION}.jsonl")
    with open_store(settings) as store:
        before = contents(store)
        segment = next(s for s in store.ledger.segments() if store.ledger.sources_of([s.stream])[s.stream].rel.endswith(f"{SESSION}.jsonl"))
    original = source.read_bytes()
    at(0.9)(settings.home / segment.path)
    source.unlink()
    try:
        code, said = told(capsys, ["verify", "--deep"])
        assert (code, said.startswith(f"{segment.path}: c"), said.endswith("1 damaged: ctx repair\n")) == (1, True, True)
        code, said = told(capsys, ["repair", "--yes"])
        lost = f"lost for good: bytes 0 to {segment.end:,} of {source.name} of claude {SESSION} ({segment.path})"
        assert (code, lost in said) == (0, True), said
        assert said.rstrip().endswith("sound: no file is damaged or missing")
        code, said = told(capsys, COMMANDS["doctor"])
        assert code == 0
        assert lost.removeprefix("lost for good: ") in said
        with open_store(settings) as store:
            now = contents(store)
        assert {k: v for k, v in now.items() if k.startswith("normalized")} == {
            k: v for k, v in before.items() if k.startswith("normalized")
        }
        source.write_bytes(original)
        told(capsys, ["run"])
        assert lost not in told(capsys, ["verify", "--deep"])[1]
    finally:
        source.write_bytes(original)


@pytest.mark.feature("damage.repair")
def test_a_page_that_is_a_link_is_named_and_a_folder_takes_its_place(settings, capsys, tmp_path):
    (settings.home / "site").rename(tmp_path / "elsewhere")
    (settings.home / "site").symlink_to(tmp_path / "elsewhere")
    code, said = told(capsys, ["verify", "--deep"])
    assert (code, f"site: is a link to {tmp_path / 'elsewhere'}" in said) == (1, True), said
    assert told(capsys, ["run"])[0] == 0
    assert not (settings.home / "site").is_symlink()
    assert (settings.home / "site" / "index.html").exists()
    assert told(capsys, ["verify", "--deep"])[0] == 0
    assert (tmp_path / "elsewhere" / "index.html").exists()


_UNSEEN = {
    "thread": f"UPDATE sources SET thread_id = 'x' || substr(thread_id, 2) WHERE rel LIKE '%{SESSION}.jsonl'",
    "title": f"UPDATE sessions SET rows = json_set(rows, '$.title', 'another title') WHERE session_id = '{SESSION}'",
    "hint": f"UPDATE hints SET value = 'another prompt' WHERE field = 'first_prompt' AND thread_id = '{SESSION}'",
    "tombstone": "DELETE FROM tombstones WHERE kind = 'content'",
}
"""What was changed in the ledger -> the statement that does it, to one row."""


@pytest.mark.feature("damage.repair")
@pytest.mark.parametrize("what", sorted(_UNSEEN))
def test_a_changed_row_of_the_ledger_that_sqlite_does_not_see_is_found_and_repaired(settings, capsys, what):
    if what == "tombstone":
        with open_store(settings) as store:
            other = next(row.session_id for row in store.ledger.sessions() if row.session_id != SESSION)
        assert told(capsys, ["forget", other, "--yes"])[0] == 0
        told(capsys, ["run"])
    assert told(capsys, ["verify", "--deep"])[0] == 0
    with closing(sqlite3.connect(settings.home / "ledger.db")) as ledger, ledger:
        assert ledger.execute(_UNSEEN[what]).rowcount == 1
        digests.renew(ledger)  # as in a ledger of another time that somebody put there
    assert told(capsys, COMMANDS["doctor"])[0] == 0
    code, said = told(capsys, ["verify", "--deep"])
    assert (code, "ledger.db: contradicts raw, the tables or the journal in 1 rows" in said) == (1, True), said
    code, said = told(capsys, ["repair", "--yes"])
    assert (code, said.rstrip().endswith("sound: no file is damaged or missing")) == (0, True), said


_CHANGED = {
    "count": ("sessions", "UPDATE sessions SET rows = json_set(rows, '$.events', 7)"),
    "digest": ("segments", "UPDATE segments SET sha256 = replace(sha256, substr(sha256, 1, 1), 'f') WHERE sha256 NOT LIKE 'f%'"),
    "path": ("segments", "UPDATE segments SET path = path || 'x'"),
    "size": ("sources", "UPDATE sources SET size = size + 1"),
    "calls": ("calls", "DELETE FROM calls"),
    "time of a call": ("calls", "UPDATE calls SET ts = ts + 1"),
    "record": ("asset_cells", "UPDATE asset_cells SET content_hash = 'x'"),
    "one more": ("quarantine", "INSERT INTO quarantine SELECT host, session_id, '', 0, 1, 0, 9, 'no JSON' FROM sessions"),
    "not UTF-8": ("hints", "UPDATE hints SET value = CAST(x'ff41' AS TEXT)"),
}
"""What was changed in the ledger -> the table, and the statement that does it."""


@pytest.mark.feature("damage.rows")
@pytest.mark.parametrize("what", sorted(_CHANGED))
def test_whatever_else_changes_a_row_of_the_ledger_is_seen_by_the_doctor_though_a_run_went_over_it(settings, capsys, what):
    table, statement = _CHANGED[what]
    with open_store(settings) as store:
        before = contents(store)
    with closing(sqlite3.connect(settings.home / "ledger.db")) as ledger, ledger:
        assert ledger.execute(statement).rowcount > 0
    code, said = told(capsys, COMMANDS["doctor"])
    assert (code, f"ledger.db: rows of {table} are not as they were written; it is made again by: ctx repair" in said) == (1, True), said
    code, said = told(capsys, ["repair", "--yes"])
    assert (code, said.rstrip().endswith("sound: no file is damaged or missing")) == (0, True), said
    with open_store(settings) as store:
        assert contents(store) == before
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.rows")
def test_a_byte_changed_on_a_page_of_the_ledger_that_sqlite_finds_whole_is_seen(settings, capsys):
    with open_store(settings) as store:
        store.ledger.compact()
        title = next(row.rows["title"] for row in store.ledger.sessions() if row.session_id == SESSION)
    path = settings.home / "ledger.db"
    data = bytearray(path.read_bytes())
    data[data.index(json.dumps(title).encode()) + 1] ^= 1
    path.write_bytes(data)
    assert rebuild.whole(path)
    code, said = told(capsys, COMMANDS["doctor"])
    assert (code, "ledger.db: rows of " in said) == (1, True), said
    assert told(capsys, ["repair", "--yes"])[0] == 0
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.rows")
def test_a_ledger_and_a_journal_of_an_earlier_version_are_known_from_their_rows_as_they_are(settings, capsys):
    with open_store(settings) as store:
        store.journal.append("finding", {"text": "a finding"})
    with closing(sqlite3.connect(settings.home / "ledger.db")) as ledger, ledger:
        ledger.executescript("DROP TABLE digests; ALTER TABLE callers DROP COLUMN calls; PRAGMA user_version = 4")
    with closing(sqlite3.connect(settings.home / "journal.db")) as journal, journal:
        journal.execute("DROP TABLE digests")
    assert told(capsys, ["run"])[0] == 0
    assert told(capsys, COMMANDS["doctor"])[0] == 0
    with open_store(settings) as store:
        store.journal.append("finding", {"text": "another"})
    for name, statement in {"ledger": "UPDATE callers SET calls = 1", "journal": "DROP TRIGGER facts_stay"}.items():
        with closing(sqlite3.connect(settings.home / f"{name}.db")) as database, database:
            database.execute(statement)
            if name == "journal":
                database.execute("UPDATE facts SET actor = 'x' WHERE id = 1")
    said = told(capsys, COMMANDS["doctor"])[1]
    assert "ledger.db: rows of callers, calls are not" in said
    assert "journal.db: 1 fact in it" in said


@pytest.mark.feature("damage.rows")
def test_a_changed_fact_of_the_journal_is_named_and_the_others_are_kept(settings, capsys):
    with open_store(settings) as store:
        for text in ("first", "second", "third"):
            store.journal.append("finding", {"text": text})
        number = store.journal.newest("finding", 2)[-1].id
    path = settings.home / "journal.db"
    with closing(sqlite3.connect(path)) as journal, journal:
        journal.execute("DROP TRIGGER facts_stay")
        journal.execute("UPDATE facts SET payload = replace(payload, 'second', 'sec0nd') WHERE id = ?", [number])
    code, said = told(capsys, COMMANDS["doctor"])
    named = f"journal.db: 1 fact in it, the first with id {number} (finding), changed since written; the others are kept by: ctx repair"
    assert (code, named in said) == (1, True), said
    code, said = told(capsys, ["repair", "--yes"])
    assert (code, "1 left out that are not as they were written" in said) == (0, True), said
    with open_store(settings) as store:
        assert [fact.payload["text"] for fact in store.journal.facts("finding")] == ["first", "third"]
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.rows")
@pytest.mark.parametrize("statement", ["UPDATE figures SET last = last + 1", "UPDATE parts SET data = substr(data, 1, 40)"])
def test_a_changed_figure_of_a_session_is_seen_and_made_again(settings, capsys, statement):
    before = told(capsys, ["usage", "session", "--json"])
    with closing(sqlite3.connect(settings.home / session_figures.FILE)) as figures, figures:
        assert figures.execute(statement).rowcount > 0
    code, said = told(capsys, COMMANDS["doctor"])
    assert (code, "serving/sessions.db: is not what was written" in said) == (1, True), said
    assert told(capsys, ["repair", "--yes"])[0] == 0
    assert told(capsys, COMMANDS["doctor"])[0] == 0
    assert told(capsys, ["usage", "session", "--json"]) == before


@pytest.mark.feature("damage.repair")
def test_a_reader_of_a_store_whose_ledger_was_lost_says_so_until_a_run_has_ended(settings, capsys):
    (settings.home / "ledger.db").unlink()
    for _ in range(2):
        code, said = told(capsys, COMMANDS["usage"])
        assert (code, "was lost and made again from raw" in said) == (0, True), said
    assert told(capsys, COMMANDS["doctor"])[0] == 1
    assert told(capsys, ["run"])[0] == 0
    assert "was lost" not in told(capsys, COMMANDS["usage"])[1]
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.sentence")
@pytest.mark.parametrize("how", ["page", "empty", "missing"])
def test_a_damaged_script_of_the_page_is_found_by_reading_it_and_drawn_again(settings, capsys, how):
    path = next(p for p in sorted((settings.home / "site" / "data").iterdir()) if p.name != "sessions.js")
    whole = path.read_bytes()
    {"page": at(0.5), **WHOLE}[how](path)

    code, said = told(capsys, COMMANDS["doctor"])
    assert (code, f"site/data/{path.name}" in said) == (1, True)
    assert told(capsys, ["run"])[0] == 0
    assert path.read_bytes() == whole
    assert told(capsys, COMMANDS["doctor"])[0] == 0


@pytest.mark.feature("damage.repair")
@pytest.mark.parametrize(("how", "by_run"), [(at(0), True), (empty, True), (cut, False)], ids=["magic", "empty", "cut"])
def test_kept_figures_of_sessions_in_a_damaged_file_are_named_and_made_again(settings, capsys, how, by_run):
    path = settings.home / session_figures.FILE
    before = told(capsys, ["usage", "session", "--json"])
    how(path)

    assert told(capsys, ["usage", "session", "--json"]) == before
    code, output = told(capsys, ["verify", "--deep"])
    assert code == 1
    assert "serving/sessions.db: is not what was written" in output
    if not by_run:
        assert told(capsys, ["repair", "--yes"])[0] == 0
    with open_store(settings) as store:
        run_stages(store, settings)

    assert told(capsys, ["verify", "--deep"])[0] == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM figures").fetchone()[0] > 0
    assert told(capsys, ["usage", "session", "--json"]) == before
