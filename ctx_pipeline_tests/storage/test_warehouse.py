"""The warehouse and the one definition of usage, against totals worked out by hand."""

from __future__ import annotations

import shutil
import stat
from collections import Counter
from contextlib import contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from ctx_pipeline.errors import SettingsError, StoreError, UsageError
from ctx_pipeline.storage.warehouse import dashboard_queries, database, days
from ctx_pipeline.usage.engine import stored_sums
from ctx_pipeline.usage.groupings import grouping_named
from ctx_pipeline.usage.rollup import SUMS, Filters, Rollup
from ctx_pipeline_tests.factories.lake_rows import at, call, relations, session

if TYPE_CHECKING:
    from pathlib import Path

SONNET, OPUS = "claude-sonnet-4-5", "claude-opus-4-5"


@pytest.fixture
def lake(tmp_path: Path) -> dict[str, str]:
    """Two sessions, five calls, of which one is a copy, one has no price and one no time."""
    return relations(
        tmp_path / "lake",
        sessions=[
            session("a", "2026-03-01 22:00", project="shop", tool_calls=3, failed_tool_calls=1, title="Fix the till"),
            session("b", "2026-03-02 09:00", project="lab", host="codex"),
        ],
        model_calls=[
            call("a", "m1", "2026-03-01 22:30", SONNET, (10, 20, 30, 40, 50, 5), 1_000),
            call("a", "m2", "2026-03-01 23:30", SONNET, (1, 2, 3, 4, 5, 0), 200),
            call("a", "m3", "2026-03-02 12:00", OPUS, (7, 7, 0, 0, 0, 0), None),
            call("b", "m1", "2026-03-02 12:00", SONNET, (10, 20, 30, 40, 50, 5), 1_000, host="codex", owner=False, copy_of="a"),
            call("b", "m4", None, SONNET, (100, 1, 0, 0, 0, 0), 5_000, host="codex", recorded_cost=7_000),
        ],
        tool_calls=[
            {"host": "claude", "session_id": "a", "call_id": "t1", "tool": "Bash", "action": "shell", "is_error": True},
            {"host": "claude", "session_id": "a", "call_id": "t2", "tool": "Bash", "action": "shell", "is_error": False},
            {"host": "claude", "session_id": "a", "call_id": "t3", "tool": "Read", "action": "read", "is_error": False},
        ],
        command_runs=[
            {"host": "claude", "session_id": "a", "call_event": "c1", "result": "failed"},
            {"host": "claude", "session_id": "a", "call_event": "c2", "result": "passed"},
        ],
        events=[
            {
                "host": "claude",
                "session_id": "a",
                "event_id": "e1",
                "kind": "prompt",
                "text": "key [REDACTED:aws-key] and [REDACTED:aws-key]",
            },
            {"host": "claude", "session_id": "a", "event_id": "e2", "kind": "compaction", "text": "[REDACTED:jwt]"},
            {"host": "codex", "session_id": "b", "event_id": "e3", "kind": "answer", "text": "nothing to hide"},
        ],
        readings=[
            {
                "host": "claude",
                "session_id": "a",
                "signal": "failures",
                "family": "outcomes",
                "kind": "numeric",
                "value": 1.0,
                "unit": "calls",
            },
            {
                "host": "codex",
                "session_id": "b",
                "signal": "failures",
                "family": "outcomes",
                "kind": "numeric",
                "value": 3.0,
                "unit": "calls",
            },
        ],
    )


def _query(lake: dict[str, str], **options: Any) -> list[tuple]:
    connection = duckdb.connect()
    for name, relation in lake.items():
        connection.execute(f"CREATE VIEW {name} AS {relation}")
    grouping, filters = grouping_named(options.pop("group")), Filters(**options)
    rollup = Rollup(grouping, filters)
    rollup.add_sums(stored_sums(connection, [grouping], filters))
    names = (*dict.fromkeys((grouping.column, "host", "model")), *SUMS[:10])
    return [tuple(row[name] for name in names) for row in rollup.rows()]


@pytest.mark.feature("usage.counted-once")
def test_usage_by_day_counts_owners_alone(lake):
    rows = _query(lake, group="daily", timezone="UTC")

    assert rows == [
        (None, "codex", SONNET, 100, 1, 0, 0, 0, 0, 1, 7_000, 0, 1),
        ("2026-03-01", "claude", SONNET, 11, 22, 33, 44, 55, 5, 2, 1_200, 0, 0),
        ("2026-03-02", "claude", OPUS, 7, 7, 0, 0, 0, 0, 1, 0, 1, 0),
    ]


