"""Subagents that were started and of which the history holds no record are told, and not denied."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import claude

OTHER, FAILED = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"


@pytest.fixture
def started(bare: Ctx) -> Ctx:
    """Three sessions: subagents without a record that told of 33,946 and 1,054 tokens, one that told nothing, one that never began."""
    home = claude.ClaudeHome(Path(bare.folder) / "claude")
    main = home.session()
    main.prompt("build it")
    for call, spent in (("t1", 33_946), ("t2", 1_054)):
        main.answer(claude.tool_use(call, "Agent", description="count", prompt="count the files", subagent_type="general-purpose"))
        main.result(
            call,
            [
                claude.text("A note says <usage>total_tokens: 999\n</usage>."),
                claude.text(f"agentId: a{call}\n<usage>total_tokens: {spent}\ntool_uses: 2</usage>"),
            ],
        )
    main.answer(claude.text("done")).save()
    silent = home.session(OTHER)
    silent.prompt("look").answer(claude.tool_use("t3", "Task", description="look", prompt="look", subagent_type="Explore"))
    silent.result("t3", [claude.text("Nothing there.")]).answer(claude.text("done")).save()
    failed = home.session(FAILED)
    failed.prompt("look").answer(claude.tool_use("t4", "Task", description="look", prompt="look", subagent_type="nobody"))
    failed.result("t4", "Agent type 'nobody' not found", is_error=True).answer(claude.text("done")).save()
    bare.environ["CLAUDE_CONFIG_DIR"] = str(Path(bare.folder) / "claude")
    bare("run")
    return bare


@pytest.mark.feature("show.unrecorded-subagents")
def test_subagents_without_a_record_are_told_with_what_their_answers_say(started: Ctx):
    shown = started("show", claude.SESSION, "--all").stdout

    told = "2 subagents were started whose records are not in the history (their answers tell about 35.0 k tokens, which no total holds)"
    assert told in " ".join(shown.split())
    assert "no subagent worked" not in shown
    assert "no record of a subagent is in the history" in " ".join(shown.split())
    assert started.json("show", claude.SESSION)["unrecorded_subagents"] == {"agents": 2, "tokens": 35_000}
    quiet = started("show", OTHER).stdout
    assert "1 subagent was started whose records are not in the history\n" in quiet
    failed = started("show", FAILED, "--all").stdout
    assert "whose records are not" not in failed
    assert "no subagent worked" in failed
    by_thread = " ".join(started("usage", "thread").stdout.split())
    assert by_thread.endswith(
        "3 subagents were started whose records are not in the history (their answers tell about 35.0 k tokens, which no total holds)"
    )
    assert "were started" not in started("usage", "thread", "--since", "2027-01-01").stdout
    assert "were started" not in started("usage", "thread", "--host", "codex").stdout
