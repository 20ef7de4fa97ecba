"""``ctx files``: what a session read and changed, and which sessions changed a file."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import require_captured, require_project, since_option, timezone_option, until_option
from ctx_pipeline.cli.output import counted, emit, json_option, local_time, one_line, plain, say, table, terminal_width, tokens, zone_name
from ctx_pipeline.cli.session import at_option, session_option
from ctx_pipeline.cli.session_names import one_name, reading_session, session_argument, session_of_person, short_names
from ctx_pipeline.memory.prompt_block import name_for_agent
from ctx_pipeline.model.display import session_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctx_pipeline.sessions.files import Heat, Touch
    from ctx_pipeline.settings import Settings


_LISTED = 40
_SESSIONS = 20


@click.command()
@session_argument()
@click.option("--path", metavar="GLOB", help="Only files whose path fits or ends so, or of this folder.")
@click.option("--diff", is_flag=True, help="Every change with its difference, in order.")
@click.option("--reads", "each", is_flag=True, help="Every read with its lines, in order.")
@click.option("--all", "everything", is_flag=True, help=f"All files or sessions, not the first {_LISTED} or {_SESSIONS}.")
@json_option
def files(host: str, session_id: str, path: str | None, diff: bool, each: bool, everything: bool, as_json: bool) -> None:
    """List the files that one session read and changed, through its tools and through the shell.

    With a file in place of SESSION (src/app.py, ./Makefile, a folder or a glob): the sessions
    that changed it, newest first, with what they changed. Changes carry the SHA-256 of the
    text before and after, and the difference, as far as the agent recorded them.
    """
    from ctx_pipeline.errors import AmbiguousName, UnknownName
    from ctx_pipeline.sessions.files import session_files, summed

    settings = for_reading()
    zone = settings.timezone
    names_file = not host and bool(re.search(r"[/.*]", session_id)) and not session_id.endswith(".jsonl")
    if names_file and path is None and not each and _history(session_id, settings, diff=diff, everything=everything, as_json=as_json):
        return
    try:
        with reading_session(settings, host, session_id) as (its_own, key, full):
            found = session_files(key, full, path=path, settings=its_own)
    except UnknownName as error:
        if host or path is not None or each or isinstance(error, AmbiguousName):
            raise
        if names_file:
            raise UnknownName("session or file", session_id, (), hint="files that sessions touched: ctx heatmap --all") from None
        if not _history(session_id, settings, diff=diff, everything=everything, as_json=as_json):
            raise
        return
    if as_json:
        emit(found.to_json())
        return
    if len({s.directory for s in found.stays}) > 1:
        for stay in found.stays:
            say(f"{local_time(stay.first_ts, zone) or 'no time'}  {plain(stay.directory)}  {stay.events:,} events from {stay.first_event}")
        say()
    if diff:
        _say_changes(found.touches, zone)
        return
    if each:
        rows = [
            {"ts": local_time(t.ts, zone, seconds=True) or "no time", "path": t.path, "lines": t.lines or "all", "through": t.through}
            for t in found.touches
            if t.did == "read"
        ]
        table(rows, {"ts": "time", "path": "file", "lines": "lines", "through": "through"}, paths=("path",))
        say(f"times in {zone_name(zone)}")
        return
    lines = summed(found.touches)
    if not lines:
        say("no tool call of this session names a file" if path is None else "no file fits")
        return
    shown = lines if everything else lines[:_LISTED]
    table(
        [
            {**one, "lines": one_line(one["lines"], 40), "added": f"+{one['added']} -{one['removed']}" if one["changes"] else ""}
            for one in shown
        ],
        {"path": "file", "reads": "reads", "lines": "last read", "changes": "changes", "added": "lines changed"},
        paths=("path",),
    )
    if len(lines) > len(shown):
        say(f"and {len(lines) - len(shown):,} more (--all)")


def _say_changes(touches: Iterable[Touch], zone: str | None) -> None:
    from ctx_pipeline.sessions.files import CHANGED

    for t in touches:
        if t.did in CHANGED:
            known = f"+{t.added} -{t.removed}" if t.added is not None else "difference not recorded"
            say(f"{local_time(t.ts, zone, seconds=True) or '?'}  {t.did} {plain(t.path)}  {known}", bold=True)
            say(f"before {t.before_sha or '?'}  after {t.after_sha or '?'}")
            for line in t.diff.splitlines():
                say(line, whole=True)


def _history(path: str, settings: Settings, *, diff: bool, everything: bool, as_json: bool) -> bool:
    """Print the sessions that changed a file; False where none changed or read one of this name."""
    from ctx_pipeline.sessions.file_history import file_history
    from ctx_pipeline.storage.own_sessions import holds_sessions

    if not holds_sessions(settings.home):
        return False
    found = file_history(path, limit=None if everything or as_json else _SESSIONS, settings=settings)
    if not found.sessions and not found.only_read:
        return False
    if as_json:
        emit({"path": path, "sessions": [one.to_json() for one in found.sessions], "only_read": found.only_read})
        return True
    shown = found.sessions if everything else found.sessions[:_SESSIONS]
    if diff:
        for one in shown:
            say(f"{one.host} {one.session_id}  {one_line(session_title(one.title), 80)}", bold=True)
            _say_changes(one.touches, settings.timezone)
            say()
        return True
    ids = short_names([one.session_id for one in shown], settings) if terminal_width() is not None else {}
    rows = [
        {
            "last": local_time(one.last, settings.timezone),
            "session": ids.get(one.session_id, one.session_id),
            "project": one.project,
            "title": one_line(session_title(one.title), 60),
            "changes": one.changes,
            "lines": "not recorded" if one.lines is None else "+{} -{}".format(*one.lines),
            "files": min(one.files) + (f" and {len(one.files) - 1} more" if len(one.files) > 1 else ""),
        }
        for one in shown
    ]
    several = len({name for one in found.sessions for name in one.files}) > 1
    columns = {"last": "last changed", "session": "session", "project": "project", "title": "title", "changes": "edits", "lines": "lines"}
    if rows:
        table(rows, columns | ({"files": "file"} if several else {}), drop=("project", "last"), paths=("files",), keep=("lines",))
        copies = sum(len(one.copies) for one in found.sessions)
        left = f" ({counted(copies, 'copy', 'copies')} of {'one' if copies == 1 else 'them'} left out)" if copies else ""
        say(f"{counted(len(found.sessions), 'session')} changed it{left}; times in {zone_name(settings.timezone)}")
    else:
        say("no session changed it")
    if len(found.sessions) > len(shown):
        say(f"{len(found.sessions) - len(shown):,} more: --all")
    quoted = shlex.quote(path)
    if found.only_read:
        say(f"{counted(found.only_read, 'session')} only read it: ctx list --file {quoted}", dim=True)
    if rows:
        say(f"every change: ctx files {quoted} --diff; of one session: ctx files SESSION --path {quoted} --diff", dim=True)
    return True


# ctx heatmap: which files are worked on, and which nobody ever touched.


ACTIONS = ("status", "directory", "dirs", "cold", "co-reads", "times", "json")
_WIDTH = 12
_ORDERS = {
    "accesses": ("accesses",),
    "reads": ("read",),
    "changes": ("edit", "write"),
    "searches": ("search",),
    "mentions": ("mention",),
}
"""What files can be put in order by -> the accesses that count for it."""


class _Action(click.Choice[str]):
    """An action, or the path of the default one: what has a slash, a dot or a star is a path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if set(str(value)) & set("/.*") else super().convert(value, param, ctx)


