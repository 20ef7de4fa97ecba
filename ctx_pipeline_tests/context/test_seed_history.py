"""The examples of egregore's page on context history, run with our import name against a model on this machine."""

from __future__ import annotations

import json
import textwrap

import pytest

from ctx_pipeline_tests.context.loopback import openai_server

pytestmark = pytest.mark.feature("context.seed-examples.history")

START = """
import json
from ctx_pipeline import Agent, BaseContextScaffold, Context, ContextExplorer, TextContent
agent = Agent(provider="openai:gpt-4")
"""


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    """A model that answers every call, and says what it was asked."""
    monkeypatch.chdir(tmp_path)
    with openai_server() as (url, seen):
        monkeypatch.setenv("OPENAI_API_BASE", url)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield seen


def run(code, **names):
    """Run an example as a script behind the documented first lines; return its names."""
    space = {"__name__": "example", **names}
    exec(compile(START + textwrap.dedent(code), "example", "exec"), space)
    return space


def test_creating_a_snapshot_and_finding_the_note_again(capsys, model):
    names = run("""
        note = TextContent(content="Important data")
        agent.context.pact_insert("d0, 1, 0", note)

        episode = agent.context.seal(trigger="checkpoint_1")
        print(f"Snapshot created at episode {episode}")

        agent.call("Hello!")
        agent.context.pact_delete("d0, 1, 0")  # Delete the note

        historical = agent.history.at_snapshot(episode)
        restored_note = historical["d0, 1, 0"]
        print(f"Restored: {restored_note.content}")
    """)

    assert capsys.readouterr().out == "Snapshot created at episode 1\nRestored: Important data\n"
    assert "Important data" not in json.dumps(names["agent"].context.model_dump())
    assert [(m["role"], m["content"]) for m in model[0]["messages"]] == [("user", "Hello!"), ("user", "Important data")]


@pytest.mark.feature("history.access")
def test_historical_access_and_queries():
    names = run("""
        agent.context.pact_insert("d0, 1, 0", TextContent(content="x", key="user_pref", tags=["important"]))
        for n in range(5):
            agent.context.seal(trigger="user_approved_action")
        historical = agent.history.at_snapshot(5)
        component = historical["d0, 1, 0"]
        by_index = historical[0, 1, 0]
        by_key = historical.get_by_key("user_pref")
        components = historical.get_by_tags(["important"])
        snapshots = agent.history.snapshots
        triggers = [f"Snapshot {snap_id}: {snapshots[snap_id]['trigger']}" for snap_id in snapshots]
        latest = agent.history.at_snapshot(max(snapshots.keys()))
    """)

    assert names["component"] == names["by_index"] == names["by_key"] == names["components"][0]
    assert names["triggers"][0] == "Snapshot 1: user_approved_action"
    assert names["latest"].current_episode == 5


@pytest.mark.feature("history.serialize")
@pytest.mark.feature("history.restore-agent")
def test_metadata_saving_and_restoring():
    names = run("""
        agent.context.pact_insert("d0, 1, 0", TextContent(content="kept"))
        for n in range(5):
            snapshot_id = agent.context.seal(trigger="decision_point")
        snapshot_data = agent.history.snapshots[snapshot_id]
        told = f"Trigger: {snapshot_data['trigger']} Episode: {snapshot_data['episode']} {snapshot_data['created_at'] > 0}"
        context_state = snapshot_data['context']

        json_data = json.dumps(snapshot_data, indent=2)
        with open(f"snapshot_{snapshot_id}.json", "w") as f:
            f.write(json_data)

        with open("snapshot_5.json", "r") as f:
            snapshot_data = json.load(f)
        restored_context = Context.from_snapshot(snapshot_data['context'])
        agent.context = restored_context
        answer = agent.call("Hello!")
    """)

    assert names["told"] == "Trigger: decision_point Episode: 5 True"
    assert names["answer"] == "answer 1"
    assert names["agent"].context["d0, 1, 0"].content == "kept"


