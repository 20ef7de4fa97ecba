"""Model calls of one session, each response counted once.

A response is written as one line for each content block, every line with a copy of the
usage; the output count grows from line to line, so each field is the maximum over the
lines and the line with the highest output gives time and place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts.claude_code.record_types import Iteration, Usage
from ctx_pipeline.model.host_records import PLAN, REQUESTS, LimitNote
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.raw import StreamBytes


Number = int | float | None

SYNTHETIC = "<synthetic>"
"""Model of lines that the client made itself: no API call."""

LARGEST = 10**12
"""Tokens of one call above this are a broken number and count as none."""

_MOST_SEARCHES = 1_000_000
"""Web searches of one call above this are a broken number; their fee would not fit into a table."""

_LARGEST_COST = 1_000_000.0
_NANO = 1_000_000_000


def tokens(value: Number) -> int:
    """Return a count of tokens; 0 for an absent, negative or absurd number."""
    if value is None or not 0 <= value <= LARGEST:
        return 0
    return int(value)


Seen = tuple[str, "int | None", "StreamBytes", int, int, int]
"""thread, time, stream, first byte, byte after and line of one line of a response"""


class ModelCalls:
    """Collects the usage of a session's lines and gives one row for each response."""

    __slots__ = ("_calls", "_host", "_session")

    def __init__(self, host: str, session_id: str) -> None:
        self._host = host
        self._session = session_id
        self._calls: dict[str, list[tuple[Usage, str | None, Number, Seen]]] = {}

    def add(self, key: str, usage: Usage, model: str | None, cost: Number, seen: Seen) -> None:
        """Take one line of the response ``key``."""
        lines = self._calls.get(key)
        if lines is None:
            self._calls[key] = [(usage, model, cost, seen)]
        else:
            before, named, price, at = lines[-1]
            if cost is None and seen[0] == at[0] and _supersedes(usage, before):
                lines[-1] = (usage, model or named, price, seen)
            else:
                lines.append((usage, model, cost, seen))
        steps = usage.iterations
        if steps is not None and len(steps) > 1:
            self._advisors(key, steps, seen)

    def _advisors(self, key: str, steps: list[Iteration], seen: Seen) -> None:
        """Take requests to another model inside a response: they are not in its totals."""
        for index, step in enumerate(steps):
            if step.type == "advisor_message":
                usage = Usage(
                    input_tokens=step.input_tokens,
                    output_tokens=step.output_tokens,
                    cache_creation_input_tokens=step.cache_creation_input_tokens,
                    cache_read_input_tokens=step.cache_read_input_tokens,
                    cache_creation=step.cache_creation,
                )
                self.add(f"{key}/advisor-{index}", usage, step.model, None, seen)

    def rows(self) -> list[tuple]:
        """Return one row of ``model_calls`` for each response, in order of first sight.

        The thread is that of the first line: main streams are read first, so a side file
        that replays its parent's responses adds no call to its own thread.
        """
        rows = []
        host, session = self._host, self._session
        for key, lines in self._calls.items():
            usage, model, cost, seen = lines[0]
            sizes = _sizes(usage)
            searches = _searches(usage)
            tier, speed = usage.service_tier, usage.speed
            if len(lines) > 1:
                thread = seen[0]
                for usage, said, price, at in lines[1:]:
                    here = _sizes(usage)
                    if here[1] >= sizes[1] and at[0] == thread:
                        seen = at
                        model = said or model
                    if here != sizes:
                        sizes = (
                            max(sizes[0], here[0]),
                            max(sizes[1], here[1]),
                            max(sizes[2], here[2]),
                            max(sizes[3], here[3]),
                            max(sizes[4], here[4]),
                        )
                    searches = max(searches, _searches(usage))
                    tier = usage.service_tier or tier
                    speed = usage.speed or speed
                    if price is not None and (cost is None or price > cost):
                        cost = price
            fresh, output, short, long, read = sizes
            thread, ts, stream, start, end, line = seen
            rows.append(
                (
                    key,
                    host,
                    session,
                    thread,
                    ts,
                    model or "",
                    fresh,
                    output,
                    short,
                    long,
                    read,
                    0,
                    fresh + short + long + read,
                    tier,
                    speed,
                    searches,
                    None if cost is None else _nano(cost),
                    None,
                    None,
                    False,
                    True,
                    None,
                    "",
                    stream.stream,
                    stream.generation,
                    start,
                    end,
                    line,
                ),
            )
        return rows


