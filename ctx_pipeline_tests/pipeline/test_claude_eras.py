"""A Claude home with a session of every era, from files to tables and to live usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import claude as make
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use
from ctx_pipeline_tests.pipeline.ingest_toy import rows

if TYPE_CHECKING:
    from pathlib import Path

Tables = dict[str, list[dict[str, Any]]]
SLUG = "projects/-home-dev-shop"


def session_id(number: int) -> str:
    return f"{number:04d}0000-0000-4000-8000-000000000000"


FIRST, INLINE, BESIDE, UNDER, FORK, WORKFLOW, COMPACTED, WINDOWS, TEAM = map(session_id, range(1, 10))


def fill(home: ClaudeHome) -> None:
    """Write a session of each era, oldest first."""
    first = home.session(FIRST, version="0.2.35", branch=None).prompt("count the files")
    first.answer(text("seven"), usages=[make.usage(100, 20)], costUSD=0.0021, durationMs=900, requestId=None, message_id="")
    first.save()

    inline = home.session(INLINE, version="1.0.24").prompt("find the bug")
    inline.answer(tool_use("t1", "Task", prompt="look"), usages=[make.usage(10, 5)])
    asked, inline.last_uuid = inline.last_uuid, None
    inline.prompt("look", isSidechain=True).answer(text("found"), isSidechain=True, usages=[make.usage(7, 3)])
    inline.last_uuid = asked
    inline.result("t1", "found").plain("summary", summary="The bug", leafUuid=inline.last_uuid).save()

    home.session(BESIDE, version="2.0.28").prompt("delegate").answer(text("ok"), usages=[make.usage(11, 4)]).save()
    home.agent("aa11", BESIDE, layout="old", version="2.0.28").prompt("Warmup").answer(text("ready"), usages=[make.usage(2, 1)]).save()

    under = home.session(UNDER, version="2.1.60").prompt("ask beside").answer(text("yes"), usages=[make.usage(13, 6)])
    side = home.agent("aside_question-1", UNDER, version="2.1.60")
    side.records = [r | {"isSidechain": True, "agentId": "aside_question-1"} for r in under.records if isinstance(r, dict)]
    side.prompt("and why?").answer(text("because"), usages=[make.usage(17, 2)]).save()
    home.agent("acompact-9", UNDER, version="2.1.60").prompt("sum up").answer(text("short"), usages=[make.usage(19, 9)]).save()
    home.file(f"{SLUG}/{UNDER}/subagents/agent-aside_question-1.meta.json", {"agentType": "side-question"})
    under.progress("agent_progress", message={"message": {"usage": make.usage(9_999, 9_999)}})
    under.call("t3", "Bash", "<persisted-output>\nFull output saved to: /x/tool-results/t3.txt\n", command="cat log").save()
    home.file(f"{SLUG}/{UNDER}/tool-results/t3.txt", "the whole log")

    fork = home.session(FORK, version="2.1.80")
    fork.records = [r | {"sessionId": FORK} for r in under.records[:2] if isinstance(r, dict)]
    fork.last_uuid = None
    fork.prompt("another way", timestamp="2026-03-06T10:00:00.000Z")
    fork.answer(text("sure"), usages=[make.usage(23, 8)], timestamp="2026-03-06T10:00:05.000Z").save()

    flow = home.session(WORKFLOW, version="2.1.150").prompt("run the workflow").plain("pr-link", prNumber=3, prUrl="https://example.com/3")
    flow.attachment("goal_status", goal="ship").plain("permission-mode", permissionMode="plan")
    flow.system("api_error", error={"status": 529}, retryAttempt=1, usage=make.usage(1_000, 1_000))
    flow.plain("content-replacement", toolUseId="t9", replacement="[cleared]").save()
    home.agent("af01", WORKFLOW, workflow="wf_1").prompt("step").answer(text("done"), usages=[make.usage(29, 7)]).save()
    journal = [{"type": "started", "key": "k", "agentId": "af01"}, {"type": "result", "key": "k", "agentId": "af01", "result": "done"}]
    lines = "".join(json.dumps(r) + "\n" for r in journal)
    home.file(f"{SLUG}/{WORKFLOW}/subagents/workflows/wf_1/journal.jsonl", lines)
    home.file(f"{SLUG}/{WORKFLOW}/workflows/wf_1.json", {"status": "completed"})

    long = home.session(COMPACTED, version="2.1.120").prompt("go on").answer(text("one"), usages=[make.usage(31, 1)])
    long.compact(150_000, "This session is being continued from a previous conversation.")
    again = [r for r in long.records[:2] if isinstance(r, dict)]
    long.records += [r | {"uuid": f"again-{n}", "timestamp": "2026-03-05T11:00:00.000Z"} for n, r in enumerate(again)]
    long.system("microcompact_boundary", "cleared", microcompactMetadata={"tokensSaved": 5, "compactedToolIds": ["t"]}).save()

    other = home.session(WINDOWS, cwd="C:\\Users\\Mia\\code\\shop", slug="C--Users-Mia-code-shop").prompt("dir")
    other.call("t7", "Read", "x", file_path="\\\\server\\share\\notes.txt").save()

    team = home.session(TEAM).prompt("<teammate-message teammate_id='lead'>test it</teammate-message>", teamName="shop", agentName="tester")
    team.answer(text("green"), usages=[make.usage(37, 3)], teamName="shop", agentName="tester").save()

    home.file(f"todos/{FIRST}-agent-{FIRST}.json", [{"content": "count", "status": "completed"}])
    home.file(f"tasks/{WORKFLOW}/1.json", {"id": "1", "subject": "ship", "status": "pending"})
    home.file(f"file-history/{WORKFLOW}/abc@v1", "old text")
    home.file("history.jsonl", json.dumps({"display": "typed", "timestamp": 1_772_704_800_000, "sessionId": "gone"}) + "\n")
    stale = [{"sessionId": TEAM, "summary": "Stale words"}, {"sessionId": "nobody", "summary": "No such session"}]
    home.file(f"{SLUG}/sessions-index.json", {"version": 1, "entries": stale})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    root: Path = tmp_path_factory.mktemp("eras")
    fill(ClaudeHome(root / "home"))
    chosen = Settings(home=root / "store", timezone="UTC", demo_roots={"claude": (root / "home",)})
    live = usage("session", settings=chosen).rows
    with open_store(chosen) as store:
        ingest(store, chosen)
        assert usage("session", settings=chosen, stored=True).rows == live
        return {t: rows(store, t) for t in ("sessions", "threads", "events", "model_calls", "tool_calls")}


def of(tables: Tables, table: str, session: str) -> list[dict[str, Any]]:
    return [row for row in tables[table] if row["session_id"] == session]


@pytest.mark.feature("claude.versions")
@pytest.mark.parametrize(
    ("session", "threads", "tokens"),
    [
        (FIRST, {"": "main"}, [(100, 20)]),
        (INLINE, {"": "main", "/sidechain-1": "sidechain"}, [(7, 3), (10, 5)]),
        (BESIDE, {"": "main", "/aa11": "subagent"}, [(2, 1), (11, 4)]),
        (UNDER, {"": "main", "/aside_question-1": "subagent", "/acompact-9": "compact"}, [(10, 5), (13, 6), (17, 2), (19, 9)]),
        (FORK, {"": "main"}, [(23, 8)]),
        (WORKFLOW, {"": "main", "/af01": "subagent"}, [(29, 7)]),
        (COMPACTED, {"": "main"}, [(31, 1)]),
        (TEAM, {"": "main"}, [(37, 3)]),
    ],
)
def test_a_session_of_each_era_has_its_threads_and_its_usage_once(
    tables: Tables, session: str, threads: dict[str, str], tokens: list[tuple[int, int]]
) -> None:
    assert {t["thread_id"].removeprefix(session): t["kind"] for t in of(tables, "threads", session)} == threads
    assert sorted((c["input"], c["output"]) for c in of(tables, "model_calls", session) if c["owner"]) == tokens


@pytest.mark.feature("claude.versions")
def test_prices_of_the_first_era_and_copies_of_the_newer_ones_are_marked(tables: Tables) -> None:
    assert [c["recorded_cost"] for c in of(tables, "model_calls", FIRST)] == [2_100_000]
    (copied,) = [c for c in of(tables, "model_calls", FORK) if not c["owner"]]
    assert (copied["copy_of"], copied["input"]) == (UNDER, 13)
    titles = {s["session_id"]: (s["title"], s["version"]) for s in tables["sessions"]}
    assert titles[INLINE] == ("The bug", "1.0.24")
    assert titles[FIRST] == ("count the files", "0.2.35")


@pytest.mark.feature("claude.api-errors")
def test_a_retry_after_an_api_error_is_an_error_and_no_call(tables: Tables) -> None:
    (error,) = [e for e in of(tables, "events", WORKFLOW) if e["kind"] == "error"]
    assert (error["subtype"], json.loads(error["text"])["retryAttempt"]) == ("system/api_error", 1)
    assert [c["input"] for c in of(tables, "model_calls", WORKFLOW)] == [29]


@pytest.mark.feature("claude.context-replaced")
def test_what_was_replaced_in_the_window_is_kept_with_its_record(tables: Tables) -> None:
    (event,) = [e for e in of(tables, "events", WORKFLOW) if e["subtype"] == "content-replacement"]
    assert json.loads(event["text"]) == {"type": "content-replacement", "toolUseId": "t9", "replacement": "[cleared]"}
    boundaries = [e for e in of(tables, "events", COMPACTED) if e["kind"] == "compaction"]
    assert sorted(json.loads(e["text"]).get("tokensSaved", 0) for e in boundaries) == [0, 5]


@pytest.mark.feature("claude.workflows")
def test_a_workflow_its_journal_and_its_agents_join_the_session_that_started_them(tables: Tables) -> None:
    events = {e["subtype"]: e["thread_id"] for e in of(tables, "events", WORKFLOW)}
    assert {"workflow/started", "workflow/result", "file/workflow", "file/tasks"} <= set(events)
    assert [e["text"] for e in of(tables, "events", WORKFLOW) if e["subtype"] == "workflow/result"] == ['"done"']
    assert [t["parent_thread_id"] for t in of(tables, "threads", WORKFLOW)] == [None, WORKFLOW]


@pytest.mark.feature("claude.pull-requests")
def test_links_goals_and_permissions_are_events(tables: Tables) -> None:
    found = {e["subtype"]: (e["kind"], e["text"]) for e in of(tables, "events", WORKFLOW)}
    assert found["pr-link"][0] == "attachment"
    assert json.loads(found["pr-link"][1])["prUrl"] == "https://example.com/3"
    assert json.loads(found["attachment/goal_status"][1])["goal"] == "ship"
    assert found["permission-mode"] == ("permission", "plan")


@pytest.mark.feature("claude.session-index")
def test_the_index_of_sessions_makes_none_and_names_only_what_has_no_title(tables: Tables) -> None:
    assert {"gone", "nobody"}.isdisjoint(s["session_id"] for s in tables["sessions"])
    assert {s["session_id"]: (s["title"], s["title_source"]) for s in tables["sessions"]}[TEAM] == ("Stale words", "summary")


@pytest.mark.feature("claude.teammates")
def test_a_teammate_is_told_by_its_name_and_its_orders_are_no_prompts(tables: Tables) -> None:
    assert [t["agent"] for t in of(tables, "threads", TEAM)] == ["tester"]
    assert [e["subtype"] for e in of(tables, "events", TEAM) if e["kind"] == "injected"] == ["teammate-message"]


@pytest.mark.feature("host.windows-paths")
def test_a_session_of_windows_has_its_project_and_its_paths(tables: Tables) -> None:
    (session,) = of(tables, "sessions", WINDOWS)
    assert (session["cwd"], session["project"]) == ("C:\\Users\\Mia\\code\\shop", "shop")
    assert [c["paths"] for c in of(tables, "tool_calls", WINDOWS)] == [["\\\\server\\share\\notes.txt"]]


@pytest.mark.feature("claude.spilled-results")
def test_a_spilled_result_is_whole_in_the_table(tables: Tables) -> None:
    assert [e["text"] for e in of(tables, "events", UNDER) if e["kind"] == "tool_result"] == ["the whole log"]
