"""Writes a hand-made home of Claude Code: sessions, agents, side files, in the shapes that the client writes.

``ClaudeHome(folder)`` gives sessions; each method of a :class:`Transcript` appends one
record (``answer`` one line a block, as the client streams it) and ``save`` writes the
file. Uuids, message ids and times are counted up, so that a test can name them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "11111111-1111-4111-8111-111111111111"
MODEL = "claude-sonnet-4-5-20250929"


def usage(fresh: int = 10, output: int = 5, *, written: int = 0, hour: int | None = None, read: int = 0, **more: Any) -> dict[str, Any]:
    """Return the usage of a response; ``hour`` is the part of ``written`` that is kept for an hour."""
    value: dict[str, Any] = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "service_tier": "standard",
    }
    if hour is not None:
        value["cache_creation"] = {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour}
    return value | more


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": "c2lnbmF0dXJl"}


def tool_use(call_id: str, name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@dataclass
class Transcript:
    """The records of one file, in order."""

    path: Path
    session_id: str
    cwd: str = "/home/dev/shop"
    branch: str | None = "main"
    version: str = "2.1.31"
    agent_id: str | None = None
    started: datetime = datetime(2026, 3, 5, 10, 0, tzinfo=UTC)
    mark: str = ""
    """Put into uuids and message ids, so that two files do not share them by accident."""
    records: list[dict[str, Any] | bytes] = field(default_factory=list)
    last_uuid: str | None = None

    def _clock(self) -> str:
        when = self.started + timedelta(seconds=len(self.records))
        return when.strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"

    def chained(self, record: dict[str, Any]) -> dict[str, Any]:
        """Append a record with the envelope of chained records; fields of ``record`` win."""
        uuid = f"u{self.mark}-{len(self.records)}"
        envelope: dict[str, Any] = {
            "parentUuid": self.last_uuid,
            "isSidechain": self.agent_id is not None,
            "userType": "external",
            "cwd": self.cwd,
            "sessionId": self.session_id,
            "version": self.version,
            "uuid": uuid,
            "timestamp": self._clock(),
        }
        if self.branch is not None:
            envelope["gitBranch"] = self.branch
        if self.agent_id is not None:
            envelope["agentId"] = self.agent_id
        value = envelope | record
        self.records.append(value)
        self.last_uuid = value["uuid"]
        return value

    def plain(self, record_type: str, **fields: Any) -> Transcript:
        """Append a record without an envelope: titles, modes, queue operations."""
        self.records.append({"type": record_type, **fields})
        return self

    def raw(self, line: bytes) -> Transcript:
        """Append bytes as they are; the newline is the caller's."""
        self.records.append(line)
        return self

    def prompt(self, content: str | list[Any], **fields: Any) -> Transcript:
        self.chained({"type": "user", "message": {"role": "user", "content": content}, **fields})
        return self

    def answer(
        self, *blocks: dict[str, Any], message_id: str = "", usages: list[dict[str, Any]] | None = None, **fields: Any
    ) -> Transcript:
        """Append one line a block, all of one API message; ``usages`` are those of the lines (the last repeats)."""
        message_id = message_id or f"msg_{self.mark}{len(self.records)}"
        said = usages or [usage()]
        model = fields.pop("model", MODEL)
        for index, block in enumerate(blocks):
            message: dict[str, Any] = {
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": [block],
                "stop_reason": None,
                "usage": said[min(index, len(said) - 1)],
            }
            self.chained({"type": "assistant", "message": message, "requestId": f"req_{message_id}", **fields})
        return self

    def result(self, call_id: str, content: str | list[Any], *, is_error: bool | None = None, structured: Any = None) -> Transcript:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        if is_error is not None:
            block["is_error"] = is_error
        more = {} if structured is None else {"toolUseResult": structured}
        self.chained({"type": "user", "message": {"role": "user", "content": [block]}, **more})
        return self

    def call(
        self, call_id: str, name: str, said: str, /, *, is_error: bool | None = None, structured: Any = None, **arguments: Any
    ) -> Transcript:
        """Append a tool call and its result."""
        return self.answer(tool_use(call_id, name, **arguments)).result(call_id, said, is_error=is_error, structured=structured)

    def system(self, subtype: str | None, content: str | None = None, **fields: Any) -> Transcript:
        self.chained({"type": "system", "subtype": subtype, "content": content, **fields})
        return self

    def attachment(self, kind: str, **fields: Any) -> Transcript:
        self.chained({"type": "attachment", "attachment": {"type": kind, **fields}})
        return self

    def progress(self, kind: str, **fields: Any) -> Transcript:
        self.chained({"type": "progress", "data": {"type": kind, **fields}, "toolUseID": "toolu_0", "parentToolUseID": "toolu_0"})
        return self

    def compact(self, before: int, summary: str) -> Transcript:
        """Append a compaction: the boundary and the summary that goes on."""
        boundary = {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "parentUuid": None}
        self.chained({**boundary, "logicalParentUuid": self.last_uuid, "compactMetadata": {"trigger": "auto", "preTokens": before}})
        return self.prompt(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def lines(self) -> list[bytes]:
        return [r if isinstance(r, bytes) else json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in self.records]

    def data(self) -> bytes:
        return b"".join(self.lines())

    def save(self) -> Transcript:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self.data())
        return self


