"""Completion in real shells: sessions, projects, signals, hosts and groups of commands."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

SESSION = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
CASES = [
    ("ctx show 51b3", SESSION),
    ("ctx list --project book", "bookshop-api"),
    ("ctx cost book", "bookshop-api"),
    ("ctx signal evidence user_corr", "user_correction_count"),
    ("ctx usage daily --host cod", "codex"),
    ("ctx help pipe", "pipeline"),
]


@pytest.fixture(scope="module")
def shelled(ran: Ctx) -> Ctx:
    """The store of the sample homes, and ``ctx`` as a program on the path."""
    programs = ran.folder / "programs"
    programs.mkdir(exist_ok=True)
    program = programs / "ctx"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ctx_pipeline "$@"\n')
    program.chmod(0o755)
    return Ctx(ran.folder, {**ran.environ, "PATH": f"{programs}:{ran.environ['PATH']}", "TERM": "xterm"})


def needed(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} here")
    return found


@pytest.mark.slow
@pytest.mark.feature("cli.completion", "cli.session-completion")
@pytest.mark.parametrize(("typed", "completed"), CASES)
def test_bash_completes(shelled: Ctx, typed: str, completed: str):
    words = typed.split()
    asked = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _ctx_completion ctx; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    script = f"source <(ctx completion bash); {asked}"
    done = subprocess.run([needed("bash"), "-c", script], env=shelled.environ, capture_output=True, text=True, check=True)

    assert done.stdout.split() == [completed]


@pytest.mark.slow
@pytest.mark.feature("cli.completion", "cli.session-completion")
@pytest.mark.parametrize(("typed", "completed"), CASES)
def test_fish_completes(shelled: Ctx, typed: str, completed: str):
    script = f"ctx completion fish | source; complete -C {shlex.quote(typed)}"
    done = subprocess.run([needed("fish"), "--no-config", "-c", script], env=shelled.environ, capture_output=True, text=True, check=True)

    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [completed]


@pytest.mark.slow
@pytest.mark.feature("cli.completion", "cli.session-completion")
@pytest.mark.parametrize(("typed", "completed"), CASES[:2])
def test_zsh_completes_what_is_typed(shelled: Ctx, tmp_path: Path, typed: str, completed: str):
    shell = needed("zsh")
    process, screen = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execve(shell, [shell, "-f", "-i"], shelled.environ | {"PS1": "> ", "ZDOTDIR": str(tmp_path)})
    try:
        begin = f'autoload -Uz compinit; compinit -u -d {tmp_path}/dump; eval "$(ctx completion zsh)"; echo rea""dy\n'
        os.write(screen, begin.encode())
        assert "ready" in shown(screen, "ready")
        os.write(screen, f"{typed}\t".encode())
        assert completed in shown(screen, completed)
    finally:
        os.close(screen)
        os.waitpid(process, 0)


def shown(screen: int, wanted: str) -> str:
    """Return what a terminal shows until a text is there, half a minute at most."""
    printed, until = "", time.monotonic() + 30
    while wanted not in printed and time.monotonic() < until:
        if select.select([screen], [], [], 0.5)[0]:
            printed += os.read(screen, 65_536).decode(errors="replace")
    return printed