@pytest.mark.feature("warehouse.kept-sessions")
@pytest.mark.parametrize("mode", ["auto", "calculate", "display"])
@pytest.mark.parametrize("group", ["daily", "model", "session", "thread", "project"])
def test_usage_of_the_sums_that_a_warehouse_keeps_is_that_of_the_calls(lake, tmp_path, group, mode):
    grouping = grouping_named(group)
    database.build(lake, tmp_path / "ctx.duckdb")
    for filters in (Filters(timezone="UTC", cost_mode=mode), Filters(date(2026, 3, 2), date(2026, 3, 2), "Asia/Kathmandu", cost_mode=mode)):
        with database.connect(tmp_path / "ctx.duckdb", read_only=True) as connection:
            found = []
            for kept in (False, True):
                rollup = Rollup(grouping, filters)
                rollup.add_sums(stored_sums(connection, [grouping], filters, kept=kept))
                found.append(sorted(rollup.rows(), key=repr))
        assert found[0] == found[1] != []


@pytest.mark.feature("usage.timezone")
@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", {"2026-03-01": 2, "2026-03-02": 1}),
        ("Europe/Berlin", {"2026-03-01": 1, "2026-03-02": 2}),
        ("Asia/Tokyo", {"2026-03-02": 3}),
        ("America/Los_Angeles", {"2026-03-01": 2, "2026-03-02": 1}),
        ("Pacific/Pago_Pago", {"2026-03-01": 2, "2026-03-02": 1}),
    ],
)
def test_a_call_falls_on_the_day_of_the_zone(lake, zone, expected):
    rows = _query(lake, group="daily", timezone=zone)

    found: Counter[str] = Counter()
    for row in rows:
        if row[0]:
            found[row[0]] += row[9]
    assert found == expected


@pytest.mark.feature("usage.timezone")
@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2026-03-29 00:59", "2026-03-29"),
        ("2026-03-28 22:59", "2026-03-28"),
        ("2026-03-28 23:00", "2026-03-29"),
        ("2026-03-29 21:59", "2026-03-29"),
        ("2026-03-29 22:00", "2026-03-30"),
        ("2026-10-25 22:59", "2026-10-25"),
        ("2026-10-25 23:00", "2026-10-26"),
    ],
)
def test_the_day_is_right_around_a_change_of_the_clock(moment, day):
    sql = days.day_sql(f"TIMESTAMP '{moment}'", "Europe/Berlin")

    assert str(duckdb.sql(f"SELECT {sql}").fetchall()[0][0]) == day


@pytest.mark.feature("usage.timezone")
def test_a_day_of_23_hours_begins_and_ends_where_the_zone_says():
    assert days.day_start(date(2026, 3, 29), "Europe/Berlin") == at("2026-03-28 23:00")
    assert days.day_start(date(2026, 3, 30), "Europe/Berlin") == at("2026-03-29 22:00")


def test_the_change_of_a_clock_is_found_to_the_second():
    assert (at("2026-03-29 01:00"), 7200) in days.offsets("Europe/Berlin", 2028)
    assert days.offsets("UTC", 2028) == ((datetime(2020, 1, 1), 0),)  # noqa: DTZ001 - naive UTC is what DuckDB stores


def test_an_unknown_zone_is_an_error_with_a_hint():
    with pytest.raises(SettingsError, match="no time zone called"):
        days.day_sql("ts", "Mars/Olympus")


@pytest.mark.feature("usage.filters")
def test_since_and_until_select_by_the_time_of_the_call(lake):
    whole_day = _query(lake, group="model", since=date(2026, 3, 2), until=date(2026, 3, 2), timezone="Europe/Berlin")

    assert [(row[0], row[8]) for row in whole_day] == [(OPUS, 1), (SONNET, 1)]


@pytest.mark.feature("usage.filters")
def test_host_project_and_model_narrow_the_rows(lake):
    assert [row[:3] for row in _query(lake, group="session", host="codex")] == [("b", "codex", SONNET)]
    assert [row[:3] for row in _query(lake, group="project", project="shop", model=OPUS)] == [("shop", "claude", OPUS)]
    assert [row[0] for row in _query(lake, group="project")] == ["lab", "shop", "shop"]


@pytest.mark.feature("usage.cost-mode")
@pytest.mark.parametrize(("mode", "cost", "unpriced"), [("auto", 8_200, 1), ("calculate", 6_200, 1), ("display", 7_000, 3)])
def test_the_cost_mode_decides_whose_figure_counts(lake, mode, cost, unpriced):
    rows = _query(lake, group="model", cost_mode=mode)

    assert sum(row[9] for row in rows) == cost
    assert sum(row[10] for row in rows) == unpriced


def test_an_unknown_group_names_the_known_ones():
    with pytest.raises(UsageError, match="usage by 'year' is not known") as refused:
        grouping_named("year")
    assert "daily, weekly, monthly, session, project, model" in str(refused.value.hint)


