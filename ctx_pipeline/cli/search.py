"""``ctx search`` and ``ctx sql``."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.options import host_option, since_option, timezone_option, until_option
from ctx_pipeline.cli.output import (
    OPENS_EVIDENCE,
    cells,
    counted,
    emit,
    json_option,
    local_time,
    more_rows,
    one_line,
    plain,
    say,
    say_command,
    say_row,
    table,
    terminal_width,
    zone_name,
)
from ctx_pipeline.cli.session_names import short_names
from ctx_pipeline.model.display import session_title, title_text

if TYPE_CHECKING:
    from ctx_pipeline.search import Filters, SearchHit, SearchResult
    from ctx_pipeline.settings import Settings

_PROMPT = "prompt"
_BEST = 200
"""Hits whose sessions come first in a list of sessions."""
_SHOWN = 8
"""Values of a facet that are printed."""

_BEGINNING = "of a long output the beginning is searched; every character: --regex"
_LEVELS = {"phrase": "the phrase", "all": "all words", "any": "any of the words", "beginning": "beginnings of words"}


@click.command(
    epilog="""Examples:

\b
  ctx search why does the upload fail
  ctx search timeout --tool bash --outcome failed --since 2026-10-01
  ctx search upload --prompts --sessions
  ctx search --file parser.py --role command
  ctx search --fixed ModuleNotFoundError freezegun
  ctx search --regex 'E[0-9]{4}' --project api --facets"""
)
@click.argument("words", nargs=-1)
@host_option
@click.option("--project", help="Only projects with this in their name.")
@click.option("--prompts", is_flag=True, help="Only what people asked; the same as --kind prompt.")
@click.option("--role", multiple=True, help="Only what was said by: user, assistant, command, output or system. Repeatable.")
@click.option("--kind", multiple=True, help="Only this kind of event, e.g. prompt or tool_result. Repeatable.")
@click.option("--tool", multiple=True, help="Only calls of this tool and their output; bash: those of any shell tool. Repeatable.")
@click.option("--outcome", multiple=True, help="Only tool calls that passed, failed or are unanswered. Repeatable.")
@click.option("--file", metavar="NAME", help="Only tool input and output that names this file or path.")
@since_option
@until_option
@timezone_option
@click.option("--regex", is_flag=True, help="The words are a regular expression (RE2), newest first.")
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(0.1, 60), help="How long --regex may take.")
@click.option("--facets", is_flag=True, help="Count all hits by host, project, session, kind, tool, outcome and month.")
@click.option("--sessions", is_flag=True, help="Instead: every session that holds a hit, those of the best hits first.")
@click.option("--fixed", is_flag=True, help="Instead: which sessions fixed the error of these words, and by what.")
@click.option("--explain", is_flag=True, help="Show how each hit was scored.")
@click.option(
    "--sort",
    default="relevance",
    show_default=True,
    type=click.Choice(("relevance", "date")),
    help=f"The best first, or the {_BEST} best with the newest first.",
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="At most N hits.")
@click.option("--offset", default=0, show_default=True, type=click.IntRange(0, 1_000_000), help="Skip this many hits.")
@json_option
def search(
    words: tuple[str, ...],
    prompts: bool,
    regex: bool,
    seconds: float,
    facets: bool,
    sessions: bool,
    fixed: bool,
    explain: bool,
    sort: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Search prompts, answers, commands, tool output and file names.

    Takes a question as typed: first the phrase, then all words, then any of them. A
    hit counts for more where its neighbours and its session fit too. Filters without
    words list what they keep, the newest first.
    """
    from ctx_pipeline.cli.output import without_numpy
    from ctx_pipeline.search import Filters
    from ctx_pipeline.search import search as find

    limit, offset = chosen.pop("limit"), chosen.pop("offset")
    if prompts:
        chosen["kind"] = (*chosen["kind"], _PROMPT)
    filters = Filters(**chosen)
    query = " ".join(words)
    if not query.strip() and (regex or filters == Filters(timezone=filters.timezone)):
        raise click.UsageError("give an expression" if regex else "give some words or a filter")
    if sessions and offset:
        raise click.UsageError("--offset counts hits, and --sessions lists sessions: use --limit")
    if sort == "date" and sessions:
        raise click.UsageError("--sort is for hits, and --sessions lists sessions: leave one out")
    if fixed:
        if regex or sessions or facets or offset or explain or sort == "date" or not query.strip():
            raise click.UsageError("--fixed takes the words of an error, filters and --limit, and nothing else")
        without_numpy()
        _fixed(query, filters, limit, as_json=as_json)
        return
    without_numpy()
    settings = for_reading()
    by_date = sort == "date"
    found = find(
        query,
        filters=filters,
        regex=regex,
        seconds=seconds,
        facets=facets or sessions,
        limit=max(limit + offset, _BEST) if by_date or (sessions and not as_json) else limit,
        offset=0 if by_date else offset,
        settings=settings,
    )
    if by_date:
        newest = sorted(found.hits, key=lambda hit: hit.ts or "", reverse=True)
        end = offset + limit
        found = replace(found, hits=newest[offset:end], offset=offset, next_offset=end if end < len(newest) else None)
    if not found.hits and filters.project:
        _known_project(filters.project, settings)
    if as_json:
        emit(found.to_json())
    elif sessions and found.facets is not None:
        _sessions(found, found.facets["session"], settings, filters.timezone or settings.timezone, limit)
    else:
        _show(found, filters.timezone or settings.timezone, explain=explain)
        kinds = {hit.kind for hit in found.hits}
        if query.strip() and len(kinds) > 1 and _PROMPT in kinds:
            say("only what people asked: --prompts; every session of these words: --sessions", dim=True)


