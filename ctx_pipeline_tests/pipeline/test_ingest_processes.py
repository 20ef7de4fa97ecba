"""Ingest over processes: workers, a kill at every step, two at once."""

from __future__ import annotations

import os
import pickle
import signal
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline import sync as sync_module
from ctx_pipeline.pipeline.ingest import commit, ingest, pool
from ctx_pipeline.pipeline.ingest.tasks import SessionJob, grouped
from ctx_pipeline.pipeline.ingest.worker import PackedRows
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline.storage.ledger import Source
from ctx_pipeline_tests import preloaded
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.pipeline.ingest_toy import hashes, rows, run, settings_of
from ctx_pipeline_tests.pipeline.toy_home import append, line, write

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from concurrent.futures import Future


ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "ctx_pipeline" / "samples"

CHILD = """
import os, signal, sys
from pathlib import Path
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline.storage.ledger import Ledger
from ctx_pipeline.storage.search_index import SearchIndex
from ctx_pipeline_tests.pipeline.ingest_toy import run, settings_of

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name, times=1):
    whole = getattr(owner, name)
    left = [times]
    def wrapped(*args, **options):
        result = whole(*args, **options)
        left[0] -= 1
        if not left[0]:
            die()
        return result
    setattr(owner, name, wrapped)

folder, point = Path(sys.argv[1]), sys.argv[2]
if point != "nowhere":
    owner, name, times = point.split(".")
    after({"Lake": Lake, "Ledger": Ledger, "SearchIndex": SearchIndex}[owner], name, int(times))
with open_store(settings_of(folder)) as store:
    reports = run(store, settings_of(folder))
    print(sum(c.counts.get("parsed", 0) for c in reports["normalize"].cells.values()))
"""


def child(folder: Path, point: str = "nowhere") -> Future[subprocess.CompletedProcess[str]]:
    return preloaded.begin("-c", CHILD, str(folder), point, env=environment(folder), cwd=ROOT)


def finish(process: Future[subprocess.CompletedProcess[str]]) -> tuple[int, str]:
    """Return the exit status and what was printed."""
    done = process.result()
    return done.returncode, done.stdout


def make_home(folder: Path) -> None:
    for month in ("05", "06", "07"):
        for n in range(3):
            ts = f"2026-{month}-0{n + 1}T10:00:00.000Z"
            name = f"s{month}{n}"
            write(
                folder / "toy",
                f"sessions/{name}.jsonl",
                line(id=name, ts=ts, text=f"prompt {name} apple", key=f"k{month}"),
                line(ts=ts, text="pear", run="ls"),
            )


def contents(folder: Path) -> tuple:
    with open_store(settings_of(folder)) as store:
        found = sorted(f.event.text for f in store.search.search(store.lake, "apple", limit=50))
        return hashes(store), found, store.search.doctor(store.lake), store.ledger.unfinished_cells()


def clean(tmp_path: Path, folder: Path) -> dict:
    """Return the hashes of an undisturbed ingest of the same home."""
    settings = Settings(home=tmp_path / "undisturbed", demo_roots={"toy": (folder / "toy",)})
    with open_store(settings) as store:
        run(store, settings)
        return hashes(store)


@pytest.mark.feature("ingest.kill")
@pytest.mark.parametrize(
    "point",
    [
        "Lake.write_part.1",
        "Ledger.commit_capture.2",
        "Ledger.record_normalized.1",
        "Lake.write_part.8",
        "SearchIndex.finish.1",
        "Lake.commit.1",
        "Ledger.record_asset.1",
        "Ledger.record_asset.7",
        "Lake.commit.3",
        "SearchIndex.mark_committed.1",
    ],
)
def test_a_run_after_a_kill_at_any_step_ends_as_if_nothing_had_happened(tmp_path, point):
    folder = tmp_path / "there"
    make_home(folder)
    assert finish(child(folder, point))[0] == -signal.SIGKILL
    assert finish(child(folder))[0] == 0
    expected = clean(tmp_path, folder)
    texts = sorted(f"prompt s{month}{n} apple" for month in ("05", "06", "07") for n in range(3))
    assert contents(folder) == (expected, texts, [], set())