@pytest.mark.feature("warehouse.views-and-aggregates")
@pytest.mark.feature("signals.wrong-numbers")
def test_the_warehouse_has_a_view_for_each_table_and_adds_up(lake, tmp_path):
    target = tmp_path / "serving" / "ctx.duckdb"

    built = database.build(lake, target, timezone="Europe/Berlin", versions={"package": "9.9"})

    with database.connect(target, read_only=True) as connection:
        views = {name for (name,) in connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()}
        overview = connection.execute(
            "SELECT session_id, calls, input_tokens, cost_nano, commands, failed_commands, compactions FROM session_overview"
        ).fetchall()
        usage = connection.execute("SELECT day_utc, day, calls, cost_nano FROM usage_by_day WHERE day IS NOT NULL ORDER BY ALL").fetchall()
        signals = connection.execute("SELECT signal, sessions, mean, median, highest FROM signal_summary").fetchall()
        redactions = connection.execute("SELECT session_id, detector, found FROM redactions ORDER BY ALL").fetchall()
        meta = dict(connection.execute("SELECT * FROM meta").fetchall())
    assert views == set(lake)
    assert overview == [("a", 3, 18, 1_200, 2, 1, 1), ("b", 1, 100, 7_000, 0, 0, 0)]
    assert usage == [
        (date(2026, 3, 1), date(2026, 3, 1), 1, 1_000),
        (date(2026, 3, 1), date(2026, 3, 2), 1, 200),
        (date(2026, 3, 2), date(2026, 3, 2), 1, 0),
    ]
    assert signals == [("failures", 2, 2.0, 2.0, 3.0)]
    assert redactions == [("a", "aws-key", 2), ("a", "jwt", 1)]
    assert (meta["package"], meta["fingerprint"], meta["timezone"]) == ("9.9", built.fingerprint, "Europe/Berlin")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in target.parent.iterdir()) == ["ctx.duckdb", "made.json"]


@pytest.mark.feature("warehouse.views-and-aggregates")
def test_commands_and_their_failures_are_those_of_command_runs_and_failed_calls_those_of_the_signal(tmp_path):
    mark = {"host": "claude", "session_id": "a"}
    lake = relations(
        tmp_path / "judged",
        sessions=[session("a", "2026-03-01 22:00")],
        tool_calls=[mark | {"call_id": f"t{n}", "tool": "Bash", "action": "shell", "is_error": True} for n in range(3)],
        command_runs=[mark | {"call_event": f"e{n}", "result": result} for n, result in enumerate(("failed", "refused"))],
        readings=[mark | {"signal": "failed_tool_call_count", "family": "outcomes", "kind": "numeric", "value": 2.0}],
    )
    target = tmp_path / "ctx.duckdb"
    database.build(lake, target)
    with database.connect(target, read_only=True) as connection:
        found = connection.execute("SELECT commands, failed_commands, failed_tool_calls FROM session_overview").fetchall()
    assert found == [(2, 1, 2)]


@pytest.mark.feature("warehouse.rebuild-equal")
def test_the_same_input_gives_the_same_content_hash_and_another_session_another(lake, tmp_path):
    target = tmp_path / "serving" / "ctx.duckdb"
    first = database.build(lake, target)
    again = database.build(lake, target)
    more = relations(tmp_path / "more", sessions=[session("c", "2026-03-03 10:00")])

    assert again.content_hash == first.content_hash
    assert database.build(more, target).content_hash != first.content_hash


@pytest.mark.feature("warehouse.rebuild-equal")
def test_one_more_event_under_a_lesson_is_another_content(tmp_path):
    def built(*evidence: str) -> str:
        lesson = {"memory_id": "mem-1", "kind": "rule", "text": "use pnpm", "status": "candidate", "evidence": list(evidence)}
        target = tmp_path / f"{len(evidence)}.duckdb"
        return database.build(relations(tmp_path / str(len(evidence)), memories=[lesson]), target).content_hash

    assert built("e1") == built("e1")
    assert built("e1") != built("e1", "e2")


@pytest.mark.feature("warehouse.rebuild-equal")
def test_a_list_that_is_unknown_an_empty_one_and_one_of_unknowns_are_other_contents(tmp_path):
    def built(name: str, evidence: list[str | None] | None) -> str:
        lesson = {"memory_id": "mem-1", "kind": "rule", "text": "use pnpm", "status": "candidate", "evidence": evidence}
        return database.build(relations(tmp_path / name, memories=[lesson]), tmp_path / f"{name}.duckdb").content_hash

    hashes = [built("unknown", None), built("empty", []), built("of-unknown", [None]), built("of-one", ["NULL"])]
    assert len(set(hashes)) == 4


