"""Replays the person's own history: would memories of the past have answered what came after, and what did told ones do?"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ctx_pipeline
from ctx_pipeline import discovery
from ctx_pipeline.integrations.status import sparingly
from ctx_pipeline.learning.backtest.cohorts import sides
from ctx_pipeline.learning.backtest.hook_events import Around, Moment, asked_at, at_commands, table
from ctx_pipeline.learning.backtest.past_sessions import allowed_at, days, is_shown, load, number_of, place_at, recurring, windows
from ctx_pipeline.memory.evaluation import (
    ERROR,
    SEED,
    SHOWN,
    THRESHOLDS,
    WANTED,
    Asked,
    Prompted,
    at_start,
    by_group,
    compare,
    effects,
    proposals,
    recall,
    recommended,
    starts,
    thresholds,
    worse,
)
from ctx_pipeline.memory.injection_policy import AT_PROMPT, AT_START, LEAST_WORDS, MEASURED, PROMPT_WORDS, STARTS, for_prompt
from ctx_pipeline.memory.injection_policy import at_start as injection_policy_at_start
from ctx_pipeline.memory.ranking import LEAST_COVERED, PENALTY, WEIGHTS, Recalled, error_words, rank, words_of
from ctx_pipeline.memory.session_facts import FAILED, KINDS, RAN, Said, about
from ctx_pipeline.mining.lessons.failures import salient_line
from ctx_pipeline.model.codec import digest, iso
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.storage import memory_index
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline.storage.text_index import PastText

if TYPE_CHECKING:
    from ctx_pipeline.learning.backtest.past_sessions import History
    from ctx_pipeline.memory.injection_policy import Choice
    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.memory.session_facts import SessionFact, Thing, Timeline
    from ctx_pipeline.model.memories import Scored
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


# One split of a backtest: memories of the sessions before a day, asked with what was typed and printed from that day
# on.


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

_CONTROLS, _LOOKS = 300, 50
"""Prompts of a split at most that are asked at another repository, and moments at which lessons are merged anew for what came since."""


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
    moments: list[Moment] = field(default_factory=list)
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
    newest: set[Thing]
    """what happened in the last turn there before the day"""


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
        asking = _HookReplay(history, past_text, index, made, memories=memories, seen=seen, choice=choice, until=until)
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
        until: int | None,
    ) -> None:
        self._until = until
        self._choice, self._levels = choice, sorted({*THRESHOLDS, choice.threshold})
        self._history, self._past, self._index, self._made, self._seen = history, past_text, index, made, seen
        self._shown = [m for m in memories if is_shown(m)]
        self._since: dict[int, list[Memory]] = {}
        self._about = {m.memory_id: about(m) for m in self._shown}
        self._places: dict[tuple[str, str], _Place] = {}
        self._outside: list[tuple[str, Said, _Place]] = []
        self._answers: dict[tuple[str, Place, int], list[Scored]] = {}
        self._hits: dict[tuple[str, tuple[int, ...], int], list[int]] = {}

    def session(self, told: Timeline, day: int, until: int | None) -> None:
        """Ask with the prompts and the errors that a session had in the window."""
        here = self._place(told)
        self._answers.clear()
        self._hits.clear()
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
        numbers = self._searched(asked.text, here, number_of(self._made.sessions_before))
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
        around = self._around(here)
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
                proven = self._start(here, STARTS[-1], prompt.at)
                self._made.moments.append(asked_at(AT_START, story, around, proven, text=prompt.text, at=prompt.at))
            hits = self._recalled(prompt.text, here.place)
            at_prompt: dict[float, tuple[bool | None, ...]] = {}
            for threshold in self._levels:
                some = for_prompt(hits, place=here.place, choice=self._choice._replace(threshold=threshold), now=prompt.at)
                chosen = [s.memory for s in some if s.memory.memory_id not in told[threshold]][: self._choice.limit]
                at_prompt[threshold] = tuple(self._right(m, after) for m in chosen)
                told[threshold] |= dict.fromkeys((m.memory_id for m in chosen), prompt.at)
                if threshold == self._choice.threshold:
                    self._count_repeats(story, chosen, after)
                    had = told[threshold]
                    self._made.moments.append(asked_at(AT_PROMPT, story, around, chosen, text=prompt.text, at=prompt.at, known=had))
            first = next(iter(self._search(prompt.text, here.place, prompt.at)), None)
            share = next((h.covered for h in hits if first and h.memory.memory_id == first.memory.memory_id), None)
            right = self._right(first.memory, after) if first else None
            best = None if share is None or right is None else (share, right)
            self._made.prompted.append(Prompted(story.key, at_prompt, tuple(self._right(m, after) for m in start), best, by_rule))
        known = set(told[self._choice.threshold])
        self._made.moments += at_commands(story, self._around_as_it_began(story, here), self._inside, known)
        self._warnings(story, here, failed, told[self._choice.threshold])
        return told[self._choice.threshold]

    def _inside(self, at: int) -> bool:
        return self._made.day <= at and (self._until is None or at < self._until)

    def _around_as_it_began(self, story: Timeline, here: _Place) -> Around:
        """Return what commands of a session are held against: as when it began, what ended since the day at its place included."""
        first, ended = self._made.sessions_before, self._history.before(story.first)
        step = (len(self._history.stories) - first) // _LOOKS + 1
        ended -= max(0, ended - first) % step
        allowed = allowed_at(here.place)
        later = [s for s in self._history.stories[first:ended] if allowed("repo", s.repository or None, s.cwd or None)]
        if not later:
            return self._around(here)
        if ended not in self._since:
            self._since[ended] = [m for m in self._history.memories(self._history.ends[ended - 1] + 1) if is_shown(m)]
        memories = tuple(m for m in self._since[ended] if allowed(m.scope, m.repository, m.cwd))
        things = here.things | recurring(later)
        return self._around(here._replace(memories=memories, things=things), before=ended)._replace(about=about)

    def _around(self, here: _Place, *, before: int | None = None) -> Around:
        """Return what the moments of a session are held against; the text search sees the first ``before`` sessions."""
        mine = {m.memory_id for m in here.memories}
        others = next(
            (p.memories for _, p in sorted(self._places.items()) if p.memories and mine.isdisjoint(m.memory_id for m in p.memories)), ()
        )
        number = number_of(self._made.sessions_before if before is None else before)

        def searched(text: str) -> set[Thing]:
            hits = self._searched(text, here, number)
            return self._history.shown_by(hits[0], turn=True) if hits else set()

        return Around(
            here.place, here.memories, others, lambda m: self._about.get(m.memory_id) or about(m), searched, here.newest, here.things
        )

    def _start(self, here: _Place, rule: str, at: int) -> list[Memory]:
        """Return what a rule of the start would have told."""
        found = injection_policy_at_start(here.memories, place=here.place, choice=self._choice._replace(start=rule), now=at)
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
        key = (text, place, at)
        if key not in self._answers:
            error = error_words(text, lambda some: salient_line(some, place.cwd, of_any_form=True))
            hits = self._index.recall(words_of(text), error=error, allowed=allowed_at(place), least=LEAST_COVERED)
            near = [Recalled(h.memory, h.score, h.covered) for h in hits]
            self._answers[key] = rank(near, place=place, limit=SHOWN, now=at, linked=self._index.get)
        return self._answers[key]

    def _searched(self, text: str, here: _Place, before: int) -> list[int]:
        """Return the best hits of a text search over the past of a place."""
        key = (text, here.raw, before)
        if key not in self._hits:
            self._hits[key] = self._past.best(words_of(text), places=here.raw, before=before, limit=SHOWN)
        return self._hits[key]

    def _recalled(self, text: str, place: Place) -> list[Recalled]:
        """Return what the hook at a prompt looks at."""
        words = words_of(text)[:PROMPT_WORDS]
        if len(words) < LEAST_WORDS:
            return []
        error = error_words(text, lambda some: salient_line(some, place.cwd, of_any_form=True))
        hits = self._index.recall(words, error=error, allowed=allowed_at(place), least=self._levels[0])
        return [Recalled(h.memory, h.score, h.covered, held=h.held) for h in hits]

    def _place(self, told: Timeline) -> _Place:
        key = (told.repository, told.cwd)
        if key not in self._places:
            place = place_at(told)
            allowed = allowed_at(place)
            raw = tuple(n for n, (repository, cwd) in enumerate(self._history.places) if allowed("repo", repository or None, cwd or None))
            past = self._history.stories[: self._made.sessions_before]
            things = recurring(s for s in past if allowed("repo", s.repository or None, s.cwd or None))
            seen = tuple(m for m in self._shown if allowed(m.scope, m.repository, m.cwd))
            last = next((s for s in reversed(past) if s.deeds and allowed("repo", s.repository or None, s.cwd or None)), None)
            since = max((p.at for p in last.prompts), default=last.first) if last else 0
            newest = {t for d in last.deeds if d.at >= since for t in d.spellings} if last else set()
            self._places[key] = _Place(place, raw, seen, things, newest)
        return self._places[key]


VERSION = 1
"""Rises when a figure's definition changes: figures of other versions are not compared."""

