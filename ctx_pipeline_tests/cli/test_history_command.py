"""``ctx history`` over a session that was compacted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from ctx_pipeline import Context
from ctx_pipeline.cli.output import tokens
from ctx_pipeline.facts.windows import SOURCES
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use, usage
from ctx_pipeline_tests.factories.shipped import environment
from ctx_pipeline_tests.factories.windows import AGENT, SECRET, SESSION, claude_home, codex_home

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.feature("history.cli")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Ctx:
    """A store of two compacted sessions."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "nobody").mkdir()
    claude_home(folder / "claude")
    codex_home(folder / "codex")
    ctx = Ctx(folder, environment(folder))
    ctx("sync")
    return ctx


def test_without_options_it_shows_every_moment_then_the_tree_at_the_end(past: Ctx):
    lines = past("history", "claude", SESSION[:8]).stdout.splitlines()
    moments = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0] in MOMENTS]
    tree = lines[next(n for n, line in enumerate(lines) if line.startswith("window at end")) :]

    assert moments == MOMENTS
    assert any(line.startswith("after-compaction:1") and "7 components" in line and "tokens gone" in line for line in lines)
    assert any(AGENT in line and line.lstrip().startswith("--thread") for line in lines)
    assert [line.split(",")[0].strip() for line in tree if not line.startswith(" ")][1:] == ["system", "newest turn (d0)"]
    assert [line.split()[:2] for line in tree if line.startswith("  ")][1:] == [["10", "injected"], ["11", "answer"]]
    assert "unseen" in tree[2]


@pytest.mark.feature("facts.windows")
def test_it_says_how_full_the_window_was_of_how_many_tokens_and_what_says_so(past: Ctx):
    told = past.json("history", "claude", SESSION)
    largest, size = told["largest_tokens"], told["window_tokens"]
    prompts = past.json("sql", f"SELECT max(context_tokens) AS most FROM model_calls WHERE thread_id = '{SESSION}'")["rows"]
    assert [{"most": largest}] == prompts
    known = f"at most {tokens(largest)} tokens in the window, {largest / size:.0%} of {size:,} ({SOURCES[told['window_source']]})"
    assert known in past("history", "claude", SESSION).stdout.splitlines()
    of_agent = past.json("history", "claude", SESSION, "--thread", AGENT)
    assert 0 < of_agent["largest_tokens"] < largest, "a subagent's window is its own"


@pytest.mark.feature("facts.windows")
def test_a_size_that_nobody_says_is_said_to_be_unknown(tmp_path: Path):
    ClaudeHome(tmp_path / "claude").session().prompt("go").answer(text("done"), model="no-such-model", usages=[usage(5_000)]).save()
    ctx = Ctx(tmp_path, environment(tmp_path))
    ctx("sync")
    assert "\nat most 5.0 k tokens in the window; how many it holds is not known\n" in ctx("history", SESSION).stdout
    assert ctx.json("history", SESSION)["window_tokens"] is None


MOMENTS = ["turn:1", "before-compaction:1", "after-compaction:1", "end"]


def test_times_are_local_in_the_answer_and_in_the_question(past: Ctx):
    tokyo = Ctx(past.folder, past.environ | {"TZ": "Asia/Tokyo"})
    told = past.json("history", "claude", SESSION)["moments"][0]
    lines = tokyo("history", "claude", SESSION).stdout.splitlines()
    moment = datetime.fromisoformat(told["time"]).astimezone(ZoneInfo("Asia/Tokyo"))

    assert lines[1].endswith("; times in Asia/Tokyo")
    assert f"{moment:%Y-%m-%d %H:%M:%S}" in next(line for line in lines if line.startswith("turn:1 "))
    at = tokyo.json("history", "claude", SESSION, "--at", f"{moment:%Y-%m-%dT%H:%M:%S}")
    assert at["components"] == past.json("history", "claude", SESSION, "--at", told["time"])["components"]


def test_a_difference_prints_what_a_compaction_removed(past: Ctx):
    text = past("history", "claude", SESSION, "--diff", "before-compaction", "after-compaction", "--limit", "2").stdout

    assert "removed: 8 components" in text
    assert "mostly result Read 1" in text
    assert "… 6 more: --limit 0 prints all" in text
    assert "added: 1 component," in text
    assert "The parser was slow; it is being mended." in text
    found = past.json("history", "claude", SESSION, "--diff", "before-compaction", "after-compaction", "--select", "+tool_result")
    assert [(r["kind"], r["tool"]) for r in found["removed"]] == [("result", "Read"), ("result", "Task")]
    assert (found["from"]["moment"], found["to"]["moment"]) == ("before-compaction:1", "after-compaction:1")


