"""``ctx export retro``: the documented flat-file archive, from the tables, with exact raw or without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline.errors import StoreError, UnknownName
from ctx_pipeline.integrations.archive import archive
from ctx_pipeline.pipeline import consolidate, measure, mine
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import SESSION, small_home
from ctx_pipeline_tests.usage.conftest import ingested

SECRET = "sk-ant-api03-" + "a1B2" * 24
OTHER = "22222222-2222-4222-8222-222222222222"
THIRD = "33333333-3333-4333-8333-333333333333"
READER = {
    *("event_id", "session_id", "host", "sequence", "actor", "event_type", "summary", "raw_ref", "timestamp", "parent_event_id", "payload")
}
"""The keys of an event in the documented archive: its reader refuses any other."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A session of every kind of event with a subagent, one that says a secret, and a Codex thread; measured and mined."""
    folder = tmp_path_factory.mktemp("archive")
    home = small_home(folder / "claude")
    home.session(OTHER).prompt(f"never use the key {SECRET}").prompt("no, use pnpm instead of npm").save()
    home.session(THIRD).prompt("Add a page. Please use pnpm instead of npm!").save()
    (folder / "codex").mkdir()
    codex.write(folder / "codex", codex.session())
    made = Settings(home=folder / "store", timezone="UTC", demo_roots={"claude": (home.root,), "codex": (folder / "codex",)})
    ingested(made)
    with open_store(made) as store:
        measure.measure(store, made)
        mine.mine(store, made)
        consolidate.consolidate(store, made)
    return made


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.feature("export.retro-files")
def test_the_archive_has_the_documented_places_and_events(settings: Settings, tmp_path: Path):
    done = archive(tmp_path / "out", settings=settings)
    root = tmp_path / "out"
    events = lines(root / "normalized" / "claude-code" / f"{SESSION}.events.jsonl")

    assert (done.sessions, done.withheld) == (4, [])
    assert (root / "raw" / "claude-code" / SESSION / "transcript.jsonl").read_bytes() == (
        settings.demo_roots["claude"][0] / "projects" / "-home-dev-shop" / f"{SESSION}.jsonl"
    ).read_bytes()
    assert (root / "raw" / "codex" / codex.THREAD / "rollout.jsonl").read_bytes() == codex.lines(codex.session())
    assert {path.name for path in (root / "raw" / "claude-code" / SESSION / "sidecars").rglob("*") if path.is_file()} >= {
        "agent-a1b2c3d.jsonl",
        "toolu_4.txt",
    }
    assert all(event.keys() == READER for event in events)
    assert {e["event_type"] for e in events} >= {"message", "reasoning", "file_read", "file_edit", "command", "tool_call", "tool_result"}
    (edit,) = [e for e in events if e["event_type"] == "file_edit"]
    assert (edit["payload"]["name"], edit["payload"]["input"]["new_string"]) == ("Edit", "x = 2")
    (failed,) = [e for e in events if e["event_type"] == "tool_result" and e["payload"].get("is_error")]
    assert (failed["payload"]["tool_name"], failed["payload"]["content"]) == ("Bash", "Exit code 2\nboom")
    assert "# Faster parser" in (root / "rendered" / "claude-code" / f"{SESSION}.md").read_text()


@pytest.mark.feature("export.retro-files")
def test_a_reference_leads_to_the_line_of_the_raw_copy(settings: Settings, tmp_path: Path):
    archive(tmp_path / "out", settings=settings)
    (prompt, *_) = [
        e for e in lines(tmp_path / "out" / "normalized" / "codex" / f"{codex.THREAD}.events.jsonl") if e["summary"] == "mend the parser"
    ]

    raw = (tmp_path / "out" / prompt["raw_ref"]["path"]).read_text().splitlines()
    assert json.loads(raw[prompt["raw_ref"]["line"] - 1])["payload"]["message"] == "mend the parser"


@pytest.mark.feature("export.retro-files")
def test_readings_candidates_and_memories_are_files_of_their_own(settings: Settings, tmp_path: Path):
    done = archive(tmp_path / "out", settings=settings)
    root = tmp_path / "out"
    readings = lines(root / "signals" / "readings.jsonl")
    mined = sorted((root / "mined").glob("*/*/*.json"))

    assert len(readings) == done.readings > 10
    assert {(r["host"], r["session_id"]) for r in readings} == {
        ("claude-code", SESSION),
        ("claude-code", OTHER),
        ("claude-code", THIRD),
        ("codex", codex.THREAD),
    }
    assert json.loads((root / "signals" / "aggregates.json").read_text()).keys() == {r["signal"] for r in readings}
    assert sum(len(json.loads(path.read_text())["candidates"]) for path in mined) == done.candidates > 0
    assert all(path.with_suffix(".prompt.md").read_text().endswith("</retro>\n") for path in mined)
    items = lines(root / "memories" / "items.jsonl")
    assert len(items) == done.memories > 0
    assert all(isinstance(item["structured"], dict | None) and item["id"].startswith("mem-") for item in items)


@pytest.mark.feature("export.bundle-privacy")
def test_secrets_stand_in_raw_alone_and_the_export_says_so(settings: Settings, tmp_path: Path):
    archive(tmp_path / "whole", settings=settings)
    archive(tmp_path / "shared", raw=False, settings=settings)
    holding = {p.relative_to(tmp_path).parts[:2] for p in tmp_path.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()}
    told = {name: json.loads((tmp_path / name / "EXPORT.json").read_text()) for name in ("whole", "shared")}

    assert holding == {("whole", "raw")}
    assert not (tmp_path / "shared" / "raw").exists()
    assert ("may hold secrets" in told["whole"]["raw"], told["shared"]["raw"]) == (True, "left out")
    assert {p.stat().st_mode & 0o777 for p in tmp_path.rglob("*") if p.is_file()} == {0o600}


@pytest.mark.feature("export.retro-files")
def test_one_host_or_one_session_can_be_chosen(settings: Settings, tmp_path: Path):
    assert archive(tmp_path / "host", host="codex", settings=settings).sessions == 1
    done = archive(tmp_path / "one", host="claude", session_id=OTHER[:6], settings=settings)

    assert done.sessions == 1
    assert [p.name for p in (tmp_path / "one" / "normalized").rglob("*.jsonl")] == [f"{OTHER}.events.jsonl"]
    assert {r["session_id"] for r in lines(tmp_path / "one" / "signals" / "readings.jsonl")} == {OTHER}
    with pytest.raises(UnknownName):
        archive(tmp_path / "none", host="claude", session_id="nothing", settings=settings)
    with pytest.raises(StoreError, match="in the store"):
        archive(settings.home / "out", settings=settings)


@pytest.mark.feature("export.retro-files")
def test_a_link_in_the_way_is_not_followed(settings: Settings, tmp_path: Path):
    outside = tmp_path / "mine.txt"
    outside.write_text("keep me")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "EXPORT.json").symlink_to(outside)

    archive(tmp_path / "out", settings=settings)

    assert outside.read_text() == "keep me"
    assert not (tmp_path / "out" / "EXPORT.json").is_symlink()
