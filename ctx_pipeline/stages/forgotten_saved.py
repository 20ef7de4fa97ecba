"""Conversations that a person saved in the store: what they hold of forgotten sessions goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ctx_pipeline.stages.forgotten_lines import Needles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ctx_pipeline.storage import Store

_LEAST_COPY = 40
"""Characters; a shorter text ("run the tests again") may be anybody's."""
_SUMMARY = "summary_"


def drop_saved(store: Store, sessions: Collection[tuple[str, str]], threads: Iterable[str], text: str | None) -> int:
    """Remove the messages of these sessions from the saved conversations, and those that contain a text; return how many.

    A message is one of theirs when it has the id of an event or of a summary that begins
    with one, when it or its conversation names the session or a thread of it, or when its
    whole content is the text of an event. Must run while the lake still has the sessions.
    """
    # every sync imports this module, few hold saved conversations
    from ctx_pipeline.context.backends.sqlite import OWN_STORE, SQLiteMemory

    path = store.home / OWN_STORE
    if not path.exists():
        return 0
    needles = Needles.of(sessions, threads, (), text)
    ids, texts = _events(store, sessions)

    def unwanted(session_id: str, message_id: str | None, body: bytes) -> bool:
        if needles.found(body) or needles.found(session_id.encode("utf-8", "surrogatepass")):
            return True
        if message_id is None:
            return any(one in body for one in map(str.encode, ids))
        return message_id.removeprefix(_SUMMARY) in ids or _content(body) in texts

    memory = SQLiteMemory(path, create_db=False)
    try:
        return int(memory.sync.discard(unwanted))
    finally:
        memory.close()


def _events(store: Store, sessions: Collection[tuple[str, str]]) -> tuple[set[str], set[str]]:
    """Return the ids of the sessions' events, and the texts of them that are long enough to be known again."""
    hosts = {host for host, _ in sessions}
    wanted = {session for _, session in sessions}
    ids: set[str] = set()
    texts: set[str] = set()
    for cell, manifest in store.lake.manifests("normalized").items():
        if cell.host in hosts and any(s in wanted for p in manifest.of_table("sessions") for s in p.live):
            for view in store.lake.read_sessions(cell, session_ids=wanted, tables=("events",)):
                ids |= {event.event_id for event in view.events}
                texts |= {event.text for event in view.events if event.text and len(event.text) >= _LEAST_COPY}
    return ids, texts


def _content(body: bytes) -> str:
    try:
        content = msgspec.json.decode(body).get("content")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return ""
    return content if isinstance(content, str) else ""
