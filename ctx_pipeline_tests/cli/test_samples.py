"""Samples are shown while there is no session of one's own, and never beside one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli.homes import choose
from ctx_pipeline.storage import own_sessions
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.claude import ClaudeHome, small_home
from ctx_pipeline_tests.factories.shipped import environment

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE_CALLS = 46


def default_places(ctx: Ctx) -> None:
    (ctx.folder / "nobody" / ".claude" / "projects").mkdir(parents=True)
    (ctx.folder / "nobody" / ".codex" / "sessions").mkdir(parents=True)


def named_home(ctx: Ctx) -> None:
    (ctx.folder / "named").mkdir()
    ctx.environ["CLAUDE_CONFIG_DIR"] = str(ctx.folder / "named")


def without_sessions(ctx: Ctx) -> None:
    home = ClaudeHome(ctx.folder / "nobody" / ".claude")
    home.file("settings.json", {"cleanupPeriodDays": 30})
    home.file("history.jsonl", json.dumps({"display": "hello", "project": "/w", "timestamp": 1, "sessionId": "s"}) + "\n")
    home.file("projects/-w/0f8fad5b-d9cb-469f-a165-70867728950e.jsonl", b"")
    home.file("todos/x.json", [])


def empty_callback_store(ctx: Ctx) -> None:
    path = ctx.folder / "program" / "ctxrot.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE empty (a)")
    (ctx.store / "stores").mkdir(parents=True)
    (ctx.store / "stores" / "a").write_text(str(path))


def made_by_an_older_version(ctx: Ctx) -> None:
    default_places(ctx)
    ctx("sync")  # makes a ledger, as a run over empty homes did
    assert (ctx.store / "ledger.db").is_file()


@pytest.mark.feature("cli.samples")
@pytest.mark.parametrize("homes", [default_places, named_home, without_sessions, empty_callback_store, made_by_an_older_version])
def test_homes_without_a_session_show_samples(bare: Ctx, homes):
    homes(bare)
    assert bare.json("usage", "daily")["totals"]["calls"] == SAMPLE_CALLS
    listed = bare("list", "--json")
    assert json.loads(listed.stdout)["counts"]["claude"] == 4
    assert listed.stderr == "(sample sessions)\n"
    assert bare("usage", "daily").stderr == "(sample sessions)\n"
    assert "no model calls" not in bare().stdout.partition("more:")[2]
    refused = bare("search", "upload", ok=False)
    assert refused.stderr.splitlines()[0] == "(sample sessions)"
    # the list has made a store, which is empty
    assert "hint: ctx run" in refused.stderr
    assert bare("work", ok=False).stderr.splitlines()[1:] == [
        "ctx: nothing was captured yet",
        "hint: ctx run, which captures the sample sessions",
    ]


@pytest.mark.feature("cli.samples")
def test_where_no_agent_has_a_home_one_sentence_names_those_that_are_read(bare: Ctx):
    first = bare("run").stderr.splitlines()[0]
    assert first.startswith("No sessions found; there is no home of Aider, ")
    assert " or Roo Code here. Showing sample sessions instead." in first
    assert "/" not in first


@pytest.mark.feature("cli.samples")
def test_samples_go_with_the_first_session_and_do_not_come_back(bare: Ctx):
    default_places(bare)
    told = bare("run")
    assert "No sessions found; looked in" in told.stderr
    assert "These are sample sessions" in told.stdout
    assert not (bare.store / "ledger.db").exists()
    home = bare.folder / "nobody" / ".claude"
    small_home(home)
    own = bare("list", "--json")
    assert own.stderr == ""
    assert {s["host"]: s["state"] for s in json.loads(own.stdout)["sessions"]} == {"claude": "new"}
    calls = bare.json("usage", "daily")["totals"]["calls"]
    assert 0 < calls < SAMPLE_CALLS
    bare("sync")
    shutil.rmtree(home / "projects")  # what a host does after thirty days
    (home / "projects").mkdir()
    after = bare("usage", "daily", "--json")
    assert after.stderr == ""
    assert json.loads(after.stdout)["totals"]["calls"] == calls
    assert {host: number for host, number in bare.json("list")["counts"].items() if number} == {"claude": 1}


@pytest.mark.feature("cli.samples")
@pytest.mark.parametrize("lost", ["tables", "tables and ledger", "tables, ledger damaged"])
def test_a_store_that_lost_its_tables_or_ledger_is_still_the_persons_own(tmp_path: Path, lost):
    ctx = Ctx(tmp_path, environment(tmp_path))
    small_home(tmp_path / "claude")
    ctx("sync")
    shutil.rmtree(tmp_path / "claude")
    shutil.rmtree(ctx.store / "lake")
    if "ledger" in lost:
        for path in ctx.store.glob("ledger.db*"):
            path.unlink()
    if "damaged" in lost:
        (ctx.store / "ledger.db").write_bytes(b"no database" * 100)
    assert own_sessions.holds_sessions(ctx.store)
    settings = settings_module.load(ctx.environ)
    assert choose(settings, demo=False) == (settings, "")


@pytest.mark.feature("cli.samples")
def test_a_note_of_ones_own_keeps_samples_away(bare: Ctx):
    (bare.folder / "notes").mkdir()
    (bare.folder / "notes" / "uv.md").write_text("Use uv.\n")
    bare("memory", "import-authored", "notes")
    told = bare("memory", "list", "--json")
    assert told.stderr == ""
    assert [m["text"] for m in json.loads(told.stdout)["memories"]] == ["Use uv."]


@pytest.mark.feature("cli.samples")
def test_a_command_that_reads_twice_says_once_that_it_shows_samples(bare: Ctx):
    said = [bare(*words, ok=False).stderr.count("(sample sessions)") for words in (("session", "load"), ("verify",), ("list",))]

    assert said == [1, 1, 1]


@pytest.mark.feature("cli.samples")
@pytest.mark.parametrize("words", [("backfill", "active_seconds"), ("wrapped",), ("wrapped", "all", "--json")])
def test_before_anything_was_captured_nothing_is_called_fresh_and_no_card_of_zeros_is_drawn(bare: Ctx, words: tuple[str, ...]):
    refused = bare(*words, ok=False)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "nothing was captured yet" in refused.stderr
