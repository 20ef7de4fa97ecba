"""How full each context window of a session was, and where its size comes from: the host, a compaction, or the model's maker."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.model.declared import Windows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.session_view import SessionView

ASSUMED = 200_000
"""Tokens that a view of a window draws where nobody knows its size; no share is worked out of it."""

LARGE = 1_000_000
"""Tokens of the larger window that providers sell: a prompt beyond the published size was served by it."""

RECORDED, PUBLISHED, EXCEEDED, COMPACTED = "recorded", "published", "exceeded", "compacted"
SOURCES = {
    RECORDED: "as the agent recorded",
    COMPACTED: "as an automatic compaction shows",
    PUBLISHED: "as published for the model",
    EXCEEDED: "since a prompt was larger than the published window",
}
"""Who says the size of a window, in words that follow it."""

_LONGEST = 40_000
_NEARLY_FULL = 0.7
"""Share of its window at which a host compacts by itself, at least; what happened below shows no size."""


class WindowSize(NamedTuple):
    """Tokens that a window holds, and who says so; both None where nobody does."""

    tokens: int | None
    source: str | None
    """one of :data:`SOURCES`"""


NOT_KNOWN = WindowSize(None, None)


class Peak(NamedTuple):
    """The model call with the fullest window of a session."""

    share: float
    """tokens of its prompt by tokens of the window, at most 1"""
    call: Any
    """row of ``model_calls``"""
    window: WindowSize
    compaction: str | None = None
    """event of the compaction that shows the size"""


def window_size(
    recorded: int | None, model: str | None, largest: int = 0, *, host: str | None = None, compacted: int | None = None
) -> WindowSize:
    """Return how many tokens a window holds, in tokens; ``largest`` is the largest prompt that was in it.

    What the host recorded comes first, then the size published for the model. A prompt
    that exceeded it gives way to the larger window of a million tokens. Where the host
    compacted by itself at ``compacted`` tokens, below the published size, the window was
    the smallest of the host's that holds them, if that was nearly full. Of a model that
    the host runs in several sizes by the person's plan, which no record tells, the size
    is not known without such a proof.
    """
    if recorded:
        return WindowSize(max(recorded, largest), RECORDED)
    from ctx_pipeline.tokens.model_tokens import context_window

    published = context_window(model)
    if not published:
        return NOT_KNOWN
    if largest > published:
        return WindowSize(max(LARGE, largest), EXCEEDED)
    offered = _offered(host)
    if compacted:
        fits = next((size for size in offered.sizes if size >= max(compacted, largest)), published)
        if fits < published and compacted >= _NEARLY_FULL * fits:
            return WindowSize(fits, COMPACTED)
    if offered.by_plan and re.search(offered.by_plan, model or "") and largest <= min(offered.sizes) < published:
        return NOT_KNOWN
    return WindowSize(published, PUBLISHED)


def _offered(host: str | None) -> Windows:
    known = discovery.hosts()
    return known[host].records.windows if host in known else Windows()


def compaction_facts(text: str | None) -> dict[str, Any]:
    """Return what a host's record of a compaction says as a list of facts; nothing where it is none."""
    if not text or not text.startswith("{") or len(text) > _LONGEST:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def automatic(compactions: Iterable[tuple[str, str | None]]) -> tuple[int | None, str | None]:
    """Return the most tokens at which the host compacted by itself, with the event; of compactions by event and text.

    Where the host only took out tool results, the window was not full.
    """
    found: list[tuple[int, str]] = []
    for event, text in compactions:
        facts = compaction_facts(text)
        before = facts.get("preTokens")
        if facts.get("trigger") == "auto" and isinstance(before, int) and before > 0 and "tokensSaved" not in facts:
            found.append((before, event))
    return max(found, key=lambda one: one[0], default=(None, None))


def peak(view: SessionView, thread: str | None = None) -> Peak | None:
    """Return the call that filled its window most, over all threads or in one; None where no call recorded its prompt or no size is known.

    Reads ``model_calls``, ``threads`` and the compactions among ``events``. Copies of calls of other sessions do not count.
    """
    sizes = {t.thread_id: t.context_window for t in view.threads}
    found: list[Peak] = []
    for call in _largest(view.model_calls):
        if thread is not None and call.thread_id != thread:
            continue
        compacted, event = automatic((e.event_id, e.text) for e in view.of_kinds("compaction") if e.thread_id == call.thread_id)
        size = window_size(sizes.get(call.thread_id), call.model, call.context_tokens, host=view.host, compacted=compacted)
        if size.tokens:
            proof = event if size.source == COMPACTED else None
            found.append(Peak(min(1.0, call.context_tokens / size.tokens), call, size, proof))
    return max(found, key=lambda p: p.share, default=None)


def _largest(calls: Iterable[Any]) -> Iterable[Any]:
    """Return the call with the largest prompt of each thread and model."""
    largest: dict[tuple[str, str], Any] = {}
    for call in calls:
        key = (call.thread_id, call.model)
        if call.owner and call.context_tokens > 0 and (key not in largest or call.context_tokens > largest[key].context_tokens):
            largest[key] = call
    return largest.values()
