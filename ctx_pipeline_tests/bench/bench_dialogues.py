"""How often search finds the turn of a long dialogue that answers a question: over sessions, and over notes.

``--dialogues FILE`` names dialogues in the form of the published benchmark LoCoMo: a list of objects with ``conversation``
(``session_1`` to ``session_N``, each a list of ``speaker``, ``dia_id`` and ``text``) and ``qa`` (``question``, ``evidence``
as a list of ``dia_id``, ``category``; 5 is a question that has no answer). That data is not part of this package; two
dialogues of our own are. The first of a file is shown apart from the others, so that one can tune on it alone. Each
dialogue is one history: its sessions are ingested as those of an agent, or each turn is one memory. A question is found
where any turn of its evidence is among the first ten (``turn``), and where the first one is of a session of its evidence
(``session``).
"""

from __future__ import annotations

import json
import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.learning.memories import retrieve
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.search import search
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.bench.bench_search import opened, settings_in
from ctx_pipeline_tests.bench.rows import Row
from ctx_pipeline_tests.factories.claude import ClaudeHome, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SAMPLE = Path(__file__).with_name("dialogue_sample.json")
"""Two dialogues of our own, whose questions are in other words than the turns that answer them."""

_TURN = re.compile(r"D(\d+):(\d+)")
_UNANSWERED = 5
_OF_NOTE: Any = {"status": "accepted", "scope": "global", "last_ts": 1}
_FIRST = datetime(2026, 3, 5, 10, 0, tzinfo=UTC)


class Turn(NamedTuple):
    """One turn: its number and that of its session, from 1, and its words with the speaker's name before them."""

    session: int
    number: int
    text: str


class Asked(NamedTuple):
    """A question and the turns that answer it, as (session, number)."""

    text: str
    evidence: frozenset[tuple[int, int]]


class Dialogue(NamedTuple):
    """The turns of all sessions in order, and the questions that something of them answers."""

    turns: list[Turn]
    asked: list[Asked]


def dialogues(path: Path) -> list[Dialogue]:
    """Return the dialogues of a file; questions without an answer or without a known turn are left out."""
    found = []
    for one in json.loads(path.read_text("utf-8")):
        sessions = {int(name.split("_")[1]): said for name, said in one["conversation"].items() if re.fullmatch(r"session_\d+", name)}
        turns = [
            Turn(number, int(m[2]), f"{said['speaker']}: {said['text']}")
            for number in sorted(sessions)
            for said in sessions[number]
            if (m := _TURN.fullmatch(said["dia_id"]))
        ]
        known = {(turn.session, turn.number) for turn in turns}
        asked = []
        for question in one["qa"]:
            evidence = frozenset((int(a), int(b)) for a, b in _TURN.findall(" ".join(question["evidence"]))) & known
            if evidence and question.get("category") != _UNANSWERED:
                asked.append(Asked(question["question"], evidence))
        found.append(Dialogue(turns, asked))
    return found


def shares(name: str, asked: Sequence[Asked], found: Sequence[Sequence[tuple[int, int]]]) -> list[Row]:
    """Return the share of questions with a right turn among the first ten, and with a right session first."""
    turn = sum(bool(one.evidence.intersection(places[:10])) for one, places in zip(asked, found, strict=True))
    first = sum(bool(places) and places[0][0] in {s for s, _ in one.evidence} for one, places in zip(asked, found, strict=True))
    return [
        Row(f"dialogues, {name} ({len(asked)}): the turn in the first 10", turn / len(asked), ""),
        Row(f"dialogues, {name} ({len(asked)}): its session first", first / len(asked), ""),
    ]


def in_sessions(dialogue: Dialogue, folder: Path) -> list[list[tuple[int, int]]]:
    """Return the turns that ``ctx search`` finds for each question of a dialogue whose sessions were ingested."""
    home = ClaudeHome(folder / "home" / "claude")
    (folder / "home" / "codex").mkdir(parents=True)
    for number in sorted({turn.session for turn in dialogue.turns}):
        said = home.session(f"{number:08d}-0000-4000-8000-000000000000", started=_FIRST + timedelta(days=number), mark=f"s{number}")
        for turn in (turn for turn in dialogue.turns if turn.session == number):
            said.prompt(turn.text) if turn.number % 2 else said.answer(text(turn.text))
        said.save()
    with opened(folder / "home", folder) as store:
        settings = settings_in(folder / "home", store.home)
    found = []
    for one in dialogue.asked:
        hits = search(one.text, limit=10, settings=settings).hits
        # the third part of an event's id is its line in the transcript, which is one turn
        found.append([(int(hit.session_id[:8]), int(hit.event_id.split(".")[2]) + 1) for hit in hits])
    return found


def in_notes(dialogue: Dialogue, folder: Path, embedder: str = "") -> list[list[tuple[int, int]]]:
    """Return the turns that ``ctx memory retrieve`` finds for each question of a dialogue each turn of which is a memory."""
    settings = settings_in(folder, folder / "store")
    with_index = MemoryIndex(folder / "store" / "memory.db")
    with_index.rebuild(
        Memory(
            f"mem-{turn.session}-{turn.number}",
            "procedure",
            turn.text,
            **_OF_NOTE,
            sessions=[f"claude/{turn.session}"],
            first_ts=turn.number,
        )
        for turn in dialogue.turns
    )
    with_index.close()
    return [
        [(int(a), int(b)) for a, b in (scored.memory.memory_id.split("-")[1:] for scored in retrieve(one.text, settings=settings))]
        for one in dialogue.asked
    ]


def dialogue_rows(dialogues_file: Path = SAMPLE) -> list[Row]:
    """Return the shares over sessions and over notes: of the first dialogue, and of the others together."""
    told = dialogues(dialogues_file)
    ways: dict[str, Callable[[Dialogue, Path], list[list[tuple[int, int]]]]] = {"sessions": in_sessions, "notes": in_notes}
    rows = []
    for part, some in (("first", told[:1]), ("others", told[1:])):
        asked = [question for dialogue in some for question in dialogue.asked]
        for name, way in ways.items() if asked else ():
            answers: list[list[tuple[int, int]]] = []
            for dialogue in some:
                with tempfile.TemporaryDirectory() as folder:
                    answers += way(dialogue, Path(folder))
            rows += shares(f"{part}, {name}", asked, answers)
    return rows
