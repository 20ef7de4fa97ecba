"""Backups: made while others write, incremental, proved, restored; what is forgotten leaves them and does not come back from them."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyrage
import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import StoreDamaged, UsageError
from ctx_pipeline.maintenance import backup as stage
from ctx_pipeline.maintenance.repair import verify_deep
from ctx_pipeline.pipeline.forget import sessions as forgetting
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.byte_search import Wanted, search
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

SAMPLES = Path(__file__).resolve().parents[2] / "ctx_pipeline" / "samples"
SESSION = "c823d9cd-f224-448f-a457-16b4882b2710"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The sample homes, captured and normalized."""
    for host in ("claude", "codex"):
        shutil.copytree(SAMPLES / host, tmp_path / host)
    (tmp_path / "nobody").mkdir(exist_ok=True)
    environ = {
        "HOME": str(tmp_path / "nobody"),
        "CTX_HOME": str(tmp_path / "store"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "CODEX_HOME": str(tmp_path / "codex"),
        "TZ": "UTC",
    }
    chosen = settings_module.load(environ)
    with open_store(chosen) as store:
        sync(store, chosen)
    return chosen


def normalized(store) -> dict[str, str]:
    return {cell.key: row.content_hash for cell, row in store.ledger.asset_cells("normalized/events").items()}


@pytest.mark.feature("backup.while-writing")
def test_a_copy_made_while_a_writer_works_is_whole_and_restores_to_the_same_tables(settings, tmp_path):
    transcript = next((tmp_path / "claude").rglob(f"{SESSION}.jsonl"))
    last = json.loads(transcript.read_text().splitlines()[-1])
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with transcript.open("a") as file:
                file.write(json.dumps({**last, "uuid": f"00000000-0000-4000-8000-{number:012}"}) + "\n")
            with open_store(settings) as own:
                sync(own, settings)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with open_store(settings) as store:
            first = stage.backup(store, tmp_path / "copy")
            # a writer that waits for a busy machine has written nothing yet
            second = eventually(lambda: made if (made := stage.backup(store, tmp_path / "copy")).copied else None)
    finally:
        stop.set()
        writer.join()
    assert first.copied == first.files
    assert 0 < second.copied < first.files
    assert stage.check(tmp_path / "copy") == []

    other = replace(settings, home=tmp_path / "other")
    done = stage.restore(tmp_path / "copy", other)
    assert (done.files, done.aside, done.forgotten) == (second.files, "", 0)
    for chosen in (settings, other):
        with open_store(chosen) as store:
            run_stages(store, chosen)
    with open_store(settings) as store, open_store(other) as restored:
        assert normalized(restored) == normalized(store)
        assert verify_deep(restored, other).lines() == ["sound: no file is damaged or missing"]


@pytest.mark.feature("backup.while-writing")
def test_what_is_captured_while_a_copy_is_made_is_of_the_next_copy(settings, tmp_path, monkeypatch):
    transcript = next((tmp_path / "claude").rglob(f"{SESSION}.jsonl"))
    last = json.loads(transcript.read_text().splitlines()[-1])
    copied = stage.copy_database

    def copied_and_two_captures_later(source: Path, copy: Path) -> str:
        result = copied(source, copy)
        if source.name == "ledger.db":
            for number in (1, 2):
                with transcript.open("a") as file:
                    file.write(json.dumps({**last, "uuid": f"00000000-0000-4000-8000-{number:012}"}) + "\n")
                with open_store(settings) as own:
                    sync(own, settings)
        return result

    monkeypatch.setattr(stage, "copy_database", copied_and_two_captures_later)
    with open_store(settings) as store:
        before = len(store.ledger.segments())
        stage.backup(store, tmp_path / "copy")
        assert len(store.ledger.segments()) == before + 2
    assert stage.check(tmp_path / "copy") == []
    other = replace(settings, home=tmp_path / "other")
    stage.restore(tmp_path / "copy", other)
    with open_store(other) as restored:
        sync(restored, other)
        assert len(restored.ledger.segments()) == before + 1
        assert verify_deep(restored, other).lines() == ["sound: no file is damaged or missing"]
    with open_store(settings) as store:
        assert stage.backup(store, tmp_path / "copy").copied > 0


@pytest.mark.feature("backup.incremental")
def test_nothing_new_copies_nothing_and_a_damaged_record_never_takes_the_place_of_a_whole_one(settings, tmp_path):
    with open_store(settings) as store:
        stage.backup(store, tmp_path / "copy")
        assert stage.backup(store, tmp_path / "copy").copied == 0
        path = store.ledger.segments()[0].path
        whole = (tmp_path / "copy" / path).read_bytes()
        (settings.home / path).write_bytes(whole[:-9])
        made = stage.backup(store, tmp_path / "copy")
    assert made.damaged == [path]
    assert (tmp_path / "copy" / path).read_bytes() == whole
    assert stage.check(tmp_path / "copy") == []
    (tmp_path / "copy" / path).write_bytes(whole[:-9])
    assert stage.check(tmp_path / "copy") == [(path, "is not what was copied")]
    with pytest.raises(StoreDamaged, match="nothing was restored"):
        stage.restore(tmp_path / "copy", replace(settings, home=tmp_path / "other"))
    assert not (tmp_path / "other").exists()


@pytest.mark.feature("backup.forgotten")
def test_what_is_forgotten_leaves_the_backup_and_an_older_one_does_not_bring_it_back(settings, tmp_path):
    with open_store(settings) as store:
        stage.backup(store, tmp_path / "copy")
        shutil.copytree(tmp_path / "copy", tmp_path / "older")
        forgetting.forget(store, settings, forgetting.Selection("claude", SESSION))
        assert stage.update_known(store) == [(str(tmp_path / "copy"), "")]
    wanted = Wanted([SESSION.encode(), b"invoices export"])
    assert search(tmp_path / "older", wanted, leave_out=()).found
    assert search(tmp_path / "copy", wanted, leave_out=()).found == []

    done = stage.restore(tmp_path / "older", settings)
    assert done.forgotten == 1
    with open_store(settings) as store:
        run_stages(store, settings)
        assert store.ledger.session("claude", SESSION) is None
        assert len(store.ledger.sessions()) == 5
    assert search(settings.home, wanted, leave_out=()).found == []


@pytest.mark.feature("backup.place")
def test_a_backup_goes_neither_into_the_store_nor_over_anything_else(settings, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with open_store(settings) as store:
        for folder in (settings.home / "copy", tmp_path, tmp_path / "full"):
            with pytest.raises(UsageError):
                stage.backup(store, folder)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]


@pytest.fixture
def key(tmp_path: Path) -> str:
    """A pair of keys: the private one lies in ``key.txt`` as ``age-keygen`` writes it; the public one."""
    identity = pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(f"# created: today\n# public key: {identity.to_public()}\n{identity}\n")
    (tmp_path / "other.txt").write_text(f"{pyrage.x25519.Identity.generate()}\n")
    return str(identity.to_public())


@pytest.mark.feature("backup.encrypted")
def test_an_encrypted_backup_tells_nothing_of_a_session_and_its_key_alone_restores_it(settings, tmp_path, key):
    copy, other = tmp_path / "copy", replace(settings, home=tmp_path / "other")
    with open_store(settings) as store:
        first = stage.backup(store, copy, encrypt=[key])
        again = stage.backup(store, copy)
        before = normalized(store)
    assert (first.encrypted, again.encrypted) == (True, True)
    assert first.copied == first.files
    assert 0 < again.copied <= 3, "databases alone are written anew"
    words = Wanted([b"invoices export", b"pytest"])
    assert search(settings.home, words, leave_out=()).found
    assert search(copy, words, leave_out=()).found == []
    assert {path.stat().st_mode & 0o777 for path in copy.rglob("*") if path.is_file()} == {0o600}
    assert stage.check(copy) == []

    with pytest.raises(UsageError, match="is encrypted"):
        stage.restore(copy, other)
    with pytest.raises(StoreDamaged, match="cannot be opened with this key"):
        stage.restore(copy, other, identity=tmp_path / "other.txt")
    assert not other.home.exists()

    assert stage.restore(copy, other, identity=tmp_path / "key.txt").files == again.files
    with open_store(other) as restored:
        assert normalized(restored) == before
        run_stages(restored, other)
        assert verify_deep(restored, other).lines() == ["sound: no file is damaged or missing"]


@pytest.mark.feature("backup.encrypted")
def test_a_changed_byte_of_an_encrypted_backup_is_told_without_a_key_and_what_is_forgotten_leaves_it(settings, tmp_path, key):
    copy = tmp_path / "copy"
    (tmp_path / "keys.txt").write_text(f"# the team\n{key}\n")
    with open_store(settings) as store:
        stage.backup(store, copy, encrypt=[str(tmp_path / "keys.txt")])
        before = {segment.path for segment in store.ledger.segments()}
        assert all((copy / f"{path}.age").exists() for path in before)
        forgetting.forget(store, settings, forgetting.Selection("claude", SESSION))
        forgotten = before - {segment.path for segment in store.ledger.segments()}
        assert forgotten
        assert stage.update_known(store) == [(str(copy), "")]
        kept = store.ledger.segments()[0].path
    assert not any((copy / f"{path}.age").exists() for path in forgotten)
    sealed = bytearray((copy / f"{kept}.age").read_bytes())
    sealed[-1] ^= 1
    (copy / f"{kept}.age").write_bytes(sealed)
    assert stage.check(copy) == [(kept, "is not what was copied")]


@pytest.mark.feature("backup.encrypted")
def test_with_another_key_all_of_it_is_encrypted_anew(settings, tmp_path, key):
    copy, other = tmp_path / "copy", replace(settings, home=tmp_path / "other")
    second = pyrage.x25519.Identity.from_str((tmp_path / "other.txt").read_text().strip())
    with open_store(settings) as store:
        first = stage.backup(store, copy, encrypt=[key])
        assert stage.backup(store, copy, encrypt=[str(second.to_public())]).copied == first.files
    with pytest.raises(StoreDamaged, match="cannot be opened with this key"):
        stage.restore(copy, other, identity=tmp_path / "key.txt")
    assert stage.restore(copy, other, identity=tmp_path / "other.txt").files == first.files


@pytest.mark.feature("backup.encrypted")
def test_an_encrypted_backup_never_turns_into_plain_text_and_an_emptied_file_is_made_again(settings, tmp_path, key):
    copy = tmp_path / "copy"
    with open_store(settings) as store:
        stage.backup(store, copy, encrypt=[key])
        path = copy / f"{store.ledger.segments()[0].path}.age"
        path.write_bytes(b"")
        stage.backup(store, copy)
        assert stage.check(copy) == []
        (copy / stage.INDEX).write_text("{")
        ((_, trouble),) = stage.update_known(store)
        assert "was begun encrypted" in trouble
    assert not (copy / "ledger.db").exists()


@pytest.mark.feature("backup.encrypted")
@pytest.mark.parametrize("what", ["key.txt", "/etc", "store/ledger.db"])
def test_nothing_of_a_file_that_is_no_list_of_public_keys_is_printed(settings, tmp_path, key, what):
    with open_store(settings) as store, pytest.raises(UsageError) as raised:
        stage.backup(store, tmp_path / "copy", encrypt=[str(tmp_path / what)])
    assert not {"SECRET", "SQLite"} & set(str(raised.value).replace("-", " ").split())


@pytest.mark.feature("backup.encrypted")
@pytest.mark.parametrize("said", ["age1nothing", "hunter2", "ssh-rsa " + "A" * 372, ""])
def test_what_is_no_recipient_is_refused_and_so_is_a_folder_in_plain_text(settings, tmp_path, key, said):
    with open_store(settings) as store:
        with pytest.raises(UsageError, match="recipient"):
            stage.backup(store, tmp_path / "copy", encrypt=[said])
        assert not (tmp_path / "copy" / "ledger.db.age").exists()
        stage.backup(store, tmp_path / "plain")
        with pytest.raises(UsageError, match="in plain text"):
            stage.backup(store, tmp_path / "plain", encrypt=[key])
