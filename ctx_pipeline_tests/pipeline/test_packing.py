"""Raw objects of quiet generations are joined, and nothing else changes."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.errors import StoreFull
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.capture import capturing
from ctx_pipeline.pipeline.forget.shared_files import Needles, blank_shared
from ctx_pipeline.pipeline.repair import damaged_raw
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline.storage.verified import VerifiedFiles
from ctx_pipeline_tests.pipeline.ingest_toy import HOSTS, hashes, rows, run
from ctx_pipeline_tests.pipeline.toy_home import append, line, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

JULY = "2026-07-04T10:00:00Z"
NEXT_WEEK = timedelta(days=capturing.QUIET_DAYS, hours=1)


def grown(store: Store, settings: Settings, home: Path, looks: int = capturing.MANY) -> Path:
    """Write a session and look at it after every line."""
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JULY, text="turn 0"))
    run(store, settings)
    for turn in range(1, looks):
        append(path, line(ts=JULY, text=f"turn {turn}"))
        run(store, settings)
    return path


def pack(store: Store, after: timedelta = NEXT_WEEK) -> int:
    with store.ledger.lease(capture.LEASE):
        return capturing.pack(store, now=datetime.now(UTC) + after, again=0)


def objects(store: Store) -> list[str]:
    return list(store.files.walk("raw"))


def pieces(store: Store) -> list[tuple]:
    return [(s.generation, s.start, s.end, s.sha256, s.recorded_at, s.mtime_ns) for s in store.ledger.segments()]


def texts(store: Store) -> list[str]:
    return [r["text"] for r in sorted(rows(store, "events"), key=lambda r: r["start"])]


@pytest.mark.feature("raw.packs", "capture.packed-generations")
def test_a_quiet_generation_becomes_one_object_and_its_segments_stay_what_they_were(store, settings, home):
    path = grown(store, settings, home)
    before, made = pieces(store), hashes(store)
    assert len(objects(store)) == capturing.MANY

    assert pack(store) == capturing.MANY - 1

    assert len(objects(store)) == 1
    assert pieces(store) == before
    assert {s.path for s in store.ledger.segments()} == set(objects(store))
    assert store.ledger.totals()["stored_bytes"] == store.files.size(objects(store)[0])
    assert run(store, settings)["normalize"].totals["sessions_parsed"] == 0
    append(path, line(ts=JULY, text="afterwards"))
    assert run(store, settings)["normalize"].totals["sessions_parsed"] == 1
    assert texts(store) == [*(f"turn {n}" for n in range(capturing.MANY)), "afterwards"]
    assert hashes(store).keys() == made.keys()


@pytest.mark.feature("raw.packs")
def test_what_is_young_or_in_few_objects_is_left_alone(store, settings, home):
    path = grown(store, settings, home, capturing.MANY - 1)
    assert pack(store) == 0
    append(path, line(ts=JULY, text="the last"))
    run(store, settings)
    assert pack(store, timedelta(days=capturing.QUIET_DAYS - 1)) == 0
    assert pack(store) == capturing.MANY - 1


@pytest.mark.feature("raw.packs")
def test_what_was_added_to_a_packed_generation_is_packed_with_it(store, settings, home):
    path = grown(store, settings, home)
    pack(store)
    for turn in range(capturing.MANY, 2 * capturing.MANY):
        append(path, line(ts=JULY, text=f"turn {turn}"))
        run(store, settings)
    before = pieces(store)
    assert pack(store) == capturing.MANY
    assert len(objects(store)) == 1
    assert pieces(store) == before
    assert doctor.examine(store, settings, hosts=HOSTS).spare == []


@pytest.mark.feature("raw.packs")
def test_a_pack_is_no_larger_than_its_limit(store, settings, home, monkeypatch):
    grown(store, settings, home)
    size = store.ledger.segments()[-1].end
    monkeypatch.setattr(capturing, "PACK_BYTES", size // 2)
    before = pieces(store)
    pack(store)
    assert 2 <= len(objects(store)) <= 3
    assert pieces(store) == before
    assert pack(store) == 0


@pytest.mark.feature("raw.packs")
def test_the_ledger_can_be_rebuilt_from_packs(store, settings, home):
    grown(store, settings, home)
    made = hashes(store)
    pack(store)
    before, session = pieces(store), store.ledger.sessions()[0]
    assert doctor.rebuild_ledger(store, settings, hosts=HOSTS).damaged == []
    assert pieces(store) == before
    assert store.ledger.sessions()[0].captured_fp == session.captured_fp
    run(store, settings)
    assert hashes(store) == made


@pytest.mark.feature("raw.packs")
@pytest.mark.parametrize("named", [False, True], ids=["before the ledger names it", "before the old objects are removed"])
def test_a_crash_while_packing_loses_nothing(store, settings, home, named):
    grown(store, settings, home)
    made, before = hashes(store), pieces(store)
    rows_before = store.ledger.segments()
    origins = [raw.read_origin(store.files, s.path) for s in rows_before]
    packed = raw.write_pack(store.files, list(zip(origins, raw.read_pieces(store.files, rows_before), strict=True)))
    if named:
        store.ledger.repack(packed)

    report = doctor.examine(store, settings, hosts=HOSTS)
    assert report.damaged == []
    assert len(report.spare) == (capturing.MANY if named else 1)
    assert doctor.rebuild_ledger(store, settings, hosts=HOSTS).damaged == []
    assert pieces(store) == before
    run(store, settings)
    assert hashes(store) == made
    pack(store)
    assert pieces(store) == before
    assert {s.path for s in store.ledger.segments()} <= set(objects(store))


@pytest.mark.feature("raw.packs")
def test_a_generation_with_a_damaged_object_is_left_for_the_doctor(store, settings, home):
    grown(store, settings, home)
    bad = store.ledger.segments()[3].path
    store.files.write(bad, store.files.read(bad)[:-3])
    assert pack(store) == 0
    assert len(objects(store)) == capturing.MANY
    assert [d.path for d in doctor.examine(store, settings, hosts=HOSTS).damaged] == [bad]


@pytest.mark.feature("raw.packs")
def test_a_store_is_looked_through_once_a_day(store, settings, home):
    grown(store, settings, home)
    with store.ledger.lease(capture.LEASE):
        # the runs have looked today
        assert capturing.pack(store, now=datetime.now(UTC) + NEXT_WEEK) == 0
    assert pack(store) == capturing.MANY - 1


@pytest.mark.feature("raw.packs", "forget.shared-files")
def test_a_line_of_a_packed_file_can_be_forgotten(store, settings, home):
    path = write(home, "index.jsonl", line(id="z0", title="title 0"))
    run(store, settings)
    for number in range(1, capturing.MANY):
        append(path, line(id=f"z{number}", title=f"title {number}"))
        run(store, settings)
    assert pack(store) == capturing.MANY - 1
    assert blank_shared(store, Needles.of((), (), (), "title 3")).lines == 1
    held = b"".join(raw.read_pieces(store.files, store.ledger.segments()))
    assert b"title 3" not in held
    assert b"title 2" in held
    assert b"title 4" in held
    assert {s.path for s in store.ledger.segments()} == set(objects(store))
    assert doctor.examine(store, settings, hosts=HOSTS).damaged == []


def long_session(home: Path, name: str) -> None:
    """Write a session that says lines of this package's own code, which a good compressor makes smaller."""
    said = [text for module in (capturing, damaged_raw, doctor, raw) for text in inspect.getsource(module).splitlines()]
    write(home, f"sessions/{name}.jsonl", *(line(id=name, ts=JULY, text=text or "-") for text in said))


