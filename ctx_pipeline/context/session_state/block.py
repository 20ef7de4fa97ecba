"""A session's state as a few lines: the view for a person, the block that a fresh chat begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.context.session_state.snapshot import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.context.session_state.state import Item, SessionState

BUDGET = 500
"""Tokens of a block to go on with."""

FIRST, LAST = "first", "last"
"""Where a line stands: models attend to the beginning and the end of what they read, least to the middle."""

_FILES, _ITEMS = 10, 6
_TEXT, _SHORT = 300, 160


class Line(NamedTuple):
    """One line of a block, with what it is about and where it is to stand."""

    about: str
    text: str
    place: str
    worth: float
    """what is kept first where not all of it fits"""


class Block(NamedTuple):
    """The text, its tokens, and what did not fit."""

    text: str
    tokens: int
    dropped: list[str]
    """what the left-out lines are about"""


def lines_of(state: SessionState) -> list[Line]:
    """Return the lines of a block in the order in which they stand: task, decisions and files first, what is to do last.

    Figures stand at the very end: they change with every call, and what stands before
    them can stay in a prompt cache.
    """
    made = [Line("task", f"Task: {cut(state.task.text, _TEXT)}", FIRST, 100)] if state.task else []
    made += [Line("decisions", f"Decided: {_line(i)}", FIRST, 60 - n) for n, i in enumerate(state.decisions[:_ITEMS])]
    for n, f in enumerate(state.modified[:_FILES]):
        made.append(Line("files", f"Changed: {cut(f.path, _SHORT)}", FIRST, 50 - n))
    if not state.modified:
        made += [Line("files", f"Read: {cut(f.path, _SHORT)}", FIRST, 20 - n) for n, f in enumerate(state.read[:_ITEMS])]
    made += [Line("findings", f"Found: {_line(i)}", LAST, 55 - n) for n, i in enumerate(state.findings[:_ITEMS])]
    if state.tests:
        t = state.tests
        why = f" with “{cut(t.why, _SHORT)}”" if t.why and not t.ok else ""
        since = "; files were changed since" if t.stale else ""
        made.append(Line("tests", f"Last check: `{cut(t.command, _SHORT)}` {t.counts}{why}{since}", LAST, 70))
    made += [Line("next_steps", f"To do: {cut(i.text, _SHORT)}", LAST, 65 - n) for n, i in enumerate(state.next_steps[:_ITEMS])]
    figures = ", ".join(f"{state.stats[name]:,} {word}" for name, word in _FIGURES.items() if state.stats.get(name))
    if figures:
        made.append(Line("stats", f"So far: {figures}", LAST, 1))
    return made


_FIGURES = {"prompts": "prompts", "tool_calls": "tool calls", "compactions": "compactions"}


def block(
    state: SessionState, count: Callable[[str], int], budget: int = BUDGET, *, safe: Callable[[str], str | None] = lambda text: text
) -> Block:
    """Return the block of a state, at most ``budget`` tokens as ``count`` counts them.

    Lines are chosen by worth: one too large is left out, a smaller one may still fit.
    ``safe`` gives a line as it may be told, or None for one that may not.
    """
    head = f"Where the work on {cut(state.project or state.session_id, 60)} stood ({state.host}, {(state.as_of or 'no time')[:16]}):"
    lines = [line._replace(text=said) for line in lines_of(state) if (said := safe(line.text)) is not None]
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
            return Block(text, tokens, [lines[n].about for n in range(len(lines)) if n not in kept])
        kept.discard(min(kept, key=lambda n: lines[n].worth))
    return Block("", 0, [line.about for line in lines])


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
            found += [f"  {_line(i)}{'' if i.stated else f'  ({_from(i)})'}" for i in items[:most]]
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
    return f"said by {'you' if item.by == 'person' else 'the agent'}" if item.stated else f"from {_SOURCES.get(item.by, item.by)}"


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
