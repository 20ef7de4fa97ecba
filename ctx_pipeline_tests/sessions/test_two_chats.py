"""Two chats about one repository, for each pair of agents: through the hooks that were entered, and a real client of the server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from ctx_pipeline.errors import StoreError
from ctx_pipeline.memory.prompt_block import estimate
from ctx_pipeline.storage.ledger import Ledger
from ctx_pipeline_tests import preloaded, processes
from ctx_pipeline_tests.factories import codex, patient_hook
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.sessions.conftest import repository
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

PASSED = "test result: ok. 3 passed; 0 failed; 0 ignored\n"
RUNNING = "   Compiling shop v0.1.0\n"


@dataclass
class Chat:
    """A chat of an agent: what it did so far is its transcript, which is written anew after each step."""

    host: str
    session_id: str
    cwd: Path
    root: Path
    began: datetime
    steps: list[tuple[str, str, str]] = field(default_factory=list)

    def did(self, *steps: tuple[str, str, str]) -> Chat:
        """Append steps: prompt, edit (a path and its text), run (a command and its output), runs (one that has not ended), says."""
        self.steps += steps
        self._write()
        return self

    @property
    def path(self) -> Path:
        """The transcript."""
        return self._write()

    def _write(self) -> Path:
        return self._claude() if self.host == "claude" else self._codex()

    def _claude(self) -> Path:
        made = ClaudeHome(self.root).session(self.session_id, cwd=str(self.cwd), started=self.began)
        for n, (what, first, second) in enumerate(self.steps):
            if what == "prompt":
                made.prompt(first)
            elif what == "edit":
                made.call(f"t{n}", "Edit", "done", file_path=f"{self.cwd}/{first}", old_string="a", new_string=second)
            elif what == "run":
                made.call(f"t{n}", "Bash", second, command=first, structured={"stdout": second, "stderr": "", "interrupted": False})
            elif what == "runs":
                told = f"Command running in background with ID: b{n}"
                made.call(
                    f"t{n}", "Bash", told, command=first, run_in_background=True, structured={"stdout": "", "backgroundTaskId": f"b{n}"}
                )
            elif what == "says":
                made.answer(text(first))
            else:
                made.compact(150_000, "A summary that leaves things out.")
        return made.save().path

    def _codex(self) -> Path:
        start = (self.began - codex.BIRTH).total_seconds()
        records = [codex.meta(start, self.session_id, cwd=str(self.cwd)), codex.context(start, cwd=str(self.cwd))]
        for n, (what, first, second) in enumerate(self.steps):
            now = start + 5 * n
            if what == "prompt":
                records.append(codex.event(now, "user_message", message=first))
            elif what == "edit":
                patch = f"*** Begin Patch\n*** Update File: {self.cwd}/{first}\n@@\n-a\n+{second}\n*** End Patch"
                records.append(codex.item(now, "custom_tool_call", name="apply_patch", call_id=f"c{n}", input=patch))
                done = f"Success. Updated the following files:\nM {first}\n"
                records.append(codex.item(now + 1, "custom_tool_call_output", call_id=f"c{n}", output=done))
            elif what in ("run", "runs"):
                ended = "Process exited with code 0" if what == "run" else f"Process running with session ID {n}"
                arguments = json.dumps({"cmd": first})
                records.append(codex.item(now, "function_call", name="exec_command", call_id=f"c{n}", arguments=arguments))
                output = f"Wall time: 1.0 seconds\n{ended}\nOutput:\n{second}"
                records.append(codex.item(now + 1, "function_call_output", call_id=f"c{n}", output=output))
            elif what == "says":
                records.append(codex.event(now, "agent_message", message=first, phase="final_answer"))
            else:
                records.append(codex.line(now, "compacted", {"message": "A summary that leaves things out."}))
        return codex.write(self.root, records, self.session_id)


@dataclass
class Machine:
    """A person's machine: homes of both agents, a store, a repository and the folder above it."""

    environ: dict[str, str]
    repository: Path
    above: Path

    def chat(self, host: str, number: int, *, cwd: Path | None = None, minutes_ago: int = 0) -> Chat:
        root = Path(self.environ["CLAUDE_CONFIG_DIR" if host == "claude" else "CODEX_HOME"])
        began = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=minutes_ago)
        return Chat(host, f"{number}1111111-1111-7111-8111-111111111111", cwd or self.repository, root, began)

    def ctx(self, *words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command as the person does."""
        return preloaded.run(words, env=self.environ, cwd=self.repository, stdin=answer, seconds=250)

    def entered(self, host: str, event: str) -> list[str]:
        """Return the words of the hook that stands in the agent's own settings."""
        home, name = ("CLAUDE_CONFIG_DIR", "settings.json") if host == "claude" else ("CODEX_HOME", "hooks.json")
        file = Path(self.environ[home], name)
        (group,) = json.loads(file.read_text())["hooks"][event]
        words = shlex.split(group["hooks"][0]["command"])
        return words[words.index("hook") + 1 :]

    def hook(self, chat: Chat, event: str, **more: Any) -> str:
        """Run the hook of an event as the agent of a chat does, and return what the chat is told."""
        named = {"session_id": chat.session_id, "cwd": str(chat.cwd), "hook_event_name": event, "permission_mode": "default"}
        transcript = str(chat.path) if chat.steps else None
        payload = {**named, "transcript_path": transcript, **more}
        process = processes.start(
            patient_hook.command(*self.entered(chat.host, event)),
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = process.communicate(json.dumps(payload).encode(), timeout=200)
        assert (process.returncode, err) == (0, b"")
        return json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""

    def starts(self, chat: Chat, source: str = "startup") -> str:
        return self.hook(chat, "SessionStart", source=source)

    def stops(self, chat: Chat) -> None:
        """End a turn: the hook captures beside the agent, and the store has the chat soon."""
        lines = len(chat.path.read_bytes().splitlines())
        assert self.hook(chat, "Stop", stop_hook_active=False) == ""
        assert eventually(lambda: self.captured_lines(chat) == lines)

    def captured_lines(self, chat: Chat) -> int:
        if not (Path(self.environ["CTX_HOME"]) / "ledger.db").exists():
            return 0
        with suppress(StoreError), closing(Ledger(Path(self.environ["CTX_HOME"]) / "ledger.db", read_only=True)) as ledger:
            row = ledger.session(chat.host, chat.session_id)
            return int(row.rows.get("lines") or 0) if row else 0
        return 0  # the tables are being made

    def asks(self, chat: Chat, *actions: str, between: Callable[[], None] = lambda: None) -> list[str]:
        """Return what the server, as the agent of a chat starts it, answers to ctx_session, before and after something happens."""
        # Claude Code tells a server its session; Codex does not
        own = {"CLAUDE_CODE_SESSION_ID": chat.session_id} if chat.host == "claude" else {}
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "ctx_pipeline", "mcp"], env={**self.environ, **own}, cwd=chat.cwd
        )
        answers: list[str] = []

        async def conversation() -> None:
            with anyio.fail_after(200):
                async with Client(stdio_client(command)) as client:
                    for happens in (between, lambda: None):
                        for action in actions:
                            result = await client.call_tool("ctx_session", {"action": action})
                            answers.append(f"{'error: ' if result.is_error else ''}{result.content[0].text}")  # type: ignore[union-attr]
                        await anyio.to_thread.run_sync(happens)

        anyio.run(conversation)
        return answers


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    environ = environment(tmp_path)
    for name in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        Path(environ[name]).mkdir(exist_ok=True)
    environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    work = tmp_path / "work"
    return Machine(environ, repository(work / "shop", "git@example.com:acme/shop.git"), work)


