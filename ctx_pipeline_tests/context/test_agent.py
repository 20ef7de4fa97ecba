"""The agent: providers, tools, hooks, scaffolds, undo; and the explorer."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ctx_pipeline import Agent, BaseContextScaffold, Context, ContextExplorer, TextContent
from ctx_pipeline.errors import UnknownName, UsageError


@pytest.mark.feature("history.provider-function")
@pytest.mark.feature("context.agent.providers")
def test_a_function_answers_and_nothing_answers_nothing():
    assert Agent(lambda messages: messages[-1]["content"].upper()).call("hello") == "HELLO"
    assert Agent(lambda _messages: {"content": "ok"}).call("hello") == "ok"
    silent = Agent()
    assert silent.call("hello") == ""
    assert [m["content"] for m in silent.messages()] == ["hello"]
    with pytest.raises(UsageError, match="is not a provider"):
        Agent(7)
    with pytest.raises(UsageError, match="a provider answered int"):
        Agent(lambda _m: 7).call("hello")


@pytest.mark.feature("history.automatic")
@pytest.mark.feature("context.agent.call")
def test_the_next_call_seals_the_one_before():
    agent = Agent(lambda _m: "answer", system="be kind")
    agent.call("one")
    assert (len(agent.context), agent.context["d0, 0, 0"].content) == (1, "one")
    agent.call("two")

    assert (len(agent.context), agent.context["d1, 0, 1"].content) == (2, "answer")
    assert [m["role"] for m in agent.messages()] == ["system", "user", "assistant", "user", "assistant"]
    assert [s["trigger"] for s in agent.history.snapshots.values()] == ["commit"]


def asks(*names):
    """A provider that asks for tools, one a round, then says done."""

    def provider(messages):
        done = sum(1 for m in messages if m["role"] == "tool")
        return {"tool_calls": [{"id": f"c{done}", "name": names[done], "arguments": {}}]} if done < len(names) else "done"

    return provider


@pytest.mark.feature("history.agent")
@pytest.mark.feature("context.agent.tools")
def test_tools_run_between_their_hooks_and_errors_are_told_to_the_model():
    def works():
        return {"n": 1}

    def breaks():
        raise ValueError("no")

    agent = Agent(asks("works", "breaks", "missing"), tools=[works, breaks])
    order = []
    agent.hooks.tool.pre_call(lambda ctx: order.append(("before", ctx.tool_name, ctx.result)))
    agent.hooks.tool.post_call(lambda ctx: order.append(("after", ctx.tool_name, ctx.result, str(ctx.error or ""))))

    assert agent.call("go") == "done"
    assert order == [
        ("before", "works", None),
        ("after", "works", {"n": 1}, ""),
        ("before", "breaks", None),
        ("after", "breaks", None, "no"),
        ("before", "missing", None),
        ("after", "missing", None, "there is no tool 'missing'"),
    ]
    assert [m["content"] for m in agent.messages() if m["role"] == "tool"] == ['{"n": 1}', "error: no", "error: there is no tool 'missing'"]
    assert agent.context.select("{tool_name='breaks' status='error'}") != []


@pytest.mark.feature("context.agent.tools")
def test_a_provider_that_never_stops_is_stopped():
    agent = Agent(lambda _m: {"tool_calls": [{"name": "x", "arguments": "{}"}]}, tools=[])

    with pytest.raises(UsageError, match="25 times"):
        agent.call("go")


@pytest.mark.feature("context.agent.hooks")
def test_an_error_of_a_hook_stops_the_call():
    agent = Agent(asks("x"))

    @agent.hooks.tool.pre_call
    def refuse(_ctx):
        raise PermissionError("not this tool")

    with pytest.raises(PermissionError):
        agent.call("go")
    assert agent.context.select("{kind='call'}") == []


@pytest.mark.feature("history.undo")
@pytest.mark.feature("context.agent.undo")
def test_undo_and_redo_walk_the_snapshots():
    agent = Agent(lambda m: f"re: {m[-1]['content']}")

    def said():
        return [m["content"] for m in agent.messages() if m["role"] == "user"]

    for text in ("one", "two", "three"):
        agent.context.seal("before")
        agent.call(text)
    walked = [said()]
    for _ in range(3):
        agent.undo()
        walked.append(said())
    while agent.redo() is not None:
        walked.append(said())

    assert walked[0] == ["one", "two", "three"]
    assert walked[1] == ["one", "two"]
    assert walked[-1] == ["one", "two", "three"]
    assert Agent().undo() is None
    assert Agent().redo() is None


@pytest.mark.feature("context.agent.context")
def test_the_past_is_no_context_to_work_in():
    agent = Agent()
    agent.context.seal("x")

    with pytest.raises(UsageError, match="read-only"):
        agent.context = agent.history.at_snapshot(1)


@pytest.mark.feature("context.agent.scaffold")
def test_a_scaffold_replaces_what_it_wrote_before():
    class Counter(BaseContextScaffold):
        scaffold_type = "counter"
        calls = 0

        def render(self):
            self.calls += 1
            return TextContent(f"call {self.calls}", key="count") if self.calls < 3 else None

    agent = Agent(lambda _m: "ok", scaffolds=[Counter()])
    seen = []
    for _ in range(3):
        agent.call("hello")
        seen.append([n.content for n in agent.context.find("#count")])

    assert seen == [["call 1"], ["call 2"], []]


@pytest.mark.feature("history.explorer")
@pytest.mark.feature("context.explorer")
def test_the_explorer_shows_a_context_in_four_ways(capsys):
    explorer = ContextExplorer()
    explorer.step("system_message", "be <kind>")
    explorer.step("user_message", "hello")
    explorer.context.pact_insert("d0, 1", TextContent("note", key="k", tags=["t"], ttl=2))
    explorer.print()
    tree = capsys.readouterr().out

    assert ', offset 1, ttl 2, #k, +t] "note"' in tree
    assert next(line for line in tree.splitlines() if line.startswith("  ^")).startswith("  ^sys [sys, d-1")
    assert explorer.text("text") == "system: be <kind>\nuser: hello\nuser: note"
    assert [b["content"] for b in json.loads(explorer.text("provider"))] == ["be <kind>", "hello", "note"]
    assert 'role="system" kind="text">be &lt;kind&gt;</block>' in explorer.text("xml")
    with pytest.raises(UnknownName, match="mode"):
        explorer.text("sideways")
    with pytest.raises(UnknownName, match="operation"):
        explorer.step("jump")


@pytest.mark.feature("history.explorer")
@pytest.mark.feature("context.explorer")
def test_steps_drive_a_context():
    explorer = ContextExplorer(Agent())
    explorer.step("user_message", "hello")

    assert explorer.step("seal") == 1
    assert [b["content"] for b in explorer.step("render")] == ["hello"]
    assert explorer.context["d1, 0, 0"].content == "hello"
    assert isinstance(explorer.context, Context)


@pytest.mark.feature("history.agent-isolation")
def test_histories_of_several_agents_never_mix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, two = Agent(lambda m: "one"), Agent(lambda m: "two")
    for agent in (one, two, one):
        agent.call("hello")
        agent.context.seal("after")

    assert [list(agent.history.snapshots) for agent in (one, two)] == [[1, 2, 3], [1]]
    assert one.history.at_snapshot(1)["d0, 0, 1"].content == "one"
    assert two.history.at_snapshot(1)["d0, 0, 1"].content == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["nobody"]


@pytest.mark.feature("context.explorer")
def test_what_is_printed_cannot_command_a_terminal(capsys):
    explorer = ContextExplorer()
    explorer.step("user_message", "a\x1b[2Jb\u202ec\nd\x9be\ud800")
    for mode in ("tree", "text", "xml", "provider"):
        explorer.print(mode)
    printed = capsys.readouterr().out

    assert explorer.text("text") == "user: a\x1b[2Jb\u202ec\nd\x9be\ud800"
    assert "user: abc\nd\n" in printed
    assert [mark for mark in "\x1b\u202e\x9b\ud800" if mark in printed] == []


class Diary(BaseContextScaffold):
    scaffold_type = "diary"


def double(x: int) -> int:
    """Return twice a number."""
    return 2 * x


@pytest.mark.feature("context.agent.bad-input")
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"context": {}}, "a context is a Context, not dict"),
        ({"history": "h.jsonl"}, "a history is a ContextHistory, not str"),
        ({"scaffolds": [Diary]}, "Diary is a class"),
        ({"scaffolds": ["diary"]}, "str is no scaffold"),
        ({"tools": {"double": double}}, "tools is dict"),
        ({"tools": double}, "tools is function"),
        ({"tools": ["double"]}, "'double' is no tool"),
        ({"tools": [double, double]}, "two tools are called 'double'"),
        ({"provider": "gpt"}, "'gpt' names no provider"),
        ({"provider": ""}, "'' names no provider"),
        ({"provider": 5}, "5 is not a provider"),
    ],
)
def test_what_no_agent_can_be_made_of_is_refused_at_once(parts, message):
    with pytest.raises(UsageError, match=message) as caught:
        Agent(**parts)
    assert caught.value.hint


@pytest.mark.feature("context.agent.bad-input")
def test_an_agent_takes_no_context_that_is_none():
    agent = Agent(tools=[double], scaffolds=[Diary()])

    with pytest.raises(TypeError, match="not NoneType"):
        agent.context = None


@pytest.mark.feature("context.agent.offline")
def test_a_model_is_asked_without_fetching_a_price_list_first():
    code = (
        "import os, sys\n"
        "os.environ.pop('LITELLM_LOCAL_MODEL_COST_MAP', None)\n"
        "from ctx_pipeline import Agent\n"
        "agent = Agent(provider='openai:gpt-4')\n"
        "assert 'dspy' not in sys.modules\n"
        "try:\n    agent.call('x')\nexcept Exception:\n    pass\n"
        "assert 'dspy' in sys.modules\n"
        "print(os.environ['LITELLM_LOCAL_MODEL_COST_MAP'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "PATH": os.environ["PATH"],
            "OPENAI_API_BASE": "http://127.0.0.1:9",
            "OPENAI_API_KEY": "x",
            "HOME": os.environ.get("HOME", "/"),
        },
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert (done.returncode, done.stdout.strip()) == (0, "True")
    assert "cost map" not in done.stderr
