"""Homes whose sessions were compacted, had a subagent and took a turn back, for tests of context windows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, text, thinking, tool_use, usage

if TYPE_CHECKING:
    from pathlib import Path

AGENT = "a1b2c3d"
SECRET = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3h2"
"""Looks like a token of GitHub and is none."""


def claude_home(root: Path) -> None:
    """Write one session: two turns, a subagent, a compaction, a turn after it."""
    home = ClaudeHome(root)
    main = home.session()
    main.prompt("make the parser faster")
    main.answer(thinking("Look first."), tool_use("toolu_1", "Read", file_path="/home/dev/shop/parser.py"), usages=[usage(5000)])
    main.result("toolu_1", "x = 1\n" * 50)
    main.answer(text("It is slow because of x."), usages=[usage(5200)])
    main.prompt("then mend it")
    main.answer(tool_use("toolu_2", "Task", description="count", prompt="count the files", subagent_type="Explore"), usages=[usage(5300)])
    main.result("toolu_2", [text("There are 7 files.")], structured={"status": "completed", "agentId": AGENT})
    main.system("turn_duration", durationMs=5)
    main.compact(5400, "The parser was slow; it is being mended.")
    main.answer(text("I go on mending."), usages=[usage(4100)])
    main.save()
    agent = home.agent(AGENT)
    agent.prompt("count the files").answer(text("There are 7 files."), usages=[usage(700)]).save()


def codex_home(root: Path) -> None:
    """Write one session that was compacted twice over: the record lists the messages that stay, one of them holds a secret."""
    asked = f"use the token {SECRET} to mend the parser"
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": asked}]}, {"type": "compaction"}]
    records = [
        codex.meta(0, base_instructions={"text": "You are careful."}),
        codex.context(1),
        codex.event(2, "user_message", message=asked),
        codex.item(3, "function_call", name="exec_command", call_id="call_1", arguments=json.dumps({"cmd": "make"})),
        codex.item(4, "function_call_output", call_id="call_1", output="made\n" * 40),
        codex.tokens(5, codex.usage(900, 0, 20), codex.usage(900, 0, 20)),
        codex.line(6, "compacted", {"message": "", "replacement_history": kept}),
        codex.event(7, "context_compacted"),
        codex.event(8, "agent_message", message="done", phase="final_answer"),
        codex.tokens(9, codex.usage(1300, 0, 30), codex.usage(400, 0, 10)),
        codex.event(10, "task_complete"),
    ]
    codex.write(root, records)


__all__ = ["AGENT", "SECRET", "SESSION", "claude_home", "codex_home"]