@click.command()
@click.argument("action", default="status", type=_Action(ACTIONS))
@click.argument("path", required=False)
@click.option("--path", "named", metavar="PATH", help="Only this folder, file or glob; also as PATH, alone or behind the action.")
@click.option("--host", help="Only this agent.")
@click.option("--project", help="This project, by its name or repository, wherever you are.")
@click.option("--all", "everywhere", is_flag=True, help="All projects; without it the repository around this folder.")
@since_option
@until_option
@timezone_option
@click.option("--depth", default=2, show_default=True, type=click.IntRange(1, 40), help="Levels of folders for directory and dirs.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 100_000), help="Lines to print.")
@click.option(
    "--sort", default="accesses", show_default=True, type=click.Choice(tuple(_ORDERS)), help="What files and folders have most of, first."
)
@json_option
def heatmap(action: str, path: str | None, named: str | None, depth: int, limit: int, sort: str, as_json: bool, **chosen: Any) -> None:
    """Show which files agents read, changed, searched and named.

    status: the most touched files. directory, dirs: the same by folder. cold: tracked files
    that nobody touched. co-reads: files that sessions touch together, and those read but
    never changed. times: by day and hour. json: everything.
    """
    from ctx_pipeline.cli.output import without_numpy
    from ctx_pipeline.sessions.files import cold, heat
    from ctx_pipeline.sessions.session_choice import here, in_place
    from ctx_pipeline.storage.reader import reading

    if action not in ACTIONS:
        if path:
            from ctx_pipeline.errors import UsageError

            raise UsageError(f"{plain(action)} and {plain(path)} are two paths", hint="ctx heatmap PATH")
        action, path = "status", action
    without_numpy()
    wanted = named or path
    settings = for_reading()
    scope = f"project {plain(chosen['project'])}" if chosen["project"] else "all projects" if chosen["everywhere"] else ""
    if not scope:
        with reading(settings) as (store, _):
            chosen["everywhere"] = not in_place(store, here())
        scope = (
            "all projects: this repository or folder has no session"
            if chosen["everywhere"]
            else "this repository or folder (--all: all projects)"
        )
    found = heat(path=wanted, settings=settings, **chosen)
    untouched = None
    if action in ("cold", "json"):
        # git tracks the files of this repository; those of another may have the same names
        ever = heat(settings=settings, **(chosen | {"since": None, "until": None, "everywhere": False, "project": None}))
        untouched = cold(ever, path=wanted)
    if not found.total:
        require_captured(settings)
        require_project(settings, chosen["project"])
    if sort != "accesses":  # which is their order
        found.files.sort(key=lambda f: -_sorted_by(f.counts, sort))
    if as_json or action == "json":
        emit(_shape(found, depth, untouched))
        return
    if action == "cold":
        _cold(untouched, found, limit)
        return
    if not found.total:
        say(f"no file was touched in the selected sessions; {scope}")
        return
    {"status": _files, "directory": _folders, "dirs": _folders, "co-reads": _together, "times": _times}[action](found, limit, depth, sort)
    say(
        f"Total: {counted(found.total, 'access', 'accesses')} across {counted(len(found.files), 'file')}"
        f" in {counted(found.sessions, 'session')}"
    )
    say(scope)


def _shape(found: Heat, depth: int, untouched: list[str] | None) -> dict[str, Any]:
    from ctx_pipeline.sessions.files import HALF_LIFE_DAYS, SCHEMA, roll_up

    return {
        "schema": SCHEMA,
        "total": {"accesses": found.total, "files": len(found.files), "sessions": found.sessions, **found.kinds},
        "files": [f.to_json() for f in found.files],
        "directories": roll_up(found.files, depth),
        "days": found.days,
        "hours": found.hours,
        "hosts": found.hosts,
        "projects": found.projects,
        "co_reads": [{"first": a, "second": b, "sessions": n} for a, b, n in found.pairs],
        "never_changed": [f.name for f in found.never_changed],
        "cold": untouched,
        "timezone": found.timezone,
        "half_life_days": HALF_LIFE_DAYS,
    }


def _bar(count: int, most: int) -> str:
    return "█" * max(1, round(_WIDTH * count / most)) if count else ""


def _sorted_by(counts: Mapping[str, Any], sort: str) -> int:
    """Return how often a file or folder had done to it what rows are sorted by."""
    return sum(int(counts[did]) for did in _ORDERS[sort])


_PATH = 36
"""Cells below which the name of a file and its project says little."""


def _files(found: Heat, limit: int, _: int, sort: str) -> None:
    say(f"HOT FILES (top {min(limit, len(found.files))}):", bold=True)
    shown = found.files[:limit]
    amounts = [_sorted_by(Counter({**f.counts, "accesses": f.accesses}), sort) for f in shown]
    rows = [
        {
            "path": name_for_agent(f.name),
            "bar": _bar(amount, max(amounts)),
            "accesses": f.accesses,
            "reads": f.counts["read"],
            "changes": f.counts["edit"] + f.counts["write"],
            "searches": f.counts["search"],
            "mentions": f.counts["mention"],
            "sessions": len(f.sessions),
        }
        for f, amount in zip(shown, amounts, strict=True)
    ]
    table(
        rows,
        {"path": "file", "bar": "", **{n: n for n in ("accesses", "reads", "changes", "searches", "mentions", "sessions")}},
        drop=("sessions", "mentions", "searches", "bar"),
        paths=("path",),
        room_for={"path": _PATH},
    )


def _folders(found: Heat, limit: int, depth: int, sort: str) -> None:
    from ctx_pipeline.sessions.files import roll_up

    rows = sorted(roll_up(found.files, depth), key=lambda row: -_sorted_by(row, sort))
    most = max(_sorted_by(row, sort) for row in rows[:limit])
    shown = [
        {**r, "directory": name_for_agent(r["directory"]), "bar": _bar(_sorted_by(r, sort), most), "changes": r["edit"] + r["write"]}
        for r in rows[:limit]
    ]
    table(
        shown,
        {"directory": "folder", "bar": "", "accesses": "accesses", "read": "reads", "changes": "changes", "files": "files"},
        drop=("files", "bar"),
        paths=("directory",),
        room_for={"directory": _PATH},
    )


def _together(found: Heat, limit: int, _: int, __: str) -> None:
    if found.pairs:
        say("TOUCHED TOGETHER:", bold=True)
        table(
            [{"first": name_for_agent(a), "second": name_for_agent(b), "sessions": n} for a, b, n in found.pairs[:limit]],
            {"first": "file", "second": "and", "sessions": "sessions"},
            paths=("first", "second"),
        )
    if found.never_changed:
        say("READ, NEVER CHANGED:", bold=True)
        for f in found.never_changed[:limit]:
            say(f"  {name_for_agent(f.name)}  {counted(f.counts['read'], 'read')}")


def _times(found: Heat, limit: int, _: int, __: str) -> None:
    say(f"BY DAY ({found.timezone}):", bold=True)
    most = max(found.days.values())
    table(
        [{"day": d, "n": n, "bar": _bar(n, most)} for d, n in list(found.days.items())[-limit:]], {"day": "day", "n": "accesses", "bar": ""}
    )
    say("BY HOUR:", bold=True)
    most = max(found.hours.values())
    table([{"hour": f"{h:02}", "n": n, "bar": _bar(n, most)} for h, n in found.hours.items()], {"hour": "hour", "n": "accesses", "bar": ""})
    say("HOTTEST NOW (older accesses count less):", bold=True)
    for f in sorted(found.files, key=lambda f: (-f.heat, f.name))[:limit]:
        say(f"  {f.heat:8.2f}  {plain(f.name)}")


def _cold(untouched: list[str] | None, found: Heat, limit: int) -> None:
    from ctx_pipeline.memory.scope import place_of
    from ctx_pipeline.sessions.session_choice import here

    if untouched is None:
        say("this folder is in no git repository: nobody can tell which files were never touched")
        return
    root = place_of(here()).roots[0]
    say(f"COLD FILES of {plain(root)} ({len(untouched):,} tracked and never touched):", bold=True)
    for name in untouched[:limit]:
        say(f"  {plain(name)}")
    if len(untouched) > limit:
        say(f"  and {len(untouched) - limit:,} more: --limit {len(untouched)}")
    once = [f.name for f in found.files if f.accesses == 1]
    if once:
        say(f"touched once: {', '.join(map(plain, once[:limit]))}" + (f" and {len(once) - limit} more" if len(once) > limit else ""))


# ctx cache: which files a context window holds, why files were delivered again, and marks of what it holds no more.


_CACHE = ("status", "causes", "clear", "invalidate")
_NO_FILES = "this session read no file, so its window holds none; ask for another one: ctx cache status SESSION (ctx list shows them)"


@click.command()
@click.argument("words", nargs=-1, metavar="[status|causes|clear|invalidate] [SESSION|PATH]")
@session_option
@at_option
@click.option("--thread", help="A subagent's or fork's window.")
@click.option("--ttl", type=click.IntRange(0), help="Seconds for which the provider keeps a prompt; 0 ignores it.")
@click.option("--limit", default=40, show_default=True, type=click.IntRange(1, 100_000), help="Lines to print.")
@json_option
def cache(words: tuple[str, ...], name: str | None, at: str | None, thread: str | None, ttl: int | None, limit: int, as_json: bool) -> None:
    """Show which files the model's window holds.

    status: files with their lines, tokens and reads, at the end or at a MOMENT. causes: why
    each file that was read again had to be. clear, and invalidate with a PATH: note that the
    model holds nothing, or no more of one file; the records stay as they are.

    Without --ttl a prompt is kept for five minutes, or an hour where the calls wrote an
    hour's cache. What the provider's cache saved is in `ctx usage daily --cache`.
    """
    from ctx_pipeline.errors import UsageError

    action, rest = (words[0], words[1:]) if words and words[0] in _CACHE else ("status", words)
    path = rest[0] if rest else ""
    if action == "invalidate" and not path:
        raise UsageError("name the file", hint="ctx cache invalidate src/auth.ts")
    if action == "invalidate":
        if len(rest) > 1:
            raise UsageError("name one file", hint=f"ctx cache invalidate {path}")
        _mark(action, path, name, as_json)
        return
    if action == "clear":
        _mark(action, "", one_name(rest, name), as_json)
        return
    from ctx_pipeline.sessions.reports.repeated_reads import CAUSES, window_files

    settings = for_reading()
    name, line = session_of_person(settings, one_name(rest, name))
    found = window_files(name, at=at, thread=thread, ttl=ttl, settings=settings)
    if as_json:
        emit(found.to_json())
        return
    if action == "causes":
        times = found.causes
        rows = [{"cause": cause, **figures, "why": CAUSES[cause]} for cause, figures in times.items()]
        if rows:
            table(rows, {"cause": "cause", "times": "times", "tokens": "tokens", "why": "what it means"})
        for a in found.again[-limit:]:
            say(f"  {a.cause:<12} {plain(a.delivery.path)} {plain(a.delivery.lines)}  {a.tokens:,} t")
        if not found.deliveries:
            say(_NO_FILES)
        else:
            say(f"{counted(len(found.again), 'file')} delivered again, of {counted(found.deliveries, 'read')}")
        say(line)
        return
    if not found.files:
        say(
            _NO_FILES
            if not found.deliveries
            else "the window holds no file any more; at another moment: ctx cache --at before-compaction:1"
        )
    else:
        say(f"Cache: {counted(len(found.files), 'file')}" + ("" if found.moment == "end" else f" at {plain(found.moment)}"), bold=True)
    for f in found.files[:limit]:
        lines = f"{f.lines}L" if f.lines else "whole"
        say(f"{f.ref}={one_line(f.path, 100)} [{lines}, {f.tokens:,}t, read {f.reads}x]" + ("  changed since" if f.changed else ""))
    if len(found.files) > limit:
        say(f"and {len(found.files) - limit} more: --limit {len(found.files)}")
    if found.again:
        told = ", ".join(f"{cause} {one['times']}x ({tokens(one['tokens'])})" for cause, one in found.causes.items())
        say(f"delivered again: {told}")
    say(line)
    say("what the provider's cache saved: ctx usage daily --cache", dim=True)


def _mark(action: str, path: str, name: str | None, as_json: bool) -> None:
    from ctx_pipeline.cli.session.writing import act

    kept = act("cleared" if action == "clear" else "invalidated", name=name, text=path)
    if as_json:
        emit(kept)
        return
    what = f"no more of {one_line(path, 100)}" if path else "nothing any more"
    say(f"noted: the model of {kept['host']} {plain(kept['session_id'])[:12]} holds {what}")
