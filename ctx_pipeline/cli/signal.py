"""``ctx signal``: list, run, show, summary, new and check."""

from __future__ import annotations

from typing import Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import (
    host_option,
    project_option,
    require_captured,
    require_project,
    since_option,
    timezone_option,
    until_option,
)
from ctx_pipeline.cli.output import (
    counted,
    dollars,
    emit,
    json_option,
    local_time,
    more_rows,
    one_line,
    say,
    say_command,
    say_row,
    table,
    zone_name,
)
from ctx_pipeline.cli.session_names import session_argument
from ctx_pipeline.model.display import title_text


@click.group()
def signal() -> None:
    """Measurements over a session: what they are, their readings, the evidence."""


_FACTS = ("family", "group", "kind", "unit", "better", "method", "version")


def complete_signals(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of signals that begin so, for the shell."""
    from ctx_pipeline import discovery

    return [name for name in discovery.signals() if name.startswith(incomplete)]


@signal.command("list")
@click.argument("names", nargs=-1, shell_complete=complete_signals)
@click.option("--group", help="Only this group: activity, outcome, cost, risk, context, behavior.")
@json_option
def list_signals(names: tuple[str, ...], group: str | None, as_json: bool) -> None:
    """List the signals: what each measures, its unit and how to read it.

    The table cuts long texts; with NAMES only these signals are shown, in full.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.sessions.signals import catalogue

    rows = catalogue(group)
    if names:
        known = {r["signal"]: r for r in rows}
        for name in names:
            if name not in known:
                raise UnknownName("signal", name, known)
        rows = [known[name] for name in dict.fromkeys(names)]
    if as_json:
        emit({"signals": rows, "left_out": discovery.left_out()})
        return
    if names:
        for r in rows:
            say(f"{r['signal']}: {r['what']}", bold=True)
            say(f"  {r['how_to_read']}")
            say("  " + ", ".join(f"{key} {r[key] or 'none'}" for key in _FACTS))
        return
    facts = ("unit", "better", "group", "family", "kind", "method", "version")
    heads = {"signal": "signal", "what": "what it is", **{name: name for name in facts}, "how_to_read": "how to read it"}
    table(rows, heads, drop=("how_to_read", "version", "method", "kind", "family", "better", "group"), keep=("signal",))


@signal.command()
@click.option("--host", help="Only sessions of this host.")
@click.option("--session-id", "session_ids", multiple=True, help="Only this session; may be repeated, or a list with commas.")
@click.option(
    "--signal",
    "names",
    multiple=True,
    help="A signal or a family; may be repeated, or a list with commas.",
    shell_complete=complete_signals,
)
@click.option("--force", is_flag=True, help="Recompute existing readings.")
@click.option("--refresh-observations", "refresh", is_flag=True, help="Ask git again and recompute what depends on it.")
@click.option("--judge", is_flag=True, help="Ask the configured model about the sessions that have no answer yet; it costs money.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="With --judge: questions at most.")
@json_option
def run(
    host: str | None,
    session_ids: tuple[str, ...],
    names: tuple[str, ...],
    force: bool,
    refresh: bool,
    judge: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Compute the readings that are missing; others are left as they are."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.pipeline import warehouse as signal_summary
    from ctx_pipeline.pipeline.facts import make_facts
    from ctx_pipeline.pipeline.measure import measure
    from ctx_pipeline.pipeline.models.model_judge import ask
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        families = _families(_split(names), refresh=refresh, judge=judge)
        cells, sessions = _selection(store, host, _split(session_ids))
        asked: dict[str, Any] = {}
        if judge:
            asked = ask(store, settings, families=families, cells=cells, sessions=sessions, limit=limit)
            force = True
        make_facts(store, settings, cells=cells)
        report = measure(store, settings, families=families, cells=cells, sessions=sessions, force=force, refresh=refresh)
        signal_summary.write(store)
    if as_json:
        emit({"cells": {k: {"status": c.status, **c.counts} for k, c in report.cells.items()}, **report.totals, **asked})
        return
    if asked:
        say(f"asked {asked['asked']:,} times, {asked['failed']:,} without an answer, {dollars(asked['cost_nano'])}")
    say(", ".join(f"{name}: {count:,}" for name, count in report.totals.items()) or "nothing to compute")
    for key, error in report.failed_partitions.items():
        say(f"failed partition: {key}: {error}", err=True)


def _split(values: tuple[str, ...]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _families(names: list[str], *, refresh: bool, judge: bool) -> list[str] | None:
    from ctx_pipeline import discovery
    from ctx_pipeline.errors import UnknownName

    known = discovery.signals()
    chosen = set()
    for name in names:
        family = known[name].family if name in known else name
        if family not in discovery.families():
            raise UnknownName("signal", name, [*known, *discovery.families()])
        chosen.add(family)
    if refresh or judge:
        wanted = {s.family for s in known.values() if (refresh and s.outside) or (judge and s.judge)}
        chosen = chosen & wanted if chosen else wanted
    return sorted(chosen) if chosen or refresh or judge else None


def _selection(store: Any, host: str | None, session_ids: list[str]) -> tuple[list[Any] | None, set[str] | None]:
    """Return the selected cells and sessions; None for all."""
    from ctx_pipeline import discovery
    from ctx_pipeline.sessions.naming import find_session

    key = discovery.host(host).key if host else None
    if session_ids:
        found = [find_session(store, name, key) for name in session_ids]
        rows = [store.ledger.session(key, session) for key, session in found]
        return sorted({row.partition for row in rows if row}), {session for _, session in found}
    return [c for c in store.ledger.cells() if c.host == key] if key else None, None


@signal.command()
@session_argument()
@click.option("--group", help="Only signals of this group.")
@json_option
def show(host: str, session_id: str, group: str | None, as_json: bool) -> None:
    """Show the readings of one session, with the events they rest on quoted."""
    from ctx_pipeline.cli.output import reading_text
    from ctx_pipeline.model.readings import first_place
    from ctx_pipeline.sessions.signals import show as find

    found = find(host, session_id, group=group, settings=for_reading())
    if as_json:
        emit(found)
        return
    for r in sorted(found["readings"], key=lambda r: first_place(r["signal"])):
        value = r["label"] if r["value"] is None else reading_text(r["value"], r["unit"], r["kind"], exact=True)
        sure = "" if r["confidence"] >= 1 else f"  (confidence {r['confidence']:.2f})"
        said = f"{value}{sure}" if r["reason"] is None else f"none: {r['reason']}"
        say(f"{r['signal']}: {said}", bold=True)
        if r["metadata"]:
            say(f"  {one_line(r['metadata'], 160)}")
        for event in r["evidence"][:3]:
            say_row(f"  {event['event_id']}  {one_line(event['text'], 120)}")
    if not found["readings"]:
        say("no readings yet; compute them with: ctx signal run")


@signal.command()
@click.argument("name", shell_complete=complete_signals)
@host_option
@project_option
@since_option
@until_option
@timezone_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), metavar="N", help="At most N events.")
@click.option("--all", "with_zero", is_flag=True, help="Also what readings of 0 rest on.")
@json_option
def evidence(name: str, limit: int, with_zero: bool, as_json: bool, **chosen: Any) -> None:
    """List the events that the readings of signal NAME rest on, over all sessions, the newest first.

    Readings of 0 are left out.

    Every time you corrected the agent: ctx signal evidence user_correction_count
    """
    from ctx_pipeline.sessions.signals import evidence as find
    from ctx_pipeline.signals.context_compaction import said_of

    settings = for_reading()
    every = find(name, **chosen, settings=settings)
    if not every:
        require_project(settings, chosen["project"])
    found = every if with_zero else [event for event in every if event["value"] or event["value"] is None]
    if as_json:
        emit({"signal": name, "events": found[:limit], "total": len(found)})
        return
    zone = chosen["timezone"] or settings.timezone
    for event in found[:limit]:
        where = f"{event['host']} {event['session_id']}  {one_line(title_text(event['title'] or ''), 60)}".rstrip()
        say_row(f"{local_time(event['ts'], zone) or 'no time'}  {where}", bold=True)
        if event["before"]:
            say_row(f"  agent before: {one_line(event['before'], 160)}")
        text = said_of(event["text"]) if event["kind"] == "compaction" else event["text"]
        say(f"  {one_line(text or '(' + event['kind'] + ', without text)', 300)}")
        say_command(f"ctx explain {event['event_id']}", "  ")
    if len(found) < len(every):
        zero = len({(event["host"], event["session_id"]) for event in every if event["value"] == 0})
        say(f"{counted(zero, 'session')} in which it is 0 left out: --all")
    if not every:
        from ctx_pipeline.sessions.signals import measured_in
        from ctx_pipeline.storage.reader import reading

        with reading(settings) as (store, _):
            measured = len(measured_in(store, settings, name))
        if measured:
            say(f"{name} is above 0 in {counted(measured, 'session')}, and no event here shows it: ctx list --signal {name}")
        else:
            say(f"no reading of {name} rests on an event here; missing readings: ctx signal run")
    if not found:
        return
    more_rows(len(found), limit)
    sessions = len({(event["host"], event["session_id"]) for event in found})
    say(f"{counted(len(found), 'event')} in {counted(sessions, 'session')}; times in {zone_name(zone)}")


@signal.command()
@click.option("--signal", "names", multiple=True, help="Only this signal; may be repeated, or a list with commas.")
@click.option("--group", help="Only signals of this group.")
@click.option("--by", help="Split by project, host, model or month.")
@json_option
def summary(names: tuple[str, ...], group: str | None, by: str | None, as_json: bool) -> None:
    """Add up the readings of all sessions, each agent by itself.

    With --by month, project or model the agents are added together.
    """
    from ctx_pipeline.dashboard.signal_records import buckets, spread
    from ctx_pipeline.model.readings import first_place
    from ctx_pipeline.sessions.signals import summary as add_up

    settings = for_reading()
    records = add_up(_split(names), group=group, settings=settings)
    if not records:
        require_captured(settings)
    if by:
        rows = sorted(buckets(records, by), key=lambda r: first_place(r["signal"])) if not as_json else buckets(records, by)
        if as_json:
            emit({"by": by, "signals": rows})
            return
        table([_flat(r) for r in rows], {"signal": "signal", by: by, **_FIGURES}, keep=("signal",))
        return
    if as_json:
        emit({"signals": records})
        return
    records = sorted(records, key=lambda r: first_place(r["signal"]))
    apart = buckets(records, "host")
    hosts = sorted({r["host"] for r in apart})
    if len(hosts) > 1:
        for host in hosts:
            say(host, bold=True)
            table([_flat(r) for r in apart if r["host"] == host], {"signal": "signal", **_FIGURES}, keep=("signal",))
            say()
        return
    rows = [_flat(r) | {"spread": spread(r["histogram"]), "trend": _trend(r["trend"])} for r in records]
    table(rows, {"group": "group", "signal": "signal", **_FIGURES, "spread": "spread", "trend": "trend"}, keep=("signal",))


_FIGURES = {name: name for name in ("count", "missing", "median", "p90", "mean", "min", "max", "sum", "true", "labels", "unit")}


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    labels = ", ".join(f"{label} {count}" for label, count in record.get("labels", {}).items())
    return {**record, "labels": labels}


def _trend(trend: dict[str, Any] | None) -> str:
    if trend is None:
        return ""
    return f"{trend['direction']} {trend['verdict']}".strip()


@signal.command()
@click.argument("name")
@click.option("--sql", is_flag=True, help="Write it as SQL over the tables.")
@click.option("--group", default="activity", show_default=True, help="One of activity, outcome, cost, risk, context or behavior.")
@click.option("--packaged", is_flag=True, help="In a checkout: write it into the package and not into your own folder.")
@json_option
def new(name: str, sql: bool, group: str, packaged: bool, as_json: bool) -> None:
    """Write the file of a new signal, with an example that fails until it is filled in."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.pipeline.signals.new_signal import write

    path = write(name, group=group, sql=sql, packaged=packaged, settings=settings_module.load())
    if as_json:
        emit({"path": str(path), "signal": name})
        return
    say(f"wrote {path}")
    say(f"fill it in until its examples hold: ctx signal check {name}")
    say(f"then compute it for every session:  ctx backfill {name}")


@signal.command()
@click.argument("names", nargs=-1)
@json_option
def check(names: tuple[str, ...], as_json: bool) -> None:
    """Run the examples in the files of your own signals; exit 1 when one does not hold."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.pipeline.signals.new_signal import check as run_examples

    found = run_examples(list(names), settings=settings_module.load())
    failed = sum(not line["holds"] for line in found)
    if as_json:
        emit({"examples": found, "failed": failed})
    else:
        for line in found:
            said = "holds" if line["holds"] else f"expected {line['expected']!r}, found {line['found']!r}"
            why = f" ({line['reason']})" if line["reason"] and not line["holds"] else ""
            say(f"{line['signal']} example {line['example']}: {said}{why}")
        if not found:
            say("no examples found; write EXAMPLES into the file of the signal")
    if failed:
        raise click.exceptions.Exit(1)
