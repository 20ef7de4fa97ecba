"""Limits that were reached, plans, what the cache did, and what the money came to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.homes.live_usage import plans
from ctx_pipeline.usage.limits import by_limit, outcomes, reached
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.usage.conftest import ingested, without_store

NOBODY = "/home/dev/nowhere"


def chosen(tmp_path: Path, **config: object) -> Settings:
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots=roots, config=config)


def limit(used: float, resets_at: int, minutes: int = 300, plan: str | None = None) -> dict[str, object]:
    return {"primary": {"used_percent": used, "window_minutes": minutes, "resets_at": resets_at}, "secondary": None, "plan_type": plan}


def noon(seconds: float) -> int:
    return int((codex.BIRTH).timestamp() + seconds)


def failed(main: claude.Transcript, words: str) -> claude.Transcript:
    return main.answer(claude.text(words), isApiErrorMessage=True, model="<synthetic>", usages=[claude.usage(0, 0)])


@pytest.mark.feature("usage.rate-limits")
def test_a_limit_is_reached_once_until_it_resets_and_the_wait_ends_with_the_next_call(tmp_path: Path) -> None:
    def told(seconds: float, total: int, used: float) -> dict[str, object]:
        one = codex.usage(100, 0, 10)
        return codex.tokens(seconds, codex.usage(100 * total, 0, 10 * total), one, limit(used, noon(7200)))

    records = [codex.meta(), codex.context(1), codex.event(2, "user_message", message="what is a rate limit? I hit your usage limit")]
    records += [told(60, 1, 80.0), told(120, 2, 100.0), told(180, 2, 100.5), told(7300, 3, 3.0)]
    codex.write(tmp_path / "codex", records)

    [one] = reached(settings=ingested(chosen(tmp_path)))

    assert (one.host, one.kind, one.name, one.records) == ("codex", "plan", "five-hour", 2)
    assert (iso(one.first), iso(one.resets_at)) == ("2026-03-01T12:02:00.000000Z", "2026-03-01T14:00:00.000000Z")
    assert one.to_json()["waited_minutes"] == 118.0  # until it reset; the next call came 100 seconds later
    assert (one.sessions, one.projects, one.calls) == ([codex.THREAD], ["app"], 0)


@pytest.mark.feature("usage.rate-limits")
def test_work_that_goes_on_behind_a_limit_is_no_wait(tmp_path: Path) -> None:
    records = [codex.meta(), codex.context(1), codex.event(2, "user_message", message="go")]
    for number, (second, used) in enumerate(((60, 95.0), (660, 100.0), (1260, 100.5), (4000, 101.0), (9000, 1.0)), 1):
        total = codex.usage(100 * number, 0, 10 * number)
        records.append(codex.tokens(second, total, codex.usage(100, 0, 10), limit(used, noon(7200))))
    codex.write(tmp_path / "codex", records)

    [found] = reached(settings=ingested(chosen(tmp_path)))

    assert (iso(found.first), found.records) == ("2026-03-01T12:11:00.000000Z", 3)
    assert (found.to_json()["waited_minutes"], found.calls) == (round(3200 / 60, 1), 2)


@pytest.mark.feature("usage.rate-limits")
def test_errors_of_the_client_tell_which_limit_and_when_it_resets(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("implement rate limit middleware: 5-hour limit reached should say 429")
    failed(main, "Claude AI usage limit reached|1772712000")
    failed(main, "You've hit your weekly limit · resets Mar 9, 5am")
    failed(main, 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error"}}')
    failed(main, "API Error: 529 overloaded")
    main.call("t1", "Bash", "usage limit reached", is_error=True, command="grep limit").save()

    found = reached(settings=ingested(chosen(tmp_path)))

    assert [(r.kind, r.name, iso(r.resets_at)) for r in found] == [
        ("plan", "weekly", "2026-03-05T12:00:00.000000Z"),
        ("requests", "", None),
    ]
    assert [(line["name"], line["times"]) for line in by_limit(found)] == [("weekly", 1), ("", 1)]


@pytest.mark.feature("usage.rate-limits")
def test_limits_reached_on_other_days_or_by_name_are_told_apart(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    home = claude.ClaudeHome(tmp_path / "claude")
    for number, day in enumerate((1, 2, 2)):
        begin = datetime(2026, 3, day, 9 + number * 3, tzinfo=UTC)
        main = home.session(f"{number:08d}-1111-4111-8111-111111111111", mark=f"m{number}", started=begin)
        failed(main.prompt("go"), "5-hour limit reached ∙ resets 3pm").save()
    settings = ingested(chosen(tmp_path))

    assert len(reached(settings=settings)) == 3
    assert [iso(r.first) for r in reached(settings=settings, since="2026-03-02", until="2026-03-02")] == [
        "2026-03-02T12:00:01.000000Z",
        "2026-03-02T15:00:01.000000Z",
    ]
    assert reached(settings=settings, host="codex") == []


@pytest.mark.feature("pricing.plan-note")
def test_calls_on_a_flat_plan_are_marked_as_list_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total = codex.usage(100, 0, 10)
    codex.write(tmp_path / "codex", [codex.meta(), codex.context(1), codex.tokens(2, total, total, limit(1.0, noon(60), plan="pro"))])
    claude.ClaudeHome(tmp_path / "claude").session().prompt("hi").answer(claude.text("hello")).save()

    assert plans({"claude", "codex"}, settings=chosen(tmp_path)) == {"codex": "pro"}
    assert plans({"claude"}, settings=chosen(tmp_path)) == {}
    assert plans({"codex"}, recorded=False, settings=chosen(tmp_path)) == {}
    assert plans({"claude", "codex"}, settings=chosen(tmp_path, plans={"claude": "max", "codex": ""})) == {"claude": "max"}
    assert plans({"claude"}, settings=chosen(tmp_path, plans={"cc": "max"})) == {"claude": "max"}
    with pytest.raises(SettingsError, match="plans"):
        plans({"claude"}, settings=chosen(tmp_path, plans=["max"]))

    from ctx_pipeline.cli import cli

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    printed = CliRunner().invoke(cli, ["usage", "model"]).stdout
    assert "codex is used on a flat plan (pro): its cost is what these calls would cost at list prices" in printed
    assert "claude is used" not in printed
    explained = CliRunner().invoke(cli, ["explain", "2026-03"]).stdout
    assert "codex is used on a flat plan (pro)" in " ".join(explained.split())
    assert json.loads(CliRunner().invoke(cli, ["usage", "model", "--json"]).stdout)["plans"] == {"codex": "pro"}


def cached_home(tmp_path: Path) -> Settings:
    main = claude.ClaudeHome(tmp_path / "claude").session(cwd=NOBODY)
    main.prompt("go")
    main.answer(claude.text("a"), usages=[claude.usage(0, 10, written=10_000)])
    main.answer(claude.text("b"), usages=[claude.usage(0, 10, written=1_000, read=10_000)])
    main.answer(claude.text("c"), usages=[claude.usage(0, 10, written=4_000, hour=4_000, read=1_000)])
    main.answer(claude.text("d"), usages=[claude.usage(500, 10, read=5_000)], model="nobody-knows-it")
    main.save()
    return chosen(tmp_path)


@pytest.mark.feature("usage.cache-efficiency")
@pytest.mark.parametrize("by", ["daily", "weekly", "monthly", "session", "project", "model", "thread"])
@pytest.mark.parametrize("stored", [True, False])
def test_hits_rebuilds_and_savings_stand_beside_the_same_usage(tmp_path: Path, by: str, stored: bool) -> None:
    settings = ingested(cached_home(tmp_path)) if stored else without_store(cached_home(tmp_path))

    report, plain = usage(by, cache=True, settings=settings), usage(by, settings=settings)

    # three dollars a million: reads at a tenth save 2.70, five-minute writes cost 0.75 more, one-hour writes 3.00 more
    saved = 11_000 * 2_700 - 11_000 * 750 - 4_000 * 3_000
    assert (report.totals["cache_rebuilds"], report.totals["cache_saved_nano"]) == (1, saved)
    assert report.totals["cache_hit_share"] == round(16_000 / 31_500, 4)
    assert sum(row["cache_rebuilds"] for row in report.rows) == 1
    extra = {"cache_hit_share", "cache_rebuilds", "cache_saved_nano"}
    assert [{k: v for k, v in row.items() if k not in extra} for row in report.rows] == plain.rows


@pytest.mark.feature("usage.cache-efficiency")
def test_the_report_adds_up_what_the_signals_say(tmp_path: Path) -> None:
    settings = ingested(cached_home(tmp_path))
    with open_store(settings) as store:
        measure(store, settings, families=["context_cache"])
        rows = [r for cell in store.ledger.cells() for r in store.lake.read_rows("readings", cell, "signals/context_cache")]
    said = {r.signal: r.value for r in rows}

    totals = usage("daily", cache=True, settings=settings).to_json()["totals"]

    assert totals["cache_rebuilds"] == said["cache_rebuild_count"]
    assert totals["cache_saved_usd"] == pytest.approx(said["cache_saved_cost"])
    assert totals["cache_hit_share"] == round(said["cache_hit_share"], 4)


@pytest.mark.feature("usage.cache-efficiency")
def test_filters_choose_what_the_cache_did_as_well(tmp_path: Path) -> None:
    settings = ingested(cached_home(tmp_path))

    assert usage("daily", cache=True, settings=settings, model="nobody-knows-it").totals["cache_saved_nano"] == 0
    assert usage("daily", cache=True, settings=settings, until="2026-01-01").totals["cache_rebuilds"] == 0
    assert usage("model", cache=True, settings=settings, project="nowhere").totals["cache_rebuilds"] == 1


def worked(tmp_path: Path) -> Settings:
    home = claude.ClaudeHome(tmp_path / "claude")
    first = home.session(cwd=f"{NOBODY}/shop")
    first.prompt("mend it").answer(claude.text("a"), usages=[claude.usage(1_000_000, 0)])
    done = {"stdout": "x", "stderr": "", "interrupted": False}
    first.call("t1", "Bash", "ok", structured=done, command="cd src && git commit -m 'mend it' && git push")
    first.call("t2", "Bash", "Exit code 1\nnothing", is_error=True, command="git commit -m again")
    first.call("t3", "Bash", "ok", structured=done, command="git log --grep commit; git commit --dry-run")
    first.call("t4", "Bash", "ok", structured=done, command="git -C /x commit -am two")
    first.prompt("no, that's wrong. use tabs instead").answer(claude.text("b"), usages=[claude.usage(1_000_000, 0)]).save()
    home.session("22222222-2222-4222-8222-222222222222", cwd=f"{NOBODY}/site").prompt("hello").answer(
        claude.text("a"), usages=[claude.usage(2_000_000, 0)]
    ).save()
    return chosen(tmp_path)


@pytest.mark.feature("usage.per-commit")
def test_money_and_tokens_are_told_per_commit_per_correction_and_per_tool_call(tmp_path: Path) -> None:
    settings = ingested(worked(tmp_path))
    with open_store(settings) as store:
        measure(store, settings, families=["outcomes", "git_outcome"])

    rows, everything = outcomes("project", settings=settings)

    by_name = {one.key: one.to_json("project") for one in rows}
    spent = usage("session", settings=settings).totals
    assert (by_name["shop"]["commits"], by_name["shop"]["corrections"], by_name["shop"]["tool_calls"]) == (2, 1, 4)
    assert by_name["shop"]["usd_per_commit"] == pytest.approx(by_name["shop"]["cost_usd"] / 2)
    assert by_name["shop"]["tokens_per_tool_call"] == pytest.approx(by_name["shop"]["total_tokens"] / 4)
    assert (by_name["site"]["commits"], by_name["site"]["usd_per_commit"], by_name["site"]["tool_calls"]) == (0, None, 0)
    assert everything.cost_nano == spent["cost_nano"] == sum(one.cost_nano for one in rows)
    assert everything.per("commits") == (everything.tokens / 2, everything.cost_nano / 2)


@pytest.mark.feature("usage.per-commit")
def test_what_was_not_measured_yet_is_no_part_of_its_figure(tmp_path: Path) -> None:
    _, everything = outcomes("host", settings=ingested(worked(tmp_path)))

    assert everything.per("corrections") is None
    assert everything.known["corrections"] == [0, 0, 0]
    assert everything.known["commits"][0] == 2


@pytest.mark.feature("usage.outcomes-by-model")
def test_a_session_counts_for_the_model_that_cost_most_and_hosts_stay_apart(tmp_path: Path) -> None:
    dear, cheap = "claude-opus-4-1-20250805", "claude-haiku-4-5-20251001"
    home = claude.ClaudeHome(tmp_path / "claude")
    for number, models in enumerate([(dear, cheap), (cheap,), (cheap,)], 1):
        session = home.session(f"{number}0000000-0000-4000-8000-000000000000", cwd=f"{NOBODY}/shop").prompt("mend it")
        for model in models:
            session.answer(claude.text("a"), model=model, usages=[claude.usage(1_000_000, 0)])
        session.save()

    rows, everything = outcomes("model", settings=ingested(chosen(tmp_path)))

    assert [(one.key, one.host, one.sessions) for one in rows] == [(dear, "claude", 1), (cheap, "claude", 2)]
    # a million tokens in: 15 dollars, 1 dollar
    assert [one.to_json("model")["usd_per_session"] for one in rows] == [16, 1]
    assert everything.to_json("model")["usd_per_session"] == 6


@pytest.mark.feature("normalize.skills")
def test_the_skill_the_plug_in_and_the_server_behind_a_call_are_known(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("go")
    main.answer(claude.tool_use("t1", "Skill", skill="superpowers:brainstorming"), usages=[claude.usage(10, 0)])
    main.answer(claude.tool_use("t2", "mcp__plugin_context7_docs__query", q="x"), usages=[claude.usage(20, 0)])
    main.answer(claude.tool_use("t3", "Bash", command="cat ~/.codex/skills/.system/yeet/SKILL.md"), usages=[claude.usage(40, 0)])
    main.answer(claude.tool_use("t4", "mcp__linear__list", q="x"), usages=[claude.usage(80, 0)])
    for work in (
        "git add .claude/skills/pdf/SKILL.md",
        "cat plugins/x/skills/pdf/SKILL.md",
        "cat ~/.codex/worktrees/1/a/skills/pdf/SKILL.md",
    ):
        main.answer(claude.tool_use(f"t-{work}", "Bash", command=work), usages=[claude.usage(0, 1)])
    main.save()

    def by(name: str, settings: Settings) -> dict[str, tuple[int, int]]:
        return {row[name]: (row["uses"], row["input_tokens"]) for row in usage(name, settings=settings).rows}

    for settings in (ingested(chosen(tmp_path)), without_store(chosen(tmp_path))):
        assert by("plugin", settings) == {"superpowers": (1, 10), "context7": (1, 20), "(no plug-in)": (0, 120)}
        assert by("skill", settings) == {"superpowers:brainstorming": (1, 10), "yeet": (1, 40), "(no skill)": (0, 100)}
        assert by("server", settings)["linear"] == (1, 80)


@pytest.mark.feature("work.copies")
def test_commits_and_corrections_that_a_copy_repeats_count_for_its_origin(tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    done = {"stdout": "ok", "stderr": "", "interrupted": False}
    origin = home.session("10000000-1111-4111-8111-111111111111").prompt("mend it")
    origin.call("t1", "Bash", "ok", structured=done, command="git commit -m one").prompt("no, that is wrong")
    origin.call("t2", "Bash", "ok", structured=done, command="git commit -m two")
    shared = list(origin.records)
    origin.call("t4", "Bash", "ok", structured=done, command="git commit -m own").save()
    copy = home.session("20000000-1111-4111-8111-111111111111")
    copy.records = [record | {"sessionId": copy.session_id} for record in shared]
    copy.prompt("no, use the other one instead").call("t3", "Bash", "ok", structured=done, command="git commit -m three").save()
    settings = ingested(chosen(tmp_path))
    with open_store(settings) as store:
        measure(store, settings=settings)

    sessions, total = outcomes("session", settings=settings)

    assert {one.key[0]: (one.units["commits"], one.units["corrections"]) for one in sessions} == {"1": (3, 1), "2": (1, 1)}
    assert (total.units["commits"], total.units["corrections"]) == (4, 2)
