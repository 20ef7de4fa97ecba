"""Chat histories of Aider: who speaks is told by the beginning of a line, what was used by a rounded report."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.hosts.aider import HOST
from ctx_pipeline.model.host_records import OUT
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline.settings import load
from ctx_pipeline_tests.factories import aider as make
from ctx_pipeline_tests.factories.sample_homes import assert_made, put, sessions_of


def parse(text: str):
    stream = StreamBytes("0" * 16, "history", make.FILE, 0, text.encode(), make.SESSION)
    return HOST.records.parse(SessionInput("aider", make.SESSION, (stream,)))


@pytest.mark.feature("aider.sample")
def test_the_sample_home_is_made_by_its_factory() -> None:
    assert_made("aider", make.home())


@pytest.mark.feature("aider.capture")
def test_a_history_is_a_session_and_each_start_a_thread(tmp_path: Path) -> None:
    found = sessions_of("aider", put(tmp_path / "home", make.home()), tmp_path / "store")

    (session,) = found.values()
    assert (session["title"], session["threads"], session["prompts"], session["version"]) == (
        "add a table of contents to notes.md",
        2,
        3,
        "0.86.1",
    )
    assert session["calls"] == [("claude-sonnet-4-5", 600, 120, 1000, 800, 0), ("qwen3-coder", 1234, 56, 0, 0, 0)]
    assert session["recorded_cost"] == 9_300_000


@pytest.mark.feature("aider.capture")
def test_the_named_histories_and_folders_are_looked_at(tmp_path: Path) -> None:
    put(tmp_path / "one", make.home())
    put(tmp_path / "two", {make.FILE: make.second()})
    named = f"{tmp_path / 'one'},{tmp_path / 'two' / make.FILE}"
    chosen = load({"AIDER_CHAT_HISTORY_FILE": named, "CTX_HOME": str(tmp_path / "store")})

    assert [root.name for root in chosen.roots_of(discovery.host("aider"))] == ["one", make.FILE]


@pytest.mark.feature("aider.growth")
def test_a_history_that_grew_gives_the_same_calls_under_the_same_keys() -> None:
    keys = [[MODEL_CALLS.row(*row).call_key for row in parse(text).model_calls] for text in (make.first(), make.first() + make.second())]

    assert keys[1][:1] == keys[0]
    assert len(keys[1]) == 2


@pytest.mark.feature("aider.events")
def test_edits_commands_errors_and_stops_are_read_from_notices() -> None:
    parsed = parse(make.first())
    events = [EVENTS.row(*row) for row in parsed.events]

    assert [(c.tool, c.action, c.paths, c.argv) for c in (TOOL_CALLS.row(*row) for row in parsed.tool_calls)] == [
        ("edit", "edit", ["notes.md"], []),
        ("run", "shell", [], ["make check"]),
    ]
    assert [e.text for e in events if e.kind == "error"] == ["litellm.RateLimitError: too many requests"]
    assert [e.text for e in events if e.subtype in {"slash", "interrupt"}] == ["/run make check", "^C again to exit"]
    assert HOST.records.window is not None
    assert HOST.records.window("injected", "notice", "Commit abc1234", bytes) == OUT


@pytest.mark.feature("aider.asked")
def test_a_question_that_is_written_twice_counts_once_and_what_the_architect_says_is_no_prompt() -> None:
    parsed = parse(make.architect())
    events = [EVENTS.row(*row) for row in parsed.events]

    assert [e.text for e in events if e.kind == "prompt"] == ["1. Read notes.md.\n2. Make a plan.", "is that all?"]
    assert [e.text for e in events if e.kind == "answer"] == ["Two steps:\n\n1. a list\n2. a test", "Done as planned.", "Yes."]
    assert [e.subtype for e in events if e.kind == "injected" and e.actor == "user"] == ["architect", "slash"]
    assert [MODEL_CALLS.row(*row).model for row in parsed.model_calls] == ["deepseek-chat", "deepseek-coder", "deepseek-chat"]
    assert parsed.facts.cwd == "/home/ada/notes/src"


@pytest.mark.feature("aider.tokens")
@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("Tokens: 1.2M sent, 3.4k received.", (1_200_000, 3_400, 0, 0, None)),
        ("Tokens: 12,345 sent, 9,000 cached, 7 received. Cost: $0.12 request, $1.00 session.", (3_345, 7, 9_000, 0, 120_000_000)),
        ("Tokens: 100 sent, 500 cache hit, 7 received. Cost: $0.00 message, $0.00 session.", (0, 7, 100, 0, None)),
        ("Tokens: many sent, none received.", None),
    ],
)
def test_a_report_of_tokens_is_read_in_every_shape(report, expected) -> None:
    text = f"# aider chat started at 2026-03-04 10:00:00\n\n#### do it  \n\n> {report}  \n"
    calls = [MODEL_CALLS.row(*row) for row in parse(text).model_calls]

    found = [(c.input, c.output, c.cache_read, c.cache_write_5m, c.recorded_cost) for c in calls]
    assert found == ([expected] if expected else [])


@pytest.mark.feature("aider.asked")
def test_a_heading_in_an_answer_is_no_prompt_where_prompts_end_as_aider_ends_them() -> None:
    chat = "# aider chat started at 2026-03-04 10:00:00\n\n#### explain it{end}\n\nFirst:\n\n#### 1. Setup\n\nDone.\n\n#### thanks{end}\n"

    def told(text: str) -> list[tuple[str, str | None]]:
        return [(e.kind, e.text) for e in (EVENTS.row(*row) for row in parse(text).events) if e.kind != "session_start"]

    written = [("prompt", "explain it"), ("answer", "First:\n\n#### 1. Setup\n\nDone."), ("prompt", "thanks")]
    assert told(chat.format(end="  ")) == written
    stripped = [text for kind, text in told(chat.format(end="")) if kind == "prompt"]
    assert stripped == ["explain it", "1. Setup", "thanks"]
    assert [text for kind, text in told(chat.format(end="") + chat.format(end="  ")) if kind == "prompt"] == [
        *stripped,
        "explain it",
        "thanks",
    ]
