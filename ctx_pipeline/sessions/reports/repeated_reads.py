"""What of which file stands in a context window at a moment, and why what had stood there was delivered again."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.recorded import replay_window
from ctx_pipeline.errors import UsageError
from ctx_pipeline.facts.file_accesses import changes_of, inside, reads_of
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.sessions.session_choice import Choice, select_session
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.sessions.windows.window_effects import effects_of
from ctx_pipeline.sessions.windows.window_history import asked as asked_moment
from ctx_pipeline.sessions.windows.window_history import counting, thread_named
from ctx_pipeline.sessions.windows.window_history import found as found_moment
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.session_notes import notes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

SCHEMA = 1
"""Version of the JSON shape."""

FIVE_MINUTES, HOUR = 300, 3_600
"""Seconds for which a provider keeps a cached prompt: the shorter life, and the one that costs more to write."""

CAUSES = {
    "compaction": "the window had been compacted",
    "cleared": "its result had been taken out of the window",
    "rewind": "the turn in which it stood was taken back",
    "marked": "you said that the model does not hold it any more",
    "changed": "the file had been changed",
    "other lines": "other lines of it were needed",
    "more lines": "some of the lines stood there, others did not",
    "idle": "the provider's cache had expired; the text was still in the context",
    "other thread": "another thread of the session had read it; each window is its own",
    "redundant": "no reason for it: all of it was still in the context, unchanged",
}
"""Why a file was delivered again, from what forces it most to what does not."""

WHOLE, PART = "all", "part"
"""Lines of a read that names none: all of the file, or those that a filter chose."""

_SPAN = re.compile(r"(\d{1,9})-(\d{0,9})")
_END = 10**9


class Delivery(NamedTuple):
    """One time that (lines of) a file came into a window."""

    path: str
    lines: str
    """as ``first-last``, several joined by commas; ``all``; ``part`` where a filter chose them"""
    files: int
    """that the call read: each is the same part of what came in"""
    seq: int
    """of the call"""
    arrived: int
    """``seq`` of the result"""
    ts: int | None
    call: str
    """event id of the call"""
    result: str
    """event id of what came in"""
    thread_id: str


class RepeatedRead(NamedTuple):
    """A delivery of a file that had been delivered before in its session, and why."""

    delivery: Delivery
    cause: str
    tokens: int
    """of what came in a second time: all of it, or for ``more lines`` the share that stood there"""


@dataclass(frozen=True)
class Cached:
    """One file as a window holds it."""

    ref: str
    path: str
    lines: int
    """distinct lines; 0 where only the whole file is known to be there"""
    whole: bool
    tokens: int
    reads: int
    """deliveries that are still there"""
    changed: bool
    """the file was changed after the last of them: what stands there is old"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {name: getattr(self, name) for name in ("ref", "path", "lines", "whole", "tokens", "reads", "changed")}


@dataclass(frozen=True)
class Window:
    """What a window holds of files at a moment, and everything that was delivered again up to then."""

    host: str
    session_id: str
    thread_id: str
    moment: str
    as_of: str | None
    files: list[Cached]
    again: list[RepeatedRead]
    deliveries: int
    approximate: bool
    ttl: int
    """seconds that were reckoned with; 0: off"""

    @property
    def causes(self) -> dict[str, dict[str, int]]:
        """Cause -> how often and how many tokens, in the order of :data:`CAUSES`."""
        times = Counter(a.cause for a in self.again)
        tokens: Counter[str] = Counter()
        for a in self.again:
            tokens[a.cause] += a.tokens
        return {cause: {"times": times[cause], "tokens": tokens[cause]} for cause in CAUSES if times[cause]}

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "schema": SCHEMA,
            "host": self.host,
            "session_id": self.session_id,
            "thread_id": self.thread_id,
            "moment": self.moment,
            "as_of": self.as_of,
            "files": [f.to_json() for f in self.files],
            "deliveries": self.deliveries,
            "again": [
                {
                    "path": a.delivery.path,
                    "lines": a.delivery.lines,
                    "cause": a.cause,
                    "tokens": a.tokens,
                    "time": iso(a.delivery.ts),
                    "event_id": a.delivery.call,
                }
                for a in self.again
            ],
            "causes": self.causes,
            "approximate": self.approximate,
            "ttl": self.ttl,
        }