@pytest.mark.feature("session.two-chats")
@pytest.mark.parametrize(("first", "second"), [("claude", "codex"), ("codex", "claude")])
def test_a_second_chat_goes_on_where_the_first_one_stood(machine: Machine, first: str, second: str):
    # the person is asked in plain words, and may say no
    asked = machine.ctx("hooks", "install", second, "--handoff", answer="n\n")
    assert asked.returncode == 1
    assert "where the last session of the repository stood, at most 500 tokens" in " ".join(asked.stderr.split())
    for host in {first, second}:
        assert machine.ctx("hooks", "install", host, "--handoff", answer="y\n").returncode == 0

    one = machine.chat(first, 1, minutes_ago=180)
    assert machine.starts(one) == ""  # nothing is known here yet
    one.did(
        ("prompt", "Take discounts off the sum of the cart", ""),
        ("edit", "src/cart.rs", "b"),
        ("runs", "cargo test", RUNNING),
        ("prompt", "and write the changelog", ""),
        ("says", "The changelog is next.", ""),
    )
    machine.stops(one)

    two = machine.chat(second, 2)
    told = machine.starts(two)
    for line in (
        "- Asked first: “Take discounts off the sum of the cart”",
        "- Asked last: “and write the changelog”",
        "- Changed files, the last first: src/cart.rs",
        "- Last test run: `cargo test` had not ended",
        "- The last answer: “The changelog is next.”",
    ):
        assert line in told.splitlines(), told
    assert f"{'claude --resume' if first == 'claude' else 'codex resume'} {one.session_id}" in told
    assert "passed" not in told
    assert estimate(told) <= 500
    assert machine.starts(two) == ""  # once

    # the server says the same, before the second chat was captured and after
    two.did(("prompt", "go on", ""), ("edit", "CHANGELOG.md", "c"), ("run", "cargo test", PASSED))
    for answer in machine.asks(two, "load", "resume", "restore", between=lambda: machine.stops(two)):
        assert "src/cart.rs" in answer
        assert "go on" not in answer
        assert "passed" not in answer
        assert not answer.startswith("error: ")

    # cleared, the second chat is another session, and is told of what it was
    cleared = machine.chat(second, 3)
    told = machine.starts(cleared, "clear")
    assert "- Changed files, the last first: CHANGELOG.md" in told
    assert "`cargo test` passed (3/3)" in told
    assert f"- Another session here: {first} {one.session_id[:8]} “Take discounts off the sum of the cart”" in told
    assert estimate(told) <= 500

    # the first chat is resumed and told of what happened since; the second is not, since nothing did
    assert "- Changed files, the last first: CHANGELOG.md" in machine.starts(one, "resume")
    assert machine.starts(two, "resume") == ""

    # after a compaction a chat is told of itself
    two.did(("compacts", "", ""))
    own = machine.starts(two, "compact")
    assert "- Asked: “go on”" in own
    assert "discounts" not in own
    assert machine.starts(two, "compact") == ""

    # what somebody does in the folder above says nothing of the repository
    outside = machine.chat(first, 4, cwd=machine.above)
    outside.did(("prompt", "Tidy the folder of all projects", ""), ("edit", "src/cart.rs", "d"), ("says", "Tidied.", ""))
    machine.stops(outside)
    three = machine.chat(second, 5)
    assert "Tidy" not in machine.starts(three)
    assert all("Tidy" not in answer for answer in machine.asks(three, "load", "resume", "restore"))
