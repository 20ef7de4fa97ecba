"""Starts Dagster's UI over the hub's code location, on the instance that ``ctx run`` records in."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ctx_pipeline.defs.instance_settings import prepare_home
from ctx_pipeline.defs.launch import instance
from ctx_pipeline.team.hub import URL, Hub

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

LOCATION = "ctx_pipeline.defs.hub_location"


def ui(settings: Settings, url: str | None = None, *, port: int = 3001) -> None:
    """Serve the hub's asset graph, tell its address, and return when it is interrupted; raises StoreError for a port that is taken."""
    from ctx_pipeline import loopback
    from ctx_pipeline.defs import web
    from ctx_pipeline.defs.hub_location import MEMBERS
    from ctx_pipeline.storage.files import Files

    hub = Hub(settings, url)
    Files(settings.home).write("hub/workspace.yaml", f"load_from:\n  - python_module: {LOCATION}\n".encode())
    with (
        suppress(KeyboardInterrupt),
        loopback.listen(port) as listener,
        web.surroundings(settings, prepare_home(settings)),
        instance(settings) as found,
    ):
        os.environ[URL] = hub.bucket.url
        found.add_dynamic_partitions(MEMBERS, sorted({part.member for part in hub.parts()}))
        sys.stderr.write("starting Dagster, about ten seconds …")
        sys.stderr.flush()
        web.serve(found, settings.home / "hub" / "workspace.yaml", listener)
