"""Profiles: listed, switched, built on others, tried on recorded sessions."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from ctx_pipeline.context.session_state.snapshot import block, snapshot
from ctx_pipeline.context.session_state.state import BUILT_INS, CheckRun, FileState, Item, Profile, SessionState, named, profiles
from ctx_pipeline.errors import SettingsError, UnknownName
from ctx_pipeline.mcp_server.session_tools import SessionTools
from ctx_pipeline.memory.prompt_block import estimate
from ctx_pipeline.sessions.states.handoff import resume
from ctx_pipeline.sessions.states.profiles import evaluate_profile
from ctx_pipeline_tests.sessions.conftest import WORK, Shop


@pytest.mark.feature("session.profiles")
def test_profiles_are_listed_and_switched_and_size_what_is_made(own: Shop, monkeypatch):
    before = own.json(monkeypatch, "session", "profile")
    assert (before["active"], {p["name"] for p in before["profiles"]}) == ("coder", set(BUILT_INS))
    assert own.json(monkeypatch, "session", "resume")["budget"] == 500

    assert own.ctx(monkeypatch, "session", "profile", "hotfix").stdout == "switched to hotfix\n"
    assert own.json(monkeypatch, "session", "resume")["budget"] == 200
    assert own.json(monkeypatch, "session", "snapshot")["bytes"] <= 1024
    printed = own.ctx(monkeypatch, "session", "profile").stdout.splitlines()
    assert [line.split()[:2] for line in printed if line.startswith("*")] == [["*", "hotfix"]]
    assert [line.split()[7] for line in printed if line.startswith("* hotfix")] == ["1.00"]  # as every other one, in dollars and cents
    tried = own.ctx(monkeypatch, "session", "profile", "hotfix", "--try").stdout
    assert "  cost_usd above $1.00: 0 sessions" in tried
    assert isinstance(own.ctx(monkeypatch, "session", "profile", "nobody").exception, UnknownName)


@pytest.mark.feature("session.profile-files")
def test_a_profile_of_ones_own_builds_on_another(own: Shop, monkeypatch):
    folder = own.settings.home / "profiles"
    folder.mkdir()
    (folder / "night.toml").write_text('extends = "hotfix"\ndescription = "after ten"\ntool_calls = 5\n')
    (folder / "deep.toml").write_text('extends = "night"\nresume_tokens = 90\n')
    found = profiles(folder)

    assert (found["night"].source, found["night"].tool_calls, found["night"].snapshot_bytes) == ("own", 5, 1024)
    assert (found["deep"].tool_calls, found["deep"].resume_tokens, found["deep"].description) == (5, 90, "after ten")
    own.ctx(monkeypatch, "session", "profile", "deep")
    assert own.json(monkeypatch, "session", "resume")["budget"] == 90
    (folder / "deep.toml").unlink()
    assert own.json(monkeypatch, "session", "profile")["active"] == "coder"


@pytest.mark.feature("session.profile-files")
@pytest.mark.parametrize(
    "text",
    [
        "[",
        'extends = "nobody"',
        "colour = 3",
        "resume_tokens = 5",
        "snapshot_bytes = true",
        'extends = "b"',
        'tool_calls = "many"',
        'keep_first = ["all"]',
        'leave_out = "files"',
        "warn_at = 2",
    ],
)
def test_a_profile_that_cannot_be_used_is_an_error(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    (tmp_path / "b.toml").write_text('extends = "a"')
    with pytest.raises(SettingsError):
        profiles(tmp_path)


@pytest.mark.feature("session.profiles")
def test_a_profile_is_tried_on_recorded_sessions_and_switches_nothing(own: Shop, monkeypatch):
    (own.settings.home / "profiles").mkdir()
    (own.settings.home / "profiles" / "tiny.toml").write_text("tool_calls = 5\ncontext_tokens = 5000\ncost_usd = 0\n")
    found = evaluate_profile("tiny", cwd=str(own.clone), settings=own.settings)

    assert found.to_json() == {
        "profile": "tiny",
        "sessions": 2,
        "over": {"context_tokens": 1, "tool_calls": 1, "cost_usd": 0},
        "used": 1,
        "held": 1,
    }
    printed = own.ctx(monkeypatch, "session", "profile", "tiny", "--try").stdout
    assert "tool_calls above 5: 1 session" in printed
    assert own.json(monkeypatch, "session", "profile")["active"] == "coder"


def state() -> SessionState:
    """A state of which a block of 60 tokens holds a part."""
    said = [Item(f"finding number {n} of the cart", "agent") for n in range(3)]
    files = [FileState(f"F{n}", f"shop/part_{n}.py", 0, 1, 0, n, "e1") for n in range(3)]
    check = CheckRun("pytest -q", "test", 5, 0, ok=True, stale=False, event="e2", result="passed")
    ask, answer = Item("Fix the sum of the cart", "prompt", event="e0"), Item("The sum is fixed.", "answer", event="e3")
    return SessionState(
        "claude", "s1", project="shop", asked_first=ask, findings=said, files=files, checks=[check], tests=check, answer=answer
    )


@pytest.mark.feature("session.profile-behaviour")
def test_a_profile_says_which_parts_stay_first_and_which_are_not_told():
    def kept(profile: Profile, budget: int = 210) -> list[str]:
        return [line.about for line in block(state(), len, budget, profile=profile).lines]

    assert kept(BUILT_INS["coder"], 10**6) == ["task", "files", "findings", "findings", "findings", "tests", "answer"]
    assert kept(BUILT_INS["hotfix"], 10**6) == ["task", "files", "findings", "findings", "findings", "tests"]
    assert "findings" not in kept(BUILT_INS["coder"])
    assert kept(BUILT_INS["review"]).count("findings") == 3
    assert kept(replace(BUILT_INS["coder"], leave_out=("task", "files", "answer"))) == ["task", "findings", "findings", "tests"]


@pytest.mark.feature("session.profile-behaviour")
def test_a_snapshot_keeps_what_its_profile_says_and_names_what_it_left_out():
    made = snapshot(state(), 10_000, replace(BUILT_INS["coder"], leave_out=("files",)))
    assert ET.fromstring(made.xml).find("files") is None
    assert made.dropped == {"files": [f"shop/part_{n}.py" for n in reversed(range(3))]}
    files = [FileState(f"F{n}", f"shop/part_{n}.py", 0, 1, 0, n, "e1") for n in range(30)]
    large = replace(state(), files=files, findings=[Item(f"finding {n}: {'x' * 90}", "agent") for n in range(6)])
    first = replace(BUILT_INS["coder"], keep_first=("findings",))
    assert (snapshot(large, 1_400, first).kept["findings"], snapshot(large, 1_400).kept["findings"]) == (6, 2)


@pytest.mark.feature("session.profile-behaviour")
def test_a_session_near_its_limits_is_warned_of_and_one_beyond_them_too(own: Shop, monkeypatch):
    folder = own.settings.home / "profiles"
    folder.mkdir()

    def warned(text: str) -> list[str]:
        (folder / "tight.toml").write_text(text)
        own.ctx(monkeypatch, "session", "profile", "tight")
        printed = own.ctx(monkeypatch, "session", "status", "--session", WORK).stdout.splitlines()
        answer = SessionTools(own.settings, lambda *_, **__: {}).ctx_session("status", session_id=WORK)
        lines = [line for line in printed if "of profile tight" in line]
        assert [line for line in answer.text.splitlines() if "of profile tight" in line] == lines
        return lines

    assert warned("tool_calls = 10\ncontext_tokens = 0\ncost_usd = 0\n") == ["Near the limits of profile tight: 9 tool calls (at most 10)"]
    assert warned("tool_calls = 10\ncontext_tokens = 0\ncost_usd = 0\nwarn_at = 0.95\n") == []
    assert warned("tool_calls = 8\ncontext_tokens = 0\ncost_usd = 0\n") == ["Above the limits of profile tight: 9 tool calls (at most 8)"]


@pytest.mark.feature("session.profile-behaviour", "session.checkpoint-switches")
def test_a_profile_sets_the_calls_between_checkpoints_and_the_environment_outranks_it(own: Shop, monkeypatch):
    def calls() -> list[int]:
        marks = own.json(monkeypatch, "session", "checkpoints", "--session", WORK)["checkpoints"]
        return [m["tool_calls"] for m in marks if m["why"] == "interval"]

    assert calls() == []
    own.ctx(monkeypatch, "session", "profile", "hotfix")
    assert calls() == [5]
    monkeypatch.setenv("LEAN_CTX_CHECKPOINT_INTERVAL", "4")
    assert calls() == [4, 8]
    monkeypatch.setenv("LEAN_CTX_CHECKPOINT_INTERVAL", "0")
    assert calls() == []


@pytest.mark.feature("session.profile-behaviour")
def test_what_a_new_chat_is_told_unasked_follows_the_profile(own: Shop, monkeypatch):
    payload = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s-1", "cwd": str(own.clone)}
    said = resume(payload, host="claude", settings=own.settings)
    own.ctx(monkeypatch, "session", "profile", "hotfix")
    short = resume({**payload, "session_id": "s-2"}, host="claude", settings=own.settings)

    assert "The last answer" in said
    assert "The last answer" not in short
    assert estimate(short) <= 300
    (own.settings.home / "profiles").mkdir()
    (own.settings.home / "profiles" / "hotfix.toml").write_text("resume_tokens = 'many'")
    assert "\nWhere the work on shop stood (" in resume({**payload, "session_id": "s-3"}, host="claude", settings=own.settings)


def test_an_unknown_profile_names_those_that_are_near():
    with pytest.raises(UnknownName) as caught:
        named("hotfx", BUILT_INS)
    assert "hotfix" in caught.value.hint
