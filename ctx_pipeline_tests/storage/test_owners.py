"""Usage counted once: the owner of a call depends on what the sessions hold, never on when they came."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctx_pipeline.model.raw import Cell
from ctx_pipeline.storage.ledger import Ledger, NormalizedSession, Segment, Source
from ctx_pipeline.storage.ledger.owners import BEFORE_FORK, BY_ID, EARLIEST, SAME_CALLS, SAME_TOTALS

if TYPE_CHECKING:
    from pathlib import Path

MAY, JUNE = 1_777_600_000_000_000, 1_780_300_000_000_000


def stream_of(session: str) -> str:
    return session.encode().hex().rjust(16, "0")[-16:]


def captured(ledger: Ledger, session: str, *, ts: int = MAY, parent: str | None = None) -> None:
    """Make a session known, as a capture of one file would."""
    stream = stream_of(session)
    source = Source(
        stream=stream, host="toy", root="/home", rel=f"{session}.jsonl", kind="transcript", size=9, mtime_ns=1, inode=1, captured=9,
        thread_id=session, parent_thread_id=parent, relation="fork" if parent else "main", first_ts=ts,
    )  # fmt: skip
    ledger.commit_capture([source], [Segment(stream, 0, 0, 9, "00", 5, f"raw/{stream}", "", 1)])


def decoded(session: str, calls: dict[str, int | None], **more) -> NormalizedSession:
    return NormalizedSession("toy", session, f"fp-{session}", "hash", calls=list(calls.items()), **more)


def all_copies(ledger: Ledger) -> dict[tuple[str, str], tuple[str, str]]:
    return {key: tuple(owner) for cell in ledger.cells() for key, owner in ledger.copies(cell).items()}


@pytest.fixture
def ledger(tmp_path: Path):
    made = Ledger(tmp_path / "ledger.db")
    yield made
    made.close()


@pytest.mark.feature("usage.owner-parent-first")
def test_a_declared_parent_owns_what_its_fork_repeats_though_the_fork_went_on_earlier(ledger):
    captured(ledger, "parent", ts=JUNE)
    captured(ledger, "fork", ts=MAY, parent="parent")
    ledger.record_normalized([decoded("fork", {"k": 1, "own": 5}), decoded("parent", {"k": 1, "later": 900})], code_version=1)

    assert ledger.copies(Cell("toy", "2026-05")) == {("fork", "k"): ("parent", BEFORE_FORK)}
    assert ledger.copies(Cell("toy", "2026-06")) == {}


@pytest.mark.feature("usage.owner-earliest")
def test_without_a_declared_parent_the_earliest_own_record_wins_and_a_bare_copy_never(ledger):
    for name in ("a-copy", "b-later", "c-first"):
        captured(ledger, name)
    ledger.record_normalized(
        [decoded("a-copy", {"k": 1}), decoded("b-later", {"k": 1, "x": 50}), decoded("c-first", {"k": 1, "y": 20})], code_version=1
    )

    assert all_copies(ledger) == {("a-copy", "k"): ("c-first", EARLIEST), ("b-later", "k"): ("c-first", EARLIEST)}


@pytest.mark.feature("usage.owner-by-id")
def test_two_equal_copies_are_told_apart_by_id(ledger):
    captured(ledger, "b")
    captured(ledger, "a")
    ledger.record_normalized([decoded("b", {"k": 1}), decoded("a", {"k": 1})], code_version=1)

    assert all_copies(ledger) == {("b", "k"): ("a", BY_ID)}


@pytest.mark.feature("usage.owner-change-is-reported")
def test_a_session_that_takes_calls_over_names_the_cell_that_loses_them(ledger):
    captured(ledger, "fork", ts=JUNE, parent="parent")
    assert ledger.record_normalized([decoded("fork", {"k": 1, "own": 2})], code_version=1) == set()
    before = ledger.cell_fingerprint(Cell("toy", "2026-06"))

    captured(ledger, "parent", ts=MAY)
    assert ledger.record_normalized([decoded("parent", {"k": 1})], code_version=1) == {Cell("toy", "2026-06")}
    assert ledger.cell_fingerprint(Cell("toy", "2026-06")) != before

    assert ledger.record_normalized([decoded("parent", {})], code_version=1) == {Cell("toy", "2026-06")}
    assert ledger.cell_fingerprint(Cell("toy", "2026-06")) == before


@pytest.mark.feature("usage.owner-change-is-reported")
def test_forgetting_the_owner_gives_its_calls_to_the_copy(ledger):
    captured(ledger, "fork", ts=JUNE, parent="parent")
    captured(ledger, "parent", ts=MAY)
    ledger.record_normalized([decoded("fork", {"k": 1}), decoded("parent", {"k": 1})], code_version=1)

    assert ledger.forget([stream_of("parent")]) == {Cell("toy", "2026-05"), Cell("toy", "2026-06")}
    assert all_copies(ledger) == {}
    assert ledger.query("SELECT count(*) FROM owners") == [(0,)]


@pytest.mark.feature("usage.owner-same-totals")
@pytest.mark.parametrize("order", list(permutations(["first", "parent", "fork"])))
def test_calls_with_the_running_totals_of_an_ancestor_before_them_are_copies_in_all_orders(tmp_path, order):
    calls = {
        "first": {"first:100": 1, "first:200": 2, "first:250": 3, "first:900": 80},
        "parent": {"parent:200": 20, "parent:250": 21, "parent:300": 22},
        "fork": {"fork:200": 50, "fork:250": 51, "fork:300": 52, "fork:900": 60, "fork:100": 70},
    }
    ledger = Ledger(tmp_path / "ledger.db")
    for name in order:
        captured(ledger, name, parent={"parent": "first", "fork": "parent"}.get(name))
        ledger.record_normalized([decoded(name, calls[name])], code_version=1)

    # what the first thread made at 80 is no call that a fork could have copied at 60, and what follows an own call is its own
    assert all_copies(ledger) == {
        ("parent", "parent:200"): ("first", SAME_TOTALS),
        ("parent", "parent:250"): ("first", SAME_TOTALS),
        ("fork", "fork:200"): ("first", SAME_TOTALS),
        ("fork", "fork:250"): ("first", SAME_TOTALS),
        ("fork", "fork:300"): ("parent", SAME_TOTALS),
    }
    assert {row.session_id: row.first_own_ts for row in ledger.sessions(host="toy")} == {"first": 1, "parent": 22, "fork": 60}
    ledger.forget([stream_of("first")])
    assert all_copies(ledger) == {("fork", f"fork:{totals}"): ("parent", SAME_TOTALS) for totals in (200, 250, 300)}
    ledger.close()


@pytest.mark.feature("usage.owner-same-totals")
def test_a_thread_that_begins_like_its_parent_is_no_copy(ledger):
    captured(ledger, "parent")
    captured(ledger, "fork", parent="parent")
    ledger.record_normalized(
        [decoded("parent", {"parent:100": 1, "parent:200": 2}), decoded("fork", {"fork:100": 50, "fork:250": 60})], code_version=1
    )
    assert all_copies(ledger) == {}


@pytest.mark.feature("usage.owner-same-totals")
@pytest.mark.parametrize(("gap", "calls", "copied"), [(20, 2, 2), (40, 2, 0), (40, 3, 3), (4_000, 5, 5)])
def test_three_calls_with_the_totals_of_the_parent_are_a_copy_however_slowly_it_was_written(ledger, gap, calls, copied):
    captured(ledger, "parent")
    captured(ledger, "fork", parent="parent")
    made = {f"parent:{n}00": n for n in range(1, 7)}
    written = {f"fork:{n}00": 100 + n * gap * 1_000_000 for n in range(1, calls + 1)}
    own = {"fork:999": 100 + (calls + 2) * gap * 1_000_000}
    ledger.record_normalized([decoded("parent", made), decoded("fork", written | own)], code_version=1)
    assert all_copies(ledger) == {("fork", key): ("parent", SAME_TOTALS) for key in list(written)[:copied]}


@pytest.mark.feature("usage.owner-same-calls")
@pytest.mark.parametrize("order", list(permutations(["a", "b", "went-on", "alike"])))
def test_a_session_that_was_copied_under_another_id_counts_once_in_all_orders(tmp_path, order):
    calls = {
        "a": {"a:100": 1, "a:200": 2, "a:300": 3},
        "b": {"b:100": 1, "b:200": 2, "b:300": 3},
        "went-on": {"went-on:100": 1, "went-on:200": 2, "went-on:350": 9, "went-on:400": 10},
        "alike": {"alike:100": 1, "alike:250": 2, "alike:300": 3},
    }
    ledger = Ledger(tmp_path / "ledger.db")
    for name in order:
        captured(ledger, name)
        ledger.record_normalized([decoded(name, calls[name])], code_version=1)

    # one equal call may be chance; what was done behind the copied calls is the copy's own
    assert all_copies(ledger) == {
        **{("b", f"b:{totals}"): ("a", SAME_CALLS) for totals in (100, 200, 300)},
        **{("went-on", f"went-on:{totals}"): ("a", SAME_CALLS) for totals in (100, 200)},
    }
    assert ledger.copied_sessions() == {("toy", "b"): "a"}
    ledger.forget([stream_of("a")])
    assert all_copies(ledger) == {("went-on", f"went-on:{totals}"): ("b", SAME_CALLS) for totals in (100, 200)}
    ledger.record_normalized([decoded("b", {"b:100": 1, "b:250": 2})], code_version=1)
    assert all_copies(ledger) == {("b", f"b:{totals}"): ("alike", SAME_CALLS) for totals in (100, 250)}
    ledger.close()


@pytest.mark.feature("usage.owner-order")
def test_a_chain_of_forks_settles_the_same_in_all_orders(tmp_path):
    calls = {"a": {"1": 1, "2": 2}, "b": {"1": 1, "2": 2, "3": 3}, "c": {"1": 1, "2": 2, "3": 3, "4": 4}, "d": {"3": 3, "9": 9}}
    parents = {"b": "a", "c": "b"}
    expected = {
        ("b", "1"): ("a", BEFORE_FORK), ("b", "2"): ("a", BEFORE_FORK), ("c", "1"): ("a", BEFORE_FORK),
        ("c", "2"): ("a", BEFORE_FORK), ("c", "3"): ("d", EARLIEST), ("b", "3"): ("d", EARLIEST),
    }  # fmt: skip
    for number, order in enumerate(permutations(calls)):
        ledger = Ledger(tmp_path / f"{number}.db")
        for name in order:
            captured(ledger, name, parent=parents.get(name))
            ledger.record_normalized([decoded(name, calls[name])], code_version=1)
        assert all_copies(ledger) == expected
        ledger.close()


SESSIONS = ("s1", "s2", "s3", "s4")
WORLDS = st.fixed_dictionaries(
    {name: st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(1, 5)), max_size=4) for name in SESSIONS}
)
PARENTS = st.fixed_dictionaries({name: st.one_of(st.none(), st.sampled_from(SESSIONS)) for name in SESSIONS})


@pytest.mark.feature("usage.owner-order")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=WORLDS, older=WORLDS, parents=PARENTS, order=st.permutations(SESSIONS), together=st.booleans())
def test_ownership_is_a_function_of_the_contents(tmp_path_factory, world, older, parents, order, together):  # noqa: PLR0917 - drawn by name
    """Any order, one by one or at once, after other contents or none: the same owners, one for each shared call."""

    def settled(steps: list[list[NormalizedSession]]) -> dict:
        ledger = Ledger(tmp_path_factory.mktemp("owners") / "ledger.db")
        try:
            for name in SESSIONS:
                captured(ledger, name)
            for step in steps:
                ledger.record_normalized(step, code_version=1)
            return all_copies(ledger)
        finally:
            ledger.close()

    final = {name: decoded(name, world[name], parent_session=parents[name]) for name in SESSIONS}
    straight = settled([list(final.values())])
    before = [[decoded(name, older[name], parent_session=parents[order[0]])] for name in SESSIONS]
    rows = [final[name] for name in order]
    assert settled(before + ([rows] if together else [[row] for row in rows])) == straight

    for key in "abcdef":
        holders = {name for name in SESSIONS if key in world[name]}
        copies = {session: owner[0] for (session, k), owner in straight.items() if k == key}
        assert len(copies) == max(0, len(holders) - 1)
        assert not copies or holders - copies.keys() == set(copies.values())
