"""``ctx mine`` with filters and blocks; ``ctx memory init``, ``import-authored``, ``doctor``, ``export`` and ``export-skill``."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"


@pytest.mark.feature("mining.all-methods", "mining.blocks", "cli.mine")
@pytest.mark.slow
def test_mining_shows_marks_filters_and_a_block_to_paste(ran: Ctx):
    whole = ran.json("mine", "*", "*", "--method", "all", "--all")
    sure = ran.json("mine", "*", "*", "--filter", "risk_aware,staleness")
    assert {c["method"] for c in whole["candidates"]} >= {"error_resolutions", "project_conventions", "reme"}
    assert 0 < len(sure["candidates"]) <= 8 < len(whole["candidates"])
    assert all(c["confidence"] >= 0.4 and isinstance(c["marks"], list) for c in sure["candidates"])
    assert set(sure["dropped"]).isdisjoint(c["candidate_id"] for c in sure["candidates"])

    block = ran("mine", "claude", DISCOUNTS, "--method", "error_resolutions", "--block", "--budget", "400").stdout
    assert block.startswith(f'<ctx method="error_resolutions" source="claude/{DISCOUNTS}">\n')
    assert block.endswith("</ctx>\n")
    assert "freezegun" in block

    wrong = ran("mine", "--filter", "risk_awar", ok=False)
    assert wrong.returncode == 1
    assert "risk_aware" in wrong.stderr


@pytest.mark.feature("memory.commands", "memory.import-authored", "memory.plain-text", "memory.unknown-id", "cli.memory-explain")
def test_notes_are_brought_in_counted_looked_up_as_they_are_and_exported(bare: Ctx):
    notes = bare.folder / "notes"
    notes.mkdir()
    long = "word " * 60
    (notes / "uv.md").write_text(f"Use [bold]uv[/bold] [repo/user] and [[walrus]], never pip. {long}end", "utf-8")
    (notes / "bad.md").write_bytes(b"")

    assert bare.json("memory", "init")["memories"] == 0
    assert bare.json("memory", "import-authored", "notes")["skipped"] == {"bad.md": "nothing is written in it"}
    told = bare("memory", "import-authored", "notes").stdout
    assert "1 as they were" in told
    assert "bad.md: left out, nothing is written in it" in told

    doctor = bare.json("memory", "doctor")
    assert doctor["by_status"] == {"accepted": 1}
    assert doctor["dangling"] == {"uv": ["walrus"]}
    assert "uv: walrus" in bare("memory", "doctor").stdout

    shown = bare("memory", "retrieve", "--query", "uv pip", "--explain").stdout
    assert f"  Use [bold]uv[/bold] [repo/user] and [[walrus]], never pip. {long}end\n" in shown
    assert "utility 0.5" in shown
    woven = bare("memory", "weave", "--query", "uv pip").stdout
    assert f"- Use [bold]uv[/bold] [repo/user] and [[walrus]], never pip. {long}end (case" in woven

    assert bare.json("memory", "update-utility", "--memory-id", "uv", "--reward", "1")["utility"] == pytest.approx(0.6)
    lost = bare("memory", "update-utility", "--memory-id", "nobody", "--reward", "1", ok=False)
    assert (lost.returncode, "nobody" in lost.stderr) == (1, True)
    assert bare.json("memory", "reindex")["memories"] == 1
    assert bare.json("memory", "export", "out") == {"items": 1, "events": 2}
    events = [json.loads(line)["event"] for line in (bare.folder / "out" / "events.jsonl").read_text("utf-8").splitlines()]
    assert events == ["memory.authored", "memory.rewarded"]

    skill = bare.json("memory", "export-skill", "uv", "--out", "skills", "--name", "use-uv")
    assert (bare.folder / "skills" / "use-uv" / "SKILL.md").read_text("utf-8") == skill["text"]
    assert bare("memory", "export-skill", "uv").stdout.startswith("---\nname: uv\n")
