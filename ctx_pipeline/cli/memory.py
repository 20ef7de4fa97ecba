"""``ctx methods`` and ``memory``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.memory_backtest import backtest
from ctx_pipeline.cli.memory_store import doctor, export, export_skill, import_authored, init, reindex
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say, table

if TYPE_CHECKING:
    from datetime import datetime

    from ctx_pipeline.model.memories import Scored
    from ctx_pipeline.settings import Settings


@click.command()
@json_option
def methods(as_json: bool) -> None:
    """List the mining methods; those that ask a model never run unless they are named."""
    from contextlib import closing

    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.stages.answers import spent
    from ctx_pipeline.storage.journal import Journal

    home = settings_module.load().home
    discovery.look_in(home / "config")
    with closing(Journal(home / "journal.db", read_only=True)) as journal:
        cost = spent(journal) if journal.path.exists() else {}
    rows = [
        {
            "method": m.name,
            "version": m.version,
            "local": m.deterministic,
            "across_sessions": m.combine is not None,
            "asks": m.asks or None,
            "spent": cost.get(m.name),
            "what": " ".join(m.describe.partition("\n\n")[0].split()),
        }
        for m in discovery.methods().values()
    ]
    if as_json:
        emit({"methods": rows})
    else:
        table(
            rows, {"method": "method", "version": "version", "across_sessions": "across sessions", "asks": "asks", "what": "what it draws"}
        )
        for name, row in cost.items():
            tokens = f"{row['input_tokens']:,} tokens in, {row['output_tokens']:,} out, ${row['cost_nano'] / 1e9:.4f} told"
            say(f"{plain(name)}: {row['answers']:,} answers, {row['failed']:,} questions without one, {tokens}")


@click.group()
def memory() -> None:
    """Lessons from earlier sessions: look up, weave into a prompt, judge."""


_query = click.option("--query", "-q", required=True, help="A question, a prompt or an error as it stands.")
_cwd = click.option("--cwd", type=click.Path(file_okay=False), help="Where the work is done; other repositories' memories stay out.")
_accepted = click.option("--accepted-only", is_flag=True, help="Leave out what nobody has accepted yet.")


@memory.command()
@_query
@_cwd
@_accepted
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--explain", is_flag=True, help="Show the parts of each score.")
@json_option
def retrieve(query: str, cwd: str | None, accepted_only: bool, limit: int, explain: bool, as_json: bool) -> None:
    """Show the memories that answer a query, best first."""
    from ctx_pipeline.api import memory as api

    settings = for_reading()
    found = api.retrieve(query, cwd=cwd, limit=limit, accepted_only=accepted_only, settings=settings)
    _asked_by_a_session(found, "retrieve", settings)
    if as_json:
        emit({"query": query, "memories": [api.plain(s) for s in found]})
        return
    for s in found:
        say(f"{s.score:.3f}  {s.memory.memory_id}  {s.memory.kind}  {s.memory.status}", bold=True)
        say(f"  {plain(s.memory.text)}")
        if explain:
            say("  " + "  ".join(f"{name} {value:g}" for name, value in s.parts.items()))
    if not found:
        say("no memory answers this")


@memory.command()
@_query
@_cwd
@_accepted
@click.option("--limit", default=6, show_default=True, type=click.IntRange(1, 100))
@click.option("--budget", type=click.IntRange(1), help="At most so many tokens.")
@json_option
def weave(query: str, cwd: str | None, accepted_only: bool, limit: int, budget: int | None, as_json: bool) -> None:
    """Print the note for a prompt; nothing when no memory answers."""
    from ctx_pipeline.api import memory as api
    from ctx_pipeline.memory.weave import DEFAULT_BUDGET
    from ctx_pipeline.memory.weave import weave as woven

    settings = for_reading()
    found = api.retrieve(query, cwd=cwd, limit=limit, accepted_only=accepted_only, settings=settings)
    note = woven(found, budget=budget or DEFAULT_BUDGET)
    _asked_by_a_session([s for s in found if s.memory.memory_id in note], "weave", settings)
    if as_json:
        emit({"query": query, "note": note})
    else:
        say(note, nl=False)


def _asked_by_a_session(found: list[Scored], event: str, settings: Settings) -> None:
    """Log what an agent was told that ran this command, so that its session shows whether it used it; a person's shell is no session."""
    from ctx_pipeline.api.injection import asking_session, log_told

    asking = asking_session(settings) if found else None
    if asking:
        log_told(found, host=asking[0], session_id=asking[1], event=event, settings=settings)


