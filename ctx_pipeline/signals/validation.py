"""Whether changes were checked: checks after fixes, how soon, loops of fixing and failing, churn."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from statistics import median
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.check_runs import runs_of_person
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.steps import COLUMNS, KINDS, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.signals.inputs.steps import Step

_STEPS = ("events", "tool_calls", "command_runs", "check_runs")
_OF_BOTH = (*KINDS, "injected")
"""kinds of events in which the agent, and the person in the prompt, ran something"""
_NO_FIX = "no source file was changed"
_SOON = 4
_CONTEXT = 3


def _fixes_with_checks(view: SessionView) -> list[tuple[Step, Step | None, int]]:
    """Return each fix with the next check of its thread, None where there is none, and the steps up to it.

    Further fixes on the way are not counted as steps: a change of ten files is one change.
    """
    found: list[tuple[Step, Step | None, int]] = []
    for thread in view.once(steps):
        check: Step | None = None
        others = 0
        backwards: list[tuple[Step, Step | None, int]] = []
        for s in reversed(thread):
            if s.category == "run_tests":
                check, others = s, 0
            elif s.category == "generate_fix":
                backwards.append((s, check, others + 1))
            else:
                others += 1
        found += reversed(backwards)
    return found


def _last_word(view: SessionView) -> tuple[Step | None, Step | None, Step | None]:
    """Return (first fix, last fix, last check) over all threads in time."""
    first = last = check = None
    for s in view.once(steps).in_time():
        if s.category == "generate_fix":
            first, last = first or s, s
        elif s.category == "run_tests":
            check = s
    return first, last, check


def _by_person(view: SessionView, change: Step) -> str | None:
    """Return the event that shows a check which the person ran in the prompt after a change."""
    behind = (run for run in runs_of_person(view) if (run.started or 0) >= (change.call.started or 0))
    return next((run.event for run in behind), None)


@signal(version=5, group="behavior", kind="boolean", better="higher", reads=_STEPS, columns=COLUMNS, kinds=_OF_BOTH)
def trajectory_validation_presence(view: SessionView) -> Reading:
    """Whether tests, a linter, a type checker or a build ran after the first change of a source file.

    Those that the person ran in the prompt count too. No check at all after a change is work on faith; a hook that checks after every edit
    is no step and is not seen. Unknown without a change of a source file: documents do
    not count.
    """
    order = view.once(steps).in_time()
    first = next((place for place, s in enumerate(order) if s.category == "generate_fix"), None)
    if first is None:
        return Reading(None, reason=_NO_FIX)
    check = next((s.evidence for s in order[first + 1 :] if s.category == "run_tests"), None) or _by_person(view, order[first])
    return Reading(check is not None, (order[first].call.call_event, *((check,) if check else ())), confidence=0.8)


@signal(version=4, group="behavior", unit="changes", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_fix_without_validation_count(view: SessionView) -> Reading:
    """Changes of source files that nothing checked within the four steps after them.

    Further changes in between do not use up the four steps, so that one large change
    before a check is no debt. Divide by ``trajectory_action_count_generate_fix``. Unknown
    without a change.
    """
    fixes = view.once(_fixes_with_checks)
    if not fixes:
        return Reading(None, reason=_NO_FIX)
    unchecked = [s for s, check, distance in fixes if check is None or distance > _SOON]
    return Reading(float(len(unchecked)), tuple(s.call.call_event for s in unchecked), confidence=0.8)


@signal(version=4, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_fix_validation_latency_steps(view: SessionView) -> Reading:
    """Median number of steps from a change of a source file to the next check in its thread.

    1 is a check right after the change. Changes that were never checked are not in it;
    ``trajectory_fix_without_validation_count`` has them. Unknown where no change was
    checked.
    """
    fixes = view.once(_fixes_with_checks)
    if not fixes:
        return Reading(None, reason=_NO_FIX)
    checked = [(s, check, distance) for s, check, distance in fixes if check is not None]
    if not checked:
        return Reading(None, reason="no change was checked")
    evidence = [e for s, check, _ in checked[:4] for e in (s.call.call_event, check.evidence)]
    return Reading(float(median(distance for _, _, distance in checked)), tuple(evidence), confidence=0.8)


@signal(version=5, group="behavior", kind="boolean", better="lower", reads=_STEPS, columns=COLUMNS, kinds=_OF_BOTH)
def trajectory_premature_finish_without_validation(view: SessionView) -> Reading:
    """Whether the session ended with a change of a source file that nothing checked after it.

    A check that the person ran in the prompt counts too. The commonest way in which "done" is not done. Unknown without a change.
    """
    _, last, check = view.once(_last_word)
    if last is None:
        return Reading(None, reason=_NO_FIX)
    order = view.once(steps).in_time()
    behind = check.evidence if check and order.index(check) > order.index(last) else _by_person(view, last)
    return Reading(behind is None, (last.call.call_event, *((behind,) if behind else ())), confidence=0.8)


def _rounds(view: SessionView) -> Iterator[tuple[Step, Step, int]]:
    """Yield (failed check, next run of the same check after changes, steps between) of each thread."""
    for thread in view.once(steps):
        waiting: dict[str, tuple[Step, bool]] = {}
        for s in thread:
            if s.category == "generate_fix" or (s.category == "refactor" and s.run is None):
                waiting = {target: (failed, True) for target, (failed, _) in waiting.items()}
            elif s.category == "run_tests":
                before, changed = waiting.pop(s.target, (None, False))
                if before is not None and changed:
                    yield before, s, s.place - before.place
                if s.failed:
                    waiting[s.target] = (before, False) if before is not None and not changed else (s, False)


@signal(version=4, group="behavior", unit="rounds", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def trajectory_test_fix_loop_count(view: SessionView) -> Reading:
    """Rounds in which a check failed, files were changed, and the same check failed again.

    A round that ends green is no loop. Two rounds are ordinary for a hard bug; from four
    on the agent patches symptoms, and a fresh window with the failure and the last diff
    does better.
    """
    loops = [(a, b) for a, b, _ in _rounds(view) if b.failed]
    return Reading(float(len(loops)), tuple(e for a, b in loops for e in (a.evidence, b.evidence)), confidence=0.8)


@signal(version=4, group="behavior", unit="steps", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def steps_to_green(view: SessionView) -> Reading:
    """Median number of steps from the first failure of a check to the first time that it passes.

    Over all checks that failed and later passed in the same thread. Read it with
    ``trajectory_test_fix_loop_count``: many steps in few rounds is careful work. Unknown
    where no check went from red to green.
    """
    taken: list[int] = []
    evidence: list[str] = []
    for thread in view.once(steps):
        red: dict[str, Step] = {}
        for s in thread:
            if s.category != "run_tests":
                continue
            if s.failed:
                red.setdefault(s.target, s)
            elif s.target in red:
                first = red.pop(s.target)
                taken.append(s.place - first.place)
                evidence += (first.evidence, s.evidence)
    if not taken:
        return Reading(None, reason="no check went from failing to passing")
    return Reading(float(median(taken)), tuple(evidence), confidence=0.8)


@signal(group="behavior", unit="ratio", better="lower", reads=("tool_calls",), columns=COLUMNS)
def edit_churn_ratio(view: SessionView) -> Reading:
    """Share of changed lines that an earlier edit of the session had changed already, 0 to 1.

    Line ranges are those that the host recorded, without their lines of context and
    without the shift that edits above them cause, so it is an estimate. Above 0.5 the
    same code was written over and over. Unknown where the host recorded no ranges.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    changed = again = 0
    evidence: list[str] = []
    for call in view.tool_calls:
        if call.action not in ("edit", "write") or call.is_error or not call.ranges or not call.paths:
            continue
        own = _spans(call.ranges[0])
        earlier = spans.setdefault(call.paths[0], [])
        overlap = sum(_overlap(span, earlier) for span in own)
        changed += sum(last - first + 1 for first, last in own)
        if overlap:
            again += overlap
            evidence.append(call.call_event)
        for span in own:
            _insert(earlier, span)
    if not changed:
        return Reading(None, reason="the host recorded no line ranges of edits")
    return Reading(again / changed, tuple(evidence), confidence=0.6, metadata={"changed": changed, "again": again})


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the (first, last) lines of ``3-9,20-31``, their lines of context taken off."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and last.isdigit():
            low, high = int(first), int(last)
            trimmed = (low + (_CONTEXT if low > 1 else 0), high - _CONTEXT)
            found.append(trimmed if trimmed[1] >= trimmed[0] else (low, max(low, high)))
    return found


