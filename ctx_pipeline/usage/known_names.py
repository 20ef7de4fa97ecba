"""Whether a project, a model or a branch that a filter names was ever used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreError, UnknownName
from ctx_pipeline.model.usage_rules import UNNAMED
from ctx_pipeline.storage.own_sessions import ShownSessions
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.repositories import project_names

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


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
            raise UnknownName("project", project, shown - {""})
    if model:
        models = {str(row["model"]) for row in usage("model", stored=stored, settings=settings).rows}
        if model not in models:
            raise UnknownName("model", model, {name or UNNAMED for name in models})
    if branch:
        branches = {str(row["branch"]) for row in usage("branch", stored=stored, settings=settings).rows}
        if branch not in branches:
            raise UnknownName("branch", branch, branches)
