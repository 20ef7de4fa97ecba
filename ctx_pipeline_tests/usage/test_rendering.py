"""``ctx render``: one session as Markdown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline.sessions.markdown import _body, render
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.usage.conftest import ingested

SESSION = "11111111-1111-4111-8111-111111111111"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def worked(tmp_path: Path) -> Settings:
    folder = tmp_path / "claude" / "projects" / "-work-a"
    folder.mkdir(parents=True)
    edit = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2\ny = 3"}
    use = {"type": "tool_use", "id": "t1", "name": "Edit", "input": edit}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "done ``` " + "z" * 300 + f" {SECRET}"}
    records = [
        {"type": "user", "uuid": "p", "message": {"role": "user", "content": "Change x, please"}},
        {"type": "assistant", "uuid": "a", "message": {"id": "m", "role": "assistant", "model": "claude-x", "content": [use]}},
        {"type": "user", "uuid": "r", "message": {"role": "user", "content": [result]}},
    ]
    lines = [{**r, "timestamp": f"2026-10-01T10:00:0{n}Z", "sessionId": SESSION, "cwd": "/code/a"} for n, r in enumerate(records)]
    (folder / f"{SESSION}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))


@pytest.mark.feature("cli.render-folded")
def test_long_scripts_diffs_and_outputs_are_folded_with_a_count_and_words_are_not():
    numbers = [f"echo {n}" for n in range(1, 101)]
    script = json.dumps({"command": "\n".join(["cat > run.sh <<'EOF'", *numbers, "EOF"]), "description": "write it"})
    lines = "\n".join(_body("tool_call", script, 20_000, 40)).split("\n")
    assert lines[:4] == ["```", '{"description": "write it"}', "```", ""]
    assert lines[4:] == ["```sh", "cat > run.sh <<'EOF'", *numbers[:29], "[62 lines folded: --whole]", *numbers[-9:], "EOF", "```"]
    assert "\n".join(_body("tool_call", script, 20_000)).split("\n")[1] == script
    for kind, text in (("tool_result", "\n".join(numbers)), ("tool_call", json.dumps({"file_path": "a", "content": "\n".join(numbers)}))):
        told = "\n".join(_body(kind, text, 20_000, 40))
        assert "lines folded: --whole]" in told
        assert "echo 100" in told
        assert "echo 50" not in told
        assert "echo 50" in "\n".join(_body(kind, text, 20_000))
    assert "echo 50" in "\n".join(_body("prompt", "\n".join(numbers), 20_000, 40))
    short = json.dumps({"command": "\n".join(numbers[:40])})
    assert "\n".join(_body("tool_call", short, 20_000, 40)).split("\n")[1] == short


@pytest.mark.feature("cli.render-folded")
def test_what_is_folded_keeps_its_end_its_count_and_the_other_arguments():
    output = "\n".join(f"{n:03}" + "z" * 800 for n in range(1000))
    told = "\n".join(_body("tool_result", output, 20_000, 40))
    assert "[960 lines folded: --whole]" in told
    assert "\n999z" in told
    assert told.count("[303 characters cut]") == 40
    assert "characters cut*" not in told

    numbers = [f"echo {n}" for n in range(1, 42)]
    told = "\n".join(_body("tool_call", json.dumps({"workdir": "/elsewhere", "command": "\n".join(numbers)}), 20_000, 40))
    assert "/elsewhere" in told
    assert "[1 line folded: --whole]" in told


@pytest.mark.feature("cli.render")
def test_a_session_is_rendered_with_prompts_diffs_and_output(worked: Settings):
    text = render("claude", SESSION[:8], settings=worked)

    assert text.startswith("# Change x, please\n")
    assert "### User, 2026-10-01 10:00:00 UTC" in text
    assert "### Tool call Edit, " in text
    assert "```diff\n--- a.py\n+++ a.py\n-x = 1\n+x = 2\n+y = 3\n```" in text
    # output that holds a fence stands in a longer one
    assert "\n````\ndone ``` zzz" in text
    assert SECRET not in text


@pytest.mark.feature("cli.render")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "", "new_string": "z\nw"}]},
            "```diff\n--- a.py\n+++ a.py\n-x\n+y\n@@\n+z\n+w\n```",
        ),
        ({"file_path": "b.py", "content": "one\ntwo\n"}, "```diff\n+++ b.py\n+one\n+two\n```"),
        (
            "*** Begin Patch\n*** Update File: c\n-a\n+b\n*** End Patch",
            "```diff\n*** Begin Patch\n*** Update File: c\n-a\n+b\n*** End Patch\n```",
        ),
        ({"input": "*** Begin Patch\n-a\n"}, "```diff\n*** Begin Patch\n-a\n```"),
        ({"file_path": "a.py", "edits": [{"old_string": 3}]}, '```\n{"file_path": "a.py", "edits": [{"old_string": 3}]}\n```'),
        ({"file_path": "a.py", "edits": []}, '```\n{"file_path": "a.py", "edits": []}\n```'),
    ],
)
def test_every_kind_of_edit_is_a_diff(text: object, shown: str):
    told = text if isinstance(text, str) else json.dumps(text)

    assert "\n".join(_body("tool_call", told, 1000)) == shown


@pytest.mark.feature("cli.render")
@pytest.mark.parametrize(
    ("text", "closing"),
    [("so:\n```py\nx", "```"), ("````\n```\nx", "````"), ("~~~\n```\n", "~~~"), ("```\nx\n```", ""), ("a ``` b", ""), ("plain", "")],
)
def test_a_fence_that_a_text_leaves_open_is_closed_behind_it(text: str, closing: str):
    lines = "\n".join(_body("answer", text, 1000)).split("\n")

    assert lines == text.rstrip("\n").split("\n") + ([closing] if closing else [])


@pytest.mark.feature("cli.render")
def test_long_texts_are_cut_with_a_note_of_how_much(worked: Settings):
    text = render("claude", SESSION, longest=40, settings=worked)

    assert "characters cut*" in text
    assert "z" * 32 not in text
