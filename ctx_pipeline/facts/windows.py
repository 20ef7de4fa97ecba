"""How full each context window of a session was: its size as the host recorded it, else as the model's maker publishes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.session_view import SessionView

ASSUMED = 200_000
"""Tokens that a view of a window draws where nobody knows its size; no share is worked out of it."""

LARGE = 1_000_000
"""Tokens of the larger window that providers sell: a prompt beyond the published size was served by it."""

RECORDED, PUBLISHED = "recorded", "published"


class WindowSize(NamedTuple):
    """Tokens that a window holds, and who says so; both None where nobody does."""

    tokens: int | None
    source: str | None
    """recorded (by the host in the session) or published (for the model)"""


class Peak(NamedTuple):
    """The model call with the fullest window of a session."""

    share: float
    """tokens of its prompt by tokens of the window, at most 1"""
    call: Any
    """row of ``model_calls``"""
    window: WindowSize


def window_size(recorded: int | None, model: str | None, largest: int = 0) -> WindowSize:
    """Return how many tokens a window holds, in tokens; ``largest`` is the largest prompt that was in it.

    What the host recorded comes first. A published size that a prompt exceeded gives way
    to the larger window of a million tokens.
    """
    if recorded:
        return WindowSize(max(recorded, largest), RECORDED)
    from ctx_pipeline.tokens.model_tokens import context_window

    published = context_window(model)
    if not published:
        return WindowSize(None, None)
    return WindowSize(published if largest <= published else max(LARGE, largest), PUBLISHED)


def peak(view: SessionView) -> Peak | None:
    """Return the call that filled its window most, over all threads; None where no call recorded its prompt or no size is known.

    Reads ``model_calls`` and ``threads``. Copies of calls of other sessions do not count.
    """
    sizes = {t.thread_id: t.context_window for t in view.threads}
    found = [
        Peak(min(1.0, call.context_tokens / size.tokens), call, size)
        for call in _largest(view.model_calls)
        if (size := window_size(sizes.get(call.thread_id), call.model, call.context_tokens)).tokens
    ]
    return max(found, key=lambda p: p.share, default=None)


def _largest(calls: Iterable[Any]) -> Iterable[Any]:
    """Return the call with the largest prompt of each thread and model."""
    largest: dict[tuple[str, str], Any] = {}
    for call in calls:
        key = (call.thread_id, call.model)
        if call.owner and call.context_tokens > 0 and (key not in largest or call.context_tokens > largest[key].context_tokens):
            largest[key] = call
    return largest.values()
