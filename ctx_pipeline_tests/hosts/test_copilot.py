"""GitHub Copilot: whose a file is, what a chat's mutations lead to, and what is counted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctx_pipeline import discovery
from ctx_pipeline.cli import cli
from ctx_pipeline.integrations.import_sessions import list_sessions
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.settings import load
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import copilot as made
from ctx_pipeline_tests.factories.sample_homes import put, sessions_of

HOST = discovery.host("copilot")
SESSION = made.CLI


def parsed(*streams: tuple[str, str, str]) -> Parsed:
    """Return what becomes of streams: (kind, path, text)."""
    found = tuple(StreamBytes(f"{n:016x}", kind, rel, 0, said.encode(), SESSION) for n, (kind, rel, said) in enumerate(streams))
    return HOST.records.parse(SessionInput("copilot", SESSION, found))


def events(log: made.Log) -> tuple[str, str, str]:
    return "events", f"session-state/{SESSION}/events.jsonl", made.lines(log.records)


def counted(found: Parsed) -> list[tuple[str, int, int, int]]:
    """Return model, fresh input, output and cache reads of the calls."""
    return [(c.model, c.input, c.output, c.cache_read) for c in (MODEL_CALLS.row(*row) for row in found.model_calls)]


def texts(found: Parsed, kind: str) -> list[Any]:
    return [row[9] for row in found.events if row[6] == kind]


def closing(prompt: int, output: int, read: int, *, cost: float = 0) -> dict[str, Any]:
    return {**made.shutdown(SESSION, sonnet=(prompt, output, read), haiku=(0, 0, 0), cost=cost)}


@pytest.mark.feature("copilot.usage")
def test_an_account_that_repeats_the_one_before_it_counts_what_it_adds():
    log = made.Log().add(1, "session.shutdown", **closing(100, 10, 40, cost=1)).add(2, "session.shutdown", **closing(250, 25, 90, cost=3))

    found = parsed(events(log))

    assert counted(found) == [("claude-sonnet-4.5", 60, 10, 40), ("claude-sonnet-4.5", 100, 15, 50)]
    assert [json.loads(said)["premium_requests"] for said in texts(found, "attachment")] == [1.0, 2.0]


@pytest.mark.feature("copilot.usage")
@pytest.mark.parametrize(("second", "expected"), [(30, [20, 30]), (50, [20, 30])], ids=["of its process alone", "of the whole session"])
def test_recorded_output_of_the_messages_tells_whether_an_account_repeats_the_one_before_it(second, expected):
    log = (
        made.Log()
        .add(1, "assistant.message", messageId="a", content="x", outputTokens=20)
        .add(2, "session.shutdown", **closing(100, 20, 0))
    )
    log.add(3, "assistant.message", messageId="b", content="y", outputTokens=30).add(4, "session.shutdown", **closing(200, second, 0))

    assert [output for _, _, output, _ in counted(parsed(events(log)))] == expected


@pytest.mark.feature("copilot.usage")
def test_an_account_that_falls_stands_for_itself():
    log = made.Log().add(1, "session.shutdown", **closing(300, 30, 0)).add(2, "session.shutdown", **closing(100, 10, 0))

    assert [(fresh, output) for _, fresh, output, _ in counted(parsed(events(log)))] == [(300, 30), (100, 10)]


@pytest.mark.feature("copilot.usage")
def test_a_session_that_goes_on_counts_the_output_that_no_account_includes_yet():
    log = made.Log().add(1, "assistant.message", messageId="a", model="gpt-5", content="x", outputTokens=20)
    log.add(2, "session.shutdown", **closing(100, 20, 0)).add(3, "session.resume")
    log.add(4, "assistant.message", messageId="b", model="gpt-5", content="y", outputTokens=7)

    assert counted(parsed(events(log))) == [("claude-sonnet-4.5", 100, 20, 0), ("gpt-5", 0, 7, 0)]


@pytest.mark.feature("copilot.usage", "copilot.cli")
def test_rows_of_the_usage_database_come_before_every_other_account():
    usage = {"id": 1, "session_id": SESSION, "model": "gpt-5", "input_tokens": 100, "output_tokens": 9, "cache_read_tokens": 60}
    rows = [{"row": {**usage, "created_at": "2026-03-01 10:00:00"}, "table": "assistant_usage_events"}]
    log = made.Log().add(1, "session.shutdown", **closing(500, 50, 0))

    found = parsed(events(log), ("store", f"session-store.db#{SESSION}", made.lines(rows)))

    assert counted(found) == [("gpt-5", 40, 9, 60)]


@pytest.mark.feature("copilot.billing")
def test_what_copilot_bills_stands_in_its_own_units_and_never_as_dollars():
    chat = made.request("a", 1, "hi", [], copilotCredits=1.6, promptTokens=5, completionTokens=5, result={"details": "GPT-5 • 0.33x"})
    found = parsed(("chat", "x.json", json.dumps({"requests": [chat]})))

    billed = [json.loads(row[9]) for row in found.events if row[7] == "billed"]
    assert billed == [{"model": "gpt-5", "ai_credits": 1.6, "premium_requests": 0.33}]
    assert [MODEL_CALLS.row(*row).recorded_cost for row in found.model_calls] == [None]


@pytest.mark.feature("copilot.events")
def test_a_message_written_in_chunks_is_one_answer():
    log = made.Log()
    for index, piece in enumerate(("The wren ", "is small.")):
        log.add(index, "assistant.message", messageId=f"m{index}", turnId="0", model="gpt-5", content=piece, chunkIndex=index, chunkCount=2)

    assert texts(parsed(events(log)), "answer") == ["The wren is small."]


@pytest.mark.feature("copilot.events")
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"content": "fix it"}, "prompt"),
        ({"content": "fix it", "source": "user"}, "prompt"),
        ({"content": "<skill-context name='pdf'>"}, "injected"),
        ({"content": "how to read a PDF", "source": "skill-pdf"}, "injected"),
        ({"content": "go on", "isAutopilotContinuation": True}, "injected"),
    ],
)
def test_what_the_person_typed_is_told_from_what_the_program_put_in_their_place(data, kind):
    assert [row[6] for row in parsed(events(made.Log().add(1, "user.message", **data))).events] == [kind]


@pytest.mark.feature("copilot.chat")
def test_a_log_of_mutations_leads_to_the_chat_that_its_document_would_hold():
    whole = json.loads(json.dumps(made.chat_document()))
    log = [{"kind": 0, "v": {**whole, "requests": []}}]
    for number, request in enumerate(whole["requests"]):
        log.append({"kind": 2, "k": ["requests"], "v": [{**request, "response": []}]})
        log += [{"kind": 2, "k": ["requests", number, "response"], "v": [part]} for part in request["response"]]

    document, replayed = parsed(("chat", "x.json", json.dumps(whole))), parsed(("chat", "x.jsonl", made.lines(log)))

    assert [row[5:10] for row in replayed.events] == [row[5:10] for row in document.events]
    assert counted(replayed) == counted(document)
    assert len({row[17] for row in replayed.events}) > 5, "each event names the line that wrote it"


@pytest.mark.feature("copilot.chat")
@pytest.mark.parametrize(
    ("mutation", "reason"),
    [
        ({"kind": 1, "k": ["requests", 5, "vote"], "v": 1}, "a mutation of no place"),
        ({"kind": 2, "k": ["responderUsername"], "v": [1]}, "a push to what is no array"),
        ({"kind": 1, "k": [], "v": 1}, "a mutation without a path"),
        ({"kind": 3, "k": "requests"}, "a mutation without a path"),
    ],
)
def test_a_mutation_that_cannot_be_made_is_quarantined_and_the_others_stand(mutation, reason):
    log = [made.mutations()[0], mutation, *made.mutations()[1:4]]

    found = parsed(("chat", "x.jsonl", made.lines(log)))

    assert [(q.line, q.reason) for q in found.quarantined] == [(1, reason)]
    assert texts(found, "answer") == ["A wren."]


@pytest.mark.feature("copilot.chat")
def test_a_call_that_the_person_denied_is_refused():
    chat = made.request("a", 1, "clean up", [made.terminal("c1", "rm -rf x", isConfirmed={"type": 0}, isComplete=False)])
    found = parsed(("chat", "x.json", json.dumps({"requests": [chat]})))

    assert [row[7] for row in found.events if row[6] == "tool_result"] == ["refused"]
    assert [TOOL_CALLS.row(*row).argv for row in found.tool_calls] == [["rm -rf x"]]


@pytest.mark.feature("copilot.joined", "copilot.vscode")
def test_a_turn_that_transcript_and_chat_both_tell_is_read_once_with_the_usage_of_the_chat():
    transcript = ("transcript", "t.jsonl", made.lines(made.transcript()))
    found = parsed(transcript, ("chat", "x.json", json.dumps(made.joined_chat())))

    assert texts(found, "prompt") == ["list the owls", "and hawks?"]
    assert texts(found, "tool_result") == ["barn owl\n"], "the transcript leaves results out"
    assert [(fresh, read) for _, fresh, _, read in counted(found)] == [(200, 500), (800, 0), (90, 0)]


@pytest.mark.feature("copilot.discovery")
@pytest.mark.parametrize(
    ("rel", "kind"),
    [
        ("workspaceStorage/ab/chatSessions/c.json", "chat"),
        ("workspaceStorage/ab/chatSessions/c.jsonl", "chat"),
        ("globalStorage/emptyWindowChatSessions/c.jsonl", "chat"),
        ("globalStorage/transferredChatSessions/c.json", "chat"),
        ("profiles/p1/globalStorage/emptyWindowChatSessions/c.json", "chat"),
        ("workspaceStorage/ab/GitHub.copilot-chat/transcripts/c.jsonl", "transcript"),
        ("workspaceStorage/ab/chatEditingSessions/c/state.json", "sidecar"),
        ("session-state/c/events.jsonl", "events"),
        ("session-state/c.jsonl", "events"),
        ("session-state/c/workspace.yaml", "description"),
        ("session-store.db", "store"),
        ("globalStorage/github.copilot-chat/session-store.db", "store"),
        ("session-state/c/inuse.7.lock", None),
        ("workspaceStorage/ab/state.vscdb", None),
        ("globalStorage/ms-python.python/x.json", None),
        ("config.json", None),
    ],
)
def test_files_are_told_apart_and_their_folders_are_entered(rel, kind):
    assert HOST.files.classify(rel) == kind
    folders = rel.split("/")[:-1]
    if kind:
        assert all(HOST.files.enter("/".join(folders[: n + 1])) for n in range(len(folders)))


@pytest.mark.feature("copilot.discovery")
@pytest.mark.parametrize(
    ("document", "ours"),
    [
        ({"responderUsername": "GitHub Copilot", "requests": [{"requestId": "r"}]}, True),
        ({"responderUsername": "", "requests": [{"requestId": "r", "modelId": "copilot/gpt-5"}]}, True),
        ({"responderUsername": "GitHub Copilot", "requests": []}, False),
        ({"responderUsername": "Parrot", "requests": [{"requestId": "r", "modelId": "parrot/1"}]}, False),
    ],
    ids=["by name", "by model", "empty", "of another assistant"],
)
def test_an_empty_chat_and_one_of_another_assistant_are_nobodys(document, ours):
    found = HOST.files.identify("chat", "workspaceStorage/ab/chatSessions/c-1.json", json.dumps(document).encode())
    assert (found is not None) == ours


@pytest.mark.feature("copilot.discovery")
def test_homes_are_those_of_the_command_line_and_of_every_vs_code(tmp_path: Path):
    found = load({"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "x"), "APPDATA": str(tmp_path / "a")}).candidate_roots(HOST)

    ends = [str(path.relative_to(tmp_path)) for path in found]
    assert ends[0] == ".copilot"
    for folder in ("x", ".config", "Library/Application Support", "a"):
        assert {f"{folder}/Code/User", f"{folder}/Code - Insiders/User"} <= set(ends)
    assert ".vscode-server/data/User" in ends


@pytest.mark.feature("hosts.more-roots")
def test_one_variable_does_not_hide_the_homes_of_another(tmp_path: Path):
    settings = load({"HOME": str(tmp_path), "COPILOT_HOME": "/cli", "VSCODE_COPILOT_USER_DIRS": "/one,/two"})

    assert [str(path) for path in settings.candidate_roots(HOST)] == ["/cli", "/one", "/two"]
    assert [str(path) for path in settings.own_roots(HOST)] == ["/cli"]


@pytest.mark.feature("copilot.discovery")
def test_a_folder_of_session_states_is_a_home_by_itself(tmp_path: Path):
    layout = HOST.files.layout
    assert layout is not None
    rules = layout(tmp_path / "session-state")
    assert rules is not None
    classify, enter = rules
    assert (classify("c/events.jsonl"), enter("c"), enter("")) == ("events", True, True)
    assert layout(tmp_path) is None


@pytest.mark.feature("copilot.chat")
def test_edits_are_shown_with_what_they_replace():
    edits = [
        ("edit", {"path": "/a", "old_str": "1\n", "new_str": "2\n"}),
        ("replace_string_in_file", json.dumps({"filePath": "/b", "oldString": "x", "newString": "y"})),
        ("create_file", {"filePath": "/c", "content": "new\n"}),
        ("multi_replace_string_in_file", {"replacements": [{"filePath": "/d", "oldString": "p", "newString": "q"}]}),
        ("bash", {"command": "ls"}),
    ]
    log = made.Log()
    for number, (name, arguments) in enumerate(edits):
        log.add(number, "tool.execution_start", toolCallId=f"t{number}", toolName=name, arguments=arguments)

    assert HOST.records.changes is not None
    found = [(c.call_id, c.path, c.diff.splitlines()[1:]) for c in HOST.records.changes(made.lines(log.records).encode())]

    assert found == [("t0", "/a", ["-1", "+2"]), ("t1", "/b", ["-x", "+y"]), ("t2", "/c", ["+new"]), ("t3", "/d", ["-p", "+q"])]


@pytest.mark.feature("copilot.events")
def test_the_folder_is_told_where_it_changes():
    log = made.Log().add(0, "session.start", context={"cwd": "/a"}).add(1, "user.message", content="go")
    log.add(2, "session.context_changed", cwd="/b").add(3, "session.resume", context={"cwd": "/b"})
    data = made.lines(log.records).encode()

    assert HOST.records.directories is not None
    assert [(data[:start].count(b"\n"), folder) for start, folder in HOST.records.directories(data)] == [(0, "/a"), (2, "/b")]


@pytest.mark.feature("hosts.active", "copilot.activity")
def test_a_session_that_is_open_is_listed_as_active(tmp_path: Path):
    home = tmp_path / ".copilot"
    made.write(home)
    lock = home / "session-state" / made.CLI / "inuse.4711.lock"
    lock.touch()
    settings = load({"HOME": str(tmp_path)}, home=tmp_path / "store")

    def active() -> set[str]:
        with open_store(settings) as store:
            return {one.session_id for one in list_sessions(store, settings, host="copilot").sessions if one.active}

    assert active() == {made.CLI}
    assert "new, active" in CliRunner().invoke(cli, ["list"], env={"HOME": str(tmp_path)}).output
    lock.unlink()
    assert active() == set()


@pytest.mark.feature("hosts.samples")
def test_the_sample_is_what_its_factory_writes(tmp_path: Path):
    made.write(tmp_path)
    shipped = Path(made.__file__).parents[1] / "samples/copilot/home"

    files = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {p.relative_to(shipped): p.read_bytes() for p in shipped.rglob("*") if p.is_file()}


@pytest.mark.feature("copilot.workspace")
def test_a_chat_without_a_tool_call_stands_in_the_folder_of_its_workspace(tmp_path: Path):
    untold = json.dumps(made.chat_document()).replace("renderedGlobalContext", "other").replace("renderedUserMessage", "others")
    home, name = tmp_path / "home", "workspaceStorage/0f0f"
    kept = put(
        home,
        {f"{name}/workspace.json": '{"folder": "file:///home/ada/tree%20tops"}', f"{name}/chatSessions/{made.CHAT}.json": untold},
    )

    assert sessions_of("copilot", kept, tmp_path / "store")[made.CHAT]["cwd"] == "/home/ada/tree tops"

    other = {
        f"{name}/workspace.json": '{"folder": "file:///home/ada/other"}',
        f"{name}/chatSessions/{made.CHAT}.json": json.dumps(made.chat_document()),
    }
    said = sessions_of("copilot", put(tmp_path / "told", other), tmp_path / "other")[made.CHAT]["cwd"]
    assert said == "/home/ada/nests"  # what the extension told the model is nearer than the workspace


@pytest.mark.feature("copilot.workspace")
@pytest.mark.parametrize(
    ("said", "folder"),
    [
        ('{"folder": "file:///c%3A/Users/ada/owls"}', "c:/Users/ada/owls"),
        ('{"folder": "vscode-remote://ssh-remote%2Bbarn/home/ada/owls"}', "/home/ada/owls"),
        ('{"workspace": "file:///home/ada/owls/all.code-workspace"}', "/home/ada/owls"),
        ('{"folder": 7}', None),
        ("no json", None),
    ],
)
def test_a_workspace_names_its_folder(said: str, folder: str | None):
    assert HOST.files.hints is not None
    assert [value for _, _, value in HOST.files.hints("workspace", said.encode())] == ([folder] if folder else [])


@pytest.mark.feature("copilot.usage")
@pytest.mark.parametrize("cost", [-5, 10**400, True], ids=["below zero", "beyond every number", "no number"])
def test_premium_requests_that_cannot_be_are_none(cost: int):
    found = parsed(events(made.Log().add(1, "session.shutdown", **closing(100, 10, 40, cost=cost))))

    assert counted(found) == [("claude-sonnet-4.5", 60, 10, 40)]
    assert texts(found, "attachment") == []


@pytest.mark.feature("copilot.discovery")
@pytest.mark.parametrize(("responder", "whose"), [("GitHub Copilot", True), ("Owl", False)])
def test_a_long_chat_of_another_assistant_is_nobodys(responder: str, whose: bool):
    said = {"responderUsername": responder, "requests": [{"requestId": "r", "message": "x" * 70_000}]}
    head = json.dumps(said).encode()[:65_536]

    assert HOST.files.identify is not None
    assert (HOST.files.identify("chat", "globalStorage/emptyWindowChatSessions/c-1.json", head) is not None) is whose
