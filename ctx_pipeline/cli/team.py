"""``ctx team``, ``ctx publish`` and ``ctx hub``: many machines, one team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import counted, emit, json_option, one_line, say, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.team.membership import Membership
    from ctx_pipeline.team.publish import Published


def _opened() -> Any:
    """Return what gives the settings and the store for writing inside a block."""
    from contextlib import contextmanager

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.storage import open_store

    @contextmanager
    def opened() -> Iterator[tuple[Settings, Store]]:
        settings = settings_module.load()
        with open_store(settings) as store:
            yield settings, store

    return opened()


@click.group()
def team() -> None:
    """Share usage, facts and lessons with a team, by project and policy."""


@team.command()
@click.argument("url")
@click.option("--as", "name", metavar="NAME", help="Name of the member; the user's own by default.")
@click.option("--machine", metavar="NAME", help="Name of this machine; its host name by default.")
@click.option("--share", metavar="POLICIES", help="What to share of every project: counts, lessons, facts, texts, raw.")
@json_option
def join(url: str, name: str | None, machine: str | None, share: str | None, as_json: bool) -> None:
    """Enter this machine in the team whose bucket is URL: s3://, gs://, az:// or a folder.

    Nothing leaves before a policy says so: --share, or: ctx team share PROJECT POLICIES.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.membership import join as run

    member = run(settings_module.load(), url, name=name, machine=machine, share=share.split(",") if share else ())
    if as_json:
        emit(_as_json(member))
        return
    say(f"{member.member} on {member.machine} belongs to the team at {member.url}")
    _say_policies(member)
    say("next: ctx publish --dry-run")


@team.command()
@click.argument("project")
@click.argument("policies")
@json_option
def share(project: str, policies: str, as_json: bool) -> None:
    """Share POLICIES of PROJECT: counts, lessons, facts, texts, raw (comma list), or none.

    PROJECT is a project's name, a repository (github.com/owner/name) or '*' for all others.
    What a narrower policy no longer allows is removed by the next publish.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.membership import demand, save, shared

    settings = settings_module.load()
    member = shared(demand(settings), project, policies)
    save(settings, member)
    if as_json:
        emit(_as_json(member))
    else:
        _say_policies(member)


@team.command()
@json_option
def show(as_json: bool) -> None:
    """Show the team, the names and the policies of this machine."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.membership import demand

    member = demand(settings_module.load())
    if as_json:
        emit(_as_json(member))
        return
    say(f"{member.member} on {member.machine} belongs to the team at {member.url}")
    _say_policies(member)


def _as_json(member: Membership) -> dict[str, Any]:
    return {
        "url": member.url,
        "member": member.member,
        "machine": member.machine,
        "share": {project: list(policies) for project, policies in member.share.items()},
        "pull": member.pull,
    }


def _say_policies(member: Membership) -> None:
    if not member.share:
        say("no project is shared: ctx team share PROJECT counts,lessons")
        return
    rows = [{"project": name, "shares": ", ".join(policies) or "nothing"} for name, policies in sorted(member.share.items())]
    table(rows, {"project": "project", "shares": "shares"})


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would leave, in rows and an example, and send nothing.")
@click.option("--all", "whole", is_flag=True, help="Look at every session again, not only at partitions that changed.")
@json_option
def publish(dry_run: bool, whole: bool, as_json: bool) -> None:
    """Send what changed to the team, by the policy of each project."""
    from ctx_pipeline.team.publish import publish as run

    with _opened() as (settings, store):
        done = run(store, settings, dry_run=dry_run, whole=whole)
    if as_json:
        emit(done.to_json())
    else:
        _say_published(done)


def _say_published(done: Published) -> None:
    verb = "would be sent" if done.dry else "sent"
    if not done.sessions and not done.removed and not done.lessons:
        say("nothing changed since the last time" if done.by_project or not done.withheld else "no project of this machine is shared")
    else:
        rows = sum(done.rows.values())
        say(f"{counted(done.sessions, 'session')} and {counted(done.lessons, 'lesson')} {verb}, {counted(rows, 'row')} in all")
    if done.removed:
        say(f"{counted(done.removed, 'session')} {'would be ' if done.dry else ''}removed from the team")
    if done.rows:
        table([{"table": name, "rows": n} for name, n in done.rows.items() if n], {"table": "table", "rows": "rows"})
    for name, row in done.examples.items():
        say(f"an example of {name}:", bold=True)
        for column, value in row.items():
            if value is not None:
                say(f"  {column}: {one_line(value, 100)}")
    kept = sum(done.withheld.values())
    if kept:
        names = ", ".join(sorted(done.withheld)[:5])
        say(f"{counted(kept, 'session')} of projects without a policy stay here ({one_line(names, 100)})")
