"""Facts, readings and candidates of one read are the same as one stage after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.errors import StoreFull
from ctx_pipeline.facts import command_runs
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import background, facts, render, run
from ctx_pipeline.pipeline.background import derive, due, merged
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline.pipeline.reports import CellReport, StageReport
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline_tests.factories.months import settings_of, write_month

CELLS = [Cell("claude", "2026-03"), Cell("claude", "2026-04")]
METHODS = [name for name, method in discovery.methods().items() if method.deterministic]


@pytest.fixture
def settings(environ):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(home, "2026-03", 1, prompts=3)
    write_month(home, "2026-03", 3)
    write_month(home, "2026-04", 2)
    return settings_of(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        run.step("ingest", opened, settings)
        yield opened


def hashes(store):
    keys = ["facts/tables", *(f"signals/{name}" for name in discovery.families()), *(f"mined/{name}" for name in METHODS)]
    return {(key, cell.month): (row.content_hash, row.input_fp) for key in keys for cell, row in store.ledger.asset_cells(key).items()}


def forget(store):
    for key in {key for key, _ in hashes(store)}:
        for cell in CELLS:
            store.lake.drop(key, cell)
            store.ledger.forget_asset(key, [cell])


@pytest.mark.feature("derive.same-rows")
def test_one_read_makes_the_rows_of_two(store, settings):
    apart = [make_facts(store, settings), measure(store, settings), mine(store, settings)]
    expected = hashes(store)
    assert len(expected) == 2 * (1 + len(discovery.families()) + len(METHODS))
    forget(store)
    assert set(due(store)) == set(CELLS)

    together = derive(store, settings)

    assert hashes(store) == expected
    assert [r.totals for r in together] == [r.totals for r in apart]
    assert [r.stage for r in together] == ["facts", "measure", "mine"]
    assert due(store) == {}
    assert not any(report.changed for report in derive(store, settings))


@pytest.fixture
def read(monkeypatch):
    """The cells that were read, each with the tables that were asked for."""
    asked = []
    original = Lake.read_sessions

    def counted(self, cell, session_ids=None, tables=(), *arguments, **named):
        asked.append((cell, set(tables)))
        return original(self, cell, session_ids, tables, *arguments, **named)

    monkeypatch.setattr(Lake, "read_sessions", counted)
    return asked


@pytest.fixture
def worked_out(monkeypatch):
    """The sessions of which the commands were worked out."""
    found = []
    original = command_runs._joined

    def counted(view):
        found.append(view.session_id)
        return original(view)

    monkeypatch.setattr(command_runs, "_joined", counted)
    return found


@pytest.mark.feature("derive.one-read")
def test_a_cell_is_read_once_and_each_sessions_facts_are_worked_out_once_for_all_that_follows(store, settings, read, worked_out):
    derive(store, settings)

    assert [cell for cell, _ in read] == CELLS
    assert sorted(worked_out) == sorted(set(worked_out))
    assert len(worked_out) == 3


@pytest.mark.feature("derive.one-read")
def test_a_session_that_grew_is_made_as_if_it_had_always_been_so(store, settings, environ, read, worked_out):
    derive(store, settings)
    read.clear()
    worked_out.clear()
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1, prompts=5)
    run.step("ingest", store, settings)
    derive(store, settings)
    assert [cell for cell, _ in read] == [CELLS[0]]
    assert len(worked_out) == 1
    grown = hashes(store)

    forget(store)
    make_facts(store, settings)
    measure(store, settings)
    mine(store, settings)
    assert hashes(store) == grown


@pytest.mark.feature("derive.stale-alone")
def test_what_is_stale_alone_is_read_alone(store, settings, read, monkeypatch):
    derive(store, settings)
    before = {key: content for key, (content, _) in hashes(store).items()}
    read.clear()
    monkeypatch.setattr(facts, "FACTS_VERSION", "another version")
    made, measured, mined = derive(store, settings)
    assert read == [(cell, set(facts.SOURCES)) for cell in CELLS]
    assert (made.changed, measured.changed, mined.changed) == (True, False, False)
    assert {key: content for key, (content, _) in hashes(store).items()} == before

    read.clear()
    family = min(discovery.families().values(), key=lambda f: len(f.reads))
    store.ledger.forget_asset(f"signals/{family.name}", CELLS)
    assert [r.changed for r in derive(store, settings)] == [False, True, False]
    assert read == []
    store.lake.drop(f"signals/{family.name}", CELLS[0])
    store.ledger.forget_asset(f"signals/{family.name}", CELLS)
    derive(store, settings)
    assert read == [(CELLS[0], set(family.reads))]


@pytest.fixture
def asked(settings):
    """A signal of one's own: a query over a fact table."""
    folder = settings.home / "config"
    (folder / "signals").mkdir(parents=True, exist_ok=True)
    (folder / "signals" / "asked.py").write_text(_QUERY, "utf-8")
    discovery.look_in(folder)
    discovery.reload()
    yield "signals/asked"
    discovery.look_in(None)
    discovery.reload()


