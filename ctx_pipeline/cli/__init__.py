"""The command ``ctx``: what an agent's hook runs is answered at once, all else is in :mod:`.root`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Any

_NEW_OBJECTS = 50_000
"""New objects after which the collector of cycles looks: a command imports hundreds of thousands that live as long as it does."""


def process() -> None:
    """Run ``ctx`` as this process, which ends without taking apart what it imported: after Dagster that takes a third of a second."""
    gc.set_threshold(_NEW_OBJECTS)
    status = 0
    try:
        main()
    except SystemExit as ended:
        threads = sys.modules.get("threading")
        if not isinstance(ended.code, int) or (threads is not None and threads.active_count() > 1):
            raise
        status = ended.code
    atexit._run_exitfuncs()  # noqa: SLF001 - as multiprocessing ends its own children
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(status)


def main(args: list[str] | None = None) -> None:
    """Run ``ctx`` and exit: 0 done, 1 it failed, 2 wrong usage, 130 interrupted."""
    words = sys.argv[1:] if args is None else args
    if words[:1] == ["hook"]:
        # runs at every prompt of an agent: click alone would take a fifth of its time
        try:
            from ctx_pipeline.cli.integrations.hook import answer

            answer(words[1:])
        except BaseException:  # noqa: BLE001 - no memory to import, to begin a thread or to write a line, or a signal: the agent goes on
            os._exit(0)
        return
    try:
        from ctx_pipeline.cli import little_memory
        from ctx_pipeline.cli.root import run

        little_memory.guard()
        run(args)
    except KeyboardInterrupt:  # while a module was imported, where no command could say so
        sys.stderr.write("interrupted\n")
        sys.exit(130)


def __getattr__(name: str) -> Any:
    """Return the group of all commands, imported when it is asked for."""
    if name == "cli":
        from ctx_pipeline.cli.root import cli

        return cli
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
