"""Captured sessions as a memory backend: any recorded conversation as messages."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline.api.reader import reading
from ctx_pipeline.api.sessions import resolve
from ctx_pipeline.context.backends.memory_backend import MemoryBackend
from ctx_pipeline.context.interactions import last
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.raw import Cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.settings import Settings

_ROLES = {"prompt": "user", "injected": "user", "answer": "assistant", "compaction": "system", "attachment": "user"}


class CapturedMemory(MemoryBackend):
    """Reads sessions of the store by ``host/session``, or one thread of them by ``host/session/thread``; writes nothing.

    Prompts and injected text are user messages, answers assistant messages, tool calls
    and their results a pair that windows keep together, compactions system messages. An
    id or its first characters will do. To change a conversation save it to another backend.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the messages of a session's main thread, or of the thread that is named, oldest first.

        Raises UnknownName with the nearest ids, and StoreError when there is no store yet.
        """
        return last(await asyncio.to_thread(self._messages, session_id), k)

    async def save_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Refuse: captured sessions are records."""
        raise _record(session_id, context)

    async def append_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Refuse: captured sessions are records."""
        raise _record(session_id, context)

    async def delete_session(self, session_id: str) -> None:
        """Refuse: captured sessions are records."""
        raise _record(session_id, ())

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Refuse: captured sessions are records."""
        raise _record(session_id, interaction_id)

    def _messages(self, session_id: str) -> list[dict[str, Any]]:
        host, _, rest = session_id.partition("/")
        name, _, thread = rest.partition("/")
        if not name:
            raise UsageError(f"{session_id!r} is no captured session", hint="write host/session, as in claude/1f2e3d4c")
        with reading(self._settings) as (store, _):
            key, full = resolve(store, host, name)
            month = next(s.month for s in store.ledger.sessions(host=key) if s.session_id == full)
            views = list(store.lake.read_sessions(Cell(key, month), {full}))
        events = views[0].events if views else []
        calls = {call.call_id: call.tool for call in views[0].tool_calls} if views else {}
        chosen = thread or (events[0].thread_id if events else "")
        found = (_message(event, calls) for event in events if event.thread_id == chosen)
        return [message for message in found if message is not None]


def _message(event: Any, tools: dict[str, str]) -> dict[str, Any] | None:
    message: dict[str, Any] = {"id": event.event_id, "content": event.text or ""}
    if event.ts is not None:
        message["timestamp"] = _written(event.ts)
    if event.kind in _ROLES:
        return message | {"role": _ROLES[event.kind]}
    if event.kind == "tool_call":
        function = {"name": tools.get(event.call_id, event.subtype or "tool"), "arguments": event.text or ""}
        called = {"id": event.call_id, "type": "function", "function": function}
        return message | {"role": "assistant", "content": None, "tool_calls": [called]}
    if event.kind == "tool_result":
        return message | {"role": "tool", "tool_call_id": event.call_id}
    return None


def _written(at: Any) -> str:
    """Return a time as ISO 8601 in UTC; rows hold microseconds or naive datetimes."""
    moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at / 1_000_000, UTC)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _record(session_id: str, _given: object) -> UsageError:
    return UsageError(
        f"{session_id!r} is a record and is not changed", hint="save the messages to SQLiteMemory; ctx forget removes what must not be kept"
    )
