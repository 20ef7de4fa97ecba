"""Sixty moments: twenty at which a reader wants a lesson told, of published sessions and of a story, and forty of silence."""

from __future__ import annotations

import csv
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.learning.injection import inject
from ctx_pipeline.memory.injection_policy import parse_options
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.conftest import corpus
from ctx_pipeline_tests.factories.story import Story, edited, ran, said
from ctx_pipeline_tests.mining.test_gold_lessons import mined, session_places, session_starts

LEAST_RIGHT = 17
"""Of twenty moments at which something is wanted; at the others every word is one too many."""

_EVENTS = {"before": "PreToolUse", "failed": "PostToolUseFailure", "prompt": "UserPromptSubmit"}


class Moment(NamedTuple):
    """What an agent is about to do or was asked, where, and the words that a right note has; none for silence."""

    id: str
    place: str
    moment: str
    said: str
    printed: str
    wanted: tuple[tuple[str, ...], ...]

    def payload(self, cwd: str) -> dict[str, Any]:
        """Return what a hook is given, of a session that was told nothing yet."""
        asked: dict[str, Any] = {"prompt": self.said}
        if self.moment != "prompt":
            asked = {"tool_name": "Bash", "tool_input": {"command": self.said}}
        more = {"error": f"Exit code 1\n{self.printed}"} if self.moment == "failed" else {}
        return {"session_id": self.id, "cwd": cwd, "hook_event_name": _EVENTS[self.moment], **asked, **more}

    def right(self, note: str) -> bool:
        """Tell whether a note says what was wanted."""
        return bool(note) and all(any(word in note.lower() for word in group) for group in self.wanted)


def moments(name: str = "moments.tsv") -> list[Moment]:
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Moment(
                r["id"],
                r["place"],
                r["moment"],
                r["said"],
                r["printed"],
                () if r["wanted"] == "-" else tuple(tuple(g.lower().split("|")) for g in r["wanted"].split(";")),
            )
            for r in rows
        ]


def story(environ) -> Story:
    """Return a history of one project with six things to know."""
    refusal = 'psycopg2.OperationalError: connection to server at "localhost", port 5432 failed: Connection refused'
    red, green = ran("pytest -q", "E   KeyError: 'DATABASE_URL'\n1 failed in 0.1s", 1), "3 passed in 0.1s"
    told = Story(environ)
    told.day(said("We use pnpm here."), ran("pnpm install", "ok"), said("we use black here"), ran("black .", "ok"))
    told.day(said("Fix the query."), red, ran("DATABASE_URL=sqlite:// pytest -q", green), said("tests go to spec/"))
    told.day(said("Run the tests."), ran("pytest -q", refusal, 1), ran("docker compose up -d db", "Started"), ran("pytest -q", green))
    told.day(said("Merge it."), ran("gh pr merge 3", "ok"), said("always squash when you merge a PR"))
    told.day(said("Format it. Use `ruff format` instead of black."), ran("ruff format .", "ok"))
    told.day(said("Tests belong in spec/, not test/"), edited("spec/a.rb", "a", "b"), said("never squash PRs, we want the history"))
    return told.learn()


@corpus
@pytest.mark.feature("learn.moments")
def test_the_hook_is_right_at_most_moments_and_silent_at_all_others(environ, tmp_path):
    settings = settings_module.load(environ)
    told = story(environ)
    index = MemoryIndex(settings.home / "memory.db")
    index.rebuild([*told.memories(), *(m for m in mined() if m.superseded_by is None)])
    places = session_places()
    notes = {}
    for one in moments():
        cwd = told.folder if one.place == "story" else _checkout(tmp_path / one.id, *places[one.place])
        notes[one] = inject(one.payload(cwd), host="claude", choice=parse_options({}), settings=settings)
    wanted = [m for m in notes if m.wanted]
    quiet = [m for m in notes if not m.wanted]
    assert (len(wanted), len(quiet)) == (20, 40)
    assert {m.id: notes[m] for m in quiet if notes[m]} == {}
    assert sum(m.right(notes[m]) for m in wanted) >= LEAST_RIGHT, {m.id: notes[m] for m in wanted if not m.right(notes[m])}


LEAST_AGAIN = 6
"""Of eight failures of published sessions that an earlier session at their place had met or knew the end of: all that there are.

At the others nothing is known: one names a field that no session had met, one an error that was met in a temporary checkout.
"""


@corpus
@pytest.mark.feature("learn.moments")
def test_failures_that_came_again_are_told_what_the_sessions_before_them_taught(tmp_path, environ):
    settings = settings_module.load(environ)
    began = session_starts()
    right, notes = [], {}
    for one in moments("came_again.tsv"):
        later = tuple(name for name, start in began.items() if start >= began[one.place])
        with closing(MemoryIndex(settings.home / "memory.db")) as index:
            index.rebuild([m for m in mined(without=later) if m.superseded_by is None])
        cwd = _checkout(tmp_path / one.id, *session_places()[one.place])
        notes[one.id] = inject(one.payload(cwd), host="claude", choice=parse_options({}), settings=settings)
        right += [one.id] if one.right(notes[one.id]) else []
    assert [name for name, note in notes.items() if note and name not in right] == []
    assert len(right) >= LEAST_AGAIN, notes


def _checkout(folder: Path, cwd: str, repository: str | None) -> str:
    """Return the folder that a session recorded, or a checkout of the repository that it did."""
    if not repository or repository.startswith("/"):
        return cwd
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {repository}\n')
    return str(folder)
