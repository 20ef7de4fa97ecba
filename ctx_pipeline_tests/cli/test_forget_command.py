"""What a project, a day or a text selects is gone from every layer after the command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"


@pytest.fixture
def store(environ, monkeypatch):
    """The folder of a store in which every stage has run over the sample homes."""
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, environ["CLAUDE_CONFIG_DIR" if host == "claude" else "CODEX_HOME"])
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    ran()
    return Path(environ["CTX_HOME"])


def ran() -> None:
    settings = settings_module.load()
    with open_store(settings) as opened:
        run_stages(opened, settings)


def asked(*words: str) -> dict:
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def holding(store: Path, text: bytes) -> list[str]:
    """Return the files of the store in which a text stands, raw objects unpacked and tables read with their dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zstandard

    found = []
    for path in (p for p in store.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".zst":
            data += zstandard.ZstdDecompressor().decompressobj().decompress(data[data.index(b"\x28\xb5\x2f\xfd") :])
        elif path.suffix == ".parquet":
            table = pq.ParquetFile(path).read()
            data += repr(table.to_pylist()).encode()
            # a dictionary may hold more than the rows use
            chunks = [chunk for column in table.columns for chunk in column.chunks if isinstance(chunk, pa.DictionaryArray)]
            data += repr([chunk.dictionary.to_pylist() for chunk in chunks]).encode()
        if text in data:
            found.append(str(path.relative_to(store)))
    return found


@pytest.mark.slow
@pytest.mark.feature("forget.selections-removed")
@pytest.mark.parametrize(
    ("words", "gone", "stays"),
    [
        (["--project", "example.org/team/trail-map"], "example.org/team/trail-map", "freezegun"),
        (["--text", "freezegun"], "freezegun", "trail-map"),
        (["--before", "2026-10-01"], None, "trail-map"),
    ],
    ids=["project", "text", "day"],
)
def test_what_is_selected_leaves_every_layer_and_does_not_return(store, words, gone, stays):
    before = {(s["host"], s["session_id"]) for s in asked("sql", "select host, session_id from sessions")["rows"]}
    told = asked("forget", *words, "--yes")
    chosen = {tuple(pair) for pair in told["sessions"]}
    assert told["forgotten"] == len(chosen) > 0
    assert chosen < before
    ran()

    assert {(s["host"], s["session_id"]) for s in asked("sql", "select host, session_id from sessions")["rows"]} == before - chosen
    for _, session_id in chosen:
        assert holding(store, session_id.encode()) == []
    assert gone is None or holding(store, gone.encode()) == []
    assert holding(store, stays.encode())
    for table in ("events", "tool_calls", "model_calls", "threads", "readings", "candidates"):
        rows = asked("sql", f"select distinct host, session_id from {table}")["rows"]
        assert {(r["host"], r["session_id"]) for r in rows} & chosen == set()
    assert asked("doctor")["sound"]


@pytest.mark.feature("forget.several")
def test_several_sessions_are_forgotten_at_once_and_one_that_is_unknown_stops_all(store):
    known = [row["session_id"] for row in asked("list")["sessions"]]

    refused = CliRunner().invoke(cli, ["forget", known[0], "nowhere-at-all", "--yes"])
    assert refused.exit_code == 1
    assert "nowhere-at-all" in str(refused.exception or refused.output)
    told = asked("forget", known[0], known[1][:8], "--yes")

    assert {session for _, session in told["sessions"]} == set(known[:2])
    assert {row["session_id"] for row in asked("list")["sessions"]} == set(known[2:])
    assert [holding(store, session.encode()) for session in known[:2]] == [[], []]


@pytest.mark.feature("forget.several")
def test_words_that_stand_in_the_titles_of_two_sessions_forget_neither(store):
    before = {row["session_id"]: row["title"] for row in asked("list")["sessions"]}
    for word in ("rounding", "vitest"):
        assert sum(word in (title or "") for title in before.values()) == 1

    refused = CliRunner().invoke(cli, ["forget", "rounding", "vitest", "--yes"])

    assert refused.exit_code == 1
    assert "rounding vitest" in str(refused.exception or refused.output)
    assert {row["session_id"] for row in asked("list")["sessions"]} == set(before)


@pytest.mark.feature("forget.tombstone")
def test_without_its_journal_a_forgetting_is_refused_and_nothing_of_it_is_carried_out_later(store):
    """The tombstones are in the journal alone: what could not be noted there would come back."""
    session = asked("list")["sessions"][0]["session_id"]
    kept = (store / "journal.db").rename(store.parent / "journal.db")
    for log in store.glob("journal.db-*"):
        log.unlink()

    refused = CliRunner().invoke(cli, ["forget", session, "--yes"])

    assert refused.exit_code == 1
    assert "journal.db is missing" in str(refused.exception or refused.output)
    assert not (store / "forgetting.json").exists()
    kept.rename(store / "journal.db")
    assert session in {row["session_id"] for row in asked("list")["sessions"]}
    ran()
    assert session in {row["session_id"] for row in asked("list")["sessions"]}
