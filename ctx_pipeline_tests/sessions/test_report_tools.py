"""The reports as tools of an agent, and the documented shapes of what the commands print."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from ctx_pipeline.cli.session.writing import act
from ctx_pipeline.mcp_server.compression_tools import CompressionTools
from ctx_pipeline.mcp_server.report_tools import ARTIFACT_ACTIONS, CACHE_ACTIONS, GAIN_ACTIONS, HEATMAP_ACTIONS, ReportTools
from ctx_pipeline.mcp_server.session_tools import SessionTools
from ctx_pipeline.pipeline.sync import sync_at_once
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.cli.test_surface import documented
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.sessions.conftest import WORK, Shop

pytestmark = pytest.mark.feature("session.commands")


@pytest.fixture
def tools(own: Shop, monkeypatch) -> ReportTools:
    for name, value in own.settings.environ.items():
        monkeypatch.setenv(name, value)
    return ReportTools(own.settings, act)


def test_every_report_answers_as_a_tool(own: Shop, tools: ReportTools):
    cwd = str(own.clone)

    assert [f["path"] for f in tools.ctx_heatmap("status", cwd=cwd, limit=1).value["files"]] == ["shop/cart.py"]
    assert tools.ctx_heatmap("directory", cwd=cwd, depth=1).value["directories"][0]["directory"] == "shop"
    assert tools.ctx_heatmap("cold", cwd=cwd).value["cold"] is None
    assert [f["path"] for f in tools.ctx_cache("status", cwd=cwd).value["files"]] == ["shop/cart.py"]
    assert tools.ctx_cache("causes", cwd=cwd).value["again"][0]["cause"] == "compaction"
    assert tools.ctx_metrics(cwd=cwd).value["reads"] == 3
    assert tools.ctx_gain("report", cwd=cwd).value["session_id"] == WORK
    assert set(tools.ctx_gain("score", "all").value) == {"schema", "period", "score", "parts", "previous_score", "trend"}
    assert tools.ctx_wrapped("all").text.startswith("2026-03-01 to 2026-03-05: ")
    assert tools.ctx_verify().value["counts"]["fail"] == 0
    summary = tools.ctx_verify(summary=True).value
    passed, without = summary["counts"]["pass"], summary["counts"]["no data"]
    assert summary["passed"] == f"{passed} of {passed} checks with data passed; {without} have no data"
    assert tools.ctx_artifacts("list").value == {"artifacts": []}
    assert tools.ctx_artifacts("search", "nothing").value == {"results": []}
    assert tools.ctx_cache("invalidate", "shop/cart.py", cwd=cwd).value["by"] == "agent"
    assert tools.ctx_cache("status", cwd=cwd).value["files"] == []
    live = tools.ctx_gain("live", cwd=cwd).value
    assert set(live) == {"schema", "period", "session_id", "calls", "spent_nano", "avoidable_nano", "score"}
    assert tools.ctx_gain("reset").value["at"]


@pytest.mark.feature("mcp.kept-session-answers")
def test_a_report_on_one_session_is_worked_out_once_until_something_is_captured_or_said(own: Shop, tools: ReportTools, monkeypatch):
    sessions, window = SessionTools(own.settings, act), CompressionTools(own.settings)
    worked: list[str] = []
    for module, name in (
        ("sessions.reports.metrics", "metrics"),
        ("sessions.reports.gain", "gain"),
        ("sessions.states.state", "session_state"),
        ("sessions.states.state", "checkpoints"),
        ("sessions.states.state", "compared"),
        ("sessions.states.playbook", "playbook_of"),
        ("compression.compress", "captured"),
        ("mcp_server.report_tools", "window_files"),
    ):
        counted(monkeypatch, f"ctx_pipeline.{module}", name, worked)

    def ask() -> list[object]:
        return [
            *(sessions.ctx_session(action, session_id=WORK) for action in ("status", "checkpoints", "playbook", "diff")),
            *(tools.ctx_cache(action, session_id=WORK) for action in ("status", "causes")),
            *(tools.ctx_metrics(WORK, limit=limit) for limit in (1, 15)),
            *(tools.ctx_gain(action, session_id=WORK) for action in ("report", "score")),
            window.ctx_compress(session_id=WORK),
        ]

    first = ask()
    once = sorted(worked)
    assert ask() == first
    assert sorted(worked) == once
    assert {"metrics", "gain", "session_state", "checkpoints", "compared", "playbook_of", "captured", "window_files"} <= set(once)
    sessions.ctx_session("finding", "shop/cart.py:3 - the total is off", session_id=WORK)
    assert "the total is off" in str(ask()[0])
    assert worked.count("metrics") == 2 * once.count("metrics")


def counted(monkeypatch: pytest.MonkeyPatch, module: str, name: str, worked: list[str]) -> None:
    """Let a function note that it was called, and do what it does."""
    found = importlib.import_module(module)
    does = getattr(found, name)

    def noting(*words, **more):
        worked.append(name)
        return does(*words, **more)

    monkeypatch.setattr(found, name, noting)


@pytest.mark.feature("mcp.live-never-waits")
@pytest.mark.parametrize("lease", ["raw/segments", "normalized", "search/index", "forget"])
def test_live_says_what_it_did_not_capture_while_another_process_writes(own: Shop, tools: ReportTools, lease: str):
    before = tools.ctx_gain("live", session_id=WORK).value
    assert "not_captured" not in before
    with open_store(own.settings) as store, store.ledger.lease(lease):
        meanwhile = tools.ctx_gain("live", session_id=WORK).value
    assert meanwhile == before | {"not_captured": "what is new since the last capture: another process writes the store"}
    assert tools.ctx_gain("live", session_id=WORK).value == before


@pytest.mark.feature("mcp.live-never-waits")
def test_a_writer_that_comes_between_is_not_waited_for_either(own: Shop, monkeypatch):
    home = ClaudeHome(Path(own.settings.environ["CLAUDE_CONFIG_DIR"]))
    new = home.session("33333333-3333-4333-8333-333333333333", cwd=str(own.clone), mark="n")
    new.prompt("What is new?")
    new.save()
    with open_store(own.settings) as store, open_store(own.settings) as other:
        monkeypatch.setattr(store.ledger, "live_leases", dict)  # it was asked a moment too early
        with other.ledger.lease("raw/segments"):
            assert sync_at_once(store, own.settings) is None
        assert sum(r.totals.get("sessions_parsed", 0) for r in sync_at_once(store, own.settings)) == 1


@pytest.mark.feature("mcp.plain-recap")
def test_a_model_reads_the_recap_without_a_frame_and_with_every_figure(tools: ReportTools):
    answer = tools.ctx_wrapped("all")

    assert answer.text.isascii() or not any(0x2500 <= ord(letter) <= 0x259F for letter in answer.text)
    assert f"{answer.value['sessions']} sessions" in answer.text
    assert f"Top commands: {answer.value['commands'][0]['command']} {answer.value['commands'][0]['uses']}x" in answer.text
    assert "  " not in answer.text


@pytest.mark.feature("session.unknown-action")
@pytest.mark.parametrize(
    ("tool", "actions"),
    [("ctx_heatmap", HEATMAP_ACTIONS), ("ctx_cache", CACHE_ACTIONS), ("ctx_gain", GAIN_ACTIONS), ("ctx_artifacts", ARTIFACT_ACTIONS)],
)
def test_an_unknown_action_of_a_tool_lists_those_that_exist(tools: ReportTools, tool, actions):
    refused = getattr(tools, tool)("reboot")

    assert refused.is_error
    assert ", ".join(actions) in refused.content[0].text


LINES = [
    "session status",
    "session load",
    "session save",
    "session task x",
    "session finding x",
    "session decision x",
    "session list",
    "session cleanup",
    "session snapshot",
    "session restore",
    "session resume",
    "session playbook",
    "session checkpoints",
    "session diff --from start",
    "session profile",
    "heatmap",
    "cache",
    "metrics",
    "gain",
    "wrapped all",
    "verify",
    "artifacts",
]


def test_the_printed_objects_have_the_documented_keys(own: Shop, monkeypatch):
    for line in LINES:
        told = own.json(monkeypatch, *line.split())
        keys, inner = documented()[max((n for n in documented() if f"ctx {line} ".startswith(f"{n} ")), key=len)]
        assert [k for k in keys if k not in told] == [], line
        for key, wanted in inner.items():
            for row in told[key]:
                assert [k for k in wanted if k not in row] == [], (line, key)
