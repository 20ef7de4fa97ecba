"""One session: from the bytes of its streams to redacted, checked rows of every table."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import groupby
from operator import itemgetter, lt
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline import discovery
from ctx_pipeline.errors import ContractError
from ctx_pipeline.facts.prompts import requests
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.host_records import ShellAnswers, approved_plan
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import ThreadFacts
from ctx_pipeline.model.repository_names import UNKNOWN, project_of, repository_of
from ctx_pipeline.model.tables import ACTORS, EVENT_KINDS, EVENTS, MODEL_CALLS, TOOL_ACTIONS, TOOL_CALLS
from ctx_pipeline.model.titles import title_line
from ctx_pipeline.pipeline.ingest.split_texts import split_secrets
from ctx_pipeline.redaction.liveness import is_live, named
from ctx_pipeline.storage.lake.columns import columns_of
from ctx_pipeline.storage.ledger.owners import ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctx_pipeline.model.raw import Parsed, Quarantined, SessionInput
    from ctx_pipeline.model.tables import Table
    from ctx_pipeline.pipeline.ingest.split_texts import SplitSecrets
    from ctx_pipeline.redaction import Redactor

    Columns = Sequence[Sequence[Any]]

__all__ = ["UNKNOWN", "project_of", "repository_of"]


# Rows of a session without secrets: one pass over all their texts, full patterns only where it points.


_TEXT, _KIND, _CALL = (EVENTS.names.index(name) for name in ("text", "kind", "call_id"))
_CALL_CHARS = 600
"""Characters of a call that say where its output comes from."""


class _Where(NamedTuple):
    """Places of a table's columns that can hold words of a transcript."""

    texts: tuple[int, ...]
    lists: tuple[int, ...]
    ids: tuple[int, ...]


def _where(table: Table, texts: Iterable[str], lists: Iterable[str], ids: Iterable[str]) -> _Where:
    return _Where(*(tuple(map(table.names.index, names)) for names in (texts, lists, ids)))


_EVENTS = _where(EVENTS, ("subtype",), (), ("call_id", "call_key"))
_CALLS = _where(MODEL_CALLS, ("model", "tier", "speed", "rule"), (), ("call_key",))
_TOOLS = _where(TOOL_CALLS, ("tool",), ("paths", "ranges", "argv"), ("call_id",))


class Secrets(NamedTuple):
    """What stands in place of the values that hold a secret and of the texts that hold a part of one, and what may open something."""

    places: dict[str, str]
    """value -> without secrets"""
    rows: dict[int, str]
    """row of an event -> its text, where a part of a secret stands in it"""
    live: tuple[str, ...]
    """as :func:`ctx_pipeline.redaction.liveness.named` names them"""


def secrets_in(redactor: Redactor, events: Columns, calls: Columns, tools: Columns, shell: ShellAnswers) -> Secrets:
    """Return what holds a secret in the columns of a session."""
    words: set[Any] = set()
    for columns, where in ((events, _EVENTS), (calls, _CALLS), (tools, _TOOLS)):
        words.update(*(columns[place] for place in (*where.texts, *where.ids)))
        for place in where.lists:
            words.update(*columns[place])
    words -= {None, ""}
    values = [*filter(None, events[_TEXT]), *words]
    secrets = {}
    for place in redactor.suspects(values):
        value = values[place]
        clean = redactor.redact(value)
        if clean != value:
            secrets[value] = clean
    split = split_secrets(redactor, events, shell)
    return Secrets(secrets, split.rows, _live(redactor, secrets, split, events) if secrets or split.rows else ())


def _live(redactor: Redactor, secrets: Mapping[str, str], split: SplitSecrets, events: Columns) -> tuple[str, ...]:
    """Return the secrets that may open something, each once, however often and in how many texts it stands."""
    asked = {
        call: text for kind, call, text in zip(events[_KIND], events[_CALL], events[_TEXT], strict=True) if kind == "tool_call" and text
    }
    parts = {events[_TEXT][row] for row in split.rows}
    where: dict[str, str] = {}
    for call, text in zip(events[_CALL], events[_TEXT], strict=True):
        if text in secrets or text in parts:
            where.setdefault(text, (asked.get(call) or "")[:_CALL_CHARS])
    typed = {text for kind, text in zip(events[_KIND], events[_TEXT], strict=True) if kind == "prompt" and text}
    shown: dict[str, bool] = {}
    used: set[str] = set()
    whole = [(detector, text, start, end, text) for text in secrets if text not in parts for detector, start, end in redactor.find(text)]
    cut = [(detector, text, start, end, events[_TEXT][row]) for detector, text, start, end, row in split.found]
    for detector, text, start, end, row_text in (*whole, *cut):
        name = named(detector, text[start:end])
        place = where.get(row_text, "")
        live = is_live(detector, text, start, end, place)
        # shown as an example anywhere it is one everywhere, but for what the person typed and what a program reads its secrets from
        shown[name] = shown.get(name, True) and live
        if live and (row_text in typed or _SETTINGS.search(place)):
            used.add(name)
    return tuple(sorted(name for name, live in shown.items() if live or name in used))


