"""How well questions as people type them find the session that answers them, and how soon.

The forty questions of ``search_questions.tsv`` were written from reading published
sessions, in other words than theirs, before the ranking was made; half of them
(``held``) were not looked at until it was done. Twenty-five more (``new``) were written from other sessions before
synonyms were looked for, and twenty-one (``last``) after the list of synonyms was. ``plain`` is the order that rows have
by themselves, the phrase before all words before any, each by BM25.
"""

from __future__ import annotations

import csv
import hashlib
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import settings as settings_of
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.search_index.ranking import ranked
from ctx_pipeline.storage.search_index.tokenize import question
from ctx_pipeline_tests.bench.rows import Row, many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.storage import Store

TURNS = Path(__file__).with_name("search_turns.tsv")
TABLE = Path(__file__).with_name("search_questions.tsv")
FIRST_SETS = ("tune", "held")
SETS = (*FIRST_SETS, "new", "last")
_DEEP = 1_000


class Question(NamedTuple):
    """A question and the sessions (``host/id``) of which any answers it: forks and copies of one session are the same answer."""

    set: str
    sessions: frozenset[str]
    text: str


def table(sets: Sequence[str] = SETS) -> list[Question]:
    """Return the questions of some sets."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [Question(row["set"], frozenset(row["sessions"].split()), row["question"]) for row in rows if row["set"] in sets]


class TurnQuestion(NamedTuple):
    """A question about one moment of a session: a hit is right in one of the sessions (ids or their beginnings), and has all words."""

    sessions: tuple[str, ...]
    words: tuple[str, ...]
    text: str

    @property
    def held(self) -> bool:
        """In the half that is not tuned for, by a hash of its session; its totals were seen when variants were compared."""
        return hashlib.sha256(",".join(self.sessions).encode()).digest()[0] % 2 == 1


def turn_questions() -> list[TurnQuestion]:
    """Return the questions about moments, written from reading the middle of sessions that the forty do not ask for."""
    with TURNS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [TurnQuestion(tuple(r["session"].split(",")), tuple(r["evidence"].lower().split(";")), r["question"]) for r in rows]


def turns_found(store: Store, asked: Sequence[TurnQuestion]) -> list[tuple[bool, bool]]:
    """Return for each question whether the right turn is among the first ten hits, and whether its session comes first."""
    found = []
    for one in asked:
        hits = store.search.search(store.lake, one.text, limit=10)
        right = [any(event.session_id.startswith(one.sessions) for event in (hit.event, *hit.copies)) for hit in hits]
        told = [all(word in (hit.event.text or "").lower() for word in one.words) for hit in hits]
        found.append((any(map(all, zip(right, told, strict=True))), right[:1] == [True]))
    return found


LAST_LINES = 8
"""Lines of an output that a person pastes."""

_LEAST_WORDS = 6


def pasted_errors(store: Store) -> list[tuple[str, frozenset[str]]]:
    """Return the last lines of every output of a failed call, and the sessions (ids) in which a failure ended with just these."""
    shelf = store.search.rows_of_index
    ended: dict[str, set[str]] = {}
    for base, rows, part, first in shelf.rows_of_parts():
        failed = [row for row in range(base, base + rows) if shelf.attributes_of(row)[0:3:2] == ("tool_result", "failed")]
        places = [(part, first + row - base) for row in failed]
        for found in store.lake.reader.rows(EVENTS, places, ("host", "session_id", "text")) if places else ():
            lines = [line for line in ((found.text if found else None) or "").splitlines() if line.strip()]
            text = "\n".join(lines[-LAST_LINES:])
            if found is not None and len(question(text).tokens) >= _LEAST_WORDS:
                ended.setdefault(text, set()).add(found.session_id)
    return [(text, frozenset(sessions)) for text, sessions in ended.items()]


def pasted_found(store: Store, pasted: Sequence[tuple[str, frozenset[str]]]) -> list[bool]:
    """Return for each pasted error whether the first hit is of a session in which it was printed."""
    found = []
    for text, sessions in pasted:
        hits = store.search.search(store.lake, text, limit=1)
        found.append(any(event.session_id in sessions for hit in hits for event in (hit.event, *hit.copies)))
    return found


def ranks(store: Store, order: Callable[[str], Iterable[int]], asked: Sequence[Question]) -> list[int]:
    """Return for each question the place of the right session among the sessions of the hits, 0 where it is not among them."""
    shelf = store.search.rows_of_index
    found = []
    for one in asked:
        spans = [span for row in order(one.text) if (span := shelf.span_of(row)) is not None]
        sessions = list(dict.fromkeys(f"{span.host}/{span.session_id}" for span in spans))
        found.append(next((place for place, session in enumerate(sessions, 1) if session in one.sessions), 0))
    return found


def in_context(store: Store) -> Callable[[str], list[int]]:
    """Return what orders rows as ``ctx search`` does."""
    return lambda text: ranked(store.search.connection, store.search.rows_of_index, question(text), None).rows


def plain(store: Store) -> Callable[[str], list[int]]:
    """Return what orders rows by themselves: phrase, all words, any words, each by BM25, no further than it takes to have some."""

    def order(text: str) -> list[int]:
        asked = question(text)
        rows: dict[int, None] = {}
        for number, expression in enumerate((asked.phrase, asked.every, asked.some, asked.beginnings)):
            if number >= 2 and len(rows) >= 5:
                break
            found = store.search.connection.execute(
                "SELECT rowid FROM history WHERE history MATCH ? ORDER BY bm25(history, 1.0, 2.0), rowid DESC LIMIT ?", (expression, _DEEP)
            )
            rows |= dict.fromkeys(row for (row,) in found)
        return list(rows)

    return order


def figures(name: str, places: Sequence[int]) -> list[Row]:
    """Return shares of right sessions first, among the first five and ten, and the mean reciprocal rank."""
    count = len(places)
    shares = [Row(f"{name} ({count}): in the first {n}", sum(0 < p <= n for p in places) / count, "") for n in (1, 5, 10)]
    return [*shares, Row(f"{name} ({count}): mean reciprocal rank", mean_reciprocal(places), "")]


def mean_reciprocal(places: Sequence[int]) -> float:
    """Return the mean of 1/place, 0 for what was not found."""
    return sum(1 / p for p in places if p) / len(places)


def search_questions_rows(home: Path) -> list[Row]:
    """Return the figures of each set of the questions over a home with the published sessions, before and after scoring in context."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, opened(home, Path(folder)) as store:
        for half in SETS:
            asked = table([half])
            for name, order in (("plain", plain(store)), ("in context", in_context(store))):
                rows += figures(f"questions, {half}, {name}", ranks(store, order, asked))
            if half not in FIRST_SETS:
                continue
            moments = [one for one in turn_questions() if one.held == (half == "held")]
            named = (f"moments, {half} ({len(moments)}): the turn in the first 10", f"moments, {half} ({len(moments)}): its session first")
            for name, right in zip(named, zip(*turns_found(store, moments), strict=True), strict=True):
                rows.append(Row(name, sum(right) / len(moments), ""))
        if pasted := pasted_errors(store):
            share = sum(pasted_found(store, pasted)) / len(pasted)
            rows.append(Row(f"pasted errors ({len(pasted)}): a session that printed it first", share, ""))
    return rows


