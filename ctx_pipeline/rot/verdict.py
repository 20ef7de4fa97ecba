"""One verdict over a session's signs of context rot, with the reasons it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SEVERITIES = ("none", "mild", "moderate", "severe")


class Reason(NamedTuple):
    """A sign: what it is, how much it weighs, and its figure in words."""

    sign: str
    points: int
    text: str


def verdict(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return severity, score, onset (seq of the earliest sign) and reasons of an analysis.

    Signs and their points: adjacent repetition 2 (3 when above 0.7), a loop over
    non-adjacent calls 2, efficiency below half 1 (2 below a fifth), completions collapsed
    below 0.3 of the first ones 2, superlinear growth 1, tools more than 0.6 of the growth
    1, cache lost 1, cost of a call tripled 1, ended with an error 2 when another sign
    stands. Score 0 is none, 1-2 mild, 3-4 moderate, above severe.
    """
    reasons = _reasons(result)
    if reasons and (result["session"] or {}).get("terminal_state") == "errored":
        reasons.append(Reason("errored", 2, "the session ended with an error"))
    score = sum(r.points for r in reasons)
    severity = SEVERITIES[0 if score == 0 else 1 if score <= 2 else 2 if score <= 4 else 3]
    onsets = [o for o in (result["summary"].get("onset_iteration"), _loop_onset(result), result["efficiency_onset"]) if o is not None]
    return {
        "severity": severity,
        "score": score,
        "onset": min(onsets) if onsets else None,
        "reasons": [r._asdict() for r in reasons],
    }


def _reasons(result: Mapping[str, Any]) -> list[Reason]:
    found: list[Reason] = []
    summary = result["summary"]
    if summary.get("repetition_detected"):
        most = summary["max_repetition"]
        text = f"from call {summary['onset_iteration']} on completions repeat the one before (up to {most:.2f} of their 3-grams)"
        found.append(Reason("repetition", 3 if most > 0.7 else 2, text))
    for loop in result["loops"][:1]:
        again = "1 completion says" if loop["calls"] == 1 else f"{loop['calls']} completions say"
        text = f"{again} again what was said {loop['distance']} calls before, from call {loop['onset']} on"
        found.append(Reason("loop", 2, text))
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