SPLITS = 8
LEAST_SESSIONS = 8
LEAST_BEFORE = 4


@dataclass
class Backtest:
    """What a backtest found."""

    reason: str = ""
    """why nothing could be asked; empty where something was"""
    splits: list[Split] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


def backtest(
    store: Store, settings: Settings, *, before: int | None = None, splits: int = SPLITS, wanted: float = WANTED
) -> dict[str, Any]:
    """Return the report of a backtest over a store as plain values; docs/backtest.md says what each means.

    With ``before`` (microseconds) there is one split: all sessions that ended before it
    against all that was asked from then on; without it several days follow each other and
    each question is asked once, of the memories of the last day before it.
    """
    began = time.perf_counter()
    choice = sparingly(settings)
    with PastText() as past_text:
        history = load(store, settings, past_text)
        chosen = [before] if before is not None else days(history, splits) if len(history.stories) >= LEAST_SESSIONS else []
        chosen = [day for day in chosen if history.before(day) >= (1 if before is not None else LEAST_BEFORE)]
        seen: set[tuple[int, str]] = set()
        made = [ask(history, past_text, window, seen, choice) for window in windows(chosen)]
    report = _report(store, history, made, wanted, choice)
    report["reason"] = _reason(history, made, before)
    report["seconds"] = round(time.perf_counter() - began, 2)
    return report


