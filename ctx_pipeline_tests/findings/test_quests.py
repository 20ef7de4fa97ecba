"""Quests: drawn from habits of the days before, verified by the readings of the day, once and for good."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from ctx_pipeline.errors import UsageError
from ctx_pipeline.findings import quests as stage
from ctx_pipeline.findings.rules import HABITS
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline_tests.factories.claude import ClaudeHome

FIRST = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
UNCHECKED = "trajectory_premature_finish_without_validation"


def work(environ, day: int, *, checked: bool) -> None:
    """A session of a day that changes a file, and checks the change or not."""
    home = ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    main = home.session(f"00000000-0000-4000-8000-{day:012}", started=FIRST + timedelta(days=day), mark=f"d{day}")
    main.prompt("Make the sum of the cart right")
    main.call("t1", "Edit", "The file has been updated.", file_path="/home/dev/shop/cart.py", old_string="a", new_string="b")
    if checked:
        shown = {"stdout": "3 passed in 0.1s", "stderr": "", "interrupted": False}
        main.call("t2", "Bash", "3 passed in 0.1s", command="pytest -q", structured=shown)
    main.save()


def at(day: int) -> int:
    return int((FIRST + timedelta(days=day, hours=4)).timestamp() * 1e6)


def of(chosen, day: int) -> dict[str, stage.Quest]:
    return {one.signal: one for one in stage.quests(chosen, stage.today(chosen, now=at(day)))}


@pytest.mark.feature("cli.quests")
def test_a_day_is_to_be_without_what_most_sessions_before_it_showed(store, chosen, environ):
    for day, checked in ((0, False), (1, False), (2, True)):
        work(environ, day, checked=checked)
    run_stages(store, chosen)

    assert of(chosen, 0) == {}
    broken, kept, later = of(chosen, 1)[UNCHECKED], of(chosen, 2)[UNCHECKED], of(chosen, 3)[UNCHECKED]
    assert (broken.state, broken.before, [s for _, s in broken.sessions]) == ("missed", 1, ["00000000-0000-4000-8000-000000000001"])
    assert (kept.state, kept.before, kept.measured, kept.sessions) == ("done", 2, 1, ())
    assert (later.state, later.before, later.measured) == ("open", 2, 0)
    assert all(one.goal and "{" not in one.goal for one in HABITS)
    # a month later nothing of it is a habit
    assert of(chosen, 33) == {}


@pytest.mark.feature("cli.quests")
def test_days_are_verified_once_and_give_points_a_row_and_a_freeze(store, chosen, environ):
    for day in range(6):
        work(environ, day, checked=day not in (0, 4))
    run_stages(store, chosen)

    told = stage.verify(store, chosen, now=at(3))
    assert [day for day, _ in told] == [date(2026, 3, 2), date(2026, 3, 3), date(2026, 3, 4), date(2026, 3, 5)][-len(told) :]
    assert stage.score(store) == stage.QuestScore(200, "beginner", 2, 0)
    assert [day for day, _ in stage.verify(store, chosen, now=at(3))] == [date(2026, 3, 5)]
    assert stage.score(store).points == 200

    assert stage.buy_freeze(store, chosen, now=at(4)) == stage.QuestScore(0, "beginner", 2, 1)
    with pytest.raises(UsageError, match="a freeze costs 200 points"):
        stage.buy_freeze(store, chosen, now=at(4))
    stage.verify(store, chosen, now=at(6))
    # the fifth day was missed and bought off, the fourth and the sixth were done
    assert stage.score(store) == stage.QuestScore(200, "beginner", 4, 0)


@pytest.mark.feature("cli.quests")
def test_the_commands_have_the_names_that_are_documented(store, environ):
    from click.testing import CliRunner

    from ctx_pipeline.cli.root import cli

    store.close()
    for words, told in ((["list"], "points, beginner"), (["verify"], "0 days in a row"), (["list", "--json"], '"score"')):
        done = CliRunner().invoke(cli, ["quest", *words], env=dict(environ))
        assert (done.exit_code, told in done.output) == (0, True), done.output
    refused = CliRunner().invoke(cli, ["quest", "buy-freeze"], env=dict(environ))
    assert isinstance(refused.exception, UsageError)
