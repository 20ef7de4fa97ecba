"""The words that people try first: ``ctx resume``, ``ctx open`` and ``ctx cost``."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import host_option, model_option, project_option, since_option, table_option, timezone_option, until_option
from ctx_pipeline.cli.output import (
    cells,
    counted,
    dollars,
    emit,
    json_option,
    local_time,
    say,
    say_command,
    shares,
    table,
    tokens,
    zone_name,
)
from ctx_pipeline.cli.page.dashboard import port_option, serve_page, show
from ctx_pipeline.cli.session_names import captured_or_not, complete_anything, session_line, session_name, session_of_person

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from click.shell_completion import CompletionItem

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.own_sessions import Shown

_MENTIONS = 8
_MISTYPED = 0.85
"""How alike a word is to the name of a command that was meant."""


@click.command()
@session_name()
@json_option
def resume(name: str | None, as_json: bool) -> None:
    """Print the command that continues a session in its agent.

    SESSION is named as in ctx show; without it the last session of this folder's
    repository that did something, else the last of all that did. A pipe gets the command alone: eval "$(ctx resume)".
    A block for a fresh chat: ctx session resume.
    """
    from ctx_pipeline.errors import UsageError

    settings = for_reading()
    host, session_id, line, shown, left = _to_resume(settings, name)
    command = left.command
    if as_json:
        began = local_time(shown.began, settings.timezone)
        emit({"host": host, "session_id": session_id, "title": shown.title, "project": shown.project, "began": began, "resume": command})
        return
    if not command and left.subagents_alone:
        raise UsageError(f"of {session_id} only what its subagents did is recorded", hint=f"ctx show {session_id}")
    if not command:
        raise UsageError(f"{host} sessions cannot be continued", hint=f"ctx session resume {session_id}")
    say(line, err=True, bold=True)
    say_command(command)


class _Left(NamedTuple):
    """What is left of a session."""

    command: str = ""
    subagents_alone: bool = False


def _to_resume(settings: Settings, name: str | None) -> tuple[str, str, str, Shown, _Left]:
    """Return host, id, a line about it, what is shown and what is left of a session that is captured or lies in a home."""
    from ctx_pipeline import discovery
    from ctx_pipeline.storage.own_sessions import holds_sessions
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.resuming import resuming

    if name or not holds_sessions(settings.home):
        host, session_id, uncaptured = captured_or_not(settings, name)
        if uncaptured is not None:
            left = _Left(discovery.hosts()[host].resuming(session_id, uncaptured.shown.cwd, archived=uncaptured.shown.archived))
            return host, session_id, session_line(settings, uncaptured.shown, uncaptured.last), uncaptured.shown, left
        name = f"{host}/{session_id}"
    place, line = session_of_person(settings, name, asking=False)
    host, _, session_id = place.partition("/")
    with reading(settings) as (store, _):
        shown = store.shown()[host, session_id]
        left = _Left(resuming(store, host, session_id, shown.cwd), store.ledger.of_subagents_alone(host, session_id))
    return host, session_id, line, shown, left


@click.command("open")
@session_name()
@click.option("--serve", "served", is_flag=True, help="Serve it on loopback, up to date while agents work, until Ctrl-C.")
@port_option
@json_option
def open_page(name: str | None, served: bool, port: int, as_json: bool) -> None:
    """Open the page in the browser, at SESSION where one is named: this week, sessions, search."""
    if served:
        serve_page(port, watch=True, browser=True, as_json=as_json)
        return
    show(at=_key(name) if name else None, as_json=as_json)


def _key(name: str) -> str:
    """Return the key of a session on the page."""
    from ctx_pipeline.model.codec import digest
    from ctx_pipeline.sessions.naming import find_session
    from ctx_pipeline.storage.reader import reading

    with reading(for_reading()) as (store, _):
        return digest(*find_session(store, name), size=16)


@click.command()
@click.argument("what", nargs=-1, shell_complete=complete_anything)
@since_option
@until_option
@host_option
@project_option
@model_option
@timezone_option
@table_option
@json_option
@click.pass_context
def cost(
    context: click.Context,
    what: tuple[str, ...],
    since: str | None,
    until: str | None,
    host: str | None,
    project: str | None,
    model: str | None,
    timezone: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Show what agents cost today, this week, this month and in all, or from --since to --until; or what WHAT cost.

    WHAT is a session, project, model, day (2026-10-03), week (2026-W40) or month (2026-10),
    a row of this table ("last week") or of the table --by: ctx cost Bash --by tool. Its calls
    one by one: ctx explain WHAT.
    Where this week and the last have no calls, the latest seven days that end with one
    follow.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline.cli.usage.tables import cost_of_row
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.model.usage_rules import UNNAMED
    from ctx_pipeline.usage.known_names import known_names
    from ctx_pipeline.usage.periods import day

    if what and (since or until):
        raise UsageError("--since and --until are for all costs", hint="by day: ctx usage daily --since DAY --project PROJECT")
    if what:
        from ctx_pipeline.cli.usage.explain import explain

        context.invoke(
            explain, what=" ".join(what), host=host, project=project, model=model, timezone=timezone, by=by, limit=0, as_json=as_json
        )
        return
    if by:
        raise UsageError(f"--by {by} needs the row that is meant", hint=f"ctx cost WHAT --by {by}; all rows: ctx usage {by}")
    settings = for_reading()
    zone = timezone or settings.timezone
    chosen = (day(since, "--since", zone), day(until, "--until", zone))
    if project or model:
        known_names(settings, project=project, model=model)
    named = discovery.host(host).key if host else None
    rows = periods(settings, zone, chosen=chosen, host=named, project=project, model="" if model == UNNAMED else model)
    if as_json:
        told = [{**row, "cost_usd": None if (cost := cost_of_row(row)) is None else cost / 1e9} for row in rows]
        emit({"periods": told, "timezone": zone or "local"})
        return
    whole = rows[-1]["cost_nano"]
    shown = [
        {**row, "cost": dollars(cost_of_row(row)), "tokens": tokens(row["tokens"]), "share": share}
        for row, share in zip(rows, shares(rows, "cost_nano", whole), strict=True)
    ]
    table(
        shown,
        {"period": "period", "since": "from", "until": "to", "calls": "model calls", "tokens": "tokens", "cost": "cost", "share": "share"},
        drop=("share", "until", "since", "tokens", "calls"),
    )
    if unpriced := rows[-1]["unpriced_calls"]:
        say(f"{counted(unpriced, 'call has', 'calls have')} no known price and no part in the cost: ctx usage model")
    say(f"list prices on the day of the call unless the agent recorded a cost; days in {zone_name(zone)}")
    say("more: ctx usage project, ctx usage model, ctx usage session, ctx cost SESSION")


def periods(
    settings: Settings,
    zone: str | None,
    *,
    chosen: tuple[date | None, date | None] = (None, None),
    host: str | None = None,
    project: str | None = None,
    model: str | None = None,
) -> list[dict[str, Any]]:
    """Return calls, tokens and nano-dollars of today, yesterday, weeks, months and all; the latter holds calls without a time too.

    Where a first or last day is chosen, of those days and all instead; of a host, project
    or model, its calls alone.
    """
    from datetime import UTC, date, datetime, timedelta

    from ctx_pipeline.storage.warehouse.days import local_day
    from ctx_pipeline.usage.engine import usage
    from ctx_pipeline.usage.rollup import TOKENS

    today = local_day(datetime.now(UTC), zone)
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    day, before = timedelta(days=1), (first - timedelta(days=1)).replace(day=1)
    spans: list[tuple[str, date | None, date | None]] = [
        ("today", today, today),
        ("yesterday", today - day, today - day),
        ("this week", monday, today),
        ("last week", monday - 7 * day, monday - day),
        ("this month", first, today),
        ("last month", before, first - day),
        ("all", None, None),
    ]
    if chosen != (None, None):
        name = f"{chosen[0]} to {chosen[1]}" if all(chosen) else f"since {chosen[0]}" if chosen[0] else f"until {chosen[1]}"
        spans = [(name, *chosen), spans[-1]]
    found = []
    rows = usage("daily", timezone=zone, host=host, project=project, model=model, settings=settings).rows
    latest = max((date.fromisoformat(r["date"]) for r in rows if r["date"]), default=None)
    if chosen == (None, None) and latest and latest < monday - 7 * day:
        spans.insert(-1, ("latest 7 days", latest - 6 * day, latest))
    for name, since, until in spans:
        start, end = str(since or ""), str(until or "9999")
        mine = [r for r in rows if since is until is None or (r["date"] and start <= r["date"] <= end)]
        sums = {name: sum(int(r[name]) for r in mine) for name in ("calls", "unpriced_calls")}
        sums |= {"tokens": sum(int(r[n]) for r in mine for n in TOKENS)}
        found.append(
            {
                "period": name,
                "since": since.isoformat() if since else "",
                "until": until.isoformat() if until else "",
                **sums,
                "cost_nano": sum(int(r["cost_nano"]) for r in mine),
            }
        )
    return found


def _complete_help(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the groups and commands that begin so, for the shell."""
    from click.shell_completion import CompletionItem

    from ctx_pipeline.cli.root import GROUPS, cli

    named = (
        {"questions": "What people ask"}
        | {name: title for name, (title, _) in GROUPS.items()}
        | {name: cli.line_of(name) for name in cli.list_commands(_context)}
    )
    return [CompletionItem(name, help=line) for name, line in named.items() if name.startswith(incomplete)]


