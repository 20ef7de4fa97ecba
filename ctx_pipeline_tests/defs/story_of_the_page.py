"""What a data engineer clicks in Dagster's page over `ctx ui`: the very requests that the page sends, to real processes.

    python -m pytest -s ctx_pipeline_tests/defs/story_of_the_page.py

Edits a signal and makes it anew, breaks a family and mends it, appends, executes a run again
and looks at the first view. Takes minutes, so it is run by name; what it printed stands in
docs/graph.md.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline.defs.checks import CHECKS
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.browser.conftest import CHROMIUM
from ctx_pipeline_tests.defs.conftest import LOCATION
from ctx_pipeline_tests.defs.story_of_a_running_daemon import SECONDS, SIGNAL
from ctx_pipeline_tests.defs.test_clicks import AGAIN, BACKFILL, RUNS, STATUS, TIMELINE
from ctx_pipeline_tests.factories.months import write_month
from ctx_pipeline_tests.waiting import eventually

MONTHS = [f"2026-{month:02d}" for month in range(1, 6)]
CELLS = [f"claude|{month}" for month in MONTHS]

RELOAD = """
mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename ... on PythonError { message } } }
"""

NODES = "{ assetNodes { assetKey { path } isPartitioned isMaterializable groupName } }"

MARKS = """
query ($keys: [AssetKeyInput!], $cells: [String!]) { assetNodes(assetKeys: $keys) {
  assetKey { path } staleStatusByPartition(partitions: $cells) partitionStats { numMaterialized numPartitions numFailed }
} }
"""

WHOLE_MARKS = "query ($keys: [AssetKeyInput!]) { assetNodes(assetKeys: $keys) { assetKey { path } staleStatus } }"

STATES = """
query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { assetChecksOrError { ... on AssetChecks { checks {
  name blocking executionForLatestMaterialization { status } partitionStatuses { ... on AssetCheckDefaultPartitionStatuses {
    succeededPartitions failedPartitions executionFailedPartitions inProgressPartitions
  } }
} } } } } }
"""

EVENTS = """
query ($key: AssetKeyInput!) { assetOrError(assetKey: $key) { ... on Asset { assetMaterializations(limit: 20) {
  partition runId tags { key value } metadataEntries { label ... on IntMetadataEntry { intValue } ... on TextMetadataEntry { text } }
} } } }
"""


def key(asset: str) -> dict[str, list[str]]:
    return {"path": asset.split("/")}


class Page:
    """The store, the server behind its gate, and what a page asks of it."""

    def __init__(self, environ: dict[str, str], said: Path) -> None:
        self.environment = {**os.environ, **environ}
        self.signals = Path(environ["CTX_HOME"]) / "config" / "signals"
        self.history = Path(environ["CTX_HOME"]) / "dagster" / "history"
        self.said = said

    def ctx(self, *words: str) -> str:
        done = processes.run([sys.executable, "-m", "ctx_pipeline", *words], env=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def address(self) -> tuple[str, str]:
        (found,) = re.findall(r"(http://\S+?)/asset-groups\?token=(\S+)", self.said.read_text()) or [("", "")]
        return found

    def ask(self, query: str, **variables: Any) -> Any:
        base, token = self.address()
        request = urllib.request.Request(
            f"{base}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            found = {"errors": error.read().decode()}
        assert "errors" not in found, found
        (value,) = found["data"].values()
        return value

    def nodes(self, *, partitioned: bool) -> list[dict[str, list[str]]]:
        """Return the keys of the assets that a run makes."""
        found = [one for one in self.ask(NODES) if one["isMaterializable"] and one["isPartitioned"] is partitioned]
        return [key(name) for one in found if (name := "/".join(one["assetKey"]["path"])) not in OF_THE_NIGHT]

    def marked(self) -> dict[str, list[str]]:
        """Return asset -> the partitions that Dagster's page marks as unsynced or missing, "" for the whole of one without partitions."""
        found = {}
        for node in self.ask(MARKS, keys=self.nodes(partitioned=True), cells=CELLS):
            states = zip(CELLS, node["staleStatusByPartition"], strict=True)
            if stale := [cell for cell, state in states if state != "FRESH"]:
                found["/".join(node["assetKey"]["path"])] = stale
        for node in self.ask(WHOLE_MARKS, keys=self.nodes(partitioned=False)):
            if node["staleStatus"] != "FRESH":
                found["/".join(node["assetKey"]["path"])] = [""]
        return found

    def filled(self) -> dict[str, tuple[int, int, int]]:
        """Return partitioned asset -> partitions made, there, and failed."""
        return {
            "/".join(node["assetKey"]["path"]): tuple(
                node["partitionStats"][f"num{what}"] for what in ("Materialized", "Partitions", "Failed")
            )
            for node in self.ask(MARKS, keys=self.nodes(partitioned=True), cells=CELLS)
        }

    def checks(self, asset: str) -> dict[str, tuple[str, list[str], list[str]]]:
        """Return check -> state of the newest, partitions that pass, and that do not."""
        found = self.ask(STATES, key=key(asset))["assetChecksOrError"]["checks"]
        return {
            one["name"]: (
                (one["executionForLatestMaterialization"] or {}).get("status", "never"),
                sorted((one["partitionStatuses"] or {}).get("succeededPartitions", [])),
                sorted((one["partitionStatuses"] or {}).get("failedPartitions", [])),
            )
            for one in found
        }

    def backfill(self, *assets: str, tags: tuple[dict[str, str], ...] = ()) -> None:
        """Choose assets, all their partitions, and *Materialize*; wait until it is done."""
        chosen = {"assetSelection": [key(asset) for asset in assets], "partitionNames": CELLS, "fromFailure": False, "tags": list(tags)}
        begun = self.ask(BACKFILL, backfillParams=chosen)
        assert begun["__typename"] == "LaunchBackfillSuccess", begun
        ended = ("COMPLETED", "FAILED", "CANCELED")
        assert eventually(lambda: self.ask(STATUS, id=begun["backfillId"])["status"].startswith(ended), SECONDS)

    def materializations(self, asset: str) -> list[dict[str, Any]]:
        return self.ask(EVENTS, key=key(asset))["assetMaterializations"]

    def recorded(self) -> int:
        with closing(sqlite3.connect(self.history / "event_log.db")) as events:
            return events.execute("SELECT count(*) FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION'").fetchone()[0]

    def values(self, name: str) -> list[str]:
        rows = json.loads(self.ctx("sql", "--json", f"SELECT value FROM readings WHERE signal = '{name}' ORDER BY session_id"))
        return [str(row["value"]) for row in (rows["rows"] if isinstance(rows, dict) else rows)]


