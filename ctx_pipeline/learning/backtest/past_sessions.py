"""The history that a backtest replays: every session's story, what was mined of each, and the raw text in the order of time."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.memory import consolidation
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.memory.scope import Place, identity, visible
from ctx_pipeline.memory.session_facts import CHANGED, FAILED, RULED
from ctx_pipeline.model.memories import WOVEN
from ctx_pipeline.pipeline.lessons.repositories import recorded, repository_of
from ctx_pipeline.pipeline.lessons.session_timeline import RULES, timeline, views
from ctx_pipeline.pipeline.mine import candidates as drawn
from ctx_pipeline.redaction.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.memory.session_facts import Thing, Timeline
    from ctx_pipeline.model.memories import Memory, StoredCandidate
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.journal import Fact
    from ctx_pipeline.storage.text_index import PastText

_SEARCHED = ("prompt", "answer", "tool_call", "tool_result")
_BITS = 24
"""Texts of one session are numbered below 2 ** 24; a session's own number stands above."""

_LONGEST_PROMPT = 8_000


class Text(NamedTuple):
    """A text in the index of raw text: the event, when it was, and whether it was said rather than done."""

    event_id: str
    at: int
    said: bool


@dataclass
class History:
    """All sessions with a time and a folder, by their end."""

    stories: list[Timeline] = field(default_factory=list)
    texts: list[list[Text]] = field(default_factory=list)
    """the indexed texts of each story"""
    places: list[tuple[str, str]] = field(default_factory=list)
    """repository and folder; the number of a place in the raw text is its index"""
    candidates: dict[str, list[StoredCandidate]] = field(default_factory=dict)
    """method -> what it drew from all sessions, not combined"""
    facts: list[Fact] = field(default_factory=list)
    """what was said of memories"""
    redactor: Redactor | None = None

    @cached_property
    def ends(self) -> list[int]:
        """End of each story."""
        return [s.last for s in self.stories]

    def before(self, day: int) -> int:
        """Return how many stories ended before a moment; they are the first ones."""
        return bisect_left(self.ends, day)

    def memories(self, day: int) -> list[Memory]:
        """Return what all methods make of the sessions that ended before a moment, and of what was said before it."""
        past = {(s.host, s.session_id) for s in self.stories[: self.before(day)]}
        methods = discovery.methods()
        rows: list[StoredCandidate] = []
        for name, all_ in self.candidates.items():
            mine = [c for c in all_ if (c.host, c.session_id) in past]
            combine = methods[name].combine
            rows += combine(mine) if combine else mine
        facts = [consolidation.Fact(f.kind, f.payload, f.at) for f in self.facts if _micros(f.at) < day]
        redactor = self.redactor
        if redactor is None:
            return consolidation.consolidate(rows, facts)
        return consolidation.consolidate(rows, facts, lambda texts: scan(texts, lambda text: {n for n, _, _ in redactor.find(text)}))

    def row(self, number: int) -> tuple[int, Text]:
        """Return the story and the text of a number in the raw text."""
        return number >> _BITS, self.texts[number >> _BITS][number & ((1 << _BITS) - 1)]

    def shown_by(self, number: int, *, turn: bool = False) -> set[Thing]:
        """Return the things that a raw text shows: those of its call; of what was said, and with ``turn``, all of its turn."""
        rank, text = self.row(number)
        told = self.stories[rank]
        if not text.said and not turn:
            return {t for d in told.deeds if text.event_id in d.events for t in d.spellings}
        begin = max((p.at for p in told.prompts if p.at <= text.at), default=told.first)
        end = min((p.at for p in told.prompts if p.at > text.at), default=told.last + 1)
        return {t for d in told.deeds if begin <= d.at < end for t in d.spellings}


def number_of(rank: int) -> int:
    """Return the number below which all raw texts of the first ``rank`` stories lie."""
    return rank << _BITS


def place_at(story: Timeline) -> Place:
    """Return where a session worked, by what was recorded of it alone: the folders need not be there any more."""
    repository = story.repository
    path = repository.startswith(("/", "~")) or ":\\" in repository
    return Place(story.cwd, (repository,) if path else (story.cwd,), () if path or not repository else (identity(repository),))


