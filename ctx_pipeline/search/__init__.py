"""Search over the whole history."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownChoice, UnknownName, UsageError
from ctx_pipeline.model.codec import Plain, iso
from ctx_pipeline.model.tables import EVENT_KINDS
from ctx_pipeline.search.question_words import without_question
from ctx_pipeline.search.time_words import named_days
from ctx_pipeline.storage.reader import reading, searching
from ctx_pipeline.storage.resuming import resuming
from ctx_pipeline.storage.search_index import Asked, Counting, Wanted
from ctx_pipeline.storage.search_index.tokenize import with_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.search_index import Answer, Found
    from ctx_pipeline.storage.search_index.regex import Coverage


# Search over the whole history.


ROLES: dict[str, tuple[str, ...]] = {
    "user": ("prompt",),
    "assistant": ("answer", "reasoning"),
    "command": ("tool_call",),
    "output": ("tool_result",),
    "system": ("injected", "compaction", "title", "todo", "error"),
}
"""role -> the kinds of events that it speaks in"""

SHELL = frozenset({"bash", "shell"})
"""Names by which a tool that runs shell commands is meant, whatever its agent calls it."""

OUTCOMES = ("passed", "failed", "unanswered")
"""How a tool call ended that a hit is the call or the output of."""

MOST = 1_000
"""Hits of one answer."""

LONGEST_SCAN = 60.0
"""Seconds that a regular expression may take."""


@dataclass(frozen=True)
class SearchHit:
    """One event that fits, with the text around the match and the command that resumes its session.

    ``marks`` are where the words stand in ``snippet``, as [start, end). ``score`` has tier, total, and what the row, its
    neighbours and its session gave; None for a hit that was not ranked. ``place`` counts from 0 over all hits.
    ``also_in`` names the same event in sessions that were forked from this one or resumed it (session_id, thread_id,
    event_id): they are no hits of their own.
    """

    host: str
    session_id: str
    thread_id: str
    event_id: str
    ts: str | None
    kind: str
    tool: str | None
    outcome: str | None
    title: str | None
    project: str | None
    snippet: str
    marks: list[list[int]]
    resume: str
    score: dict[str, float] | None = None
    place: int = 0
    also_in: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class SearchResult(Plain):
    """Hits, best first, and how the question was taken.

    ``level`` is phrase, all, any or beginning (how far the words were relaxed), regex, file or newest. ``next_offset`` is None at the
    end. ``total``, ``facets`` (facet -> value -> hits) and ``left_out`` (hits of sessions that were not to be shown) are there
    where they were asked for. ``covered`` says how far a regular expression came; where it was ended before it had seen all
    that was meant, and before the page was full, ``partial`` says why (``reason``: time or matches), how far it came (``seen``,
    ``of``) and what to do (``next``).
    """

    query: str
    level: str
    offset: int
    next_offset: int | None
    hits: list[SearchHit]
    total: int | None = None
    left_out: int = 0
    facets: dict[str, dict[str, int]] | None = None
    covered: dict[str, Any] | None = field(default=None)
    partial: dict[str, Any] | None = None
    days: list[str | None] | None = None
    """First and last day that words of the question name ("last week"), where only these days were searched; None first for all before."""
    missing: list[str] = field(default_factory=list)
    """Words of the question, as typed, that nothing holds which the filters keep."""
    with_all_words: int = 0
    """Scored rows that have the phrase or all words; the others have some of them."""
    corrected: dict[str, str] = field(default_factory=dict)
    """Words of the question, as typed, that stand nowhere: the word that differs in one letter and was looked for in its place."""
    empty_days: list[str | None] | None = None
    """First and last day that words of the question name, where nothing was found on these days and so all were searched."""

    def not_found(self) -> list[str]:
        """Return in words what of the question nothing holds, and what was looked for in its place."""
        told = [f"nothing {days_in_words(self.empty_days, 'in')}: all days were searched"] if self.empty_days else []
        told += [f"nothing holds {word}: {other} was looked for" for word, other in self.corrected.items()]
        return told + ([f"nothing holds: {', '.join(self.missing)}"] if self.missing else [])

    def searched(self) -> str:
        """Return in words what was looked for in place of what was asked; empty where that is the same."""
        days = [f"{days_in_words(self.days, 'from')} only"] if self.days else []
        return "; ".join([*days, *self.not_found()])


def days_in_words(days: Sequence[str | None], word: str = "") -> str:
    """Return the first and last day of a span after a word; without a first one "until" and the last."""
    first, last = days
    return f"{word} {first} to {last}".lstrip() if first else f"until {last}"


@dataclass(frozen=True)
class Filters:
    """Which events are meant; everything is by default.

    ``project`` is part of a project's name, ``role`` a key of ROLES, ``kind`` an event kind,
    ``tool`` a tool's name as recorded (case does not matter; ``bash`` and ``shell`` mean the
    shell of every agent), ``file`` a file name or path that a tool was called with or printed,
    ``since`` and ``until`` days (``2026-03-01``, both included) of the timezone, ``without``
    ids of sessions to leave out.
    """

    host: str | None = None
    project: str | None = None
    role: Collection[str] = ()
    kind: Collection[str] = ()
    tool: Collection[str] = ()
    outcome: Collection[str] = ()
    file: str | None = None
    since: str | None = None
    until: str | None = None
    timezone: str | None = None
    without: Collection[str] = ()


def search(
    query: str = "",
    *,
    filters: Filters | None = None,
    host: str | None = None,
    regex: bool = False,
    seconds: float = 5.0,
    facets: bool = False,
    limit: int = 10,
    offset: int = 0,
    width: int = 240,
    settings: Settings | None = None,
) -> SearchResult:
    """Return events that fit a question as typed: the phrase first, then all its words, then any of them.

    Without words but with filters these are the newest events that the filters keep. A
    hit is scored with its neighbours and its session. With ``regex`` the query is a
    regular expression (RE2) over the texts, newest first, for at most ``seconds``. With
    ``facets`` all hits are counted.

    Words of time in a question ("last week", "in July") are filters where none is given and something is found there; else
    they are words like others. Where no text holds all words of a question, those with which it begins and that say nothing
    ("which session fixed the") are left out. In place of a word that stands nowhere the one that differs in one letter is
    looked for. All filters must hold; of several values of one, any. Raises StoreError when nothing was
    indexed yet, UnknownName for an unknown host, role, kind or outcome, and for a tool or a
    project that no session has, UsageError for a day or a pattern that is none.
    """
    chosen = filters or Filters()
    if host is not None:
        chosen = Filters(**{**asdict(chosen), "host": host})
    if not 0 < limit <= MOST or offset < 0:
        raise UsageError(f"limit {limit} or offset {offset} is out of range", hint=f"a limit of 1 to {MOST}, an offset of 0 or more")
    if regex and not query:
        raise UsageError("an empty regular expression", hint="give a pattern")
    form = _Form(regex, seconds, facets, limit, offset, width)
    bounded = regex or chosen.since is not None or chosen.until is not None
    told = None if bounded else named_days(query, _today(chosen.timezone, settings))
    if told is None:
        return _answered(query, chosen, form, settings)
    days = [told.since.isoformat() if told.since else None, told.until.isoformat()]
    narrowed = replace(chosen, since=days[0], until=days[1])
    with suppress(UnknownName):
        found = _answered(told.question, narrowed, form, settings)
        if found.hits or (offset and _answered(told.question, narrowed, form._replace(offset=0, limit=1), settings).hits):
            return replace(found, query=query, days=days)
    return replace(_answered(query, chosen, form, settings), empty_days=days)


class _Form(NamedTuple):
    """How a question is taken, and which of its hits are shown."""

    regex: bool
    seconds: float
    facets: bool
    limit: int
    offset: int
    width: int


def _answered(query: str, chosen: Filters, form: _Form, settings: Settings | None, *, correct: bool = True) -> SearchResult:
    """Return the answer to a question whose words of time were read; with ``correct`` other words are looked for in the place of typos."""
    with searching(settings) as (store, used):
        zone = chosen.timezone or used.timezone
        projects = {place: told.project or "" for place, told in store.shown().items()} if form.facets or chosen.project else {}
        asked = Asked(
            query,
            _wanted(chosen, zone, projects),
            without=_without(chosen.without),
            file=chosen.file,
            regex=form.regex,
            seconds=min(max(form.seconds, 0.0), LONGEST_SCAN),
        )
        counting = Counting(_months(zone), projects) if form.facets else None
        answer = store.search.ask(store, asked, limit=form.limit, offset=form.offset, width=form.width, counting=counting)
        if not answer.found and not answer.left_out and not form.offset:
            _refuse_unknown(store, chosen, projects)
        hits = _hits(store, answer.found)
        near = store.search.near_words(answer.missing, asked) if correct else {}
        relaxed = answer.level in {"any", "beginning"} and not answer.with_all
        bare = without_question(query) if relaxed else query
        shorten = bare != query and store.search.meets(asked._replace(text=bare))
    # a long question may end in a part of a word
    near = {word: other for word, other in near.items() if with_words(query, {word: other}) != query}
    if near:
        meant = _answered(with_words(query, near), chosen, form, settings, correct=False)
        return replace(meant, query=query, corrected={_as_typed(word, query): other for word, other in near.items()})
    if shorten:
        shorter = _answered(bare, chosen, form, settings, correct=False)
        if shorter.level in {"phrase", "all"} or shorter.with_all_words:
            return shorter
    return _result(query, answer, hits, form.offset)


def _today(zone: str | None, settings: Settings | None) -> date:
    from zoneinfo import ZoneInfo

    named = zone or (settings.timezone if settings else None)
    return (datetime.now(ZoneInfo(named)) if named else datetime.now(UTC).astimezone()).date()


def _result(query: str, answer: Answer, hits: list[SearchHit], offset: int) -> SearchResult:
    covered, partial = None, None
    if answer.covered is not None:
        names = ("rows", "of", "out_of_time")
        covered = {n: getattr(answer.covered, n) for n in names} | {"complete": answer.covered.rows == answer.covered.of}
        partial = _partial(answer.covered)
    return SearchResult(
        query,
        answer.level,
        offset,
        answer.next,
        hits,
        answer.total,
        answer.left_out,
        answer.facets,
        covered,
        partial,
        missing=[_as_typed(word, query) for word in answer.missing],
        with_all_words=answer.with_all,
    )


def _as_typed(word: str, query: str) -> str:
    """Return a word that was looked for as it stands in the question."""
    word = word.replace(" ", "")
    typed = re.search(re.escape(word), query, re.IGNORECASE)
    return typed[0] if typed else word


def _partial(covered: Coverage) -> dict[str, Any] | None:
    """Return why a regular expression did not see everything, and how to go on; None where it did, or the page was full before."""
    if not (covered.out_of_time or covered.too_many):
        return None
    hint = "narrow it by project, tool, role, file or days"
    return {
        "reason": "time" if covered.out_of_time else "matches",
        "seen": covered.rows,
        "of": covered.of,
        "next": f"{hint}, or allow more seconds" if covered.out_of_time else hint,
    }


def _hits(store: Store, found: Sequence[Found]) -> list[SearchHit]:
    sessions = store.shown({(hit.event.host, hit.event.session_id) for hit in found})
    hits = []
    for hit in found:
        event = hit.event
        told = sessions.get((event.host, event.session_id))
        hits.append(
            SearchHit(
                host=event.host,
                session_id=event.session_id,
                thread_id=event.thread_id,
                event_id=event.event_id,
                ts=iso(event.ts),
                kind=event.kind,
                tool=event.tool,
                outcome=None if event.outcome == "none" else event.outcome,
                title=told.title if told else None,
                project=told.project if told else None,
                snippet=hit.snippet.text,
                marks=[list(mark) for mark in hit.snippet.marks],
                resume=resuming(store, event.host, event.session_id, told.cwd if told else None),
                score={k: round(v, 4) for k, v in hit.score._asdict().items()} if hit.score else None,
                place=hit.place,
                also_in=[{"session_id": c.session_id, "thread_id": c.thread_id, "event_id": c.event_id} for c in hit.copies],
            )
        )
    return hits


def _wanted(chosen: Filters, zone: str | None, projects: Mapping[tuple[str, str], str]) -> Wanted:
    key = discovery.host(chosen.host).key if chosen.host else None
    part = chosen.project.strip().lower() if chosen.project else None
    spoken = {kind for role in _known("role", chosen.role, ROLES) for kind in ROLES[role]}
    named = set(_known("kind", chosen.kind, EVENT_KINDS))
    kinds = spoken & named if spoken and named else spoken | named
    if spoken and named and not kinds:
        raise UsageError(
            f"no {', '.join(chosen.role)} speaks in events of kind {', '.join(chosen.kind)}",
            hint="; ".join(f"{role}: {', '.join(of)}" for role, of in ROLES.items()),
        )
    outcomes = _known("outcome", chosen.outcome, OUTCOMES)

    def session(host: str, session_id: str) -> bool:
        if key is not None and host != key:
            return False
        return part is None or part in projects.get((host, session_id), "").lower()

    since, until = _quarters(chosen.since, chosen.until, zone)
    return Wanted(
        session=session if key is not None or part is not None else None,
        kinds=kinds or None,
        tools=_tools(chosen.tool) or None,
        outcomes=outcomes or None,
        since=since,
        until=until,
    )


def _tools(named: Collection[str]) -> set[str]:
    """Return the names that are meant, in small letters: ``bash`` and ``shell`` mean what runs shell commands in every agent."""
    tools = {tool.strip().lower() for tool in named}
    return tools.union(*(host.shell.tools for host in discovery.hosts().values())) if tools & SHELL else tools


def _refuse_unknown(store: Store, chosen: Filters, projects: Mapping[tuple[str, str], str]) -> None:
    """Raise UnknownName where nothing could be found since no tool, or no project, has the name that was given."""
    if chosen.tool:
        held = {name.lower(): name for name in store.search.rows_of_index.tools()}
        for name in chosen.tool:
            if not _tools([name]) & held.keys():
                raise UnknownName("tool", name, held.values())
    if chosen.project and not any(chosen.project.strip().lower() in name.lower() for name in projects.values()):
        raise UnknownName("project", chosen.project, filter(None, projects.values()))


def _known(what: str, given: Collection[str], known: Collection[str]) -> list[str]:
    for name in given:
        if name not in known:
            raise UnknownChoice(what, name, known)
    return list(given)


def _without(sessions: Collection[str]) -> Any:
    left = frozenset(sessions)
    return (lambda _, session_id: session_id in left) if left else None


def _quarters(since: str | None, until: str | None, zone: str | None) -> tuple[int | None, int | None]:
    """Return the first quarter of an hour that is meant and the one after the last."""
    if since is None and until is None:
        return None, None
    from datetime import UTC, timedelta

    from ctx_pipeline.storage.warehouse.days import day_start
    from ctx_pipeline.usage.periods import day

    def at(text: str | None, option: str, more: int) -> int | None:
        when = day(text, option, zone)
        return int(day_start(when + timedelta(days=more), zone).replace(tzinfo=UTC).timestamp()) // 900 if when else None

    low, high = at(since, "--since", 0), at(until, "--until", 1)
    if low is not None and high is not None and low >= high:
        raise UsageError(f"--since {since} is after --until {until}", hint="give the earlier day as --since")
    return low if low is None else max(1, low), high if high is None else max(0, high)


def _months(zone: str | None) -> Any:
    """Return what names the month (2026-03) of a quarter of an hour since 1970 in a zone."""
    from bisect import bisect_right
    from datetime import UTC, datetime

    from ctx_pipeline.storage.warehouse.days import offsets

    steps = offsets(zone, datetime.now(UTC).year + 2)
    begins = [int(when.replace(tzinfo=UTC).timestamp()) for when, _ in steps]
    known: dict[int, str] = {}

    def month(quarter: int) -> str:
        seconds = quarter * 900
        number = max(0, bisect_right(begins, seconds) - 1)
        day = (seconds + steps[number][1]) // 86_400
        if day not in known:
            known[day] = datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m")
        return known[day]

    return month


# A person's own SQL over the tables.


def query(text: str, *, settings: Settings | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the column names and rows of one SELECT over the tables.

    The connection is in memory and sees the lake's live rows only; it can neither write
    nor read another file. Raises UsageError with the nearest names for a query that is
    no single SELECT or that fails.
    """
    import duckdb

    with reading(settings) as (store, _):
        connection = store.lake.connect()
        try:
            store.lake.views(connection)
            statements = _statements(connection, text)
            if len(statements) != 1:
                raise UsageError("the query is empty" if not statements else "more than one query", hint=f"write one: {_EXAMPLE}")
            if statements[0].type != duckdb.StatementType.SELECT:
                raise UsageError(f"{statements[0].type.name} is not allowed: the tables are only read", hint=f"write a SELECT: {_EXAMPLE}")
            cursor = connection.execute(text)
            return [d[0] for d in cursor.description], cursor.fetchall()
        except duckdb.Error as error:
            raise _in_plain_words(str(error), connection) from error
        finally:
            connection.close()


