"""The hub's code location: assets of a team, partitioned by member and month. ``ctx hub dev`` and ``dagster dev -m`` load this module.

Workers of any executor run it: what they share is the bucket, and of two that do the same work one fails at its commit.
"""

import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.tags import RUN_KEY_TAG

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.defs.location import executor_of
from ctx_pipeline.model.codec import digest
from ctx_pipeline.team.hub import Hub, Part, Refreshed, stale_parts
from ctx_pipeline.team.hub_page import build_page
from ctx_pipeline.team.hub_signals import family_code, measurable
from ctx_pipeline.team.hub_upkeep import compact_tables, vacuum_tables
from ctx_pipeline.team.membership import HEADS, IDENTITY
from ctx_pipeline.team.shards import waiting, work

MEMBERS = "team_members"
"""Name of the set of members, which grows as they publish."""

GROUP = "hub"
_NAMED = 20
"""Parts that could not be collected and are named in the graph."""

_TURN = "#turn"
"""Key of the sensor's cursor that counts the ticks that asked for runs; no member can have this name."""

_ASKED = "#asked"
"""Key of the sensor's cursor that holds what was asked for and is not known to be there."""

_LOOK_SECONDS, _MOST_TRIES = 600, 8
"""When it is first looked whether what was asked for is there, and how often it is asked for in all: for a day and a half."""


class Asked(NamedTuple):
    """What the sensor asked for: how often, when to look whether it is there, and the key of its last run."""

    tries: int
    look_at: float
    run_key: str


_PARTS_OF_A_RUN = 25
"""Members and months that one run of a backfill takes: a run starts in a second or two, and workers take one each."""
_TAGS = {"dagster/concurrency_key": "team_hub"}


def partitions(first_month: str) -> dg.MultiPartitionsDefinition:
    """Return member and month."""
    return dg.MultiPartitionsDefinition({"member": dg.DynamicPartitionsDefinition(name=MEMBERS), "month": _months(first_month)})


def _months(first_month: str) -> dg.MonthlyPartitionsDefinition:
    return dg.MonthlyPartitionsDefinition(start_date=f"{first_month}-01", end_offset=1, fmt="%Y-%m-%d")


def part_of(key: dg.MultiPartitionKey) -> Part:
    """Return the hub's part of a partition key."""
    named = key.keys_by_dimension
    return Part(named["member"], named["month"][:7])


def _parts(context: dg.AssetExecutionContext) -> list[Part]:
    return [part_of(key) for key in context.partition_keys if isinstance(key, dg.MultiPartitionKey)]


