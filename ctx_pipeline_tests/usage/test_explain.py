"""``ctx explain``: every number down to file, bytes, copies and price; and what bare ``ctx`` shows."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from hashlib import sha512
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.errors import NothingFound, UnknownName
from ctx_pipeline.findings.evidence import quick_scan
from ctx_pipeline.findings.rules import overview
from ctx_pipeline.model.codec import micros
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.homes import usage_delta
from ctx_pipeline.usage.provenance import explain as explain_module
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline.usage.provenance.source_records import record_of
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.usage.conftest import ingested

PARENT, FORK = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def record(uuid: str, message: str, output: int, when: str = "2026-10-01T10:00:00Z", **more: Any) -> str:
    usage = {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 1000}
    body = {"id": message, "role": "assistant", "model": "claude-opus-4-5-20251101", "content": [], "usage": usage}
    return json.dumps({"type": "assistant", "uuid": uuid, "timestamp": when, "sessionId": "s", "cwd": "/code/a", "message": body, **more})


@pytest.fixture
def forked(tmp_path: Path) -> Settings:
    """A streamed message of three lines, its copy in a fork, and a call that only the fork made."""
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    (folder / f"{PARENT}.jsonl").write_text("".join(f"{record(f'u{n}', 'msg_streamed', n * 4)}\n" for n in (1, 2, 3)))
    copy = record("u3", "msg_streamed", 12, forkedFrom={"sessionId": PARENT})
    own = record("f1", "msg_own", 50, "2026-10-02T10:00:00Z", forkedFrom={"sessionId": PARENT})
    (folder / f"{FORK}.jsonl").write_text(f"{copy}\n{own}\n")
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})


@pytest.mark.feature("explain.dropped")
@pytest.mark.feature("explain.number")
@pytest.mark.feature("explain.fork")
@pytest.mark.feature("explain.streamed")
@pytest.mark.parametrize("with_store", [False, True])
def test_a_streamed_message_with_a_copy_is_one_call_with_its_lines_bytes_and_the_rule(forked: Settings, with_store: bool):
    if with_store:
        ingested(forked)
    path = forked.demo_roots["claude"][0] / "projects" / "-work-a" / f"{PARENT}.jsonl"
    text = path.read_bytes()

    (made,) = explain("msg_streamed", settings=forked).calls
    told = made.to_json()

    assert (told["session_id"], told["output_tokens"], told["cache_read_tokens"]) == (PARENT, 12, 1000)
    assert (told["source"]["file"], told["source"]["line"]) == (str(path), 2)
    assert json.loads(text[told["source"]["start"] : told["source"]["end"]])["message"]["usage"]["output_tokens"] == 12
    assert [spot["line"] for spot in told["lines"]] == [0, 1, 2]
    (copy,) = told["copies"]
    assert copy["session_id"] == FORK
    assert copy["source"]["file"].endswith(f"{FORK}.jsonl")
    assert "parent" in copy["rule"]


@pytest.mark.feature("explain.streamed")
def test_a_record_that_answers_a_call_without_an_id_is_no_line_of_it(tmp_path: Path):
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    first = json.loads(record("0000-first", "m", 3))
    del first["message"]["id"]
    answer = {"type": "user", "uuid": "u2", "parentUuid": "0000-first", "message": {"role": "user", "content": "thanks"}}
    (folder / f"{PARENT}.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(answer)}\n")
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})

    (made,) = explain("0000-first", settings=settings).calls

    assert [spot["line"] for spot in made.to_json()["lines"]] == [0]


@pytest.mark.feature("explain.price")
def test_the_price_is_named_with_its_source_and_makes_the_cost(forked: Settings):
    (made,) = explain("msg_own", settings=forked).calls
    told = made.to_json()

    # 3 in at 5, 50 out at 25, 1000 read at 0.50 dollars a million
    assert told["calculated_usd"] == pytest.approx(0.001765)
    assert told["price"]["model"] == "claude-opus-4-5"
    assert told["price"]["source"].startswith("genai-prices")


@pytest.mark.feature("explain.numbers")
@pytest.mark.parametrize(
    ("what", "kind", "output", "copies"),
    [
        ("2026-10-01", "day", 12, 1),
        ("2026-10-02", "day", 50, 0),
        ("2026-10", "month", 62, 1),
        (PARENT, "session", 12, 1),
        ("2222", "session", 50, 0),
        ("claude-opus-4-5-20251101", "model", 62, 1),
        ("a", "project", 62, 1),
    ],
)
def test_a_day_session_model_or_project_is_the_sum_of_its_calls(forked: Settings, what: str, kind: str, output: int, copies: int):
    found = explain(what, settings=forked)

    assert (found.kind, found.totals["output_tokens"], found.totals["copies_dropped"]) == (kind, output, copies)
    assert sum(c.to_json()["output_tokens"] for c in found.calls) == output


@pytest.mark.feature("explain.dropped")
@pytest.mark.feature("explain.number")
@pytest.mark.parametrize("newer", [False, True])
def test_what_one_day_or_session_is_made_of_is_read_from_its_sessions_and_those_that_share_calls_with_them(
    forked: Settings, monkeypatch: pytest.MonkeyPatch, newer: bool
):
    folder = forked.demo_roots["claude"][0] / "projects" / "-work-a"
    other = "44444444-4444-4444-8444-444444444444"
    (folder / f"{other}.jsonl").write_text(record("o1", "msg_other", 7, "2026-09-01T10:00:00Z") + "\n")
    ingested(forked)
    if newer:
        copy = record("u3", "msg_streamed", 12, forkedFrom={"sessionId": PARENT})
        (folder / "33333333-3333-4333-8333-333333333333.jsonl").write_text(copy + "\n")
    read: list[set[tuple[str, str]] | None] = []
    stored_calls = usage_delta.stored_calls

    def noted(store: Any, sessions: set[tuple[str, str]] | None = None) -> Any:
        read.append(sessions)
        return stored_calls(store, sessions)

    asked = ("2026-10-01", "2026-10-02", "2026-09", PARENT, FORK, other)
    monkeypatch.setattr(usage_delta, "stored_calls", noted)
    few = [explain(what, settings=forked).to_json() for what in asked]
    both = {("claude", PARENT), ("claude", FORK)}
    assert [one for one in read if one != {("claude", PARENT)}] == [
        both,
        {("claude", FORK)},
        {("claude", other)},
        both,
        both,
        {("claude", other)},
    ]
    assert [len(told["calls"][0]["copies"]) for told in few] == [1 + newer, 0, 0, 1 + newer, 0, 0]
    monkeypatch.setattr(explain_module, "_about", lambda *_: None)
    assert [explain(what, settings=forked).to_json() for what in asked] == few


@pytest.mark.feature("explain.numbers")
def test_a_name_that_nothing_has_is_not_found(forked: Settings):
    with pytest.raises(NothingFound, match="nothing matches"):
        explain("nowhere", settings=forked)
    with pytest.raises(NothingFound, match="nothing matches the thread"):
        explain(PARENT, by="thread", settings=forked)


@pytest.mark.feature("explain.numbers")
def test_a_session_without_a_model_call_is_said_to_have_none(forked: Settings):
    silent = "33333333-3333-4333-8333-333333333333"
    home = claude.ClaudeHome(forked.demo_roots["claude"][0])
    home.session(silent).prompt("hello").save()
    ingested(forked)
    for name in (silent, silent[:8], f"claude/{silent}"):
        with pytest.raises(NothingFound, match=f"the session {silent} has no model call\n") as said:
            explain(name, settings=forked)
        assert said.value.hint == f"what is recorded of it: ctx show {silent}"
    with pytest.raises(NothingFound, match="nothing matches"):
        explain(silent, host="codex", settings=forked)
    with pytest.raises(NothingFound, match="nothing matches the day, session, thread, model, project or call '33333'"):
        explain(silent[:5], settings=forked)
    with pytest.raises(NothingFound, match=f"the session {silent} has no model call\n"):
        explain(silent[:5], by="session", settings=forked)
    with pytest.raises(NothingFound, match=f"the session {PARENT} has no model call that fits"):
        explain(PARENT, since="2030-01-01", settings=forked)


@pytest.mark.feature("explain.numbers")
def test_a_short_whole_id_of_a_session_without_a_model_call_is_one(forked: Settings):
    home = claude.ClaudeHome(forked.demo_roots["claude"][0])
    for name in ("abcde", "abcde-more"):
        home.session(name).prompt("hello").save()
    ingested(forked)
    with pytest.raises(NothingFound, match="the session abcde has no model call\n"):
        explain("abcde", settings=forked)


@pytest.mark.feature("explain.dropped")
def test_a_session_of_copies_alone_says_whose_they_are(forked: Settings):
    path = forked.demo_roots["claude"][0] / "projects" / "-work-a" / "33333333-3333-4333-8333-333333333333.jsonl"
    path.write_text(record("u3", "msg_streamed", 12, forkedFrom={"sessionId": PARENT}) + "\n")

    with pytest.raises(NothingFound, match=f"no call of its own: its 1 call is a copy and counts for {PARENT}"):
        explain("33333333", settings=forked)


@pytest.mark.feature("explain.cell")
def test_an_event_of_a_table_leads_to_the_bytes_of_its_record(tmp_path: Path):
    secret = "sk-ant-api03-" + sha512(b"a key of nobody").hexdigest()[:96]
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    prompt = {"type": "user", "uuid": "u0", "timestamp": "2026-10-01T09:00:00Z", "message": {"role": "user", "content": f"use {secret}"}}
    path = folder / f"{PARENT}.jsonl"
    path.write_text(f"{record('u1', 'msg_1', 4)}\n{json.dumps(prompt)}\n")
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    with open_store(settings, read_only=True) as store:
        (event,) = [r for r in store.lake.read_rows("events", store.ledger.cells()[0]) if r.kind == "prompt"]

    found = record_of(event.event_id, settings=settings)

    assert (found.file, found.line, found.session_id) == (str(path), 1, PARENT)
    assert json.loads(path.read_bytes()[found.start : found.end])["uuid"] == "u0"
    assert (settings.home / found.raw).is_file()
    assert (secret in found.text, "REDACTED" in found.text) == (False, True)
    with pytest.raises(UnknownName):
        record_of("0123456789abcdef.0.0.0", settings=settings)
    with pytest.raises(UnknownName):
        record_of(event.event_id.replace(".1.0", ".77.0"), settings=settings)


@pytest.mark.feature("cli.overview-future")
def test_a_clock_of_next_year_is_not_last_week(forked: Settings):
    path = forked.demo_roots["claude"][0] / "projects" / "-work-a" / "44444444-4444-4444-8444-444444444444.jsonl"
    path.write_text(record("z1", "msg_future", 9, "2027-10-01T10:00:00Z") + "\n")

    shown = overview(settings=forked, now=micros("2026-10-08T12:00:00Z"))

    assert [r["date"] for r in shown.usage.rows] == ["2026-10-02"]


@pytest.fixture
def chatty(tmp_path: Path) -> Settings:
    """A session whose window is mostly tool output that sixty calls send again, with a secret in it."""
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    secret = "sk-ant-api03-" + sha512(b"a key of nobody").hexdigest()[:96]
    output = f"key {secret} " + "x" * 40_000
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output}
    asked = {"id": "m1", "role": "assistant", "model": "claude-opus-4-5-20251101", "usage": {"input_tokens": 0, "output_tokens": 1}}
    asked["content"] = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat x"}}]
    again = {**asked, "id": "m2", "content": [{"type": "text", "text": "ok"}]}
    again["usage"] = {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 20_000}
    lines = [
        {"type": "assistant", "uuid": "u1", "timestamp": "2026-10-01T10:00:00Z", "cwd": "/code/a", "message": asked},
        {"type": "user", "uuid": "u2", "timestamp": "2026-10-01T10:00:01Z", "message": {"role": "user", "content": [result]}},
        *(
            {"type": "assistant", "uuid": f"u{n}", "timestamp": f"2026-10-01T10:01:{n - 3:02}Z", "message": {**again, "id": f"m{n}"}}
            for n in range(3, 63)
        ),
    ]
    (folder / f"{PARENT}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})


@pytest.mark.feature("cli.overview-findings")
def test_tool_output_that_was_sent_again_and_secrets_are_findings_before_any_run(chatty: Settings):
    seen = quick_scan(chatty)
    shown = overview(settings=chatty, now=micros("2026-10-02T00:00:00Z"))
    texts = [f.text for f in shown.findings]

    # 40,111 characters are about 10,028 of the 20,000 tokens that each call reads for a cent; one output token costs 0.0025 cents
    assert (seen.cost_nano, seen.tool_output_nano) == (600_025_000, pytest.approx(300_840_000, rel=0.001))
    assert dict(seen.secrets) == {"anthropic-key": 1}
    assert [f.text[:69] for f in shown.quiet] == ["1 secret in plain text in the newest 1 transcript: anthropic-key 1. R"]
    assert any(text.startswith("About 50% of what the newest session cost, $0.30, was tool output sent again") for text in texts)
    assert not any("a1B2" in text for text in texts)


@pytest.mark.feature("cli.overview-findings")
def test_a_compaction_empties_the_window_of_tool_output(chatty: Settings):
    path = chatty.demo_roots["claude"][0] / "projects" / "-work-a" / f"{PARENT}.jsonl"
    lines = path.read_text().splitlines()
    compact = {"type": "system", "subtype": "compact_boundary", "uuid": "c1", "timestamp": "2026-10-01T10:00:01Z", "content": "compacted"}
    path.write_text("\n".join([*lines[:2], json.dumps(compact), lines[2], ""]))

    assert quick_scan(chatty).tool_output_nano == 0


@pytest.mark.feature("cli.overview-findings")
def test_with_a_store_only_what_it_has_not_captured_is_about_to_go(chatty: Settings):
    ingested(chatty)
    late = chatty.demo_roots["claude"][0] / "projects" / "-work-a" / f"{FORK}.jsonl"
    late.write_text(record("q1", "msg_q", 1) + "\n")
    for path in (late, late.with_name(f"{PARENT}.jsonl")):
        os.utime(path, (1_790_000_000, 1_790_000_000))

    findings = overview(settings=chatty, now=(1_790_000_000 + 27 * 86_400) * 1_000_000).findings

    assert findings[0].text.startswith("Claude Code deletes transcripts after 30 days: 1 in ")


@pytest.mark.feature("cli.overview")
@pytest.mark.parametrize("with_store", [False, True])
def test_bare_ctx_shows_the_last_seven_days_and_findings_with_commands(forked: Settings, with_store: bool):
    if with_store:
        ingested(forked)
    now = micros("2026-10-08T12:00:00Z")

    shown = overview(settings=forked, now=now)

    assert [(r["date"], r["output_tokens"]) for r in shown.usage.rows] == [("2026-10-02", 50)]
    # 1,000 of this call's tokens were read from the cache, 28% of its 0.001765 dollars: too little money for a finding
    assert (shown.findings, shown.of_all) == ([], True)


@pytest.mark.feature("explain.long-prompts")
def test_a_day_names_what_prompts_above_the_size_of_a_higher_price_cost_more(tmp_path: Path):
    home = claude.ClaudeHome(tmp_path / "claude")
    main = home.session()
    main.prompt("go")
    main.answer(claude.text("short"), usages=[claude.usage(100, 1_000, read=100_000)])
    main.answer(claude.text("long"), usages=[claude.usage(100, 1_000, read=300_000)])
    main.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))

    [told] = explain("2026-03-05", settings=settings).totals["long_prompts"]
    # claude-sonnet-4-5: $3, $15 and $0.30 a million tokens, above 200,000 of the prompt $6, $22.50 and $0.60
    dear, usual = 100 * 6 + 1_000 * 22.5 + 300_000 * 0.6, 100 * 3 + 1_000 * 15 + 300_000 * 0.3
    assert (told["over_tokens"], told["calls"]) == (200_000, 1)
    assert (told["calculated_usd"], told["extra_usd"]) == pytest.approx((dear / 1e6, (dear - usual) / 1e6))
    environ = {"CTX_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "TZ": "UTC"}
    printed = CliRunner().invoke(cli, ["explain", "2026-03-05"], env=environ).stdout
    assert "\n1 call with a prompt over 200,000 tokens: $0.20 at list price, $0.10 of it because the price is higher there\n" in printed


@pytest.mark.feature("explain.streams")
def test_a_month_says_what_was_paid_for_and_how_it_compares_with_the_months_before(tmp_path: Path):
    home = claude.ClaudeHome(tmp_path / "claude")
    for number, (month, fresh) in enumerate([(3, 1_000), (5, 3_000), (6, 8_000)]):
        started = datetime(2026, month, 5, 10, tzinfo=UTC)
        one = home.session(f"{number:08d}-0000-4000-8000-000000000001", mark=f"m{number}", started=started)
        one.prompt("go").answer(claude.text("ok"), usages=[claude.usage(fresh, 100, written=2_000, read=10_000)]).save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))

    june, may = (explain(month, settings=settings).to_json() for month in ("2026-06", "2026-05"))
    # claude-sonnet-4-5: $3, $15, $3.75 (written for five minutes) and $0.30 a million tokens
    paid = {name: round(stream["cost_usd"] * 1e6) for name, stream in june["streams"].items()}
    assert paid == {"input": 24_000, "cache_write": 7_500, "cache_read": 3_000, "output": 1_500}
    assert sum(paid.values()) == round(june["totals"]["cost_usd"] * 1e6)
    usual = june["usual"]
    assert (usual["periods"], usual["calls"], usual["tokens"]) == (
        2,
        1,
        {"input": 2_000, "cache_write": 2_000, "cache_read": 10_000, "output": 100},
    )
    assert round(usual["cost_usd"] * 1e6) == 18_000
    assert explain("2026-06-01", by="monthly", settings=settings).to_json()["usual"] == usual, "a row by its first day"
    assert may["usual"] is None
    assert "usual" not in explain("2026-06-05", settings=settings).to_json()
    environ = {"CTX_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "TZ": "UTC"}
    shown, before = (CliRunner().invoke(cli, ["explain", month], env=environ).stdout for month in ("2026-06", "2026-05"))
    assert re.search(r"\ninput +8,000 +\$0\.024000 +67% +2,000\n", shown)
    assert "a usual month costs $0.018000 in 1 call (mean of 2 of the 6 before); this one is 2.0 times that\n" in shown
    assert "no usual month to compare with: fewer than 2 of the 6 before had calls" in before
    weeks = [explain(week, settings=settings).to_json()["usual"] for week in ("2026-W23", "2026-W10")]
    assert weeks == [None, None], "one of the eight weeks before had a call"


@pytest.mark.feature("explain.light")
def test_a_month_is_told_without_making_a_record_of_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    lines = [record(f"u{n}", f"msg_{n}", n, f"2026-10-{1 + n % 9:02d}T10:00:00Z") for n in range(40)]
    (folder / f"{PARENT}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    made: list[str] = []
    whole = explain_module.Made.to_json
    monkeypatch.setattr(explain_module.Made, "to_json", lambda one: made.append(one.session[1]) or whole(one))

    told = CliRunner().invoke(cli, ["explain", "2026-10", "--limit", "3", "--timezone", "UTC"])

    assert told.exit_code == 0, told.output
    assert "month 2026-10: 40 calls" in told.output
    assert "most of it on: 2026-10-0" in told.output
    assert len(made) <= 3
