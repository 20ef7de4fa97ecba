"""A session is named once: every command takes the same names as its first argument."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.context.session_state.state import DEFAULT
from ctx_pipeline.dashboard.page import unpacked_chunk
from ctx_pipeline.sessions.pages import newest
from ctx_pipeline.sessions.states.resume import other_blocks, stored_blocks
from ctx_pipeline.storage.written_sessions import last_written
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text

if TYPE_CHECKING:
    from pathlib import Path

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
EXPORT = "c823d9cd-f224-448f-a457-16b4882b2710"
CODEX_OLD = "019a258d-2f4b-41ad-a3ec-8757026226bd"
CODEX_NEW = "019a72be-d7ad-4054-a5be-4022a0f8b2f2"


def shown(ctx: Ctx, *words: str) -> str:
    return ctx.json("show", *words)["session"]["session_id"]


def on_pages(home: Path) -> list[str]:
    """Return the commands that the pages of sessions show."""
    scripts = [path.read_bytes() for path in (home / "site" / "data").glob("*.js") if path.name != "sessions.js"]
    found = [unpacked_chunk(script) for script in scripts]
    return [value["facts"]["resume"] for value in found if isinstance(value, dict) and "facts" in value]


@pytest.mark.feature("cli.session-names")
@pytest.mark.parametrize(
    "words",
    [
        ("51b3",),
        ("51b369cc…c225",),
        ("claude", "51b3"),
        ("claude/51b3",),
        ("claude:51b3",),
        ("--session", "51b3"),
        ("-s", "51b3"),
        ("--session-id", DISCOUNTS),
    ],
)
def test_an_id_is_named_by_its_beginning_in_every_spelling(ran: Ctx, words: tuple[str, ...]):
    assert shown(ran, *words) == DISCOUNTS


@pytest.mark.feature("cli.session-names")
def test_latest_counts_back_from_the_session_that_was_last_active(ran: Ctx):
    order = [row["session_id"] for row in ran.json("sql", "select session_id from sessions order by last_ts desc")["rows"]]

    assert [shown(ran, *words) for words in ((), ("latest",), ("latest~2",))] == [order[0], order[0], order[2]]
    assert shown(ran, "claude", "latest") == next(one for one in order if one not in {CODEX_OLD, CODEX_NEW})
    assert shown(ran, "codex") == next(one for one in order if one in {CODEX_OLD, CODEX_NEW})


@pytest.mark.feature("search.resume")
def test_a_session_of_which_only_a_subagents_file_is_there_is_not_said_to_resume(bare: Ctx):
    home, session = ClaudeHome(bare.folder / "claude"), "c0000000-0000-4000-8000-000000000007"
    home.agent("a1b2c3d", session).prompt("count the files").answer(text("12 files counted")).save()
    ctx = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root)})
    ctx("run")

    refused = ctx("resume", session, ok=False)
    assert refused.stdout == ""
    assert f"of {session} only what its subagents did is recorded" in refused.stderr
    assert ctx.json("show", session)["resume"] == ""
    assert "claude --resume" not in ctx("show", session).stdout + ctx("session", "resume", session).stdout
    listed = [*ctx.json("list")["sessions"], *ctx.json("session", "list")["sessions"], *ctx.json("search", "files counted")["hits"]]
    assert [one["resume"] for one in listed] == [""] * 3
    settings = settings_module.load(environ=ctx.environ)
    assert [line.resume for line in newest(settings=settings)[0]] == [""]
    assert on_pages(settings.home)
    assert not any("claude --resume" in command for command in on_pages(settings.home))
    home.session(session).prompt("what is here?").answer(text("12 files")).save()
    ctx("sync")
    assert f"claude --resume {session}" in ctx("resume", session).stdout
    assert f"claude --resume {session}" in ctx("resume", "agent-a1b2c3d").stdout, "what a subagent is called by its file"


@pytest.mark.feature("search.resume")
def test_wherever_an_archived_session_is_told_its_command_takes_it_out_of_the_archive(bare: Ctx):
    home, session = bare.folder / "codex", codex.THREAD
    path = codex.write(home, codex.session(), folder="archived_sessions")
    ctx = Ctx(bare.folder, bare.environ | {"CODEX_HOME": str(home)})
    ctx("run")
    command = f"cd /code/app && codex unarchive {session} && codex resume {session}"

    listed = [*ctx.json("list")["sessions"], *ctx.json("session", "list")["sessions"], *ctx.json("search", "mend parser")["hits"]]
    assert [one["resume"] for one in listed] == [command] * 3
    assert [ctx.json("show", session)["resume"], ctx.json("session", "load", session)["command"]] == [command] * 2
    assert ctx("resume", session).stdout.strip() == command
    settings = settings_module.load(environ=ctx.environ)
    assert [line.resume for line in newest(settings=settings)[0]] == [command]
    assert command in on_pages(settings.home)
    (last,) = last_written(settings.home / "ledger.db")
    for blocks in (other_blocks, stored_blocks):
        assert all(f"Resume it with: {command}" in text for text in blocks(last, (1200,), settings, DEFAULT) or [""])
    codex.write(home, [*codex.session(), codex.event(60, "user_message", message="now its tests")])
    path.unlink()
    ctx("sync")
    assert ctx("resume", session).stdout.strip() == f"cd /code/app && codex resume {session}"
    assert not last_written(settings.home / "ledger.db")[0].archived


@pytest.mark.feature("search.resume")
def test_a_store_of_an_earlier_version_tells_of_an_archived_session_what_its_tables_say(bare: Ctx):
    home, session = bare.folder / "codex", codex.THREAD
    codex.write(home, codex.session(), folder="archived_sessions")
    ctx = Ctx(bare.folder, bare.environ | {"CODEX_HOME": str(home)})
    ctx("run")
    settings = settings_module.load(environ=ctx.environ)
    with closing(sqlite3.connect(settings.home / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE sessions SET rows = json_remove(rows, '$.status')")

    command = f"cd /code/app && codex unarchive {session} && codex resume {session}"
    listed = [*ctx.json("list")["sessions"], *ctx.json("session", "list")["sessions"], *ctx.json("search", "mend parser")["hits"]]
    assert [one["resume"] for one in listed] == [command] * 3
    assert [ctx.json("show", session)["resume"], ctx.json("session", "load", session)["command"]] == [command] * 2
    assert ctx("resume", session).stdout.strip() == command
    for part in (settings.home / "lake").rglob("*.parquet"):
        part.unlink()
    assert [line.resume for line in newest(settings=settings)[0]] == [f"cd /code/app && codex resume {session}"]


@pytest.mark.feature("search.resume")
def test_an_archived_session_that_no_run_captured_is_taken_out_of_the_archive_as_well(bare: Ctx):
    home, session = bare.folder / "codex", codex.THREAD
    path = codex.write(home, codex.session(), folder="archived_sessions")
    claude = ClaudeHome(bare.folder / "claude")
    claude.session("c0000000-0000-4000-8000-000000000008").prompt("count the files").answer(text("12 files")).save()
    ctx = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(claude.root)})
    command = f"cd /code/app && codex unarchive {session} && codex resume {session}"

    nothing = Ctx(bare.folder, bare.environ | {"CODEX_HOME": str(home)})
    assert nothing("resume", session).stdout.strip() == command
    ctx("run")
    ctx = Ctx(bare.folder, ctx.environ | {"CODEX_HOME": str(home)})
    assert ctx("resume", session).stdout.strip() == command
    assert command in [one["resume"] for one in ctx.json("list")["sessions"]]
    codex.write(home, codex.session())
    path.unlink()
    assert ctx("resume", session).stdout.strip() == f"cd /code/app && codex resume {session}"


@pytest.mark.feature("cli.session-of-a-day")
def test_a_day_names_the_newest_session_that_was_last_active_then_and_no_word_of_a_title(bare: Ctx):
    home = ClaudeHome(bare.folder / "claude")
    now = datetime.now(UTC)
    begins = {"a": now - timedelta(days=1, minutes=5), "b": now - timedelta(days=1), "c": now - timedelta(days=40)}
    for name, began in begins.items():
        one = home.session(f"{name}0000000-0000-4000-8000-000000000001", mark=name, started=began)
        one.prompt("what we did yesterday" if name == "c" else f"task {name}").answer(text("ok")).save()
    ctx = Ctx(bare.folder, bare.environ | {"CLAUDE_CONFIG_DIR": str(home.root), "TZ": "UTC"})
    ctx("run")
    last = datetime.fromisoformat(ctx.json("show", "b0")["session"]["last_ts"])

    assert shown(ctx, f"{last:%Y-%m-%d}")[0] == "b"
    if last.date() == datetime.now(UTC).date() - timedelta(days=1):
        assert shown(ctx, "yesterday")[0] == "b"
        assert "--resume b0000000" in ctx("resume", "yesterday").stdout
    far = ctx("resume", "2026-01-01", ok=False)
    assert "none was last active on 2026-01-01; the newest are" in far.stderr
    assert "ctx list --since DAY" in far.stderr
    assert shown(ctx, "what we did yesterday")[0] == "c"


@pytest.mark.feature("cli.session-names")
def test_words_of_a_title_and_a_transcript_name_a_session(ran: Ctx):
    (file,) = (ran.folder / "claude").rglob(f"{DISCOUNTS}.jsonl")

    assert shown(ran, "orders", "csv", "EXPORT") == EXPORT
    assert shown(ran, str(file)) == DISCOUNTS
    assert shown(ran, "claude", "csv") == EXPORT


@pytest.mark.feature("cli.session-names")
def test_the_name_of_a_project_is_its_newest_session(ran: Ctx):
    rows = ran.json("sql", "select session_id, project, title, tool_calls from sessions order by last_ts desc")["rows"]
    project = next(row["project"] for row in rows if sum(row["project"].lower() in (r["title"] or "").lower() for r in rows) != 1)

    assert shown(ran, project) == next(row["session_id"] for row in rows if row["project"] == project and row["tool_calls"])
    assert shown(ran, project.upper()) == shown(ran, project)
    refused = ran("forget", project, "--yes", ok=False)
    assert refused.returncode == 1, "a project is forgotten by its option"


COMMANDS = [
    "files",
    "history",
    "signal show",
    "session status",
    "session resume",
    "metrics",
    "rot analyze",
    "memory record",
    "mine",
    "explain",
    "gain",
]


@pytest.mark.feature("cli.session-names")
@pytest.mark.parametrize("mark", [":", "/"])
@pytest.mark.parametrize("command", ["explain", "cost", "session status"])
def test_a_session_is_named_with_its_host(ran: Ctx, command: str, mark: str):
    told = ran(*command.split(), f"claude{mark}{EXPORT}", "--json").stdout

    assert EXPORT in told.replace(f"claude{mark}{EXPORT}", "")
    assert ran(*command.split(), f"codex{mark}{EXPORT}", ok=False).returncode


@pytest.mark.feature("cli.session-names")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_same_name(ran: Ctx, command: str):
    assert EXPORT in ran(*command.split(), "CSV export", "--json").stdout


@pytest.mark.feature("cli.session-near")
def test_a_wrong_name_gets_the_nearest_with_titles_and_dates(ran: Ctx):
    typo = ran("show", "51b369dd", ok=False)
    several = ran("show", "019a", ok=False)
    other = ran("show", "claude", CODEX_NEW[:8], ok=False)
    far = ran("show", "latest~99", ok=False)

    assert (typo.returncode, several.returncode, other.returncode, far.returncode) == (1, 1, 1, 1)
    assert f"claude/{DISCOUNTS}  2026-09-14  Fix rounding" in typo.stderr
    assert "'019a' means 2 sessions" in several.stderr
    assert several.stderr.index(CODEX_NEW) < several.stderr.index(CODEX_OLD)
    assert "another agent has it:" in other.stderr
    assert f"codex/{CODEX_NEW}" in other.stderr
    assert "6 are captured" in far.stderr


@pytest.mark.feature("cli.session-names")
def test_a_project_that_is_typed_wrong_is_suggested_where_a_session_is_asked_for(ran: Ctx):
    for command in ("resume", "show"):
        assert "hint: did you mean the newest session of bookshop-api?\n" in ran(command, "bokshop-api", ok=False).stderr
    assert "newest session of" not in ran("forget", "bokshop-api", "-y", ok=False).stderr, "forgetting takes no project for a session"


@pytest.mark.feature("cli.session-names")
def test_forgetting_asks_for_a_name_and_takes_no_default(ran: Ctx):
    assert ran("forget", "-y", ok=False).returncode == 2
    assert ran("forget", "claude", "-y", ok=False).returncode == 2
    assert ran("sync", "--json").returncode == 0
    assert len(ran.json("sql", "select session_id from sessions")["rows"]) == 6


@pytest.mark.feature("cli.session-completion")
def test_the_shell_completes_sessions_with_the_newest_as_a_word(ran: Ctx):
    def completed(line: str, place: int) -> list[str]:
        done = ran.environ | {"_CTX_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(place)}
        found = Ctx(ran.folder, done)("show", ok=False).stdout.split()
        return [one.partition(",")[2] for one in found]

    assert completed("ctx show 51", 2) == [DISCOUNTS]
    assert completed("ctx files la", 2) == ["latest"]