_SETTINGS = lazy_pattern(r"(?<![\w-])\.env(?:\.(?:local|production|prod|development|dev|staging|test))?(?![\w.-])")
"""The file that programs read secrets from, and not the example of one."""


def cleaned(secrets: Secrets, events: list[tuple], calls: list[tuple], tools: list[tuple]) -> tuple[list[tuple], list[tuple], list[tuple]]:
    """Return events, model calls and tool calls with every secret replaced; rows without one are the same objects."""
    said = _Where((_TEXT, *_EVENTS.texts), (), _EVENTS.ids)
    places = secrets.places
    clean = _rows(events, said, places)
    for row, text in secrets.rows.items():
        clean[row] = (*clean[row][:_TEXT], text, *clean[row][_TEXT + 1 :])
    return clean, _rows(calls, _CALLS, places), _rows(tools, _TOOLS, places)


def _rows(rows: Iterable[tuple], where: _Where, secrets: Mapping[str, str]) -> list[tuple]:
    found = []
    for row in rows:
        changed: dict[int, Any] = {place: secrets[row[place]] for place in where.texts if row[place] in secrets}
        changed |= {place: [secrets.get(v, v) for v in row[place]] for place in where.lists if not secrets.keys().isdisjoint(row[place])}
        changed |= {place: f"redacted-{digest(row[place], size=24)}" for place in where.ids if row[place] in secrets}
        found.append(tuple(changed.get(place, value) for place, value in enumerate(row)) if changed else row)
    return found


_E = {name: place for place, name in enumerate(EVENTS.names)}
_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_T = {name: place for place, name in enumerate(TOOL_CALLS.names)}
_TOKENS = tuple(
    _C[n] for n in ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "reasoning", "context_tokens", "web_searches")
)
_TITLE_CHARS = 180
_LABEL_CHARS = 120
_KINDS = frozenset(EVENT_KINDS)
_ACTORS = frozenset(ACTORS)
_ACTIONS = frozenset(TOOL_ACTIONS)
_TIMES = frozenset({int, type(None)})
_PIECE = 256
"""Rows that are written as MessagePack at a time."""

_pack = msgspec.msgpack.Encoder().encode


class SessionRows(NamedTuple):
    """All rows of one session, redacted; its model calls are not yet settled between sessions."""

    session_id: str
    content_hash: str
    session: tuple
    threads: list[tuple]
    events: list[tuple]
    model_calls: list[tuple]
    tool_calls: list[tuple]
    quarantined: list[Quarantined]
    unknown: dict[str, int]
    parent_session: str | None
    line_ids: bytes
    branch_titles: dict[bytes, str]
    event_columns: Columns
    """the events by column"""
    tool_columns: Columns
    live_secrets: tuple[str, ...]
    """secrets that were replaced and may open something, each once"""


def decode(
    given: SessionInput,
    parse: Callable[[SessionInput], Parsed],
    redactor: Redactor,
    *,
    month: str,
    size: int,
    shell: ShellAnswers | None = None,
    parent_session: str | None = None,
) -> SessionRows:
    """Return the rows of a session; raises ContractError when they break the tables, or what the parser raised.

    ``size`` is how many bytes raw holds of it, ``shell`` how the host words what its commands printed.
    """
    parsed = parse(given)
    threads = _threads(given.session_id, parsed)
    rows = (_ordered(parsed.events, threads, _E), parsed.model_calls, _ordered(parsed.tool_calls, threads, _T))
    columns = _columns(*rows)
    check(given, *columns)
    secrets = secrets_in(redactor, *columns, shell or ShellAnswers())
    if secrets.places or secrets.rows:
        rows = cleaned(secrets, *rows)
        columns = _columns(*rows)
    (events, calls, tools), (event_columns, _, tool_columns) = rows, columns
    clean = _nullable(redactor.redact)
    thread_rows = _thread_rows(given, threads, columns, clean)
    session = _session_row(given, parsed, thread_rows, event_columns, month=month, parent=parent_session, clean=clean)
    content = _content(events, tools)
    unknown = event_columns[_E["kind"]].count("unknown")
    row = (*session, len(calls), len(tools), sum(tool_columns[_T["is_error"]]), unknown, len(parsed.quarantined))
    row = (*row, parsed.lines, size, content)
    labels = {(clean(label) or "")[:_LABEL_CHARS]: count for label, count in parsed.unknown.items()}
    return SessionRows(
        given.session_id,
        content,
        row,
        thread_rows,
        events,
        calls,
        tools,
        parsed.quarantined,
        labels,
        parsed.facts.parent_session or parent_session,
        b"".join(map(_line_id, parsed.line_ids)),
        {_line_id(leaf): title for leaf, text in parsed.branch_titles.items() if (title := _short(clean(text)))},
        event_columns,
        tool_columns,
        secrets.live,
    )


