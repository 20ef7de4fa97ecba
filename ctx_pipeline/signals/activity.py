"""What the agent did: commands, edits, reads, searches, messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.facts.file_accesses import by_path, changes_of, reads_of
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.steps import COLUMNS, KINDS, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.session_view import SessionView

_TOOLS = ("tool_calls",)
_STEPS = ("events", "tool_calls", "command_runs", "check_runs")
_SHOWN = 20


def _count(events: Iterable[str], **metadata: Any) -> Reading:
    found = tuple(events)
    return Reading(float(len(found)), found, metadata=metadata or None)


@signal(version=3, group="activity", unit="commands", reads=("command_runs",))
def command_count(view: SessionView) -> Reading:
    """Shell commands that the agent ran, subagents included.

    A call and its result are one command, and waiting for a command that went on in the
    background is part of it. Read it beside ``unique_files_edited``: many commands and
    few edits is exploration, the reverse is work without checks.
    """
    return _count(run.call_event for run in command_runs(view))


@signal(group="activity", unit="edits", reads=_TOOLS, columns=COLUMNS)
def file_edit_count(view: SessionView) -> Reading:
    """Edits and writes of files by a tool that the host did not report as failed.

    A call and its result are one edit, however many files it touches. Far above
    ``unique_files_edited`` means that the same files were changed again and again; see
    ``edit_churn_ratio``.
    """
    return _count(c.call_event for c in view.tool_calls if c.action in ("edit", "write") and not c.is_error)


@signal(version=2, group="activity", unit="files", reads=("file_accesses",))
def unique_files_edited(view: SessionView) -> Reading:
    """Files that the agent changed: by an edit or write tool, by a patch, or by the words of a shell command.

    A file that was changed ten times counts once, and a failed call changed nothing.
    Scratch files are not counted. More than about 15 files in one session is a
    refactoring or a generator; review it as one.
    """
    return _files(changes_of(view))


@signal(version=5, group="activity", unit="files", reads=("file_accesses",))
def unique_files_read(view: SessionView) -> Reading:
    """Files that the agent read, by a read tool or by printing them in a shell.

    ``cat``, ``sed -n``, ``head``, ``tail`` and ``nl`` of a named file count as reading
    it; files that a search printed lines of do not, nor do scratch files. Many files read
    and few changed is a search for the right place: a map of the project in its
    instructions shortens it.
    """
    return _files(reads_of(view))


def _files(accesses: Iterable[Any]) -> Reading:
    first = {path: members[0].call_event for path, members in by_path(accesses, None).items()}
    return Reading(float(len(first)), tuple(first.values()), metadata={"files": sorted(first)[:_SHOWN]} if first else None)


@signal(group="activity", unit="searches", reads=_TOOLS, columns=COLUMNS)
def web_search_count(view: SessionView) -> Reading:
    """Searches and page fetches on the web, each call once.

    The word "search" in a path or a command is none. Many of them point to a library
    whose documentation the agent should have beside it.
    """
    return _count(c.call_event for c in view.tool_calls if c.action == "web")


@signal(version=3, group="activity", unit="searches", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def code_search_count(view: SessionView) -> Reading:
    """Searches of the project's files: by a search tool, or by grep, rg, find and their like in a shell.

    Above about a third of all steps the agent does not know where things are; naming the
    places in CLAUDE.md or AGENTS.md pays back in every session.
    """
    return _count(s.call.call_event for s in view.once(steps).all if s.category == "search" and s.call.action != "web")


@signal(group="activity", unit="messages", reads=("events",), columns=COLUMNS, kinds=("prompt",))
def user_message_count(view: SessionView) -> Reading:
    """Messages that the person typed.

    Injected text, command wrappers, summaries of a compaction and marks of an
    interruption are no messages. One is a task that ran by itself; above about 15 it was
    a conversation, and the price of each turn is the whole window again.
    """
    return _count(e.event_id for e in view.prompts)


@signal(group="activity", unit="messages", reads=("events",), columns=COLUMNS, kinds=("answer",))
def assistant_message_count(view: SessionView) -> Reading:
    """Messages that the agent wrote for the person to read, subagents included; reasoning is not in it.

    Read it beside ``user_message_count``: twenty to one is an agent that reports while
    it works, one to one a conversation.
    """
    return _count(e.event_id for e in view.of_kinds("answer") if e.text)


@signal(group="activity", unit="calls", reads=_TOOLS, columns=COLUMNS)
def tool_call_count(view: SessionView) -> Reading:
    """Tool calls of every kind, subagents included, with the five commonest tools.

    It is the size of the session in actions. Two sessions with one task and very
    different counts are worth comparing.
    """
    tools: dict[str, int] = {}
    for call in view.tool_calls:
        tools[call.tool] = tools.get(call.tool, 0) + 1
    top = dict(sorted(tools.items(), key=lambda pair: (-pair[1], pair[0]))[:5])
    return Reading(float(len(view.tool_calls)), tuple(c.call_event for c in view.tool_calls[:8]), metadata={"tools": top} if top else None)


@signal(group="activity", unit="calls", reads=_TOOLS, columns=COLUMNS)
def mcp_call_count(view: SessionView) -> Reading:
    """Calls of tools that an MCP server brought.

    A server whose tools are never called still costs its schemas in every window; zero
    over many sessions says which to switch off.
    """
    return _count(c.call_event for c in view.tool_calls if c.action == "mcp")
