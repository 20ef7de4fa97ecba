"""Usage from the homes, from the tables, and from both: the same to the last token."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreDamaged
from ctx_pipeline.findings.evidence import history
from ctx_pipeline.findings.rules import overview
from ctx_pipeline.model.raw import SessionInput
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import usage_sql
from ctx_pipeline.usage import folded_homes
from ctx_pipeline.usage.blocks import blocks
from ctx_pipeline.usage.engine import calls, calls_for, parse_filters, usage
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.homes import two_processes
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories import traps
from ctx_pipeline_tests.usage.conftest import ingested, without_store

PLACES = {"start", "end", "line"}


def answer(uuid: str, at: str, output: int, message: str, cached: int = 1000) -> str:
    return json.dumps(
        {
            "type": "assistant",
            "uuid": uuid,
            "timestamp": at,
            "sessionId": "s",
            "cwd": "/code/shop",
            "message": {
                "id": message,
                "role": "assistant",
                "model": "claude-opus-4-5-20251101",
                "content": [{"type": "text", "text": "ok"}],
                "usage": {"input_tokens": 10, "output_tokens": output, "cache_read_input_tokens": cached},
            },
        }
    )


@pytest.fixture
def one(tmp_path: Path) -> Settings:
    """A home with one session of two calls: 5 and 7 tokens out."""
    folder = tmp_path / "claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    lines = [answer("u1", "2026-10-01T10:00:00Z", 5, "m1"), answer("u2", "2026-10-02T10:00:00Z", 7, "m2")]
    (folder / "11111111-1111-4111-8111-111111111111.jsonl").write_text("\n".join(lines) + "\n")
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)})


def transcripts(settings: Settings) -> Path:
    return settings.demo_roots["claude"][0] / "projects" / "-work-shop"


@pytest.mark.feature("usage.without-store")
@pytest.mark.parametrize("by", sorted(name for name, grouping in GROUPINGS.items() if not grouping.names))
def test_the_homes_and_the_tables_agree_to_the_token_and_the_nano_dollar(homes: Settings, by: str):
    before = usage(by, settings=without_store(homes))
    after = usage(by, settings=ingested(homes), stored=True)

    assert before.totals["calls"] > 20
    assert before.rows == after.rows
    assert before.totals == after.totals
    assert (before.source, after.source) == ("homes", "stored")


@corpus
@pytest.mark.feature("usage.without-store")
def test_both_ways_agree_on_every_published_session(tmp_path: Path):
    settings = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (CORPUS / "claude",), "codex": (CORPUS / "codex",)})
    ingested(settings)
    for by in GROUPINGS:
        direct, stored = usage(by, settings=without_store(settings)), usage(by, settings=settings, stored=True)
        assert direct.rows == stored.rows, by


@pytest.mark.feature("usage.little-memory")
def test_only_sessions_that_may_share_a_call_are_read_twice_and_no_other_keeps_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    traps.write(tmp_path / "claude", tmp_path / "codex")
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    chosen = Settings(home=tmp_path / "none", timezone="UTC", demo_roots=roots)
    expected = usage("session", settings=chosen)
    todo = live.sessions(live.sources(chosen), chosen)
    counted = live.read(todo)
    holders: dict[tuple[str, str], set[str]] = {}
    for one in counted:
        for row in one.calls:
            if row[live.OWNER]:
                holders.setdefault((one.host, row[live.KEY]), set()).add(one.session_id)
    copies = {(host, session) for (host, _), group in holders.items() if len(group) > 1 for session in group}
    read: list[list[tuple[str, str]]] = []
    whole = live.read
    monkeypatch.setattr(live, "read", lambda some, **how: read.append([(s.host, s.session_id) for s in some]) or whole(some, **how))
    monkeypatch.setattr(two_processes.threading, "active_count", lambda: 1)
    for at_once, two in ((folded_homes._AT_ONCE, two_processes._TWO), (1, 0)):
        monkeypatch.setattr(folded_homes, "_AT_ONCE", at_once)
        monkeypatch.setattr(two_processes, "_TWO", two)
        read.clear()
        assert usage("session", settings=chosen).rows == expected.rows
        (again,) = read
        assert copies
        assert copies <= set(again)
        assert len(again) < len(todo)


@pytest.mark.feature("usage.little-memory")
def test_windows_and_what_the_cache_did_hold_the_rows_of_sessions_alone_that_may_share_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    traps.write(tmp_path / "claude", tmp_path / "codex")
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    chosen = Settings(home=tmp_path / "none", timezone="UTC", demo_roots=roots)
    everything = calls(chosen)
    expected = usage("session", cache=True, read=(everything, {}), settings=chosen), blocks(owned=everything.owned, settings=chosen, now=0)
    read: list[int] = []
    whole = live.read
    monkeypatch.setattr(live, "read", lambda some, **how: read.append(len(some)) or whole(some, **how))
    monkeypatch.setattr(two_processes.threading, "active_count", lambda: 1)
    for two in (two_processes._TWO, 0):
        monkeypatch.setattr(two_processes, "_TWO", two)
        assert usage("session", cache=True, settings=chosen).rows == expected[0].rows
        assert [one.to_json(0) for one in blocks(settings=chosen, now=0)] == [one.to_json(0) for one in expected[1]]
        for by in ("tool", "command", "branch", "home"):
            assert usage(by, settings=chosen).rows == usage(by, read=calls_for(GROUPINGS[by], chosen), settings=chosen).rows, by
            read.pop()  # the calls that were all read, to compare
    assert {number < len(live.sessions(live.sources(chosen), chosen)) for number in read} == {True}
    assert any(row["cache_saved_nano"] for row in expected[0].rows)
    assert expected[1]


@pytest.mark.feature("usage.little-memory")
def test_bare_ctx_reads_the_homes_once_and_holds_the_rows_of_sessions_alone_that_may_share_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    traps.write(tmp_path / "claude", tmp_path / "codex")
    roots = {"claude": (tmp_path / "claude",), "codex": (tmp_path / "codex",)}
    chosen = Settings(home=tmp_path / "none", timezone="UTC", demo_roots=roots)
    known = {"session": usage("session", settings=chosen).by_session(), "model": usage("model", settings=chosen).rows}
    folds: list[int] = []
    read: list[int] = []
    fold, whole = folded_homes.fold_homes, live.read
    monkeypatch.setattr(folded_homes, "fold_homes", lambda todo, *given, **how: folds.append(len(todo)) or fold(todo, *given, **how))
    monkeypatch.setattr(live, "read", lambda some, **how: read.append(len(some)) or whole(some, **how))
    shown = overview(settings=chosen, now=0)
    assert shown.usage is not None
    (sessions,) = folds
    assert sum(number for number in read if number > 1) < sessions  # the newest are looked into one by one
    monkeypatch.undo()

    told = history(chosen, parse_filters(chosen), ())
    assert (told.spent, list(told.models)) == (known["session"], known["model"])
    assert (
        told.cache_read_nano == history(ingested(replace(chosen, home=tmp_path / "store")), parse_filters(chosen), ()).cache_read_nano > 0
    )


@pytest.mark.feature("usage.little-memory")
def test_a_store_that_was_opened_and_holds_nothing_yet_leaves_usage_to_the_homes(one: Settings, monkeypatch: pytest.MonkeyPatch):
    with open_store(one):
        pass
    folds: list[int] = []
    fold = folded_homes.fold_homes
    monkeypatch.setattr(folded_homes, "fold_homes", lambda todo, *given, **how: folds.append(len(todo)) or fold(todo, *given, **how))
    found = usage("daily", settings=one)
    assert (found.source, found.totals["output_tokens"], folds) == ("homes", 12, [1])


@pytest.mark.feature("usage.little-memory")
def test_a_day_that_begins_within_a_quarter_of_an_hour_has_its_own_calls(one: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "AHEAD-00:10")
    time.tzset()
    lines = [answer(f"u{n}", f"2026-09-30T23:{moment}Z", n, f"m{n}") for n, moment in ((5, "49:59"), (7, "50:00"))]
    (transcripts(one) / "11111111-1111-4111-8111-111111111111.jsonl").write_text("\n".join(lines) + "\n")
    local, days = replace(one, timezone=None), {"since": "2026-10-01", "until": "2026-10-01"}
    try:
        with live.one_look():
            assert [usage("session", settings=local, **asked).totals["output_tokens"] for asked in (days, {}, days)] == [7, 12, 7]
    finally:
        monkeypatch.undo()
        time.tzset()


@corpus
@pytest.mark.feature("usage.light-reader")
def test_the_light_reader_gives_the_rows_of_the_full_parser_or_leaves_the_session_to_it(tmp_path: Path):
    settings = Settings(home=tmp_path, demo_roots={"claude": (CORPUS / "claude",), "codex": (CORPUS / "codex",)})
    kept = [n for n, name in enumerate(MODEL_CALLS.names) if name not in PLACES]
    light = {"claude": 0, "codex": 0}
    for session in live.sessions(live.sources(settings), settings):
        host = discovery.hosts()[session.host]
        given = SessionInput(session.host, session.session_id, live.streams(session))
        counted = host.usage.read(given) if host.usage.read else None
        if counted is None:
            continue
        light[session.host] += 1
        parsed = host.records.parse(given)
        assert [[r[n] for n in kept] for r in counted.model_calls] == [[r[n] for n in kept] for r in parsed.model_calls], session.session_id
        if counted.model_calls:
            assert (counted.facts.cwd, counted.facts.parent_session) == (parsed.facts.cwd, parsed.facts.parent_session)
    assert light["claude"] > 50
    assert light["codex"] > 20


@pytest.mark.feature("usage.newer-than-store")
def test_what_was_written_since_the_last_run_is_counted_and_nothing_is_written(one: Settings):
    ingested(one)
    path = next(transcripts(one).glob("*.jsonl"))
    with path.open("a") as file:
        file.write(answer("u3", "2026-10-03T10:00:00Z", 11, "m3") + "\n")
    (transcripts(one) / "22222222-2222-4222-8222-222222222222.jsonl").write_text(answer("v1", "2026-10-03T11:00:00Z", 13, "n1") + "\n")
    stamps = {p: p.stat().st_mtime_ns for p in one.home.rglob("*") if p.is_file() and p.suffix not in {".db-wal", ".db-shm"}}

    both, stored = usage("daily", settings=one), usage("daily", settings=one, stored=True)

    assert [(r["date"], r["output_tokens"]) for r in both.rows] == [("2026-10-01", 5), ("2026-10-02", 7), ("2026-10-03", 24)]
    assert [(r["date"], r["output_tokens"]) for r in stored.rows] == [("2026-10-01", 5), ("2026-10-02", 7)]
    assert both.rows == usage("daily", settings=without_store(one)).rows
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


@pytest.mark.feature("usage.moved-home")
def test_files_of_a_home_that_moved_are_known_and_only_those_that_changed_are_read(one: Settings, tmp_path: Path, monkeypatch):
    ingested(one)
    expected = usage("session", settings=one)
    (tmp_path / "claude").rename(tmp_path / "moved")
    moved = replace(one, demo_roots={"claude": (tmp_path / "moved",)})
    read: list[str] = []
    count = live.count
    monkeypatch.setattr(live, "count", lambda given, *more, **how: read.append(given.session_id) or count(given, *more, **how))

    found = usage("session", settings=moved)

    assert (found.rows, found.gone, read) == (expected.rows, None, [])
    path = next(transcripts(moved).glob("*.jsonl"))
    with path.open("a") as file:
        file.write(answer("u3", "2026-10-03T10:00:00Z", 11, "m3") + "\n")
    found = usage("daily", settings=moved)
    assert (found.totals["output_tokens"], found.gone) == (23, None)
    assert read
    path.unlink()
    assert usage("daily", settings=moved).gone["output_tokens"] == 12


@pytest.mark.feature("usage.newer-ownership")
def test_a_new_copy_of_a_stored_session_adds_only_its_own_calls(one: Settings):
    ingested(one)
    fork = json.loads(answer("f1", "2026-10-01T10:00:00Z", 5, "m1"))
    fork["forkedFrom"] = {"sessionId": "11111111-1111-4111-8111-111111111111"}
    lines = [json.dumps(fork), answer("f2", "2026-10-04T10:00:00Z", 17, "m9")]
    (transcripts(one) / "33333333-3333-4333-8333-333333333333.jsonl").write_text("\n".join(lines) + "\n")

    report = usage("session", settings=one)

    assert [(r["session_id"][0], r["output_tokens"]) for r in report.rows] == [("1", 12), ("3", 17)]
    assert report.rows == usage("session", settings=without_store(one)).rows


@pytest.mark.feature("usage.newer-quick")
def test_calls_that_a_changed_session_has_alone_are_counted_without_reading_the_calls_of_all_sessions(
    one: Settings, monkeypatch: pytest.MonkeyPatch
):
    ingested(one)
    path = next(transcripts(one).glob("*.jsonl"))
    other = transcripts(one) / "22222222-2222-4222-8222-222222222222.jsonl"
    monkeypatch.setattr(usage_sql, "CANDIDATES_SQL", "SELECT every_call_of_the_host")

    with path.open("a") as file:
        file.write(answer("u3", "2026-10-03T10:00:00Z", 11, "m3") + "\n")
    other.write_text(answer("v1", "2026-10-03T11:00:00Z", 13, "n1") + "\n")
    alone, expected = usage("session", settings=one), usage("session", settings=without_store(one))
    other.write_text(answer("v1", "2026-10-03T11:00:00Z", 11, "m3") + "\n")

    assert alone.totals["output_tokens"] == 36
    assert alone.rows == expected.rows
    with pytest.raises(StoreDamaged, match="every_call_of_the_host"):
        usage("session", settings=one)


@pytest.mark.feature("usage.newer-ownership")
def test_an_older_original_found_later_takes_its_call_back_from_the_stored_copy(tmp_path: Path, one: Settings):
    ingested(one)
    lines = [answer("o0", "2026-09-01T10:00:00Z", 3, "m0"), answer("o1", "2026-10-01T10:00:00Z", 5, "m1")]
    (transcripts(one) / "44444444-4444-4444-8444-444444444444.jsonl").write_text("\n".join(lines) + "\n")

    report = usage("session", settings=one)

    assert [(r["session_id"][0], r["output_tokens"]) for r in report.rows] == [("1", 7), ("4", 8)]
    assert report.totals["calls"] == 3


@pytest.mark.feature("usage.gone")
def test_sessions_whose_files_are_gone_stay_counted_and_are_a_line_of_their_own(one: Settings):
    (transcripts(one) / "55555555-5555-4555-8555-555555555555.jsonl").write_text(answer("g1", "2026-08-01T10:00:00Z", 19, "g1") + "\n")
    ingested(one)
    (transcripts(one) / "55555555-5555-4555-8555-555555555555.jsonl").unlink()

    report = usage("daily", settings=one)

    assert report.totals["output_tokens"] == 31
    assert report.gone is not None
    assert (report.gone["calls"], report.gone["output_tokens"]) == (1, 19)
    direct = usage("daily", settings=without_store(one))
    assert report.totals["output_tokens"] - report.gone["output_tokens"] == direct.totals["output_tokens"] == 12


@pytest.mark.feature("usage.gone")
@pytest.mark.parametrize("by", sorted(name for name, grouping in GROUPINGS.items() if grouping.names))
def test_reports_of_what_was_called_have_the_line_of_gone_sessions_too(one: Settings, by: str):
    ingested(one)
    assert usage(by, settings=one).gone is None
    (transcripts(one) / "11111111-1111-4111-8111-111111111111.jsonl").rename(transcripts(one) / "away.txt")

    gone = usage(by, settings=one).gone

    assert gone is not None
    assert (gone["calls"], gone["output_tokens"]) == (2, 12)
    elsewhere = usage(by, settings=one, project="elsewhere")
    assert (elsewhere.rows, elsewhere.gone) == ([], None)


@pytest.mark.feature("usage.newer-than-store")
def test_lines_of_a_rewritten_file_that_only_raw_holds_are_still_counted(one: Settings):
    ingested(one)
    path = next(transcripts(one).glob("*.jsonl"))
    path.write_text(answer("w1", "2026-10-05T10:00:00Z", 23, "w1", cached=5) + "\n")

    both = usage("daily", settings=one)
    ingested(one)

    assert both.totals["output_tokens"] == 35
    assert both.rows == usage("daily", settings=one, stored=True).rows


@pytest.mark.feature("usage.cost-columns")
def test_recorded_and_computed_cost_stand_side_by_side_and_the_mode_chooses(one: Settings):
    path = next(transcripts(one).glob("*.jsonl"))
    old = json.loads(answer("c1", "2026-10-06T10:00:00Z", 100, "c1", cached=0))
    old["costUSD"] = 0.5
    path.write_text(json.dumps(old) + "\n")

    modes = {m: usage("model", settings=one, cost_mode=m).to_json()["totals"] for m in ("auto", "calculate", "display")}

    # Opus 4.5: 5 and 25 dollars per million tokens in and out
    assert {m: t["cost_usd"] for m, t in modes.items()} == {"auto": 0.5, "calculate": 0.00255, "display": 0.5}
    assert {(t["recorded_usd"], t["calculated_usd"]) for t in modes.values()} == {(0.5, 0.00255)}
    shutil.rmtree(one.home, ignore_errors=True)
    ingested(one)
    assert (
        usage("model", settings=one, cost_mode="calculate", stored=True).totals
        == usage("model", settings=replace(one, home=one.home.with_name("none")), cost_mode="calculate").totals
    )


@pytest.mark.feature("usage.totals-agree")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"])
def test_totals_agree_however_usage_is_grouped_in_any_timezone_with_and_without_a_store(homes: Settings, zone: str):
    ingested(homes)
    expected = usage("model", settings=homes, stored=True).totals

    for by in GROUPINGS:
        live_report = usage(by, timezone=zone, settings=without_store(homes))
        assert live_report.totals == expected
        assert live_report.rows == usage(by, timezone=zone, settings=homes, stored=True).rows


@pytest.mark.feature("usage.hostile")
def test_hostile_files_change_nothing_and_both_ways_still_agree(one: Settings):
    folder = transcripts(one)
    broken = json.loads(answer("h1", "2026-10-03T10:00:00Z", 3, "h1"))
    broken["message"]["usage"] |= {"input_tokens": -5, "cache_read_input_tokens": 10**30, "cache_creation_input_tokens": "many"}
    future = answer("h2", "2999-01-01T00:00:00Z", 2, "h2")
    naive = answer("h3", "2026-10-03T10:00:00", 1, "h3")
    text = b"\xff\xfe{]\n" + b"\0" * 64 + b"\n" + f"{json.dumps(broken)}\n{future}\n{naive}\n".encode() + b'{"type": "assistant", "mess'
    (folder / "66666666-6666-4666-8666-666666666666.jsonl").write_bytes(text)
    (folder / "77777777-7777-4777-8777-777777777777.jsonl").mkdir()
    os.mkfifo(folder / "88888888-8888-4888-8888-888888888888.jsonl")
    (folder / "99999999-9999-4999-8999-999999999999.jsonl").write_bytes(b"")

    direct = usage("daily", settings=without_store(one))

    assert [(r["date"], r["output_tokens"]) for r in direct.rows] == [(None, 2), ("2026-10-01", 5), ("2026-10-02", 7), ("2026-10-03", 4)]
    assert direct.rows == usage("daily", settings=ingested(one), stored=True).rows == usage("daily", settings=one).rows


@pytest.mark.feature("usage.two-processes")
def test_a_large_home_that_two_processes_read_gives_the_same_rows(homes: Settings, monkeypatch: pytest.MonkeyPatch):
    alone = usage("session", settings=homes)
    monkeypatch.setattr(two_processes, "_TWO", 0)
    monkeypatch.setattr(two_processes.threading, "active_count", lambda: 1)

    assert usage("session", settings=homes).rows == alone.rows


@pytest.mark.feature("usage.unread")
def test_a_file_that_vanished_before_it_was_read_is_told_as_missing(one: Settings):
    found = live.sessions(live.sources(one), one)
    next(transcripts(one).iterdir()).unlink()

    (counted,) = live.read(found)

    assert (counted.calls, counted.unread) == ([], 1)


@pytest.mark.feature("usage.unread")
def test_a_file_that_vanished_before_anybody_knew_whose_it_is_is_told_by_its_name(one: Settings):
    found = list(live.sources(one))
    next(transcripts(one).iterdir()).unlink()

    (counted,) = live.read(live.sessions(found, one))

    assert (counted.calls, counted.unread) == ([], 1)


@pytest.mark.feature("usage.unread")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_told_as_missing(one: Settings):
    shutil.copy(next(transcripts(one).iterdir()), transcripts(one) / "22222222-2222-4222-8222-222222222222.jsonl")
    (transcripts(one) / "22222222-2222-4222-8222-222222222222.jsonl").chmod(0)

    assert usage(settings=one).to_json()["unread_files"] == 1


@pytest.mark.feature("redaction.everywhere")
@pytest.mark.parametrize("stored", [False, True])
def test_a_secret_that_stands_where_a_model_or_a_branch_is_named_is_not_shown(one: Settings, stored: bool):
    secret = f"ghp_{'a1B2' * 9}"
    (transcript,) = transcripts(one).iterdir()
    lines = [json.loads(line) for line in transcript.read_text().splitlines()]
    for line in lines:
        line["gitBranch"] = secret
        line["message"]["model"] = secret
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))

    if stored:
        ingested(one)
    shown = [usage(by, settings=one) for by in sorted(name for name, grouping in GROUPINGS.items() if not grouping.names)]

    assert secret not in repr(shown)
    assert "[REDACTED:" in repr(shown)


@pytest.mark.feature("usage.without-store")
def test_the_older_half_of_the_files_that_were_identified_makes_room_for_more(one: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live, "_identified", {})
    monkeypatch.setattr(live, "_MOST_IDENTIFIED", 8)
    [source] = live.sources(one)
    many = [source._replace(mtime_ns=n) for n in range(9)]
    assert {live.identify(each) for each in many} == {live.identify(source)}
    assert [each.mtime_ns for each in live._identified][:5] == [4, 5, 6, 7, 8]