def check(given: SessionInput, events: Columns, calls: Columns, tools: Columns) -> None:
    """Raise ContractError for columns that break a rule of the tables; its text names the rule, never a value."""
    ids, keys = events[_E["event_id"]], calls[_C["call_key"]]
    answers = set(zip(tools[_T["thread_id"]], tools[_T["call_id"]], strict=True))
    times = (events[_E["ts"]], calls[_C["ts"]], tools[_T["started"]], tools[_T["ended"]])
    tables = ((_E, events), (_C, calls), (_T, tools))
    rules = (
        ("events.event_id is unique", len(set(ids)) == len(ids)),
        ("events.kind is known", set(events[_E["kind"]]) <= _KINDS),
        ("events.actor is known", set(events[_E["actor"]]) <= _ACTORS),
        ("tool_calls.action is known", set(tools[_T["action"]]) <= _ACTIONS),
        ("model_calls.call_key is unique in a session", len(set(keys)) == len(keys)),
        ("tool_calls.call_id is unique in a thread", len(answers) == len(tools[_T["call_id"]])),
        ("tokens are whole numbers of at least 0", all(_counts(calls[place]) for place in _TOKENS)),
        ("times are whole numbers", all(set(map(type, column)) <= _TIMES for column in times)),
        (
            "rows carry the ids of their session",
            all(
                set(columns[places["host"]]) <= {given.host} and set(columns[places["session_id"]]) <= {given.session_id}
                for places, columns in tables
            ),
        ),
    )
    for rule, held in rules:
        if not held:
            raise ContractError(
                f"a session breaks the rule: {rule}",
                hint="the host's parser is at fault; the partition is not committed until it is fixed",
                session=given.session_id,
                rule=rule,
            )


def _counts(values: Sequence[Any]) -> bool:
    return set(map(type, values)) <= {int} and min(values, default=0) >= 0


def _columns(events: Sequence[tuple], calls: Sequence[tuple], tools: Sequence[tuple]) -> tuple[Columns, Columns, Columns]:
    return columns_of(EVENTS, events), columns_of(MODEL_CALLS, calls), columns_of(TOOL_CALLS, tools)


def _content(events: Sequence[tuple], tools: Sequence[tuple]) -> str:
    """Return the hex SHA-256 over both lists of rows as one MessagePack value, written in pieces that stay in the processor's cache."""
    state = hashlib.sha256(_head(2))
    for rows in (events, tools):
        state.update(_head(len(rows)))
        for first in range(0, len(rows), _PIECE):
            piece = rows[first : first + _PIECE]
            state.update(memoryview(_pack(piece))[len(_head(len(piece))) :])
    return state.hexdigest()


def _head(count: int) -> bytes:
    """Return how MessagePack begins a list of so many values."""
    whole: bytes = _pack((None,) * count)
    return whole[: len(whole) - count]


def _threads(session_id: str, parsed: Parsed) -> dict[str, ThreadFacts]:
    """Return the threads by id: the main one first, then in the order in which the parser named or used them."""
    found = {facts.thread_id: facts for facts in parsed.threads}
    for rows, place in ((parsed.events, _E["thread_id"]), (parsed.model_calls, _C["thread_id"]), (parsed.tool_calls, _T["thread_id"])):
        for thread in dict.fromkeys(map(itemgetter(place), rows)):
            if thread not in found:
                found[thread] = ThreadFacts(thread, kind="main" if thread == session_id else "subagent")
    rank = {thread: number for number, thread in enumerate(found)}
    main = {thread for thread, facts in found.items() if thread == session_id or (facts.kind == "main" and session_id not in found)}
    return {thread: found[thread] for thread in sorted(found, key=lambda t: (t not in main, rank[t]))}


