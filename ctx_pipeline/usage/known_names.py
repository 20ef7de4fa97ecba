"""Whether a project, a model or a branch that a filter names was ever used."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError, UnknownName, nearest
from ctx_pipeline.model.usage_rules import UNNAMED
from ctx_pipeline.storage.own_sessions import ShownSessions
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.repositories import project_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.settings import Settings

_MOST_USED = 5
"""Names that are told where none is near."""


def _unknown(kind: str, name: str, rows: Iterable[Mapping[str, Any]], others: Iterable[str] = ()) -> UnknownName:
    """Return the error for a name that nothing has: the nearest names, else how many there are and those with most calls.

    ``others`` are names that may have no model call; the command that is told lists those with one.
    """
    calls = Counter[str](dict.fromkeys(others, 0))
    for row in (row for row in rows if row[kind] or kind != "project"):
        calls[str(row[kind] or UNNAMED)] += int(row["calls"])
    known = [one for one, _ in sorted(calls.items(), key=lambda pair: (-pair[1], pair[0]))]
    listed = "all of them" if all(calls.values()) else "those with model calls"
    hint = f"most used of {len(known):,}: {', '.join(known[:_MOST_USED])}; {listed}: ctx usage {kind}"
    return UnknownName(kind, name, known, hint="" if len(known) <= _MOST_USED or nearest(name, known) else hint)


def _captured(settings: Settings) -> set[str]:
    """Return the projects of captured sessions, those without a model call included."""
    shown = ShownSessions(settings.home / "ledger.db")
    try:
        return {one.project or "" for one in shown.of().values()}
    except StoreError:
        return set()
    finally:
        shown.close()


def known_names(
    settings: Settings, *, project: str | None = None, model: str | None = None, branch: str | None = None, stored: bool = False
) -> None:
    """Raise UnknownName where nothing of this project, model or branch was ever counted, with the nearest names that lists show."""
    if project is not None:
        rows = usage("project", stored=stored, settings=settings).rows
        shown = _captured(settings) | {row["project"] for row in rows}
        if project not in shown.union(*(project_names(row["project"], row["repository"]) for row in rows)):
            raise _unknown("project", project, rows, shown - {""})
    if model:
        rows = usage("model", stored=stored, settings=settings).rows
        if model not in {str(row["model"]) for row in rows}:
            raise _unknown("model", model, rows)
    if branch:
        rows = usage("branch", stored=stored, settings=settings).rows
        if branch not in {str(row["branch"]) for row in rows}:
            raise _unknown("branch", branch, rows)