def _fixed(query: str, filters: Filters, limit: int, *, as_json: bool) -> None:
    from ctx_pipeline.search.fixed import fixed_errors

    settings = for_reading()
    found = fixed_errors(query, filters=filters, limit=limit, settings=settings)
    if not found.failures and filters.project:
        _known_project(filters.project, settings)
    if as_json:
        emit(found.to_json())
        return
    zone = filters.timezone or settings.timezone
    met = counted(found.failures, "failed output")
    if found.partly:
        say("no failed output has all of these words; what follows has most of them")
    if found.fixed:
        say(f"{counted(len(found.fixed), 'fix', 'fixes')} of {met}; times in {zone_name(zone)}")
    else:
        where = f": {met} in {counted(found.sessions, 'session')}" if found.failures else "; no failed output has these words"
        later = f"; in {found.changed:,} of them a later change of the same file went through" if found.changed else ""
        say(f"no session is known to have fixed it{where}{later}")
    for one in found.fixed:
        title = f"  {one_line(title_text(one.title), 100)}" if one.title else ""
        say_row(f"{one.host} {one.session_id}{title}", bold=True)
        say(f"  failed: `{one_line(one.failed, 160)}`: {one_line(one.error, 200)}")
        if one.did:
            say(f"  then ran: {', '.join(f'`{one_line(command, 100)}`' for command in one.did)}")
        if one.files:
            say(f"  then changed: {one_line(', '.join(one.files), 200)}")
        again = "" if one.passed == one.failed else f" `{one_line(one.passed, 160)}`"
        say(f"  passed:{again or ' run again'}, {local_time(one.ts, zone)}")
        say(f"  evidence: {', '.join(one.evidence[:_PROOFS])}", dim=True)
        if one.resume:
            say_command(one.resume, "  ")
    for open_ in found.left_open if not found.fixed else ():
        title = f"  {one_line(title_text(open_.title), 100)}" if open_.title else ""
        say_row(f"{open_.host} {open_.session_id}{title}", bold=True)
        say(f"  failed: {one_line(open_.snippet, 240)}")
        ended = f"a later change of {one_line(open_.changed, 120)} went through" if open_.changed else "no later run of it passed"
        say(f"  {ended}; next the agent: {one_line(open_.then, 160) or 'did nothing'}")
        say(f"  evidence: {', '.join(filter(None, (open_.event_id, open_.changed_by)))}, {local_time(open_.ts, zone)}", dim=True)
        if open_.resume:
            say_command(open_.resume, "  ")
    if found.fixed or found.left_open:
        say(OPENS_EVIDENCE, dim=True)


_PROOFS = 4
"""Events of a fix that are named."""


