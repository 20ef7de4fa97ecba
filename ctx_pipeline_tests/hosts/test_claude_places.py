"""Which files of a Claude home are captured, and whose they are."""

from __future__ import annotations

import os

import pytest

from ctx_pipeline.hosts.claude_code import HOST
from ctx_pipeline.model.raw import Identity
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome

P = "projects/-home-dev-shop"


@pytest.mark.feature("claude.places")
@pytest.mark.parametrize(
    ("rel", "kind"),
    [
        (f"{P}/{SESSION}.jsonl", "transcript"),
        ("projects/team/deeper/still/chat.jsonl", "transcript"),
        (f"{P}/agent-a1b2c3d.jsonl", "agent"),
        (f"{P}/{SESSION}/subagents/agent-acompact-77.jsonl", "agent"),
        (f"{P}/{SESSION}/subagents/agent-a1.meta.json", "agent_meta"),
        (f"{P}/{SESSION}/subagents/workflows/wf_1/agent-a1.jsonl", "agent"),
        (f"{P}/{SESSION}/subagents/workflows/wf_1/journal.jsonl", "journal"),
        (f"{P}/{SESSION}/workflows/wf_1.json", "workflow"),
        (f"{P}/{SESSION}/tool-results/toolu_1.txt", "tool_result"),
        (f"{P}/sessions-index.json", "index"),
        (f"{P}/memory/MEMORY.md", "memory"),
        (f"todos/{SESSION}-agent-{SESSION}.json", "todos"),
        (f"tasks/{SESSION}/1.json", "tasks"),
        (f"file-history/{SESSION}/abc@v2", "file_history"),
        ("plans/merry-fox.md", "plan"),
        ("history.jsonl", "history"),
        ("settings.json", "settings"),
        (".credentials.json", None),
        ("plugins/x/projects/y.jsonl", None),
        ("statsig/cache.json", None),
        ("shell-snapshots/snapshot-zsh-1.sh", None),
        ("debug/1.txt", None),
        ("ide/1.lock", None),
        ("stats-cache.json", None),
        ("projects/loose.jsonl", None),
    ],
)
def test_a_path_has_one_kind(rel: str, kind: str | None) -> None:
    assert HOST.files.classify(rel) == kind


@pytest.mark.feature("claude.places")
def test_only_folders_with_records_are_entered() -> None:
    assert [HOST.files.enter(rel) for rel in ("", "projects", f"{P}/{SESSION}/subagents", "todos", "file-history/x")] == [True] * 5
    assert [HOST.files.enter(rel) for rel in ("plugins", "statsig", "cache", "ide", "debug", "shell-snapshots", "plugins/projects")] == [
        False
    ] * 7


@pytest.mark.feature("claude.identity")
def test_agents_of_both_layouts_belong_to_their_session() -> None:
    head = b'{"type":"user","sessionId":"' + SESSION.encode() + b'","timestamp":"2026-03-05T10:00:00.000Z"}\n'
    of = Identity(f"{SESSION}/a1b2c3d", SESSION, "part", SESSION, 1_772_704_800_000_000)
    assert HOST.files.identify("agent", f"{P}/agent-a1b2c3d.jsonl", head) == of
    assert HOST.files.identify("agent", f"{P}/{SESSION}/subagents/agent-a1b2c3d.jsonl", head) == of
    assert HOST.files.identify("agent", f"{P}/{SESSION}/subagents/workflows/wf/agent-a1b2c3d.jsonl", b"") == of._replace(first_ts=None)
    assert HOST.files.identify("agent", f"{P}/agent-a1b2c3d.jsonl", b"") is None


@pytest.mark.feature("claude.identity")
def test_an_agent_is_not_misled_by_text_that_quotes_a_session() -> None:
    quoted = b'{"message":{"content":"{\\"sessionId\\":\\"other\\"}"},"sessionId":"mine"}\n'
    found = HOST.files.identify("agent", f"{P}/agent-a1.jsonl", quoted)
    assert found is not None
    assert found.root_session_id == "mine"


@pytest.mark.feature("claude.identity")
def test_a_transcript_is_named_by_its_file_and_dated_by_its_first_time() -> None:
    head = b'{"type":"summary","summary":"x"}\n{"type":"user","sessionId":"other","timestamp":"2026-03-05T10:00:00.000Z"}\n'
    assert HOST.files.identify("transcript", f"{P}/{SESSION}.jsonl", head) == Identity(
        SESSION, None, "main", SESSION, 1_772_704_800_000_000
    )
    assert HOST.files.identify("transcript", f"{P}/{SESSION}.jsonl", b"") == Identity(SESSION, None, "main", SESSION, None)
    deep = [HOST.files.identify("transcript", f"projects/p/{folder}/chat.jsonl", b"") for folder in ("one", "two")]
    assert [i.thread_id for i in deep if i] == ["one.chat", "two.chat"]


