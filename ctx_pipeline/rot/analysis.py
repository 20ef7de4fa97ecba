"""``analyze_session``: the figures of context rot of one session, of a callback store or of any host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ctx_pipeline.rot import growth as growing
from ctx_pipeline.rot.repetition import ONSET, Nearest, compared
from ctx_pipeline.rot.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence


class Sessions(Protocol):
    """What an analysis asks of a store; CtxRotStore has it, and so has a session of the pipeline."""

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """Return what is known of a session."""

    def get_session_summary(self, session_id: str) -> dict[str, Any]:
        """Return its totals."""

    def get_growth_data(self, session_id: str) -> list[dict[str, Any]]:
        """Return its calls."""

    def get_lm_call_content(self, session_id: str) -> list[dict[str, Any]]:
        """Return what its calls said."""

    def get_tool_impact(self, session_id: str) -> list[dict[str, Any]]:
        """Return its tools."""

    def get_tools_by_iteration(self, session_id: str) -> dict[int, list[dict[str, Any]]]:
        """Return the tools that ran after each call."""

    def get_tool_call_content(self, session_id: str) -> list[dict[str, Any]]:
        """Return what its tools were given and gave."""


def analyze_session(store: Sessions, session_id: str) -> dict[str, Any]:
    """Return the signs of context rot in a session, as plain values for ``json.dumps``.

    Documented keys: has_content, repetition (per completion, None without content),
    efficiency (per call), summary (repetition_detected, onset_iteration, max_repetition,
    initial_efficiency, final_efficiency, terminal_state), session. Beyond them: loops
    (repetitions of calls that are not neighbours), efficiency_onset, growth, cache, tools,
    completion_collapse, cost_acceleration and verdict (severity, score, onset, reasons).
    An unknown session gives empty figures.
    """
    calls = store.get_growth_data(session_id)
    content = store.get_lm_call_content(session_id)
    efficiency = growing.efficiency(calls)
    repetition, near = compared(content)
    result: dict[str, Any] = {
        "has_content": bool(content),
        "repetition": repetition if content else None,
        "efficiency": efficiency,
        "summary": {},
        "session": store.get_session(session_id),
        "loops": loops(content, near),
        "efficiency_onset": growing.efficiency_onset(efficiency),
        "growth": growing.shape(calls),
        "cache": growing.cache(calls),
        "tools": growing.tool_bloat(calls, store.get_tool_impact(session_id)),
        "completion_collapse": growing.collapse(calls),
        "cost_acceleration": growing.cost_acceleration(calls),
    }
    result["summary"] = _summary(result)
    result["verdict"] = verdict(result)
    return result


def loops(content: Sequence[dict[str, Any]], near: Sequence[Nearest | None]) -> list[dict[str, Any]]:
    """Return repetitions between calls that are not neighbours, by how far back they reach, the most frequent first.

    Each has distance (calls back), calls (how many repeat at that distance), onset (seq of
    the first) and similarity (the largest). A completion counts when it shares more than
    0.4 of its 3-grams with one at least two calls before, and less with the one directly
    before it.
    """
    found: dict[int, dict[str, Any]] = {}
    for i, like in enumerate(near):
        if like is None or like.similarity <= ONSET or like.place == i - 1:
            continue
        loop = found.setdefault(i - like.place, {"distance": i - like.place, "calls": 0, "onset": content[i]["seq"], "similarity": 0.0})
        loop["calls"] += 1
        loop["similarity"] = max(loop["similarity"], round(like.similarity, 3))
    return sorted(found.values(), key=lambda loop: (-loop["calls"], loop["distance"]))


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    repetition, efficiency = result["repetition"], result["efficiency"]
    summary: dict[str, Any] = {"repetition_detected": None, "onset_iteration": None, "max_repetition": None}
    if repetition is not None:
        over = [r["seq"] for r in repetition if r["ngram_jaccard"] > ONSET]
        summary = {
            "repetition_detected": bool(over),
            "onset_iteration": over[0] if over else None,
            "max_repetition": max(r["ngram_jaccard"] for r in repetition),
        }
    if len(efficiency) >= 2:
        summary["initial_efficiency"] = efficiency[0]["efficiency_ratio"]
        summary["final_efficiency"] = efficiency[-1]["efficiency_ratio"]
    summary["terminal_state"] = result["session"]["terminal_state"] if result["session"] else None
    return summary
