"""Which files of a task store are captured, and whose they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._values import secretless
from ctx_pipeline.model.codec import LATEST, digest, micros
from ctx_pipeline.model.declared import WITHHELD
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES, HISTORY, METADATA, ITEM = "messages", "history", "metadata", "item"
CLI, MANIFEST, INDEX = "cli", "manifest", "index"

SESSION_KINDS = frozenset({MESSAGES, HISTORY, METADATA, ITEM, CLI, MANIFEST})
USAGE_KINDS = frozenset({MESSAGES, HISTORY, CLI})

_TASK_FILES = {
    "ui_messages.json": MESSAGES,
    "claude_messages.json": MESSAGES,
    "api_conversation_history.json": HISTORY,
    "task_metadata.json": METADATA,
    "history_item.json": ITEM,
}
_SAFE = lazy_pattern(r"[A-Za-z0-9._-]{1,128}\Z")
_STAMP = lazy_pattern(rb'"ts"\s*:\s*(\d{12,14})\b')
_STARTED = lazy_pattern(rb'"started_at"\s*:\s*"([^"\\]{10,40})"')


def classify(rel: str) -> str | None:
    """Return the stream kind of a path relative to a store, None when it is not captured."""
    parts = rel.split("/")
    name = parts[-1]
    if rel in {"state/taskHistory.json", "tasks/taskHistory.json", "tasks/_index.json"}:
        return INDEX
    if len(parts) != 3 or name.startswith("."):
        return None
    if parts[0] == "tasks":
        return _TASK_FILES.get(name)
    if parts[0] != "sessions":
        return None
    return CLI if name.endswith(".messages.json") else MANIFEST if name == f"{parts[1]}.json" else None


def enter(rel: str) -> bool:
    """Return whether a folder of a store can hold captured files."""
    parts = rel.split("/")
    return rel in {"", ".", "state"} or (parts[0] in {"tasks", "sessions"} and len(parts) <= 2)


def safe_id(name: str) -> str:
    """Return the id itself when it is harmless, else a digest of it; that of an id with a secret in it says so."""
    if not (_SAFE.match(name) and name.strip(".")):
        return digest("cline id", name)
    return name if secretless(name) else WITHHELD + digest("cline id", name, size=24)


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return the task of a file: its folder says it; the month is that of its first message."""
    parts = rel.split("/")
    if len(parts) < 3 or not head.strip():
        return None
    session = safe_id(parts[1])
    first = _STAMP.search(head)
    began = _believed(int(first[1]) * 1_000) if first else _started(head)
    if kind in {METADATA, MANIFEST, ITEM}:
        return Identity(session, None, "beside", session, began)
    if kind == CLI and parts[2] != f"{parts[1]}.messages.json":
        member = safe_id(parts[2].removesuffix(".messages.json"))
        return Identity(f"{session}/{member}", session, "part", session, began)
    return Identity(session, None, "main", session, began)


def hints(kind: str, data: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield what an index of tasks says of each: its folder, its text, its model, its parent's id."""
    from ctx_pipeline.hosts.record_values import items, mapping, read_json, words

    if kind != INDEX:
        return
    value = read_json(data)
    entries: list[Any] = items(value) or items(mapping(value).get("entries"))
    for entry in map(mapping, entries):
        task = words(entry.get("id"))
        if not task:
            continue
        said = {
            "cwd": words(entry.get("cwdOnTaskInitialization"))
            or words(entry.get("workspace"))
            or words(entry.get("shadowGitConfigWorkTree")),
            "task": words(entry.get("task"))[:2_000],
            "title": words(entry.get("title")),
            "model": words(entry.get("modelId")),
            "parent": words(entry.get("parentTaskId")),
            "status": words(entry.get("status")),
        }
        yield from ((safe_id(task), name, text) for name, text in said.items() if text)


def _started(head: bytes) -> int | None:
    found = _STARTED.search(head)
    return micros(found[1].decode("ascii", "replace")) if found else None


def _believed(ts: int) -> int | None:
    return ts if 946_684_800_000_000 <= ts < LATEST else None
