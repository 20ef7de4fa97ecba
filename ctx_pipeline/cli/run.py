"""``ctx run``, ``sync``, ``status``, ``backfill`` and ``ui``."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import (
    ProgressLine,
    counted,
    dollars,
    emit,
    json_option,
    one_line,
    paragraph,
    say,
    say_command,
    table,
    tokens,
)
from ctx_pipeline.cli.signal import complete_signals

if TYPE_CHECKING:
    from ctx_pipeline.pipeline.capture import Scan
    from ctx_pipeline.settings import Settings


@click.command()
@click.option("--demo", is_flag=True, help="Use the sample homes of the package, in a store of their own.")
@click.option("--full", is_flag=True, help="Go through every stage even when nothing changed.")
@click.option("--explain", is_flag=True, help="Show of each asset how many sessions were worked out again, and why.")
@click.option("--watch", is_flag=True, help="Stay, and do it again whenever an agent has written.")
@click.option(
    "--every",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --watch: the pause after a run, in place of ten times what it took (2 to 90 s).",
)
@click.option("--parent", type=int, hidden=True, help="With --watch: end when the process that began this one has ended.")
@json_option
def run(demo: bool, full: bool, explain: bool, watch: bool, every: float | None, parent: int | None, as_json: bool) -> None:
    """Bring everything up to date and build the page.

    Reads the homes of your agents and of announced DSPy stores, never writes to them. With
    --watch it goes on until Ctrl-C: what an agent writes is captured within seconds and made
    part of everything; after each time it rests ten times as long as that took.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.cli.one_run import bring_up_to_date
    from ctx_pipeline.errors import UsageError

    if watch:
        from ctx_pipeline.cli.watching import watch_homes

        watch_homes(demo=demo, full=full, explain=_explain if explain else None, as_json=as_json, every=every, parent=parent)
        return
    if every is not None:
        raise UsageError("--every goes with --watch", hint="ctx run --watch --every SECONDS")
    settings, note = choose(settings_module.load(), demo=demo)
    if note and not as_json:
        say(note, err=True)
    scan, report, changed = bring_up_to_date(settings, full=full, quiet=as_json)
    if as_json:
        emit(report.to_json())
    else:
        _demand_whole(report.failed)
        _tell(settings, scan, report, changed=changed)
        if explain:
            _explain(report)
    if report.failed:
        raise SystemExit(1)


def _demand_whole(failed: list[str]) -> None:
    """Raise OutOfResources where the system refused what an unpartitioned asset needs: the figures of the run would be of nothing."""
    from ctx_pipeline.errors import refusal_in

    for error in failed:
        if "|" not in error.partition(":")[0] and (refused := refusal_in(error)) is not None:
            raise refused


def _tell(settings: Settings, scan: Scan, report: Any, *, changed: bool) -> None:
    from ctx_pipeline.cli.overview import quiet_line

    hosts = ", ".join(f"{count} {host}" for host, count in report.sessions_by_host.items())
    sessions, threads, calls = counted(report.sessions, "session"), counted(report.threads, "thread"), report.usage["calls"]
    say(f"{sessions} ({hosts}), {threads}, {counted(calls, 'model call')}")
    usage = report.usage
    say(
        f"{tokens(usage['input'])} tokens in, {tokens(usage['output'])} out, {tokens(usage['cache_read'])} read from the cache, "
        + ("no known price" if usage["cost"] is None else f"{dollars(usage['cost'])} at list prices")
    )
    if report.findings:
        say("Needs a look:", bold=True)
        for finding in report.findings:
            paragraph(one_line(finding.text, 400), "  ", "  ")
            if finding.command:
                say_command(finding.command, "    ")
    if scan.problems:
        say(f"  {counted(len(scan.problems), 'path')} in the homes cannot be captured; which, and why: ctx doctor", fg="yellow")
    if report.session_errors:
        troubled = len({(e["host"], e["session_id"]) for e in report.session_errors})
        say(f"  {counted(troubled, 'session')} could not be worked out completely; all others are unaffected:", fg="yellow")
        for error in report.session_errors[:5]:
            say(f"    {error['host']} {error['session_id']} ({error['asset']}): {one_line(error['reason'], 400)}")
        if len(report.session_errors) > 5:
            say("    all of them: ctx doctor")
    for warning in scan.retention:
        say(f"  {one_line(warning.message, 200)}", fg="yellow")
    if changed:
        read, made = counted(report.sessions_parsed, "session"), counted(report.cells_materialized, "partition")
        say(f"{read} read, {made} brought up to date in {report.seconds:.1f} s")
        for error in report.failed:
            say(f"failed partition: {one_line(error, 200)}", fg="red", err=True)
    else:
        say(f"nothing changed ({report.seconds:.2f} s)")
    if report.quiet:
        quiet_line(report.quiet)
    say(f"page: {report.site}")
    say("next: ctx, ctx cost, ctx list, ctx open")
    if settings.demo_roots:
        say("These are sample sessions. Your own appear as soon as an agent has written some.")


