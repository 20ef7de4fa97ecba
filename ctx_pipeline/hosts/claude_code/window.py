"""What Claude Code's records do to the context window."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctx_pipeline.model.host_records import OUT, TURN, Change, usual

if TYPE_CHECKING:
    from collections.abc import Callable

_SENT = frozenset(
    {
        "attachment/date_change",
        "attachment/deferred_tools_delta",
        "attachment/edited_text_file",
        "attachment/hook_additional_context",
        "attachment/hook_blocking_error",
        "attachment/mcp_instructions_delta",
        "attachment/opened_file_in_ide",
        "attachment/plan_mode",
        "attachment/plan_mode_exit",
        "attachment/plan_mode_reentry",
        "attachment/selected_lines_in_ide",
        "attachment/skill_listing",
        "attachment/task_reminder",
        "attachment/todo_reminder",
        "document",
        "image",
    }
)
"""Records that are no messages and still reach the model, as reminders or blocks."""

_SHOWN_ONLY = ("system/", "queue-operation/", "workflow/")
_CLIENT = frozenset({"synthetic", "system", "empty", "replay"})
"""Texts that the client shows to the person or writes in place of an answer."""


def window(kind: str, subtype: str | None, text: str | None, record: Callable[[], bytes]) -> str | Change:
    """Return where an event stands in the window, or what its record took out of it; see :class:`Host`."""
    del record
    name = subtype or ""
    if kind == "compaction":
        if name == "system/microcompact_boundary":
            return Change("clearing", results=_cleared(text))
        # the summary is a message of its own, behind the boundary
        return Change("compaction", everything=True)
    if name in _SENT:
        return TURN
    if kind == "injected" and (name in _CLIENT or name.startswith(_SHOWN_ONLY)):
        return OUT
    if kind == "subagent_start" and name != "agent_prompt":
        return OUT
    return usual(kind, text)


def _cleared(text: str | None) -> tuple[str, ...]:
    try:
        ids = json.loads(text or "{}")["compactedToolIds"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    return tuple(i for i in ids if isinstance(i, str)) if isinstance(ids, list) else ()
