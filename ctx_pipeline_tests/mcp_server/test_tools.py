"""A real client talks to the server, over standard input and output and over HTTP."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

import ctx_pipeline
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.shipped import copied
from ctx_pipeline_tests.mcp_server.conftest import SECONDS, Home, over_http, over_stdio, run, served

SESSION = "51b369cc-0a63-4a24-aa2a-c6ba8b05c225"
TOOLS = {
    "search_history",
    "list_sessions",
    "read_session",
    "retrieve_memories",
    "show_memory",
    "accept_memory",
    "update_memory_utility",
    "get_usage",
    "get_signals",
    "get_findings",
    "ctx_compress",
    "ctx_analyze",
    "ctx_benchmark",
    "ctx_session",
    "ctx_heatmap",
    "ctx_cache",
    "ctx_metrics",
    "ctx_gain",
    "ctx_wrapped",
    "ctx_verify",
    "ctx_artifacts",
    "ctx_read",
    "ctx_shell",
    "ctx_search",
    "ctx_tree",
    "ctx_recall",
}
HOSTILE = [
    '"',
    "'; drop table history; --",
    "a AND (",
    "NEAR(x",
    "said:x OR *",
    "\0",
    "😀",
    "../../etc/passwd",
    "{}",
    "%s%n",
    "\ud7ff",
]


async def asked(client, tool, **arguments):
    """Return the structured answer of a tool that must not fail."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client, tool, **arguments):
    """Return code and message of a tool that must fail as a value."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.structured_content["error"]["code"], result.content[0].text


@pytest.mark.feature("mcp.tools")
def test_the_tools_describe_themselves_and_every_argument_has_a_bound(home):
    async def conversation():
        async with over_stdio(home) as client:
            tools = {t.name: t for t in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        for tool in tools.values():
            assert len(tool.description) > 60
            assert "\n        " not in tool.description
            assert tool.output_schema["type"] == "object"
            for name, schema in tool.input_schema["properties"].items():
                assert len(schema["description"]) > 10, (tool.name, name)
                shapes = schema.get("anyOf", [schema])
                assert any({"maxLength", "maximum", "enum", "items"} & set(s) or s["type"] == "boolean" for s in shapes), (tool.name, name)
        assert [t for t in tools if not tools[t].annotations.read_only_hint] == [
            "accept_memory",
            "update_memory_utility",
            "ctx_session",
            "ctx_cache",
            "ctx_gain",
            "ctx_artifacts",
            "ctx_shell",
        ]

    run(conversation)


@pytest.mark.feature("mcp.limits", "mcp.stable-ids")
def test_search_pages_by_cursor_and_every_hit_can_be_read_on_from(home):
    async def conversation():
        async with over_stdio(home) as client:
            whole = await asked(client, "search_history", query="pytest discounts", limit=6)
            first = await asked(client, "search_history", query="pytest discounts", limit=2)
            second = await asked(client, "search_history", query="pytest discounts", limit=4, cursor=first["next_cursor"])
            ids = [h["event_id"] for h in whole["hits"]]
            assert len(set(ids)) == 6
            assert [h["event_id"] for h in first["hits"] + second["hits"]] == ids
            hit = whole["hits"][0]
            assert hit["resume"].endswith(f" && claude --resume {hit['session_id']}")
            everything = await asked(client, "read_session", host=hit["host"], session_id=hit["session_id"], limit=100)
            events = [e["event_id"] for e in everything["events"]]
            behind = await asked(client, "read_session", host=hit["host"], session_id=hit["session_id"], cursor=hit["event_id"])
            assert [e["event_id"] for e in behind["events"]] == events[events.index(hit["event_id"]) + 1 :]
            code, text = await refused(client, "search_history", query="something else", cursor=first["next_cursor"])
            assert (code, "cursor" in text) == ("UsageError", True)

    run(conversation)


@pytest.mark.feature("search.typos")
def test_an_agent_is_told_what_was_looked_for_in_place_of_its_words(home):
    async def conversation():
        async with over_stdio(home) as client:
            typed = await asked(client, "search_history", query="pytest discounst")
            missing = await asked(client, "search_history", query="pytest zyxwvutsr")
            as_asked = await asked(client, "search_history", query="pytest discounts")
            other_days = await asked(client, "search_history", query="discounts in January 2001")
        assert typed["hits"]
        assert other_days["searched"].startswith("nothing in 2001-01-01 to 2001-01-31: all days were searched")
        assert typed["searched"] == "nothing holds discounst: discounts was looked for"
        assert missing["searched"] == "nothing holds: zyxwvutsr"
        assert as_asked["searched"] == ""

    run(conversation)


@pytest.mark.feature("search.regex-bounds")
def test_a_regular_expression_that_takes_minutes_is_answered_in_seconds_and_partly(tmp_path):
    slow = "".join(random.Random(7).choices("etaoinshrdlu \n", k=6_000_000))
    environ = copied(tmp_path)
    made = ClaudeHome(tmp_path / "claude").session("0f8fad5b-d9cb-469f-a165-70867728950e")
    made.prompt("what is in the log").answer(text(slow)).save()
    place = Home(tmp_path, environ)
    process = processes.start([sys.executable, "-m", "ctx_pipeline", "sync"], env=environ, cwd=tmp_path)
    assert process.wait(SECONDS) == 0

    async def conversation():
        async with over_stdio(place) as client:
            await asked(client, "search_history", query="pytest")
            began = time.monotonic()
            found = await asked(client, "search_history", query="(?s)(e|t).{0,990}(a|o).{990}ZQZQZ", regex=True, own_session=SESSION)
            took = time.monotonic() - began
            whole = await asked(client, "search_history", query="pytest", regex=True)
        assert took < 2 + 6  # and a Python to start on a busy machine
        assert "no time left after" in found["partial"]
        assert "narrow it" in found["partial"]
        assert whole["partial"] is None

    run(conversation)


@pytest.mark.feature("mcp.search-filters")
def test_search_takes_filters_facets_and_regular_expressions(home):
    async def conversation():
        async with over_stdio(home) as client:
            counted = await asked(client, "search_history", query="pytest", facets=True, limit=1, own_session=SESSION)
            commands = await asked(client, "search_history", query="pytest", role=["command"], limit=25)
            none = await asked(client, "search_history", query="pytest", until="2020-01-01")
            found = await asked(client, "search_history", query=r"py\w+t", regex=True, limit=2)
            following = await asked(client, "search_history", query=r"py\w+t", regex=True, limit=2, cursor=found["next_cursor"])
            code, _ = await refused(client, "search_history", query="(", regex=True)
            other, _ = await refused(client, "search_history", query="pytest", host="nosuch")
        assert counted["left_out"] > 0
        assert sum(counted["facets"]["kind"].values()) == counted["total"]
        assert {h["kind"] for h in commands["hits"]} == {"tool_call"}
        assert all(h["tool"] for h in commands["hits"])
        assert none["hits"] == []
        assert found["level"] == "regex"
        ids = [h["event_id"] for h in found["hits"] + following["hits"]]
        assert len(ids) == len(set(ids)) == 4
        assert (code, other) == ("UsageError", "UnknownName")

    run(conversation)


@pytest.mark.feature("mcp.sessions")
def test_a_session_is_read_a_page_at_a_time(home):
    async def conversation():
        async with over_stdio(home) as client:
            seen, cursor = [], None
            while True:
                page = await asked(client, "read_session", host="claude", session_id=SESSION[:8], limit=3, cursor=cursor)
                assert len(page["events"]) <= 3
                seen += page["events"]
                cursor = page["next_cursor"]
                if cursor is None:
                    break
            assert page["session_id"] == SESSION
            assert len(seen) == len({e["event_id"] for e in seen}) == page["total"]
            assert seen[0]["kind"] == "prompt"
            said = await asked(client, "read_session", host="claude", session_id=SESSION, kinds=["prompt"])
            assert [e["event_id"] for e in said["events"]] == [e["event_id"] for e in seen if e["kind"] == "prompt"]
            assert {e["tool"] for e in seen if e["kind"] == "tool_call"} >= {"Bash"}

    run(conversation)


@pytest.mark.feature("mcp.own-session")
def test_the_callers_own_session_is_left_out_of_search_and_memories(home):
    async def conversation():
        async with over_stdio(home) as client:
            before = await asked(client, "search_history", query="pytest discounts", limit=25)
            named = await asked(client, "search_history", query="pytest discounts", limit=25, own_session=SESSION)
            known = await asked(client, "retrieve_memories", query="pytest fails")
            without = await asked(client, "retrieve_memories", query="pytest fails", own_session="live")
        async with over_stdio(home, CLAUDE_CODE_SESSION_ID=SESSION) as client:
            told = await asked(client, "search_history", query="pytest discounts", limit=25)
        assert SESSION in {h["session_id"] for h in before["hits"]}
        assert SESSION not in {h["session_id"] for h in named["hits"]}
        assert named["left_out"] > 0
        assert named == told
        assert [m["memory_id"] for m in known["memories"]] == ["m-uv", "m-live"]
        assert [m["memory_id"] for m in without["memories"]] == ["m-uv"]

    run(conversation)


@pytest.mark.feature("mcp.limits")
def test_what_goes_wrong_is_an_answer_with_what_to_do(home):
    async def conversation():
        async with over_stdio(home) as client:
            assert (await refused(client, "read_session", host="claude", session_id="nope"))[0] == "UnknownName"
            code, text = await refused(client, "read_session", host="emacs", session_id=SESSION)
            assert (code, "claude" in text) == ("UnknownName", True)
            assert (await refused(client, "show_memory", memory_id="none-such"))[0] == "UnknownName"
            assert (await refused(client, "get_usage", since="someday"))[0] == "UsageError"
            assert (await refused(client, "get_signals", session_id=SESSION))[0] == "UsageError"
            assert (await refused(client, "read_session", host="claude", session_id=SESSION, cursor="x"))[0] == "UsageError"
            wrong = await client.call_tool("search_history", {"query": 5, "limit": 10_000})
            assert wrong.is_error
            assert "limit" in wrong.content[0].text
            assert (await asked(client, "list_sessions"))["total"] == 6

    run(conversation)


@pytest.mark.feature("mcp.limits")
def test_without_a_store_a_tool_says_what_to_run(home, tmp_path):
    async def conversation():
        async with over_stdio(home, CTX_HOME=str(tmp_path / "none")) as client:
            code, text = await refused(client, "search_history", query="anything")
        assert (code, "ctx run" in text) == ("StoreError", True)
        assert not (tmp_path / "none").exists()

    run(conversation)


@pytest.mark.feature("mcp.hostile", "mcp.limits")
def test_100_kb_arguments_and_hostile_queries_get_short_answers(home):
    async def conversation():
        async with over_stdio(home) as client:
            for query in ("pytest " * 15_000, "x" * 100_000, '"' * 100_000, *HOSTILE):
                for tool in ("search_history", "retrieve_memories"):
                    result = await client.call_tool(tool, {"query": query})
                    assert not result.is_error
                    assert len(result.model_dump_json()) < 60_000
            big = await client.call_tool("show_memory", {"memory_id": "x" * 100_000})
            assert big.is_error
            assert len(big.model_dump_json()) < 2_000
            assert (await client.call_tool("search_history", {"query": "x" * 300_000})).is_error

    run(conversation)


@pytest.mark.feature("mcp.resources")
def test_sessions_are_resources(home):
    async def conversation():
        async with over_stdio(home) as client:
            listed = json.loads((await client.read_resource("ctx://sessions")).contents[0].text)
            assert listed["total"] == 6
            assert [t.uri_template for t in (await client.list_resource_templates()).resource_templates] == [
                "ctx://sessions/{host}/{session_id}"
            ]
            uri = next(s["uri"] for s in listed["sessions"] if s["session_id"] == SESSION)
            text = (await client.read_resource(uri)).contents[0].text
            assert text.startswith("# Fix rounding in discount codes\n")
            with pytest.raises(MCPError, match="nope"):
                await client.read_resource("ctx://sessions/claude/nope")

    run(conversation)


@pytest.mark.feature("mcp.hostile")
def test_fifty_parallel_calls_over_stdio_are_all_answered_rightly(home):
    async def conversation():
        async with over_stdio(home) as client:
            alone = await asked(client, "search_history", query="pytest discounts")
            answers = []

            async def one(number):
                tool = ("search_history", "list_sessions", "get_usage", "read_session", "retrieve_memories")[number % 5]
                arguments = {
                    "search_history": {"query": "pytest discounts"},
                    "list_sessions": {},
                    "get_usage": {},
                    "read_session": {"host": "claude", "session_id": SESSION},
                    "retrieve_memories": {"query": "pytest fails"},
                }[tool]
                answers.append((tool, await asked(client, tool, **arguments)))

            async with anyio.create_task_group() as group:
                for number in range(50):
                    group.start_soon(one, number)
            assert len(answers) == 50
            assert [a for tool, a in answers if tool == "search_history"] == [alone] * 10

    run(conversation)


@pytest.mark.feature("mcp.server", "mcp.transports")
def test_the_same_tools_over_http_with_the_token(home):
    with served(home) as server:

        async def conversation():
            async with over_http(server) as client:
                assert {t.name for t in (await client.list_tools()).tools} == TOOLS
                assert (await asked(client, "list_sessions"))["total"] == 6
                assert (await refused(client, "show_memory", memory_id="none"))[0] == "UnknownName"
                answers = []

                async def one():
                    answers.append(await asked(client, "search_history", query="pytest discounts"))

                async with anyio.create_task_group() as group:
                    for _ in range(50):
                        group.start_soon(one)
                assert answers == [answers[0]] * 50

        run(conversation)
    assert (home.store / "mcp-token").stat().st_mode & 0o777 == 0o600


def status_of(server, **headers):
    """Return the HTTP status of a request that lists the tools."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    plain = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(server.url, body, {**plain, **{k.replace("_", "-"): v for k, v in headers.items()}})
    try:
        with urllib.request.urlopen(request, timeout=250) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.feature("mcp.hostile", "mcp.server")
