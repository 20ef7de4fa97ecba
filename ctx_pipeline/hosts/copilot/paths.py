"""Which files of VS Code's user folders and of the Copilot CLI's home are captured, and whose they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ctx_pipeline.hosts._values import secretless
from ctx_pipeline.hosts.record_values import mapping, read_json
from ctx_pipeline.model.codec import digest, micros
from ctx_pipeline.model.declared import WITHHELD
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHAT, TRANSCRIPT, EVENTS, STORE = "chat", "transcript", "events", "store"
DESCRIPTION, SIDECAR, WORKSPACE = "description", "sidecar", "workspace"

SESSION_KINDS = frozenset({CHAT, TRANSCRIPT, EVENTS, STORE, DESCRIPTION, SIDECAR})
USAGE_KINDS = frozenset({CHAT, TRANSCRIPT, EVENTS, STORE})

STATE = "session-state"
_CHAT_FOLDERS = frozenset({"emptyWindowChatSessions", "transferredChatSessions"})
_EXTENSION = "github.copilot-chat"
_BESIDE = {"workspace.yaml": DESCRIPTION, "vscode.metadata.json": SIDECAR, "vscode.requests.metadata.json": SIDECAR, "plan.md": SIDECAR}
_SAFE = lazy_pattern(r"[A-Za-z0-9._-]{1,128}\Z")
_UUID = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_OURS = lazy_pattern(rb'"responderUsername"\s*:\s*"[^"]{0,80}copilot|"modelId"\s*:\s*"copilot/|"github\.copilot', re.IGNORECASE)
_RESPONDER = lazy_pattern(rb'"responderUsername"\s*:\s*"[^"]')
_ASKED = lazy_pattern(rb'"requestId"\s*:|"message"\s*:')
_BORN = lazy_pattern(rb'"creationDate"\s*:\s*(\d{12,14})\b')
_TIME = lazy_pattern(rb'"(?:startTime|timestamp|created_at)"\s*:\s*"([^"\\]{10,40})"')
_SPAWNED = lazy_pattern(rb'"detachedFromSpawningParentSessionId"\s*:\s*"([^"\\]{1,128})"')
_SAID = lazy_pattern(rb'"table"\s*:\s*"(?:turns|assistant_usage_events)"')
_DRIVE = lazy_pattern(r"/[A-Za-z]:(?:/|\Z)")
_HEAD = 65_536


def classify(rel: str) -> str | None:
    """Return the stream kind of a path relative to a home, None when it is not captured."""
    parts = rel.split("/")
    if parts[0] == "profiles" and len(parts) > 2:
        parts = parts[2:]
    top, name = parts[0], parts[-1]
    if name.startswith(".") or name.endswith((".tmp", ".lock", "-wal", "-shm")):
        return None
    if top == STATE:
        return _in_state(parts, name)
    if rel == "session-store.db":
        return STORE
    if top == "globalStorage" and len(parts) == 3:
        if parts[1] in _CHAT_FOLDERS and name.endswith((".json", ".jsonl")):
            return CHAT
        return STORE if parts[1] == _EXTENSION and name == "session-store.db" else None
    if top == "globalStorage" and len(parts) > 3 and parts[1] == _EXTENSION:
        return _in_extension(parts[2:], name)
    return _in_workspace(parts, name) if top == "workspaceStorage" else None


def _in_state(parts: list[str], name: str) -> str | None:
    if len(parts) == 2:
        return EVENTS if name.endswith(".jsonl") else None
    if len(parts) == 3:
        return EVENTS if name == "events.jsonl" else _BESIDE.get(name)
    return SIDECAR if len(parts) == 4 and parts[2] == "checkpoints" and name.endswith(".md") else None


def _in_workspace(parts: list[str], name: str) -> str | None:
    if len(parts) == 3:
        return WORKSPACE if name == "workspace.json" else None
    if len(parts) == 4 and parts[2] == "chatSessions":
        return CHAT if name.endswith((".json", ".jsonl")) else None
    if len(parts) > 4 and parts[2] == "chatEditingSessions":
        return SIDECAR
    return _in_extension(parts[3:], name) if len(parts) > 4 and parts[2].lower() == _EXTENSION else None


def _in_extension(parts: list[str], name: str) -> str | None:
    if parts[0] == "transcripts" and len(parts) == 2 and name.endswith(".jsonl"):
        return TRANSCRIPT
    return SIDECAR if parts[0] == "chat-session-resources" and len(parts) > 2 else None


def enter(rel: str) -> bool:
    """Return whether a folder of a home can hold captured files."""
    parts = rel.split("/")
    if parts[0] == "profiles":
        parts = parts[2:] or [""]
    if rel in {"", "."} or parts == [""]:
        return True
    top, deep = parts[0], len(parts)
    if top == STATE:
        return deep < 3 or (deep == 3 and parts[2] == "checkpoints")
    if top == "globalStorage":
        return deep == 1 or parts[1] in _CHAT_FOLDERS or (parts[1] == _EXTENSION and (deep == 2 or _captured_below(parts[2:])))
    if top != "workspaceStorage":
        return False
    if deep <= 2:
        return True
    if parts[2].lower() == _EXTENSION:
        return deep == 3 or _captured_below(parts[3:])
    return (parts[2] == "chatSessions" and deep == 3) or (parts[2] == "chatEditingSessions" and deep <= 5)


def _captured_below(parts: list[str]) -> bool:
    return parts == ["transcripts"] or (parts[0] == "chat-session-resources" and len(parts) <= 4)


def workspace_folder(rel: str) -> str | None:
    """Return the folder of VS Code's workspace that a file belongs to: what it holds is said of one folder of the person."""
    parts = rel.split("/")
    if parts[0] == "profiles" and len(parts) > 2:
        parts = parts[2:]
    return "/".join(parts[:2]) if parts[0] == "workspaceStorage" and len(parts) > 2 else None


