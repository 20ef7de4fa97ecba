"""Jobs that the operating system starts by itself: timers of systemd on Linux, agents of launchd on macOS, for this user alone."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.errors import CtxError, SettingsError
from ctx_pipeline.integrations.agent_config import program
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline.capture.retention import require_disk_space
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.settings import Settings


MARK = "written by ctx schedule install"
_SECONDS = 30
_OWN = ("CTX_HOME", "CTX_CALLBACK_STORE", "CTX_COST_MODE", "TZ")
"""Variables that a job needs as the person has them now, beside those of the hosts."""


@dataclass(frozen=True, slots=True)
class Job:
    """One thing that runs by itself: every so many minutes, or at a time of day."""

    name: str
    every_minutes: int = 0
    at: str = ""
    """local time as HH:MM, in place of ``every_minutes``"""

    @property
    def when(self) -> str:
        """When it runs, in words."""
        return f"every {self.every_minutes} minutes" if self.every_minutes else f"daily at {self.at}"


@dataclass(frozen=True, slots=True)
class Unit:
    """A file of the service manager: where it lies and what it says."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Installed:
    """A job as the service manager knows it."""

    name: str
    path: Path
    on: bool


class Timers:
    """The service manager of this user; ``platform`` is as in :data:`sys.platform`.

    Raises SettingsError for a platform that has none of ours.
    """

    def __init__(self, settings: Settings, platform: str = sys.platform) -> None:
        self._settings = settings
        self._mac = platform == "darwin"
        if not self._mac and not platform.startswith("linux"):
            raise SettingsError(f"nothing can be scheduled on {platform}", hint="let its own scheduler start: ctx run")
        self._key = digest(str(settings.home), size=8)
        self._home = Path(settings.environ.get("HOME") or Path.home())

    def units(self, job: Job) -> list[Unit]:
        """Return the files that a job consists of."""
        if self._mac:
            return [Unit(self._folder / f"{self._label(job.name)}.plist", self._plist(job))]
        name = self._label(job.name)
        return [Unit(self._folder / f"{name}.service", self._service(job)), Unit(self._folder / f"{name}.timer", self._timer(job))]

    def install(self, job: Job) -> list[Path]:
        """Write a job's files, switch it on and return them; an earlier one of its name is replaced.

        Raises SettingsError when a file cannot be written or the service manager refuses; nothing is left then.
        """
        self._switch_off(job.name)
        units = self.units(job)
        try:
            for unit in units:
                _write(unit)
        except OSError as error:
            self.remove(job.name)
            raise self._refused(job, f"{error.filename}: {error.strerror}") from error
        name = self._label(job.name)
        if self._mac:
            done = self._call("launchctl", "bootstrap", f"gui/{os.getuid()}", str(units[0].path))
        else:
            done = self._call("systemctl", "--user", "daemon-reload") or self._call(
                "systemctl", "--user", "enable", "--now", f"{name}.timer"
            )
        if done:
            self.remove(job.name)
            raise self._refused(job, done)
        return [unit.path for unit in units]

    def _refused(self, job: Job, why: str) -> SettingsError:
        return SettingsError(f"{job.name} was not scheduled: {why}", hint=f"with cron: {cron(job, self._environment())}")

    def remove(self, name: str) -> list[Path]:
        """Switch a job off, delete its files and return them; files that are not ours stay."""
        paths = [path for path in self._paths(name) if _ours(path)]
        if paths:
            self._switch_off(name)
        for path in paths:
            with suppress(FileNotFoundError):
                path.unlink()
        if paths and not self._mac:
            self._call("systemctl", "--user", "daemon-reload")
        return paths

    def installed(self, names: tuple[str, ...]) -> list[Installed]:
        """Return those of these jobs that have files of ours, and whether the service manager has them on."""
        return [Installed(n, path, self._on(n)) for n in names for path in self._paths(n)[-1:] if _ours(path)]

    @property
    def _folder(self) -> Path:
        if self._mac:
            return self._home / "Library" / "LaunchAgents"
        named = self._settings.environ.get("XDG_CONFIG_HOME", "")
        return (Path(named) if named.startswith("/") else self._home / ".config") / "systemd" / "user"

    def _label(self, name: str) -> str:
        return f"ctx-pipeline.{name}.{self._key}" if self._mac else f"ctx-pipeline-{name}-{self._key}"

    def _paths(self, name: str) -> list[Path]:
        endings = ("plist",) if self._mac else ("service", "timer")
        return [self._folder / f"{self._label(name)}.{ending}" for ending in endings]

    def _on(self, name: str) -> bool:
        if self._mac:
            return not self._call("launchctl", "print", f"gui/{os.getuid()}/{self._label(name)}")
        return not self._call("systemctl", "--user", "is-active", f"{self._label(name)}.timer")

    def _switch_off(self, name: str) -> None:
        if not any(_ours(path) for path in self._paths(name)):
            return
        if self._mac:
            self._call("launchctl", "bootout", f"gui/{os.getuid()}/{self._label(name)}")
        else:
            self._call("systemctl", "--user", "disable", "--now", f"{self._label(name)}.timer")

    def _call(self, *words: str) -> str:
        """Return why a command of the service manager failed; empty where it did what was asked."""
        path = shutil.which(words[0], path=self._settings.environ.get("PATH"))
        if path is None:
            return f"there is no {words[0]}"
        try:
            done = subprocess.run(  # noqa: S603 - the service manager, with words of our own
                [path, *words[1:]],
                env=dict(self._settings.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{words[0]}: {error}"
        said = (done.stderr or done.stdout).strip().splitlines()
        return (said[-1] if said else f"{words[0]} ended with {done.returncode}") if done.returncode else ""

    def _environment(self) -> dict[str, str]:
        names = {*_OWN, *(n for h in discovery.hosts().values() for n in (h.files.roots_env, *h.files.more_roots))}
        held: Mapping[str, str] = self._settings.environ
        return {name: held[name] for name in sorted(names) if held.get(name)}

    def _service(self, job: Job) -> str:
        words = " ".join(_quoted(word).replace("$", "$$") for word in _command(job))
        variables = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in self._environment().items())
        return (
            f"# {MARK}\n[Unit]\nDescription=ctx_pipeline: {job.name}\n\n[Service]\nType=oneshot\n{variables}"
            f"ExecStart={words}\nNice=10\nIOSchedulingClass=idle\n"
        )

    def _timer(self, job: Job) -> str:
        when = (
            f"OnBootSec=2min\nOnUnitActiveSec={job.every_minutes}min"
            if job.every_minutes
            else f"OnCalendar=*-*-* {job.at}:00\nPersistent=true"
        )
        return (
            f"# {MARK}\n[Unit]\nDescription=ctx_pipeline: {job.name}, {job.when}\n\n[Timer]\n{when}\n\n[Install]\nWantedBy=timers.target\n"
        )

    def _plist(self, job: Job) -> str:
        hour, _, minute = job.at.partition(":")
        when: dict[str, Any] = (
            {"StartInterval": job.every_minutes * 60}
            if job.every_minutes
            else {"StartCalendarInterval": {"Hour": int(hour), "Minute": int(minute)}}
        )
        said = {
            "Label": self._label(job.name),
            "ProgramArguments": _command(job),
            "EnvironmentVariables": self._environment(),
            "ProcessType": "Background",
            "LowPriorityIO": True,
            **when,
        }
        text = plistlib.dumps(said, sort_keys=False).decode()
        head, _, rest = text.partition("\n")
        return f"{head}\n<!-- {MARK} -->\n{rest}"


def _write(unit: Unit) -> None:
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    partial = unit.path.with_name(f".{unit.path.name}.{os.getpid()}")
    partial.write_text(unit.text, "utf-8")
    partial.chmod(0o600)
    partial.replace(unit.path)


def cron(job: Job, variables: Mapping[str, str]) -> str:
    """Return the line of a crontab that does what a job does, with these variables."""
    hour, _, minute = job.at.partition(":")
    if not job.every_minutes:
        when = f"{int(minute)} {int(hour)} * * *"
    elif job.every_minutes < 60:
        when = f"*/{job.every_minutes} * * * *"
    else:
        when = f"0 */{min(23, job.every_minutes // 60)} * * *"
    # a percent sign ends a command of cron
    settings = ["env", *(f"{name}={value}" for name, value in variables.items())] if variables else []
    return f"{when} {shlex.join([*settings, *_command(job)])}".replace("%", "\\%")


def _command(job: Job) -> list[str]:
    return [*program(), "schedule", "run-now", job.name]


def _quoted(text: str) -> str:
    """Return a text as one word of a systemd file."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%") + '"'


def _ours(path: Path) -> bool:
    try:
        return MARK in path.read_text("utf-8", errors="replace")[:4096]
    except OSError:
        return False


# What runs without a person: each run leaves when it ran and how it ended in schedule.json.


KEPT = "schedule.json"
JOBS: Mapping[str, tuple[str, ...]] = {"sync": ("sync",), "run": ("run",)}
"""job -> words of the command that it starts"""
_SAID = 300


def run_job(settings: Settings, name: str) -> dict[str, Any]:
    """Start a job's command, wait for it and return what was noted of it: began, seconds, ok, said (its last line).

    Nothing starts when the disk has less room than ``least_free_bytes``; that is noted
    too. The command's own leases keep two of them apart.
    """
    began = datetime.now(UTC)
    try:
        require_disk_space(settings)
        done = subprocess.run(  # noqa: S603 - this package itself
            [*program(), *JOBS[name]],
            env={**os.environ, **settings.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except (CtxError, OSError) as error:
        ok, said = False, str(error)
    else:
        ok, said = not done.returncode, (done.stderr if done.returncode else done.stdout)
    lines = [line for line in said.splitlines() if line.strip()]
    note = {
        "began": f"{began:%Y-%m-%dT%H:%M:%S}Z",
        "seconds": round((datetime.now(UTC) - began).total_seconds(), 1),
        "ok": ok,
        "said": (lines[0 if not ok else -1] if lines else "")[:_SAID],
    }
    Files(settings.home).write(KEPT, json.dumps({**last_runs(settings), name: note}).encode())
    return note


def last_runs(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return job -> what was noted of its last run; nothing where none ran or the note cannot be read."""
    try:
        found = json.loads(Files(settings.home).read(KEPT))
    except (OSError, ValueError, CtxError):
        return {}
    return {name: note for name, note in found.items() if isinstance(note, dict)} if isinstance(found, dict) else {}