def test_another_site_and_whoever_has_no_token_is_refused(home):
    with served(home) as server:
        bearer = f"Bearer {server.token}"
        port = server.url.split(":")[2].partition("/")[0]
        assert status_of(server, Authorization=bearer) == 200
        assert status_of(server, Authorization=bearer, Origin=f"http://127.0.0.1:{port}") == 200
        assert status_of(server) == 401
        assert status_of(server, Authorization="Bearer wrong") == 401
        assert status_of(server, Authorization=f"Bearer {server.token}x") == 401
        assert status_of(server, Authorization=bearer, Origin="http://evil.example") == 403
        assert status_of(server, Authorization=bearer, Origin="null") == 403
        assert status_of(server, Authorization=bearer, Host="evil.example") == 421
        assert status_of(server, Authorization=bearer, Host=f"evil.example:{port}") == 421
        assert server.url.startswith("http://127.0.0.1:")


@pytest.mark.feature("mcp.light-start")
def test_the_server_loads_no_orchestrator(home):
    from ctx_pipeline_tests.test_layers import loaded_by

    imports = "from ctx_pipeline import settings\nfrom ctx_pipeline.mcp_server import server\n"
    code = f"{imports}server.build(settings.load(), lambda *a, **k: {{}}, lambda *a, **k: {{}})"
    assert loaded_by(code, home.environ).isdisjoint({"dagster", "dspy", "duckdb", "pyarrow", "numpy", "litellm", "jinja2"})


