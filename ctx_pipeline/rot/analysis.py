"""``analyze_session``: the figures of context rot of one session, of a callback store or of any host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ctx_pipeline.rot import context_growth as growing
from ctx_pipeline.rot.repetition import ONSET, Nearest, compared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# One verdict over a session's signs of context rot, with the reasons it rests on.


SEVERITIES = ("none", "mild", "moderate", "severe")
ENOUGH_CALLS = 12
"""Model calls from which a verdict can be worse than mild."""
_MILD, _MODERATE = 2, 4
SCALE = f"points of the signs of context rot: 0 none, to {_MILD} mild, to {_MODERATE} moderate, above severe"
"""What the severities of a verdict mean."""
_RARE = 0.05


class Reason(NamedTuple):
    """A sign: what it is, how much it weighs, and its figure in words."""

    sign: str
    points: int
    text: str


def verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return severity, score, onset (seq of the earliest sign) and reasons of an analysis.

    Signs and their points: adjacent repetition 2 (3 when above 0.7, 1 in less than a
    twentieth of the calls), a loop over
    non-adjacent calls 2 (1 as rare), efficiency below half 1 (2 below a fifth), completions collapsed
    below 0.3 of the first ones 2, superlinear growth 1, tools more than 0.6 of the growth
    1, cache lost 1, cost of a call tripled 1, ended with an error 2 when another sign
    stands. Score 0 is none, 1-2 mild, 3-4 moderate, above severe. Fewer than twelve calls
    are mild at most, and what calls wrote is no sign where the record of one has only the
    first count of its stream; ``limits`` says so in words.
    """
    reasons = _reasons(result)
    calls = len(result["efficiency"])
    if reasons and (result["session"] or {}).get("terminal_state") == "errored":
        reasons.append(Reason("errored", 2, "the session ended with an error"))
    score = sum(r.points for r in reasons)
    limits = []
    if calls < ENOUGH_CALLS and score > _MILD:
        limits.append(f"mild at most: {calls} model calls are too few to tell rot from the beginning of a session")
        score = _MILD
    if result["first_counts"]:
        limits.append(f"output not judged: {result['first_counts']} of {calls} calls record only the first count of their output")
    severity = SEVERITIES[0 if score == 0 else 1 if score <= _MILD else 2 if score <= _MODERATE else 3]
    onsets = [o for o in (result["summary"].get("onset_iteration"), _loop_onset(result), result["efficiency_onset"]) if o is not None]
    return {
        "severity": severity,
        "score": score,
        "onset": min(onsets) if onsets else None,
        "reasons": [r._asdict() for r in reasons],
        "limits": limits,
    }


def _reasons(result: Mapping[str, Any]) -> list[Reason]:
    found: list[Reason] = []
    summary = result["summary"]
    if summary.get("repetition_detected"):
        most = summary["max_repetition"]
        times, calls = result["repetitions"], len(result["efficiency"])
        again = "1 completion repeats" if times == 1 else f"{times} of {calls} completions repeat"
        text = f"{again} the one before, from call {summary['onset_iteration']} on (up to {most:.2f} of their 3-grams)"
        found.append(Reason("repetition", 1 if times < calls * _RARE else 3 if most > 0.7 else 2, text))
    for loop in result["loops"][:1]:
        times = sum(one["calls"] for one in result["loops"])
        often = "most often " if len(result["loops"]) > 1 else ""
        again = "1 completion says" if times == 1 else f"{times} completions say"
        text = f"{again} again what was said earlier, {often}{loop['distance']} calls before, from call {_loop_onset(result)} on"
        found.append(Reason("loop", 1 if times < len(result["efficiency"]) * _RARE else 2, text))
    if result["efficiency_onset"] is not None:
        first, last = summary["initial_efficiency"], summary["final_efficiency"]
        points = 2 if last < first * 0.2 else 1
        found.append(
            Reason(
                "efficiency",
                points,
                f"output per input fell from {first:.4f} to {last:.4f}, below half from call {result['efficiency_onset']} on",
            )
        )
    if result["completion_collapse"] is not None and result["completion_collapse"] < 0.3:
        found.append(Reason("collapse", 2, f"the last completions are {result['completion_collapse']:.2f} times as long as the first"))
    if result["growth"]["class"] == "superlinear":
        found.append(Reason("growth", 1, f"the context grows ever faster, to {result['growth']['factor']:g} times the first prompt"))
    share = result["tools"]["share_of_growth"]
    if share is not None and share > 0.6 and result["growth"]["factor"] > 1.2:
        found.append(
            Reason("tools", 1, f"tool output is {share:.0%} of what the context gained, most of it from {result['tools']['largest']}")
        )
    if result["cache"]["lost_at"]:
        found.append(Reason("cache", 1, f"the prompt cache was lost at call {', '.join(map(str, result['cache']['lost_at'][:5]))}"))
    if result["cost_acceleration"] is not None and result["cost_acceleration"] > 3:
        found.append(Reason("cost", 1, f"a call costs {result['cost_acceleration']:g} times what the first ones cost"))
    return found


