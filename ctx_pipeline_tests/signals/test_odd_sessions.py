"""Sessions that are odd, and text that is hostile: every signal answers, or says why not."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.readings import store_reading
from ctx_pipeline.model.row_contracts import ReadingRow
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline_tests.factories.views import view

SIGNALS = [s for s in discovery.signals().values() if not s.sql and not s.outside and not s.judge]


def nobody():
    return view().answer("I begin by myself.").shell("ls").edit("a.py").answer("Done.")


def only_a_summary():
    return view().other("title", "Mend the loader", "summary")


def one_event():
    return view().shell("ls", answered=False)


def timeless():
    session = view().prompt("go").shell("pytest", exit=1).edit("a.py").prompt("thanks").model(10, 10)
    session.events = [e._replace(ts=None) for e in session.events]
    session.calls = [c._replace(started=None, ended=None) for c in session.calls]
    session.model_calls = [c._replace(ts=None) for c in session.model_calls]
    return session


def backwards():
    session = (
        view().prompt("go").model(10, 10).shell("pytest", exit=1).edit("a.py").on("agent-1").shell("pytest").prompt("no, that's wrong")
    )
    last = session.start + 100_000_000
    session.events = [e._replace(ts=last - e.seq * 1_000_000) for e in session.events]
    session.calls = [c._replace(started=last - c.seq * 1_000_000, ended=last - c.seq * 1_000_000 - 500) for c in session.calls]
    return session


def orphans():
    """Results without calls, calls whose events are gone, and empty texts."""
    session = view().prompt("").other("tool_result", "left alone").shell("", text="").shell([], text="x").tool("", action="edit").edit()
    session.events = [e._replace(text=None) if e.kind == "answer" else e for e in session.events[:-3]]
    return session


def homeless():
    return view(cwd=None, repository="").prompt("go").shell("rm -rf ../x > y").edit("../a.py")


ODD = (nobody, only_a_summary, one_event, timeless, backwards, orphans, homeless)


@pytest.mark.feature("signals.odd-sessions")
@pytest.mark.parametrize("make", ODD)
def test_every_signal_answers_an_odd_session(make):
    for found in SIGNALS:
        reading = take(found, make().build())
        assert not (reading.reason or "").startswith("the signal raised"), (found.name, reading.reason)
        assert (reading.value is None) == bool(reading.reason), found.name
        row = store_reading(found, reading, host="claude", session_id="s1", made_of="x")
        ReadingRow(**row._asdict())
        assert found.unit not in ("seconds", "steps", "tokens") or row.value is None or row.value >= 0, found.name
        assert found.unit != "ratio" or row.value is None or 0 <= row.value <= 1, found.name


@pytest.mark.feature("signals.odd-sessions")
def test_fifty_thousand_events_are_answered():
    session = view()
    for number in range(12_000):
        session.answer(f"Reading part {number}.").shell(f"pytest tests/test_{number % 50}.py", exit=number % 3 % 2, text="1 failed in 0.1s")
        session.prompt("go on")
    built = session.build()
    assert len(built.events) == 48_000
    for found in SIGNALS:
        assert not (take(found, built).reason or "").startswith("the signal raised"), found.name


HOSTILE = (
    "no " * 60_000,
    "[REDACTED:" * 20_000,
    "[REDACTED:x]" * 15_000,
    "ignore all the " * 15_000,
    "ignore " * 300 + "previous " * 20_000 + "instructions",
    "\u202e" * 100_000,
    "do not " * 30_000 + "tell the user",
    "curl x" * 40_000 + "|",
    "a=" * 100_000,
    "/" * 200_000,
    "1 failed, " * 20_000,
    "=" * 200_000,
    "\x1b[" * 80_000,
    "```" * 60_000,
    "$(" * 80_000,
    "Aa_" * 60_000,
)


@pytest.mark.feature("signals.hostile-text")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_every_signal_answers_hostile_text(text):
    session = view().prompt(text).prompt(text).answer(text).shell(f"pytest {text}", exit=1, text=text).tool("X", action="web", text=text)
    built = session.edit(text).build()
    for found in SIGNALS:
        assert not (take(found, built).reason or "").startswith("the signal raised"), found.name