def is_shown(memory: Memory) -> bool:
    """Tell whether a memory answers: it is neither held back nor superseded."""
    return memory.status in WOVEN and not memory.flags and memory.superseded_by is None


def recurring(stories: Iterable[Timeline]) -> frozenset[Thing]:
    """Return what happened in sessions and can come again."""
    return frozenset(t for s in stories for d in s.deeds if d.kind in (FAILED, CHANGED, RULED) or d.check for t in d.spellings)


def allowed_at(place: Place) -> Callable[[str, str | None, str | None], bool]:
    """Return what tells whether a scope, repository and folder may be seen from a place."""
    return lambda scope, repository, cwd: visible(scope, repository, cwd, place)


def load(store: Store, settings: Settings, past_text: PastText) -> History:
    """Return the history of a store and index its raw text. Sessions without a time or a folder are left out."""
    made = History(redactor=Redactor(settings.patterns))
    for method in discovery.methods().values():
        if method.deterministic or method.asks:
            rows = drawn(store, method, combined=False)
            if rows:
                made.candidates[method.name] = rows
    rules: dict[tuple[str, str], list[StoredCandidate]] = {}
    for rows in made.candidates.values():
        for row in rows:
            if row.kind == RULES:
                rules.setdefault((row.host, row.session_id), []).append(row)
    made.facts = [f for f in store.journal.facts() if f.kind.startswith("memory.")] if store.journal.is_there() else []
    cells = list(store.lake.manifests("normalized"))
    order = _order(store, cells)
    known = recorded(store)
    numbers: dict[tuple[str, str], int] = {}
    told: dict[int, tuple[Timeline, list[Text]]] = {}
    for cell in cells:
        for view in views(store, cell, kinds=_SEARCHED):
            rank = order.get((view.host, view.session_id))
            if rank is None:
                continue
            one = timeline(view, rules.get((view.host, view.session_id), ()))
            one.answers = []
            # its lessons were given the repository that is known of their folder
            one.repository = repository_of(one.repository or None, one.cwd, known) or ""
            one.prompts = [p._replace(text=p.text[:_LONGEST_PROMPT]) for p in one.prompts]
            place = numbers.setdefault((one.repository, one.cwd), len(numbers))
            events = [e for e in view.events if e.text and e.ts is not None][: (1 << _BITS) - 1]
            past_text.add((number_of(rank) + n, place, e.text) for n, e in enumerate(events))
            told[rank] = one, [Text(e.event_id, e.ts, e.kind in ("prompt", "answer")) for e in events]
    made.stories = [told[rank][0] for rank in sorted(told)]
    made.texts = [told[rank][1] for rank in sorted(told)]
    made.places = list(numbers)
    return made


def _order(store: Store, cells: Iterable[object]) -> dict[tuple[str, str], int]:
    """Return session -> its rank by its end, of all sessions with an end and a folder."""
    ends = []
    for cell in cells:
        rows: Sequence[object] = store.lake.read_rows("sessions", cell)  # type: ignore[arg-type]
        ends += [(s.last_ts, s.host, s.session_id) for s in rows if s.last_ts is not None and s.cwd]  # type: ignore[attr-defined]
    return {(host, session): rank for rank, (_, host, session) in enumerate(sorted(ends))}


def _micros(at: str) -> int:
    from datetime import datetime

    return int(datetime.fromisoformat(at).timestamp() * 1_000_000)


def days(history: History, splits: int) -> list[int]:
    """Return the days of a rolling backtest: midnights (UTC) that part the last three quarters of the sessions into about equal pieces."""
    ends = history.ends
    found = sorted({ends[int(len(ends) * (_FIRST + (1 - _FIRST) * n / splits))] // _DAY * _DAY for n in range(splits)} if ends else ())
    return [day for day in found if history.before(day)]


_DAY = 86_400_000_000
_FIRST = 0.25
"""Share of the sessions that lie before the first day."""


def windows(chosen: list[int]) -> Iterator[tuple[int, int | None]]:
    """Yield each day with the next one; the last window has no end."""
    yield from zip_longest(chosen, chosen[1:])
