"""Which session and cell a stream belongs to, in whatever order its relatives appear."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline.errors import StoreLocked
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import capture
from ctx_pipeline.pipeline.repair import rebuild
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.pipeline.toy_home import HOSTS, append, line, settings_of, write

if TYPE_CHECKING:
    from pathlib import Path

MAY, JUNE, JULY = "2026-05-31T23:59:59.000Z", "2026-06-03T10:00:00.000Z", "2026-07-01T00:00:00.000Z"

TREE = {
    "root": line(id="root", ts=MAY),
    "part": line(id="part", parent="root", relation="part", ts=JUNE),
    "below": line(id="below", parent="part", relation="part", ts=JULY),
    "fork": line(id="fork", parent="part", relation="fork", ts=JULY),
}


def places(store) -> dict[str, tuple[str | None, str | None]]:
    return {s.rel.rpartition("/")[2].partition(".")[0]: (s.session_id, s.month) for s in store.ledger.sources().values()}


@pytest.mark.feature("sessions.tree")
def test_parts_join_the_session_of_their_root_in_every_order_of_arrival(tmp_path: Path):
    expected = {"root": ("root", "2026-05"), "part": ("root", "2026-05"), "below": ("root", "2026-05"), "fork": ("fork", "2026-07")}
    prints = set()
    for number, order in enumerate(permutations(TREE)):
        settings = settings_of(tmp_path / str(number), tmp_path / "homes" / "toy")
        for path in (tmp_path / "homes" / "toy").rglob("*.jsonl"):
            path.unlink()
        with open_store(settings) as store:
            for name in order:
                write(tmp_path / "homes" / "toy", f"sessions/{name}.jsonl", TREE[name])
                capture.capture(store, settings, hosts=HOSTS)
            assert places(store) == expected
            rows = store.ledger.sessions()
            assert [(r.session_id, r.month, r.parent_session) for r in rows] == [("fork", "2026-07", "root"), ("root", "2026-05", None)]
            prints.add(tuple(r.captured_fp for r in rows))
    assert len(prints) == 1


@pytest.mark.feature("sessions.late-root")
def test_a_root_that_appears_later_moves_its_session_and_both_cells_are_dirty(tmp_path: Path):
    settings = settings_of(tmp_path)
    home = tmp_path / "toy"
    with open_store(settings) as store:
        write(home, "sessions/part.jsonl", TREE["part"])
        first = capture.capture(store, settings, hosts=HOSTS)
        assert (list(first.cells), places(store)) == (["toy|2026-06"], {"part": ("root", "2026-06")})

        write(home, "sessions/root.jsonl", TREE["root"])
        second = capture.capture(store, settings, hosts=HOSTS)

        assert sorted(second.cells) == ["toy|2026-05", "toy|2026-06"]
        assert store.ledger.cells() == [Cell("toy", "2026-05")]


@pytest.mark.feature("sessions.late-root")
def test_a_link_that_appears_later_joins_two_sessions_and_the_empty_one_goes(tmp_path: Path):
    settings = settings_of(tmp_path)
    home = tmp_path / "toy"
    with open_store(settings) as store:
        path = write(home, "sessions/x.jsonl", line(id="x", ts=JULY))
        write(home, "sessions/root.jsonl", TREE["root"])
        capture.capture(store, settings, hosts=HOSTS)
        assert [s.session_id for s in store.ledger.sessions()] == ["root", "x"]

        path.write_bytes(line(id="x", parent="root", relation="part", ts=JULY))
        report = capture.capture(store, settings, hosts=HOSTS)

        assert [s.session_id for s in store.ledger.sessions()] == ["root"]
        assert sorted(report.cells) == ["toy|2026-05", "toy|2026-07"]


@pytest.mark.feature("sessions.declared-root")
def test_a_declared_root_wins_over_the_chain_and_a_missing_parent_still_names_the_session(tmp_path: Path):
    settings = settings_of(tmp_path)
    home = tmp_path / "toy"
    write(home, "sessions/a.jsonl", line(id="a", parent="lost", relation="part", root="top", ts=JUNE))
    write(home, "sessions/b.jsonl", line(id="b", parent="nobody", relation="part", ts=JUNE))
    write(home, "sessions/c.jsonl", line(id="c", parent="d", relation="part", ts=JUNE))
    write(home, "sessions/d.jsonl", line(id="d", parent="c", relation="part", ts=JUNE))
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)

        assert {name: place[0] for name, place in places(store).items()} == {"a": "top", "b": "nobody", "c": "c", "d": "c"}


@pytest.mark.feature("sessions.month")
@pytest.mark.parametrize(
    ("ts", "month"),
    [
        (JULY, "2026-07"),
        ("2019-01-01T00:00:00Z", "2025-01"),
        (None, "2025-01"),
        ("yesterday", "2025-01"),
        ("2026-06-30T23:30:00-02:00", "2026-07"),
    ],
    ids=["known", "too early", "none", "no time", "other zone"],
)
def test_the_month_is_that_of_the_first_event_in_utc_and_never_before_the_first(tmp_path: Path, ts, month):
    settings = settings_of(tmp_path)
    write(tmp_path / "toy", "sessions/a.jsonl", line(id="a", ts=ts))
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)

        assert store.ledger.cells() == [Cell("toy", month)]


@pytest.mark.feature("sessions.month")
def test_a_clock_far_ahead_falls_back_on_the_time_of_the_file(tmp_path: Path):
    import os

    settings = settings_of(tmp_path)
    path = write(tmp_path / "toy", "sessions/a.jsonl", line(id="a", ts="2098-01-01T00:00:00Z"))
    os.utime(path, (1_772_000_000, 1_772_000_000))  # 2026-02-25
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)

        assert store.ledger.cells() == [Cell("toy", "2026-02")]


@pytest.mark.feature("sessions.fingerprint")
def test_only_the_session_that_grew_gets_another_fingerprint(tmp_path: Path):
    settings = settings_of(tmp_path)
    home = tmp_path / "toy"
    write(home, "sessions/a.jsonl", line(id="a", ts=JUNE))
    part = write(home, "sessions/p.jsonl", line(id="p", parent="b", relation="part", ts=JUNE))
    write(home, "sessions/b.jsonl", line(id="b", ts=JUNE))
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        before = {s.session_id: s.captured_fp for s in store.ledger.sessions()}
        append(part, line(text="more"))
        report = capture.capture(store, settings, hosts=HOSTS)
        after = {s.session_id: s.captured_fp for s in store.ledger.sessions()}

        assert (before["a"] == after["a"], before["b"] == after["b"]) == (True, False)
        assert report.cells["toy|2026-06"].counts == {"sources": 1, "segments": 1, "bytes": len(line(text="more"))}


@pytest.mark.feature("doctor.rebuild-ledger")
def test_the_ledger_comes_back_from_raw_alone(tmp_path: Path):
    settings = settings_of(tmp_path)
    home = tmp_path / "toy"
    for name, text in TREE.items():
        write(home, f"sessions/{name}.jsonl", text)
    grown = write(home, "sessions/grown.jsonl", line(id="grown"), line(n=1) * 2000)
    rewritten = write(home, "sessions/re.jsonl", line(id="re", ts=MAY))
    write(home, "notes/root.txt", b"spilled")
    index = write(home, "index.jsonl", line(id="root", title="old"), line(id="fork", title="fork"))
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        append(grown, line(n=2))
        append(index, line(id="root", title="new"))
        rewritten.write_bytes(line(id="re", ts=JUNE))
        (home / "sessions/root.jsonl").unlink()
        capture.capture(store, settings, hosts=HOSTS)
        before = (store.ledger.sessions(), store.ledger.segments(), store.ledger.hints(), places(store))
    for path in store.home.glob("ledger.db*"):
        path.unlink()

    with open_store(settings) as store:
        result = doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        assert (store.ledger.sessions(), store.ledger.segments(), store.ledger.hints(), places(store)) == before
        assert (result.damaged, result.spare) == ([], [])
        scan = capture.scan(store, settings, hosts=HOSTS)
        assert (scan.pending, scan.vanished, scan.moved) == ([], [], [])
        append(grown, line(n=3))
        assert [(p.change, p.start) for p in capture.scan(store, settings, hosts=HOSTS).pending] == [("grown", grown.stat().st_size - 9)]


@pytest.mark.feature("doctor.rebuild-ledger")
def test_a_damaged_ledger_is_replaced_and_what_was_forgotten_stays_forgotten(tmp_path: Path):
    from ctx_pipeline.errors import StoreDamaged

    settings = settings_of(tmp_path)
    write(tmp_path / "toy", "sessions/a.jsonl", line(id="a", ts=JUNE))
    write(tmp_path / "toy", "sessions/b.jsonl", line(id="b", ts=JUNE))
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        stream = next(s.stream for s in store.ledger.sources().values() if s.thread_id == "a")
        for segment in store.ledger.segments_of([stream])[stream]:
            store.files.remove(segment.path)
        store.ledger.forget([stream])
        doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        scan = capture.scan(store, settings, hosts=HOSTS)
        assert ([s.session_id for s in store.ledger.sessions()], scan.forgotten, scan.pending) == (["b"], 1, [])

    (store.home / "ledger.db").write_bytes(b"not a database" * 1000)
    with open_store(settings) as store:
        with pytest.raises(StoreDamaged, match="damaged"):
            store.ledger.sources()
        doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        assert [s.session_id for s in store.ledger.sessions()] == ["b"]


@pytest.mark.feature("doctor.integrity")
def test_the_doctor_names_damaged_missing_and_left_over_objects(tmp_path: Path):
    settings = settings_of(tmp_path)
    for name in "abc":
        write(tmp_path / "toy", f"sessions/{name}.jsonl", line(id=name, ts=JUNE))
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        assert doctor.examine(store, settings, hosts=HOSTS).damaged == []
        damaged, missing, kept = (s.path for s in store.ledger.segments())
        data = bytearray(store.files.read(damaged))
        data[-3] ^= 0xFF
        store.files.write(damaged, bytes(data))
        store.files.remove(missing)
        (pending,) = _grown(store, settings, tmp_path / "toy" / "sessions")
        capture.take(store.files, pending, host=HOSTS["toy"])

        report = doctor.examine(store, settings, hosts=HOSTS)

        assert sorted(d.path for d in report.damaged) == sorted([damaged, missing])
        assert (len(report.spare), report.sound, report.pending) == (1, False, 1)
        assert kept not in {d.path for d in report.damaged}
        assert report.lines()[0].endswith("2 damaged objects")
        assert report.to_json()["damaged"][0].keys() == {"path", "reason"}


def _grown(store, settings, folder: Path) -> list[capture.Pending]:
    append(folder / "c.jsonl", line(text="more"))
    return capture.scan(store, settings, hosts=HOSTS).pending


@pytest.mark.feature("doctor.rebuild-ledger")
@pytest.mark.parametrize("name", ["raw/segments", "normalized"])
def test_a_ledger_is_not_replaced_under_another_writer(tmp_path: Path, monkeypatch, name):
    monkeypatch.setattr(rebuild, "_WAIT", 0.1)
    settings = settings_of(tmp_path)
    write(tmp_path / "toy", "sessions/a.jsonl", line(id="a", ts=JUNE))
    with open_store(settings) as writer, open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        with writer.ledger.lease(name), pytest.raises(StoreLocked, match=name):
            doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        assert store.ledger.live_leases() == {}
        writer.ledger.mark_vanished([s.stream for s in writer.ledger.sources().values()], "seen through the new file")
        assert [s.state for s in store.ledger.sources().values()] == ["seen through the new file"]


@pytest.mark.feature("doctor.rebuild-ledger")
def test_a_rebuild_takes_odd_answers_of_a_host_as_capture_does(tmp_path: Path):
    settings = settings_of(tmp_path)
    odd = "\\ud800"
    write(tmp_path / "toy", "sessions/a.jsonl", b'{"id": "a%s", "ts": "%s"}\n' % (odd.encode(), JUNE.encode()))
    write(tmp_path / "toy", "sessions/b.jsonl", line(id="b", ts="no time"))
    write(tmp_path / "toy", "index.jsonl", b'{"id": "a", "title": "%s"}\n{"no": "id"}\n' % odd.encode())
    with open_store(settings) as store:
        capture.capture(store, settings, hosts=HOSTS)
        before = (store.ledger.sessions(), store.ledger.hints())
        result = doctor.rebuild_ledger(store, settings, hosts=HOSTS)
        assert (store.ledger.sessions(), store.ledger.hints()) == before
        assert [reason for _, reason in result.damaged] == ["gives no hints: KeyError"]
