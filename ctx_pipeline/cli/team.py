"""``ctx team``, ``ctx publish`` and ``ctx hub``: many machines, one team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import counted, dollars, emit, json_option, local_time, one_line, say, table, tokens
from ctx_pipeline.model.display import size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.team.membership import Membership
    from ctx_pipeline.team.publish import Published
    from ctx_pipeline.team.pull import Pulled


_OF_LESSONS = ("memory_id", "verdict", "accepted_by", "rejected_by", "flags", "repository", "support", "text")
"""What is shown of a lesson; --json has the rest."""

_NONE = {
    "shared_sessions": "no session is on more than one machine",
    "lessons": "no lesson yet: one comes when a member accepts it (ctx memory accept) in a project that shares lessons",
}
"""Report -> what is said where it has no row, though members published."""

_PROBLEMS = 20
"""Rows and sessions that a refresh names as refused."""

_PROJECTS = 20
"""Projects that a rehearsal names, those with most sessions first."""


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
@click.option("--key", multiple=True, metavar="KEY", help="The team's public key (age1..., or a file), for raw: transcripts go encrypted.")
@click.option("--pull/--no-pull", default=None, help="Let lessons of the team reach this machine's agents. On at first.")
@click.option("--auto/--no-auto", default=None, help="Publish without being asked: after ctx run, after sessions, nightly. On at first.")
@json_option
def join(
    url: str,
    name: str | None,
    machine: str | None,
    share: str | None,
    key: tuple[str, ...],
    pull: bool | None,
    auto: bool | None,
    as_json: bool,
) -> None:
    """Enter this machine in the team whose bucket is URL: s3://, gs://, az:// or a folder.

    Nothing leaves before a policy says so: --share, or: ctx team share PROJECT POLICIES.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.membership import join as run

    shares = share.split(",") if share else ()
    member = run(settings_module.load(), url, name=name, machine=machine, share=shares, pull=pull, key=key, auto=auto)
    if as_json:
        emit(_as_json(member))
        return
    say(f"{member.member} on {member.machine} belongs to the team at {member.url}")
    _say_policies(member)
    _say_elsewhere()
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
    from ctx_pipeline.errors import nearest
    from ctx_pipeline.storage.team_tables.local_rows import local_names
    from ctx_pipeline.team.membership import EVERY, demand, key_of, save, shared

    with _opened() as (settings, store):
        member = shared(demand(settings), project, policies)
        save(settings, member)
        names = {key_of(name) for name in local_names(store)}
    if as_json:
        emit(_as_json(member))
    else:
        _say_policies(member)
    if names and key_of(project) not in {EVERY, *names}:
        near = ", ".join(nearest(project, names))
        say(f"no session here is of {project!r}{f'; did you mean {near}?' if near else ''}", fg="yellow", err=True)


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
    _say_elsewhere()


@team.command("pull")
@json_option
def pull_lessons(as_json: bool) -> None:
    """Bring the lessons that the team accepted to this machine's agents.

    Each is checked here again. Refuse one with: ctx memory reject ID. ctx publish does the same.
    """
    from ctx_pipeline.team.auto import pull_lessons as pull_lessons_here

    with _opened() as (settings, store):
        done = pull_lessons_here(store, settings)
    if as_json:
        emit(vars(done))
        return
    _say_pulled(done)
    if not done.changes:
        say(f"nothing new; {counted(done.held, 'lesson')} of the team {'is' if done.held == 1 else 'are'} here")


