"""What a model pays for: sets of tools, their schemas, and answers as text without nulls."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.mcp_server.answer_text import as_text, slim_schema
from ctx_pipeline.tokens.tokenizers import tokenizer_from_name
from ctx_pipeline_tests.mcp_server.conftest import over_stdio, run

BUDGET = 1_500


def tokens(text: str) -> int:
    return tokenizer_from_name("o200k_base").count_many([text])[0]


def told(tool) -> str:
    """What a client gives its model of a tool."""
    return json.dumps({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})


@pytest.mark.feature("mcp.tool-sets")
def test_the_default_set_costs_at_most_1500_tokens_and_every_tool_answers_all_the_same(home):
    async def conversation():
        async with over_stdio(home, "--tools", "memory") as client:
            shown = (await client.list_tools()).tools
            assert {t.name for t in shown} >= {"search_history", "read_session", "retrieve_memories", "ctx_session"}
            assert sum(tokens(told(t)) for t in shown) <= BUDGET
            assert all(t.output_schema is None for t in shown)
            usage = await client.call_tool("get_usage", {"by": "model"})
            assert not usage.is_error
            assert "get_usage" not in {t.name for t in shown}
        async with over_stdio(home, "--tools", "all") as client:
            everything = (await client.list_tools()).tools
        assert {t.name for t in everything} > {t.name for t in shown}

    run(conversation)


@pytest.mark.feature("mcp.text-answers")
def test_an_answer_is_text_with_fewer_tokens_than_its_values_and_says_the_same(home):
    asked = [
        ("search_history", {"query": "pytest discounts", "limit": 3}),
        ("list_sessions", {"limit": 3}),
        ("get_usage", {"by": "model"}),
        ("ctx_wrapped", {"period": "all"}),
    ]

    async def conversation():
        values = {}
        async with over_stdio(home) as client:
            for tool, arguments in asked:
                values[tool] = (await client.call_tool(tool, arguments)).structured_content
        async with over_stdio(home, "--tools", "all") as client:
            for tool, arguments in asked:
                answer = await client.call_tool(tool, arguments)
                text = answer.content[0].text
                assert answer.structured_content is None
                assert tokens(text) < 0.8 * tokens(json.dumps(values[tool])), tool
                assert "null" not in text
                assert "\n    " not in text or tool == "ctx_wrapped"
                if tool == "search_history":
                    assert all(hit["event_id"] in text and hit["snippet"][:40] in text for hit in values[tool]["hits"])
                    assert text.endswith(f"more: cursor={values[tool]['next_cursor']}")

    run(conversation)


@pytest.mark.feature("mcp.text-answers")
def test_rows_stand_under_one_head_and_what_all_share_is_said_once():
    rows = [
        {
            "host": "claude",
            "id": "a",
            "cost_nano": 2_500_000_000,
            "calls": 2,
            "at": "2026-03-01T10:00:01.000000Z",
            "cut": 0,
            "none": None,
            "text": "one\ntwo",
        },
        {"host": "claude", "id": "b", "cost_nano": None, "calls": 2, "at": None, "cut": 0, "none": None, "text": ""},
    ]
    said = as_text({"rows": rows, "left": [], "total": 2, "next_cursor": "7-ab"})

    assert said.splitlines() == [
        "rows (all: host claude, calls 2): id | cost | at",
        "- a | $2.5 | 2026-03-01 10:00",
        "one",
        "two",
        "- b | unpriced",
        "total: 2",
        "more: cursor=7-ab",
    ]
    assert as_text({"text": "<a/>\n", "value": {"long": "x"}, "next_cursor": None}) == "<a/>"
    whole = {"text": "a\n", "saved_tokens": 0, "ratio": 0.0, "left_out": {"secret": 2}}
    assert "ratio" not in as_text(whole)
    assert "secret" in as_text(whole), "what was left out is told of a text that could not be shortened too"
    assert as_text({"value": {"a": None}}) == "nothing"


@pytest.mark.feature("mcp.tool-sets")
def test_a_slim_schema_keeps_names_types_choices_and_what_is_required():
    schema = {
        "title": "x",
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"title": "A", "type": "string", "maxLength": 3, "description": "first"},
            "title": {"anyOf": [{"enum": ["x", "y"], "type": "string"}, {"type": "null"}], "default": None, "description": "second"},
        },
    }
    assert slim_schema(schema) == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "description": "first"},
            "title": {"description": "second", "enum": ["x", "y"], "type": "string"},
        },
    }


@pytest.mark.feature("mcp.text-answers")
def test_sums_are_told_in_dollars_and_rows_of_which_there_is_nothing_are_not():
    told = as_text(
        {
            "streams": [{"stream": "output", "nano": 2_500_000_000}, {"stream": "input", "nano": 1}],
            "avoidable_nano": {"certain": 2_050_000_000},
            "own": [{"what": "blocks", "tokens": 0}, {"what": "answers", "tokens": 0}],
        }
    )
    assert told.splitlines() == ["streams: stream | dollars", "- output | $2.5", "- input | $1e-09", "avoidable: certain $2.05"]


@pytest.mark.feature("mcp.text-answers")
@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ({"unpriced_calls": 2, "calls": 2}, "- b | unpriced | 2"),
        ({"model_calls": 2}, "- b | unpriced"),
        ({"model_calls": 0}, "- b"),
        ({}, "- b"),
    ],
)
def test_a_cost_is_unpriced_where_calls_without_a_price_are_known_and_else_empty(calls: dict[str, int], told: str):
    rows = [{"id": "a", "cost_usd": 2.5}, {"id": "b", "cost_usd": None, **calls}]

    assert as_text({"rows": rows}).splitlines()[2].startswith(told)
    assert ("unpriced" in as_text({"rows": rows})) is ("unpriced" in told)
    assert ("unpriced" in as_text({"totals": rows[1]})) is ("unpriced" in told)
    assert as_text({"rows": [{"day": "2026-01-01", "cost_usd": None}, {"day": "2026-01-02", "cost_usd": None}]}) == (
        "rows: day\n- 2026-01-01\n- 2026-01-02"
    )


@pytest.mark.feature("mcp.text-answers")
def test_an_answer_without_rows_says_of_what_there_is_nothing():
    assert as_text({"hits": [], "left_out": 0, "level": "phrase", "next_cursor": None}) == "no hits"
    assert as_text({"sessions": [], "total": 0}) == "no sessions"
    assert as_text({"host": "claude", "session_id": "a", "readings": []}) == "no readings\nhost: claude\nsession_id: a"
    assert as_text({"by": "daily", "rows": [], "totals": {"calls": 0, "cost_usd": 0.0}, "rows_in_all": 0}) == "no rows"
    assert as_text({"text": None, "value": {"schema": 1, "total": {"accesses": 0}, "files": []}}) == "no files"
    assert as_text({"value": {"schema": 1, "total": {"accesses": 2}, "files": []}}) == "total: accesses 2"
    assert as_text({"value": {"schema": 1, "calls": 3}}) == "calls: 3"


@pytest.mark.feature("mcp.text-answers")
def test_a_folder_without_sessions_is_told_plainly_and_is_no_error(home, tmp_path):
    async def conversation():
        async with over_stdio(home, "--tools", "all") as client:
            for tool, arguments in [
                ("ctx_gain", {}),
                ("ctx_gain", {"action": "score"}),
                ("ctx_metrics", {}),
                ("ctx_cache", {}),
                ("ctx_session", {"action": "load"}),
                ("ctx_session", {"action": "status"}),
            ]:
                answer = await client.call_tool(tool, {**arguments, "cwd": str(tmp_path)})
                assert not answer.is_error, tool
                assert answer.content[0].text.startswith("nothing yet: no "), tool
            assert (await client.call_tool("ctx_gain", {"session_id": "no-such-session"})).is_error
        async with over_stdio(home) as client:  # a program is told by the code of an error
            answer = await client.call_tool("ctx_gain", {"cwd": str(tmp_path)})
            assert answer.is_error
            assert answer.structured_content["error"]["code"] == "NothingYet"

    run(conversation)
