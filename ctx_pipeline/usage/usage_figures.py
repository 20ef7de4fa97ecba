"""What is kept of each session's model calls: their sums by quarter of an hour, and their shares among what they asked for."""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.usage.cache_efficiency import by_stream, effects_in_session, rates_of
from ctx_pipeline.usage.groupings import GROUPINGS, share_of
from ctx_pipeline.usage.homes.live_usage import Counted
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import StoredSum
from ctx_pipeline.usage.session_figures import QUARTER, Figure, SessionFigure, figures, quarter_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.session_figures import Key
    from ctx_pipeline.usage.groupings import Grouping, Use
    from ctx_pipeline.usage.rollup import Filters

_CALLS = (
    *("host", "session_id", "thread_id", "call_key", "ts", "model", "input", "output", "cache_write_5m", "cache_write_1h"),
    *("cache_read", "reasoning", "context_tokens", "cost", "recorded_cost", "owner"),
)


Limit = tuple[int, str, float, int, "int | None"]
"""time of the record, name of the limit, percent used, minutes of its window, time of its reset"""


class TimedCalls(NamedTuple):
    """Calls of one session in order of time, a column for each sum of them."""

    session: Counted
    models: Sequence[str]
    at: Sequence[int]
    """place of each call's model"""
    times: Sequence[int]
    sums: Sequence[Sequence[int]]
    """in the order of :data:`ctx_pipeline.usage.rollup.SUMS`"""


def sums_of(
    store: Store, settings: Settings, bounds: tuple[int | None, int | None] = (None, None), *, timed: bool = True
) -> Iterator[StoredSum]:
    """Yield the sums of the calls that count by session, model, thread and quarter of an hour, at the cost mode in force.

    Behind the sums stand the calls that rebuilt their thread's cache, and the nano-dollars that the cache saved.
    Sessions whose calls all lie outside of the bounds are left out; of the others all is told. Where it is not ``timed``,
    there is one sum for all quarters.
    """
    place = (str(settings.home), settings.cost_mode)
    for key, figure in _touching(store, settings, bounds):
        known = _drawn.get((*place, key))
        if known is None or known[0] is not figure:
            known = _drawn[*place, key] = (figure, _stored_sums(key, figure), [])
        _, by_quarter, together = known
        if not timed and not together:
            together += _together(by_quarter)
        yield from by_quarter if timed else together
    while len(_drawn) > _MOST_SUMS:
        _drawn.popitem()


_MOST_SUMS = 4_096
_drawn: dict[tuple[str, str, Key], tuple[Any, list[StoredSum], list[StoredSum]]] = {}
"""(store, cost mode, session) -> what was decoded of the session, its sums by quarter and, where they were asked for, without:
a report adds the same ones up several times"""


def _stored_sums(key: Key, figure: Sequence[Any]) -> list[StoredSum]:
    project, repository, branch, rows = figure
    session = Counted(*key, project, None, [], repository=repository, branch=branch)
    return [
        StoredSum(session, model, None if quarter is None else quarter * QUARTER, main, sums) for quarter, model, main, _, *sums in rows
    ]


def _together(by_quarter: Sequence[StoredSum]) -> list[StoredSum]:
    """Return the sums of one session over all quarters."""
    parts: dict[tuple[str, bool], list[StoredSum]] = {}
    for one in by_quarter:
        parts.setdefault((one.model, one.main), []).append(one)
    return [
        StoredSum(alike[0].session, model, None, main, _sums([one.sums for one in alike])) if alike[1:] else alike[0]._replace(ts=None)
        for (model, main), alike in parts.items()
    ]


