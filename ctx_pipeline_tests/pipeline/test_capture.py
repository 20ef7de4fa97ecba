"""What capture makes of a home that grows, shrinks, moves and loses files."""

from __future__ import annotations

import os
import sqlite3
import time
from dataclasses import replace

import pytest
import zstandard

from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.capture import read_source, scanning
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.ledger import Ledger
from ctx_pipeline.storage.raw import segments
from ctx_pipeline_tests.pipeline.toy_home import HOSTS, TOY, age, append, held, line, look, only, take, write

JUNE = "2026-06-03T10:00:00.000Z"
JULY = "2026-07-01T00:00:00.000Z"


@pytest.mark.feature("capture.exact-bytes")
def test_raw_holds_the_exact_bytes_of_a_new_file(store, settings, home):
    first, second = line(id="a", ts=JUNE), b'{"text": "\xff\xfe bad \\u0000"}\r\n'
    write(home, "sessions/a.jsonl", first, second)

    report = take(store, settings)

    assert held(store, "sessions/a.jsonl") == first + second
    assert report.cells["toy|2026-06"].counts == {"sources": 1, "segments": 1, "bytes": len(first + second)}
    assert look(store, settings).nothing_new


@pytest.mark.feature("capture.grown-source")
def test_a_grown_file_adds_one_segment_of_the_new_bytes(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    append(path, line(text="two"))

    scan = look(store, settings)
    assert [(p.change, p.start, p.generation) for p in scan.pending] == [("grown", len(line(id="a", ts=JUNE)), 0)]
    take(store, settings, scan=scan)

    stream = only(store, "sessions/a.jsonl").stream
    assert [(s.start, s.end) for s in store.ledger.segments_of([stream])[stream]] == [(0, 46), (46, 62)]
    assert held(store, "sessions/a.jsonl") == path.read_bytes()


@pytest.mark.feature("capture.half-line")
def test_a_half_written_last_line_waits_for_its_newline(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE), b'{"text": "ha')
    report = take(store, settings)

    assert held(store, "sessions/a.jsonl") == line(id="a", ts=JUNE)
    assert report.totals["segments"] == 1
    again = look(store, settings)
    assert (again.pending, again.waiting) == ([], 1)

    append(path, b'lf"}\n')
    take(store, settings)
    assert held(store, "sessions/a.jsonl") == path.read_bytes()


@pytest.mark.feature("capture.last-line-without-newline")
def test_a_complete_last_object_is_captured_without_its_newline_and_the_newline_later(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE), b'{"text": "whole"}')
    take(store, settings)
    assert held(store, "sessions/a.jsonl") == path.read_bytes()

    append(path, b"\n", line(text="more"))
    take(store, settings)
    assert held(store, "sessions/a.jsonl") == path.read_bytes()


@pytest.mark.feature("capture.rewritten-source")
@pytest.mark.parametrize(
    "now",
    [line(id="a"), line(id="a", ts=JUNE).replace(b"one", b"two") + line(text="two") * 3, b"x" * 40 + b"\n" + line(text="one") * 9],
    ids=["smaller", "other tail", "other head"],
)
def test_a_rewritten_file_becomes_a_new_generation_and_the_old_one_stays(store, settings, home, now):
    before = line(id="a", ts=JUNE) + line(text="one") * 3
    write(home, "sessions/a.jsonl", before)
    take(store, settings)
    write(home, "sessions/a.jsonl", now)

    take(store, settings)

    assert only(store, "sessions/a.jsonl").generation == 1
    assert held(store, "sessions/a.jsonl", 0) == before
    assert held(store, "sessions/a.jsonl", 1) == now


