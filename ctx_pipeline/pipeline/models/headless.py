"""Runs an agent's command line without a person: one question in, JSON lines out, in an empty folder and within limits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import SettingsError
from ctx_pipeline.model.agent_config import ASKED_BOX, ASKED_FOLDER, HeadlessAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.model.agent_config import Headless
    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings

SECONDS = 300.0
"""How long an agent may take over one question, unless the settings say otherwise."""

_MOST_BYTES = 16_000_000
_COMPLAINT = "complaint"
_MOST_COMPLAINT = 8_000
_LOOK = 0.05


class Agent(NamedTuple):
    """An agent as it is called here: what is run, with which environment, for how long, under which model's name."""

    name: str
    recipe: Headless
    program: str
    arguments: tuple[str, ...]
    environ: dict[str, str]
    seconds: float
    model: str | None


class Ran(NamedTuple):
    """What a run of an agent gave."""

    told: HeadlessAnswer
    stream: str


def agent(settings: Settings, host: Host, chosen: Mapping[str, Any]) -> Agent:
    """Return the agent of a host with what the settings choose of it: program, model, seconds. Raises SettingsError where it is missing."""
    recipe = host.agent.headless
    if recipe is None:
        raise SettingsError(f"{host.title} cannot be asked without a person", hint="ctx methods")
    named = str(chosen.get("program") or recipe.command[0])
    program = shutil.which(named, path=settings.environ.get("PATH"))
    if program is None:
        raise SettingsError(
            f"{named} is not installed, or not on PATH", hint=f"install {host.title}, or choose another method: ctx methods"
        )
    model = str(chosen["model"]) if chosen.get("model") else None
    more = tuple(part.replace("{model}", model) for part in recipe.model) if model else ()
    seconds = chosen.get("seconds")
    return Agent(
        host.key,
        recipe,
        program,
        (*recipe.command[1:], *more),
        {name: value for name, value in settings.environ.items() if name not in recipe.without},
        float(seconds) if isinstance(seconds, int | float) and seconds > 0 else SECONDS,
        model,
    )


def ask(called: Agent, question: str, schema: Mapping[str, Any]) -> Ran:
    """Ask once and return what was said with the stream as it came; never raises for what the agent does.

    The agent and all that it started are ended when it ends, when its time is over, or
    when it prints more than sixteen million bytes.
    """
    with tempfile.TemporaryDirectory(prefix=ASKED_BOX, ignore_cleanup_errors=True) as box:
        folder = Path(box, ASKED_FOLDER)
        folder.mkdir(mode=0o700)
        asked, said, form = Path(box, "question"), Path(box, "stream"), Path(box, "schema.json")
        asked.write_text(question, "utf-8")
        form.write_text(json.dumps(schema), "utf-8")
        command = [called.program, *(part.replace("{schema}", str(form)) for part in called.arguments)]
        ended = _run(command, folder, asked, said, called)
        complaint = _last_words(said.with_name(_COMPLAINT)) if ended else ""
        stream = said.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace") if said.exists() else ""
    told = called.recipe.read(_records(stream))
    if ended and not told.text:
        told = told._replace(error="; ".join(filter(None, (ended, told.error, complaint))))
    return Ran(told, stream)


def _last_words(complained: Path) -> str:
    """Return the end of what the agent printed to stderr, as one line of whole words: half of a key would look like none."""
    try:
        with complained.open("rb") as file:
            before = max(0, complained.stat().st_size - _MOST_COMPLAINT)
            file.seek(before)
            words = file.read().decode("utf-8", "replace").split()
    except OSError:
        return ""
    return " ".join(words[1:] if before else words)


def _run(command: list[str], folder: Path, asked: Path, said: Path, called: Agent) -> str:
    """Run to the end and return why there is no answer; empty when it ended well."""
    complained = said.with_name(_COMPLAINT)
    try:
        with asked.open("rb") as question, said.open("wb") as stream, complained.open("wb") as complaint:
            process = subprocess.Popen(  # noqa: S603 - the program that the person installed, arguments from the host's file
                command,
                stdin=question,
                stdout=stream,
                stderr=complaint,
                cwd=folder,
                env=called.environ,
                start_new_session=True,
            )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    ended = ""
    until = time.monotonic() + called.seconds
    try:
        while process.poll() is None and not ended:
            if time.monotonic() > until:
                ended = f"no answer within {called.seconds:g} seconds"
            elif max(said.stat().st_size, complained.stat().st_size) > _MOST_BYTES:
                ended = "it printed too much"
            else:
                time.sleep(_LOOK)
    finally:
        _end(process)
    return ended or (f"it ended with status {process.returncode}" if process.returncode else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the agent's process group."""
    kill = getattr(os, "killpg", None)
    with suppress(ProcessLookupError, PermissionError):
        if kill is not None:
            kill(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _records(stream: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream; lines that are none are passed over."""
    for line in stream.splitlines():
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found