def workspace_hints(kind: str, data: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield the folder that a ``workspace.json`` names: the one that was opened, or that of the opened workspace file."""
    said = mapping(read_json(data.decode("utf-8", "replace"))) if kind == WORKSPACE else {}
    for field, parent in (("folder", False), ("workspace", True), ("configuration", True)):
        uri = said.get(field)
        where = unquote(urlsplit(uri).path) if isinstance(uri, str) and "://" in uri else ""
        where = where[1:] if _DRIVE.match(where) else where
        if where := where.rpartition("/")[0] if parent else where:
            yield "", "cwd", where
            return


def places(root: Path) -> tuple[Callable[[str], str | None], Callable[[str], bool]] | None:
    """Return how a folder of session states is read that is named by itself; None for any other home."""
    if root.name != STATE:
        return None
    return (lambda rel: classify(f"{STATE}/{rel}")), (lambda rel: rel in {"", "."} or enter(f"{STATE}/{rel}"))


def open_sessions(home: Path) -> Iterator[str]:
    """Yield the sessions of the command line that are open: each has a lock beside its events."""
    states = home if home.name == STATE else home / STATE
    for lock in states.glob("*/inuse.*.lock"):
        yield safe_id(lock.parent.name)


def safe_id(name: str) -> str:
    """Return the id itself when it is harmless, else a digest of it; that of an id with a secret in it says so."""
    if not (_SAFE.match(name) and name.strip(".")):
        return digest("copilot id", name)
    return name if _UUID.match(name) or secretless(name) else WITHHELD + digest("copilot id", name, size=24)


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a stream is; None for an empty chat, one of another assistant, and a head that does not say yet."""
    parts = rel.split("/")
    name = parts[-1]
    if kind == STORE:
        owner = rel.rpartition("#")[2] if "#" in rel else ""
        if not owner or not head:
            return None
        relation = "main" if _SAID.search(head) else "beside"
        return Identity(safe_id(owner), None, relation, first_ts=_first_time(head))
    if kind in {DESCRIPTION, SIDECAR}:
        folder = _folder(parts)
        return Identity(safe_id(folder), None, "beside", safe_id(folder)) if folder else None
    stem = parts[-2] if name == "events.jsonl" and len(parts) > 1 else name.removesuffix(".jsonl").removesuffix(".json")
    if not stem or not head.strip():
        return None
    session = safe_id(stem)
    if kind == CHAT:
        ours = _OURS.search(head) is not None
        if len(head) < _HEAD and not (ours and _ASKED.search(head)):
            return None
        if not ours and _RESPONDER.search(head):
            return None  # its beginning names another one that answers
        born = _BORN.search(head)
        return Identity(session, first_ts=_believed(int(born[1]) * 1_000) if born else None)
    spawned = _SPAWNED.search(head)
    parent = safe_id(spawned[1].decode("utf-8", "replace")) if spawned else session
    if parent != session:
        return Identity(session, parent, "fork", session, _first_time(head))
    return Identity(session, first_ts=_first_time(head))


def _folder(parts: list[str]) -> str | None:
    """Return the folder that is named after the session."""
    for before in (STATE, "chatEditingSessions", "chat-session-resources"):
        if before in parts[:-2]:
            return parts[parts.index(before) + 1]
    return parts[0] if len(parts) > 1 and "Storage" not in parts[0] else None


def _first_time(head: bytes) -> int | None:
    for match in _TIME.finditer(head):
        if (ts := micros(match[1].decode("ascii", "replace"))) is not None:
            return ts
    return None


def _believed(ts: int) -> int | None:
    from ctx_pipeline.model.codec import LATEST

    return ts if 946_684_800_000_000 <= ts < LATEST else None
