"""Checks over the whole history: what was deleted before its capture, and whether all sums agree."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from ctx_pipeline.defs import launch
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.limits import sums
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use
from ctx_pipeline_tests.factories.months import settings_of

HELD = "aaaaaaaa-0000-4000-8000-000000000001"
LOST = "bbbbbbbb-0000-4000-8000-000000000002"


@pytest.fixture
def home(environ):
    return ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))


@pytest.fixture
def settings(environ):
    return settings_of(environ)


def spoken(home) -> None:
    transcript = home.session(HELD)
    transcript.prompt("please mend the parser")
    transcript.answer(
        tool_use("toolu_1", "Bash", command="make"),
        tool_use("toolu_2", "Read", file_path="/home/sam/code/acme/a.py"),
        tool_use("toolu_3", "Bash", command="ls"),
        message_id="msg_1",
    )
    transcript.answer(text("done"), message_id="msg_2")
    transcript.save()


def checked(settings, run: str) -> dict:
    with launch.instance(settings) as instance:
        records = instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    found = [r.event_log_entry.dagster_event.event_specific_data for r in records]
    return {c.check_name: c for c in found}


@pytest.mark.feature("checks.retention-gap")
def test_a_session_that_its_host_deleted_before_it_was_captured_is_a_warning(settings, home, environ):
    spoken(home)
    history = Path(environ["CLAUDE_CONFIG_DIR"]) / "history.jsonl"
    line = {"display": "mend the till", "timestamp": 1_767_571_200_000, "sessionId": HELD}
    history.write_text(json.dumps(line) + "\n")
    assert checked(settings, launch.run(settings).runs[0])["deleted_before_capture"].passed

    with history.open("a") as file:
        file.write(json.dumps({**line, "sessionId": LOST, "timestamp": 1_767_657_600_000}) + "\n")
    with open_store(settings) as store:
        from ctx_pipeline.pipeline.ingest import ingest

        ingest(store, settings)
    outcome = launch.backfill(settings, "raw/segments", force=True)

    assert outcome.failed == []
    found = checked(settings, outcome.runs[0])["deleted_before_capture"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["sessions"].value == 1
    assert found.metadata["gaps"].value == [
        {"host": "claude", "first": "2026-01-06T00:00:00.000000Z", "last": "2026-01-06T00:00:00.000000Z", "sessions": 1}
    ]


@pytest.mark.feature("checks.token-identity")
def test_tokens_by_tool_by_thread_and_by_call_add_up_to_the_billed_ones(settings, home, monkeypatch):
    spoken(home)
    launch.run(settings)
    found = sums(settings=settings)

    assert set(found) == {"billed", "tool", "server", "thread", "session", "daily"}
    assert found["billed"]["output_tokens"] > 0
    assert {json.dumps(told) for told in found.values()} == {json.dumps(found["billed"])}
    check = checked(settings, launch.backfill(settings, "tokens/exact").runs[0])["token_identity"]
    assert check.passed
    assert check.metadata["output_tokens"].value == found["billed"]["output_tokens"]

    from ctx_pipeline.usage import session_figures, usage_figures

    monkeypatch.setattr(usage_figures, "share_of", lambda amount, among, number: amount // among)
    monkeypatch.setattr(session_figures, "_unkept", {})
    for kept in (settings.home / "serving").glob("sessions.db*"):
        kept.unlink()
    check = checked(settings, launch.backfill(settings, "tokens/exact", force=True).runs[0])["token_identity"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "tool" in check.metadata["differs"].value
