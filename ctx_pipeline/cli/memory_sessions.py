"""``ctx memory cases`` and ``ctx memory record``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say

if TYPE_CHECKING:
    from ctx_pipeline.mining._record import Record


@click.command()
@click.option("--query", "-q", required=True, help="What is to be done, in words.")
@click.option("--cwd", type=click.Path(file_okay=False), help="Where the work is done, else here; other repositories' stay out.")
@click.option("--everywhere", is_flag=True, help="The cases of all repositories.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 100))
@json_option
def cases(query: str, cwd: str | None, everywhere: bool, limit: int, as_json: bool) -> None:
    """Show tasks like this one that were solved before.

    Each with the steps that were taken, the check that passed and its session. A case is
    one turn that was not sent back and whose last check passed after the last change.
    """
    from ctx_pipeline.api.cases import cases as solved
    from ctx_pipeline.api.memory import plain as plain_scored
    from ctx_pipeline.cli.memory import asked_at

    settings = for_reading()
    found = solved(query, cwd=asked_at(cwd, everywhere), limit=limit, settings=settings)
    if as_json:
        emit({"query": query, "cases": [plain_scored(s) for s in found]})
        return
    for s in found:
        body = s.memory.body
        say(f"{s.score:.3f}  {s.memory.memory_id}  {plain(s.memory.sessions[0] if s.memory.sessions else '')}", bold=True)
        say(f"  {plain(str(body.get('task', '')))}")
        for step in body.get("steps", []):
            say(f"    {one_line(str(step), 200)}")
        say(f"  `{plain(str(body.get('verification', '')))}` passed")
    if not found:
        say("no task like this was solved" if everywhere else "no task like this was solved here (--everywhere asks all repositories)")


@click.command()
@click.argument("session_id")
@click.option("--host", default="*", help="The agent, where two have a session whose id begins so.")
@json_option
def record(session_id: str, host: str, as_json: bool) -> None:
    """Show what one session leaves behind, as one record.

    How it ended, what was decided, what the person prefers, what went wrong and what is
    left, each with the events that show it.
    """
    from ctx_pipeline.api.sessions import resolve, resolve_anywhere
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.stages.lesson_record import lesson_record
    from ctx_pipeline.storage import open_store

    with open_store(for_reading(), read_only=True) as store:
        key, full = resolve_anywhere(store, session_id) if host == "*" else resolve(store, host, session_id)
        found = lesson_record(store, key, full)
        if found is None:
            raise UnknownName("session", session_id, [s.session_id for s in store.ledger.sessions()])
    if as_json:
        emit(_plain(found))
    else:
        _print(found)


def _plain(found: Record) -> dict[str, Any]:
    from ctx_pipeline.mining._record import PARTS

    return found._asdict() | {part: [entry._asdict() for entry in getattr(found, part)] for part in PARTS}


def _print(found: Record) -> None:
    from ctx_pipeline.mining._record import PARTS

    say(f"{found.host} {plain(found.session_id)}  {plain(found.task)}", bold=True)
    for part in PARTS:
        entries = getattr(found, part)
        if entries:
            say(f"{part.replace('_', '-')}:")
        for entry in entries:
            say(f"  {one_line(entry.text, 300)}  [{', '.join(map(plain, entry.evidence[:2]))}]")
    if not any(getattr(found, part) for part in PARTS):
        say("nothing to keep: no change, no decision, no rule, no failure, nothing left open")