def _touching(store: Store, settings: Settings, bounds: tuple[int | None, int | None]) -> Iterator[tuple[Key, Any]]:
    """Yield the figure of each session that has a call between two moments, or may have one."""
    first, last = (None if bound is None else bound // QUARTER for bound in bounds)
    for key, values in figures(store, settings, USAGE):
        for figure in values:
            rows = figure[3]
            began, ended = (rows[0][0], rows[-1][0]) if rows else (None, None)  # by time, what has none first
            if (first is not None and ended is not None and ended < first) or (last is not None and began is not None and began >= last):
                continue
            yield key, figure


def cache_read_of(store: Store, settings: Settings, filters: Filters) -> int:
    """Return the nano-dollars that the selected calls of the tables paid for what came from the cache."""
    keep = filters.keeps()
    again = 0
    for key, (project, repository, _, rows) in _touching(store, settings, filters.bounds()):
        session = Counted(*key, project, None, [], repository=repository)
        for quarter, model, _, nano, *_ in rows:
            if keep is None or keep(session, model, None if quarter is None else quarter * QUARTER):
                again += nano
    return again


def shares_of(
    store: Store, settings: Settings, grouping: Grouping, bounds: tuple[int | None, int | None], only: Callable[[Key], bool]
) -> Iterator[tuple[Key, list[Any]]]:
    """Yield each session with rows of (model, name, sums and uses) of the calls in a time, as a grouping shares them out."""
    for key, values in figures(store, settings, SHARES[grouping.name], bounds=bounds, only=only):
        yield key, [row for rows in values for row in rows]


def calls_of(store: Store, settings: Settings, only: Callable[[Key], bool]) -> Iterator[TimedCalls]:
    """Yield the calls of each session that count and have a time, at the cost mode in force."""
    for key, values in figures(store, settings, CALLS, only=only):
        for packed in filter(None, values):
            yield unpacked_calls((*key, *packed))


def packed_calls(calls: TimedCalls) -> list[Any]:
    """Return the calls of a session as plain values that take a tenth of the memory, for :func:`unpacked_calls`."""
    one = calls.session
    columns = [calls.at, calls.times, *calls.sums]
    packed: list[Any] = [_packed(column) for column in columns]
    where = [one.host, one.session_id, one.project, one.repository, one.branch]
    return [*where, list(calls.models), *(map(list, columns) if None in packed else packed)]


def unpacked_calls(values: Iterable[Any]) -> TimedCalls:
    """Return the calls of a session as they were packed."""
    host, session_id, project, repository, branch, models, *columns = values
    at, times, *sums = map(_unpacked, columns)
    return TimedCalls(Counted(host, session_id, project, None, [], repository=repository, branch=branch), models, at, times, sums)


def limits_of(store: Store, settings: Settings, hosts: Collection[str]) -> Iterator[tuple[str, list[Limit]]]:
    """Yield (host, what a session of it wrote about its limits) of the tables, the last of each quarter of an hour and reset."""
    for (host, _), values in figures(store, settings, LIMITS, only=lambda key: key[0] in hosts):
        for rows in filter(None, values):
            yield host, [(ts, name, percent, minutes, reset) for ts, name, percent, minutes, reset in rows]


def thinned(rows: Iterable[Limit]) -> list[Limit]:
    """Return of each limit what was written last in a quarter of an hour about one reset of it, by time."""
    last = {(row[1], *row[3:], row[0] // QUARTER): row for row in sorted(rows, key=itemgetter(0))}
    return sorted(last.values(), key=itemgetter(0))


def places_of(store: Store, settings: Settings) -> dict[Key, tuple[str, str, str]]:
    """Return (host, session) -> project, repository and branch."""
    return {key: (values[0][0], values[0][1], values[0][2]) for key, values in figures(store, settings, USAGE)}


def fits(store: Store, settings: Settings, filters: Filters) -> Callable[[Key], bool]:
    """Return what tells whether a session is of the host, project and branch that filters name."""
    places = {} if filters.project is None and filters.branch is None else places_of(store, settings)

    def of_filters(key: Key) -> bool:
        project, repository, branch = places.get(key, ("", "", ""))
        named = filters.project is None or filters.project in project_names(project, repository)
        return named and filters.branch in {None, branch} and filters.host in {None, key[0]}

    return of_filters


def selected(store: Store, settings: Settings, figure: Figure, filters: Filters) -> Iterator[SessionFigure]:
    """Yield a figure of the sessions, and in the time, that filters name; one that is a copy of another as a whole is left out."""
    meant, copied = fits(store, settings, filters), store.ledger.copied_sessions()
    return figures(store, settings, figure, bounds=filters.bounds(), only=lambda key: key not in copied and meant(key))


class _OwnCall(NamedTuple):
    """A call that counts in its session."""

    call: Any
    ts: int | None
    quarter: int | None
    amounts: list[int]
    """in the order of :data:`ctx_pipeline.usage.rollup.SUMS`"""


@cache
def _own_calls(mode: str) -> Callable[[SessionView], list[_OwnCall]]:
    """Return what gives the calls of a session that count, at a cost mode."""

    def own_calls(view: SessionView) -> list[_OwnCall]:
        own = ((call, micros(call.ts)) for call in view.model_calls if call.owner)
        return [_OwnCall(call, ts, quarter_of(ts), _amounts(call, mode)) for call, ts in own]

    return own_calls


def _amounts(call: Any, mode: str) -> list[int]:
    recorded, calculated = call.recorded_cost, call.cost
    cost = cost_of(mode, recorded, calculated)
    tokens = (call.input, call.output, call.cache_write_5m, call.cache_write_1h, call.cache_read, call.reasoning)
    return [*tokens, 1, cost or 0, int(cost is None), int(recorded is not None), recorded or 0, calculated or 0]


def _usage(view: SessionView, settings: Settings) -> dict[int | None, Any]:
    found = defaultdict[tuple[int | None, str, bool], list[list[int]]](list)
    rate_of = rates_of(settings)
    own = view.once(_own_calls(settings.cost_mode))
    effects = effects_in_session([call._replace(ts=ts) for call, ts, *_ in own], rate_of)
    for (call, ts, quarter, amounts), effect in zip(own, effects, strict=True):
        cost = cost_of(settings.cost_mode, call.recorded_cost, call.cost)
        again = 0
        if cost is not None and call.cache_read:
            counts = (call.input, call.cache_write_5m, call.cache_write_1h, call.cache_read, call.output)
            again = by_stream(counts, cost, rate_of(call.model, ts, call.context_tokens))[3]
        found[quarter, call.model, call.thread_id == call.session_id].append([again, *amounts, *effect])
    session = view.session
    rows = [[*place, *_sums(sums)] for place, sums in sorted(found.items(), key=lambda one: (one[0][0] or 0, *one[0][1:]))]
    return {None: [session.project or "", session.repository or "", session.branch or "", rows]}


def _timed(view: SessionView, settings: Settings) -> dict[int | None, Any]:
    own = view.once(_own_calls(settings.cost_mode))
    rows = sorted(((ts, call, amounts) for call, ts, _, amounts in own if ts is not None), key=itemgetter(0))
    if not rows:
        return {}
    models = sorted({call.model for _, call, _ in rows})
    place = {model: number for number, model in enumerate(models)}
    sums: Iterable[tuple[int, ...]] = zip(*(amounts for *_, amounts in rows), strict=True)
    columns: list[list[int]] = [[place[call.model] for _, call, _ in rows], [ts for ts, *_ in rows], *map(list, sums)]
    session = view.session
    packed: list[Any] = [_packed(column) for column in columns]
    where = [session.project or "", session.repository or "", session.branch or ""]
    return {None: [*where, models, *(columns if None in packed else packed)]}


_TYPES = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("q", 1 << 63))
"""Type codes of arrays, and the number that is the first too large for each."""


def _packed(column: Sequence[int]) -> bytes | None:
    """Return numbers as an array of the narrowest type behind its code; None where they fit into none."""
    low, high = min(column), max(column)
    code = next((code for code, end in _TYPES if high < end and (low >= 0 or (code == "q" and low >= -end))), None)
    return None if code is None else code.encode() + array(code, column).tobytes()


def _unpacked(column: bytes | list[int]) -> Sequence[int]:
    if isinstance(column, list):
        return column
    found = array(chr(column[0]))
    found.frombytes(column[1:])
    return found


def _limits(view: SessionView, settings: Settings) -> dict[int | None, Any]:  # noqa: ARG001 - as every figure
    declared = discovery.hosts().get(view.host)
    read = declared.usage.limits_in_event if declared is not None else None
    if read is None:
        return {}
    found: list[Limit] = []
    last: dict[str, list[tuple[Any, ...]]] = {}
    for event in view.by_kind.get(_ATTACHMENT, ()):
        ts = micros(event.ts)
        if ts is not None and event.text:
            rows = list(read(event.subtype or "", ts, event.text))
            told = [row[1:] for row in rows]
            if rows and last.get(event.thread_id) != told:
                last[event.thread_id] = told
                found += rows
    return {None: thinned(found)} if found else {}


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    """Return the sum of each column."""
    return list(map(sum, zip(*rows, strict=True)))


def uses_of(view: SessionView) -> dict[str, list[Use]]:
    """Return call key -> what the call asked for, of a session with the texts of its tool calls."""
    found: dict[str, list[Use]] = {}
    for tool in view.tool_calls:
        event = view.by_event.get(tool.call_event)
        if event is not None and event.call_key:
            text = event.text if tool.tool.lower() == "skill" else None
            found.setdefault(event.call_key, []).append((tool.tool, tool.action, list(tool.argv or ()), text))
    return found


def _shares(view: SessionView, settings: Settings, *, grouping: Grouping) -> dict[int | None, Any]:
    uses = view.once(uses_of)
    found = defaultdict[tuple[int | None, str, str], list[list[int]]](list)
    for call, _, quarter, amounts in view.once(_own_calls(settings.cost_mode)):
        used = uses.get(call.call_key)
        names = [name for use in used for name in grouping.of_use(use)] if used else ()
        if len(names) < 2:
            found[quarter, call.model, names[0] if names else grouping.none].append([*amounts, len(names)])
        else:
            for number, name in enumerate(names):
                found[quarter, call.model, name].append([*(share_of(amount, len(names), number) for amount in amounts), 1])
    shares = defaultdict[int | None, dict[tuple[str, str], list[int]]](dict)
    for (quarter, model, name), rows in found.items():
        shares[quarter][model, name] = _sums(rows)
    return {quarter: [[*place, *sums] for place, sums in sorted(rows.items())] for quarter, rows in shares.items()}


def _added(values: Iterable[Any]) -> list[Any]:
    found = defaultdict[tuple[str, str], list[list[int]]](list)
    for model, name, *sums in (row for rows in values for row in rows):
        found[model, name].append(sums)
    return [[*place, *_sums(rows)] for place, rows in sorted(found.items())]


def _only(values: Iterable[Any]) -> Any:
    return next(iter(values), None)


USAGE = Figure("usage", 3, _usage, _only, {"model_calls": _CALLS}, timeless=True)

CALLS = Figure("calls", 2, _timed, _only, {"model_calls": _CALLS}, timeless=True)

_ATTACHMENT = "attachment"

LIMITS = Figure(
    "limits",
    1,
    _limits,
    _only,
    {"events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype", "text")},
    (_ATTACHMENT,),
    timeless=True,
)

SHARES: Mapping[str, Figure] = {
    name: Figure(
        f"usage by {name}",
        2,
        partial(_shares, grouping=grouping),
        _added,
        {
            "model_calls": _CALLS,
            "events": ("event_id", "thread_id", "seq", "kind", "call_key", "text"),
            "tool_calls": ("thread_id", "seq", "tool", "action", "argv", "call_event"),
        },
        ("tool_call",),
    )
    for name, grouping in GROUPINGS.items()
    if grouping.names is not None
}
"""Grouping -> what is kept of it; calls are shared equally among all that they asked for."""
