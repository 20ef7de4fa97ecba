"""What the agent did about failures: whether it noticed, what it did next, and how long it took."""

from __future__ import annotations

import re
from itertools import pairwise, zip_longest
from statistics import median
from typing import TYPE_CHECKING

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.steps import COLUMNS, KINDS, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.signals.inputs.steps import Step, Steps

_STEPS = ("events", "tool_calls", "command_runs", "check_runs")
_KINDS = (*KINDS, "prompt")
_NO_FAILURE = "no step failed"
_REACTS = frozenset({"search", "explore", "locate", "reproduce", "generate_fix", "refactor"})
_LOOKS = frozenset({"search", "explore", "locate", "generate_fix", "refactor"})
_NOTICES = re.compile(
    r"(?i)\b(?:fail|error|broke|issue|problem|missing|wrong|unable|cannot|can't|couldn't|doesn't|didn't|not found|not installed|not exist"
    r"|conflict|denied|instead|retry|again|fix|oops|block|timed? ?out|unavailable|skip|unexpected)"
)
_TERM = re.compile(r"[A-Za-z_][\w./]{3,60}")
_TERMS = 20
_READ = 600
_NEXT = 2000
_SAMPLED = 40


def _failures(found: Steps) -> Iterator[tuple[list[Step], Step]]:
    for thread in found:
        for s in thread:
            if s.failed:
                yield thread, s


def _said_after(view: SessionView) -> dict[str, str]:
    """Return event of a call -> what the agent said next in its thread, up to the next prompt."""
    said: dict[str, str] = {}
    waiting: dict[str, list[str]] = {}
    for e in view.events:
        if e.kind == "tool_call":
            waiting.setdefault(e.thread_id, []).append(e.event_id)
        elif e.kind in ("answer", "reasoning") and e.text:
            for call in waiting.pop(e.thread_id, ()):
                said[call] = e.text
        elif e.kind == "prompt":
            waiting.pop(e.thread_id, None)
    return said


@signal(version=3, group="behavior", unit="failures", better="lower", reads=_STEPS, columns=COLUMNS, kinds=_KINDS)
def trajectory_failure_ignored_count(view: SessionView) -> Reading:
    """Failures that the agent passed over: it neither mentioned them, nor looked, nor changed anything, nor tried again.

    The next thing it said has no word of a failure, the next step is none that reacts or
    takes up a name from the message, and the same program or file was not tried again in the thread. Each is a result that
    nobody read; a final report that says "all done" after one is wrong.
    """
    ignored = []
    said = view.once(_said_after)
    for thread in view.once(steps):
        last_try = {s.target: s.place for s in thread}
        for s, after in zip_longest(thread, thread[1:]):
            if not s.failed or last_try[s.target] > s.place:
                continue
            words = said.get(s.call.call_event, "")
            if after is None and not words:
                continue
            if _NOTICES.search(words[:_NEXT]) or (after is not None and (after.category in _REACTS or _answers(after, s))):
                continue
            ignored.append(s.evidence)
    return Reading(float(len(ignored)), tuple(ignored), confidence=0.6)


def _answers(after: Step, failure: Step) -> bool:
    """Tell whether a step installs something, or takes up a telling word of a failure."""
    if after.run is not None and "install" in after.run.purposes:
        return True
    return any(term in after.key[1] for term in _terms(failure.result))


@signal(version=2, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_failed_result_recovery_steps(view: SessionView) -> Reading:
    """Median number of steps from a failure to an action that differs from the failed one.

    1 is an agent that does something else at once; above 1 it repeated itself first.
    Unknown where nothing failed, or nothing came after.
    """
    taken: list[int] = []
    evidence: list[str] = []
    failed = False
    for thread, s in _failures(view.once(steps)):
        failed = True
        other = next((later for later in thread[s.place + 1 : s.place + 101] if later.key != s.key), None)
        if other is not None:
            taken.append(other.place - s.place)
            evidence += (s.evidence, other.call.call_event)
    if not taken:
        return Reading(None, reason="nothing came after a failure" if failed else _NO_FAILURE)
    return Reading(float(median(taken)), tuple(evidence), confidence=0.8)


@signal(version=3, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def steps_to_recovery(view: SessionView) -> Reading:
    """Median number of steps from the first failure of a program or an edit to the first time that it works.

    The same program, check or file in the same thread; failures that never worked again
    are counted in the metadata. Above 10 an error took over the session. Unknown where
    nothing failed, or nothing that failed worked later.
    """
    taken: list[int] = []
    evidence: list[str] = []
    never = 0
    for thread in view.once(steps):
        open_failures: dict[str, Step] = {}
        for s in thread:
            if s.failed:
                open_failures.setdefault(s.target, s)
            elif s.category != "permission" and s.target in open_failures:
                first = open_failures.pop(s.target)
                taken.append(s.place - first.place)
                evidence += (first.evidence, s.evidence)
        never += len(open_failures)
    if not taken:
        return Reading(
            None, reason="nothing that failed worked later" if never else _NO_FAILURE, metadata={"never": never} if never else None
        )
    return Reading(float(median(taken)), tuple(evidence), confidence=0.8, metadata={"recovered": len(taken), "never": never})


@signal(version=2, group="behavior", unit="ratio", better="higher", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_error_to_search_or_edit_ratio(view: SessionView) -> Reading:
    """Share of failures whose next step looks for the cause or changes a file, 0 to 1.

    The others are followed by the same again, by something else, or by nothing. Low
    values go with ``trajectory_repeated_action_without_progress``. Unknown where nothing
    failed.
    """
    led: list[str] = []
    count = 0
    for thread, s in _failures(view.once(steps)):
        count += 1
        if s.place + 1 < len(thread) and thread[s.place + 1].category in _LOOKS:
            led.append(thread[s.place + 1].call.call_event)
    if not count:
        return Reading(None, reason=_NO_FAILURE)
    return Reading(len(led) / count, tuple(led), confidence=0.8, metadata={"failures": count})


@signal(version=2, group="behavior", unit="ratio", better="higher", method="regex", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_result_token_reuse_ratio(view: SessionView) -> Reading:
    """Share of telling words of a result (names, paths, errors) that the next thought or action uses again, 0 to 1.

    Up to 20 words of the first 600 characters of at most 40 results spread over the
    session. Near 0 the agent does not read what it asked for; 0.1 to 0.3 is usual.
    Unknown where no result with such a word was followed by anything.
    """
    found = view.once(steps)
    pairs = [(s, after) for thread in found for s, after in pairwise(thread) if s.result]
    stride = max(1, -(-len(pairs) // _SAMPLED))
    shares = []
    for s, after in pairs[::stride]:
        terms = _terms(s.result)
        if terms:
            text = f"{found.thoughts.get(after.call.call_event, '')[:_NEXT]} {after.key[1][:_NEXT]}"
            shares.append(sum(term in text for term in terms) / len(terms))
    if not shares:
        return Reading(None, reason="no result with a telling word was followed by a step")
    return Reading(round(sum(shares) / len(shares), 4), confidence=0.5, metadata={"results": len(shares)})


def _terms(result: str) -> list[str]:
    """Return up to 20 different names, paths and errors of a result's beginning."""
    terms: dict[str, None] = {}
    for found in _TERM.findall(result[:_READ]):
        word = found.rstrip(".")
        if len(word) > 3 and (
            not word.isalnum()
            or (not word.islower() and word[1:] != word[1:].lower())
            or word.endswith(("error", "exception"))
            or word.lower().endswith(("error", "exception"))
        ):
            terms[word] = None
            if len(terms) == _TERMS:
                break
    return list(terms)
