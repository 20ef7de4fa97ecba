"""``ctx mine``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.output import OPENS_EVIDENCE, counted, dollars, emit, json_option, one_line, plain, say
from ctx_pipeline.cli.session_names import complete_sessions, read_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.mining.filters import Filtered
    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_EARLIER = {"reme_refine_poc": "reme"}
"""Names under which retro documents a method."""


@click.command()
@click.argument("session_words", nargs=-1, metavar="[SESSION]", shell_complete=complete_sessions)
@click.option(
    "--method",
    "names",
    multiple=True,
    help="A method, several with commas, or all: every local one. One that asks a model runs only when it is named.",
)
@click.option(
    "--filter", "filters", multiple=True, help="Filters: risk_aware, near_duplicate, contradiction or staleness; several with commas."
)
@click.option("--all", "everything", is_flag=True, help="Also lessons that only one session shows.")
@click.option("--block", "as_block", is_flag=True, help="Print the best as a block to paste into a prompt, and nothing else.")
@click.option("--budget", type=click.IntRange(1), default=1200, show_default=True, help="At most N tokens in the block.")
@click.option("--dry-run", is_flag=True, help="With a method that asks a model: show what would be sent, and send nothing.")
@click.option("--again", is_flag=True, help="With a method that asks a model: ask although there is an answer.")
@click.option(
    "--across",
    is_flag=True,
    help="With a method that asks a model: ask once more for each repository which lessons of models say the same or contradict.",
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="With a method that asks a model: questions at most.")
@json_option
def mine(
    session_words: tuple[str, ...],
    names: tuple[str, ...],
    filters: tuple[str, ...],
    everything: bool,
    as_block: bool,
    budget: int,
    dry_run: bool,
    again: bool,
    across: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Draw memory candidates from sessions and show them: of one SESSION, of a HOST, or of all.

    Only partitions whose input or code changed are mined again. What needs several sessions
    to be true is shown where they agree. Methods that ask a model (ctx methods) send the
    redacted record of each session away and cost money; they answer from what was said
    before unless --again.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.homes import choose
    from ctx_pipeline.errors import UnknownChoice
    from ctx_pipeline.memory.prompt_block import block
    from ctx_pipeline.mining.filters import FILTERS, filtered
    from ctx_pipeline.pipeline.mine import candidates
    from ctx_pipeline.pipeline.mine import mine as stage
    from ctx_pipeline.pipeline.models.model_mining import ask
    from ctx_pipeline.pipeline.models.second_question import ask_across
    from ctx_pipeline.sessions.session_details import resolve
    from ctx_pipeline.storage import open_store

    host, session_id = read_name(tuple(word for word in session_words if word != "*"), None)
    chosen, names = _several(filters), _several(names)
    for name in chosen:
        if name not in FILTERS:
            raise UnknownChoice("filter", name, FILTERS)
    settings, _ = choose(settings_module.load(), demo=False)
    with open_store(settings) as store:
        known = discovery.methods()
        local = [m for m, method in known.items() if method.deterministic] if not names or "all" in names else []
        methods = list(dict.fromkeys([*local, *(name for name in names if name != "all")]))
        key, full = resolve(store, host, session_id) if session_id else (host or None, None)
        cells = [c for c in store.ledger.cells() if key is None or c.host == key]
        asking = [known[m] for m in methods if m in known and known[m].asks]
        _refuse_without_model(asking, dry_run=dry_run, again=again, across=across, key=key)
        sessions = None if full is None else {full}
        if dry_run:
            _show_questions(store, settings, asking, cells, sessions, limit=limit, again=again, across=across, as_json=as_json)
            return
        asked = {m.name: ask(store, settings, m, cells=cells, sessions=sessions, limit=limit, again=again) for m in asking}
        report = stage(store, settings, methods=[m for m in methods if m not in asked], cells=cells)
        joined = {m.name: ask_across(store, settings, m, limit=limit, again=again) for m in asking} if across else {}
        drawn = [c for name in methods for c in candidates(store, known[name], combined=not everything)]
        silent = {} if everything else {name: _seen(store, known[name], key, full) for name in names if name in known and known[name].wants}
    found = [c for c in drawn if key in (None, c.host) and full in (None, c.session_id)]
    result = filtered(sorted(found, key=lambda c: (c.method, c.host, c.session_id, c.candidate_id)), chosen)
    result = _with_withheld(result, settings)
    text = block(result.kept, method=",".join(methods), source=f"{key or '*'}/{full or '*'}", marks=result.marks, budget=budget)
    if as_json:
        shown = [{**_plain(c), "marks": result.marks.get(c.candidate_id, [])} for c in result.kept]
        emit(
            {
                "candidates": shown,
                "dropped": result.dropped,
                "block": text,
                **({"silent": why} if (why := _silent(silent, found, known)) else {}),
                **_counts(report.totals, len(drawn)),
                **({"asked": asked} if asked else {}),
                **({"across": joined} if joined else {}),
            }
        )
    elif as_block:
        say(text, nl=False)
        _tell_left_out(text, len(found))
    else:
        _print(result)
        for name, said in _silent(silent, found, known).items():
            say(f"{name} tells none: {said}")
        _tell_asked(asked, joined)
    _fail_without_answer([*asked.values(), *joined.values()])


def _fail_without_answer(every: list[dict[str, Any]]) -> None:
    if any(done["asked"] for done in every) and all(done["failed"] == done["asked"] for done in every):
        raise click.exceptions.Exit(1)


def _refuse_without_model(asking: list[Method], *, dry_run: bool, again: bool, across: bool, key: str | None) -> None:
    from ctx_pipeline.errors import UsageError

    if (dry_run or again or across) and not asking:
        raise UsageError("--dry-run, --again and --across are for methods that ask a model", hint="ctx methods")
    if across and key:
        raise UsageError("--across is about the lessons of all sessions", hint="ctx mine --method NAME --across")


def _tell_asked(asked: Mapping[str, dict[str, Any]], joined: Mapping[str, dict[str, Any]]) -> None:
    for name, done in asked.items():
        _tell(name, done)
    for name, done in joined.items():
        _tell_joined(name, done)


def _seen(store: Store, method: Method, host: str | None, session_id: str | None) -> int:
    """Return how many candidates single sessions gave a method, whether or not several bear them out."""
    from ctx_pipeline.pipeline.mine import candidates

    return sum(host in (None, c.host) and session_id in (None, c.session_id) for c in candidates(store, method, combined=False))


def _silent(seen: Mapping[str, int], found: list[StoredCandidate], known: Mapping[str, Method]) -> dict[str, str]:
    """Return for each named method without a lesson what it saw and what a lesson of it needs."""
    loud = {c.method for c in found}
    return {
        name: f"{counted(count, 'candidate')} of single sessions (--all); a lesson needs {known[name].wants}"
        for name, count in seen.items()
        if name not in loud
    }


def _counts(totals: Mapping[str, int], drawn: int) -> dict[str, int]:
    """Return the sessions and errors of what was mined anew, none where all was up to date, and the candidates that were looked at."""
    return {name: totals.get(name, 0) for name in ("sessions", "errors")} | {"drawn": drawn}


def _tell_left_out(block: str, found: int) -> None:
    left = found - sum(line.startswith("- [") for line in block.splitlines())
    if left:
        why = "filtered, held back, of high risk, or beyond eight or the budget"
        say(f"{left:,} of {counted(found, 'candidate')} left out of the block: {why}", err=True)


def _several(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in words that may each hold several with commas; an earlier name of a method stands for its own."""
    return tuple(_EARLIER.get(name, name) for group in words for part in group.split(",") if (name := part.strip()))


