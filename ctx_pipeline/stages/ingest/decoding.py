"""One session: from the bytes of its streams to redacted, checked rows of every table."""

from __future__ import annotations

import hashlib
from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.errors import ContractError
from ctx_pipeline.model.raw import ThreadFacts
from ctx_pipeline.model.tables import ACTORS, EVENT_KINDS, EVENTS, MODEL_CALLS, TOOL_ACTIONS, TOOL_CALLS
from ctx_pipeline.stages.ingest.cleaning import cleaned
from ctx_pipeline.stages.ingest.places import project_of, repository_of
from ctx_pipeline.storage.ledger.branch_titles import ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.model.raw import Parsed, Quarantined, SessionInput
    from ctx_pipeline.redaction import Redactor

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


def decode(
    given: SessionInput,
    parse: Callable[[SessionInput], Parsed],
    redactor: Redactor,
    *,
    month: str,
    size: int,
    parent_session: str | None = None,
) -> SessionRows:
    """Return the rows of a session; raises ContractError when they break the tables, or what the parser raised.

    ``size`` is how many bytes raw holds of it.
    """
    parsed = parse(given)
    threads = _threads(given.session_id, parsed)
    events = _ordered(parsed.events, threads, _E["thread_id"])
    tools = _ordered(parsed.tool_calls, threads, _T["thread_id"])
    calls = parsed.model_calls
    check(given, events, calls, tools)
    events, calls, tools = cleaned(redactor, events, calls, tools)
    clean = _nullable(redactor.redact)
    thread_rows = _thread_rows(given, threads, (events, calls, tools), clean)
    session = _session_row(given, parsed, thread_rows, events, month=month, parent=parent_session, clean=clean)
    content = hashlib.sha256(_pack((events, tools))).hexdigest()
    row = (*session, len(calls), len(tools), sum(t[_T["is_error"]] for t in tools), _unknown(events), len(parsed.quarantined))
    row = (*row, parsed.lines, size, content)
    labels = {(clean(label) or "")[:_LABEL_CHARS]: count for label, count in parsed.unknown.items()}
    parent = parsed.facts.parent_session or parent_session
    told = {_line_id(leaf): title for leaf, text in parsed.branch_titles.items() if (title := _short(clean(text)))}
    lines = b"".join(map(_line_id, parsed.line_ids))
    return SessionRows(given.session_id, content, row, thread_rows, events, calls, tools, parsed.quarantined, labels, parent, lines, told)


def check(given: SessionInput, events: Sequence[tuple], calls: Sequence[tuple], tools: Sequence[tuple]) -> None:
    """Raise ContractError for rows that break a rule of the tables; its text names the rule, never a value."""
    ids = set(map(itemgetter(_E["event_id"]), events))
    rules = (
        ("events.event_id is unique", len(ids) == len(events)),
        ("events.kind is known", set(map(itemgetter(_E["kind"]), events)) <= _KINDS),
        ("events.actor is known", set(map(itemgetter(_E["actor"]), events)) <= _ACTORS),
        ("tool_calls.action is known", set(map(itemgetter(_T["action"]), tools)) <= _ACTIONS),
        ("model_calls.call_key is unique in a session", len(set(map(itemgetter(_C["call_key"]), calls))) == len(calls)),
        ("tool_calls.call_id is unique in a thread", len(set(map(itemgetter(_T["thread_id"], _T["call_id"]), tools))) == len(tools)),
        ("tokens are whole numbers of at least 0", all(_counts(map(itemgetter(place), calls)) for place in _TOKENS)),
        ("times are whole numbers", _times(events, _E["ts"]) and _times(calls, _C["ts"]) and _times(tools, _T["started"], _T["ended"])),
        (
            "rows carry the ids of their session",
            all(
                set(map(itemgetter(places["host"], places["session_id"]), rows)) <= {(given.host, given.session_id)}
                for places, rows in ((_E, events), (_C, calls), (_T, tools))
            ),
        ),
    )
    for rule, held in rules:
        if not held:
            raise ContractError(
                f"a session breaks the rule: {rule}",
                hint="the host's parser is at fault; the cell is held back until it is mended",
                session=given.session_id,
                rule=rule,
            )


def _counts(values: Iterable[Any]) -> bool:
    found = tuple(values)
    return set(map(type, found)) <= {int} and min(found, default=0) >= 0


def _times(rows: Sequence[tuple], *places: int) -> bool:
    return all(set(map(type, map(itemgetter(place), rows))) <= {int, type(None)} for place in places)


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


def _ordered(rows: list[tuple], threads: dict[str, ThreadFacts], place: int) -> list[tuple]:
    """Return the rows thread by thread; inside a thread they keep their order."""
    if len(threads) < 2:
        return rows
    rank = {thread: number for number, thread in enumerate(threads)}
    return sorted(rows, key=lambda row: rank[row[place]])


def _thread_rows(
    given: SessionInput,
    threads: dict[str, ThreadFacts],
    tables: tuple[Sequence[tuple], Sequence[tuple], Sequence[tuple]],
    clean: Callable[[str | None], str | None],
) -> list[tuple]:
    events, calls, tools = tables
    counts = [Counter(map(itemgetter(p["thread_id"]), rows)) for p, rows in ((_E, events), (_C, calls), (_T, tools))]
    models: dict[str, dict[str, None]] = {}
    for call in sorted(calls, key=lambda c: (c[_C["ts"]] is None, c[_C["ts"]] or 0)):
        if call[_C["model"]]:
            models.setdefault(call[_C["thread_id"]], {})[call[_C["model"]]] = None
    rows = []
    at = 0
    for thread, facts in threads.items():
        number = counts[0][thread]
        times = [ts for ts in map(itemgetter(_E["ts"]), events[at : at + number]) if ts is not None]
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
            )
        )
    return rows


def _session_row(
    given: SessionInput,
    parsed: Parsed,
    threads: Sequence[tuple],
    events: Sequence[tuple],
    *,
    month: str,
    parent: str | None,
    clean: Callable[[str | None], str | None],
) -> tuple:
    """Return the session's columns up to ``prompts``."""
    facts = parsed.facts
    prompts = [e[_E["text"]] for e in events if e[_E["kind"]] == "prompt"]
    title, source = _short(clean(facts.title)), facts.title_source
    if not title:
        title = next((short for short in map(_short, prompts) if short), None)
        source = "prompt" if title else "none"
    cwd = clean(facts.cwd)
    repository = clean(repository_of(facts.repository)) or cwd
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
        clean(facts.version),
        list(dict.fromkeys(model for row in threads for model in row[10])),
        min(firsts, default=None),
        max(lasts, default=None),
        facts.parent_session or parent,
        facts.status,
        len(threads),
        len(events),
        len(prompts),
    )


def _line_id(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).digest()


def _unknown(events: Sequence[tuple]) -> int:
    return sum(1 for e in events if e[_E["kind"]] == "unknown")


def _short(text: str | None) -> str | None:
    """Return a text as one line of a title, None when nothing is left of it."""
    line = " ".join(text[: 4 * _TITLE_CHARS].split())[:_TITLE_CHARS] if text else ""
    return line or None


def _nullable(redact: Callable[[str], str]) -> Callable[[str | None], str | None]:
    return lambda text: redact(text) if text else text
