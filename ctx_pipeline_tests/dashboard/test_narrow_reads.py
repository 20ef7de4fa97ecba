"""A page reads the parts of the sessions that it draws, and draws the same from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.pipeline import render as stage
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.warehouse import database
from ctx_pipeline_tests.factories.months import settings_of, write_month


@pytest.mark.feature("dashboard.narrow-reads")
def test_only_the_parts_of_the_sessions_that_are_drawn_are_read_and_the_files_are_the_same(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    write_month(home, "2026-03", 1, prompts=2)
    write_month(home, "2026-04", 2)
    with open_store(settings) as store:
        run_stages(store, settings)
        write_month(home, "2026-04", 3, prompts=3)
        asked = []
        original = type(store.lake).relation_of

        def noted(self, table, parts, *, sessions=None):
            sql = original(self, table, parts, sessions=sessions)
            asked.append((table, sessions, sql.count(".parquet")))
            return sql

        monkeypatch.setattr(type(store.lake), "relation_of", noted)
        run_stages(store, settings)
        monkeypatch.undo()
        assert {(table, count) for table, sessions, count in asked if sessions and table == "events"} == {("events", 1)}
        assert any(count == 3 for table, sessions, count in asked if table == "events" and sessions is None)
        drawn = {p.name: p.read_bytes() for p in (store.home / "site").rglob("*.js") if p.parent.name in {"data", "words"}}

        monkeypatch.setattr(database, "fingerprint", lambda *_, **__: "another lake")
        for path in (store.home / "site").rglob("*.js"):
            path.unlink()
        stage.render(store, settings, force=True, refresh=False)
        assert drawn == {p.name: p.read_bytes() for p in (store.home / "site").rglob("*.js") if p.parent.name in {"data", "words"}}


@pytest.mark.feature("dashboard.narrow-reads")
def test_the_views_of_a_warehouse_are_whole_again_afterwards_and_untouched_where_the_lake_moved_on(environ):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    chosen = {"timezone": settings.timezone, "cost_mode": settings.cost_mode}
    write_month(home, "2026-03", 1)
    write_month(home, "2026-04", 2)
    with open_store(settings) as store:
        run_stages(store, settings)
        with database.connect(store.warehouse_path, read_only=True) as connection:

            def sessions():
                return [{row[0] for row in connection.execute(f"SELECT DISTINCT session_id FROM {name}").fetchall()} for name in SEEN]

            every = sessions()
            (one, _) = sorted(every[0])
            with database.of_sessions(connection, store.lake, {one}, **chosen):
                assert sessions() == [{one}] * len(SEEN)
            assert sessions() == every
            store.lake.drop("signals/activity", store.ledger.cells()[0])
            with database.of_sessions(connection, store.lake, {one}, **chosen):
                assert sessions() == every


SEEN = ("sessions", "events", "threads", "turns", "readings")
