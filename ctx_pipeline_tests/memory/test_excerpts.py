"""What ``ctx memory show`` quotes of an event: the words that decide, wherever in it they stand."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline.learning.memories import WIDTH, excerpt

LONG = "line of the log " * 100


@pytest.mark.feature("memory.evidence-excerpts")
@pytest.mark.parametrize(
    ("body", "kind", "before", "decides", "after"),
    [
        ({"said": "use pnpm"}, "tool_result", LONG, "reason for the rejection: use pnpm", "\n"),
        ({"error": "src/a.py:7:3: undefined name 'x' (F821)"}, "tool_result", LONG, "undefined name 'x' (F821)", LONG),
        ({"error": "boom"}, "tool_result", LONG, "test result: ok. 9 passed; 0 failed;", " finished in 0.1s"),
        ({"commands": ["uv run pytest"]}, "tool_result", "test_a PASSED\n" * 90, "==== 27 passed, 1 skipped in 1.82s ====", "\n"),
        ({"commands": ["mise run lint"]}, "tool_result", LONG, "0 issues.", LONG),
        ({"commands": ["make"]}, "tool_result", LONG, "and this is its end", ""),
        ({"change": {"before": "", "after": 't.Chdir("b")'}}, "tool_call", LONG, json.dumps('t.Chdir("b")')[1:-1], LONG),
        ({"steps": ["run `make setup` first"]}, "tool_call", f'{{"command": "{LONG}', "make setup", '"}'),
        ({"quotes": ["never push to main"]}, "prompt", "", "line of the log line", LONG),
    ],
    ids=["refusal", "shortened-path", "tests", "pytest", "lint", "end", "edit", "step", "beginning"],
)
def test_an_excerpt_holds_what_decides(body, kind, before, decides, after):
    quoted = excerpt(before + decides + after, kind, body)
    assert decides in quoted
    assert "\n" not in quoted
    assert len(quoted) <= WIDTH + 2
    assert quoted.startswith("…") is bool(before)


@pytest.mark.feature("memory.evidence-excerpts")
def test_a_short_text_is_quoted_whole_and_one_that_begins_with_what_decides_from_its_beginning():
    assert excerpt("Exit code 1\n  boom  \n", "tool_result", {"error": "boom"}) == "Exit code 1 boom"
    quoted = excerpt(f"Exit code 1 boom {LONG}", "tool_result", {"error": "boom"})
    assert (quoted.startswith("Exit code 1 boom line"), quoted[-1], len(quoted)) == (True, "…", WIDTH + 1)


@pytest.mark.feature("memory.evidence-excerpts")
def test_words_that_are_longer_than_an_excerpt_begin_it():
    error = "wrong " + "é" * 500
    assert excerpt(LONG + error, "tool_result", {"error": error}).lstrip("…").startswith("wrong ééé")
    assert excerpt(LONG, "tool_result", {"error": 7, "said": [{"quote": "x"}], "quotes": None})[0] == "…"
