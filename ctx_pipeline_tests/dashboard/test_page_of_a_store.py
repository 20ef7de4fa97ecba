"""From the homes of agents to the page: the figures of the page are those of usage."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from ctx_pipeline import settings as settings_of
from ctx_pipeline.dashboard.data import Expiring
from ctx_pipeline.dashboard.page import unpacked_chunk
from ctx_pipeline.dashboard.panels import accounting
from ctx_pipeline.pipeline.page import page_records
from ctx_pipeline.pipeline.render import render
from ctx_pipeline.pipeline.run import step
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import usage as counted
from ctx_pipeline.usage.groupings import GROUPINGS
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.signals.golden import SAMPLES

DAY = 86_400


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A store of the published sessions with its page."""
    folder = tmp_path_factory.mktemp("published")
    environ = {
        "HOME": str(folder),
        "CTX_HOME": str(folder / "store"),
        "CLAUDE_CONFIG_DIR": str(CORPUS / "claude"),
        "CODEX_HOME": str(CORPUS / "codex"),
        "TZ": "UTC",
    }
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        step("ingest", store, chosen)
        step("facts", store, chosen)
        build_warehouse(store, chosen)
        render(store, chosen, complete=True)
        yield store, chosen


@corpus
@pytest.mark.feature("dashboard.real-history")
def test_the_table_of_sessions_adds_up_to_usage(published):
    store, settings = published
    text = (store.home / "site" / "data" / "sessions.js").read_text("utf-8")
    listed = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    rows = [dict(zip(listed["columns"], row, strict=True)) for row in listed["rows"]]
    totals = counted("session", stored=True, settings=settings).totals

    assert len(rows) == len(store.ledger.sessions()) > 100
    assert sum(row["calls"] for row in rows) == totals["calls"] > 1_000
    assert sum(row["cost"] for row in rows) == pytest.approx(totals["cost_nano"] / 1e9)
    assert {row["chunk"] for row in rows} == {p.stem.partition("-")[0] for p in (store.home / "site" / "data").iterdir()} - {"sessions"}


def _unpacked(site, chunk):
    """Return a session's chunk and the items of its transcript."""

    def data(name):
        return unpacked_chunk((site / "data" / f"{name}.js").read_bytes())

    detail = data(chunk)
    told = detail["transcript"]
    held = {name: data(f"{chunk}-{name}") if name else detail["inline"] for name in {piece[4] for piece in told["pieces"]}}
    return detail, [item for piece in told["pieces"] for item in held[piece[4]][piece[5]]]


@corpus
@pytest.mark.feature("dashboard.whole-transcript", "dashboard.transcript-usage")
def test_every_event_of_every_published_session_is_on_its_page(published):
    store, settings = published
    site = store.home / "site"
    text = (site / "data" / "sessions.js").read_text("utf-8")
    listed = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    rows = [dict(zip(listed["columns"], row, strict=True)) for row in listed["rows"]]
    events = {r.session_id: int(r.rows["events"]) for r in store.ledger.sessions()}
    shown, cost, pictures = {}, 0.0, 0
    for row in rows:
        detail, items = _unpacked(site, row["chunk"])
        shown[row["id"]] = len(items) + sum("r" in item[6] for item in items)
        assert detail["transcript"]["total"] == events[row["id"]]
        counted_here = [item[6]["u"] for item in items if "u" in item[6] and item[6]["u"][7]]
        cost += sum(usage[6] or 0 for usage in counted_here)
        pictures += sum("img" in item[6] for item in items)

    assert shown == events
    assert cost == pytest.approx(counted("session", stored=True, settings=settings).totals["cost_nano"] / 1e9, rel=0.02)
    assert pictures >= 7
    assert len(list((site / "data").glob("*-i*.js"))) == pictures


