"""What an extension file declares: a host, a signal, a mining method, a panel.

A declaration is a frozen value made by a decorator or a call; nothing registers at
import. :mod:`ctx_pipeline.discovery` scans the folders and finds the values.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from ctx_pipeline.model.agent_config import Agent
from ctx_pipeline.model.host_records import ShellAnswers
from ctx_pipeline.model.source_versions import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ctx_pipeline.model.host_records import Change, FileChange, LimitNotes, RivalEntry
    from ctx_pipeline.model.raw import Identity, Parsed, SessionInput, StreamBytes


WITHHELD = "redacted-"
"""How an id begins that stands for one with a secret in it."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Database:
    """How a host's SQLite database is captured: its rows as canonical JSON lines, one stream a name.

    ``tables`` are captured with whatever columns they have (chosen by inspection), in
    ``order_by`` of each. With ``split_by`` each value of that column is a stream of its
    own that gathers the rows of all tables; without it each table is one stream.
    :mod:`ctx_pipeline.storage.raw.databases` runs it, read-only. A line is
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
    key_prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """table of keys and values -> beginnings of its ``order_by`` text, such as ``item:``. Only rows whose key begins so are
    read, whatever else the table holds; a stream is named by the part of the key behind it, up to the next colon."""
    append_only: bool = False
    """Rows of the first table are only ever added: their number and last key tell whether it changed."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Formats:
    """Which fields of a host's records are known, so that a new one shows the day it is written."""

    fields: Mapping[str, frozenset[str]]
    """place of an object in a record (empty: the record; ``message.usage``) -> names of its fields"""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HomeFiles:
    """Where a host keeps its sessions, which of its files are captured, and whose each of them is.

    classify(rel) names the stream kind of a path relative to the home ("transcript",
    "agent", ...), or None when it is not captured. ``session_kinds`` are the kinds that
    belong to a session; the others describe the home and may give hints.
    enter(rel) says whether a folder is worth scanning. identify(kind, rel, head) tells
    whose a session stream is, from the path and its first bytes; None means "not yet"
    (the head is cut) or "nobody's". hints(kind, data) yields (thread_id, field, value)
    from streams that are not a session's; of a stream that grew it sees the new lines
    alone. An empty thread_id means all sessions of the stream's ``shared_folder``. The last
    value of a field stays, of one whose name begins with ``first_`` the first.
    """

    roots_env: str
    classify: Callable[[str], str | None]
    enter: Callable[[str], bool]
    identify: Callable[[str, str, bytes], Identity | None]
    session_kinds: frozenset[str]
    roots_default: tuple[str, ...] = ()
    more_roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """environment variable -> default places, of homes beside those of ``roots_env``: a host that keeps its sessions in
    more than one program. A place that begins with ``$NAME/`` counts where the variable is set."""
    layout: Callable[[Path], tuple[Callable[[str], str | None], Callable[[str], bool]] | None] | None = None
    """``classify`` and ``enter`` of a root that is laid out otherwise than a home; None for a home."""
    databases: Mapping[str, Database] = field(default_factory=dict)
    """stream kind -> how it is read; such files are not copied byte for byte. rel of a stream is ``<path>#<name>``."""
    hints: Callable[[str, bytes], Iterable[tuple[str, str, str]]] | None = None
    shared_folder: Callable[[str], str | None] | None = None
    """shared_folder(rel) names the folder, such as that of a workspace, of which all streams of its sessions know what a hint
    without a thread says; the parser finds it in the hints under that name."""
    retention_days: Callable[[Path], int | None] | None = None
    """Days after which the host deletes transcripts in this home; None: never."""
    prompt_history: Callable[[str, bytes], Iterable[tuple[str, int]]] | None = None
    """prompt_history(kind, data) yields (session id, microseconds since 1970) of prompts that a stream
    of the home remembers: what it names and nobody captured was deleted before."""
    open_sessions: Callable[[Path], Iterable[str]] | None = None
    """open_sessions(home) yields the ids of the sessions that a program has open now, as marks in the home say."""
    announced: bool = False
    """Files in ``$CTX_HOME/stores`` name further roots of this host."""
    archive_name: str = ""
    """Folder of the host in the documented flat-file archive; empty: its key."""
    project_folder: str = ""
    """Folder in the person's home and in a project that holds the host's own files, such as ``.claude``."""
    state_folders: tuple[str, ...] = ()
    """Folders in ``project_folder`` that hold the host's own notes: what the agent writes there is outside of no project."""
    worktree_folders: tuple[str, ...] = ()
    """Folders in ``project_folder`` in which each folder is a worktree of the repository."""
    rules_files: tuple[str, ...] = ()
    """Names of the files in a project whose text every session reads."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Windows:
    """Sizes of the context windows in which a host runs a model, whatever its maker publishes."""

    sizes: tuple[int, ...] = ()
    """Tokens of the windows that the host offers, the smallest first."""
    by_plan: str = ""
    """Pattern of the models that it runs in one size or another by the person's plan, which no record tells."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Records:
    """What a host's records mean. parse(SessionInput) makes rows and must never raise on hostile input."""

    parse: Callable[[SessionInput], Parsed]
    formats: Callable[[], Formats] | None = None
    """Returns the fields of JSONL records that are known; ``ctx doctor --formats`` lists the others."""
    window: Callable[[str, str | None, str | None, Callable[[], bytes]], str | Change] | None = None
    """window(kind, subtype, text, record) says where an event stands in the context window
    (:data:`ctx_pipeline.model.host_records.TURN`, ``SYSTEM`` or ``OUT``), or what its record took
    out of it; ``record()`` gives the captured bytes of the line. None: by its kind alone."""
    directories: Callable[[bytes], Iterable[tuple[int, str]]] | None = None
    """directories(data) yields (first byte of a record, working directory) where the records of a captured
    stream begin to name another one. None: the host does not say where it is."""
    changes: Callable[[bytes], Iterable[FileChange]] | None = None
    """changes(data) yields what the tool calls of a captured stream made of files, as the records tell."""
    interruptions: frozenset[str] = frozenset({"interrupt"})
    """Subtypes of the injected events of the person by which a turn was stopped."""
    named_command: str = ""
    """Pattern, at the beginning of an injected event: a slash command whose words are the prompt behind it; its group is the command."""
    compact_command: str = ""
    """Pattern, at the beginning of an injected event or a prompt: the person asked for a compaction."""
    leaving_commands: frozenset[str] = frozenset()
    """Slash commands, as ``named_command`` finds them, by which the person leaves the agent."""
    command: str = ""
    """Pattern, at the beginning of an injected event: a command of the person that the model carries out; its group is the command."""
    shell_command: str = ""
    """Pattern, at the beginning of an injected event: a command line that the person ran in the prompt; its group is the line."""
    shell_output: str = ""
    """Pattern, at the beginning of an injected event: what such a command printed."""
    warm_up: str = ""
    """Pattern: the whole order of a subagent that the host starts before anybody asks for something, to have its prompt cached."""
    reading_agents: frozenset[str] = frozenset()
    """Kinds of subagents that have no tool which changes anything, as a call that starts one names them."""
    agent_tokens: str = ""
    """Pattern of the tokens that the answer to a call which started a subagent tells; its group is the number."""
    approval_tools: frozenset[str] = frozenset()
    """Names of the tools with which the agent asks the person for approval, of a plan or a right."""
    windows: Windows = field(default_factory=Windows)
    steps: tuple[str, ...] = ()
    """Types of the records in which somebody speaks or acts; none: that cannot be told by the type."""
    no_steps: tuple[str, ...] = ()
    """Fields that are true in such a record where nobody does, as in the summary of a compaction."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UsageRecords:
    """Where a host's usage stands, and what it says of limits."""

    read: Callable[[SessionInput], Parsed | None] | None = None
    """The model calls of a session, faster than ``Records.parse`` and equal to its own but for
    their places in the file; of the facts only cwd, repository and parent session. None
    where only ``parse`` can tell, as for copies, forks and sidechains."""
    kinds: frozenset[str] = frozenset()
    """Kinds of a session's streams that hold model calls; empty: all."""
    hint_streams: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """kind of a file in a home's top folder -> names of its database streams whose hints decide how usage is counted"""
    five_hour_windows: bool = False
    """Its plans count what is used in windows of five hours."""
    limits: Callable[[bytes], Iterable[tuple[int, str, float, int, int | None]]] | None = None
    """The host's own account of its rate limits in a stream, where it changes: (time of the record,
    name of the limit, percent used, minutes of the window, time of its reset)."""
    limits_in_event: Callable[[str, int, str], Iterable[tuple[int, str, float, int, int | None]]] | None = None
    """The same of one attachment of a session: its subtype, time and text."""
    limit_notes: LimitNotes | None = None
    """Which events say that a limit was reached, and where the plan is named."""
    other_units: Mapping[str, str] = field(default_factory=dict)
    """Field of its events of the subtype ``host_records.BILLED`` -> what it counts, in the plural (``premium requests``):
    what the host bills in other units than tokens and dollars. Never added to a cost."""
    other_tools: Mapping[str, Callable[[Iterable[StreamBytes]], Iterable[RivalEntry]]] = field(default_factory=dict)
    """other tool -> what it makes of the files of a home, by its own rules; ``ctx explain --against`` says where the two differ"""


