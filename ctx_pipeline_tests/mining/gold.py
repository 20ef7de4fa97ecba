"""How many of the lessons that a reader wanted are found, and how many of the found ones are true and useful."""

from __future__ import annotations

import argparse
import csv
import hashlib
import tempfile
from pathlib import Path
from typing import NamedTuple

from ctx_pipeline.model.memories import MODEL_WRITTEN

LESSONS = Path(__file__).with_name("gold_lessons.tsv")
UNSEEN = Path(__file__).with_name("unseen_lessons.tsv")
"""The same of fifteen sessions drawn at random later; its held half was never tuned for."""

JUDGED = Path(__file__).with_name("judged.tsv")
"""Lessons of a model that the list lacks, by the hash of their words, each rated by a reader of the transcript."""

GOOD = 4
"""Rating from which a lesson is true and worth being told."""

_KINDS = {
    "user_preference": "rule",
    "risk_rule": "rule",
    "repo_convention": "command",
    "tool_lesson": "fix",
    "failure_trigger": "fix",
    "procedure": "workflow",
    "env_fact": "fact",
}


class Gold(NamedTuple):
    """One lesson: the sessions that teach it, and the words that any telling of it has."""

    id: str
    sessions: tuple[str, ...]
    kinds: frozenset[str]
    wanted: bool
    words: tuple[tuple[str, ...], ...]
    """alternatives, of which each group needs one"""
    rating: int | None = None
    """1 to 5: how true and useful the mined text is to a reader of the transcript; None where it was not mined"""

    @property
    def held(self) -> bool:
        """Nobody tunes for it: half of the lessons, by a hash of their first session."""
        return hashlib.sha256(self.sessions[0].encode()).digest()[3] % 2 == 0

    def told_by(self, memory) -> bool:
        """Tell whether a memory says it: its kind, one of its sessions, and all of its words."""
        taught = {s.partition("/")[2] for s in memory.sessions}
        cut = memory.support > len(memory.sessions)
        if not (cut or any(known.startswith(s) for s in self.sessions for known in taught)) or kinds_of(memory).isdisjoint(self.kinds):
            return False
        text = f"{memory.text} {memory.when_to_use or ''} {' '.join(map(str, memory.body.get('steps', ())))}".lower()
        return all(any(word in text for word in group) for group in self.words)


def kinds_of(memory) -> set[str]:
    """Return the kinds that a memory counts as: a failure that nothing cured is a warning."""
    found = _KINDS.get(memory.kind, memory.kind)
    kinds = {found, *(["fact"] if memory.body.get("fact") else [])}
    return kinds | {"warning"} if found == "fix" or memory.body.get("warning") else kinds


class Score(NamedTuple):
    """Precision over what is told of the sessions that were read, recall over what was wanted."""

    precision: float
    recall: float
    found: list[str]
    missed: list[str]
    wrong: list[str]


def gold(lessons: Path = LESSONS) -> list[Gold]:
    """Return a list as it is shipped."""
    with lessons.open(encoding="utf-8", newline="") as file:
        rows = (line for line in file if not line.startswith("#"))
        return [
            Gold(
                row["id"],
                tuple(row["sessions"].split(",")),
                frozenset(row["kinds"].split(",")),
                row["value"] == "wanted",
                tuple(tuple(group.split("|")) for group in row["words"].split(";")),
                int(row["rating"]) if row["rating"] else None,
            )
            for row in csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def judged() -> dict[str, int]:
    """Return the hash of a lesson's words -> its rating."""
    with JUDGED.open(encoding="utf-8", newline="") as file:
        return {row["lesson"]: int(row["rating"]) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def hash_of(text: str) -> str:
    """Return the hash by which a lesson is judged."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def is_told(memory) -> bool:
    """Tell whether a memory counts: one of a model waits for a person, and counts all the same."""
    waits = memory.status == "needs_review" and memory.body.get(MODEL_WRITTEN)
    return memory.superseded_by is None and memory.source == "mined" and (waits or memory.status in ("candidate", "accepted"))


def score(memories, *, held: bool, lessons: Path = LESSONS) -> Score:
    """Return how the memories of the sessions of one half do: one that tells no lesson of a list and was not judged good is wrong.

    A memory lists sixteen of its sessions at most; of one with more the list need not name the session that was read.
    """
    every = [*gold(), *gold(UNSEEN)]
    chosen = [g for g in gold(lessons) if g.held == held]
    read = {s for g in chosen for s in g.sessions}
    told = [m for m in memories if m.support > len(m.sessions) or any(s.partition("/")[2].startswith(r) for s in m.sessions for r in read)]
    told = [m for m in told if is_told(m)]
    found = [g.id for g in chosen if g.wanted and any(g.told_by(m) for m in told)]
    missed = [g.id for g in chosen if g.wanted and g.id not in found]
    good = {lesson for lesson, rating in judged().items() if rating >= GOOD}
    wrong = [m.text for m in told if hash_of(m.text) not in good and not any(g.told_by(m) for g in every)]
    return Score(1 - len(wrong) / len(told) if told else 1.0, len(found) / (len(found) + len(missed)), found, missed, wrong)


def ratings(memories) -> list[int]:
    """Return the rating of each memory that is told: of the lessons that it tells the lowest, and 1 for one that nobody read."""
    every, read = [*gold(), *(g for g in gold(UNSEEN) if g.rating)], judged()
    return [min((g.rating or 1 for g in every if g.told_by(m)), default=read.get(hash_of(m.text), 1)) for m in memories if is_told(m)]


def _main() -> None:
    from ctx_pipeline_tests.mining.gold_model import ANSWERS, ask_about_gold
    from ctx_pipeline_tests.mining.test_gold_lessons import mined

    parser = argparse.ArgumentParser(prog="python -m ctx_pipeline_tests.mining.gold", description=__doc__)
    parser.add_argument("--model", type=Path, nargs="?", const=ANSWERS, metavar="FOLDER", help="with a model whose answers lie in FOLDER")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write what the model is asked into FOLDER")
    chosen = parser.parse_args()
    lessons = []
    if chosen.model or chosen.record:
        with tempfile.TemporaryDirectory() as home:
            asked = ask_about_gold(Path(home), chosen.model or ANSWERS, requests=chosen.record)
        lessons = asked.lessons
        print(f"believed: {len(lessons)}; without an answer: {len(asked.unanswered)}; refused:", dict(asked.refused))  # noqa: T201
    memories = mined(lessons)
    for lessons, held in ((LESSONS, False), (LESSONS, True), (UNSEEN, False), (UNSEEN, True)):
        found = score(memories, held=held, lessons=lessons)
        told = f"precision {found.precision:.2f}, recall {found.recall:.2f} ({len(found.found)} of {len(found.found) + len(found.missed)})"
        print(f"{lessons.stem}, {'unseen' if held else 'tuned for'}: {told}; missed: {', '.join(found.missed)}")  # noqa: T201
    print("ratings:", *sorted(ratings(mined())))  # noqa: T201


if __name__ == "__main__":
    _main()
