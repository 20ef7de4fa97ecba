"""``ctx hook`` as an agent runs it: payloads in, a note or nothing out, and never a failure."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ctx_pipeline
from ctx_pipeline import settings as settings_module
from ctx_pipeline.learning.injection import in_control_group
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories import patient_hook
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOP = "/home/sam/code/shop"
SESSION = "0b7c6a1e-1111-4111-8111-000000000001"
TOLD = "pytest fails with a missing fixture until `make seed` has run"


def memory(name: str, text: str, **more: Any) -> Memory:
    place = {"repository": SHOP, "cwd": SHOP} if more.get("scope", "repo") == "repo" else {}
    return Memory(name, "tool_lesson", text, **(place | {"last_ts": time.time_ns() // 1000} | more))


ELSEWHERE = ("tabs", "colours", "fonts", "ports", "locks", "clocks", "mails", "queues", "maps", "disks", "logs", "keys")


def write(store: Path, *memories: Memory) -> None:
    """Index memories, and some of another project, so that words have a weight."""
    others = [memory(f"x-{word}", f"how {word} are set up there", repository="/home/sam/x", cwd="/home/sam/x") for word in ELSEWHERE]
    MemoryIndex(store / "memory.db").rebuild([*memories, *others])


def claude_prompt(prompt: str, **more: Any) -> dict[str, Any]:
    """A payload of Claude Code 2.1 for a typed prompt."""
    return {
        "session_id": SESSION,
        "transcript_path": f"/home/sam/.claude/projects/-home-sam-code-shop/{SESSION}.jsonl",
        "cwd": SHOP,
        "permission_mode": "default",
        "hook_event_name": "UserPromptSubmit",
        "prompt": prompt,
    } | more


def codex_prompt(prompt: str, **more: Any) -> dict[str, Any]:
    """A payload of Codex for a typed prompt."""
    return {
        "session_id": SESSION,
        "turn_id": "1",
        "transcript_path": None,
        "cwd": SHOP,
        "hook_event_name": "UserPromptSubmit",
        "model": "gpt-5.2-codex",
        "permission_mode": "default",
        "prompt": prompt,
    } | more


def start(source: str = "startup", **more: Any) -> dict[str, Any]:
    return {"session_id": SESSION, "cwd": SHOP, "hook_event_name": "SessionStart", "source": source, "model": "m"} | more


_CHECKOUT = str(Path(ctx_pipeline.__file__).parents[1])


def hook(environ: Mapping[str, str], payload: Any, *words: str, does: str = "weave", host: str = "claude") -> str:
    """Return what the hook prints; it must end with 0 and print nothing on standard error."""
    process = processes.start(
        patient_hook.command(does, host, *words),
        env={"PYTHONPATH": _CHECKOUT, **environ, "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    out, err = process.communicate(data, timeout=200)
    assert (process.returncode, err) == (0, b"")
    return out.decode()


def note(printed: str, event: str = "UserPromptSubmit") -> str:
    """Return the context that the agent takes from what was printed."""
    value = json.loads(printed)
    assert list(value) == ["hookSpecificOutput"]
    assert sorted(value["hookSpecificOutput"]) == ["additionalContext", "hookEventName"]
    assert value["hookSpecificOutput"]["hookEventName"] == event
    return value["hookSpecificOutput"]["additionalContext"]


def logged(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    with closing(Journal(Path(environ["CTX_HOME"]) / "journal.db", read_only=True)) as journal:
        return [dict(f.payload) for f in reversed(journal.newest("hook.injected", 100))]


def log(environ: Mapping[str, str]) -> str:
    path = Path(environ["CTX_HOME"]) / "hooks.log"
    return path.read_text() if path.exists() else ""


def captured(environ: Mapping[str, str], store: Path) -> list[str]:
    """Return the sessions that a capture brings in, once it has brought in one."""
    from ctx_pipeline.storage import open_store

    def found() -> list[str]:
        if not (store / "search.db").exists():
            return []
        with open_store(settings_module.load(environ), read_only=True) as opened:
            return [s.session_id for s in opened.ledger.sessions() if not s.dirty]

    return eventually(found)


@pytest.fixture
def store(environ) -> Path:
    return Path(environ["CTX_HOME"])


@pytest.mark.feature("hooks.inject", "hooks.payloads")
@pytest.mark.parametrize(("host", "payload"), [("claude", claude_prompt), ("codex", codex_prompt)])
def test_a_relevant_memory_reaches_the_prompt_of_either_agent(environ, store, host, payload):
    write(store, memory("m-seed", TOLD), memory("m-other", "the invoice printer needs a4 paper"))

    said = note(hook(environ, payload("why does pytest report a missing fixture?"), host=host))

    assert TOLD in said
    assert "m-seed" in said
    assert "invoice" not in said
    (fact,) = logged(environ)
    assert (fact["host"], fact["session_id"], fact["event"], fact["withheld"]) == (host, SESSION, "UserPromptSubmit", False)
    assert [m["memory_id"] for m in fact["memories"]] == ["m-seed"]
    assert 0 < fact["tokens"] <= 500
    assert "why does pytest" not in json.dumps(fact)


@pytest.mark.feature("hooks.inject")
def test_nothing_is_said_twice_or_below_the_threshold_or_of_another_project(environ, store):
    write(store, memory("m-seed", TOLD), memory("m-far", TOLD, repository="/home/sam/code/far", cwd="/home/sam/code/far"))
    question = "pytest reports a missing fixture"

    assert "m-far" not in note(hook(environ, claude_prompt(question)))
    assert hook(environ, claude_prompt(question)) == ""
    assert hook(environ, claude_prompt("rename the kubernetes certificates of pytest")) == ""
    assert hook(environ, claude_prompt("pytest", session_id="one word")) == ""
    assert hook(environ, claude_prompt(question, session_id="another")) != ""
    loosely = "pytest rounds amounts of invoices wrongly"
    assert hook(environ, claude_prompt(loosely, session_id="third"), "--threshold", "0.95") == ""
    assert hook(environ, claude_prompt(question, session_id="third"), "--accepted-only") == ""
    assert len(logged(environ)) == 2


@pytest.mark.feature("hooks.start")
def test_the_threshold_of_prompts_does_not_silence_the_start_nor_the_other_way_round(environ, store):
    write(store, memory("m-accepted", "deploy only from main", status="accepted"), memory("m-seed", TOLD))

    assert "m-accepted" in note(hook(environ, start(), "--threshold=0.99"), "SessionStart")
    assert "m-seed" in note(hook(environ, claude_prompt("pytest reports a missing fixture"), "--start=nothing"))
    assert hook(environ, claude_prompt("pytest reports a missing fixture", session_id="s2"), "--no-prompts") == ""
    assert [(f["event"], f["threshold"]) for f in logged(environ)] == [("SessionStart", None), ("UserPromptSubmit", 0.4)]


@pytest.mark.feature("hooks.inject")
def test_beside_the_lesson_that_fits_only_one_with_as_much_in_common_is_told(environ, store):
    write(
        store,
        memory("m-both", "the release of the parser needs the changelog", support=5),
        memory("m-also", "sign the release of the parser with the team key"),
        memory("m-one", "squash the commits of a release", support=9),
    )
    said = note(hook(environ, claude_prompt("release parser")))

    assert [name for name in ("m-both", "m-also", "m-one") if name in said] == ["m-both", "m-also"]
    # alone it is what fits best
    assert "m-one" in note(hook(environ, claude_prompt("release squash", session_id="s2")))


@pytest.mark.feature("hooks.inject")
def test_a_session_starts_with_what_is_accepted_or_was_learnt_twice(environ, store):
    write(
        store,
        memory("m-accepted", "deploy only from main", status="accepted"),
        memory("m-twice", "run make seed before pytest", support=3, confidence=0.9, sessions=["claude/a", "claude/b", "claude/c"]),
        memory("m-once", "the wifi was slow", sessions=["claude/a"]),
        memory("m-general", "answer in English", scope="user", status="accepted"),
        memory("m-far", "another project's rule", status="accepted", repository="/home/sam/code/far", cwd="/home/sam/code/far"),
    )

    names = ("m-accepted", "m-twice", "m-once", "m-general", "m-far")
    said = note(hook(environ, start()), "SessionStart")
    proven = note(hook(environ, start(session_id="second"), "--start=proven"), "SessionStart")

    assert [name for name in names if name in said] == ["m-accepted", "m-general"]
    assert [name for name in names if name in proven] == ["m-accepted", "m-twice", "m-general"]
    assert hook(environ, start(session_id="third"), "--start", "nothing") == ""
    assert hook(environ, start("resume")) == ""
    assert "m-accepted" in note(hook(environ, start("compact")), "SessionStart")


@pytest.mark.feature("hooks.inject")
def test_a_memory_that_only_this_session_taught_is_not_told_to_it(environ, store):
    write(store, memory("m-seed", TOLD, sessions=[f"claude/{SESSION}"]))

    assert hook(environ, claude_prompt("pytest reports a missing fixture")) == ""
    assert hook(environ, claude_prompt("pytest reports a missing fixture", session_id="other")) != ""


@pytest.mark.feature("hooks.holdout")
def test_a_holdout_withholds_whole_sessions_and_logs_them(environ, store):
    write(store, memory("m-seed", TOLD))
    sessions = [f"s{n}" for n in range(400)]
    out = [s for s in sessions if in_control_group(s, 0.2)]
    assert 50 < len(out) < 110
    assert not any(in_control_group(s, 0.0) for s in sessions)
    assert all(in_control_group(s, 1.0) for s in sessions)
    told = next(s for s in sessions if s not in out)

    prompt = "pytest reports a missing fixture"
    assert hook(environ, claude_prompt(prompt, session_id=out[0]), "--holdout=0.2") == ""
    assert TOLD in note(hook(environ, claude_prompt(prompt, session_id=told), "--holdout=0.2"))

    facts = [(f["session_id"], f["withheld"], f["holdout"], len(f["memories"])) for f in logged(environ)]
    assert facts == [(out[0], True, 0.2, 1), (told, False, 0.2, 1)]


@pytest.mark.feature("hooks.never-in-the-way", "hooks.payloads")
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 200_000,
        b"{}",
        {"hook_event_name": 5, "session_id": [], "prompt": {}},
        claude_prompt("pytest missing fixture", cwd=7),
        claude_prompt("pytest missing fixture", cwd="relative/../.."),
        claude_prompt("pytest missing fixture", cwd="/\0/x"),
        claude_prompt("\ud800 \0 \" ' NEAR( *", unknown={"nested": [1, 2]}),
        claude_prompt("pytest missing fixture " * 20_000),
        {"hook_event_name": "SomethingNew", "session_id": "x", "prompt": "pytest missing fixture"},
    ],
    ids=lambda p: str(p)[:24],
)
def test_any_payload_gives_exit_0_and_an_answer_or_none(environ, store, payload):
    write(store, memory("m-seed", TOLD))

    printed = hook(environ, payload)

    assert printed == "" or "hookSpecificOutput" in json.loads(printed)


@pytest.mark.feature("hooks.never-in-the-way")
def test_a_broken_or_locked_store_gives_an_empty_answer_and_a_line_in_the_log(environ, store):
    question = claude_prompt("pytest reports a missing fixture")
    assert hook(environ, question) == ""
    assert not store.exists()

    write(store, memory("m-seed", TOLD))
    assert hook(environ, b"{") == ""
    assert "JSONDecodeError" in log(environ)

    assert TOLD in hook(environ, question)
    with closing(sqlite3.connect(store / "journal.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        assert hook(environ, claude_prompt(question["prompt"], session_id="second")) == ""
        assert time.monotonic() - began < 30
    assert "StoreLocked" in log(environ)

    (store / "memory.db").write_bytes(b"no database" * 1000)
    assert hook(environ, question) == ""
    assert "memory.db is damaged" in log(environ)
    (store / "config.toml").write_text("= broken")
    (store / "memory.db").unlink()
    assert hook(environ, question) == ""
    assert (store / "hooks.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("hooks.never-in-the-way")
def test_an_agent_that_sends_nothing_is_not_kept_waiting(environ, store):
    write(store, memory("m-seed", TOLD))
    process = processes.start(
        [sys.executable, "-P", "-m", "ctx_pipeline", "hook", "weave", "claude"],
        env={**environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.wait(200) == 0
    assert process.stdout.read() == b""
    process.stdout.close()
    process.stdin.close()
    assert "no answer within" in log(environ)


@pytest.mark.feature("hooks.never-in-the-way")
@pytest.mark.parametrize("words", [("--unknown", "x"), ("--threshold", "much"), ("--holdout",), ("more", "words"), ("--help",)])
def test_no_option_makes_it_fail(environ, store, words):
    write(store, memory("m-seed", TOLD))

    assert TOLD in hook(environ, claude_prompt("pytest reports a missing fixture"), *words)


@pytest.mark.feature("hooks.never-in-the-way")
def test_a_module_of_the_working_folder_is_not_imported(environ, store, tmp_path):
    from ctx_pipeline.integrations.agent_config import program

    write(store, memory("m-seed", TOLD))
    folder = tmp_path / "project"
    (folder / "ctx_pipeline").mkdir(parents=True)
    for name in ("ctx_pipeline/__init__.py", "json.py", "click.py"):
        (folder / name).write_text("raise SystemExit(9)")
    for attempt in range(10):  # a busy machine may not let it answer in its second
        process = processes.start(
            [*program(), "hook", "weave", "claude"], env={**environ}, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        asked = claude_prompt("pytest reports a missing fixture", session_id=f"s{attempt}")
        out, _ = process.communicate(json.dumps(asked).encode(), timeout=200)
        assert process.returncode == 0
        if out:
            break
    assert TOLD in out.decode()


@pytest.mark.feature("hooks.capture")
@pytest.mark.parametrize("event", ["Stop", "PreCompact", "SessionEnd"])
def test_a_session_is_captured_when_the_agent_stops(environ, store, tmp_path, event):
    home = ClaudeHome(tmp_path / "claude")
    session = home.session()
    session.prompt("make the basket faster")
    session.save()
    payload = {"session_id": session.session_id, "cwd": SHOP, "hook_event_name": event, "stop_hook_active": False, "new_field": 1}

    assert hook(environ, payload, does="capture") == ""

    assert captured(environ, store) == [session.session_id]


@pytest.mark.feature("hooks.makes-nothing-stale")
def test_what_hooks_log_makes_nothing_stale(environ, store):
    write(store, memory("m-seed", TOLD))
    with closing(Journal(store / "journal.db")) as journal:
        journal.append("memory.accepted", {"memory_id": "m"})
        head = journal.head()
    assert hook(environ, claude_prompt("pytest reports a missing fixture")) != ""

    with closing(Journal(store / "journal.db")) as journal:
        assert len(journal.facts()) == 2
        assert journal.head() == head


@pytest.mark.feature("hooks.light")
def test_the_hook_loads_nothing_heavy(environ, store):
    from ctx_pipeline_tests.test_layers import HEAVY

    write(store, memory("m-seed", TOLD))
    code = (
        "import os, sys, atexit\n"
        "os._exit = lambda code: print(sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr)\n"
        "from ctx_pipeline.cli.integrations import hook; from ctx_pipeline.cli import main\n"
        f"hook.DEADLINE = {patient_hook.SECONDS}\nmain(['hook', 'weave', 'claude'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environ},
        input=json.dumps(claude_prompt("pytest reports a missing fixture")),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert TOLD in done.stdout
    assert set(HEAVY).isdisjoint(eval(done.stderr))


@pytest.mark.feature("hooks.never-in-the-way")
def test_a_working_folder_that_is_gone_under_a_store_named_from_it_is_no_failure(environ, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    process = processes.start(
        ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", sys.executable, "-P", "-m", "ctx_pipeline", "hook", "weave", "claude"],
        env={**environ, "PATH": os.environ["PATH"], "CTX_HOME": "store"},
        cwd=gone,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    printed = process.communicate(json.dumps(claude_prompt("pytest")).encode(), timeout=200)

    assert (process.returncode, printed) == (0, (b"", b""))


@pytest.mark.feature("hooks.capture")
def test_an_agent_that_never_closes_the_payload_is_captured_all_the_same(environ, store, tmp_path):
    session = ClaudeHome(tmp_path / "claude").session()
    session.prompt("make the basket faster")
    session.save()
    process = processes.start(
        [sys.executable, "-P", "-m", "ctx_pipeline", "hook", "capture", "claude"],
        env={**environ, "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
    )

    assert process.wait(200) == 0

    assert captured(environ, store) == [session.session_id]
    assert "no answer" not in log(environ)


@pytest.mark.feature("hooks.status", "hooks.payloads")
def test_a_session_id_that_is_no_text_spoils_neither_the_log_nor_the_status(environ, store):
    write(store, memory("m-seed", TOLD))

    assert TOLD in note(hook(environ, claude_prompt("pytest reports a missing fixture", session_id="a\ud800\x1b[31mb")))

    (fact,) = logged(environ)
    assert fact["session_id"] == "a?\x1b[31mb"
    for words in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "ctx_pipeline", "hooks", "status", *words],
            env={**environ},
            capture_output=True,
            timeout=200,
            check=False,
        )
        assert (done.returncode, b"\x1b" in done.stdout, b"m-seed" in done.stdout) == (0, False, True)


@pytest.mark.feature("hooks.never-in-the-way")
def test_a_line_of_the_log_has_nothing_that_a_terminal_would_obey(environ, store):
    store.mkdir()

    hook(environ, start(), does="\x1b[31mred\u202e")

    assert log(environ).endswith(" is nothing that a hook does\n")
    assert all(ch.isprintable() or ch == "\n" for ch in log(environ))