_MOVED = {
    **dict.fromkeys(("roots_env", "roots_default", "classify", "enter", "identify", "session_kinds", "databases"), "files"),
    **dict.fromkeys(("hints", "retention_days", "announced", "archive_name"), "files"),
    **dict.fromkeys(("parse", "formats", "window", "directories", "changes"), "records"),
    **dict.fromkeys(("limits", "limit_notes"), "usage"),
    "places": "files.layout",
    "mentions": "files.prompt_history",
    "shell_tools": "shell.tools",
    "shell_answers": "shell",
    "usage": "usage.read",
    "usage_kinds": "usage.kinds",
    "usage_hints": "usage.hint_streams",
    "rivals": "usage.other_tools",
}
"""field of ``Host`` until 2026-11 -> group, or field of a group, that holds it now"""

_GROUPS = {"files": "HomeFiles", "records": "Records", "usage": "UsageRecords", "shell": "ShellAnswers"}


def _moved(names: Iterable[str]) -> str:
    """Return what to write in place of fields that ``Host`` no longer has; empty where all are known."""
    parts = []
    for name in names:
        group, _, new = _MOVED.get(name, "").partition(".")
        if group:
            field_name = new or ("" if name == "shell_answers" else name)
            parts.append(f"{name} is now {group}={_GROUPS[group]}({field_name and field_name + '=...'})")
    return "; ".join(parts)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Host:
    """A program whose sessions are captured, in five groups: files, records, usage, shell commands, and the agent itself.

    Sessions are decoded again when the source of ``Records.parse`` changes, or ``version`` is raised.
    """

    key: str
    title: str
    version: int
    files: HomeFiles
    records: Records
    usage: UsageRecords = field(default_factory=UsageRecords)
    shell: ShellAnswers = field(default_factory=ShellAnswers)
    """Which tools run shell commands, and what the records say around them."""
    agent: Agent = field(default_factory=Agent)
    """How the host's program is reached: resumed, given servers and hooks, asked without a person."""
    aliases: tuple[str, ...] = ()
    sensor_name: str = ""
    """Name of the sensor that observes this host; empty: ``<key>_sensor``."""

    def __new__(cls, *_: object, **named: object) -> Self:
        """Refuse the fields of an earlier version; raises TypeError that names the new ones."""
        if old := _moved(name for name, value in named.items() if name != "usage" or callable(value)):
            raise TypeError(f"Host has its fields in groups: {old}; see docs/hosts.md")
        return object.__new__(cls)

    @property
    def decoder(self) -> str:
        """The version of what makes rows of this host's records: as declared, and of the parser's source."""
        return f"{self.version}.{version_of(self.records.parse)}"

    def resuming(self, session_id: str, folder: str | None, *, archived: bool = False) -> str:
        """Return the command that resumes a session which began in a folder, quoted for a shell; empty where there is none.

        A folder whose name holds a secret is not told; the command then says so.
        """
        if not self.agent.resume or session_id.startswith(WITHHELD):
            return ""
        from shlex import quote

        command = self.agent.resume.format(session_id=quote(session_id))
        if archived and self.agent.unarchive:
            command = f"{self.agent.unarchive.format(session_id=quote(session_id))} && {command}"
        if self.agent.resume_in_folder and folder and "[REDACTED:" in folder:
            return f"{command}  # in its folder, whose name holds a secret"
        there = folder if self.agent.resume_in_folder and folder and folder.startswith("/") and folder.isprintable() else None
        return f"cd {quote(there)} && {command}" if there else command


