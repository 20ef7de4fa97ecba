"""The journal only grows, and what was observed is asked once."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from ctx_pipeline.storage.journal import Journal


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "journal.db")
    yield made
    made.close()


@pytest.mark.feature("journal.append")
def test_facts_come_back_in_order_by_kind_and_after_a_point(journal):
    assert (journal.head(), journal.facts()) == (0, [])
    first = journal.append("finding", {"text": "ü \ud800"}, actor="person")
    second = journal.append("decision", {"n": 1})
    third = journal.append("finding", {"n": 2})

    assert [f.id for f in journal.facts()] == [first, second, third]
    assert [(f.actor, f.payload) for f in journal.facts("finding")] == [("person", {"text": "ü \ud800"}), ("ctx", {"n": 2})]
    assert [f.kind for f in journal.facts(after=second)] == ["finding"]
    assert journal.head() == third


@pytest.mark.feature("journal.append-only")
@pytest.mark.parametrize("change", ["UPDATE facts SET payload = '{}'", "DELETE FROM facts"])
def test_a_fact_cannot_be_changed_or_removed(journal, change):
    journal.append("finding", {"n": 1})
    other = sqlite3.connect(journal.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        other.execute(change)
    other.close()

    assert [f.payload for f in journal.facts()] == [{"n": 1}]


@pytest.mark.feature("journal.observations")
def test_the_world_is_asked_once_and_again_only_on_request(journal):
    answers = iter([{"exists": True}, {"exists": False}])

    assert journal.observe("file a", lambda: next(answers)) == {"exists": True}
    assert journal.observe("file a", lambda: next(answers)) == {"exists": True}
    assert journal.observe("file a", lambda: next(answers), refresh=True) == {"exists": False}
    assert journal.observe("file a", lambda: next(answers)) == {"exists": False}
    assert [f.payload["answer"] for f in journal.facts("observation")] == [{"exists": True}, {"exists": False}]


@pytest.mark.feature("journal.many-writers")
def test_writers_at_once_lose_nothing(journal):
    def write(name: int) -> None:
        mine = Journal(journal.path)
        for number in range(20):
            mine.append("n", {"of": name, "n": number})
        mine.close()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted((f.payload["of"], f.payload["n"]) for f in journal.facts("n")) == [(name, n) for name in range(4) for n in range(20)]