@pytest.mark.feature("raw.shrunk")
def test_what_was_recorded_a_week_ago_is_compressed_harder_some_of_it_a_day(store, settings, home, monkeypatch):
    monkeypatch.setattr(capturing, "SMALLEST", 1_000)
    for name in "abc":
        long_session(home, name)
    run(store, settings)
    made, before = hashes(store), pieces(store)
    sizes = {path: store.files.size(path) for path in objects(store)}
    monkeypatch.setattr(capturing, "SHRUNK_BYTES", 2 * before[0][2])

    pack(store, timedelta(days=capturing.QUIET_DAYS - 1))
    assert {path: store.files.size(path) for path in objects(store)} == sizes

    pack(store)
    smaller = [path for path, size in sizes.items() if store.files.size(path) < size]
    assert len(smaller) == 2
    pack(store)
    smaller = [path for path, size in sizes.items() if store.files.size(path) < size]
    assert len(smaller) == 3
    stamps = [store.files.modified(path) for path in objects(store)]
    pack(store)
    assert [store.files.modified(path) for path in objects(store)] == stamps

    assert pieces(store) == before
    assert store.ledger.totals()["stored_bytes"] == sum(map(store.files.size, objects(store)))
    assert damaged_raw.damaged(store, deep=VerifiedFiles(store.files)) == damaged_raw.damaged(store) == []
    assert doctor.rebuild_ledger(store, settings, hosts=HOSTS).damaged == []
    run(store, settings)
    assert hashes(store) == made


@pytest.mark.feature("raw.shrunk")
def test_a_crash_between_object_and_ledger_is_mended(store, settings, home, monkeypatch):
    monkeypatch.setattr(capturing, "SMALLEST", 1_000)
    long_session(home, "a")
    run(store, settings)
    (path,) = objects(store)
    with monkeypatch.context() as killed:
        killed.setattr(type(store.ledger), "repack", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pack(store)
    assert [found for found, _ in damaged_raw.damaged(store)] == [path]

    assert damaged_raw.repair(store, settings, [path]) == ([], [])

    assert damaged_raw.damaged(store) == []
    assert store.ledger.totals()["stored_bytes"] == store.files.size(path)


@pytest.mark.feature("raw.shrunk")
def test_what_could_not_be_written_on_a_full_disk_is_compressed_harder_another_day(store, settings, home, monkeypatch):
    monkeypatch.setattr(capturing, "SMALLEST", 1_000)
    for name in "ab":
        long_session(home, name)
    run(store, settings)
    before = {path: store.files.size(path) for path in objects(store)}
    with monkeypatch.context() as full:
        full.setattr(raw, "shrink", lambda *_: (_ for _ in ()).throw(StoreFull("no room left")))
        pack(store)

    pack(store)

    assert all(store.files.size(path) < size for path, size in before.items())