@corpus
@pytest.mark.feature("facts.turns")
def test_a_turn_that_a_command_began_stands_on_the_page_with_the_command(published):
    store, _ = published
    site = store.home / "site"
    text = (site / "data" / "sessions.js").read_text("utf-8")
    listed = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    rows = [dict(zip(listed["columns"], row, strict=True)) for row in listed["rows"]]
    chunk = next(row["chunk"] for row in rows if row["id"].startswith("7acd37a8"))
    detail, items = _unpacked(site, chunk)

    first = detail["transcript"]["turns"][0]
    assert (first[8], first[2]) == ("/init", "answered")
    assert next(item for item in items if item[0] == first[0])[4:6] == ["prompt", "/init"]


@corpus
@pytest.mark.feature("dashboard.subagents-inline")
def test_a_subagent_stands_behind_the_call_that_started_it(published):
    """The session explored with three agents at once: each begins with the words that its own call gave it."""
    store, _ = published
    site = store.home / "site"
    text = (site / "data" / "sessions.js").read_text("utf-8")
    listed = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    rows = [dict(zip(listed["columns"], row, strict=True)) for row in listed["rows"]]
    matched = 0
    for row in rows:
        _, items = _unpacked(site, row["chunk"])
        for before, item in pairwise(items):
            if item[2] and item[4] in {"subagent_start", "prompt"} and before[2] != item[2] and before[4] == "tool_call":
                matched += json.dumps(item[5][:40], ensure_ascii=False)[1:-1] in before[5]
    assert matched >= 5


@corpus
@pytest.mark.feature("warehouse.views-and-aggregates")
def test_the_file_answers_without_this_package(published):
    import duckdb

    store, _ = published
    with duckdb.connect(str(store.warehouse_path), read_only=True) as connection:
        counts = connection.execute("SELECT (SELECT count(*) FROM events), (SELECT sum(events) FROM sessions)").fetchone()

    assert counts[0] == counts[1] > 10_000


@corpus
@pytest.mark.feature("dashboard.unchanged")
def test_nothing_new_means_nothing_written(published):
    store, chosen = published
    index = store.home / "site" / "index.html"
    before = index.stat().st_mtime_ns

    assert build_warehouse(store, chosen).cells[""].status == "unchanged"
    assert render(store, chosen).cells[""].status == "unchanged"
    assert index.stat().st_mtime_ns == before


@corpus
@pytest.mark.feature("dashboard.search")
def test_the_pieces_that_are_searched_hold_every_prompt_and_are_kept_while_their_sessions_stay(published):
    store, chosen = published
    folder = store.home / "site" / "words"
    before = {p.name: p.stat().st_ino for p in folder.iterdir()}
    documents = []
    for path in folder.iterdir():
        held = unpacked_chunk(path.read_bytes())
        kinds = iter(held.get("kinds", ()))
        documents += [(key, next(kinds)) for key, n in zip(held.get("sessions", ()), held.get("counts", ()), strict=True) for _ in range(n)]
    render(store, chosen, force=True)

    assert sum(kind == 0 for _, kind in documents) == sum(int(r.rows["prompts"]) for r in store.ledger.sessions())
    assert len({key for key, _ in documents}) > 150
    assert {p.name: p.stat().st_ino for p in folder.iterdir()} == before


@pytest.mark.feature("dashboard.retention")
def test_transcripts_near_the_end_of_their_time_are_counted(environ, tmp_path):
    project = tmp_path / "claude" / "projects" / "-home-ada-till"
    project.mkdir(parents=True)
    (tmp_path / "claude" / "settings.json").write_text('{"cleanupPeriodDays": 20}')
    now = int(time.time())
    for name, days in (("a", 1), ("b", 14), ("c", 15), ("d", 22)):
        path = project / f"0000000{name}-0000-4000-8000-000000000000.jsonl"
        record = {
            "type": "user",
            "uuid": f"u-{name}",
            "sessionId": path.stem,
            "timestamp": "2026-03-01T10:00:00.000Z",
            "cwd": "/home/ada/till",
            "message": {"role": "user", "content": "hello"},
        }
        path.write_text(json.dumps(record) + "\n")
        os.utime(path, (now - days * DAY, now - days * DAY))
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        step("ingest", store, chosen)

        assert page_records.expiring(store, chosen, now * 10**9) == [Expiring("claude", 2, 22, 20)]

        build_warehouse(store, chosen)
        render(store, chosen)
        index = (store.home / "site" / "findings.html").read_text("utf-8")
    assert re.search(r"2 transcripts of Claude Code are about to be deleted", index)


