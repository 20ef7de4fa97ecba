"""``ctx hooks install``, ``uninstall`` and ``status``: other people's hooks are kept, and files come back byte for byte."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.discovery import hosts
from ctx_pipeline.integrations import config_patch
from ctx_pipeline.learning.injection import INJECTED
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.waiting import eventually

THEIRS = """{
  "cleanupPeriodDays": 99999,
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "guard --ctx hooks", "timeout": 5}]}]
  },
  "permissions": {"allow": ["Bash(ls:*)"]}
}"""
CLAUDE_EVENTS = ["PostToolUseFailure", "PreCompact", "PreToolUse", "SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"]
CODEX_EVENTS = ["PostToolUse", "PreCompact", "SessionStart", "Stop", "UserPromptSubmit"]


@pytest.fixture
def person(monkeypatch) -> Path:
    """The person's own folder, with a home of each agent at its default place, and neither agent on the PATH."""
    home = Path(os.environ["HOME"])
    (home / ".claude").mkdir()
    (home / ".codex").mkdir()
    monkeypatch.delenv("CTX_HOME")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return home


def ctx(*words: str, answer: str = "", fails: bool = False) -> str:
    done = CliRunner().invoke(cli, words, input=answer)
    assert (done.exit_code != 0) is fails, (done.output, done.exception)
    return f"{done.output}{done.exception or ''}"


def ours(path: Path) -> dict[str, list[str]]:
    """Return event -> the words of our commands in a file of hooks."""
    found: dict[str, list[str]] = {}
    for event, groups in json.loads(path.read_text())["hooks"].items():
        for group in groups:
            for handler in group["hooks"]:
                words = shlex.split(handler["command"])
                if "hook" in words:
                    found.setdefault(event, []).append(" ".join(words[words.index("hook") :]))
                    assert handler["type"] == "command"
                    assert handler["timeout"] == 10
                    assert Path(words[0]).is_absolute()
    return found


@pytest.mark.feature("hooks.install", "hooks.other-peoples", "hooks.uninstall")
def test_claude_gets_its_hooks_beside_those_of_others_and_back_byte_for_byte(person):
    path = person / ".claude" / "settings.json"
    path.write_text(THEIRS)

    ctx("hooks", "install", "claude", "--yes")

    assert ours(path) == {
        "SessionStart": ["hook weave claude"],
        "UserPromptSubmit": ["hook weave claude"],
        "PreToolUse": ["hook weave claude"],
        "PostToolUseFailure": ["hook weave claude"],
        "Stop": ["hook capture claude"],
        "PreCompact": ["hook capture claude"],
        "SessionEnd": ["hook capture claude"],
    }
    value, before = json.loads(path.read_text()), json.loads(THEIRS)
    assert value["hooks"]["Stop"][0] == before["hooks"]["Stop"][0]
    assert value["hooks"]["PreToolUse"][:-1] == before["hooks"]["PreToolUse"]
    assert value["hooks"]["PreToolUse"][-1]["matcher"] == "Bash|Edit|MultiEdit|NotebookEdit|Write"
    assert {k: v for k, v in value.items() if k != "hooks"} == {k: v for k, v in before.items() if k != "hooks"}
    after = path.read_bytes()
    assert "already" in ctx("hooks", "install", "claude", "--yes")
    assert path.read_bytes() == after

    ctx("hooks", "uninstall", "claude")
    assert path.read_text() == THEIRS
    assert "not installed" in ctx("hooks", "uninstall", "claude")
    assert "not installed" in ctx("hooks", "uninstall", "claude", "-y"), "what install takes"


