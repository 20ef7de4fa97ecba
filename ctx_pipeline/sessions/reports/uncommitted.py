"""What sessions left uncommitted, as git said last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.tables import EVENTS, THREADS, TOOL_CALLS
from ctx_pipeline.sessions.states.end_state import TREE, end_state
from ctx_pipeline.sessions.states.state_fold import unseen_agents
from ctx_pipeline.usage.session_figures import Figure, figures

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_BEGIN = "uncommitted at the last git status: "


def uncommitted(store: Store, settings: Settings) -> dict[tuple[str, str], str]:
    """Return (host, session id) -> the files that were not committed when a session ended, and commits that were not pushed.

    Only sessions are in it whose last ``git status`` showed such files, all of them, and
    behind which nothing was changed or committed. A copy of a session is left out.
    """
    copied = store.ledger.copied_sessions()
    found = {key: values[0] for key, values in figures(store, settings, UNCOMMITTED, only=lambda key: key not in copied)}
    return {key: text for key, text in found.items() if text}


def _left(view: SessionView, _settings: Settings) -> dict[int | None, str | None]:
    item = next((item for item in end_state(view) if item.by == TREE), None)
    if item is None or not item.text.startswith(_BEGIN):
        return {None: None}
    shown = view.by_event[item.event].ts if item.event in view.by_event else None
    # subagents without a record may have committed it
    later = any(shown is None or call.started is None or call.started >= shown for call in unseen_agents(view))
    return {None: None if later else item.text.removeprefix(_BEGIN)}


def _one(values: Any) -> str | None:
    return next(iter(values), None)


UNCOMMITTED = Figure(
    "uncommitted",
    1,
    _left,
    _one,
    {
        "events": EVENTS.names,
        "tool_calls": TOOL_CALLS.names,
        "threads": THREADS.names,
        "command_runs": (
            *("thread_id", "seq", "call_event", "command", "programs", "purposes", "folder", "pipeline"),
            *("background", "polls", "outputs", "result", "event", "started", "ended"),
        ),
        "file_accesses": ("thread_id", "seq", "call_event", "path", "did", "ts"),
    },
    ("tool_call", "tool_result", "injected", "prompt", "answer"),
    timeless=True,
)
"""What is kept of each session: what its last git status showed as uncommitted."""
