"""One style of error, days as people say them, and names that were never used."""

from __future__ import annotations

from datetime import date

import pytest

from ctx_pipeline.cli.root import run
from ctx_pipeline.errors import UsageError
from ctx_pipeline.usage.periods import day
from ctx_pipeline_tests.cli.conftest import Ctx

WEDNESDAY = date(2026, 10, 14)


@pytest.mark.feature("cli.days")
@pytest.mark.parametrize(
    ("word", "since", "until"),
    [
        ("2026-10-03", "2026-10-03", "2026-10-03"),
        ("2026-02", "2026-02-01", "2026-02-28"),
        ("2025", "2025-01-01", "2025-12-31"),
        ("today", "2026-10-14", "2026-10-14"),
        ("Yesterday", "2026-10-13", "2026-10-13"),
        ("wednesday", "2026-10-14", "2026-10-14"),
        ("monday", "2026-10-12", "2026-10-12"),
        ("thursday", "2026-10-08", "2026-10-08"),
        ("7d", "2026-10-08", "2026-10-07"),
        ("2w", "2026-10-01", "2026-09-30"),
        ("2026-W42", "2026-10-12", "2026-10-18"),
    ],
)
def test_a_day_is_read_as_people_say_it(word: str, since: str, until: str):
    assert str(day(word, "--since", "UTC", today=WEDNESDAY)) == since
    assert str(day(word, "--until", "UTC", today=WEDNESDAY)) == until


@pytest.mark.feature("cli.days")
@pytest.mark.parametrize("word", ["someday", "2026-13", "2026-W54", "2026-02-30", "", "7"])
def test_what_is_no_day_is_an_error_that_shows_days(word: str):
    with pytest.raises(UsageError, match="is not a day"):
        day(word, "--since", "UTC", today=WEDNESDAY)


@pytest.mark.feature("cli.days")
def test_every_report_and_the_search_take_such_days(ran: Ctx):
    assert {row["date"] for row in ran.json("usage", "daily", "--since", "2026-09", "--until", "2026-09")["rows"]} == {
        "2026-09-14",
        "2026-09-22",
        "2026-09-30",
    }
    assert ran.json("usage", "daily", "--since", "yesterday")["rows"] == []
    for words in (("usage", "limits"), ("usage", "outcomes"), ("work",), ("hints",), ("search", "the"), ("heatmap",)):
        assert ran(*words, "--since", "2026-09", "--until", "7d").returncode == 0


@pytest.mark.feature("cli.unknown-filter")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("usage", "daily", "--project", "bookshop-apy"), ("there is no project called 'bookshop-apy'", "did you mean bookshop-api")),
        (("usage", "blocks", "--project", "nobody"), ("there is no project called 'nobody'", "trail-map")),
        (("usage", "tool", "--model", "claude-sonet-4-5-20250929"), ("there is no model called", "did you mean claude-sonnet-4-5")),
        (("usage", "daily", "--host", "clode"), ("there is no host called 'clode'", "did you mean codex, claude, ")),
        (("help", "nonsense"), ("no command or group called 'nonsense'", "hint: known: ")),
        (("usage", "daily", "--project", "nobody"), ("there is no project called 'nobody'", "hint: known: bookshop-api, ")),
        (("usage", "daily", "--model", "opus"), ("there is no model called 'opus'", "hint: did you mean claude-opus-4-5-20251101")),
        (("cost", "opus"), ("nothing matches", "hint: did you mean claude-opus-4-5-20251101? ")),
        (("search", "the", "--project", "bookshp"), ("there is no project called 'bookshp'", "bookshop-api")),
        (("explain", "mian", "--by", "branch"), ("nothing matches the branch 'mian'", "did you mean main")),
    ],
)
def test_an_unknown_name_in_a_filter_is_an_error_with_the_nearest(ran: Ctx, words: tuple[str, ...], said: tuple[str, str]):
    done = ran(*words, ok=False)

    assert (done.returncode in {1, 2}, done.stdout) == (True, "")
    assert all(part in done.stderr for part in said), done.stderr


