"""``ctx rot``: what DSPy programs and agents did to their contexts."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.options import since_options
from ctx_pipeline.cli.output import confirm, counted, dollars, emit, json_option, local_time, one_line, say, table, zone_name
from ctx_pipeline.cli.session_names import session_name

if TYPE_CHECKING:
    from collections.abc import Iterable

db_option = click.option("--db", "-d", help="A callback store; without it the ones that are known, then the captured sessions.")
session_option = session_name("session_id")
thread_option = click.option("--thread", help="A subagent or other context window of a captured session; without it the main one.")


@click.group()
def rot() -> None:
    """DSPy callback stores and context rot: analyze, export, watch."""


@rot.command()
@db_option
@session_option
@thread_option
@click.option("--threads", "every", is_flag=True, help="All context windows of the session, a line each.")
@json_option
def analyze(db: str | None, session_id: str | None, thread: str | None, every: bool, as_json: bool) -> None:
    """Measure repetition, efficiency and growth of one session, of a program or any agent, and give a verdict."""
    if every:
        _windows(db, session_id, as_json=as_json)
        return
    from ctx_pipeline.rot.analysis import analyze_session, lines
    from ctx_pipeline.sessions.reports import rot_reports as api

    with api.session(db, session_id, thread) as (store, found):
        result = analyze_session(store, found)
        others = len(getattr(store, "threads", ())) - 1
    if as_json:
        emit(result)
        return
    for line in lines(result, found):
        say(line)
    if others > 0 and thread is None:
        say(f"{others} more context windows: ctx rot analyze -s {found} --threads", err=True)


def _windows(db: str | None, session_id: str | None, *, as_json: bool) -> None:
    from ctx_pipeline.rot.analysis import SCALE
    from ctx_pipeline.sessions.reports import rot_reports as api

    with api.session(db, session_id) as (store, found):
        rows = api.windows(store, found)
    if as_json:
        emit({"session_id": found, "threads": rows})
        return
    shown = []
    for row in rows:
        result = row["analysis"]
        growth, verdict = result["growth"], result["verdict"]
        shown.append(
            {
                **row,
                "calls": len(result["efficiency"]),
                "largest": growth["largest"],
                "growth": growth["class"],
                "verdict": verdict["severity"],
                "signs": ", ".join(r["sign"] for r in verdict["reasons"]),
            }
        )
    heads = {"thread_id": "thread", "kind": "kind", "agent": "agent", "calls": "calls", "largest": "largest prompt"}
    table(shown, {**heads, "growth": "growth", "verdict": "verdict", "signs": "signs"})
    say(f"verdict: {SCALE}", dim=True)


@rot.command("deep-analyze")
@db_option
@session_option
@thread_option
@click.option("--query", "-q", default="Perform a comprehensive context rot analysis.", help="What you want to know.")
@click.option("--model", "-m", default="openai/gpt-5.4", show_default=True, help="The main model.")
@click.option("--sub-model", default="openai/gpt-5.4-mini", show_default=True, help="The model for its questions.")
@click.option("--max-iters", default=15, show_default=True, type=click.IntRange(1), help="At most N steps.")
@click.option("--max-calls", default=30, show_default=True, type=click.IntRange(0), help="At most N questions to the sub-model.")
@click.option("--api-key", help="API key; overrides OPENAI_API_KEY and API_KEY.")
@click.option("--api-base", help="API address; overrides OPENAI_API_BASE and API_BASE.")
@click.option("--env-file", default=".env", show_default=True, help="File with KEY=VALUE lines; the environment goes first.")
@click.option("--interpreter", help="The module:factory of an interpreter for the model's code, instead of DSPy's sandbox.")
@click.option("--verbose", "-v", is_flag=True, help="Show the steps.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def deep_analyze(
    db: str | None,
    session_id: str | None,
    thread: str | None,
    query: str,
    model: str,
    sub_model: str,
    max_iters: int,
    max_calls: int,
    api_key: str | None,
    api_base: str | None,
    env_file: str,
    interpreter: str | None,
    verbose: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Have a language model examine one session and write a report. Costs money: it says how much at most, and asks."""
    from ctx_pipeline.errors import CtxError
    from ctx_pipeline.rot.deep import run_deep_analysis
    from ctx_pipeline.sessions.reports import rot_reports as api

    with api.session(db, session_id, thread) as (store, found):
        if not yes:
            tokens, most = api.deep_cost(store, found, (model, sub_model), max_iters, max_calls)
            price = f"at most ${most:.2f}" if most is not None else "at a price that is not known"
            said = f"session {found}: {model}, {max_iters} steps; {sub_model}, {max_calls} questions; at most {tokens:,} tokens, {price}"
            say(said, err=True)
            confirm("go on?")
        factory = _factory(interpreter) if interpreter else None
        try:
            result = run_deep_analysis(
                store,
                found,
                query,
                model,
                sub_model,
                max_iters,
                max_calls,
                verbose,
                api_key,
                api_base,
                env_file,
                interpreter_factory=factory,
            )
        except CtxError:
            raise
        except Exception as error:
            raise CtxError(f"the analysis failed: {one_line(error, 500)}", hint="check the model, the key and the address") from error
    if result["missing_sections"]:
        say(f"warning: the report lacks {', '.join(result['missing_sections'])}", err=True)
    if as_json:
        emit(result)
        return
    say(result["report"])
    say(f"REPL iterations: {len(result['trajectory'])}; kept in {result['artifact']}", err=True)