def _with_withheld(result: Filtered, settings: Settings) -> Filtered:
    """Return the candidates with a mark on each in which the check of memories finds something."""
    from ctx_pipeline.memory.consolidation import DANGEROUS
    from ctx_pipeline.memory.safety import scan, strings_of
    from ctx_pipeline.redaction.redactor import Redactor
    from ctx_pipeline.shell.command_risk import REASON

    redactor = Redactor(settings.patterns)
    marks = dict(result.marks)
    for c in result.kept:
        flags = scan([c.text, c.when_to_use, *strings_of(c.body)], lambda text: {name for name, _, _ in redactor.find(text)})
        flags += [DANGEROUS] if c.body.get(REASON) else []
        if flags:
            marks[c.candidate_id] = [f"held back for review: {', '.join(flags)}", *marks.get(c.candidate_id, [])]
    return result._replace(marks=marks)


def _print(result: Filtered) -> None:
    alike: dict[tuple[str | None, ...], list[StoredCandidate]] = {}
    for c in result.kept:
        alike.setdefault((c.method, c.kind, c.text, c.when_to_use), []).append(c)
    for members in alike.values():
        c = max(members, key=lambda m: m.confidence)
        sessions = len({(m.host, m.session_id) for m in members})
        more = f"  and {counted(sessions - 1, 'more session')}" if sessions > 1 else ""
        say(f"{c.kind}  {plain(c.method)}  {c.host} {c.session_id}{more}", bold=True)
        say(f"  {one_line(c.text, 400)}")
        if c.when_to_use:
            say(f"  when: {one_line(c.when_to_use, 200)}")
        say(f"  confidence {c.confidence:.2f}, priority {c.priority}, {c.scope}, {c.risk} risk; evidence: {', '.join(c.evidence[:4])}")
        for mark in dict.fromkeys(mark for m in members for mark in result.marks.get(m.candidate_id, [])):
            say(f"  mind: {one_line(mark, 200)}")
    if result.kept:
        say(OPENS_EVIDENCE, dim=True)
    left = f", {len(result.dropped):,} left out" if result.dropped else ""
    say(f"{counted(len(result.kept), 'candidate')}{left}")


