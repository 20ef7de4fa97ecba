"""Which transcripts a host's own clean-up is about to delete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings

SOON = 5
"""Days before its deletion from which a transcript is about to go."""

_MANY_YEARS = 10
"""Years from which a time to keep is told in years: a setting of 99999 days means never."""
_DAY_NS = 86_400 * 10**9


class HomeFile(NamedTuple):
    """A file that lies in a home now."""

    host: str
    root: str
    kind: str
    mtime_ns: int
    captured: bool
    """the store has all of it"""


class HomeRetention(NamedTuple):
    """One home: how long its host keeps transcripts (``days`` is None: for ever) and what of it goes within ``SOON`` days."""

    host: str
    root: str
    days: int | None
    transcripts: int
    oldest_days: int | None
    """age of the oldest transcript"""
    leaving: int
    uncaptured: int
    """of those that are leaving, how many have bytes that the store lacks"""
    missing: int = 0
    """of all of them, how many have bytes that the store lacks"""

    @property
    def title(self) -> str:
        """Name of the host as people know it."""
        known = discovery.hosts()
        return known[self.host].title if self.host in known else self.host

    @property
    def _deletion(self) -> str:
        if self.days is None:
            return "keeps transcripts for ever"
        years = self.days // 365
        return f"keeps transcripts for {years:,} years" if years >= _MANY_YEARS else f"deletes transcripts after {self.days} days"

    @property
    def message(self) -> str:
        """The facts as a sentence."""
        said = f"{self.title} {self._deletion} in {self.root}: {self.transcripts:,} there"
        if self.oldest_days is not None:
            said += f", the oldest {self.oldest_days} days old"
        if self.leaving:
            said += f"; {self.leaving:,} go within {SOON} days" + (f", {self.uncaptured:,} of them not captured" if self.uncaptured else "")
        if self.transcripts:
            said += f"; {self.missing:,} not captured yet: ctx sync" if self.missing else f"; all {self.transcripts:,} captured"
        return said


def retention_of_homes(
    settings: Settings, files: Iterable[HomeFile], *, hosts: Mapping[str, Host] | None = None, now_ns: int | None = None
) -> list[HomeRetention]:
    """Return every home whose host deletes transcripts, or says that it does not, with what of these files is about to go.

    Nothing is read but the hosts' settings. ``now_ns`` is in nanoseconds since 1970.
    """
    known = discovery.hosts() if hosts is None else hosts
    now = time.time_ns() if now_ns is None else now_ns
    lying: dict[tuple[str, str], list[HomeFile]] = {}
    for file in files:
        if file.host in known and file.kind in known[file.host].files.session_kinds:
            lying.setdefault((file.host, file.root), []).append(file)
    found = []
    for host in known.values():
        if host.files.retention_days is None:
            continue
        for root in settings.roots_of(host):
            days = host.files.retention_days(root)
            here = lying.get((host.key, str(root)), [])
            going = [f for f in here if days is not None and f.mtime_ns <= now - max(0, days - SOON) * _DAY_NS]
            oldest = (now - min(f.mtime_ns for f in here)) // _DAY_NS if here else None
            missing, gone = (sum(not f.captured for f in files) for files in (here, going))
            found.append(HomeRetention(host.key, str(root), days, len(here), oldest, len(going), gone, missing))
    return found
