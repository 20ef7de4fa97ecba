"""Help: every command and every option says what it does, in words that a reader knows."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.errors import UnknownName
from ctx_pipeline_tests.cli.test_surface import commands

PRIVATE = re.compile(r"\b(?:cells?|floors?|deeds?|so many|anew|unseen|settle|entered|told|stood|laid down|by way)\b", re.IGNORECASE)
KNOWN = {"ctx history"}
"""`unseen` is the name of a component there, and is explained."""


@pytest.mark.feature("cli.work-help")
def test_time_by_day_of_work_is_named_where_days_are():
    said = {p.name: p.help for p in commands()["ctx work"].params if isinstance(p, click.Option)}
    assert "--by-day" in said["days"]
    assert "--time" in said["by_day"]


@pytest.mark.feature("cli.help-texts")
def test_every_option_has_one_line_of_help():
    options = [(path, one) for path, command in commands().items() for one in command.params if isinstance(one, click.Option)]
    wrong = [f"{path} {one.opts[-1]}: {one.help}" for path, one in options if not re.fullmatch(r"[A-Z0-9`].{3,180}[.\]]", one.help or "")]

    assert len(options) > 500
    assert wrong == []


@pytest.mark.feature("cli.help-texts")
def test_help_has_no_private_words():
    said = {
        path: " ".join([command.help or "", *(getattr(one, "help", "") or "" for one in command.params)])
        for path, command in commands().items()
    }
    found = {path: words for path, text in said.items() if (words := PRIVATE.findall(text)) and path not in KNOWN}

    assert found == {}


@pytest.mark.feature("cli.help-texts")
def test_the_first_line_of_a_command_is_a_sentence_that_fits_a_terminal():
    first = {path: (command.help or "").strip().split("\n\n")[0] for path, command in commands().items()}

    assert {path: line for path, line in first.items() if not re.fullmatch(r"[A-Z].{8,150}\.", " ".join(line.split()))} == {}


@pytest.mark.feature("cli.help-words")
def test_a_word_that_is_no_command_leads_to_the_commands_that_speak_of_it():
    def told(*words: str) -> str:
        return CliRunner().invoke(cli, ["help", *words], prog_name="ctx").stdout

    assert "\n  ctx hooks install HOST --handoff\n" in told("handoff")
    assert told("ccusage").startswith("Why does ccusage print another number?\n  ctx explain MONTH --against ccusage\n")
    assert "  ctx history latest\n" in told("full", "window")
    lines = told("compaction").splitlines()
    assert [line for line in lines if lines.count(line) > 1] == []
    assert isinstance(CliRunner().invoke(cli, ["help", "qqqq"]).exception, UnknownName)
    assert told("hooks").startswith("Usage: ")
