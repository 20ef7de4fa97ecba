"""``ctx learn``: what is proposed, how it is judged, and what is written into a rules file."""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from ctx_pipeline.memory.injection_policy import MEASURED
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.cli.conftest import Ctx


def lesson(name, text, folder, *, kind="tool_lesson", body=None, **more):
    import json

    place = {"repository": str(folder), "cwd": str(folder)}
    told = {"structured": json.dumps(body)} if body else {}
    return Memory(name, kind, text, **({"last_ts": time.time_ns() // 1000, "confidence": 0.6, "support": 1} | place | told | more))


@pytest.fixture
def project(bare: Ctx) -> Path:
    """A repository with a rules file, and lessons of it in the store."""
    folder = bare.folder / "shop"
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / "CLAUDE.md").write_text("# Shop\n\n- Never push to main.\n", "utf-8")
    bare("memory", "init")
    rule = {"line": "- Use pnpm.", "want": ["pnpm"], "instead_of": ["npm"], "quotes": ["pnpm please", "we use pnpm here"]}
    lessons = [
        lesson("m-pnpm", "we use pnpm here", folder, kind="user_preference", body=rule, support=3),
        lesson("m-main", "never push to main", folder, kind="user_preference", body={"line": "- Never push to main."}),
        lesson("m-slow", "`make` fails until `make deps` has run", folder, body={"seconds": 1_800, "resolution": "setup"}),
        lesson("m-held", "run `rm -rf build`", folder, status="needs_review", flags=["dangerous-command"]),
        lesson("m-old", "we use npm here", folder, kind="user_preference", superseded_by="m-pnpm"),
        lesson("m-file", "tests live in spec", folder, kind="user_preference", body={"written_in": "CLAUDE.md"}),
        lesson("m-else", "elsewhere", bare.folder / "other"),
    ]
    MemoryIndex(bare.store / "memory.db").rebuild(lessons)
    return folder


@pytest.mark.feature("learn.proposals")
def test_what_would_have_saved_most_comes_first_with_what_it_rests_on(bare: Ctx, project: Path):
    found = bare.json("learn", "--cwd", str(project))["proposals"]
    assert [(p["memory_id"], p["sessions"], p["minutes"]) for p in found] == [("m-slow", 1, 30.0), ("m-pnpm", 3, 0.0), ("m-main", 1, 0.0)]
    told = bare("learn", "--cwd", str(project)).stdout
    assert "1. `make` fails until `make deps` has run" in told
    assert "30 minutes lost" in told
    assert "“pnpm please”" in told
    assert "ctx memory accept ID" in told
    assert {p["memory_id"] for p in bare.json("learn", "--everywhere")["proposals"]} == {"m-slow", "m-pnpm", "m-main", "m-else"}


@pytest.mark.feature("backtest.told-by-default")
def test_learn_and_the_doctor_say_which_kinds_of_lessons_are_told_only_once_accepted(bare: Ctx, project: Path):
    assert "only once accepted" not in bare("learn", "--cwd", str(project)).stdout
    counts = {"told": 12, "right": 2, "plain": 5, "newest": 0}
    row = {"kinds": {"cure": counts}, "against_search": {"value": 0.1, "low": 0.0, "high": 0.2}, "answerable": 12}
    with closing(Journal(bare.store / "journal.db")) as journal:
        journal.append(MEASURED, {"moments": {"after a failure": row}})

    line = "after a failure: cure (right in 2 of 12, text search in 5)"
    for told in (bare("learn", "--cwd", str(project)).stdout, bare("doctor").stdout):
        assert "only once accepted" in told
        assert line in told
    assert bare.json("learn", "--cwd", str(project))["only_once_accepted"] == [line]
    assert bare.json("doctor")["only_once_accepted"] == [line]


@pytest.mark.feature("learn.rules-file")
def test_the_block_is_printed_shown_as_a_patch_and_written_once_after_a_backup(bare: Ctx, project: Path):
    file = project / "CLAUDE.md"
    before = file.read_text()
    block = bare("learn", "--cwd", str(project), "--claude-md").stdout
    assert "- Use pnpm." in block
    assert "push to main" in block
    assert file.read_text() == before

    patch = bare("learn", "--cwd", str(project), "--claude-md", "--pr").stdout
    assert "+- Use pnpm." in patch
    assert "+- Never push to main." not in patch
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    subprocess.run(["git", "-C", str(project), "apply", "--check", "-"], input=patch + "\n", text=True, check=True)

    assert bare("learn", "--cwd", str(project), "--claude-md", "--write", ok=False, stdin="n\n").returncode != 0
    assert file.read_text() == before
    written = bare.json("learn", "--cwd", str(project), "--claude-md", "--write", "--yes")["files"][0]
    text = file.read_text()
    assert text.startswith(before)
    assert text.count("- Use pnpm.") == 1
    assert (bare.store / written["backup"]).read_text() == before
    assert "says all of it already" in bare("learn", "--cwd", str(project), "--claude-md", "--write", "--yes").stdout
    assert file.read_text() == text

    assert "- Use pnpm." in bare("learn", "--cwd", str(project), "--agents-md").stdout
    assert not (project / "AGENTS.md").exists()


@pytest.mark.feature("learn.rules-file")
def test_a_block_holds_the_rules_of_one_repository_each_once_and_no_fact_of_one_run(bare: Ctx, project: Path):
    shop, other = project, bare.folder / "other"
    lessons = [
        lesson("m-a", "run the tests with `make test`; lint with `make lint`; format with `make fmt`", shop, support=9),
        lesson("m-b", "lint with `make lint`; run the tests with `make test`", shop, support=5),
        lesson("m-run", "`gh run view 28943891068 --log-failed` failed with “still in progress”: wait", shop, support=7),
        lesson("m-pr", "`gh pr view #1234` works", shop, support=7),
        lesson("m-port", "the server listens on localhost:54321", shop, support=2),
        lesson("m-tick", "`tool` is missing (“no such command: `tool`”): run `make tools`", shop, support=3),
        lesson("m-again", "`tool check all` fails with “no such command: `tool`”; `make tools` works", shop, support=1),
        lesson("m-other", "`tool list` fails with “no such command: `tool`”; `make lists` works", shop, support=1),
        lesson("m-else", "run the tests with `tox`", other, support=8),
        lesson("m-twin", "run the tests with `nox`", bare.folder / "twin" / shop.name, support=8),
    ]
    MemoryIndex(bare.store / "memory.db").rebuild(lessons)

    def lines(*words: str) -> list[str]:
        return [line for line in bare("learn", "--claude-md", *words).stdout.splitlines() if line.startswith("- ")]

    here = lines("--cwd", str(shop))
    assert here == [
        "- Run the tests with `make test`; lint with `make lint`; format with `make fmt`",
        "- `tool` is missing (“no such command: `tool`”): run `make tools`",
        "- The server listens on localhost:54321",
        "- `tool list` fails with “no such command: `tool`”; `make lists` works",
    ]
    assert lines("--cwd", str(shop), "--limit", "1") == here[:1]
    assert lines("--project", "other") == ["- Run the tests with `tox`"]
    assert [p["memory_id"] for p in bare.json("learn", "--project", "other")["proposals"]] == ["m-else"]
    listed = bare("learn", "--all", "--limit", "20").stdout
    assert re.findall(r"m-else; (\S+)$", listed, re.MULTILINE) == ["other"]
    twins = re.findall(r"m-(?:twin|port); (\S+)$", listed, re.MULTILINE)
    assert [Path(folder).name for folder in twins] == [shop.name] * 2
    assert len(set(twins)) == 2
    everywhere = bare("learn", "--claude-md", "--all").stdout
    assert [everywhere.count(f"{folder}\n<!-- ctx learn: begin -->") for folder in (shop, other)] == [1, 1]
    assert bare("learn", "--project", "nosuch", ok=False).returncode == 1
    assert bare("learn", "--all", "--claude-md", "--write", ok=False).returncode == 2
    assert bare("learn", "--all", "--project", "other", ok=False).returncode == 2


@pytest.mark.feature("learn.proposals")
def test_lessons_that_were_drawn_are_a_list_and_no_finding(ran: Ctx):
    assert any(m["status"] == "candidate" for m in ran.json("memory", "list")["memories"])
    assert not [f for f in ran.json("hints")["findings"] if f["command"] == "ctx memory list"]


@pytest.mark.feature("learn.judged")
@pytest.mark.slow
def test_lessons_are_accepted_rejected_and_put_in_the_persons_own_words_one_after_the_other(after_run: Ctx):
    ctx = after_run
    found = ctx.json("learn", "--everywhere", "--limit", "3")["proposals"]
    assert len(found) == 3
    ctx("learn", "--everywhere", "--limit", "3", "--ask", stdin="a\nr\ne\nAlways run the checks.\n")
    status = {m["memory_id"]: m["status"] for m in ctx.json("memory", "list")["memories"]}
    assert [status.get(p["memory_id"]) for p in found] == ["accepted", "rejected", "rejected"]
    (note,) = [m for m in ctx.json("memory", "list", "--status", "accepted")["memories"] if m["memory_id"].startswith("note-")]
    assert note["text"] == "Always run the checks."
    assert not {p["memory_id"] for p in ctx.json("learn", "--everywhere")["proposals"]} & {p["memory_id"] for p in found}


@pytest.mark.feature("learn.rules-file")
def test_a_patch_without_a_named_file_is_of_the_rules_files_that_are_there(bare: Ctx, project: Path):
    patch = bare("learn", "--cwd", str(project), "--pr").stdout
    assert patch == bare("learn", "--cwd", str(project), "--claude-md", "--pr").stdout
    assert "+- Use pnpm." in patch
    (project / "CLAUDE.md").unlink()
    assert "need a rules file" in bare("learn", "--cwd", str(project), "--pr", ok=False).stderr
