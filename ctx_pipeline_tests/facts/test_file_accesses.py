"""Which files the calls of a session read, changed and named."""

from __future__ import annotations

import pytest

from ctx_pipeline.facts.file_accesses import file_accesses, patch_moves
from ctx_pipeline.hosts.claude_code import HOST as CLAUDE
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline_tests.factories import claude, codex
from ctx_pipeline_tests.factories.homes import parse_home
from ctx_pipeline_tests.factories.views import view


def of(parsed, cwd: str = "/code/app", host: str = "codex") -> list:
    built = view(cwd=cwd, host=host).build()
    events, calls = ([table.row(*row) for row in rows] for table, rows in ((EVENTS, parsed.events), (TOOL_CALLS, parsed.tool_calls)))
    return file_accesses(SessionView(built.session, events=events, tool_calls=calls))


def shown(accesses) -> list:
    return [(a.path, a.did, a.through, a.lines) for a in accesses]


@pytest.mark.feature("facts.file-accesses")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat src/a.py", [("/w/app/src/a.py", "read", "shell", "")]),
        ("cd src && sed -n '3,9p' a.py", [("/w/app/src/a.py", "read", "shell", "3-9")]),
        ("sed -n '3,9p' a.py; sed -n '20,22p' a.py", [("/w/app/a.py", "read", "shell", "3-9,20-22")]),
        ("echo x > notes.md", [("/w/app/notes.md", "write", "shell", "")]),
        ("sed -i s/a/b/ src/a.py", [("/w/app/src/a.py", "edit", "shell", "")]),
        ("rm -f a.py && git rm b.py", [("/w/app/a.py", "delete", "shell", ""), ("/w/app/b.py", "delete", "shell", "")]),
        ("mv a.py b.py", [("/w/app/b.py", "move", "shell", "")]),
        ("cp a.py lib/", [("/w/app/lib/a.py", "write", "shell", ""), ("/w/app/a.py", "mention", "shell", "")]),
        ("mkdir -p lib && mv *.py lib/", []),
        ("cat /dev/null > /tmp/scratch.txt", []),
        ("ls", []),
        *(
            (command, [])
            for command in ("# nothing to do, tests pass", ";", ")", "&&", "|", "\\", "'", '"', "<<EOF", "", " ", "&", "(", "\n#")
        ),
        ("git log main..HEAD && git diff origin/v1.x...HEAD", []),
        ("git fetch origin renovate/rmcp-2.x && git config user.email me", []),
        ("git -C lib add b.py", [("/w/app/lib/b.py", "mention", "shell", "")]),
        ("gh api repos/o/r/contents/README.md; gh run list --workflow release.yml", []),
        ("ssh host cat /etc/app.conf", []),
        ('find . -name "a.py" -o -name b.py', []),
        ("grep -n 'time.sleep' src/a.py", [("/w/app/src/a.py", "mention", "shell", "")]),
        ("grep -e time.sleep src/a.py", [("/w/app/time.sleep", "mention", "shell", ""), ("/w/app/src/a.py", "mention", "shell", "")]),
        ("cat a.py 2>/dev/null || echo none", [("/w/app/a.py", "mention", "shell", "")]),
        ('cd "$(mktemp -d)" && cat a.py && echo x > b.py && git add c.py && cat /w/app/d.py', [("/w/app/d.py", "read", "shell", "")]),
    ],
)
def test_what_a_command_does_to_files(command, expected):
    assert shown(file_accesses(view(cwd="/w/app").shell(command).build())) == expected


@pytest.mark.feature("facts.file-accesses")
def test_a_file_that_a_command_only_names_is_mentioned_and_a_failed_command_touched_nothing():
    session = view(cwd="/w/app").shell("pytest tests/test_a.py::test_b -q && git add src/a.py").shell("cat b.py", failed=True, exit=1)
    assert [(a.path, a.did) for a in file_accesses(session.build())] == [
        ("/w/app/tests/test_a.py", "mention"),
        ("/w/app/src/a.py", "mention"),
        ("/w/app/b.py", "mention"),
    ]


