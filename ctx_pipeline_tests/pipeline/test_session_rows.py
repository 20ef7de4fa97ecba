"""Derived tables are kept session by session: one that changed costs itself, and no history of changes shows in the content."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline import discovery
from ctx_pipeline.model.tables import FACTS, FACTS_ASSET
from ctx_pipeline.pipeline import session_rows
from ctx_pipeline.pipeline.background import derive
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.count import count
from ctx_pipeline.pipeline.session_rows import SessionRows, commit
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline.storage.verified import VerifiedFiles
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view
from ctx_pipeline_tests.strategies import PATIENCE, examples

NAMES = "abcde"
ASSETS = {
    FACTS_ASSET: tuple(FACTS),
    **{f"signals/{name}": ("readings",) for name in discovery.families()},
    **{f"mined/{name}": ("candidates",) for name, method in discovery.methods().items() if method.deterministic},
    "tokens/exact": ("token_counts",),
}


def session(name, length):
    """A session that has grown to a length."""
    made = view(name).prompt(f"mend the parser of {name}")
    for step in range(length):
        made.shell("pytest", exit=127, text=f"bash: pytest: command not found, {step}").shell("uv run pytest", text=f"{step} passed")
        made.edit(f"/w/app/{name}{step}.py").answer("done").prompt(f"no, use uv run pytest, never pytest {step}")
    return made


def brought(store, chosen, lengths, order=NAMES):
    """Make the cell hold sessions of these lengths, none of those with length 0, and bring what is derived up to date."""
    normalized(store, *(session(name, lengths[name] - 1) for name in order if lengths.get(name)))
    reports = [*derive(store, chosen, cells=[CELL]), count(store, chosen, cells=[CELL]), consolidate(store, chosen)]
    assert [report.failed_partitions for report in reports] == [{}] * 5
    return {report.stage: report.totals for report in reports}


def content(store):
    """Content hash and rows of every derived asset."""
    rows = {
        (asset, table): sorted(map(repr, store.lake.read_rows(table, CELL, asset))) for asset, tables in ASSETS.items() for table in tables
    }
    return rows, {asset: row.content_hash for asset in (*ASSETS, "memory/consolidated") for row in store.ledger.asset_cells(asset).values()}


@pytest.mark.timeout(PATIENCE)
@pytest.mark.feature("derive.any-history")
def test_any_history_gives_the_content_of_a_run_from_nothing(chosen, tmp_path, monkeypatch):
    monkeypatch.setattr(session_rows, "MOST_PARTS", 3)
    lengths = st.fixed_dictionaries({name: st.integers(0, 3) for name in NAMES})

    @examples(4)
    @given(history=st.lists(st.tuples(lengths, st.permutations(NAMES)), min_size=3, max_size=6))
    def same(history):
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, steps, at_once in (("grown", history, 20), ("fresh", [(history[-1][0], NAMES)], 1_000_000)):
            monkeypatch.setattr(session_rows, "ROWS_AT_ONCE", at_once)
            settings = replace(chosen, home=place / name)
            with open_store(settings) as store:
                for lengths, order in steps:
                    brought(store, settings, lengths, order)
                found = content(store)
                assert all(store.lake.manifest(asset, CELL) for asset in ASSETS)
                assert [d for asset in ASSETS for d in store.lake.damages(asset, deep=VerifiedFiles(store.files))] == []
            if name == "grown":
                grown = found
        assert grown == found

    same()


@pytest.mark.feature("derive.memory")
def test_the_rows_of_a_month_are_written_while_its_sessions_are_read(store, chosen, monkeypatch):
    monkeypatch.setattr(session_rows, "ROWS_AT_ONCE", 20)
    most = 0
    put = SessionRows.put

    def noted(self, *arguments):
        nonlocal most
        put(self, *arguments)
        most = max(most, sum(len(rows) for tables in self._made.values() for rows in tables.values()))

    monkeypatch.setattr(SessionRows, "put", noted)
    brought(store, chosen, dict.fromkeys(NAMES, 3))
    manifest = store.lake.manifest(FACTS_ASSET, CELL)

    assert most <= 20 < sum(manifest.rows.values())
    assert len(manifest.of_table("command_runs")) > 1


@pytest.mark.feature("derive.one-session")
def test_a_session_that_changed_is_read_and_made_alone(store, chosen, monkeypatch):
    brought(store, chosen, dict.fromkeys(NAMES, 2))
    before = {asset: {p.path for p in store.lake.manifest(asset, CELL).parts} for asset in ASSETS}
    asked = []
    original = Lake.read_sessions

    def noted(self, cell, session_ids=None, *arguments, **named):
        asked.append(set(session_ids))
        return original(self, cell, session_ids, *arguments, **named)

    monkeypatch.setattr(Lake, "read_sessions", noted)
    totals = brought(store, chosen, {**dict.fromkeys(NAMES, 2), "b": 3})
    assert asked == [{"b"}, {"b"}]
    assert [totals[stage]["sessions"] for stage in ("facts", "measure", "mine")] == [1, 1, 1]
    assert totals["measure"]["readings"] == len(discovery.signals())
    for asset, paths in before.items():
        parts = store.lake.manifest(asset, CELL).parts
        assert {p.path for p in parts} >= paths, asset
        assert {s for p in parts if p.path not in paths for s in p.live} <= {"b"}


@pytest.mark.feature("derive.merged-parts")
def test_small_parts_are_merged_before_they_are_many(store):
    def rows():
        return SessionRows(store, "tokens/exact", CELL, ("token_counts",))

    def row(name):
        return (f"{name}.e0", "claude", name, "prompt", "0" * 32, "o200k_base", 1, 2, True)

    for number in range(60):
        now = rows()
        for name in map(str, range(number)):
            assert now.keep(name, "k")
        now.put(str(number), "k", {"token_counts": [row(str(number))]})
        (made,) = commit(store, [(now, "1", "")])
        assert len(made.parts) <= session_rows.MOST_PARTS
        assert made.rows == {"token_counts": number + 1}
    now = rows()
    for name in map(str, range(0, 60, 3)):
        now.keep(name)
    (made,) = commit(store, [(now, "1", "")])
    assert sorted(r.session_id for r in store.lake.read_rows("token_counts", CELL, "tokens/exact")) == sorted(map(str, range(0, 60, 3)))
    assert sum(p.rows for p in made.parts) <= 2 * 20


@pytest.mark.feature("derive.lost-part")
def test_a_session_whose_part_is_lost_is_made_again(store, chosen):
    lengths = dict.fromkeys(NAMES, 2)
    brought(store, chosen, lengths)
    expected = content(store)
    for asset, (table, *_) in ASSETS.items():
        for part in store.lake.manifest(asset, CELL).of_table(table):
            store.files.remove(part.path)
        store.ledger.forget_asset(asset, [CELL])
    brought(store, chosen, lengths)
    assert content(store) == expected
