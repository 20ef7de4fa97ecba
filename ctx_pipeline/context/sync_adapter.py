"""Async objects called from ordinary code, also from inside a running event loop."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; it runs on a loop of its own thread, so the caller may be inside any loop.

    Also inside this one: a backend's own method that uses ``sync`` gets a loop for that call.
    """
    loop = _background()
    if asyncio._get_running_loop() is loop:  # noqa: SLF001 - the public name raises where there is none
        with ThreadPoolExecutor(1, "ctx-sync-inner") as inner:
            return inner.submit(asyncio.run, work).result()
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _background() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop a process, made when it is first needed
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="ctx-sync", daemon=True).start()
        return _loop


class SyncFace:
    """The same methods as the object behind it, each waiting for its result."""

    def __init__(self, behind: object) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        """Return the attribute, a method as one that waits."""
        value = getattr(self._behind, name)
        if not inspect.ismethod(value):
            return value

        @functools.wraps(value)
        def waiting(*args: Any, **named: Any) -> Any:
            async def call() -> Any:
                result = value(*args, **named)
                return await result if inspect.iscoroutine(result) else result

            return run(call())

        return waiting

    def __dir__(self) -> list[str]:
        """Return the names of the object behind."""
        return dir(self._behind)


class HasSync:
    """Gives a class with async methods the attribute ``sync``."""

    @property
    def sync(self) -> SyncFace:
        """The same methods without ``await``."""
        return SyncFace(self)


def forget_the_loop() -> None:
    """Drop the loop in a forked child, where its thread does not exist."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_the_loop)