def test_the_json_has_moments_components_and_weights(past: Ctx):
    found = past.json("history", "claude", SESSION, "--at", "turn:1", "--tokens")

    assert [m["moment"] for m in found["moments"]] == MOMENTS
    assert found["at"]["moment"] == "turn:1"
    assert [(c["seq"], c["kind"], c["text"]) for c in found["components"]][1] == (0, "prompt", "make the parser faster")
    assert found["components"][1]["place"] == [1, 0, 0]
    assert sum(w["tokens"] for w in found["weights"]) == found["at"]["counted_tokens"] + found["at"]["unseen_tokens"]
    assert found["at"]["billed_tokens"] == 5200
    assert {t["thread_id"] for t in found["threads"]} == {SESSION, f"{SESSION}/{AGENT}"}


def test_a_selector_prints_its_components_one_a_line(past: Ctx):
    lines = past("history", "claude", SESSION, "--at", "before-compaction", "--select", "+tool_call").stdout.splitlines()

    assert [line.split()[1:3] for line in lines[1:]] == [["call", "Read"], ["call", "Task"]]


def test_a_selector_of_the_past_is_headed_by_the_window_that_it_read(past: Ctx):
    head, *lines = past("history", "claude", SESSION, "--select", "@t-2 +prompt").stdout.splitlines()

    assert head.startswith("window at before-compaction:1 (event ")
    assert [line.split()[0] for line in lines] == ["0", "5"]
    assert past.json("history", "claude", SESSION, "--select", "@t-2 +prompt")["at"]["moment"] == "before-compaction:1"


def test_a_selector_of_every_moment_prints_each_component_once(past: Ctx):
    head, *lines = past("history", "claude", SESSION, "--select", "@* +prompt").stdout.splitlines()

    assert head == "in the windows up to end (event 11): 2 components"
    assert [line.split()[:2] for line in lines] == [["0", "prompt"], ["5", "prompt"]]
    assert lines[0].endswith("make the parser faster")


def test_a_range_prints_its_moments_and_components(past: Ctx):
    text = past("history", "claude", SESSION, "--select", "@t-2..@t0 +prompt").stdout.splitlines()

    assert text[0] == "after-compaction:1 (@t-1) to end (@t0): 0 removed, 0 added, 0 changed"
    assert text[1] == "before-compaction:1 (@t-2) to after-compaction:1 (@t-1): 2 removed, 0 added, 0 changed"
    assert [line.split()[:3] for line in text[2:]] == [["-", "0", "prompt"], ["-", "5", "prompt"]]
    found = past.json("history", "claude", SESSION, "--select", "@t-2..@t0 +prompt")["differences"]
    assert [r["text"] for r in found["diffs"][1]["components"]["removed"]] == ["make the parser faster", "then mend it"]
    assert found["diffs"][1]["from"]["moment"] == "after-compaction:1"


def test_a_difference_says_that_it_was_put_into_the_order_of_time_and_prints_nothing_empty(past: Ctx):
    text = past("history", "claude", SESSION, "--diff", "end", "after-compaction").stdout

    assert "end is the later one: what follows goes from after-compaction:1 to it" in text
    assert "added: 1 component" in text
    assert "removed" not in text
    assert "later one" not in past("history", "claude", SESSION, "--diff", "after-compaction", "end").stdout
    assert past("history", "claude", SESSION, "--diff", "end", "end").stdout.splitlines()[-1] == "no component differs"


def test_a_subagent_is_named_and_a_window_is_exported(past: Ctx):
    file = past.folder / "window.json"
    said = past("history", "claude", SESSION, "--thread", AGENT, "--export", str(file)).stdout

    assert said.strip() == f"1 snapshot in {file}"
    context = Context.from_snapshot(json.loads(file.read_text()))
    assert [b["content"] for b in context.provider_thread()] == ["count the files", "There are 7 files."]


def test_no_secret_and_no_escape_reaches_the_terminal(past: Ctx):
    text = past("history", "codex", "019ca9d4", "--limit", "0").stdout + past("history", "codex", "019ca9d4", "--json").stdout

    assert "[REDACTED:" in text
    assert SECRET not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nobody"], 1, "session"),
        ([SESSION, "--at", "nonsense"], 1, "before-compaction:N"),
        ([SESSION, "--select", ".block{{"], 1, "at character"),
        ([SESSION, "--diff", "start", "end", "--tokens"], 2, "--diff stands alone"),
        ([SESSION, "--thread", "zzz"], 1, "thread"),
        ([SESSION, "--at", ""], 2, "a moment has no name"),
        ([SESSION, "--diff", "", "end"], 2, "a moment has no name"),
        ([SESSION, "--diff", "start", "end", "--at", "end"], 2, "--diff stands alone"),
        ([SESSION, "--at", "turn:1", "--export", "w.jsonl"], 2, "gets every moment"),
        ([SESSION, "--select", "@* .block", "--tokens"], 2, "--tokens weighs one window"),
        ([SESSION, "--select", "@history .block", "--tokens"], 2, "--tokens weighs one window"),
        ([SESSION, "--select", "+prompt", "--export", "w.json"], 2, "writes the whole window"),
        ([SESSION, "--tokens", "--export", "w.json"], 2, "writes the whole window"),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_a_hint(past: Ctx, words: list[str], code: int, message: str):
    done = past("history", "claude", *words, ok=False)

    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "hint:" in done.stderr


