"""Limits that Claude Code's own records say were reached; what a person or a tool wrote about limits is none of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.model.limit_notes import PLAN, REQUESTS, LimitNote

if TYPE_CHECKING:
    from collections.abc import Iterator

# 1.0: "Claude AI usage limit reached|1754424000"; 2.0: "5-hour limit reached ∙ resets 3pm"; 2.1: "You've hit your weekly limit"
_PLAN = re.compile(
    r"(?i)(?:\b(5-hour|weekly|opus weekly|opus|sonnet|session|usage) )?limit reached\b(?:\|(\d{10})\b)?"
    r"|\b(?:hit|reached) your (5-hour|weekly|opus|sonnet|session|usage)? ?limit\b"
)
_RATE = re.compile(r"(?i)\brate_limit_error\b|\bAPI Error:? \(?429\b|\"status\":\s?429\b|request rejected \(429\)")
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
