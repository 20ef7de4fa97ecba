"""``ctx signal``: list, run and show."""

from __future__ import annotations

from typing import Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, say, table


@click.group()
def signal() -> None:
    """Measurements over a session: what they are, their readings, the evidence."""


@signal.command("list")
@click.option("--group", help="Only this group: activity, outcome, cost, risk.")
@json_option
def list_signals(group: str | None, as_json: bool) -> None:
    """List the signals: what each measures, its unit and how to read it."""
    from ctx_pipeline.api.signals import catalogue

    rows = catalogue(group)
    if as_json:
        emit({"signals": rows})
        return
    table(
        rows,
        {
            "signal": "signal",
            "family": "family",
            "group": "group",
            "kind": "kind",
            "unit": "unit",
            "version": "version",
            "what": "what it is",
        },
    )


@signal.command()
@click.option("--host", help="Only sessions of this host.")
@click.option("--session-id", "session_ids", multiple=True, help="Only this session; may be repeated.")
@click.option("--signal", "names", multiple=True, help="A signal or a family; may be repeated.")
@json_option
def run(host: str | None, session_ids: tuple[str, ...], names: tuple[str, ...], as_json: bool) -> None:
    """Compute the readings that are missing; others are left as they are."""
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.api.sessions import resolve
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.stages.measure import measure
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    families = _families(names)
    with open_store(settings) as store:
        sessions = None
        cells = None
        if session_ids:
            wanted = [discovery.host(host).key] if host else list(discovery.hosts())
            found = [_find(store, wanted, asked, resolve) for asked in session_ids]
            sessions = {session for _, session in found}
        elif host:
            key = discovery.host(host).key
            cells = [c for c in store.ledger.cells() if c.host == key]
        report = measure(store, settings, families=families, cells=cells, sessions=sessions)
    if as_json:
        emit({"cells": {k: {"status": c.status, **c.counts} for k, c in report.cells.items()}, **report.totals})
    else:
        say(", ".join(f"{name}: {count:,}" for name, count in report.totals.items()) or "nothing to compute")


def _families(names: tuple[str, ...]) -> list[str] | None:
    from ctx_pipeline import discovery
    from ctx_pipeline.errors import UnknownName

    chosen = []
    for name in names:
        declared = discovery.signals().get(name)
        family = declared.family if declared else name
        if family not in discovery.families():
            raise UnknownName("signal", name, [*discovery.signals(), *discovery.families()])
        chosen.append(family)
    return sorted(set(chosen)) or None


def _find(store: Any, hosts: list[str], asked: str, resolve: Any) -> tuple[str, str]:
    from ctx_pipeline.errors import UnknownName

    for host in hosts[:-1]:
        try:
            found: tuple[str, str] = resolve(store, host, asked)
        except UnknownName:
            continue
        return found
    last: tuple[str, str] = resolve(store, hosts[-1], asked)
    return last


@signal.command()
@click.argument("host")
@click.argument("session_id")
@json_option
def show(host: str, session_id: str, as_json: bool) -> None:
    """Show the readings of one session, with the events they rest on."""
    from ctx_pipeline.api.signals import show as find

    found = find(host, session_id, settings=for_reading())
    if as_json:
        emit(found)
        return
    for r in found["readings"]:
        value = r["label"] if r["value"] is None else bool(r["value"]) if r["kind"] == "boolean" else f"{r['value']:g}"
        said = f"{value} {r['unit']}".strip() if r["reason"] is None else f"none: {r['reason']}"
        say(f"{r['signal']}: {said}", bold=True)
        for event in r["evidence"][:3]:
            say(f"  {event['event_id']}  {one_line(event['text'], 120)}")
    if not found["readings"]:
        say("no readings yet; compute them with: ctx signal run")