@pytest.mark.feature("capture.touched-source")
def test_a_touched_file_with_the_same_bytes_is_nothing_new(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    note = write(home, "notes/a.txt", b"hello")
    take(store, settings)
    age(path, 1)
    age(note, 1)

    scan = look(store, settings)
    assert (scan.nothing_new, len(scan.touched)) == (True, 2)
    take(store, settings, scan=scan)
    assert look(store, settings).touched == []


def put_in_place(path, data: bytes) -> None:
    """Write a file anew with the size and the time that it had."""
    before = path.stat()
    assert len(data) == before.st_size
    time.sleep(0.02)  # the clock of a file system ticks every few milliseconds
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def ranges_read(monkeypatch) -> list[tuple[int, int]]:
    """Return the list that gets the byte ranges of files whose hashes are asked for from now on."""
    read: list[tuple[int, int]] = []
    hashed = read_source._sum
    monkeypatch.setattr(read_source, "_sum", lambda handle, start, end: read.append((start, end)) or hashed(handle, start, end))
    return read


@pytest.mark.feature("capture.rewritten-in-place")
@pytest.mark.parametrize("rel", ["sessions/a.jsonl", "notes/a.txt"])
def test_a_file_rewritten_with_its_size_and_its_time_is_a_new_generation(store, settings, home, rel):
    before = line(id="a", ts=JUNE) + line(text="left") * 3000
    path = write(home, rel, before)
    take(store, settings)
    now = before[:30_000] + before[30_000:].replace(b"left", b"gone", 1)
    put_in_place(path, now)

    take(store, settings)

    assert (held(store, rel, 0), held(store, rel, 1)) == (before, now)
    assert look(store, settings).nothing_new


@pytest.mark.feature("capture.rewritten-in-place")
def test_a_file_whose_rights_alone_changed_is_read_once_and_never_captured_again(store, settings, home, monkeypatch):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE) + line(text="left") * 3000)
    take(store, settings)
    time.sleep(0.02)
    path.chmod(0o600)
    read = ranges_read(monkeypatch)

    scan = look(store, settings)
    capture.note_times(store, scan)
    again = look(store, settings)

    assert (scan.nothing_new, len(scan.touched), again.touched, read) == (True, 1, [], [(0, path.stat().st_size)])
    assert only(store, "sessions/a.jsonl").generation == 0


@pytest.mark.feature("capture.rewritten-in-place")
def test_a_look_also_tells_what_was_rewritten_where_the_journal_cannot_be_read(store, settings, home):
    text = line(id="a", ts=JUNE) + line(text="left") * 3000
    path = write(home, "sessions/a.jsonl", text)
    take(store, settings)
    store.journal.append("decision", {"text": "keep"})
    store.journal.close()
    for lost in settings.home.glob("journal.db*"):
        lost.unlink()
    (settings.home / "journal.db").write_bytes(b"no database" * 400)
    put_in_place(path, text[:30_000] + text[30_000:].replace(b"left", b"gone", 1))

    assert [p.change for p in look(store, settings).pending] == ["rewritten"]


@pytest.mark.feature("capture.rewritten-in-place")
def test_a_line_changed_in_the_middle_of_a_file_that_also_grew_is_noticed(store, settings, home):
    before = line(id="a", ts=JUNE) + line(text="left") * 3000
    write(home, "sessions/a.jsonl", before)
    take(store, settings)
    now = before[:30_000] + before[30_000:].replace(b"left", b"gone", 1) + line(text="more")
    write(home, "sessions/a.jsonl", now)

    take(store, settings)

    assert (held(store, "sessions/a.jsonl", 0), held(store, "sessions/a.jsonl", 1)) == (before, now)


@pytest.mark.feature("capture.rewritten-in-place")
def test_a_larger_file_that_grows_is_compared_part_by_part_until_all_of_it_was(store, settings, home, monkeypatch):
    monkeypatch.setattr(read_source, "COMPARED_BYTES", 4_000)
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    for _ in range(40):
        append(path, line(text="x" * 900))
        take(store, settings)
    data = path.read_bytes()
    write(home, "sessions/a.jsonl", data[:17_000] + b"y" + data[17_001:])
    read = ranges_read(monkeypatch)

    generations = []
    for _ in range(12):
        append(path, line(text="z" * 900))
        read.clear()
        take(store, settings)
        generations.append(only(store, "sessions/a.jsonl").generation)
        assert sum(end - start for start, end in read) < 3 * 4_000 or generations[-1]

    assert (generations[0], generations[-1]) == (0, 1)
    assert held(store, "sessions/a.jsonl", 1) == path.read_bytes()