@pytest.mark.feature("hooks.install", "hooks.uninstall")
def test_options_replace_each_other_and_the_first_backup_is_what_comes_back(person):
    path = person / ".claude" / "settings.json"
    path.write_text(THEIRS)
    ctx("hooks", "install", "claude", "--yes")

    ctx("hooks", "install", "claude", "--yes", "--holdout", "0.2", "--threshold", "0.6", "--accepted-only")

    assert ours(path)["UserPromptSubmit"] == ["hook weave claude --threshold=0.6 --holdout=0.2 --accepted-only"]
    assert ours(path)["Stop"] == ["hook capture claude"]
    said = ctx("hooks", "install", "claude", "--yes", "--no-resume")
    assert ours(path)["SessionStart"] == ["hook weave claude --threshold=0.6 --holdout=0.2 --accepted-only --no-resume"]
    for sentence in (
        "Claude Code will run ctx at SessionStart, UserPromptSubmit, ",
        "captures what the session wrote into your store, and tells the agent:\n",
        "  when a session starts: the lessons that you accepted\n",
        "  at a prompt: lessons that match it by 0.6 or more\n",
        "  before a command or a change of a file, and after a command failed: what earlier sessions know of it\n",
        "  after a compaction: nothing\n",
        "  in a new chat: nothing of the last session (--handoff tells it)\n",
        "  only lessons that you accepted\n",
        "  nothing in 20% of sessions, to measure what lessons do\n",
        "ctx itself sends nothing",
    ):
        assert sentence in said
    ctx("hooks", "install", "claude", "--yes", "--holdout", "0", "--candidates-too", "--resume")
    assert ours(path)["SessionStart"] == ["hook weave claude --threshold=0.6"]
    ctx("hooks", "install", "claude", "--yes", "--defaults", "--start", "proven")
    assert ours(path)["SessionStart"] == ["hook weave claude --start=proven"]
    ctx("hooks", "uninstall", "claude")
    assert path.read_text() == THEIRS


def measured(person: Path, prompts: float, start: float) -> None:
    """Keep figures of a backtest: so much was right at prompts from 0.5 on, and of what was learned twice."""

    def figure(value: float) -> dict[str, Any]:
        return {"value": value, "low": 0.0, "high": 1.0, "of": 20}

    rows = [
        {"threshold": 0.4, "injection_precision": figure(0.1), "search_precision": figure(0.1)},
        {"threshold": 0.5, "injection_precision": figure(prompts), "search_precision": figure(0.1)},
    ]
    starts = [{"start": "accepted", "precision": figure(0.95)}, {"start": "proven", "precision": figure(start)}]
    (person / ".ctx_pipeline").mkdir(exist_ok=True)
    journal = Journal(person / ".ctx_pipeline" / "journal.db")
    journal.append("measured.backtest", {"figures": {}, "calibration": {"thresholds": rows, "starts": starts}})
    journal.close()


@pytest.mark.feature("hooks.precision")
def test_a_precision_becomes_the_threshold_and_the_start_that_the_last_backtest_knows_to_be_right_so_often(person):
    path = person / ".claude" / "settings.json"

    said = ctx("hooks", "install", "claude", "--yes", "--precision", "0.5")
    assert ours(path)["UserPromptSubmit"] == ["hook weave claude --precision=0.5 --start=nothing --no-prompts"]
    assert "no threshold is known to be right in 50%" in said
    assert "nothing is injected" in ctx("hooks", "status", "claude")

    measured(person, 0.6, 0.3)
    ctx("hooks", "install", "claude", "--yes", "--precision", "0.5")
    assert ours(path)["UserPromptSubmit"] == ["hook weave claude --precision=0.5 --threshold=0.5 --start=accepted"]
    measured(person, 0.6, 0.7)
    ctx("hooks", "install", "claude", "--yes", "--holdout", "0.1")
    kept = "hook weave claude --precision=0.5 --threshold=0.5 --start=accepted --holdout=0.1"
    assert ours(path)["UserPromptSubmit"] == [kept]
    ctx("hooks", "install", "claude", "--yes", "--precision", "0.65")
    assert ours(path)["SessionStart"] == ["hook weave claude --precision=0.65 --start=proven --holdout=0.1 --no-prompts"]
    text = ctx("hooks", "status", "claude")
    assert "at a prompt: nothing: no threshold is known to be right in 65%" in text
    assert "when a session starts: the lessons that you accepted or two sessions taught" in text
    assert "only what was right in 65% of your own history; nothing in 10% of sessions" in text
    (state,) = json.loads(ctx("hooks", "status", "claude", "--json"))["hosts"]
    assert state["options"] == {"precision": "0.65", "start": "proven", "holdout": "0.1", "no-prompts": "yes"}
    ctx("hooks", "install", "claude", "--yes", "--threshold", "0.7")
    assert ours(path)["SessionStart"] == ["hook weave claude --threshold=0.7 --start=proven --holdout=0.1"]
    assert "say the same" in ctx("hooks", "install", "claude", "--yes", "--threshold", "0.7", "--precision", "0.5", fails=True)


