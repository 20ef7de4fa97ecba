"""``ctx mine`` with filters and blocks; ``ctx memory init``, ``import-authored``, ``doctor``, ``export`` and ``export-skill``."""

from __future__ import annotations

import json
import os
import select
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ctx_pipeline_tests import processes
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
    assert wrong.returncode == 2
    assert "risk_aware" in wrong.stderr


@pytest.mark.feature(
    "memory.commands", "memory.import-authored", "memory.plain-text", "memory.unknown-id", "cli.memory-explain", "cli.memory-why-none"
)
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
    assert f"- Use [bold]uv[/bold] [repo/user] and walrus, never pip. {long}end (case, note, accepted; uv)" in woven
    assert "never pip" in bare("memory", "weave", "--query", "uv walrus never pip word zanzibar").stdout
    assert bare("memory", "weave", "--query", "uv walrus never pip word zanzibar", "--threshold", "0.9").stdout == ""
    silent = bare("memory", "weave", "--query", "zanzibar's")
    assert silent.stdout == ""
    why = f"no lesson fits that holds everywhere, and {bare.folder} is in no repository; those of all: ctx memory "
    assert silent.stderr == f"""{why}weave --everywhere 'zanzibar'"'"'s'\n"""
    assert bare("memory", "retrieve", "--query", "zanzibar").stdout == f"{why}retrieve --everywhere zanzibar\n"
    (bare.folder / ".git").mkdir()
    (bare.folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    assert bare("memory", "weave", "--query", "zanzibar").stderr.startswith("no lesson of this repository fits; those of all: ")

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
    everything = ran.json("memory", "list", "--all")["memories"]
    assert 0 < len(listed) < len(everything)
    assert all(f"claude/{DISCOUNTS}" in m["sessions"] for m in listed)
    nobody = ran("memory", "list", "--session", "no-such-session", ok=False)
    assert (nobody.returncode, "there is no session called 'no-such-session'" in nobody.stderr) == (1, True)
    assert all(isinstance(m["marks"], list) for m in everything)
    assert ran("memory", "show", listed[0]["memory_id"]).stdout.count("the record that an id of evidence names: ctx explain ID") == 1
    shown = ran.json("memory", "show", listed[0]["memory_id"])
    assert shown["marks"] == listed[0]["marks"]
    assert set(ran.json("memory", "doctor")["marks"]) == {m["memory_id"] for m in everything if m["marks"]}


@pytest.mark.feature("mining.lesson-record", "mining.cases")
@pytest.mark.slow
def test_a_session_is_shown_as_one_record_and_a_solved_task_answers_one_like_it(ran: Ctx):
    found = ran.json("memory", "record", DISCOUNTS[:8])
    assert (found["host"], found["session_id"]) == ("claude", DISCOUNTS)
    assert [e["text"] for e in found["outcome"]] == [
        "changed `bookshop/discounts.py`",
        "`uv run pytest -q tests/test_discounts.py` passed after the last change",
    ]
    assert all(e["evidence"] for e in found["mistakes"])
    said = ran("memory", "record", DISCOUNTS[:8]).stdout
    assert said.startswith(f"claude {DISCOUNTS}  ")
    assert "\noutcome:\n  changed `bookshop/discounts.py`" in said
    assert ran("memory", "record", "nobody", ok=False).returncode == 1
    drawn = ran.json("mine", "claude", DISCOUNTS)
    assert drawn["drawn"] >= len(drawn["candidates"]) > 0
    assert all(c["session_id"] == DISCOUNTS and c["text"] for c in drawn["candidates"])
    quiet = ran("mine", "--method", "skill_pro").stdout
    assert "skill_pro tells none: " in quiet
    assert "; a lesson needs two sessions that" in quiet
    assert list(ran.json("mine", "--method", "skill_pro")["silent"]) == ["skill_pro"]
    assert "silent" not in ran.json("mine", "--all", "--method", "skill_pro")
    (case,) = ran.json("memory", "cases", "-q", "bump vitest", "--everywhere")["cases"]
    assert case["structured"]["steps"] == ["run `npm install -D vitest@3`", "edit `src/route.test.ts`", "run `npm test`"]
    assert "  Bump vitest to 3 and fix what breaks\n" in ran("memory", "cases", "-q", "bump vitest", "--everywhere").stdout
    assert "no task like this was solved" in ran("memory", "cases", "-q", "rotate certificates").stdout


@pytest.mark.feature("mining.llm", "mining.dry-run", "cli.mine")
@pytest.mark.slow
def test_a_method_that_asks_shows_the_question_asks_once_and_says_what_it_cost(ctx: Ctx):
    lesson = {"kind": "tool_lesson", "text": "freezegun has to be installed", "evidence": ["e4"]}
    folder = ctx.folder / "bin"
    agents.install(folder, "claude", agents.claude_stream(json.dumps({"lessons": [lesson, {**lesson, "evidence": ["e9999"]}]})))
    ctx.environ["PATH"] = agents.path_of(folder, ctx.environ)
    ctx("sync")
    words = ("mine", "claude", DISCOUNTS, "--method", "claude_headless")

    (question,) = ctx.json(*words, "--dry-run")["questions"]
    assert question["to"].endswith("--no-session-persistence")
    assert " tokens and what the agent adds, at a price that is not known here; nothing was sent" in ctx(*words, "--dry-run").stdout
    assert "freezegun" in question["question"]
    assert not (folder / "seen.json").exists()

    told = ctx(*words).stdout
    assert "freezegun has to be installed" in told
    assert "asked claude 1 time, 1 lesson, 1 refused (unknown evidence), 1 refused (without evidence)" in told.replace("  ", " ")
    assert "$0.01" in told
    (spent,) = [m["spent"] for m in ctx.json("methods")["methods"] if m["method"] == "claude_headless"]
    assert spent == {"answers": 1, "failed": 0, "input_tokens": 21_004, "output_tokens": 250, "cost_nano": 12_300_000}
    again = ctx.json(*words)
    assert (again["asked"]["claude_headless"]["asked"], len(again["candidates"])) == (0, 1)

    wrong = ctx("mine", "claude", DISCOUNTS, "--dry-run", ok=False)
    assert (wrong.returncode, "ask a model" in wrong.stderr) == (2, True)
    assert list((ctx.store / "answers").iterdir())
    ctx("forget", "claude", DISCOUNTS, "--yes")
    assert not [p for p in ctx.store.rglob("answers/*") if p.is_file()]


@pytest.mark.feature("memory.commands", "memory.plain-text")
def test_what_a_person_says_of_a_memory_is_redacted_and_words_that_are_no_number_or_status_are_refused(bare: Ctx):
    notes = bare.folder / "notes"
    notes.mkdir()
    (notes / "uv.md").write_text("Use uv, never pip.", "utf-8")
    bare("memory", "import-authored", "notes")
    key = "ghp_" + "a1B2" * 9
    bare("memory", "update-utility", "--memory-id", "uv", "--reward", "1", "--session-id", "s1", "--reason", f"with {key} it ran")
    bare("memory", "accept", "uv", "--not-when", f"{key} is set")
    for reward in ("nan", "high", "2", "-0.1"):
        refused = bare("memory", "update-utility", "--memory-id", "uv", "--reward", reward, ok=False)
        assert (refused.returncode, "--reward" in refused.stderr) == (2, True)
    assert bare("memory", "list", "--status", "acepted", ok=False).returncode == 2
    assert [m["memory_id"] for m in bare.json("memory", "list", "--status", "accepted")["memories"]] == ["uv"]
    bare("memory", "export", "out")
    events = [json.loads(line) for line in (bare.folder / "out" / "events.jsonl").read_text("utf-8").splitlines()]
    assert [e["event"] for e in events] == ["memory.authored", "memory.rewarded", "memory.accepted"]
    assert (events[1]["reason"], events[1]["session_id"]) == ("with [REDACTED:github-token] it ran", "s1")
    assert events[2]["not_when"] == "[REDACTED:github-token] is set"
    shown = bare.json("memory", "show", "uv")
    assert (shown["utility"], shown["uses"]) == (0.6, 1)
    assert not [p for p in bare.store.rglob("*") if p.is_file() and key.encode() in p.read_bytes()]


@pytest.mark.feature("mining.llm", "cli.mine")
@pytest.mark.slow
def test_a_method_that_is_named_beside_all_is_asked_too(ran: Ctx):
    asked = ran.json("mine", "claude", DISCOUNTS, "--method", "all", "--method", "dspy", "--dry-run")["questions"]
    assert {(q["method"], q["session_id"]) for q in asked} == {("dspy", DISCOUNTS)}


@pytest.mark.feature("mining.dry-run", "cli.mine")
@pytest.mark.slow
def test_a_dry_run_says_what_the_questions_would_cost(after_run: Ctx):
    words = ("mine", "claude", DISCOUNTS, "--method", "dspy", "--dry-run")
    table = '[mine]\nmodel = "openai/lessons-1"\n'
    (after_run.store / "config.toml").write_text(table, "utf-8")
    assert "tokens, at a price that is not known here; nothing was sent" in after_run(*words).stdout
    (after_run.store / "config.toml").write_text(f'{table}[prices."openai/lessons-1"]\ninput = 100.0\noutput = 200.0\n', "utf-8")
    found = after_run.json(*words)
    (question,) = found["questions"]
    assert found["tokens"] == (len(question["question"].encode()) + 2_200) // 4
    assert found["cost"] == pytest.approx(found["tokens"] * 0.0001 + 4_000 * 0.0002)
    said = f"1 question of about {found['tokens']:,} tokens, ${found['cost']:,.2f} with the longest answers; nothing was sent"
    assert said in after_run(*words).stdout
    hidden = after_run.folder / "without"
    hidden.mkdir()
    (hidden / "dspy.py").write_text("raise ModuleNotFoundError(\"No module named 'dspy'\", name='dspy')\n", "utf-8")
    after_run.environ["PYTHONPATH"] = os.pathsep.join([str(hidden), after_run.environ.get("PYTHONPATH", "")])
    without = after_run.json(*words)
    assert without == {**found, "cost": None}
    assert f"1 question of about {found['tokens']:,} tokens, at a price that is not known here" in after_run(*words).stdout


@pytest.mark.feature("cli.says-that-it-waits")
def test_a_command_that_waits_for_another_writer_says_so_and_goes_on_after_it(bare: Ctx):
    notes = bare.folder / "notes"
    notes.mkdir()
    (notes / "uv.md").write_text("Use uv, never pip.", "utf-8")
    bare.json("memory", "import-authored", "notes")
    with closing(sqlite3.connect(Path(bare.environ["CTX_HOME"]) / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process = processes.start(
            [sys.executable, "-m", "ctx_pipeline", "memory", "accept", "uv"],
            env=bare.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert select.select([process.stderr], [], [], 60)[0]
            assert "waiting: another process" in process.stderr.readline()
            other.execute("ROLLBACK")
            out, _ = process.communicate(timeout=250)
        finally:
            processes.end(process)
    assert "uv: accepted" in out
