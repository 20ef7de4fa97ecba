"""One rule of exit statuses, over all commands: 1 for what is not there, 2 for wrong words, each with a hint."""

from __future__ import annotations

import os

import click
import pytest

from ctx_pipeline.cli.root import run
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.cli.test_surface import commands, options

PASSED_ON = {"ctx run-command"}
"""Their further words are another program's."""
OF_A_PERIOD = {"ctx gain"}
"""--host and --project go with --period."""
NEW_NAME = {"ctx signal new"}
KNOWN = {"name": "user_correction_count"}
"""Arguments of which a wrong one is told before any option."""
PROBES = {
    "--nosuch-option": (("--nosuch-option",), 2),
    "--since": (("--since", "someday"), 2),
    "--timezone": (("--timezone", "Mars/Olympus"), 2),
    "--project": (("--project", "nosuch"), 1),
    "--host": (("--host", "nosuch"), 1),
}
SESSION_ARGUMENTS = {"session_words", "session", "name", "session_id"}


def needed(command: click.Command) -> list[str]:
    return [KNOWN.get(p.name or "", "x") for p in command.params if isinstance(p, click.Argument) and p.required]


def cases() -> list[tuple[list[str], int]]:
    """Return words that are wrong in one way each, of every command that takes them, with the status they end with."""
    found = []
    for path, command in sorted(commands().items()):
        words = path.split()[1:]
        for option, (probe, status) in PROBES.items():
            if path in PASSED_ON or (path in OF_A_PERIOD and option in {"--project", "--host"}):
                continue
            if option == "--nosuch-option" or option in options(command):
                found.append(([*words, *needed(command), *probe], status))
        if path not in NEW_NAME and any(isinstance(p, click.Argument) and p.name in SESSION_ARGUMENTS for p in command.params):
            found.append(([*words, "zzz-nosuch"], 1))
    return found


@pytest.mark.feature("cli.exit-status")
def test_every_command_ends_with_the_same_status_for_the_same_mistake(ran: Ctx, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in os.environ.keys() - ran.environ.keys():
        monkeypatch.delenv(name)
    for name, value in ran.environ.items():
        monkeypatch.setenv(name, value)
    wrong = []
    tried = cases()
    for words, status in tried:
        with pytest.raises(SystemExit) as ended:
            run(words)
        said = capsys.readouterr()
        if ended.value.code != status or "hint: " not in said.err or said.out:
            wrong.append((" ".join(words), ended.value.code, said.out[:60], said.err[:160]))

    assert len(tried) > 250
    assert wrong == []


@pytest.mark.feature("cli.exit-status")
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("explain", "2026-02-30"), 2, "2026-02-30 is not a day of the calendar"),
        (("explain", "2026-02-03"), 1, "no model call on 2026-02-03\nhint: nearest days with calls: 2026-09-14"),
        (("explain", "2026-09-21"), 1, "hint: the week that begins then: ctx explain 2026-09-21 --by weekly; nearest days"),
        (("cost", "2026-02"), 1, "no model call was recorded in 2026-02\nhint: months with calls: 2026-09, 2026-10"),
        (("explain", "2026-02", "--by", "monthly"), 1, "no model call was recorded in 2026-02\nhint: months with calls: 2026-09"),
        (("explain", "nosuch"), 1, "nothing matches"),
        (("hints", "--project", "nosuch"), 1, "there is no project called 'nosuch'"),
        (("sql", "delete from sessions"), 2, "DELETE is not allowed: the tables are only read"),
        (("sql", "select 1; select 2"), 2, "more than one query"),
        (("sql", ""), 2, "the query is empty"),
        (("search", "x", "--role", "nobody"), 2, "there is no role called 'nobody'"),
        (("help", "nosuch"), 2, "there is no command or group called 'nosuch'"),
        (("history", "latest", "--at", "99999"), 1, "the thread has no event 99999"),
        (("prices", "show", "gpt-5", "--day", "someday"), 2, "--day 'someday' is not a day"),
    ],
)
def test_an_error_says_what_is_wrong_and_what_to_type(ran: Ctx, words: tuple[str, ...], status: int, said: str):
    done = ran(*words, ok=False)

    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert "hint: " in done.stderr
