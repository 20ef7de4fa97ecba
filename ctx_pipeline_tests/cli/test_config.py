"""``ctx config`` shows what is in force and changes one line of the file."""

from __future__ import annotations

import stat

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx

pytestmark = pytest.mark.feature("settings.show-and-set")

WRITTEN = """# mine
workers = 1  # a small machine
timezone = "Europe/Berlin"

[ignore]
# never look here
paths = ["*/client-x/*"]

[prices."my.model"]
input = 1.25
"""


def shown(ctx: Ctx) -> dict[str, tuple[object, str]]:
    return {s["key"]: (s["value"], s["origin"]) for s in ctx.json("config", "show")["settings"]}


@pytest.fixture
def written(ctx: Ctx) -> Ctx:
    ctx.store.mkdir()
    (ctx.store / "config.toml").write_text(WRITTEN)
    del ctx.environ["TZ"]
    return ctx


def test_every_setting_is_shown_with_its_value_and_where_that_is_from(written: Ctx):
    written.environ["CTX_COST_MODE"] = "display"
    found = shown(written)

    assert found["workers"] == (1, "config.toml")
    assert found["timezone"] == ("Europe/Berlin", "config.toml")
    assert found["debounce_seconds"] == (30, "default")
    assert found["cost_mode"] == ("display", "CTX_COST_MODE")
    assert found["ignore.paths"] == (["*/client-x/*"], "config.toml")
    assert found['prices."my.model".input'] == (1.25, "config.toml")
    assert str(written.store / "config.toml") == written("config", "path").stdout.strip()


def test_one_value_is_changed_and_the_rest_of_the_file_stays(written: Ctx):
    path = written.store / "config.toml"

    assert written.json("config", "set", "timezone", "Asia/Tokyo") == {"key": "timezone", "value": "Asia/Tokyo", "origin": "config.toml"}
    assert path.read_text() == WRITTEN.replace("Europe/Berlin", "Asia/Tokyo")
    written("config", "set", "ignore", "*/a/*", "-b-*")
    written("config", "set", 'prices."my.model".output', "10")
    written("config", "set", "redaction.patterns.badge", "BADGE-[0-9]{8}")
    written("config", "set", "cost_mode", "calculate")
    written("config", "set", "workers", "3")

    text = path.read_text()
    assert text.startswith("# mine\nworkers = 3  # a small machine\n")
    assert "# never look here\n" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = shown(written)
    assert found["ignore.paths"] == (["*/a/*", "-b-*"], "config.toml")
    assert found['prices."my.model".input'] == (1.25, "config.toml")
    assert found['prices."my.model".output'] == (10, "config.toml")
    assert found["redaction.patterns.badge"] == ("BADGE-[0-9]{8}", "config.toml")
    assert found["cost_mode"] == ("calculate", "config.toml")

    written("config", "set", "cost_mode", "--default")
    written("config", "set", "redaction.patterns.badge", "--default")
    assert shown(written)["cost_mode"] == ("auto", "default")
    assert "badge" not in path.read_text()


def test_a_first_setting_makes_the_file(ctx: Ctx):
    ctx("config", "set", "workers", "4")

    assert (ctx.store / "config.toml").read_text() == "workers = 4\n"
    assert shown(ctx)["workers"] == (4, "config.toml")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["workers", "0"], 1),
        (["timezone", "Mars/Olympus"], 1),
        (["redaction.patterns.badge", "("], 1),
        (["wokers", "2"], 2),
        (["workers"], 2),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(written: Ctx, words: list[str], code: int):
    done = written("config", "set", *words, ok=False)

    assert done.returncode == code, done.stderr
    assert "hint:" in done.stderr
    assert (written.store / "config.toml").read_text() == WRITTEN


def test_a_value_over_several_lines_is_replaced_and_what_stands_around_it_stays(written: Ctx):
    path = written.store / "config.toml"
    text = WRITTEN.replace('["*/client-x/*"]', '[\n  "*/client-x/*",\n]')
    path.write_text(text)
    written("config", "set", "ignore", "*/y/*")

    assert path.read_text() == WRITTEN.replace("*/client-x/*", "*/y/*")


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        (None, "mine.claude_headless.seconds", "[mine.claude_headless]\nseconds = 3\n"),
        ("", "mine.claude_headless.seconds", "[mine.claude_headless]\nseconds = 3\n"),
        ("workers = 1", "mine.claude_headless.seconds", "workers = 1\n[mine.claude_headless]\nseconds = 3\n"),
        ("# only words\n", "mine.claude_headless.seconds", "# only words\n\n[mine.claude_headless]\nseconds = 3\n"),
        ("[mine]\nmodel = 'a/b'\n", "mine.claude_headless.seconds", "[mine]\nmodel = 'a/b'\n\n[mine.claude_headless]\nseconds = 3\n"),
        ("[mine.claude_headless]\nmodel = 'a'\n", "mine.claude_headless.seconds", "[mine.claude_headless]\nmodel = 'a'\nseconds = 3\n"),
        ("[mine.claude_headless]\nseconds = 9 # long\n", "mine.claude_headless.seconds", "[mine.claude_headless]\nseconds = 3 # long\n"),
        ("[mine.claude_headless] # mine\n", "mine.claude_headless.seconds", "[mine.claude_headless] # mine\nseconds = 3\n"),
        ("[mine]\n[ignore]\npaths = ['x']\n", "mine.model", "[mine]\nmodel = 3\n[ignore]\npaths = ['x']\n"),
        ("workers = 1\n", "prices.'my.model'.input", 'workers = 1\n\n[prices."my.model"]\ninput = 3\n'),
    ],
    ids=["no file", "empty", "one line", "a comment", "above", "there", "value", "header's comment", "between", "quoted"],
)
def test_a_key_of_a_table_is_written_into_any_file(ctx: Ctx, before: str | None, key: str, after: str):
    path = ctx.store / "config.toml"
    if before is not None:
        ctx.store.mkdir()
        path.write_text(before)
    ctx("config", "set", key, "3")
    assert path.read_text() == after
