"""The commands that write: import, sync, forget, backfill, mine, memory."""

from __future__ import annotations

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"


def states(ctx: Ctx) -> dict[str, str]:
    return {s["session_id"]: s["state"] for s in ctx.json("list", "--limit", "50")["sessions"]}


@pytest.mark.feature("cli.import")
def test_import_takes_just_the_chosen_session_and_the_page_shows_it(ctx: Ctx):
    report = ctx.json("import", "claude", "--session-id", DISCOUNTS[:8])

    assert [(s["session_id"], s["status"]) for s in report["sessions"]] == [(DISCOUNTS, "imported")]
    assert report["sessions"][0]["events"] > 0
    assert {sid for sid, state in states(ctx).items() if state == "captured"} == {DISCOUNTS}
    assert (ctx.store / "site" / "index.html").is_file()
    assert ctx.json("import", "claude", "--session-id", DISCOUNTS)["unchanged"] == 1


@pytest.mark.feature("cli.import")
def test_import_latest_of_all_hosts_takes_one_of_each_and_renders_only_when_it_may(ctx: Ctx):
    report = ctx.json("import", "all", "--latest", "--no-render")

    assert sorted(s["host"] for s in report["sessions"]) == ["claude", "codex"]
    assert list(states(ctx).values()).count("captured") == 2
    assert not (ctx.store / "site").exists()
    assert ctx.json("import", "all", "--all", "--limit-per-host", "1", "--no-render")["imported"] == 0


@pytest.mark.feature("cli.import-force")
def test_force_records_a_new_generation_and_overwrites_nothing(ctx: Ctx):
    ctx("import", "claude", "--session-id", DISCOUNTS, "--no-render")
    before = {p: p.read_bytes() for p in (ctx.store / "raw").rglob("*.zst")}
    events = ctx.json("show", "claude", DISCOUNTS)["session"]["events"]

    assert ctx.json("import", "claude", "--session-id", DISCOUNTS, "--force", "--no-render")["imported"] == 1

    after = {p: p.read_bytes() for p in (ctx.store / "raw").rglob("*.zst")}
    assert {p: after[p] for p in before} == before
    assert len(after) > len(before)
    assert ctx.json("show", "claude", DISCOUNTS)["session"]["events"] == events


@pytest.mark.feature("cli.import")
def test_an_unknown_session_is_an_error_and_nothing_is_captured(ctx: Ctx):
    done = ctx("import", "claude", "--session-id", "ffffffff", ok=False)

    assert done.returncode == 1
    assert "captured" not in states(ctx).values()


@pytest.mark.feature("cli.sync")
def test_sync_makes_a_session_searchable_and_leaves_the_page_alone(ctx: Ctx):
    report = ctx.json("sync")

    assert report["sessions_parsed"] == 6
    assert ctx.json("search", "freezegun")["hits"]
    assert not (ctx.store / "site").exists()
    assert ctx.json("sync")["sessions_parsed"] == 0


@pytest.mark.feature("cli.forget")
def test_forget_shows_asks_removes_and_does_not_capture_again(ctx: Ctx):
    ctx("sync")
    refused = ctx("forget", "claude", DISCOUNTS, ok=False, stdin="n\n")

    assert refused.returncode == 1
    assert "Fix rounding in discount codes" in refused.stdout
    assert states(ctx)[DISCOUNTS] == "captured"

    assert ctx.json("forget", "claude", DISCOUNTS[:8], "--yes")["forgotten"] == 1
    assert ctx.json("sync")["sessions_parsed"] == 0
    assert DISCOUNTS not in states(ctx)
    assert "there is no session called" in ctx("show", DISCOUNTS, ok=False).stderr
    left = [p for p in ctx.store.rglob("*") if p.is_file() and b"freezegun" in p.read_bytes()]
    assert left == []


@pytest.mark.feature("cli.backfill")
@pytest.mark.slow
def test_backfill_fills_a_family_by_the_name_of_a_signal_and_says_what_is_older_now(ctx: Ctx):
    ctx("sync")
    before = {a["asset"]: a["missing"] for a in ctx.json("status")["assets"]}
    filled = ctx.json("backfill", "failed_command_count")
    after = {a["asset"]: a["missing"] for a in ctx.json("status")["assets"]}

    assert before["signals/outcomes"] == filled["cells_materialized"] == 4
    assert after["signals/outcomes"] == 0
    assert after["signals/activity"] == before["signals/activity"] == 4
    for one in (("signals/outcomes",), ("--signal", "outcomes"), ("--asset", "signals/outcomes")):
        assert ctx.json("backfill", *one)["cells_materialized"] == 0
    for wrong in (("nonsense",), ("signals/nonsense",), ("--signal", "nonsense"), ("outcomes", "--signal", "outcomes")):
        assert ctx("backfill", *wrong, ok=False).returncode in (1, 2), wrong


@pytest.mark.feature("cli.mine", "cli.memory-judge")
@pytest.mark.slow
def test_mined_lessons_are_shown_retrieved_woven_judged_and_rewarded(after_run: Ctx):
    ctx = after_run
    candidates = ctx.json("mine", "claude", DISCOUNTS)["candidates"]
    found = ctx.json("memory", "retrieve", "--everywhere", "--query", "pytest fails: No module named freezegun")["memories"]

    assert any("freezegun" in c["text"] and c["evidence"] for c in candidates)
    assert "freezegun" in found[0]["text"]
    memory_id = found[0]["memory_id"]
    assert memory_id in ctx("memory", "weave", "--everywhere", "--query", "pytest fails: No module named freezegun").stdout

    assert ctx.json("memory", "accept", memory_id)["status"] == "accepted"
    rewarded = ctx.json("memory", "update-utility", "--memory-id", memory_id, "--reward", "1")
    assert rewarded["utility"] == pytest.approx(0.6)
    assert ctx.json("memory", "show", memory_id)["uses"] == 1
    assert ctx.json("memory", "reject", memory_id)["status"] == "rejected"
    assert memory_id not in ctx("memory", "weave", "--everywhere", "--query", "pytest fails: No module named freezegun").stdout
    assert [m["memory_id"] for m in ctx.json("memory", "list", "--status", "rejected")["memories"]] == [memory_id]
    assert {m["method"] for m in ctx.json("methods")["methods"]} >= {"error_resolutions", "repeated_corrections"}
