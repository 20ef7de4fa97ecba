"""The doctor finds what the tables lack and says how it comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.integrations.import_sessions import list_sessions
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.maintenance.repair import verify_deep
from ctx_pipeline.pipeline import run
from ctx_pipeline.pipeline.capture import scanning
from ctx_pipeline.storage import open_store, verified
from ctx_pipeline.storage.raw import segments as raw
from ctx_pipeline_tests.factories import claude as build

SESSION = "aaaaaaaa-0000-4000-8000-000000000001"


@pytest.fixture
def settings(environ):
    home = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    transcript = home.session(SESSION)
    transcript.prompt("please mend the parser")
    transcript.call("toolu_1", "Bash", "no such file", is_error=True, command="make")
    transcript.answer(build.text("The parser works now."))
    transcript.save()
    return settings_module.load(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        run.run_stages(opened, settings)
        yield opened


def rows(store):
    cells = store.lake.manifests("normalized")
    return [row for table in ("events", "readings") for cell in cells for row in store.lake.read_rows(table, cell)]


@pytest.mark.feature("doctor.missing-parts")
@pytest.mark.parametrize("asset", ["normalized", "signals/activity"])
def test_a_missing_part_is_named_and_comes_back_with_the_commands_that_are_named(store, settings, asset):
    assert doctor.examine(store, settings).sound
    before = rows(store)
    (manifest,) = store.lake.manifests(asset).values()
    part = manifest.parts[0]
    store.files.remove(part.path)
    report = doctor.examine(store, settings)
    assert not report.sound
    ((path, reason),) = report.damaged
    assert path == part.path
    assert reason == "is missing; it is made again from raw by: ctx run"
    run.run_stages(store, settings)
    assert doctor.examine(store, settings).sound
    assert rows(store) == before


@pytest.mark.feature("doctor.missing-parts")
def test_a_manifest_that_cannot_be_read_is_named(store, settings):
    (name,) = store.files.walk("lake/_manifests/signals.activity")
    store.files.write(name, b"{")
    assert [(d.path, d.reason.split(";")[0]) for d in doctor.examine(store, settings).damaged] == [(name, "is not a manifest")]


@pytest.mark.feature("doctor.integrity")
def test_raw_objects_that_nothing_wrote_to_are_unpacked_once_and_a_changed_byte_is_found_at_the_next_look(store, settings, monkeypatch):
    (path,) = {segment.path for segment in store.ledger.segments()}
    place = store.files.local(path)
    unpacked = []
    read_segment = raw.read_segment
    monkeypatch.setattr(raw, "read_segment", lambda files, rel: unpacked.append(rel) or read_segment(files, rel))
    written = max(place.stat().st_mtime_ns, place.stat().st_ctime_ns)
    for later in (0, 2_000_000_000):
        monkeypatch.setattr(verified, "time", SimpleNamespace(time_ns=lambda later=later: written + later))
        assert doctor.examine(store, settings).sound
    assert unpacked == [path] * 2, "what was just written is looked at again"
    monkeypatch.setattr(verified, "time", SimpleNamespace(time_ns=lambda: written + 2_000_000_001))
    for looked_at in (3, 3, 3):
        assert doctor.examine(store, settings).sound
        assert len(unpacked) == looked_at
    before, status = place.read_bytes(), place.stat()
    place.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert place.stat().st_size == status.st_size
    assert [damage.path for damage in doctor.examine(store, settings).damaged] == [path]
    place.write_bytes(before)
    assert verify_deep(store, settings).lines() == ["sound: no file is damaged or missing"]
    unpacked.clear()
    verify_deep(store, settings)
    assert unpacked, "a thorough look trusts no earlier one"


@pytest.mark.feature("doctor.integrity")
@pytest.mark.parametrize(
    "kind", ["part", "chunk", "ledger.db", "journal.db", "search.db", "memory.db", "serving/ctx.duckdb", "signals/summary.md"]
)
def test_files_that_nothing_wrote_to_are_read_once_and_a_changed_byte_is_found_though_size_and_time_are_the_same(
    store, settings, monkeypatch, kind
):
    store.search.close()
    store.ledger.close()
    store.journal.close()
    path = {
        "part": next(iter(store.lake.manifests("normalized").values())).parts[0].path,
        "chunk": next(rel for rel in store.files.walk("site/data")),
    }.get(kind, kind)
    monkeypatch.setattr(verified, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + 3_000_000_000))
    assert doctor.examine(store, settings).sound
    looks = []
    wrong_with = verified.VerifiedFiles.wrong_with

    def counting(self, rel, look, against=""):
        return wrong_with(self, rel, lambda: looks.append(rel) or look(), against)

    monkeypatch.setattr(verified.VerifiedFiles, "wrong_with", counting)
    assert doctor.examine(store, settings).sound
    assert path not in looks
    place = store.files.local(path)
    content, status = place.read_bytes(), place.stat()
    at = len(content) // 2 if not kind.endswith(".db") else 100
    place.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path in {damage.path for damage in doctor.examine(store, settings).damaged}
    assert path in looks


@pytest.mark.feature("doctor.short")
def test_what_is_wrong_stands_first_and_sizes_are_the_last_line(store, settings):
    report = doctor.examine(store, settings)
    lines = report.lines()

    assert lines[0].endswith("sound")
    assert [line for line in lines if " MB" in line or " kB" in line] == [lines[0], lines[-1]]
    largest = max(report.sizes, key=report.sizes.get)
    assert lines[-1].startswith(f"sizes: {largest} ")
    assert f"{len(report.sizes) - 5} others" in lines[-1]
    store.files.remove(next(iter(store.lake.manifests("normalized").values())).parts[0].path)
    assert doctor.examine(store, settings).lines()[1] == "damaged:"


@pytest.mark.feature("capture.rewritten-in-place")
def test_lists_and_the_doctor_do_not_read_files_again_whose_rights_alone_changed(store, settings, monkeypatch):
    (path,) = settings.roots_of(discovery.host("claude"))[0].rglob(f"{SESSION}.jsonl")
    time.sleep(0.02)
    path.chmod(0o640)
    read = []
    compare = scanning.compare
    monkeypatch.setattr(scanning, "compare", lambda path, *more: read.append(path) or compare(path, *more))

    for _ in range(2):
        assert [s.state for s in list_sessions(store, settings).sessions] == ["captured"]
        assert doctor.examine(store, settings).sound
    assert read == []
    run.run_stages(store, settings)
    run.run_stages(store, settings)
    assert read == [str(path)]
