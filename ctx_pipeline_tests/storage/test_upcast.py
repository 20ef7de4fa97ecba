"""Parts that were written before a table had a column are read as the newest version of the table, in every way that parts are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import FACTS, SESSIONS, TABLES, TOOL_CALLS, Column, Table
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.lake import Lake, Manifest
from ctx_pipeline.storage.lake.columns import arrow_table
from ctx_pipeline.storage.warehouse import database

CELL = Cell("claude", "2026-03")
_PLAIN = {"str": "x", "int": 1, "float": 0.5, "bool": True, "time": 1_772_582_400_000_000, "list": []}

NEWER = replace(
    TOOL_CALLS,
    version=2,
    columns=(
        *TOOL_CALLS.columns[:3],
        Column("sandbox", "str", "the box it ran in", repeated=True, since=2, before="it's none"),
        *TOOL_CALLS.columns[3:],
        Column("retries", "int", "how often it was tried again", since=2, before=0),
        Column("waited", "float", "seconds in the queue", "s", nullable=True, since=2),
        Column("hosts", "list", "what it reached", since=2, before=()),
    ),
)


def row(table: Table, session: str, call: str, **more: object) -> tuple:
    given = {"session_id": session, "call_id": call, "tool": "Bash", **more}
    return tuple(given.get(c.name, None if c.nullable else _PLAIN[c.type]) for c in table.columns)


def manifest(parts) -> Manifest:
    return Manifest.of("normalized", CELL, parts, code_version="1", input_fp="in", content_hash="out")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A cell with a part of version 1, in which one session is dead, and a part of version 2."""
    made = Lake(Files(tmp_path / "store"))
    sessions = made.write_rows("normalized", CELL, "sessions", [row(SESSIONS, s, "", model_calls=0) for s in ("a", "gone", "b")])
    old = made.write_rows("normalized", CELL, "tool_calls", [row(TOOL_CALLS, s, f"{s}1") for s in ("a", "gone")])
    whole = made.write_rows("normalized", CELL, "tool_calls", [row(TOOL_CALLS, "c", "c1")])
    monkeypatch.setitem(TABLES, "tool_calls", NEWER)
    new = made.write_rows(
        "normalized", CELL, "tool_calls", [row(NEWER, "b", "b1", sandbox="bwrap", retries=3, waited=0.25, hosts=["acme"])]
    )
    (old,) = manifest([old]).without({"gone"}, {"tool_calls"})
    made.commit("normalized", CELL, manifest([sessions, old, whole, new]))
    return made


def told(rows) -> set[tuple]:
    return {(r.call_id, r.sandbox, r.retries, r.waited, tuple(r.hosts)) for r in rows}


def wanted(*calls: str) -> set[tuple]:
    before = {call: (call, "it's none", 0, None, ()) for call in ("a1", "c1")}
    return {(before | {"b1": ("b1", "bwrap", 3, 0.25, ("acme",))})[call] for call in calls}


@pytest.mark.feature("tables.upcast")
def test_rows_of_a_cell_have_what_is_declared_for_rows_of_before(lake: Lake):
    assert told(lake.read_rows("tool_calls", CELL)) == wanted("a1", "b1", "c1")
    assert [lake.manifest("normalized", CELL).of_table("tool_calls")[n].version for n in range(3)] == [1, 1, 2]


@pytest.mark.feature("tables.upcast")
def test_sessions_single_columns_and_single_rows_are_read_as_the_newest_too(lake: Lake):
    views = {v.session.session_id: v for v in lake.read_sessions(CELL, ["a", "b"], ("tool_calls",))}
    narrow = {v.session.session_id: v for v in lake.read_sessions(CELL, ["a"], ("tool_calls",), {"tool_calls": ("call_id", "retries")})}
    parts = lake.manifest("normalized", CELL).of_table("tool_calls")
    names = ("call_id", "sandbox", "retries", "waited", "hosts")
    single = [lake.reader.row(NEWER, part.path, 0, names) for part in parts]

    assert told(r for v in views.values() for r in v.tool_calls) == wanted("a1", "b1")
    assert [(r.call_id, r.retries, r.sandbox) for r in narrow["a"].tool_calls] == [("a1", 0, None)]
    assert told(single) == wanted("a1", "b1", "c1")
    assert list(lake.scan(parts[0].path, "tool_calls", ("call_id", "retries"))) == [("a1", 0), ("gone1", 0)]


@pytest.mark.feature("tables.upcast")
def test_sql_and_the_warehouse_read_all_versions_at_once(lake: Lake, tmp_path: Path):
    columns = "call_id, sandbox, retries, waited, hosts"
    with lake.connect() as connection:
        lake.views(connection)
        rows = connection.sql(f"SELECT {columns} FROM tool_calls").fetchall()
    database.build(database.views(lake), tmp_path / "ctx.duckdb", timezone="UTC")
    with database.connect(tmp_path / "ctx.duckdb", read_only=True) as connection:
        again = connection.sql(f"SELECT {columns} FROM tool_calls").fetchall()
        used = connection.sql("SELECT sum(calls) FROM tool_use").fetchall()

    assert {(*r[:4], tuple(r[4])) for r in rows} == wanted("a1", "b1", "c1")
    assert sorted(map(str, again)) == sorted(map(str, rows))
    assert used == [(3,)]


@pytest.mark.feature("tables.upcast")
def test_parts_of_both_versions_are_merged_into_one_of_the_newest(lake: Lake):
    stored = lake.manifest("normalized", CELL)
    parts, _ = lake.compact("normalized", CELL, stored.parts, "tool_calls")
    lake.commit("normalized", CELL, manifest(parts))

    (merged,) = manifest(parts).of_table("tool_calls")
    assert merged.version == 2
    assert told(lake.read_rows("tool_calls", CELL)) == wanted("a1", "b1", "c1")
    assert lake.read_arrow(merged).column_names == list(NEWER.names)


@pytest.mark.feature("tables.upcast")
def test_a_column_that_came_later_says_what_earlier_rows_have_in_it_and_its_table_has_its_version():
    for table in TABLES.values():
        newest = max(c.since for c in table.columns)
        # a fact's version is that of its code too: what a column means can change without a new one
        assert table.version >= newest if table.name in FACTS else table.version == newest
        for column in table.columns:
            assert column.since == 1 or column.nullable or column.before is not None, f"{table.name}.{column.name}"
            if column.since > 1:
                assert arrow_table(replace(table, columns=(column,)), [[column.before]]).num_rows == 1
