"""What each check of the normalized tables lets pass, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.event_log.base import PartitionKeyFilter

from ctx_pipeline import discovery
from ctx_pipeline.defs import launch
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.pipeline.session_errors import stored_errors
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import contract_checks
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use
from ctx_pipeline_tests.factories.months import settings_of, write_month

CELL = Cell("claude", "2026-01")


@pytest.fixture
def home(environ):
    return ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))


@pytest.fixture
def settings(environ):
    return settings_of(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        yield opened


def spoken(home, *, broken=0, unknown=0, unanswered=0, answered=1):
    transcript = home.session("aaaaaaaa-0000-4000-8000-000000000001")
    transcript.prompt("please mend the parser")
    for number in range(answered):
        transcript.call(f"toolu_{number}", "Bash", "fine", command="make")
    for number in range(unanswered):
        transcript.answer(tool_use(f"toolu_open_{number}", "Bash", command="make"))
    transcript.answer(text("done"))
    path = transcript.save().path
    lines = path.read_text().splitlines()
    lines += ["{broken" for _ in range(broken)]
    lines += [json.dumps({"type": "weather", "timestamp": "2026-01-05T10:00:00.000Z", "sunny": True}) for _ in range(unknown)]
    path.write_text("\n".join(lines) + "\n")
    return path


def checked(store, settings):
    step("ingest", store, settings)
    return found(store)


def found(store):
    """Return the findings in the only partition."""
    (findings,) = contract_checks.run(store, store.ledger.cells()).values()
    return findings


@pytest.mark.feature("checks.bytes-conserved")
def test_every_captured_byte_was_read_and_a_segment_behind_the_tables_is_noticed(store, settings, home):
    path = spoken(home, broken=1)
    conserved = checked(store, settings)["bytes_conserved"]
    assert conserved.passed
    assert conserved.numbers == {"captured_bytes": path.stat().st_size, "read_bytes": path.stat().st_size}

    with path.open("a") as file:
        file.write(json.dumps({"type": "summary", "summary": "a title"}) + "\n")
    step("capture", store, settings)

    behind = found(store)["bytes_conserved"]
    assert not behind.passed
    assert behind.numbers["captured_bytes"] - behind.numbers["read_bytes"] == len('{"type": "summary", "summary": "a title"}\n')


@pytest.mark.feature("checks.unique-events", "checks.one-cell")
def test_an_event_twice_and_a_session_in_two_cells_are_noticed(store, settings, home):
    spoken(home)
    once = checked(store, settings)
    assert once["unique_event_ids"].passed
    assert once["session_in_one_cell"].passed
    (cell,) = store.ledger.cells()
    other = Cell("claude", "2025-07")
    events = [tuple(row) for row in store.lake.read_rows("events", cell)]
    sessions = [tuple(row) for row in store.lake.read_rows("sessions", cell)]
    doubled = [*events, events[0]]
    store.lake.replace("normalized", other, {"events": doubled, "sessions": sessions}, code_version="1", input_fp="", content_hash="x")

    again = contract_checks.run(store, [other])[other]

    assert again["unique_event_ids"].numbers == {"events": len(doubled), "duplicates": 1}
    assert not again["unique_event_ids"].passed
    assert again["session_in_one_cell"].numbers["in_several_cells"] == 1
    assert not again["session_in_one_cell"].passed
    assert EVENTS.key == ("event_id",)


@pytest.mark.feature("checks.calls-matched")
@pytest.mark.parametrize(("unanswered", "passed"), [(1, True), (2, False)])
def test_more_than_a_tenth_of_calls_without_a_result_is_a_warning(store, settings, home, unanswered, passed):
    spoken(home, answered=9, unanswered=unanswered)

    rate = checked(store, settings)["calls_have_results"]

    assert (rate.passed, rate.numbers) == (passed, {"calls": 9 + unanswered, "open": unanswered})


@pytest.mark.feature("checks.parse-rate")
def test_more_than_a_hundredth_of_broken_records_is_a_warning(store, settings, home):
    path = spoken(home, answered=60)
    lines = len(path.read_text().splitlines())
    assert lines > 100
    assert checked(store, settings)["parse_rate"].numbers == {"records": lines, "quarantined": 0}

    with path.open("a") as file:
        file.write("{broken\n")
    rate = checked(store, settings)["parse_rate"]
    assert (rate.passed, rate.numbers["quarantined"]) == (True, 1)

    with path.open("a") as file:
        file.write("{broken\n{broken\n")
    rate = checked(store, settings)["parse_rate"]
    assert (rate.passed, rate.numbers["quarantined"]) == (False, 3)


@pytest.mark.feature("checks.unknown-types")
def test_unknown_types_are_listed_in_the_ui_as_a_warning(settings, home):
    spoken(home, unknown=2)

    outcome = launch.run(settings)

    assert outcome.failed == []
    with launch.instance(settings) as instance:
        records = instance.get_records_for_run(outcome.runs[0], of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
        found = {
            r.event_log_entry.dagster_event.event_specific_data.check_name: r.event_log_entry.dagster_event.event_specific_data
            for r in records
        }
    known = found["known_types"]
    assert (known.passed, known.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert sum(known.metadata["unknown"].value.values()) == 2
    assert any("weather" in label for label in known.metadata["unknown"].value)
    assert found["unique_event_ids"].passed


@pytest.mark.feature("checks.by-partition")
def test_a_range_records_each_check_for_each_of_its_partitions(settings, environ):
    root = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(root, "2026-03", 1)
    broken = write_month(root, "2026-04", 2)
    broken.write_text(broken.read_text() + "{broken\n" * 3)

    outcome = launch.run(settings)

    assert outcome.failed == []
    with launch.instance(settings) as instance:
        of_april = dg.AssetRecordsFilter(asset_key=dg.AssetKey(["normalized", "events"]), asset_partitions=["claude|2026-04"])
        (newest,) = instance.fetch_materializations(of_april, limit=1).records

        def last(name, asset, month):
            key = dg.AssetCheckKey(dg.AssetKey(["normalized", asset]), name)
            one = PartitionKeyFilter(key=f"claude|{month}")
            (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1, partition_filter=one)
            return record.status.value, record.event.dagster_event.event_specific_data

        assert [last("parse_rate", "events", month)[0] for month in ("2026-03", "2026-04")] == ["SUCCEEDED", "FAILED"]
        status, evaluation = last("unique_event_ids", "events", "2026-04")
    assert (status, evaluation.blocking, evaluation.partition) == ("SUCCEEDED", True, "claude|2026-04")
    assert evaluation.target_materialization_data.run_id == newest.run_id


@pytest.mark.feature("checks.signal-errors")
def test_a_signal_that_raises_is_told_by_its_family_alone_until_it_is_mended(settings, environ):
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1)
    folder = settings.home / "config" / "signals"
    folder.mkdir(parents=True)
    text = (
        "from ctx_pipeline.model.declared import Reading, signal\n\n\n"
        '@signal(group=\'activity\', reads=(\'events\',))\ndef fragile(view):\n    """Break."""\n'
        "    return Reading(1 / BELOW)\n\n\nBELOW = 0\n"
    )
    (folder / "own_fragile.py").write_text(text)

    def told():
        discovery.reload()
        outcome = launch.run(settings)
        assert outcome.failed == []
        with open_store(settings) as store, launch.instance(settings) as instance:
            keys = {name: dg.AssetCheckKey(dg.AssetKey(["signals", name]), "signal_errors") for name in ("own_fragile", "activity")}
            history = {n: instance.event_log_storage.get_asset_check_execution_history(key, limit=1) for n, key in keys.items()}
            return {n: record.status.value for n, (record,) in history.items()}, [
                (e.asset, e.reason) for e in stored_errors(store, settings)
            ]

    try:
        assert told() == (
            {"own_fragile": "FAILED", "activity": "SUCCEEDED"},
            [("signals/own_fragile@claude|2026-03", "fragile: the signal raised ZeroDivisionError, line 7")],
        )
        (folder / "own_fragile.py").write_text(text.replace("BELOW = 0", "BELOW = 2"))
        assert told() == ({"own_fragile": "SUCCEEDED", "activity": "SUCCEEDED"}, [])
        (folder / "own_fragile.py").write_text(text.replace("Reading(1 / BELOW)", "'oops'"))
        assert told() == (
            {"own_fragile": "FAILED", "activity": "SUCCEEDED"},
            [("signals/own_fragile@claude|2026-03", "fragile: the signal returned str")],
        )
        (folder / "own_fragile.py").unlink()
        write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1, prompts=2)
        assert told() == ({"own_fragile": "FAILED", "activity": "SUCCEEDED"}, []), "what is gone is told by nobody but history"
    finally:
        discovery.look_in(None)
        discovery.reload()