@pytest.mark.feature("hooks.moved")
def test_status_tells_where_a_newer_backtest_says_another_threshold_than_the_one_in_force(person):
    measured(person, 0.6, 0.7)
    ctx("hooks", "install", "claude", "--yes", "--precision", "0.5")
    assert "newest backtest" not in ctx("hooks", "status", "claude")
    measured(person, 0.2, 0.7)
    text = ctx("hooks", "status", "claude")
    assert re.search(r"installed with precision \S+, for which", text)
    assert "for which the newest backtest says: nothing is right so often at a prompt, proven lessons when a session starts" in text
    assert "ctx hooks install claude --precision 0.5" in text
    (state,) = json.loads(ctx("hooks", "status", "claude", "--json"))["hosts"]
    assert "nothing is right so often at a prompt" in state["stale"]
    ctx("hooks", "install", "claude", "--yes", "--precision", "0.5")
    ctx("hooks", "install", "claude", "--yes", "--start", "accepted")
    assert json.loads(ctx("hooks", "status", "claude", "--json"))["hosts"][0]["stale"] is None
    ctx("hooks", "install", "claude", "--yes", "--precision", "0.5")
    measured(person, 0.2, 0.3)
    assert "accepted lessons when a session starts" in json.loads(ctx("hooks", "status", "claude", "--json"))["hosts"][0]["stale"]
    (person / ".ctx_pipeline" / "journal.db").unlink()
    assert "no backtest is kept that says what is right so often: ctx memory backtest" in ctx("hooks", "status", "claude")


@pytest.mark.feature("hooks.status")
def test_settings_that_turn_all_hooks_off_are_told(person):
    path = person / ".claude" / "settings.json"
    path.write_text('{"disableAllHooks": true}')
    assert "turns all hooks off" in ctx("hooks", "install", "claude", "--yes")
    assert "turns all hooks off" in ctx("hooks", "status", "claude")
    path.write_text(path.read_text().replace("true", "false"))
    assert "turns all hooks off" not in ctx("hooks", "status", "claude")


@pytest.mark.feature("hooks.install")
@pytest.mark.parametrize("what", ["hooks", "mcp"])
def test_where_nobody_can_answer_it_names_yes(person, what):
    assert "--yes" in ctx(what, "install", "claude", answer="", fails=True)
    assert list((person / ".claude").iterdir()) == []


@pytest.mark.feature("hooks.install", "hooks.other-peoples", "hooks.uninstall")
def test_what_others_changed_since_stays_when_the_hooks_are_taken_out(person):
    path = person / ".claude" / "settings.json"
    path.write_text(THEIRS)
    ctx("hooks", "install", "claude", "--yes")
    value = json.loads(path.read_text())
    value["model"] = "opus"
    value["hooks"]["SessionStart"][0]["hooks"].append({"type": "command", "command": "theirs"})
    path.write_text(json.dumps(value, indent=2))

    ctx("hooks", "uninstall", "claude")

    left = json.loads(path.read_text())
    expected = json.loads(THEIRS)
    expected["hooks"]["SessionStart"] = [{"hooks": [{"type": "command", "command": "theirs"}]}]
    assert left == {**expected, "model": "opus"}


