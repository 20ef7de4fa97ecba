"""The session that a command is about, as its first argument; old spellings go on working."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.errors import AmbiguousName, CtxError, UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from click.shell_completion import CompletionItem

    from ctx_pipeline.sessions.uncaptured import Uncaptured
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.own_sessions import Shown

SESSION_HELP = """SESSION is the beginning of an id, `latest`, `latest~2`, `yesterday`, words of the title, a transcript file or HOST/ID."""
_COMPLETED = 200


def complete_sessions(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids that begin so, with their titles, for the shell; the newest first."""
    from click.shell_completion import CompletionItem

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.output import one_line
    from ctx_pipeline.storage.own_sessions import ShownSessions

    found = [CompletionItem("latest", help="the newest session")] if "latest".startswith(incomplete) else []
    try:
        known = ShownSessions(settings_module.bare().home / "ledger.db").of()
    except CtxError:
        return found
    from ctx_pipeline.model.display import session_title

    fitting = [(key, shown) for key, shown in known.items() if key[1].startswith(incomplete)]
    return found + [
        CompletionItem(one_line(session_id), help=one_line(session_title(shown.title), 60))
        for (_, session_id), shown in fitting[:_COMPLETED]
    ]


def short_names(ids: Collection[str], settings: Settings) -> dict[str, str]:
    """Return each id as a terminal shows it: as many of its characters as name it among all captured sessions."""
    from contextlib import closing, suppress

    from ctx_pipeline.cli.output import short_ids
    from ctx_pipeline.errors import StoreError
    from ctx_pipeline.storage.own_sessions import ShownSessions

    known: set[str] = set()
    with suppress(StoreError), closing(ShownSessions(settings.home / "ledger.db")) as shown:  # without a store nothing is captured
        known = shown.ids()
    return short_ids(ids, known)


