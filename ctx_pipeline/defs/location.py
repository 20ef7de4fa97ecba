"""Puts assets, checks, sensors, schedule and resources together."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from ctx_pipeline import settings as settings_file
from ctx_pipeline.defs.web import WATCH
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.pipeline import code_versions, plan

if TYPE_CHECKING:
    from ctx_pipeline.defs.resources import Pipeline, PipelineResource
    from ctx_pipeline.settings import Settings


def build(
    pipeline: Pipeline | None = None,
    versions: code_versions.Versions | None = None,
    *,
    resource: PipelineResource | None = None,
    shown: bool = True,
) -> dg.Definitions:
    """Return the whole graph; where nobody is ``shown`` it, without links from assets to their code, which would import all of that.

    ``pipeline`` is what the assets run on; without it ``resource`` opens a store when a run
    begins, the one that the environment names unless it says another. The in-process
    executor is the default of every launch, since the stock one starts an interpreter for
    each step; the setting ``dagster.executor`` names another one.
    """
    # backfill_policy warns on every use in dagster 1.13
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    from ctx_pipeline.defs import assets, automation, checks, history_checks, partitions, resources, sensors

    given = resource or resources.PipelineResource()
    settings = pipeline.settings if pipeline else _settings(given.store)
    cells = partitions.definition()
    known = versions or code_versions.collect(settings)
    keys = frozenset(plan.graph(known))
    watching = bool(settings.environ.get(WATCH))
    made = assets.build(known, cells)
    return dg.Definitions(
        assets=assets.linked(made, settings.home / "site") if shown else made,
        asset_checks=[checks.build(cells), *checks.of_signals(known.families), *history_checks.build()],
        sensors=[
            *sensors.build(given.opened, running=watching),
            automation.sensor(keys, given.opened, running=watching),
            sensors.registrar(given.opened),
            sensors.keeper(running=watching),
            sensors.publisher(keys, given.opened, running=watching),
        ],
        schedules=[automation.build(settings, keys, given.opened, running=watching)],
        jobs=[automation.job(keys)],
        resources={"pipeline": pipeline or given.forceable(), "duckdb": resources.serving(settings)},
        executor=executor_of(settings.executor),
    )


ADDED = Path(__file__).parent / "added"
"""Where ``dg scaffold defs`` puts what a person adds in a checkout (``defs_module`` in ``pyproject.toml``)"""


def load() -> dg.Definitions:
    """Return the whole graph, with what ``dg scaffold defs`` added to this checkout."""
    ours = build()
    if all(path.name in _NOTHING for path in ADDED.iterdir()):
        return ours
    return dg.Definitions.merge(ours, dg.load_from_defs_folder(path_within_project=ADDED))


_NOTHING = {"__init__.py", "__pycache__"}


def executor_of(name: str) -> dg.ExecutorDefinition:
    """Return the executor that a setting names: one of Dagster's two, or ``package.module:name``."""
    stock = {"in_process": dg.in_process_executor, "multiprocess": dg.multiprocess_executor}
    if name in stock:
        return stock[name]
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"dagster.executor = {name!r} cannot be imported: {error}", hint="install its package, or name another"
        ) from error
    if not isinstance(found, dg.ExecutorDefinition):
        raise SettingsError(f"dagster.executor = {name!r} is no executor", hint="name one such as dagster_celery:celery_executor")
    return found


def _settings(store: str) -> Settings:
    """Return the person's settings; a broken config file must not hide the graph, the run reports it."""
    try:
        return settings_file.load(home=store or None)
    except SettingsError:
        return settings_file.load({"CTX_HOME": "~/.ctx_pipeline", "HOME": ""}, home="/nonexistent")
