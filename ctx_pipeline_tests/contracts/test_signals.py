"""What holds for every signal that discovery finds."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.declared import Reading
from ctx_pipeline.model.readings import store_reading
from ctx_pipeline.model.row_contracts import ReadingRow
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENT_KINDS, TABLES
from ctx_pipeline.pipeline.facts import MAKERS
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline_tests.contracts import examples_of_context, examples_of_work
from ctx_pipeline_tests.factories.views import view

SIGNALS = discovery.signals()


def troubled():
    """A session in which things go wrong and are mended."""
    return (
        view()
        .prompt("make the tests pass")
        .shell("pytest -q", exit=1, text="E   KeyError: 'a'")
        .answer("The key is missing because the loader drops it.")
        .edit("/w/app/a.py")
        .shell("pytest -q", text="3 passed")
        .prompt("no, that's wrong, don't touch the loader")
        .injected("[Request interrupted by user]", "interrupt")
    )


EXAMPLES = {**examples_of_work.EXAMPLES, **examples_of_context.EXAMPLES}
"""signal -> two sessions made by hand with the value that a person counts in them"""


@pytest.mark.feature("signals.contract")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_signal_hold(name):
    assert len(EXAMPLES[name]) >= 2
    for make, value in EXAMPLES[name]:
        found = take(SIGNALS[name], make().build())
        assert found.value == value


@pytest.mark.feature("signals.contract")
@pytest.mark.parametrize("found", SIGNALS.values(), ids=SIGNALS)
def test_a_signal_says_what_it_is_and_how_to_read_it(found):
    first, _, second = found.describe.partition("\n\n")
    assert first.endswith(".")
    assert len(second) > 40, "the second paragraph says how to read the number"
    assert found.group in {"activity", "outcome", "cost", "risk", "context", "behavior"}
    assert found.kind in {"numeric", "boolean", "categorical", "text"}
    assert found.better in {"higher", "lower", "neither"}
    assert found.unit or found.kind != "numeric"
    assert set(found.reads) <= set(TABLES)
    assert set(found.kinds) <= set(EVENT_KINDS)


@pytest.mark.feature("signals.contract")
@pytest.mark.parametrize("found", SIGNALS.values(), ids=SIGNALS)
def test_a_signal_is_deterministic_rests_on_events_of_the_session_and_gives_a_reason_for_null(found):
    for make in _sessions(found.name):
        built = make().build()
        first, again = take(found, built), take(found, make().build())
        assert isinstance(first, Reading)
        assert first == again
        assert set(first.evidence) <= set(built.by_event)
        assert (first.value is None) == bool(first.reason)
        ReadingRow(**store_reading(found, first, host="claude", session_id="s1", made_of="x")._asdict())


@pytest.mark.feature("signals.contract")
@pytest.mark.parametrize("found", SIGNALS.values(), ids=SIGNALS)
def test_a_signal_needs_only_the_tables_and_kinds_that_it_declares(found):
    for make in _sessions(found.name):
        built = make().build()
        events = [e for e in built.events if "events" in found.reads and (not found.kinds or e.kind in found.kinds)]
        rows = {table: getattr(built, table) if table in found.reads else [] for table in ("tool_calls", "model_calls", "threads")}
        narrow = {table: [_narrowed(found, table, row) for row in members] for table, members in {**rows, "events": events}.items()}
        facts = {name: make_rows(built) for name, make_rows in MAKERS.items() if name in found.reads}
        view = SessionView(built.session, facts=facts, seen=built.seen, analyses=built.analyses, **narrow)
        assert take(found, view) == take(found, built)


@pytest.mark.feature("signals.columns")
@pytest.mark.parametrize("found", SIGNALS.values(), ids=SIGNALS)
def test_a_signal_of_ours_names_the_columns_that_a_backfill_of_its_family_reads(found):
    wide = {"events", "tool_calls", "model_calls", "threads"} & set(found.reads) - set(found.columns)
    assert found.sql or not wide, f"{found.name} reads all columns of {wide}"


def _narrowed(found, table, row):
    """Return a row without the columns that the signal does not declare."""
    wanted = {"session_id", *found.columns[table]} if table in found.columns else set(row._fields)
    return row._replace(**{name: None for name in row._fields if name not in wanted})


def _sessions(name):
    """Return makers of sessions to try a signal on: its own examples, a session with troubles and one without events."""
    return dict.fromkeys((troubled, view, *(make for make, _ in EXAMPLES.get(name, ()))))
