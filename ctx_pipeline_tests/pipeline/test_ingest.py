"""Ingest of a toy host: rows, cells, ownership, what is held back, what comes out the same."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
import zstandard

from ctx_pipeline.model.declared import Records
from ctx_pipeline.model.raw import Cell, Parsed
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.repair.rebuild import rebuild_ledger
from ctx_pipeline.storage import Store, open_store
from ctx_pipeline_tests.pipeline.ingest_toy import HOSTS, cells_of, hashes, parse, rows, run, settings_of
from ctx_pipeline_tests.pipeline.toy_home import append, line, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctx_pipeline.settings import Settings

JUNE = "2026-06-03T10:00:00.000Z"
JULY = "2026-07-01T08:30:00.000Z"
KEY = "AKIA" + "Q3EGXWTNZLMPD7VR"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    root = tmp_path / "toy"
    write(
        root,
        "sessions/a.jsonl",
        line(id="a", ts=JUNE, text="mend the parser", key="k1", **{"in": 5, "out": 7}),
        line(ts=JUNE, text="done", kind="answer", run="ls"),
    )
    write(root, "sessions/b.jsonl", line(id="b", ts=JULY, text="write a test"))
    return root


@pytest.fixture
def settings(tmp_path: Path, home: Path) -> Settings:
    return settings_of(tmp_path)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with open_store(settings) as opened:
        yield opened


def live(store: Store, table: str, *names: str) -> list[tuple]:
    return sorted((tuple(row[n] for n in names) for row in rows(store, table)), key=str)


@pytest.mark.feature("ingest.rows")
def test_every_table_has_the_rows_of_the_session(store, settings):
    run(store, settings)
    session = rows(store, "sessions")[0]
    expected = {
        "session_id": "a",
        "host": "toy",
        "month": "2026-06",
        "title": "mend the parser",
        "title_source": "prompt",
        "cwd": "/code/shop",
        "project": "shop",
        "threads": 1,
        "events": 2,
        "prompts": 1,
        "model_calls": 1,
        "tool_calls": 1,
        "lines": 2,
    }
    assert {name: session[name] for name in expected} == expected
    assert str(session["first_ts"]) == "2026-06-03 10:00:00"
    assert session["models"] == ["gpt-5"]
    assert session["bytes"] == (settings.demo_roots["toy"][0] / "sessions/a.jsonl").stat().st_size
    assert live(store, "events", "session_id", "seq", "kind", "text") == [
        ("a", 0, "prompt", "mend the parser"),
        ("a", 1, "answer", "done"),
        ("b", 0, "prompt", "write a test"),
    ]
    assert live(store, "tool_calls", "session_id", "argv") == [("a", ["ls"])]
    assert live(store, "threads", "thread_id", "events", "model_calls", "tool_calls") == [("a", 2, 1, 1), ("b", 1, 0, 0)]


@pytest.mark.feature("ingest.cost")
def test_a_call_is_priced_at_the_list_price_in_nano_dollars(store, settings):
    run(store, settings)
    # 5 tokens at 1.25 $ and 7 at 10 $ a million
    assert live(store, "model_calls", "call_key", "input", "output", "cost") == [("k1", 5, 7, 76_250)]


@pytest.mark.feature("ingest.nothing-new")
def test_a_second_ingest_writes_nothing(store, settings):
    run(store, settings)
    before = sorted(p for p in settings.home.rglob("*") if p.suffix in {".parquet", ".json", ".zst"})
    again = run(store, settings)
    assert cells_of(again) == {}
    assert sorted(p for p in settings.home.rglob("*") if p.suffix in {".parquet", ".json", ".zst"}) == before


@pytest.mark.feature("ingest.append")
def test_lines_appended_to_one_session_change_its_cell_alone(store, settings, home):
    run(store, settings)
    july = hashes(store)[Cell("toy", "2026-07")]
    append(home / "sessions/a.jsonl", line(ts=JUNE, text="and the docs"))
    report = run(store, settings)
    assert list(cells_of(report)) == ["toy|2026-06"]
    assert report["normalize"].totals["sessions_parsed"] == 1
    assert hashes(store)[Cell("toy", "2026-07")] == july
    assert [text for _, text in live(store, "events", "session_id", "text")] == ["and the docs", "done", "mend the parser", "write a test"]


@pytest.mark.feature("ingest.deterministic")
def test_everything_derived_can_be_deleted_and_comes_back_with_the_same_hashes(tmp_path, settings, home):
    with open_store(settings) as store:
        run(store, settings)
        append(home / "sessions/a.jsonl", line(ts=JUNE, text="more", key="k9"))
        run(store, settings)
        before = hashes(store)
    shutil.rmtree(settings.home / "lake")
    (settings.home / "search.db").unlink()
    (settings.home / "ledger.db").unlink()
    with open_store(settings) as store:
        rebuild_ledger(store, settings, hosts=HOSTS)
        run(store, settings)
        assert hashes(store) == before
        assert [h.row for h in store.search.query("mend the parser")] == [0]


@pytest.mark.feature("ingest.order")
def test_any_order_of_files_and_ingests_gives_the_same_cells(tmp_path):
    files = {
        "p": [line(id="p", ts=JUNE, text="start", key="k1"), line(ts=JUNE, text="go on", key="k2")],
        "f": [line(id="f", parent="p", relation="fork", ts=JULY, text="start", key="k1"), line(ts=JULY, text="elsewhere", key="k3")],
        "x": [line(id="x", ts=JUNE, text="start", key="k3"), line(ts="2026-06-02T10:00:00Z", text="own", key="k4")],
    }
    found = []
    for number, order in enumerate(permutations(files)):
        home = tmp_path / f"home{number}"
        settings = settings_of(tmp_path, home, store=f"store{number}")
        with open_store(settings) as store:
            for name in order:
                write(home, f"sessions/{name}.jsonl", files[name][0])
                run(store, settings)
                append(home / f"sessions/{name}.jsonl", *files[name][1:])
            run(store, settings)
            found.append((_without_streams(store), live(store, "model_calls", "session_id", "call_key", "owner", "copy_of")))
    assert found[0][1] == [
        ("f", "k1", False, "p"),
        ("f", "k3", False, "x"),
        ("p", "k1", True, None),
        ("p", "k2", True, None),
        ("x", "k3", True, None),
        ("x", "k4", True, None),
    ]
    assert all(each == found[0] for each in found)


def _without_streams(store: Store) -> list:
    """Return the rows without what names the test's own folder: a stream's id comes from its path."""
    return live(store, "events", "session_id", "seq", "text") + live(store, "sessions", "session_id", "month", "events", "parent_session")


@pytest.mark.feature("ingest.owner-moves")
def test_a_late_parent_takes_its_call_from_the_fork_in_another_month(store, settings, home):
    write(home, "sessions/f.jsonl", line(id="f", parent="p", relation="fork", ts=JULY, text="copied", key="shared"))
    run(store, settings)
    assert ("f", "shared", True, None) in live(store, "model_calls", "session_id", "call_key", "owner", "copy_of")
    write(home, "sessions/p.jsonl", line(id="p", ts=JUNE, text="first", key="shared"))
    report = run(store, settings)
    assert report["normalize"].cells["toy|2026-07"].counts["parsed"] == 0
    assert live(store, "model_calls", "session_id", "call_key", "owner", "copy_of") == [
        ("a", "k1", True, None),
        ("f", "shared", False, "p"),
        ("p", "shared", True, None),
    ]


@pytest.mark.feature("ingest.held-cell")
@pytest.mark.parametrize("bad", [{"boom": True}, {"twice": True}, {"kind": "no-such-kind"}, {"in": -1, "key": "k"}])
def test_a_session_that_raises_or_breaks_the_contract_holds_its_own_cell_alone(store, settings, home, bad):
    write(home, "sessions/c.jsonl", line(id="c", ts=JUNE, text="fine"), line(ts=JUNE, text="not fine", **bad))
    report = run(store, settings)
    assert {key: cell.status for key, cell in cells_of(report).items()} == {"toy|2026-06": "held", "toy|2026-07": "done"}
    assert "not fine" not in str(report["normalize"].failed_partitions)
    assert [row["session_id"] for row in rows(store, "sessions")] == ["b"]
    assert store.search.query("parser") == []
    assert len(store.search.query("test")) == 1


@pytest.mark.feature("ingest.held-cell")
def test_a_held_cell_keeps_what_it_had_and_is_committed_once_the_parser_is_mended(store, settings, home):
    run(store, settings)
    write(home, "sessions/c.jsonl", line(id="c", ts=JUNE, boom=True))
    run(store, settings)
    assert [row["session_id"] for row in rows(store, "sessions")] == ["a", "b"]
    assert len(store.search.query("parser")) == 1
    mended = {"toy": replace(HOSTS["toy"], records=Records(parse=lambda given: Parsed() if given.session_id == "c" else parse(given)))}
    ingest(store, settings, hosts=mended)
    assert [row["session_id"] for row in rows(store, "sessions")] == ["a", "b", "c"]


@pytest.mark.feature("ingest.redaction")
def test_a_secret_is_in_no_table_and_not_in_the_index(store, settings, home):
    write(home, "sessions/s.jsonl", line(id="s", ts=JULY, text=f"use {KEY} please", run=f"export KEY={KEY}"))
    run(store, settings)
    texts = dict(live(store, "events", "session_id", "text"))
    assert re.fullmatch(r"use \[REDACTED:[a-z0-9-]+\] please", texts["s"])
    for table in ("events", "sessions", "threads", "tool_calls", "model_calls"):
        assert KEY not in str(rows(store, table))
    assert "[REDACTED:" in str(rows(store, "tool_calls"))
    assert store.search.query(KEY) == []
    found = store.search.search(store.lake, "please")
    assert "[REDACTED:" in found[0].snippet.text


@pytest.mark.feature("ingest.search")
def test_a_changed_session_is_found_once(store, settings, home):
    run(store, settings)
    append(home / "sessions/a.jsonl", line(ts=JUNE, text="the parser again", kind="answer"))
    run(store, settings)
    assert sorted(f.event.text for f in store.search.search(store.lake, "parser")) == ["mend the parser", "the parser again"]
    assert store.search.doctor(store.lake) == []


@pytest.mark.feature("ingest.hints")
def test_a_title_from_an_index_of_the_home_reaches_the_thread(store, settings, home):
    run(store, settings)
    write(home, "index.jsonl", line(id="b", title="Testing"))
    run(store, settings)
    assert ("b", "Testing") in live(store, "threads", "thread_id", "title")


@pytest.mark.feature("ingest.rewritten")
def test_a_rewritten_file_keeps_the_rows_of_its_older_generation(store, settings, home):
    run(store, settings)
    (home / "sessions/b.jsonl").write_bytes(line(id="b", ts=JULY, text="something else entirely"))
    run(store, settings)
    assert live(store, "events", "session_id", "generation", "text")[-2:] == [("b", 0, "write a test"), ("b", 1, "something else entirely")]


@pytest.mark.feature("ingest.only-some")
def test_only_the_cells_asked_for_are_captured_and_decoded(store, settings):
    run(store, settings, cells=[Cell("toy", "2026-07")])
    assert [row["session_id"] for row in rows(store, "sessions")] == ["b"]
    run(store, settings, sessions=[("toy", "a")])
    assert [row["session_id"] for row in rows(store, "sessions")] == ["a", "b"]


@pytest.mark.feature("ingest.quarantine")
def test_a_line_that_is_no_json_is_counted_and_not_quoted(store, settings, home):
    write(home, "sessions/q.jsonl", line(id="q", ts=JULY, text="x"), b"{broken secret words\n")
    run(store, settings)
    assert [(q.session_id, q.line, q.reason) for q in store.ledger.quarantined()] == [("q", 1, "not JSON")]
    assert ("q", 1, 2) in live(store, "sessions", "session_id", "quarantined", "lines")


@pytest.mark.feature("ingest.large-archives")
def test_of_an_archive_that_unpacks_to_too_much_whole_lines_are_read_and_the_rest_is_quarantined(tmp_path, home):
    lines = [line(id="z", ts=JULY, text=f"turn {n}") for n in range(9)]
    write(home, "archive/z.jsonl.zst", zstandard.compress(b"".join(lines)))
    limit = len(b"".join(lines[:4])) + 1
    settings = settings_of(tmp_path, whole_file_bytes=limit)
    with open_store(settings) as store:
        assert cells_of(run(store, settings))["toy|2026-07"].status == "done"
        assert [r["text"] for r in rows(store, "events") if r["session_id"] == "z"] == [f"turn {n}" for n in range(4)]
        cut = len(b"".join(lines[:4]))
        assert [(q.session_id, q.line, q.start, q.reason) for q in store.ledger.quarantined()] == [
            ("z", 4, cut, f"more text than whole_file_bytes = {limit}")
        ]
        raised = replace(settings, whole_file_bytes=1_000_000)
        run(store, raised)
        assert [r["text"] for r in rows(store, "events") if r["session_id"] == "z"] == [f"turn {n}" for n in range(9)]
        assert store.ledger.quarantined() == []
        assert run(store, raised)["normalize"].totals["sessions_parsed"] == 0


@pytest.mark.feature("ingest.redaction")
def test_the_persons_own_pattern_cleans_what_an_index_of_the_home_says(tmp_path, home):
    write(home, "index.jsonl", line(id="a", title="about ACME-7781"))
    settings = settings_of(tmp_path, config={"redaction": {"patterns": {"ticket": "ACME-[0-9]+"}}})
    with open_store(settings) as store:
        run(store, settings)
        titles = store.ledger.hints_of("toy", ["a"])["a"]["title"]
    assert titles.startswith("about ")
    assert "7781" not in titles
