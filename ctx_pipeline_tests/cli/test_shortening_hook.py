"""``ctx hook shorten`` as an agent runs it after a command: what the model reads instead, and what stays as it is."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctx_pipeline.cli import cli
from ctx_pipeline.compression.compress import counting
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.tokens.estimates import near_count
from ctx_pipeline_tests.cli.test_hook import SESSION, SHOP, hook
from ctx_pipeline_tests.factories import patient_hook

PASSES = "".join(f"tests/test_{n}.py::test_{n} PASSED [ {n}%]\n" for n in range(60)) + "60 passed in 1.2s\n"
ERROR = "E       assert 3 == 4\ntests/test_cart.py:12: AssertionError\n1 failed, 60 passed in 1.3s\n"
KEY = "sk-ant-api03-" + "a1B2" * 10


def exact(text: str) -> int:
    return counting().count_tokens(text).count


def claude(command: str, output: str, **more: Any) -> dict[str, Any]:
    """A payload of Claude Code 2.1 after a command that succeeded."""
    return {
        "session_id": SESSION,
        "transcript_path": f"/home/sam/.claude/projects/-home-sam-code-shop/{SESSION}.jsonl",
        "cwd": SHOP,
        "permission_mode": "default",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command, "description": "Run it", "timeout": 120000},
        "tool_response": {"stdout": output, "stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False} | more,
        "tool_use_id": "toolu_01",
        "duration_ms": 812,
    }


def codex(command: str, output: str) -> dict[str, Any]:
    """A payload of Codex 0.15x after a command that ended: the response is its bare text."""
    return {
        "session_id": SESSION,
        "turn_id": "7",
        "transcript_path": None,
        "cwd": SHOP,
        "hook_event_name": "PostToolUse",
        "model": "gpt-5.2-codex",
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_response": output,
        "tool_use_id": "call_1",
    }


@pytest.fixture
def shorten(environ):
    """Return what the hook answers, as the agent parses it; None where it says nothing."""
    Path(environ["CTX_HOME"]).mkdir(parents=True, exist_ok=True)

    def asked(payload: Any, host: str = "claude") -> dict[str, Any] | None:
        printed = hook(environ, payload, does="shorten", host=host)
        return json.loads(printed) if printed else None

    return asked


@pytest.mark.feature("hooks.shorten", "hooks.payloads")
def test_claude_reads_passes_as_a_count_in_an_object_of_the_tools_own_shape(environ, shorten, monkeypatch):
    told = shorten(claude("pytest -v", PASSES))

    assert told is not None
    specific = told["hookSpecificOutput"]
    assert (list(told), specific["hookEventName"]) == (["hookSpecificOutput"], "PostToolUse")
    updated = specific["updatedToolOutput"]
    assert {k: v for k, v in updated.items() if k != "stdout"} == {
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    first, second, last = updated["stdout"].split("\n")
    assert (first, second) == ("[60 lines of passes]", "60 passed in 1.2s")
    handle = last.split()[2].rstrip(":")
    assert last == f"[ctx recall {handle}: whole of 61 lines]"
    monkeypatch.setenv("CTX_HOME", environ["CTX_HOME"])
    assert CliRunner().invoke(cli, ["recall", handle]).output == PASSES
    journal = Journal(Path(environ["CTX_HOME"]) / "journal.db", read_only=True)
    try:
        (fact,) = journal.facts("hook.shortened")
    finally:
        journal.close()
    assert fact.payload == {
        "host": "claude",
        "session_id": SESSION,
        "output": "test",
        "characters_before": len(PASSES),
        "tokens_before": near_count(PASSES),
        "characters_after": len(updated["stdout"]),
        "tokens_after": near_count(updated["stdout"]),
    }


SIGNS = "".join(f"t.py::t_{n} PASSED [ {n}%]\n" for n in range(16))
WORDS = "".join(f"  {('management applications', 'particular government')[n % 2]} described {n}\n" for n in range(60))


@pytest.mark.feature("hooks.shorten-tokens")
def test_what_counts_is_the_share_of_tokens_and_not_of_characters(shorten):
    """Passes are of few characters and many tokens, long words the other way round."""
    output = f"{SIGNS}{WORDS}"
    told = shorten(claude("pytest -v", output))

    assert told is not None
    short = told["hookSpecificOutput"]["updatedToolOutput"]["stdout"]
    assert WORDS in short
    assert len(short) > 0.85 * len(output)
    assert exact(short) < 0.85 * exact(output)


CHINESE = "配置文件中缺少数据库连接地址,请检查环境变量是否已经设置。测试失败了三次,因为服务器没有启动。\n"
JAPANESE = "設定ファイルにデータベースの接続先がありません。サーバーが起動していないため、テストが三回失敗しました。\n"
KOREAN = "설정 파일에 데이터베이스 연결 주소가 없습니다. 서버가 시작되지 않아 테스트가 세 번 실패했습니다.\n"
MIXED = "错误: 无法连接到 localhost:5432 (connection refused)\n  测试 test_orders 失败: KeyError 'DATABASE_URL'\n"


@pytest.mark.feature("hooks.shorten-tokens")
@pytest.mark.parametrize("text", [CHINESE, JAPANESE, KOREAN, MIXED])
def test_signs_of_chinese_japanese_and_korean_are_no_letters_of_long_words(text):
    assert near_count(text * 9) == pytest.approx(exact(text * 9), rel=0.3)


@pytest.mark.feature("hooks.shorten-tokens")
@pytest.mark.parametrize("text", [PASSES, ERROR, Path(__file__).read_text("utf-8"), json.dumps(json.loads('[{"a": 1.25}]') * 400)])
def test_tokens_are_counted_about_right_without_an_encoding(text):
    assert near_count(text) == pytest.approx(exact(text), rel=0.35)
    assert near_count(text * 200) == pytest.approx(200 * near_count(text), rel=0.02)


@pytest.mark.feature("hooks.shorten-tokens")
def test_the_hook_loads_no_encoding(environ):
    Path(environ["CTX_HOME"]).mkdir(parents=True, exist_ok=True)
    words = "import runpy, sys; sys.argv = ['ctx', 'hook', 'shorten', 'claude']; import os; end = os._exit"
    script = f"{words}; os._exit = lambda code: (print('tiktoken' in sys.modules, file=sys.stderr), end(code))\n"
    script += "runpy.run_module('ctx_pipeline', run_name='__main__')"
    payload = json.dumps(claude("pytest -v", PASSES)).encode()
    done = subprocess.run([sys.executable, "-c", script], input=payload, env=environ, capture_output=True, check=True)

    assert b"lines of passes" in done.stdout
    assert done.stderr == b"False\n"


@pytest.mark.feature("hooks.shorten", "hooks.payloads")
def test_codex_reads_the_short_text_in_place_of_its_result_and_no_script_throws(shorten):
    told = shorten(codex("pytest -v", PASSES), "codex")

    assert told is not None
    assert sorted(told) == ["continue", "stopReason"]
    assert told["continue"] is False
    assert told["stopReason"].startswith("[60 lines of passes]\n60 passed in 1.2s\n[ctx recall ")


@pytest.mark.feature("hooks.shorten")
def test_a_failure_stays_whole_where_the_payload_does_not_say_how_the_command_ended(shorten):
    assert shorten(codex("pytest -v", PASSES + ERROR), "codex") is None
    told = shorten(claude("pytest -v || true", PASSES + ERROR))
    assert told is not None
    assert ERROR in told["hookSpecificOutput"]["updatedToolOutput"]["stdout"]


@pytest.mark.feature("hooks.shorten")
@pytest.mark.parametrize(
    "payload",
    [
        claude("cat tests/all.txt", PASSES),
        claude("pytest -v", PASSES[:300]),
        claude("ctx recall 0123456789ab", PASSES),
        claude("cd shop && /home/sam/.local/bin/ctx run-command -- pytest -v", PASSES),
        claude("pytest -v", PASSES, isImage=True),
        claude("pytest -v", PASSES, interrupted=True),
        claude("pytest -v", PASSES, backgroundTaskId="b1"),
        claude("pytest -v", PASSES, persistedOutputPath="/home/sam/.claude/out.txt"),
        claude("pytest -v", PASSES) | {"tool_response": PASSES},
        claude("pytest -v", PASSES) | {"tool_input": "pytest"},
        claude("pytest -v", PASSES, stdout=None),
        b"[" * 2_000,
        b"{}" + b" " * 2_000,
    ],
    ids=lambda p: str(p)[-60:],
)
def test_text_of_files_what_ctx_printed_and_what_is_no_whole_output_stay_as_they_are(shorten, payload):
    assert shorten(payload) is None


@pytest.mark.feature("hooks.shorten")
def test_what_is_kept_holds_no_secret_and_without_a_store_nothing_is_said(environ, shorten):
    told = shorten(claude("pytest -v", PASSES + f"token {KEY}\n"))
    assert told is not None
    assert KEY not in json.dumps(told)
    assert "[REDACTED:" in json.dumps(told)
    environ = environ | {"CTX_HOME": str(Path(environ["CTX_HOME"]) / "none")}
    assert hook(environ, claude("pytest -v", PASSES), does="shorten") == ""
    assert not Path(environ["CTX_HOME"]).exists()


@pytest.mark.feature("hooks.shorten", "compression.shown-lines")
def test_a_window_is_not_shown_the_same_lines_twice_until_it_is_emptied(environ, shorten):
    listing = "".join(f"def part_{n}():\n    return {n}\n" for n in range(60))

    assert shorten(claude("cat parts.py", listing)) is None
    again = shorten(claude("cat parts.py", listing))
    assert again is not None
    assert again["hookSpecificOutput"]["updatedToolOutput"]["stdout"].startswith("[121 lines as shown before]\n[ctx recall ")
    assert shorten(claude("cat parts.py", listing) | {"agent_id": "a1"}) is None
    assert shorten(claude("cat parts.py", listing) | {"session_id": "another"}) is None
    start = {"session_id": SESSION, "cwd": SHOP, "hook_event_name": "SessionStart"}
    hook(environ, start | {"source": "resume"}, "--outputs")
    assert shorten(claude("cat parts.py", listing)) is not None
    hook(environ, start | {"source": "compact"}, "--outputs")
    assert shorten(claude("cat parts.py", listing)) is None


def read_file(path: str, text: str, first: int = 1, **more: Any) -> dict[str, Any]:
    """A payload of Claude Code 2.1 after its Read tool; the response has the shape that its transcripts record."""
    lines = text.split("\n")
    file = {"filePath": path, "content": text, "numLines": len(lines), "startLine": first, "totalLines": 400}
    return claude("", "") | {
        "tool_name": "Read",
        "tool_input": {"file_path": path, "offset": first, "limit": len(lines)},
        "tool_response": {"type": "text", "file": file},
        **more,
    }


@pytest.mark.feature("hooks.read-again", "hooks.payloads")
def test_a_file_that_stands_in_the_window_unchanged_is_a_line_and_once_more_its_text(environ, shorten):
    text = "".join(f"def part_{n}():\n    return {n}\n" for n in range(40))
    path = f"{SHOP}/parts.py"

    assert shorten(read_file(path, text)) is None
    again = shorten(read_file(path, text))
    assert again is not None
    assert again["hookSpecificOutput"] == {
        "hookEventName": "PostToolUse",
        "updatedToolOutput": {
            "type": "text",
            "file": {
                "filePath": path,
                "content": "[lines 1-81 of this file stand above, unchanged; read once more for their text]",
                "numLines": 1,
                "startLine": 1,
                "totalLines": 400,
            },
        },
    }
    assert shorten(read_file(path, text)) is None
    part = "\n".join(text.split("\n")[4:80])
    assert shorten(read_file(path, part, 5)) is not None


@pytest.mark.feature("hooks.read-again")
def test_a_file_that_changed_moved_or_was_read_by_another_agent_is_given_whole(environ, shorten):
    text = "".join(f"def part_{n}():\n    return {n}\n" for n in range(40))
    path = f"{SHOP}/parts.py"

    assert shorten(read_file(path, text)) is None
    assert shorten(read_file(path, text.replace("return 20", "return 21"))) is None
    assert shorten(read_file(path, text, 3)) is None
    assert shorten(read_file(f"{SHOP}/copy.py", text)) is None
    assert shorten(read_file(path, text, agent_id="a1")) is None
    assert shorten(read_file(path, text, session_id="another")) is None
    hook(environ, {"session_id": SESSION, "cwd": SHOP, "hook_event_name": "SessionStart", "source": "compact"}, "--outputs")
    assert shorten(read_file(path, text)) is None


@pytest.mark.feature("hooks.read-again")
@pytest.mark.parametrize(
    "response",
    [
        {"type": "file_unchanged", "file": {"filePath": "/a"}},
        {"type": "image", "file": {"base64": "x" * 2_000}},
        {"type": "text", "file": {"filePath": "/a", "content": "x" * 2_000}},
        {"type": "text", "file": "x" * 2_000},
        {"type": "text", "file": {"filePath": ["/a"], "content": "x" * 2_000, "startLine": 1}},
        "x" * 2_000,
    ],
    ids=str,
)
def test_what_is_no_text_of_a_file_stays_as_it_is_however_often_it_is_read(shorten, response):
    payload = read_file("/a", "x") | {"tool_response": response, "padding": "x" * 2_000}

    assert [shorten(payload), shorten(payload)] == [None, None]


@pytest.mark.feature("hooks.shorten", "hooks.install", "hooks.uninstall")
@pytest.mark.parametrize(("host", "name"), [("claude", "settings.json"), ("codex", "hooks.json")])
def test_outputs_are_shortened_only_where_a_person_asked_for_it_and_taken_out_again(host, name, monkeypatch):
    home = Path(os.environ["HOME"])
    monkeypatch.delenv("CTX_HOME")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    path = home / f".{host}" / name
    path.parent.mkdir()
    before = '{\n  "hooks": {\n    "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}]\n  }\n}\n'
    path.write_text(before)

    def ctx(*words: str) -> str:
        done = CliRunner().invoke(cli, ["hooks", *words, *(["--yes"] if words[0] == "install" else [])])
        assert done.exit_code == 0, done.output
        return done.output

    def after_a_command() -> list[str]:
        groups = json.loads(path.read_text())["hooks"]["PostToolUse"]
        return [shlex.split(h["command"])[2] for g in groups if "Bash" in g["matcher"].split("|") for h in g["hooks"]]

    assert "before the model reads" not in ctx("install", host)
    assert "shorten" not in after_a_command()
    asked = ctx("install", host, "--outputs")
    assert "after a shell command: its output, shortened before the model reads it" in asked
    assert set(json.loads(path.read_text())["hooks"]) == set(asked.partition("will run ctx at ")[2].partition(" (")[0].split(", "))
    assert after_a_command().count("shorten") == 1
    assert "shortened before the model reads it" in ctx("status", host)
    ctx("install", host, "--handoff")
    assert after_a_command().count("shorten") == 1
    ctx("install", host, "--no-outputs")
    assert "shorten" not in after_a_command()
    ctx("install", host, "--outputs")
    ctx("uninstall", host)
    assert path.read_text() == before


@pytest.mark.feature("faults.little-memory", "hooks.never-in-the-way")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold a process to its address space")
def test_with_too_little_memory_a_hook_ends_in_silence_also_where_a_library_ends_the_process(environ):
    Path(environ["CTX_HOME"]).mkdir()
    payload = json.dumps(claude("pytest -v", PASSES * 50)).encode()
    answered = set()
    for kilobytes in (20_000, 24_000, *range(36_000, 44_000, 500), 100_000, 600_000):
        done = subprocess.run(
            patient_hook.command("shorten", "claude"),
            env={**environ, "PATH": os.environ["PATH"]},
            input=payload,
            capture_output=True,
            timeout=200,
            check=False,
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, (kilobytes << 10, kilobytes << 10)),
        )
        assert (done.returncode, done.stderr) == (0, b""), kilobytes
        answered.add(bool(done.stdout))

    assert answered == {True, False}