def _tell(name: str, done: dict[str, Any]) -> None:
    """Say what a method that asks a model did: questions, failures, what was refused, tokens and cost."""
    if not done["asked"]:
        say(f"{name}: nothing asked, every session has its answer (--again asks again)")
        return
    refused = "".join(f", {count:,} refused ({reason})" for reason, count in sorted(done["refused"].items()))
    refused += "".join(f", {count:,} without {field} (its default counts)" for field, count in sorted(done["missing"].items()))
    cost = dollars(done["cost_nano"]) if done["cost_nano"] else "cost not told"
    tokens = f"{done['input_tokens']:,} tokens in, {done['output_tokens']:,} out, {cost}"
    lost = f", {done['failed']:,} without an answer" if done["failed"] else ""
    say(f"{name}: asked {done['model']} {counted(done['asked'], 'time')}{lost}, {counted(done['lessons'], 'lesson')}{refused}; {tokens}")
    for session, why in done["errors"].items():
        say(f"  {plain(session)}: {one_line(why, 700)}", err=True)


def _tell_joined(name: str, done: dict[str, Any]) -> None:
    """Say what came of the question about the lessons of each repository."""
    if not done["asked"]:
        say(f"{name}: nothing asked across sessions, no repository has a lesson that was not asked about")
        return
    refused = "".join(f", {count:,} refused ({reason})" for reason, count in sorted(done["refused"].items()))
    lost = f", {done['failed']:,} without an answer" if done["failed"] else ""
    gave = f"{counted(done['same'], 'lesson')} said again, {done['contrary']:,} overruled by later ones"
    cost = dollars(done["cost_nano"]) if done["cost_nano"] else "cost not told"
    tokens = f"{done['input_tokens']:,} tokens in, {done['output_tokens']:,} out, {cost}"
    say(f"{name}: asked {done['model']} across sessions {counted(done['asked'], 'time')}{lost}, {gave}{refused}; {tokens}")
    for place, why in done["errors"].items():
        say(f"  {plain(place)}: {one_line(why, 700)}", err=True)


def _show_questions(
    store: Store,
    settings: Settings,
    asking: list[Method],
    cells: list[Cell],
    sessions: set[str] | None,
    *,
    limit: int,
    again: bool,
    across: bool,
    as_json: bool,
) -> None:
    """Print what would be sent, to whom and for how much, and send nothing."""
    from ctx_pipeline.mining.lessons.asked_models.compared_lessons import question
    from ctx_pipeline.model.declared import AGENT, MODEL
    from ctx_pipeline.pipeline.models import lesson_program as program
    from ctx_pipeline.pipeline.models import model_mining as stage
    from ctx_pipeline.pipeline.models import second_question

    rows: list[dict[str, str]] = []
    tokens = 0
    costs: list[float | None] = []
    adding = False
    for method in asking:
        before = len(rows)
        model, to = stage.recipient(settings, method)
        found = stage.questions(store, settings, method, cells=cells, sessions=sessions, limit=limit, again=again, model=model)
        rows += [{"method": method.name, "host": q.view.host, "session_id": q.view.session_id, "to": to, "question": q.text} for q in found]
        more = second_question.questions(store, settings, method, again=again, model=model) if across else ()
        rows += [{"method": method.name, "host": "", "session_id": q.place, "to": to, "question": question(q.lines)} for q in more]
        sent = program.tokens_of([row["question"] for row in rows[before:]])
        tokens += sent
        if len(rows) > before:
            longest = _longest_answer(model) if method.asks == MODEL and model else None
            costs.append(None if longest is None else program.list_price(settings, model, sent, (len(rows) - before) * longest))
            adding = adding or method.asks == AGENT
    known = [each for each in costs if each is not None]
    cost = sum(known) if rows and len(known) == len(costs) else None
    if as_json:
        emit({"questions": rows, "tokens": tokens, "cost": cost})
        return
    for row in rows:
        say(f"{row['method']}  {row['host']} {row['session_id']}  to: {plain(row['to'])}", bold=True)
        say(plain(row["question"]))
    price = f"${cost:,.2f} with the longest answers" if cost is not None else "at a price that is not known here"
    about = f" of about {tokens:,} tokens{' and what the agent adds' if adding else ''}, {price};" if rows else ","
    say(f"{counted(len(rows), 'question')}{about} nothing was sent")


def _longest_answer(model: str) -> int | None:
    """Return the tokens that an answer of a model may have; None where the library that asks it is not installed."""
    from ctx_pipeline.errors import missing_extra
    from ctx_pipeline.pipeline.models.lesson_program import longest_answer

    try:
        return longest_answer(model)
    except ModuleNotFoundError as error:
        if missing_extra(error) is None:
            raise
        return None


def _plain(c: StoredCandidate) -> dict[str, Any]:
    return {**c._asdict(), "structured": c.body or None}