@pytest.mark.feature("capture.rewritten-in-place")
def test_a_store_that_kept_no_such_times_notes_them_without_reading_a_file(store, settings, home, tmp_path, monkeypatch):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    with sqlite3.connect(settings.home / "ledger.db") as db:
        db.executescript("ALTER TABLE sources DROP COLUMN ctime_ns; DROP TABLE digests; ALTER TABLE callers DROP COLUMN calls")
        db.execute("PRAGMA user_version=3")
    db.close()
    monkeypatch.setattr(scanning, "compare", None)

    with open_store(settings) as older:
        assert only(older, "sessions/a.jsonl").ctime_ns is None
        capture.note_times(older, look(older, settings))
        assert only(older, "sessions/a.jsonl").ctime_ns == (home / "sessions/a.jsonl").stat().st_ctime_ns
        assert look(older, settings).touched == []


@pytest.mark.feature("capture.moved-source")
@pytest.mark.parametrize("keep_inode", [True, False])
def test_a_moved_file_keeps_its_stream_and_its_rows(store, settings, home, keep_inode):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    before = only(store, "sessions/a.jsonl")
    fingerprint = store.ledger.session("toy", "a").captured_fp
    moved = write(home, "archive/a.jsonl", path.read_bytes())
    if keep_inode:
        path.replace(moved)
    else:
        path.unlink()

    scan = look(store, settings)
    assert (scan.pending, scan.vanished, [m.rel for m in scan.moved]) == ([], [], ["archive/a.jsonl"])
    take(store, settings, scan=scan)

    assert only(store, "archive/a.jsonl").stream == before.stream
    assert store.ledger.session("toy", "a").captured_fp == fingerprint
    assert len(store.ledger.segments()) == 1


@pytest.mark.feature("capture.moved-source")
def test_a_file_that_moved_and_grew_gives_only_its_new_bytes_and_its_old_place_a_new_stream(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    stream = only(store, "sessions/a.jsonl").stream
    (home / "archive").mkdir()
    path.replace(home / "archive/a.jsonl")
    append(home / "archive/a.jsonl", line(text="two"))
    take(store, settings)
    assert held(store, "archive/a.jsonl") == line(id="a", ts=JUNE) + line(text="two")

    write(home, "sessions/a.jsonl", line(id="b", ts=JULY))
    take(store, settings)
    assert only(store, "archive/a.jsonl").stream == stream
    assert only(store, "sessions/a.jsonl").stream != stream
    assert held(store, "sessions/a.jsonl") == line(id="b", ts=JULY)


@pytest.mark.feature("capture.moved-source")
@pytest.mark.parametrize("lines", [1, 400])
def test_a_file_that_moved_and_grew_is_whose_its_new_place_says_and_a_rebuild_agrees(store, settings, home, tmp_path, lines):
    path = write(home, "sessions/one.jsonl", *[line(ts=JUNE, text="x" * 200)] * lines)
    take(store, settings)
    assert [s.session_id for s in store.ledger.sessions()] == ["one"]
    (home / "archive").mkdir()
    path.replace(home / "archive/two.jsonl")
    append(home / "archive/two.jsonl", line(text="more"))
    take(store, settings)

    rebuilt = Ledger(tmp_path / "rebuilt.db")
    rebuilt.rebuild(store.files, hosts=HOSTS)
    assert [s.session_id for s in store.ledger.sessions()] == ["two"] == [s.session_id for s in rebuilt.sessions()]
    rebuilt.close()


@pytest.mark.feature("capture.shared-root")
def test_two_hosts_with_one_root_do_not_call_each_others_files_vanished(store, home, tmp_path):
    apart = replace(
        TOY,
        key="other",
        files=replace(
            TOY.files,
            classify=lambda rel: "transcript" if rel.startswith("mine/") else None,
            databases={},
            session_kinds={"transcript"},
        ),
    )
    inside = replace(
        TOY, key="single", files=replace(TOY.files, classify=lambda _: "transcript", databases={}, session_kinds={"transcript"})
    )
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    write(home, "mine/b.jsonl", line(id="b", ts=JUNE))
    single = write(home, "calls.jsonl", line(id="c", ts=JUNE))
    hosts = {"toy": TOY, "other": apart, "single": inside}
    settings = Settings(home=tmp_path / "store", demo_roots={"toy": (home,), "other": (home,), "single": (single,)})

    capture.capture(store, settings, hosts=hosts)
    assert sorted((s.host, s.session_id) for s in store.ledger.sessions()) == [("other", "b"), ("single", "c"), ("toy", "a")]
    scan = capture.scan(store, settings, hosts=hosts)
    assert scan.nothing_new
    assert scan.touched == []


@pytest.mark.feature("capture.vanished-source")
def test_a_vanished_file_keeps_everything_that_was_captured(store, settings, home):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE)).unlink()
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    before = store.ledger.sessions()
    path.unlink()

    scan = look(store, settings)
    assert scan.vanished == [only(store, "sessions/a.jsonl").stream]
    take(store, settings, scan=scan)

    assert store.ledger.sessions() == before
    assert held(store, "sessions/a.jsonl") == line(id="a", ts=JUNE)
    assert look(store, settings).nothing_new