@dataclass(frozen=True, slots=True)
class Reading:
    """What a signal says of one session; ``value`` None goes with a ``reason``."""

    value: float | bool | str | None
    evidence: tuple[str, ...] = ()
    reason: str | None = None
    confidence: float = 1.0
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Outside:
    """Something beyond the tables that signals rest on: asked once, kept in the journal, replayed ever after.

    ``key(session)`` names the question about a session row; while it stays the same the
    recorded answer counts. ``ask(sessions)`` yields one JSON-ready answer for each row, in
    order. A signal finds the answer in ``view.seen[name]``.
    """

    name: str
    key: Callable[[Any], str] = field(compare=False)
    ask: Callable[[Sequence[Any]], Iterable[Mapping[str, Any]]] = field(compare=False)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Judge:
    """A question about a session that a language model answers, only when a person says so.

    The answer is one of ``answers``; ``view.seen["judge:<signal>"]`` has label, confidence
    and reason, and is missing while nobody asked.
    """

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
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
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """table -> columns that the function looks at, all of a table that is not named. The others may be None in its view."""
    outside: Outside | None = None
    judge: Judge | None = None
    sql: str = ""
    """A SELECT over the tables, run by the store in place of the function; see :func:`sql_signal`."""

    @property
    def code_version(self) -> str:
        """The version of what takes the reading: as declared, and of its source."""
        module = self.function.__module__
        names = sorted(name for name, value in vars(sys.modules[module]).items() if value is self)
        return f"{self.version}.{version_of(self.function, *(f'{module}:{name}' for name in names), given=_makers(self.reads))}"


