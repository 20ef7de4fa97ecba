"""Checkpoints that nobody asked for, limits of a profile that a session went beyond, and the switches of the environment."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ctx_pipeline.errors import UsageError
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.reports.repeated_reads import window_files
from ctx_pipeline.sessions.states.state import checkpoints, make_snapshot
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.sessions.conftest import Shop

SHOP = "/w/shop"


@pytest.fixture
def long_session(store, chosen, environ):
    """A session of 34 reads, with a pause of an hour after the tenth, whose first files are read again at the end."""
    made = ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session(cwd="/w/shop")
    made.prompt("look at everything")
    for n in range(32):
        made.call(f"t{n}", "Read", f"value = {n}\n", file_path=f"/w/shop/part_{n}.py")
        if n == 9:
            made.started += timedelta(hours=1)
    for n in (0, 12):
        made.call(f"again{n}", "Read", f"value = {n}\n", file_path=f"/w/shop/part_{n}.py")
    made.save()
    ingest(store, chosen)
    return chosen


@pytest.mark.feature("session.checkpoints")
def test_checkpoints_lie_after_every_so_many_calls_and_before_a_pause(long_session):
    found = checkpoints(cwd=SHOP, settings=long_session)

    assert [(c.why, c.tool_calls) for c in found] == [("pause", 10), ("interval", 15), ("interval", 30)]
    assert [(c.used, c.held) for c in found] == [(1, 1), (2, 2), (2, 2)]
    made = make_snapshot(at=found[1].moment, cwd=SHOP, settings=long_session)
    assert "part_13.py" in made.xml
    assert "part_15.py" not in made.xml


@pytest.mark.feature("session.checkpoints")
def test_a_pause_behind_which_nothing_was_said_or_done_makes_no_second_checkpoint(store, chosen, environ):
    made = ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session(cwd="/w/shop")
    made.prompt("look at it")
    made.call("t0", "Read", "value = 0\n", file_path="/w/shop/part_0.py")
    for _ in range(3):
        made.started += timedelta(hours=1)
        made.system("api_error", "overloaded")
    made.started += timedelta(hours=1)
    made.prompt("go on")
    made.started += timedelta(hours=1)
    made.call("t1", "Read", "value = 1\n", file_path="/w/shop/part_1.py")
    made.save()
    ingest(store, chosen)

    assert [(c.why, c.tool_calls) for c in checkpoints(cwd=SHOP, recall=False, settings=chosen)] == [("pause", 1), ("pause", 1)]


@pytest.mark.feature("session.checkpoint-times")
def test_the_time_of_a_copy_and_one_before_an_earlier_record_are_unknown_and_make_no_pause(store, chosen, environ):
    """Thirty calls were stamped when the file was copied, a day later; the others ran in a minute, and one clock stood an hour behind."""
    made = ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"])).session(cwd="/w/shop")
    made.prompt("look at everything")
    for n in range(75):
        made.call(f"t{n}", "Read", f"value = {n}\n", file_path=f"/w/shop/part_{n}.py")
    calls = [r for r in made.records if r["type"] != "user" or isinstance(r["message"]["content"], list)]
    for record in calls[20:80]:
        record["timestamp"] = "2026-03-09T09:00:00.000Z"
    began = next(r["timestamp"] for r in made.records)
    for record in calls[118:122]:
        record["timestamp"] = began
    made.save()
    ingest(store, chosen)
    found = checkpoints(cwd=SHOP, recall=False, settings=chosen)

    assert [(c.why, c.tool_calls, c.at is None) for c in found] == [
        ("interval", 15, True),
        ("interval", 30, True),
        ("interval", 45, False),
        ("interval", 60, True),
        ("interval", 75, False),
    ]
    known = [c.at for c in found if c.at]
    assert known == sorted(known)
    assert make_snapshot(at=found[0].moment, cwd=SHOP, settings=chosen).xml


@pytest.mark.feature("session.checkpoints")
def test_the_interval_is_that_of_the_environment_and_nothing_is_none(long_session):
    def calls(interval: str) -> list[int]:
        settings = replace(long_session, environ={**long_session.environ, "LEAN_CTX_CHECKPOINT_INTERVAL": interval})
        return [c.tool_calls for c in checkpoints(cwd=SHOP, settings=settings) if c.why == "interval"]

    assert calls("10") == [10, 20, 30]
    assert calls("0") == []
    assert calls("") == [15, 30]
    with pytest.raises(UsageError, match="is no number: 'often'"):
        calls("often")


@pytest.mark.feature("session.cache-ttl-switch")
def test_the_life_of_a_cached_prompt_is_that_of_the_environment(long_session):
    settings = replace(long_session, environ={**long_session.environ, "LEAN_CTX_CACHE_TTL": "90"})

    assert window_files(cwd=SHOP, settings=settings).ttl == 90
    assert window_files(cwd=SHOP, settings=settings, ttl=7).ttl == 7
    assert window_files(cwd=SHOP, settings=long_session).ttl == 300
    often = replace(long_session, environ={**long_session.environ, "LEAN_CTX_CACHE_TTL": "often"})
    with pytest.raises(UsageError, match="LEAN_CTX_CACHE_TTL is no number: 'often'"):
        window_files(cwd=SHOP, settings=often)


@pytest.mark.feature("session.profiles")
def test_the_status_tells_which_limits_of_the_profile_a_session_went_beyond(own: Shop, monkeypatch):
    assert "Beyond" not in own.ctx(monkeypatch, "session", "status").stdout
    (own.settings.home / "profiles").mkdir()
    (own.settings.home / "profiles" / "tiny.toml").write_text("tool_calls = 2\ncontext_tokens = 100\ncost_usd = 0\n")
    own.ctx(monkeypatch, "session", "profile", "tiny")

    told = own.ctx(monkeypatch, "session", "status").stdout.splitlines()[-1]

    assert told.startswith("Above the limits of profile tiny: a prompt of ")
    assert told.endswith(" tool calls (at most 2)")
    assert "$" not in told


@pytest.mark.feature("session.checkpoints")
def test_checkpoints_are_listed_for_a_person(own: Shop, monkeypatch):
    monkeypatch.setenv("LEAN_CTX_CHECKPOINT_INTERVAL", "3")

    told = own.json(monkeypatch, "session", "checkpoints")

    assert next(c["tool_calls"] for c in told["checkpoints"] if c["why"] == "interval") == 3
    assert sum(c["held"] for c in told["checkpoints"]) == told["held"] <= told["used"]
