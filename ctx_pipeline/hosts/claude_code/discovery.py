"""Which files of a Claude Code home are captured, and whose they are.

Layout by version: agent files lay beside the transcript until about 2.1.1x and lie in
``<session>/subagents/`` since; workflows put theirs one level deeper.
"""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

from ctx_pipeline.hosts._values import secretless
from ctx_pipeline.model.codec import digest, micros
from ctx_pipeline.model.declared import WITHHELD
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctx_pipeline.hosts.claude_code.record_types import Head

SESSION_KINDS = frozenset(
    {"transcript", "agent", "agent_meta", "journal", "workflow", "tool_result", "todos", "tasks", "file_history"},
)

USAGE_KINDS = frozenset({"transcript", "agent", "journal"})
"""Kinds of streams whose lines can carry usage."""

DEFAULT_RETENTION = 30
"""Days after which Claude Code sweeps transcripts when settings.json does not say."""

_TOP = frozenset({"projects", "todos", "tasks", "file-history", "plans"})
_FILES = {"history.jsonl": "history", "settings.json": "settings"}
_SAFE = lazy_pattern(r"[A-Za-z0-9._-]{1,128}\Z")
_UUID = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_TO_DO_LIST = lazy_pattern(r"(?P<session>.+)-agent-(?P<agent>[^-].*)\.json\Z")
_SESSION_ID = lazy_pattern(rb'(?<!\\)"sessionId"\s*:\s*"([^"\\]{1,128})"')
_TIME = lazy_pattern(rb'(?<!\\)"timestamp"\s*:\s*"([^"\\]{10,40})"')
_SETTINGS_LIMIT = 1 << 20
_HEAD_LINES = 8


def classify(rel: str) -> str | None:
    """Return the stream kind of a path relative to the home, None when it is not captured."""
    parts = rel.split("/")
    if len(parts) == 1:
        return _FILES.get(rel)
    top, name = parts[0], parts[-1]
    if name.startswith(".") or name.endswith((".tmp", ".lock")):
        return None
    if top == "projects":
        return _in_projects(parts, name)
    if top == "todos":
        return "todos" if len(parts) == 2 and name.endswith(".json") else None
    if top == "tasks":
        return "tasks" if len(parts) == 3 and name.endswith(".json") else None
    if top == "file-history":
        return "file_history" if len(parts) == 3 else None
    if top == "plans":
        return "plan" if name.endswith(".md") else None
    return None


def _in_projects(parts: list[str], name: str) -> str | None:
    if len(parts) < 3:
        return None
    if len(parts) >= 5 and parts[-2] == "tool-results":
        return "tool_result"
    if len(parts) >= 4 and parts[2] == "memory":
        return "memory"
    if name.endswith(".jsonl"):
        if name.startswith("agent-"):
            return "agent"
        if name == "journal.jsonl" and "workflows" in parts[3:-1]:
            return "journal"
        return "transcript"
    if name.startswith("agent-") and name.endswith(".meta.json"):
        return "agent_meta"
    if name == "sessions-index.json" and len(parts) == 3:
        return "index"
    if len(parts) >= 5 and parts[3] == "workflows" and name.endswith((".json", ".js")):
        return "workflow"
    return None


def enter(rel: str) -> bool:
    """Return whether a folder of the home can hold captured files."""
    return rel in ("", ".") or rel.partition("/")[0] in _TOP


def safe_id(text: str) -> str:
    """Return the id itself when it is harmless, else a digest of it; that of an id with a secret in it says so."""
    if not (_SAFE.match(text) and text.strip(".")):
        return digest("claude id", text)
    return text if _UUID.match(text) or secretless(text) else WITHHELD + digest("claude id", text, size=24)


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a session stream is; None while its first bytes do not say yet.

    A transcript whose first lines name the session they were copied from is a fork of it.
    The thread of an agent file is ``<session>/<agent id>``: agent ids are short and
    come again in other sessions. Side files belong to their session's thread.
    """
    parts = rel.split("/")
    name = parts[-1]
    if kind == "transcript":
        session = _transcript_id(parts)
        fork = next((h.forked_from.session_id for h in _heads(head) if h.forked_from and h.forked_from.session_id), None)
        parent = safe_id(fork) if fork else session
        if parent != session:
            return Identity(session, parent, "fork", session, _first_time(head))
        return Identity(session, None, "main", session, _first_time(head))
    if kind == "agent":
        owner = _folder_session(parts) or _head_session(head)
        if owner is None:
            return None
        session = safe_id(owner)
        return Identity(f"{session}/{agent_id(name)}", session, "part", session, _first_time(head))
    if kind == "agent_meta":
        owner = _folder_session(parts)
        if owner is None:
            return None
        session = safe_id(owner)
        return Identity(f"{session}/{agent_id(name)}", session, "beside", session)
    if kind == "todos":
        match = _TO_DO_LIST.match(name)
        owner = match["session"] if match else name.removesuffix(".json")
    elif kind in ("tasks", "file_history"):
        owner = parts[1] if len(parts) > 2 else None
    else:
        owner = _folder_session(parts)
    if not owner:
        return None
    session = safe_id(owner)
    return Identity(session, None, "beside", session)


def agent_id(name: str) -> str:
    """Return the agent id of a file name such as ``agent-a52886dc.meta.json``."""
    stem = name.removeprefix("agent-").removesuffix(".jsonl").removesuffix(".meta.json")
    return safe_id(stem)


def agent_of_todos(rel: str) -> str | None:
    """Return the agent whose todo list a file holds, None for the main thread's."""
    match = _TO_DO_LIST.match(rel.rpartition("/")[2])
    return safe_id(match["agent"]) if match and match["agent"] != match["session"] else None


def _transcript_id(parts: list[str]) -> str:
    """Return the session id of a transcript: its file name, with the folder where that says more.

    Claude Code names transcripts by UUID; other names (imports, fixtures) may come
    again in another folder.
    """
    stem = parts[-1].removesuffix(".jsonl")
    if _UUID.match(stem):
        return stem
    return safe_id(f"{parts[-2]}.{stem}" if len(parts) > 3 else stem)


def _folder_session(parts: list[str]) -> str | None:
    """Return the folder that is named after the session: the one before the well-known names."""
    for index in range(3, len(parts)):
        if parts[index] in ("subagents", "workflows", "tool-results"):
            return parts[index - 1]
    return None


def _heads(head: bytes) -> Iterator[Head]:
    """Yield what the first whole lines say of their session."""
    from ctx_pipeline.hosts.claude_code.record_types import DecodeErrors, head_decoder

    for line in head.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]:
        try:
            yield head_decoder.decode(line)
        except DecodeErrors:
            continue


def _head_session(head: bytes) -> str | None:
    found = next((h.session_id for h in _heads(head) if h.session_id), None)
    if found:
        return found
    match = _SESSION_ID.search(head)
    return match[1].decode("utf-8", "replace") if match else None


def _first_time(head: bytes) -> int | None:
    for match in _TIME.finditer(head):
        ts = micros(match[1].decode("ascii", "replace"))
        if ts is not None:
            return ts
    return None


def retention_days(home: Path) -> int | None:
    """Return ``cleanupPeriodDays`` of the home's settings.json, 30 when it does not say."""
    path = home / "settings.json"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _SETTINGS_LIMIT:
            return DEFAULT_RETENTION
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return DEFAULT_RETENTION
    days = value.get("cleanupPeriodDays") if isinstance(value, dict) else None
    if isinstance(days, bool) or not isinstance(days, (int, float)) or not 0 <= days <= 1_000_000:
        return DEFAULT_RETENTION
    return int(days)
