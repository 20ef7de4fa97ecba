"""Paths that transcripts name: none raises, none is waited for, and what cannot be seen is not called absent."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctx_pipeline import recorded_paths
from ctx_pipeline.memory.scope import Place, git_folder, place_of
from ctx_pipeline.mining.filters import staleness
from ctx_pipeline.recorded_paths import git
from ctx_pipeline.signals.git_outcome import look
from ctx_pipeline_tests.factories import dead_mount
from ctx_pipeline_tests.factories.views import view

WAIT = 60

ODD = {
    "too-deep": "/" + "a/" * 3_000,
    "too-long": "/tmp/" + "b" * 300,
    "zero": "/tmp/x\0y",
    "surrogate": "/tmp/\ud800x",
    "process": "/proc/self/cwd",
    "device": "/dev/zero",
    "relative": "../../x",
    "another-home": "~root/x",
    "empty": "",
}


@pytest.fixture
def dead(tmp_path):
    """A folder on a mount that never answers."""
    folder = tmp_path / "dead"
    folder.mkdir()
    server = subprocess.Popen(
        [sys.executable, dead_mount.__file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    )
    said = server.stdout.readline().strip()
    if said == "mounted":
        yield folder / "project"
    server.communicate(timeout=WAIT)
    if said != "mounted":
        pytest.skip(f"nothing can be mounted here: {said}")


@pytest.fixture
def fresh(monkeypatch):
    """A helper process of this test's own."""
    made = recorded_paths.Looker()
    monkeypatch.setattr(recorded_paths, "_looker", lambda: made)
    yield made
    made.close()


