"""``ctx rot analyze`` and the signals of context rot count the same repetitions of a session."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline.pipeline.signals.signal_inputs import analyses
from ctx_pipeline.rot.analysis import analyze_session
from ctx_pipeline.sessions.reports.rot_reports import CapturedSession
from ctx_pipeline_tests.factories.views import view

SIGNALS = discovery.signals()
RUNNING = "Chunk ID: 1a\nWall time: 30.0 seconds\nProcess running with session ID 77\nOutput:\n   Compiling app v0.1.0\n"
HEAD = " ".join(f"word{n}" for n in range(120))


@pytest.mark.feature("rot.one-reading")
def test_the_report_and_the_signals_count_the_same_repetitions():
    built = view().prompt("go on")
    for step in range(12):
        # the first hundred words are those of two calls before, what follows is of this call alone
        own = " ".join(f"own{step}x{n}" for n in range(400))
        built.model(1_000 + step, 20, said=f"{HEAD} {own}" if step % 2 else f"other {step} {own}")
    session = built.build()
    session.analyses = analyses()

    report = analyze_session(CapturedSession(session, "main"), session.session_id)
    signals = {name: take(SIGNALS[name], session) for name in ("looping_completion_count", "completion_repetition", "context_rot_score")}

    assert sum(loop["calls"] for loop in report["loops"]) == signals["looping_completion_count"].value == 5
    assert report["summary"]["max_repetition"] == signals["completion_repetition"].value
    assert report["verdict"]["score"] == signals["context_rot_score"].value
    assert "5 completions say again what was said earlier, 2 calls before, from call 4 on" in [
        r["text"] for r in report["verdict"]["reasons"]
    ]


@pytest.mark.feature("rot.one-reading")
def test_waiting_for_a_command_that_still_runs_says_nothing_again():
    def of(answer: str) -> tuple[float | str | None, ...]:
        built = view(host="codex").model(1_000, 20).shell("cargo test", exit=None, text=answer)
        for step in range(14):
            built.model(1_010 + step, 20).tool("write_stdin", action="shell", text=answer)
            place = next(n for n in range(len(built.events) - 1, -1, -1) if built.events[n].kind == "tool_call")
            built.events[place] = built.events[place]._replace(text='{"session_id": 77, "chars": "", "yield_time_ms": 30000}')
        session = built.build()
        session.analyses = analyses()
        report = analyze_session(CapturedSession(session, "main"), session.session_id)
        assert report["verdict"]["score"] == take(SIGNALS["context_rot_score"], session).value
        return take(SIGNALS["completion_repetition"], session).value, take(SIGNALS["looping_completion_count"], session).value

    assert of(RUNNING) == (0, 0)
    # the same call again that waits for nothing is a repetition
    assert of("Chunk ID: 1a\nOutput:\n")[0] == 1
