"""One split of a backtest: memories of the sessions before a day, asked with what was typed and printed from that day on."""

from __future__ import annotations

import random
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.learning.backtest.history import number_of, place_at
from ctx_pipeline.memory.backtest import ERROR, SHOWN, THRESHOLDS, Asked, Prompted
from ctx_pipeline.memory.injection_policy import LEAST_WORDS, PROMPT_WORDS, STARTS, at_start, for_prompt
from ctx_pipeline.memory.intervals import SEED
from ctx_pipeline.memory.query import error_words, words_of
from ctx_pipeline.memory.ranking import LEAST_COVERED, Recalled, rank
from ctx_pipeline.memory.scope import visible
from ctx_pipeline.memory.session_facts import CHANGED, FAILED, KINDS, RAN, RULED, Said, about
from ctx_pipeline.mining.lessons.failures import salient_line
from ctx_pipeline.model.memories import WOVEN
from ctx_pipeline.storage.memory_index.index import MemoryIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctx_pipeline.learning.backtest.history import History
    from ctx_pipeline.memory.injection_policy import Choice
    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.memory.session_facts import SessionFact, Thing, Timeline
    from ctx_pipeline.model.memories import Memory, Scored
    from ctx_pipeline.storage.as_of_index import PastText

EVERYDAY = (
    "what is the capital of Portugal",
    "how do I knead sourdough",
    "configure the espresso machine",
    "who won the chess olympiad",
    "translate this poem into Finnish",
    "the zebra with a hat",
    "book a table for two on Friday",
    "how tall is the lighthouse",
    "what did we have for lunch",
    "write a birthday card for my aunt",
)
"""Prompts to which no memory of a coding session is an answer."""

_CONTROLS = 300
"""Prompts of a split at most that are asked at another repository."""


class Warned(NamedTuple):
    """A memory that would have been told before the failure that it tells of came again."""

    memory_id: str
    text: str
    host: str
    session_id: str
    error: str
    event_id: str
    told_at: int
    failed_at: int


@dataclass
class Split:
    """What one day gave."""

    day: int
    sessions_before: int = 0
    sessions_after: int = 0
    memories: int = 0
    asked: list[Asked] = field(default_factory=list)
    prompted: list[Prompted] = field(default_factory=list)
    warned: list[Warned] = field(default_factory=list)
    recurred: list[tuple[str, bool]] = field(default_factory=list)
    """failures that had come before the day at the same place, once a session: the session, and whether hooks would have warned of it"""
    told: dict[str, set[str]] = field(default_factory=dict)
    """memory -> sessions into which it would have been injected"""
    right: dict[str, set[str]] = field(default_factory=dict)
    """memory -> those of them in which it was about something that came after"""
    own: list[tuple[str, bool]] = field(default_factory=list)
    """for prompts asked where they were typed, of places with memories: the session, and whether something would have been injected"""
    elsewhere: list[tuple[str, bool]] = field(default_factory=list)
    """for the same prompts asked at another repository"""
    everyday: list[tuple[str, bool]] = field(default_factory=list)
    """for everyday questions: the question, and the same"""


class _Place(NamedTuple):
    place: Place
    raw: tuple[int, ...]
    """places of the raw text that may be seen"""
    memories: tuple[Memory, ...]
    things: frozenset[Thing]
    """what happened there before the day"""


def ask(history: History, past_text: PastText, window: tuple[int, int | None], seen: set[tuple[int, str]], choice: Choice) -> Split:
    """Return what memories of the sessions that ended before a day answer from that day until another (microseconds).

    ``choice`` says how sparingly the person's hooks inject. ``seen`` holds what was
    asked: a fork repeats its parent's prompts with their times.
    """
    day, until = window
    memories = history.memories(day)
    made = Split(day, history.before(day), memories=len(memories))
    with tempfile.TemporaryDirectory() as folder, closing(MemoryIndex(Path(folder) / "memory.db")) as index:
        index.rebuild(memories)
        asking = _HookReplay(history, past_text, index, made, memories=memories, seen=seen, choice=choice)
        for told in history.stories:
            if told.last >= day and (until is None or told.first < until):
                asking.session(told, day, until)
        asking.controls()
    return made