@dataclass
class ClaudeHome:
    """A home folder; sessions and agents are made here and written by their ``save``."""

    root: Path

    def session(self, session_id: str = SESSION, *, slug: str = "-home-dev-shop", **fields: Any) -> Transcript:
        """Return an empty main transcript."""
        mark = fields.pop("mark", session_id[:4])
        return Transcript(self.root / "projects" / slug / f"{session_id}.jsonl", session_id, mark=mark, **fields)

    def agent(
        self,
        agent_id: str,
        session_id: str = SESSION,
        *,
        slug: str = "-home-dev-shop",
        layout: str = "new",
        workflow: str = "",
        **fields: Any,
    ) -> Transcript:
        """Return an empty agent file: beside the transcript (``old``), or below the session's folder."""
        folder = self.root / "projects" / slug
        if layout == "new":
            folder = folder / session_id / "subagents"
        if workflow:
            folder = folder / "workflows" / workflow
        mark = fields.pop("mark", agent_id)
        return Transcript(folder / f"agent-{agent_id}.jsonl", session_id, agent_id=agent_id, mark=mark, **fields)

    def file(self, rel: str, content: bytes | str | dict[str, Any] | list[Any]) -> Path:
        """Write any other file of the home; dicts and lists as JSON."""
        path = self.root / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
        path.write_bytes(data)
        return path


def small_home(root: Path) -> ClaudeHome:
    """Write a home with one ordinary session of each kind of event, an agent, a spilled result and side files."""
    home = ClaudeHome(root)
    main = home.session()
    main.plain("mode", mode="normal", sessionId=SESSION)
    main.prompt("make the parser faster")
    main.answer(
        thinking("Look first."),
        text("I will read it."),
        tool_use("toolu_1", "Read", file_path="/home/dev/shop/parser.py", offset=10, limit=20),
        usages=[
            usage(3, 1, written=900, hour=300, read=100),
            usage(3, 4, written=900, hour=300, read=100),
            usage(3, 40, written=900, hour=300, read=100),
        ],
    )
    read = {
        "type": "text",
        "file": {"filePath": "/home/dev/shop/parser.py", "content": "x = 1", "startLine": 10, "numLines": 20, "totalLines": 99},
    }
    main.result("toolu_1", "    10\tx = 1", structured=read)
    main.call(
        "toolu_2",
        "Edit",
        "The file has been updated.",
        structured={
            "filePath": "/home/dev/shop/parser.py",
            "structuredPatch": [{"oldStart": 12, "oldLines": 2, "newStart": 12, "newLines": 3, "lines": []}],
        },
        file_path="/home/dev/shop/parser.py",
        old_string="x = 1",
        new_string="x = 2",
    )
    main.call("toolu_3", "Bash", "Exit code 2\nboom", is_error=True, structured="Error: Exit code 2\nboom", command="pytest -q")
    main.call(
        "toolu_4",
        "Bash",
        "<persisted-output>\nOutput too large (40KB). Full output saved to: /home/dev/.claude/x/tool-results/toolu_4.txt\n\nPreview:\nall",
        structured={"stdout": "all", "stderr": "", "interrupted": False, "isImage": False},
        command="cat log",
    )
    main.answer(tool_use("toolu_5", "Task", description="count", prompt="count the files", subagent_type="Explore"))
    main.result("toolu_5", [text("There are 7 files.")], structured={"status": "completed", "agentId": "a1b2c3d", "usage": usage(9, 999)})
    main.answer(text("Done."))
    main.plain("ai-title", aiTitle="Faster parser", sessionId=SESSION)
    main.save()
    agent = home.agent("a1b2c3d")
    agent.prompt("count the files").answer(text("There are 7 files."), usages=[usage(7, 8)]).save()
    folder = f"projects/-home-dev-shop/{SESSION}"
    home.file(f"{folder}/subagents/agent-a1b2c3d.meta.json", {"agentType": "Explore", "description": "count"})
    home.file(f"{folder}/tool-results/toolu_4.txt", "all of the log")
    home.file(f"todos/{SESSION}-agent-{SESSION}.json", [{"content": "measure", "status": "completed"}])
    home.file("settings.json", {"cleanupPeriodDays": 45})
    home.file("history.jsonl", json.dumps({"display": "make the parser faster", "timestamp": 1772704800000, "sessionId": SESSION}) + "\n")
    return home
