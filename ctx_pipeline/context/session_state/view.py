"""A session's state as a few lines for a person: its task, and the compact view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.context.session_state.snapshot import BLOCK_TEXT, SHORT, item_line, offer
from ctx_pipeline.context.session_state.state import REFUSAL
from ctx_pipeline.model.display import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.session_state.state import Item, SessionState


def task_line(state: SessionState) -> str:
    """Return the line that says the task, and where it is from."""
    task = state.current_task
    if task is None:
        return "Task: none known"
    asked = offer(task)
    last = state.asked_since_task
    then = f"; last asked: {cut(last.text, SHORT)}" if last else ""
    return f"Task: {cut(task.text, BLOCK_TEXT)}{f', in reply{asked}' if asked else ''}{then}  ({_from(task)})"


def view_lines(state: SessionState, *, most: int = 10) -> list[str]:
    """Return the compact view of a state for a person, one section a line or a few."""
    found = [task_line(state)]
    if state.project:
        ended = state.on_branch
        branch = f" ({ended.text if ended else f'began on the branch {state.branch}'})" if ended or state.branch else ""
        found.append(f"Project: {state.project}{branch}")
    for title, items in (
        ("Findings", state.findings),
        ("Decisions", state.decisions),
        ("Done", state.progress),
        ("Next", state.next_steps),
    ):
        if items:
            found.append(f"{title} ({len(items)}):")
            found += [f"  {item_line(i)}{'' if i.stated else f'  ({_from(i)})'}" for i in items[:most]]
            found += _more(items, most)
    for title, files in (("Modified", state.modified), ("Read", state.read)):
        if files:
            found.append(f"{title} ({len(files)}):")
            found += [f"  {f.ref} {cut(f.path, 120)}  {_touches(f.reads, f.changes)}" for f in files[:most]]
            found += _more(files, most)
    if state.tests:
        t = state.tests
        part = ", as far as the shown part of its output says" if t.cut and t.ok else ""
        found.append(f"{_CHECKED.get(t.purpose, 'Check')}: {t.counts}{part} (`{cut(t.command, 120)}`){t.aged}")
        if t.why and not t.ok:
            found.append(f"  {cut(t.why, BLOCK_TEXT)}")
    elif not state.checks and not state.hooks_ran:
        found.append("Tests: none were run")
    return found


_CHECKED = {"test": "Tests", "types": "Type check", "lint": "Lint or format", "build": "Build"}


def _touches(reads: int, changes: int) -> str:
    told = [f"read {reads}x"] if reads else []
    return ", ".join([*told, *([f"changed {changes}x"] if changes else [])])


def _more(items: Sequence[object], most: int) -> list[str]:
    return [f"  and {len(items) - most} more (--json has all)"] if len(items) > most else []


def _from(item: Item) -> str:
    if item.stated:
        return f"said by {'you' if item.by == 'person' else 'the agent'}"
    if item.by == REFUSAL and item.reason:
        return f"from the words that refused {cut(item.reason, SHORT)}"
    return f"from {_SOURCES.get(item.by, item.by)}"


_SOURCES = {
    "plan": "the plan",
    "todos": "the list of steps",
    "prompt": "a prompt",
    "command": "a command",
    "refusal": "the words of a refusal",
    "title": "the title",
    "order": "what its subagent was asked",
    "checks": "the checks that ran",
    "question": "a question and its answer",
    "answer": "an answer",
    "bundle": "the bundle that was imported",
}