class _HookReplay:
    def __init__(
        self,
        history: History,
        past_text: PastText,
        index: MemoryIndex,
        made: Split,
        *,
        memories: list[Memory],
        seen: set[tuple[int, str]],
        choice: Choice,
    ) -> None:
        self._choice, self._levels = choice, sorted({*THRESHOLDS, choice.threshold})
        self._history, self._past, self._index, self._made, self._seen = history, past_text, index, made, seen
        self._shown = [m for m in memories if m.status in WOVEN and not m.flags and m.superseded_by is None]
        self._about = {m.memory_id: about(m) for m in self._shown}
        self._places: dict[tuple[str, str], _Place] = {}
        self._outside: list[tuple[str, Said, _Place]] = []

    def session(self, told: Timeline, day: int, until: int | None) -> None:
        """Ask with the prompts and the errors that a session had in the window."""
        here = self._place(told)
        inside = [p for p in told.prompts if day <= p.at and (until is None or p.at < until) and (p.at, p.text) not in self._seen]
        failed = [
            d
            for d in told.deeds
            if d.kind == FAILED and day <= d.at and (until is None or d.at < until) and (d.at, d.text) not in self._seen
        ]
        if not inside and not failed:
            return
        self._seen.update((p.at, p.text) for p in inside)
        self._seen.update((d.at, d.text) for d in failed)
        self._made.sessions_after += 1
        self._outside += [(told.key, p, here) for p in inside]
        told_at = self._replay_hooks(told, here, inside, failed, began=told.first >= day)
        for deed in failed:
            printed = Said(deed.events[-1], deed.at, deed.text)
            self._question(told, here, printed, kind=ERROR, targets=frozenset(deed.spellings) & here.things, told_at=told_at)
        for prompt in inside:
            later = [d for d in told.deeds if d.at > prompt.at]
            for kind in KINDS:
                again = frozenset(t for d in later if d.kind == kind and (kind != RAN or d.check) for t in d.spellings) & here.things
                self._question(told, here, prompt, kind=kind, targets=again, told_at=told_at)

    def _question(
        self, told: Timeline, here: _Place, asked: Said, *, kind: str, targets: frozenset[Thing], told_at: dict[str, int]
    ) -> None:
        if not targets:
            return
        found = [s.memory for s in self._search(asked.text, here.place, asked.at)]
        numbers = self._past.best(words_of(asked.text), places=here.raw, before=number_of(self._made.sessions_before), limit=SHOWN)
        known = [m for m, at in told_at.items() if at <= asked.at]
        self._made.asked.append(
            Asked(
                kind,
                told.key,
                here.place.cwd,
                targets,
                tuple(self._about.get(m.memory_id) or about(m) for m in found),
                tuple(bool(self._history.shown_by(n) & targets) for n in numbers),
                len(here.memories),
                sum(self._about[m.memory_id].fits(targets) for m in here.memories),
                any(self._about[m].fits(targets) for m in known),
            )
        )

    def _replay_hooks(
        self, story: Timeline, here: _Place, prompts: list[Said], failed: list[SessionFact], *, began: bool
    ) -> dict[str, int]:
        """Replay what hooks would have told at each threshold, and return when each memory would have been told at the usual one."""
        told: dict[float, dict[str, int]] = {threshold: {} for threshold in self._levels}
        for number, prompt in enumerate(prompts):
            after = {t for d in story.deeds if d.at > prompt.at for t in d.spellings}
            start: list[Memory] = []
            by_rule: dict[str, tuple[bool | None, ...]] = {}
            if began and number == 0:
                start = self._start(here, self._choice.start, prompt.at)
                by_rule = {rule: tuple(self._right(m, after) for m in self._start(here, rule, prompt.at)) for rule in STARTS}
                for threshold in self._levels:
                    told[threshold] |= dict.fromkeys((m.memory_id for m in start), prompt.at)
                self._count_repeats(story, start, after)
            hits = self._recalled(prompt.text, here.place)
            at_prompt: dict[float, tuple[bool | None, ...]] = {}
            for threshold in self._levels:
                some = for_prompt(hits, place=here.place, choice=self._choice._replace(threshold=threshold), now=prompt.at)
                chosen = [s.memory for s in some if s.memory.memory_id not in told[threshold]][: self._choice.limit]
                at_prompt[threshold] = tuple(self._right(m, after) for m in chosen)
                told[threshold] |= dict.fromkeys((m.memory_id for m in chosen), prompt.at)
                if threshold == self._choice.threshold:
                    self._count_repeats(story, chosen, after)
            first = next(iter(self._search(prompt.text, here.place, prompt.at)), None)
            share = next((h.covered for h in hits if first and h.memory.memory_id == first.memory.memory_id), None)
            right = self._right(first.memory, after) if first else None
            best = None if share is None or right is None else (share, right)
            self._made.prompted.append(Prompted(story.key, at_prompt, tuple(self._right(m, after) for m in start), best, by_rule))
        self._warnings(story, here, failed, told[self._choice.threshold])
        return told[self._choice.threshold]

    def _start(self, here: _Place, rule: str, at: int) -> list[Memory]:
        """Return what a rule of the start would have told."""
        found = at_start(here.memories, place=here.place, choice=self._choice._replace(start=rule), now=at)
        return [s.memory for s in found[: self._choice.limit]]

    def _right(self, memory: Memory, after: set[Thing]) -> bool | None:
        what = self._about[memory.memory_id]
        return what.fits(after) if what.things else None

    def _count_repeats(self, story: Timeline, chosen: list[Memory], after: set[Thing]) -> None:
        for m in chosen:
            self._made.told.setdefault(m.memory_id, set()).add(story.key)
            if self._right(m, after):
                self._made.right.setdefault(m.memory_id, set()).add(story.key)

    def _warnings(self, story: Timeline, here: _Place, failed: list[SessionFact], told: dict[str, int]) -> None:
        known = {m.memory_id: m for m in here.memories}
        met: set[Thing] = set()
        for deed in failed:
            things = set(deed.spellings) & here.things - met
            if not things:
                continue
            met |= things
            warned = [(memory_id, at) for memory_id, at in told.items() if at < deed.at and self._about[memory_id].fits(things)]
            self._made.recurred.append((story.key, bool(warned)))
            self._made.warned += [
                Warned(memory_id, known[memory_id].text, story.host, story.session_id, deed.names[0], deed.events[-1], at, deed.at)
                for memory_id, at in warned
            ]

    def controls(self) -> None:
        """Ask at other repositories what was asked here, and everyday questions at every place."""
        draw = random.Random(SEED)  # noqa: S311 - statistics
        places = [p for _, p in sorted(self._places.items()) if p.memories]
        asked = self._outside if len(self._outside) <= _CONTROLS else draw.sample(self._outside, _CONTROLS)
        for session, prompt, here in asked:
            mine = {m.memory_id for m in here.memories}
            others = [p for p in places if not mine.intersection(m.memory_id for m in p.memories)]
            if mine:
                self._made.own.append((session, self._injects(prompt.text, here, prompt.at)))
            if others:
                self._made.elsewhere.append((session, self._injects(prompt.text, draw.choice(others), prompt.at)))
        for place in places:
            self._made.everyday += [(text, self._injects(text, place, self._made.day)) for text in EVERYDAY]

    def _injects(self, text: str, there: _Place, at: int) -> bool:
        return bool(for_prompt(self._recalled(text, there.place), place=there.place, choice=self._choice, now=at))

    def _search(self, text: str, place: Place, at: int) -> list[Scored]:
        """Return what ``ctx memory retrieve`` answers."""
        error = error_words(text, lambda some: salient_line(some, place.cwd, of_any_form=True))
        hits = self._index.recall(words_of(text), error=error, allowed=_allowed(place), least=LEAST_COVERED)
        near = [Recalled(h.memory, h.score, h.covered) for h in hits]
        return rank(near, place=place, limit=SHOWN, now=at, linked=self._index.get)

    def _recalled(self, text: str, place: Place) -> list[Recalled]:
        """Return what the hook at a prompt looks at."""
        words = words_of(text)[:PROMPT_WORDS]
        if len(words) < LEAST_WORDS:
            return []
        error = error_words(text, lambda some: salient_line(some, place.cwd, of_any_form=True))
        hits = self._index.recall(words, error=error, allowed=_allowed(place), least=self._levels[0])
        return [Recalled(h.memory, h.score, h.covered) for h in hits]

    def _place(self, told: Timeline) -> _Place:
        key = (told.repository, told.cwd)
        if key not in self._places:
            place = place_at(told)
            allowed = _allowed(place)
            raw = tuple(n for n, (repository, cwd) in enumerate(self._history.places) if allowed("repo", repository or None, cwd or None))
            past = self._history.stories[: self._made.sessions_before]
            things = frozenset(
                t
                for s in past
                if allowed("repo", s.repository or None, s.cwd or None)
                for d in s.deeds
                if d.kind in (FAILED, CHANGED, RULED) or d.check
                for t in d.spellings
            )
            seen = tuple(m for m in self._shown if allowed(m.scope, m.repository, m.cwd))
            self._places[key] = _Place(place, raw, seen, things)
        return self._places[key]


def _allowed(place: Place) -> Callable[[str, str | None, str | None], bool]:
    return lambda scope, repository, cwd: visible(scope, repository, cwd, place)


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
