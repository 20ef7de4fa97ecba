"""Files put together from what sessions of several agents captured, and the limits on what is read from a disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctx_pipeline import settings as settings_module
from ctx_pipeline.compression import project_files
from ctx_pipeline.compression.captured_files import applied, captured_files
from ctx_pipeline.compression.compress import captured, session_here, sources_at
from ctx_pipeline.compression.replay import replay
from ctx_pipeline.errors import NothingFound, UsageError
from ctx_pipeline.hosts.claude_code.file_changes import directories
from ctx_pipeline.storage.lake import Lake
from ctx_pipeline_tests.cli.conftest import Ctx
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import SESSION, ClaudeHome, text, tool_use, usage
from ctx_pipeline_tests.factories.shipped import environment

FOLDER = "/home/dev/shop"
BEFORE = ["LIMIT = 1", "", "def go(a):", "    return a", "", "def end():", "    pass"]
CHEAP = "22222222-2222-4222-8222-222222222222"
LONG = [f"value_{n} = load({n})" for n in range(60)]


def numbered(lines: list[str], first: int = 1) -> str:
    return "".join(f"{n:6}→{line}\n" for n, line in enumerate(lines, first))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> settings_module.Settings:
    """One session that reads a part of a file, edits it, and writes another; one that reads through the shell."""
    folder = tmp_path_factory.mktemp("captured")
    (folder / "nobody").mkdir()
    main = ClaudeHome(folder / "claude").session(cwd=FOLDER)
    main.prompt("mend the shop")
    main.answer(tool_use("toolu_1", "Read", file_path=f"{FOLDER}/shop.py", offset=1, limit=4), usages=[usage(1000)])
    main.result("toolu_1", numbered(BEFORE[:4]))
    main.answer(tool_use("toolu_2", "Edit", file_path=f"{FOLDER}/shop.py", old_string="LIMIT = 1", new_string="LIMIT = 1\nRATE = 2"))
    patch = [{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 3, "lines": [" LIMIT = 1", "+RATE = 2", " "]}]
    main.result(
        "toolu_2",
        "The file has been updated.",
        structured={
            "filePath": f"{FOLDER}/shop.py",
            "oldString": "LIMIT = 1",
            "newString": "LIMIT = 1\nRATE = 2",
            "originalFile": "\n".join(BEFORE) + "\n",
            "structuredPatch": patch,
        },
    )
    main.answer(tool_use("toolu_3", "Read", file_path=f"{FOLDER}/missing.py"))
    main.result("toolu_3", "File does not exist.", is_error=True)
    main.answer(text("Mended."), usages=[usage(2000)])
    main.save()
    cheap = ClaudeHome(folder / "claude").session(CHEAP, cwd="/home/dev/other")
    cheap.prompt("read")
    cheap.answer(tool_use("toolu_1", "Read", file_path="/home/dev/other/a.py"), usages=[usage(10)])
    cheap.result("toolu_1", numbered(LONG))
    cheap.answer(tool_use("toolu_2", "Read", file_path="/home/dev/other/a.py"), usages=[usage(10)])
    cheap.result("toolu_2", numbered(LONG))
    cheap.answer(text("Read."), usages=[usage(10)])
    cheap.save()
    codex.write(
        folder / "codex",
        [
            codex.meta(0, cwd=FOLDER),
            codex.context(1),
            codex.event(2, "user_message", message="look"),
            codex.item(
                3,
                "function_call",
                name="exec_command",
                call_id="c1",
                arguments=json.dumps({"cmd": "sed -n '2,3p' shop.py", "workdir": FOLDER}),
            ),
            codex.item(4, "function_call_output", call_id="c1", output="Exit code: 0\nWall time: 0 seconds\nOutput:\nsecond\nthird\n"),
            codex.tokens(5, codex.usage(900, 0, 20), codex.usage(900, 0, 20)),
            codex.item(6, "message", role="assistant", content=[{"type": "output_text", "text": "seen"}]),
            codex.tokens(7, codex.usage(1900, 0, 40), codex.usage(1000, 0, 20)),
            codex.event(8, "task_complete"),
        ],
    )
    environ = environment(folder)
    Ctx(folder, environ)("sync")
    return settings_module.load(environ)


@pytest.mark.feature("compress.from-capture")
def test_an_edit_changes_what_is_held_and_a_failed_read_holds_nothing(store: settings_module.Settings):
    (held,) = captured_files("claude", SESSION, settings=store).held
    (early,) = captured_files("claude", SESSION, at=2, settings=store).held

    assert held.path == f"{FOLDER}/shop.py"
    assert held.text == "LIMIT = 1\nRATE = 2\n\ndef go(a):\n    return a\n"
    assert not held.partial
    assert early.text == "\n".join(BEFORE[:4]) + "\n"
    assert captured_files("claude", SESSION, at=0, settings=store).held == []
    found = captured("claude", SESSION, settings=store)
    assert [symbol.name for symbol in found.sources[0].outline.symbols] == ["LIMIT", "RATE", "go"]


@pytest.mark.feature("compress.from-capture")
def test_lines_that_a_shell_printed_have_their_numbers(store: settings_module.Settings):
    found = captured_files("codex", codex.THREAD, settings=store)

    assert [(held.path, held.lines, held.partial) for held in found.held] == [(f"{FOLDER}/shop.py", {2: "second", 3: "third"}, True)]
    assert [(one.lines, one.known, one.changed_after) for one in found.shown] == [(2, 0, False)]
    assert session_here(Path(FOLDER), store) == ("claude", SESSION)
    with pytest.raises(NothingFound):
        session_here(store.home, store)


@pytest.mark.feature("compress.replay")
def test_a_file_that_was_changed_after_its_read_counts_in_the_upper_bound_alone(store: settings_module.Settings):
    certain, likely, upper = replay("claude", SESSION, settings=store).bounds

    assert (certain.reads, likely.reads) == (0, 0)
    # three calls were sent it
    assert (upper.reads, upper.carried) == (1, 3 * upper.tokens)
    assert upper.tokens > 0


@pytest.mark.feature("compress.replay")
def test_no_bound_is_above_what_was_billed(store: settings_module.Settings):
    found = replay("claude", CHEAP, settings=store)

    assert found.billed == 30
    assert [bound.carried for bound in found.bounds] == [30, 30, 30]
    assert found.bounds[0].tokens > 30


def test_a_difference_moves_the_lines_behind_it():
    lines = {1: "a", 2: "b", 3: "c", 9: "z"}

    assert applied(lines, "@@ -2,1 +2,2 @@\n-b\n+B\n+B2") == {1: "a", 2: "B", 3: "B2", 4: "c", 10: "z"}
    assert applied(lines, "@@ -1,0 +2,1 @@\n+new") == {1: "a", 2: "new", 3: "b", 4: "c", 10: "z"}
    assert applied(lines, "@@ -1,2 +1,0 @@\n-a\n-b") == {1: "c", 7: "z"}
    assert applied({}, "@@ -0,0 +1,2 @@\n+x\n+y") == {1: "x", 2: "y"}
    assert applied(lines, "no difference") is None
    assert applied(lines, "@@ -2,1 +2,1 @@\r\n-b\r\n+B\x0c\u2028B2\r\n") == {1: "a", 2: "B\x0c\u2028B2", 3: "c", 9: "z"}


def test_a_folder_without_git_is_walked_without_what_nobody_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("a.py", "b.py", "src/c.py", "node_modules/d.py", ".hidden/e.py", ".env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    found = project_files.project_at(tmp_path)
    monkeypatch.setattr(project_files, "MOST_FILES", 2)
    few = project_files.project_at(tmp_path)
    monkeypatch.setattr(project_files, "MOST_BYTES", 6)
    sources, left_out = project_files.sources_of(few)

    assert (found.files, found.by_git) == (["a.py", "b.py", "src/c.py"], False)
    assert (few.files, few.left_out) == (["a.py", "b.py"], {"beyond the first files": 1})
    assert ([*sources], left_out) == (["a.py"], {"beyond the first bytes": 1, "beyond the first files": 1})


def test_a_name_that_is_no_line_of_text_is_left_out_and_counted(tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b\nF2 c.py").write_text("x = 1\n")
    found = project_files.project_at(tmp_path)

    assert (found.files, found.left_out) == (["a.py"], {"of an odd name": 1})


def test_a_path_outside_the_root_is_refused(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.py").write_text("x = 1\n")
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    for path in ("../out.py", "link/out.py", str(tmp_path / "out.py"), "link", ".."):
        with pytest.raises(UsageError):
            sources_at([path], root=tmp_path / "in")


@pytest.mark.feature("compress.from-capture")
def test_rows_of_a_session_are_read_once_for_its_files(store: settings_module.Settings, monkeypatch):
    read = []
    plain = Lake.read_sessions
    monkeypatch.setattr(Lake, "read_sessions", lambda lake, cell, ids, *more: (read.append(set(ids)), plain(lake, cell, ids, *more))[1])
    captured_files("claude", CHEAP, settings=store)

    assert read == [{CHEAP}]


@pytest.mark.feature("normalize.diffs")
def test_a_folder_that_every_record_names_is_read_where_it_changes(monkeypatch):
    def record(**fields):
        return json.dumps(fields, separators=(",", ":"))

    lines = [
        record(type="mode"),
        *(record(cwd="/a", n=n) for n in range(50)),
        record(cwd="/b \\ ü", message='a text that says "cwd":"/a" of itself'),
        *(record(message={"content": f"cwd {n}"}, cwd="/b \\ ü") for n in range(50)),
        '{"cwd" : "/a"}',
        '{"cwd":"/a"',
        record(inner={"cwd": "/c"}),
        record(inner={"cwd": "/a"}),
        record(inner={"cwd": "/a"}, cwd="/c"),
        record(cwd=None),
        record(cwd="/c"),
    ]
    data = "".join(f"{line}\n" for line in lines).encode()
    starts = {data[:start].count(b"\n"): folder for start, folder in directories(data)}
    parsed = []
    plain = json.loads
    monkeypatch.setattr(json, "loads", lambda line: (parsed.append(line), plain(line))[1])

    assert starts == {1: "/a", 51: "/b \\ ü", 102: "/a", 106: "/c"}
    assert len(list(directories(data))) == 4
    assert len(parsed) < 12
