"""What an extension file declares: a host, a signal, a mining method, a panel.

A declaration is a frozen value made by a decorator or a call; nothing registers at
import. :mod:`ctx_pipeline.discovery` scans the folders and finds the values.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ctx_pipeline.model.raw import Identity, Parsed, SessionInput


@dataclass(frozen=True, slots=True)
class Database:
    """How a host's SQLite database is captured: its rows as canonical JSON lines, one stream a name.

    ``tables`` are captured with whatever columns they have (chosen by inspection), in
    ``order_by`` of each. With ``split_by`` each value of that column is a stream of its
    own that gathers the rows of all tables; without it each table is one stream.
    :mod:`ctx_pipeline.storage.databases` runs it, read-only. A line is
    ``{"row": {column: value}, "table": name}`` with sorted keys.
    """

    tables: tuple[tuple[str, str], ...]
    """(table, column to order by)"""
    split_by: str = ""
    split_as: Mapping[str, str] = field(default_factory=dict)
    """table -> its own name of the ``split_by`` column, where it differs"""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """table -> the columns that are read, all where it is not named; leave out those that change with every use"""
    prefer_first: bool = False
    """Only the first table is read where it has rows of a stream (the others repeat what it says)."""
    append_only: bool = False
    """Rows of the first table are only ever added: their number and last key tell whether it changed."""


@dataclass(frozen=True, slots=True)
class Host:
    """A program whose sessions are captured: where its files lie and how to read them.

    classify(rel) names the stream kind of a path relative to the home ("transcript",
    "agent", ...), or None when it is not captured. ``session_kinds`` are the kinds that
    belong to a session; the others describe the home and may give hints.
    enter(rel) says whether a folder is worth scanning. identify(kind, rel, head) tells
    whose a session stream is, from the path and its first bytes; None means "not yet"
    (the head is cut) or "nobody's". parse(SessionInput) makes rows and must never raise
    on hostile input. hints(kind, data) yields (thread_id, field, value) from streams
    that are not a session's.
    """

    key: str
    title: str
    version: int
    roots_env: str
    roots_default: tuple[str, ...]
    classify: Callable[[str], str | None]
    enter: Callable[[str], bool]
    identify: Callable[[str, str, bytes], Identity | None]
    parse: Callable[[SessionInput], Parsed]
    session_kinds: frozenset[str]
    aliases: tuple[str, ...] = ()
    resume: str = ""
    """Command that resumes a session in its agent, with ``{session_id}``."""
    databases: Mapping[str, Database] = field(default_factory=dict)
    """stream kind -> how it is read; such files are not copied byte for byte. rel of a stream is ``<path>#<name>``."""
    hints: Callable[[str, bytes], Iterable[tuple[str, str, str]]] | None = None
    retention_days: Callable[[Path], int | None] | None = None
    """Days after which the host deletes transcripts in this home; None: never."""
    sensor_name: str = ""
    """Name of the sensor that observes this host; empty: ``<key>_sensor``."""
    usage: Callable[[SessionInput], Parsed | None] | None = None
    """The model calls of a session, faster than ``parse`` and equal to its own but for
    their places in the file; of the facts only cwd, repository and parent session. None
    where only ``parse`` can tell, as for copies, forks and sidechains."""
    usage_kinds: frozenset[str] = frozenset()
    """Kinds of a session's streams that hold model calls; empty: all."""
    limits: Callable[[bytes], Iterable[tuple[int, str, float, int, int | None]]] | None = None
    """The host's own account of its rate limits in a stream: (time of the record,
    name of the limit, percent used, minutes of the window, time of its reset)."""
    announced: bool = False
    """Files in ``$CTX_HOME/stores`` name further roots of this host."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a signal says of one session; ``value`` None goes with a ``reason``."""

    value: float | bool | str | None
    evidence: tuple[str, ...] = ()
    reason: str | None = None
    confidence: float = 1.0
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A measurement over one session. ``describe`` is the docstring: first what it is, then how to read it."""

    name: str
    family: str
    version: int
    group: str
    kind: str
    unit: str
    better: str
    """higher, lower or neither"""
    method: str
    reads: tuple[str, ...]
    """tables it needs: events, tool_calls, model_calls, threads"""
    describe: str
    function: Callable[[Any], Reading | None] = field(compare=False)
    kinds: tuple[str, ...] = ()
    """kinds of events that the function looks at; empty: all. The others may be missing in its view."""


def signal(
    *,
    version: int = 1,
    group: str,
    kind: str = "numeric",
    unit: str = "",
    better: str = "neither",
    method: str = "heuristic",
    reads: Sequence[str] = ("events", "tool_calls"),
    kinds: Sequence[str] = (),
    name: str = "",
) -> Callable[[Callable[[Any], Reading | None]], Signal]:
    """Declare the decorated function, from a session view to a Reading, as a signal."""

    def declare(function: Callable[[Any], Reading | None]) -> Signal:
        return Signal(
            name=name or function.__name__,
            family=function.__module__.rpartition(".")[2],
            version=version,
            group=group,
            kind=kind,
            unit=unit,
            better=better,
            method=method,
            reads=tuple(reads),
            describe=inspect.cleandoc(function.__doc__ or ""),
            function=function,
            kinds=tuple(kinds),
        )

    return declare


@dataclass(frozen=True, slots=True)
class Method:
    """A mining method: ``extract`` per session, and ``combine`` over all candidates where history is needed."""

    name: str
    version: int
    describe: str
    extract: Callable[[Any], Iterable[Any]] = field(compare=False)
    combine: Callable[[Sequence[Any]], Iterable[Any]] | None = field(default=None, compare=False)
    reads: tuple[str, ...] = ("events", "tool_calls")
    families: tuple[str, ...] = ()
    """signal families whose readings it reads"""
    deterministic: bool = True
    kinds: tuple[str, ...] = ()
    """kinds of events that ``extract`` looks at; empty: all. The others may be missing in its view."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the dashboard: ``build`` turns page data into HTML; lower ``order`` stands higher."""

    name: str
    title: str
    order: int
    describe: str
    build: Callable[[Any], str] = field(compare=False)


def panel(*, title: str, order: int) -> Callable[[Callable[[Any], str]], Panel]:
    """Declare the decorated function as a panel of the page."""

    def declare(function: Callable[[Any], str]) -> Panel:
        return Panel(function.__module__.rpartition(".")[2], title, order, inspect.cleandoc(function.__doc__ or ""), function)

    return declare