@pytest.mark.feature("mcp.light-start")
@pytest.mark.parametrize(
    ("profile", "needed", "not_needed"),
    [
        ("memory", {"history_tools", "memory_tools", "session_tools"}, {"code_tools", "compression_tools", "figure_tools", "report_tools"}),
        ("read", {"code_tools", "session_tools"}, {"compression_tools", "figure_tools", "history_tools", "memory_tools", "report_tools"}),
    ],
)
def test_until_the_tools_are_listed_only_those_that_are_shown_are_loaded_and_not_what_only_a_call_needs(home, profile, needed, not_needed):
    from ctx_pipeline_tests.test_layers import modules_loaded_by

    code = f"""
import asyncio
from ctx_pipeline import settings
from ctx_pipeline.mcp_server import server
served = server.build(settings.load(), lambda *a, **k: {{}}, lambda *a, **k: {{}}, profile={profile!r}, structured=False)
served.beside = None
asyncio.run(served.list_tools())
"""
    loaded = modules_loaded_by(code, home.environ)
    rooms = {name.removeprefix("ctx_pipeline.mcp_server.") for name in loaded if name.startswith("ctx_pipeline.mcp_server.")}
    assert needed <= rooms
    assert rooms.isdisjoint(not_needed)
    for_a_call = ("compression.", "learning.", "search", "sessions.", "storage.", "usage.")
    assert [name for name in loaded if name.startswith(tuple(f"ctx_pipeline.{room}" for room in for_a_call))] == []


