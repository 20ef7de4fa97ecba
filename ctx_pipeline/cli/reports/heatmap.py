"""``ctx heatmap``: which files are worked on, and which nobody ever touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, one_line, plain, say, table

if TYPE_CHECKING:
    from ctx_pipeline.sessions.file_activity import Heat

ACTIONS = ("status", "directory", "dirs", "cold", "co-reads", "times", "json")
_WIDTH = 12


@click.command()
@click.argument("action", default="status", type=click.Choice(ACTIONS))
@click.argument("path", required=False)
@click.option("--path", "named", metavar="PATH", help="Only this folder, file or glob; also as PATH behind the action.")
@click.option("--host", help="Only this agent.")
@click.option("--project", help="This project, by its name or repository, wherever you are.")
@click.option("--all", "everywhere", is_flag=True, help="All projects; without it the repository around this folder.")
@click.option("--since", metavar="DAY", help="First day: 2026-03-01, 2026-03, yesterday, monday, 7d.")
@click.option("--until", metavar="DAY", help="Last day, as --since.")
@click.option("--timezone", help="IANA zone of the days.")
@click.option("--depth", default=2, show_default=True, type=click.IntRange(1, 40), help="Levels of folders for directory and dirs.")
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 100_000), help="Lines to print.")
@json_option
def heatmap(action: str, path: str | None, named: str | None, depth: int, limit: int, as_json: bool, **chosen: Any) -> None:
    """Show which files agents read, changed, searched and named.

    status: the most touched files. directory, dirs: the same by folder. cold: tracked files
    that nobody touched. co-reads: files that sessions touch together, and those read but
    never changed. times: by day and hour. json: everything.
    """
    from ctx_pipeline.sessions.file_activity import cold, heat

    wanted = named or path
    found = heat(path=wanted, settings=for_reading(), **chosen)
    untouched = None
    if action in ("cold", "json"):
        # git tracks the files of this repository; those of another may have the same names
        ever = heat(settings=for_reading(), **(chosen | {"since": None, "until": None, "everywhere": False, "project": None}))
        untouched = cold(ever, path=wanted)
    if as_json or action == "json":
        emit(_shape(found, depth, untouched))
        return
    if action == "cold":
        _cold(untouched, found, limit)
        return
    if not found.total:
        say("no file was touched in the selected sessions")
        return
    {"status": _files, "directory": _folders, "dirs": _folders, "co-reads": _together, "times": _times}[action](found, limit, depth)
    say(
        f"Total: {counted(found.total, 'access', 'accesses')} across {counted(len(found.files), 'file')}"
        f" in {counted(found.sessions, 'session')}"
    )


def _shape(found: Heat, depth: int, untouched: list[str] | None) -> dict[str, Any]:
    from ctx_pipeline.sessions.file_activity import HALF_LIFE_DAYS, SCHEMA, roll_up

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


def _files(found: Heat, limit: int, _: int) -> None:
    say(f"HOT FILES (top {min(limit, len(found.files))}):", bold=True)
    shown = found.files[:limit]
    rows = [
        {
            "path": one_line(f.name, 80),
            "bar": _bar(f.accesses, found.files[0].accesses),
            "accesses": f.accesses,
            "reads": f.counts["read"],
            "changes": f.counts["edit"] + f.counts["write"],
            "searches": f.counts["search"],
            "mentions": f.counts["mention"],
            "sessions": len(f.sessions),
        }
        for f in shown
    ]
    table(rows, {"path": "file", "bar": "", **{n: n for n in ("accesses", "reads", "changes", "searches", "mentions", "sessions")}})


def _folders(found: Heat, limit: int, depth: int) -> None:
    from ctx_pipeline.sessions.file_activity import roll_up

    rows = roll_up(found.files, depth)
    most = int(rows[0]["accesses"])
    shown = [{**r, "bar": _bar(int(r["accesses"]), most), "changes": r["edit"] + r["write"]} for r in rows[:limit]]
    table(shown, {"directory": "folder", "bar": "", "accesses": "accesses", "read": "reads", "changes": "changes", "files": "files"})


def _together(found: Heat, limit: int, _: int) -> None:
    if found.pairs:
        say("TOUCHED TOGETHER:", bold=True)
        table(
            [{"first": a, "second": b, "sessions": n} for a, b, n in found.pairs[:limit]],
            {"first": "file", "second": "and", "sessions": "sessions"},
        )
    if found.never_changed:
        say("READ, NEVER CHANGED:", bold=True)
        for f in found.never_changed[:limit]:
            say(f"  {plain(f.name)}  {counted(f.counts['read'], 'read')}")


def _times(found: Heat, limit: int, _: int) -> None:
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
    if untouched is None:
        say("this folder is in no git repository: nobody can tell which files were never touched")
        return
    say(f"COLD FILES ({len(untouched):,} tracked and never touched):", bold=True)
    for name in untouched[:limit]:
        say(f"  {plain(name)}")
    if len(untouched) > limit:
        say(f"  and {len(untouched) - limit:,} more: --limit {len(untouched)}")
    once = [f.name for f in found.files if f.accesses == 1]
    if once:
        say(f"touched once: {', '.join(map(plain, once[:limit]))}" + (f" and {len(once) - limit} more" if len(once) > limit else ""))