@click.command("help")
@click.argument("words", nargs=-1, shell_complete=_complete_help)
@click.pass_context
def show_help(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the commands of a group (ctx help pipeline), the help of a command, or the commands that speak of a word."""
    from ctx_pipeline.cli.root import GROUPS, cli
    from ctx_pipeline.errors import UnknownChoice

    root = context.find_root()
    if not words:
        say(cli.get_help(root))
        return
    if words == ("questions",):
        from ctx_pipeline.cli.help.questions import PLACEHOLDERS, QUESTIONS

        for question, command_line in QUESTIONS:
            say(question)
            say_command(command_line, "  ")
        say(PLACEHOLDERS)
        return
    if len(words) == 1 and words[0] in GROUPS:
        title = GROUPS[words[0]][0]
        names = [name for name in GROUPS[words[0]][1] if cli.line_of(name)]
        say(f"{title}\n")
        wide = max(map(cells, names))
        for name in names:
            say(f"  {name:<{wide}}  {cli.line_of(name)}")
        return
    command: click.Command = cli
    for word in words:
        found = command.get_command(root, word) if isinstance(command, click.Group) else None
        if found is None:
            names = ["questions", *GROUPS, *(command.list_commands(root) if isinstance(command, click.Group) else [])]
            if command is cli and not get_close_matches(word, names, 1, _MISTYPED) and _say_mentions(words, root):
                return
            raise UnknownChoice("command or group", word, names)
        root, command = click.Context(found, info_name=word, parent=root), found
    say(command.get_help(root))


def _say_mentions(words: Sequence[str], root: click.Context) -> bool:
    """Say where words stand that are no command, and tell whether they do."""
    from ctx_pipeline.cli.help.help_search import mentions

    found = mentions(words, root.command, root)
    for line, told in found[:_MENTIONS]:
        say(told)
        say_command(line, "  ")
    if len(found) > _MENTIONS:
        say(f"{len(found) - _MENTIONS} more: say it with more words")
    return bool(found)


@click.command(
    help="""Print what completes commands, sessions, projects and signals in SHELL.

    \b
    bash: ctx completion bash >> ~/.bashrc
    zsh:  ctx completion zsh >> ~/.zshrc
    fish: ctx completion fish > ~/.config/fish/completions/ctx.fish
    """
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script of a shell."""
    from click.shell_completion import get_completion_class

    from ctx_pipeline.cli.root import cli

    found = get_completion_class(shell)
    if found is not None:
        say(found(cli, {}, "ctx", "_CTX_COMPLETE").source(), nl=False)
