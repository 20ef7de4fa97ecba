"""What a record lacks of a long answer is estimated and kept apart: no recorded total holds it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli.root import cli
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.engine import parse_filters, usage
from ctx_pipeline.usage.missing_output import missing_output
from ctx_pipeline.usage.provenance.explain import explain
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.claude import usage as used
from ctx_pipeline_tests.usage.conftest import ingested

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "claude-sonnet-4-5-20250929"
LONG = "The loader drops the key because it reads the header twice. " * 20


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Three answers: a long one of which 2 tokens are recorded, the same with its whole count, and a short one of 2 tokens."""
    home = ClaudeHome(tmp_path / "claude")
    session = home.session()
    session.prompt("why?")
    for key, words, tokens, day in (("msg_few", LONG, 2, 1), ("msg_all", LONG, 260, 2), ("msg_short", "ok", 2, 2)):
        stamp = f"2026-10-0{day}T10:00:00.000Z"
        session.answer(text(words), usages=[used(5, tokens)], model=MODEL, message_id=key, timestamp=stamp)
    session.save()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.root))
    monkeypatch.setenv("CTX_HOME", str(tmp_path / "store"))
    return Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (home.root,)})


def measured(settings: Settings) -> Settings:
    ingested(settings)
    with open_store(settings) as store:
        measure(store, settings, families=["spending"])
    return settings


@pytest.mark.feature("usage.missing-output")
def test_only_the_long_answer_with_a_few_recorded_tokens_is_estimated_and_no_total_changes(settings: Settings) -> None:
    before = usage("daily", settings=settings).totals
    assert missing_output(settings, parse_filters(settings)) is None

    found = missing_output(measured(settings), parse_filters(settings))

    assert found is not None
    assert (found.calls, found.sessions_measured, found.estimate) == (1, 1, True)
    # the same text in full is 260 tokens by the host's own count of a similar answer; an estimate is near it
    assert 200 < found.tokens < 400
    assert usage("daily", settings=settings).totals == before
    assert missing_output(settings, parse_filters(settings, since="2026-10-02")) == (0, 0, 1, True)
    assert missing_output(settings, parse_filters(settings, model=MODEL, until="2026-10-01")) == found


@pytest.mark.feature("usage.missing-output")
def test_usage_explain_and_sql_name_the_same_figure(settings: Settings) -> None:
    found = missing_output(measured(settings), parse_filters(settings))
    assert found is not None

    told = json.loads(CliRunner().invoke(cli, ["usage", "daily", "--json"]).stdout)
    made = explain("2026-10", settings=settings).to_json()
    query = "SELECT value, metadata FROM readings WHERE signal = 'estimated_missing_output'"
    rows = json.loads(CliRunner().invoke(cli, ["sql", query, "--json"]).stdout)

    assert told["estimated_missing_output"] == found._asdict()
    assert told["totals"]["output_tokens"] == 264
    assert made["totals"]["estimated_missing_output"] == {"tokens": found.tokens, "calls": 1}
    assert {call["call"]: call["estimated_missing_output"] for call in made["calls"]} == {
        "msg_few": found.tokens,
        "msg_all": 0,
        "msg_short": 0,
    }
    assert str(float(found.tokens)) in json.dumps(rows)
    shown = CliRunner().invoke(cli, ["explain", "msg_few"]).stdout
    assert f"about {found.tokens:,} output tokens more than were recorded" in shown
    line = f"\n1 call records only the first count of the output: about {found.tokens} output tokens are not counted here\n"
    assert line in CliRunner().invoke(cli, ["usage", "daily"]).stdout
    assert line in CliRunner().invoke(cli, ["show", "latest"]).stdout
    assert line in CliRunner().invoke(cli, ["explain", "2026-10"]).stdout
    assert "first count" not in CliRunner().invoke(cli, ["usage", "daily", "--since", "2026-10-02"]).stdout