def _reason(history: History, made: list[Split], before: int | None) -> str | None:
    """Return why there is nothing to say, None where there is."""
    count = len(history.stories)
    if not made and before is not None:
        return f"none of {count} sessions ended before that day"
    if not made:
        return f"too little history: {count} sessions with a time and a folder; at least {LEAST_SESSIONS} over several days are needed"
    if not any(s.prompted or s.asked for s in made):
        return "nothing was asked after the day"
    if not any(s.memories for s in made):
        return "no memory was learned before the day"
    return None


def _report(store: Store, history: History, made: list[Split], wanted: float, choice: Choice) -> dict[str, Any]:
    asked = [a for s in made for a in s.asked]
    prompted = [p for s in made for p in s.prompted]
    levels, started = thresholds(prompted), starts(prompted)
    told: dict[str, set[str]] = defaultdict(set)
    right: dict[str, set[str]] = defaultdict(set)
    for split in made:
        for all_, some in ((told, split.told), (right, split.right)):
            for memory_id, sessions in some.items():
                all_[memory_id] |= sessions
    warned = sorted((w for s in made for w in s.warned), key=lambda w: (w.failed_at, w.memory_id, w.session_id))
    own = [b for s in made for b in s.own]
    elsewhere = [b for s in made for b in s.elsewhere]
    everyday = [b for s in made for b in s.everyday]
    recurred = [r for s in made for r in s.recurred]
    memories = {m.memory_id: m for m in (Memory._make(r) for r in store.lake.read_rows("memories", WHOLE, "memory/consolidated"))}
    with_it = sides(store, history)
    return {
        "splits": [
            {
                "before": _day(s.day),
                "sessions_before": s.sessions_before,
                "memories": s.memories,
                "sessions_after": s.sessions_after,
                "prompts": len(s.prompted),
                "questions": len(s.asked),
            }
            for s in made
        ],
        "recall": recall(asked),
        "thresholds": levels,
        "start": at_start(prompted),
        "starts": started,
        "recommended": {
            **recommended(levels, wanted, started),
            "in_use": choice.threshold if choice.prompts else None,
            "start_in_use": choice.start,
        },
        "controls": {
            "own_repository": by_group(own).plain(),
            "other_repository": by_group(elsewhere).plain(),
            "everyday": by_group(everyday).plain(),
        },
        "recurred": len(recurred),
        "warned_share": by_group(recurred).plain(),
        "warned": [
            {
                "memory_id": w.memory_id,
                "text": w.text,
                "host": w.host,
                "session_id": w.session_id,
                "error": w.error,
                "event_id": w.event_id,
                "told_at": iso(w.told_at),
                "failed_at": iso(w.failed_at),
                "seconds_before": round((w.failed_at - w.told_at) / 1e6, 1),
            }
            for w in warned
        ],
        "moments": table([m for s in made for m in s.moments], choice=choice),
        "effect": effects(with_it),
        "proposals": proposals(memories, told, right, {w.memory_id for w in warned}, with_it.uses),
        "versions": versions(choice),
        "history": digest(sorted((s.key, s.last, len(s.prompts), len(s.deeds)) for s in history.stories)),
    }


