"""What each check of the normalized tables lets pass, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from ctx_pipeline.defs import launch
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import contract_checks
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use
from ctx_pipeline_tests.factories.months import settings_of

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
    return contract_checks.run(store, store.ledger.cells())


@pytest.mark.feature("checks.bytes-conserved")
def test_every_captured_byte_was_read_and_a_segment_behind_the_tables_is_noticed(store, settings, home):
    path = spoken(home, broken=1)
    found = checked(store, settings)["bytes_conserved"]
    assert found.passed
    assert found.numbers == {"captured_bytes": path.stat().st_size, "read_bytes": path.stat().st_size}

    with path.open("a") as file:
        file.write(json.dumps({"type": "summary", "summary": "a title"}) + "\n")
    step("capture", store, settings)

    found = contract_checks.run(store, store.ledger.cells())["bytes_conserved"]
    assert not found.passed
    assert found.numbers["captured_bytes"] - found.numbers["read_bytes"] == len('{"type": "summary", "summary": "a title"}\n')


@pytest.mark.feature("checks.unique-events", "checks.one-cell")
def test_an_event_twice_and_a_session_in_two_cells_are_noticed(store, settings, home):
    spoken(home)
    found = checked(store, settings)
    assert found["unique_event_ids"].passed
    assert found["session_in_one_cell"].passed
    (cell,) = store.ledger.cells()
    other = Cell("claude", "2025-07")
    events = [tuple(row) for row in store.lake.read_rows("events", cell)]
    sessions = [tuple(row) for row in store.lake.read_rows("sessions", cell)]
    doubled = [*events, events[0]]
    store.lake.replace("normalized", other, {"events": doubled, "sessions": sessions}, code_version="1", input_fp="", content_hash="x")

    again = contract_checks.run(store, [other])

    assert again["unique_event_ids"].numbers == {"events": len(doubled), "duplicates": 1}
    assert not again["unique_event_ids"].passed
    assert again["session_in_one_cell"].numbers["in_several_cells"] == 1
    assert not again["session_in_one_cell"].passed
    assert EVENTS.key == ("event_id",)


@pytest.mark.feature("checks.calls-matched")
@pytest.mark.parametrize(("unanswered", "passed"), [(1, True), (2, False)])
def test_more_than_a_tenth_of_calls_without_a_result_is_a_warning(store, settings, home, unanswered, passed):
    spoken(home, answered=9, unanswered=unanswered)

    found = checked(store, settings)["calls_have_results"]

    assert (found.passed, found.numbers) == (passed, {"calls": 9 + unanswered, "open": unanswered})


@pytest.mark.feature("checks.parse-rate")
def test_more_than_a_hundredth_of_broken_records_is_a_warning(store, settings, home):
    path = spoken(home, answered=60)
    lines = len(path.read_text().splitlines())
    assert lines > 100
    assert checked(store, settings)["parse_rate"].numbers == {"records": lines, "quarantined": 0}

    with path.open("a") as file:
        file.write("{broken\n")
    found = checked(store, settings)["parse_rate"]
    assert (found.passed, found.numbers["quarantined"]) == (True, 1)

    with path.open("a") as file:
        file.write("{broken\n{broken\n")
    found = checked(store, settings)["parse_rate"]
    assert (found.passed, found.numbers["quarantined"]) == (False, 3)


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