@pytest.mark.feature("derive.one-read")
def test_a_query_over_facts_sees_those_of_the_same_run(store, settings, asked):
    assert [r.failed_partitions for r in derive(store, settings)] == [{}, {}, {}]

    assert sorted(r.value for r in store.lake.read_rows("readings", CELLS[0], asked)) == [1, 3]
    assert due(store) == {}


_QUERY = '''
"""Turns, asked by a query."""
from ctx_pipeline.model.declared import sql_signal


@sql_signal(group="activity", unit="turns", better="neither", reads=("turns",))
def turns_in_sql():
    """How many turns there are."""
    return "SELECT session_id, count(*) AS value FROM turns GROUP BY session_id"
'''


@pytest.mark.feature("derive.only-the-failed")
def test_what_cannot_be_mined_does_not_hold_back_what_was_measured(store, settings, monkeypatch):
    original = Lake.commit

    def failing(self, asset, cell, *arguments, **named):
        if asset.startswith("mined/") and cell == CELLS[0]:
            raise ValueError("no such thing")
        return original(self, asset, cell, *arguments, **named)

    monkeypatch.setattr(Lake, "commit", failing)
    _, measured, mined = derive(store, settings)

    assert measured.failed_partitions == {}
    assert set(mined.failed_partitions) == {CELLS[0].key}
    assert {month for key, month in hashes(store) if key.startswith("signals/")} == {"2026-03", "2026-04"}
    assert {month for key, month in hashes(store) if key.startswith("mined/")} == {"2026-04"}
    monkeypatch.setattr(Lake, "commit", original)
    assert derive(store, settings)[2].failed_partitions == {}


@pytest.mark.feature("derive.only-the-failed")
def test_a_full_disk_ends_the_stage(store, settings, monkeypatch):
    def full(*_, **__):
        raise StoreFull("no room", hint="make some")

    monkeypatch.setattr(Lake, "commit", full)
    with pytest.raises(StoreFull):
        derive(store, settings)


@pytest.mark.feature("derive.methods-of-families")
def test_a_method_that_reads_signals_sees_what_the_same_pass_measured(store, settings, monkeypatch):
    seen = {}

    def extract(view):
        seen[view.session_id] = set(view.readings)
        return []

    name, method = next((n, m) for n, m in discovery.methods().items() if m.deterministic)
    asking = replace(method, families=("activity",), extract=extract)
    monkeypatch.setattr(discovery, "methods", lambda: {name: asking})

    derive(store, settings)

    assert len(seen) == 3
    assert all("unique_files_edited" in readings for readings in seen.values())
    assert due(store) == {}


def test_two_halves_of_a_report_are_one():
    left = StageReport("mine", {"a": CellReport("done", {"candidates": 1}), "b": CellReport("unchanged")}, {"candidates": 1}, 2.0)
    right = StageReport("mine", {"a": CellReport("unchanged"), "b": CellReport("held", error="no")}, {"candidates": 4}, 1.0)

    both = merged(left, right)

    assert {key: cell.status for key, cell in both.cells.items()} == {"a": "done", "b": "held"}
    assert (both.totals, both.seconds) == ({"candidates": 5}, 2.0)


@pytest.mark.feature("run.warehouse-once")
def test_the_page_is_drawn_from_the_warehouse_that_was_just_made_without_a_second_look(store, settings, monkeypatch):
    looks = []
    look = render.build_warehouse
    monkeypatch.setattr(render, "build_warehouse", lambda *given, **options: looks.append(1) or look(*given, **options))
    derive(store, settings)

    reports = {report.stage: report for report in background._unpartitioned(settings, lambda *_: None)}

    assert reports["warehouse"].changed
    assert reports["render"].changed
    assert looks == []
    assert not run.step("render", store, settings)[0].changed, "the page is that of the warehouse as it is"
    assert looks == [1]