_EXAMPLE = 'ctx sql "select host, count(*) from sessions group by 1"'
_COLUMN = re.compile(r'Referenced column "([^"]+)"(?: \w+)* not found')
_TABLE = re.compile(r"Table with name (\S+) does not exist")
_SYNTAX = re.compile(r'syntax error at (?:or near "([^"]*)"|end of input)')
_FUNCTION = re.compile(r"Function with name (\S+) does not exist")
_VALUE = re.compile(r"Could not convert string '([^']{0,80})' to (\w+)")
_ELSEWHERE = re.compile(r'Cannot access (?:file|directory) "([^"]{0,400})"|file system operations are disabled')
_GROUPED = re.compile(r'column "([^"]+)" must appear in the GROUP BY clause')


def _in_plain_words(said: str, connection: Any) -> UsageError:
    """Return what is wrong with a query, and the nearest tables or columns; of another error the database's first line."""
    tables = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()]
    if found := _TABLE.search(said):
        near = get_close_matches(found[1], tables, n=3, cutoff=0.5)
        return UsageError(
            f"there is no table {found[1]!r}", hint=f"{'did you mean' if near else 'the tables are'} {', '.join(near or tables)}"
        )
    if found := _COLUMN.search(said):
        sql = "SELECT DISTINCT column_name FROM information_schema.columns ORDER BY 1"
        near = get_close_matches(found[1], [row[0] for row in connection.execute(sql).fetchall()], n=3, cutoff=0.5)
        listed = 'ctx sql "describe TABLE" lists the columns of a table'
        return UsageError(
            f"there is no column {found[1]!r} in these tables", hint=f"did you mean {', '.join(near)}? {listed}" if near else listed
        )
    if found := _SYNTAX.search(said):
        where = f"near {found[1]!r}" if found[1] else "at its end"
        return UsageError(f"this is not SQL {where}", hint=f"write it as: {_EXAMPLE}")
    if found := _FUNCTION.search(said):
        return UsageError(f"there is no function {found[1]!r}", hint="the functions are DuckDB's")
    if found := _VALUE.search(said):
        return UsageError(f"{found[1]!r} is not a {found[2].lower()}", hint=f"try_cast(... as {found[2].lower()}) gives null in its place")
    if found := _ELSEWHERE.search(said):
        return UsageError("only the tables of the store are read, and no files", hint=f"the tables are {', '.join(tables)}")
    if found := _GROUPED.search(said):
        return UsageError(f"{found[1]!r} is neither grouped by nor added up", hint="group by all, or any_value(...)")
    first = next(iter(said.splitlines()), "").partition(" Error: ")
    return UsageError(f"the query failed: {first[2] or first[0]}", hint=f"the tables are {', '.join(tables)}")


def _statements(connection: Any, text: str) -> list[Any]:
    return list(connection.extract_statements(text))