@pytest.mark.feature("mcp.tool-sets")
@pytest.mark.parametrize("profile", ["memory", "read"])
def test_each_tool_that_is_not_shown_answers_a_call_and_keeps_its_schema_and_order(home, profile):
    from ctx_pipeline.mcp_server.catalog import PROFILES
    from ctx_pipeline.mcp_server.catalog import TOOLS as KNOWN

    async def conversation():
        async with over_stdio(home, "--tools", "all") as whole, over_stdio(home, "--tools", profile) as few:
            every = (await whole.list_tools()).tools
            assert [tool.name for tool in every] == list(KNOWN)
            for name in ("get_usage", "ctx_wrapped", "ctx_tree", "list_sessions"):
                assert not (await few.call_tool(name, {})).is_error, name
            wrong = await few.call_tool("ctx_analyze", {"way": 1})
            assert "ctx_analyze has no argument 'way'" in wrong.content[0].text
            unknown = await few.call_tool("ctx_analyse", {})
            assert unknown.is_error
            assert "ctx_analyze" in unknown.content[0].text
            shown = (await few.list_tools()).tools
            assert [tool.name for tool in shown] == [name for name in KNOWN if name in PROFILES[profile]]
            assert [t.input_schema for t in every if t.name in PROFILES[profile]] == [t.input_schema for t in shown]

    run(conversation)


