"""What tokens and money were spent on: steps, changes, green checks, subagents."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.output_counts import is_first_count
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.steps import COLUMNS, KINDS, steps

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_CALLS = ("model_calls",)
_STEPS = ("events", "model_calls", "tool_calls", "command_runs", "check_runs")
_THREADS = ("model_calls", "threads")
_COLUMNS = {
    **COLUMNS,
    "model_calls": ("thread_id", "model", "output", "cache_read", "context_tokens", "cost", "owner"),
    "threads": ("thread_id", "kind", "agent", "status"),
}
_WRITTEN_KINDS = ("answer", "reasoning", "tool_call")
_WRITTEN = {
    "events": ("event_id", "thread_id", "seq", "kind", "call_key", "text"),
    "model_calls": ("thread_id", "call_key", "model", "output", "owner"),
}
_NO_CALLS = "the session has no model call of its own"
_NANO = 1_000_000_000
_HELPERS = frozenset({"subagent", "sidechain", "review"})


def _own(view: SessionView) -> list[Any]:
    """Return the model calls that this session owns: a copy in a fork or a resumed file counts elsewhere."""
    return [c for c in view.model_calls if c.owner]


def _tokens(call: Any) -> int:
    return int(call.context_tokens + call.output)


@lru_cache(maxsize=16)
def _tokenizer(model: str) -> Any:
    from ctx_pipeline.tokens.tokenizers import tokenizer_from_name

    return tokenizer_from_name(model or "fallback")


def _total(view: SessionView) -> int:
    return sum(_tokens(c) for c in view.once(_own))


@signal(group="cost", unit="tokens", better="lower", reads=_CALLS, columns=_COLUMNS)
def session_tokens(view: SessionView) -> Reading:
    """Tokens of all model calls that the session owns: whole prompts, cached ones too, and output.

    Subagents are in it, copies in resumed and forked files are not. Most of it is the
    window read again with every call; see the cost for what it comes to. Unknown without
    a call.
    """
    calls = view.once(_own)
    if not calls:
        return Reading(None, reason=_NO_CALLS)
    parts = {"output": sum(c.output for c in calls), "cache_read": sum(c.cache_read for c in calls), "calls": len(calls)}
    return Reading(float(view.once(_total)), metadata=parts)


@signal(group="cost", unit="dollars", better="lower", reads=_CALLS, columns=_COLUMNS)
def session_cost(view: SessionView) -> Reading:
    """Dollars that the session's own model calls cost, from dated list prices.

    A call without a price is not in the sum; the confidence is the share of tokens that
    have one. Unknown where no call has a price: never zero.
    """
    calls = view.once(_own)
    if not calls:
        return Reading(None, reason=_NO_CALLS)
    priced = [c for c in calls if c.cost is not None]
    if not priced:
        return Reading(None, reason="no price is known for its models")
    share = sum(map(_tokens, priced)) / (view.once(_total) or 1)
    unpriced = sorted({c.model or "unnamed" for c in calls if c.cost is None})
    return Reading(
        sum(c.cost for c in priced) / _NANO, confidence=min(1.0, share), metadata={"without_price": unpriced} if unpriced else None
    )


@signal(group="cost", unit="tokens", better="lower", reads=("events", "model_calls"), columns=_WRITTEN, kinds=_WRITTEN_KINDS)
def estimated_missing_output(view: SessionView) -> Reading:
    """Output tokens that long answers hold beyond the few that were recorded for them, estimated from their text.

    Some records hold only the first count of a stream, at most three tokens, for an answer
    of any length. The details name the calls. Recorded totals and costs do not change.
    Unknown without a call; calls whose text the record lacks are not estimated.
    """
    calls = {c.call_key: c for c in view.model_calls if c.owner}
    if not calls:
        return Reading(None, reason=_NO_CALLS)
    texts: dict[str, list[Any]] = {}
    for event in view.events:
        if event.call_key in calls and event.text:
            texts.setdefault(event.call_key, []).append(event)
    missing: dict[str, int] = {}
    evidence = []
    for key, events in texts.items():
        if not is_first_count(calls[key].output, sum(len(event.text) for event in events)):
            continue
        tokenizer = _tokenizer(calls[key].model)
        missing[key] = sum(tokenizer.count_many([event.text for event in events])) - calls[key].output
        evidence.append(events[0].event_id)
    return Reading(float(sum(missing.values())), tuple(evidence[:8]), metadata={"calls": missing} if missing else None)


@signal(group="cost", unit="tokens", better="lower", reads=_STEPS, columns=_COLUMNS, kinds=KINDS)
def tokens_per_step(view: SessionView) -> Reading:
    """Tokens of the session's own model calls for each step of the agent.

    It grows with the window: a session that is compacted or split in time holds it
    level. Unknown without steps or model calls.
    """
    return _per(view, len(view.once(steps).all), "the agent took no step")


@signal(version=2, group="cost", unit="tokens", better="lower", reads=_STEPS, columns=_COLUMNS, kinds=KINDS)
def tokens_per_edit(view: SessionView) -> Reading:
    """Tokens of the session's own model calls for each change of a source file that succeeded.

    The price of a change, with all the looking that it took. Compare it among sessions of
    one project. Unknown without such a change or model calls.
    """
    return _per(
        view, sum(s.category in ("generate_fix", "refactor") and not s.failed for s in view.once(steps).all), "no source file was changed"
    )


@signal(version=3, group="cost", unit="tokens", better="lower", reads=("model_calls", "check_runs"), columns=_COLUMNS)
def tokens_per_passing_check(view: SessionView) -> Reading:
    """Tokens of the session's own model calls for each run of a test, linter, type checker or build that passed.

    The price of being sure. Runs are the rows of ``check_runs``. Unknown where no check passed, or without model calls.
    """
    passed = sum(row.result == "passed" and row.ran is not False for row in check_runs(view))
    return _per(view, passed, "no check passed")


def _per(view: SessionView, count: int, reason: str) -> Reading:
    if not view.once(_own):
        return Reading(None, reason=_NO_CALLS)
    if not count:
        return Reading(None, reason=reason)
    return Reading(view.once(_total) / count, metadata={"count": count})


def _helpers(view: SessionView) -> list[Any]:
    return [t for t in view.threads if t.kind in _HELPERS]


@signal(group="activity", unit="subagents", reads=("threads",), columns=_COLUMNS)
def subagent_count(view: SessionView) -> Reading:
    """Subagents that worked in the session: context windows beside the main one.

    Their kinds are in the metadata. Subagents keep their reading out of the main window;
    many small ones each pay for their own instructions.
    """
    helpers = view.once(_helpers)
    agents: dict[str, int] = {}
    for t in helpers:
        agents[t.agent or t.kind] = agents.get(t.agent or t.kind, 0) + 1
    return Reading(float(len(helpers)), metadata={"agents": dict(sorted(agents.items()))} if agents else None)


@signal(group="activity", unit="ratio", reads=("threads", "tool_calls"), columns=_COLUMNS)
def subagent_call_ratio(view: SessionView) -> Reading:
    """Share of tool calls that subagents made, 0 to 1.

    Above 0.7 the main window only directs. Unknown without a tool call or a subagent.
    """
    if not view.tool_calls:
        return Reading(None, reason="no tool was called")
    threads = {t.thread_id for t in view.once(_helpers)}
    if not threads:
        return Reading(None, reason="no subagent worked in the session")
    found = [c.call_event for c in view.tool_calls if c.thread_id in threads]
    return Reading(len(found) / len(view.tool_calls), tuple(found[:8]))


@signal(group="cost", unit="ratio", reads=_THREADS, columns=_COLUMNS)
def subagent_token_ratio(view: SessionView) -> Reading:
    """Share of the session's own tokens that subagents used, 0 to 1, with their cost.

    Set it against ``subagent_call_ratio``: less share of tokens than of calls means that
    delegation paid. Unknown without a subagent or a model call.
    """
    threads = {t.thread_id for t in view.once(_helpers)}
    if not threads:
        return Reading(None, reason="no subagent worked in the session")
    calls = view.once(_own)
    total = view.once(_total)
    if not total:
        return Reading(None, reason=_NO_CALLS)
    theirs = [c for c in calls if c.thread_id in threads]
    priced = [c.cost for c in theirs if c.cost is not None]
    return Reading(sum(map(_tokens, theirs)) / total, metadata={"dollars": sum(priced) / _NANO} if priced else None)


@signal(group="outcome", unit="subagents", better="lower", reads=("threads", "tool_calls"), columns=_COLUMNS)
def failed_delegation_count(view: SessionView) -> Reading:
    """Subagents that ended in an error or were stopped, and delegations that never began.

    An unknown agent type, an interruption, an error of the provider in its window. The
    work is usually done a second time by the main agent. Unknown where nothing was
    delegated.
    """
    threads = view.once(_helpers)
    orders = [c for c in view.tool_calls if c.action == "task"]
    if not threads and not orders:
        return Reading(None, reason="nothing was delegated")
    ended = [t for t in threads if t.status in ("errored", "interrupted")]
    refused = [c for c in orders if c.is_error]
    return Reading(
        float(max(len(ended), len(refused))), tuple(c.result_event or c.call_event for c in refused), metadata={"subagents": len(threads)}
    )
