"""Checks of the whole history, whatever cells a run covers: what was lost before its capture, and whether all ways of adding up agree."""

import dagster as dg

from ctx_pipeline.defs.recording import steady
from ctx_pipeline.defs.resources import Pipeline

LISTED = 20

GAPS = "deleted_before_capture"
IDENTITY = "token_identity"


def build() -> list[dg.AssetChecksDefinition]:
    """Return the checks, each a step of its own that warns and stops nothing."""
    return [deleted_before_capture, token_identity]


@dg.asset_check(
    name=GAPS,
    asset=dg.AssetKey(["raw", "segments"]),
    description="No session that a host's own prompt history names was deleted before it was captured; spans: `ctx doctor`.",
)
def deleted_before_capture(pipeline: dg.ResourceParam[Pipeline]) -> dg.AssetCheckResult:
    """Return how many sessions are lost, and when they were."""
    from ctx_pipeline.pipeline.capture.retention import gaps

    with steady():
        found = gaps(pipeline.store)
    spans = [{"host": gap.host, "first": gap.first, "last": gap.last, "sessions": gap.sessions} for gap in found]
    return dg.AssetCheckResult(
        passed=not found,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"sessions": sum(gap.sessions for gap in found), "gaps": dg.MetadataValue.json(spans[-LISTED:])},
    )


@dg.asset_check(
    name=IDENTITY,
    asset=dg.AssetKey(["tokens", "exact"]),
    description="Tokens and money by tool, by thread and by day add up to those of the calls that are billed.",
)
def token_identity(pipeline: dg.ResourceParam[Pipeline]) -> dg.AssetCheckResult:
    """Return the sums by every grouping beside the billed ones."""
    from ctx_pipeline.usage.limits import sums

    with steady():
        found = sums(settings=pipeline.settings)
    billed = found.pop("billed")
    wrong = {by: told for by, told in found.items() if told != billed}
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={**billed, "differs": dg.MetadataValue.json(wrong)},
    )
