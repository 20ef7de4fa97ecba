"""What makes an asset stale beside new input: versions, settings, cells that emptied, work that overtakes work."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_file
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import background, capture, code_versions, index, ingest, measure, mine, warehouse
from ctx_pipeline.pipeline import reports as fingerprints
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.plan import NEW_CODE, NEW_INPUT, OFF_PATH, WHOLE, plan
from ctx_pipeline.pipeline.repair import missing_outputs
from ctx_pipeline.pipeline.reports import reason
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.months import session_id, settings_of, write_month

FEBRUARY, MARCH, APRIL, MAY = (Cell("claude", f"2026-{month:02d}") for month in range(2, 6))
BADGE = "BADGE-12345678"


@pytest.fixture
def home(environ):
    root = Path(environ["CLAUDE_CONFIG_DIR"])
    write_month(root, "2026-03", 1)
    write_month(root, "2026-04", 2)
    return root


@pytest.fixture
def settings(environ, home):
    return settings_of(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        run_stages(opened, settings)
        yield opened


def configured(settings, config="", **environ):
    """Return the settings after the person wrote a config file or changed the environment."""
    (settings.home / "config.toml").write_text(config)
    return settings_file.load({**settings.environ, **environ})


def dirty(store, settings, *, scan=True):
    made = plan(store, settings, capture.scan(store, settings) if scan else None)
    waited = {key: node for key, node in made.assets.items() if node.asset.stage not in OFF_PATH}
    return {key: [(cell, node.cells[cell].reason) for cell in node.dirty()] for key, node in waited.items() if node.dirty()}


def rows(store, table):
    return [row for cell in store.lake.manifests("normalized") for row in store.lake.read_rows(table, cell, "normalized")]


NORMALIZED = {f"normalized/{table}" for table in ("events", "sessions", "threads", "model_calls", "tool_calls")}


@pytest.mark.feature("staleness.host-version")
def test_a_new_version_of_a_hosts_parser_decodes_that_hosts_sessions_again(store, settings, environ, monkeypatch):
    host = discovery.hosts()["claude"]
    newer = {**discovery.hosts(), "claude": replace(host, version=host.version + 1)}
    other = {**discovery.hosts(), "codex": replace(discovery.hosts()["codex"], version=99)}
    versions = {s.code_version for s in store.ledger.sessions()}

    monkeypatch.setattr(discovery, "hosts", lambda: other)
    (settings.home / code_versions.CACHE).unlink()
    assert dirty(store, settings) == {}

    monkeypatch.setattr(discovery, "hosts", lambda: newer)
    (settings.home / code_versions.CACHE).unlink()
    assert dirty(store, settings) == {asset: [(MARCH, NEW_CODE), (APRIL, NEW_CODE)] for asset in NORMALIZED}
    reports = sync(store, settings)

    assert {cell: report.counts["parsed"] for r in reports if r.stage == "normalize" for cell, report in r.cells.items()} == {
        MARCH.key: 1,
        APRIL.key: 1,
    }
    assert {s.code_version for s in store.ledger.sessions()}.isdisjoint(versions)
    assert dirty(store, settings) == {}


@pytest.mark.feature("staleness.restricted-ingest")
def test_a_new_code_version_is_not_forgotten_by_an_ingest_of_one_session(store, settings, home, monkeypatch):
    monkeypatch.setattr(fingerprints, "DECODING", "999")
    (settings.home / code_versions.CACHE).unlink()
    write_month(home, "2026-04", 2, prompts=2)

    ingest.ingest(store, settings, sessions={("claude", session_id(2))})
    left = dirty(store, settings)

    assert all(left[asset] == [(MARCH, NEW_CODE)] for asset in NORMALIZED)
    assert sync(store, settings) != []
    assert not NORMALIZED & dirty(store, settings).keys()
    assert {s.code_version.partition(".")[0] for s in store.ledger.sessions()} == {"999"}


@pytest.mark.feature("staleness.restricted-ingest")
def test_a_cell_that_is_half_of_an_older_version_stays_stale(settings, home, monkeypatch):
    write_month(home, "2026-04", 3)
    with open_store(settings) as store:
        run_stages(store, settings)
        monkeypatch.setattr(fingerprints, "DECODING", "999")
        real = store.ledger.dirty_sessions
        monkeypatch.setattr(store.ledger, "dirty_sessions", lambda *_, **__: [])
        write_month(home, "2026-04", 2, prompts=2)
        ingest.ingest(store, settings, cells=[APRIL])
        monkeypatch.setattr(store.ledger, "dirty_sessions", real)
        (settings.home / code_versions.CACHE).unlink()

        assert [cell for cell, _ in dirty(store, settings)["normalized/events"]] == [MARCH, APRIL]


@pytest.mark.feature("staleness.prices")
def test_a_persons_new_price_is_in_every_cell_without_decoding(store, settings):
    (model,) = {row.model for row in rows(store, "model_calls")}
    dear = configured(settings, f'[prices."{model}"]\ninput = 1000\noutput = 1000\n')
    before = [row.cost for row in rows(store, "model_calls")]

    assert dirty(store, dear) == {"normalized/model_calls": [(MARCH, NEW_CODE), (APRIL, NEW_CODE)]}
    report = run_stages(store, dear)

    assert report.sessions_parsed == 0
    assert all(new > old for new, old in zip((row.cost for row in rows(store, "model_calls")), before, strict=True))
    assert dirty(store, dear) == {}


@pytest.mark.feature("staleness.patterns", "redaction.re-derive")
def test_a_new_redaction_pattern_reaches_what_was_written_before(settings, home):
    transcript = ClaudeHome(home).session(session_id(7), mark="m7")
    transcript.prompt(f"always open the door with {BADGE}")
    transcript.save()
    with open_store(settings) as store:
        run_stages(store, settings)
        assert any(BADGE in (row.text or "") for row in rows(store, "events"))
        strict = configured(settings, '[redaction.patterns]\nbadge = "BADGE-[0-9]{8}"\n')

        assert dirty(store, strict).keys() >= {*NORMALIZED, "memory/consolidated"}
        run_stages(store, strict)

        assert not any(BADGE in (row.text or "") for row in rows(store, "events"))
        assert not any(BADGE in (row.title or "") for row in rows(store, "sessions"))
        assert dirty(store, strict) == {}


@pytest.mark.feature("staleness.first-month")
def test_another_first_month_moves_the_sessions_and_back_again(store, settings):
    later = configured(settings, 'first_month = "2026-04"\n')
    with open_store(later) as moved:
        assert dirty(moved, later)["raw/segments"] == [(MARCH, NEW_CODE), (APRIL, NEW_CODE)]
        run_stages(moved, later)
        assert moved.ledger.cells() == [APRIL]
        assert list(moved.lake.manifests("normalized")) == list(moved.lake.manifests("signals/activity")) == [APRIL]
        assert dirty(moved, later) == {}

    earlier = configured(settings)
    run_stages(store, earlier)
    assert list(store.lake.manifests("signals/activity")) == [MARCH, APRIL]
    assert dirty(store, earlier) == {}


@pytest.mark.feature("staleness.zone-and-cost-mode")
@pytest.mark.parametrize("environ_of", [{"TZ": "Asia/Tokyo"}, {"CTX_COST_MODE": "display"}])
def test_another_zone_or_cost_mode_makes_the_warehouse_and_the_page_anew(store, settings, environ_of):
    other = configured(settings, **environ_of)

    assert dirty(store, other) == {"warehouse/duckdb": [(WHOLE, NEW_CODE)], "dashboard/site": [(WHOLE, NEW_CODE)]}
    run_stages(store, other)
    assert dirty(store, other) == {}


@pytest.mark.feature("staleness.package-files")
def test_a_changed_style_or_price_list_of_the_package_is_looked_at(tmp_path, monkeypatch, settings):
    package = tmp_path / "package"
    shutil.copytree(Path(code_versions.__file__).parents[1] / "pricing", package / "pricing", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_versions, "_PACKAGE", package)
    monkeypatch.setattr(code_versions, "_SECONDS", -1.0)
    before = code_versions._stamp([], settings)
    os.utime(package / "pricing" / "prices.json", (1, 1))

    assert code_versions._stamp([], settings) != before


@pytest.mark.feature("staleness.emptied-cell")
def test_a_cell_that_its_sessions_left_is_dropped_by_the_stages_that_the_plan_names(settings, home):
    agent = ClaudeHome(home).agent("abc", session_id(9), mark="m9", started=datetime(2026, 5, 5, 10, tzinfo=UTC))
    agent.prompt("look around")
    agent.answer(text("nothing here"))
    agent.save()
    with open_store(settings) as store:
        run_stages(store, settings)
        assert store.ledger.cells() == [MARCH, APRIL, MAY]
        write_month(home, "2026-02", 9)
        ingest.ingest(store, settings)

        assert store.ledger.cells() == [FEBRUARY, MARCH, APRIL]
        assert store.ledger.asset_cell("normalized/events", MAY) is None
        left = dirty(store, settings)
        assert left["signals/activity"] == [(FEBRUARY, NEW_INPUT), (MAY, NEW_INPUT)]
        assert not NORMALIZED & left.keys()
        wanted = plan(store, settings, capture.scan(store, settings)).partitioned_cells()
        measure.measure(store, settings, cells=wanted)
        mine.mine(store, settings, cells=wanted)

        assert list(store.lake.manifests("signals/activity")) == [FEBRUARY, MARCH, APRIL]
        assert list(store.lake.manifests("mined/error_resolutions")) == [FEBRUARY, MARCH, APRIL]
        run_stages(store, settings)
        assert dirty(store, settings) == {}


@pytest.mark.feature("staleness.emptied-cell")
def test_a_cell_that_emptied_is_dropped_though_nothing_but_its_manifest_is_left(store, settings, home):
    transcript = next(home.rglob(f"{session_id(1)}.jsonl"))
    for asset in ("signals/activity", *NORMALIZED):
        store.ledger.forget_asset(asset, [MARCH])
    transcript.write_text(transcript.read_text().replace("2026-03-05", "2026-02-05"))
    capture.capture(store, settings)
    assert store.ledger.cells() == [FEBRUARY, APRIL]

    assert {asset for asset, cells in dirty(store, settings).items() if (MARCH, NEW_INPUT) in cells} >= {"signals/activity", *NORMALIZED}
    ingest.ingest(store, settings)
    measure.measure(store, settings, cells=[MARCH])

    assert list(store.lake.manifests("normalized")) == [FEBRUARY, APRIL]
    assert list(store.lake.manifests("signals/activity")) == [APRIL]


@pytest.mark.feature("staleness.overtaken")
@pytest.mark.parametrize("stage", [measure, mine])
def test_what_was_made_while_its_input_changed_is_stale(settings, home, monkeypatch, stage):
    with open_store(settings) as store:
        ingest.ingest(store, settings)
        make_facts(store, settings)
        measure.measure(store, settings)
        name = "take" if stage is measure else "draw"
        real, calls = getattr(stage, name), []

        def overtaken(declared, view):
            if not calls:
                calls.append(1)
                write_month(home, "2026-03", 1, prompts=3)
                with open_store(settings) as other:
                    ingest.ingest(other, settings)
            return real(declared, view)

        monkeypatch.setattr(stage, name, overtaken)
        getattr(stage, name.replace("take", "measure").replace("draw", "mine"))(store, settings, force=True)
        monkeypatch.setattr(stage, name, real)

        asset = "signals/outcomes" if stage is measure else "mined/error_resolutions"
        assert dirty(store, settings)[asset] == [(MARCH, NEW_INPUT)]


@pytest.mark.feature("staleness.search-version")
def test_a_new_version_of_the_index_makes_it_anew(store, settings, monkeypatch):
    os.utime(store.search.path, (1, 1))
    index.index_search(store, settings)
    assert store.search.path.stat().st_mtime == 1

    monkeypatch.setattr(index, "CODE_VERSION", "another")
    report = index.index_search(store, settings)

    assert report.cells[""].status == "done"
    assert store.search.path.stat().st_mtime > 1
    assert store.ledger.asset_cell("search/index", WHOLE).code_version == "another"


@pytest.mark.feature("staleness.swept")
def test_replaced_parts_go_and_those_that_the_warehouse_names_stay_until_it_is_built(store, settings, home, monkeypatch):
    monkeypatch.setattr(warehouse, "_BETWEEN_COLLECTIONS", 0.0)

    def parts():
        return set(store.files.walk("lake/events"))

    named = {part.path for part in store.lake.parts("events")}
    assert parts() == named
    write_month(home, "2026-03", 1, prompts=2)
    sync(store, settings)
    dead = next(iter(named - {part.path for part in store.lake.parts("events")}))
    long_ago = time.time() - 7_200
    os.utime(store.files.local(dead), (long_ago, long_ago))

    assert missing_outputs.collect_garbage(store, store.ledger.cells()) == 0
    assert dead in parts()
    run_stages(store, settings)

    assert parts() == {part.path for part in store.lake.parts("events")}


@pytest.mark.feature("staleness.swept")
def test_an_ingest_sweeps_what_is_older_than_an_hour_and_newer_than_the_warehouse(settings, home):
    with open_store(settings) as store:
        sync(store, settings)
        old = {part.path for part in store.lake.parts("events")}
        for path in old:
            os.utime(store.files.local(path), (time.time() - 7_200,) * 2)
        write_month(home, "2026-03", 1, prompts=2)
        write_month(home, "2026-04", 2, prompts=2)
        sync(store, settings)
        assert not old & set(store.files.walk("lake"))

        young = {part.path for part in store.lake.parts("events")}
        write_month(home, "2026-03", 1, prompts=3)
        sync(store, settings)
        assert young <= set(store.files.walk("lake"))


@pytest.mark.feature("staleness.search-swept")
def test_an_index_with_more_dead_rows_than_live_ones_is_made_anew(settings, home):
    with open_store(settings) as store:
        for prompts in range(1, 8):
            write_month(home, "2026-03", 1, prompts=prompts)
            sync(store, settings)
            assert not store.search.mostly_dead
        live = sum(part.rows for part in store.lake.parts("events"))
        indexed = store.search._reading().execute("SELECT count(*) FROM history").fetchone()[0]
        assert indexed <= 2 * live
        assert store.search.doctor(store.lake) == []
        assert len(store.search.query("mend")) == 8


@pytest.mark.feature("staleness.told-errors")
def test_the_text_of_an_unforeseen_error_is_not_told():
    try:
        int(BADGE)
    except ValueError as error:
        told = reason(error)

    assert told.startswith("ValueError in test_staleness.py, line ")
    assert BADGE not in told
    assert reason(settings_file.SettingsError("ours")) == "ours"


@pytest.mark.feature("staleness.told-errors")
def test_a_held_cell_and_the_background_ingest_do_not_quote_what_they_tripped_over(settings, home, monkeypatch):
    def failing(*_, **__):
        raise ValueError(BADGE)

    with open_store(settings) as store:
        ingest.ingest(store, settings)
        monkeypatch.setattr(measure, "store_reading", failing)
        held = measure.measure(store, settings).failed_partitions
        scan = capture.scan(store, settings)

    assert {error.partition(",")[0].partition(": ")[2] for error in held.values()} == {"ValueError in test_staleness.py"}

    monkeypatch.setattr(background, "_ingest", failing)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    background._work(settings, scan, theirs)
    kind, error = ours.recv()
    assert (kind, BADGE in str(error)) == ("error", False)
    assert "ValueError in test_staleness.py" in str(error)


@pytest.mark.feature("staleness.session-row")
def test_a_new_title_is_measured_by_a_signal_that_reads_sessions_and_by_that_session_alone(store, settings, home, monkeypatch):
    asked = []

    def title_length(session) -> Reading:
        """Letters of the title.

        There is no good or bad number.
        """
        asked.append(session.session_id)
        return Reading(float(len(session.session.title)))

    declared = signal(group="activity", unit="chars", reads=("sessions",), name="title_length")(title_length)
    monkeypatch.setattr(discovery, "families", lambda: {"titles": discovery.Family("titles", (declared,))})
    entries = [{"sessionId": session_id(1), "summary": "short"}, {"sessionId": session_id(8), "summary": "of nobody"}]
    write_month(home, "2026-03", 8)
    index_file = ClaudeHome(home).file("projects/-home-dev-shop/sessions-index.json", {"version": 1, "entries": entries})
    sync(store, settings)
    measure.measure(store, settings)
    assert set(asked) == {session_id(1), session_id(2), session_id(8)}
    asked.clear()

    entries[0]["summary"] = "a longer one"
    index_file.write_text(json.dumps({"version": 1, "entries": entries}))
    sync(store, settings)
    measure.measure(store, settings)

    assert asked == [session_id(1)]
    found = {row.session_id: row.value for row in store.lake.read_rows("readings", MARCH, "signals/titles")}
    assert found == {session_id(1): 12.0, session_id(8): 9.0}


@pytest.mark.feature("staleness.model-methods")
def test_a_method_that_asks_a_model_is_no_input_of_the_memories_that_the_plan_expects(store, settings, monkeypatch):
    asks = replace(discovery.methods()["error_resolutions"], name="asks_a_model", deterministic=False)
    known = {**discovery.methods(), "asks_a_model": asks}
    monkeypatch.setattr(discovery, "methods", lambda: known)
    mine.mine(store, settings, methods=["asks_a_model"])
    store.journal.append("memory.accepted", {"memory_id": "none"}, actor="person")

    run_stages(store, settings)

    assert store.lake.manifests("mined/asks_a_model").keys() == {MARCH, APRIL}
    assert dirty(store, settings) == {}
