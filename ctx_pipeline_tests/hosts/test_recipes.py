"""How a host's sessions are resumed, hooked and run without a person is what its file declares, for any host."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.errors import SettingsError
from ctx_pipeline.hosts.codex import HOST as CODEX
from ctx_pipeline.integrations import agent_config
from ctx_pipeline.model.agent_config import Headless, HeadlessAnswer, HookFile, ServerFile
from ctx_pipeline.model.declared import Host
from ctx_pipeline.model.hook_kinds import CAPTURE, WEAVE
from ctx_pipeline.pipeline.models import model_mining
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.factories import agents


def last_word(records: Iterable[Mapping[str, Any]]) -> HeadlessAnswer:
    return HeadlessAnswer(*[str(r["squawk"]) for r in records][-1:])


PARROT: Host = replace(
    CODEX,
    key="parrot",
    title="Parrot",
    aliases=(),
    agent=replace(
        CODEX.agent,
        resume="parrot perch {session_id}",
        resume_in_folder=True,
        hooks=HookFile("cage/hooks.json", {"Dawn": WEAVE, "Dusk": CAPTURE}, matchers={"Dawn": "loud"}, timeout_seconds=3),
        server=ServerFile("cage.json", "json", "birds"),
        headless=Headless(
            ("parrot", "ask", "--form", "{schema}"), last_word, "parrot_headless", model=("--tongue", "{model}"), without=("CAGE",)
        ),
    ),
)


def test_every_host_of_ours_that_has_sessions_of_a_person_declares_how_they_are_resumed() -> None:
    declared = {
        key: bool(h.agent.resume and h.agent.hooks and h.agent.server and h.agent.headless)
        for key, h in discovery.hosts().items()
        if h.agent.session_env
    }
    assert declared == {"claude": True, "codex": True}


@pytest.mark.feature("hosts.declared-recipes")
def test_a_session_is_resumed_by_the_declared_command_from_the_declared_folder() -> None:
    assert PARROT.resuming("p 1", "/home/sam/cage") == "cd /home/sam/cage && parrot perch 'p 1'"
    assert replace(PARROT, agent=replace(PARROT.agent, resume_in_folder=False)).resuming("p1", "/home/sam/cage") == "parrot perch p1"
    assert replace(PARROT, agent=replace(PARROT.agent, resume="")).resuming("p1", "/home/sam/cage") == ""


@pytest.mark.feature("hosts.declared-recipes")
def test_hooks_are_entered_in_the_declared_file_for_the_declared_events_and_found_again(chosen: Settings, tmp_path: Path) -> None:
    home = tmp_path / "parrots"

    agent_config.install_hooks(chosen, PARROT, home, instructions=False)

    entered = json.loads((home / "cage" / "hooks.json").read_text())["hooks"]
    commands = {event: group["hooks"][0] for event, (group,) in entered.items()}
    assert set(entered) == {"Dawn", "Dusk"}
    assert (entered["Dawn"][0].get("matcher"), entered["Dusk"][0].get("matcher")) == ("loud", None)
    assert "hook weave parrot" in commands["Dawn"]["command"]
    assert "hook capture parrot" in commands["Dusk"]["command"]
    assert commands["Dawn"]["timeout"] == 3
    assert agent_config.hook_state(PARROT, home).way == "hooks"


@pytest.mark.feature("hosts.declared-recipes")
def test_the_server_is_entered_in_the_declared_table(chosen: Settings, tmp_path: Path) -> None:
    agent_config.install_server(chosen, PARROT, tmp_path / "cage.json")

    assert json.loads((tmp_path / "cage.json").read_text())["birds"]["ctx"]["args"][-1] == "mcp"


@pytest.mark.feature("hosts.declared-recipes")
def test_an_agent_is_asked_by_the_declared_command_and_read_as_declared(chosen: Settings, tmp_path: Path) -> None:
    agents.install(tmp_path / "bin", "parrot", [{"squawk": "hello"}, {"squawk": "hello again"}])
    person = replace(chosen, environ={"PATH": agents.path_of(tmp_path / "bin"), "CAGE": "open"})

    ran = model_mining.ask_agent(model_mining.agent(person, PARROT, {"model": "grey"}), "who is there?", {"type": "object"})

    given = agents.seen(tmp_path / "bin")
    assert ran.told == HeadlessAnswer("hello again")
    assert (given["argv"][:2], given["argv"][3:], given["question"]) == (["ask", "--form"], ["--tongue", "grey"], "who is there?")
    assert "CAGE" not in given["environ"]
    with pytest.raises(SettingsError, match="Parrot cannot be asked"):
        model_mining.agent(person, replace(PARROT, agent=replace(PARROT.agent, headless=None)), {})
