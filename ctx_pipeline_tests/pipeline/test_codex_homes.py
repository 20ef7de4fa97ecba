"""Codex homes of every kind, from files to tables and to live usage."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from ctx_pipeline.integrations.import_sessions import list_sessions
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import codex as make
from ctx_pipeline_tests.pipeline.ingest_toy import rows

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "019ca9d4-0000-7000-8000-000000000002"
STREAM = [
    {"type": "thread.started", "thread_id": OTHER},
    {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "streamed"}},
    {"type": "turn.completed", "usage": {"input_tokens": 700, "cached_input_tokens": 200, "output_tokens": 30}},
]


def settings_of(tmp_path: Path, *roots: Path) -> Settings:
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"codex": roots})


def tables(chosen: Settings) -> dict[str, list[dict[str, Any]]]:
    """Bring the store up to date, hold live usage against it, and return the rows."""
    live = usage("session", settings=chosen).rows
    with open_store(chosen) as store:
        ingest(store, chosen)
        assert usage("session", settings=chosen, stored=True).rows == live
        return {table: rows(store, table) for table in ("sessions", "threads", "events", "model_calls")}


@pytest.mark.feature("codex.roots")
def test_a_home_a_folder_of_loose_files_and_a_single_file_are_each_read_as_what_they_are(tmp_path: Path) -> None:
    make.write(tmp_path / "home", make.session())
    (tmp_path / "home/notes.jsonl").write_bytes(make.lines(make.session(OTHER)))
    loose = tmp_path / "runs" / "may"
    loose.mkdir(parents=True)
    (loose / "copied.jsonl").write_bytes(make.lines(make.session(make.PARENT)))
    (loose / "words.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "one.jsonl").write_bytes(make.lines(STREAM))
    found = tables(settings_of(tmp_path, tmp_path / "home", tmp_path / "runs", tmp_path / "one.jsonl"))
    assert {s["session_id"]: s["model_calls"] for s in found["sessions"]} == {make.THREAD: 2, make.PARENT: 2, OTHER: 1}


@pytest.mark.feature("codex.exec-json")
def test_a_run_that_wrote_a_stream_and_a_rollout_is_counted_once(tmp_path: Path) -> None:
    make.write(tmp_path / "home", make.session())
    folder = tmp_path / "home" / "exec"
    folder.mkdir()
    (folder / "run-1.jsonl").write_bytes(make.lines(STREAM))
    again = [{"type": "thread.started", "thread_id": make.THREAD}, *STREAM[1:]]
    (folder / "run-2.jsonl").write_bytes(make.lines(again))
    found = tables(settings_of(tmp_path, tmp_path / "home"))
    assert sorted((c["session_id"], c["output"]) for c in found["model_calls"]) == [(make.THREAD, 50), (make.THREAD, 50), (OTHER, 30)]
    assert [e["text"] for e in found["events"] if e["kind"] == "answer" and e["session_id"] == OTHER] == ["streamed"]


@pytest.mark.feature("codex.typescript-era")
@pytest.mark.feature("codex.packed")
def test_documents_of_the_first_cli_and_packed_and_archived_rollouts_reach_the_tables(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sessions").mkdir(parents=True)
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "first words"}]}
    told = {"session": {"timestamp": "2025-05-01T08:00:00.000Z", "id": "ts-1", "instructions": "be kind"}, "items": [message, message]}
    (home / "sessions/rollout-2025-05-01-2b847cad-795a-5baa-87c0-d8007cacb60c.json").write_text(json.dumps(told, indent=1))
    packed = make.write(home, make.session()).with_suffix(".jsonl.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(packed.with_suffix("").read_bytes()))
    packed.with_suffix("").unlink()
    make.write(home, make.session(OTHER), OTHER, folder="archived_sessions")
    found = tables(settings_of(tmp_path, home))
    assert {s["session_id"]: (s["prompts"], s["model_calls"]) for s in found["sessions"]} == {
        "ts-1": (2, 0),
        make.THREAD: (1, 2),
        OTHER: (1, 2),
    }
    assert [e["text"] for e in found["events"] if e["subtype"] == "session_meta/instructions"] == ["be kind"]


@pytest.mark.feature("codex.spawn-edges")
def test_the_tree_of_threads_is_known_from_the_database_where_the_records_say_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    own = make.session(make.PARENT)
    make.write(home, own, make.PARENT)
    one_call = [r | {"timestamp": make.at(500)} for r in own[1:6]]
    make.write(home, [make.meta(500), *one_call, *make.session(begin=900)[1:]])
    make.state_database(home / "state_5.sqlite", [{"id": make.PARENT}, {"id": make.THREAD}], [(make.PARENT, make.THREAD)])
    found = tables(settings_of(tmp_path, home))
    assert {t["thread_id"]: t["parent_thread_id"] for t in found["threads"]} == {make.PARENT: None, make.THREAD: make.PARENT}
    assert {s["session_id"]: s["parent_session"] for s in found["sessions"]} == {make.PARENT: None}
    assert {t["thread_id"]: t["kind"] for t in found["threads"]} == {make.PARENT: "main", make.THREAD: "subagent"}
    copies = [(c["call_key"], c["copy_of"]) for c in found["model_calls"] if not c["owner"]]
    assert copies == [(f"{make.PARENT}:1000.600.0.50.20@{make.THREAD}", make.PARENT)]


@pytest.mark.feature("codex.spawn-edges")
def test_an_edge_that_comes_later_is_told_to_the_stored_thread(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write(home, make.session(make.PARENT), make.PARENT)
    make.write(home, make.session(begin=500))
    chosen = settings_of(tmp_path, home)
    before = tables(chosen)
    assert {t["parent_thread_id"] for t in before["threads"]} == {None}
    assert [s["session_id"] for s in before["sessions"]] == [make.PARENT, make.THREAD]
    make.state_database(home / "state_5.sqlite", [{"id": make.THREAD, "name": "Child"}], [(make.PARENT, make.THREAD)])
    live = usage("session", settings=chosen).rows
    found = tables(chosen)
    assert {t["thread_id"]: t["parent_thread_id"] for t in found["threads"]} == {make.PARENT: None, make.THREAD: make.PARENT}
    assert [(s["session_id"], s["threads"], s["model_calls"]) for s in found["sessions"]] == [(make.PARENT, 2, 4)]
    assert live == usage("session", settings=chosen, stored=True).rows

    again = settings_of(tmp_path / "fresh", home)
    assert tables(again)["sessions"] == found["sessions"]


@pytest.mark.feature("codex.state-any-version")
@pytest.mark.parametrize("name", ["state_4.sqlite", "state_12.sqlite"])
def test_a_database_with_other_columns_says_what_it_can(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    make.write(home, make.session())
    with sqlite3.connect(home / name) as connection:
        connection.execute("CREATE TABLE threads (uid TEXT, id TEXT, title TEXT, mood BLOB)")
        connection.execute("INSERT INTO threads VALUES ('u', ?, 'Of another version', x'00ff')", (make.THREAD,))
        connection.execute("CREATE TABLE thread_spawn_edges (a TEXT)")
    connection.close()
    assert [s["title"] for s in tables(settings_of(tmp_path, home))["sessions"]] == ["Of another version"]


@pytest.mark.feature("codex.state-any-version")
def test_a_locked_or_broken_database_costs_no_session(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write(home, make.session())
    path = make.state_database(home / "state_5.sqlite", [{"id": make.THREAD, "name": "Named"}])
    (home / "state_6.sqlite").write_bytes(b"no database at all" * 100)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    chosen = settings_of(tmp_path, home)
    assert [(s["title"], s["model_calls"]) for s in tables(chosen)["sessions"]] == [("mend the parser", 2)]
    holder.execute("ROLLBACK")
    holder.close()
    assert [s["title"] for s in tables(chosen)["sessions"]] == ["Named"]


@pytest.mark.feature("codex.titles")
def test_words_typed_later_do_not_rename_a_thread_and_a_new_name_does(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write(home, [make.meta()])
    history = home / "history.jsonl"
    history.write_bytes(make.lines([{"session_id": make.THREAD, "ts": 1, "text": "first words"}]))
    chosen = settings_of(tmp_path, home)
    assert [s["title"] for s in tables(chosen)["sessions"]] == ["first words"]
    with history.open("ab") as file:
        file.write(make.lines([{"session_id": make.THREAD, "ts": 2, "text": "second words"}]))
    assert [s["title"] for s in tables(chosen)["sessions"]] == ["first words"]
    index = home / "session_index.jsonl"
    for name in ("Named", "Renamed"):
        with index.open("ab") as file:
            file.write(make.lines([{"id": make.THREAD, "thread_name": name}]))
        assert [s["title"] for s in tables(chosen)["sessions"]] == [name]


@pytest.mark.feature("codex.archived")
def test_an_archived_session_says_so_and_its_thread_how_it_ended(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make.write(home, make.session())
    make.write(home, make.session(OTHER), OTHER, folder="archived_sessions")
    make.write(home, make.session(make.PARENT), make.PARENT)
    path = make.state_database(home / "state_5.sqlite", [{"id": make.THREAD, "archived": 1}, {"id": make.PARENT}])
    chosen = settings_of(tmp_path, home)
    found = tables(chosen)
    assert {s["session_id"]: s["status"] for s in found["sessions"]} == {
        make.THREAD: "archived",
        OTHER: "archived",
        make.PARENT: "completed",
    }
    assert {t["status"] for t in found["threads"]} == {"completed"}
    with open_store(chosen) as store:
        listed = {s.session_id: s.status for s in list_sessions(store, chosen).sessions}
    assert listed == {make.THREAD: "archived", OTHER: "archived", make.PARENT: "completed"}

    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE threads SET archived = 1 - archived")
    connection.close()
    again = {s["session_id"]: s["status"] for s in tables(chosen)["sessions"]}
    assert again == {make.THREAD: "completed", OTHER: "archived", make.PARENT: "archived"}


@pytest.mark.feature("codex.spawn-edges")
def test_a_chain_of_edges_is_one_session_and_a_circle_a_lost_root_or_a_fork_breaks_nothing(tmp_path: Path) -> None:
    first, second, third, lone, fork = (f"019c0000-0000-7000-8000-0000000000{n:02d}" for n in range(1, 6))
    home = tmp_path / "home"
    for number, thread in enumerate((first, second, third, lone)):
        make.write(home, make.session(thread, begin=500 * number), thread)
    records = make.session(fork, begin=3_000)
    records[0]["payload"]["forked_from_id"] = first
    make.write(home, records, fork)
    edges = [(second, third), (first, second), (third, first), ("gone", lone), (lone, fork)]
    make.state_database(home / "state_5.sqlite", [], edges)
    found = tables(settings_of(tmp_path, home))
    assert {t["thread_id"]: t["session_id"] for t in found["threads"]} == {
        **dict.fromkeys((first, second, third), first),
        lone: "gone",
        fork: fork,
    }
