"""A story of several sessions in the homes of both agents, learned as a run learns it, and asked through the real hooks.

``Story(environ).day(said("we use pnpm here"), ran("pnpm test")).learn()`` writes transcripts in the shapes of
Claude Code or Codex, takes them through every stage, and ``before``, ``failed``, ``prompt``
and ``start`` return what ``ctx hook`` tells a new session.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ctx_pipeline
from ctx_pipeline import settings as settings_module
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.memories import Memory

_BEGUN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT"
    " written to the file). To tell you how to proceed, the user said:\n"
)
_HERE = str(Path(ctx_pipeline.__file__).parents[1])
_STEPS = ("ingest", "derive", "consolidate", "index_memory")


class Step(NamedTuple):
    """One thing that happened in a session."""

    kind: str
    what: str
    output: str = ""
    status: int = 0
    more: tuple[str, ...] = ()


def said(words: str) -> Step:
    """The person types."""
    return Step("prompt", words)


def ran(command: str, output: str = "", status: int = 0) -> Step:
    """The agent runs a command."""
    return Step("shell", command, output, status)


def refused(command: str, reason: str) -> Step:
    """The person refuses a command, in words."""
    return Step("refused", command, reason)


def stopped() -> Step:
    """The person stops the agent."""
    return Step("stopped", "")


def edited(path: str, old: str, new: str) -> Step:
    """The agent replaces a text of a file."""
    return Step("edit", path, more=(old, new))


def answered(words: str) -> Step:
    """The agent answers."""
    return Step("answer", words)


def looked(path: str, content: str) -> Step:
    """The agent reads a file."""
    return Step("read", path, content)


class Story:
    """Sessions of one person, a day apart."""

    def __init__(self, environ: Mapping[str, str], folder: str | Path | None = None) -> None:
        self.environ = environ
        self.folder = str(folder or Path(environ["HOME"]).parent / "shop")
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        self._days = self._asked = 0

    def day(self, *steps: Step, host: str = "claude", folder: str | Path | None = None, remote: str = "") -> Story:
        """Add a session of the next day."""
        self._days += 1
        where = str(folder or self.folder)
        (self._claude if host == "claude" else self._codex)(steps, where, remote)
        return self

    def _claude(self, steps: tuple[Step, ...], where: str, remote: str) -> None:
        name = f"{self._days:08d}-1111-4111-8111-111111111111"
        main = ClaudeHome(Path(self.environ["CLAUDE_CONFIG_DIR"])).session(
            name, cwd=where, slug=where.replace("/", "-"), started=_BEGUN + timedelta(days=self._days), mark=f"d{self._days}"
        )
        for number, one in enumerate(steps):
            call = f"toolu_{self._days}_{number}"
            if one.kind == "prompt":
                main.prompt(one.what)
            elif one.kind == "stopped":
                main.prompt([text("[Request interrupted by user]")])
            elif one.kind == "answer":
                main.answer(text(one.what))
            elif one.kind == "read":
                main.call(call, "Read", one.output, file_path=f"{where}/{one.what}")
            elif one.kind == "edit":
                path = f"{where}/{one.what}"
                changed = {"old_string": one.more[0], "new_string": one.more[1]}
                main.call(call, "Edit", f"The file {path} has been updated.", file_path=path, **changed)
            elif one.kind == "refused":
                answer = _REFUSED + one.output
                main.call(call, "Bash", answer, is_error=True, structured=f"Error: {answer}", command=one.what)
            else:
                bad = f"Exit code {one.status}\n{one.output}" if one.status else one.output
                shape = f"Error: {bad}" if one.status else {"stdout": one.output, "stderr": "", "interrupted": False}
                main.call(call, "Bash", bad, is_error=bool(one.status), structured=shape, command=one.what)
        main.save()

    def _codex(self, steps: tuple[Step, ...], where: str, remote: str) -> None:
        thread = f"019ca9d4-0000-7000-8000-{self._days:012d}"
        begin = self._days * 86_400
        git = {"git": {"branch": "main", "repository_url": remote}} if remote else {}
        records = [codex.meta(begin, thread, cwd=where, **git), codex.context(begin + 1, cwd=where)]
        for number, one in enumerate(steps):
            now, call = begin + 10 * (number + 1), f"call_{self._days}_{number}"
            if one.kind == "prompt":
                records += [codex.message(now, "user", one.what), codex.event(now, "user_message", message=one.what)]
            elif one.kind == "answer":
                records += [codex.message(now, "assistant", one.what), codex.event(now, "agent_message", message=one.what)]
            else:
                arguments = json.dumps({"cmd": one.what, "workdir": where})
                told = f"Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code {one.status}\nOutput:\n{one.output}\n"
                records += [
                    codex.item(now, "function_call", name="exec_command", call_id=call, arguments=arguments),
                    codex.item(now + 1, "function_call_output", call_id=call, output=told),
                ]
        codex.write(Path(self.environ["CODEX_HOME"]), records, thread)

    def learn(self) -> Story:
        """Take every transcript through the stages of a run, up to what hooks read."""
        settings = settings_module.load(self.environ)
        with open_store(settings) as store:
            for name in _STEPS:
                for report in step(name, store, settings):
                    assert not report.failed_partitions, report
        return self

    def memories(self) -> list[Memory]:
        """Return every lesson that hooks may tell."""
        index = MemoryIndex(Path(self.environ["CTX_HOME"]) / "memory.db")
        try:
            return index.of_places(allowed=lambda *_: True)
        finally:
            index.close()

    def ask(self, hook: Callable[..., str], event: str, *, host: str = "claude", session: str = "", **fields: Any) -> str:
        """Return the note that a hook of a new session prints; empty where it is silent."""
        self._asked += 1
        payload = {"session_id": session or f"new-{self._asked}", "cwd": self.folder, "hook_event_name": event} | fields
        # the program that is tried, whatever else is installed
        printed = hook({**self.environ, "PYTHONPATH": _HERE}, payload, host=host)
        return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"]) if printed else ""
