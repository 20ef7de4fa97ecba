"""What the agent did: commands run, files changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.declared import Reading, signal

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_TOOLS = ("tool_calls",)
_SHOWN = 20


@signal(group="activity", unit="commands", reads=_TOOLS)
def command_count(view: SessionView) -> Reading:
    """Shell commands that the agent ran, subagents included.

    A call and its result are one command. Read it beside ``unique_files_edited``: many
    commands and few edits is exploration, the reverse is work without checks.
    """
    calls = [c for c in view.tool_calls if c.action == "shell"]
    return Reading(float(len(calls)), tuple(c.call_event for c in calls))


@signal(group="activity", unit="files", reads=_TOOLS)
def unique_files_edited(view: SessionView) -> Reading:
    """Files that the agent changed by an edit or write tool and that the host did not report as failed.

    A file that was edited ten times counts once. Changes made by shell commands are not
    seen. More than about 15 files in one session is a refactoring or a generator; review
    it as one.
    """
    first: dict[str, str] = {}
    for call in view.tool_calls:
        if call.action in ("edit", "write") and not call.is_error:
            for path in call.paths:
                first.setdefault(path, call.call_event)
    return Reading(float(len(first)), tuple(first.values()), metadata={"files": sorted(first)[:_SHOWN]} if first else None)
