"""``ctx mine`` with filters and blocks; ``ctx memory init``, ``import-authored``, ``doctor``, ``export`` and ``export-skill``."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import agents

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


@pytest.mark.feature("memory.by-session", "memory.standing", "cli.memory-explain")
@pytest.mark.slow
def test_memories_of_one_session_are_listed_and_every_list_says_what_is_to_be_minded(ran: Ctx):
    listed = ran.json("memory", "list", "--session", DISCOUNTS[:8])["memories"]
    everything = ran.json("memory", "list")["memories"]
    assert 0 < len(listed) < len(everything)
    assert all(f"claude/{DISCOUNTS}" in m["sessions"] for m in listed)
    assert ran.json("memory", "list", "--session", "no-such-session")["memories"] == []
    assert all(isinstance(m["marks"], list) for m in everything)
    shown = ran.json("memory", "show", listed[0]["memory_id"])
    assert shown["marks"] == listed[0]["marks"]
    assert set(ran.json("memory", "doctor")["marks"]) == {m["memory_id"] for m in everything if m["marks"]}


@pytest.mark.feature("mining.llm", "mining.dry-run", "cli.mine")
@pytest.mark.slow
def test_a_method_that_asks_shows_the_question_asks_once_and_says_what_it_cost(ctx: Ctx):
    lesson = {"kind": "tool_lesson", "text": "freezegun has to be installed", "evidence": ["e1"]}
    folder = ctx.folder / "bin"
    agents.install(folder, "claude", agents.claude_stream(json.dumps({"lessons": [lesson, {**lesson, "evidence": ["e9999"]}]})))
    ctx.environ["PATH"] = agents.path_of(folder, ctx.environ)
    ctx("sync")
    words = ("mine", "claude", DISCOUNTS, "--method", "claude_headless")

    (question,) = ctx.json(*words, "--dry-run")["questions"]
    assert question["to"].endswith("--no-session-persistence")
    assert "freezegun" in question["question"]
    assert not (folder / "seen.json").exists()

    told = ctx(*words).stdout
    assert "freezegun has to be installed" in told
    assert "asked claude 1 times, 1 lessons, 1 refused (unknown evidence), 1 refused (without evidence)" in told.replace("  ", " ")
    assert "$0.0123" in told
    (spent,) = [m["spent"] for m in ctx.json("methods")["methods"] if m["method"] == "claude_headless"]
    assert spent == {"answers": 1, "failed": 0, "input_tokens": 21_004, "output_tokens": 250, "cost_nano": 12_300_000}
    again = ctx.json(*words)
    assert (again["asked"]["claude_headless"]["asked"], len(again["candidates"])) == (0, 1)

    wrong = ctx("mine", "claude", DISCOUNTS, "--dry-run", ok=False)
    assert (wrong.returncode, "ask a model" in wrong.stderr) == (2, True)
    assert list((ctx.store / "answers").iterdir())
    ctx("forget", "claude", DISCOUNTS, "--yes")
    assert not [p for p in ctx.store.rglob("answers/*") if p.is_file()]
