"""Profiles: listed, switched, built on others, tried on recorded sessions."""

from __future__ import annotations

import pytest

from ctx_pipeline.context.session_state.state import BUILT_INS, named, profiles
from ctx_pipeline.errors import SettingsError, UnknownName
from ctx_pipeline.sessions.profiles import evaluate_profile
from ctx_pipeline_tests.sessions.conftest import Shop


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
    ["[", 'extends = "nobody"', "colour = 3", "resume_tokens = 5", "snapshot_bytes = true", 'extends = "b"', 'tool_calls = "many"'],
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


def test_an_unknown_profile_names_those_that_are_near():
    with pytest.raises(UnknownName) as caught:
        named("hotfx", BUILT_INS)
    assert "hotfix" in caught.value.hint
