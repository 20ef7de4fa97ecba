"""Captured sessions as a memory backend: any recorded conversation as messages, and a store of one's own to save them in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.context.backends.memory_backend import MemoryBackend
from ctx_pipeline.context.backends.sqlite import OWN_STORE, SQLiteMemory
from ctx_pipeline.context.errors import NoSuchSession
from ctx_pipeline.context.interactions import check_count, check_session, last
from ctx_pipeline.errors import NothingFound, UsageError
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.host_records import OUT, SYSTEM, Change
from ctx_pipeline.sessions.session_details import resolve, view_of
from ctx_pipeline.sessions.windows.window_effects import effects_of
from ctx_pipeline.sessions.windows.window_history import thread_named
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctx_pipeline.settings import Settings


class CapturedMemory(MemoryBackend):
    """Captured sessions under ``host/session``, or one thread of them under ``host/session/thread``, and saved ones under any other name.

    What the model was sent comes back as messages: prompts and injected text as user
    messages, answers as assistant messages, tool calls and their results as pairs that
    windows keep together, a compaction as a system message. An id or its first characters
    will do. A captured session is a record and refuses every change; save a changed one
    under a name of your own, which goes to ``own``, by default a SQLite file in ``$CTX_HOME``.
    """

    def __init__(self, settings: Settings | None = None, *, own: MemoryBackend | None = None) -> None:
        self._settings = settings
        self._own = own
        self._hosts = {name.lower() for host in discovery.hosts().values() for name in (host.key, *host.aliases)}

    async def load_context(self, session_id: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the messages of a session's main thread, of the thread that is named, or of a saved session; oldest first.

        An unknown name of one's own has none. Raises UnknownName with the nearest ids for a
        captured session that is not there, and StoreError when nothing was captured yet.
        """
        check_count(k)
        if self._is_record(session_id):
            return last(await asyncio.to_thread(self._messages, session_id), k)
        store = self._own_store(make=False)
        return [] if store is None else await store.load_context(session_id, k)

    async def save_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Make a session of one's own, or replace its messages. Raises UsageError for a captured one."""
        await self._writable(session_id).save_context(session_id, context)

    async def append_context(self, session_id: str, context: Sequence[Any]) -> None:
        """Add messages to a session of one's own. Raises UsageError for a captured one."""
        await self._changed(session_id, " Use save_context to create a new session.").append_context(session_id, context)

    async def delete_session(self, session_id: str) -> None:
        """Remove a session of one's own. Raises UsageError for a captured one."""
        await self._changed(session_id).delete_session(session_id)

    async def delete_interaction(self, session_id: str, interaction_id: str) -> None:
        """Remove a message and all after it from a session of one's own. Raises UsageError for a captured one."""
        await self._changed(session_id).delete_interaction(session_id, interaction_id)

    def close(self) -> None:
        """Close the store of saved sessions, when it is the one in ``$CTX_HOME``; the next call opens it again."""
        if isinstance(self._own, SQLiteMemory):
            self._own.close()

    def _is_record(self, session_id: str) -> bool:
        check_session(session_id)
        host, slash, _ = session_id.partition("/")
        return bool(slash) and host.lower() in self._hosts

    def _writable(self, session_id: str) -> MemoryBackend:
        if self._is_record(session_id):
            raise UsageError(
                f"{session_id!r} is a record and is not changed",
                hint="save it under a name of your own; ctx forget removes what must not be kept",
            )
        store = self._own_store(make=True)
        if store is None:
            raise NoSuchSession(session_id)
        return store

    def _changed(self, session_id: str, advice: str = "") -> MemoryBackend:
        if not self._is_record(session_id) and self._own_store(make=False) is None:
            raise NoSuchSession(session_id, advice)
        return self._writable(session_id)

    def _own_store(self, *, make: bool) -> MemoryBackend | None:
        """Return the store of saved sessions; None while nobody saved one and ``make`` is False."""
        if self._own is None:
            path = self._path()
            if not make and not path.exists():
                return None
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._own = SQLiteMemory(path)
        return self._own

    def _path(self) -> Path:
        from ctx_pipeline import settings as settings_module

        return (self._settings or settings_module.load()).home / OWN_STORE

    def _messages(self, session_id: str) -> list[dict[str, Any]]:
        host, _, rest = session_id.partition("/")
        name, _, thread = rest.partition("/")
        if not name:
            raise NothingFound(f"{session_id!r} is not a captured session", hint="write HOST/SESSION, as ctx list shows them")
        with reading(self._settings) as (store, _):
            key, full = resolve(store, host.lower(), name)
            view = view_of(store, key, full, ("events", "tool_calls", "threads"))
            chosen = thread_named(view, thread) if thread else view.events[0].thread_id
            events = [event for event in view.events if event.thread_id == chosen]
            effects = effects_of(store, key, events)
        calls = {call.call_event: call.tool for call in view.tool_calls}
        found = (_message(event, effects[event.event_id], calls) for event in events)
        return [message for message in found if message is not None]


def _message(event: Any, does: str | Change, tools: dict[str, str]) -> dict[str, Any] | None:
    text = does.text if isinstance(does, Change) else event.text
    if does == OUT or (not text and event.kind not in {"tool_call", "tool_result"}):
        return None
    message: dict[str, Any] = {"id": event.event_id, "content": text or ""}
    at = micros(event.ts)
    if at is not None:
        message["timestamp"] = datetime.fromtimestamp(at / 1_000_000, UTC).isoformat()
    if event.kind == "tool_call":
        function = {"name": tools.get(event.event_id, event.subtype or "tool"), "arguments": event.text or ""}
        called = {"id": event.call_id, "type": "function", "function": function}
        return message | {"role": "assistant", "content": None, "tool_calls": [called]}
    if event.kind == "tool_result":
        return message | {"role": "tool", "tool_call_id": event.call_id}
    if does == SYSTEM or isinstance(does, Change):
        return message | {"role": "system"}
    if event.kind == "reasoning":
        return None
    return message | {"role": "assistant" if event.kind == "answer" else "user"}
