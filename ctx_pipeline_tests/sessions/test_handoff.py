"""Going on in a new chat: what it is told of the last session of its repository, by command, tool and hook, and what proves it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline.errors import NothingFound
from ctx_pipeline.mcp_server.session_tools import SessionTools
from ctx_pipeline.model.codec import iso, time_of
from ctx_pipeline.model.display import short_id
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.last_worked import ASKED, GREETED, came_of
from ctx_pipeline.sessions.session_choice import in_place, others_in_place, select_captured
from ctx_pipeline.sessions.states import resume as states_resume
from ctx_pipeline.sessions.states.handoff import RESUMED, begin, prepare, ready, resume
from ctx_pipeline.sessions.states.resume import own_block
from ctx_pipeline.sessions.states.state import counter, loaded, restored, resume_block, session_state
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.reader import reading
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories import codex, gemini, patient_hook
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.codex import THREAD
from ctx_pipeline_tests.sessions.conftest import KEY, LATER, WORK, Shop, repository
from ctx_pipeline_tests.waiting import eventually

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

NEW = "99999999-9999-4999-8999-999999999999"


def asking(shop: Shop, **environ: str) -> Settings:
    """The settings of a program that a new chat starts: its own session is not captured yet."""
    return replace(shop.settings, environ={**shop.settings.environ, **(environ or {"CLAUDE_CODE_SESSION_ID": NEW})})


def read_in(shop: Shop) -> None:
    with open_store(shop.settings) as store:
        ingest(store, shop.settings)


@pytest.mark.feature("session.handoff")
@pytest.mark.parametrize("name", ["CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"])
def test_a_new_chat_of_either_agent_is_told_of_the_last_session_and_not_of_itself(shop: Shop, name: str):
    settings, place = asking(shop, **{name: NEW}), str(shop.clone / "docs")
    told = resume_block(cwd=place, settings=settings)

    assert (told.host, told.session_id) == ("claude", WORK)
    assert told.text.splitlines() == [
        "Where the work on shop stood (claude, 2026-03-05 10:00 UTC):",
        "- Asked: “Fix the sum of the cart in shop/cart.py so that discounts are taken off”",
        "- Decided: Round to cents, or to whole euros? → To cents",
        "- Changed files, the last first: CHANGELOG.md, shop/cart.py",
        "- Last test run: `pytest -q` passed (5/5)",
        "- It did not run git commit; it ended on the branch main",
        "- Still to do: mend the sum (begun); write the changelog",
        "- The last answer: “The sum is mended.”",
        f"- Resume it with: cd {shop.clone} && claude --resume {WORK}",
    ]
    assert told.tokens <= 500
    assert loaded(cwd=place, settings=settings).found.state.task.text.startswith("Fix the sum")
    assert restored(cwd=place, settings=settings).session_id == WORK
    # what it says of itself is still its own
    assert session_state(cwd=place, settings=settings).state.session_id == NEW


@pytest.mark.feature("session.handoff")
def test_a_chat_that_was_captured_itself_is_told_of_the_other_agents_one(shop: Shop):
    told = resume_block(cwd=str(shop.other), settings=asking(shop, CLAUDE_CODE_SESSION_ID=WORK))

    assert (told.host, told.session_id) == ("codex", THREAD)
    assert f"- Resume it with: cd {shop.other} && codex resume {THREAD}" in told.text
    assert KEY not in told.text


@pytest.mark.feature("session.proven")
def test_every_statement_names_events_of_the_session_that_show_it(shop: Shop):
    told = resume_block(f"claude:{WORK}", settings=shop.settings)
    with reading(shop.settings) as (store, _):
        row = store.ledger.session("claude", WORK)
        view = next(iter(store.lake.read_sessions(row.partition, {WORK}, ("events",))))
    shown = {s["text"]: [view.by_event[e].text for e in s["events"]] for s in told.statements if s["about"] != "beside"}

    assert shown
    assert all(shown.values())
    assert shown["Last test run: `pytest -q` passed (5/5)"] == ["5 passed in 0.1s"]
    (decided,) = (texts for said, texts in shown.items() if said.startswith("Decided"))
    assert "To cents" in str(decided) or "Round to cents" in str(decided)


@pytest.mark.feature("session.proven")
def test_a_test_run_that_had_not_ended_is_not_said_to_have_passed(own: Shop):
    thread = "019ca9d4-0000-7000-8000-000000000002"
    cells = "Script running with cell ID 7\nOutput:\n   Compiling shop v0.1.0\n"
    records = [
        codex.meta(0, thread, cwd=str(own.clone)),
        codex.context(1, cwd=str(own.clone)),
        codex.event(2, "user_message", message="Make the checkout of the shop reject empty carts"),
        codex.item(3, "function_call", name="exec_command", call_id="c1", arguments=json.dumps({"cmd": "cargo test"})),
        codex.item(4, "function_call_output", call_id="c1", output=cells),
    ]
    codex.write(own.clone.parent / "codex", records, thread)
    read_in(own)
    told = resume_block(f"codex:{thread}", settings=own.settings)

    assert "- Last test run: `cargo test` had not ended" in told.text
    assert "passed" not in told.text


@pytest.mark.feature("session.proven")
def test_packages_are_no_tests_and_a_shown_part_is_no_whole(own: Shop):
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.prompt("Make all packages of the shop build again")
    packages = "ok  \tshop/cart\t0.2s\nok  \tshop/pay\t0.1s\n"
    shown = {"stdout": packages, "stderr": "", "interrupted": False}
    later.call("t1", "Bash", packages, command="go test ./...", structured=shown)
    later.save()
    read_in(own)
    assert "- Last test run: `go test ./...` passed (2/2 packages)\n" in resume_block(LATER, settings=own.settings).text

    later.call(
        "t2", "Bash", packages, command="go test ./... | tail -2", structured={"stdout": packages, "stderr": "", "interrupted": False}
    )
    later.save()
    read_in(own)
    assert "passed as far as the shown part of its output says" in resume_block(LATER, settings=own.settings).text


@pytest.mark.feature("session.person-ran")
def test_what_the_person_ran_in_the_prompt_is_told_as_theirs_until_the_agent_checks_again(own: Shop):
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.prompt("Make the sum of the cart right")
    later.call("t1", "Edit", "The file has been updated.", file_path=str(own.clone / "cart.py"), old_string="a", new_string="b")
    later.prompt("<bash-input>pytest -q tests</bash-input>")
    failed = "FAILED tests/test_cart.py::test_sum - assert 3 == 4\n1 failed, 2 passed in 0.1s"
    later.prompt(f"<bash-stdout>{failed}</bash-stdout><bash-stderr></bash-stderr>").save()
    read_in(own)
    told = resume_block(LATER, settings=own.settings)
    (line,) = (line for line in told.text.splitlines() if "test run" in line)
    assert line.startswith("- Last test run, by the person: `pytest -q tests` failed (2/3 passed)")
    assert "No test, type check" not in told.text

    green = "3 passed in 0.1s"
    later.call("t2", "Bash", green, command="pytest -q", structured={"stdout": green, "stderr": "", "interrupted": False}).save()
    read_in(own)
    assert "- Last test run: `pytest -q` passed (3/3)\n" in resume_block(LATER, settings=own.settings).text


@pytest.mark.feature("session.proven")
def test_what_a_build_found_is_over_once_it_ran_again_and_found_nothing(own: Shop):
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.prompt("Make the shop compile again")
    found = "\n> shop@1.0.0 build\n> tsc\n\nsrc/a.ts(2,9): error TS2769: No overload.\nsrc/a.ts(4,9): error TS2322: Not assignable.\n"
    later.call("t1", "Bash", f"Exit code 2\n{found}", error=True, command="npm run build").save()
    read_in(own)
    told = resume_block(LATER, settings=own.settings).text
    assert "- Last type check: `npm run build` failed (2 errors) with " in told

    clean = "\n> shop@1.0.0 build\n> tsc\n"
    later.call("t2", "Bash", clean, command="npm run build 2>&1", structured={"stdout": clean, "stderr": "", "interrupted": False}).save()
    read_in(own)
    told = resume_block(LATER, settings=own.settings).text
    assert "type check" not in told
    assert "- Last build: `npm run build` passed\n" in told


@pytest.mark.feature("session.repository-scope")
def test_a_session_of_a_parent_folder_never_speaks_for_a_repository_below_it(own: Shop):
    work = own.clone.parent / "work"
    inner = repository(work / "inner", "git@example.com:acme/inner.git")
    home = ClaudeHome(own.clone.parent / "claude")
    above = home.session(LATER, cwd=str(work), mark="l")
    above.prompt("Tidy the notes of the folder").call("x1", "Read", "a", file_path=f"{work}/notes.md").answer(text("ok")).save()
    read_in(own)

    for folder in (inner, repository(own.clone / "vendor" / "lib", "git@example.com:acme/lib.git")):
        with pytest.raises(NothingFound, match="no other session of this folder's repository"):
            resume_block(cwd=str(folder), settings=asking(own))
    assert resume_block(cwd=str(work / "drafts"), settings=asking(own)).session_id == LATER


@pytest.mark.feature("session.handoff")
def test_two_agents_of_one_day_are_told_apart(own: Shop):
    home = ClaudeHome(own.clone.parent / "claude")
    later = home.session(LATER, cwd=str(own.clone), mark="l", started=datetime(2026, 3, 5, 6, tzinfo=UTC))
    later.prompt(f"Write the release notes of the shop{' and all of its branches' * 4}").call(
        "x1", "Read", "a", file_path=f"{own.clone}/CHANGELOG.md"
    )
    later.answer(text("ok")).save()
    read_in(own)
    told = resume_block(cwd=str(own.clone), settings=asking(own))

    first, second = (WORK, LATER) if told.session_id == WORK else (LATER, WORK)
    assert f"--resume {first}" in told.text
    [line] = [line for line in told.text.splitlines() if f"- Another session here: claude {second[:8]} “" in line]
    assert (second, "…”, last active" in line) == (LATER, True), "a title that is cut says so"


@pytest.mark.feature("session.handoff-last-active")
@pytest.mark.parametrize("known", [True, False])
def test_another_session_is_told_with_the_time_of_its_last_event_and_only_without_one_with_that_of_its_file(own: Shop, known: bool):
    home = ClaudeHome(own.clone.parent / "claude")
    later = home.session(LATER, cwd=str(own.clone), mark="l")
    later.prompt("Write the release notes of the shop").call("x1", "Read", "a", file_path=f"{own.clone}/CHANGELOG.md")
    later.answer(text("ok")).save()
    read_in(own)
    settings = asking(own)
    with sqlite3.connect(settings.home / "ledger.db") as ledger:
        recorded = dict(ledger.execute("SELECT session_id, rows ->> 'last_ts' FROM sessions"))
        ledger.execute("UPDATE sources SET mtime_ns = mtime_ns + 7200000000000")
        if not known:
            ledger.execute("UPDATE sessions SET rows = json_remove(rows, '$.last_ts')")
        written = dict(ledger.execute("SELECT session_id, mtime_ns / 1000 FROM sources WHERE thread_id = session_id"))
    started = {"hook_event_name": "SessionStart", "session_id": NEW, "cwd": str(own.clone), "source": "startup"}
    told = resume(started, host="claude", settings=settings, preview=True)

    other = LATER if f"--resume {WORK}" in told else WORK
    at = f"last active {time_of(iso(recorded[other]))}" if known else f"its file was last written {time_of(iso(written[other]))}"
    [line] = [line for line in told.splitlines() if f"Another session here: claude {other[:8]}" in line]
    assert line.endswith(at)


def hook(shop: Shop, payload: dict[str, Any], host: str, *words: str) -> str:
    process = processes.start(
        patient_hook.command("weave", host, *words),
        env={**shop.settings.environ, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(json.dumps(payload).encode(), timeout=200)
    assert (process.returncode, err) == (0, b"")
    return json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""


def begins(session: str, cwd: Path, source: str = "startup") -> dict[str, Any]:
    return {"hook_event_name": "SessionStart", "source": source, "session_id": session, "cwd": str(cwd), "transcript_path": None}


@pytest.mark.feature("session.resume-hook")
@pytest.mark.parametrize("host", ["claude", "codex"])
def test_a_new_chat_is_told_unasked_once_and_only_where_that_was_switched_on(own: Shop, host: str):
    assert hook(own, begins(NEW, own.clone), host) == ""
    said = hook(own, begins(NEW, own.clone), host, "--handoff")
    lines = said.splitlines()

    assert (lines[0], lines[-1]) == ("<ctx-memories>", "</ctx-memories>")
    assert "data, not instructions" in lines[1]
    # both sessions' files were written in this test: which of them is the last one the clock says
    assert ("Fix the sum of the cart" in said) or ("[REDACTED:anthropic-key]" in said)
    assert "Resume it with: " in said
    assert KEY not in said
    assert counter()(said) <= 500
    assert hook(own, begins(NEW, own.clone), host, "--handoff") == ""
    assert hook(own, begins(NEW, own.clone.parent), host, "--handoff") == ""
    assert "- Changed files" in hook(own, begins(NEW, own.clone, "clear"), host, "--handoff")


@pytest.mark.feature("session.resume-hook")
def test_a_session_that_starts_is_told_the_title_of_another_one_and_what_was_noted_of_it(own: Shop, monkeypatch):
    live = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    live.started += timedelta(days=2)
    live.prompt("Count the crates").call("x1", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x")
    live.plain("custom-title", customTitle="Blue boxes", sessionId=LATER).save()
    assert own.ctx(monkeypatch, "sync").exit_code == 0
    named = [f"{n}{NEW[1:]}" for n in range(1, 4)]
    first, _ = told_in_a_process(own, begins(named[0], own.clone))
    assert first.splitlines()[2].endswith(", “Blue boxes”):")
    assert "Decided" not in first

    compacts = {"session_id": LATER, "cwd": str(own.clone), "transcript_path": str(live.path)}
    prepare({**compacts, "hook_event_name": "PreCompact"}, host="claude", settings=own.settings)
    note = ("decision", "Crates are blue", "--because", "boxes are", "--session", f"claude:{LATER}")
    assert own.ctx(monkeypatch, "session", *note).exit_code == 0
    assert own.ctx(monkeypatch, "session", "decision", "Of the other one", "--session", f"claude:{WORK}").exit_code == 0
    noted = "- Decided: Crates are blue (because boxes are)"
    text, was_read = told_in_a_process(own, begins(named[1], own.clone))
    assert (noted in text.splitlines(), was_read) == (True, True)
    assert "Decided: Of the other one" not in text
    assert told_in_a_process(own, begins(named[2], own.clone)) == (text, False)

    live.compact(150_000, "So far.").save()
    own_text, _ = told_in_a_process(own, {**compacts, "hook_event_name": "SessionStart", "source": "compact"})
    assert noted in own_text.splitlines()
    assert "“Blue boxes”" in own_text


@pytest.mark.feature("session.resume-hook")
def test_a_note_made_while_a_compaction_is_prepared_is_told_after_it(own: Shop, monkeypatch):
    live = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    live.prompt("Count the crates").call("x1", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x").save()
    assert own.ctx(monkeypatch, "sync").exit_code == 0
    compacts = {"session_id": LATER, "cwd": str(own.clone), "transcript_path": str(live.path)}

    def noting(*of, **more):
        made = own_block(*of, **more)
        assert own.ctx(monkeypatch, "session", "decision", "Crates are blue", "--session", f"claude:{LATER}").exit_code == 0
        return made

    with monkeypatch.context() as during:
        during.setattr(states_resume, "own_block", noting)
        prepare({**compacts, "hook_event_name": "PreCompact"}, host="claude", settings=own.settings)
    live.compact(150_000, "So far.").save()
    text, _ = told_in_a_process(own, {**compacts, "hook_event_name": "SessionStart", "source": "compact"})
    assert "- Decided: Crates are blue" in text.splitlines()


@pytest.mark.feature("session.resume-hook")
def test_a_new_chat_is_told_of_work_in_a_worktree_that_is_gone_by_the_remote_that_it_recorded(own: Shop):
    home = own.clone.parent
    gone = "/nowhere/worktrees/beehive"
    records = codex.session(NEW, "Count the bees")
    records[0]["payload"].update(cwd=gone, git={"repository_url": "https://example.com/acme/hives.git", "branch": "main"})
    for record in records:
        if record["type"] == "turn_context":
            record["payload"]["cwd"] = gone
    codex.write(home / "codex", records, NEW)
    read_in(own)

    mine = "88888888-8888-4888-8888-888888888888"
    assert hook(own, begins(mine, repository(home / "shed", "git@example.com:acme/shed.git")), "claude", "--handoff") == ""
    said = hook(own, begins(mine, repository(home / "hives", "git@example.com:acme/hives.git")), "claude", "--handoff")
    assert "Count the bees" in said
    assert f"codex resume {NEW}" in said


@pytest.mark.feature("claude.approved-plan")
def test_work_on_an_approved_plan_is_handed_on_and_named_by_the_plan(own: Shop, monkeypatch):
    plan = "# Plan: Count the crates\n\nNever count twice."
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="p")
    later.prompt(f"Implement the following plan:\n\n{plan}", planContent=plan)
    later.call("x1", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x").answer(text("Counted.")).save()
    read_in(own)
    assert "Count the crates" in hook(own, begins(NEW, own.clone), "claude", "--handoff")
    with reading(own.settings) as (store, _):
        assert LATER in [line.session_id for line in others_in_place(store, str(own.clone), None)]

    later.prompt("ok push").answer(text("Pushed.")).save()
    read_in(own)
    assert [s["title"] for s in own.json(monkeypatch, "list", "--all")["sessions"] if s["session_id"] == LATER] == ["Count the crates"]


@pytest.mark.feature("session.resume-hook")
def test_a_resumed_chat_is_told_of_another_one_only_if_that_is_newer(own: Shop):
    home = own.clone.parent
    for at, path in enumerate(sorted(home.rglob("*.jsonl"), key=lambda p: WORK in p.name)):
        os.utime(path, (1_772_700_000 + at, 1_772_700_000 + at))
    read_in(own)

    assert hook(own, begins(WORK, own.clone, "resume"), "claude", "--handoff") == ""
    said = hook(own, begins(THREAD, own.other, "resume"), "codex", "--handoff")
    assert f"claude --resume {WORK}" in said
    # what was written since the capture is read too
    later = ClaudeHome(home / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.started += timedelta(days=2)
    later.prompt("Count the crates in the cellar").call("x1", "Read", "a", file_path=f"{own.clone}/a.py").save()
    read_in(own)
    later.call("x2", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x").save()
    assert "- Changed files, the last first: crates.py\n" in hook(own, begins(NEW, own.clone), "claude", "--handoff")


@pytest.mark.feature("hooks.preview")
def test_a_preview_of_a_handoff_says_the_same_before_and_keeps_nothing(own: Shop):
    payload = begins(NEW, own.clone)
    said = resume(payload, host="claude", settings=own.settings, preview=True)

    assert "Resume it with: " in said
    assert not (own.settings.home / "handoffs").exists()
    assert hook(own, payload, "claude", "--handoff") == said
    assert resume(payload, host="claude", settings=own.settings) == ""
    assert resume(payload, host="claude", settings=own.settings, preview=True) == said


KEPT = """
import json, sys
from pathlib import Path
import ctx_pipeline.learning.injection
from ctx_pipeline.sessions.states.handoff import resume
from ctx_pipeline.settings import bare
payload = json.loads(sys.argv[1])
text = resume(payload, host="claude", settings=bare())
print(json.dumps([text, "ctx_pipeline.sessions.states.resume" in sys.modules, list(sys.modules)]))
"""


def told_in_a_process(shop: Shop, payload: dict[str, Any]) -> tuple[str, bool]:
    """Return what a new chat is told, and whether a transcript was read for it."""
    return told_and_loaded(shop, payload)[:2]


def told_and_loaded(shop: Shop, payload: dict[str, Any]) -> tuple[str, bool, list[str]]:
    env = {**shop.settings.environ, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", KEPT, json.dumps(payload)], env=env, capture_output=True, text=True, timeout=200, check=True
    )
    text, was_read, loaded = json.loads(done.stdout)
    return text, was_read, loaded


@pytest.mark.feature("hooks.light")
def test_where_what_is_told_was_kept_nothing_is_loaded_of_what_hosts_declare(own: Shop):
    first = told_in_a_process(own, begins(f"1{NEW[1:]}", own.clone))[0]

    text, was_read, loaded = told_and_loaded(own, begins(f"2{NEW[1:]}", own.clone))

    assert (text, was_read) == (first, False)
    unwanted = ("discovery", "model.declared", "model.raw", "storage.text_index", "storage.session_notes")
    assert {f"ctx_pipeline.{name}" for name in unwanted}.isdisjoint(loaded)


@pytest.mark.feature("hooks.last-recorded")
def test_of_transcripts_that_were_copied_the_one_that_recorded_something_last_is_told(own: Shop, monkeypatch):
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.started += timedelta(days=2)
    later.prompt("Count the crates").call("x1", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x").save()
    os.utime(later.path, (1_000_000_000, 1_000_000_000))
    done = own.ctx(monkeypatch, "sync")
    assert done.exit_code == 0, done.output

    assert "Changed files, the last first: crates.py" in told_in_a_process(own, begins(NEW, own.clone))[0]


@pytest.mark.feature("hooks.kept-handoff")
def test_a_new_chat_is_told_of_a_transcript_that_did_not_change_without_reading_it(own: Shop, monkeypatch):
    named = [f"{n}{NEW[1:]}" for n in range(1, 6)]
    first, was_read = told_in_a_process(own, begins(named[0], own.clone))
    assert was_read
    assert told_in_a_process(own, begins(named[1], own.clone)) == (first, False)
    kept = sorted((own.settings.home / "handoffs").iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)
    assert not any(KEY in path.read_text("utf-8") for path in kept)

    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.started += timedelta(days=2)
    later.prompt("Count the crates").call("x1", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x").save()
    done = own.ctx(monkeypatch, "sync")  # says it beforehand
    assert done.exit_code == 0, done.output
    text, was_read = told_in_a_process(own, begins(named[2], own.clone))
    assert ("Changed files, the last first: crates.py" in text, was_read) == (True, False)

    later.call("x2", "Write", "ok", file_path=f"{own.clone}/boxes.py", content="x").save()
    text, was_read = told_in_a_process(own, begins(named[3], own.clone))
    assert ("Changed files, the last first: boxes.py, crates.py" in text, was_read) == (True, True)

    kept[0].write_text("{", "utf-8")
    (own.settings.home / "config.toml").write_text('timezone = "UTC"\n', "utf-8")
    assert told_in_a_process(own, begins(named[4], own.clone))[1]


@pytest.mark.feature("session.resume-hook")
def test_the_consent_prompt_says_what_a_new_chat_will_be_told(monkeypatch):
    from click.testing import CliRunner

    from ctx_pipeline.cli import cli

    (Path(os.environ["HOME"]) / ".claude").mkdir()
    monkeypatch.delenv("CTX_HOME")
    done = CliRunner().invoke(cli, ["hooks", "install", "claude", "--handoff"], input="y\n")

    assert done.exit_code == 0, done.output
    assert "in a new chat: where the last session of the repository stood, at most 500 tokens" in done.output.partition("Add the hooks")[0]
    assert "hook weave claude --handoff" in (Path(os.environ["HOME"]) / ".claude" / "settings.json").read_text()


@pytest.mark.feature("hooks.light")
def test_a_hook_at_a_sessions_start_loads_no_web_client_and_nothing_that_judges_memories_or_commands():
    code = (
        "import sys; import ctx_pipeline.sessions.states.handoff, ctx_pipeline.sessions.states.resume, ctx_pipeline.learning.injection\n"
        "ours = {'memory.consolidation', 'learning.memories', 'learning.at_act', 'storage.text_index'}\n"
        "others = {'http.client', 'ssl', 'email', 'shutil', 'html', 'secrets'}\n"
        "print((others | {f'ctx_pipeline.{name}' for name in ours}) & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.strip() == "set()"


@pytest.mark.feature("hooks.light")
def test_the_rows_of_a_table_are_made_when_one_is_needed():
    code = (
        "import collections\n"
        "made, real = [], collections.namedtuple\n"
        "collections.namedtuple = lambda name, *a, **k: made.append(name) or real(name, *a, **k)\n"
        "from ctx_pipeline.model.tables import EVENTS, TABLES\n"
        "before = set(TABLES) & set(made)\n"
        "same = EVENTS.row is EVENTS.row\n"
        "print(before, set(TABLES) & set(made), same, EVENTS.row._fields == EVENTS.names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stdout.strip() == "set() {'events'} True True"


def at_work_in(folder: Path) -> list[str]:
    """Return the processes whose working folder is this one, where the system tells."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found += [process.name] if (process / "cwd").readlink() == folder else []
    return found


