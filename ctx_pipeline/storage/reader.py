"""Opens the store for reading; every function of ``api`` goes through it."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.storage import open_store, wait_for_forget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_MOST_IDLE = 2
"""Stores that stay open between searches, each with a connection and the marks of its index."""

_idle: list[tuple[int, Path, Store]] = []
"""(process, home, store), the last used one last; one of a parent process is left alone, since SQLite must not be used over a fork"""

_lock = threading.Lock()


@contextmanager
def reading(settings: Settings | None = None) -> Iterator[tuple[Store, Settings]]:
    """Give the store, opened read-only, and the settings in force.

    Raises StoreError with the command to run when there is no store yet.
    """
    chosen = settings or settings_module.load()
    store = open_store(chosen, read_only=True)
    try:
        yield store, chosen
    finally:
        store.close()


@contextmanager
def searching(settings: Settings | None = None) -> Iterator[tuple[Store, Settings]]:
    """Give the store as :func:`reading` does; its search index stays open for the next question of this process.

    Opening the index and reading its small tables takes a quarter of a question's time. An index that was
    changed or replaced meanwhile is noticed where it is asked. No two threads are given the same store.
    """
    chosen = settings or settings_module.load()
    wait_for_forget(chosen.home)
    store = _idle_store(chosen) or open_store(chosen, read_only=True)
    try:
        yield store, chosen
    except BaseException:
        store.close()
        raise
    _keep(chosen.home, store)


def _idle_store(settings: Settings) -> Store | None:
    """Return an idle store of these settings whose ledger is still there."""
    with _lock:
        for number in range(len(_idle) - 1, -1, -1):
            process, home, _ = _idle[number]
            if process == os.getpid() and home == settings.home:
                store = _idle.pop(number)[2]
                break
        else:
            return None
    if (settings.home / "ledger.db").is_file():
        return store
    store.close()
    return None


def _keep(home: Path, store: Store) -> None:
    # what a regular expression read by Arrow would stay in memory with the lake
    store.__dict__.pop("lake", None)
    here = os.getpid()
    with _lock:
        _idle.append((here, home, store))
        own = [held for held in _idle if held[0] == here]
        dropped = own[:-_MOST_IDLE]
        for held in dropped:
            _idle.remove(held)
    for _, _, old in dropped:
        old.close()


@atexit.register
def _close() -> None:
    for process, _, store in _idle:
        if process == os.getpid():
            store.close()
