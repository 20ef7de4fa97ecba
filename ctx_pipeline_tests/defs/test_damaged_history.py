"""Dagster's history is disposable: a damaged one is set aside and begun anew, and said; a person's own settings stay."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.defs import launch, upkeep
from ctx_pipeline.errors import StoreError
from ctx_pipeline.pipeline.repair import checks
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.verified import VerifiedFiles
from ctx_pipeline_tests.waiting import remove


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an instance that has been opened once."""
    home = tmp_path_factory.mktemp("begun") / "store"
    with launch.instance(settings_module.load({"CTX_HOME": str(home), "HOME": str(home.parent)})):
        pass
    shutil.copytree(home, home.with_name("kept"))
    return home


@pytest.fixture
def settings(begun: Path, monkeypatch: pytest.MonkeyPatch):
    remove(begun)
    shutil.copytree(begun.with_name("kept"), begun)
    monkeypatch.setenv("CTX_HOME", str(begun))
    return settings_module.load()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(byte ^ 0xFF for byte in data[4096:8192])
    data[3] ^= 0xFF
    path.write_bytes(data)


def middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.feature("dagster.history-damaged")
@pytest.mark.parametrize("damage", [flip, middle, cut, empty, Path.unlink])
@pytest.mark.parametrize("name", ["history/event_log.db", "history/runs.db", "schedules/schedules.db"])
def test_a_damaged_history_is_set_aside_and_said(settings, capfd, name, damage):
    home = settings.home / "dagster"
    damage(home / name)

    upkeep.switches(settings)  # what the doctor asks
    said = capfd.readouterr().err
    upkeep.switches(settings)

    assert capfd.readouterr().err == ""
    if (name, damage) == ("schedules/schedules.db", Path.unlink):
        assert said == ""
        return
    assert "set aside as" in said
    assert said.count("\n") == 1
    (aside,) = (path for path in home.rglob("*.damaged-*") if not path.name.endswith(("-wal", "-shm")))
    assert aside.name in said
    assert stat.S_IMODE(aside.stat().st_mode) == (0o700 if aside.is_dir() else 0o600)
    assert aside.is_dir() == name.startswith("history")
    with open_store(settings) as store:
        assert checks.databases(store, VerifiedFiles(store.files)) == [], "what was set aside is no damage of the store any more"


@pytest.mark.feature("dagster.settings-damaged")
@pytest.mark.parametrize(
    "damage", [cut, empty, lambda p: p.write_bytes(b"\xff" + p.read_bytes()[1:]), lambda p: p.write_bytes(p.read_bytes() + b"\n: [")]
)
def test_settings_of_our_own_making_are_written_again(settings, damage):
    path = settings.home / "dagster" / "dagster.yaml"
    before = path.read_bytes()
    damage(path)

    with launch.instance(settings):
        pass

    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.feature("dagster.settings-damaged")
def test_a_persons_own_settings_are_never_overwritten(settings):
    path = settings.home / "dagster" / "dagster.yaml"
    path.write_text("telemetry:\n  enabled: false\n")
    with launch.instance(settings):
        pass
    assert path.read_text() == "telemetry:\n  enabled: false\n"

    path.write_text("telemetry: [\n")
    with pytest.raises(StoreError, match=r"dagster\.yaml cannot be read") as told, launch.instance(settings):
        pass
    assert "fix it, or move it away" in told.value.hint
    assert path.read_text() == "telemetry: [\n"