@team.command()
@click.option("--erase", is_flag=True, help="Remove from the bucket what this machine published, with all earlier versions.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def leave(erase: bool, yes: bool, as_json: bool) -> None:
    """Take this machine out of its team; with --erase also what it published."""
    from ctx_pipeline.cli.output import confirm
    from ctx_pipeline.team.membership import demand, join_command
    from ctx_pipeline.team.withdraw import leave as run

    with _opened() as (settings, store):
        member = demand(settings)
        if erase and not yes:
            confirm(f"Remove everything that {member.member} on {member.machine} published to {member.url}?")
        erased = run(store, settings, erase=erase)
    if as_json:
        emit({"left": member.url, "erased": erased})
        return
    say(f"{member.member} on {member.machine} left the team at {member.url}")
    if erase:
        # a machine that had left before has no list of what it sent
        told = f"{counted(erased, 'session')} erased there" if erased else "whatever it had published was erased there"
        say(f"{told}; the hub's copies go with its next refresh")
    else:
        again = join_command(member.url, member.member, member.machine)
        say(f"what was published stays there; to erase it: {again}, then ctx team leave --erase")


def _say_pulled(done: Pulled) -> None:
    if done.changes:
        say(f"{counted(len(done.new) + len(done.changed), 'lesson')} came from the team, {counted(len(done.retired), 'lesson')} went")
    for memory_id, why in done.refused.items():
        say(f"  {one_line(memory_id, 80)} was not taken: {one_line(why, 120)}")


def _as_json(member: Membership) -> dict[str, Any]:
    return {
        "url": member.url,
        "member": member.member,
        "machine": member.machine,
        "share": {project: list(policies) for project, policies in member.share.items()},
        "pull": member.pull,
        "auto": member.auto,
        "key": list(member.key),
    }


def _say_elsewhere() -> None:
    """Say under which other names this machine took part; what it published so stays until it is erased."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.membership import elsewhere

    for command in elsewhere(settings_module.load()):
        say(f"what this machine published under other names stays there; to erase it: {command}, then ctx team leave --erase")
        say("after that join again, and set the policies anew: ctx team share PROJECT POLICIES")


def _say_policies(member: Membership) -> None:
    if not member.share:
        say("no project is shared: ctx team share PROJECT counts,lessons")
        return
    rows = [{"project": name, "shares": ", ".join(policies) or "nothing"} for name, policies in sorted(member.share.items())]
    table(rows, {"project": "project", "shares": "shares"})
    say("published by itself: after ctx run, after sessions, nightly" if member.auto else "published when asked: ctx publish")


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would leave, in rows and an example, and send nothing.")
@click.option("--all", "whole", is_flag=True, help="Send every session again, and replace tables that somebody else damaged.")
@click.option(
    "--auto", is_flag=True, help="Only where this machine publishes by itself, in one line, and end with 0: for hooks and timers."
)
@json_option
def publish(dry_run: bool, whole: bool, auto: bool, as_json: bool) -> None:
    """Capture, send what changed to the team by the policy of each project, and bring the team's lessons here."""
    if auto:
        _by_itself()
        return
    from ctx_pipeline.team.auto import pull_lessons as pull_lessons_here
    from ctx_pipeline.team.membership import demand
    from ctx_pipeline.team.publish import publish as run

    with _opened() as (settings, store):
        demand(settings)
        _captured(store, settings)
        done = run(store, settings, dry_run=dry_run, whole=whole)
        pulled = None if dry_run or not demand(settings).pull else pull_lessons_here(store, settings)
    if as_json:
        emit({**done.to_json(), "pulled": vars(pulled) if pulled else None})
        return
    _say_published(done)
    if pulled:
        _say_pulled(pulled)


def _captured(store: Store, settings: Settings) -> None:
    """Bring the tables that leave this machine up to date: what agents wrote since, and the facts of it."""
    from ctx_pipeline.pipeline.facts import make_facts
    from ctx_pipeline.pipeline.sync import sync

    sync(store, settings)
    make_facts(store, settings)


def _by_itself() -> None:
    """Capture and publish; what goes wrong is one line on standard error."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.storage import open_store
    from ctx_pipeline.team.auto import publish_quietly, publishes

    try:
        settings = settings_module.load()
        if not publishes(settings):
            return
        with open_store(settings) as store:
            _captured(store, settings)
    except CtxError as error:
        say(one_line(f"not published: {error.message}", 400), err=True)
        return
    if line := publish_quietly(settings):
        say(one_line(line, 400), err=True)


def _say_published(done: Published) -> None:
    verb = "would be sent" if done.dry else "sent"
    if done.transcripts:
        told = size(done.transcript_bytes)
        say(f"the transcripts of {counted(done.transcripts, 'session')} {verb} encrypted, {told} before compression")
    if not done.sessions and not done.removed and not done.lessons:
        shared = done.by_project or not done.withheld
        if not done.transcripts:
            say(
                "nothing changed since the last time" if shared else "no project of this machine is shared: ctx team share PROJECT POLICIES"
            )
    else:
        rows = sum(done.rows.values())
        say(f"{counted(done.sessions, 'session')} and {counted(done.lessons, 'lesson')} {verb}, {counted(rows, 'row')} in all")
    if done.removed:
        say(f"{counted(done.removed, 'session')} {'would be ' if done.dry else ''}removed from the team")
    if done.rows:
        table([{"table": name, "rows": n} for name, n in done.rows.items() if n], {"table": "table", "rows": "rows"})
    if done.dry:
        _say_projects(done)
    for name, row in done.examples.items():
        say(f"an example of {name}:", bold=True)
        for column, value in row.items():
            if value is not None:
                say(f"  {column}: {one_line(value, 100)}")
    kept = sum(done.withheld.values())
    if kept:
        names = ", ".join(sorted(done.withheld)[:5])
        say(f"{counted(kept, 'session')} of projects without a policy {'stays' if kept == 1 else 'stay'} here ({one_line(names, 100)})")
    if done.lessons_withheld:
        told = ", ".join(f"{count:,} {why}" for why, count in done.lessons_withheld.most_common())
        say(f"{counted(done.lessons_withheld.total(), 'accepted lesson stays', 'accepted lessons stay')} here: {told}")


def _say_projects(done: Published) -> None:
    """Say of which projects sessions would leave, and under which policies."""
    due = sorted((-one["sessions"], name, ", ".join(one["policies"])) for name, one in done.by_project.items() if one["sessions"])
    rows = [{"project": name, "shares": shares, "sessions": -count} for count, name, shares in due]
    if rows:
        table(rows[:_PROJECTS], {"project": "project", "shares": "shares", "sessions": "sessions"})
    if len(rows) > _PROJECTS:
        say(f"and {counted(len(rows) - _PROJECTS, 'project')} more: --json")


# ctx hub: what a team's bucket holds, brought together.


url_option = click.option("--url", metavar="URL", help="The team's bucket; that of this machine's team by default.")


@click.group()
def hub() -> None:
    """Bring together what a team published: usage, checks, lessons, signals, and the team's page."""


@hub.command()
@url_option
@json_option
def refresh(url: str | None, as_json: bool) -> None:
    """Collect what was published since the last time and build the team's page."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.hub import Hub
    from ctx_pipeline.team.hub_page import build_page

    opened = Hub(settings_module.load(), url)
    done = opened.refresh()
    page = build_page(opened, opened.lessons())
    if as_json:
        emit({**vars(done), "page": str(page)})
        return
    say(
        f"{counted(done.members, 'member')}, {counted(len(done.collected), 'month')} collected,"
        f" signals of {counted(len({one.partition(' ')[0] for one in done.measured}), 'month')} measured,"
        f" {counted(done.lessons, 'team lesson')}"
        f" ({done.seconds:.1f} s)"
    )
    if not done.members:
        say(f"no machine has published to {opened.bucket.url}: is it the team's bucket?", fg="yellow", err=True)
    for problem in done.problems[:_PROBLEMS]:
        say(f"refused: {one_line(problem, 200)}", fg="yellow", err=True)
    if len(done.problems) > _PROBLEMS:
        say(f"and {len(done.problems) - _PROBLEMS:,} more: --json", fg="yellow", err=True)
    for problem in done.not_collected:
        say(f"not collected: {one_line(problem, 200)}", fg="yellow", err=True)
    if done.not_collected:
        say("what the team had of these stays; on a machine of the member: ctx publish --all", fg="yellow", err=True)
    say(f"page: {page}")


@hub.command("show")
@click.argument("report", default="members")
@url_option
@json_option
def show_report(report: str, url: str | None, as_json: bool) -> None:
    """Show a report of the team: members, projects, days, models, checks, turns, signals, lessons, total, shared_sessions."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.errors import UnknownChoice
    from ctx_pipeline.storage.team_tables.hub_database import REPORTS
    from ctx_pipeline.team.hub import Hub
    from ctx_pipeline.team.published_tables import LESSONS

    if report not in REPORTS:
        raise UnknownChoice("report", report, REPORTS)
    settings = settings_module.load()
    hub = Hub(settings, url)
    rows = hub.judged_lessons() if report == LESSONS else hub.database.reports((report,))[report]
    if as_json:
        emit({"report": report, "rows": rows})
        return
    if not rows:
        nothing = _NONE.get(report, f"no member published what {report} are made of")
        say(nothing if hub.database.loaded() else "nothing is there yet: ctx hub refresh")
        return
    if report == LESSONS:
        rows = [{name: row[name] for name in _OF_LESSONS} for row in rows]
    filled = [name for name in rows[0] if any(row[name] for row in rows)]
    told = [{name: _figure(name, row[name], settings.timezone) for name in filled} for row in rows]
    heads = {name: name.removesuffix("_nano").removesuffix("_tokens").removesuffix("_ts").replace("_", " ") for name in filled}
    table(told, heads)


def _figure(name: str, value: Any, zone: str | None) -> Any:
    """Return a value of a report as a person reads it."""
    if value is None:
        return ""
    if name.endswith("_nano"):
        return dollars(value)
    if name.endswith("_tokens"):
        return tokens(value)
    if name.endswith("_ts"):
        return local_time(value, zone)
    return ", ".join(map(str, value)) if isinstance(value, list) else value


@hub.command()
@click.argument("folder", type=click.Path(file_okay=False))
@json_option
def sample(folder: str, as_json: bool) -> None:
    """Make a team of three made-up members with sample sessions below FOLDER, to look at."""
    from pathlib import Path

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.sample_members import sample_team

    bucket, published = sample_team(settings_module.load(), Path(folder))
    if as_json:
        emit({"url": str(bucket), "sessions": published})
        return
    told = ", ".join(f"{name} {count}" for name, count in published.items())
    say(f"sessions published: {told}")
    say(f"next: ctx hub refresh --url {bucket}, ctx hub show members --url {bucket}, ctx hub dev --url {bucket}")


@hub.command()
@url_option
@click.option("--port", default=3001, show_default=True, help="Port on the loopback interface.")
def dev(url: str | None, port: int) -> None:
    """Open the hub's asset graph in Dagster, partitioned by member and month."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.defs import hub_launch

    hub_launch.ui(settings_module.load(), url, port=port)


@hub.command()
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--url", required=True, help="The team's bucket.")
@click.option("--image", default="ctx-hub:latest", show_default=True, help="Name of the container image.")
@json_option
def deploy(folder: str, url: str, image: str, as_json: bool) -> None:
    """Write settings for a hub with many workers: Dagster's instance, a Compose file, values for its Helm chart."""
    from pathlib import Path

    from ctx_pipeline.team import deployment

    written = deployment.deploy(Path(folder).expanduser().absolute(), url, image=image)
    if as_json:
        emit({"files": [str(path) for path in written]})
        return
    for path in written:
        say(str(path))
    say(f"next: set HUB_PASSWORD in {written[-2]}, then: docker compose up --build --scale worker=4")
    names = f"{deployment.DATABASE}, {deployment.BROKER} and {deployment.BUCKET}"
    say(f"without containers: export {names}, and DAGSTER_HOME={folder}; on each machine: ctx hub worker")


@hub.command()
@url_option
@click.option("--name", default="", metavar="NAME", help="Name of the worker; made of its process by default.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 64), help="Runs at once.")
def worker(url: str | None, name: str, processes: int) -> None:
    """Take runs of the hub's graph, beside other workers, until Ctrl-C. Needs the extra 'workers' and ctx hub deploy."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.defs import hub_workers

    hub_workers.work(settings_module.load(), url, name=name, processes=processes)


@hub.command()
@click.argument("members", nargs=-1)
@url_option
@click.option("--identity", type=click.Path(), metavar="FILE", help="The team's private key, as age-keygen wrote it; CTX_TEAM_IDENTITY.")
@click.option("--share", default="facts", show_default=True, metavar="POLICIES", help="What of them the team's tables get.")
@json_option
def shards(members: tuple[str, ...], url: str | None, identity: str | None, share: str, as_json: bool) -> None:
    """Make rows of the exact transcripts that wait (policy raw), of all MEMBERS or of those named."""
    from pathlib import Path

    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.hub import Hub
    from ctx_pipeline.team.shards import work

    key = Path(identity) if identity else None
    done = work(Hub(settings_module.load(), url), key, members=members, share=share)
    if as_json:
        emit({"shards": [vars(one) for one in done]})
    for one in done if not as_json else ():
        figures = f"{counted(one.files, 'file')} in {counted(one.bundles, 'bundle')}, rows of {counted(one.sessions, 'session')} sent"
        say(f"{one.member}: {figures}, of {one.removed:,} removed ({one.seconds:.1f} s)")
        for problem in one.problems:
            say(f"  {one_line(problem, 200)}", fg="yellow", err=True)
    if not done and not as_json:
        say("nothing waits")
    if any(one.problems for one in done):
        raise SystemExit(1)


@hub.command("doctor")
@url_option
@json_option
def hub_doctor(url: str | None, as_json: bool) -> None:
    """Show lag, versions and clocks of machines, what failed since when, files of tables, bytes and monthly cost of members."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.team.hub import Hub
    from ctx_pipeline.team.hub_upkeep import doctor

    found = doctor(Hub(settings_module.load(), url))
    if as_json:
        emit(vars(found))
        return
    for rows in (found.machines, found.members, found.tables):
        if rows:
            table(rows, {name: name.replace("_", " ") for name in rows[0]})
            say()
    for problem in found.problems:
        say(one_line(problem, 400), fg="yellow")
    if not found.problems:
        say("nothing is wrong")


@hub.command()
@url_option
@click.option("--erase", is_flag=True, help="Remove also what was replaced within the last week: readers of older versions fail.")
@json_option
def upkeep(url: str | None, erase: bool, as_json: bool) -> None:
    """Merge small files of the team's tables and remove those that no version of the last week needs."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.storage.team_tables.delta import VACUUM_HOURS
    from ctx_pipeline.team.hub import Hub
    from ctx_pipeline.team.hub_upkeep import compact_tables, vacuum_tables

    opened = Hub(settings_module.load(), url)
    merged = compact_tables(opened)
    removed = vacuum_tables(opened, 0 if erase else VACUUM_HOURS)
    if as_json:
        emit({"files_merged": merged, "files_removed": removed})
    else:
        say(f"{counted(merged, 'file')} merged, {counted(removed, 'file')} removed")
