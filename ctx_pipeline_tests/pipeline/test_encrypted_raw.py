"""Raw records encrypted to a key of age: unreadable without it, everything works with it, and nothing is lost either way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyrage
import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli.root import cli
from ctx_pipeline.errors import RawLocked, UsageError
from ctx_pipeline.maintenance import backup
from ctx_pipeline.maintenance.doctor import examine
from ctx_pipeline.maintenance.repair import repair, verify_deep
from ctx_pipeline.pipeline.capture import encrypting
from ctx_pipeline.pipeline.forget import sessions as forgetting
from ctx_pipeline.pipeline.repair.rebuild import rebuild_ledger
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import byte_search, open_store
from ctx_pipeline.storage.raw import encryption
from ctx_pipeline.storage.raw import segments as raw

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"
SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"


@pytest.fixture
def settings(tmp_path: Path, environ) -> Settings:
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, tmp_path / host)
    chosen = settings_module.load(environ)
    with open_store(chosen) as store:
        sync(store, chosen)
    return chosen


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "key.txt"
    path.parent.mkdir()
    path.write_text(f"# a key\n{pyrage.x25519.Identity.generate()}\n")
    return path


def objects(settings: Settings) -> dict[str, bytes]:
    return {path.relative_to(settings.home).as_posix(): path.read_bytes() for path in (settings.home / "raw").rglob("*.zst")}


def contents(store) -> dict[str, str]:
    return {cell.key: row.content_hash for cell, row in store.ledger.asset_cells("normalized/events").items()}


def grow(settings: Settings, word: str) -> None:
    transcript = next(Path(settings.environ["CLAUDE_CONFIG_DIR"]).rglob(f"{SESSION}.jsonl"))
    last = json.loads(transcript.read_text().splitlines()[-1])
    said = {"role": "user", "content": f"and now {word}"}
    line = {**last, "type": "user", "message": said, "uuid": "00000000-0000-4000-8000-000000000001"}
    with transcript.open("a") as file:
        file.write(json.dumps(line) + "\n")


@pytest.mark.feature("security.raw-encrypted")
def test_with_its_key_an_encrypted_store_captures_reads_and_proves_what_a_plain_one_does(settings: Settings, key: Path):
    plain = objects(settings)
    with open_store(settings) as store:
        before = contents(store)
        told = encrypting.encrypt(store, key)
        assert (told.objects, told.encrypted, told.written) == (len(plain), len(plain), len(plain))
        assert encrypting.encrypt(store, key).written == 0

        grow(settings, "zanzibarish")
        sync(store, settings)
        hidden = objects(settings)
        assert len(hidden) == len(plain) + 1
        assert all(raw.lies_encrypted(store.files, path) for path in hidden)
        assert not any(path.read_bytes().count(b"AGE-SECRET-KEY") for path in settings.home.rglob("*") if path.is_file())
        assert verify_deep(store, settings).sound
        assert examine(store, settings).sound
        rebuild_ledger(store, settings)
        sync(store, settings)
        grown = contents(store)
        assert grown.keys() == before.keys()
        assert sum(grown[cell] != before[cell] for cell in grown) == 1

        assert encrypting.decrypt(store).encrypted == 0
        again = objects(settings)
        assert {path: again[path] for path in plain} == plain
        assert verify_deep(store, settings).sound


@pytest.mark.feature("security.raw-encrypted")
def test_without_its_key_nothing_is_begun_nothing_is_called_damaged_and_reports_go_on(settings: Settings, key: Path, tmp_path: Path):
    with open_store(settings) as store:
        encrypting.encrypt(store, key)
        before, known = objects(settings), contents(store)
        kept = key.rename(key.with_name("gone.txt"))
        grow(settings, "zanzibarish")
        for work in (
            lambda: sync(store, settings),
            lambda: verify_deep(store, settings),
            lambda: repair(store, settings, [(path, "is said to be damaged") for path in before]),
            lambda: rebuild_ledger(store, settings),
            lambda: backup.backup(store, tmp_path / "copy"),
            lambda: encrypting.decrypt(store),
        ):
            with pytest.raises(RawLocked, match="there is no key in"):
                work()
        # another key in its place opens nothing, and makes no damage of what it cannot open
        key.write_text(str(pyrage.x25519.Identity.generate()))
        for work in (lambda: sync(store, settings), lambda: verify_deep(store, settings), lambda: rebuild_ledger(store, settings)):
            with pytest.raises(RawLocked, match="is another one"):
                work()
        key.unlink()
        assert objects(settings) == before
        assert contents(store) == known
        found = examine(store, settings)
        assert found.sound
        assert any("looked at by name and size alone" in line for line in found.lines())
    for words in (["list"], ["usage", "session"], ["search", "discount"], ["show", SESSION]):
        assert CliRunner().invoke(cli, words, env=dict(settings.environ)).exit_code == 0, words
    # the key lies elsewhere now
    said = CliRunner().invoke(cli, ["encrypt", "--identity", str(kept)], env=dict(settings.environ))
    assert "0 of" not in said.output
    assert str(kept) in said.output
    with open_store(settings) as store:
        sync(store, settings)
        assert contents(store) != known


@pytest.mark.feature("security.raw-encrypted")
def test_what_was_interrupted_goes_on_and_a_changed_byte_is_damage(settings: Settings, key: Path, monkeypatch):
    original, count = raw.rewrite, iter(range(100))

    def dies(files, rel):
        if next(count) == 3:
            raise KeyboardInterrupt
        return original(files, rel)

    with open_store(settings) as store:
        with monkeypatch.context() as patched:
            patched.setattr(raw, "rewrite", dies)
            with pytest.raises(KeyboardInterrupt):
                encrypting.encrypt(store, key)
        mixed = encrypting.state(store)
        assert 0 < mixed.encrypted < mixed.objects
        assert verify_deep(store, settings).sound
        # killed between the object and its row
        path = next(path for path in sorted(objects(settings)) if not raw.lies_encrypted(store.files, path))
        assert raw.rewrite(store.files, path)
        assert encrypting.encrypt(store, key).encrypted == mixed.objects
        assert examine(store, settings).sound

        place = settings.home / path
        place.write_bytes(place.read_bytes()[:-1] + bytes([place.read_bytes()[-1] ^ 1]))
        assert [name for name, _ in verify_deep(store, settings).damaged] == [path]
        assert repair(store, settings, verify_deep(store, settings).damaged).after.sound
        assert raw.lies_encrypted(store.files, path)


@pytest.mark.feature("security.raw-encrypted")
def test_what_is_forgotten_leaves_encrypted_objects_too(settings: Settings, key: Path):
    with open_store(settings) as store:
        encrypting.encrypt(store, key)
        streams = {one.stream for one in store.ledger.sources().values() if SESSION in one.rel}
        away = key.rename(key.with_name("away.txt"))
        with pytest.raises(RawLocked):
            forgetting.forget(store, settings, forgetting.Selection(host="claude", session_id=SESSION))
        assert not (settings.home / forgetting.FORGETTING).exists()
        away.rename(key)
        report = forgetting.forget(store, settings, forgetting.Selection(host="claude", session_id=SESSION))
        assert (report.searched.found, report.searched.unreadable) == ([], [])
        assert report.searched.files["raw"] > 0
        seen = byte_search.search(settings.home, byte_search.Wanted([b'"sessionId"'])).found
        assert any(rel.startswith("raw/claude/") for rel in seen)
        left = {one.stream for one in store.ledger.segments()}
        assert streams
        assert not streams & left
        assert not any(stream in path for stream in streams for path in objects(settings))
        assert verify_deep(store, settings).sound


@pytest.mark.feature("security.raw-encrypted")
def test_another_key_a_key_of_ssh_and_no_key_are_refused(settings: Settings, key: Path, tmp_path: Path):
    other, none = tmp_path / "other.txt", tmp_path / "none.txt"
    other.write_text(str(pyrage.x25519.Identity.generate()))
    none.write_text("no key")
    with open_store(settings) as store:
        with pytest.raises(UsageError):
            encrypting.encrypt(store, none)
        assert encrypting.decrypt(store).written == 0
        encrypting.encrypt(store, key)
        with pytest.raises(UsageError, match="another key"):
            encrypting.encrypt(store, other)
        # the file that says which key it is was lost
        store.files.remove(encryption.FILE)
        with pytest.raises(RawLocked, match="does not say to which key"):
            verify_deep(store, settings)
        with pytest.raises(UsageError, match="another key"):
            encrypting.encrypt(store, other)
        assert encrypting.encrypt(store, key).written == 0
        assert verify_deep(store, settings).sound