@pytest.mark.feature("capture.vanished-source")
def test_a_home_that_is_gone_takes_nothing_with_it_and_is_known_again_when_it_returns(store, settings, home, tmp_path):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    home.rename(tmp_path / "unmounted")
    assert len(look(store, settings).vanished) == 1
    take(store, settings)
    assert [s.session_id for s in store.ledger.sessions()] == ["a"]

    (tmp_path / "unmounted").rename(home)
    append(home / "sessions/a.jsonl", line(text="more"))
    assert [p.change for p in look(store, settings).pending] == ["grown"]
    take(store, settings)
    assert only(store, "sessions/a.jsonl").state == "live"


@pytest.mark.feature("capture.two-at-once")
def test_a_stale_scan_never_takes_a_newer_row_back(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    age(path, 1)
    stale = look(store, settings)
    assert len(stale.touched) == 1
    append(path, line(text="more"))
    take(store, settings)
    take(store, settings, scan=stale)

    assert only(store, "sessions/a.jsonl").captured == path.stat().st_size
    assert look(store, settings).nothing_new


@pytest.mark.feature("capture.whole-files")
def test_a_changed_whole_file_is_a_new_generation_of_all_its_bytes(store, settings, home):
    write(home, "notes/a.txt", b"no newline at the end")
    take(store, settings)
    write(home, "notes/a.txt", b"no newline at the END")
    take(store, settings)

    assert held(store, "notes/a.txt", 0) == b"no newline at the end"
    assert held(store, "notes/a.txt", 1) == b"no newline at the END"


@pytest.mark.feature("capture.compressed-source")
def test_a_zst_file_is_kept_packed_and_read_unpacked(store, settings, home):
    lines = line(id="z", ts=JUNE) + line(text="two")
    packed = zstandard.ZstdCompressor().compress(lines)
    write(home, "sessions/z.jsonl.zst", packed)
    take(store, settings)

    source = only(store, "sessions/z.jsonl.zst")
    rows = store.ledger.segments_of([source.stream])[source.stream]
    assert segments.read_stream(store.files, rows) == packed
    assert segments.stream_text(store.files, rows, source.rel) == lines
    assert (source.thread_id, source.month) == ("z", "2026-06")