def _near(span: tuple[int, int], others: list[tuple[int, int]], gap: int) -> tuple[int, int]:
    """Return which of the ordered, disjoint spans touch a span, or stand within ``gap`` lines of it, as a range of places."""
    begin = bisect_left(others, span[0] - gap, key=lambda other: other[1])
    return begin, bisect_right(others, span[1] + gap, key=lambda other: other[0])


def _overlap(span: tuple[int, int], others: list[tuple[int, int]]) -> int:
    begin, end = _near(span, others, 0)
    return sum(min(span[1], last) - max(span[0], first) + 1 for first, last in others[begin:end])


def _insert(spans: list[tuple[int, int]], span: tuple[int, int]) -> None:
    """Add a span to ordered, disjoint ones; those that it touches become one with it."""
    begin, end = _near(span, spans, 1)
    touched = [*spans[begin:end], span]
    spans[begin:end] = [(min(first for first, _ in touched), max(last for _, last in touched))]


@signal(version=4, group="behavior", unit="files", better="lower", reads=_STEPS, columns=COLUMNS, kinds=KINDS)
def reworked_file_count(view: SessionView) -> Reading:
    """Files that were changed, checked, and changed again after the check.

    Rework after a check is what checks are for; a file that comes back in every session
    is fragile, and its name is in the metadata.
    """
    touched: dict[str, int] = {}
    reworked: dict[str, str] = {}
    checks = 0
    for s in view.once(steps).in_time():
        if s.category == "run_tests":
            checks += 1
        elif s.call.action in ("edit", "write") and not s.failed and s.category != "permission":
            for path in s.call.paths:
                if touched.get(path, checks) < checks:
                    reworked.setdefault(path, s.call.call_event)
                touched[path] = checks
    metadata: dict[str, Any] | None = {"files": sorted(reworked)[:20]} if reworked else None
    return Reading(float(len(reworked)), tuple(reworked.values()), metadata=metadata)