def _known_project(part: str, settings: Settings) -> None:
    """Raise UnknownName where no project has this in its name."""
    from ctx_pipeline.errors import UnknownName
    from ctx_pipeline.storage.own_sessions import ShownSessions

    names = {shown.project or "" for shown in ShownSessions(settings.home / "ledger.db").of().values()} - {""}
    if not any(part.lower() in name.lower() for name in names):
        raise UnknownName("project", part, names)


def _sessions(found: SearchResult, hits: dict[str, int], settings: Settings, zone: str | None, limit: int) -> None:
    from ctx_pipeline.storage.own_sessions import ShownSessions

    # those of the best hits first, as without --sessions
    order = dict.fromkeys([*(f"{hit.host}/{hit.session_id}" for hit in found.hits), *hits])
    places = {key: (key.partition("/")[0], key.partition("/")[2]) for key in list(order)[:limit] if key in hits}
    known = ShownSessions(settings.home / "ledger.db").of(places.values())
    names = short_names([session_id for _, session_id in places.values()], settings) if terminal_width() is not None else {}
    rows = [
        {
            "session": names.get(session_id, session_id),
            "hits": f"{hits[key]:,}",
            "began": local_time(known[host, session_id].began, zone) if (host, session_id) in known else "",
            "project": (known[host, session_id].project or "") if (host, session_id) in known else "",
            "title": one_line(session_title(known[host, session_id].title), 70) if (host, session_id) in known else "",
            "host": host,
        }
        for key, (host, session_id) in places.items()
    ]
    if rows:
        table(rows, {name: name for name in rows[0]} | {"began": "first call"}, drop=("host", "project"))
        more_rows(len(hits), len(rows))
        say(f"times in {zone_name(zone)}", dim=True)
    if not rows:
        say(_summary(found))
        return
    said = f"{counted(found.total or 0, 'hit')} in {counted(len(hits), 'session')}{_level(found)}"
    say("; ".join([said, *found.not_found()]))
    if found.level in _LEVELS:
        say(_BEGINNING, dim=True)


def _show(found: SearchResult, zone: str | None, *, explain: bool) -> None:
    if found.hits and not found.with_all_words and found.level in {"any", "beginning"} and _level(found):
        say(f"no text holds all of these words; with {_LEVELS[found.level]}:", bold=True)
    sessions: dict[tuple[str, str], list[SearchHit]] = {}
    for hit in found.hits:
        sessions.setdefault((hit.host, hit.session_id), []).append(hit)
    whole = True
    for number, ((host, session_id), hits) in enumerate(sessions.items()):
        if whole and all(hit.score and hit.score["tier"] >= _SOME for hit in hits):
            whole = False
            if number or (found.offset and found.with_all_words):
                say("in these no text holds all of the words:", bold=True)
        say_row(f"{host} {session_id}" + (f"  {one_line(title_text(hits[0].title), 100)}" if hits[0].title else ""), bold=True)
        alike: dict[tuple[str | None, ...], list[SearchHit]] = {}
        for hit in hits:
            alike.setdefault((hit.kind, hit.tool, hit.outcome, hit.snippet), []).append(hit)
        for hit, *again in alike.values():
            call = f"  {hit.tool}{' (failed)' if hit.outcome == 'failed' else ''}" if hit.tool else ""
            say(f"  {local_time(hit.ts, zone)}  {hit.kind}{call}", dim=True)
            _snippet(hit.snippet, hit.marks)
            if again:
                say(f"    the same words at {', '.join(local_time(one.ts, zone) for one in again)}", dim=True)
            for score in (one.score for one in (hit, *again) if explain and one.score):
                say("    " + "  ".join(f"{name} {value:g}" for name, value in score.items()), dim=True)
            if copies := dict.fromkeys(copy["session_id"] for one in (hit, *again) for copy in one.also_in):
                say(f"    also in {', '.join(copies)}", dim=True)
        if hits[0].resume:
            say_command(hits[0].resume, "  ")
    if found.facets is not None:
        for name, counts in found.facets.items():
            told = [f"{one_line(value, 40)} {count:,}" for value, count in list(counts.items())[:_SHOWN]]
            more = [f"and {len(counts) - _SHOWN} more"] if len(counts) > _SHOWN else []
            if told:
                say(f"{name:<8} " + ", ".join(told + more))
    if found.hits:
        say(f"times in {zone_name(zone)}", dim=True)
    say(_summary(found))
    if found.level in _LEVELS and found.hits and found.next_offset is None and not found.offset:
        say(_BEGINNING, dim=True)
    if any(hit.outcome == "failed" for hit in found.hits) and _ERROR.search(found.query):
        say("which session fixed it:")
        say_command(f"ctx search --fixed {shlex.quote(found.query)}", "  ")