@pytest.mark.feature("hooks.prepared-compaction")
@pytest.mark.parametrize("step", [False, True])
def test_after_a_compaction_a_session_is_told_what_was_made_while_it_ran(own: Shop, monkeypatch, step: bool):
    live = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    live.prompt("Count the crates").call("x1", "Write", "ok", file_path=f"{own.clone}/crates.py", content="x").save()
    assert own.ctx(monkeypatch, "sync").exit_code == 0
    about = {"session_id": LATER, "cwd": str(own.clone), "transcript_path": str(live.path)}
    env = {**own.settings.environ, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = json.dumps({**about, "hook_event_name": "PreCompact", "trigger": "auto"})
    subprocess.run(patient_hook.command("capture", "claude"), input=asked, env=env, text=True, timeout=200, check=True)
    folder = own.settings.home / "compactions"
    (made,) = eventually(lambda: list(folder.glob("*.json")))
    assert eventually(lambda: not at_work_in(own.settings.home)), "the sync that the hook started as well"
    assert made.stat().st_mode & 0o777 == 0o600
    if step:  # that nobody knew of when it was made
        live.call("x2", "Write", "ok", file_path=f"{own.clone}/lids.py", content="x")
    live.compact(150_000, "So far.").save()

    started = {**about, "hook_event_name": "SessionStart", "source": "compact"}
    text, was_read = told_in_a_process(own, started)
    assert (text, was_read) == (own_block(str(live.path), LATER, "claude", own.settings, "")[0], step)
    assert ("crates.py" in text, "lids.py" in text) == (True, step)
    assert list(folder.iterdir()) == [], "what was told is kept no longer"
    live.prompt("Go on").save()
    assert told_in_a_process(own, started) == ("", True), "one compaction is answered once"


@pytest.mark.feature("hooks.prepared-compaction")
def test_nothing_is_made_ahead_of_a_session_that_was_not_captured(own: Shop):
    live = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    live.prompt("Count the crates").save()
    about = {"session_id": LATER, "cwd": str(own.clone), "transcript_path": str(live.path), "hook_event_name": "PreCompact"}
    prepare(about, host="claude", settings=own.settings)
    assert not (own.settings.home / "compactions").exists()
    read_in(own)
    prepare(about, host="claude", settings=own.settings)
    assert len(list((own.settings.home / "compactions").iterdir())) == 1


@pytest.mark.feature("session.handoff")
def test_an_id_is_told_as_far_as_it_is_told_apart():
    ids = ["019f0000-000d-7000-8000-000000000002", "019f0000-000d-7000-8000-000000000007", "019f6c8e-2f06-7a03-ada4-8ba7adbb9cf8"]
    assert [short_id(one, ids) for one in ids] == [ids[0], ids[1], "019f6c8e"]
    assert short_id("019f0000-000e-7000-8000-000000000002", ids) == "019f0000-000e"


SLOW = """
import sys, time
from ctx_pipeline.cli import main
from ctx_pipeline.cli.integrations import hook
from ctx_pipeline.sessions.states import resume
hook.DEADLINE = 3.0
resume.other_blocks = lambda *_: time.sleep(600)  # a transcript that is not read in time
main()
"""


def asked_on_a_busy_machine(shop: Shop, payload: dict[str, Any], code: str = SLOW) -> str:
    process = processes.start(
        [sys.executable, "-P", "-c", code, "hook", "weave", "claude", "--handoff"],
        env={**shop.settings.environ, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    out, _ = process.communicate(json.dumps(payload).encode(), timeout=200)
    assert process.returncode == 0
    return json.loads(out)["hookSpecificOutput"]["additionalContext"] if out else ""


@pytest.mark.feature("hooks.late-handoff")
def test_a_handoff_that_was_not_ready_in_time_is_there_for_the_next_chat_and_an_older_one_says_that_it_is(own: Shop):
    named = [f"{n}{NEW[1:]}" for n in range(1, 6)]
    kept = own.settings.home / "handoffs"
    assert asked_on_a_busy_machine(own, begins(named[0], own.clone)) == ""
    eventually(lambda: any(kept.iterdir()))  # it was worked out beside
    whole = asked_on_a_busy_machine(own, begins(named[1], own.clone))
    assert "Resume it with: " in whole
    assert "written to since" not in whole

    for path in own.clone.parent.rglob("*.jsonl"):
        os.utime(path, (1_972_700_000, 1_972_700_000))
    older = asked_on_a_busy_machine(own, begins(named[2], own.clone))
    assert "\n- It was written to since this was noted: what it did last is not in here\n" in older
    assert older.count("\n- ") > 2
    assert counter()(older) <= 500
    # what it costs is subtracted from the gain
    with closing(Journal(own.settings.home / "journal.db", read_only=True)) as journal:
        told = {str(f.payload["session_id"]): f.payload["tokens"] for f in journal.facts() if f.kind == RESUMED}
    assert set(told) == {named[1], named[2]}
    assert told[named[2]] > 100
    assert asked_on_a_busy_machine(own, begins(named[2], own.clone)) == ""


TOLD = """
import os, threading, time
from ctx_pipeline.cli import main
from ctx_pipeline.cli.integrations import hook
hook.DEADLINE = 5.0
write = hook._print
def written(answer):
    write(answer)
    if threading.current_thread() is threading.main_thread():
        time.sleep(600)  # the time is over before the process has ended
hook._print = written
main()
"""


@pytest.mark.feature("hooks.late-handoff")
def test_what_was_told_right_before_the_time_was_over_is_told_once(own: Shop):
    ready(own.settings)
    assert "Resume it with: " in asked_on_a_busy_machine(own, begins(NEW, own.clone), TOLD)


@pytest.mark.feature("hooks.late-handoff")
def test_an_older_note_with_nothing_to_tell_is_not_told(own: Shop):
    resume(begins(NEW, own.clone), host="claude", settings=own.settings)
    for path in (own.settings.home / "handoffs").iterdir():
        kept = json.loads(path.read_bytes())
        path.write_text(json.dumps(kept | {"texts": ["", ""]}))
    for path in own.clone.parent.rglob("*.jsonl"):
        os.utime(path, (1_972_700_000, 1_972_700_000))
    spared: list[str] = []
    resume(begins(LATER, own.clone), host="claude", settings=own.settings, spare=lambda text, _: spared.append(text))
    assert spared == []


@pytest.mark.feature("hooks.kept-handoff", "forget.everywhere")
def test_of_a_session_that_is_forgotten_while_its_transcript_is_read_nothing_is_kept_or_told(own: Shop, monkeypatch):
    begin(own.settings)
    made = states_resume.other_blocks
    gone: list[str] = []

    def forgotten_meanwhile(last: Any, *others: Any) -> Any:
        texts = made(last, *others)
        gone.append(last.session_id)
        with open_store(own.settings) as store:
            forget(store, own.settings, Selection(host=last.host, session_id=last.session_id))
        return texts

    monkeypatch.setattr(states_resume, "other_blocks", forgotten_meanwhile)
    text = resume(begins(NEW, own.clone), host="claude", settings=own.settings)
    assert gone[0] not in text
    kept = [path.read_text() for path in (own.settings.home / "handoffs").glob("*")]
    assert not any(one in told for one in gone for told in kept)


@pytest.mark.feature("hooks.kept-handoff")
def test_a_transcript_that_cannot_be_read_fails_no_run_and_the_others_are_kept(own: Shop, monkeypatch):
    begin(own.settings)
    made = states_resume.other_blocks

    def broken(last: Any, *others: Any) -> Any:
        if last.session_id == WORK:
            raise PermissionError("closed")
        return made(last, *others)

    monkeypatch.setattr(states_resume, "other_blocks", broken)
    ready(own.settings)
    kept = [path.read_text() for path in (own.settings.home / "handoffs").iterdir()]
    assert kept
    assert not any(WORK in text for text in kept)


@pytest.mark.feature("hooks.late-handoff")
def test_whoever_switches_handoffs_on_has_the_first_one_kept_at_once(own: Shop, monkeypatch):
    done = own.ctx(monkeypatch, "hooks", "install", "claude", "--yes")
    assert done.exit_code == 0, done.output
    assert not (own.settings.home / "handoffs").exists()
    done = own.ctx(monkeypatch, "hooks", "install", "claude", "--handoff", "--yes")
    assert done.exit_code == 0, done.output
    text, was_read = told_in_a_process(own, begins(NEW, own.clone))
    assert ("Resume it with: " in text, was_read) == (True, False)
    done = own.ctx(monkeypatch, "hooks", "uninstall", "claude", "--yes")
    assert done.exit_code == 0, done.output
    assert not (own.settings.home / "handoffs").exists()


@pytest.mark.feature("session.handoff")
def test_a_rollout_that_its_agent_packed_is_handed_off_as_it_was_before(own: Shop):
    import zstandard

    for path in (own.clone.parent / "claude").rglob("*.jsonl"):
        path.unlink()
    (rollout,) = own.clone.parent.rglob(f"rollout-*{THREAD}.jsonl")
    (before,) = [resume(begins(NEW, own.other), host="codex", settings=own.settings, preview=True)]
    rollout.with_name(f"{rollout.name}.zst").write_bytes(zstandard.compress(rollout.read_bytes()))
    rollout.unlink()
    read_in(own)

    assert "Resume it with: " in before
    assert resume(begins(NEW, own.other), host="codex", settings=own.settings, preview=True) == before


def chosen_everywhere(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the session that each surface chooses in the repository without a name."""
    tools = SessionTools(shop.settings, lambda *_a, **_k: {})
    found = {name: shop.json(monkeypatch, "session", name)["session_id"] for name in ("load", "resume", "status", "restore")}
    found["command"] = shop.json(monkeypatch, "resume")["session_id"]
    found["metrics"] = shop.json(monkeypatch, "metrics")["session_id"]
    found |= {f"mcp {name}": tools.ctx_session(name, cwd=str(shop.clone)).value["session_id"] for name in ("load", "resume", "status")}
    with reading(shop.settings) as (store, _):
        found["compress"] = select_captured(store, shop.settings, str(shop.clone)).session_id
    told = resume(begins(NEW, shop.clone), host="claude", settings=shop.settings, preview=True)
    (found["hook"],) = (one for one in (WORK, LATER, THREAD) if f" {one}" in told)
    return found


@pytest.mark.feature("session.handoff", "facts.one-number")
def test_every_surface_chooses_the_last_session_that_did_something(own: Shop, monkeypatch):
    later = datetime(2026, 3, 6, 10, 0, tzinfo=UTC)
    asked = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l", started=later)
    asked.prompt("What does the cart do with a discount?").answer(text("It takes it off.")).save()
    read_in(own)
    with reading(own.settings) as (store, _):
        assert in_place(store, str(own.clone))[0].session_id == LATER  # it is the newest

    assert set(chosen_everywhere(own, monkeypatch).values()) == {WORK}

    asked.call("l1", "Read", "x = 1", file_path=f"{own.clone}/shop/cart.py").save()
    read_in(own)
    assert set(chosen_everywhere(own, monkeypatch).values()) == {LATER}


@pytest.mark.feature("session.handoff", "facts.one-number")
@pytest.mark.parametrize("hello", ["hi", "Hello claude!", "hey, how are you?", "thanks"])
def test_a_lone_greeting_is_not_told_in_place_of_a_session_that_asked_something(own: Shop, monkeypatch, hello: str):
    folder = repository(own.clone.parent / "till", "git@example.com:acme/till.git")
    home = ClaudeHome(own.clone.parent / "claude")
    for session, day, said in ((WORK[::-1], 6, "What does the till do with a discount?"), (LATER[::-1], 7, hello)):
        chat = home.session(session, cwd=str(folder), mark=session[0], started=datetime(2026, 3, day, 10, 0, tzinfo=UTC))
        chat.prompt(said).answer(text("It takes it off.")).save()
    read_in(own)
    told = resume(begins(NEW, folder), host="claude", settings=own.settings, preview=True)

    assert "What does the till do with a discount?" in told
    for name in ("load", "resume", "status"):
        assert own.json(monkeypatch, "session", name, cwd=folder)["session_id"] == WORK[::-1]


@pytest.mark.feature("session.handoff", "facts.one-number")
@pytest.mark.parametrize("main", [True, False])
def test_of_work_that_subagents_did_the_hook_tells_what_the_command_does(own: Shop, main: bool):
    home, session = ClaudeHome(own.clone.parent / "claude"), LATER[::-1]
    later = datetime(2026, 3, 6, 10, 0, tzinfo=UTC)
    if main:
        chat = home.session(session, cwd=str(own.clone), mark="m", started=later).prompt("Have a subagent mend the tax in shop/tax.py")
        chat.call("m1", "Task", "It is mended.", prompt="Mend the tax", subagent_type="general-purpose")
        chat.answer(text("The subagent mended it.")).save()
    agent = home.agent("a1", session, cwd=str(own.clone), started=later).prompt("Mend the tax in shop/tax.py")
    agent.call("a2", "Edit", "done", file_path=f"{own.clone}/shop/tax.py", old_string="a", new_string="b")
    agent.call("a3", "Bash", "7 passed in 0.1s", command="pytest -q", structured={"stdout": "7 passed in 0.1s", "stderr": ""})
    agent.answer(text("The tax is mended.")).save()
    read_in(own)
    told = resume(begins(NEW, own.clone), host="claude", settings=own.settings, preview=True)
    command = resume_block(cwd=str(own.clone), settings=own.settings).text

    assert loaded(cwd=str(own.clone), settings=own.settings).found.state.session_id == session
    for line in ("- Changed files, the last first: shop/tax.py", "- Last test run: `pytest -q` passed (7/7)"):
        assert f"{line}\n" in told
        assert f"{line}\n" in command
    assert "of which only their reports tell" not in told


@pytest.mark.feature("session.handoff")
def test_a_damaged_journal_does_not_keep_a_session_from_being_told(own: Shop):
    before = resume(begins(NEW, own.clone), host="claude", settings=own.settings, preview=True)
    own.settings.home.joinpath("journal.db").write_bytes(b"this is no database" * 400)
    begin(own.settings)
    ready(own.settings)

    assert before
    assert resume(begins(NEW, own.clone), host="claude", settings=own.settings, preview=True) == before


@pytest.mark.feature("session.handoff")
def test_a_session_whose_transcript_its_agent_removed_is_handed_off_from_what_was_captured(own: Shop, monkeypatch):
    for path in (own.clone.parent / "claude").rglob("*.jsonl"):
        path.unlink()
    read_in(own)
    told = resume(begins(NEW, own.clone), host="claude", settings=own.settings, preview=True)

    assert set(chosen_everywhere(own, monkeypatch).values()) == {WORK}
    assert "from what was captured of it" in told
    assert "- Last test run: `pytest -q` passed (5/5)" in told


@pytest.mark.feature("session.handoff")
def test_a_session_of_a_host_without_transcripts_of_lines_is_handed_off_too(own: Shop):
    document = gemini.document() | {"projectHash": "0" * 64, "directories": [str(own.clone)]}
    chats = own.clone.parent / "gemini" / "tmp" / "shop" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-03-06T10-00-1d1d1d1d.json").write_text(json.dumps(document).replace("2026-03-04", "2026-03-06"))
    environ = {**own.settings.environ, "GEMINI_DATA_DIR": str(own.clone.parent / "gemini")}
    shop = replace(own, settings=replace(own.settings, environ=environ))
    read_in(shop)
    told = resume(begins(NEW, own.clone), host="claude", settings=shop.settings, preview=True)

    assert loaded(cwd=str(own.clone), settings=shop.settings).found.state.session_id == gemini.DOCUMENT
    assert "(gemini" in told


@pytest.mark.feature("session.handoff", "facts.one-number")
@pytest.mark.parametrize("hello", ["hi", "Hello claude!", "hey, how are you?"])
@pytest.mark.parametrize("host", ["claude", "codex"])
def test_a_greeting_before_a_question_hides_no_session(own: Shop, monkeypatch, host: str, hello: str):
    folder = repository(own.clone.parent / "till", "git@example.com:acme/till.git")
    home, asked = ClaudeHome(own.clone.parent / "claude"), "How is a voucher rounded on the invoice?"
    chat = home.session(WORK[::-1], cwd=str(folder), mark="w", started=datetime(2026, 2, 6, 10, 0, tzinfo=UTC))
    chat.prompt("What does the till do with a discount?").answer(text("It takes it off.")).save()
    if host == "claude":
        chat = home.session(LATER[::-1], cwd=str(folder), mark="l", started=datetime(2026, 3, 7, 10, 0, tzinfo=UTC))
        chat.prompt(hello).answer(text("Hello!")).prompt(asked).answer(text("To cents.")).save()
    else:
        records = [codex.meta(0, cwd=str(folder)), codex.context(1, cwd=str(folder))]
        for at, (said, answer) in enumerate([(hello, "Hello!"), (asked, "To cents.")], 1):
            records += [codex.event(4 * at, "user_message", message=said), codex.message(4 * at, "user", said)]
            records += [codex.message(4 * at + 1, "assistant", answer), codex.event(4 * at + 1, "agent_message", message=answer)]
        codex.write(own.clone.parent / "codex", records)
    read_in(own)

    assert asked in resume(begins(NEW, folder), host="claude", settings=own.settings, preview=True)
    assert own.json(monkeypatch, "session", "load", cwd=folder)["session_id"] == (LATER[::-1] if host == "claude" else THREAD)


@pytest.mark.feature("session.handoff")
@pytest.mark.parametrize(
    ("said", "came"),
    [
        ("hi there", GREETED),
        ("Hola!", GREETED),
        ("test", GREETED),
        ("test auth", ASKED),
        ("testing payments", ASKED),
    ],
)
def test_a_short_request_is_no_greeting(said: str, came: int):
    assert came_of({"tool_calls": 0, "prompts": 1, "title": said, "title_source": "prompt"}) == came


@pytest.mark.feature("session.handoff")
@pytest.mark.parametrize(
    ("title", "source", "came"),
    [
        ("hello, how are you", "prompt", GREETED),  # both prompts say no more
        ("test", "prompt", ASKED),  # behind another prompt it asks for a run
        ("Simple greeting exchange", "agent", GREETED),
        ("Fix the greeting of the till", "agent", ASKED),
    ],
)
def test_a_session_of_two_greetings_or_with_the_title_of_one_asked_nothing(title: str, source: str, came: int):
    assert came_of({"tool_calls": 0, "prompts": 2, "title": title, "title_source": source}) == came