@pytest.mark.feature("hooks.install")
def test_hooks_of_an_older_place_are_replaced_not_doubled(person):
    path = person / ".claude" / "settings.json"
    old = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/old/bin/ctx hook capture claude", "timeout": 3}]}]}}
    path.write_text(json.dumps(old))

    ctx("hooks", "install", "claude", "--yes")
    assert len(ours(path)["Stop"]) == 1
    assert "/old/bin" not in path.read_text()

    ctx("hooks", "uninstall", "claude")
    assert json.loads(path.read_text()) == {}


@pytest.mark.feature("hooks.rules-file")
def test_codex_gets_its_hooks_file_and_is_told_to_trust_it(person):
    path = person / ".codex" / "hooks.json"

    said = ctx("hooks", "install", "codex", "--yes")

    assert sorted(ours(path)) == CODEX_EVENTS
    assert "/hooks" in said
    ctx("hooks", "uninstall", "codex")
    assert not path.exists()


@pytest.mark.feature("hooks.rules-file")
def test_a_codex_without_hooks_gets_a_block_in_its_instructions(person, monkeypatch, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "codex"
    program.write_text("#!/bin/sh\necho codex-cli 0.98.0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    path = person / ".codex" / "AGENTS.md"
    path.write_text("# My rules\n\nBe brief.")

    def block_with(*options: str) -> str:
        ctx("hooks", "install", "codex", "--yes", *options)
        return path.read_text()

    said = ctx("hooks", "install", "codex", "--yes")

    assert "0.98.0 runs no hooks" in said
    assert not (person / ".codex" / "hooks.json").exists()
    assert path.read_text().startswith("# My rules\n\nBe brief.\n\n<!-- ctx_pipeline: begin -->\n")
    assert "memory weave --cwd ." in path.read_text()
    assert json.loads(ctx("hooks", "status", "codex", "--json"))["hosts"][0]["way"] == "instructions"
    once = path.read_text()
    ctx("hooks", "install", "codex", "--yes")
    assert path.read_text() == once
    assert "memory weave --threshold=0.6 --cwd ." in block_with("--threshold", "0.6")
    assert "memory weave --threshold=0.6 --accepted-only --cwd ." in block_with("--accepted-only")
    assert "memory weave --accepted-only --cwd ." in block_with("--candidates-too", "--precision", "0.5")
    assert json.loads(ctx("hooks", "status", "codex", "--json"))["hosts"][0]["options"] == {"accepted-only": "yes"}
    assert block_with("--defaults") == once
    path.write_text(once + "\nMore of mine.\n")
    ctx("hooks", "uninstall", "codex")
    assert path.read_text() == "# My rules\n\nBe brief.\n\nMore of mine.\n"

    program.write_text("#!/bin/sh\necho codex-cli 0.124.0\n")
    ctx("hooks", "install", "codex", "--yes")
    assert sorted(ours(person / ".codex" / "hooks.json")) == CODEX_EVENTS
    program.write_text("#!/bin/sh\necho codex-cli 0.154.0\n")
    assert "PreToolUse" in ctx("hooks", "status", "codex")
    ctx("hooks", "install", "codex", "--yes")
    assert sorted(ours(person / ".codex" / "hooks.json")) == sorted([*CODEX_EVENTS, "PreToolUse"])


@pytest.mark.feature("hooks.other-peoples")
@pytest.mark.parametrize(
    "text",
    [
        '{\n  // mine\n  "hooks": {}\n}',
        '{"hooks": {',
        '{"hooks": []}',
        '{"hooks": {"Stop": {}}}',
        '{"hooks": {}, "hooks": {}}',
        "null",
        "\ufeff{}",
        '{"limit": 1e999}',
        '{"limit": NaN}',
    ],
)
def test_a_settings_file_that_cannot_be_parsed_is_refused_unchanged(person, text):
    path = person / ".claude" / "settings.json"
    path.write_text(text)

    assert "was left as it is" in ctx("hooks", "install", "claude", "--yes", fails=True)

    assert path.read_text() == text
    assert [p.name for p in path.parent.iterdir()] == ["settings.json"]
    assert json.loads(ctx("hooks", "status", "claude", "--json"))["hosts"][0]["problem"]


@pytest.mark.feature("hooks.other-peoples")
def test_bytes_that_are_no_text_are_refused_unchanged(person):
    path = person / ".claude" / "settings.json"
    path.write_bytes(b"\xff\xfe{}")
    assert "UTF-8" in ctx("hooks", "install", "claude", "--yes", fails=True)
    assert path.read_bytes() == b"\xff\xfe{}"


@pytest.mark.feature("hooks.install")
def test_it_asks_and_no_changes_nothing(person):
    ctx("hooks", "install", "claude", answer="n\n", fails=True)
    assert not (person / ".claude" / "settings.json").exists()


@pytest.mark.feature("hooks.injected")
def test_status_shows_what_is_entered_and_what_was_injected_when_and_where(person):
    ctx("hooks", "install", "claude", "--yes")
    path = person / ".claude" / "settings.json"
    value = json.loads(path.read_text())
    del value["hooks"]["Stop"]
    path.write_text(json.dumps(value))
    store = person / ".ctx_pipeline"
    journal = Journal(store / "journal.db")
    for session, withheld in (("s-1", False), ("s-2", True)):
        payload = {
            "host": "claude",
            "session_id": session,
            "event": "UserPromptSubmit",
            "memories": [{"memory_id": f"m-seed{n}", "score": 0.7} for n in range(2)],
        }
        journal.append(INJECTED, {**payload, "tokens": 60, "withheld": withheld, "holdout": 0.2, "threshold": 0.4}, actor="hook")
    journal.close()

    told = json.loads(ctx("hooks", "status", "--json"))

    states = {s["host"]: s for s in told["hosts"]}
    assert (states["claude"]["way"], sorted(states["claude"]["events"])) == ("hooks", [e for e in CLAUDE_EVENTS if e != "Stop"])
    assert states["claude"]["missing"] == ["Stop"]
    assert states["codex"]["way"] is None
    assert [(i["session_id"], i["withheld"]) for i in told["injections"]] == [("s-2", True), ("s-1", False)]
    text = ctx("hooks", "status", "--limit", "1")
    assert ("s-2" in text, "s-1" in text) == (True, False)
    text = ctx("hooks", "status")
    assert re.search(r"at +what +memory", text)
    assert "not installed: Stop; install them: ctx hooks install claude" in text
    assert "s-1" in text
    assert "withheld" in text
    assert json.loads(ctx("hooks", "status", "codex", "--json"))["injections"] == []


@pytest.mark.feature("hooks.older")
def test_hooks_that_an_earlier_version_installed_are_called_older_with_the_command_that_renews_them(person):
    ctx("hooks", "install", "claude", "--yes", "--outputs")
    assert "earlier version" not in ctx("hooks", "status") + ctx("doctor")
    path = person / ".claude" / "settings.json"
    value = json.loads(path.read_text())
    (group,) = value["hooks"]["PreToolUse"]
    group["matcher"] = "Bash"
    path.write_text(json.dumps(value))

    told = "do not run for Edit, MultiEdit, NotebookEdit, Write at PreToolUse: ctx hooks install claude"
    status = ctx("hooks", "status")
    assert told in status
    assert "before a command, and after one failed: " in status
    assert told in ctx("doctor")
    states = {s["host"]: s for s in json.loads(ctx("hooks", "status", "--json"))["hosts"]}
    assert states["claude"]["lacking"] == {"PreToolUse": ["Edit", "MultiEdit", "NotebookEdit", "Write"]}

    ctx("hooks", "install", "claude", "--yes")
    status = ctx("hooks", "status")
    assert "earlier version" not in status + ctx("doctor")
    assert "before a command or a change of a file, and after a command failed: " in status
    value = json.loads(path.read_text())
    value["hooks"]["PreToolUse"][0]["matcher"] = "*"
    path.write_text(json.dumps(value))
    assert "earlier version" not in ctx("hooks", "status")


@pytest.mark.feature("hooks.older")
@pytest.mark.parametrize(
    ("matcher", "lacking"),
    [
        *(("", []), ("*", []), (".*", []), (".+", []), ("Bash|.*Edit|Write", []), ("^(Bash|Edit|Write)$", [])),
        *(("Bash|Edit.*", ["Write"]), ("^Bash$", ["Edit", "Write"]), ("Edi|Wri", ["Bash", "Edit", "Write"])),
        *(("Bash, Edit,Write", []), ("Ba.|Wri", ["Edit"]), ("^Edit", ["Bash", "Write"]), ("Multi-Edit", ["Bash", "Edit", "Write"])),
        *(("(Bash|Edit|Write", ["Bash", "Edit", "Write"]), ("Bash{9999999999999}", ["Bash", "Edit", "Write"])),
    ],
)
def test_a_matcher_of_an_installed_hook_is_read_as_the_agent_reads_it(matcher, lacking):
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": "ctx hook command claude"}]}
    text = json.dumps({"hooks": {"PreToolUse": [group]}})
    assert config_patch.kinds_lacking(text, "settings.json", {"PreToolUse": "Bash|Edit|Write"}) == (
        {"PreToolUse": lacking} if lacking else {}
    )


@pytest.mark.feature("hooks.install")
def test_the_command_that_is_entered_runs_in_a_shell_with_the_chosen_store(person, monkeypatch, tmp_path):
    store = tmp_path / "my store"
    monkeypatch.setenv("CTX_HOME", str(store))
    ctx("hooks", "install", "claude", "--yes")
    command = json.loads((person / ".claude" / "settings.json").read_text())["hooks"]["SessionEnd"][0]["hooks"][0]["command"]
    env = {"HOME": str(person), "PATH": "/usr/bin:/bin"}

    process = processes.start(["/bin/sh", "-c", command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = process.communicate(b"{}", timeout=200)

    assert (process.returncode, out) == (0, b"")
    assert eventually((store / "ledger.db").exists)
    assert sys.executable in command or "ctx" in command


@pytest.mark.feature("hosts.declared-hooks")
def test_a_host_that_declares_no_hooks_or_servers_has_none(person):
    assert "runs no hooks" in ctx("hooks", "install", "dspy", "--yes", fails=True)
    assert "starts no servers" in ctx("mcp", "install", "dspy", "--yes", fails=True)


@pytest.mark.feature("hosts.declared-hooks")
@pytest.mark.parametrize("name", ["foo", "roo"])
def test_only_agents_that_run_hooks_are_named_where_none_is_meant(person, name):
    for words in (("install", name, "--yes"), ("uninstall", name, "--yes"), ("status", name)):
        said = ctx("hooks", *words, fails=True)
        able = {one.key for one in hosts().values() if one.agent.hooks}
        assert set(said.partition("agents that run hooks: ")[2].strip().split(", ")) == able
        assert "did you mean" not in said


@pytest.mark.feature("hooks.uninstall")
def test_a_link_to_a_file_that_is_not_there_yet_stays_and_the_file_goes_again(person):
    path, target = person / ".claude" / "settings.json", person / "dotfiles" / "claude.json"
    path.symlink_to(target)

    ctx("hooks", "install", "claude", "--yes")
    assert "SessionStart" in ours(target)
    ctx("hooks", "uninstall", "claude")

    assert path.is_symlink()
    assert not target.exists()