OF_THE_NIGHT = ("tokens/exact", "memory/effect")
"""Assets that no run waits for"""


@pytest.fixture
def page(tmp_path, environ):
    root = Path(environ["CLAUDE_CONFIG_DIR"])
    for number, month in enumerate(MONTHS):
        write_month(root, month, number, prompts=4)
    made = Page(environ, tmp_path / "ui.out")
    made.signals.mkdir(parents=True)
    (made.signals / "patience.py").write_text(SIGNAL.format(name="patience", limit=4))
    made.ctx("run")
    with made.said.open("w") as out:
        command = [sys.executable, "-m", "ctx_pipeline", "ui", "--port", "0"]
        process = subprocess.Popen(command, env=made.environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        assert eventually(lambda: made.address()[0] != "", SECONDS), made.said.read_text()
        yield made
    finally:
        processes.end(process)


def say(what: str) -> None:
    sys.stderr.write(f"  {what}\n")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_a_person_sees_and_clicks_in_the_page_of_dagster(page, environ, tmp_path):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    healthy(page)
    a_signal_is_edited(page)
    a_signal_raises(page, home)
    an_append(page, home)
    a_run_is_executed_again(page)
    the_first_view(page, Path(os.environ.get("CTX_PICTURES") or tmp_path) / "graph.png")


def healthy(page):
    assert page.marked() == {}
    filled = page.filled()
    assert set(filled.values()) == {(5, 5, 0)}
    checks = page.checks("normalized/events")
    assert len(checks) == 5
    assert set(checks) == {name for name, check in CHECKS.items() if check.asset == "events"}
    assert all(found == ("SUCCEEDED", CELLS, []) for found in checks.values()), checks
    say(f"a store of five months: {len(filled)} partitioned assets filled 5 of 5, nothing marked, every check 5 of 5")


def a_signal_is_edited(page):
    assert page.values("patience") == ["0.0"] * 5
    (page.signals / "patience.py").write_text(SIGNAL.format(name="patience", limit=5))
    page.ask(RELOAD, name=LOCATION)
    assert page.marked() == {"signals/patience": CELLS}
    page.backfill("signals/patience")
    assert page.values("patience") == ["1.0"] * 5
    below = page.marked()
    assert "signals/patience" not in below
    say(f"`< 4` became `< 5`: signals/patience alone was marked; Materialize made 1.0 of 0.0; marked below it then: {sorted(below)}")

    page.backfill("signals/patience", tags=({"key": "ctx/force", "value": "true"},))
    newest = page.materializations("signals/patience")[0]
    assert {entry["label"]: entry.get("intValue") for entry in newest["metadataEntries"]}["sessions_recomputed"] == 1
    page.ctx("run")
    assert page.marked() == {}
    say("the tag ctx/force made what was fresh again")


def a_signal_raises(page, home):
    def state() -> dict[str, str]:
        page.ctx("run")
        page.ask(RELOAD, name=LOCATION)
        return {family: page.checks(f"signals/{family}")["signal_errors"][0] for family in ("patience", "activity")}

    whole = SIGNAL.format(name="patience", limit=5)
    (page.signals / "patience.py").write_text(whole.replace("len(view.prompts) <", "1 / (len(view.prompts) - 6) <"))
    write_month(home, MONTHS[1], 1, prompts=6)
    assert state() == {"patience": "FAILED", "activity": "SUCCEEDED"}
    (page.signals / "patience.py").write_text(whole)
    assert state() == {"patience": "SUCCEEDED", "activity": "SUCCEEDED"}
    assert page.marked() == {}
    say("a signal that raises in one session: the check of its family failed, of no other; mended, it passed")


def an_append(page, home):
    before = page.recorded()
    write_month(home, MONTHS[2], 2, prompts=5)
    page.ctx("run")
    again = page.recorded()
    events = page.materializations("normalized/events")[0]
    tags = {tag["key"]: tag["value"] for tag in events["tags"]}
    with closing(sqlite3.connect(page.history.parents[1] / "ledger.db")) as ledger:
        wanted = "SELECT content_hash FROM asset_cells WHERE asset = 'normalized/events' AND month = ?"
        (hashed,) = ledger.execute(wanted, (MONTHS[2],)).fetchone()
    assert (events["partition"], tags["dagster/data_version"]) == (CELLS[2], hashed[:16])
    assert page.marked() == {}
    page.ctx("run")
    assert page.recorded() == again
    say(f"one append: {again - before} materializations, of {CELLS[2]} and the tail; a run with nothing new: none")


def a_run_is_executed_again(page):
    runs = page.ask(TIMELINE)["results"]
    assert {run["repositoryOrigin"]["repositoryLocationName"] for run in runs} == {LOCATION}
    first = next(run for run in reversed(runs) if {"key": "user", "value": "ctx run"} in run["tags"])
    launched = page.ask(AGAIN, id=first["runId"])
    assert launched["__typename"] == "LaunchRunSuccess", launched

    def status() -> str:
        return next(run["status"] for run in page.ask(RUNS)["results"] if run["runId"] == launched["run"]["runId"])

    assert eventually(lambda: status() in ("SUCCESS", "FAILURE"), SECONDS)
    assert status() == "SUCCESS"
    say(f"{len(runs)} runs on the timeline; the first of `ctx run` was executed again: SUCCESS")


def the_first_view(page, picture):
    groups = sorted({node["groupName"] for node in page.ask(NODES)})
    assert len(groups) == 6
    text = seen(page, picture)
    assert all(group in text for group in groups), text
    assert not re.search(r"\d+ ?% filled|\b0 ?/ ?5\b|Failed|Unsynced", text), text
    say(f"the first view at 1400 pixels: {', '.join(groups)}; nothing failed, filled in part or unsynced")


def seen(page: Page, picture: Path) -> str:
    """Open the graph in Chromium, keep a picture and return its text."""
    from playwright.sync_api import sync_playwright

    base, token = page.address()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(f"{base}/asset-groups?token={token}")
        with suppress(Exception):
            tab.wait_for_selector("text=capture", timeout=60_000)
        tab.wait_for_timeout(5_000)
        tab.screenshot(path=picture)
        return str(tab.inner_text("body"))
