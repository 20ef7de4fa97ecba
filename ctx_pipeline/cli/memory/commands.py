"""``ctx methods`` and ``memory``."""

from __future__ import annotations

import functools
import math
import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.memory.printing import print_list, print_memory
from ctx_pipeline.cli.memory.upkeep import backtest, doctor, export, export_skill, import_authored, init, reindex
from ctx_pipeline.cli.output import (
    counted,
    dollars,
    emit,
    json_option,
    one_line,
    plain,
    say,
    saying_why_it_waits,
    table,
)
from ctx_pipeline.cli.session_names import complete_sessions, session_name
from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.scope import place_of
from ctx_pipeline.model.memories import CASE, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.mining.lessons.session_record import Record
    from ctx_pipeline.model.memories import Memory, Scored
    from ctx_pipeline.settings import Settings


# Sessions that are named beside memories.


def a_session(session_id: str, settings: Settings) -> str:
    """Return the full id of the session of a name; raises UnknownName or AmbiguousName."""
    from ctx_pipeline.sessions.naming import find_session
    from ctx_pipeline.storage.reader import reading

    with reading(settings) as (store, _):
        return find_session(store, session_id)[1]


def full_session(session_id: str, settings: Settings) -> str:
    """Return the full id of a session; one that is not in the store is told to be unknown and given back: it may be running still."""
    from ctx_pipeline.errors import AmbiguousName, StoreError, UnknownName

    try:
        return a_session(session_id, settings)
    except AmbiguousName:
        raise
    except (UnknownName, StoreError):
        say(f"no session {plain(session_id)} is in the store (yet); kept as it was given", err=True)
        return session_id


