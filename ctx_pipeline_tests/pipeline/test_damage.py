"""Damage of each derived file: a sentence that names it, exit 1, no traceback; the next run makes it again with the same content."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import root
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.pipeline.plan import plan
from ctx_pipeline.pipeline.repair import damaged_outputs
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"
SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"
MONTH = "host=claude/month=2026-09"

COMMANDS = {
    "usage": ["usage", "daily"],
    "projects": ["usage", "project"],
    "bare": [],
    "show": ["show", "claude", SESSION],
    "search": ["search", "export"],
    "sql": ["sql", "select count(*) from events"],
    "signal": ["signal", "show", "claude", SESSION],
    "memory": ["memory", "list"],
    "retrieve": ["memory", "retrieve", "-q", "upgrade the tests"],
    "verify": ["verify"],
    "list": ["list"],
    "status": ["status"],
    "doctor": ["doctor"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample homes and a store of them, at a place that every test has it in."""
    folder = tmp_path_factory.mktemp("made")
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, folder / host)
    chosen = settings_module.load(environ_of(folder))
    with open_store(chosen) as store:
        run_stages(store, chosen)
    shutil.copytree(folder / "store", folder / "kept")
    return folder


@pytest.fixture
def settings(made: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    shutil.rmtree(made / "store")
    shutil.copytree(made / "kept", made / "store")
    environ = environ_of(made)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return settings_module.load(environ)


def environ_of(folder: Path) -> dict[str, str]:
    (folder / "nobody").mkdir(exist_ok=True)
    return {
        "HOME": str(folder / "nobody"),
        "CTX_HOME": str(folder / "store"),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CODEX_HOME": str(folder / "codex"),
        "TZ": "UTC",
    }


def at(share: float) -> Callable[[Path], None]:
    """Change the byte at a share of the file (or, from the end, so many bytes before it)."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(len(data) * share) if 0 < share < 1 else int(share)] ^= 0xFF
        path.write_bytes(data)

    return flip


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def missing(path: Path) -> None:
    path.unlink()


def invalid_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"asset"', b'"\xff\xfeset"'))


def invalid_json(path: Path) -> None:
    path.write_bytes(b'{"asset": ')


def wrong_shape(path: Path) -> None:
    path.write_bytes(b"[1, 2]")


def other_digit(path: Path) -> None:
    data = path.read_bytes()
    place = data.index(b'"rows": ', data.index(b'"parts"')) + 8
    path.write_bytes(data[:place] + (b"7" if data[place : place + 1] != b"7" else b"8") + data[place + 1 :])


FLIPS = {"magic": at(0), "header": at(6), "page": at(0.2), "later page": at(0.6), "footer": at(-200), "length": at(-6), "last": at(-1)}
WHOLE = {"cut": cut, "empty": empty, "missing": missing}
TEXTS = {"invalid UTF-8": invalid_text, "invalid JSON": invalid_json, "wrong shape": wrong_shape, "empty": empty, "missing": missing}

CASES: list[tuple[str, dict[str, Callable[[Path], None]], list[str]]] = [
    (f"lake/events/{MONTH}/part-*.parquet", FLIPS | WHOLE, ["show", "sql", "search"]),
    (f"lake/model_calls/{MONTH}/part-*.parquet", {"page": at(0.2), "footer": at(-200), **WHOLE}, ["usage", "bare", "show"]),
    (f"lake/sessions/{MONTH}/part-*.parquet", {"page": at(0.2), "missing": missing}, ["projects", "verify"]),
    (f"lake/readings/{MONTH}/part-*.parquet", {"page": at(0.2), "missing": missing}, ["signal"]),
    ("lake/_manifests/normalized/claude=2026-09.json", TEXTS | {"another digit": other_digit}, ["usage", "show", "sql", "verify"]),
    ("lake/_manifests/signals.activity/claude=2026-09.json", TEXTS, ["signal"]),
    ("search.db", {"header": at(3), "page": at(0.5), **WHOLE}, ["search"]),
    ("memory.db", {"header": at(3), **WHOLE}, ["retrieve"]),
    ("cases.db", {"page": at(0.5), "empty": empty}, []),
    ("serving/ctx.duckdb", {"header": at(20), "page": at(0.5), "cut": cut, "missing": missing}, []),
    ("site/index.html", {"page": at(0.5), "missing": missing}, []),
    ("uses.json", {"cut": cut}, []),
]
UNREAD = {("search.db", "page"), ("lake/_manifests/signals.activity/claude=2026-09.json", "missing"), ("memory.db", "missing")}
"""What a reader cannot see: a word in an index, a signal that might never have been measured, memories that might never have been drawn."""


def told(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str]:
    """Return the exit status of a command and what it printed; any error that is no sentence fails the test."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        root.run(list(words))
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return int(ended.value.code or 0), shown.out + shown.err


def contents(store) -> dict[str, str]:
    return {
        f"{r.asset}@{r.partition.key}": r.content_hash for a, _ in store.ledger.recorded() for r in store.ledger.asset_cells(a).values()
    }


@pytest.mark.feature("damage.sentence")
@pytest.mark.parametrize(
    ("pattern", "how", "readers"),
    [pytest.param(pattern, how, readers, id=f"{pattern.split('*')[0]}: {how}") for pattern, ways, readers in CASES for how in ways],
)
def test_damage_is_named_by_whoever_reads_it_and_mended_by_the_next_run(settings, capsys, pattern, how, readers):
    ways = next(ways for known, ways, _ in CASES if known == pattern)
    with open_store(settings) as store:
        before = contents(store)
    (path, *_) = sorted(settings.home.glob(pattern))
    ways[how](path)
    name = path.name

    for reader in readers:
        code, said = told(capsys, COMMANDS[reader])
        if (pattern, how) not in UNREAD:
            assert (code, name in said) == (1, True), f"{reader}: {said[-600:]}"
            assert "ctx run" in said or "ctx memory reindex" in said
    with open_store(settings) as store:
        found = doctor.examine(store, settings)
        assert not found.sound
        assert name in "\n".join(found.lines())
        sentences = damaged_outputs.release_damaged(store)
        assert how == "missing" or any(name in sentence for sentence in sentences)
        run_stages(store, settings)
        assert contents(store) == before
        assert plan(store, settings).nothing_to_do
        assert damaged_outputs.damaged(store, deep=True) == []


@pytest.mark.feature("damage.sentence")
def test_no_reading_command_trips_over_damage_that_it_does_not_look_at(settings, capsys):
    for pattern in (f"lake/readings/{MONTH}/part-*.parquet", "cases.db", "serving/ctx.duckdb"):
        cut(min(settings.home.glob(pattern)))
    for reader in ("usage", "bare", "list", "search", "sql", "memory"):
        code, said = told(capsys, COMMANDS[reader])
        assert code == 0, said
    assert told(capsys, COMMANDS["status"])[0] == 1
    assert told(capsys, COMMANDS["doctor"])[0] == 1


@pytest.mark.feature("damage.copied")
def test_a_copy_of_a_store_with_other_times_is_sound_and_noted_anew(settings):
    for path in (settings.home / "lake").rglob("*.parquet"):
        os.utime(path, (1, 1))
    with open_store(settings) as store:
        before = contents(store)
        assert doctor.examine(store, settings).sound
        assert damaged_outputs.release_damaged(store) == []
        assert run_stages(store, settings).sessions_parsed == 0
        assert contents(store) == before
        times = {
            part.mtime_ns for asset in ("normalized", "signals/activity") for m in store.lake.manifests(asset).values() for part in m.parts
        }
        assert times == {1_000_000_000}


@pytest.mark.feature("damage.raw")
@pytest.mark.parametrize("how", ["page", "cut", "empty", "missing"])
def test_a_damaged_raw_object_is_named_and_taken_again_from_its_source(settings, capsys, how):
    with open_store(settings) as store:
        before = contents(store)
        segment = next(s for s in store.ledger.segments() if f"{SESSION}" in str(store.ledger.sources_of([s.stream])[s.stream].rel))
    {"page": at(0.9), **WHOLE}[how](settings.home / segment.path)

    code, said = told(capsys, COMMANDS["doctor"])
    assert code == 1
    assert Path(segment.path).name in said
    code, said = told(capsys, ["doctor", "--rebuild-ledger"])
    assert (how == "missing") or Path(segment.path).name in said
    assert "before: 6 sessions, 46 model calls" in said
    assert "after:  6 sessions, 46 model calls" in said
    with open_store(settings) as store:
        run_stages(store, settings)
        run_stages(store, settings)
        now = contents(store)
        assert store.ledger.undecodable_sessions() == []
    assert {k: v for k, v in now.items() if k.startswith("normalized")} == {k: v for k, v in before.items() if k.startswith("normalized")}
