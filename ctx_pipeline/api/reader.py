"""Opens the store for reading; every function of ``api`` goes through it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctx_pipeline import settings as settings_module
from ctx_pipeline.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


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
