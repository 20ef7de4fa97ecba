"""Which readings of a session are shown first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.cli.sessions import reading_text
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.sessions.session_details import show
from ctx_pipeline.sessions.signals import notable, rank
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.usage.conftest import ingested

if TYPE_CHECKING:
    import re
from pathlib import Path


def reading(signal: str, value: float | None, *, lower: int = 0, higher: int = 0, others: int = 40, **more: Any) -> dict[str, Any]:
    return {"signal": signal, "value": value, "label": None, "evidence": [], "lower": lower, "higher": higher, "others": others} | more


@pytest.mark.feature("cli.show-what-stands-out")
def test_the_five_that_every_view_shows_come_first_then_what_is_unusual_and_few_sessions_call_nothing_unusual() -> None:
    readings = [
        reading("session_cost", 2.0, lower=20),
        reading("failed_command_count", 9.0, lower=38),
        reading("failed_tool_call_count", 9.0, lower=39, evidence=["e1"]),
        reading("refused_call_count", 2.0, lower=37, evidence=["e1"]),
        reading("test_pass_ratio", 0.1, higher=40),
        reading("command_count", 90.0, lower=40),
        reading("interruption_count", 0.0, higher=3),
        reading("user_correction_count", 3.0, lower=5, others=5),
        reading("session_grade", None, label="B", others=0),
        reading("cache_rebuild_tokens", 0.0),
        reading("last_test_outcome", None, label="failed", others=0),
        reading("trajectory_premature_finish_without_validation", None),
    ]
    found = [(group, r["signal"], place) for group, r, place in notable(readings)]

    assert found == [
        ("cost", "session_cost", 0.5),
        ("cost", "user_correction_count", None),
        ("outcome", "last_test_outcome", None),
        ("outcome", "failed_command_count", 38 / 40),
        ("context", "cache_rebuild_tokens", 0.0),
        ("outcome", "test_pass_ratio", 1.0),
        ("outcome", "failed_tool_call_count", 39 / 40),
        ("outcome", "session_grade", None),
    ]
    assert rank(reading("command_count", 90.0, lower=40)) is None


@pytest.mark.feature("cli.show-what-stands-out")
def test_a_session_is_ranked_among_those_of_its_agent(tmp_path: Path) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    for number in range(21):
        main = home.session(f"{number:08d}-1111-4111-8111-111111111111", mark=f"m{number}").prompt(f"task {number}")
        for n in range(3 if number == 20 else 1):
            main.call(f"t{n}", "Bash", "Exit code 1\nboom" if number == 20 else "ok", is_error=number == 20, command="make it")
        main.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    with open_store(settings) as store:
        measure(store, settings, families=["outcomes", "activity"])
    shown = show("claude", "00000020", settings=settings)["readings"]
    (failed,) = [r for r in shown if r["signal"] == "failed_command_count"]

    assert (failed["value"], failed["median"], failed["others"], failed["lower"], failed["higher"]) == (3, 0, 20, 20, 0)
    names = [r["signal"] for _, r, _ in notable(shown)]
    assert names.index("user_correction_count") < names.index("failed_command_count") < names.index("session_grade")
    environ = {"CTX_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"), "TZ": "UTC"}
    printed = CliRunner().invoke(cli, ["show", "00000020"], env=environ).stdout
    assert re.search(r"\nsignal +value +usual of claude ", printed)
    assert "\nusual: the median of the other sessions of claude; another agent has its own\n" in printed
    assert "\nsession grade: 100 points less what went wrong: A from 90, B from 75, C from 60, D from 40, F below; " in printed


@pytest.mark.feature("cli.show-what-stands-out")
def test_a_reading_has_its_unit_and_is_rounded() -> None:
    told = [
        reading_text(*one)
        for one in [
            (0.83274, "ratio", "numeric"),
            (14.1985, "dollars", "numeric"),
            (2640.3, "seconds", "numeric"),
            (166_548.0, "tokens", "numeric"),
            (1.0, "messages", "numeric"),
            (2.849, "bits", "numeric"),
            (1.0, "", "boolean"),
            (None, "", "numeric"),
        ]
    ]
    assert told == ["83%", "$14.20", "44 min", "166.5 k tokens", "1 message", "2.85 bits", "yes", ""]
