"""The ways to group usage: one entry of ``GROUPINGS`` is a command of ``ctx usage``, a table of ``ctx explain`` and a value of the API."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.shell.commands import command_text, steps
from ctx_pipeline.storage.warehouse.days import offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.homes.live_usage import Counted


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in the tables
QUARTER_HOUR = 900_000_000
"""Microseconds of the smallest step between two zones: a day of a zone begins on such a border."""
_SKILL_FILE = re.compile(
    r"(?<![\w.-])\.[a-z][\w-]{1,30}[/\\](?!worktrees[/\\])(?:[\w.@+-]{1,80}[/\\]){0,8}?skills[/\\](?:\.system[/\\])?([\w.-]{1,100})[/\\]SKILL\.md\b"
)
"""The instructions of a skill where agents install them, below a hidden folder (.codex, .agents, .claude); elsewhere they are worked on."""
_PRINTS = re.compile(r"(?<![\w./-])(?:sed|cat|head|tail|less|more|bat|nl|awk|type|Get-Content)\s")
_PLUGIN_SERVER = "mcp__plugin_"
"""Beginning of a tool's name whose server a plug-in brought: mcp__plugin_PLUGIN_SERVER__TOOL (Claude Code 2.x)."""


class Days:
    """Which day of a zone a moment falls on."""

    def __init__(self, zone: str | None) -> None:
        self._steps = offsets(zone, datetime.now(UTC).year + 2)
        self._known: dict[int, date] = {}
        self._quarters: dict[int, str] = {}

    def day(self, ts: int) -> date:
        """Return the day of a moment in microseconds since 1970."""
        quarter = ts // QUARTER_HOUR
        found = self._known.get(quarter)
        if found is None:
            found = self._known[quarter] = self.clock(ts).date()
        return found

    def quarter(self, ts: int) -> str:
        """Return the quarter of an hour of a moment as 2026-10-03 17:15, on the zone's clock."""
        number = ts // QUARTER_HOUR
        found = self._quarters.get(number)
        if found is None:
            found = self._quarters[number] = self.clock(ts).isoformat(" ", "minutes")
        return found

    def clock(self, ts: int) -> datetime:
        """Return what the zone's clock showed at the beginning of a moment's quarter of an hour."""
        moment = _EPOCH + timedelta(microseconds=ts // QUARTER_HOUR * QUARTER_HOUR)
        seconds = self._steps[0][1]
        for since, ahead in self._steps:
            if since <= moment:
                seconds = ahead
        return moment + timedelta(seconds=seconds)


class Grouping(NamedTuple):
    """One way to group usage, by exactly one of ``of_time``, ``of_session``, ``of_thread`` and ``names``; none of them groups by model."""

    name: str
    help: str
    column: str
    """key of the rows"""
    of_time: Callable[[datetime], str] | None = None
    """clock of the zone at a call, to the quarter of an hour -> name"""
    of_session: Callable[[Counted], str] | None = None
    of_thread: Callable[[bool], str] | None = None
    """whether the call is of its session's main thread -> name"""
    names: Callable[[Use], Sequence[str]] | None = None
    """what a call asked for -> names; the call is shared equally among all of them"""
    none: str = ""
    """name of the calls of which nothing of the kind is known"""
    order: tuple[str, ...] = ()
    """names in the order of the rows; by name where it is empty"""
    needs_rows: bool = False
    """a session's branch is read from all its rows, not from its calls"""
    needs_home: bool = False
    """the home of each session is looked up"""
    with_repository: bool = False
    """rows carry ``repository``, since several may have the same name"""
    quarter: bool = False
    """the key is the quarter of an hour of the zone, then the session: 2026-10-03 17:15 host/id"""
    moment: bool = False
    """the key is the number of the quarter of an hour and whether the call is of its session's main thread"""
    unit: str = ""
    """what ``ctx explain`` calls one row, where it is not the grouping's own name"""

    @property
    def reads_whole(self) -> bool:
        """Whether a session must be read with all its rows, not its calls alone."""
        return self.names is not None or self.needs_rows

    def of_use(self, use: Use) -> Sequence[str]:
        """Return the names of what a call asked for; none where calls are not shared out."""
        return self.names(use) if self.names is not None else ()

    def key(self, zone: str | None) -> Callable[[int | None, Counted, bool], Any]:
        """Return what gives the key of (time in microseconds, session, whether in its main thread)."""
        if self.moment:
            return lambda ts, _session, main: (None if ts is None else ts // QUARTER_HOUR, main)
        if self.quarter:
            quarters = Days(zone)
            return lambda ts, session, _main: None if ts is None else f"{quarters.quarter(ts)} {session.host}/{session.session_id}"
        if (of_session := self.of_session) is not None:
            none = self.none
            return lambda _ts, session, _main: of_session(session) or none
        if (of_thread := self.of_thread) is not None:
            return lambda _ts, _session, main: of_thread(main)
        if (of_time := self.of_time) is None:
            return lambda _ts, _session, _main: None
        days, known = Days(zone), dict[int, str]()

        def dated(ts: int | None, _session: Counted, _main: bool) -> str | None:
            if ts is None:
                return None
            quarter = ts // QUARTER_HOUR
            text = known.get(quarter)
            if text is None:
                text = known[quarter] = of_time(days.clock(ts))
            return text

        return dated


def _server(use: Use) -> list[str]:
    tool, action, _, _ = use
    if action != "mcp":
        return []
    if tool.startswith("mcp__"):
        return [tool.split("__")[1]]
    return [tool.rpartition(".")[0] or tool]


def _skill(use: Use) -> list[str]:
    """Return the skill that was called by its tool, or those whose instructions a shell command printed."""
    if use[3] is None:
        command = command_text(use[2]) if use[1] == "shell" else ""
        return list(dict.fromkeys(_SKILL_FILE.findall(command))) if "SKILL.md" in command and _PRINTS.search(command) else []
    try:
        arguments = json.loads(use[3])
    except (ValueError, RecursionError):
        return []
    name = (arguments.get("skill") or arguments.get("command")) if isinstance(arguments, dict) else None
    return [str(name)[:100]] if name else []


def _plugin(use: Use) -> list[str]:
    """Return the plug-in that brought a tool's server or a skill: their names carry it."""
    if use[0].startswith(_PLUGIN_SERVER):
        return [use[0][len(_PLUGIN_SERVER) :].partition("_")[0][:100]]
    return [name.partition(":")[0] for name in _skill(use) if ":" in name.strip(":")]


def _program(use: Use) -> list[str]:
    if use[1] != "shell" or not use[2]:
        return []
    return list(dict.fromkeys(step.subject[:100] for step in steps(command_text(use[2])) if step.subject))


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

GROUPINGS: dict[str, Grouping] = {
    grouping.name: grouping
    for grouping in (
        Grouping("daily", "By day, host and model.", "date", of_time=lambda t: t.date().isoformat(), unit="day"),
        Grouping(
            "weekly",
            "By week (named by its Monday), host and model.",
            "date",
            of_time=lambda t: (t.date() - timedelta(days=t.weekday())).isoformat(),
            unit="week",
        ),
        Grouping("monthly", "By month, host and model.", "date", of_time=lambda t: t.date().replace(day=1).isoformat(), unit="month"),
        Grouping("session", "By session and model.", "session_id", of_session=lambda s: s.session_id),
        Grouping("project", "By project and model.", "project", of_session=lambda s: s.project, with_repository=True),
        Grouping("model", "By model of the calls.", "model"),
        Grouping("host", "By host: the program that recorded it.", "host", of_session=lambda s: s.host),
        Grouping("weekday", "By day of the week.", "weekday", of_time=lambda t: WEEKDAYS[t.weekday()], order=WEEKDAYS),
        Grouping("hour", "By hour of the day.", "hour", of_time=lambda t: f"{t.hour:02}:00"),
        Grouping(
            "branch",
            "By the git branch on which sessions began, with its repository.",
            "branch",
            of_session=lambda s: s.branch,
            none="(no branch)",
            needs_rows=True,
            with_repository=True,
        ),
        Grouping("host", "By host and model.", "host", of_session=lambda s: s.host),
        Grouping("home", "By home: a host can have several.", "home", of_session=lambda s: s.home, none="(no home)", needs_home=True),
        Grouping("thread", "By main thread and subagents.", "thread", of_thread=lambda main: "main" if main else "subagent"),
        Grouping("tool", "By tool: a call's tokens are shared among the tools it called.", "tool", names=lambda u: [u[0]], none="(answer)"),
        Grouping("server", "By MCP server.", "server", names=_server, none="(no MCP server)"),
        Grouping("skill", "By skill of the agent.", "skill", names=_skill, none="(no skill)"),
        Grouping("plugin", "By the plug-in that brought a skill or an MCP server.", "plugin", names=_plugin, none="(no plug-in)"),
        Grouping("command", "By program of the shell commands.", "command", names=_program, none="(no shell command)"),
    )
}


BY_QUARTER = Grouping("quarter", "By quarter of an hour and session.", "quarter", quarter=True)
"""What charts of a week are drawn from; no command of its own."""

BY_MOMENT = Grouping("moment", "By quarter of an hour and thread.", "moment", moment=True)
"""What all other groupings of a session's sums can be made of."""


def grouping_named(name: str | Grouping) -> Grouping:
    """Return a grouping; raises UsageError with the known ones."""
    if isinstance(name, Grouping):
        return name
    if name not in GROUPINGS:
        raise UsageError(f"usage by {name!r} is not known", hint=f"use one of {', '.join(GROUPINGS)}")
    return GROUPINGS[name]


# What a model call asked for, and its equal shares: whole tokens and nano-dollars, the rest of a division to the
# first.


_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_E = {name: place for place, name in enumerate(EVENTS.names)}
_T = {name: place for place, name in enumerate(TOOL_CALLS.names)}
TOKENS = tuple(_C[n] for n in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning"))

Use = tuple[str, str, list[str], "str | None"]
"""tool, action, argv, arguments as JSON where they name a skill"""

Uses = dict[tuple[str, str, str], list[Use]]
"""(host, session, call key) -> what the call asked for"""

SHARED = (*TOKENS, _C["cost"], _C["recorded_cost"])
"""Places of a row of ``model_calls`` that are shared out."""


def names_of(row: tuple, uses: Mapping[tuple[str, str, str], list[Use]], grouping: Grouping) -> list[str]:
    """Return the names that a call is shared among, one for each use; empty where it asked for nothing of the kind."""
    return [name for use in uses.get((row[_C["host"]], row[_C["session_id"]], row[_C["call_key"]]), ()) for name in grouping.of_use(use)]


def parts(row: tuple, names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each name with its share of the row's tokens and costs (in the order of ``SHARED``)."""
    for number, name in enumerate(names):
        yield name, [share_of(row[place] or 0, len(names), number) for place in SHARED]


def share_of(amount: int, among: int, number: int) -> int:
    """Return the share of the ``number``-th of so many: whole numbers, the rest of the division to the first."""
    each, rest = divmod(amount, among)
    return each + rest if number == 0 else each


def live_uses(counted: Counted) -> Uses:
    """Return what the calls of a session that was read with all its rows asked for."""
    parsed = counted.parsed
    if parsed is None:
        return {}
    asked = {e[_E["event_id"]]: e for e in parsed.events if e[_E["kind"]] == "tool_call"}
    found: Uses = {}
    for tool in parsed.tool_calls:
        event = asked.get(tool[_T["call_event"]])
        if event is not None and event[_E["call_key"]]:
            name = tool[_T["tool"]]
            text = event[_E["text"]] if name.lower() == "skill" else None
            use = (name, tool[_T["action"]], list(tool[_T["argv"]]), text)
            found.setdefault((counted.host, counted.session_id, event[_E["call_key"]]), []).append(use)
    return found


def stored_uses(settings: Settings) -> Uses:
    """Return what the calls of stored sessions asked for."""
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.usage_sql import USES_SQL

    found: Uses = {}
    with reading(settings) as (store, _), closing(store.lake.connect()) as connection:
        store.lake.views(connection)
        for host, session, key, *use in connection.execute(USES_SQL).fetchall():
            found.setdefault((host, session, key), []).append((use[0], use[1], list(use[2] or ()), use[3]))
    return found