@pytest.mark.feature("cli.one-error-style")
@pytest.mark.parametrize(
    "words",
    [
        ("usage", "daily", "--foo"),
        ("nosuch",),
        ("usage", "nosuch"),
        ("usage", "session", "--limit", "0"),
        ("memory", "retrieve"),
        ("sql",),
        ("sql", "selec 1"),
        ("usage", "daily", "--since", "someday"),
    ],
)
def test_wrong_usage_is_said_in_two_lines_with_status_2(ran: Ctx, words: tuple[str, ...]):
    done = ran(*words, ok=False)

    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("ctx: ")
    assert second.startswith("hint: ")


@pytest.mark.feature("cli.sql-words")
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select foo from sessions", "there is no column 'foo' in these tables"),
        ("select titel from sessions", "did you mean title"),
        ("select * from sesions", "did you mean sessions"),
        ("select host from", "this is not SQL near 'from'"),
        ("select nosuch(host) from sessions", "there is no function 'nosuch'"),
        ("select 1 / 'a'", "'a' is not a double"),
        ("select * from read_csv('/etc/passwd')", "only the tables of the store are read, and no files"),
        ("select host, project, count(*) from sessions group by host", "'project' is neither grouped by nor added up"),
    ],
)
def test_what_the_database_says_is_said_in_plain_words(ran: Ctx, query: str, said: str):
    done = ran("sql", query, ok=False)

    assert said in done.stderr
    assert not any(word in done.stderr for word in ("Binder", "Catalog", "Parser", "LINE 1", "pg_"))


@pytest.mark.feature("cli.no")
def test_a_no_changes_nothing_and_is_no_interruption(ctx: Ctx):
    settings = ctx.folder / "claude" / "settings.json"
    before = settings.read_bytes() if settings.exists() else None
    done = ctx("hooks", "install", "claude", stdin="n\n", ok=False)

    assert (done.returncode, "nothing was changed" in done.stderr, "interrupted" in done.stderr) == (1, True, False)
    assert (settings.read_bytes() if settings.exists() else None) == before


@pytest.mark.feature("cli.small-words")
def test_words_that_others_document_and_people_try(ran: Ctx):
    assert ran("memory", "retrieve", "rounding", "--everywhere", "--json").stdout.startswith('{"query": "rounding"')
    assert ran.json("mine", "--method", "reme_refine_poc") == ran.json("mine", "--method", "reme")
    assert ran.json("dashboard", "build", "--mode", "calculate")["cost_mode"] == "calculate"


@pytest.mark.feature("cli.backfill-fresh")
def test_a_backfill_with_nothing_to_fill_ends_without_dagster(ran: Ctx):
    slow = Ctx(ran.folder, ran.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    done = slow("backfill", "--signal", "failed_command_count")

    assert "nothing to fill" in done.stdout
    assert "dagster" not in done.stderr
    assert ran.json("backfill", "--signal", "failed_command_count")["cells_materialized"] == 0
    assert ran("backfill", "--asset", "signals/nosuch", ok=False).returncode == 1


@pytest.mark.feature("cli.errors")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--limit", "x"), "--limit takes a whole number, not 'x'\nhint: ctx list --help"),
        (("list", "--limit", "0"), "--limit takes a number in the range x>=1, not 0\nhint: ctx list --help"),
        (("list", "--at-least", "much"), "--at-least takes a number, not 'much'\nhint: ctx list --help"),
        (("work", "--sort", "up"), "--sort takes one of 'times', 'failed', 'time', not 'up'\nhint: ctx work --help"),
        (("wrapped", "nix"), "'nix' is none of 'week', 'month', 'all'\nhint: ctx wrapped --help"),
        (("completion",), "say which: bash, zsh, fish\nhint: ctx completion --help"),
        (("list", "--sort"), "--sort takes a value\nhint: ctx list --help"),
        (("rot", "analyze", "--db"), "--db takes a value\nhint: ctx rot analyze --help"),
    ],
)
def test_a_value_that_cannot_be_is_said_as_every_error_and_names_the_help_of_its_own_command(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
):
    with pytest.raises(SystemExit) as stopped:
        run([*words])

    assert (stopped.value.code, capsys.readouterr().err) == (2, f"ctx: {said}\n")
