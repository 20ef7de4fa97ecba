"""What two states differ by: of two sessions, or of one session at two moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.session_state.state import Item, SessionState


LISTS = ("findings", "decisions", "progress", "next_steps")


def difference(older: SessionState, newer: SessionState) -> dict[str, Any]:
    """Return what ``newer`` has that ``older`` has not, what it has no more, and how figures moved.

    Keys: task (from, to; None where equal), for findings, decisions, progress and
    next_steps the texts added and removed, files added, removed and changed_more (path with
    how many changes more), tests (from, to), stats (name -> difference).
    """
    told: dict[str, Any] = {
        "task": _moved(*(one.current_task and one.current_task.text for one in (older, newer))),
        "tests": _moved(_tests(older), _tests(newer)),
    }
    for name in LISTS:
        told[name] = _texts(getattr(older, name), getattr(newer, name))
    before = {f.path: f for f in older.files}
    after = {f.path: f for f in newer.files}
    told["files"] = {
        "added": [p for p in after if p not in before],
        "removed": [p for p in before if p not in after],
        "changed_more": {p: f.changes - before[p].changes for p, f in after.items() if p in before and f.changes > before[p].changes},
    }
    names = dict.fromkeys([*older.stats, *newer.stats])
    told["stats"] = {n: d for n in names if (d := newer.stats.get(n, 0) - older.stats.get(n, 0))}
    return told


def differs(found: dict[str, Any]) -> bool:
    """Tell whether a difference says anything."""
    lists = any(found[name]["added"] or found[name]["removed"] for name in LISTS)
    return bool(found["task"] or found["tests"] or lists or any(found["files"].values()) or found["stats"])


def _moved(before: Any, after: Any) -> dict[str, Any] | None:
    return None if before == after else {"from": before, "to": after}


def _tests(state: SessionState) -> str | None:
    return f"{state.tests.command}: {state.tests.counts}" if state.tests else None


def _texts(before: Sequence[Item], after: Sequence[Item]) -> dict[str, list[str]]:
    had, has = [i.text for i in before], [i.text for i in after]
    return {"added": [t for t in has if t not in had], "removed": [t for t in had if t not in has]}