def _factory(text: str) -> Any:
    import importlib

    module, _, name = text.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.UsageError(f"--interpreter {text!r} cannot be imported: {error}") from error


@rot.command()
@db_option
@click.option("--session", "-s", "session_ids", multiple=True, help="A session id; may be repeated, and goes before the filters.")
@click.option("--all", "everything", is_flag=True, help="Every session of the callback stores.")
@since_options("Sessions that began on this day or later.")
@click.option("--until", help="Sessions that began on this day or earlier.")
@click.option("--only-errored", is_flag=True, help="Only sessions that ended with an error.")
@click.option("--only-completed", is_flag=True, help="Only sessions that were completed.")
@click.option(
    "--format",
    "-f",
    "form",
    default="opentraces",
    show_default=True,
    type=click.Choice(["opentraces", "ctxrot"]),
    help="The form of the lines.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the terminal.")
def export(
    db: str | None,
    session_ids: tuple[str, ...],
    everything: bool,
    since: str | None,
    until: str | None,
    only_errored: bool,
    only_completed: bool,
    form: str,
    output: Path | None,
) -> None:
    """Write sessions as JSON lines, secrets replaced; without a choice the latest one."""
    from ctx_pipeline.sessions.reports import rot_reports as api

    if only_errored and only_completed:
        raise click.UsageError("--only-errored and --only-completed exclude each other")
    state = "errored" if only_errored else "completed" if only_completed else None
    lines = api.exported(db, form, ids=session_ids, everything=everything, since=since, until=until, state=state)
    say("exported sessions hold what your programs sent and received, if it was stored: look before you share them", err=True)
    count = _write(lines, output)
    say(f"{counted(count, 'session')} exported", err=True)


def _write(lines: Iterable[str], output: Path | None) -> int:
    count = 0
    if output is None:
        for count, line in enumerate(lines, 1):  # noqa: B007 - counted for the caller
            say(line, whole=True)
        return count
    import os

    part = output.with_name(output.name + ".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        for count, line in enumerate(lines, 1):
            file.write(line + "\n")
            if count % 10 == 0:
                say(f"{count} sessions …", err=True)
    part.replace(output)
    return count


@rot.command()
@db_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1), help="At most N sessions.")
@json_option
def summary(db: str | None, limit: int, as_json: bool) -> None:
    """List the sessions of the callback stores that called a model, with calls, tokens and cost, the newest first."""
    from ctx_pipeline.rot.database import settings
    from ctx_pipeline.sessions.reports.rot_reports import overview

    zone = settings().timezone
    found = overview(db, limit + 1)
    rows = found[:limit]
    if as_json:
        emit({"sessions": rows})
        return
    if not rows:
        say("no session with a model call yet: attach CtxRotCallback to a DSPy program")
        return
    shown = [
        {
            **r,
            "state": r["terminal_state"] or "running",
            "seconds": (r["duration_ms"] or 0) / 1000,
            "at": local_time(r["started_at"], zone, seconds=True),
            "price": dollars(round((r["cost"] or 0) * 1e9)),
        }
        for r in rows
    ]
    columns = {
        "at": "began",
        "session_id": "session",
        "model": "model",
        "call_count": "calls",
        "prompt_tokens": "in",
        "completion_tokens": "out",
        "price": "cost",
        "seconds": "seconds",
        "error_count": "errors",
        "state": "state",
    }
    total = {name: sum(r[name] or 0 for r in shown) for name in ("call_count", "prompt_tokens", "completion_tokens", "seconds")}
    price = dollars(round(sum(r["cost"] or 0 for r in shown) * 1e9))
    table(shown, columns, total={"at": "total", "price": price, **total})
    say(f"times in {zone_name(zone)}")
    if len(found) > limit:
        say(f"only the newest {limit}: --limit shows more", err=True)


