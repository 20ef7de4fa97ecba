"""Files beside the transcripts: todo and task states, agent descriptions, workflow runs, spilled results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts.claude_code.discovery import agent_of_todos
from ctx_pipeline.hosts.claude_code.records import AgentMeta, DecodeErrors, Index, Prompt, index_decoder, meta_decoder, prompt_decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.hosts.claude_code.thread import Gathered, Thread
    from ctx_pipeline.model.raw import StreamBytes

_KINDS = {"todos": "todo", "tasks": "todo", "workflow": "attachment"}
_HINT_CHARS = 2_000


def read_side_file(state: Gathered, stream: StreamBytes) -> None:
    """Add what a side file says: a description to its thread, or one event that holds its text.

    File history and spilled results are no events: a spilled text stands in its tool
    result, and the contents of edited files stay in raw.
    """
    if stream.kind == "agent_meta":
        _describe(state, stream)
    kind = _KINDS.get(stream.kind)
    if kind is None or not stream.data.strip():
        return
    thread = _thread_of(state, stream)
    text = stream.data.decode("utf-8", "replace").strip()
    if stream.kind == "todos" and text == "[]":
        return
    thread.rows.append(
        (
            f"{stream.stream}.{stream.generation}.0.0",
            state.host,
            state.session_id,
            thread.thread_id,
            len(thread.rows),
            None,
            kind,
            f"file/{stream.kind}",
            "system",
            text,
            None,
            None,
            None,
            stream.stream,
            stream.generation,
            0,
            len(stream.data),
            0,
        ),
    )


def _thread_of(state: Gathered, stream: StreamBytes) -> Thread:
    """Return the thread that a todo list belongs to, else the main one."""
    agent = agent_of_todos(stream.rel) if stream.kind == "todos" else None
    thread = state.threads.get(f"{state.session_id}/{agent}") if agent else None
    return thread or state.threads[state.session_id]


def _describe(state: Gathered, stream: StreamBytes) -> None:
    try:
        meta: AgentMeta = meta_decoder.decode(stream.data)
    except DecodeErrors:
        state.count_unknown("file/agent_meta")
        return
    thread = state.threads.get(stream.thread_id)
    if thread is not None:
        thread.agent = meta.agent_type or thread.agent
        thread.title = meta.description or thread.title


def hints(kind: str, data: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield (session, field, value) from the prompt history and the session indexes.

    ``first_prompt`` comes once for each session; ``title`` is the index's summary, which
    may be stale.
    """
    if kind == "history":
        known: set[str] = set()
        for line in data.split(b"\n"):
            try:
                prompt: Prompt = prompt_decoder.decode(line)
            except DecodeErrors:
                continue
            session = prompt.session_id
            if session and session not in known and prompt.display and not prompt.display.startswith("/"):
                known.add(session)
                yield session, "first_prompt", prompt.display[:_HINT_CHARS]
    elif kind == "index":
        try:
            index: Index = index_decoder.decode(data)
        except DecodeErrors:
            return
        for entry in index.entries or ():
            if entry.session_id and entry.summary:
                yield entry.session_id, "title", entry.summary[:_HINT_CHARS]
