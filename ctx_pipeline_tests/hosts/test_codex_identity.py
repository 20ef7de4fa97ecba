"""Which files of a Codex home are captured, and whose each is."""

from __future__ import annotations

import json

import pytest
import zstandard

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.raw import Identity
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline_tests.factories import codex as make

BORN = 1_772_366_400_000_000
"""2026-03-01T12:00:00Z"""


@pytest.mark.feature("codex.places")
@pytest.mark.parametrize(
    ("rel", "kind"),
    [
        (make.rel(), "rollout"),
        (make.rel(suffix=".jsonl.zst"), "rollout"),
        (make.rel(folder="archived_sessions"), "rollout"),
        ("sessions/rollout-2025-06-01-2b847cad-795a-5baa-87c0-d8007cacb60c.json", "rollout"),
        ("history.jsonl", "history"),
        ("session_index.jsonl", "index"),
        ("state_5.sqlite", "state"),
        ("state_5.sqlite-wal", None),
        ("auth.json", None),
        ("config.toml", None),
        ("sessions/notes.jsonl", None),
        ("log/rollout-2026.jsonl", None),
        ("logs_2.sqlite", None),
    ],
)
def test_only_sessions_indexes_and_state_are_captured(rel, kind):
    assert HOST.files.classify(rel) == kind


@pytest.mark.feature("codex.places")
def test_only_folders_of_sessions_are_entered():
    assert [rel for rel in ("", "sessions", "sessions/2026/03", "archived_sessions", "log", "skills") if HOST.files.enter(rel)] == [
        "",
        "sessions",
        "sessions/2026/03",
        "archived_sessions",
    ]


def identify(records, rel="") -> Identity | None:
    return HOST.files.identify("rollout", rel or make.rel(), make.lines(records))


@pytest.mark.feature("codex.identity")
def test_the_first_session_meta_owns_the_file():
    assert identify([make.meta(), make.meta(1, make.PARENT)]) == Identity(make.THREAD, first_ts=BORN)


@pytest.mark.feature("codex.identity")
def test_a_spawned_thread_is_part_of_its_parents_session():
    source = {"subagent": {"thread_spawn": {"parent_thread_id": make.PARENT, "depth": 1}}}
    assert identify([make.meta(source=source, session_id="root-1")]) == Identity(make.THREAD, make.PARENT, "part", "root-1", BORN)
    assert identify([make.meta(parent_thread_id=make.PARENT, session_id=make.THREAD)]) == Identity(
        make.THREAD, make.PARENT, "part", None, BORN
    )


@pytest.mark.feature("codex.identity")
def test_a_fork_is_a_session_of_its_own_and_a_review_without_parent_too():
    assert identify([make.meta(forked_from_id=make.PARENT)]) == Identity(make.THREAD, make.PARENT, "fork", None, BORN)
    assert identify([make.meta(source={"subagent": "review"})]) == Identity(make.THREAD, first_ts=BORN)


@pytest.mark.feature("codex.identity")
def test_a_file_without_meta_is_named_by_its_name():
    found = identify([make.context(3)])
    assert found == Identity(make.THREAD, first_ts=BORN + 3_000_000)


@pytest.mark.feature("codex.bare-era")
def test_a_bare_file_is_named_by_its_first_line():
    head = b'{"id":"bare-1","timestamp":"2025-08-02T09:00:00.123Z","instructions":null}\n{"record_type":"state"}\n'
    assert HOST.files.identify("rollout", make.rel(), head) == Identity("bare-1", first_ts=1_754_125_200_123_000)


@pytest.mark.feature("codex.identity")
def test_a_first_line_longer_than_the_head_still_tells_and_a_half_written_one_waits():
    source = {"subagent": {"thread_spawn": {"parent_thread_id": make.PARENT}}}
    whole = make.lines([make.meta(source=source, parent_thread_id=make.PARENT, base_instructions={"text": '"id": "no" ' * 9_000})])
    assert len(whole) > 65_536
    assert HOST.files.identify("rollout", make.rel(), whole[:65_536]) == Identity(make.THREAD, make.PARENT, "part", None, BORN)
    assert HOST.files.identify("rollout", make.rel(), whole[:300]) is None
    assert HOST.files.identify("rollout", make.rel(), b"") is None


