"""Parts, manifests and what is read back from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctx_pipeline.errors import ContractError, StoreDamaged, StoreError
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import EVENTS, READINGS, SESSIONS, TABLES, TOOL_CALLS
from ctx_pipeline.storage import lake as lake_room
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.lake import Lake, Manifest, manifests
from ctx_pipeline.storage.lake.columns import arrow_table, columns_of
from ctx_pipeline.storage.lake.reading import read_part

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.model.tables import Table

CELL = Cell("claude", "2026-03")
OTHER = Cell("codex", "2026-04")
AT = 1_772_582_400_000_000
"""2026-03-04 00:00 UTC in microseconds"""
_PLAIN: dict[str, Any] = {"str": "x", "int": 1, "float": 0.5, "bool": True, "time": AT, "list": ["a", "b"]}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Files(tmp_path / "store"))


def row(table: Table, **more: Any) -> tuple:
    return tuple(more.get(c.name, None if c.nullable else _PLAIN[c.type]) for c in table.columns)


def events(session: str, *texts: str | None) -> list[tuple]:
    return [row(EVENTS, event_id=f"{session}.{n}", session_id=session, seq=n, ts=AT + n, text=text) for n, text in enumerate(texts)]


def manifest(parts, **more: Any) -> Manifest:
    return Manifest.of("normalized", CELL, parts, code_version="1", input_fp="in", content_hash="out", **more)


def ask(lake: Lake, sql: str) -> list[tuple]:
    connection = lake.connect()
    try:
        lake.views(connection)
        return connection.sql(sql).fetchall()
    finally:
        connection.close()


@pytest.mark.feature("lake.parts")
def test_a_row_of_every_table_comes_back_as_it_was(lake):
    for name, table in TABLES.items():
        full = tuple(_PLAIN[c.type] for c in table.columns)
        bare = row(table, **{c.name: [] for c in table.columns if c.type == "list"})
        asset = {"readings": "signals/effort", "candidates": "mined/cases", "memories": "memory/consolidated"}.get(name, "normalized")
        lake.replace(asset, CELL, {name: [full, bare]}, code_version="1", input_fp="", content_hash="")
        assert [tuple(r) for r in lake.read_rows(name, CELL, asset)] == [full, bare]


@pytest.mark.feature("lake.parts")
def test_times_are_naive_utc_timestamps_and_lists_are_lists_in_sql(lake):
    tools = [row(TOOL_CALLS, session_id="s", started=AT, argv=["ls", "-l"])]
    lake.commit("normalized", CELL, manifest([lake.write_rows("normalized", CELL, "tool_calls", tools)]))
    assert ask(lake, "SELECT started::VARCHAR, argv[2], ended FROM tool_calls") == [("2026-03-04 00:00:00", "-l", None)]


@pytest.mark.feature("lake.parts")
def test_hostile_text_is_kept_and_a_lone_surrogate_becomes_a_question_mark(lake):
    hostile = ["a\0b", "\u202e", "'; DROP TABLE events; --", "x\ud800y", None, ""]
    lake.commit("normalized", CELL, manifest([lake.write_rows("normalized", CELL, "events", events("it's", *hostile))]))
    texts = ["a\0b", "\u202e", "'; DROP TABLE events; --", "x?y", None, ""]
    assert [t for (t,) in ask(lake, "SELECT text FROM events ORDER BY seq")] == texts


@pytest.mark.feature("lake.contract")
@pytest.mark.parametrize("bad", [{"seq": "one"}, {"seq": 2**70}, {"kind": None}, {"ts": "2026-03-04"}, {"text": 5}])
def test_a_value_of_a_wrong_type_is_a_contract_error_that_names_the_column(lake, bad):
    with pytest.raises(ContractError, match=f"events.{next(iter(bad))}"):
        lake.write_rows("normalized", CELL, "events", [row(EVENTS, **bad)])


@pytest.mark.feature("lake.parts")
def test_a_part_is_named_by_its_content_and_private(lake, tmp_path):
    first = lake.write_rows("normalized", CELL, "events", events("s", "a"))
    assert lake.write_rows("normalized", CELL, "events", events("s", "a")) == first
    assert lake.write_rows("normalized", CELL, "events", events("s", "b")).path != first.path
    assert first.path.startswith("lake/events/host=claude/month=2026-03/part-")
    assert (tmp_path / "store" / first.path).stat().st_mode & 0o777 == 0o600
    assert (first.rows, first.sessions) == (1, ("s",))


@pytest.mark.feature("lake.live-rows")
def test_rows_of_dead_sessions_are_in_no_relation(lake):
    part = lake.write_rows("normalized", CELL, "events", [*events("a", "1", "2"), *events("it's", "3")])
    newer = lake.write_rows("normalized", CELL, "events", events("it's", "3", "4"))
    old = manifest([part])
    lake.commit("normalized", CELL, manifest([*old.without({"it's"}, ("events",)), newer], rows={"events": 4}))
    assert ask(lake, "SELECT session_id, text FROM events ORDER BY ALL") == [("a", "1"), ("a", "2"), ("it's", "3"), ("it's", "4")]
    assert [r.text for r in lake.read_rows("events", CELL)] == ["1", "2", "3", "4"]


@pytest.mark.feature("lake.live-rows")
def test_a_part_whose_sessions_are_all_dead_leaves_the_manifest(lake):
    part = lake.write_rows("normalized", CELL, "events", events("a", "1"))
    assert manifest([part]).without({"a"}, ("events",)) == ()


@pytest.mark.feature("lake.relations")
def test_an_empty_lake_has_typed_relations(lake):
    assert ask(lake, "SELECT count(*), coalesce(sum(cost), 0) FROM model_calls") == [(0, 0)]
    typed = "SELECT typeof(ts), typeof(text), typeof(seq) FROM events RIGHT JOIN (SELECT 1) ON true"
    assert ask(lake, typed) == [("TIMESTAMP", "VARCHAR", "BIGINT")]


@pytest.mark.feature("lake.relations")
def test_readings_of_all_families_are_one_relation_and_can_be_cut_to_cells(lake):
    for family, cell in (("effort", CELL), ("activity", CELL), ("effort", OTHER)):
        rows = [row(READINGS, host=cell.host, session_id="s", family=family)]
        lake.replace(f"signals/{family}", cell, {"readings": rows}, code_version="1", input_fp="", content_hash="")
    assert ask(lake, "SELECT host, family FROM readings ORDER BY ALL") == [
        ("claude", "activity"),
        ("claude", "effort"),
        ("codex", "effort"),
    ]
    assert len(lake.parts("readings", [OTHER])) == 1


@pytest.mark.feature("lake.safety")
def test_sql_cannot_read_outside_the_store_nor_load_extensions(lake, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    connection = lake.connect()
    for sql in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY (SELECT 1) TO '{secret}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(sql)
    connection.close()


@pytest.mark.feature("lake.commit")
def test_nothing_is_read_before_the_commit_and_the_last_commit_counts(lake):
    first = lake.write_rows("normalized", CELL, "events", events("a", "old"))
    assert lake.manifest("normalized", CELL) is None
    assert ask(lake, "SELECT count(*) FROM events") == [(0,)]
    lake.commit("normalized/events", CELL, manifest([first]))
    lake.commit("normalized/sessions", CELL, manifest([lake.write_rows("normalized", CELL, "events", events("a", "new"))]))
    assert ask(lake, "SELECT text FROM events") == [("new",)]
    assert Lake(lake._files).manifests("normalized")[CELL].rows == {"events": 1}


@pytest.mark.feature("lake.commit")
def test_a_snapshot_keeps_the_parts_that_a_table_had_at_the_first_look(lake, monkeypatch):
    parts = [lake.write_rows("normalized", CELL, "events", events(session, "old")) for session in ("a", "b")]
    lake.commit("normalized", CELL, manifest([parts[0], msgspec.structs.replace(parts[1], dead=("b",))]))
    snapshot, looked = lake.snapshot(), []
    original = lake.parts
    monkeypatch.setattr(lake, "parts", lambda *asked: looked.append(asked) or original(*asked))
    seen = snapshot.relation_sql("events")
    # no row of b lives, though a part has some
    assert parts[1].path not in snapshot.relation_sql("events", sessions=["a", "b"])
    new = lake.write_rows("normalized", OTHER, "events", events("c", "new"))
    lake.commit("normalized", OTHER, Manifest.of("normalized", OTHER, [new], code_version="1", input_fp="in", content_hash="out"))
    assert snapshot.relation_sql("events") == seen
    assert looked == [("events",)]
    assert ask(lake, "SELECT count(*) FROM events") == [(2,)]
    assert lake.snapshot().relation_sql("events") == lake.relation_sql("events") != seen


@pytest.mark.feature("lake.sweep")
def test_sweep_removes_only_old_parts_that_no_manifest_names(lake):
    kept = lake.write_rows("normalized", CELL, "events", events("a", "kept"))
    loose = lake.write_rows("normalized", CELL, "events", events("a", "loose"))
    lake.commit("normalized", CELL, manifest([kept]))
    assert lake.collect_garbage() == 0
    assert lake.collect_garbage(older_than=-1) == 1
    assert lake._files.exists(kept.path)
    assert not lake._files.exists(loose.path)


@pytest.mark.feature("lake.damaged")
def test_damage_is_named(lake):
    part = lake.write_rows("normalized", CELL, "events", events("a", "x"))
    lake.commit("normalized", CELL, manifest([part]))
    lake._files.write(part.path, b"PAR1 no parquet")
    with pytest.raises(StoreDamaged):
        lake.read_rows("events", CELL)
    lake._files.write("lake/_manifests/normalized/claude=2026-03.json", b"{}")
    with pytest.raises(StoreDamaged, match="not a manifest"):
        lake.manifest("normalized", CELL)


@pytest.mark.feature("lake.damaged")
def test_every_changed_byte_of_a_manifest_is_named(lake):
    lake.commit("normalized", CELL, manifest([lake.write_rows("normalized", CELL, "events", events("a", "x"))]))
    path = "lake/_manifests/normalized/claude=2026-03.json"
    data, whole = lake._files.read(path), lake.manifest("normalized", CELL)
    assert manifests.decode(data, path) == whole
    for place, byte in enumerate(data):
        for other in {byte ^ 1 << bit for bit in range(8)} | {0x20, 0x0A, 0x0D, 0x09} - {byte}:
            with pytest.raises(StoreDamaged):
                manifests.decode(data[:place] + bytes([other]) + data[place + 1 :], path)
    older = data[: data.rindex(b',\n "digest"')] + b"\n}"  # as older versions wrote it
    assert manifests.decode(older, path) == whole


@pytest.mark.feature("lake.decoded-once")
def test_a_manifest_is_decoded_once_in_a_process_until_its_file_is_another(lake, monkeypatch):
    decoded: list[str] = []
    decode = manifests.decode
    monkeypatch.setattr(manifests, "decode", lambda data, path: decoded.append(path) or decode(data, path))
    part = lake.write_rows("normalized", CELL, "events", events("a", "x"))
    lake.commit("normalized", CELL, manifest([part]))
    files = lake._files
    for _ in range(2):
        other = Lake(Files(files.root))
        assert other.manifest("normalized", CELL).parts[0].path == part.path
        files.remove(part.path)
        with pytest.raises(StoreDamaged, match="is missing"):
            other.demand("events")
        lake.write_rows("normalized", CELL, "events", events("a", "x"))
    assert len(decoded) == 1
    more = lake.write_rows("normalized", CELL, "events", events("b", "y"))
    lake.commit("normalized", CELL, manifest([part, more]))
    assert len(Lake(Files(files.root)).manifest("normalized", CELL).parts) == 2
    files.write("lake/_manifests/normalized/claude=2026-03.json", b"{}")
    with pytest.raises(StoreDamaged, match="not a manifest"):
        Lake(Files(files.root)).manifest("normalized", CELL)


@pytest.mark.feature("lake.safety")
@pytest.mark.parametrize(
    ("asset", "cell"),
    [("../x", CELL), ("signals/a b", CELL), ("normalized", Cell("../x", "2026-03")), ("normalized", Cell("claude", "../.."))],
)
def test_names_that_could_leave_the_lake_are_refused(lake, asset, cell):
    with pytest.raises(StoreError):
        lake.write_rows(asset, cell, "events", events("a", "x"))


@pytest.fixture
def filled(lake: Lake) -> Lake:
    first = lake.write_rows("normalized", CELL, "events", [*events("a", "1", "2"), *events("b", "3")])
    second = lake.write_rows("normalized", CELL, "events", events("c", "4"))
    tools = lake.write_rows("normalized", CELL, "tool_calls", [row(TOOL_CALLS, session_id=s, call_id=s) for s in "ac"])
    sessions = lake.write_rows("normalized", CELL, "sessions", [row(SESSIONS, session_id=s, title=s.upper()) for s in "abcd"])
    lake.commit("normalized", CELL, manifest([first, second, tools, sessions]))
    return lake


@pytest.mark.feature("lake.sessions")
def test_sessions_come_with_the_rows_that_were_asked_for(filled):
    views = {v.session_id: v for v in filled.read_sessions(CELL)}
    assert list(views) == ["a", "b", "c", "d"]
    assert [[e.text for e in views[s].events] for s in "abcd"] == [["1", "2"], ["3"], ["4"], []]
    assert [[t.call_id for t in views[s].tool_calls] for s in "abcd"] == [["a"], [], ["c"], []]
    assert views["a"].session.title == "A"
    assert views["a"].events[1].ts == AT + 1


@pytest.mark.feature("lake.sessions")
def test_columns_and_kinds_and_sessions_can_be_chosen(filled):
    only = list(filled.read_sessions(CELL, {"b"}, ("events",), {"events": ("seq",)}))
    assert [(v.session_id, [(e.seq, e.text) for e in v.events]) for v in only if v.events] == [("b", [(0, None)])]
    none = list(filled.read_sessions(CELL, {"a"}, ("events",), kinds={"answer"}))
    assert [e for v in none for e in v.events] == []


@pytest.mark.feature("lake.rows")
def test_a_row_is_read_by_part_and_number(filled):
    path = filled.parts("events")[0].path
    assert [filled.reader.row(EVENTS, path, n, ("text",)).text for n in range(3)] == ["1", "2", "3"]
    assert filled.reader.rows(EVENTS, [(path, 99), ("lake/events/gone.parquet", 0)], ("text",)) == [None, None]
    with pytest.raises(StoreDamaged):
        filled.reader.row(EVENTS, path, 99, ("text",))


@pytest.mark.feature("lake.compaction")
def test_merged_parts_hold_the_live_rows_and_say_where_they_went(filled):
    old = filled.manifest("normalized", CELL)
    parts = [*old.without({"b"}, ("events",)), *(p for p in old.parts if p.table != "events")]
    merged, moves = filled.compact("normalized", CELL, parts, "events")
    assert [p.sessions for p in merged if p.table == "events"] == [("a", "c")]
    assert [(m.old_row, m.rows, m.new_row) for m in moves] == [(0, 2, 0), (0, 1, 2)]
    texts = [filled.reader.row(EVENTS, moves[0].new, n, ("text",)).text for n in range(3)]
    assert texts == ["1", "2", "4"]


@pytest.mark.feature("lake.compaction")
def test_a_part_that_holds_a_dictionary_where_none_is_written_now_is_merged_with_the_others(lake):
    old = arrow_table(EVENTS, columns_of(EVENTS, [row(EVENTS, event_id="a.0", session_id="a", call_key="m1")]))
    place = EVENTS.names.index("call_key")
    old = old.set_column(place, "call_key", old.column(place).dictionary_encode())
    parts = [
        lake.write_part("normalized", CELL, "events", old),
        lake.write_rows("normalized", CELL, "events", [row(EVENTS, event_id="b.0", session_id="b", call_key="m2")]),
    ]
    assert isinstance(lake.read_arrow(parts[0]).column("call_key").type, pa.DictionaryType)
    (merged,), _ = lake.compact("normalized", CELL, parts, "events")
    lake.commit("normalized", CELL, manifest([merged]))
    assert [e.call_key for e in lake.read_rows("events", CELL, "normalized")] == ["m1", "m2"]
    assert ask(lake, "SELECT event_id, call_key FROM events ORDER BY event_id") == [("a.0", "m1"), ("b.0", "m2")]


@pytest.mark.feature("lake.compaction")
def test_a_merged_part_does_not_name_the_sessions_whose_rows_went(lake):
    part = lake.write_rows("normalized", CELL, "events", [*events("gone-session", "1"), *events("kept-session", "2")])
    lake.commit("normalized", CELL, manifest([part]))
    left = lake.manifest("normalized", CELL).without({"gone-session"}, ("events",))
    (merged,), _ = lake.compact("normalized", CELL, left, "events")
    body = lake.local(merged.path).read_bytes()
    assert (b"kept-session" in body, b"gone-session" in body) == (True, False)


@pytest.mark.feature("lake.parts")
def test_rows_of_single_sessions_are_read_from_their_row_groups_alone(lake, monkeypatch):
    monkeypatch.setattr(lake_room, "ROW_GROUP", 4)
    texts = {f"s{n}": [f"s{n}.{m}" for m in range(1 + n * 5 % 7)] for n in range(9)}
    rows = [one for session, told in texts.items() for one in events(session, *told)]
    part = lake.write_rows("normalized", CELL, "events", [*rows, *events("s0", "later")])
    part = msgspec.structs.replace(part, dead=("s3",))
    read: list[list[int]] = []
    plain = pq.ParquetFile.read_row_groups

    def noted(file: pq.ParquetFile, groups: list[int], **more: Any) -> pa.Table:
        read.append(groups)
        return plain(file, groups, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)

    def told(*sessions: str) -> list[str]:
        return read_part(lake.local(part.path), part, ("session_id", "text"), set(sessions)).column("text").to_pylist()

    assert told("s0") == [*texts["s0"], "later"]
    assert told("s2", "s3", "s5", "missing") == [*texts["s2"], *texts["s5"]]
    for session in ("s1", "s4", "s6", "s7", "s8"):
        assert told(session) == texts[session]
    assert told("s3") == told("missing") == []
    assert max(map(len, read)) < len(rows) // 4
    every = [one for session in texts if session != "s3" for one in texts[session]]
    assert told(*texts) == [*every, "later"]


@pytest.mark.feature("lake.parts")
def test_a_part_that_was_replaced_is_not_read_by_the_footer_that_it_had(lake):
    part = lake.write_rows("normalized", CELL, "events", [*events("one", "a", "b"), *events("two", "c")])
    path = lake.local(part.path)
    assert read_part(path, part, ("text",), {"two"}).column("text").to_pylist() == ["c"]
    path.write_bytes(b"no Parquet file")
    with pytest.raises(StoreDamaged):
        read_part(path, part, ("text",), {"two"})
    path.unlink()
    with pytest.raises(StoreError):
        read_part(path, part, ("text",), {"two"})
