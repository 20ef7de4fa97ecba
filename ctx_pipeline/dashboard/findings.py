"""Findings: what in this history deserves a look, worst first, each with the command that shows more."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.dashboard.numbers import count, money, plural, share, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctx_pipeline.dashboard.data import PageData, SessionLine

FAILED_AT_LEAST = 3
"""Fewer failed commands in a session are an ordinary day."""


class Finding(NamedTuple):
    """One thing to look at. ``weight`` orders: 3 act on it, 2 look at it, 1 know it."""

    weight: int
    title: str
    detail: str
    command: str
    session: str = ""
    """key of the session to open"""


def findings(data: PageData) -> list[Finding]:
    """Return every finding that holds for this history, the weightiest first."""
    found = [finding for rule in _RULES for finding in rule(data)]
    return sorted(found, key=lambda f: -f.weight)


def _expiring(data: PageData) -> Iterator[Finding]:
    for line in data.expiring:
        title = data.host_titles[line.host].title if line.host in data.host_titles else line.host
        verb = "is" if line.files == 1 else "are"
        yield Finding(
            3,
            f"{plural(line.files, 'transcript')} of {title} {verb} about to be deleted",
            f"{title} removes what is older than {line.retention_days} days; the oldest is {line.oldest_days} days old. "
            "What is captured here stays. To keep the originals, raise the host's retention setting.",
            f"ctx list --host {line.host}",
        )


def _unread(data: PageData) -> Iterator[Finding]:
    quarantined = sum(s.quarantined for s in data.sessions)
    unknown = sum(s.unknown for s in data.sessions)
    if quarantined:
        hit = sum(1 for s in data.sessions if s.quarantined)
        yield Finding(
            3,
            f"{plural(quarantined, 'record')} could not be read",
            f"In {plural(hit, 'session')}. Their bytes are kept; nothing of them is counted.",
            "ctx doctor",
        )
    if unknown:
        hit = sum(1 for s in data.sessions if s.unknown)
        yield Finding(
            1,
            f"{plural(unknown, 'record')} of an unknown kind",
            f"In {plural(hit, 'session')}; kept with their payload. A host may have changed its format.",
            "ctx doctor",
        )


def _secrets(data: PageData) -> Iterator[Finding]:
    total = sum(data.redactions.values())
    if total:
        kinds = ", ".join(f"{name} {count(n)}" for name, n in sorted(data.redactions.items(), key=lambda r: (-r[1], r[0]))[:4])
        yield Finding(
            3,
            f"{plural(total, 'secret')} replaced before anything was stored",
            f"By kind: {kinds}. They stand in clear in the transcripts of the agents: consider renewing them.",
            "ctx search --regex '\\[REDACTED:[a-z]'",
        )


def _failures(data: PageData) -> Iterator[Finding]:
    worst = max(data.sessions, key=lambda s: (s.failed_commands, s.failed_tool_calls), default=None)
    if worst is None or worst.failed_commands < FAILED_AT_LEAST:
        return
    others = sum(1 for s in data.sessions if s.failed_commands >= FAILED_AT_LEAST) - 1
    more = f" {plural(others, 'other session')} had {FAILED_AT_LEAST} or more." if others else ""
    yield Finding(
        2,
        f"{count(worst.failed_commands)} of {plural(worst.commands, 'command')} failed in one session",
        f"{_named(worst)}.{more}",
        _show(worst),
        worst.key,
    )


def _expensive(data: PageData) -> Iterator[Finding]:
    total = data.usage.cost_nano
    paid = [s for s in data.sessions if s.usage.cost_nano > 0]
    if len(paid) < 5:
        return
    ranked = sorted(paid, key=lambda s: (-s.usage.cost_nano, s.host, s.session_id))
    few = ranked[: max(1, len(ranked) // 10)]
    part = sum(s.usage.cost_nano for s in few)
    who = "One session" if len(few) == 1 else f"{count(len(few))} sessions"
    yield Finding(
        2,
        f"{who} of {count(len(paid))} made {share(part, total)} of the cost",
        f"The dearest, {_named(ranked[0])}, cost {money(ranked[0].usage.cost_nano)} over {plural(ranked[0].usage.calls, 'call')}.",
        "ctx usage session",
        ranked[0].key,
    )


def _caching(data: PageData) -> Iterator[Finding]:
    u = data.usage
    prompt = u.input_tokens + u.cache_writes + u.cache_read_tokens
    if prompt < 1_000_000:
        return
    yield Finding(
        2 if u.cache_read_tokens < prompt / 2 else 1,
        f"{share(u.cache_read_tokens, prompt)} of all prompt tokens came from the cache",
        f"{short(u.cache_read_tokens)} were read from it, {short(u.cache_writes)} written to it and {short(u.input_tokens)} sent fresh. "
        "A low share means that sessions are resumed after the cache has gone or that their beginning keeps changing.",
        "ctx usage model",
    )


def _unpriced(data: PageData) -> Iterator[Finding]:
    lines = [m for m in data.models if m.usage.unpriced_calls and m.usage.tokens]
    if lines:
        names = ", ".join((m.model or "a model without a name")[:60] for m in lines[:3])
        calls = sum(m.usage.unpriced_calls for m in lines)
        tokens = short(sum(m.usage.tokens for m in lines))
        yield Finding(
            2,
            f"No price is known for {plural(len(lines), 'model')}",
            f"{names}{' and others' if len(lines) > 3 else ''}: {plural(calls, 'call')} with {tokens} tokens are left out of the cost.",
            "ctx usage model --json",
        )


def _context(data: PageData) -> Iterator[Finding]:
    squeezed = [s for s in data.sessions if s.compactions]
    if squeezed:
        worst = max(squeezed, key=lambda s: s.compactions)
        yield Finding(
            1,
            f"{plural(len(squeezed), 'session')} outgrew the context window",
            f"History was shortened {_times(sum(s.compactions for s in squeezed))}; most often in {_named(worst)} "
            f"({_times(worst.compactions)}).",
            _show(worst),
            worst.key,
        )


def _memories(data: PageData) -> Iterator[Finding]:
    review = data.memory_status.get("needs_review", 0)
    waiting = data.memory_status.get("candidate", 0)
    if review:
        verb = "waits" if review == 1 else "wait"
        yield Finding(
            2,
            f"{plural(review, 'memory', 'memories')} {verb} for a review",
            "Something in the text looked like an instruction or a secret; flagged memories are never given to an agent.",
            "ctx sql \"SELECT memory_id, flags, text FROM memories WHERE status = 'needs_review'\"",
        )
    if waiting:
        verb = "was" if waiting == 1 else "were"
        yield Finding(
            1,
            f"{plural(waiting, 'memory', 'memories')} {verb} drawn from past sessions",
            "Lessons with evidence, ready to be given to the next session where they fit.",
            "ctx memory list",
        )


def _named(line: SessionLine) -> str:
    text = " ".join(line.label.split())
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text[:77] + '…' if len(text) > 78 else text}\N{RIGHT DOUBLE QUOTATION MARK}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{count(number)} times")


def _show(line: SessionLine) -> str:
    return f"ctx show {shlex.quote(line.host)} {shlex.quote(line.session_id)}"


_RULES: tuple[Callable[[PageData], Iterator[Finding]], ...] = (
    _expiring,
    _unread,
    _secrets,
    _failures,
    _expensive,
    _unpriced,
    _memories,
    _caching,
    _context,
)
