"""What capture makes of odd files, ignored, forgotten and hostile ones, and of a store in trouble."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import sqlite3
import stat

import pytest

from ctx_pipeline.errors import StoreFull
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import capture
from ctx_pipeline.storage import files
from ctx_pipeline_tests.pipeline.toy_home import HOSTS, age, append, held, line, look, only, settings_of, take, write

JUNE = "2026-06-03T10:00:00.000Z"
JULY = "2026-07-01T00:00:00.000Z"


@pytest.mark.feature("capture.odd-files")
def test_what_is_no_readable_file_is_a_problem_and_never_an_error(store, settings, home):
    write(home, "sessions/good.jsonl", line(id="good", ts=JUNE))
    (home / "sessions/folder.jsonl").mkdir()
    os.mkfifo(home / "sessions/pipe.jsonl")
    (home / "sessions/broken.jsonl").symlink_to(home / "nowhere")
    (home / "sessions/loop").symlink_to(home)
    (home / "sessions/self.jsonl").symlink_to(home / "sessions/self.jsonl")
    plug = socket.socket(socket.AF_UNIX)
    with contextlib.chdir(home / "sessions"):  # the path of a socket is short
        plug.bind("plug.jsonl")
    (home / "sessions" / os.fsdecode(b"bad\xff.jsonl")).write_bytes(line(id="bad"))

    scan = look(store, settings)
    plug.close()

    assert {p.path.rpartition("/")[2]: p.reason for p in scan.problems} == {
        "folder.jsonl": "a folder where a file is expected",
        "pipe.jsonl": "a FIFO where a file is expected",
        "plug.jsonl": "a socket where a file is expected",
        "broken.jsonl": "cannot be looked at: No such file or directory",
        "self.jsonl": "cannot be looked at: Too many levels of symbolic links",
        "loop": "a link to a folder above it",
        "bad?.jsonl": "the name is not UTF-8",
    }
    assert take(store, settings, scan=scan).totals["sources"] == 1


@pytest.mark.feature("capture.large-files")
def test_a_large_file_that_would_be_read_whole_is_a_problem_and_lines_are_not(store, home, tmp_path):
    settings = settings_of(tmp_path, whole_file_bytes=100)
    write(home, "sessions/a.jsonl", *[line(id="a", ts=JUNE)] * 10)
    write(home, "notes/a.txt", b"x" * 100)
    large = write(home, "notes/b.txt", b"x" * 101)
    for _ in range(2):
        scan = look(store, settings)
        assert [(p.path, p.reason) for p in scan.problems] == [(str(large), "is larger than whole_file_bytes = 100")]
        take(store, settings, scan=scan)
    assert sorted(s.rel for s in store.ledger.sources().values()) == ["notes/a.txt", "sessions/a.jsonl"]


@pytest.mark.feature("capture.linked-folders")
def test_a_linked_folder_outside_the_home_is_followed_once(store, settings, home, tmp_path):
    write(tmp_path / "elsewhere", "a.jsonl", line(id="a", ts=JUNE))
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "elsewhere")
    (home / "sessions").mkdir()
    (home / "sessions/one").symlink_to(tmp_path / "elsewhere")
    (home / "sessions/two").symlink_to(tmp_path / "elsewhere")

    take(store, settings)

    assert [s.session_id for s in store.ledger.sessions()] == ["a"]
    assert len(store.ledger.sources()) == 1


@pytest.mark.feature("capture.linked-folders")
def test_the_doctor_names_what_is_read_through_a_link_and_ignoring_the_link_ends_that(store, settings, home, tmp_path):
    write(tmp_path / "elsewhere", "a.jsonl", line(id="a", ts=JUNE))
    (home / "sessions").mkdir()
    (home / "sessions/one").symlink_to(tmp_path / "elsewhere")

    report = doctor.examine(store, settings, hosts=HOSTS)

    assert report.linked == [(str(home / "sessions/one"), str(tmp_path / "elsewhere"))]
    assert f"  {home}/sessions/one -> {tmp_path}/elsewhere" in report.lines()
    ignoring = dataclasses.replace(settings, ignore=("*/sessions/one",))
    assert doctor.examine(store, ignoring, hosts=HOSTS).linked == []


@pytest.mark.feature("capture.linked-files")
def test_a_link_to_a_file_outside_the_home_is_not_followed(store, settings, home, tmp_path):
    outside = write(tmp_path / "elsewhere", "key.jsonl", line(id="outside", ts=JUNE))
    inside = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    (home / "sessions/b.jsonl").symlink_to(inside)
    (home / "sessions/stolen.jsonl").symlink_to(outside)
    (home / "sessions/kept").symlink_to(tmp_path / "moved")
    moved = write(tmp_path / "moved", "c.jsonl", line(id="c", ts=JUNE))
    (tmp_path / "moved/d.jsonl").symlink_to(moved)

    scan = look(store, settings)
    take(store, settings, scan=scan)

    assert {(p.path.rpartition("/")[2], p.reason) for p in scan.problems} == {("stolen.jsonl", "a link to a file outside the home")}
    assert sorted(s.rel for s in store.ledger.sources().values()) == [
        "sessions/a.jsonl",
        "sessions/b.jsonl",
        "sessions/kept/c.jsonl",
        "sessions/kept/d.jsonl",
    ]


@pytest.mark.feature("capture.file-lost-in-between")
def test_a_file_that_is_gone_or_rewritten_between_scan_and_capture_is_left_for_later(store, settings, home):
    gone = write(home, "sessions/gone.jsonl", line(id="gone"))
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    take(store, settings)
    append(path, line(text="two"))
    append(gone, line(text="two"))
    scan = look(store, settings)
    gone.unlink()
    write(home, "sessions/a.jsonl", line(id="A", ts=JULY), line(text="two"))

    report = take(store, settings, scan=scan)

    assert report.totals["segments"] == 0
    assert sorted(p.path.rpartition("/")[2] for p in scan.problems) == ["a.jsonl", "gone.jsonl"]
    take(store, settings)
    assert held(store, "sessions/a.jsonl", 1) == line(id="A", ts=JULY) + line(text="two")


@pytest.mark.feature("capture.ignore-globs")
def test_ignored_paths_are_never_captured(store, home, tmp_path):
    write(home, "sessions/open/a.jsonl", line(id="a"))
    write(home, "sessions/secret/b.jsonl", line(id="b"))
    write(home, "sessions/open/c-private.jsonl", line(id="c"))
    settings = settings_of(tmp_path, ignore=("*/secret", "*-private.jsonl"))

    take(store, settings)

    assert [s.session_id for s in store.ledger.sessions()] == ["a"]


@pytest.mark.feature("capture.ignore-globs")
def test_a_captured_path_that_becomes_ignored_is_not_called_vanished(store, settings, home, tmp_path):
    path = write(home, "sessions/secret/b.jsonl", line(id="b"))
    take(store, settings)
    append(path, line(text="more"))
    hidden = settings_of(tmp_path, ignore=("secret",))

    scan = look(store, hidden)
    assert (scan.pending, scan.vanished, len(scan.ignored)) == ([], [], 1)
    take(store, hidden, scan=scan)
    assert only(store, "sessions/secret/b.jsonl").state == "ignored"
    assert look(store, hidden).nothing_new
    assert [p.change for p in look(store, settings).pending] == ["grown"]


@pytest.mark.feature("capture.force")
def test_force_records_a_new_generation_and_overwrites_nothing(store, settings, home):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    write(home, "sessions/b.jsonl", line(id="b", ts=JUNE))
    take(store, settings)
    objects = {rel: store.files.read(rel) for rel in store.files.walk("raw")}

    take(store, settings, sessions={("toy", "a")}, force=True)

    assert [only(store, f"sessions/{name}.jsonl").generation for name in "ab"] == [1, 0]
    assert {rel: store.files.read(rel) for rel in objects} == objects
    assert held(store, "sessions/a.jsonl", 1) == line(id="a", ts=JUNE)
    assert look(store, settings).nothing_new


@pytest.mark.feature("capture.selection")
def test_only_the_asked_sessions_or_cells_are_captured(store, settings, home):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    write(home, "sessions/a-part.jsonl", line(id="a1", parent="a", relation="part", ts=JULY))
    write(home, "sessions/b.jsonl", line(id="b", ts=JULY))
    write(home, "sessions/c.jsonl", line(id="c", ts=JULY))

    take(store, settings, sessions={"b"})
    assert [s.session_id for s in store.ledger.sessions()] == ["b"]

    take(store, settings, cells=[Cell("toy", "2026-06")])
    assert [(s.session_id, s.month) for s in store.ledger.sessions()] == [("a", "2026-06"), ("b", "2026-07")]
    assert sorted(p.rel for p in look(store, settings).pending) == ["sessions/c.jsonl"]


@pytest.mark.feature("capture.retention-warning")
def test_the_retention_warning_says_how_old_and_what_the_setting_is(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a"))
    age(path, 24.9)
    assert look(store, settings).retention == []

    age(path, 2)
    (warning,) = look(store, settings).retention
    assert (warning.days, warning.retention_days) == (26, 30)
    assert warning.message == f"the oldest transcript in {home} is 26 days old; toy deletes after 30 days, so in 4 days"

    write(home, "settings.json", b'{"days": 99999}')
    assert look(store, settings).retention == []


@pytest.mark.feature("capture.hints")
def test_what_an_index_says_of_a_thread_makes_its_session_dirty(store, settings, home):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    write(home, "sessions/b.jsonl", line(id="b", ts=JULY))
    index = write(home, "index.jsonl", line(id="a", title="first"))
    take(store, settings)
    before = {s.session_id: s.captured_fp for s in store.ledger.sessions()}
    append(index, line(id="a", title="renamed"))

    report = take(store, settings)

    after = {s.session_id: s.captured_fp for s in store.ledger.sessions()}
    assert store.ledger.hints_of("toy", ["a", "b"]) == {"a": {"title": "renamed"}}
    assert (after["a"] != before["a"], after["b"] == before["b"]) == (True, True)
    assert list(report.cells) == ["toy|2026-06"]


@pytest.mark.feature("capture.hints")
def test_a_rewritten_index_says_nothing_that_it_no_longer_holds(store, settings, home):
    write(home, "index.jsonl", line(id="a", title="first"), line(id="b", title="second"))
    take(store, settings)
    write(home, "index.jsonl", line(id="b", title="only"))
    take(store, settings)

    assert store.ledger.hints_of("toy", ["a", "b"]) == {"b": {"title": "only"}}


@pytest.mark.feature("capture.hints-redacted")
def test_a_secret_in_an_index_is_not_in_the_ledger(store, settings, home):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    write(home, "index.jsonl", line(id="a", title=f"use {secret} now"))
    take(store, settings)

    assert store.ledger.hints_of("toy", ["a"])["a"]["title"].startswith("use [REDACTED:")
    assert all(secret.encode() not in path.read_bytes() for path in store.home.glob("ledger.db*"))
    doctor.rebuild_ledger(store, settings, hosts=HOSTS)
    assert all(secret.encode() not in path.read_bytes() for path in store.home.glob("ledger.db*"))


@pytest.mark.feature("capture.hostile-names")
def test_lone_surrogates_in_ids_and_titles_do_no_harm(store, settings, home):
    write(home, "sessions/a.jsonl", b'{"id": "x\\ud800"}\n')
    write(home, "index.jsonl", b'{"id": "y\\udfff", "title": "\\ud800"}\n')

    assert take(store, settings).totals["problems"] == 0
    assert [s.session_id for s in store.ledger.sessions()] == ["x?"]


@pytest.mark.feature("capture.empty-files")
def test_an_empty_file_is_known_and_makes_no_session(store, settings, home):
    path = write(home, "sessions/a.jsonl")
    take(store, settings)
    assert (store.ledger.sessions(), look(store, settings).nothing_new) == ([], True)

    append(path, line(id="a", ts=JUNE))
    take(store, settings)
    assert [(s.session_id, s.month) for s in store.ledger.sessions()] == [("a", "2026-06")]


@pytest.mark.feature("capture.identity-of-a-cut-head")
def test_a_stream_whose_first_bytes_say_little_is_asked_again_when_it_grows(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(summary="no time yet"))
    take(store, settings)
    assert only(store, "sessions/a.jsonl").month == "2025-01"

    path.write_bytes(line(id="a", ts=JUNE))
    take(store, settings)
    assert only(store, "sessions/a.jsonl").month == "2026-06"
    assert store.ledger.cells() == [Cell("toy", "2026-06")]


@pytest.mark.feature("store.private")
def test_files_are_0600_and_folders_0700(store, settings, home):
    write(home, "sessions/a.jsonl", line(id="a"))
    take(store, settings)
    modes = {stat.S_IMODE(path.lstat().st_mode) for path in store.home.rglob("*") if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in [store.home, *store.home.rglob("*")] if path.is_dir()}

    assert (modes, folders) == ({0o600}, {0o700})


@pytest.mark.feature("capture.hostile-names")
def test_names_in_a_home_never_decide_where_is_written(store, settings, home):
    write(home, "sessions/..%2f..%2f'; DROP TABLE sources --.jsonl", line(id="../../../../etc/passwd", ts=JUNE))
    write(home, "sessions/\n new.jsonl", line(id="\u202e\x00", ts=JUNE))
    take(store, settings)

    assert all(rel.count("/") == 4 and rel.startswith("raw/toy/") for rel in store.files.walk("raw"))
    assert {s.session_id for s in store.ledger.sessions()} == {"../../../../etc/passwd", "\u202e\x00"}


@pytest.mark.feature("store.full-disk")
def test_a_full_disk_is_a_clear_error_and_a_later_run_completes(store, settings, home, monkeypatch):
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    real = os.fsync

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StoreFull, match="no room left"):
        take(store, settings)
    monkeypatch.setattr(files.os, "fsync", real)

    assert list(store.files.walk("raw")) == []
    take(store, settings)
    assert held(store, "sessions/a.jsonl") == line(id="a", ts=JUNE)


@pytest.mark.feature("capture.orphans")
def test_an_object_left_by_a_capture_that_died_is_used_again_or_kept_beside(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    (pending,) = look(store, settings).pending
    capture.take(store.files, pending, host=HOSTS["toy"])
    take(store, settings)
    assert [s.generation for s in store.ledger.segments()] == [0]

    append(path, line(text="lost"))
    (pending,) = look(store, settings).pending
    capture.take(store.files, pending, host=HOSTS["toy"])
    path.write_bytes(line(id="a", ts=JULY) + line(text="kept"))
    take(store, settings)
    assert held(store, "sessions/a.jsonl", 1) == line(id="a", ts=JULY) + line(text="kept")


@pytest.mark.feature("capture.forgotten-stays-away")
def test_a_forgotten_session_is_not_captured_again_even_from_another_path(store, settings, home):
    path = write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    write(home, "sessions/b.jsonl", line(id="b", ts=JUNE))
    take(store, settings)
    stream = only(store, "sessions/a.jsonl").stream
    for segment in store.ledger.segments_of([stream])[stream]:
        store.files.remove(segment.path)

    assert store.ledger.forget([stream]) == {Cell("toy", "2026-06")}
    append(path, line(text="more"))
    write(home, "archive/copy.jsonl", path.read_bytes())
    scan = look(store, settings)
    assert (scan.forgotten, [p.rel for p in scan.pending]) == (1, ["archive/copy.jsonl"])
    take(store, settings, scan=scan)

    assert [s.session_id for s in store.ledger.sessions()] == ["b"]
    assert [s.stream for s in store.ledger.segments()] == [only(store, "sessions/b.jsonl").stream]
    assert list(store.files.walk("raw")) == [s.path for s in store.ledger.segments()]
    assert look(store, settings).nothing_new


@pytest.mark.feature("capture.forgotten-stays-away")
def test_nothing_of_a_forgotten_session_stays_in_the_ledger_file(store, settings, home):
    path = write(home, "sessions/very-secret-name.jsonl", line(id="very-secret-id", ts=JUNE))
    write(home, "index.jsonl", line(id="very-secret-id", title="very-secret-title"))
    take(store, settings)
    append(path, line(text="x"))
    take(store, settings)
    store.ledger.forget([only(store, "sessions/very-secret-name.jsonl").stream])

    stored_bytes = b"".join(p.read_bytes() for p in store.home.glob("ledger.db*"))
    assert b"very-secret" not in stored_bytes


@pytest.mark.feature("store.locked-database")
def test_a_locked_ledger_is_a_clear_error(tmp_path, settings, home):
    from ctx_pipeline.errors import StoreLocked
    from ctx_pipeline.storage.ledger import Ledger

    write(home, "sessions/a.jsonl", line(id="a"))
    ledger = Ledger(tmp_path / "ledger.db", busy_seconds=0.1)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreLocked, match="locked by another process"):
        ledger.commit_capture([])
    other.execute("ROLLBACK")
    other.close()
    assert ledger.commit_capture([]) == set()
    ledger.close()
