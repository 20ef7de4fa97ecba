"""How the context of a session grew, what filled it, and what it gave back."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMPRESSED = 0.8
"""A prompt below this share of the one before has been compressed."""

_FLAT = 1.2
_SUPER = 1.5
_LEVEL = 0.5
_FEW = 4


def efficiency(growth: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each call completion over prompt tokens, rounded to 4 decimals, 0.0 without a prompt."""
    rows = []
    for call in growth:
        prompt, completion = call["prompt_tokens"] or 0, call["completion_tokens"] or 0
        ratio = round(completion / prompt, 4) if prompt else 0.0
        rows.append({"seq": call["seq"], "prompt_tokens": prompt, "completion_tokens": completion, "efficiency_ratio": ratio})
    return rows


def first_counts(growth: Sequence[Mapping[str, Any]]) -> int:
    """Return how many calls hold only the first count of their output: no figure may rest on what they wrote."""
    return sum(bool(call.get("first_count")) for call in growth)


def efficiency_onset(rows: Sequence[Mapping[str, Any]], share: float = 0.5) -> int | None:
    """Return the seq of the first call from which efficiency stays below a share of the initial one, None if it never does."""
    if len(rows) < 2 or rows[0]["efficiency_ratio"] <= 0:
        return None
    limit = rows[0]["efficiency_ratio"] * share
    onset = None
    for row in rows[1:]:
        if row["efficiency_ratio"] >= limit:
            onset = None
        elif onset is None:
            onset = row["seq"]
    return onset


def shape(growth: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return class, factor and compressions of the growth of the prompts.

    class: ``flat`` (the largest is at most 1.2 times the first), ``plateau``,
    ``linear`` or ``superlinear`` (what the second half of the calls added is below half,
    about, or above one and a half times what the first half added), ``short`` with fewer
    than four calls. Calls without tokens are left out; compressions are counted.
    """
    prompts = [c["prompt_tokens"] for c in growth if c["prompt_tokens"]]
    if not prompts:
        return {"class": "none", "factor": None, "compressions": 0, "largest": 0}
    drops = sum(b < a * COMPRESSED for a, b in itertools.pairwise(prompts))
    found = {"factor": round(max(prompts) / prompts[0], 2), "compressions": drops, "largest": max(prompts)}
    if len(prompts) < _FEW:
        return {"class": "short", **found}
    if max(prompts) <= prompts[0] * _FLAT:
        return {"class": "flat", **found}
    added = [max(0, b - a) for a, b in itertools.pairwise(prompts)]
    middle = len(added) // 2
    first, second = statistics.fmean(added[:middle]), statistics.fmean(added[middle:])
    name = "superlinear" if second > first * _SUPER else "plateau" if second < first * _LEVEL else "linear"
    return {"class": name, **found}


def cache(growth: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return hit_share of all prompt tokens, and the seqs of calls whose cache was lost: read before, and nothing now."""
    prompt = sum(c["prompt_tokens"] or 0 for c in growth)
    read = sum(c["cache_read_tokens"] or 0 for c in growth)
    lost = [
        b["seq"]
        for a, b in itertools.pairwise(growth)
        if (a["cache_read_tokens"] or 0) > 0 and not b["cache_read_tokens"] and (b["prompt_tokens"] or 0) > 0
    ]
    return {"hit_share": round(read / prompt, 4) if prompt else 0.0, "lost_at": lost}


def tool_bloat(growth: Sequence[Mapping[str, Any]], impact: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return tokens (estimated) of all tool outputs, their share of what the context gained, and the largest tool."""
    tokens = sum(t["call_count"] * t["avg_tokens"] for t in impact)
    prompts = [c["prompt_tokens"] for c in growth if c["prompt_tokens"]]
    gained = sum(max(0, b - a) for a, b in itertools.pairwise(prompts))
    largest = max(impact, key=lambda t: t["call_count"] * t["avg_tokens"], default=None)
    return {
        "tokens": tokens,
        "share_of_growth": round(min(1.0, tokens / gained), 4) if gained else None,
        "largest": largest["tool_name"] if largest else None,
    }


def collapse(growth: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the median completion of the last quarter of the calls over that of the first.

    None with fewer than eight calls, or where the record of one lacks the final count of its output.
    """
    if first_counts(growth):
        return None
    return _quarters([c["completion_tokens"] or 0 for c in growth])


def cost_acceleration(growth: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the median cost of a call in the last quarter over that in the first, None with fewer than eight or unpriced."""
    return _quarters([c["cost"] or 0 for c in growth])


def _quarters(values: Sequence[float]) -> float | None:
    quarter = len(values) // 4
    if quarter < 2:
        return None
    first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
    return round(last / first, 3) if first else None


def layers(growth: Sequence[Mapping[str, Any]], tools: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return what fills the context at each call: input, reasoning, tools, output and what compression took away, in tokens.

    input is the first prompt. Of what each later prompt has more, the estimates of the
    tools that ran after the call before are tools, the rest reasoning. A smaller prompt
    takes from reasoning first, then tools, then input: compression is how much.
    """
    rows: list[dict[str, Any]] = []
    before = 0
    filled = {"input": 0, "reasoning": 0, "tools": 0}
    last_seq = 0
    for call in growth:
        prompt = call["prompt_tokens"] or 0
        taken = 0
        if prompt:
            ran = sum(t["output_tokens_est"] or 0 for t in tools.get(last_seq, ()))
            delta = prompt - before
            if not before:
                filled["input"] = prompt
            elif delta >= 0:
                of_tools = min(ran, delta)
                filled["tools"] += of_tools
                filled["reasoning"] += delta - of_tools
            else:
                taken = rest = -delta
                for name in ("reasoning", "tools", "input"):
                    less = min(filled[name], rest)
                    filled[name] -= less
                    rest -= less
            before = prompt
        last_seq = call["seq"]
        rows.append({"seq": call["seq"], **filled, "output": call["completion_tokens"] or 0, "compression": taken, "prompt": prompt})
    return rows
