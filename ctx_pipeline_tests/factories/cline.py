"""Stores of Cline and Roo Code, made from the description of their formats in ``docs/hosts/cline.md``: nobody's tasks.

``python -m ctx_pipeline_tests.factories.cline FOLDER`` writes ``FOLDER/cline/home`` and ``FOLDER/roo/home``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TASK, ROO_TASK, CLI = "1772359200000", "0197a5e0-0000-7000-8000-00000000000a", "sess_0001"
START = 1_772_359_200_000
"""2026-03-01T10:00:00Z in milliseconds"""


class Messages:
    """Messages that a person sees, a second apart."""

    def __init__(self, start: int = START) -> None:
        self.all: list[dict[str, Any]] = []
        self.start = start

    def say(self, name: str, text: str = "", **more: Any) -> Messages:
        return self._add("say", name, text, more)

    def ask(self, name: str, text: str = "", **more: Any) -> Messages:
        return self._add("ask", name, text, more)

    def used(
        self, fresh: int, output: int, *, read: int = 0, write: int = 0, cost: float = 0, name: str = "api_req_started", **more: Any
    ) -> Messages:
        counts = {"tokensIn": fresh, "tokensOut": output, "cacheWrites": write, "cacheReads": read, "cost": cost, **more}
        return self.say(name, json.dumps({"request": "<task>…", **counts}))

    def _add(self, kind: str, name: str, text: str, more: dict[str, Any]) -> Messages:
        self.all.append({"ts": self.start + 1_000 * len(self.all), "type": kind, kind: name, "text": text, **more})
        return self


def environment(folder: str, model: str = "") -> dict[str, Any]:
    """Return the block that the extension adds to what it sends."""
    mode = f"# Current Mode\n<slug>code</slug>\n<model>{model}</model>\n" if model else ""
    where = f"# Current Working Directory ({folder}) Files\na.py\n"
    return {"type": "text", "text": f"<environment_details>\n{where}{mode}</environment_details>"}


def cline_messages() -> list[dict[str, Any]]:
    """A task of Cline: a read, a command that fails, an edit, a refused command, a restored checkpoint, subagents, an end."""
    told = {"modelInfo": {"providerId": "anthropic", "modelId": "claude-sonnet-4-5", "mode": "act"}}
    log = Messages()
    log.say("task", "count the birds").used(1000, 50, read=200, write=300, cost=0.012)
    log.say("reasoning", "Look first.", **told).say("text", "I look at the file.", **told)
    log.say("tool", json.dumps({"tool": "readFile", "path": "birds.txt", "content": "/home/ada/birds/birds.txt"}))
    log.used(100, 20, read=1500, cost=0.004)
    log.ask("command", "pytest -q REQ_APP").ask("command_output", "1 failed")
    log.used(120, 30, read=1500, cost=0.005).say("tool", json.dumps({"tool": "editedExistingFile", "path": "count.py", "diff": "-1\n+2"}))
    log.say("checkpoint_created").ask("command", "rm -rf nests")
    log.say("user_feedback", "keep the nests").used(500, 10, cost=0.002, name="deleted_api_reqs")
    log.say(
        "subagent_usage",
        json.dumps({"source": "subagents", "tokensIn": 40, "tokensOut": 4, "cacheWrites": 0, "cacheReads": 0, "cost": 0.001}),
    )
    log.used(90, 0, cost=0, cancelReason="user_cancelled").say("birdsong", "tweet").used(130, 15, cost=0.003)
    log.say("completion_result", "Two birds.").ask("completion_result")
    return log.all


def cline_history() -> list[dict[str, Any]]:
    """What was sent to the model in the same task."""

    def called(identity: str, name: str, **arguments: Any) -> dict[str, Any]:
        return {"type": "tool_use", "id": identity, "name": name, "input": arguments}

    def answer(identity: str, text: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": identity, "content": [{"type": "text", "text": text}]}

    where = environment("/home/ada/birds")
    return [
        {"role": "user", "content": [{"type": "text", "text": "<task>\ncount the birds\n</task>"}, where]},
        {"role": "assistant", "content": [called("toolu_1", "read_file", path="birds.txt")]},
        {"role": "user", "content": [answer("toolu_1", "wren\nowl"), where]},
        {"role": "assistant", "content": [called("toolu_2", "execute_command", command="pytest -q", requires_approval=True)]},
        {"role": "user", "content": [answer("toolu_2", "Command executed.\nOutput:\n1 failed\nExit code: 1")]},
        {"role": "assistant", "content": [called("toolu_3", "replace_in_file", path="count.py", diff="-1\n+2")]},
        {"role": "user", "content": [answer("toolu_3", "The content was successfully saved to count.py.")]},
        {"role": "assistant", "content": [called("toolu_4", "execute_command", command="rm -rf nests", requires_approval=True)]},
        {"role": "user", "content": [answer("toolu_4", "The user denied this operation.")]},
    ]


def roo_messages() -> list[dict[str, Any]]:
    """A task of Roo Code: calls as tags, a condensed context, prompts that include the cache."""
    log = Messages(START + 3_600_000)
    log.say("text", "name the owls").used(1000, 40, read=600, write=100, cost=0.01, apiProtocol="anthropic")
    log.ask("tool", json.dumps({"tool": "searchFiles", "path": "owls", "regex": "barn"}))
    log.ask("followup", json.dumps({"question": "Which barn?", "suggest": []})).say("user_feedback", "the red one")
    log.say("condense_context", contextCondense={"cost": 0.002, "prevContextTokens": 900, "newContextTokens": 90, "summary": "Owls."})
    log.ask("use_mcp_server", json.dumps({"type": "use_mcp_tool", "serverName": "birds", "toolName": "find", "arguments": "{}"}))
    log.say("mcp_server_response", "barn owl").used(300, 6, read=250, cost=0.001, apiProtocol="openai").say(
        "completion_result", "Barn owl."
    )
    return log.all


def roo_history() -> list[dict[str, Any]]:
    """What was sent to the model in the same task."""
    first = [{"type": "text", "text": "<task>\nname the owls\n</task>"}, environment("/home/ada/owls", "claude-opus-4-5")]
    call = "<search_files>\n<path>owls</path>\n<regex>barn</regex>\n</search_files>"
    result = [{"type": "text", "text": "[search_files for 'owls'] Result:\n\nFound 1 result."}]
    return [
        {"role": "user", "content": first, "ts": START + 3_600_000},
        {"role": "assistant", "content": [{"type": "text", "text": call}], "ts": START + 3_601_000},
        {"role": "user", "content": result, "ts": START + 3_602_000},
    ]


def cli_files() -> dict[str, Any]:
    """A session of Cline's command line, with one member of its team."""
    about = {"title": "Feather report", "git": {"url": "https://example.org/ada/feathers.git", "branch": "main"}}
    manifest = {"version": 1, "session_id": CLI, "started_at": "2026-03-01T12:00:00Z", "status": "completed", "provider": "cline",
                "model": "anthropic/claude-sonnet-4.5", "cwd": "/home/ada/feathers", "metadata": about}  # fmt: skip
    at = START + 7_200_000
    metrics = {"inputTokens": 700, "outputTokens": 31, "cacheReadTokens": 500, "cacheWriteTokens": 0, "cost": 0.0042}
    call = {"type": "tool_use", "id": "c1", "name": "run_commands", "input": {"commands": ["ls", "wc -l f"]}}
    typed = {"type": "text", "text": '<user_input mode="act">report the feathers</user_input>'}
    thought = {"type": "thinking", "thinking": "Count."}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": "3 f"}
    last = {**metrics, "inputTokens": 720, "cacheReadTokens": 700}
    messages = [
        {"id": "m1", "role": "user", "ts": at, "content": [typed]},
        {"id": "m2", "role": "assistant", "ts": at + 1000, "content": [thought, call], "metrics": metrics},
        {"id": "m3", "role": "user", "ts": at + 2000, "content": [answer]},
        {"id": "m4", "role": "assistant", "ts": at + 3000, "content": [{"type": "text", "text": "Three."}], "metrics": last},
    ]
    team = [
        {"id": "w1", "role": "assistant", "ts": at + 1500, "content": "One feather.", "metrics": {"inputTokens": 10, "outputTokens": 2}}
    ]
    return {
        f"{CLI}.json": manifest,
        f"{CLI}.messages.json": {"version": 1, "sessionId": CLI, "agent": "lead", "messages": messages},
        "mate.messages.json": {"version": 1, "sessionId": CLI, "agent": "mate", "messages": team},
    }


