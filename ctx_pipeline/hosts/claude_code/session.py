"""All streams of one Claude Code session become rows of the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import astuple

from ctx_pipeline.hosts.claude_code.discovery import safe_id
from ctx_pipeline.hosts.claude_code.sidefiles import read_side_file
from ctx_pipeline.hosts.claude_code.thread import Gathered, Thread
from ctx_pipeline.hosts.claude_code.walk import walk
from ctx_pipeline.model.raw import Parsed, SessionFacts, ThreadFacts

if TYPE_CHECKING:
    from ctx_pipeline.model.raw import SessionInput, StreamBytes

_LINES = {"transcript": 0, "agent": 1, "journal": 2}
_TITLE_CHARS = 200


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a session.

    Main transcripts are read before agent files, the longest current stream of a thread
    first: what an older generation or a copy in another project folder repeats is taken
    once.
    """
    state = Gathered.of(session)
    ordered = sorted(
        (s for s in session.streams if s.kind in _LINES),
        key=lambda s: (_LINES[s.kind], s.thread_id, not s.current, -len(s.data), s.stream, -s.generation),
    )
    for stream in session.streams:
        if stream.kind == "tool_result" and stream.current:
            state.spilled[stream.rel.rpartition("/")[2]] = stream.data.decode("utf-8", "replace")
    streams_of: dict[str, int] = {}
    for stream in ordered:
        streams_of[stream.thread_id] = streams_of.get(stream.thread_id, 0) + 1
    for stream in ordered:
        if stream.kind == "agent":
            state.thread(stream.thread_id, _agent_kind(stream))
    for stream in ordered:
        thread = state.threads.get(stream.thread_id) or state.thread(stream.thread_id, "main")
        if streams_of[stream.thread_id] > 1 and thread.plain_lines is None:
            thread.plain_lines = set()
        walk(state, stream, thread)
    for stream in sorted(session.streams, key=lambda s: (s.kind, s.rel, s.stream, s.generation)):
        if stream.kind not in _LINES and stream.current:
            read_side_file(state, stream)
    _adopt(state)
    _promote(state)
    return _rows(state, session)


def _agent_kind(stream: StreamBytes) -> str:
    return "compact" if stream.rel.rpartition("/")[2].startswith("agent-acompact") else "subagent"


def _adopt(state: Gathered) -> None:
    """Give rows whose parent came later their parent, and agents the thread that called them."""
    for thread, first, last, parent_uuid in state.orphans:
        found = state.firsts.get(parent_uuid)
        if found is not None:
            parent = found[0]
            for index in range(first, last):
                row = thread.rows[index]
                thread.rows[index] = (*row[:10], parent, *row[11:])
    for agent, spawner in state.spawned.items():
        child = state.threads.get(f"{state.session_id}/{safe_id(agent)}")
        if child is not None and child.thread_id != spawner and not _descends(state, spawner, child.thread_id):
            child.parent = spawner


def _descends(state: Gathered, thread_id: str, ancestor: str) -> bool:
    """Return whether a thread stands below another, so that a hostile file makes no ring."""
    here: str | None = thread_id
    for _ in range(len(state.threads) + 1):
        if here is None:
            return False
        if here == ancestor:
            return True
        thread = state.threads.get(here)
        here = thread.parent if thread else None
    return True


def _promote(state: Gathered) -> None:
    """Make queued words that were sent in no other record the prompts that they are."""
    for thread, index, words in state.pending:
        if words in state.prompts:
            continue
        state.prompts.add(words)
        row = thread.rows[index]
        thread.rows[index] = (*row[:6], "prompt", *row[7:])


def _rows(state: Gathered, session: SessionInput) -> Parsed:
    host, session_id = state.host, state.session_id
    parsed = Parsed(
        model_calls=state.usage.rows(),
        quarantined=state.quarantined,
        unknown=state.unknown,
        repaired=state.repaired,
        lines=state.lines,
        line_ids=list(state.firsts),
        branch_titles={leaf: text for leaf, text in state.titles.summaries.items() if leaf not in state.firsts},
    )
    for thread in state.threads.values():
        parsed.events += thread.rows
        tid = thread.thread_id
        parsed.tool_calls += [(call_id, host, session_id, tid, *astuple(call)) for call_id, call in thread.calls.items()]
        parsed.threads.append(
            ThreadFacts(
                tid, thread.kind, thread.parent, thread.agent, thread.title, thread.cwd, thread.branch, thread.version, status(thread)
            ),
        )
    main = state.threads[session_id]
    first = next((t for t in state.threads.values() if t.cwd), main)
    title, source = _title(state, session, main)
    main_facts = parsed.threads[0]
    main_facts.title = title
    parsed.facts = SessionFacts(
        title=title,
        title_source=source,
        cwd=first.cwd,
        branch=first.branch,
        version=first.version,
        parent_session=safe_id(state.forked_from) if state.forked_from and state.forked_from != session_id else None,
        status=main_facts.status if main.rows else "unknown",
    )
    return parsed


def _title(state: Gathered, session: SessionInput, main: Thread) -> tuple[str | None, str]:
    """Return the title and its source: custom, ai, summary of a branch of this session, first prompt."""
    titles = state.titles
    hints = session.hints.get(state.session_id, {})
    summary = next((text for leaf, text in reversed(titles.summaries.items()) if leaf in state.firsts), None)
    prompt = next((row[9] for row in main.rows if row[6] == "prompt" and row[9] and row[9].strip()), None)
    for text, source in (
        (titles.custom, "custom"),
        (titles.ai, "ai"),
        (summary or hints.get("title"), "summary"),
        (prompt or hints.get("first_prompt"), "prompt"),
    ):
        if text and text.strip():
            return " ".join(text.split())[:_TITLE_CHARS], source
    return None, "none"


def status(thread: Thread) -> str:
    """Return how a thread ended, by its last telling event.

    An answer is completed, an error errored, an interrupt or an unanswered tool call
    interrupted, a prompt without any answer abandoned.
    """
    for row in reversed(thread.rows):
        kind = row[6]
        if kind == "answer":
            return "completed"
        if kind == "error":
            return "errored"
        if kind == "injected" and row[7] == "interrupt":
            return "interrupted"
        if kind == "tool_call":
            call = thread.calls.get(row[11])
            return "interrupted" if call is None or call.result_event is None else "unknown"
        if kind in ("prompt", "subagent_start"):
            return "abandoned"
        if kind in ("tool_result", "reasoning"):
            return "interrupted"
    return "unknown"