def window_files(
    name: str | None = None,
    *,
    at: str | None = None,
    thread: str | None = None,
    ttl: int | None = None,
    cwd: str | None = None,
    settings: Settings | None = None,
) -> Window:
    """Return what the window of a session's thread (the main one) holds of files at its end, or at a moment.

    ``ttl`` are the seconds for which the provider keeps a prompt: without it those of
    ``LEAN_CTX_CACHE_TTL``, else five minutes, or an hour where the calls wrote an hour's
    cache; 0 leaves idle time out of account.
    Raises UnknownName and UsageError.
    """
    with reading(settings) as (store, chosen_settings):
        choice = select_session(store, chosen_settings, name, cwd=cwd)
        view = view_of(store, choice.host, choice.session_id, TABLES)
        return window_of(store, chosen_settings, choice, view, at=at, thread=thread, ttl=ttl)


TABLES = ("events", "tool_calls", "model_calls", "threads", "file_accesses")
"""What a window is rebuilt from, and the reads as they stand in their table."""


def window_of(
    store: Store,
    settings: Settings,
    choice: Choice,
    view: SessionView,
    *,
    at: str | None = None,
    thread: str | None = None,
    ttl: int | None = None,
) -> Window:
    """Return what :func:`window_files` does, of a session whose rows in :data:`TABLES` were read."""
    main = thread_named(view, thread) if thread else view.events[0].thread_id
    events = [e for e in view.events if e.thread_id == main]
    effects = effects_of(store, choice.host, events)
    notes = [n for n in notes_of(store, choice.host, choice.session_id) if n.what in ("cleared", "invalidated")]
    if ttl is None and (said := settings.environ.get("LEAN_CTX_CACHE_TTL", "").strip()):
        if not (said.isdecimal() and said.isascii()):
            raise UsageError(f"LEAN_CTX_CACHE_TTL is no number: {said[:40]!r}", hint="a number of seconds; 0 is off")
        ttl = min(int(said[:12]), _LONGEST_TTL)
    marks = [(from_iso(n.at) or 0, n.path) for n in notes]
    return _window(_WindowHistory(view, main, effects, marks, ttl), choice, at)


_LONGEST_TTL = 10_000_000
"""Seconds; a longer one is no limit for any session."""