@pytest.mark.feature("claude.identity")
def test_a_fork_names_the_session_that_it_was_copied_from() -> None:
    line = b'{"type":"user","sessionId":"new","forkedFrom":{"sessionId":"%s","messageUuid":"x"}}\n'
    assert HOST.files.identify("transcript", f"{P}/{SESSION}.jsonl", b'{"type":"mode"}\n' + line % b"parent") == Identity(
        SESSION, "parent", "fork", SESSION, None
    )
    itself = HOST.files.identify("transcript", f"{P}/{SESSION}.jsonl", line % SESSION.encode())
    assert itself == Identity(SESSION, None, "main", SESSION, None)


@pytest.mark.feature("claude.identity")
@pytest.mark.parametrize("name", ["..", "a b", "x" * 300, "né", "a\\b"])
def test_a_hostile_name_never_becomes_an_id(name: str) -> None:
    found = HOST.files.identify("transcript", f"projects/p/{name}.jsonl", b"")
    assert found is not None
    assert found.thread_id != name
    assert len(found.thread_id) == 32
    assert found.thread_id.isalnum()


@pytest.mark.feature("claude.identity")
@pytest.mark.parametrize(
    ("kind", "rel", "thread"),
    [
        ("agent_meta", f"{P}/{SESSION}/subagents/agent-a1.meta.json", f"{SESSION}/a1"),
        ("tool_result", f"{P}/{SESSION}/tool-results/t.txt", SESSION),
        ("workflow", f"{P}/{SESSION}/workflows/wf.json", SESSION),
        ("journal", f"{P}/{SESSION}/subagents/workflows/wf/journal.jsonl", SESSION),
        ("todos", f"todos/{SESSION}-agent-{SESSION}.json", SESSION),
        ("tasks", f"tasks/{SESSION}/3.json", SESSION),
        ("file_history", f"file-history/{SESSION}/abc@v1", SESSION),
    ],
)
def test_side_files_belong_to_their_session(kind: str, rel: str, thread: str) -> None:
    found = HOST.files.identify(kind, rel, b"")
    assert found is not None
    assert (found.thread_id, found.relation, found.root_session_id) == (thread, "beside", SESSION)


@pytest.mark.feature("claude.retention")
@pytest.mark.parametrize(
    ("settings", "days"),
    [
        ('{"cleanupPeriodDays": 45}', 45),
        ('{"cleanupPeriodDays": 0}', 0),
        ("{}", 30),
        ('{"cleanupPeriodDays": "many"}', 30),
        ('{"cleanupPeriodDays": -5}', 30),
        ('{"cleanupPeriodDays": true}', 30),
        ("not json", 30),
        ("[" * 100_000, 30),
        (None, 30),
    ],
)
def test_retention_is_what_settings_say_else_thirty_days(tmp_path, settings: str | None, days: int) -> None:
    if settings is not None:
        (tmp_path / "settings.json").write_text(settings)
    assert HOST.files.retention_days is not None
    assert HOST.files.retention_days(tmp_path) == days


@pytest.mark.feature("claude.retention")
def test_a_pipe_in_place_of_settings_does_not_hang(tmp_path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    assert HOST.files.retention_days is not None
    assert HOST.files.retention_days(tmp_path) == 30


@pytest.mark.feature("claude.hints")
def test_history_and_indexes_give_titles_of_last_resort(tmp_path) -> None:
    home = ClaudeHome(tmp_path)
    history = home.file(
        "history.jsonl",
        '{"display":"/login","sessionId":"s1"}\n{"display":"first words","sessionId":"s1"}\n'
        '{"display":"more","sessionId":"s1"}\nbroken\n{"display":"old, no session"}\n',
    )
    index = home.file(
        f"{P}/sessions-index.json", {"version": 1, "entries": [{"sessionId": "s2", "summary": "A summary"}, {"sessionId": "s3"}]}
    )
    assert HOST.files.hints is not None
    assert list(HOST.files.hints("history", history.read_bytes())) == [("s1", "first_prompt", "first words")]
    assert list(HOST.files.hints("index", index.read_bytes())) == [("s2", "title", "A summary")]
    assert list(HOST.files.hints("index", b"[]")) == []
