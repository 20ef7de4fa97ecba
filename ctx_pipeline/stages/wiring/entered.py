"""Which hooks run this package without being asked, and when they last did."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.stages.wiring import entries

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

LOG = "hooks.log"
"""In the store: its time is that of the last hook that captured or had something to say."""


class Entered(NamedTuple):
    """The hooks of one home of a host."""

    name: str
    kind: str
    on: bool
    last: str | None


def entered(settings: Settings) -> list[Entered]:
    """Return the homes in which hooks of ours are entered."""
    try:
        at = datetime.fromtimestamp((settings.home / LOG).stat().st_mtime, UTC)
        last = f"{at:%Y-%m-%dT%H:%M:%S}Z"
    except FileNotFoundError:
        last = None
    states = [entries.hook_state(h, home) for h in discovery.hosts().values() if h.hooks for home in entries.homes(settings, h)]
    return [Entered(f"{s.host} {', '.join(s.events) or s.way} in {s.home}", "hooks", on=True, last=last) for s in states if s.way]
