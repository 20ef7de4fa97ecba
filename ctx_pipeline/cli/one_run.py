"""One run of all stages: what ``ctx run`` does once, and ``ctx run --watch`` whenever an agent has written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.cli.output import ProgressLine, age, counted, one_line, say
from ctx_pipeline.model.display import size

if TYPE_CHECKING:
    from ctx_pipeline.pipeline.background import WarmProcess
    from ctx_pipeline.pipeline.capture import Scan
    from ctx_pipeline.pipeline.run import Outcome
    from ctx_pipeline.pipeline.run_report import RunReport
    from ctx_pipeline.settings import Settings


_DAGSTER_LATE, _DAGSTER_LAST = 1024**3 // 4, 1024**3
"""With more bytes to read Dagster is imported while the tail is made, which leaves a processor idle; with more than the second,
once all is made: the second that takes matters less than its 140 MB."""


class Done(NamedTuple):
    """What a run found in the homes, what it made of that, and whether there was anything to make."""

    scan: Scan
    report: RunReport
    changed: bool


def bring_up_to_date(settings: Settings, *, full: bool = False, quiet: bool = False, warm: WarmProcess | None = None) -> Done:
    """Run every stage over what changed and return what was done.

    ``warm`` is a process that works ahead and was begun before; without one it is begun
    here. ``quiet`` leaves out what is said on standard error while it runs.
    """
    from ctx_pipeline.pipeline import capture, plan
    from ctx_pipeline.pipeline.repair import damaged_outputs
    from ctx_pipeline.pipeline.repair.missing_outputs import reconcile_missing_outputs
    from ctx_pipeline.pipeline.run import graph_installed, run_stages, summary
    from ctx_pipeline.storage import open_store

    began = time.monotonic()
    with open_store(settings) as store:
        store.journal.demand()
        for sentence in damaged_outputs.release_damaged(store, settings):
            say(sentence, fg="yellow", err=True)
        reconcile_missing_outputs(store)
        scan = capture.scan(store, settings)
        if not quiet and not store.ledger.sources():
            _say_first_run(scan)
        todo = plan.plan(store, settings, scan)
        nothing = todo.nothing_to_do and not full
        if nothing:
            capture.note_times(store, scan)
        if nothing or graph_installed():
            outcome = None if nothing else _execute(settings, scan, quiet=quiet, full=full, warm=warm)
            if outcome is None or not outcome.held:
                damaged_outputs.note(store)
            report = summary(store, settings, outcome, seconds=time.monotonic() - began, todo=todo)
        else:
            with ProgressLine(quiet=quiet) as progress:
                report = run_stages(store, settings, scan=scan, progress=progress, todo=todo)
    if not nothing:
        from ctx_pipeline.sessions.states.handoff import ready

        ready(settings)
    if not settings.demo_roots and settings.in_team:
        _publish(settings)
    return Done(scan, report, not nothing)


def _execute(settings: Settings, scan: Scan, *, quiet: bool, full: bool, warm: WarmProcess | None) -> Outcome:
    """Run every stage; other processes work ahead while Dagster is imported here and records what they did."""
    from ctx_pipeline.pipeline.background import PARTS, start

    with ProgressLine(quiet=quiet) as progress, warm.begun(settings, scan) if warm else start(settings, scan) as ahead:
        octets = sum(one.size for one in scan.pending)
        for part in PARTS if octets > _DAGSTER_LAST else PARTS[:-1] if octets > _DAGSTER_LATE else ():
            ahead.wait(part, progress)
        from ctx_pipeline.defs import launch

        return launch.run(settings, ahead=ahead, progress=progress, full=full)


def _publish(settings: Settings) -> None:
    """Send the team what its policies share, where this machine does so by itself, and tell it in one line."""
    from ctx_pipeline.team.auto import publish_quietly

    if line := publish_quietly(settings):
        say(one_line(line, 400), err=True)


_BYTES_A_SECOND, _FILE_SECONDS, _ALWAYS_SECONDS = 15_000_000, 0.008, 3.0
"""What a first run takes on two processors: 500 MB in 687 files 18 to 38 s, 45 MB in 5,000 files 57 s (docs/performance-log.md)."""


def _say_first_run(scan: Scan) -> None:
    """Say on standard error how much there is to read, and about how long that takes where one would wonder."""
    octets = sum(one.size for one in scan.pending)
    seconds = _ALWAYS_SECONDS + octets / _BYTES_A_SECOND + len(scan.pending) * _FILE_SECONDS
    wait = f", about {age(seconds)}" if seconds >= 5 else ""
    say(f"first run: {counted(len(scan.pending), 'file')}, {size(octets)}{wait}; later runs read only what is new", err=True)
