"""The shape of the work: which kinds of steps, in which proportion and order, and what repeats."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from ctx_pipeline.model.declared import Reading, Signal, signal
from ctx_pipeline.signals.inputs.steps import COLUMNS, CORE, KINDS, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.signals.inputs.steps import Step

_STEPS = ("events", "tool_calls", "command_runs", "check_runs")
_REACH = 3
_GRAM = 4
_CHANGES = frozenset({"generate_fix", "refactor"})
_NO_STEPS = "the agent took no step"
_EXPLORING = frozenset({"explore", "search", "locate", "explain"})
_PRODUCING = frozenset({"reproduce", "generate_fix", "run_tests", "refactor"})

_MEANING = {
    "explore": ("reading and listing", "Much of it without edits is a search for the right place."),
    "locate": ("going to a known line, symbol or origin", "It is the cheap way of reading; a high share against explore is good."),
    "search": ("searching files or the web", "Above a third of the steps the agent does not know where things are."),
    "reproduce": ("running the program itself", "None before the first fix of a bug means that it was fixed on faith."),
    "generate_fix": ("changing source files", "Set it against run_tests: many changes for one check are hard to tell apart."),
    "run_tests": ("running tests, linters, type checkers and builds", "None beside changes means that nothing was checked."),
    "refactor": ("formatting, moving, and changes announced as a clean-up", "In a session about a bug it is scope that grew."),
    "explain": ("plans, questions, orders to subagents, documentation", "A third of all steps is ceremony."),
    "permission": ("asking for leave, and calls that were refused", "Repeated ones are a rule to write down."),
    "error": ("calls of a tool that failed before they did anything", "Mostly edits that did not match and files that are not there."),
    "other": ("everything else: version control, installing, moving files", "High shares are work around the work."),
}


def _count(category: str) -> Signal:
    what, how = _MEANING[category]

    def measure(view: SessionView) -> Reading:
        found = [s for s in view.once(steps).all if s.category == category]
        return Reading(float(len(found)), tuple(s.call.call_event for s in found), confidence=0.8)

    return signal(
        name=f"trajectory_action_count_{category}",
        version=3,
        group="behavior",
        unit="steps",
        reads=_STEPS,
        columns=COLUMNS,
        kinds=KINDS,
        describe=f"Steps of the kind {category}: {what}.\n\n{how} A call and its result are one step.",
    )(measure)


def _ratio(category: str) -> Signal:
    what, how = _MEANING[category]

    def measure(view: SessionView) -> Reading:
        found = view.once(steps).all
        if not found:
            return Reading(None, reason=_NO_STEPS)
        alike = [s.call.call_event for s in found if s.category == category]
        return Reading(len(alike) / len(found), tuple(alike), confidence=0.8)

    return signal(
        name=f"trajectory_action_ratio_{category}",
        version=3,
        group="behavior",
        unit="ratio",
        reads=_STEPS,
        columns=COLUMNS,
        kinds=KINDS,
        describe=f"Share of steps of the kind {category}: {what}; 0 to 1.\n\n{how} Unknown where the agent took no step.",
    )(measure)


trajectory_action_count_explore = _count("explore")
trajectory_action_count_locate = _count("locate")
trajectory_action_count_search = _count("search")
trajectory_action_count_reproduce = _count("reproduce")
trajectory_action_count_generate_fix = _count("generate_fix")
trajectory_action_count_run_tests = _count("run_tests")
trajectory_action_count_refactor = _count("refactor")
trajectory_action_count_explain = _count("explain")
trajectory_action_count_permission = _count("permission")
trajectory_action_count_error = _count("error")
trajectory_action_count_other = _count("other")
trajectory_action_ratio_explore = _ratio("explore")
trajectory_action_ratio_locate = _ratio("locate")
trajectory_action_ratio_search = _ratio("search")
trajectory_action_ratio_reproduce = _ratio("reproduce")
trajectory_action_ratio_generate_fix = _ratio("generate_fix")
trajectory_action_ratio_run_tests = _ratio("run_tests")
trajectory_action_ratio_refactor = _ratio("refactor")
trajectory_action_ratio_explain = _ratio("explain")
trajectory_action_ratio_permission = _ratio("permission")
trajectory_action_ratio_error = _ratio("error")
trajectory_action_ratio_other = _ratio("other")


@signal(version=3, group="behavior", unit="steps", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_step_count(view: SessionView) -> Reading:
    """Steps of all threads: actions of the agent, each with the thought before and the result after it.

    It is the length of the work. Waiting for a command that runs on is no step of its
    own. Compare it among sessions about the same task.
    """
    found = view.once(steps).all
    return Reading(float(len(found)), tuple(s.call.call_event for s in found[:8]))


@signal(version=4, group="risk", unit="ratio", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_unknown_action_ratio(view: SessionView) -> Reading:
    """Share of steps that fit no phase of work or failed before they did anything, 0 to 1.

    It says how far the other trajectory numbers can be trusted: above 0.4 a large part
    of the session is version control, installing, tools of a plug-in, or errors. Unknown
    where the agent took no step.
    """
    found = view.once(steps).all
    if not found:
        return Reading(None, reason=_NO_STEPS)
    odd = [s.evidence for s in found if s.category in ("other", "error")]
    return Reading(len(odd) / len(found), tuple(odd), confidence=0.8)


@signal(version=4, group="behavior", unit="ratio", better="higher", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_phase_coverage(view: SessionView) -> Reading:
    """Share of the eight phases of work that the session went through, 0 to 1.

    The phases are explore, locate, search, reproduce, generate_fix, run_tests, refactor
    and explain. A question needs two of them, a fix four or more. Unknown where the agent
    took no step.
    """
    first: dict[str, str] = {}
    found = view.once(steps).all
    for s in found:
        first.setdefault(s.category, s.call.call_event)
    if not found:
        return Reading(None, reason=_NO_STEPS)
    seen = [c for c in CORE if c in first]
    return Reading(len(seen) / len(CORE), tuple(first[c] for c in seen), confidence=0.8, metadata={"phases": seen} if seen else None)


@signal(version=4, group="behavior", unit="changes", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_phase_transition_count(view: SessionView) -> Reading:
    """Times that a step is of another kind than the one before it in its thread.

    Divide by ``trajectory_step_count``: above 0.7 the agent jumps between kinds of work,
    below 0.2 it did one thing at length.
    """
    changes = [b.call.call_event for a, b in _pairs(view) if a.category != b.category]
    return Reading(float(len(changes)), tuple(changes), confidence=0.8)


@signal(version=4, group="behavior", unit="bits", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_sequence_entropy(view: SessionView) -> Reading:
    """Shannon entropy of the kinds of steps, in bits: 0 is one kind only, 3.46 all eleven alike.

    Around 2 is ordinary work. Below 1 the session did a single thing; near 3 it did a bit
    of everything. Unknown where the agent took no step.
    """
    found = view.once(steps).all
    if not found:
        return Reading(None, reason=_NO_STEPS)
    counts = Counter(s.category for s in found)
    bits = -sum(n / len(found) * math.log2(n / len(found)) for n in counts.values())
    return Reading(round(max(0.0, bits), 4), confidence=0.8, metadata={"steps": dict(sorted(counts.items()))})


@signal(version=4, group="behavior", unit="ratio", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_exploration_ratio(view: SessionView) -> Reading:
    """Share of steps that look, search, find places or explain, 0 to 1.

    Above 0.8 the session ended before the work began, or it was a question. Unknown where
    the agent took no step.
    """
    return _share(view, _EXPLORING)


@signal(version=4, group="behavior", unit="ratio", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_exploitation_ratio(view: SessionView) -> Reading:
    """Share of steps that reproduce, change, check or clean up, 0 to 1.

    Above 0.7 changes are made without looking. With ``trajectory_exploration_ratio`` it
    does not add up to 1: the rest is errors, permissions and other work. Unknown where
    the agent took no step.
    """
    return _share(view, _PRODUCING)


@signal(version=4, group="behavior", unit="ratio", better="higher", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_balance_score(view: SessionView) -> Reading:
    """One minus the distance between the shares of exploring and of producing, 0 to 1.

    1 is as much looking as doing, 0 is only one of the two. For a question a low score is
    right; for a fix below 0.4 look at which of the two is missing. Unknown where the
    agent took no step.
    """
    exploring, producing = _share(view, _EXPLORING).value, _share(view, _PRODUCING).value
    if not isinstance(exploring, float) or not isinstance(producing, float):
        return Reading(None, reason=_NO_STEPS)
    return Reading(1 - abs(exploring - producing), confidence=0.8)


def _share(view: SessionView, categories: frozenset[str]) -> Reading:
    found = view.once(steps).all
    if not found:
        return Reading(None, reason=_NO_STEPS)
    alike = [s.call.call_event for s in found if s.category in categories]
    return Reading(len(alike) / len(found), tuple(alike), confidence=0.8)


def _pairs(view: SessionView) -> list[tuple[Step, Step]]:
    return [pair for thread in view.once(steps) for pair in pairwise(thread)]


@signal(version=3, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_action_redundancy(view: SessionView) -> Reading:
    """Steps that ask exactly what an earlier step of their thread asked: same tool, same arguments.

    Running the tests again after a change counts too, so set it against
    ``trajectory_repeated_action_without_progress``. Temporary paths, ids and times in a
    command do not make it another one. Above a fifth of the steps the agent has lost
    track.
    """
    again: list[str] = []
    for thread in view.once(steps):
        seen: set[tuple[str, str]] = set()
        for s in thread:
            if s.key in seen:
                again.append(s.call.call_event)
            seen.add(s.key)
    return Reading(float(len(again)), tuple(again))


@signal(version=3, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_repeated_action_without_progress(view: SessionView) -> Reading:
    """Steps that ask the same as one of the three steps before them and learn nothing new from it.

    Nothing was changed in between, and the answer was the same, or both failed. This is
    the loop that burns a window: above two in a row somebody should have stopped it.
    """
    stuck: list[str] = []
    for thread in view.once(steps):
        for place, s in enumerate(thread):
            for earlier in range(place - 1, max(-1, place - 1 - _REACH), -1):
                before = thread[earlier]
                if before.category in _CHANGES and not before.failed:
                    break
                if before.key == s.key:
                    if s.category != "permission" and ((before.failed and s.failed) or _same_answer(before, s)):
                        stuck.append(s.call.call_event)
                    break
    return Reading(float(len(stuck)), tuple(stuck), confidence=0.75)


def _same_answer(before: Step, after: Step) -> bool:
    return after.call.result_event is not None and before.call.result_event is not None and before.result == after.result


@signal(version=4, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_consecutive_repetition_count(view: SessionView) -> Reading:
    """Steps of the same kind as the step right before them in their thread.

    It is the other side of ``trajectory_phase_transition_count``. Runs of reading are
    ordinary, runs of errors are not; ``trajectory_max_repetition_run`` says how long the
    longest is.
    """
    found = [b.call.call_event for thread in view.once(steps) for a, b in pairwise(thread) if a.category == b.category]
    return Reading(float(len(found)), tuple(found), confidence=0.8)


@signal(version=4, group="behavior", unit="steps", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_max_repetition_run(view: SessionView) -> Reading:
    """Length of the longest run of steps of one kind in a thread, with that kind.

    Above 20 steps of reading the agent should have searched; above 5 changes without a
    check it works blind. Unknown where the agent took no step.
    """
    longest: list[Step] = []
    for thread in view.once(steps):
        for _, members in groupby(thread, key=lambda s: s.category):
            run = list(members)
            if len(run) > len(longest):
                longest = run
    if not longest:
        return Reading(None, reason="the agent took no step")
    return Reading(float(len(longest)), tuple(s.call.call_event for s in longest), confidence=0.8, metadata={"kind": longest[0].category})


@signal(version=4, group="behavior", unit="ratio", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_4gram_repetition_ratio(view: SessionView) -> Reading:
    """Share of windows of four steps whose sequence of kinds occurs more than once in the session, 0 to 1.

    Long sessions repeat patterns and short ones cannot, so compare sessions of like
    length. Above 0.8 in a long one the work is a routine that a script could do. Unknown
    below four steps.
    """
    grams = Counter(gram for gram, _ in _grams(view))
    if not grams:
        return Reading(None, reason="fewer than four steps in any thread")
    return Reading(sum(n for n in grams.values() if n > 1) / grams.total(), confidence=0.8)


@signal(version=4, group="behavior", kind="text", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_4gram_top(view: SessionView) -> Reading:
    """The commonest sequence of four kinds of steps, with how often it occurs.

    ``generate_fix > run_tests > generate_fix > run_tests`` is a fight with the tests,
    ``search > explore > search > explore`` a hunt. Unknown below four steps, or while no
    sequence recurs.
    """
    grams = Counter(gram for gram, _ in _grams(view))
    if not grams:
        return Reading(None, reason="fewer than four steps in any thread")
    top, count = min(grams.items(), key=lambda pair: (-pair[1], pair[0]))
    if count < 2:
        return Reading(None, reason="no sequence of four steps recurs")
    first = [s.call.call_event for gram, window in _grams(view) if gram == top for s in window]
    return Reading(f"{' > '.join(top)} ({count} times)", tuple(first[: 2 * _GRAM]), confidence=0.8)


def _grams(view: SessionView) -> Iterator[tuple[tuple[str, ...], list[Step]]]:
    for thread in view.once(steps):
        kinds = [s.category for s in thread]
        for place in range(len(thread) - _GRAM + 1):
            yield tuple(kinds[place : place + _GRAM]), thread[place : place + _GRAM]