def group_of(name: str) -> str:
    """Return the name of a group of signals, also of one under the name that it had until 2026-11."""
    return "behavior" if name == "behaviour" else name


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
    columns: Mapping[str, Sequence[str]] | None = None,
    outside: Outside | None = None,
    judge: Judge | None = None,
    name: str = "",
    describe: str = "",
) -> Callable[[Callable[[Any], Reading | None]], Signal]:
    """Declare the decorated function, from a session view to a Reading, as a signal."""

    def declare(function: Callable[[Any], Reading | None]) -> Signal:
        return Signal(
            name=name or function.__name__,
            family=function.__module__.rpartition(".")[2],
            version=version,
            group=group_of(group),
            kind=kind,
            unit=unit,
            better=better,
            method=method,
            reads=tuple(reads),
            describe=describe or inspect.cleandoc(function.__doc__ or ""),
            function=function,
            kinds=tuple(kinds),
            columns={table: tuple(names) for table, names in (columns or {}).items()},
            outside=outside,
            judge=judge,
        )

    return declare


def sql_signal(
    *,
    version: int = 1,
    group: str,
    reads: Sequence[str],
    kind: str = "numeric",
    unit: str = "",
    better: str = "neither",
) -> Callable[[Callable[[], str]], Signal]:
    """Declare the decorated function, which returns a SELECT, as a signal.

    The query sees the tables of ``reads``, with the sessions of one cell, and gives the
    columns ``session_id`` and ``value``, and where it likes ``evidence`` (a list of
    event ids), ``confidence`` and ``reason``; one row a session. A session without a row
    has no value.
    """

    def declare(function: Callable[[], str]) -> Signal:
        made = signal(version=version, group=group, kind=kind, unit=unit, better=better, method="sql", reads=reads)
        return replace(made(_not_by_view(function)), sql=inspect.cleandoc(function()))

    return declare


