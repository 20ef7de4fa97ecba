"""Snapshots: valid XML within their bytes, tiers in order, what had to go named; blocks within their tokens."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctx_pipeline.context.session_state.difference import difference, differs
from ctx_pipeline.context.session_state.snapshot import BUDGET, block, snapshot
from ctx_pipeline.context.session_state.state import (
    CheckRun,
    FileState,
    Item,
    SessionState,
    from_json,
    ranked,
    with_notes,
)
from ctx_pipeline.sessions.states.state import counter


def files(count: int, *, changed: int = 0) -> list[FileState]:
    return [FileState(f"F{n + 1}", f"src/module_{n:03}.py", 1, int(n < changed), 0, n) for n in range(count)]


def full(**more) -> SessionState:
    told = {
        "host": "claude",
        "session_id": "s-1",
        "as_of": "2026-03-05T10:00:00Z",
        "task": Item("Mend the cart", "person"),
        "findings": [Item("expiry is not checked", "person", path="auth.ts", line=45)],
        "decisions": [Item("Keep cents", "person", reason="floats lose a cent")],
        "progress": [Item("found the sum", "todos")],
        "next_steps": [Item("write the changelog", "todos")],
        "files": files(3, changed=1),
        "tests": CheckRun("pytest -q", "test", 4, 1, ok=False, stale=True, event=None, why="assert 3 == 4"),
        "stats": {"tool_calls": 9},
    }
    return SessionState(**told | more)


def sections(xml: str) -> list[str]:
    return [child.tag for child in ET.fromstring(xml)]


@pytest.mark.feature("session.snapshot-tiers")
def test_all_of_a_small_state_stands_in_the_order_of_the_tiers():
    made = snapshot(full())
    root = ET.fromstring(made.xml)

    assert sections(made.xml) == ["task", "files", "decisions", "findings", "progress", "tests", "next_steps", "stats"]
    assert root.attrib == {"host": "claude", "session": "s-1", "as_of": "2026-03-05T10:00:00Z"}
    assert [(f.get("id"), f.get("path"), f.get("status")) for f in root.find("files")] == [
        ("F1", "src/module_000.py", "modified"),
        ("F3", "src/module_002.py", "read"),
        ("F2", "src/module_001.py", "read"),
    ]
    assert root.find("findings/finding").attrib == {"at": "auth.ts:45", "by": "person"}
    assert root.find("decisions/d").attrib["why"] == "floats lose a cent"
    assert root.find("tests").attrib == {"command": "pytest -q", "result": "4/5 passed", "failed_with": "assert 3 == 4", "stale": "yes"}
    assert (made.dropped, made.queries) == ({}, [])


@pytest.mark.feature("session.snapshot")
def test_text_is_escaped_and_what_xml_cannot_hold_is_out():
    hostile = "</task><script>&\"' \x00\x1b[31m\ufffe ]]>"
    made = snapshot(full(task=Item(hostile, "prompt"), files=[FileState("F1", '/a"b<c>&\x07.py', 1, 1, 0, 0)]))
    root = ET.fromstring(made.xml)

    assert root.find("task").text == "</task><script>&\"' [31m ]]>"
    assert root.find("files/f").get("path") == '/a"b<c>&.py'


@pytest.mark.feature("session.snapshot")
def test_a_task_of_ten_kilobytes_drives_nothing_else_out():
    made = snapshot(full(task=Item("word " * 2000, "prompt")))

    assert sections(made.xml) == ["task", "files", "decisions", "findings", "progress", "tests", "next_steps", "stats"]
    assert len(ET.fromstring(made.xml).find("task").text) == 400
    assert made.size <= BUDGET


@pytest.mark.feature("session.snapshot", "session.snapshot-queries")
def test_what_does_not_fit_is_named_and_can_be_asked_for():
    state = full(files=files(100, changed=5), findings=[Item(f"finding {n} " + "x" * 200, "checks", score=n) for n in range(20)])
    made = snapshot(state)
    root = ET.fromstring(made.xml)

    assert made.size <= BUDGET
    kept = [f.get("path") for f in root.find("files")]
    assert {f"src/module_{n:03}.py" for n in range(5)} <= set(kept)  # all that were changed
    assert len(made.dropped["files"]) == 100 - len(kept)
    assert root.find("dropped").attrib["files"] == str(len(made.dropped["files"]))
    assert made.dropped["files"][0] in root.find("dropped").text
    assert [q.text for q in root.find("recovery_queries")] == made.queries
    assert made.queries[0] == "ctx session status --session s-1"
    assert any(q.startswith("ctx search --file module_") for q in made.queries)
    assert {"decisions", "tests", "next_steps", "stats"} <= set(sections(made.xml))


@pytest.mark.parametrize("name", ["\U0001f600" * 200, "&" * 200, "'\"" * 200])
def test_a_name_that_takes_many_bytes_stays_within_the_smallest_budget(name: str):
    made = snapshot(SessionState("claude", name, project=name, as_of="2026-01-01T00:00:00Z"), 512)

    ET.fromstring(made.xml)
    assert made.size <= 512


def test_a_large_budget_is_used():
    state = full(files=files(2_000, changed=2_000))
    made = snapshot(state, 60_000)

    assert 55_000 < made.size <= 60_000
    assert made.kept["files"] > 600


@pytest.mark.feature("session.snapshot")
def test_the_items_that_are_kept_are_worth_most_together_and_a_large_one_is_passed_over():
    big = Item("big " * 200, "person")
    small = [Item(f"small {n}", "person") for n in range(3)]
    made = snapshot(full(decisions=[big, *small], findings=[], progress=[], files=[], stats={}), 620)

    kept = [d.text for d in ET.fromstring(made.xml).find("decisions")]
    assert kept == ["small 0", "small 1", "small 2"]
    assert len(made.dropped["decisions"]) == 1


WORDS = st.text(max_size=300)
ITEMS = st.lists(
    st.builds(Item, WORDS, st.sampled_from(["person", "agent", "checks"]), reason=WORDS | st.none(), path=WORDS | st.none()), max_size=12
)


@pytest.mark.feature("session.snapshot")
@settings(max_examples=40)
@given(
    texts=st.tuples(ITEMS, ITEMS, ITEMS),
    task=st.builds(Item, WORDS, st.just("prompt")) | st.none(),
    paths=st.lists(WORDS, max_size=30),
    session=WORDS,
    budget=st.integers(0, 4000),
)
def test_any_snapshot_parses_and_stays_within_its_bytes(texts, task, paths, session, budget):
    findings, decisions, steps = texts
    touched = [FileState(f"F{n}", path, 1, n % 2, n, n) for n, path in enumerate(paths)]
    state = full(session_id=session, task=task, findings=findings, decisions=decisions, next_steps=steps, files=touched)
    made = snapshot(state, budget)

    ET.fromstring(made.xml)
    assert made.size <= max(budget, 512)
    everything = len(findings) + len(decisions) + len(steps) + len(paths) + 1 + 1 + 1 + (task is not None)
    assert sum(made.kept.values()) + sum(map(len, made.dropped.values())) == everything


@pytest.mark.feature("session.resume")
@pytest.mark.parametrize("budget", [80, 200, 500])
def test_a_block_stays_within_its_tokens_and_keeps_the_task_first(budget: int):
    count = counter()
    state = full(findings=[Item(f"finding {n}: " + "word " * 60, "person") for n in range(10)], files=files(40, changed=30))
    made = block(state, count, budget)

    assert made.tokens == count(made.text) <= budget
    assert made.text.splitlines()[1] == "- Task: Mend the cart"
    assert made.dropped


@pytest.mark.feature("session.resume", "session.placement")
def test_what_it_is_about_stands_at_the_beginning_and_what_to_do_at_the_end():
    lines = block(full(), counter(), 500).text.splitlines()

    assert [line.split(":")[0] for line in lines[1:]] == [
        "- Task",
        "- Decided",
        "- Changed files, the last first",
        "- Found",
        "- Last test run",
        "- Still to do",
    ]


def test_a_line_that_may_not_be_told_is_left_out():
    made = block(full(), counter(), 500, safe=lambda text: None if "cents" in text else text)

    assert "cents" not in made.text
    assert "Mend the cart" in made.text


@pytest.mark.feature("session.auto-findings")
def test_drawn_findings_are_ranked_capped_and_never_push_a_said_one_aside():
    told = [Item(f"said {n}", "person") for n in range(25)]
    drawn = [Item(f"drawn {n}", "checks", score=n) for n in range(20)]
    found = ranked(told, [*drawn, Item("SAID 3.", "checks", score=99)])

    assert [i.text for i in found] == [*(f"said {n}" for n in range(24, -1, -1)), *(f"drawn {n}" for n in range(19, 11, -1))]


@pytest.mark.feature("session.diff")
def test_two_states_differ_by_what_was_done():
    older = full()
    newer = full(
        task=Item("Mend the till", "person"),
        findings=[*older.findings, Item("the till is stuck", "person")],
        next_steps=[],
        files=[older.files[0]._replace(changes=3), older.files[1], FileState("F9", "till.py", 0, 1, 0, 9)],
        stats={"tool_calls": 12},
    )
    found = difference(older, newer)

    assert found["task"] == {"from": "Mend the cart", "to": "Mend the till"}
    assert found["findings"] == {"added": ["the till is stuck"], "removed": []}
    assert found["next_steps"] == {"added": [], "removed": ["write the changelog"]}
    assert found["files"] == {"added": ["till.py"], "removed": ["src/module_002.py"], "changed_more": {"src/module_000.py": 2}}
    assert (found["tests"], found["stats"]) == (None, {"tool_calls": 3})
    assert differs(found)
    assert not differs(difference(older, older))


def test_a_state_comes_back_from_its_json():
    state = full()

    assert from_json(state.to_json()) == state
    for wrong in ({}, {"schema": 9}, state.to_json() | {"files": [{"path": 3}]}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            from_json(wrong)


@pytest.mark.feature("session.notes")
def test_the_newest_task_counts_whoever_said_it():
    state = with_notes(full(task=None), [("task", Item("one", "person")), ("task", Item("two", "agent"))])

    assert state.task.text == "two"


@pytest.mark.feature("session.snapshot")
def test_the_same_state_gives_the_same_bytes_whatever_the_seed_of_a_random_order():
    state = full(files=files(60, changed=9))
    random.seed(1)
    first = snapshot(state).xml
    random.seed(2)

    assert snapshot(state).xml == first


@pytest.mark.feature("session.resume")
def test_the_time_of_a_block_is_on_the_clock_of_the_person_with_what_that_is_off_utc():
    state = replace(full(), as_of="2026-03-05T10:00:00.000000Z")

    assert "2026-03-05 11:00 +01:00" in block(state, counter(), 500, zone="Europe/Berlin").text.splitlines()[0]
    assert "2026-03-05 10:00 UTC" in block(state, counter(), 500, zone="UTC").text.splitlines()[0]