@pytest.mark.feature("facts.file-accesses")
def test_renames_are_known_of_one_file_and_of_patches():
    moves = file_accesses(view(cwd="/w").shell("mv a.py b.py; git mv -f c.py lib/").shell("mv a b c d/").build())
    assert [(a.old_path, a.path) for a in moves if a.did == "move"] == [("/w/a.py", "/w/b.py"), ("/w/c.py", "/w/lib/c.py")]
    assert patch_moves("*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@") == [("a.py", "b.py")]


@pytest.mark.feature("facts.file-accesses")
def test_an_unanswered_call_is_unknown_and_a_filter_does_not_show_the_file():
    session = view(cwd="/w").tool("Read", action="read", paths=["/w/a.py"], answered=False).shell("cat b.py | grep x")
    (read,) = file_accesses(session.build())
    assert (read.path, read.did, read.told) == ("/w/b.py", "read", False)


@pytest.mark.feature("facts.file-accesses")
def test_a_patch_inside_another_call_changed_its_files():
    records = [
        codex.meta(),
        codex.item(1, "custom_tool_call", name="exec", call_id="c1", input="await tools.apply_patch(patch)"),
        codex.event(2, "patch_apply_end", call_id="inner", success=True, changes={"/code/app/a.py": {"type": "update"}}),
        codex.event(3, "patch_apply_end", call_id="bad", success=False, changes={"/code/app/b.py": {"type": "update"}}),
        codex.item(4, "custom_tool_call_output", call_id="c1", output="Script completed"),
    ]
    assert shown(of(codex.parse(codex.stream(records)))) == [("/code/app/a.py", "edit", "nested", "")]


@pytest.mark.feature("facts.file-accesses")
def test_a_folder_that_a_command_asks_for_is_its_own():
    arguments = '{"cmd":"cat a.py","workdir":"/code/other"}'
    records = [
        codex.meta(),
        codex.item(1, "function_call", name="exec_command", call_id="c1", arguments=arguments),
        codex.item(2, "function_call_output", call_id="c1", output="Process exited with code 0\nOutput:\nx"),
    ]
    assert shown(of(codex.parse(codex.stream(records)))) == [("/code/other/a.py", "read", "shell", "")]


@pytest.mark.feature("facts.file-accesses")
def test_a_command_runs_where_the_one_before_left_the_shell():
    session = (
        view(cwd="/w/app")
        .shell("cd web")
        .shell("cat a.py")
        .shell("cd gone && cat b.py", exit=1, text="cd:1: no such file or directory: gone")
    )
    session.shell("cat c.py").shell("cd /tmp && ls", text="x\nShell cwd was reset to /w/app").shell("cat d.py")
    session.shell("cd sub && make", exit=2, text="Exit code 2").shell("cd lib", refused="").shell("cat e.py").shell('cd "$other"').shell(
        "cat f.py"
    )
    assert [a.path for a in file_accesses(session.build()) if a.did == "read"] == [
        *("/w/app/web/a.py", "/w/app/web/c.py", "/w/app/d.py", "/w/app/e.py", "f.py"),
    ]


@pytest.mark.feature("facts.file-accesses")
def test_a_folder_in_a_codex_script_is_its_own():
    script = 'const r = await tools.exec_command({cmd:"cat a.py",workdir:"/code/other"}); text(r.output);'
    session = view(host="codex", cwd="/code/app").tool("exec", action="shell", argv=[script], text="Script completed\nOutput:\nx")
    assert shown(file_accesses(session.build())) == [("/code/other/a.py", "read", "shell", "")]


@pytest.mark.feature("facts.file-accesses")
def test_a_result_that_stands_before_its_call_is_the_calls_result(tmp_path):
    main = claude.ClaudeHome(tmp_path).session(cwd="/code/app")
    main.prompt("go").call("t1", "Read", "x" * 40, file_path="/code/app/a.py")
    main.records[-2:] = reversed(main.records[-2:])
    main.save()
    parsed = parse_home(CLAUDE, tmp_path)[claude.SESSION]
    (read,) = of(parsed, host="claude")
    assert (read.path, read.did, read.chars) == ("/code/app/a.py", "read", 40)
    assert read.result_event is not None
