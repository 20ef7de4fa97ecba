"""Executables that stand for installed agents: they take the documented arguments and print the documented streams."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# the path of an interpreter may have spaces, which the first line of a script cannot
_SCRIPT = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
'''
import json, os, subprocess, sys, time
home = os.path.dirname(os.path.abspath(__file__))
question = sys.stdin.read()
given = {{"argv": sys.argv[1:], "cwd": os.getcwd(), "files": os.listdir("."), "question": question, "environ": dict(os.environ)}}
with open(os.path.join(home, "seen.json"), "w") as file:
    json.dump(given, file)
plan = json.load(open(os.path.join(home, "plan.json")))
for line in plan["lines"]:
    print(line if isinstance(line, str) else json.dumps(line), flush=True)
if plan.get("hang"):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.path.join(home, "started"), "w") as file:
        file.write(str(child.pid))
    os.rename(file.name, os.path.join(home, "child"))
    time.sleep(600)
sys.stderr.write(plan.get("complaint", ""))
sys.exit(plan.get("status", 0))
"""


def install(folder: Path, name: str, lines: list[Any], **plan: Any) -> Path:
    """Put an agent into a folder that prints these lines; it writes what it was given to ``seen.json`` beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(_SCRIPT.format(python=sys.executable))
    path.chmod(0o700)
    (folder / "plan.json").write_text(json.dumps({"lines": lines, **plan}))
    return path


def seen(folder: Path) -> dict[str, Any]:
    """Return what the agent was given: argv, cwd, files of the folder, question, environ."""
    found: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return found


def path_of(folder: Path, environ: Mapping[str, str] = os.environ) -> str:
    """Return a PATH with the folder first."""
    return f"{folder}{os.pathsep}{environ.get('PATH', '')}"


def claude_stream(text: str, *, cost: float = 0.0123, **more: Any) -> list[Any]:
    """What ``claude -p --output-format stream-json --verbose`` prints around an answer."""
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 1_000, "cache_read_input_tokens": 20_000, "output_tokens": 250}
    return [
        {"type": "system", "subtype": "init", "cwd": "/tmp", "session_id": "s", "tools": [], "model": "claude-sonnet-4-5"},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}, "session_id": "s"},
        {"type": "result", "subtype": "success", "is_error": False, "result": text, "total_cost_usd": cost, "usage": usage, **more},
    ]


def codex_stream(text: str) -> list[Any]:
    """What ``codex exec --json`` prints around an answer."""
    return [
        {"type": "thread.started", "thread_id": "0199-x"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning", "text": "thinking"}},
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}},
        {"type": "turn.completed", "usage": {"input_tokens": 900, "cached_input_tokens": 400, "output_tokens": 70}},
    ]