def test_a_limit_prints_no_component_twice_and_says_how_many_are_hidden(past: Ctx):
    whole = past("history", "codex", "019ca9d4", "--at", "before-compaction", "--limit", "0").stdout.splitlines()[1:]
    every = [line for line in whole if line.startswith("  ")]

    assert len(every) == 5
    for limit in (1, 2, 3, 4):
        lines = past("history", "codex", "019ca9d4", "--at", "before-compaction", "--limit", str(limit)).stdout.splitlines()[1:]
        shown = [line for line in lines if line.startswith("  ") and "…" not in line[:4]]
        assert (len(shown), len(set(shown))) == (limit, limit)
        assert set(shown) <= set(every)
        assert shown[-1] == every[-1]
        assert [line.split()[1] for line in lines if line.startswith("  …")] == [str(5 - limit)]


def test_every_moment_that_is_printed_can_be_asked_for(tmp_path: Path):
    (tmp_path / "nobody").mkdir(exist_ok=True)
    home = ClaudeHome(tmp_path / "claude")
    main = home.session()
    main.prompt("first").answer(text("one"))
    back = main.last_uuid
    main.prompt("second").answer(text("two"))
    main.last_uuid = back
    main.prompt("instead").answer(text("three"))
    main.save()
    ctx = Ctx(tmp_path, environment(tmp_path))
    ctx("sync")
    named = [m["moment"] for m in ctx.json("history", "claude", SESSION)["moments"]]

    assert named == ["turn:1", "before-rewind:1", "turn:2", "end"]
    for name in (*named, "start", "0"):
        assert ctx.json("history", "claude", SESSION, "--at", name)["at"]["moment"] == name
    assert ctx("history", "claude", SESSION, "--at", "start").stdout.startswith("window at start (before the first event): 0 components")


def test_first_characters_that_several_sessions_have_list_them(tmp_path: Path):
    (tmp_path / "nobody").mkdir(exist_ok=True)
    home = ClaudeHome(tmp_path / "claude")
    names = [f"0a1b{n}000-0000-4000-8000-000000000000" for n in (1, 2)]
    for name in names:
        home.session(name).prompt("hello").answer(text("hi")).save()
    ctx = Ctx(tmp_path, environment(tmp_path))
    ctx("sync")
    done = ctx("history", "claude", "0a1b", ok=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "'0a1b' means 2 claude sessions" in done.stderr
    assert all(name in done.stderr for name in names)


def test_a_result_that_was_cleared_shows_what_it_weighed_before(tmp_path: Path):
    (tmp_path / "nobody").mkdir(exist_ok=True)
    main = ClaudeHome(tmp_path / "claude").session()
    main.prompt("look").answer(tool_use("toolu_1", "Read", file_path="/x")).result("toolu_1", "word " * 400)
    main.system("microcompact_boundary", microcompactMetadata={"compactedToolIds": ["toolu_1"], "trigger": "auto"})
    main.answer(text("seen")).save()
    ctx = Ctx(tmp_path, environment(tmp_path))
    ctx("sync")
    said = ctx("history", "claude", SESSION, "--diff", "before-clearing", "after-clearing").stdout
    [changed] = ctx.json("history", "claude", SESSION, "--diff", "before-clearing", "after-clearing")["changed"]

    assert changed["tokens_before"] > 300
    assert changed["tokens"] == 0
    assert f"changed: 1 component, {changed['tokens_before']} → 0 tokens" in said


def test_a_reader_that_goes_away_is_no_failure(past: Ctx):
    command = [sys.executable, "-m", "ctx_pipeline", "history", "codex", "019ca9d4", "--limit", "0"]
    process = subprocess.Popen(command, env=past.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.close()
    try:
        _, errors = process.communicate(timeout=250)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert (process.returncode, errors) == (0, b"")


@pytest.mark.feature("facts.turns")
def test_a_command_that_the_model_carried_out_is_a_turn_of_the_list_and_of_the_history(tmp_path: Path):
    main = ClaudeHome(tmp_path / "claude").session()
    main.prompt("first").answer(text("one"))
    main.prompt("<command-message>init</command-message>\n<command-name>/init</command-name>").answer(text("two"))
    main.prompt("<command-name>/clear</command-name>\n<command-message>clear</command-message>")
    main.prompt("last").answer(text("three"))
    main.save()
    ctx = Ctx(tmp_path, environment(tmp_path))
    ctx("sync")
    told = [(turn["prompt"]["text"], turn["answer"]["text"]) for turn in ctx.json("show", SESSION, "--turns")["turns"]]
    assert "3 turns: 2 prompts, 1 slash command" in ctx("show", SESSION, "--turns").stdout

    assert told == [("first", "one"), ("/init", "two"), ("last", "three")]
    assert [m["moment"] for m in ctx.json("history", "claude", SESSION)["moments"]] == ["turn:1", "turn:2", "end"]
    window = ctx("history", "claude", SESSION, "--at", "turn:2").stdout
    assert "two" in window
    assert "three" not in window
