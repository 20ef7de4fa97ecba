"""Puts assets, checks, sensors, schedule and resources together."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import dagster as dg

from ctx_pipeline import settings as settings_file
from ctx_pipeline.defs.web import WATCH
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.pipeline import code_versions, plan

if TYPE_CHECKING:
    from ctx_pipeline.defs.resources import Pipeline
    from ctx_pipeline.settings import Settings


def build(pipeline: Pipeline | None = None, versions: code_versions.Versions | None = None) -> dg.Definitions:
    """Return the whole graph.

    ``pipeline`` is what the assets run on; None opens the store that the environment
    names when a run begins. The in-process executor is the default of every launch,
    since the stock one starts an interpreter for each step.
    """
    # backfill_policy warns on every use in dagster 1.13
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    from ctx_pipeline.defs import assets, automation, checks, history_checks, partitions, resources, sensors

    settings = pipeline.settings if pipeline else _settings()
    cells = partitions.definition()
    known = versions or code_versions.collect(settings)
    keys = frozenset(plan.graph(known))
    watching = bool(settings.environ.get(WATCH))
    return dg.Definitions(
        assets=assets.linked(assets.build(known, cells), settings.home / "site"),
        asset_checks=[checks.build(cells), *checks.of_signals(known.families), *history_checks.build()],
        sensors=[*sensors.build(running=watching), automation.sensor(keys, running=watching), sensors.keeper(running=watching)],
        schedules=[automation.build(settings, keys, running=watching)],
        jobs=[automation.job()],
        resources={"pipeline": pipeline or resources.Pipeline(), "duckdb": resources.serving(settings)},
        executor=dg.in_process_executor,
    )


def _settings() -> Settings:
    """Return the person's settings; a broken config file must not hide the graph, the run reports it."""
    try:
        return settings_file.load()
    except SettingsError:
        return settings_file.load({"CTX_HOME": "~/.ctx_pipeline", "HOME": ""}, home="/nonexistent")
