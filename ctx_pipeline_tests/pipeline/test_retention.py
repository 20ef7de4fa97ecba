"""What a host keeps, what it is about to delete, and what it deleted before anybody looked."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.capture import retention
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.claude import ClaudeHome

NAMES = {n: f"{n * 8}-0000-4000-8000-000000000000" for n in "abcdef"}


@pytest.fixture
def home(environ):
    return Path(environ["CLAUDE_CONFIG_DIR"])


@pytest.fixture
def settings(environ):
    return settings_module.load(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        yield opened


def written(home: Path, name: str, *, days_old: float = 0) -> Path:
    transcript = ClaudeHome(home).session(NAMES[name], mark=name)
    transcript.prompt("mend the parser")
    transcript.save()
    at = time.time() - days_old * 86_400
    os.utime(transcript.path, (at, at))
    return transcript.path


def said(home: Path, name: str, day: str, text: str = "mend the parser") -> None:
    stamp = int(datetime.fromisoformat(f"{day}T10:00:00").replace(tzinfo=UTC).timestamp() * 1000)
    with (home / "history.jsonl").open("a") as file:
        file.write(json.dumps({"display": text, "timestamp": stamp, "project": "/home/sam/code/acme", "sessionId": NAMES[name]}) + "\n")


@pytest.mark.feature("capture.deletion-gaps")
def test_sessions_that_the_history_names_and_nobody_has_are_gaps_with_their_span(store, settings, home):
    for name in "be":
        written(home, name)
    said(home, "a", "2026-01-03")
    said(home, "b", "2026-01-10")
    said(home, "c", "2026-02-01")
    said(home, "d", "2026-02-04")
    said(home, "c", "2026-02-20")
    said(home, "e", "2026-03-01")
    said(home, "f", "2026-03-02", "/clear")
    ingest(store, settings)

    assert retention.gaps(store) == [
        ("claude", "2026-01-03T10:00:00.000000Z", "2026-01-03T10:00:00.000000Z", 1),
        ("claude", "2026-02-01T10:00:00.000000Z", "2026-02-20T10:00:00.000000Z", 2),
    ]
    report = doctor.examine(store, settings)
    assert report.to_json()["gaps"][1]["sessions"] == 2
    assert "  claude: 2 sessions from 2026-02-01 to 2026-02-20 were deleted before they were captured" in report.lines()


@pytest.mark.feature("capture.deletion-gaps")
def test_what_waits_in_a_home_and_what_vanished_after_its_capture_is_no_gap(store, settings, home):
    written(home, "a")
    said(home, "a", "2026-01-03")
    said(home, "b", "2026-01-04")
    ingest(store, settings)
    written(home, "b").touch()
    next(home.rglob(f"{NAMES['a']}.jsonl")).unlink()

    assert retention.gaps(store, scan=capture.scan(store, settings)) == []
    assert doctor.examine(store, settings).gaps == []
    assert [gap.sessions for gap in retention.gaps(store)] == [1]


@pytest.mark.feature("doctor.retention")
def test_the_doctor_says_how_long_each_home_keeps_transcripts_and_what_goes_soon(store, settings, home):
    for name, days in (("a", 29.5), ("b", 26.5), ("c", 24)):
        written(home, name, days_old=days)
    ingest(store, settings, sessions={("claude", NAMES["a"])})

    (kept,) = doctor.examine(store, settings).kept
    assert kept == ("claude", str(home), 30, 3, 29, 2, 1, 2)
    lines = doctor.examine(store, settings).lines()
    assert (
        f"retention: Claude Code deletes transcripts after 30 days in {home}: 3 there, the oldest 29 days old; "
        "2 go within 5 days, 1 of them not captured; 2 not captured yet: ctx sync"
    ) in lines

    (home / "settings.json").write_text('{"cleanupPeriodDays": 90}')
    ingest(store, settings)
    (kept,) = doctor.examine(store, settings).kept
    assert (kept.days, kept.transcripts, kept.leaving, kept.uncaptured) == (90, 3, 0, 0)
    assert kept.message.endswith(": 3 there, the oldest 29 days old; all 3 captured")

    (home / "settings.json").write_text('{"cleanupPeriodDays": 99999}')
    (kept,) = doctor.examine(store, settings).kept
    assert kept.message.startswith(f"Claude Code keeps transcripts for 273 years in {home}: 3 there")
