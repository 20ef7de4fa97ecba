"""Five-hour windows, the status line, and usage by thread, tool, server, skill and shell command."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

from ctx_pipeline.cli.root import cli
from ctx_pipeline.model.codec import micros
from ctx_pipeline.sessions.reports.wrapped import line_card, wrapped
from ctx_pipeline.settings import Settings
from ctx_pipeline.usage.blocks import _fill, _windows, blocks, statusline
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.homes.live_usage import Counted
from ctx_pipeline.usage.limits import outcomes
from ctx_pipeline.usage.rollup import SUMS
from ctx_pipeline.usage.usage_figures import TimedCalls
from ctx_pipeline_tests.factories import claude, gemini
from ctx_pipeline_tests.factories.sample_homes import put
from ctx_pipeline_tests.usage.conftest import ingested, without_store

OPUS = "claude-opus-4-5-20251101"


def at(text: str) -> int:
    found = micros(text)
    assert found is not None
    return found


def line(number: int, when: str, output: int, *tools: tuple[str, dict[str, Any]], model: str = OPUS) -> str:
    content = [{"type": "tool_use", "id": f"t{number}-{n}", "name": name, "input": given} for n, (name, given) in enumerate(tools)]
    message = {
        "id": f"m{number}",
        "role": "assistant",
        "model": model,
        "content": content or [{"type": "text", "text": "done"}],
        "usage": {"input_tokens": 0, "output_tokens": output},
    }
    return json.dumps(
        {"type": "assistant", "uuid": f"u{number}", "timestamp": when, "sessionId": "s", "cwd": "/code/a", "message": message}
    )


def home(tmp_path: Path, *lines: str) -> Settings:
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    (folder / "11111111-1111-4111-8111-111111111111.jsonl").write_text("".join(f"{text}\n" for text in lines))
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})


@pytest.mark.feature("usage.blocks")
def test_a_window_opens_at_the_full_hour_lasts_five_hours_and_the_open_one_is_projected(tmp_path: Path):
    settings = home(
        tmp_path,
        line(1, "2026-10-01T10:20:00Z", 1000),
        line(2, "2026-10-01T14:59:00Z", 1000),
        line(3, "2026-10-01T15:00:00Z", 6000),
        line(4, "2026-10-01T16:00:00Z", 6000),
    )
    now = at("2026-10-01T17:00:00Z")

    first, second = blocks(settings=settings, now=now)

    assert (first.start, first.end, first.tokens, first.active) == (at("2026-10-01T10:00:00Z"), at("2026-10-01T15:00:00Z"), 2000, False)
    assert (second.start, second.tokens, second.active) == (at("2026-10-01T15:00:00Z"), 12000, True)
    # 12,000 tokens in 60 minutes, three hours left; 25 dollars a million tokens
    assert second.burn() == {"tokens_per_minute": 200.0, "usd_per_hour": pytest.approx(0.3)}
    assert second.projection(now) == {"minutes_left": 180, "tokens": 48000, "cost_usd": 1.2}
    assert first.projection(now) is None


@pytest.mark.feature("usage.blocks-official")
def test_a_window_carries_the_percentages_that_the_host_wrote_last(tmp_path: Path):
    def told(when: str, percent: float, total: int) -> dict[str, Any]:
        used = {"input_tokens": total, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0, "total_tokens": total}
        limits = {"primary": {"used_percent": percent, "window_minutes": 300, "resets_at": 1790870400}, "secondary": None}
        info = {"total_token_usage": used, "last_token_usage": used}
        return {"timestamp": when, "type": "event_msg", "payload": {"type": "token_count", "info": info, "rate_limits": limits}}

    folder = tmp_path / "codex" / "sessions" / "2026" / "10" / "01"
    folder.mkdir(parents=True)
    name = "019a9bd7-c491-4e60-a816-a96c4fb3c55d"
    meta = {"timestamp": "2026-10-01T10:00:00Z", "type": "session_meta", "payload": {"id": name, "cwd": "/code/b"}}
    turn = {"timestamp": "2026-10-01T10:00:01Z", "type": "turn_context", "payload": {"model": "gpt-5-codex", "cwd": "/code/b"}}
    records = [meta, turn, told("2026-10-01T10:05:00Z", 12.0, 100), told("2026-10-01T10:09:00Z", 41.5, 300)]
    (folder / f"rollout-2026-10-01T10-00-00-{name}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))
    settings = Settings(home=tmp_path / "store", demo_roots={"codex": (tmp_path / "codex",)})

    (block,) = blocks(settings=settings, now=at("2026-10-01T11:00:00Z"))

    assert block.limits["primary"] == {
        "used_percent": 41.5,
        "window_minutes": 300,
        "resets_at": "2026-10-01T16:00:00.000000Z",
        "at": "2026-10-01T10:09:00.000000Z",
    }
    assert "secondary" not in block.limits


@pytest.mark.feature("usage.block-reset")
def test_a_window_begins_when_the_host_says_so_and_else_at_the_full_hour(tmp_path: Path):
    def told(when: str, total: int, reset: str) -> dict[str, Any]:
        used = {"input_tokens": total, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0, "total_tokens": total}
        limits = {"primary": {"used_percent": 5.0, "window_minutes": 300, "resets_at": at(reset) // 10**6}}
        limits["secondary"] = {"used_percent": 1.0, "window_minutes": 10080, "resets_at": at("2026-10-08T00:00:00Z") // 10**6}
        info = {"total_token_usage": used, "last_token_usage": {**used, "input_tokens": 100, "total_tokens": 100}}
        return {"timestamp": when, "type": "event_msg", "payload": {"type": "token_count", "info": info, "rate_limits": limits}}

    folder = tmp_path / "codex" / "sessions" / "2026" / "10" / "01"
    folder.mkdir(parents=True)
    name = "019a9bd7-c491-4e60-a816-a96c4fb3c55d"
    meta = {"timestamp": "2026-10-01T10:00:00Z", "type": "session_meta", "payload": {"id": name, "cwd": "/code/b"}}
    first = [told("2026-10-01T10:40:00Z", 100, "2026-10-01T15:27:00Z"), told("2026-10-01T15:10:00Z", 200, "2026-10-01T15:27:00Z")]
    later = [told("2026-10-01T15:40:00Z", 300, "2026-10-01T20:35:00Z"), told("2026-10-02T09:50:00Z", 400, "2026-10-02T09:00:00Z")]
    (folder / f"rollout-2026-10-01T10-00-00-{name}.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in [meta, *first, *later]))
    settings = Settings(home=tmp_path / "store", demo_roots={"codex": (tmp_path / "codex",)})

    found = blocks(settings=settings, now=at("2026-10-03T00:00:00Z"))

    # by the hour of the first call the second call would have opened a window at 15:00
    assert [(b.start, b.sums["calls"]) for b in found] == [
        (at("2026-10-01T10:27:00Z"), 2),
        (at("2026-10-01T15:35:00Z"), 1),
        (at("2026-10-02T09:00:00Z"), 1),
    ]


LATER = "claude-haiku-4-5-20251001"


@pytest.mark.feature("usage.block-filters")
def test_filters_choose_what_is_counted_in_a_window_and_never_move_it(tmp_path: Path):
    settings = home(
        tmp_path,
        line(1, "2026-10-01T10:20:00Z", 1000),
        line(2, "2026-10-01T12:30:00Z", 500, model=LATER),
        line(3, "2026-10-02T00:10:00Z", 70),
        line(4, "2026-10-02T04:50:00Z", 6),
    )

    (one,) = blocks(settings=settings, model=LATER)
    late = blocks(settings=settings, since="2026-10-02")

    assert (one.start, one.tokens, one.first, one.models) == (at("2026-10-01T10:00:00Z"), 500, at("2026-10-01T12:30:00Z"), [LATER])
    assert [(b.start, b.tokens) for b in late] == [(at("2026-10-02T00:00:00Z"), 76)]
    assert blocks(settings=settings, project="elsewhere") == []


@pytest.mark.feature("usage.block-reset")
@pytest.mark.parametrize("sessions", [1, 2])
def test_a_call_belongs_to_the_first_window_that_ends_behind_it_whichever_session_it_is_of(sessions: int):
    times = [at(f"2026-10-01T{when}:00Z") for when in ("10:30", "15:10", "15:40")]
    sums = [[1, 1, 1]] * len(SUMS)
    whole = TimedCalls(Counted("codex", "a", "", None, []), ["m"], [0, 0, 0], times, sums)
    cut = [
        TimedCalls(Counted("codex", name, "", None, []), ["m"], [0] * len(part), part, [[1] * len(part)] * len(SUMS))
        for name, part in (("a", times[:1]), ("b", times[1:]))
    ]
    made = [whole] if sessions == 1 else cut

    windows = _windows("codex", made, [at("2026-10-01T15:23:00Z")])
    _fill(windows, made)

    assert [(w.start, w.sums["calls"], w.first) for w in windows] == [
        (at("2026-10-01T10:23:00Z"), 2, times[0]),
        (at("2026-10-01T15:00:00Z"), 1, times[2]),
    ]


def codex_home(tmp_path: Path, limit: dict[str, Any], *, packed: bool = False) -> Settings:
    """A home with one call and what its record says of the primary limit."""
    folder = tmp_path / "codex" / "sessions" / "2026" / "10" / "01"
    folder.mkdir(parents=True)
    name = "019a9bd7-c491-4e60-a816-a96c4fb3c55d"
    meta = {"timestamp": "2026-10-01T10:00:00Z", "type": "session_meta", "payload": {"id": name, "cwd": "/code/b"}}
    used = {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0, "total_tokens": 100}
    told = {"type": "token_count", "info": {"total_token_usage": used, "last_token_usage": used}, "rate_limits": {"primary": limit}}
    data = "".join(
        f"{json.dumps(r)}\n" for r in (meta, {"timestamp": "2026-10-01T10:05:00Z", "type": "event_msg", "payload": told})
    ).encode()
    rollout = folder / f"rollout-2026-10-01T10-00-00-{name}.jsonl"
    if packed:
        (folder / f"{rollout.name}.zst").write_bytes(zstandard.compress(data))
    else:
        rollout.write_bytes(data)
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"codex": (tmp_path / "codex",)})


@pytest.mark.feature("usage.blocks-official")
def test_a_packed_rollout_tells_its_limits_too(tmp_path: Path):
    settings = codex_home(tmp_path, {"used_percent": 41.5, "window_minutes": 300, "resets_at": 1790870400}, packed=True)

    (block,) = blocks(settings=settings, now=at("2026-10-01T11:00:00Z"))

    assert block.limits["primary"]["used_percent"] == 41.5


@pytest.mark.feature("usage.blocks-official")
def test_limits_are_told_that_were_written_before_another_agent_was_used(tmp_path: Path):
    older = codex_home(tmp_path, {"used_percent": 41.5, "window_minutes": 300, "resets_at": 1790870400})
    begun = at("2026-10-01T10:30:00Z") / 1e6
    for path in (tmp_path / "codex").rglob("*.jsonl"):
        os.utime(path, (begun, begun))
    newer = home(tmp_path, line(1, "2026-10-09T10:20:00Z", 1000))

    found = blocks(settings=replace(newer, demo_roots=older.demo_roots | newer.demo_roots), now=at("2026-10-09T11:00:00Z"))

    assert [(b.host, b.limits.get("primary", {}).get("used_percent")) for b in found] == [("codex", 41.5), ("claude", None)]


@pytest.mark.feature("usage.blocks")
def test_windows_are_the_same_from_the_homes_and_from_what_is_kept(tmp_path: Path):
    times = ("2026-10-01T10:20:00Z", "2026-10-01T14:59:00Z", "2026-10-01T15:00:00Z", "2026-10-02T04:50:00Z")
    settings = home(tmp_path, *(line(n, when, 1000 * n + 1, model=LATER if n == 2 else OPUS) for n, when in enumerate(times)))
    now = at("2026-10-02T05:00:00Z")
    asked: list[dict[str, Any]] = [{}, {"model": LATER}, {"since": "2026-10-02"}, {"cost_mode": "display"}]
    live = [[b.to_json(now) for b in blocks(settings=settings, now=now, **one)] for one in asked]
    assert [len(found) for found in live] == [3, 1, 1, 3]

    ingested(settings)

    assert [[b.to_json(now) for b in blocks(settings=settings, now=now, **one)] for one in asked] == live
    transcript = next((tmp_path / "claude").rglob("*.jsonl"))
    with transcript.open("a") as file:  # what was not captured yet is counted as well
        file.write(line(9, "2026-10-02T04:55:00Z", 7) + "\n")
    assert blocks(settings=settings, now=now)[-1].tokens == live[0][-1]["total_tokens"] + 7
    assert blocks(settings=settings, now=now, stored=True)[-1].tokens == live[0][-1]["total_tokens"]


@pytest.mark.feature("usage.blocks-official")
def test_limits_are_told_of_the_tables_as_of_the_homes_and_also_when_the_file_is_gone(tmp_path: Path):
    limit = {"used_percent": 41.5, "window_minutes": 300, "resets_at": 1790870400}
    settings = codex_home(tmp_path, limit)
    (rollout,) = (tmp_path / "codex").rglob("*.jsonl")
    last = json.loads(rollout.read_text().splitlines()[-1])
    for minute, percent in ((6, 41.5), (7, 43.0), (8, 43.0)):
        last["payload"]["rate_limits"]["primary"]["used_percent"] = percent
        with rollout.open("a") as file:
            file.write(json.dumps(last | {"timestamp": f"2026-10-01T10:0{minute}:00Z"}) + "\n")
    now = at("2026-10-01T11:00:00Z")
    live = [b.to_json(now) for b in blocks(settings=settings, now=now)]
    assert (live[0]["limits"]["primary"]["used_percent"], live[0]["limits"]["primary"]["at"]) == (43.0, "2026-10-01T10:07:00.000000Z")

    ingested(settings)
    assert [b.to_json(now) for b in blocks(settings=settings, now=now)] == live
    last["payload"]["rate_limits"]["primary"]["used_percent"] = 50.0
    with rollout.open("a") as file:  # what was not captured yet is told as well
        file.write(json.dumps(last | {"timestamp": "2026-10-01T10:09:00Z"}) + "\n")
    assert blocks(settings=settings, now=now)[0].limits["primary"]["used_percent"] == 50.0
    rollout.unlink()
    assert [b.to_json(now) for b in blocks(settings=settings, now=now)] == live


@pytest.mark.feature("usage.blocks-official")
@pytest.mark.parametrize(("minutes", "said"), [(300, "5 h 41%"), (10_080, "7 d 41%"), (None, "primary 41%")])
def test_a_limit_is_printed_by_the_length_of_its_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int | None, said: str):
    codex_home(tmp_path, {"used_percent": 41.0, "window_minutes": minutes, "resets_at": 1790870400})
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))

    printed = CliRunner().invoke(cli, ["usage", "blocks"]).output

    assert said in printed
    assert "no percentages of limits" not in printed


@pytest.mark.feature("usage.blocks-official")
def test_agents_that_record_no_percentages_are_named_below_the_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    claude.ClaudeHome(tmp_path / "claude").session().prompt("go").answer(claude.text("done"), usages=[claude.usage(10, 5)]).save()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))

    assert "\nno percentages of limits in the records of Claude Code\n" in CliRunner().invoke(cli, ["usage", "blocks"]).output


@pytest.mark.feature("usage.hostile-limits")
@pytest.mark.parametrize(
    "reset", [{"resets_at": 10**18}, {"resets_at": -(10**18)}, {"resets_in_seconds": 1e300}, {"resets_in_seconds": -1e300}]
)
def test_a_reset_that_no_clock_shows_is_no_reset(tmp_path: Path, reset: dict[str, Any]):
    settings = codex_home(tmp_path, {"used_percent": 12.0, "window_minutes": 300, **reset})

    (block,) = blocks(settings=settings, now=at("2026-10-01T11:00:00Z"))

    assert block.start == at("2026-10-01T10:00:00Z")
    assert (block.limits["primary"]["used_percent"], block.limits["primary"]["resets_at"]) == (12.0, None)


@pytest.mark.feature("usage.hostile-limits")
@pytest.mark.parametrize("percent", [1e300, -5.0])
def test_a_percentage_that_none_is_is_left_out(tmp_path: Path, percent: float):
    settings = codex_home(tmp_path, {"used_percent": percent, "window_minutes": 300})

    (block,) = blocks(settings=settings, now=at("2026-10-01T11:00:00Z"))

    assert block.limits == {}


@pytest.mark.feature("usage.statusline")
def test_the_status_line_counts_a_fork_of_an_old_session_without_what_it_copied(tmp_path: Path):
    settings = home(tmp_path, line(1, "2026-09-20T10:00:00Z", 40_000))
    folder = tmp_path / "claude" / "projects" / "-work-a"
    old = folder / "11111111-1111-4111-8111-111111111111.jsonl"
    fork = "22222222-2222-4222-8222-222222222222"
    (folder / f"{fork}.jsonl").write_text(f"{old.read_text()}{line(2, '2026-10-02T00:30:00Z', 80_000)}\n")
    with old.open("a") as more:
        more.write(f"{line(3, '2026-09-20T10:00:05Z', 5)}\n")
    written = at("2026-09-20T10:00:06Z") / 1e6
    os.utime(old, (written, written))
    written = at("2026-10-02T00:30:00Z") / 1e6
    os.utime(folder / f"{fork}.jsonl", (written, written))

    text = statusline(json.dumps({"session_id": fork}), settings=settings, now=at("2026-10-02T01:00:00Z"))

    # of the fork's two calls the first counts for the session that it was copied from
    assert text.startswith("$2.00 session | $2.00 today")


@pytest.mark.feature("usage.statusline")
def test_the_status_line_counts_by_the_chosen_cost_mode(tmp_path: Path):
    text = line(1, "2026-10-02T00:30:00Z", 80_000).replace('"type": "assistant", "uuid"', '"costUSD": 7.5, "type": "assistant", "uuid"')
    settings = home(tmp_path, text)
    now = at("2026-10-02T01:00:00Z")

    assert statusline(settings=settings, now=now).startswith("$7.50 today")
    assert statusline(settings=replace(settings, cost_mode="calculate"), now=now).startswith("$2.00 today")


@pytest.mark.feature("usage.unpriced")
def test_a_window_of_an_unknown_model_is_unpriced_and_not_free(tmp_path: Path):
    settings = home(tmp_path, line(1, "2026-10-02T00:30:00Z", 80_000, model="nobody-9"))
    now = at("2026-10-02T01:00:00Z")

    (block,) = blocks(settings=settings, now=now)

    assert (block.cost, block.to_json(now)["cost_usd"], block.to_json(now)["unpriced_calls"]) == (None, None, 1)
    assert statusline(settings=settings, now=now).startswith("unpriced today | claude window unpriced")


@pytest.mark.feature("usage.unpriced")
def test_an_hour_and_a_day_a_commit_and_a_card_of_an_unknown_model_are_unpriced_and_not_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = home(
        tmp_path,
        line(1, "2026-10-02T00:30:00Z", 80_000, ("Bash", {"command": "ls"}), model="nobody-9"),
        line(2, "2026-10-02T00:40:00Z", 80_000, model="nobody-9"),
    )
    now = at("2026-10-02T01:00:00Z")

    (block,) = blocks(settings=settings, now=now)
    told = block.to_json(now)
    assert (told["burn_rate"]["usd_per_hour"], told["projection"]["cost_usd"]) == (None, None)
    assert told["burn_rate"]["tokens_per_minute"] > 0
    assert "/h" not in statusline(settings=settings, now=now)

    ingested(settings)
    (row,), everything = outcomes("project", settings=settings)
    assert (row.to_json("project")["cost_usd"], row.to_json("project")["usd_per_tool_call"]) == (None, None)
    assert everything.to_json("project")["tokens_per_tool_call"] == 160_000
    card = wrapped("all", settings=settings)
    assert (card.to_json()["cost_nano"], card.to_json()["models"][0]["cost_nano"]) == (None, None)
    assert "tokens, unpriced, 1 session" in line_card(card)
    monkeypatch.setenv("CTX_HOME", str(settings.home))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    for command in (["usage", "outcomes"], ["wrapped", "all", "--format", "line"], ["wrapped", "all"], ["usage", "blocks"]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
        assert "unpriced" in done.output
        assert "$0.00" not in done.output


@pytest.mark.feature("usage.blocks")
def test_a_host_whose_plans_know_no_windows_has_none(tmp_path: Path):
    others = {"qwen_code": (put(tmp_path / "qwen", gemini.qwen_home()),)}
    settings = home(tmp_path, line(1, "2026-10-01T10:20:00Z", 1000))
    both = replace(settings, demo_roots=settings.demo_roots | others)
    now = at("2026-10-01T11:00:00Z")

    assert {row["host"] for row in usage("host", settings=both).rows} == {"claude", "qwen_code"}
    assert {block.host for block in blocks(settings=both, now=now)} == {"claude"}
    alone = replace(both, demo_roots=others)
    assert blocks(settings=alone, now=now) == []
    assert "qwen" not in statusline(settings=alone, now=at("2026-03-04T10:30:00Z"))


@pytest.mark.feature("usage.statusline")
def test_the_status_line_tells_session_day_and_window(tmp_path: Path):
    settings = home(tmp_path, line(1, "2026-10-01T23:30:00Z", 40_000), line(2, "2026-10-02T00:30:00Z", 80_000))
    told = json.dumps({"model": {"display_name": "Opus\x1b[31m"}, "session_id": "11111111-1111-4111-8111-111111111111"})

    text = statusline(told, settings=settings, now=at("2026-10-02T01:00:00Z"))

    assert text == "Opus[31m | $3.00 session | $2.00 today | claude window $3.00, 3 h 00 min left, $3.00/h"
    assert statusline("not json", settings=settings, now=at("2026-10-09T00:00:00Z")) == "$0.00 today"


WORK = (
    line(1, "2026-10-01T10:00:00Z", 301, ("Bash", {"command": "cd x && pytest -q"}), ("mcp__tracker__get", {"id": 1})),
    line(2, "2026-10-01T10:01:00Z", 100, ("Skill", {"skill": "pdf"})),
    line(3, "2026-10-01T10:02:00Z", 7),
)


@pytest.mark.feature("usage.breakdown")
@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("tool", {"Bash": (151, 1), "mcp__tracker__get": (150, 1), "Skill": (100, 1), "(answer)": (7, 0)}),
        ("server", {"tracker": (301, 1), "(no MCP server)": (107, 0)}),
        ("skill", {"pdf": (100, 1), "(no skill)": (308, 0)}),
        ("command", {"pytest": (301, 1), "(no shell command)": (107, 0)}),
    ],
)
def test_tokens_are_shared_among_what_a_call_asked_for_with_and_without_a_store(tmp_path: Path, by: str, expected: dict[str, Any]):
    settings = home(tmp_path, *WORK)

    direct = usage(by, settings=settings)
    stored = usage(by, settings=ingested(settings), stored=True)

    assert {row[by]: (row["output_tokens"], row["uses"]) for row in direct.rows} == expected
    assert stored.rows == direct.rows


@pytest.mark.feature("usage.breakdown")
@pytest.mark.parametrize("by", sorted(name for name, grouping in GROUPINGS.items() if grouping.names))
def test_every_breakdown_adds_up_to_the_same_totals(homes: Settings, by: str):
    ingested(homes)

    assert usage(by, settings=homes).totals == usage("daily", settings=homes).totals
    assert usage(by, settings=without_store(homes)).rows == usage(by, settings=homes, stored=True).rows


@pytest.mark.feature("usage.by-thread")
def test_subagents_are_counted_apart_from_the_main_thread(tmp_path: Path):
    settings = home(tmp_path, line(1, "2026-10-01T10:00:00Z", 5))
    agents = tmp_path / "claude" / "projects" / "-work-a" / "11111111-1111-4111-8111-111111111111" / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-abc.jsonl").write_text(line(9, "2026-10-01T10:05:00Z", 11) + "\n")

    report = usage("thread", settings=settings)

    assert [(r["thread"], r["output_tokens"]) for r in report.rows] == [("main", 5), ("subagent", 11)]
    assert usage("thread", settings=ingested(settings), stored=True).rows == report.rows
