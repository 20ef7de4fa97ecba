"""``ctx run --watch``: a run whenever an agent has written, by processes that keep what they imported."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.cli.one_run import bring_up_to_date
from ctx_pipeline.cli.output import counted, emit, flush, one_line, say
from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.pipeline.background import WarmProcess
    from ctx_pipeline.pipeline.capture.changes import Changes
    from ctx_pipeline.settings import Settings

LOOK_SECONDS = 60.0
"""How often all homes are looked at, whatever the system tells."""

AGAIN_SECONDS = 5.0
"""After so long a run that failed as a whole is tried again."""

SHORTEST_SECONDS, LONGEST_SECONDS, _SHARE = 2.0, 90.0, 10
"""A run is followed by a pause of so many of its times, a tenth of a processor, in these limits."""

_WRITTEN_SECONDS = 2.0
"""After so long without a change a program that is replaced counts as written."""

MOST_BYTES = 400 * 1024 * 1024
"""Memory of one of the two processes above which both begin anew."""

_ENDINGS = {signal.SIGINT, signal.SIGTERM}

_PACKAGE = Path(__file__).resolve().parents[1]

AGE_SECONDS = 3600.0
"""After so long both begin anew: what they know of folders and their repositories may have changed."""


def pause(took: float, every: float | None = None) -> float:
    """Return the seconds that pass after a run of so many before the next, unless a person chose another pause."""
    return every if every is not None else min(LONGEST_SECONDS, max(SHORTEST_SECONDS, _SHARE * took))


def watch_homes(
    *, demo: bool, full: bool, explain: Callable[[Any], None] | None, as_json: bool, every: float | None, parent: int | None
) -> None:
    """Run whenever an agent has written, until Ctrl-C, SIGTERM, or the end of the process ``parent``.

    What is written is captured within seconds; everything made of it follows as often as
    takes a tenth of a processor.
    """
    told = _RunLines(explain, as_json)
    with ExitStack() as open_, suppress(KeyboardInterrupt):
        signal.signal(signal.SIGTERM, _interrupt)
        watch = _Watch(demo, full, told, open_, every, parent)
        try:
            watch.go()
        except _BeginAnew:
            pass
        except Exception as error:
            if not _is_interrupt(error):
                raise
            return
        else:
            return
        told.line("begins anew")
        open_.close()
        flush()
        if watch.over():
            return
        words = [word for word in sys.argv[1:] if word != "--full"]
        os.execv(sys.executable, [sys.executable, "-P", "-m", "ctx_pipeline", *words])  # noqa: S606 - this program once more


def _is_interrupt(error: BaseException | None) -> bool:
    """Tell whether an interrupt is behind an error: Python 3.11 gives another type to one that comes while a class is made."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class _BeginAnew(Exception):
    """The processes are too large, too old, one has ended, or their code is another now."""


@dataclass
class _RunLines:
    """What a person or a program is told of each run."""

    explain: Callable[[Any], None] | None
    as_json: bool
    last_error: str = ""
    last_note: str = ""

    def run(self, report: Any, captured: int) -> None:
        """Tell what a run did, and of how many sessions something had been ``captured`` before it."""
        self.last_error = ""
        report.sessions_parsed += captured
        if self.as_json:
            emit(
                {name: report.to_json()[name] for name in ("sessions_parsed", "cells_materialized", "seconds")} | {"failed": report.failed}
            )
            flush()
            return
        read, made = counted(report.sessions_parsed, "session"), counted(report.cells_materialized, "partition")
        self.line(f"{read} read, {made} brought up to date in {report.seconds:.1f} s")
        for error in report.failed:
            self.line(f"failed partition: {one_line(error, 200)}")
        if self.explain:
            self.explain(report)

    def watching(self, settings: Settings, folders: int) -> None:
        """Tell that everything is up to date and what is watched."""
        if not self.as_json:
            self.line(
                f"up to date; watching {counted(folders, 'folder')} of agents until Ctrl-C, page: {settings.home / 'site/index.html'}"
            )

    def note(self, text: str) -> None:
        """Tell once whose sessions these are, where they are samples."""
        if text and text != self.last_note:
            say(text, err=True)
        self.last_note = text

    def error(self, error: CtxError) -> None:
        """Tell what kept a run from being made, once until one is."""
        text = str(error)
        if text != self.last_error:
            self.last_error = text
            self.line(f"{one_line(text, 400)}; goes on watching", err=True)

    def line(self, text: str, *, err: bool = False) -> None:
        """Tell a line with the time of day."""
        say(f"{time.strftime('%H:%M:%S')} {text}", err=err or self.as_json)
        flush()