def write(folder: Path) -> None:
    """Write both homes."""
    item = {
        "id": TASK,
        "ts": START,
        "task": "count the birds",
        "cwdOnTaskInitialization": "/home/ada/birds",
        "modelId": "claude-sonnet-4-5",
    }
    used = [{"ts": START, "model_id": "claude-sonnet-4-5", "model_provider_id": "anthropic", "mode": "act"}]
    roo_item = {
        "id": ROO_TASK,
        "number": 1,
        "ts": START,
        "task": "name the owls",
        "workspace": "/home/ada/owls",
        "parentTaskId": "0197-parent",
    }
    files: dict[str, Any] = {
        f"cline/home/tasks/{TASK}/ui_messages.json": cline_messages(),
        f"cline/home/tasks/{TASK}/api_conversation_history.json": cline_history(),
        f"cline/home/tasks/{TASK}/task_metadata.json": {"files_in_context": [], "model_usage": used},
        "cline/home/state/taskHistory.json": [item],
        f"roo/home/tasks/{ROO_TASK}/ui_messages.json": roo_messages(),
        f"roo/home/tasks/{ROO_TASK}/api_conversation_history.json": roo_history(),
        f"roo/home/tasks/{ROO_TASK}/history_item.json": roo_item,
        "roo/home/tasks/_index.json": {"version": 1, "entries": [roo_item]},
        **{f"cline/home/sessions/{CLI}/{name}": value for name, value in cli_files().items()},
    }
    for rel, value in files.items():
        path = folder / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