def search_update_rows(home: Path) -> list[Row]:
    """Return the seconds from a new session on disk to its words being found, capture included, in process."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "home"
        shutil.copytree(home / ".claude", copied / ".claude")
        shutil.copytree(home / ".codex", copied / ".codex")
        settings = settings_in(copied, Path(folder) / "store")
        with open_store(settings) as store:
            ingest(store, settings)
            pattern = max((copied / ".claude").rglob("*.jsonl"), key=lambda path: path.stat().st_size)
            taken = []
            for turn in range(many(3)):
                new = pattern.with_name(f"00000000-0000-4000-8000-00000000000{turn}.jsonl")
                text = pattern.read_bytes()[:1_000_000].rpartition(b"\n")[0].replace(pattern.stem.encode(), new.stem.encode())
                new.write_bytes(text + b"\n")
                began = time.perf_counter()
                ingest(store, settings)
                taken.append(time.perf_counter() - began)
    return [Row("search: a new session of 1 MB captured and indexed", statistics.median(taken))]


def settings_in(home: Path, store: Path) -> settings_of.Settings:
    """Return the settings of a store that reads the claude and codex folders of a home."""
    folders = {key: next((home / name for name in (f".{key}", key) if (home / name).is_dir()), home / key) for key in ("claude", "codex")}
    return settings_of.load({"CTX_HOME": str(store), "CLAUDE_CONFIG_DIR": str(folders["claude"]), "CODEX_HOME": str(folders["codex"])})


def opened(home: Path, folder: Path) -> Store:
    """Return the store of a home with claude and codex folders, ingested below a folder."""
    settings = settings_in(home, folder / "store")
    with open_store(settings) as made:
        ingest(made, settings)
    return open_store(settings, read_only=True)