@pytest.mark.feature("history.checkpoints")
def test_checkpoints_every_ten(capsys):
    names = run("""
        interaction_count = 0

        def process_message(message: str):
            global interaction_count
            response = agent.call(message)
            interaction_count += 1
            if interaction_count % 10 == 0:
                snapshot_id = agent.context.seal(
                    trigger=f"checkpoint_every_10_{interaction_count}"
                )
                print(f"Checkpoint created: {snapshot_id}")
            return response

        for n in range(10):
            process_message(f"message {n}")
    """)

    # nine commits before it, each with its snapshot
    assert capsys.readouterr().out == "Checkpoint created: 10\n"
    assert names["agent"].history.by_trigger("checkpoint_every_10_10") == [10]


@pytest.mark.feature("history.undo")
def test_undo():
    names = run("""
        class UndoableAgent:
            def __init__(self, agent):
                self.agent = agent
                self.undo_stack = []

            def action(self, message: str):
                snapshot_id = self.agent.context.seal(trigger="before_action")
                self.undo_stack.append(snapshot_id)
                return self.agent.call(message)

            def undo(self):
                if not self.undo_stack:
                    return None
                snapshot_id = self.undo_stack.pop()
                historical = self.agent.history.at_snapshot(snapshot_id)
                self.agent.context = Context.from_snapshot(
                    historical.model_dump()
                )
                return snapshot_id

        undoable = UndoableAgent(agent)
        undoable.action("Hello!")
        undoable.action("What's 2+2?")
        undoable.undo()
        after = agent.context.model_dump()
        agent.call("again")
    """)

    assert "2+2" not in json.dumps(names["after"])
    assert [m["content"] for m in names["agent"].messages()] == ["Hello!", "answer 1", "again", "answer 3"]


def test_comparing_snapshots(capsys):
    run("""
        agent.context.seal(trigger="initial_state")
        agent.call("Add some data")
        agent.context.seal(trigger="after_data_added")
        agent.call("Modify data")
        agent.context.seal(trigger="after_modification")

        snapshot_ids = sorted(agent.history.snapshots.keys())
        for i in range(len(snapshot_ids) - 1):
            before_id = snapshot_ids[i]
            after_id = snapshot_ids[i + 1]
            before = agent.history.at_snapshot(before_id)
            after = agent.history.at_snapshot(after_id)
            print(f"Changes from {before_id} to {after_id}:")
            print(f"  Before trigger: {agent.history.snapshots[before_id]['trigger']}")
            print(f"  After trigger: {agent.history.snapshots[after_id]['trigger']}")
            before_count = len(list(before.nodes.keys()))
            after_count = len(list(after.nodes.keys()))
            print(f"  Components: {before_count} {after_count}")
    """)

    # an empty core container; then two messages; then a sealed turn and a new core; then two more messages
    assert capsys.readouterr().out.splitlines() == [
        "Changes from 1 to 2:",
        "  Before trigger: initial_state",
        "  After trigger: after_data_added",
        "  Components: 1 3",
        "Changes from 2 to 3:",
        "  Before trigger: after_data_added",
        "  After trigger: commit",
        "  Components: 3 5",
        "Changes from 3 to 4:",
        "  Before trigger: commit",
        "  After trigger: after_modification",
        "  Components: 5 7",
    ]