def _supersedes(usage: Usage, before: Usage) -> bool:
    """Return whether a line says all that the one before said, with no smaller output: the rule, not the exception."""
    output, less = usage.output_tokens, before.output_tokens
    return (
        output is not None
        and less is not None
        and 0 <= less <= output <= LARGEST
        and usage.input_tokens == before.input_tokens
        and usage.cache_creation_input_tokens == before.cache_creation_input_tokens
        and usage.cache_read_input_tokens == before.cache_read_input_tokens
        and usage.cache_creation == before.cache_creation
        and usage.server_tool_use == before.server_tool_use
        and usage.service_tier == before.service_tier
        and usage.speed == before.speed
    )


def _searches(usage: Usage) -> int:
    servers = usage.server_tool_use
    if servers is None or not servers.web_search_requests:
        return 0
    found = tokens(servers.web_search_requests)
    return found if found <= _MOST_SEARCHES else 0


def _sizes(usage: Usage) -> tuple[int, int, int, int, int]:
    """Return input, output, five-minute writes, one-hour writes and cache reads of one line.

    A write without its lifetime counts as five-minute.
    """
    fresh, output, written, read = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_creation_input_tokens,
        usage.cache_read_input_tokens,
    )
    if fresh.__class__ is not int or not 0 <= fresh <= LARGEST:
        fresh = tokens(fresh)
    if output.__class__ is not int or not 0 <= output <= LARGEST:
        output = tokens(output)
    if written.__class__ is not int or not 0 <= written <= LARGEST:
        written = tokens(written)
    if read.__class__ is not int or not 0 <= read <= LARGEST:
        read = tokens(read)
    split = usage.cache_creation
    if split is None:
        return fresh, output, written, 0, read
    short, long = split.ephemeral_5m_input_tokens, split.ephemeral_1h_input_tokens
    if short.__class__ is not int or not 0 <= short <= LARGEST:
        short = tokens(short)
    if long.__class__ is not int or not 0 <= long <= LARGEST:
        long = tokens(long)
    if short + long < written:
        short = written - long
    return fresh, output, short, long, read


def _nano(dollars: Number) -> int | None:
    """Return nano-dollars of a recorded price, None where none was recorded."""
    if dollars is None or not 0 <= dollars <= _LARGEST_COST:
        return None
    return round(dollars * _NANO)


# Limits that Claude Code's own records say were reached; what a person or a tool wrote about limits is none of them.


# 1.0: "Claude AI usage limit reached|1754424000"; 2.0: "5-hour limit reached ∙ resets 3pm"; 2.1: "You've hit your weekly limit"
_PLAN = lazy_pattern(
    r"(?i)(?:\b(5-hour|weekly|opus weekly|opus|sonnet|session|usage) )?limit reached\b(?:\|(\d{10})\b)?"
    r"|\b(?:hit|reached) your (5-hour|weekly|opus|sonnet|session|usage)? ?limit\b"
)
_RATE = lazy_pattern(r"(?i)\brate_limit_error\b|\bAPI Error:? \(?429\b|\"status\":\s?429\b|request rejected \(429\)")
_NAMES = {"5-hour": "five-hour", "session": "five-hour", "opus weekly": "weekly opus", "usage": ""}
_LONGEST = 20_000


def reached(subtype: str, text: str, ts: int) -> Iterator[LimitNote]:
    """Yield the limit that an error of the client says was reached; an answer of the API with 429 is one of requests."""
    del ts
    text = text[:_LONGEST]
    told = _PLAN.search(text) if subtype == "api_error_message" else None
    if told:
        name = (told[1] or told[3] or "").lower()
        yield LimitNote(PLAN, _NAMES.get(name, name), int(told[2]) * 1_000_000 if told[2] else None)
    elif _RATE.search(text):
        yield LimitNote(REQUESTS)