@pytest.mark.feature("warehouse.swap")
def test_a_build_that_fails_keeps_the_old_file_and_leaves_no_other(lake, tmp_path):
    target = tmp_path / "serving" / "ctx.duckdb"
    database.build(lake, target)
    before = target.read_bytes()

    with pytest.raises(duckdb.Error):
        database.build(lake | {"events": "SELECT * FROM read_parquet('/nowhere/gone.parquet')"}, target)

    assert target.read_bytes() == before
    assert sorted(path.name for path in target.parent.iterdir()) == ["ctx.duckdb", "made.json"]


@pytest.mark.feature("warehouse.swap")
def test_a_reader_of_the_old_file_is_not_disturbed_by_a_rebuild(lake, tmp_path):
    target = tmp_path / "serving" / "ctx.duckdb"
    database.build(lake, target)
    with database.connect(target, read_only=True) as connection:
        database.build(relations(tmp_path / "empty"), target)
        assert connection.execute("SELECT count(*) FROM session_overview").fetchall() == [(2,)]
    with database.connect(target, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM session_overview").fetchall() == [(0,)]


@pytest.mark.feature("warehouse.redactions-once")
def test_a_session_that_did_not_change_is_not_searched_for_redactions_again(lake, tmp_path):
    target = tmp_path / "serving" / "ctx.duckdb"
    database.build(lake, target)
    silent = relations(
        tmp_path / "later",
        sessions=[session("a", "2026-03-01 22:00"), session("b", "2026-03-02 09:00", host="codex", content_hash="grown")],
        events=[
            {"host": "claude", "session_id": "a", "event_id": "e1", "text": "the text of a known hash is not read"},
            {"host": "codex", "session_id": "b", "event_id": "e3", "text": "[REDACTED:jwt]"},
        ],
    )

    database.build(silent, target)

    with database.connect(target, read_only=True) as connection:
        found = connection.execute("SELECT session_id, detector, found FROM redactions ORDER BY ALL").fetchall()
    assert found == [("a", "aws-key", 2), ("a", "jwt", 1), ("b", "jwt", 1)]


def test_another_program_may_own_the_connection(lake, tmp_path):
    opened = []

    @contextmanager
    def own(path: Path):
        opened.append(path)
        connection = duckdb.connect(str(path))
        yield connection
        connection.close()

    database.build(lake, tmp_path / "ctx.duckdb", open_file=own)

    assert len(opened) == 1
    assert database.read_meta(tmp_path / "ctx.duckdb")["schema_version"] == str(database.SCHEMA_VERSION)


def test_a_missing_warehouse_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreError, match="ctx run"), database.connect(tmp_path / "none.duckdb", read_only=True):
        pass


@pytest.mark.feature("warehouse.offline")
def test_no_extension_can_be_fetched(lake, tmp_path):
    target = tmp_path / "ctx.duckdb"
    database.build(lake, target)
    with database.connect(target, read_only=True) as connection:
        names = ("autoinstall_known_extensions", "autoload_known_extensions", "threads")
        found = [str(connection.execute(f"SELECT current_setting('{name}')").fetchone()[0]).lower() for name in names]
    assert found == ["false", "false", "2"]


@pytest.mark.feature("staleness.drill-down")
@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another"},
        {"parent_session": "b"},
        {"branch": "main"},
        {"status": "interrupted"},
        {"version": "2.1"},
        {"content_hash": "x"},
    ],
)
def test_the_stamp_of_a_drill_down_changes_with_the_row_of_its_session(tmp_path, change):
    def stamps(name, *calls, **more):
        made = relations(tmp_path / name, sessions=[session("a", "2026-03-01 22:00", **more)], model_calls=list(calls))
        target = tmp_path / f"{name}.duckdb"
        database.build(made, target, timezone="UTC")
        with database.connect(target, read_only=True) as connection:
            return [row["stamp"] for row in dashboard_queries.rows(connection, "sessions")]

    free = call("a", "m1", "2026-03-01 22:30", SONNET, (1, 1, 0, 0, 0, 0), None)
    before = stamps("one", free)

    assert stamps("same", free) == before
    assert stamps("two", free, **change) != before
    assert stamps("three") != before


@pytest.mark.feature("warehouse.trends")
def test_sums_by_day_project_host_and_model_are_there_without_the_tables(lake, tmp_path):
    database.build(lake, tmp_path / "w.duckdb", timezone="UTC")
    shutil.rmtree(tmp_path / "lake")

    with database.connect(tmp_path / "w.duckdb", read_only=True) as connection:
        rows = connection.execute(
            "SELECT CAST(day AS VARCHAR), project, host, model, calls, output_tokens FROM usage_by_day ORDER BY ALL"
        ).fetchall()
        with pytest.raises(duckdb.Error):
            connection.execute("SELECT count(*) FROM events").fetchone()

    assert rows == [
        ("2026-03-01", "shop", "claude", SONNET, 2, 22),
        ("2026-03-02", "shop", "claude", OPUS, 1, 7),
        (None, "lab", "codex", SONNET, 1, 1),
    ]
