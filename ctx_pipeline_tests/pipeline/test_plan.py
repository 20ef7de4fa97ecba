"""What the plan says of a store: after an append, with a new signal, with a new version, with 150 cells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import capture, code_versions, reports
from ctx_pipeline.pipeline.capture import placement
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.plan import NEW_ASSET, NEW_CODE, NEW_INPUT, OFF_PATH, WHOLE, graph, plan
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.months import settings_of, write_month

MARCH, APRIL = Cell("claude", "2026-03"), Cell("claude", "2026-04")


@pytest.fixture
def settings(environ):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(home, "2026-03", 1)
    write_month(home, "2026-04", 2)
    return settings_of(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        run_stages(opened, settings)
        yield opened


def look(store, settings, **options):
    return plan(store, settings, capture.scan(store, settings), **options)


def dirty(made):
    waited = {key: node for key, node in made.assets.items() if node.asset.stage not in OFF_PATH}
    return {key: [(cell.month, node.cells[cell].reason) for cell in node.dirty()] for key, node in waited.items() if node.dirty()}


@pytest.mark.feature("plan.nothing-to-do")
def test_after_all_stages_nothing_is_to_do(store, settings):
    made = look(store, settings)

    assert made.nothing_to_do
    assert made.to_json()["assets"][1] == {
        "asset": "normalized/events",
        "partitioned": True,
        "filled_by": "run",
        "code_version": made.assets["normalized/events"].code_version,
        "missing": 0,
        "stale": 0,
        "fresh": 2,
        "cells": [],
    }


@pytest.mark.feature("plan.first-run")
def test_an_empty_store_waits_for_every_source(settings):
    with open_store(settings) as store:
        made = look(store, settings)

    assert (made.pending, made.nothing_to_do) == (2, False)


@pytest.mark.feature("plan.late-append")
def test_a_late_append_to_an_old_month_dirties_that_cell_and_what_lies_below_it(store, settings):
    write_month(Path(settings.environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1, prompts=2)

    made = look(store, settings, settle_seconds=0)

    assert made.dirty_cells("raw/segments") == [MARCH]
    assert made.partitioned_cells() == [MARCH]
    assert {reason for cells in dirty(made).values() for _, reason in cells} == {NEW_INPUT}
    assert set(dirty(made)) == {key for key, node in made.assets.items() if node.asset.stage not in OFF_PATH}
    assert made.tail() == ["search/index", "memory/used", "memory/consolidated", "memory/index", "warehouse/duckdb", "dashboard/site"]


@pytest.mark.feature("plan.after-sync")
def test_what_an_ingest_alone_did_leaves_the_rest_of_the_cell_dirty(store, settings, environ):
    write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-04", 2, prompts=3)
    ingest(store, settings)

    made = look(store, settings)

    assert made.pending == 0
    assert made.dirty_cells("normalized/events") == []
    assert made.dirty_cells("signals/activity") == [APRIL]
    assert made.dirty_cells("warehouse/duckdb") == [WHOLE]


@pytest.mark.feature("plan.new-signal")
def test_a_new_signal_is_missing_everywhere_and_makes_nothing_else_stale(store, settings):
    known = code_versions.collect(settings)
    added = replace(known, families=known.families | {"churn": (("events",), "how often")}, assets=known.assets | {"signals/churn": "1"})

    made = look(store, settings, versions=added)

    assert dirty(made) == {"signals/churn": [("2026-03", NEW_ASSET), ("2026-04", NEW_ASSET)]}


@pytest.mark.feature("plan.new-version")
def test_a_new_version_makes_only_its_own_asset_stale(store, settings):
    known = code_versions.collect(settings)
    bumped = replace(known, assets=known.assets | {"signals/activity": "another"})

    made = look(store, settings, versions=bumped)

    assert dirty(made) == {"signals/activity": [("2026-03", NEW_CODE), ("2026-04", NEW_CODE)]}


@pytest.mark.feature("plan.tail-150")
def test_the_tail_is_stale_after_one_of_150_cells_changed(settings):
    cells = [Cell("claude", f"{year}-{month:02d}") for year in range(2014, 2027) for month in range(1, 13)][-150:]
    known = code_versions.collect(settings)
    nodes = graph(known)
    with open_store(settings) as store:
        with store.ledger.transaction() as connection:
            connection.executemany(
                "INSERT INTO sessions (host, session_id, month, captured_fp, normalized_fp) VALUES ('claude', ?1, ?1, 'x', 'x')",
                [(cell.month,) for cell in cells],
            )
        for key, node in nodes.items():
            for cell in cells if node.partitioned else ():
                contents = {above: {cell: f"{above} {cell.key}"} for above in node.upstream}
                made_of = reports.of_cell(contents, node.upstream, cell)
                if node.stage == "normalize":
                    made_of = store.ledger.cell_fingerprint(cell)
                store.ledger.record_asset(key, cell, made_of, known.of(key, cell.host), f"{key} {cell.key}", 1)
        for key, node in nodes.items():
            if not node.partitioned:
                contents = {above: {c: row.content_hash for c, row in store.ledger.asset_cells(above).items()} for above in node.upstream}
                extra = (store.journal.head(),) if key == "memory/consolidated" else ()
                store.ledger.record_asset(key, WHOLE, reports.of_all(contents, node.upstream, *extra), known.of(key), key, 1)
        assert dirty(plan(store, settings, versions=known)) == {}

        store.ledger.record_asset("signals/outcomes", cells[0], "new", known.of("signals/outcomes"), "other content", 1)
        made = plan(store, settings, versions=known)

    assert made.assets["warehouse/duckdb"].cells[WHOLE].reason == NEW_INPUT
    assert made.tail() == ["warehouse/duckdb", "dashboard/site"]


@pytest.mark.feature("plan.placement")
def test_new_sources_are_placed_where_capturing_puts_them(settings, environ):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(home, "2024-02", 9)
    with open_store(settings) as store:
        placed = placement.place(store, settings, capture.scan(store, settings))
        told = set(placed.cells)
        capture.capture(store, settings)

        assert told == set(store.ledger.cells()) == {Cell("claude", "2025-01"), MARCH, APRIL}


@pytest.mark.feature("plan.debounce")
def test_a_file_written_to_just_now_settles_first(store, settings, environ):
    path = write_month(Path(environ["CLAUDE_CONFIG_DIR"]), "2026-03", 1, prompts=2)
    now = path.stat().st_mtime + 30

    live = placement.place(store, settings, capture.scan(store, settings), settle_seconds=120, now=now)
    quiet = placement.place(store, settings, capture.scan(store, settings), settle_seconds=120, now=now + 100)

    assert (live.cells, live.settling) == ({}, 1)
    assert list(quiet.cells) == [MARCH]


@pytest.mark.feature("plan.cheap")
def test_without_a_change_no_signal_file_and_no_heavy_library_is_imported(store, environ):
    script = """