def _query(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add WORDS, or --query, to a command, which gets ``query``."""

    @functools.wraps(command)
    def asked(*, words: tuple[str, ...], query: str | None, **options: Any) -> Any:
        text = " ".join(words).strip() or query
        if not text:
            path = click.get_current_context().command_path
            raise UsageError("give a question, a prompt or an error", hint=f"{path} why does the upload fail")
        if words and query:
            raise UsageError("the question was given twice", hint="leave --query out")
        return command(query=text, **options)

    option = click.option("--query", "-q", help="The same as WORDS.")
    return click.argument("words", nargs=-1)(option(asked))


@click.command()
@_query
@click.option("--cwd", type=click.Path(file_okay=False), help="Where the work is done, else here; other repositories' stay out.")
@click.option("--everywhere", is_flag=True, help="The cases of all repositories.")
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1, 100), help="At most N cases.")
@json_option
def cases(query: str, cwd: str | None, everywhere: bool, limit: int, as_json: bool) -> None:
    """Show similar tasks that were solved before.

    Each with the steps that were taken, the check that passed and its session. A case is
    one turn that the person did not reject and whose last check passed after the last change.
    """
    from ctx_pipeline.learning.memories import cases as solved
    from ctx_pipeline.learning.memories import plain as plain_scored

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
        say("no task like this was solved" if everywhere else "no task like this was solved here (all repositories: --everywhere)")


@click.command()
@session_name("session_id")
@click.option("--host", default="*", help="Only sessions of this host.")
@json_option
def record(session_id: str | None, host: str, as_json: bool) -> None:
    """Show what one session leaves behind, as one record.

    How it ended, what was decided, what the person prefers, what went wrong and what is
    left, each with the events that show it.
    """
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.pipeline.lessons.session_timeline import lesson_record
    from ctx_pipeline.sessions.session_details import resolve
    from ctx_pipeline.storage import open_store

    with open_store(for_reading(), read_only=True) as store:
        key, full = resolve(store, host, session_id or "latest")
        found = lesson_record(store, key, full)
        if found is None:
            raise UnknownName("session", full, [s.session_id for s in store.ledger.sessions()])
    if as_json:
        emit(_plain(found))
    else:
        _print(found)


def _plain(found: Record) -> dict[str, Any]:
    from ctx_pipeline.mining.lessons.session_record import PARTS

    return found._asdict() | {part: [entry._asdict() for entry in getattr(found, part)] for part in PARTS}


def _print(found: Record) -> None:
    from ctx_pipeline.mining.lessons.session_record import PARTS

    say(f"{found.host} {plain(found.session_id)}  {plain(found.task)}", bold=True)
    for part in PARTS:
        entries = getattr(found, part)
        if entries:
            say(f"{part.replace('_', '-')}:")
        for entry in entries:
            say(f"  {one_line(entry.text, 300)}  [{', '.join(map(plain, entry.evidence[:2]))}]")
    if not any(getattr(found, part) for part in PARTS):
        say("nothing to keep: no change, no decision, no rule, no failure, nothing left open")


@click.command()
@json_option
def methods(as_json: bool) -> None:
    """List the mining methods; those that ask a model never run unless they are named."""
    from contextlib import closing

    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.pipeline.models.model_judge import spent
    from ctx_pipeline.storage.journal import Journal

    home = settings_module.load().home
    discovery.look_in(home / "config")
    with closing(Journal(home / "journal.db", read_only=True)) as journal:
        cost = spent(journal) if journal.is_there() else {}
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
        emit({"methods": rows, "left_out": discovery.left_out()})
    else:
        table(
            rows, {"method": "method", "version": "version", "across_sessions": "across sessions", "asks": "asks", "what": "what it draws"}
        )
        for name, row in cost.items():
            tokens = f"{row['input_tokens']:,} tokens in, {row['output_tokens']:,} out, {dollars(row['cost_nano'])} told"
            say(f"{plain(name)}: {counted(row['answers'], 'answer')}, {counted(row['failed'], 'question')} without one, {tokens}")


@click.group()
def memory() -> None:
    """Lessons from earlier sessions: search, review, put into a prompt (weave)."""


_cwd = click.option("--cwd", type=click.Path(file_okay=False), help="Where the work is done, else here; other repositories' stay out.")
_everywhere = click.option("--everywhere", is_flag=True, help="The memories of all repositories.")
_explained = click.option("--explain", is_flag=True, help="Show the parts of each score.")
_accepted = click.option("--accepted-only", is_flag=True, help="Leave out what nobody has accepted yet.")


@memory.command()
@_query
@_cwd
@_everywhere
@_accepted
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="At most N memories.")
@click.option("--budget", type=click.IntRange(1), help="At most N tokens of text; by default all that was found.")
@_explained
@json_option
def retrieve(
    query: str, cwd: str | None, everywhere: bool, accepted_only: bool, limit: int, budget: int | None, explain: bool, as_json: bool
) -> None:
    """Show the memories that answer a query, best first.

    Those of the current folder's repository and those that hold everywhere are asked.
    """
    from ctx_pipeline.learning import memories as api
    from ctx_pipeline.memory.prompt_block import estimate, fit

    settings = for_reading()
    answers = api.retrieve(query, cwd=asked_at(cwd, everywhere), limit=limit, accepted_only=accepted_only, settings=settings)
    found = [answers[place] for place in fit([estimate(s.memory.text) for s in answers], budget)] if budget else answers
    _asked_by_a_session(found, "retrieve", settings)
    if as_json:
        emit({"query": query, "memories": [api.plain(s) for s in found], "left_out": len(answers) - len(found)})
        return
    for s in found:
        reached = f"  linked from {s.linked_from}" if s.linked_from else ""
        say(f"{s.score:.3f}  {s.memory.memory_id}  {s.memory.kind}  {s.memory.status}{reached}", bold=True)
        say(f"  {plain(s.memory.text)}")
        if explain:
            say(f"  {_parts(s)}")
    if len(found) < len(answers):
        say(f"{len(answers) - len(found):,} more left out: beyond the budget of {budget:,} tokens")
    elif not found:
        say(_why_none("retrieve", query, asked_at(cwd, everywhere)))


@memory.command()
@_query
@_cwd
@_everywhere
@_accepted
@click.option("--threshold", default=0.0, type=click.FloatRange(0, 1), help="Share of the query's weight that a memory must hold.")
@click.option("--limit", default=6, show_default=True, type=click.IntRange(1, 100), help="At most N memories.")
@click.option("--budget", type=click.IntRange(1), default=800, show_default=True, help="At most N tokens.")
@_explained
@json_option
def weave(
    query: str,
    cwd: str | None,
    everywhere: bool,
    accepted_only: bool,
    threshold: float,
    limit: int,
    budget: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Print the note that puts fitting memories into a prompt.

    Those of the current folder's repository and those that hold everywhere are asked. When
    none answers, stderr says why. The parts of the scores (--explain) go to stderr, so that
    the note stays a note.
    """
    from ctx_pipeline.learning import memories as api
    from ctx_pipeline.memory.prompt_block import weave as woven

    settings = for_reading()
    place = asked_at(cwd, everywhere)
    found = api.retrieve(query, cwd=place, limit=limit, accepted_only=accepted_only, threshold=threshold, settings=settings)
    note = woven(found, budget=budget, here=place_of(cwd or _current()) if everywhere else None)
    told = [s for s in found if s.memory.memory_id in note]
    _asked_by_a_session(told, "weave", settings)
    if as_json:
        emit({"query": query, "note": note, **({"memories": [api.plain(s) for s in told]} if explain else {})})
        return
    say(note, nl=False)
    if not note:
        say(_why_none("weave", query, place), err=True)
    for s in told if explain else ():
        say(f"{s.score:.3f}  {s.memory.memory_id}  {_parts(s)}", err=True)


def _why_none(command: str, query: str, folder: str | None) -> str:
    """Return why no memory answers, and the command that asks those of all repositories; ``folder`` is None where they were asked."""
    if folder is None:
        return "no memory answers this; all of them: ctx memory list"
    own = "of this repository fits" if place_of(folder).roots else f"fits that holds everywhere, and {plain(folder)} is in no repository"
    return f"no lesson {own}; those of all: ctx memory {command} --everywhere {shlex.quote(query)}"


def _parts(scored: Scored) -> str:
    return "  ".join(f"{name} {value:g}" for name, value in scored.parts.items())


def asked_at(cwd: str | None, everywhere: bool) -> str | None:
    """Return the folder whose memories are asked, None for those of all; raises UsageError for a folder and all."""
    if everywhere and cwd:
        raise UsageError("--cwd and --everywhere exclude each other", hint="leave one of them out")
    return None if everywhere else cwd or _current()


def _current() -> str:
    """Return the current folder; the root, in which nothing was learned, where it was removed meanwhile."""
    try:
        return str(Path.cwd())
    except OSError:
        return os.sep


def _asked_by_a_session(found: list[Scored], event: str, settings: Settings) -> None:
    """Log what an agent was told that ran this command, so that its session shows whether it used it; a person's shell is no session."""
    from ctx_pipeline.learning.injection import log_injected
    from ctx_pipeline.sessions.session_choice import current_session

    asking = current_session(settings) if found else None
    if asking:
        log_injected(found, host=asking[0], session_id=asking[1], event=event, settings=settings)


@memory.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those of this status.")
@click.option("--session", "-s", "session_id", metavar="SESSION", help="Only memories of this session.", shell_complete=complete_sessions)
@click.option("--all", "everything", is_flag=True, help="Also those that a newer memory superseded.")
@json_option
def list_memories(status: str | None, session_id: str | None, everything: bool, as_json: bool) -> None:
    """List the memories but for the superseded ones.

    With warnings: contradicted, files gone or changed, said again.
    """
    from ctx_pipeline.learning import memories as api
    from ctx_pipeline.learning.memories import marks

    settings = for_reading()
    known = api.memories(settings=settings)
    minded = marks(known)
    found = [m for m in known if status in (None, m.status)]
    if session_id:
        found = [m for m in found if any(s.startswith(session_id) or s.partition("/")[2].startswith(session_id) for s in m.sessions)]
        if not found:
            full = a_session(session_id, settings)
            found = [m for m in known if status in (None, m.status) and any(full in {s, s.partition("/")[2]} for s in m.sessions)]
    listed = found if everything else [m for m in found if not m.superseded_by]
    hidden = len(found) - len(listed)
    if as_json:
        emit({"memories": [{**api.plain_memory(m), "marks": minded.get(m.memory_id, [])} for m in listed], "superseded_left_out": hidden})
        return
    if listed:
        print_list(listed, minded)
    else:
        say("no memories" if known else "no memories yet: ctx run looks for lessons in what it captures")
    if hidden:
        say(f"{hidden:,} superseded: --all")


@memory.command()
@click.argument("memory_id")
@json_option
def show(memory_id: str, as_json: bool) -> None:
    """Show one memory or case, its evidence and its warnings.

    The first or last characters of an id are enough.
    """
    from ctx_pipeline.learning import memories as api
    from ctx_pipeline.learning.memories import marks
    from ctx_pipeline.memory.lesson_files import grade

    settings = for_reading()
    one = api.memory(memory_id, settings=settings)
    minded = marks(api.memories(settings=settings)).get(one.memory_id, [])
    graded = grade(one, minded)
    quoted = api.quotes(one, settings=settings)
    if as_json:
        emit({**api.plain_memory(one), "marks": minded, "grade": graded._asdict() if graded else None, "quotes": quoted})
    else:
        print_memory(one, minded, graded, quoted, settings.timezone)


def _judge(verb: str, memory_id: str, **payload: Any) -> dict[str, Any]:
    """Write what a person said of a memory to the journal, bring the memories up to date and return the memory."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.learning import memories as api
    from ctx_pipeline.memory.consolidation import words_hash
    from ctx_pipeline.pipeline.consolidate import consolidate
    from ctx_pipeline.pipeline.index import index_memory
    from ctx_pipeline.redaction.redactor import Redactor
    from ctx_pipeline.storage import open_store

    if "reward" in payload and not 0 <= payload["reward"] <= 1:
        raise UsageError(f"{payload['reward']} is not a reward", hint="a number from 0 to 1")
    settings, _ = choose(settings_module.load(), demo=False)
    found = _a_memory(memory_id, settings)
    full = found.memory_id
    if payload.get("reviewed"):
        payload["words"] = words_hash(found)
    redactor = Redactor(settings.patterns)
    payload = {name: redactor.redact(said) if isinstance(said, str) else said for name, said in payload.items()}
    with saying_why_it_waits(), open_store(settings) as store:
        store.journal.append(verb, {"memory_id": full, **payload}, actor="person")
        consolidate(store, settings)
        index_memory(store, settings)
    return api.plain_memory(api.memory(full, settings=settings))


def written_down(instead_of: Memory, text: str) -> str:
    """Keep a lesson in the person's own words, accepted, at the place of the one that it stands in for; return its id."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.memory.consolidation import AUTHORED
    from ctx_pipeline.model.codec import digest
    from ctx_pipeline.redaction.redactor import Redactor
    from ctx_pipeline.storage import open_store

    settings, _ = choose(settings_module.load(), demo=False)
    said = str(Redactor(settings.patterns).redact(text))
    note = f"note-{digest(instead_of.memory_id, said, size=12)}"
    payload = {
        "memory_id": note,
        "text": said,
        "kind": instead_of.kind,
        "scope": instead_of.scope,
        "repository": instead_of.repository or instead_of.cwd,
    }
    with saying_why_it_waits(), open_store(settings) as store:
        store.journal.append(AUTHORED, {k: v for k, v in payload.items() if v}, actor="person")
    return note


def _a_memory(memory_id: str, settings: Settings) -> Memory:
    """Return one memory that can be judged; raises UsageError for a case."""
    from ctx_pipeline.learning import memories as api

    found = api.memory(memory_id, settings=settings)
    if found.memory_id.startswith(CASE):
        raise UsageError(f"{found.memory_id} is a case, which nobody judges", hint=f"ctx memory show {found.memory_id}")
    return found


def _print_status(row: dict[str, Any], as_json: bool) -> None:
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
    """Accept a memory, for good or until a day.

    After that day it is never retrieved. What a check held back needs --reviewed.
    """
    if until and until.date() < datetime.now().astimezone().date():
        raise UsageError(f"{until.date().isoformat()} is in the past", hint="give a later day, or ctx memory retire")
    if not reviewed:
        _reviewed_first(memory_id)
    limits = ({"valid_until": until.date().isoformat()} if until else {}) | ({"not_when": not_when} if not_when else {})
    _print_status(_judge("memory.accepted", memory_id, reviewed=reviewed, **limits), as_json)


@memory.command()
@click.argument("memory_id")
@json_option
def reject(memory_id: str, as_json: bool) -> None:
    """Reject a memory; it is never retrieved again."""
    _print_status(_judge("memory.rejected", memory_id), as_json)


@memory.command()
@click.argument("memory_id")
@json_option
def retire(memory_id: str, as_json: bool) -> None:
    """Retire a memory that has had its time."""
    _print_status(_judge("memory.retired", memory_id), as_json)


def _reviewed_first(memory_id: str) -> None:
    """Raise CtxError for a memory that is held back: it would stay so."""
    from ctx_pipeline.errors import CtxError

    found = _a_memory(memory_id, for_reading())
    if found.flags:
        raise CtxError(
            f"{found.memory_id} is held back ({', '.join(map(plain, found.flags))}) and was not accepted",
            hint=f"read it with `ctx memory show {found.memory_id}`, then `ctx memory accept {found.memory_id} --reviewed`",
        )


def _a_number(_context: click.Context, _option: click.Parameter, value: float) -> float:
    """Return the value; a word that Python reads as no number at all lies in every range."""
    if math.isnan(value):
        raise click.BadParameter("nan is not in the range 0<=x<=1.")
    return value


@memory.command("update-utility")
@click.option("--memory-id", required=True, help="The memory.")
@click.option("--reward", required=True, type=click.FloatRange(0, 1), callback=_a_number, help="1 it helped, 0 it did harm.")
@click.option("--session-id", help="The session in which it helped, or did not.")
@click.option("--reason", help="Why, in your words.")
@json_option
def update_utility(memory_id: str, reward: float, session_id: str | None, reason: str | None, as_json: bool) -> None:
    """Say whether a memory helped.

    Utility += 0.2 * (reward - utility).
    """
    if session_id:
        session_id = full_session(session_id, for_reading())
    _print_status(_judge("memory.rewarded", memory_id, reward=reward, session_id=session_id, reason=reason), as_json)


for _command in (cases, record, init, reindex, doctor, import_authored, export, export_skill, backtest):
    memory.add_command(_command)
