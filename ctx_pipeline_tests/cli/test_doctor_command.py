"""What ``ctx doctor`` tells beside damage: what runs by itself, what was redacted, what was quarantined."""

from __future__ import annotations

import json
import re

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

SESSION = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"


@pytest.mark.feature("doctor.schedule")
def test_entered_hooks_are_named_with_the_time_they_last_ran(ctx: Ctx):
    assert ctx.json("doctor")["by_itself"] == []
    assert "nothing is switched on" in ctx("doctor").stdout
    ctx("hooks", "install", "claude", "--yes")

    (entered,) = ctx.json("doctor")["by_itself"]
    assert (entered["kind"], entered["on"], entered["last"]) == ("hooks", True, None)
    assert "SessionEnd" in entered["name"]
    assert str(ctx.folder / "claude") in entered["name"]

    payload = {"hook_event_name": "SessionEnd", "session_id": SESSION, "transcript_path": "", "cwd": str(ctx.folder)}
    ctx("hook", "capture", "claude", stdin=json.dumps(payload))
    ctx("sync")  # waits for the one that the hook started
    (entered,) = ctx.json("doctor")["by_itself"]
    assert entered["last"] is not None
    assert f"is on, last ran {entered['last']}" in ctx("doctor").stdout


@pytest.mark.feature("redaction.report")
def test_what_was_redacted_is_counted_by_detector_project_and_session_without_values(ran: Ctx):
    found = ran.json("doctor", "--redactions")
    rows = ran.json("sql", "select host, session_id, text from events where contains(text, '[REDACTED:')")["rows"]

    assert sum(row["text"].count("[REDACTED:") for row in rows) == sum(d["found"] for d in found["detectors"]) > 0
    assert {(s["host"], s["session_id"]) for s in found["sessions"]} == {(r["host"], r["session_id"]) for r in rows}
    assert sum(p["found"] for p in found["projects"]) == sum(d["found"] for d in found["detectors"])
    assert all(s["project"] and s["detector"] for s in found["sessions"])
    printed = ran("doctor", "--redactions").stdout
    assert found["detectors"][0]["detector"] in printed
    (told,) = [one for one in ran.json("hints")["findings"] if one["rule"] == "secrets-in-transcripts"] or [{"cases": 0}]
    assert sum(found["live"].values()) == told["cases"]
    assert (f"{told['cases']} different secret" if told["cases"] else "none of them looks like a working secret") in printed
    assert "hunter2" not in printed + json.dumps(found)


@pytest.mark.feature("redaction.report")
def test_before_the_first_run_it_says_what_to_run(ctx: Ctx):
    done = ctx("doctor", "--redactions", ok=False)

    assert done.returncode == 1
    assert "ctx run" in done.stderr


@pytest.mark.slow
@pytest.mark.feature("cli.quarantine")
def test_what_cannot_be_read_is_one_quiet_line_of_the_run_and_named_by_the_session_and_the_doctor(ctx: Ctx):
    path = next((ctx.folder / "claude").rglob(f"{SESSION}.jsonl"))
    with path.open("a") as file:
        file.write('{"type": "user", broken\n[1, 2]\n')
    report = ctx.json("run")

    assert report["quarantined"] == 2
    assert {(q["host"], q["session_id"]) for q in report["quarantine"]} == {("claude", SESSION)}
    assert sum(q["records"] for q in report["quarantine"]) == 2
    reasons = {q["reason"] for q in report["quarantine"]}
    printed = ctx("run").stdout.splitlines()
    assert [line for line in printed if "read" in line and "record" in line] == ["also: 2 records could not be read (ctx doctor)"]
    assert printed.index("also: 2 records could not be read (ctx doctor)") > printed.index("Needs a look:") + 3

    shown = ctx.json("show", "claude", SESSION)
    assert shown["session"]["quarantined"] == 2
    assert {q["reason"] for q in shown["quarantined"]} == reasons
    assert all(f"line {q['line']}: {q['reason']}" in ctx("show", "claude", SESSION).stdout for q in shown["quarantined"])

    doctor = ctx.json("doctor")
    assert {(q["session_id"], q["reason"]) for q in doctor["quarantined"]} == {(SESSION, reason) for reason in reasons}
    assert all(f"claude {SESSION}: {reason}" in ctx("doctor").stdout for reason in reasons)


@pytest.mark.feature("doctor.backup")
def test_when_and_where_the_last_backup_was_made_is_one_line(ctx: Ctx):
    ctx("sync")
    assert "\nno backup is known: ctx backup DIR\n" in ctx("doctor").stdout
    first, second = ctx.folder / "first", ctx.folder / "second"
    (ctx.store / "backups.json").write_text(json.dumps([str(first)]))  # as it was written before times were
    assert f"\nbackups: in {first}, at times that were not written down\n" in ctx("doctor").stdout

    ctx("backup", str(first))
    ctx("backup", str(second))

    made = ctx.json("doctor")["backups"]
    assert list(made) == [str(second), str(first)]
    assert made[str(second)] > made[str(first)] > ""
    told = re.search(r"\nlast backup: (\d{4}-\d\d-\d\d \d\d:\d\d) in (.*); 1 other folder holds one too\n", ctx("doctor").stdout)
    assert told is not None
    assert (told[1].replace(" ", "T"), told[2]) == (made[str(second)][:16], str(second))