import json, sys
from ctx_pipeline import settings
from ctx_pipeline.pipeline import capture; from ctx_pipeline.pipeline import plan
from ctx_pipeline.pipeline.run import summary
from ctx_pipeline.storage import open_store
s = settings.load()
with open_store(s) as store:
    made = plan.plan(store, s, capture.scan(store, s))
    summary(store, s, None, seconds=0.0)
heavy = {"pyarrow", "duckdb", "pydantic", "dagster", "rich", "numpy"}
heavy |= {"ctx_pipeline.signals.activity", "ctx_pipeline.mining.error_resolutions"}
print(json.dumps([made.nothing_to_do, sorted(heavy & set(sys.modules))]))
"""
    environment = {**os.environ, **environ, "CODEX_HOME": environ["CLAUDE_CONFIG_DIR"] + "-none"}

    answers = [
        json.loads(subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True).stdout)
        for _ in range(2)
    ]

    assert answers[1] == [True, []]


@pytest.mark.feature("plan.code-changed")
def test_a_touched_extension_file_is_looked_at_again(store, settings, monkeypatch):
    seen = []
    imported = code_versions._imported
    monkeypatch.setattr(code_versions, "_imported", lambda chosen: seen.append(1) or imported(chosen))
    code_versions.versions(store.files, settings)
    assert seen == []

    monkeypatch.setattr(code_versions, "_package_files", lambda: [("signals/new.py", 10, 1)])
    code_versions.versions(store.files, settings)
    code_versions.versions(store.files, settings)

    assert seen == [1]


@pytest.mark.feature("plan.edited-under-a-daemon")
def test_a_process_that_began_before_an_edit_plans_with_what_the_files_say_now(store, settings):
    folder = settings.home / "config" / "signals"
    folder.mkdir(parents=True)
    text = (
        "from ctx_pipeline.model.declared import Reading, signal\n\n\n"
        "@signal(group='activity', reads=('events',))\ndef later(view):\n    return Reading(1.0)\n"
    )
    before = code_versions.versions(store.files, settings)
    assert "later_family" not in before.families

    (folder / "later_family.py").write_text(text)
    added = code_versions.versions(store.files, settings)
    (folder / "later_family.py").write_text(text.replace("1.0", "2.0"))
    edited = code_versions.versions(store.files, settings)
    (folder / "later_family.py").unlink()
    removed = code_versions.versions(store.files, settings)

    assert "signals/later_family" in graph(added)
    assert added.of("signals/later_family") != edited.of("signals/later_family")
    assert {a for a in edited.assets if edited.assets[a] != added.assets[a]} == {"signals/later_family"}
    assert removed == before
