"""Lessons of this machine as the team gets them: those that its person judged, without what a check found something in."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.memories import TEAM, TEAM_ID, Memory
from ctx_pipeline.model.repository_names import project_of
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.team.published_tables import LESSON_COLUMNS, LESSONS_MONTH

if TYPE_CHECKING:
    import pyarrow as pa

    from ctx_pipeline.redaction.redactor import Redactor
    from ctx_pipeline.storage import Store
    from ctx_pipeline.team.membership import Membership

_FOR = ("accepted",)
_AGAINST = ("rejected", "retired")


class Lessons(NamedTuple):
    """Lessons that leave, and why accepted ones do not."""

    rows: list[dict[str, Any]]
    stay: Counter[str]
    """why -> accepted lessons that stay on this machine"""


def lessons_that_leave(store: Store, member: Membership, redactor: Redactor) -> Lessons:
    """Return the rows of ``lessons``, by id: accepted lessons with their text, rejected ones as a vote without it.

    A lesson of a repository goes by the policy of that repository, one that holds
    everywhere by the general policy. One that holds for a folder of this machine alone
    stays. A lesson that came from the team is a vote only where it was refused.
    """
    rows: list[dict[str, Any]] = []
    stay = Counter[str]()
    for memory in (Memory._make(row) for row in store.lake.read_rows("memories", WHOLE, "memory/consolidated")):
        vote = "accepted" if memory.status in _FOR else "rejected" if memory.status in _AGAINST else ""
        if not vote or (memory.body.get(TEAM) and vote == "accepted"):
            continue
        text = redactor.redact(memory.text) if vote == "accepted" else ""
        when = redactor.redact(memory.when_to_use) if vote == "accepted" and memory.when_to_use else None
        if why := _why_it_stays(memory, member, [text, when]):
            stay[why] += vote == "accepted"
            continue
        row = memory._asdict() | {"text": text, "when_to_use": when, "status": vote}
        named = row["memory_id"].removeprefix(TEAM_ID) if memory.body.get(TEAM) else row["memory_id"]
        values = {name: row[name] for name in LESSON_COLUMNS} | {"memory_id": named}
        values["sessions"], values["evidence"] = list(values["sessions"]), list(values["evidence"])
        rows.append({"member": member.member, "machine": member.machine, "month": LESSONS_MONTH, "shared": "lessons", **values})
    return Lessons(sorted(rows, key=lambda row: str(row["memory_id"])), +stay)


def _why_it_stays(memory: Memory, member: Membership, texts: list[str | None]) -> str:
    """Return why a lesson does not leave; empty where it does."""
    local = memory.repository is not None and memory.repository.startswith(("/", "~"))
    if local or (memory.scope in ("repo", "task") and memory.repository is None):
        return "of a folder whose repository is not known"
    project = project_of(memory.repository) if memory.repository else None
    if "lessons" not in member.policy_of(project, memory.repository):
        return "of projects that do not share lessons"
    return "in which a check found something" if memory.flags or scan(texts) else ""


def lessons_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return the rows as Arrow, typed even when there is none."""
    import pyarrow as pa

    from ctx_pipeline.model.tables import MEMORIES
    from ctx_pipeline.team.published_tables import PLACE

    kinds = {
        "str": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "time": pa.timestamp("us", "UTC"),
        "list": pa.list_(pa.string()),
    }
    declared = {c.name: kinds[c.type] for c in (*PLACE, *MEMORIES.columns) if c.name in LESSON_COLUMNS or c in PLACE}
    return pa.table({name: pa.array([row[name] for row in rows], declared[name]) for name in (*(c.name for c in PLACE), *LESSON_COLUMNS)})