@pytest.mark.feature("history.automatic")
@pytest.mark.feature("history.audit")
def test_auditing_tool_calls(capsys, monkeypatch):
    wants = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": '{"a": 2, "b": 2}'}}],
    }
    with openai_server([wants]) as (url, seen):
        monkeypatch.setenv("OPENAI_API_BASE", url)
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        names = run("""
            def calculator(a: int, b: int) -> int:
                return a + b

            agent.tools.append(calculator)

            @agent.hooks.tool.pre_call
            def snapshot_before_tool(ctx):
                ctx.agent.context.seal(trigger=f"before_{ctx.tool_name}")

            @agent.hooks.tool.post_call
            def snapshot_after_tool(ctx):
                ctx.agent.context.seal(trigger=f"after_{ctx.tool_name}")

            agent.call("Use the calculator tool")

            snapshots = agent.history.snapshots
            for snap_id, data in snapshots.items():
                if "calculator" in data['trigger']:
                    print(f"Snapshot {snap_id}: {data['trigger']}")
        """)

    assert capsys.readouterr().out == "Snapshot 1: before_calculator\nSnapshot 2: after_calculator\n"
    assert seen[0]["tools"][0]["function"]["parameters"]["properties"]["a"] == {"type": "integer"}
    assert [m["role"] for m in seen[1]["messages"]] == ["user", "assistant", "tool"]
    assert seen[1]["messages"][2]["content"] == "4"
    assert [n.content["text"] for n in names["agent"].history.at_snapshot(2).find("{kind='result'}")] == ["4"]


def test_the_episode_is_the_snapshot(capsys):
    run("""
        print(f"Current episode: {agent.context.current_episode}")
        snapshot_id = agent.context.seal(trigger="test")
        assert snapshot_id == agent.context.current_episode
        historical = agent.history.at_snapshot(snapshot_id)
        print(f"Historical episode: {historical.current_episode}")
    """)

    assert capsys.readouterr().out == "Current episode: 0\nHistorical episode: 1\n"


@pytest.mark.feature("history.explorer-past")
def test_the_explorer_shows_the_past_and_does_not_step_in_it(capsys):
    names = run("""
        agent.call("Hello!")
        snapshot_id = agent.context.seal(trigger="debug_point")
        historical = agent.history.at_snapshot(snapshot_id)
        explorer = ContextExplorer(historical)
        explorer.print()
    """)

    assert '"Hello!"' in capsys.readouterr().out
    with pytest.raises(TypeError, match="read-only"):
        names["explorer"].step("render")


@pytest.mark.feature("history.scaffolds")
def test_a_scaffold_looks_back(model):
    names = run("""
        class AuditScaffold(BaseContextScaffold):
            scaffold_type = "audit"

            def render(self):
                current_episode = self.agent.context.current_episode
                if current_episode > 10:
                    historical = self.agent.history.at_snapshot(current_episode - 10)
                    changes = self.analyze_changes(historical, self.agent.context)
                    return TextContent(
                        content=f"Changes in last 10 episodes: {changes}",
                        key="audit_report"
                    )

            def analyze_changes(self, before, after):
                before_count = len(list(before.nodes.keys()))
                after_count = len(list(after.nodes.keys()))
                return f"{before_count} {after_count} components"

        agent.add_scaffold(AuditScaffold())
        for n in range(13):
            agent.call(f"message {n}")
    """)

    # eleven sealed turns of 4 nodes and a waiting core against one turn and a core; one call later also the report of the call before
    assert model[11]["messages"][-1]["content"] == "Changes in last 10 episodes: 5 45 components"
    assert [n.content for n in names["agent"].context.find("#audit_report")] == ["Changes in last 10 episodes: 9 50 components"]


@pytest.mark.feature("history.restore-agent")
def test_a_fixture_and_cleaning_up():
    run("""
        agent.call("Setup test data")
        fixture_id = agent.context.seal(trigger="test_fixture")
        with open("test_fixture.json", "w") as f:
            json.dump(
                agent.history.snapshots[fixture_id],
                f
            )

        def test_with_fixture():
            with open("test_fixture.json") as f:
                fixture = json.load(f)
            context = Context.from_snapshot(fixture['context'])
            agent = Agent(provider="openai:gpt-4", context=context)
            assert agent.messages()[0]["content"] == "Setup test data"

        test_with_fixture()
        for i in range(100):
            agent.context.seal(trigger=f"iteration_{i}")
        snapshot_id = 50
        del agent.history.snapshots[snapshot_id]
        assert len(agent.history.snapshots) == 100
    """)
