"""A warehouse that took over what it knew of unchanged sessions holds what one made from nothing does."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ctx_pipeline.pipeline import warehouse
from ctx_pipeline.pipeline.run import run_stages, step
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.files import Files
from ctx_pipeline.storage.lake import SWEEP_AFTER, Lake
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
    original = kept._remove
    monkeypatch.setattr(kept, "_remove", lambda *given: taken.append((given[1], len(given[2]))) or original(*given))
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
def test_of_one_more_session_the_rows_of_the_others_are_not_copied_one_by_one(environ):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    held = []
    with open_store(settings) as store:
        write_month(home, "2026-03", 1, prompts=2)
        run_stages(store, settings)
        write_month(home, "2026-04", 2)
        for name in ("ingest", "derive"):
            step(name, store, settings)

        @contextlib.contextmanager
        def begun(path):
            with database.connect(path) as connection:
                held.append(connection.execute("SELECT DISTINCT session_id FROM reading_values").fetchall())
                yield connection

        build_warehouse(store, settings, connect=begun)
        assert [len(sessions) for sessions in held] == [1]
        assert len({session for _, session, *_ in rows_of(store)["reading_values"]}) == 2


@pytest.mark.feature("warehouse.kept-sessions")
def test_of_one_more_session_what_readings_add_up_to_is_made_anew_for_its_own_buckets(environ):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    touched = []
    with open_store(settings) as store:
        write_month(home, "2026-03", 1, prompts=2)
        run_stages(store, settings)
        write_month(home, "2026-04", 2)
        for name in ("ingest", "derive"):
            step(name, store, settings)

        @contextlib.contextmanager
        def begun(path):
            with database.connect(path) as connection:
                yield connection
                touched.extend(connection.execute("FROM touched").fetchall())

        build_warehouse(store, settings, connect=begun)
        assert {bucket for dimension, bucket in touched if dimension == "month"} == {"2026-04"}
        assert {bucket for dimension, bucket in touched if dimension in {"all", "host", "host month"}} == {"", "claude", "claude 2026-04"}
        grown = rows_of(store)["signal_by"]
        build_warehouse(store, settings, force=True)
        assert grown == rows_of(store)["signal_by"]
        assert {row[1] for row in grown if row[0] == "month"} == {"2026-03", "2026-04"}


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


@pytest.mark.feature("warehouse.kept-sessions")
@pytest.mark.parametrize("former", ["read by this process", "damaged"])
def test_a_former_warehouse_that_is_read_or_damaged_does_not_stop_the_next_one(environ, former):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    with open_store(settings) as store, contextlib.ExitStack() as stack:
        write_month(home, "2026-03", 1, prompts=2)
        run_stages(store, settings)
        write_month(home, "2026-04", 2)
        for name in ("ingest", "derive"):
            step(name, store, settings)
        path = store.warehouse_path
        if former == "damaged":
            status = path.stat()
            path.write_bytes(b"x" * status.st_size)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        else:
            reader = stack.enter_context(database.connect(path, read_only=True))
            before = reader.execute("SELECT count(*) FROM session_overview").fetchall()
        build_warehouse(store, settings)
        assert former == "damaged" or reader.execute("SELECT count(*) FROM session_overview").fetchall() == before
        stack.close()
        grown = rows_of(store)
        build_warehouse(store, settings, force=True)
        assert grown == rows_of(store)
        assert len(grown["session_overview"]) == 2


@pytest.mark.feature("lake.sweep")
def test_a_collection_that_failed_is_made_again_by_the_next_build(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    with open_store(settings) as store:

        def grow(number: int) -> None:
            write_month(home, "2026-03", number)
            for name in ("ingest", "derive"):
                step(name, store, settings)

        unnamed = store.files.local("lake/events/host=claude/month=2026-03/part-000000000000000000000000.parquet")
        grow(1)
        unnamed.write_bytes(b"part that no manifest names")
        os.utime(unnamed, (0, 1))
        with monkeypatch.context() as patch:
            patch.setattr(Files, "walk", _no_walk)
            with pytest.raises(OSError, match="no walk"):
                build_warehouse(store, settings)
        grow(2)
        assert unnamed.exists()
        build_warehouse(store, settings)
        assert not unnamed.exists()


def _no_walk(*_):
    raise OSError("no walk")


@pytest.mark.feature("lake.sweep")
def test_builds_that_follow_each_other_sweep_the_lake_once(environ, monkeypatch):
    home = Path(environ["CLAUDE_CONFIG_DIR"])
    settings = settings_of(environ)
    swept: list[object] = []
    original = Lake.collect_garbage

    def collect_garbage(lake, *cells, **options):
        swept.extend(["all"] if "keep" in options else [])
        return original(lake, *cells, **options)

    def at(moved: float) -> None:
        clock = SimpleNamespace(time=lambda: time.time() + moved, perf_counter=time.perf_counter)
        monkeypatch.setattr(warehouse, "time", clock)

    monkeypatch.setattr(Lake, "collect_garbage", collect_garbage)
    with open_store(settings) as store:
        for number, (moved, sweeps) in enumerate([(0, 1), (0, 1), (SWEEP_AFTER / 2, 2), (SWEEP_AFTER / 2, 2), (-SWEEP_AFTER, 3)], 1):
            at(moved)
            write_month(home, "2026-03", number)
            for name in ("ingest", "derive"):
                step(name, store, settings)
            build_warehouse(store, settings)
            assert (number, len(swept)) == (number, sweeps)


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
