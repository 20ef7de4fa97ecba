"""How full a context window was, of the size that the host recorded."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.dashboard.transcript import transcript
from ctx_pipeline.facts.windows import SOURCES, automatic, peak, window_size
from ctx_pipeline.model.tables import MODEL_CALLS, THREADS
from ctx_pipeline.sessions.reports.rot_reports import CapturedSession
from ctx_pipeline.storage.warehouse.transcript_queries import NO_ROWS, CallRow, EventRow
from ctx_pipeline_tests.factories import codex as make
from ctx_pipeline_tests.factories.views import view


@pytest.mark.feature("facts.windows")
def test_what_the_host_recorded_comes_before_what_is_published():
    assert window_size(258_400, "gpt-4o-mini", 235_144) == (258_400, "recorded")
    assert window_size(None, "gpt-4o-mini", 100) == (128_000, "published")
    assert window_size(None, "gpt-4o-mini", 130_000) == (1_000_000, "exceeded")
    assert window_size(None, "no-such-model", 130_000) == (None, None)


@pytest.mark.feature("facts.windows")
@pytest.mark.parametrize("recorded", [None, 0, -1, "258400", 10**15, True])
def test_a_size_out_of_reason_is_no_size(recorded):
    started = make.event(1, "task_started", model_context_window=recorded)
    (thread,) = make.parse(make.stream([make.meta(), started])).threads
    assert thread.context_window is None


@pytest.mark.feature("facts.windows")
def test_a_rollout_names_the_size_of_its_window_and_the_fullest_call_is_measured_against_it():
    total, more = make.usage(1_000, 0, 10), make.usage(236_144, 0, 20)
    records = [
        make.meta(),
        make.context(1),
        make.event(1, "task_started", model_context_window=200_000),
        make.tokens(2, total, total),
        make.tokens(3, more, make.usage(235_144, 0, 10)),
    ]
    records[-1]["payload"]["info"]["model_context_window"] = 258_400
    parsed = make.parse(make.stream(records))
    assert parsed.threads[0].context_window == 258_400
    built = view()
    built.model_calls = [MODEL_CALLS.row(*row) for row in parsed.model_calls]
    blank = dict.fromkeys(THREADS.names)
    built.threads = [THREADS.row(**{**blank, "thread_id": make.THREAD, "context_window": 258_400})]
    found = peak(built.build())
    assert found is not None
    assert round(found.share, 2) == 0.91
    assert (found.call.context_tokens, found.window) == (235_144, (258_400, "recorded"))


OPUS = "claude-opus-4-6"


@pytest.mark.feature("facts.windows")
def test_an_automatic_compaction_below_the_published_size_shows_the_smaller_window():
    assert window_size(None, OPUS, 173_215, host="claude", compacted=174_247) == (200_000, "compacted")
    assert window_size(None, "claude-sonnet-5", 173_215, host="claude", compacted=174_247) == (200_000, "compacted")
    assert window_size(None, OPUS, 250_000, host="claude", compacted=174_247) == (1_000_000, "published"), "a larger prompt was in it"
    assert window_size(None, OPUS, 350_000, host="claude", compacted=367_000) == (1_000_000, "published")
    assert window_size(300_000, OPUS, 173_215, host="claude", compacted=174_247) == (300_000, "recorded")
    assert window_size(None, "claude-opus-4-5", 154_505, host="claude", compacted=157_692) == (200_000, "published")
    assert window_size(None, "claude-sonnet-5", 76_000, host="claude", compacted=76_144) == (1_000_000, "published"), "far from full"


@pytest.mark.feature("facts.windows")
def test_the_size_of_a_window_that_depends_on_the_plan_is_not_known_without_a_proof():
    assert window_size(None, OPUS, 150_000, host="claude") == (None, None)
    assert window_size(None, OPUS, 76_000, host="claude", compacted=76_144) == (None, None)
    assert window_size(None, OPUS, 200_001, host="claude") == (1_000_000, "published")
    assert window_size(None, f"{OPUS}[1m]", 150_000, host="claude") == (1_000_000, "published")
    assert window_size(None, "claude-sonnet-5", 150_000, host="claude") == (1_000_000, "published"), "every plan has that"
    assert window_size(None, OPUS, 150_000, host="codex") == (1_000_000, "published"), "another host has no such plans"
    assert window_size(None, "no-such-model", 150_000, host="claude", compacted=174_247) == (None, None)


@pytest.mark.feature("facts.windows")
@pytest.mark.parametrize(
    "told",
    [
        {"trigger": "manual", "preTokens": 174_247},
        {"trigger": "auto", "preTokens": 60_364, "tokensSaved": 21_294},
        {"trigger": "auto", "preTokens": None},
        {"trigger": "auto", "preTokens": -1},
        ["auto"],
    ],
)
def test_only_a_compaction_by_the_host_of_a_full_window_shows_a_size(told):
    assert automatic([("e1", json.dumps(told)), ("e2", "{"), ("e3", None)]) == (None, None)


@pytest.mark.feature("facts.windows")
def test_the_compaction_that_shows_the_size_is_named_and_is_that_of_the_same_thread():
    cut = json.dumps({"trigger": "auto", "preTokens": 174_247})
    session = view().prompt("go").model(173_215, 10, model="claude-sonnet-5").other("compaction", cut, "system/compact_boundary")
    found = peak(session.build())
    assert (found.window, found.compaction, round(found.share, 2)) == ((200_000, "compacted"), "s1.e2", 0.87)
    elsewhere = view().prompt("go").model(173_215, 10, model="claude-sonnet-5").on("agent").other("compaction", cut)
    assert peak(elsewhere.build()).window == (1_000_000, "published")
    assert {found.window.source, "recorded", "published", "exceeded"} == SOURCES.keys()


@pytest.mark.feature("facts.windows")
def test_the_page_and_the_rot_view_measure_against_the_same_size():
    cut = json.dumps({"trigger": "auto", "preTokens": 174_247})
    session = view().on("s1").prompt("go").model(173_215, 10, model="claude-sonnet-5").other("compaction", cut)
    built = session.build()
    call = CallRow("s1.m0", 0, 0, "claude-sonnet-5", 173_215, 10, 0, 0, 173_215, None, True)
    events = [EventRow(0, e.seq, e.ts // 1000, e.kind, e.event_id, e.call_key, e.text) for e in built.events]
    drawn = transcript(NO_ROWS._replace(events=events, calls=[call]), {}, "claude").summary
    assert drawn["window"] == [peak(built).window.tokens, SOURCES["compacted"]]
    assert CapturedSession(built).get_session("s1")["context_window"] == peak(built).window.tokens == 200_000