@memory.command("list")
@click.option("--status", help="candidate, accepted, needs_review, rejected or retired.")
@click.option("--session", "session_id", help="Only what was drawn from this session; the first characters of its id are enough.")
@json_option
def list_memories(status: str | None, session_id: str | None, as_json: bool) -> None:
    """List the memories, with what is to be minded: superseded, contradicted, files gone or changed, said again."""
    from ctx_pipeline.api import memory as api
    from ctx_pipeline.api.standing import marks

    everything = api.memories(settings=for_reading())
    minded = marks(everything)
    found = [m for m in everything if status in (None, m.status)]
    if session_id:
        found = [m for m in found if any(s.startswith(session_id) or s.partition("/")[2].startswith(session_id) for s in m.sessions)]
    if as_json:
        emit({"memories": [{**m._asdict(), "marks": minded.get(m.memory_id, [])} for m in found]})
        return
    rows = [
        {
            **m._asdict(),
            "text": one_line(m.text, 90),
            "project": Path(m.repository or m.cwd or "").name,
            "mind": one_line("; ".join(minded.get(m.memory_id, [])), 60),
        }
        for m in found
    ]
    shown = {"memory_id": "id", "kind": "kind", "status": "status", "support": "sessions", "project": "project", "text": "text"}
    table(rows, shown | ({"mind": "mind"} if any(r["mind"] for r in rows) else {}))


@memory.command()
@click.argument("memory_id")
@json_option
def show(memory_id: str, as_json: bool) -> None:
    """Show one memory with what it rests on and what is to be minded."""
    from ctx_pipeline.api import memory as api
    from ctx_pipeline.api.standing import marks, sayings
    from ctx_pipeline.memory.grade import grade

    settings = for_reading()
    one = api.memory(memory_id, settings=settings)
    minded = marks(api.memories(settings=settings)).get(one.memory_id, [])
    graded = grade(one, minded)
    if as_json:
        emit({**one._asdict(), "marks": minded, "grade": graded._asdict() if graded else None})
        return
    for name, value in one._asdict().items():
        if value not in (None, "", [], ()):
            say(f"{name}: {', '.join(map(plain, value)) if isinstance(value, list | tuple) else plain(value)}")
    if graded:
        say(f"grade: {graded.letter} ({', '.join(f'{name} {value:g}' for name, value in graded.parts.items())})")
    for mark in minded:
        say(f"mind: {plain(mark)}")
    for said in sayings(one):
        say(f"  said again: “{one_line(str(said.get('quote')), 200)}” ({plain(str(said.get('session')))})")


def _judge(verb: str, memory_id: str, **payload: Any) -> dict[str, Any]:
    """Write what a person said of a memory to the journal, bring the memories up to date and return the memory."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.api import memory as api
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.memory.consolidation import words_hash
    from ctx_pipeline.stages.consolidate import consolidate
    from ctx_pipeline.stages.index import index_memory
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    found = api.memory(memory_id, settings=settings)
    full = found.memory_id
    if payload.get("reviewed"):
        payload["words"] = words_hash(found)
    with open_store(settings) as store:
        store.journal.append(verb, {"memory_id": full, **payload}, actor="person")
        consolidate(store, settings)
        index_memory(store, settings)
    return api.memory(full, settings=settings)._asdict()


def _told(row: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(row)
    else:
        say(f"{row['memory_id']}: {row['status']}, utility {row['utility']:g}")


@memory.command()
@click.argument("memory_id")
@click.option("--reviewed", is_flag=True, help="Accept it although a check held it back.")
@click.option("--until", metavar="DAY", type=click.DateTime(["%Y-%m-%d"]), help="The last day on which it holds.")
@click.option("--not-when", help="The situation in which it must not be used.")
@json_option
def accept(memory_id: str, reviewed: bool, until: datetime | None, not_when: str | None, as_json: bool) -> None:
    """Accept a memory, for good or until a day; after that day it is never retrieved."""
    limits = ({"valid_until": until.date().isoformat()} if until else {}) | ({"not_when": not_when} if not_when else {})
    _told(_judge("memory.accepted", memory_id, reviewed=reviewed, **limits), as_json)


@memory.command()
@click.argument("memory_id")
@json_option
def reject(memory_id: str, as_json: bool) -> None:
    """Reject a memory; it is never retrieved again."""
    _told(_judge("memory.rejected", memory_id), as_json)


@memory.command()
@click.argument("memory_id")
@json_option
def retire(memory_id: str, as_json: bool) -> None:
    """Retire a memory that has had its time."""
    _told(_judge("memory.retired", memory_id), as_json)


@memory.command("update-utility")
@click.option("--memory-id", required=True)
@click.option("--reward", required=True, type=click.FloatRange(0, 1))
@click.option("--session-id", help="The session in which it helped, or did not.")
@click.option("--reason")
@json_option
def update_utility(memory_id: str, reward: float, session_id: str | None, reason: str | None, as_json: bool) -> None:
    """Reward a memory: utility += 0.2 * (reward - utility)."""
    _told(_judge("memory.rewarded", memory_id, reward=reward, session_id=session_id, reason=reason), as_json)


for _command in (init, reindex, doctor, import_authored, export, export_skill, backtest):
    memory.add_command(_command)
