"""The ways to group usage: one entry of ``GROUPINGS`` is a command of ``ctx usage``, a table of ``ctx explain`` and a value of the API."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import UsageError
from ctx_pipeline.shell.commands import command_text, steps
from ctx_pipeline.storage.warehouse.days import offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.usage.attribution import Use
    from ctx_pipeline.usage.live_usage import Counted

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - naive UTC, as in the tables
QUARTER_HOUR = 900_000_000
"""Microseconds of the smallest step between two zones: a day of a zone begins on such a border."""
_SKILL_FILE = re.compile(r"[/\\]skills[/\\](?:\.system[/\\])?([\w.-]+)[/\\]SKILL\.md\b")
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
            moment = _EPOCH + timedelta(microseconds=quarter * QUARTER_HOUR)
            found = self._known[quarter] = (moment + timedelta(seconds=self._ahead(moment))).date()
        return found

    def quarter(self, ts: int) -> str:
        """Return the quarter of an hour of a moment as 2026-10-03 17:15, on the zone's clock."""
        number = ts // QUARTER_HOUR
        found = self._quarters.get(number)
        if found is None:
            moment = _EPOCH + timedelta(microseconds=number * QUARTER_HOUR)
            found = self._quarters[number] = (moment + timedelta(seconds=self._ahead(moment))).isoformat(" ", "minutes")
        return found

    def _ahead(self, moment: datetime) -> int:
        seconds = self._steps[0][1]
        for since, ahead in self._steps:
            if since <= moment:
                seconds = ahead
        return seconds


class Grouping(NamedTuple):
    """One way to group usage, by exactly one of ``start``, ``of_session``, ``of_thread`` and ``names``; none of them groups by model."""

    name: str
    help: str
    column: str
    """key of the rows"""
    start: Callable[[date], date] | None = None
    """day of a call -> first day of its period"""
    of_session: Callable[[Counted], str] | None = None
    of_thread: Callable[[bool], str] | None = None
    """whether the call is of its session's main thread -> name"""
    names: Callable[[Use], Sequence[str]] | None = None
    """what a call asked for -> names; the call is shared equally among all of them"""
    none: str = ""
    """name of the calls of which nothing of the kind is known"""
    with_repository: bool = False
    """rows carry ``repository``, since several may have the same name"""
    quarter: bool = False
    """the key is the quarter of an hour of the zone, then the session: 2026-10-03 17:15 host/id"""
    unit: str = ""
    """what ``ctx explain`` calls one row, where it is not the grouping's own name"""

    @property
    def reads_whole(self) -> bool:
        """Whether a session must be read with all its rows, not its calls alone."""
        return self.names is not None or self.name == "branch"

    def of_use(self, use: Use) -> Sequence[str]:
        """Return the names of what a call asked for; none where calls are not shared out."""
        return self.names(use) if self.names is not None else ()

    def key(self, zone: str | None) -> Callable[[int | None, Counted, bool], Any]:
        """Return what gives the key of (time in microseconds, session, whether in its main thread)."""
        if self.quarter:
            quarters = Days(zone)
            return lambda ts, session, _main: None if ts is None else f"{quarters.quarter(ts)} {session.host}/{session.session_id}"
        if (of_session := self.of_session) is not None:
            none = self.none
            return lambda _ts, session, _main: of_session(session) or none
        if (of_thread := self.of_thread) is not None:
            return lambda _ts, _session, main: of_thread(main)
        if (start := self.start) is None:
            return lambda _ts, _session, _main: None
        days, known = Days(zone), dict[date, str]()

        def dated(ts: int | None, _session: Counted, _main: bool) -> str | None:
            if ts is None:
                return None
            day = days.day(ts)
            text = known.get(day)
            if text is None:
                text = known[day] = start(day).isoformat()
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
        return [found[:100] for found in dict.fromkeys(_SKILL_FILE.findall(command_text(use[2])))] if use[1] == "shell" else []
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
    return [step.subject[:100] for step in steps(command_text(use[2])) if step.subject]


GROUPINGS: dict[str, Grouping] = {
    grouping.name: grouping
    for grouping in (
        Grouping("daily", "By day, host and model.", "date", start=lambda d: d, unit="day"),
        Grouping(
            "weekly",
            "By week (named by its Monday), host and model.",
            "date",
            start=lambda d: d - timedelta(days=d.weekday()),
            unit="week",
        ),
        Grouping("monthly", "By month, host and model.", "date", start=lambda d: d.replace(day=1), unit="month"),
        Grouping("session", "By session and model.", "session_id", of_session=lambda s: s.session_id),
        Grouping("project", "By project and model.", "project", of_session=lambda s: s.project, with_repository=True),
        Grouping("model", "By model.", "model"),
        Grouping(
            "branch",
            "By git branch on which sessions began, with its repository.",
            "branch",
            of_session=lambda s: s.branch,
            none="(no branch)",
            with_repository=True,
        ),
        Grouping("home", "By home: a host can have several.", "home", of_session=lambda s: s.home, none="(no home)"),
        Grouping("thread", "By main thread and subagents.", "thread", of_thread=lambda main: "main" if main else "subagent"),
        Grouping("tool", "By tool: a call's tokens are shared among the tools it called.", "tool", names=lambda u: [u[0]], none="(answer)"),
        Grouping("server", "By MCP server.", "server", names=_server, none="(no MCP server)"),
        Grouping("skill", "By skill.", "skill", names=_skill, none="(no skill)"),
        Grouping("plugin", "By the plug-in that brought a skill or an MCP server.", "plugin", names=_plugin, none="(no plug-in)"),
        Grouping("command", "By program of the shell commands.", "command", names=_program, none="(no shell command)"),
    )
}


BY_QUARTER = Grouping("quarter", "By quarter of an hour and session.", "quarter", quarter=True)
"""What charts of a week are drawn from; no command of its own."""


def grouping_named(name: str | Grouping) -> Grouping:
    """Return a grouping; raises UsageError with the known ones."""
    if isinstance(name, Grouping):
        return name
    if name not in GROUPINGS:
        raise UsageError(f"usage by {name!r} is not known", hint=f"use one of {', '.join(GROUPINGS)}")
    return GROUPINGS[name]