def _ordered(rows: list[tuple], threads: dict[str, ThreadFacts], places: Mapping[str, int]) -> list[tuple]:
    """Return the rows thread by thread; inside a thread they keep their order."""
    thread_of = itemgetter(places["thread_id"])
    rank = {thread: number for number, thread in enumerate(threads)}
    runs = [rank[thread] for thread, _ in groupby(map(thread_of, rows))]
    return rows if all(map(lt, runs, runs[1:])) else sorted(rows, key=lambda row: rank[thread_of(row)])


def _thread_rows(
    given: SessionInput,
    threads: dict[str, ThreadFacts],
    tables: tuple[Columns, Columns, Columns],
    clean: Callable[[str | None], str | None],
) -> list[tuple]:
    events, calls, tools = tables
    counts = [Counter(columns[places["thread_id"]]) for places, columns in ((_E, events), (_C, calls), (_T, tools))]
    models: dict[str, dict[str, None]] = {}
    for _, thread, model in sorted(zip(calls[_C["ts"]], calls[_C["thread_id"]], calls[_C["model"]], strict=True), key=_clock):
        if model:
            models.setdefault(thread, {})[model] = None
    rows = []
    at = 0
    for thread, facts in threads.items():
        number = counts[0][thread]
        times = [ts for ts in events[_E["ts"]][at : at + number] if ts is not None]
        at += number
        told = given.hints.get(thread, {})
        rows.append(
            (
                thread,
                given.host,
                given.session_id,
                facts.kind,
                facts.parent_thread_id,
                clean(facts.agent),
                _short(clean(facts.title or told.get("title"))),
                clean(facts.cwd),
                clean(facts.branch),
                clean(facts.version),
                list(models.get(thread, ())),
                min(times, default=None),
                max(times, default=None),
                number,
                counts[1][thread],
                counts[2][thread],
                facts.status,
                facts.context_window,
            )
        )
    return rows


def _session_row(
    given: SessionInput,
    parsed: Parsed,
    threads: Sequence[tuple],
    events: Columns,
    *,
    month: str,
    parent: str | None,
    clean: Callable[[str | None], str | None],
) -> tuple:
    """Return the session's columns up to ``prompts``."""
    facts = parsed.facts
    kinds = events[_E["kind"]]
    said = zip(kinds, events[_E["subtype"]], events[_E["text"]], strict=True)
    prompts = [text if kind == "prompt" else approved_plan(kind, how, text) for kind, how, text in said if kind in ("prompt", "injected")]
    title, source = _short(clean(facts.title)), facts.title_source
    if not title or (source == "prompt" and any(prompts)):
        asks = requests(prompts)
        title = _short(asks[0]) if asks else title
        if not title:  # a session of subagents alone: the first of their tasks that says something
            told = zip(kinds, events[_E["text"]], strict=True)
            tasks = [text for kind, text in told if kind == "subagent_start" and text and text.strip()]
            task = next((text for text in tasks if len(text.split()) > 1), "".join(tasks[:1]))
            title = _short(f"subagent: {task}") if task else None
        source = "prompt" if title else "none"
    cwd = clean(facts.cwd)
    repository = clean(repository_of(facts.repository)) or (cwd and discovery.checkout_of(cwd))
    firsts = [row[11] for row in threads if row[11] is not None]
    lasts = [row[12] for row in threads if row[12] is not None]
    return (
        given.session_id,
        given.host,
        month,
        title,
        source,
        cwd,
        repository,
        project_of(repository),
        clean(facts.branch),
        clean(facts.last_branch),
        clean(facts.version),
        list(dict.fromkeys(model for row in threads for model in row[10])),
        min(firsts, default=None),
        max(lasts, default=None),
        facts.parent_session or parent,
        facts.status,
        len(threads),
        len(events[0]),
        kinds.count("prompt"),
    )


def _line_id(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).digest()


def _clock(timed: tuple) -> tuple[bool, int]:
    """Return what sorts by the time that stands first, unknown times last."""
    return timed[0] is None, timed[0] or 0


def _short(text: str | None) -> str | None:
    return title_line(text, _TITLE_CHARS)


def _nullable(redact: Callable[[str], str]) -> Callable[[str | None], str | None]:
    return lambda text: redact(text) if text else text