@dataclass
class _Watch:
    """The loop, and what it keeps between two runs."""

    demo: bool
    full: bool
    told: _RunLines
    open: ExitStack
    every: float | None
    parent: int | None
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        from ctx_pipeline.pipeline.background import WarmProcess

        self.warm: WarmProcess = self.open.enter_context(WarmProcess())
        self.code: dict[Path, list[tuple[str, int, int]]] = {_PACKAGE: _files(_PACKAGE)}
        self.changes: Changes | None = None
        # whoever handles a signal (Dagster while it runs, an import that raises another error), its number is told here
        self.signals, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        self.ended = False

    def go(self) -> None:
        """Run, wait, and run again."""
        changed, first, captured, due, look = True, True, 0, 0.0, 0.0
        behind = False
        while not self.over():
            now = time.monotonic()
            try:
                settings = self._settings()
                self._watched(settings)
                if now >= due and (behind or changed or now >= look):
                    self._demand_same_code(settings)
                    done = bring_up_to_date(settings, full=self.full, quiet=self.told.as_json or not first, warm=self.warm)
                    if done.changed:
                        self.told.run(done.report, captured)
                    captured, behind, self.full = 0, False, False
                    ended = time.monotonic()
                    due, look = ended + pause(0.0 if first else ended - now, self.every), ended + LOOK_SECONDS  # the first one imports
                    if first:
                        self.told.watching(settings, len(self.changes.folders) if self.changes else 0)
                    first = False
                    self._demand_small()
                elif changed:
                    behind = True  # though a hook may have captured it before
                    captured += self._capture_between_runs(settings)
                    # agents that write all the time are captured in a tenth of a processor too; a signal ends the wait
                    select.select([self.signals], [], [], min(LONGEST_SECONDS, _SHARE * (time.monotonic() - now)))
            except CtxError as error:
                self.told.error(error)
                due = look = time.monotonic() + AGAIN_SECONDS
                self._demand_worker(time.monotonic() - now)
            signal.signal(signal.SIGINT, _restored(signal.getsignal(signal.SIGINT)))
            signal.signal(signal.SIGTERM, _interrupt)
            changed = self._wait((due if behind else look) - time.monotonic())

    def _wait(self, seconds: float) -> bool:
        if self.changes is not None:
            return self.changes.wait(seconds)
        time.sleep(max(0.0, min(seconds, SHORTEST_SECONDS)))
        return True

    def _settings(self) -> Settings:
        from ctx_pipeline import settings as settings_module
        from ctx_pipeline.cli.homes import choose

        settings, note = choose(settings_module.load(), demo=self.demo)
        self.told.note(note)
        return settings

    def _watched(self, settings: Settings) -> None:
        """Watch the homes that are there now."""
        from ctx_pipeline import discovery
        from ctx_pipeline.pipeline.capture.changes import Changes

        folders = [root for host in discovery.hosts().values() for root in settings.candidate_roots(host)]
        if self.changes is None or not self.changes.watches(folders):
            if self.changes is not None:
                self.changes.__exit__()
            self.changes = Changes(folders, over=self.over)

    def _capture_between_runs(self, settings: Settings) -> int:
        """Capture and index what is new, as a hook does; return of how many sessions there was something."""
        from ctx_pipeline.pipeline import capture
        from ctx_pipeline.pipeline.background import INGEST
        from ctx_pipeline.sessions.states.handoff import ready
        from ctx_pipeline.storage import open_store

        with open_store(settings) as store:
            scan = capture.scan(store, settings)
            if scan.nothing_new:
                capture.note_times(store, scan)
                return 0
        with self.warm.begun(settings, scan, INGEST) as ahead:
            read = sum(report.totals.get("sessions_parsed", 0) for report in ahead.wait(INGEST))
        ready(settings)
        return read

    def over(self) -> bool:
        """Tell whether somebody ended it, or what began it has ended."""
        while not self.ended and select.select([self.signals], [], [], 0)[0]:
            self.ended = not _ENDINGS.isdisjoint(os.read(self.signals, 64))
        return self.ended or (self.parent is not None and os.getppid() != self.parent)

    def _demand_small(self) -> None:
        """Begin anew where one of the processes is too large or too old."""
        from ctx_pipeline.pipeline.background import resident_bytes

        if max(self.warm.bytes, resident_bytes()) > MOST_BYTES or time.monotonic() - self.began > AGE_SECONDS:
            raise _BeginAnew

    def _demand_worker(self, took: float) -> None:
        """Begin anew, after a pause, where the process that works ahead has ended: another is not forked beside threads."""
        if not self.warm.works():
            time.sleep(pause(took, self.every))
            raise _BeginAnew

    def _demand_same_code(self, settings: Settings) -> None:
        """Begin anew where the program, its prices or what a person added to it is another than what was read."""
        for folder in (_PACKAGE, settings.home / "config", settings.home / "prices"):
            files = _files(folder)
            if self.code.setdefault(folder, files) != files:
                _wait_until_written(folder, files)
                raise _BeginAnew


def _restored(handler: Any) -> Any:
    """Return the handler of Ctrl-C that interrupts, unless it is to be ignored: Dagster may have left its own."""
    return signal.SIG_IGN if handler is signal.SIG_IGN else signal.default_int_handler


def _wait_until_written(folder: Path, files: list[tuple[str, int, int]]) -> None:
    """Wait until a folder whose files are replaced stays as it is, at most a minute: an installer takes them away first."""
    for _ in range(30):
        time.sleep(_WRITTEN_SECONDS)
        before, files = files, _files(folder)
        if files == before and (files or folder != _PACKAGE):
            return


def _files(folder: Path) -> list[tuple[str, int, int]]:
    """Return path, size and time of the files below a folder, but those that Python keeps."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            with suppress(OSError):
                path = os.path.join(place, name)  # noqa: PTH118 - of a thousand files
                status = os.stat(path)  # noqa: PTH116 - the same
                found.append((path, status.st_size, status.st_mtime_ns))
    return sorted(found)