def _loop_onset(result: Mapping[str, Any]) -> int | None:
    return min((loop["onset"] for loop in result["loops"]), default=None)


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
    repetitions (calls that repeat the one before), first_counts (calls that record only
    the first count of their output), completion_collapse, cost_acceleration and verdict
    (severity, score, onset, reasons, limits). An unknown session gives empty figures.
    """
    calls = store.get_growth_data(session_id)
    content = getattr(store, "get_compared_content", store.get_lm_call_content)(session_id)
    efficiency = growing.efficiency(calls)
    repetition, near = compared(content)
    result: dict[str, Any] = {
        "has_content": bool(content),
        "repetition": repetition if content else None,
        "efficiency": efficiency,
        "first_counts": growing.first_counts(calls),
        "repetitions": sum(r["ngram_jaccard"] > ONSET for r in repetition),
        "summary": {},
        "session": store.get_session(session_id),
        "loops": loops(content, near),
        "efficiency_onset": None if growing.first_counts(calls) else growing.efficiency_onset(efficiency),
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


# An analysis as lines of text.


_GRAMS = "runs of three words"


def lines(result: Mapping[str, Any], session_id: str) -> Iterator[str]:
    """Yield the lines of ``ctx rot analyze``: state, verdict with reasons, repetition and efficiency by call."""
    session, summary, verdict = result["session"] or {}, result["summary"], result["verdict"]
    yield f"Context rot of session {session_id}"
    yield "─" * 60
    yield f"Terminal state: {session.get('terminal_state') or 'running or unknown'}"
    onset = f", from call {verdict['onset']} on" if verdict["onset"] is not None else ""
    yield f"Verdict: {verdict['severity']}{onset}"
    yield f"  {verdict['score']} {SCALE}"
    yield "  wear: signs that the session had gone on too long; says nothing of cost"
    for reason in verdict["reasons"]:
        yield f"  {reason['text']}"
    for limit in verdict["limits"]:
        yield f"  {limit}"
    growth = result["growth"]
    if growth["factor"] is not None:
        compressed = growth["compressions"]
        times = f", compressed {'once' if compressed == 1 else f'{compressed} times'}" if compressed else ""
        yield f"Growth: {growth['class']}, largest prompt {growth['largest']:,} tokens, {growth['factor']:g} times the first{times}"
    if any(row["prompt_tokens"] for row in result["efficiency"]):
        yield f"Cache: {result['cache']['hit_share']:.0%} of the prompt tokens were read from the provider's cache"
    yield ""
    yield from _repetition(result, summary)
    yield "Output for each token of the prompt, by call (tokens of answer / prompt): falls as a window fills with what is not used"
    for row in result["efficiency"]:
        yield f"  #{row['seq']}  {row['efficiency_ratio']:.4f}  ({row['completion_tokens']:,} / {row['prompt_tokens']:,})"


def _repetition(result: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    if result["repetition"] is None:
        yield "Repetition: not measured, the program stores no content (store_content=True)"
        yield ""
        return
    said = f"detected at call {summary['onset_iteration']}" if summary["repetition_detected"] else "low"
    yield f"Repetition: {said}, at most {summary['max_repetition']:.3f}"
    yield f"  0 to 1, by call: {_GRAMS} shared with the answer before, likeness of both as characters, {_GRAMS} shared with any earlier"
    yield f"  above {ONSET:g} of the first (<<<) an answer says again what was just said"
    for row in result["repetition"]:
        mark = " <<<" if row["ngram_jaccard"] > ONSET else ""
        before, alike, ever = row["ngram_jaccard"], row["sequence_similarity"], row["cumulative_max"]
        yield f"  #{row['seq']}  words {before:.3f}  characters {alike:.3f}  any earlier {ever:.3f}{mark}"
    for loop in result["loops"]:
        repeat = "1 completion repeats the one" if loop["calls"] == 1 else f"{loop['calls']} completions repeat those"
        yield f"  loop: {repeat} {loop['distance']} calls before, from #{loop['onset']} on"
    yield ""