def _not_by_view(function: Callable[[], str]) -> Callable[[Any], Reading | None]:
    @wraps(function)
    def answer(_view: Any) -> Reading:
        return Reading(None, reason="the query gave no row for this session")

    return answer


MODEL, AGENT = "model", "agent"
"""Who a mining method asks: the model that the settings name, or an installed agent without a person."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Method:
    """A mining method: ``extract`` per session, and ``combine`` over all candidates where history is needed."""

    name: str
    version: int
    describe: str
    extract: Callable[[Any], Iterable[Any]] = field(compare=False)
    combine: Callable[[Sequence[Any]], Iterable[Any]] | None = field(default=None, compare=False)
    by_repository: bool = False
    """``combine`` compares no candidates of two repositories, so that what it made of those of one is kept while they stay as they are"""
    reads: tuple[str, ...] = ("events", "tool_calls")
    families: tuple[str, ...] = ()
    """signal families whose readings it reads"""
    deterministic: bool = True
    kinds: tuple[str, ...] = ()
    """kinds of events that ``extract`` looks at; empty: all. The others may be missing in its view."""
    asks: str = ""
    """Who is asked about a session before ``extract`` reads the answer in ``view.seen[name]``: :data:`MODEL`, or
    :data:`AGENT`, the agent of the host whose :attr:`Agent.headless` names this method. Empty: nobody. Such a method
    is never part of ``all`` and no asset."""
    wants: str = ""
    """what a lesson of it needs: said where it is named and tells none"""

    @property
    def code_version(self) -> str:
        """The version of what draws the candidates of a session: as declared, and of its source."""
        return f"{self.version}.{version_of(self.extract, given=_makers(self.reads))}"


def _makers(tables: Iterable[str]) -> list[str]:
    """Return what makes those of the tables that are facts: their rows are input."""
    from ctx_pipeline.model.tables import FACT_MAKERS

    return [FACT_MAKERS[table] for table in tables if table in FACT_MAKERS]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Panel:
    """A part of the dashboard: ``build`` turns page data into HTML; lower ``order`` stands higher."""

    name: str
    title: str
    order: int
    describe: str
    build: Callable[[Any], str] = field(compare=False)
    data: Callable[[Any], Any] | None = field(default=None, compare=False)
    """What the panel's script loads when it is looked at: page data -> plain values, a file of their own in the page."""
    page: str = ""
    """title of the page that it stands on; empty for the first one"""


def panel(*, title: str, order: int, data: Callable[[Any], Any] | None = None, page: str = "") -> Callable[[Callable[[Any], str]], Panel]:
    """Declare the decorated function as a panel; ``page`` titles the page it stands on, the first one where it is empty.

    The script of a built-in one is ``assets/<its name>.js``.
    """

    def declare(function: Callable[[Any], str]) -> Panel:
        return Panel(function.__module__.rpartition(".")[2], title, order, inspect.cleandoc(function.__doc__ or ""), function, data, page)

    return declare


# A function that is imported when it is first called: what a host declares costs nothing until it is used.


class Deferred:
    """Stands for the function at ``module:name``."""

    __slots__ = ("_function", "place")

    def __init__(self, place: str) -> None:
        self.place = place
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        if self._function is None:
            module, _, name = self.place.partition(":")
            self._function = getattr(importlib.import_module(module), name)
        return self._function(*arguments, **named)

    def __repr__(self) -> str:
        """Name the function."""
        return f"Deferred({self.place!r})"