@pytest.mark.feature("mcp.ends")
def test_the_server_ends_when_its_client_does(home):
    import subprocess
    import sys

    from ctx_pipeline_tests import processes

    process = processes.start(
        [sys.executable, "-m", "ctx_pipeline", "mcp"],
        env=home.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    process.stdin.close()
    assert process.wait(250) == 0


@pytest.mark.feature("mcp.light-start")
def test_the_collector_waits_until_the_server_is_loaded_and_tools_and_plugins_of_others_are_not_loaded_before_it_answers(home, tmp_path):
    other = tmp_path / "other-1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (other / "entry_points.txt").write_text("[pydantic]\nother = other_plugin:plugin\n")
    (tmp_path / "other_plugin.py").write_text("import sys\nprint('plugin', file=sys.stderr)\nplugin = None\n")
    code = """
import gc, sys
class Watch:
    def find_spec(self, name, *_):
        if name in ("mcp.types", "ctx_pipeline.mcp_server.history_tools"):
            print(name, gc.isenabled(), file=sys.stderr)
sys.meta_path.insert(0, Watch())
from ctx_pipeline.cli.integrations.mcp import mcp
mcp(["--tools", "memory"], standalone_mode=False)
print("after", gc.isenabled(), file=sys.stderr)
"""

    def said(*messages: dict[str, Any]) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**home.environ, "PYTHONPATH": f"{Path(ctx_pipeline.__file__).parents[1]}:{tmp_path}"},
            input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        assert done.stdout.count('"result"') == sum("id" in message for message in messages)
        return done.stderr.split()

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begin = {"id": 1, "method": "initialize", "params": client}
    assert said(begin) == ["mcp.types", "False", "after", "True"]
    listed = said(begin, {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list", "params": {}})
    assert listed == ["mcp.types", "False", "ctx_pipeline.mcp_server.history_tools", "False", "after", "True"]