def complete_hosts(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the hosts that begin so, with their titles, for the shell."""
    from click.shell_completion import CompletionItem

    from ctx_pipeline import discovery

    return [CompletionItem(key, help=host.title) for key, host in discovery.hosts().items() if key.startswith(incomplete)]


def complete_anything(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the projects, then the sessions that begin so, for the shell."""
    return complete_projects(context, parameter, incomplete) + complete_sessions(context, parameter, incomplete)


def complete_projects(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of projects that begin so, for the shell."""
    from click.shell_completion import CompletionItem

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.output import one_line
    from ctx_pipeline.storage.own_sessions import ShownSessions

    try:
        known = ShownSessions(settings_module.bare().home / "ledger.db").of()
    except CtxError:
        return []
    names = sorted({shown.project for shown in known.values() if shown.project and shown.project.startswith(incomplete)})
    return [CompletionItem(one_line(name)) for name in names[:_COMPLETED]]


def read_name(words: tuple[str, ...], option: str | None) -> tuple[str, str]:
    """Return (host or nothing, name) of ``HOST ID``, ``HOST``, ``NAME ...`` or an option; two names are an error."""
    from ctx_pipeline import discovery

    host = ""
    if words:
        try:
            host = discovery.host(words[0].lower()).key
        except UnknownName:
            host = ""
    name = " ".join(words[1:] if host else words).strip()
    if option and name:
        raise UsageError(f"two sessions were named, {option!r} and {name!r}", hint="name one")
    return host, option or name


def one_name(words: tuple[str, ...], option: str | None) -> str | None:
    """Return the session that words or an option name, as one text (``host/id`` where a host was written); None where none was."""
    host, name = read_name(words, option)
    return f"{host}/{name or 'latest'}" if host else name or None


def session_argument(*, default: str | None = "latest") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add SESSION to a command, which gets ``host`` (nothing where none was written) and ``session_id``; None asks for a name."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def named(*, session_words: tuple[str, ...], session_option: str | None, **options: Any) -> Any:
            host, name = read_name(session_words, session_option)
            if not name and default is None:
                raise UsageError("name a session", hint="ctx list")
            return command(host=host, session_id=name or default, **options)

        return _parameters(named)

    return add


def session_name(parameter: str = "name") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add SESSION to a command, which gets it as one text (``host/id`` where a host was written); None where none was."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def named(*, session_words: tuple[str, ...], session_option: str | None, **options: Any) -> Any:
            return command(**{parameter: one_name(session_words, session_option)}, **options)

        return _parameters(named)

    return add


_SCOPES = {
    "asking": "the session that runs this command",
    "here": "the last session of this repository or folder that did something",
    "newest": "this repository or folder has no session: the last of all that did something",
}


def session_of_person(settings: Settings, name: str | None, *, asking: bool = True, called: bool = False) -> tuple[str, str]:
    """Return ``host/id`` of the session that a person means, and one line: when it was last active, project, title, why it is the one."""
    from ctx_pipeline.sessions.session_choice import lines, select_for_person
    from ctx_pipeline.storage.reader import reading

    with reading(settings) as (store, _):
        choice = select_for_person(store, settings, name, asking=asking, called=called)
        shown = store.shown().get((choice.host, choice.session_id))
        last = next((line.last for line in lines(store, choice.host) if line.session_id == choice.session_id), 0)
    scope = f"({_SCOPES[choice.why]})" if choice.why in _SCOPES else ""
    return f"{choice.host}/{choice.session_id}", session_line(settings, shown, last, scope)


def session_line(settings: Settings, shown: Shown | None, last: int | None, scope: str = "") -> str:
    """Return one line about a session: when it was last active, its project, its title, and why it is the one."""
    from ctx_pipeline.cli.output import local_time, one_line, plain
    from ctx_pipeline.model.display import session_title

    told = [
        f"last active {local_time(last, settings.timezone)}" if last else "",
        plain(shown.project or "") if shown else "",
        one_line(session_title(shown.title), 100) if shown else "",
    ]
    return "  ".join(filter(None, [*told, scope]))


def captured_or_not(settings: Settings, name: str | None, host: str = "") -> tuple[str, str, Uncaptured | None]:
    """Return host and id of the captured session that a name means, else of the one of the homes that no run has captured, and that one.

    Raises UnknownName and AmbiguousName. Without a name the homes alone are asked.
    """
    from ctx_pipeline.sessions.session_details import resolve
    from ctx_pipeline.sessions.uncaptured import find_uncaptured
    from ctx_pipeline.storage.own_sessions import holds_sessions
    from ctx_pipeline.storage.reader import reading

    if not holds_sessions(settings.home):
        found = find_uncaptured(settings, name, host)
        return found.host, found.session_id, found
    try:
        with reading(settings) as (store, _):
            return (*resolve(store, host, name or "latest"), None)
    except AmbiguousName:
        raise
    except UnknownName as unknown:
        try:
            found = find_uncaptured(settings, name, host)
        except AmbiguousName:
            raise
        except CtxError:
            raise unknown from None
        return found.host, found.session_id, found


@contextmanager
def reading_session(settings: Settings, host: str, name: str) -> Iterator[tuple[Settings, str, str]]:
    """Give the settings, host and id with which a session is read: one that no run has captured from its files, in a store of its own."""
    host, session_id, uncaptured = captured_or_not(settings, name, host)
    if uncaptured is None:
        yield settings, host, session_id
        return
    from ctx_pipeline.cli.output import say
    from ctx_pipeline.sessions.uncaptured import store_of

    say("(not captured yet: read from its files, without signals; ctx run captures it)", err=True)
    with store_of(settings, uncaptured) as apart:
        yield apart, host, session_id


def _parameters(command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--session",
        "-s",
        "--session-id",
        "session_option",
        metavar="SESSION",
        help="The same as SESSION.",
        shell_complete=complete_sessions,
    )
    return click.argument("session_words", nargs=-1, metavar="[SESSION]", shell_complete=complete_sessions)(option(command))
