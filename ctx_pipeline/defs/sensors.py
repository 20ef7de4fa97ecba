"""One observing sensor a host, made from what discovery finds; none of them launches anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import dagster as dg

from ctx_pipeline import discovery
from ctx_pipeline.defs import partitions, run_records
from ctx_pipeline.defs.resources import Pipeline
from ctx_pipeline.pipeline.capture import placement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Cell

SOURCE = dg.AssetKey(["source", "sessions"])
INTERVAL_SECONDS = 300
UPKEEP = "upkeep"
TEAM = "team_publication"
PARTITIONS = "partitions"
UPKEEP_SECONDS = 3_600
MOST_OBSERVED = 50
"""Observations of one tick; the rest follow at the next, since every one is a row in the event log."""


def build(opened: Callable[[], Pipeline] = Pipeline, *, running: bool = False) -> list[dg.SensorDefinition]:
    """Return a sensor for every host, off unless told otherwise; ``opened`` gives each tick a pipeline of its own."""
    return [_observer(host, opened, running=running) for host in discovery.hosts().values()]


def registrar(opened: Callable[[], Pipeline] = Pipeline) -> dg.SensorDefinition:
    """Return the sensor that tells Dagster which partitions there are. It launches and observes nothing, so it is on."""

    @dg.sensor(
        name=PARTITIONS,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Makes the hosts and months that hold sessions known as partitions. Launches and observes nothing.",
    )
    def known(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        pipeline = opened()
        try:
            return register(context.instance, pipeline)
        finally:
            pipeline.close()

    return known


def register(instance: dg.DagsterInstance, pipeline: Pipeline) -> dg.SensorResult | dg.SkipReason:
    """Return the partitions that hold sessions, captured or waiting, and that the instance does not know yet."""
    found = placement.place(pipeline.store, pipeline.settings, pipeline.scan())
    cells = {*pipeline.store.ledger.cells(), *found.cells}
    known = set(instance.get_dynamic_partitions(partitions.NAME))
    if new := sorted(cell for cell in cells if cell.key not in known):
        return dg.SensorResult(dynamic_partitions_requests=partitions.requested(new), skip_reason=f"{len(new)} new partitions")
    return dg.SkipReason(f"{len(known)} partitions are known")


def keeper(*, running: bool = False) -> dg.SensorDefinition:
    """Return the sensor that keeps Dagster's own records small, off unless told otherwise. It launches nothing."""

    @dg.sensor(
        name=UPKEEP,
        minimum_interval_seconds=UPKEEP_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        description=f"Removes runs of {run_records.KEEP_DAYS} days ago and all but {run_records.KEEP_RUNS}; a partition's newest stays.",
    )
    def tidy(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        made = run_records.tidy(context.instance, label=_label(context))
        return dg.SkipReason(f"{made.removed} runs removed")

    return tidy


def publisher(keys: Collection[str], opened: Callable[[], Pipeline] = Pipeline, *, running: bool = False) -> dg.SensorDefinition:
    """Return the sensor that publishes to the team what runs of the schedule made, off unless told otherwise. It launches nothing."""

    @dg.sensor(
        name=TEAM,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        description="Publishes to the team what its policies share, when runs of the schedule or the automation have ended.",
    )
    def send(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        pipeline = opened()
        try:
            return published(context.instance, context.cursor, pipeline, keys)
        finally:
            pipeline.close()

    return send


def published(
    instance: dg.DagsterInstance, cursor: str | None, pipeline: Pipeline, keys: Collection[str]
) -> dg.SensorResult | dg.SkipReason:
    """Publish where a run that nobody asked for has ended since the last time; one that fails is tried again at the next tick.

    The cursor is the newest such run. `ctx run` publishes by itself.
    """
    from ctx_pipeline.team.auto import publish_quietly, publishes

    if not publishes(pipeline.settings):
        return dg.SkipReason("this machine publishes nothing by itself")
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS], tags={run_records.LAUNCHED_BY: ["nightly", "automation"]})
    newest = next((run.run_id for run in instance.get_runs(ended, limit=1)), "")
    if newest in ("", cursor):
        return dg.SkipReason("no run of the schedule has ended since")
    if busy := run_records.under_way(instance, keys):
        return dg.SkipReason(f"waits for run {busy}")
    line = publish_quietly(pipeline.settings)
    failed = line.startswith("not published")
    return dg.SensorResult(skip_reason=line or "nothing new for the team", cursor=cursor if failed else newest)


def _label(context: dg.SensorEvaluationContext) -> str:
    """Return what Dagster calls the code location that a tick belongs to in the tags of its runs."""
    origin = context.code_location_origin
    return f"{context.repository_name}@{origin.location_name}" if origin is not None else run_records.LABEL


def sensor_name(host: Host) -> str:
    """Return the host's own name for its sensor, else ``<key>_sensor``."""
    return host.sensor_name or f"{host.key}_sensor"


def _observer(host: Host, opened: Callable[[], Pipeline], *, running: bool) -> dg.SensorDefinition:
    @dg.sensor(
        name=sensor_name(host),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED,
        description=f"Observes what {host.title} wrote: one observation for each partition whose sources changed. Launches nothing.",
    )
    def observe(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        pipeline = opened()
        try:
            return tick(host.key, context.cursor, pipeline)
        finally:
            pipeline.close()

    return observe


def tick(host: str, cursor: str | None, pipeline: Pipeline) -> dg.SensorResult | dg.SkipReason:
    """Return observations of the host's cells whose pending sources differ from those last observed.

    The cursor is cell -> fingerprint of what waited there, never a list of files. A
    source that is still being written to waits until it has been quiet for
    ``settings.debounce_seconds``.
    """
    settings = pipeline.settings
    scan = pipeline.scan()
    scan.pending = [source for source in scan.pending if source.host == host]
    found = placement.place(pipeline.store, settings, scan, settle_seconds=settings.debounce_seconds)
    seen: dict[str, str] = json.loads(cursor or "{}").get("cells", {})
    waiting = {cell.key: (cell, text) for cell, text in found.cells.items()}
    changed = {key: cell for key, (cell, text) in waiting.items() if seen.get(key) != text}
    kept = {key: text for key, text in seen.items() if key in waiting}
    if not changed:
        return dg.SkipReason(_quiet(found))
    chosen = sorted(changed)[:MOST_OBSERVED]
    return dg.SensorResult(
        asset_events=[observation(changed[key], waiting[key][1], found.settling) for key in chosen],
        dynamic_partitions_requests=partitions.requested(changed[key] for key in chosen),
        cursor=json.dumps({"version": 1, "cells": kept | {key: waiting[key][1] for key in chosen}}, sort_keys=True),
    )


def observation(cell: Cell, fingerprint: str, settling: int) -> dg.AssetObservation:
    """Return what was seen in a cell: the fingerprint of the sources that wait there, and how many are still written to."""
    return dg.AssetObservation(
        asset_key=SOURCE,
        partition=cell.key,
        metadata={"fingerprint": fingerprint, "settling": settling},
        tags={"dagster/data_version": fingerprint},
    )


def _quiet(found: placement.Placement) -> str:
    parts = [f"{found.settling} still being written to"] if found.settling else []
    parts += [f"{found.unplaced} of no session yet"] if found.unplaced else []
    parts += [f"{len(found.cells)} partitions observed before and not captured yet"] if found.cells else []
    return "nothing new to observe" + (f" ({', '.join(parts)})" if parts else "")
