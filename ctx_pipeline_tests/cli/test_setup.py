"""The first set-up: it asks, shows what it will do, and does that alone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctx_pipeline.cli import cli
from ctx_pipeline_tests.factories.shipped import copied


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("systemctl", "launchctl"):
        (tools / name).write_text(f'#!/bin/sh\necho "$*" >> "{tmp_path}/asked"\n')
        (tools / name).chmod(0o755)
    (tmp_path / "home").mkdir()
    for name, value in copied(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path / "home"


def setup(*words: str, answers: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["setup", *words], input=answers)


def config(person: Path) -> dict[str, object]:
    path = person / "store" / "config.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


@pytest.mark.feature("cli.setup")
def test_it_asks_what_to_watch_shows_what_it_will_do_and_does_it(person: Path) -> None:
    done = setup(answers="y\nn\n*/client-x/*\ny\ny\ny\n")

    assert done.exit_code == 0, done.output
    shown, _, _ = done.output.partition("Do it?")
    assert f"never capture {person}/codex/*, */client-x/*" in shown
    assert f"install hooks in {person}/claude/settings.json, after a backup" in shown
    assert "ctx sync every 15 minutes and ctx run daily at 03:17" in shown
    assert config(person)["ignore"] == {"paths": [f"{person}/codex/*", "*/client-x/*"]}
    assert "hook weave claude" in (person / "claude" / "settings.json").read_text()
    assert (person.parent / "asked").exists()
    assert CliRunner().invoke(cli, ["list", "--json"]).exit_code == 0
    counts = json.loads(CliRunner().invoke(cli, ["list", "--json"]).stdout)["counts"]
    assert {host: count for host, count in counts.items() if count} == {"claude": 4}


@pytest.mark.feature("cli.setup")
def test_no_at_the_end_changes_nothing(person: Path) -> None:
    before = (person / "claude" / "settings.json").read_bytes()

    done = setup(answers="y\ny\n\ny\nn\ny\nn\n")

    assert done.exit_code == 1
    assert "this will be done" in done.output
    assert config(person) == {}
    assert (person / "claude" / "settings.json").read_bytes() == before
    assert not (person.parent / "asked").exists()


@pytest.mark.feature("cli.setup")
def test_what_would_be_done_is_shown_without_asking(person: Path) -> None:
    told = json.loads(setup("--hosts", "claude", "--hooks", "cc", "--schedule", "--dry-run", "--json").stdout)

    assert [(home["host"], home["sessions"] > 0) for home in told["homes"]] == [("claude", True), ("codex", True)]
    assert [step["command"] for step in told["steps"]] == [
        f"ctx config set ignore.paths '{person}/codex/*'",
        "ctx hooks install claude",
        "ctx schedule install",
    ]
    assert not any(step["done"] for step in told["steps"])
    assert not (person / "store").exists()


@pytest.mark.feature("cli.setup")
def test_said_again_nothing_is_left_to_do_and_without_wishes_nothing_is_done(person: Path) -> None:
    assert json.loads(setup("--yes", "--json").stdout)["steps"] == []
    first = json.loads(setup("--yes", "--ignore", "*/secret/*", "--json").stdout)
    assert [(step["done"], step["problem"]) for step in first["steps"]] == [(True, "")]
    assert json.loads(setup("--yes", "--ignore", "*/secret/*", "--json").stdout)["steps"] == []


@pytest.mark.feature("cli.setup")
def test_a_step_that_fails_is_told_and_the_others_are_done(person: Path) -> None:
    (person / "claude" / "settings.json").write_text("{ not json")

    done = setup("--yes", "--hooks", "claude", "--ignore", "*/x/*")

    assert done.exit_code == 1
    assert "not done: install hooks" in done.output
    assert (person / "claude" / "settings.json").read_text() == "{ not json"
    assert config(person)["ignore"] == {"paths": ["*/x/*"]}
