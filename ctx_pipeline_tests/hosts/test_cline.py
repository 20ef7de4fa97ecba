"""Cline and Roo Code: what a task's messages and its conversation say together, and what is counted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.hosts.cline.record_types import ROO_WHOLE_SINCE
from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes
from ctx_pipeline.model.tables import MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.settings import load
from ctx_pipeline_tests.factories import cline as made

SESSION = "1772359200000"


def parsed(host: str, *files: tuple[str, Any, int], hints: dict[str, str] | None = None) -> Parsed:
    """Return what becomes of files: (kind, value, generation); the highest generation is the current one."""
    newest = {kind: max(g for k, _, g in files if k == kind) for kind, _, _ in files}
    streams = tuple(
        StreamBytes(
            f"{list(newest).index(kind):016x}",
            kind,
            f"tasks/{SESSION}/{kind}.json",
            g,
            json.dumps(value).encode(),
            SESSION,
            None,
            g == newest[kind],
        )
        for kind, value, g in files
    )
    return discovery.host(host).records.parse(SessionInput(host, SESSION, streams, {SESSION: hints or {}}))


def counted(found: Parsed) -> list[tuple[int, int, int, int]]:
    """Return fresh input, output, cache writes and cache reads of the calls."""
    return [(c.input, c.output, c.cache_write_5m, c.cache_read) for c in (MODEL_CALLS.row(*row) for row in found.model_calls)]


@pytest.mark.feature("cline.usage")
@pytest.mark.parametrize(
    ("host", "provider", "protocol", "start", "expected"),
    [
        ("cline", "anthropic", None, made.START, (1000, 50, 100, 600)),
        ("cline", "litellm", None, made.START, (300, 50, 100, 600)),
        ("roo", "anthropic", "anthropic", made.START, (300, 50, 100, 600)),
        ("roo", "anthropic", "anthropic", ROO_WHOLE_SINCE // 1000 - 1, (1000, 50, 100, 600)),
        ("roo", "openai", "openai", ROO_WHOLE_SINCE // 1000 - 1, (300, 50, 100, 600)),
    ],
    ids=["beside the cache", "provider that includes it", "since 3.29.5", "before, Anthropic", "before, OpenAI"],
)
def test_whether_a_prompt_includes_the_cache_is_told_by_provider_protocol_and_date(host, provider, protocol, start, expected):
    more = {"apiProtocol": protocol} if protocol else {}
    log = made.Messages(start).used(1000, 50, read=600, write=100, cost=0.01, **more)
    metadata = {"model_usage": [{"ts": start, "model_id": "m", "model_provider_id": provider}]}

    found = parsed(host, ("messages", log.all, 0), ("metadata", metadata, 0))

    assert counted(found) == [expected]
    assert [MODEL_CALLS.row(*row).recorded_cost for row in found.model_calls] == [10_000_000]


@pytest.mark.feature("cline.usage")
def test_requests_that_a_restored_checkpoint_took_back_are_counted_by_the_sum_that_stands_for_them():
    whole = made.Messages().say("task", "go").used(10, 1).used(20, 2).used(30, 3).all
    restored = [*whole[:2], *made.Messages(made.START + 60_000).used(50, 5, name="deleted_api_reqs").all]

    found = parsed("cline", ("messages", whole, 0), ("messages", restored, 1))

    assert counted(found) == [(10, 1, 0, 0), (50, 5, 0, 0)]


@pytest.mark.feature("cline.usage")
def test_models_are_those_chosen_at_the_time_of_each_request():
    log = made.Messages().used(10, 1).used(20, 2).used(30, 3)
    chosen = [{"ts": made.START, "model_id": "one"}, {"ts": made.START + 1_500, "model_id": "two"}]

    found = parsed("cline", ("messages", log.all, 0), ("metadata", {"model_usage": chosen}, 0))

    assert [MODEL_CALLS.row(*row).model for row in found.model_calls] == ["one", "one", "two"]


@pytest.mark.feature("cline.tasks")
def test_calls_get_the_results_that_were_sent_to_the_model():
    found = parsed("cline", ("messages", made.cline_messages(), 0), ("history", made.cline_history(), 0))

    tools = [TOOL_CALLS.row(*row) for row in found.tool_calls]
    assert [(t.action, t.exit, t.is_error) for t in tools] == [
        ("read", None, False),
        ("shell", 1, True),
        ("edit", None, False),
        ("shell", None, True),
    ]
    assert [row[7] for row in found.events if row[6] == "tool_result"][-1] == "refused"
    assert tools[1].argv == ["pytest -q"], "the mark of a command that needs approval is no part of it"


@pytest.mark.feature("cline.tasks")
def test_without_the_conversation_a_call_has_the_output_that_was_shown():
    log = made.Messages().say("task", "go").ask("command", "ls").ask("command_output", "a").ask("command_output", "b").say("text", "Two.")

    found = parsed("cline", ("messages", log.all, 0))

    assert [row[9] for row in found.events if row[6] == "tool_result"] == ["a\nb"]


@pytest.mark.feature("cline.tasks")
def test_without_the_messages_the_conversation_is_read():
    found = parsed("roo", ("history", made.roo_history(), 0))

    assert [row[9] for row in found.events if row[6] == "prompt"] == ["name the owls"]
    assert found.facts.cwd == "/home/ada/owls"


@pytest.mark.feature("cline.tasks")
@pytest.mark.parametrize(
    ("rel", "kind"),
    [
        ("tasks/1/ui_messages.json", "messages"),
        ("tasks/1/claude_messages.json", "messages"),
        ("tasks/1/api_conversation_history.json", "history"),
        ("tasks/1/task_metadata.json", "metadata"),
        ("tasks/1/history_item.json", "item"),
        ("tasks/_index.json", "index"),
        ("state/taskHistory.json", "index"),
        ("sessions/s/s.json", "manifest"),
        ("sessions/s/s.messages.json", "cli"),
        ("secrets.json", None),
        ("settings/cline_mcp_settings.json", None),
        ("tasks/1/checkpoints/x", None),
    ],
)
def test_files_are_told_apart(rel, kind):
    host = discovery.host("cline")
    assert host.files.classify(rel) == kind
    if kind:
        assert host.files.enter(rel.split("/")[0])


@pytest.mark.feature("cline.tasks")
def test_an_index_names_folder_and_parent_of_its_tasks():
    files = discovery.host("roo").files
    assert files.hints is not None
    item = {"id": "t-1", "task": "go", "workspace": "/w", "parentTaskId": "t-0"}
    told = {(name, value) for task, name, value in files.hints("index", json.dumps({"entries": [item]}).encode()) if task == "t-1"}
    assert told == {("task", "go"), ("cwd", "/w"), ("parent", "t-0")}

    found = parsed("roo", ("messages", made.roo_messages(), 0), hints={"cwd": "/w", "parent": "t-0"})
    assert (found.facts.cwd, found.facts.parent_session) == ("/w", "t-0")


@pytest.mark.feature("cline.tasks")
def test_stores_are_found_in_every_editor(tmp_path: Path):
    settings = load({"HOME": str(tmp_path), "CLINE_DIR": str(tmp_path / "c"), "APPDATA": str(tmp_path / "a")})

    cline = [str(p.relative_to(tmp_path)) for p in settings.candidate_roots(discovery.host("cline"))]
    assert cline[:2] == ["c/data", ".cline/data"]
    assert {f"{base}/Code/User/globalStorage/saoudrizwan.claude-dev" for base in (".config", "Library/Application Support", "a")} <= set(
        cline
    )
    roo = settings.candidate_roots(discovery.host("roo"))
    assert {p.name for p in roo} == {"rooveterinaryinc.roo-cline"}


@pytest.mark.feature("hosts.samples")
def test_the_samples_are_what_their_factory_writes(tmp_path: Path):
    made.write(tmp_path)
    shipped = Path(made.__file__).parents[1] / "samples"

    for host in ("cline", "roo"):
        files = {p.relative_to(tmp_path): p.read_bytes() for p in (tmp_path / host).rglob("*") if p.is_file()}
        assert files == {p.relative_to(shipped): p.read_bytes() for p in (shipped / host / "home").rglob("*") if p.is_file()}


@pytest.mark.feature("cline.usage")
def test_answers_without_an_id_are_counted_in_each_thread_of_a_session():
    def messages(prompt: int) -> bytes:
        answer = {"role": "assistant", "content": "Done.", "metrics": {"inputTokens": prompt, "outputTokens": 1}}
        return json.dumps({"messages": [{"role": "user", "content": "count"}, answer]}).encode()

    streams = tuple(
        StreamBytes(f"{n:016x}", "cli", f"sessions/s/{name}.messages.json", 0, messages(prompt), thread)
        for n, (name, thread, prompt) in enumerate((("s", "s", 10), ("mate", "s/mate", 30)))
    )
    found = discovery.host("cline").records.parse(SessionInput("cline", "s", streams))

    assert sorted(counted(found)) == [(10, 1, 0, 0), (30, 1, 0, 0)]


@pytest.mark.feature("cline.tasks")
def test_what_the_person_typed_stands_in_tags_and_an_open_tag_holds_nothing():
    said = "<task>\n count <mode_notice>act</mode_notice> </task><feedback>  <answer when='now'>two</answer><task></tasks>"

    found = parsed("cline", ("history", [{"role": "user", "content": said}], 0))

    assert [row[9] for row in found.events if row[6] == "prompt"] == ["count", "two"]