def _explain(report: Any) -> None:
    """Show what was made of each asset, alike ones of a group in one row."""
    if not report.assets:
        say("no asset was made")
        return
    alike: dict[tuple[Any, ...], list[str]] = {}
    for one in report.assets:
        group = one["asset"].partition("/")[0]
        alike.setdefault((group, one["partitions"], one["sessions"], one["why"]), []).append(one["asset"])
    rows = [
        {
            "asset": names[0] if len(names) == 1 else f"{group}/* ({len(names)})",
            "partitions": "" if partitions is None else partitions,
            "sessions": "" if sessions is None else f"{sessions} of {report.sessions:,}",
            "why": why,
        }
        for (group, partitions, sessions, why), names in alike.items()
    ]
    table(rows, {"asset": "asset", "partitions": "partitions", "sessions": "sessions made", "why": "why"})


@click.command()
@click.option("--figures", is_flag=True, help="Also bring up to date what reports over all sessions are added up from, as hooks do.")
@json_option
def sync(figures: bool, as_json: bool) -> None:
    """Capture, normalize and index what changed, and nothing else.

    This is what a hook calls: it takes a fraction of a second. The next run finds the
    work done and records it.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.cli.output import without_numpy
    from ctx_pipeline.pipeline.sync import sync as stage
    from ctx_pipeline.pipeline.sync import take_turn
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False, samples=False)
    with open_store(settings) as store:
        # of the hooks that come while another process writes one is enough
        reports = stage(store, settings, when_few=without_numpy) if not figures or take_turn(store) else []
        if reports:
            from ctx_pipeline.sessions.states.handoff import ready

            ready(settings)  # somebody may begin a chat now; reports that lack a figure make it themselves
        if reports and figures:
            from ctx_pipeline.pipeline.warehouse import keep_figures

            keep_figures(store, settings)
    gc.freeze()  # the interpreter would walk all of it once more before it ends
    parsed = sum(r.totals.get("sessions_parsed", 0) for r in reports)
    cells = sorted({key for r in reports for key, cell in r.cells.items() if key and cell.status == "done"})
    held = {key: error for r in reports for key, error in r.failed_partitions.items()}
    if as_json:
        emit({"sessions_parsed": parsed, "cells": cells, "held": held, "seconds": round(sum(r.seconds for r in reports), 3)})
    else:
        say(f"{parsed:,} sessions read, partitions: {', '.join(cells)}" if cells else "nothing changed")
        for key, error in held.items():
            say(f"failed partition: {key}: {one_line(error, 200)}", fg="red", err=True)
    if held:
        raise SystemExit(1)


@click.command()
@click.option("--asset", help="Only this asset, e.g. signals/outcomes.")
@json_option
def status(asset: str | None, as_json: bool) -> None:
    """Show which partitions of each asset are missing, stale or fresh, and why."""
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.pipeline import capture, plan
    from ctx_pipeline.pipeline.repair.damaged_outputs import damaged
    from ctx_pipeline.pipeline.repair.missing_outputs import reconcile_missing_outputs
    from ctx_pipeline.storage import may_write, open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings, read_only=not may_write(settings.home)) as store:
        if not store.read_only:
            reconcile_missing_outputs(store)
        broken = damaged(store)
        todo = plan.plan(store, settings, capture.scan(store, settings))
    for name, what in broken:
        say(f"{name} {what}", fg="red", err=True)
    report = todo.to_json() | {"left_out": discovery.left_out()}
    if asset:
        report["assets"] = [a for a in report["assets"] if a["asset"] == asset]
        if not report["assets"]:
            raise UnknownName("asset", asset, todo.assets)
    if as_json:
        emit(report)
        if broken:
            raise SystemExit(1)
        return
    rows = [{**a, "why": ", ".join(sorted({c["reason"] for c in a["cells"]}))} for a in report["assets"]]
    table(rows, {"asset": "asset", "fresh": "fresh", "stale": "stale", "missing": "missing", "why": "why"})
    if todo.pending:
        say(f"{todo.pending:,} sources in the homes are newer than the store")
    say("everything that a run makes is fresh" if todo.nothing_to_do and not broken else "bring it up to date: ctx run")
    for row in rows:
        if row["filled_by"] == "night" and row["missing"] + row["stale"]:
            say(f"{row['asset']} is filled by the nightly schedule, or now: ctx backfill {row['asset']}")
    if broken:
        raise SystemExit(1)


@click.command()
@click.argument("name", required=False, shell_complete=complete_signals)
@click.option("--signal", "family", help="A signal family (a file in signals/) or one of its signals.")
@click.option("--asset", help="Any asset key, e.g. mined/error_resolutions.")
@click.option("--partition", "--cell", "cells", multiple=True, help="Only this partition, e.g. 'HOST|2026-03'; may be repeated.")
@click.option("--force", is_flag=True, help="Fresh partitions too.")
@json_option
def backfill(name: str | None, family: str | None, asset: str | None, cells: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Fill the missing and stale partitions of a signal family or any asset; nothing else runs.

    NAME is a signal, a signal family or the key of an asset.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UnknownName, UsageError

    if sum(map(bool, (name, family, asset))) != 1:
        raise UsageError("name one thing to fill", hint="ctx backfill NAME: a signal, or an asset of ctx status")
    if name:
        family, asset = (None, name) if "/" in name else (name, None)
    settings, _ = choose(settings_module.load(), demo=False)
    discovery.look_in(settings.home / "config")
    if family:
        owner = discovery.signals().get(family)
        of_family = owner.family if owner else family
        if of_family not in discovery.families():
            raise UnknownName("signal", family, [*discovery.families(), *discovery.signals()])
        asset = f"signals/{of_family}"
    if not force and not cells and not _due(settings, str(asset)):
        from ctx_pipeline.cli.options import require_captured
        from ctx_pipeline.pipeline.run import Outcome

        require_captured(settings)
        emit(Outcome().to_json()) if as_json else say(f"{asset}: every partition is fresh, nothing to fill (--force fills them again)")
        return
    from ctx_pipeline.defs import launch

    with ProgressLine(quiet=as_json) as progress:
        outcome = launch.backfill(settings, str(asset), cells=cells or None, force=force, progress=progress)
    if as_json:
        emit(outcome.to_json())
    else:
        say(f"{asset}: {counted(outcome.cells_materialized, 'partition')} filled, each an agent's sessions of one month")
        if outcome.cells_materialized:
            say("what is made of it is older now; bring it up to date: ctx run")
        for error in outcome.failed:
            say(f"failed partition: {one_line(error, 200)}", fg="red", err=True)
    if outcome.failed:
        raise SystemExit(1)


def _due(settings: Settings, asset: str) -> bool:
    """Tell whether an asset has missing or stale partitions; without Dagster, whose import takes seconds."""
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.pipeline import plan
    from ctx_pipeline.storage import open_store

    with open_store(settings) as store:
        planned = plan.plan(store, settings).assets
        if asset not in planned:
            raise UnknownName("asset", asset, planned)
        return bool(planned[asset].dirty())


@click.command()
@click.option("--port", default=3000, show_default=True, help="Port of the web server, on loopback.")
@click.option("--watch", is_flag=True, help="Switch the sensors, the automation and the nightly schedule on.")
@click.option("--check", is_flag=True, help="Load the graph, print its assets and end.")
@click.option("--json", "as_json", is_flag=True, help="With --check: print one JSON object.")
def ui(port: int, watch: bool, check: bool, as_json: bool) -> None:
    """Open the asset graph in Dagster; it takes about ten seconds to start."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose

    settings, _ = choose(settings_module.load(), demo=False)
    from ctx_pipeline.defs import launch

    if check:
        keys = launch.asset_keys(settings)
        if as_json:
            emit({"assets": keys})
        else:
            say("\n".join(keys))
        return
    launch.ui(settings, port=port, watch=watch)