def build() -> dg.Definitions:
    """Return the hub's graph; it loads on a machine that belongs to no team."""
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    settings = settings_module.load()
    discovery.look_in(settings.home / "config")
    parts = partitions(settings.first_month)
    some = dg.BackfillPolicy.multi_run(max_partitions_per_run=_PARTS_OF_A_RUN)

    @dg.asset(
        key=["team", "collected"],
        group_name=GROUP,
        partitions_def=parts,
        backfill_policy=some,
        deps=[dg.AssetKey(["team", "published"])],
        kinds={"deltalake"},
        op_tags=_TAGS,
        description="What a member published of a month, checked and copied to the team's Delta tables.",
    )
    def collected(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        done = Hub(settings_module.load()).collect(_parts(context))
        if done.failed:  # the others of the run are in
            raise dg.Failure("; ".join(f"{part.key} {error.message}" for part, error in done.failed.items()), allow_retries=True)
        return dg.MaterializeResult(metadata={"refused": len(done.problems)})

    @dg.asset(
        key=["team", "shards"],
        group_name=GROUP,
        partitions_def=dg.DynamicPartitionsDefinition(name=MEMBERS),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=1),
        kinds={"deltalake"},
        op_tags=_TAGS,
        description=f"Rows of a member's exact transcripts, made by a worker that has the team's key ({IDENTITY}).",
    )
    def shards(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        (done,) = work(Hub(settings_module.load()), members=[context.partition_key])
        if done.problems and not done.bundles:
            raise dg.Failure("; ".join(done.problems), allow_retries=True)
        metadata = {"bundles": done.bundles, "files": done.files, "sessions": done.sessions, "removed": done.removed}
        return dg.MaterializeResult(metadata={**metadata, "refused": dg.MetadataValue.json(done.problems)})

    families = measurable()

    @dg.multi_asset(
        specs=[
            dg.AssetSpec(
                key=["team_signals", name],
                group_name=GROUP,
                code_version=family_code(name),
                deps=[dg.AssetKey(["team", "collected"])],
                kinds={"deltalake", "python"},
                skippable=True,
            )
            for name in families
        ],
        name="team_signals",
        can_subset=True,
        partitions_def=parts,
        backfill_policy=some,
        op_tags=_TAGS,
    )
    def signals(context: dg.AssetExecutionContext) -> Any:
        hub = Hub(settings_module.load())
        chosen = sorted(key.path[-1] for key in context.selected_asset_keys)
        hub.measure(_parts(context), chosen)
        for name in chosen:
            yield dg.MaterializeResult(asset_key=["team_signals", name])

    @dg.asset(
        key=["team", "warehouse"],
        group_name=GROUP,
        deps=[dg.AssetKey(["team", "collected"]), *(dg.AssetKey(["team_signals", name]) for name in families)],
        kinds={"duckdb"},
        description="The team's database on this machine: calls counted once over members and machines, each session once.",
    )
    def warehouse(context: dg.AssetExecutionContext) -> dg.MaterializeResult[Any]:
        done = Hub(settings_module.load()).refresh()
        _record(context, settings.first_month, done)
        metadata = {"members": done.members, "months": len(done.collected), "refused": len(done.problems)}
        not_collected = dg.MetadataValue.json(done.not_collected[:_NAMED])
        return dg.MaterializeResult(metadata={**metadata, "not_collected": not_collected})

    @dg.asset(
        key=["team", "lessons"],
        group_name=GROUP,
        deps=[warehouse],
        kinds={"json"},
        description="Lessons with their evidence and votes; those that the team accepted are written for members to pull.",
    )
    def lessons() -> dg.MaterializeResult[Any]:
        judged = Hub(settings_module.load()).lessons()
        return dg.MaterializeResult(metadata={"accepted": sum(row["verdict"] == "accepted" for row in judged), "all": len(judged)})

    @dg.asset(key=["team", "page"], group_name=GROUP, deps=[lessons], kinds={"html"}, description="The team's page.")
    def page() -> dg.MaterializeResult[Any]:
        hub = Hub(settings_module.load())
        return dg.MaterializeResult(metadata={"path": dg.MetadataValue.path(str(build_page(hub, hub.lessons())))})

    @dg.asset(
        key=["team", "compacted"],
        group_name=GROUP,
        deps=[collected],
        kinds={"deltalake"},
        description="Small files of the team's tables merged.",
    )
    def compacted() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(metadata={"files_merged": compact_tables(Hub(settings_module.load()))})

    @dg.asset(
        key=["team", "vacuumed"],
        group_name=GROUP,
        deps=[compacted],
        kinds={"deltalake"},
        description="Files that no version of the last week needs removed from the team's tables.",
    )
    def vacuumed() -> dg.MaterializeResult[Any]:
        return dg.MaterializeResult(metadata={"files_removed": vacuum_tables(Hub(settings_module.load()))})

    published = dg.AssetSpec(
        key=["team", "published"],
        group_name=GROUP,
        partitions_def=parts,
        description=f"What machines said below {HEADS}/ that they sent. Observed by the sensor.",
    )

    @dg.sensor(
        name="team_heads",
        asset_selection=dg.AssetSelection.groups(GROUP) - dg.AssetSelection.assets(["team", "published"]),
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Adds members as they publish, and asks for the months that changed.",
    )
    def heads(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return tick(context, Hub(settings_module.load()))

    made: list[Any] = [published, shards, collected, signals, warehouse, lessons, page, compacted, vacuumed]
    return dg.Definitions(assets=made, sensors=[heads], executor=executor_of(settings.executor))


def _record(context: dg.AssetExecutionContext, first_month: str, done: Refreshed) -> None:
    """Record what a refresh did in place of partitioned assets, and what another process did: no partition looks missing that is there."""
    months = set(_months(first_month).get_partition_keys())
    new = {("collected", key) for key in done.collected} | {
        (family, key) for key, _, family in (one.rpartition(" ") for one in done.measured)
    }
    assets = {"collected": dg.AssetKey(["team", "collected"])} | {name: dg.AssetKey(["team_signals", name]) for name in measurable()}
    for name, asset in assets.items():
        recorded = context.instance.get_materialized_partitions(asset)
        for key in dict.fromkeys([*done.up_to_date, *done.collected]):
            partition = _partition(Part(*key.split("|", 1)))
            if key.partition("|")[2] + "-01" in months and ((name, key) in new or partition not in recorded):
                context.log_event(dg.AssetMaterialization(asset_key=asset, partition=partition))


def _partition(part: Part) -> dg.MultiPartitionKey:
    return dg.MultiPartitionKey({"member": part.member, "month": f"{part.month}-01"})


def _requests(context: dg.SensorEvaluationContext, due: Mapping[Part, str], turn: str) -> list[dg.RunRequest]:
    """Return a run for each part that is due, for workers to take; where one machine does all, one run that brings in everything."""
    if due and isinstance(context.instance.run_launcher, dg.DefaultRunLauncher):
        tail = [dg.AssetKey(["team", name]) for name in ("warehouse", "lessons", "page")]
        return [dg.RunRequest(run_key=digest(turn, sorted((part.key, made_of) for part, made_of in due.items())), asset_selection=tail)]
    return [
        dg.RunRequest(
            run_key=f"{part.key} {made_of} {turn}",
            partition_key=_partition(part),
            asset_selection=[dg.AssetKey(["team", "collected"]), *(dg.AssetKey(["team_signals", name]) for name in measurable())],
        )
        for part, made_of in due.items()
    ]


def tick(context: dg.SensorEvaluationContext, hub: Hub) -> dg.SensorResult:
    """Return the new members, and runs for the parts whose digest was not asked for yet, and for those that nobody publishes any more.

    What was asked for and is not there, since its run failed or was lost, is asked for again: after ten minutes, then after twice as
    long each time, eight times in all. What is published anew is asked for at once.
    """
    import json
    from itertools import islice

    local = isinstance(context.instance.run_launcher, dg.DefaultRunLauncher)
    months = set(_months(hub.settings.first_month).get_partition_keys())
    # lessons, and months outside of the graph, are no partition: only a run that brings in everything takes them
    parts = {part: made_of for part, made_of in hub.parts().items() if local or f"{part.month}-01" in months}
    seen: dict[str, Any] = json.loads(context.cursor or "{}")
    turn = seen.pop(_TURN, "0")
    asked_for = {key: Asked(*one) for key, one in seen.pop(_ASKED, {}).items()}
    known = set(context.instance.get_dynamic_partitions(MEMBERS))
    fresh = sorted({head.member for head in hub.heads()} - known)
    asked = {key: made_of for key, made_of in seen.items() if "|" in key and (local or f"{key.partition('|')[2]}-01" in months)}
    shards = shards_waiting(hub)
    now = {part.key: made_of for part, made_of in parts.items()} | shards
    # what changed since is due by itself
    asked_for = {key: one for key, one in asked_for.items() if now.get(key, "") == seen.get(key, "") and ("|" in key or key in shards)}
    again = _to_repeat(context, hub, asked_for, now)
    stale = hub.without_unsure_removals(stale_parts(parts, asked)) | {
        Part(*key.split("|", 1)): now.get(key, "") for key in again if "|" in key
    }
    due = dict(islice(sorted(stale.items()), None if local else _MOST))
    requests = _requests(context, due, turn)
    cursor = {**seen, **{part.key: made_of for part, made_of in due.items()}}
    cursor = {key: made_of for key, made_of in cursor.items() if made_of}
    keys = {part.key: str(request.run_key) for part, request in zip(due, requests * len(due) if local else requests, strict=False)}
    for member, made_of in shards.items():
        if seen.get(member) != made_of or member in again:
            shard = [dg.AssetKey(["team", "shards"])]
            keys[member] = f"{member} {made_of} {turn}"
            requests.append(dg.RunRequest(run_key=keys[member], partition_key=member, asset_selection=shard))
            cursor[member] = made_of
    for key, run_key in keys.items():
        tries = asked_for[key].tries + 1 if key in asked_for else 1
        asked_for[key] = Asked(tries, time.time() + _LOOK_SECONDS * 2 ** (tries - 1), run_key)
    # a month that comes again as it was before is a run of its own
    cursor |= {_TURN: str(int(turn) + bool(requests)), _ASKED: asked_for}
    added = [dg.DynamicPartitionsDefinition(name=MEMBERS).build_add_request(fresh)] if fresh else []
    observed = [
        dg.AssetObservation(asset_key=["team", "published"], partition=_partition(part))
        for part, made_of in due.items()
        if made_of and f"{part.month}-01" in months
    ]
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(cursor), dynamic_partitions_requests=added, asset_events=observed)


def _to_repeat(context: dg.SensorEvaluationContext, hub: Hub, asked_for: dict[str, Asked], now: Mapping[str, str]) -> set[str]:
    """Return what is to be asked for again; what is there, or was asked for often enough, leaves ``asked_for``."""
    late = [key for key, one in asked_for.items() if one.look_at <= time.time()]
    made = hub.made({Part(*key.split("|", 1)): now.get(key, "") for key in late if "|" in key})
    again = set()
    for key in late:
        one = asked_for[key]
        going = dg.RunsFilter(tags={RUN_KEY_TAG: one.run_key}, statuses=NOT_FINISHED_STATUSES)
        if "|" in key and Part(*key.split("|", 1)) in made:
            del asked_for[key]
        elif context.instance.get_runs(going, limit=1):
            asked_for[key] = one._replace(look_at=time.time() + _LOOK_SECONDS)
        elif one.tries >= _MOST_TRIES:
            del asked_for[key]
        else:
            again.add(key)
    return again


def shards_waiting(hub: Hub) -> dict[str, str]:
    """Return the members with transcripts that wait -> a digest of what waits; none where this hub has no key."""
    if not hub.settings.environ.get(IDENTITY):
        return {}
    return {
        member: digest([(head.machine, head.raw) for head in hub.heads() if head.member == member])
        for member, waits in waiting(hub).items()
        if waits.due
    }


_MOST = 50
"""Runs of one tick; the rest follow at the next."""

defs = build()