@pytest.mark.feature("dashboard.engine-groups")
@pytest.mark.parametrize("way", ["daily", "weekly", "monthly", "model", "project"])
def test_the_accounts_of_the_page_add_up_to_the_groups_of_usage(tmp_path, way):
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "TZ": "UTC"}
    environ |= {name: str(SAMPLES / host) for name, host in (("CLAUDE_CONFIG_DIR", "claude"), ("CODEX_HOME", "codex"))}
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        step("ingest", store, chosen)
    data = accounting.records(page_records.current(chosen))
    periods = {
        day: dict(zip(("daily", "weekly", "monthly"), starts, strict=True)) for day, *rest in data["days"] for starts in [(day, *rest)]
    }
    names = {"model": lambda row: data["models"][row[3]] or None, "project": lambda row: data["projects"][row[2]]}
    shown = Counter()
    for row in data["rows"]:
        key = names[way](row) if way in names else row[0] and periods[row[0]][way]
        shown.update(
            {
                (key, name): value
                for name, value in zip(("input", "output", "calls", "cost"), (row[4], row[5], row[10], row[11]), strict=True)
            }
        )

    told = Counter()
    for row in counted(way, stored=True, settings=chosen).rows:
        key = row[GROUPINGS[way].column] if way != "model" else row["model"]
        sums = (row["input_tokens"], row["output_tokens"], row["calls"], row["cost_nano"])
        told.update({(key, name): value for name, value in zip(("input", "output", "calls", "cost"), sums, strict=True)})
    assert shown == told
    assert shown.total() > 0


@pytest.mark.feature("dashboard.rings")
def test_a_limit_of_a_plan_is_drawn_against_its_ceiling_until_it_resets(tmp_path):
    soon = int(time.time()) + 7_200
    told = {"used_percent": 62.6, "window_minutes": 300, "resets_at": soon}
    past = {"used_percent": 91.0, "window_minutes": 10_080, "resets_at": int(time.time()) - 60}
    total = codex.usage(100, 0, 10)
    records = [codex.tokens(seconds, total, total, {"primary": told | {"used_percent": used}}) for seconds, used in ((2, 12.0), (4, 62.6))]
    old = codex.tokens(3, total, total, {"primary": told, "secondary": past})
    codex.write(tmp_path / "codex", [codex.meta(), codex.context(1), records[0], old, records[1]])
    environ = {"HOME": str(tmp_path), "CTX_HOME": str(tmp_path / "store"), "CODEX_HOME": str(tmp_path / "codex"), "TZ": "UTC"}
    chosen = settings_of.load({**environ, "CLAUDE_CONFIG_DIR": str(tmp_path / "none")})
    with open_store(chosen) as store:
        step("ingest", store, chosen)
        step("facts", store, chosen)
        render(store, chosen)
        html = (store.home / "site" / "index.html").read_text("utf-8")
    limits = html.partition('<ul class="limits">')[2].partition("</ul>")[0]
    resets = datetime.fromtimestamp(soon, UTC)

    assert "Codex, 5-hour limit <b>63%</b>" in limits
    assert 'width="63.0"' in limits
    assert f"at 1 Mar 12:00; resets {resets.day} {resets:%b %H:%M}" in limits
    assert limits.count("<li>") == 1, "the weekly one has reset"