@pytest.mark.feature("ingest.kill")
@pytest.mark.parametrize("point", ["SearchIndex.finish.1", "Lake.commit.1", "Ledger.record_normalized.1"])
def test_a_kill_in_an_append_leaves_one_hit_a_row(tmp_path, point):
    folder = tmp_path / "there"
    make_home(folder)
    finish(child(folder))
    append(folder / "toy/sessions/s050.jsonl", line(ts="2026-05-01T11:00:00.000Z", text="more apple", key="k06"))
    assert finish(child(folder, point))[0] == -signal.SIGKILL
    finish(child(folder))
    expected = clean(tmp_path, folder)
    texts = sorted([*(f"prompt s{month}{n} apple" for month in ("05", "06", "07") for n in range(3)), "more apple"])
    assert contents(folder) == (expected, texts, [], set())


@pytest.mark.feature("ingest.kill")
def test_after_a_kill_an_ingest_of_another_cell_leaves_dirty_what_was_never_written(tmp_path):
    folder = tmp_path / "there"
    make_home(folder)
    finish(child(folder))
    append(folder / "toy/sessions/s060.jsonl", line(ts="2026-06-01T11:00:00.000Z", text="more apple"))
    assert finish(child(folder, "Ledger.record_normalized.1"))[0] == -signal.SIGKILL

    append(folder / "toy/sessions/s050.jsonl", line(ts="2026-05-01T11:00:00.000Z", text="a call of June", key="k06"))
    with open_store(settings_of(folder)) as store:
        reports = run(store, settings_of(folder), cells={Cell("toy", "2026-05")})
        assert sorted(reports["normalize"].cells) == ["toy|2026-05", "toy|2026-06"]
        assert [s.session_id for s in store.ledger.dirty_sessions()] == ["s060"]
    assert finish(child(folder)) == (0, "1\n")
    expected = clean(tmp_path, folder)
    texts = sorted([*(f"prompt s{month}{n} apple" for month in ("05", "06", "07") for n in range(3)), "more apple"])
    assert contents(folder) == (expected, texts, [], set())


@pytest.mark.feature("ingest.two-at-once")
def test_of_two_ingests_at_once_the_second_finds_nothing_to_do(tmp_path):
    folder = tmp_path / "there"
    make_home(folder)
    both = [child(folder), child(folder)]
    assert sorted(finish(each) for each in both) == [(0, "0\n"), (0, "9\n")]
    assert contents(folder)[0] == clean(tmp_path, folder)


@pytest.mark.feature("ingest.workers")
@pytest.mark.parametrize("forks", [True, False])
def test_workers_give_the_same_cells_as_one_process(tmp_path, monkeypatch, forks):
    homes = {"claude": (SAMPLES / "claude",), "codex": (SAMPLES / "codex",)}
    found = []
    for name, above in (("alone", 1 << 40), ("pool", 0)):
        monkeypatch.setattr(pool, "POOL_ABOVE", above)
        monkeypatch.setattr(pool, "_may_fork", lambda: forks)
        settings = Settings(home=tmp_path / name, demo_roots=homes)
        with open_store(settings) as store:
            ingest(store, settings)
            found.append((hashes(store), len(rows(store, "events")), store.search.doctor(store.lake)))
    assert found[0] == found[1]
    assert found[0][1] > 0


@pytest.mark.feature("ingest.workers")
@pytest.mark.parametrize("forks", [True, False])
def test_what_another_process_decodes_is_stored_like_what_this_one_does(tmp_path, monkeypatch, forks):
    homes = {"claude": (SAMPLES / "claude",), "codex": (SAMPLES / "codex",)}
    found, here, work = [], os.getpid(), pool.work
    for name, above in (("here", 1 << 40), ("there", 0)):
        if name == "there":
            monkeypatch.setattr(pool, "wait", lambda lines, _: wait(lines))  # no turn is left for this process
            monkeypatch.setattr(pool, "work", lambda *task: pytest.fail("decoded here") if os.getpid() == here else work(*task))
        monkeypatch.setattr(pool, "POOL_ABOVE", above)
        monkeypatch.setattr(pool, "_may_fork", lambda: forks)
        settings = Settings(home=tmp_path / name, demo_roots=homes)
        with open_store(settings) as store:
            ingest(store, settings)
            found.append((hashes(store), len(rows(store, "events")), store.search.doctor(store.lake)))
    assert found[0] == found[1]
    assert found[0][1] > 0


