"""Sessions by hand, as examples of a signal: ``session().prompt("fix it").shell("pytest", exit=1).answer("done")``."""

from __future__ import annotations

from typing import Any

from ctx_pipeline.model.host_records import REASON, REFUSED
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, SESSIONS, THREADS, TOOL_CALLS

SECOND = 1_000_000
START = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z in microseconds."""


def session(
    session_id: str = "s1", *, host: str = "example", cwd: str | None = "/w/app", repository: str | None = None, start: int = START
) -> Builder:
    """Begin a session; each step is one second after the one before."""
    return Builder(session_id, host, cwd, repository, start)


class Builder:
    """Collects rows; every method returns the builder itself. Event ids are ``e0``, ``e1`` ... prefixed by the session."""

    def __init__(self, session_id: str, host: str, cwd: str | None, repository: str | None, start: int) -> None:
        self.session_id, self.host, self.cwd = session_id, host, cwd
        self.repository = repository if repository is not None else cwd
        self.start = start
        self.events: list[Any] = []
        self.calls: list[Any] = []
        self.model_calls: list[Any] = []
        self.threads: list[Any] = []
        self.thread = "main"
        self.call_key: str | None = None

    def prompt(self, text: str) -> Builder:
        """The person types."""
        self.event("prompt", "user", text)
        return self

    def answer(self, text: str) -> Builder:
        """The agent says."""
        self.event("answer", "assistant", text)
        return self

    def injected(self, text: str, subtype: str | None = None) -> Builder:
        """The host or a hook puts text in."""
        self.event("injected", "user", text, subtype=subtype)
        return self

    def other(self, kind: str, text: str = "", subtype: str | None = None) -> Builder:
        """Any other event."""
        self.event(kind, "system", text, subtype=subtype)
        return self

    def on(self, thread: str) -> Builder:
        """What follows happens in another thread."""
        self.thread = thread
        return self

    def subagent(self, thread: str, agent: str = "Explore", *, status: str = "completed") -> Builder:
        """What follows happens in the thread of a subagent, until :meth:`on` says otherwise."""
        self.threads.append(
            THREADS.row(
                thread, self.host, self.session_id, "subagent", "main", agent, None, self.cwd, None, None, [], self.start, self.start,
                0, 0, 0, status, None,
            )
        )  # fmt: skip
        return self.on(thread)

    def shell(
        self,
        command: str | list[str],
        *,
        exit: int | None = 0,  # noqa: A002 - reads as the status of the command
        text: str = "",
        failed: bool | None = None,
        answered: bool = True,
        refused: str | None = None,
    ) -> Builder:
        """A command and its result; ``refused`` as for :meth:`tool`."""
        argv = [command] if isinstance(command, str) else command
        return self.tool("Bash", action="shell", argv=argv, exit=exit, text=text, failed=failed, answered=answered, refused=refused)

    def model(
        self,
        context: int,
        output: int = 0,
        *,
        said: str = "",
        read: int = 0,
        written: int = 0,
        model: str = "claude-sonnet-4-5",
        after: float = 0.0,
        cost: int | None = None,
    ) -> Builder:
        """A model call with a prompt of so many tokens and what it said, ``after`` further seconds; tool calls that follow are its own."""
        self.start += int(after * SECOND)
        self.call_key = f"{self.session_id}.m{len(self.model_calls)}"
        event = self.event("answer", "assistant", said)
        self.model_calls.append(
            MODEL_CALLS.row(
                self.call_key, self.host, self.session_id, self.thread, event.ts, model, context - read - written, output, written, 0, read,
                0, context, None, None, 0, None, cost, None if cost is None else "list", False, True, None, "own", "stream", 0, 0, 1, 0,
            )
        )  # fmt: skip
        return self

    def edit(self, *paths: str, failed: bool = False, action: str = "edit") -> Builder:
        """A change of files."""
        return self.tool("Edit", action=action, paths=paths, failed=failed, exit=None)

    def tool(
        self,
        tool: str,
        *,
        action: str = "other",
        argv: list[str] | None = None,
        paths: tuple[str, ...] = (),
        exit: int | None = None,  # noqa: A002 - the same
        text: str = "",
        failed: bool | None = None,
        answered: bool = True,
        refused: str | None = None,
    ) -> Builder:
        """A tool call with its result; ``refused``: it never ran, since the person said no with these words (empty: without any)."""
        call_id = f"c{len(self.calls)}"
        call = self.event("tool_call", "assistant", " ".join(argv or paths), call_id=call_id)
        how = None if refused is None else REFUSED
        result = self.event("tool_result", "tool", text, call_id=call_id, subtype=how) if answered else None
        if refused:
            self.event(REASON[0], REASON[2], refused, call_id=call_id, subtype=REASON[1])
        exit = exit if refused is None else None  # noqa: A001 - the same
        wrong = refused is not None or (bool(exit) if failed is None else failed)
        self.calls.append(
            TOOL_CALLS.row(
                call_id, self.host, self.session_id, self.thread, call.seq, tool, action, list(paths), [], argv or [], exit, wrong, None,
                None, 0, len(text), call.ts, result.ts if result else None, call.event_id, result.event_id if result else None,
            )
        )  # fmt: skip
        return self

    def event(self, kind: str, actor: str, text: str, *, subtype: str | None = None, call_id: str | None = None) -> Any:
        """Add an event and return it."""
        n = len(self.events)
        call_key = self.call_key if actor == "assistant" else None
        row = EVENTS.row(
            f"{self.session_id}.e{n}", self.host, self.session_id, self.thread, n, self.start + n * SECOND, kind, subtype, actor, text,
            None, call_id, call_key, "stream", 0, n, n + 1, n,
        )  # fmt: skip
        self.events.append(row)
        return row

    def build(self) -> SessionView:
        """Return the view."""
        return SessionView(self.row(), self.events, self.calls, self.model_calls, self.threads)

    def row(self) -> Any:
        """Return the row of the session."""
        prompts = sum(e.kind == "prompt" for e in self.events)
        last = self.events[-1].ts if self.events else None
        return SESSIONS.row(
            self.session_id, self.host, "2026-01", None, "none", self.cwd, self.repository, "app", None, None, None, [], self.start, last,
            None, "completed", 1, len(self.events), prompts, len(self.model_calls), len(self.calls), sum(c.is_error for c in self.calls), 0,
            0, len(self.events), 0, f"hash-{self.session_id}-{len(self.events)}",
        )  # fmt: skip
