"""Sessions that were told a memory beside those that were not, with their outcomes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ctx_pipeline.learning.backtest.past_sessions import place_at
from ctx_pipeline.memory.evaluation import Sides
from ctx_pipeline.memory.scope import visible
from ctx_pipeline.memory.session_facts import FAILED
from ctx_pipeline.pipeline.lessons.lesson_outcomes import measured, tellings

if TYPE_CHECKING:
    from ctx_pipeline.learning.backtest.past_sessions import History
    from ctx_pipeline.memory.session_facts import Timeline
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
