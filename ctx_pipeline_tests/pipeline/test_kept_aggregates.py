"""A warehouse that took over what it knew of unchanged sessions holds what one made from nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.pipeline.run import run_stages, step
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import database, kept, session_queries
from ctx_pipeline_tests.factories.months import settings_of, write_month


def rows_of(store) -> dict[str, list[tuple]]:
    with database.connect(store.warehouse_path, read_only=True) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in (*kept.KEPT, *database.AGGREGATES)
        }


@pytest.mark.feature("warehouse.kept-sessions")
def test_a_new_a_grown_and_a_vanished_session_leave_the_rows_that_a_build_from_nothing_makes(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    taken = []
    original = kept._take_over
    monkeypatch.setattr(kept, "_take_over", lambda *given: taken.append((given[2], len(given[3]))) or original(*given))
    with open_store(settings) as store:
        write_month(home, "2026-03", 1, prompts=2)
        write_month(home, "2026-04", 2)
        run_stages(store, settings)
        assert not taken
        steps = [
            (lambda: write_month(home, "2026-04", 3, prompts=3), 1),
            (lambda: write_month(home, "2026-03", 1, prompts=4), 1),
            (lambda: store.lake.drop("signals/activity", store.ledger.cells()[0]), 0),
        ]
        for step, changed in steps:
            taken.clear()
            step()
            run_stages(store, settings) if changed else build_warehouse(store, settings)
            # no tool ran in these sessions: what has no part is read whole
            assert {name for name, stale in taken if stale == changed} >= {"session_hours", "session_turns"}
            assert ("reading_values", 1) in taken
            grown = rows_of(store)
            build_warehouse(store, settings, force=True)
            assert grown == rows_of(store)
            assert grown["reading_values"]


@pytest.mark.feature("warehouse.kept-sessions")
def test_what_another_process_commits_while_a_warehouse_is_made_is_in_the_next_one(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    original = database.views
    with open_store(settings) as store:
        write_month(home, "2026-03", 1, prompts=2)
        for name in ("ingest", "derive"):
            step(name, store, settings)

        def views(lake):
            seen = original(lake)
            write_month(home, "2026-04", 2)
            for name in ("ingest", "derive"):
                step(name, store, settings)
            return seen

        with monkeypatch.context() as patch:
            patch.setattr(database, "views", views)
            build_warehouse(store, settings)
        build_warehouse(store, settings)
        beside = rows_of(store)
        build_warehouse(store, settings, force=True)
        assert beside == rows_of(store)
        assert len({session for _, session, *_ in beside["reading_values"]}) == 2


@pytest.mark.feature("warehouse.readings-asked")
def test_readings_are_asked_of_the_warehouse_and_of_the_lake_as_soon_as_that_holds_others(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    asked = []
    original = session_queries.closing
    monkeypatch.setattr(session_queries, "closing", lambda connection: asked.append("lake") or original(connection))
    with open_store(settings) as store:

        def prompts() -> dict[str, float]:
            asked.clear()
            return {
                session: value
                for _, session, _, value, _ in session_queries.measured(store.lake, store.warehouse_path, ["user_message_count"])
            }

        write_month(home, "2026-03", 1, prompts=2)
        run_stages(store, settings)
        [(session, value)] = prompts().items()
        assert (value, asked) == (2, [])

        write_month(home, "2026-03", 1, prompts=4)
        for name in ("ingest", "derive"):
            step(name, store, settings)
        assert (prompts(), asked) == ({session: 4}, ["lake"])

        build_warehouse(store, settings)
        assert (prompts(), asked) == ({session: 4}, [])

        store.warehouse_path.write_bytes(b"no database")
        assert (prompts(), asked) == ({session: 4}, ["lake"])
