"""Objects that are written together: durable, then named, or not there at all."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from ctx_pipeline.errors import StoreError, StoreFull
from ctx_pipeline.storage.files import Files

NAMES = [f"a/{n:03}" for n in range(100)]


def lying(files: Files) -> list[str]:
    """Return the names of all files below the root, half-written ones too."""
    return sorted(path.relative_to(files.root).as_posix() for path in files.root.rglob("*") if path.is_file())


def _write(files: Files, names: list[str]) -> None:
    for number, name in enumerate(names, 1):
        files.write(name, b"x" * number)


@pytest.mark.feature("store.together")
def test_every_object_is_durable_before_it_has_its_name_and_all_have_theirs_after_the_block(tmp_path, monkeypatch):
    files = Files(tmp_path)
    durable = set()
    fsync, replace = os.fsync, os.replace

    def synced(handle):
        fsync(handle)
        durable.add(os.fstat(handle).st_ino)

    def named(old, new):
        assert Path(old).stat().st_ino in durable
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    before = threading.active_count()
    with files.together():
        for number, name in enumerate(NAMES):
            files.write(name, b"%d" % number)
        assert not files.exists(NAMES[-1])
    assert lying(files) == NAMES
    assert [files.read(name) for name in NAMES] == [b"%d" % number for number in range(100)]
    assert threading.active_count() == before
    assert len(durable) == 100


@pytest.mark.feature("store.together")
def test_a_block_that_raises_leaves_nothing_of_what_waited(tmp_path):
    files = Files(tmp_path)
    before = threading.active_count()
    with pytest.raises(StoreError), files.together():
        _write(files, [*NAMES[:20], "../outside"])
    assert lying(files) == []
    assert threading.active_count() == before


@pytest.mark.feature("store.together")
def test_an_object_that_cannot_be_made_durable_has_no_name_though_the_system_says_so_only_once(tmp_path, monkeypatch):
    files = Files(tmp_path)
    told = []
    fsync = os.fsync

    def full_at_the_tenth(handle):
        fsync(handle)
        if os.fstat(handle).st_size == 10 and not told:
            told.append(handle)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_at_the_tenth)
    with pytest.raises(StoreFull), files.together():
        _write(files, NAMES[:20])
    assert told
    assert lying(files) == []


@pytest.mark.feature("doctor.short")
def test_an_entry_whose_size_cannot_be_asked_hides_no_other(tmp_path: Path):
    files = Files(tmp_path)
    _write(files, ["a/1", "a/2", "b/1"])
    for folder in ("a", "b", "."):
        (tmp_path / folder / "0-loop").symlink_to("0-loop")
    assert files.sizes() == {"a/1": 1, "a/2": 2, "b/1": 3}
