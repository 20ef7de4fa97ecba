"""Cursor: what is read of its state database, and what its transcripts say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.settings import load
from ctx_pipeline.storage.raw import databases
from ctx_pipeline_tests.factories import cursor as made

HOST = discovery.host("cursor")
DATABASE = HOST.files.databases["state"]
OTHER = "c0b50000-0000-4000-8000-00000000000f"


def parsed(*streams: tuple[str, str, str], session: str = made.TALK) -> Parsed:
    """Return what becomes of streams: (kind, path, text)."""
    found = tuple(StreamBytes(f"{n:016x}", kind, rel, 0, said.encode(), session) for n, (kind, rel, said) in enumerate(streams))
    return HOST.records.parse(SessionInput("cursor", session, found))


def texts(found: Parsed, kind: str) -> list[Any]:
    return [row[9] for row in found.events if row[6] == kind]


@pytest.mark.feature("cursor.state")
def test_only_the_keys_of_conversations_are_read_one_stream_each(tmp_path: Path):
    path = tmp_path / "user" / "state.vscdb"
    secret = {"agentKv:blob:1": "a file of the person's", f"checkpointId:{made.TALK}:c": "a file", f"composerData:{OTHER}": "{}"}
    made.write_state(path, secret)

    assert set(databases.streams(path, DATABASE)) == {made.TALK, OTHER}
    read = databases.read(path, DATABASE, made.TALK)
    assert read.decode() == made.rows()
    assert sorted(p.name for p in path.parent.iterdir()) == ["state.vscdb"], "nothing is written beside it"


@pytest.mark.feature("cursor.state")
def test_a_conversation_that_grew_has_another_marker_and_the_others_do_not(tmp_path: Path):
    path = tmp_path / "state.vscdb"
    made.write_state(path, {f"bubbleId:{OTHER}:x": "{}"})
    before = databases.streams(path, DATABASE)
    path.unlink()
    made.write_state(path, {f"bubbleId:{OTHER}:x": "{}", f"bubbleId:{OTHER}:y": "{}"})

    after = databases.streams(path, DATABASE)

    assert {name for name in after if after[name] != before[name]} == {OTHER}


@pytest.mark.feature("cursor.state")
def test_bubbles_stand_in_the_order_of_the_conversation_with_their_tools_and_tokens():
    found = parsed(("state", f"globalStorage/state.vscdb#{made.TALK}", made.rows()))

    assert [(t.action, t.argv, t.exit, t.is_error) for t in (TOOL_CALLS.row(*row) for row in found.tool_calls)] == [
        ("read", [], None, False),
        ("shell", ["pytest -q"], 1, True),
        ("shell", ["rm -rf nests"], None, True),
    ]
    assert [(c.model, c.input, c.output) for c in (MODEL_CALLS.row(*row) for row in found.model_calls)] == [
        ("claude-4.5-sonnet", 900, 40),
        ("gpt-5", 1000, 20),
        ("claude-4.5-sonnet", 1100, 10),
    ]


@pytest.mark.feature("cursor.state")
def test_what_cursor_charged_stands_in_requests_and_cents_and_is_no_cost():
    found = parsed(("state", f"globalStorage/state.vscdb#{made.TALK}", made.rows()))

    billed = [json.loads(row[9]) for row in found.events if row[7] == "billed"]
    assert billed == [{"model": "claude-4.5-sonnet", "requests": 2.0, "cents": 8.0}]
    assert {MODEL_CALLS.row(*row).recorded_cost for row in found.model_calls} == {None}


@pytest.mark.feature("cursor.transcripts")
def test_a_transcript_is_read_only_where_the_database_has_nothing():
    lines = "".join(json.dumps(record) + "\n" for record in made.transcript())
    transcript = ("transcript", f"projects/x/agent-transcripts/{made.TALK}/{made.TALK}.jsonl", lines)

    assert texts(parsed(transcript), "prompt") == ["name the owls"]
    assert texts(parsed(transcript, ("state", f"globalStorage/state.vscdb#{made.TALK}", made.rows())), "prompt") == ["count the birds"]


@pytest.mark.feature("cursor.transcripts")
def test_a_transcript_of_plain_text_gives_thoughts_calls_results_and_prose():
    found = parsed(("transcript", "projects/x/agent-transcripts/t.txt", made.PLAIN_TEXT))

    assert texts(found, "prompt") == ["find the nest"]
    assert texts(found, "reasoning") == ["It is in the oak."]
    assert texts(found, "answer") == ["I look at the oak.", "The nest is in the oak."]
    assert [TOOL_CALLS.row(*row).paths for row in found.tool_calls] == [["oak.txt"]]
    assert texts(found, "tool_result") == ["a nest"]


@pytest.mark.feature("cursor.state")
@pytest.mark.parametrize(
    ("rel", "kind"),
    [
        ("globalStorage/state.vscdb", "state"),
        ("workspaceStorage/ab/state.vscdb", None),
        ("globalStorage/state.vscdb.backup", None),
        ("projects/x/agent-transcripts/t.txt", "transcript"),
        ("projects/x/agent-transcripts/t/t.jsonl", "transcript"),
        ("projects/x/agent-transcripts/t/subagents/u.jsonl", "transcript"),
        ("projects/x/terminals/1.txt", None),
        ("mcp.json", None),
    ],
)
def test_files_are_told_apart(rel, kind):
    assert HOST.files.classify(rel) == kind


@pytest.mark.feature("cursor.state")
def test_homes_are_found_on_every_system(tmp_path: Path):
    settings = load({"HOME": str(tmp_path), "APPDATA": str(tmp_path / "a")})
    found = [str(p.relative_to(tmp_path)) for p in settings.candidate_roots(HOST)]
    assert found == [".cursor", ".config/Cursor/User", "Library/Application Support/Cursor/User", "a/Cursor/User"]


@pytest.mark.feature("hosts.samples")
def test_the_sample_is_what_its_factory_writes(tmp_path: Path):
    made.write(tmp_path)
    shipped = Path(made.__file__).parents[1] / "samples/cursor/home"

    files = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {p.relative_to(shipped): p.read_bytes() for p in shipped.rglob("*") if p.is_file()}


@pytest.mark.feature("cursor.times")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Sunday, Mar 1, 2026, 12:31 PM (UTC+3)", 1_772_357_460_000_000),
        ("Mar 1, 2026, 12:31 AM (UTC-5:30)", 1_772_344_860_000_000),
        ("Sunday, Mar 1, 2026, 9:31 AM (UTC)", 1_772_357_460_000_000),
        ("Sunday, Foo 1, 2026, 9:31 AM (UTC)", None),
        ("yesterday", None),
    ],
)
def test_the_time_before_a_question_is_that_of_the_prompt_and_of_the_session(said: str, expected: int | None):
    line = json.dumps(made.transcript()[0]).replace(made.WHEN, said) + "\n"
    rel = f"projects/home-ada-owls/agent-transcripts/{made.WRITTEN}/{made.WRITTEN}.jsonl"

    found = parsed(("transcript", rel, line), session=made.WRITTEN)

    assert [row[5] for row in found.events if row[6] == "prompt"] == [expected]
    assert HOST.files.identify is not None
    identity = HOST.files.identify("transcript", rel, line.encode())
    assert identity is not None
    assert identity.first_ts == expected
    assert all("timestamp" not in text for text in texts(found, "prompt"))


@pytest.mark.feature("cursor.times")
def test_a_transcript_says_how_its_last_turn_ended():
    def ended(status: str) -> str:
        lines = [*made.transcript()[:2], {"type": "turn_ended", "status": status}]
        said = "".join(json.dumps(line) + "\n" for line in lines)
        return parsed(("transcript", "projects/p/agent-transcripts/a/a.jsonl", said), session=made.WRITTEN).facts.status

    assert [ended(status) for status in ("success", "aborted", "error")] == ["completed", "interrupted", "errored"]


@pytest.mark.feature("cursor.transcripts")
def test_what_the_model_thought_and_how_a_turn_ended_are_no_answers():
    def said(words: str) -> dict[str, object]:
        return {"role": "assistant", "message": {"content": [{"type": "text", "text": words}]}}

    lines = [
        {"type": "metadata", "metadata": {"overview": "about owls"}},
        made.transcript()[0],
        said("[REDACTED]"),
        said("Two owls.\n\n[REDACTED]\n[REDACTED]"),
        said("[Oversize transcript blob omitted: 5.1 MB]"),
        {"type": "turn_ended", "status": "error", "error": "overloaded"},
        made.transcript()[0],
        {"type": "turn_ended", "status": "aborted"},
    ]
    found = parsed(("transcript", "projects/p/agent-transcripts/a/a.jsonl", "".join(json.dumps(line) + "\n" for line in lines)))

    assert texts(found, "answer") == ["Two owls."]
    assert texts(found, "reasoning") == [None, None]
    assert texts(found, "error") == ["overloaded"]
    assert [row[7] for row in found.events if row[6] == "injected" and row[8] == "user"] == ["interrupt"]
    assert found.unknown == {}


@pytest.mark.feature("cursor.transcripts")
def test_a_transcript_of_plain_text_names_arguments_with_colons_and_ends_with_how_the_turn_ended():
    said = (
        "user:\n<user_query>\nfind the nest\n</user_query>\n\nassistant:\nI look.\n"
        '[Tool call] Shell\n  command: ls -l oak\n  options: {"deep":true}\n\n[Tool result] Shell\n\n'
        "assistant:\nIn the oak.\n\nTurn ended: error: quota exceeded"
    )
    found = parsed(("transcript", "projects/x/agent-transcripts/t.txt", said))

    assert [TOOL_CALLS.row(*row).argv for row in found.tool_calls] == [["ls -l oak"]]
    assert texts(found, "answer") == ["I look.", "In the oak."]
    assert texts(found, "error") == ["quota exceeded"]
    assert found.facts.status == "errored"


@pytest.mark.feature("cursor.state")
def test_a_conversation_that_holds_its_messages_itself_is_told_once_beside_its_transcript_and_its_bubbles():
    talk = [{"type": 1, "bubbleId": "a", "text": "name the owls"}, {"type": 2, "bubbleId": "b", "text": "Ada."}]
    rows = [("composerData:" + made.TALK, {"conversation": talk, "status": "aborted"}), (f"bubbleId:{made.TALK}:a", talk[0])]
    said = "".join(json.dumps({"table": "cursorDiskKV", "row": {"key": key, "value": json.dumps(value)}}) + "\n" for key, value in rows)
    lines = "".join(json.dumps(record) + "\n" for record in made.transcript())

    found = parsed(("state", f"globalStorage/state.vscdb#{made.TALK}", said), ("transcript", "projects/x/agent-transcripts/t.jsonl", lines))

    assert (texts(found, "prompt"), texts(found, "answer")) == (["name the owls"], ["Ada."])
    assert found.facts.status == "interrupted"


@pytest.mark.feature("cursor.transcripts")
def test_parts_of_a_transcript_of_plain_text_stand_at_their_bytes_and_lines():
    said = "user:\nWo nisten die Käuze? 🦉\nassistant:\nIm Turm.\nTurn ended: success.\n \n"

    found = parsed(("transcript", "projects/x/agent-transcripts/t.txt", said))

    places = [(row[6], said.encode()[row[-3] : row[-2]].decode().strip(), row[-1]) for row in found.events]
    assert places == [
        ("prompt", "user:\nWo nisten die Käuze? 🦉", 0),
        ("answer", "assistant:\nIm Turm.", 2),
        ("attachment", "Turn ended: success.", 4),
    ]