@pytest.mark.feature("codex.packed")
def test_a_packed_rollout_is_identified_through_its_frame():
    packed = zstandard.ZstdCompressor().compress(make.lines(make.session()))
    assert HOST.files.identify("rollout", make.rel(suffix=".jsonl.zst"), packed) == Identity(make.THREAD, first_ts=BORN)


@pytest.mark.feature("codex.hostile-ids")
@pytest.mark.parametrize("bad", ["../../etc/passwd", "a/b", "x" * 129, "..", "\u202eabc"])
def test_hostile_ids_become_digests(bad):
    found = identify([make.meta(thread=bad, forked_from_id="../up")])
    assert found is not None
    assert found.parent_thread_id is not None
    for text in (found.thread_id, found.parent_thread_id):
        assert len(text) == 33
        assert text.isalnum()


@pytest.mark.feature("codex.identity")
def test_a_document_of_the_typescript_era_is_named_by_its_session():
    text = json.dumps({"session": {"timestamp": "2025-05-01T08:00:00.000Z", "id": "ts-1", "instructions": ""}, "items": []}, indent=2)
    rel = "sessions/rollout-2025-05-01-2b847cad-795a-5baa-87c0-d8007cacb60c.json"
    assert HOST.files.identify("rollout", rel, text.encode()) == Identity("ts-1", first_ts=1_746_086_400_000_000)


@pytest.mark.feature("codex.titles")
def test_the_last_row_of_the_index_names_a_thread():
    rows = [{"id": "a", "thread_name": "old"}, {"id": "b", "thread_name": "other"}, {"id": "a", "thread_name": "new"}, ["no"], {"id": 5}]
    assert list(HOST.files.hints("index", make.lines(rows))) == [("a", "title", "new"), ("b", "title", "other")]


@pytest.mark.feature("codex.titles")
def test_state_rows_give_titles_archive_marks_and_parents(tmp_path):
    from ctx_pipeline.storage.raw import databases

    path = make.state_database(
        tmp_path / "state_5.sqlite",
        [{"id": "a", "title": "first words", "name": "Named"}, {"id": "b", "title": "second", "archived": 1}],
        [("a", "b")],
    )
    declared = HOST.files.databases["state"]
    assert sorted(databases.streams(path, declared)) == ["thread_spawn_edges", "threads"]
    data = {name: databases.read(path, declared, name) for name in ("threads", "thread_spawn_edges")}
    assert list(HOST.files.hints("state", data["threads"])) == [
        ("a", "title", "Named"),
        ("a", "derived_title", "first words"),
        ("b", "derived_title", "second"),
        ("b", "archived", "1"),
    ]
    assert list(HOST.files.hints("state", data["thread_spawn_edges"])) == [("b", "parent_thread_id", "a")]
    assert b"do-not-read" not in b"".join(data.values())


@pytest.mark.feature("codex.state-steady")
def test_a_turn_that_only_moves_clocks_and_totals_changes_no_state_row(tmp_path):
    import sqlite3

    from ctx_pipeline.storage.raw import databases

    path = make.state_database(tmp_path / "state_5.sqlite", [{"id": "a", "title": "t"}])
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE threads ADD COLUMN tokens_used INTEGER DEFAULT 0")
    connection.commit()
    declared = HOST.files.databases["state"]
    before = databases.streams(path, declared)
    connection.execute("UPDATE threads SET tokens_used = 9000")
    connection.commit()
    assert databases.streams(path, declared) == before
    connection.execute("UPDATE threads SET name = 'Named'")
    connection.commit()
    assert databases.streams(path, declared) != before
    connection.close()


@pytest.mark.feature("codex.identity")
@pytest.mark.parametrize(
    "declared",
    [{"source": {"subagent": {"thread_spawn": {"parent_thread_id": make.PARENT}}}}, {"source": "cli", "thread_source": "subagent"}],
)
def test_what_an_agent_asks_of_its_subagent_is_not_what_a_person_typed(declared):
    child = make.stream(
        [
            make.meta(**declared),
            make.event(1, "user_message", message="No, don't use npm here, always use pnpm."),
            make.event(2, "user_message", message="Go on."),
        ]
    )
    rows = [EVENTS.row(*e) for e in make.parse(child, session=make.PARENT).events]
    assert [(e.kind, e.subtype, e.actor) for e in rows if e.subtype == "agent_prompt" or e.kind == "prompt"] == [
        ("subagent_start", "agent_prompt", "assistant"),
        ("injected", "agent_prompt", "assistant"),
    ]
