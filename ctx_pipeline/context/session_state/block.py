"""A session's state as a few lines: the view for a person, the block that a fresh chat begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.context.session_state.state import BUNDLE
from ctx_pipeline.model.display import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ctx_pipeline.context.session_state.state import CheckRun, Item, SessionState

BUDGET = 500
"""Tokens of a block to go on with."""

ABSENT = "absent"
"""What a line is about that says that something was not done."""

_FILES, _ITEMS = 10, 6
_TEXT, _SHORT = 300, 160


class Line(NamedTuple):
    """One statement of a block, with the events that prove it."""

    about: str
    text: str
    worth: float
    """what is kept first where not all of it fits"""
    events: tuple[str, ...] = ()
    """empty for what somebody said through ``ctx`` and for what an imported bundle says"""


class Block(NamedTuple):
    """The text, its tokens, what it states, and what did not fit."""

    text: str
    tokens: int
    dropped: list[str]
    """what the left-out lines are about"""
    lines: tuple[Line, ...] = ()


def lines_of(state: SessionState) -> list[Line]:
    """Return what a new chat is told, in order: what was asked and decided, what was changed and checked, what is to do, how it ended.

    Nothing is stated without an event that shows it, but for what somebody said.
    """
    made = [*_task_lines(state)]
    made += [Line("decisions", f"Decided: {_line(i)}", 60 - n, _shown_by(i)) for n, i in enumerate(state.decisions[:_ITEMS])]
    changed = state.modified[:_FILES]
    if changed:
        more = f" and {len(state.modified) - _FILES} more" if len(state.modified) > _FILES else ""
        paths = ", ".join(cut(f.path, _SHORT) for f in changed)
        made.append(Line("files", f"Changed files, the last first: {paths}{more}", 75, tuple(f.event for f in changed if f.event)))
    elif state.read:
        paths = ", ".join(cut(f.path, _SHORT) for f in state.read[:_ITEMS])
        shown = tuple(f.event for f in state.read[:_ITEMS] if f.event)
        made.append(Line(ABSENT, f"No changed file is recorded; last read: {paths}", 20, shown))
    said = [i for i in state.findings if i.told or i.by == BUNDLE]
    made += [Line("findings", f"Found: {_line(i)}", 55 - n) for n, i in enumerate(said[:_ITEMS])]
    made += [_check_line(check, n) for n, check in enumerate(state.checks or ([state.tests] if state.tests else []))]
    if state.modified and not (state.checks or state.tests):
        made.append(Line(ABSENT, "No test, type check, linter or build is among its commands", 40, (state.modified[0].event or "",)))
    if state.next_steps:
        steps = "; ".join(cut(i.text, _SHORT) for i in state.next_steps[:_ITEMS])
        more = f" and {len(state.next_steps) - _ITEMS} more" if len(state.next_steps) > _ITEMS else ""
        made.append(Line("next_steps", f"Still to do: {steps}{more}", 72, tuple(i.event for i in state.next_steps[:_ITEMS] if i.event)))
    if state.answer:
        made.append(Line("answer", f"The last answer ended: “{state.answer.text}”", 30, _shown_by(state.answer)))
    return made


def _task_lines(state: SessionState) -> Iterator[Line]:
    first, last, task = state.asked_first, state.asked_last, state.task
    asked = {i.event for i in (first, last) if i}
    between = task is not None and task.by == "prompt" and task.event not in asked
    if task and (task.told or task.by in ("plan", BUNDLE)):
        approved = "Approved plan" if task.by == "plan" else "Task"
        yield Line("task", f"{approved}: {cut(task.text, _TEXT)}", 100, _shown_by(task))
    if first:
        yield Line("task", f"Asked{' first' if last or between else ''}: “{cut(first.text, _TEXT)}”", 95, _shown_by(first))
    if task and between:
        yield Line("task", f"Asked{' later' if first else ''}: “{cut(task.text, _TEXT)}”", 92, _shown_by(task))
    if last:
        yield Line("task", f"Asked last: “{cut(last.text, _TEXT)}”", 90, _shown_by(last))


def _check_line(check: CheckRun, place: int) -> Line:
    why = f" with “{cut(check.why, _SHORT)}”" if check.why and not check.ok else ""
    since = "; files were changed since" if check.stale else ""
    kind = {"test": "test run", "types": "type check", "lint": "lint or format run", "build": "build"}.get(check.purpose, "check")
    return Line("tests", f"Last {kind}: `{cut(check.command, _SHORT)}` {check.outcome}{why}{since}", 70 - 10 * place, (check.event or "",))


def _shown_by(item: Item) -> tuple[str, ...]:
    return (item.event,) if item.event else ()


def block(
    state: SessionState,
    count: Callable[[str], int],
    budget: int = BUDGET,
    *,
    safe: Callable[[str], str | None] = lambda text: text,
    beside: Sequence[str] = (),
    whole: bool = True,
) -> Block:
    """Return the block of a state, at most ``budget`` tokens as ``count`` counts them.

    Lines are chosen by worth: one too large is left out, a smaller one may still fit.
    ``safe`` gives a line as it may be told, or None for one that may not. ``beside`` are
    lines that stand at the end: how to resume the session, who else worked here. Of a
    state of a part of a session (not ``whole``) nothing is said not to have been done.
    """
    title = f", “{cut(state.title, 80)}”" if state.title and not _begins(state) else ""
    head = f"Where the work on {cut(state.project or state.session_id, 60)} stood ({state.host}, {time_of(state.as_of)}{title}):"
    said_of = [line for line in lines_of(state) if whole or line.about != ABSENT]
    told = [*said_of, *(Line("beside", text, 35 - n) for n, text in enumerate(beside))]
    lines = [line._replace(text=said) for line in told if (said := safe(line.text)) is not None]
    head = safe(head) or f"Where the last session stood ({state.host}):"
    left = budget - count(head + "\n")
    kept: set[int] = set()
    for n in sorted(range(len(lines)), key=lambda n: -lines[n].worth):
        cost = count(f"- {lines[n].text}\n")
        if cost <= left:
            kept.add(n)
            left -= cost
    while kept:
        text = "\n".join([head, *(f"- {lines[n].text}" for n in sorted(kept))]) + "\n"
        tokens = count(text)
        if tokens <= budget:  # what stands side by side may be split into other tokens than what stands alone
            dropped = [lines[n].about for n in range(len(lines)) if n not in kept]
            return Block(text, tokens, dropped, tuple(lines[n] for n in sorted(kept)))
        kept.discard(min(kept, key=lambda n: lines[n].worth))
    return Block("", 0, [line.about for line in lines])


def _begins(state: SessionState) -> bool:
    """Tell whether the title is the beginning of what was asked."""
    asked = " ".join((state.asked_first.text if state.asked_first else "").lower().split())
    return " ".join((state.title or "").lower().split()).rstrip("….")[:60] in asked


def time_of(moment: str | None) -> str:
    """Return a moment as ``2026-03-05 10:00 UTC``."""
    return f"{moment[:16].replace('T', ' ')} UTC" if moment else "no time"


def _line(item: Item) -> str:
    place = f"{item.place}: " if item.place else ""
    why = f" (because {cut(item.reason, _SHORT)})" if item.reason else ""
    return f"{place}{cut(item.text, _TEXT)}{why}"


def view_lines(state: SessionState, *, most: int = 10) -> list[str]:
    """Return the compact view of a state for a person, one section a line or a few."""
    found = []
    task = state.task
    found.append(f"Task: {cut(task.text, _TEXT)}  ({_from(task)})" if task else "Task: none known")
    if state.project:
        found.append(f"Project: {state.project}{f' ({state.branch})' if state.branch else ''}")
    for title, items in (
        ("Findings", state.findings),
        ("Decisions", state.decisions),
        ("Done", state.progress),
        ("Next", state.next_steps),
    ):
        if items:
            found.append(f"{title} ({len(items)}):")
            found += [f"  {_line(i)}{'' if i.told else f'  ({_from(i)})'}" for i in items[:most]]
            found += _more(items, most)
    for title, files in (("Modified", state.modified), ("Read", state.read)):
        if files:
            found.append(f"{title} ({len(files)}):")
            found += [f"  {f.ref} {cut(f.path, 120)}  {_touches(f.reads, f.changes)}" for f in files[:most]]
            found += _more(files, most)
    if state.tests:
        t = state.tests
        found.append(f"Tests: {t.counts} (`{cut(t.command, 120)}`){'; files were changed since' if t.stale else ''}")
        if t.why and not t.ok:
            found.append(f"  {cut(t.why, _TEXT)}")
    return found


def _touches(reads: int, changes: int) -> str:
    told = [f"read {reads}x"] if reads else []
    return ", ".join([*told, *([f"changed {changes}x"] if changes else [])])


def _more(items: Sequence[object], most: int) -> list[str]:
    return [f"  and {len(items) - most} more (--json has all)"] if len(items) > most else []


def _from(item: Item) -> str:
    return f"said by {'you' if item.by == 'person' else 'the agent'}" if item.told else f"from {_SOURCES.get(item.by, item.by)}"


_SOURCES = {
    "plan": "the plan",
    "todos": "the list of steps",
    "prompt": "the last prompt",
    "title": "the title",
    "checks": "the checks that ran",
    "question": "a question and its answer",
    "answer": "an answer",
    "bundle": "the bundle that was imported",
}
