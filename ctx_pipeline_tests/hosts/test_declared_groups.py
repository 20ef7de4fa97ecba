"""What a host says in its own file is what the rest of the program reads, for a host that nobody has too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.facts.prompts import goal, tells
from ctx_pipeline.facts.turns import turns
from ctx_pipeline.hosts.claude_code import HOST as CLAUDE
from ctx_pipeline.hosts.claude_code import system_records
from ctx_pipeline.mining.lessons.commands import outside
from ctx_pipeline.model.declared import Host
from ctx_pipeline.model.source_versions import version_of
from ctx_pipeline.shell.command_risk import is_outside
from ctx_pipeline.shell.commands import command_text
from ctx_pipeline.signals.context_compaction import compactions
from ctx_pipeline.signals.inputs.steps import steps
from ctx_pipeline_tests.factories.views import view

if TYPE_CHECKING:
    from collections.abc import Iterator

PARROT = replace(
    CLAUDE,
    key="parrot",
    files=replace(
        CLAUDE.files, project_folder=".parrot", state_folders=("nests",), worktree_folders=("perches",), rules_files=("PARROT.md",)
    ),
    records=replace(
        CLAUDE.records, interruptions=frozenset({"shushed"}), compact_command=r"^\s*squeeze\b", approval_tools=frozenset({"MayI"})
    ),
    shell=replace(CLAUDE.shell, embedded=r'beak\.peck\(("(?:[^"\\]|\\.)*")\)'),
    agent=replace(CLAUDE.agent, called=("polly",)),
)


@pytest.fixture
def parrot_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    discovery.reload()
    monkeypatch.setattr(discovery, "hosts", lambda: {"parrot": PARROT})
    yield
    monkeypatch.undo()
    discovery.reload()


@pytest.mark.feature("hosts.groups")
def test_a_field_of_an_earlier_version_is_refused_with_the_name_of_the_new_one() -> None:
    old = {"classify": lambda rel: None, "parse": lambda session: None, "places": None, "usage_hints": {}, "shell_tools": frozenset()}

    with pytest.raises(TypeError) as caught:
        Host(key="parrot", title="Parrot", version=1, **old)  # type: ignore[arg-type]

    for new in (
        "classify is now files=HomeFiles(classify=...)",
        "parse is now records=Records(parse=...)",
        "places is now files=HomeFiles(layout=...)",
        "usage_hints is now usage=UsageRecords(hint_streams=...)",
        "shell_tools is now shell=ShellAnswers(tools=...)",
    ):
        assert new in str(caught.value)
    with pytest.raises(TypeError, match=r"usage is now usage=UsageRecords\(read=...\)"):
        replace(PARROT, usage=lambda session: None)  # type: ignore[arg-type]


@pytest.mark.feature("hosts.phrases")
@pytest.mark.usefixtures("parrot_alone")
def test_how_a_turn_was_stopped_and_who_is_addressed_is_what_the_host_declares() -> None:
    (stopped,) = turns(view().prompt("go").injected("hush", "shushed").build())
    (other,) = turns(view().prompt("go").injected("hush", "interrupt").build())

    assert (stopped.ended, other.ended) == ("interrupted", "open")
    assert tells("Polly, add the flag --loud to the cage command of bird.py")
    assert not tells("Rover, add the flag --loud to the cage command of bird.py")
    assert goal("polly, can you open cage.py and close the door?") == "open cage.py and close the door?"


@pytest.mark.feature("hosts.phrases")
@pytest.mark.usefixtures("parrot_alone")
def test_commands_folders_and_worktrees_are_what_the_host_declares() -> None:
    script = 'const r = await tools.x; beak.peck("go test ./...")'

    assert command_text([script]) == "go test ./..."
    assert [outside(path) for path in ("/w/.parrot/a.md", "/w/.claude/a.md", "/w/a.parrot")] == [True, False, False]
    notes = ("/home/sam/.parrot/nests/a.md", "/home/sam/.parrot/eggs/a.md", "/home/sam/.claude/plans/a.md")
    assert [is_outside(path, "/w") for path in notes] == [False, True, True]
    folders = ("/w/.parrot/perches/one/src", "C:\\w\\.parrot\\perches\\one", "/w/.worktrees/two", "/w/.claude/worktrees/one", "/w")
    assert [discovery.checkout_of(folder) for folder in folders] == ["/w", "C:\\w", "/w", "/w/.claude/worktrees/one", "/w"]


@pytest.mark.feature("hosts.phrases")
@pytest.mark.usefixtures("parrot_alone")
def test_a_compaction_that_was_asked_for_and_a_plan_that_waits_are_what_the_host_declares() -> None:
    def read(command: str) -> tuple[list[str], list[str]]:
        session = view().prompt("go").tool("MayI", text="yes").tool("ExitPlanMode", text="yes").prompt(command)
        built = session.other("compaction", "{}").build()
        return [c.trigger for c in compactions(built)], [step.category for thread in steps(built) for step in thread]

    assert read("squeeze please") == (["manual"], ["permission", "explain"])
    assert read("/compact")[0] == ["unrecorded"]


@pytest.mark.feature("hosts.record-types")
def test_a_parser_is_versioned_with_its_tables_of_record_types_and_a_declared_version_forces_another() -> None:
    parse = CLAUDE.records.parse
    assert CLAUDE.decoder == f"{CLAUDE.version}.{version_of(parse)}"
    assert version_of(parse) != version_of(parse, given=[f"{system_records.__name__}:_SYSTEM"])
    assert CLAUDE.decoder != replace(CLAUDE, version=CLAUDE.version + 1).decoder
