"""Options that many commands share, each with one wording."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ctx_pipeline.cli.session_names import complete_hosts, complete_projects

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_AGO = re.compile(r"(\d{1,5})d")


def _zone(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the name of a time zone that exists; raises UsageError."""
    if value is None:
        return None
    from ctx_pipeline.errors import SettingsError, UsageError
    from ctx_pipeline.storage.warehouse.days import known_zone

    try:
        return known_zone(value)
    except SettingsError as error:
        raise UsageError(error.message, hint=error.hint) from None


host_option = click.option("--host", help="Only this host.", shell_complete=complete_hosts)
project_option = click.option("--project", help="Only this project.", shell_complete=complete_projects)
model_option = click.option("--model", help="Only this model.")
branch_option = click.option("--branch", help="Only sessions that began on this git branch.")


def _last_days(context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
    context.meta[_LAST_DAYS] = value


def _first_day(context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the first day as --since names it; raises UsageError where --days names another."""
    return first_day(value, context.meta.get(_LAST_DAYS))


def first_day(since: str | None, last_days: int | None) -> str | None:
    """Return the first day that ``--since`` or ``--days`` names; raises UsageError where both do."""
    if last_days is None:
        return since
    if since is not None:
        from ctx_pipeline.errors import UsageError

        raise UsageError("--since and --days both name the first day", hint="use one of them")
    return f"{last_days}d"


FIRST_DAY = "First day: 2026-03-01, 2026-03, yesterday, monday, 7d."
LAST_DAYS = "The last N days, today included."
_LAST_DAYS = "ctx_pipeline.last_days"
DAYS = click.IntRange(1, 36_500)


def since_options(text: str) -> Callable[[_Command], _Command]:
    """Return the decorator that adds ``--since`` and ``--days``; a command is given ``since`` alone."""

    def add(command: _Command) -> _Command:
        days = click.option(
            "--days",
            metavar="N",
            type=DAYS,
            is_eager=True,
            expose_value=False,
            callback=_last_days,
            help=LAST_DAYS,
        )
        return click.option("--since", metavar="DAY", callback=_first_day, help=text)(days(command))

    return add


since_option = since_options(FIRST_DAY)
until_option = click.option("--until", metavar="DAY", help="Last day, as --since.")
timezone_option = click.option("--timezone", metavar="ZONE", callback=_zone, help="IANA zone of the days.")
table_option = click.option("--by", metavar="TABLE", help="The table of ctx usage whose row WHAT is: weekly, thread, tool, blocks ...")


def scope(*, host: str | None = None, project: str | None = None, since: str | None = None, until: str | None = None, **_: object) -> str:
    """Return what a report is of, as one line: agents, projects and days."""
    days = f"{since} to {until}" if since and until else f"since {since}" if since else f"until {until}" if until else "all days"
    if since and not until and (last := _AGO.fullmatch(since)):
        days = "today" if int(last[1]) == 1 else f"the last {int(last[1])} days"
    return ", ".join((host or "all agents", f"project {project}" if project else "all projects", days))


def require_captured(settings: Settings) -> None:
    """Raise NothingFound where the store holds no session."""
    from ctx_pipeline.errors import NothingFound
    from ctx_pipeline.storage import to_capture
    from ctx_pipeline.storage.own_sessions import holds_sessions

    if not holds_sessions(settings.home):
        raise NothingFound("nothing was captured yet", hint=to_capture(settings))


def require_project(settings: Settings, project: str | None) -> None:
    """Raise UnknownName with the nearest names where no session of a store has this project."""
    if project is None:
        return
    from ctx_pipeline.usage.known_names import known_names

    known_names(settings, project=project, stored=True)