@pytest.mark.feature("ingest.workers")
def test_a_spool_gives_back_exactly_what_was_written_and_has_no_name(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    handle = pool.open_spool(folder)
    assert list(folder.iterdir()) == []
    pool.write_spool(handle, 0, [b"first", b"", b"second"])
    pool.write_spool(handle, 11, [b"x" * 300_000])
    assert pool.read_spool(handle, 0, 11) == b"firstsecond"
    assert pool.read_spool(handle, 11, 300_000) == b"x" * 300_000
    with pytest.raises(EOFError):
        pool.read_spool(handle, 300_000, 100)
    os.close(handle)


@pytest.mark.feature("ingest.sync")
def test_sync_ingests_what_is_new_and_then_says_nothing(tmp_path):
    homes = {"claude": (SAMPLES / "claude",), "codex": (SAMPLES / "codex",)}
    settings = Settings(home=tmp_path / "store", demo_roots=homes)
    with open_store(settings) as store:
        first = sync(store, settings)
        assert [r.stage for r in first] == ["capture", "normalize", "index_search"]
        assert not first[1].failed_partitions
        assert sync(store, settings) == []


@pytest.mark.feature("ingest.versions-beside")
@pytest.mark.parametrize("above", [0, 1 << 40])
def test_a_large_first_sync_leaves_the_versions_of_everything_for_the_next_command(tmp_path, monkeypatch, above):
    homes = {"claude": (SAMPLES / "claude",), "codex": (SAMPLES / "codex",)}
    settings = Settings(home=tmp_path / "store", demo_roots=homes)
    monkeypatch.setattr(sync_module, "MANY_BYTES", 0)
    monkeypatch.setattr(pool, "POOL_ABOVE", above)
    here, asked = os.getpid(), []
    imported = code_versions._imported
    monkeypatch.setattr(code_versions, "_imported", lambda chosen: asked.append(os.getpid()) or imported(chosen))
    with open_store(settings) as store:
        assert sync(store, settings)
        assert asked == ([] if above == 0 else [here])  # a worker asks in its own process
        known = code_versions.versions(store.files, settings)
        assert asked == ([] if above == 0 else [here])
        assert known == code_versions.collect(settings)
        assert sync(store, settings) == []


@pytest.mark.feature("ingest.versions-beside")
def test_a_large_sync_asks_for_hosts_alone_before_it_starts(tmp_path):
    settings = Settings(home=tmp_path / "store")
    with open_store(settings) as store:
        found = code_versions.decoders(store.files, settings, later=True)
        assert not store.files.exists(code_versions.CACHE)
        assert found == code_versions.versions(store.files, settings).decoders
        assert code_versions.decoders(store.files, settings, later=True) == found


@pytest.mark.feature("ingest.workers")
def test_the_last_tasks_of_many_are_small_and_few_stay_whole():
    def jobs(count):
        source = Source("toy:s", "toy", "/home/sam/.toy", "s.jsonl", "session", 1 << 20, 0, 0, captured=1 << 20)
        return [SessionJob("toy", f"s{n:02}", "2026-06", known=[source]) for n in range(count)]

    sizes = [task.bytes >> 20 for task in grouped(jobs(100), 10 << 20)]
    assert sum(sizes) == 100
    assert sizes[:3] == [10, 10, 10]
    assert max(sizes[-2:]) == 2
    assert sizes == sorted(sizes, reverse=True)
    assert [task.bytes >> 20 for task in grouped(jobs(40), 10 << 20)] == [10, 10, 10, 10]


@pytest.mark.feature("ingest.compaction")
def test_many_appends_are_merged_and_stay_searchable(tmp_path, monkeypatch):
    from ctx_pipeline.pipeline.ingest import commit

    monkeypatch.setattr(commit, "COMPACT_ABOVE", 4)
    settings = settings_of(tmp_path)
    with open_store(settings) as store:
        for n in range(12):
            write(tmp_path / "toy", f"sessions/n{n}.jsonl", line(id=f"n{n}", ts="2026-06-01T00:00:00.000Z", text=f"word{n} apple"))
            if n == 6:
                append(tmp_path / "toy/sessions/n2.jsonl", line(ts="2026-06-01T01:00:00.000Z", text="late apple"))
            run(store, settings)
        manifest = store.lake.manifest("normalized", Cell("toy", "2026-06"))
        assert len(manifest.of_table("events")) <= 5
        assert len(rows(store, "events")) == 13
        found = sorted(f.event.text for f in store.search.search(store.lake, "apple", limit=50))
        assert found == sorted([*(f"word{n} apple" for n in range(12)), "late apple"])
        assert store.search.doctor(store.lake) == []
        assert store.lake.collect_garbage(older_than=-1) > 0
        assert len(store.search.search(store.lake, "apple", limit=50)) == 13


@pytest.mark.feature("ingest.memory")
def test_a_few_sessions_calls_at_a_time_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_home(tmp_path)
    with open_store(settings_of(tmp_path, store="all")) as store:
        run(store, settings_of(tmp_path, store="all"))
        expected, all_calls = hashes(store), tuple(rows(store, "model_calls"))
    written: list[int] = []
    write_rows = Lake.write_rows

    def counted(lake: Lake, asset: str, cell: Cell, table: str, members: Sequence[tuple]) -> object:
        written.extend([len(members)] if table == "model_calls" else [])
        return write_rows(lake, asset, cell, table, members)

    monkeypatch.setattr(commit, "_CALLS_AT_ONCE", 1)
    monkeypatch.setattr(Lake, "write_rows", counted)
    with open_store(settings_of(tmp_path)) as store:
        run(store, settings_of(tmp_path))
        assert hashes(store) == expected
        again = tuple(rows(store, "model_calls"))
    assert written == [1] * len(again)
    assert again == all_calls


@pytest.mark.feature("ingest.memory")
def test_sessions_that_come_to_a_cell_of_several_parts_change_the_rest_as_a_run_from_nothing_does(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "_CALLS_AT_ONCE", 1)
    folder = tmp_path / "there"
    make_home(folder)
    for day, name, key in (("09", "later", "k-own"), ("01", "earlier", "k05"), ("04", "copied", "k07")):
        with open_store(settings_of(folder)) as store:
            run(store, settings_of(folder))
            manifest = store.lake.manifest("normalized", Cell("toy", "2026-05"))
            assert manifest is not None
            assert len(manifest.of_table("model_calls")) == (3 if name == "later" else 1)
        write(
            folder / "toy",
            f"sessions/{name}.jsonl",
            line(id=name, ts=f"2026-05-{day}T01:00:00.000Z", text=f"prompt {name} apple", key=key),
            line(ts=f"2026-05-{day}T02:00:00.000Z", text="pear", key=f"{key}-more"),
        )
    with open_store(settings_of(folder)) as store:
        run(store, settings_of(folder))
        found = hashes(store), tuple(rows(store, "model_calls"))
    undisturbed = Settings(home=tmp_path / "undisturbed", demo_roots={"toy": (folder / "toy",)})
    with open_store(undisturbed) as store:
        run(store, undisturbed)
        assert found == (hashes(store), tuple(rows(store, "model_calls")))


@pytest.mark.feature("ingest.memory")
def test_rows_that_wait_for_others_are_packed() -> None:
    rows = [(f"msg_{n:024x}", "claude", "a-session", n, 1_790_000_000_000_000 + n, "claude-opus-4-5", n % 900, n % 70) for n in range(5000)]
    packed = PackedRows(rows)
    assert list(packed) == list(packed) == rows
    assert len(pickle.dumps(packed)) < len(pickle.dumps(rows)) / 4
