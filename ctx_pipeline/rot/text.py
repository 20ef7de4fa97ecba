"""An analysis as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.rot.repetition import ONSET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def lines(result: Mapping[str, Any], session_id: str) -> Iterator[str]:
    """Yield the lines of ``ctx rot analyze``: state, verdict with reasons, repetition and efficiency by call."""
    session, summary, verdict = result["session"] or {}, result["summary"], result["verdict"]
    yield f"Context rot of session {session_id}"
    yield "─" * 60
    yield f"Terminal state: {session.get('terminal_state') or 'running or unknown'}"
    onset = f", from call {verdict['onset']} on" if verdict["onset"] is not None else ""
    yield f"Verdict: {verdict['severity']}{onset}"
    for reason in verdict["reasons"]:
        yield f"  {reason['text']}"
    growth = result["growth"]
    if growth["factor"] is not None:
        compressed = growth["compressions"]
        times = f", compressed {'once' if compressed == 1 else f'{compressed} times'}" if compressed else ""
        yield f"Growth: {growth['class']}, largest prompt {growth['largest']:,} tokens, {growth['factor']:g} times the first{times}"
    yield f"Cache: {result['cache']['hit_share']:.0%} of the prompt tokens"
    yield ""
    yield from _repetition(result, summary)
    yield "Efficiency (completion / prompt)"
    for row in result["efficiency"]:
        yield f"  #{row['seq']}  {row['efficiency_ratio']:.4f}  ({row['completion_tokens']:,} / {row['prompt_tokens']:,})"


def _repetition(result: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    if result["repetition"] is None:
        yield "Repetition: not measured, the program stores no content (store_content=True)"
        yield ""
        return
    said = f"detected at call {summary['onset_iteration']}" if summary["repetition_detected"] else "low"
    yield f"Repetition: {said}, at most {summary['max_repetition']:.3f}"
    for row in result["repetition"]:
        mark = " <<<" if row["ngram_jaccard"] > ONSET else ""
        before, alike, ever = row["ngram_jaccard"], row["sequence_similarity"], row["cumulative_max"]
        yield f"  #{row['seq']}  ngram={before:.3f}  seq={alike:.3f}  cumul={ever:.3f}{mark}"
    for loop in result["loops"]:
        repeat = "1 completion repeats the one" if loop["calls"] == 1 else f"{loop['calls']} completions repeat those"
        yield f"  loop: {repeat} {loop['distance']} calls before, from #{loop['onset']} on"
    yield ""