@rot.command()
@db_option
@session_option
@click.option("--lines", "-n", default=10, show_default=True, type=click.IntRange(0), help="Print N earlier lines first.")
@click.option("--follow/--no-follow", default=True, show_default=True, help="Go on until interrupted.")
def tail(db: str | None, session_id: str | None, lines: int, follow: bool) -> None:
    """Print calls as they are written: of one store, or of all that are known, later ones included."""
    from ctx_pipeline.errors import StoreError
    from ctx_pipeline.sessions.reports import rot_reports as api

    watched = api.watched(db)
    if not watched.stores:
        refused = next(iter(watched.refused.values()), None)
        raise refused or StoreError("there is no callback store yet", hint="run a program with CtxRotCallback, or name one with --db")
    wanted = api.stored_session(db, session_id) if session_id is not None else None
    try:
        for row in watched.latest(lines, wanted):
            say(_log_line(row))
        while follow:
            sys.stdout.flush()
            time.sleep(0.3)
            for row in watched.fresh(wanted):
                say(_log_line(row))
    finally:
        watched.close()


def _log_line(row: dict[str, Any]) -> str:
    from ctx_pipeline.model.codec import iso
    from ctx_pipeline.rot.content import decoded

    body = decoded(row["payload"])
    body = body if isinstance(body, dict) else {}
    head = f"{(iso(row['at']) or '')[11:19]} {row['session_id'][:12]} {row['kind']:<13}"
    if row["kind"] == "lm_call":
        usage = body.get("usage") or {}
        cost = f" ${body['cost']:.6f}" if body.get("cost") is not None else ""
        said = f"{body.get('model')} {usage.get('prompt_tokens', 0):,} in {usage.get('completion_tokens', 0):,} out{cost}"
        said += " from cache" if body.get("cache_hit") else ""
    else:
        said = str(body.get("tool") or body.get("module") or body.get("state") or body.get("mode") or "")
    failed = f" failed: {body['error']}" if body.get("error") else ""
    return one_line(f"{head} {said}{failed}", 200)


@rot.command()
@db_option
@session_option
@thread_option
def dashboard(db: str | None, session_id: str | None, thread: str | None) -> None:
    """Watch sessions in the terminal while programs run: of one store, or of all that are known."""
    from ctx_pipeline.rot.terminal.app import Rot
    from ctx_pipeline.sessions.reports import rot_reports as api

    if session_id is None and thread is None:
        Rot(api.watched(db)).run()
        return
    with api.session(db, session_id, thread) as (store, found):
        Rot(api.watched(db), found, store).run()


@rot.command()
@click.option("--db", "-d", help="The callback store; without it the default one.")
@click.option(
    "--older-than",
    type=click.IntRange(0),
    metavar="DAYS",
    help="Delete only sessions that began more than DAYS days ago and have ended.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def reset(db: str | None, older_than: int | None, yes: bool) -> None:
    """Delete the sessions of a callback store and give the room back; what ctx has captured stays."""
    from datetime import UTC, datetime, timedelta

    from ctx_pipeline.errors import StoreError
    from ctx_pipeline.rot.database import DEFAULT, store_path
    from ctx_pipeline.rot.store import CtxRotStore

    path = store_path(db or DEFAULT)
    if not path.is_file():
        raise StoreError(f"there is no callback store at {path}", hint="name one with --db")
    with CtxRotStore(path) as store:
        ids = store.get_session_ids()
        if older_than is not None:
            begun = store.get_session_ids(until=(datetime.now(UTC) - timedelta(days=older_than)).isoformat())
            ids = [i for i in begun if not store.is_running(i)]
        if not ids:
            say("nothing to delete")
            return
        if not yes:
            confirm(f"delete {counted(len(ids), 'session')} of {path}?")
        if older_than is None:
            store.truncate_all()
        else:
            store.delete_sessions(ids)
            store.vacuum()
    say(f"deleted {counted(len(ids), 'session')}")
