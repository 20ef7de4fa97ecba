"""``ctx schedule``: what the operating system starts by itself, entered, shown and taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import confirm, emit, json_option, plain, say, table
from ctx_pipeline.errors import SettingsError, UsageError

if TYPE_CHECKING:
    from ctx_pipeline.integrations.os_scheduler import Job

NAMES = ("sync", "run")
EVERY = 15


@click.group()
def schedule() -> None:
    """Capture and nightly run without a person: timers of systemd on Linux, agents of launchd on macOS."""


def jobs(every: int, nightly: str | None) -> list[Job]:
    """Return the jobs that these words mean; raises UsageError for a time that is none."""
    from ctx_pipeline.integrations.os_scheduler import Job
    from ctx_pipeline.settings import time_of_day

    found = [Job("sync", every_minutes=every)]
    if nightly is None:
        return found
    try:
        return [*found, Job("run", at=time_of_day(nightly, "nightly"))]
    except SettingsError as error:
        raise UsageError(error.message, hint="write hours and minutes: --nightly HH:MM") from error


@schedule.command()
@click.option("--every", default=EVERY, show_default=True, type=click.IntRange(1, 1440), help="Minutes between two captures (ctx sync).")
@click.option("--nightly", metavar="HH:MM", help="Local time of the whole run (ctx run); default: nightly of config.toml.")
@click.option("--no-nightly", is_flag=True, help="Capture only.")
@click.option("--dry-run", is_flag=True, help="Show the files and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def install(every: int, nightly: str | None, no_nightly: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Let the operating system capture what agents write, and bring everything up to date at night.

    Installed for this user and this store only; installing again replaces it.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations.os_scheduler import Timers

    settings = settings_module.load()
    timers = Timers(settings)
    wanted = jobs(every, None if no_nightly else nightly or settings.nightly)
    units = [(job, unit) for job in wanted for unit in timers.units(job)]
    if dry_run:
        if as_json:
            emit({"jobs": [{"job": job.name, "when": job.when, "path": str(unit.path), "text": unit.text} for job, unit in units]})
        else:
            for _, unit in units:
                say(f"{unit.path}", bold=True)
                say(unit.text)
        return
    if not yes:
        for job in wanted:
            say(f"ctx {job.name} {job.when}", err=True)
        confirm(f"Write {', '.join(str(unit.path) for _, unit in units)} and switch {'it' if len(wanted) == 1 else 'them'} on?")
    written = [{"job": job.name, "when": job.when, "files": [str(path) for path in timers.install(job)]} for job in wanted]
    if no_nightly:
        timers.remove("run")
    if as_json:
        emit({"jobs": written})
    else:
        for one in written:
            say(f"ctx {one['job']} {one['when']}")
        say("ctx schedule status tells when it last ran; ctx schedule uninstall ends it")


@schedule.command()
@json_option
def status(as_json: bool) -> None:
    """Show which jobs are installed, whether they are on, and how they last ended."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations.os_scheduler import Timers, last_runs

    settings = settings_module.load()
    runs = last_runs(settings)
    rows: list[dict[str, Any]] = []
    for one in Timers(settings).installed(NAMES):
        note = runs.get(one.name, {})
        told = {"last": note.get("began"), "ok": note.get("ok"), "seconds": note.get("seconds"), "said": note.get("said")}
        rows.append({"job": one.name, "on": one.on, "path": str(one.path), **told})
    if as_json:
        emit({"jobs": rows})
        return
    if not rows:
        say("nothing is scheduled; ctx schedule install")
        return
    shown = [{**r, "on": "on" if r["on"] else "off", "last": r["last"] or "never", "ended": _ended(r)} for r in rows]
    table(shown, {"job": "job", "on": "", "last": "last ran", "ended": "ended", "path": "installed in"})


def _ended(row: dict[str, Any]) -> str:
    if row["ok"] is None:
        return ""
    return f"succeeded in {row['seconds']} s" if row["ok"] else f"failed: {plain(str(row['said']))}"


@schedule.command()
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def uninstall(yes: bool, as_json: bool) -> None:
    """Switch the jobs of this store off and delete their files."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations.os_scheduler import Timers

    timers = Timers(settings_module.load())
    found = timers.installed(NAMES)
    if found and not yes:
        confirm(f"Delete {', '.join(str(one.path) for one in found)}?")
    removed = [str(path) for name in NAMES for path in timers.remove(name)]
    if as_json:
        emit({"removed": removed})
    else:
        say("\n".join(f"removed {path}" for path in removed) or "nothing was scheduled")


@schedule.command("run-now")
@click.argument("job", type=click.Choice(NAMES), default="run")
@json_option
def run_now(job: str, as_json: bool) -> None:
    """Do now what a job does, and note how it ended; this is what the timers start."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations.os_scheduler import run_job

    note = run_job(settings_module.load(), job)
    if as_json:
        emit({"job": job, **note})
    else:
        say(plain(note["said"]) or f"{job} {'succeeded' if note['ok'] else 'failed'}", err=not note["ok"])
    if not note["ok"]:
        raise SystemExit(1)
    if not note["ok"]:
        raise SystemExit(1)
