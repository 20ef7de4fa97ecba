"""How full a context window was, of the size that the host recorded."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.windows import peak, window_size
from ctx_pipeline.model.tables import MODEL_CALLS, THREADS
from ctx_pipeline_tests.factories import codex as make
from ctx_pipeline_tests.factories.views import view


@pytest.mark.feature("facts.windows")
def test_what_the_host_recorded_comes_before_what_is_published():
    assert window_size(258_400, "gpt-4o-mini", 235_144) == (258_400, "recorded")
    assert window_size(None, "gpt-4o-mini", 100) == (128_000, "published")
    assert window_size(None, "gpt-4o-mini", 130_000) == (1_000_000, "published")
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
    found = peak(built)
    assert found is not None
    assert round(found.share, 2) == 0.91
    assert (found.call.context_tokens, found.window) == (235_144, (258_400, "recorded"))
