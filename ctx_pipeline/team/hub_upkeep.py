"""Upkeep of a team's tables: compaction, vacuum, and what is wrong with them, with members and with costs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctx_pipeline.storage.team_tables.delta import VACUUM_HOURS, TeamTable
from ctx_pipeline.team.hub_signals import READINGS_TABLE
from ctx_pipeline.team.missing_rows import missing_rows
from ctx_pipeline.team.published_tables import LESSONS, PUBLISHED
from ctx_pipeline.team.shard_claim import SHARDS
from ctx_pipeline.team.shards import waiting

if TYPE_CHECKING:
    from ctx_pipeline.team.hub import Hub

TABLES = (*(t.name for t in PUBLISHED), READINGS_TABLE, LESSONS)
_SMALL = 1 << 20
_MANY_SMALL = 50
_SKEW = 300.0
_LAG = 7 * 86_400.0
_STORED, _PUT, _GET = 0.023, 0.005 / 1000, 0.0004 / 1000
"""US dollars of a GB and month stored, of a write or listing, and of a read: list prices of the first region of S3, 2026-11."""
_PUTS, _GETS = 44, 115
"""Writes and listings, and reads, of a publication of one session, as counted at an S3-shaped server over twelve of them."""


def compact_tables(hub: Hub) -> int:
    """Merge small files of the team's tables and return how many went."""
    return sum(TeamTable(hub.bucket, f"team/{name}").compact() for name in TABLES)


def vacuum_tables(hub: Hub, hours: int = VACUUM_HOURS) -> int:
    """Remove files that no version of the last ``hours`` needs; 0 erases what was removed for good. Returns how many went."""
    return sum(TeamTable(hub.bucket, f"team/{name}").vacuum(hours) for name in TABLES)


@dataclass
class HubHealth:
    """What ``ctx hub doctor`` says."""

    machines: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    members: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    """members and months that could not be collected when it was tried last"""
    waiting: list[dict[str, Any]] = field(default_factory=list)
    """members whose exact transcripts no worker has made rows of: since when, and why"""
    problems: list[str] = field(default_factory=list)


def doctor(hub: Hub) -> HubHealth:
    """Return lag, versions and clocks of the machines, what failed, files of the tables, cost of each member, and what is wrong."""
    found = HubHealth()
    now = datetime.now(UTC)
    stale = {part.member for part in hub.stale()}
    for head in hub.heads():
        lag = (now - datetime.fromisoformat(head.received_at)).total_seconds()
        name = f"{head.member}/{head.machine}"
        found.machines.append(
            {
                "machine": name,
                "published": head.received_at,
                "lag_seconds": round(lag),
                "commits": head.number,
                "version": head.package,
                "clock_seconds": round(head.skew_seconds),
                "collected": head.member not in stale,
            }
        )
        if abs(head.skew_seconds) > _SKEW:
            found.problems.append(f"{name}: its clock is {head.skew_seconds:+,.0f} s off; nothing is decided by it")
        if lag > _LAG:
            found.problems.append(f"{name}: nothing published for {lag / 86_400:,.0f} days")
    for (member, machine), since in hub.said.unreadable.items():
        at = since.isoformat(timespec="seconds")
        found.problems.append(f"{member}/{machine}: what it says it sent cannot be read since {at}; the hub keeps what it has of {member}")
    unread = {member for member, _ in hub.said.unreadable}
    if not found.machines and not unread:
        found.problems.append(f"no machine has published to {hub.bucket.url}: is it the team's bucket?")
    for part, failed in hub.failures().items():
        found.failed.append({"part": part.key, **failed})
        told = f"{failed['tries']:,} {'try' if failed['tries'] == 1 else 'tries'}, the last at {failed['last']}"
        found.problems.append(f"{part.key}: not collected since {failed['since']} ({told}): {failed['why']}")
    for name, waits in waiting(hub).items():
        found.waiting.append({"member": name, **vars(waits)})
        found.problems.append(f"{name}: transcripts wait since {waits.since}: {waits.why}")
    known = {head.member for head in hub.heads()}
    sizes: dict[str, list[int]] = defaultdict(list)
    found.problems += missing_rows(hub.bucket, hub.heads())
    for entry in hub.bucket.entries():
        parts = entry.path.split("/")
        owner = (
            parts[1] if parts[0] in {"members", SHARDS} and len(parts) > 1 else next((p[7:] for p in parts if p.startswith("member=")), "")
        )
        sizes[owner].append(entry.size)
    for member in sorted(known | (sizes.keys() - {""})):
        own = sizes[member]
        commits = sum(head.number for head in hub.heads() if head.member == member)
        found.members.append(
            {"member": member, "objects": len(own), "bytes": sum(own), "commits": commits, "month_usd": month_cost(sum(own), commits)}
        )
        if member not in known | unread:
            found.problems.append(f"{member}: has objects and never said what it sent; an upload was cut off: it publishes again")
    for name in TABLES:
        table = TeamTable(hub.bucket, f"team/{name}")
        opened = table.opened()
        if opened is None:
            continue
        files = table.files()
        sizes_of = [size for sizes in files.values() for size in sizes]
        # those of one partition can be merged; the last one of each stays, however small it is
        small = sum(max(sum(size < _SMALL for size in sizes) - 1, 0) for sizes in files.values())
        found.tables.append(
            {"table": name, "version": opened.version(), "files": len(sizes_of), "small_files": small, "bytes": sum(sizes_of)}
        )
        if small > _MANY_SMALL:
            found.problems.append(f"team/{name}: {small:,} small files can be merged: ctx hub upkeep")
    return found


def month_cost(octets: int, commits: int) -> float:
    """Return US dollars of a month for what is stored and for so many commits with the requests of a publication."""
    return round(octets / 1e9 * _STORED + commits * (_PUTS * _PUT + _GETS * _GET), 4)
