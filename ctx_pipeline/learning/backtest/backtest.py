"""Replays the person's own history: would memories of the past have answered what came after, and what did told ones do?"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import ctx_pipeline
from ctx_pipeline import discovery
from ctx_pipeline.integrations.status import sparingly
from ctx_pipeline.learning.backtest.history import load, place_at
from ctx_pipeline.learning.backtest.queries import ask, days, windows
from ctx_pipeline.memory.backtest import MEASURED, WANTED, at_start, recall, recommended, starts, thresholds
from ctx_pipeline.memory.effect import Sides, compare, effects, proposals, worse
from ctx_pipeline.memory.intervals import by_group
from ctx_pipeline.memory.ranking import LEAST_COVERED, PENALTY, WEIGHTS
from ctx_pipeline.memory.scope import visible
from ctx_pipeline.memory.session_facts import FAILED
from ctx_pipeline.model.codec import digest, iso
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.lessons.lesson_outcomes import measured, tellings
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.storage.as_of_index import PastText
from ctx_pipeline.storage.memory_index import index

if TYPE_CHECKING:
    from ctx_pipeline.learning.backtest.history import History
    from ctx_pipeline.learning.backtest.queries import Split
    from ctx_pipeline.memory.injection_policy import Choice
    from ctx_pipeline.memory.session_facts import Timeline
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

_READINGS = {"user_correction_count": ("signals/outcomes", "corrections"), "session_cost": ("signals/spending", "cost")}
"""signal -> asset that holds it and the outcome it stands for"""

_HOOKS = frozenset({"SessionStart", "UserPromptSubmit"})


def sides(store: Store, history: History) -> Sides:
    """Return the sessions on each side with their outcomes; nothing is read where no memory was told."""
    made = Sides()
    log = tellings(store)
    if not log:
        return made
    reached = {key: [t for t in known.values() if t.reached is not None] for key, known in log.items()}
    by_hooks = sum(any(t.event in _HOOKS and not t.withheld for t in known.values()) for known in log.values())
    made.logged = (by_hooks, sum(map(len, reached.values())))
    for (host, session, memory_id), payload in measured(store.journal).items():
        outcome = str(payload.get("outcome"))
        made.uses.setdefault(memory_id, Counter())[outcome] += 1
        made.judged.append((f"{host}/{session}", outcome))
    stories = {(s.host, s.session_id): s for s in history.stories}
    read = _readings(store)
    first = min(t.at for known in log.values() for t in known.values())
    places = []
    for key, known in log.items():
        if key not in stories:
            continue
        row = _outcomes(stories[key], read.get(key, {}))
        hooks = [t for t in known.values() if t.event in _HOOKS]
        places.append(place_at(stories[key]))
        # a session stays on the side it was drawn to, whatever it asked for itself
        if any(t.withheld for t in hooks):
            made.withheld.append(row)
        else:
            made.told.append(row)
            if any(t.holdout > 0 for t in hooks):
                made.randomized.append(row)
    for key, told in stories.items():
        if key not in log and told.first >= first and any(visible("repo", told.repository or None, told.cwd, p) for p in places):
            made.others.append(_outcomes(told, read.get(key, {})))
    return made


def _outcomes(told: Timeline, read: dict[str, float]) -> dict[str, float]:
    failed = Counter(d.names[0] for d in told.deeds if d.kind == FAILED)
    return {**read, "retries": float(sum(n - 1 for n in failed.values()))}


def _readings(store: Store) -> dict[tuple[str, str], dict[str, float]]:
    found: dict[tuple[str, str], dict[str, float]] = {}
    for signal, (asset, name) in _READINGS.items():
        for cell in store.lake.manifests(asset):
            for row in store.lake.read_rows("readings", cell, asset):
                if row.signal == signal and row.value is not None:
                    found.setdefault((row.host, row.session_id), {})[name] = row.value
    return found


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
        return "no memory was learnt before the day"
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
        "effect": effects(with_it),
        "proposals": proposals(memories, told, right, {w.memory_id for w in warned}, with_it.uses),
        "versions": versions(choice),
        "history": digest(sorted((s.key, s.last, len(s.prompts), len(s.deeds)) for s in history.stories)),
    }


def versions(choice: Choice) -> dict[str, str]:
    """Return what the figures depend on beside the history: the package, each mining method, retrieval, and the figures' own definition."""
    methods = {f"mined/{m.name}": str(m.version) for m in discovery.methods().values() if m.deterministic}
    policy = digest(sorted(WEIGHTS.items()), sorted(PENALTY.items()), LEAST_COVERED, choice, index.VERSION, size=8)
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
