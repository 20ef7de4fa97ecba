"""The asset graph: every node from :func:`ctx_pipeline.pipeline.plan.graph`, every body one step."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field

from ctx_pipeline.defs import recording
from ctx_pipeline.defs.resources import FORCE, Pipeline, beside
from ctx_pipeline.pipeline.code_versions import Versions
from ctx_pipeline.pipeline.plan import OFF_PATH, Asset, graph

OWNERS = ["team:ctx"]
KINDS = {
    "source": {"jsonl"},
    "raw": {"zstd"},
    "normalized": {"parquet"},
    "facts": {"parquet", "python"},
    "signals": {"parquet", "python"},
    "mined": {"parquet", "python"},
    "tokens": {"parquet"},
    "search": {"sqlite"},
    "memory": {"sqlite"},
    "warehouse": {"duckdb"},
    "dashboard": {"html"},
}


_POOLS = {"capture": "ingest", "normalize": "ingest"}
"""step of partitions -> pool of those that one process at a time can make; each step of the tail is a pool of its own"""


GROUPS = {
    "source": "capture",
    "raw": "capture",
    "normalized": "tables",
    "facts": "tables",
    "tokens": "tables",
    "signals": "signals",
    "mined": "mined",
    "memory": "memory",
    "search": "serving",
    "warehouse": "serving",
    "dashboard": "serving",
}
"""first part of a key -> group: six, five in a row, which the first view shows at a size that can be read"""


class Options(dg.Config):
    """What a person may choose in the launchpad."""

    force: bool = Field(default=False, description="Make anew also what is fresh. The run tag ctx/force does the same for all steps.")


def build(versions: Versions, cells: dg.PartitionsDefinition) -> list[Any]:
    """Return every asset of the graph, the observed source first."""
    nodes = graph(versions)
    made = {
        stage: [n for n in nodes.values() if n.stage == stage] for stage in ("capture", "normalize", "facts", "measure", "mine", "count")
    }
    return [
        source(cells),
        _partitioned("raw", "capture", made["capture"], versions, cells),
        _partitioned("normalized", "normalize", made["normalize"], versions, cells),
        _partitioned("facts", "facts", made["facts"], versions, cells),
        *([_partitioned("signals", "measure", made["measure"], versions, cells, choice="families")] if made["measure"] else []),
        *([_partitioned("mined", "mine", made["mine"], versions, cells, choice="methods")] if made["mine"] else []),
        _partitioned("tokens", "count", made["count"], versions, cells),
        *((_warehouse if node.stage == "warehouse" else _whole)(node, versions) for node in nodes.values() if not node.partitioned),
    ]


def source(cells: dg.PartitionsDefinition) -> dg.AssetSpec:
    """Return what the hosts keep in their homes: observed by the sensors, never made by us."""
    return dg.AssetSpec(
        key=_key("source/sessions"),
        description="Sessions as the hosts wrote them, by host and month of the root session's first event. Observed by the host sensors, "
        "once they are switched on under Automation; *Materialize all* reads them without.",
        partitions_def=cells,
        group_name=GROUPS["source"],
        kinds=KINDS["source"],
        owners=OWNERS,
        tags={"ctx/stage": "source"},
    )


def _partitioned(
    name: str, step: str, nodes: Sequence[Asset], versions: Versions, cells: dg.PartitionsDefinition, *, choice: str = ""
) -> dg.AssetsDefinition:
    """Return one multi-asset: a key for each node, one step for all that are selected.

    ``choice`` names the step's option that takes the selected families or methods; without
    it the step makes all its tables at once, and those that were selected are recorded.
    """
    many = len(nodes) > 1 or bool(choice)

    @dg.multi_asset(
        name=name,
        specs=[_spec(node, versions, skippable=many) for node in nodes],
        partitions_def=cells,
        can_subset=many,
        backfill_policy=dg.BackfillPolicy.single_run(),
        retry_policy=recording.RETRIES,
        pool=_POOLS.get(step),
    )
    def body(context: dg.AssetExecutionContext, config: Options, pipeline: dg.ResourceParam[Pipeline]) -> Iterator[Any]:
        chosen: dict[str, Any] = {choice: sorted(key.path[-1] for key in context.selected_asset_keys)} if choice else {}
        yield from recording.materialize_cells(context, pipeline, step, **chosen, **_forced(context, config))

    return body


def _whole(node: Asset, versions: Versions) -> dg.AssetsDefinition:
    """Return one unpartitioned asset of the tail."""

    @dg.multi_asset(name=node.key.replace("/", "_"), specs=[_spec(node, versions)], retry_policy=recording.RETRIES, pool=node.stage)
    def body(context: dg.AssetExecutionContext, config: Options, pipeline: dg.ResourceParam[Pipeline]) -> dg.MaterializeResult:
        return recording.materialize_whole(context, pipeline, node.stage, **_forced(context, config))

    return body


def _warehouse(node: Asset, versions: Versions) -> dg.AssetsDefinition:
    """Return the warehouse: the new file is written through the resource, which waits while another process holds it."""

    @dg.multi_asset(name=node.key.replace("/", "_"), specs=[_spec(node, versions)], retry_policy=recording.RETRIES, pool=node.stage)
    def body(
        context: dg.AssetExecutionContext, config: Options, pipeline: dg.ResourceParam[Pipeline], duckdb: DuckDBResource
    ) -> dg.MaterializeResult:
        forced = _forced(context, config)
        return recording.materialize_whole(context, pipeline, node.stage, connect=lambda path: beside(duckdb, path), **forced)

    return body


def _forced(context: dg.AssetExecutionContext, config: Options) -> dict[str, bool]:
    return {"force": True} if config.force or context.run.tags.get(FORCE) == "true" else {}


def _spec(node: Asset, versions: Versions, *, skippable: bool = False) -> dg.AssetSpec:
    group, _, name = node.key.partition("/")
    table = name if group == "normalized" else {"signals": "readings", "mined": "candidates", "tokens": "token_counts"}.get(group)
    return dg.AssetSpec(
        key=_key(node.key),
        deps=[_key(key) for key in node.upstream],
        description=node.describe,
        group_name=GROUPS[group],
        kinds=KINDS[group],
        owners=OWNERS,
        tags={"ctx/stage": node.stage},
        code_version=versions.of(node.key),
        skippable=skippable,
        metadata={"dagster/column_schema": recording.column_schema(table)} if table else {},
        freshness_policy=None if node.partitioned or node.stage in OFF_PATH else _freshness(),
    )


def linked(assets: Sequence[Any], site: Path) -> Sequence[Any]:
    """Return the assets with links to where the code of each stands and to the page that shows it."""

    def links(spec: dg.AssetSpec) -> dg.AssetSpec:
        key = spec.key.to_user_string()
        metadata: dict[str, Any] = {"page": dg.MetadataValue.url((site / _PAGES.get(spec.key.path[0], "index.html")).as_uri())}
        if code := recording.source_links(key):
            metadata["dagster/code_references"] = dg.CodeReferencesMetadataValue(code_references=list(code))
        return spec.merge_attributes(metadata=metadata)

    return dg.map_asset_specs(links, assets)


_PAGES = {
    "signals": "signals.html",
    "normalized": "sessions.html",
    "mined": "lessons.html",
    "memory": "lessons.html",
    "tokens": "accounting.html",
}


def _freshness() -> dg.FreshnessPolicy:
    """Warn after a day and fail after a week without a new look at the tail."""
    from datetime import timedelta

    return dg.FreshnessPolicy.time_window(warn_window=timedelta(days=1), fail_window=timedelta(days=7))


def _key(text: str) -> dg.AssetKey:
    return dg.AssetKey(text.split("/"))
