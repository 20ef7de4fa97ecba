"""Ingest in a process of its own, while this one imports Dagster."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import CtxError, StoreError
from ctx_pipeline.stages.reports import reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.stages import StageReport
    from ctx_pipeline.stages.capture import Scan

_HEAVY = ("pyarrow", "numpy", "duckdb", "dagster")


class Ingesting:
    """An ingest that may be under way elsewhere; :meth:`wait` gives its reports."""

    def __init__(self, settings: Settings, scan: Scan) -> None:
        self._settings = settings
        self._scan = scan
        self._process: Any = None
        self._pipe: Any = None

    def launch(self) -> None:
        """Fork, unless a library that keeps threads is loaded or the platform cannot."""
        if not hasattr(os, "fork") or any(name in sys.modules for name in _HEAVY):
            return
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        # not a daemon: it starts decode workers of its own
        self._process = context.Process(target=_work, args=(self._settings, self._scan, theirs), daemon=False)
        self._process.start()
        theirs.close()

    def wait(self, progress: Callable[[str, int, int], None] | None = None) -> list[StageReport]:
        """Return the stage reports; raises what the ingest raised."""
        if self._process is None:
            return _ingest(self._settings, self._scan, progress)
        try:
            while True:
                try:
                    kind, *rest = self._pipe.recv()
                except EOFError:
                    self._process.join()
                    raise StoreError(
                        f"the ingest process ended early (status {self._process.exitcode})",
                        hint="run again: it goes on where it stopped",
                    ) from None
                if kind == "progress":
                    if progress:
                        progress(*rest)
                elif kind == "error":
                    raise rest[0]
                else:
                    reports: list[StageReport] = rest[0]
                    return reports
        finally:
            self._pipe.close()
            self._process.join(timeout=30)


def start(settings: Settings, scan: Scan) -> Ingesting:
    """Begin to ingest what a scan found, in another process where possible."""
    ingesting = Ingesting(settings, scan)
    ingesting.launch()
    return ingesting


def _ingest(settings: Settings, scan: Scan, progress: Callable[[str, int, int], None] | None) -> list[StageReport]:
    from ctx_pipeline.stages.forget import kept_forgotten
    from ctx_pipeline.stages.ingest import ingest
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store, kept_forgotten(store, settings):
        return ingest(store, settings, scan=scan, progress=progress)


def _work(settings: Settings, scan: Scan, pipe: Any) -> None:
    try:
        reports = _ingest(settings, scan, lambda *step: pipe.send(("progress", *step)))
    except CtxError as error:
        pipe.send(("error", error))
    except Exception as error:  # noqa: BLE001 - it is raised again in the parent, without its text
        pipe.send(("error", StoreError(f"ingest failed: {reason(error)}", hint="ctx doctor tells more")))
    else:
        pipe.send(("done", reports))
    finally:
        pipe.close()