class _WindowHistory:
    """A thread's reads with all that may have taken them out of its window or made them old."""

    def __init__(self, view: Any, main: str, effects: Any, marks: list[tuple[int, str | None]], ttl: int | None) -> None:
        self.view, self.main, self.effects, self.marks = view, main, effects, marks
        self.events = [e for e in view.events if e.thread_id == main]
        calls = [c for c in view.model_calls if c.thread_id == main]
        _, self.tokenizer = counting([c.model for c in calls])
        everything = _deliveries(view)
        self.mine = [d for d in everything if d.thread_id == main]
        self.elsewhere: dict[str, list[Delivery]] = defaultdict(list)
        """path -> its deliveries in other threads"""
        for d in everything:
            if d.thread_id != main:
                self.elsewhere[d.path].append(d)
        self.changes = _changes(view)
        self.takes = _takes(self.events, effects)
        self.life = _life(calls) if ttl is None else ttl
        self.times = sorted(t for c in calls if (t := micros(c.ts)) is not None)

    def reread(self, d: Delivery, before: Sequence[Delivery], there: Sequence[Delivery]) -> tuple[str, float]:
        """Return why a file came in again, and the share of it that did, that had come in ``before``; ``there`` still stands."""
        last = max(before, key=lambda p: p.seq)
        if not there:
            taken = [kind for seq, kind in self.takes if last.seq < seq < d.seq]
            return (taken[-1] if taken else "rewind"), 1.0
        if all(_marked(p, self.marks, d.ts) for p in there):
            return "marked", 1.0
        if any(_between(change, last, d) for change in self.changes.get(d.path, ())):
            return "changed", 1.0
        share = covered(d.lines, [p.lines for p in there])
        if share < 1:
            return ("more lines" if share else "other lines"), share
        gap = _gap(self.times, last.ts, d.ts)
        return ("idle" if self.life and gap > self.life else "redundant"), 1.0

    def tokens_of(self, deliveries: Sequence[Delivery]) -> dict[Delivery, int]:
        """Return the tokens of deliveries; what nobody asks of is not counted."""
        texts = {d.result: self.view.by_event[d.result].text or "" for d in deliveries}
        sizes = dict(zip(texts, self.tokenizer.count_many(list(texts.values())), strict=True))
        return {d: sizes[d.result] // d.files for d in deliveries}


def _window(story: _WindowHistory, choice: Choice, at: str | None) -> Window:
    mine = story.mine
    wanted = asked_moment(at or "end", story.view.events, story.main).inside(story.events)
    recording = replay_window(
        story.events,
        effect=lambda event: story.effects[event.event_id],
        marks={wanted.after} if wanted.after is not None else (),
        before=_once_more(mine) | ({wanted.before} if wanted.before is not None else set()),
    )
    moment = found_moment(wanted, recording.moments)
    at_read = {m.trigger.partition(":")[2]: m for m in recording.moments if m.trigger.startswith("seen-by:")}

    def still_there(place: Any, deliveries: Sequence[Delivery]) -> list[Delivery]:
        nodes = recording.history.snapshot(place.episode).tree.nodes
        return [d for d in deliveries if (node := nodes.get(d.result)) is not None and "cleared" not in node.tags]

    upto = [d for d in mine if d.seq <= moment.seq]
    again: list[tuple[Delivery, str, float]] = []
    earlier: dict[str, list[Delivery]] = defaultdict(list)
    for d in upto:
        before = earlier[d.path]
        place = at_read.get(str(d.seq))
        if before and place is not None:
            stood = set(still_there(place, before))
            # what was asked for in the same breath is on its way
            again.append((d, *story.reread(d, before, [p for p in before if p in stood or p.arrived > d.seq])))
        elif any(_earlier(p, d) for p in story.elsewhere.get(d.path, ())):
            again.append((d, "other thread", 1.0))
        before.append(d)
    held = [d for d in still_there(moment, upto) if not _marked(d, story.marks, None)]
    told = (choice.host, choice.session_id, story.main, moment.trigger, iso(moment.at))
    tokens = story.tokens_of([*held, *(d for d, _, share in again if share)])
    files = _files(upto, held, tokens, story.changes, moment.seq)
    repeated = [RepeatedRead(d, cause, round(tokens[d] * share) if share else 0) for d, cause, share in again]
    return Window(*told, files, repeated, len(upto), story.tokenizer.approximate, story.life)


def _once_more(deliveries: Sequence[Delivery]) -> set[int]:
    """Return the calls that delivered a file once more: where it has to be known what stood in the window."""
    seen: set[str] = set()
    again = set()
    for d in deliveries:
        if d.path in seen:
            again.add(d.seq)
        seen.add(d.path)
    return again


def _deliveries(view: Any) -> list[Delivery]:
    """Return every read of the session in the order of its threads."""
    cwd = view.session.cwd
    found = [(a, view.by_event[a.result_event]) for a in reads_of(view) if a.result_event in view.by_event]
    members = Counter(a.call_event for a, _ in found)
    return [
        Delivery(
            inside(a.path, cwd),
            a.lines or (WHOLE if a.told else PART),
            members[a.call_event],
            a.seq,
            result.seq,
            micros(result.ts),
            a.call_event,
            result.event_id,
            a.thread_id,
        )
        for a, result in found
    ]


def _changes(view: Any) -> dict[str, list[tuple[str, int, int]]]:
    """Return path -> (thread, seq, time) of every change of that file."""
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for a in changes_of(view):
        found[inside(a.path, view.session.cwd)].append((a.thread_id, a.seq, micros(a.ts) or 0))
    return dict(found)


def _takes(events: Sequence[Any], effects: Any) -> list[tuple[int, str]]:
    """Return seq and kind of everything that took text out of the window."""
    found = []
    for e in events:
        does = effects[e.event_id]
        if not isinstance(does, str):
            found.append((e.seq, "compaction" if does.everything else "cleared" if does.results else "rewind"))
    return found


def _between(change: tuple[str, int, int], last: Delivery, d: Delivery) -> bool:
    thread, seq, ts = change
    if thread == d.thread_id:
        return last.seq < seq < d.seq
    return (last.ts or 0) < ts < (d.ts or 0)


def _earlier(other: Delivery, d: Delivery) -> bool:
    return other.ts is not None and d.ts is not None and other.ts < d.ts


def _marked(d: Delivery, marks: list[tuple[int, str | None]], until: int | None) -> bool:
    """Tell whether somebody said, after a delivery (and before a time), that the model does not hold it."""
    return any(
        (d.ts or 0) < at and (until is None or at <= until) and (path is None or d.path == path or f"/{d.path}".endswith(f"/{path}"))
        for at, path in marks
    )


def covered(wanted: str, there: Iterable[str]) -> float:
    """Return the share of wanted lines that stood there, 0 to 1; of a whole file the share is 1 only where a whole file stood."""
    held = list(there)
    if WHOLE in held:
        return 1.0
    known = _lines(held)
    if wanted == WHOLE:
        return 0.5 if known else 0.0
    asked = _lines([wanted])
    size = sum(b - a + 1 for a, b in asked)
    both = sum(max(0, min(b, d) - max(a, c) + 1) for a, b in asked for c, d in known)
    return min(1.0, both / size) if size else 0.0


def _lines(ranges: Iterable[str]) -> list[tuple[int, int]]:
    """Return the union of ranges as intervals apart from each other."""
    spans = sorted((int(m[1]), int(m[2] or _END)) for text in ranges for m in _SPAN.finditer(text))
    found: list[tuple[int, int]] = []
    for first, last in spans:
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        elif last >= first:
            found.append((first, last))
    return found


def _gap(times: list[int], since: int | None, ts: int | None) -> float:
    """Return the longest time without a call between two moments, in seconds."""
    if since is None or ts is None:
        return 0.0
    inner = [since, *times[bisect_left(times, since) : bisect_left(times, ts)], ts]
    return max(b - a for a, b in pairwise(inner)) / 1_000_000


def _life(calls: Sequence[Any]) -> int:
    """Return how long the provider keeps what these calls cached."""
    return HOUR if any(c.cache_write_1h for c in calls) else FIVE_MINUTES


def _files(
    upto: Sequence[Delivery],
    held: Sequence[Delivery],
    tokens: Mapping[Delivery, int],
    changes: Mapping[str, list[tuple[str, int, int]]],
    seq: int,
) -> list[Cached]:
    refs = {path: f"F{n}" for n, path in enumerate(dict.fromkeys(d.path for d in upto), 1)}
    by_path: dict[str, list[Delivery]] = defaultdict(list)
    for d in held:
        by_path[d.path].append(d)
    found = []
    for path, members in by_path.items():
        known = _lines([d.lines for d in members if d.lines != WHOLE])
        last = members[-1]
        later = any(
            (s > last.seq if t == last.thread_id else ts > (last.ts or 0)) and (t != last.thread_id or s <= seq)
            for t, s, ts in changes.get(path, ())
        )
        whole = any(d.lines == WHOLE for d in members)
        lines = sum(b - a + 1 for a, b in known if b < _END)
        found.append(Cached(refs[path], path, lines, whole, sum(tokens[d] for d in members), len(members), later))
    return found
