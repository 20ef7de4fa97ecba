"""The hub's code location: assets of a team, partitioned by member and month. ``ctx hub dev`` and ``dagster dev -m`` load this module.

Workers of any executor run it: what they share is the bucket, and of two that do the same work one fails at its commit.
"""

import warnings
from typing import Any

import dagster as dg

from ctx_pipeline import settings as settings_module
from ctx_pipeline.defs.location import executor_of
from ctx_pipeline.model.codec import digest
from ctx_pipeline.team.hub import Hub, Part
from ctx_pipeline.team.hub_page import build_page
from ctx_pipeline.team.hub_signals import family_code, measurable
from ctx_pipeline.team.hub_upkeep import compact_tables, vacuum_tables
from ctx_pipeline.team.membership import HEADS, IDENTITY
from ctx_pipeline.team.shards import waiting, work

MEMBERS = "team_members"
"""Name of the set of members, which grows as they publish."""

GROUP = "hub"
_PARTS_OF_A_RUN = 25
"""Members and months that one run of a backfill takes: a run starts in a second or two, and workers take one each."""
_TAGS = {"dagster/concurrency_key": "team_hub"}


def partitions(first_month: str) -> dg.MultiPartitionsDefinition:
    """Return member and month."""
    months = dg.MonthlyPartitionsDefinition(start_date=f"{first_month}-01", end_offset=1, fmt="%Y-%m-%d")
    return dg.MultiPartitionsDefinition({"member": dg.DynamicPartitionsDefinition(name=MEMBERS), "month": months})


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
    def warehouse() -> dg.MaterializeResult[Any]:
        done = Hub(settings_module.load()).refresh()
        metadata = {"members": done.members, "months": len(done.collected), "refused": len(done.problems)}
        return dg.MaterializeResult(metadata={**metadata, "not_collected": len(done.not_collected)})

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


def tick(context: dg.SensorEvaluationContext, hub: Hub) -> dg.SensorResult:
    """Return the new members, and one run for the parts whose digest was not asked for yet."""
    import json

    parts = {part: made_of for part, made_of in hub.parts().items() if part.month[:1].isdigit()}
    seen: dict[str, str] = json.loads(context.cursor or "{}")
    known = set(context.instance.get_dynamic_partitions(MEMBERS))
    fresh = sorted({head.member for head in hub.heads()} - known)
    due = sorted(part for part, made_of in parts.items() if seen.get(part.key) != made_of)
    requests = [
        dg.RunRequest(
            run_key=f"{part.key} {parts[part]}",
            partition_key=dg.MultiPartitionKey({"member": part.member, "month": f"{part.month}-01"}),
            asset_selection=[dg.AssetKey(["team", "collected"]), *(dg.AssetKey(["team_signals", name]) for name in measurable())],
        )
        for part in due[:_MOST]
    ]
    cursor = {**seen, **{part.key: parts[part] for part in due[:_MOST]}}
    for member, made_of in shards_waiting(hub).items():
        if seen.get(member) != made_of:
            asked = [dg.AssetKey(["team", "shards"])]
            requests.append(dg.RunRequest(run_key=f"{member} {made_of}", partition_key=member, asset_selection=asked))
            cursor[member] = made_of
    added = [dg.DynamicPartitionsDefinition(name=MEMBERS).build_add_request(fresh)] if fresh else []
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(cursor), dynamic_partitions_requests=added)


def shards_waiting(hub: Hub) -> dict[str, str]:
    """Return the members with transcripts that wait -> a digest of what waits; none where this hub has no key."""
    if not hub.settings.environ.get(IDENTITY):
        return {}
    return {member: digest([(head.machine, head.raw) for head in hub.heads() if head.member == member]) for member in waiting(hub)}


_MOST = 50
"""Runs of one tick; the rest follow at the next."""

defs = build()