_SOME = 2
"""The tier of a hit that holds some of the words and not all of them."""
_ERROR = re.compile(r"(?i)\b\w*(?:error|exception)\b|\b(?:failed|cannot|could not|not found|no such|unexpected|unknown|undefined|panic)\b")
"""Words of an error."""


def _snippet(text: str, marks: list[list[int]]) -> None:
    """Print a snippet with its marks in bold, broken between words on a terminal."""
    room, column = terminal_width(), len(_BEHIND)
    shown = list(text)
    for word in re.finditer(r"\s*\S+", text) if room else ():
        column += cells(word[0])
        if room and column > room and word.start():
            shown[word.start()] = f"\n{_BEHIND}"
            column = len(_BEHIND) + cells(word[0].lstrip())
    say(_BEHIND, nl=False)
    bounds = [0, *(place for mark in marks for place in mark), len(text)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        style: dict[str, Any] = {"bold": True, "fg": "yellow"} if number % 2 else {}
        say("".join(shown[start:end]), nl=False, **style)
    say()


_BEHIND = "    "
"""What the lines of a snippet begin with."""


def _level(found: SearchResult) -> str:
    """Return how far the words were relaxed, where there are several."""
    if found.level not in _LEVELS or " " not in found.query.strip():
        return ""
    whole = f", {found.with_all_words:,} of them with all" if found.with_all_words and found.level in {"any", "beginning"} else ""
    return f" for {_LEVELS[found.level]}{whole}"


def _summary(found: SearchResult) -> str:
    """Return how many hits there are and how they were found."""
    from ctx_pipeline.search import days_in_words

    copies = 0
    if not found.hits:
        told = "nothing found"
        if found.level in _LEVELS and not any(c.isalnum() for c in found.query):
            told += ": there is no letter or digit to look for (--regex finds signs)"
    elif found.total is not None:
        told = f"{len(found.hits)} of {found.total:,} hit{'s' * (found.total != 1)}"
    elif found.offset or found.next_offset is not None:
        copies = sum(len(hit.also_in) for hit in found.hits)
        last = found.next_offset or found.offset + len(found.hits) + copies
        told = f"hits {found.offset + 1:,}-{last:,}"
    else:
        told = f"{len(found.hits)} hit{'s' * (len(found.hits) != 1)}"
    told += _level(found) if found.hits else ""
    told += f", {days_in_words(found.days)}" if found.days else ""
    told += "".join(f"; {told}" for told in found.not_found())
    told += f"; {counted(copies, 'copy', 'copies')} told with another" if copies else ""
    if found.next_offset is not None:
        told += f"; from {found.next_offset + 1:,} on: --offset {found.next_offset}"
    if found.partial:
        why = "out of time" if found.partial["reason"] == "time" else "too many matches"
        told += f"\nnot all was searched: {why} after {found.partial['seen']:,} of {found.partial['of']:,} events, the newest first; "
        told += "narrow it (--project, --tool, --role, --file, --since, --until)"
        told += " or allow more --seconds" if found.partial["reason"] == "time" else ""
    return told


@click.command()
@click.argument("query")
@json_option
def sql(query: str, as_json: bool) -> None:
    """Run a SELECT over the tables, e.g. "select tool, count(*) from tool_calls group by 1".

    The tables are in docs/reference/tables.md. Nothing can be written and no other file be read.
    """
    from ctx_pipeline.search import query as ask

    names, rows = ask(query, settings=for_reading())
    if as_json:
        emit({"columns": names, "rows": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    table([{str(i): _value(v) for i, v in enumerate(row)} for row in rows], {str(i): n for i, n in enumerate(names)})


def _value(value: object) -> object:
    return value if isinstance(value, int | float | None) else plain(value)