def versions(choice: Choice) -> dict[str, str]:
    """Return what the figures depend on beside the history: the package, each mining method, retrieval, and the figures' own definition."""
    methods = {f"mined/{m.name}": str(m.version) for m in discovery.methods().values() if m.deterministic}
    policy = digest(sorted(WEIGHTS.items()), sorted(PENALTY.items()), LEAST_COVERED, choice, memory_index.VERSION, size=8)
    return {"package": ctx_pipeline.__version__, "figures": str(VERSION), "retrieval": policy, **methods}


def keep(store: Store, report: dict[str, Any]) -> list[dict[str, Any]]:
    """Write the figures of a rolling backtest into the journal, unless they stand there as the last, and return those that got worse.

    A figure is worse where it lies beyond the interval of the last figures that were
    kept; each comes with the versions that changed since (none: the history did).
    """
    if report["reason"]:
        return []
    fact = {
        "history": report["history"],
        "versions": report["versions"],
        "splits": [s["before"] for s in report["splits"]],
        "figures": compare(report),
        "calibration": {name: report[name] for name in ("thresholds", "starts")},
        "moments": report["moments"],
    }
    last = store.journal.newest(MEASURED, 1)
    earlier = dict(last[0].payload) if last else {}
    if earlier == fact:
        return []
    store.journal.append(MEASURED, fact)
    known = earlier.get("versions", {})
    if known.get("figures") != str(VERSION):
        return []
    changed = {name: [known.get(name), now] for name, now in report["versions"].items() if known.get(name) != now}
    return [{**row, "versions_changed": changed} for row in worse(earlier["figures"], fact["figures"])]


def stored_results(store: Store, limit: int = 20) -> list[dict[str, Any]]:
    """Return the figures that were kept, newest first."""
    return [{"at": f.at, **f.payload} for f in store.journal.newest(MEASURED, limit)]


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1e6, UTC):%Y-%m-%d}"
