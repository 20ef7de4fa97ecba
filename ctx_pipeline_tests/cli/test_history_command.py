"""``ctx history`` over a session that was compacted."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import Context
from ctx_pipeline_tests.cli.conftest import Ctx, environment
from ctx_pipeline_tests.factories.windows import AGENT, SECRET, SESSION, claude_home, codex_home

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
    assert [line.split(",")[0].strip() for line in tree if not line.startswith(" ")][1:] == ["system", "d0 active turn"]
    assert [line.split()[:2] for line in tree if line.startswith("  ")][1:] == [["10", "injected"], ["11", "answer"]]
    assert "unseen" in tree[2]


MOMENTS = ["turn:1", "before-compaction:1", "after-compaction:1", "end"]


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
    text = past("history", "claude", SESSION, "--select", "@t-1..@t0 .block").stdout
    assert text.startswith("@t0 to @t-1: 1 added, 0 removed, 0 changed")


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
        ([SESSION, "--at", "nonsense"], 2, "before-compaction:N"),
        ([SESSION, "--select", ".block{{"], 1, "at character"),
        ([SESSION, "--diff", "start", "end", "--tokens"], 2, "--diff stands alone"),
        ([SESSION, "--thread", "zzz"], 1, "thread"),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_a_hint(past: Ctx, words: list[str], code: int, message: str):
    done = past("history", "claude", *words, ok=False)

    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "hint:" in done.stderr
