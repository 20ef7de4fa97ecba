"""Figures of single sessions by quarter of an hour, from which reports over any days are added up.

They are kept beside the warehouse by ``ctx run`` and ``ctx sync``, each with what its
session's rows were. What is not kept, or was made of other rows, is worked out of the
tables when it is asked for: an answer is never older than the store.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline import __version__
from ctx_pipeline.model.source_versions import version_of
from ctx_pipeline.storage import session_figures as storage
from ctx_pipeline.storage.origin_calls import with_origin_calls
from ctx_pipeline.storage.session_figures import KeptFigure, NewFigure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.session_figures import Key, Present

QUARTER = 900_000_000
"""Microseconds of a quarter of an hour: days of all zones begin on such a border."""

_MOST = 4_096
"""Figures of sessions that are not kept yet which a process holds."""


class Figure(NamedTuple):
    """Something that is kept of each session."""

    name: str
    version: int
    """raised when what ``make`` returns is another for the same rows, and its own source does not show it"""
    make: Callable[[SessionView, Settings], Mapping[int | None, Any]]
    """a session -> quarter of an hour, by number from 1970 (None: no moment) -> plain values"""
    add: Callable[[Iterable[Any]], Any]
    """the values of some quarters -> those of all of them together"""
    columns: Mapping[str, Sequence[str]]
    """table -> columns that ``make`` looks at"""
    kinds: tuple[str, ...] = ()
    """kinds of events that it looks at; empty for all"""
    timeless: bool = False
    """It speaks of the session as a whole."""
    of_origins: bool = False
    """It looks at the calls of the sessions that this one was copied from (:func:`ctx_pipeline.storage.origin_calls.with_origin_calls`)."""

    def made_of(self, one: Present) -> str:
        """Return what identifies the rows that it is made of; empty while they are being replaced."""
        return one.with_origins if self.of_origins else one.made_of


class SessionFigure(NamedTuple):
    """A figure of one session in the time that was asked for: one value, or one for each quarter that lies in it."""

    key: Key
    values: list[Any]


def figures(
    store: Store,
    settings: Settings,
    figure: Figure,
    *,
    bounds: tuple[int | None, int | None] = (None, None),
    only: Callable[[Key], bool] | None = None,
) -> Iterator[SessionFigure]:
    """Yield a figure of every session of the tables (that ``only`` keeps) from the first moment up to before the last.

    Both lie on the border of a quarter of an hour. Without them what has no moment counts too.
    """
    there = {key: one for key, one in storage.present(store).items() if only is None or only(key)}
    known, totals = _loaded(settings, figure)
    missing = {key: one for key, one in there.items() if key not in known or known[key].made_of != figure.made_of(one) or not one.made_of}
    made = dict(_made(store, settings, [figure], missing))
    bounded = bounds != (None, None)
    part_of = {key for key in there.keys() - missing.keys() if _cut(known[key], bounds)} if bounded else set()
    cut = storage.parts(settings.home, figure.name, part_of) if part_of else {}
    if left := {key: there[key] for key in part_of - cut.keys()}:  # another process wrote the file anew meanwhile
        made |= dict(_made(store, settings, [figure], left))
    for key in sorted(there):
        if new := made.get((figure.name, key)):
            values = (
                _within(new.parts, bounds) if _cut(new.kept, bounds) else [] if _outside(new.kept, bounds) else [_decoded(new.kept.total)]
            )
        elif key in cut:
            values = _within(cut[key], bounds)
        elif bounded and _outside(known[key], bounds):
            continue
        else:
            if key not in totals:
                totals[key] = _decoded(known[key].total)
            values = [totals[key]]
        if values:
            yield SessionFigure(key, values)


def keep(store: Store, settings: Settings, wanted: Sequence[Figure], *, most: int | None = None) -> int:
    """Work out what is missing of these figures, keep it, and return of how many sessions something was.

    Of more than ``most`` so many of the newest are done, and the rest the next times.
    """
    there = storage.present(store)
    waiting = _Waiting(settings, wanted)
    missing = _missing(wanted, there, storage.made_of(settings.home, waiting.versions))
    count = len(missing)
    if most is not None and count > most:
        newest = sorted(missing, key=lambda key: (there[key].cell.month, key), reverse=True)
        missing = {key: missing[key] for key in newest[:most]}
    by_figures: dict[tuple[str, ...], list[Key]] = defaultdict(list)
    for key, chosen in missing.items():
        by_figures[tuple(figure.name for figure in chosen)].append(key)
    named = {figure.name: figure for figure in wanted}
    for names, keys in by_figures.items():
        for new in _read_anew(store, settings, [named[name] for name in names], {key: there[key] for key in keys}):
            waiting.add(new)
    waiting.write(there)
    return count


class FiguresOfCell:
    """What is missing of the figures of a cell's sessions, made of views that are read for something else as well.

    What is not made here is left to :func:`keep`.
    """

    def __init__(self, store: Store, settings: Settings, wanted: Sequence[Figure], there: Mapping[Key, Present]) -> None:
        self._store, self._settings, self._there = store, settings, there
        self._waiting = _Waiting(settings, wanted)
        self._missing = _missing(wanted, there, storage.made_of(settings.home, self._waiting.versions, there))
        self._origins: dict[Key, frozenset[str]] = {}
        asked = [figure for figure in wanted if any(figure in chosen for chosen in self._missing.values())]
        self.sessions = {session for _, session in self._missing}
        self.columns = _columns(asked)
        self.tables = list(self.columns)
        self.kinds = _kinds(asked) or ()

    def see(self, view: SessionView) -> None:
        """Make what a session lacks; a figure that raises is left out, and raises again in :func:`keep`."""
        key = (view.host, view.session_id)
        with suppress(Exception):
            for seen in with_origin_calls(self._store, [view], self._origins):
                self._waiting.add(_of_view(seen, self._settings, self._missing.pop(key, ()), self._there[key]))

    def close(self) -> None:
        """Write what waits."""
        self._waiting.write()


def _missing(wanted: Sequence[Figure], there: Mapping[Key, Present], known: Mapping[str, Mapping[Key, str]]) -> dict[Key, list[Figure]]:
    """Return session -> figures that are not kept of its rows as they are; rows that are being replaced have none."""
    found: dict[Key, list[Figure]] = defaultdict(list)
    for figure in wanted:
        for key, one in there.items():
            if one.made_of and known[figure.name].get(key) != figure.made_of(one):
                found[key].append(figure)
    return dict(found)


_AT_ONCE = 4 << 20
"""Bytes of figures that wait in memory; what they are more is written."""


class _Waiting:
    """Figures that wait to be written, those of many sessions at once."""

    def __init__(self, settings: Settings, wanted: Sequence[Figure]) -> None:
        self._home = settings.home
        self.versions = {figure.name: _version(figure, settings) for figure in wanted}
        self._new: list[NewFigure] = []
        self._bytes = 0

    def add(self, new: Sequence[NewFigure]) -> None:
        """Add the figures of a session."""
        self._new += new
        self._bytes += sum(len(one.kept.total) + len(one.parts) for one in new)
        if self._bytes > _AT_ONCE:
            self.write()

    def write(self, there: Collection[Key] | None = None) -> None:
        """Write what waits; where it is told which sessions are there, drop the figures of others."""
        if self._new or there is not None:
            storage.keep(self._home, self.versions, self._new, there)
        self._new, self._bytes = [], 0


def warm(store: Store, settings: Settings, wanted: Iterable[Figure]) -> None:
    """Read what is kept of these figures, so that the next answer of this process does without."""
    storage.present(store)
    for figure in wanted:
        _loaded(settings, figure)


_MOST_READ = 12
_lock = threading.Lock()
_read: OrderedDict[tuple[str, str], tuple[Any, dict[Key, KeptFigure], dict[Key, Any]]] = OrderedDict()
"""(store, figure) -> what the file was when it was read, what is kept of the figure, and what of it was decoded"""


def _loaded(settings: Settings, figure: Figure) -> tuple[dict[Key, KeptFigure], dict[Key, Any]]:
    """Return what is kept of a figure, and what was decoded of it already, to which the caller may add."""
    version = _version(figure, settings)
    seen = (version, storage.stamp_of(settings.home, storage.FILE))
    place = (str(settings.home), figure.name)
    with _lock:
        found = _read.get(place)
        if found is None or found[0] != seen:
            same = found if found is not None and found[0][0] == version else (seen, {}, {})
            kept = storage.read_figures(settings.home, figure.name, version, same[1])
            decoded = {key: value for key, value in dict(same[2]).items() if key in kept and kept[key] is same[1].get(key)}
            found = _read[place] = (seen, kept, decoded)
        _read.move_to_end(place)
        while len(_read) > _MOST_READ:
            _read.popitem(last=False)
    return found[1:]


_versions: dict[tuple[str, str], str] = {}
_unkept: OrderedDict[tuple[str, str, Key], tuple[str, NewFigure]] = OrderedDict()


def _version(figure: Figure, settings: Settings) -> str:
    asked = (figure.name, settings.cost_mode)
    if asked not in _versions:
        _versions[asked] = f"{figure.version} {__version__} {settings.cost_mode} {version_of(figure.make)}"
    return _versions[asked]


def _made(
    store: Store, settings: Settings, wanted: Sequence[Figure], missing: Mapping[Key, Present]
) -> Iterator[tuple[tuple[str, Key], NewFigure]]:
    """Yield (figure, session) -> what is worked out of the tables; what this process has worked out before is not read again."""
    waiting: dict[Key, Present] = {}
    for key, one in missing.items():
        held = [_unkept.get((str(settings.home), f.name, key)) for f in wanted]
        of = [f"{figure.made_of(one)}{settings.cost_mode}" for figure in wanted]
        if one.made_of and all(pair is not None and pair[0] == rows for pair, rows in zip(held, of, strict=True)):
            yield from (((f.name, key), pair[1]) for f, pair in zip(wanted, held, strict=True) if pair)
        else:
            waiting[key] = one
    for made in _read_anew(store, settings, wanted, waiting):
        for new in made:
            _unkept[str(settings.home), new.figure, new.key] = (f"{new.kept.made_of}{settings.cost_mode}", new)
            yield (new.figure, new.key), new
    with _lock:
        while len(_unkept) > _MOST:
            _unkept.popitem(last=False)


def _read_anew(store: Store, settings: Settings, wanted: Sequence[Figure], missing: Mapping[Key, Present]) -> Iterator[list[NewFigure]]:
    """Yield the figures of each session, worked out of the tables."""
    waiting: dict[Any, set[str]] = defaultdict(set)
    for key, one in missing.items():
        waiting[one.cell].add(key[1])
    columns = _columns(wanted)
    of_origins = any(figure.of_origins for figure in wanted)
    for cell, sessions in waiting.items():
        views = store.lake.read_sessions(cell, sessions, list(columns), columns, _kinds(wanted))
        for view in with_origin_calls(store, views) if of_origins else views:
            yield _of_view(view, settings, wanted, missing[view.host, view.session_id])


def _columns(wanted: Iterable[Figure]) -> dict[str, list[str]]:
    """Return table -> columns that some figures look at together."""
    found: dict[str, list[str]] = {}
    for figure in wanted:
        for table, names in figure.columns.items():
            found[table] = list(dict.fromkeys([*found.get(table, ()), *names]))
    return found


def _kinds(wanted: Iterable[Figure]) -> set[str] | None:
    """Return the kinds of events that some figures look at together; None for all, or where none looks at events."""
    reads_events = [figure for figure in wanted if "events" in figure.columns]
    every_kind = not all(figure.kinds for figure in reads_events)
    return None if every_kind else {kind for figure in reads_events for kind in figure.kinds} or None


def _of_view(view: SessionView, settings: Settings, wanted: Iterable[Figure], one: Present) -> list[NewFigure]:
    """Return the figures of a session."""
    key = (view.host, view.session_id)
    return [_new(figure, key, figure.made_of(one), figure.make(view, settings)) for figure in wanted]


def _new(figure: Figure, key: Key, made_of: str, quarters: Mapping[int | None, Any]) -> NewFigure:
    dated = [quarter for quarter in quarters if quarter is not None]
    first = last = None
    if len(dated) == len(quarters) and dated:
        first, last = min(dated) * QUARTER, max(dated) * QUARTER
    total = figure.add(quarters.values())
    whole = [list(pair) for pair in quarters.items()] if not figure.timeless else []
    return NewFigure(figure.name, key, KeptFigure(made_of, first, last, _encoded(total)), _encoded(whole))


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except OverflowError:  # absurd amounts of broken records
        return json.dumps(value).encode()


def _decoded(data: bytes) -> Any:
    # what msgpack says of a list, a map or nothing begins behind ASCII
    return json.loads(data) if data[:1] < b"\x80" else msgspec.msgpack.decode(data)


def _cut(one: KeptFigure, bounds: tuple[int | None, int | None]) -> bool:
    """Tell whether a bound lies inside a figure, or may do."""
    first, last = bounds
    if first is None and last is None:
        return False
    if one.first is None or one.last is None:
        return True
    return (first is not None and one.first < first <= one.last) or (last is not None and one.first < last <= one.last)


def _outside(one: KeptFigure, bounds: tuple[int | None, int | None]) -> bool:
    first, last = bounds
    dated = one.first is not None and one.last is not None
    return dated and ((first is not None and one.last < first) or (last is not None and one.first >= last))  # type: ignore[operator]


def _within(data: bytes, bounds: tuple[int | None, int | None]) -> list[Any]:
    first, last = bounds
    return [
        value
        for quarter, value in _decoded(data)
        if quarter is not None and (first is None or quarter * QUARTER >= first) and (last is None or quarter * QUARTER < last)
    ]


def on_border(bounds: tuple[int | None, int | None]) -> bool:
    """Tell whether figures can be told between these moments."""
    return all(bound is None or bound % QUARTER == 0 for bound in bounds)


def quarter_of(ts: int | None) -> int | None:
    """Return the number of a moment's quarter of an hour from 1970 on."""
    return None if ts is None else ts // QUARTER