def probing(tmp_path, beginning):
    """Return a probe that does something before it looks."""
    path = tmp_path / "probe_of_a_test.py"
    lines = [
        "import __future__, errno, json, os, stat, sys",
        f"probe = compile(open({str(recorded_paths.PROBE)!r}).read(), 'probe', 'exec')",
        beginning,
        "exec(probe)",
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.feature("paths.unreadable")
@pytest.mark.parametrize("path", ODD.values(), ids=ODD)
def test_an_odd_path_is_unknown_and_nothing_raises(path):
    found = recorded_paths.look_at(path)
    assert found.kind == recorded_paths.UNKNOWN
    assert found.reason
    assert recorded_paths.read(path, 10) is None
    assert git_folder(f"/{path}") is None
    assert place_of(path).identities == ()
    (answer,) = look([view("s", cwd=path, repository="r").prompt("go").row()])
    assert answer["reason"]


@pytest.mark.feature("paths.one-look")
def test_a_path_is_looked_at_once_for_all_questions_about_one_state_of_the_disk(tmp_path, fresh, monkeypatch):
    asked: list[str] = []
    ask = fresh.ask
    monkeypatch.setattr(fresh, "ask", lambda what, path, most=0: asked.append(path) or ask(what, path, most))
    path = tmp_path / "file"
    with recorded_paths.one_look():
        assert recorded_paths.look_at(path).kind == "absent"
        path.write_text("abc")
        with recorded_paths.one_look():
            assert recorded_paths.look_at(path).kind == "absent"
        assert recorded_paths.read(path, 2) == b"ab", "another question is asked"
        assert len(asked) == 2
    assert recorded_paths.look_at(path).kind == "file"


@pytest.mark.feature("paths.unreadable")
def test_gone_is_not_unknown(tmp_path):
    (tmp_path / "file").write_text("abc")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    kinds = {
        name: recorded_paths.look_at(tmp_path / name).kind for name in ("", "file", "nowhere", "file/below", "loop", "loop/below", "pipe")
    }
    assert kinds == {
        "": "folder",
        "file": "file",
        "nowhere": "absent",
        "file/below": "absent",
        "loop": "unknown",
        "loop/below": "unknown",
        "pipe": "other",
    }
    assert recorded_paths.look_at(tmp_path / "loop").reason == "a loop of links"
    assert recorded_paths.read(tmp_path / "file", 2) == b"ab"
    assert recorded_paths.read(tmp_path / "pipe", 2) is None
    assert recorded_paths.read(tmp_path, 2) is None


@pytest.mark.feature("paths.unreadable")
def test_a_folder_that_may_not_be_entered_is_no_permission_and_no_reason_to_look_above(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    shut = tmp_path / "shut"
    (shut / "project").mkdir(parents=True)
    shut.chmod(0)
    # root may enter every folder: the helper looks as another user then
    as_nobody = "os.setuid(65534)" if os.geteuid() == 0 else ""
    made = recorded_paths.Looker(probe=probing(tmp_path, as_nobody))
    monkeypatch.setattr(recorded_paths, "_looker", lambda: made)
    try:
        found = recorded_paths.look_at(shut / "project")
        assert (found.kind, found.reason) == ("unknown", "no permission")
        assert place_of(shut / "project") == Place(str(shut / "project"))
        (answer,) = look([view("s", cwd=str(shut / "project"), repository="r").prompt("go").row()])
        assert answer["reason"] == "the working directory cannot be looked at: no permission"
    finally:
        made.close()
        shut.chmod(0o755)


@pytest.mark.feature("paths.silent-mount")
def test_a_mount_that_never_answers_is_waited_for_once(dead, fresh, tmp_path):
    (tmp_path / "link").symlink_to(dead.parent)
    began = time.monotonic()
    found = recorded_paths.look_at(dead)
    assert (found.kind, found.reason) == ("unknown", "it does not answer")
    waited = time.monotonic() - began
    began = time.monotonic()
    for number in range(10_000):
        assert recorded_paths.look_at(f"{dead.parent}/p{number}/src").reason == "its mount does not answer"
        assert recorded_paths.read(f"{dead.parent}/p{number}/.git", 10) is None
    assert time.monotonic() - began < max(3.0, waited)
    assert recorded_paths.look_at(tmp_path / "link" / "a").kind == recorded_paths.UNKNOWN
    assert recorded_paths.look_at(tmp_path / "link" / "b").reason == "its mount does not answer"
    assert recorded_paths.look_at(tmp_path).kind == recorded_paths.FOLDER
    assert git.run(dead, "log") == git.Failed("error")
    assert place_of(dead) == Place(str(dead))


@pytest.mark.feature("paths.silent-mount")
def test_a_lesson_of_a_silent_folder_is_neither_stale_nor_in_the_way(dead, fresh):
    from ctx_pipeline.model.memories import StoredCandidate

    row = dict.fromkeys(StoredCandidate._fields) | {"candidate_id": "c", "cwd": str(dead), "structured": '{"files": ["a.py"]}', "ts": 1}
    assert staleness([StoredCandidate(**row)]).marks == {}


@pytest.mark.feature("paths.silent-mount")
def test_a_process_that_looked_at_a_silent_mount_ends(dead):
    code = "import sys; from ctx_pipeline import recorded_paths; print(recorded_paths.look_at(sys.argv[1]).kind)"
    done = subprocess.run([sys.executable, "-c", code, str(dead)], capture_output=True, text=True, timeout=WAIT, check=True)
    assert done.stdout.strip() == "unknown"
    assert done.stderr == ""


@pytest.mark.feature("paths.silent-mount")
def test_a_look_that_blocks_costs_its_time_and_the_next_one_goes_on(tmp_path):
    """The same without a mount: a helper that reads a pipe nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    waits = f"real = os.stat\nos.stat = lambda path: open({str(tmp_path / 'pipe')!r}).read() if 'silent' in path else real(path)"
    made = recorded_paths.Looker(seconds=0.3, probe=probing(tmp_path, waits))
    try:
        assert made.ask("stat", "/silent/a") == "it does not answer"
        assert made.ask("stat", "/silent/a") == "its mount does not answer"
        assert made.ask("stat", str(tmp_path))["kind"] == "folder"
        said = [made.ask("stat", f"/silent/{number}") for number in range(50)]
        assert said.count("it does not answer") == recorded_paths.MOST_SILENT - 1
        assert set(said[recorded_paths.MOST_SILENT :]) == {"too many folders do not answer"}
    finally:
        made.close()


@pytest.mark.feature("paths.silent-mount")
def test_helpers_that_were_left_are_gone_when_the_last_is_closed(tmp_path, monkeypatch):
    """On a busy machine a killed process is there a while longer than the moment that its end is waited for."""
    monkeypatch.setattr(recorded_paths, "_GRACE", 0.0)
    ids = tmp_path / "ids"
    waits = f"open({str(ids)!r}, 'a').write(str(os.getpid()) + ' ')\nos.stat = lambda path: sys.stdin.read()"
    made = recorded_paths.Looker(seconds=1.0, probe=probing(tmp_path, waits))
    assert made.ask("stat", "/silent/a") == "it does not answer"
    made.close()
    started = ids.read_text().split()
    assert started
    assert [number for number in started if Path(f"/proc/{number}").exists()] == []


@pytest.mark.feature("paths.silent-mount")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_file_system_that_takes_seconds_for_one_folder_holds_up_nobody(tmp_path):
    slow = tmp_path / "slow"
    slow.mkdir()
    calls = "stat,lstat,newfstatat,statx"
    delayed = [
        "strace",
        "-f",
        "-qq",
        "-o",
        os.devnull,
        "-P",
        str(slow),
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}:delay_enter=8000000",
    ]
    if subprocess.run([*delayed, "true"], capture_output=True, timeout=WAIT, check=False).returncode:
        pytest.skip("strace may not follow a process here")
    code = (
        "import sys, time\n"
        "from ctx_pipeline import recorded_paths as r\n"
        "began = time.monotonic()\n"
        "print(r.look_at(sys.argv[1]).kind, r.look_at('/').kind, time.monotonic() - began < 8)\n"
    )
    done = subprocess.run([*delayed, sys.executable, "-c", code, str(slow)], capture_output=True, text=True, timeout=WAIT, check=True)
    assert done.stdout.split() == ["unknown", "folder", "True"]


@pytest.mark.feature("paths.unreadable")
def test_a_helper_that_was_ended_is_started_again(fresh):
    assert recorded_paths.look_at("/").kind == "folder"
    fresh._helper._process.kill()
    fresh._helper._process.wait(WAIT)
    assert recorded_paths.look_at("/").kind == "folder"
