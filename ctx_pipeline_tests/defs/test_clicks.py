"""What a click in Dagster's UI does: the very requests that its page sends, answered by its web server over this code location."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

import pytest

from ctx_pipeline.defs import launch
from ctx_pipeline_tests.defs.conftest import LOCATION, placed
from ctx_pipeline_tests.waiting import eventually

LAUNCH = """
mutation ($executionParams: ExecutionParams!) {
  launchPipelineExecution(executionParams: $executionParams) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on InvalidSubsetError { message }
    ... on PythonError { message }
  }
}
"""

BACKFILL = """
mutation ($backfillParams: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfillParams) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""

RUNS = """{ runsOrError { ... on Runs { results { runId status tags { key value } assetSelection { path } } } } }"""

STATUS = "query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status numPartitions } } }"


def cells(settings, asset: str) -> dict[str, int]:
    with closing(sqlite3.connect(settings.home / "ledger.db")) as ledger:
        return dict(ledger.execute("SELECT month, rows FROM asset_cells WHERE asset = ? ORDER BY month", (asset,)).fetchall())


@pytest.mark.slow
@pytest.mark.feature("dagster.ui-cell")
def test_a_cell_is_materialized_and_a_range_is_backfilled_by_a_click(ui, settings):
    from dagster._daemon.backfill import execute_backfill_iteration

    post, workspace = ui
    placed(settings)
    chosen = [{"path": ["raw", "segments"]}, {"path": ["normalized", "events"]}]
    selector = {"repositoryLocationName": LOCATION, "repositoryName": "__repository__", "jobName": "__ASSET_JOB", "assetSelection": chosen}
    tags = [{"key": "dagster/partition", "value": "claude|2026-03"}]
    clicked = post(
        LAUNCH, executionParams={"selector": selector, "mode": "default", "runConfigData": {}, "executionMetadata": {"tags": tags}}
    )
    assert clicked["__typename"] == "LaunchRunSuccess", clicked
    (run,) = post(RUNS)["results"]
    assert (run["runId"], run["status"]) == (clicked["run"]["runId"], "SUCCESS")
    assert cells(settings, "normalized/events") == {"2026-03": 2}

    names = ["claude|2026-03", "claude|2026-04"]
    begun = post(BACKFILL, backfillParams={"assetSelection": chosen, "partitionNames": names, "fromFailure": False, "tags": []})
    assert begun["__typename"] == "LaunchBackfillSuccess", begun
    for _ in range(20):
        list(execute_backfill_iteration(workspace, logging.getLogger("backfill")))
        state = post(STATUS, id=begun["backfillId"])
        if state["status"].startswith("COMPLETED"):
            break

    assert state == {"status": "COMPLETED_SUCCESS", "numPartitions": 2}
    assert cells(settings, "normalized/events") == {"2026-03": 2, "2026-04": 2}
    made = [r for r in post(RUNS)["results"] if {"key": "dagster/backfill", "value": begun["backfillId"]} in r["tags"]]
    assert [r["status"] for r in made] == ["SUCCESS"], "one run makes the whole range"


AGAIN = """
mutation ($id: String!) {
  launchRunReexecution(reexecutionParams: {parentRunId: $id, strategy: ALL_STEPS}) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""

TIMELINE = """
{ runsOrError { ... on Runs { results {
  runId status tags { key value } repositoryOrigin { repositoryName repositoryLocationName }
} } } }
"""


@pytest.mark.feature("launch.origin")
def test_a_run_of_the_command_line_stands_on_the_timeline_and_can_be_executed_again(settings, ui) -> None:
    ask, _ = ui
    outcome = launch.run(settings)

    shown = {run["runId"]: run for run in ask(TIMELINE)["results"]}
    assert shown.keys() == set(outcome.runs)
    origin = {"repositoryName": "__repository__", "repositoryLocationName": LOCATION}
    assert all(run["repositoryOrigin"] == origin for run in shown.values())
    assert all({"key": "user", "value": "ctx run"} in run["tags"] for run in shown.values())

    again = ask(AGAIN, id=outcome.runs[0])

    assert again["__typename"] == "LaunchRunSuccess", again
    eventually(lambda: next(r["status"] for r in ask(TIMELINE)["results"] if r["runId"] == again["run"]["runId"]) in ("SUCCESS", "FAILURE"))
    assert next(r["status"] for r in ask(TIMELINE)["results"] if r["runId"] == again["run"]["runId"]) == "SUCCESS"
