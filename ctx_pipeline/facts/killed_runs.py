"""Which commands a signal ended, as far as their exit status and the agent's own calls tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_ASKED = frozenset({130, 143})
"""Exit statuses of what SIGINT or SIGTERM ended: somebody asked for that."""

_KILLED = 137
"""Exit status of what SIGKILL ended; where nobody sent it, the system did for want of memory, and the command failed."""

_KILLS = lazy_pattern(r"(?:^|[;&|({]\s*|\n\s*)(?:sudo\s+)?(?:kill|pkill|killall)(?:\s|$)")


def ended_by_signal(view: SessionView, status: int | None, started: int | None, ended: int | None) -> bool:
    """Tell whether a command neither passed nor failed, since somebody stopped it; times in microseconds since 1970."""
    return status in _ASKED or (status == _KILLED and agent_killed(view, started, ended))


def agent_killed(view: SessionView, started: int | None, ended: int | None) -> bool:
    """Tell whether the agent ended a process while a command ran; a kill that failed ended nothing."""
    return any(
        call.action == "shell" and not call.is_error and any(_KILLS.search(command) for command in call.argv or ())
        for call in view.tool_calls
        if None not in (started, call.started) and started <= call.started <= (ended or call.started)
    )
