"""Sessions that lie in the homes before any run: named, resumed, shown and listed as captured ones are."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline_tests.factories.claude import ClaudeHome

if TYPE_CHECKING:
    from ctx_pipeline_tests.cli.conftest import Ctx

DISCOUNTS = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
TITLE = "Fix rounding in discount codes"


@pytest.mark.feature("cli.uncaptured")
@pytest.mark.parametrize("name", [DISCOUNTS[:8], TITLE, f"claude/{DISCOUNTS}", "rounding discount"])
def test_resume_continues_a_session_that_no_run_has_captured(ctx: Ctx, name: str):
    done = ctx("resume", name)

    assert done.stdout.strip().endswith(f"claude --resume {DISCOUNTS}")
    assert done.stdout.startswith("cd /"), "in its folder"
    assert TITLE in done.stderr
    assert not ctx.store.exists(), "it only reads"


@pytest.mark.feature("cli.uncaptured")
def test_resume_and_latest_take_the_last_active_session_of_the_homes(ctx: Ctx):
    newest = ctx.json("list", "--limit", "1")["sessions"][0]["session_id"]

    assert ctx.json("resume")["session_id"] == ctx.json("resume", "latest")["session_id"] == newest
    second = ctx.json("list", "--limit", "2")["sessions"][1]["session_id"]
    assert ctx.json("resume", "latest~1")["session_id"] == second


@pytest.mark.feature("cli.uncaptured")
def test_a_session_is_shown_before_any_run_as_after_it(ctx: Ctx, ran: Ctx):
    early, late = ctx.json("show", DISCOUNTS[:8]), ran.json("show", DISCOUNTS[:8])

    assert early["kinds"] == late["kinds"]
    assert early["usage"] == late["usage"]
    assert early["session"]["title"] == late["session"]["title"] == TITLE
    assert ctx.json("show", TITLE, "--turns")["turns"][0]["prompt"]["text"]
    files = [[(t["path"], t["did"]) for t in one.json("files", DISCOUNTS[:8])["files"]] for one in (ctx, ran)]
    assert files[0] == files[1] != []
    done = ctx("show", DISCOUNTS[:8])
    assert "not captured yet" in done.stderr
    assert "ctx run" in done.stderr
    assert not ctx.store.exists()


@pytest.mark.feature("cli.uncaptured")
def test_a_session_that_began_after_the_last_run_is_found_beside_captured_ones(ctx: Ctx):
    ctx("sync")
    late = "99999999-9999-4999-8999-999999999999"
    ClaudeHome(ctx.folder / "claude").session(late).prompt("paint the fence").save()

    assert late in ctx("resume", "paint the fence").stdout
    assert ctx.json("show", "99999999")["session"]["title"] == "paint the fence"
    assert DISCOUNTS in ctx("resume", DISCOUNTS[:8]).stdout
    assert "there is no session called 'nonesuch'" in ctx("resume", "nonesuch", ok=False).stderr


@pytest.mark.feature("cli.uncaptured")
def test_a_wrong_name_before_any_run_gets_the_nearest_sessions_of_the_homes(ctx: Ctx):
    done = ctx("show", "rounding errors", ok=False)

    assert done.returncode == 1
    assert f"claude/{DISCOUNTS}" in done.stderr
    assert TITLE in done.stderr


@pytest.mark.feature("cli.uncaptured")
def test_a_list_tells_the_time_of_the_last_record_and_says_where_it_is_the_files(ctx: Ctx):
    home = ClaudeHome(ctx.folder / "claude")
    home.session("88888888-8888-4888-8888-888888888888", started=datetime(2026, 3, 5, 10, tzinfo=UTC)).prompt("first").save()
    timeless = home.session("77777777-7777-4777-8777-777777777777")
    timeless.prompt("second", timestamp=None)
    timeless.save()
    for path in (ctx.folder / "claude").rglob("*.jsonl"):
        os.utime(path, (1_800_000_000, 1_800_000_000))

    found = {s["session_id"][0]: s for s in ctx.json("list")["sessions"] if s["session_id"][0] in "87"}
    assert found["8"]["last"] == datetime(2026, 3, 5, 10, tzinfo=UTC).timestamp()
    assert (found["7"]["last"], found["7"]["last_of_file"], found["8"]["last_of_file"]) == (1_800_000_000, True, False)
    assert "the last activity of 1 session not captured yet is the time of the file" in ctx("list").stdout
    assert {s["session_id"][0] for s in ctx.json("list", "--until", "2026-03-05")["sessions"]} == {"8"}


@pytest.mark.feature("cli.uncaptured")
def test_the_title_of_a_long_session_is_read_from_both_ends_of_its_file(ctx: Ctx):
    long = ClaudeHome(ctx.folder / "claude").session("88888888-8888-4888-8888-888888888888").prompt("plan the garden")
    for number in range(40):
        long.call(f"t{number}", "Read", "x" * 40_000, file_path="/home/dev/shop/a.py")
    long.save()
    last = max(json.loads(line).get("timestamp") or "" for line in long.path.read_text().splitlines())

    row = next(s for s in ctx.json("list")["sessions"] if s["session_id"][0] == "8")
    assert row["title"] == "plan the garden"
    assert row["last"] == datetime.fromisoformat(last).timestamp()
    assert long.path.stat().st_size > 1_200_000


@pytest.mark.feature("cli.overview-findings")
def test_bare_ctx_names_sessions_by_their_titles_before_any_run_and_after_a_list(ctx: Ctx):
    for _ in range(2):
        said = ctx().stdout
        assert "The most expensive, “CSV export for orders”, cost" in " ".join(said.split())
        assert " in turns" not in said, "how long turns took is not known before a run"
        ctx("list")


@pytest.mark.feature("cli.cost")
def test_the_cost_of_a_session_begins_with_its_title_time_and_project(ctx: Ctx, ran: Ctx):
    for one in (ctx, ran):
        first, second = one("cost", DISCOUNTS[:8]).stdout.splitlines()[:2]
        assert first.startswith(f"{TITLE}  2026-")
        assert first.endswith("  bookshop-api")
        assert second.startswith(f"session {DISCOUNTS[:8]}: ")
