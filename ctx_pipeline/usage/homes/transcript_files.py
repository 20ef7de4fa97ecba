"""Counts single transcripts, wherever they lie: what a file adds to usage from a line on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SourceError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS
from ctx_pipeline.usage.homes import live_usage as live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.settings import Settings

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_E = {name: place for place, name in enumerate(EVENTS.names)}


class FileUsage(NamedTuple):
    """Tokens of a file's own calls; ``input`` is without cached tokens, ``reasoning`` is inside ``output``."""

    calls: int
    input: int
    output: int
    cache_write: int
    cache_read: int
    reasoning: int
    calculated_nano: int
    """at list prices on the day of the call; calls without a known price add nothing"""
    recorded_nano: int
    client_made: int
    """answers that the host's client wrote itself (an API error, a limit): no call, though some tools count them"""
    rows: list[tuple]
    """rows of ``model_calls``, with cost and price"""


def count_file(path: Path | str, *, from_line: int = 0, beside: Iterable[Path | str] = (), settings: Settings | None = None) -> FileUsage:
    """Return what one file holds from a line on (0 is its first), each call once.

    A call belongs to the line that completes it: the last of a streamed response. Calls
    that another file of ``beside`` owns by the rules of forks and copies are left out.
    Raises SourceError for a file that no host knows.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.usage.engine import pricer

    chosen = settings or settings_module.load()
    sources = [_source(Path(p)) for p in (path, *beside)]
    counted = live.read(live.sessions(sources, chosen), whole=True)
    mine = sources[0].stream
    line, stream = _C["line"], _C["stream"]
    owned = [rows for _, rows in live.owned(counted, live.owners(live.candidates(counted)))]
    rows = pricer(chosen)([row for group in owned for row in group if row[stream] == mine and row[line] >= from_line])

    def total(*names: str) -> int:
        return sum(row[_C[name]] or 0 for row in rows for name in names)

    return FileUsage(
        len(rows),
        total("input"),
        total("output"),
        total("cache_write_5m", "cache_write_1h"),
        total("cache_read"),
        total("reasoning"),
        total("cost"),
        total("recorded_cost"),
        len(_client_made(counted, mine, from_line)),
        rows,
    )


def _client_made(counted: Iterable[live.Counted], stream: str, from_line: int) -> set[int]:
    """Return the lines of answers that no model gave."""
    return {
        event[_E["line"]]
        for one in counted
        if one.parsed is not None
        for event in one.parsed.events
        if event[_E["stream"]] == stream and event[_E["line"]] >= from_line and event[_E["subtype"]] == "synthetic"
    }


def _source(path: Path) -> live.LiveSource:
    """Return a file as a source of the home that it lies in; raises SourceError."""
    try:
        status = path.stat()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}", hint="name a transcript", path=str(path)) from error
    found = [(host, *placed) for host in discovery.hosts().values() if (placed := _placed(host, path)) is not None]
    if found:
        # one host takes any JSONL file in its home, another only what lies in a folder of its own: the longer path says more
        host, root, rel, kind = max(found, key=lambda one: one[2].count("/"))
        stream = digest(host.key, root, rel, size=16)
        return live.LiveSource(host.key, root, str(path), rel, kind, status.st_size, status.st_mtime_ns, stream)
    raise SourceError(f"{path} is no transcript of a known host", hint="name a file below a host's home", path=str(path))


def _placed(host: Host, path: Path) -> tuple[str, str, str] | None:
    """Return the home that a file would lie in if it were of a host, its path in there and its kind; None if it cannot be."""
    parts = path.absolute().parts
    for place in range(len(parts) - 1, 0, -1):
        rel = "/".join(parts[place:])
        kind = host.files.classify(rel)
        if kind is not None and kind in (host.usage.kinds or host.files.session_kinds) and kind not in host.files.databases:
            return str(Path(*parts[:place])), rel, kind
    return None
