"""Whether the disk has room for a capture that nobody watches."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ctx_pipeline.errors import StoreFull

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings


def require_disk_space(settings: Settings) -> None:
    """Return when the store's disk has ``least_free_bytes`` left; raises StoreFull with both figures when it has not."""
    folder = next(folder for folder in (settings.home, *settings.home.parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    if free < settings.least_free_bytes:
        raise StoreFull(
            f"{free:,} bytes are free where {settings.home} lies, fewer than least_free_bytes = {settings.least_free_bytes:,}: "
            "nothing was captured",
            hint="free some disk space, or capture anyway: ctx run",
            free=free,
        )
