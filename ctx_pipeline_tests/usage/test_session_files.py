"""What a session read and changed, told from the tables and the captured records."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.files import SessionFiles, session_files, summed
from ctx_pipeline.settings import Settings
from ctx_pipeline.shell.files import reads
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories import claude, codex

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def told(tmp_path: Path, host: str, session_id: str, **asked: str) -> SessionFiles:
    chosen = Settings(home=tmp_path / "store", timezone="UTC", demo_roots={host: (tmp_path / host,)})
    with open_store(chosen) as store:
        ingest(store, chosen)
    return session_files(host, session_id, settings=chosen, **asked)


def edited(path: str, before: str, old: str, new: str, **more: object) -> dict[str, object]:
    return {"filePath": path, "oldString": old, "newString": new, "originalFile": before, "structuredPatch": [], "replaceAll": False} | more


@pytest.mark.feature("normalize.diffs")
def test_an_edit_tells_the_text_before_and_after_as_hashes_and_the_difference(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("rename it")
    main.call(
        "t1", "Edit", "ok", structured=edited("/home/dev/shop/a.py", "x = 1\ny = 2\n", "x = 1", "x = 3"), file_path="/home/dev/shop/a.py"
    )
    main.call(
        "t2",
        "Write",
        "ok",
        structured={"type": "create", "filePath": "/home/dev/shop/b.py", "content": "new\n", "structuredPatch": []},
        file_path="/home/dev/shop/b.py",
        content="new\n",
    )
    main.call("t3", "Edit", "no such text", is_error=True, file_path="/home/dev/shop/a.py", old_string="q", new_string="r")
    main.save()

    changed = told(tmp_path, "claude", claude.SESSION).touches

    assert [(t.path, t.did, t.before_sha, t.after_sha, t.added, t.removed) for t in changed] == [
        ("/home/dev/shop/a.py", "edit", sha("x = 1\ny = 2\n"), sha("x = 3\ny = 2\n"), 1, 1),
        ("/home/dev/shop/b.py", "write", None, sha("new\n"), 1, 0),
    ]
    assert changed[0].diff == "@@ -1,2 +1,2 @@\n-x = 1\n+x = 3\n y = 2"


@pytest.mark.feature("normalize.diffs")
def test_the_recorded_patch_is_the_difference_and_a_person_s_own_change_leaves_the_text_after_unknown(tmp_path: Path) -> None:
    hunk = {"oldStart": 7, "oldLines": 1, "newStart": 7, "newLines": 2, "lines": ["-a", "+b", "+c"]}
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("do")
    said = edited("/home/dev/shop/a.py", "a", "a", "b", structuredPatch=[hunk], userModified=True)
    main.call("t1", "Edit", "ok", structured=said, file_path="/home/dev/shop/a.py").save()

    [change] = told(tmp_path, "claude", claude.SESSION).touches

    assert change.diff == "@@ -7,1 +7,2 @@\n-a\n+b\n+c"
    assert (change.before_sha, change.after_sha, change.added, change.removed) == (sha("a"), None, 2, 1)


@pytest.mark.feature("normalize.diffs")
def test_secrets_in_a_difference_are_redacted(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("do")
    said = edited("/home/dev/shop/a.py", "k = 0\n", "k = 0", f'k = "{SECRET}"')
    main.call("t1", "Edit", "ok", structured=said, file_path="/home/dev/shop/a.py").save()

    [change] = told(tmp_path, "claude", claude.SESSION).touches

    assert SECRET not in json.dumps(told(tmp_path, "claude", claude.SESSION).to_json())
    assert "[REDACTED:" in change.diff


@pytest.mark.feature("normalize.diffs")
def test_patches_of_a_rollout_tell_their_files_with_and_without_an_end(tmp_path: Path) -> None:
    applied = "*** Begin Patch\n*** Update File: src/a.rs\n@@\n-old\n+new\n*** End Patch"
    asked = "*** Begin Patch\n*** Add File: src/b.rs\n+one\n+two\n*** Delete File: src/c.rs\n*** End Patch"
    changes = {"/code/app/src/a.rs": {"type": "update", "unified_diff": "@@ -3,1 +3,1 @@\n-old\n+new\n"}}
    records = [codex.meta(), codex.context(1), codex.event(2, "user_message", message="mend")]
    records += [codex.item(3, "custom_tool_call", name="apply_patch", call_id="p1", input=applied, status="completed")]
    records += [codex.event(4, "patch_apply_end", call_id="p1", success=True, changes=changes)]
    records += [codex.item(5, "custom_tool_call_output", call_id="p1", output="Success")]
    records += [codex.item(6, "custom_tool_call", name="apply_patch", call_id="p2", input=asked, status="completed")]
    records += [codex.item(7, "custom_tool_call_output", call_id="p2", output="Success")]
    codex.write(tmp_path / "codex", records)

    changed = told(tmp_path, "codex", codex.THREAD).touches

    assert [(t.path, t.diff, t.added, t.removed, t.after_sha) for t in changed] == [
        ("/code/app/src/a.rs", "@@ -3,1 +3,1 @@\n-old\n+new", 1, 1, None),
        ("/code/app/src/b.rs", "+one\n+two", 2, 0, sha("one\ntwo\n")),
        ("/code/app/src/c.rs", "", None, None, None),
    ]


@pytest.mark.feature("normalize.shell-reads")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat a.py", [("/r/a.py", "")]),
        ("sed -n '1,40p' a.py b.py", [("/r/a.py", "1-40"), ("/r/b.py", "1-40")]),
        ("sed -n -e 3p -e '7,$p' a.py", [("/r/a.py", "3-3,7-")]),
        ("nl -ba a.py | sed -n '5,9p'", [("/r/a.py", "5-9")]),
        ("cat a.py | head -n 3", [("/r/a.py", "1-3")]),
        ("cat a.py | grep x | head -n 3", [("/r/a.py", "")]),
        ("cat a.py | sed s/a/b/ | head -4", [("/r/a.py", "1-4")]),
        ("head a.py; tail -n +12 a.py; tail -5 a.py", [("/r/a.py", "1-10"), ("/r/a.py", "12-"), ("/r/a.py", "")]),
        ("head -c 100 a.py", [("/r/a.py", "")]),
        ("bat -r 3:9 a.py", [("/r/a.py", "3-9")]),
        ("cd sub && sed -n 2,4p ../a.py", [("/r/a.py", "2-4")]),
        ("git show main:src/a.py", [("/r/src/a.py", "")]),
        ("git -C sub show HEAD~2:a.py | head -n 3; git show HEAD -- b.py; git show --stat v1", [("/r/sub/a.py", "1-3")]),
        ("cat /etc/hosts && rg needle src | head -3", [("/etc/hosts", "")]),
        ("bash -lc \"sed -n '8,9p' a.py\"", [("/r/a.py", "8-9")]),
        ("sed -i s/a/b/ a.py; cat > out.txt <<'EOF'\nx\nEOF", []),
        ("cat *.py $FILE", []),
    ],
)
def test_the_words_of_a_command_tell_which_lines_of_which_files_it_printed(command: str, expected: list[tuple[str, str]]) -> None:
    assert [(r.path, r.range) for r in reads(command, "/r")] == expected


@pytest.mark.feature("normalize.shell-reads")
def test_reads_through_the_shell_stand_beside_those_of_tools_with_their_lines(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("look")
    main.call("t1", "Read", "x", file_path="/home/dev/shop/a.py", offset=4, limit=2)
    main.call("t2", "Bash", "x", structured={"stdout": "x", "stderr": "", "interrupted": False}, command="sed -n '10,12p' a.py")
    main.call("t3", "Bash", "Exit code 1\nno", is_error=True, command="cat gone.py")
    main.save()

    found = told(tmp_path, "claude", claude.SESSION)

    assert [(t.path, t.did, t.through, t.lines) for t in found.touches] == [
        ("/home/dev/shop/a.py", "read", "tool", "4-5"),
        ("/home/dev/shop/a.py", "read", "shell", "10-12"),
    ]
    assert summed(found.touches) == [{"path": "/home/dev/shop/a.py", "reads": 2, "changes": 0, "added": 0, "removed": 0, "lines": "10-12"}]


@pytest.mark.feature("normalize.shell-reads")
def test_a_command_with_a_directory_of_its_own_names_files_below_it(tmp_path: Path) -> None:
    records = [codex.meta(), codex.context(1), codex.event(2, "user_message", message="look")]
    arguments = json.dumps({"cmd": "head -n 2 lib.rs", "workdir": "/code/app/src"})
    records += [codex.item(3, "function_call", name="exec_command", call_id="c1", arguments=arguments)]
    records += [codex.item(4, "function_call_output", call_id="c1", output="Process exited with code 0\nOutput:\nx\n")]
    codex.write(tmp_path / "codex", records)

    assert [(t.path, t.lines) for t in told(tmp_path, "codex", codex.THREAD).touches] == [("/code/app/src/lib.rs", "1-2")]


@pytest.mark.feature("claude.worktrees")
def test_events_keep_their_own_directory_when_a_session_moves_to_a_worktree(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("begin here")
    main.call("t1", "Bash", "x", structured={"stdout": "x", "stderr": "", "interrupted": False}, command="cat a.py")
    main.cwd = "/home/dev/shop-tree"
    main.call("t2", "Bash", "x", structured={"stdout": "x", "stderr": "", "interrupted": False}, command="cat a.py")
    main.cwd = "/home/dev/shop"
    main.prompt("back again")
    main.save()

    found = told(tmp_path, "claude", claude.SESSION)

    assert [(s.directory, s.events) for s in found.stays] == [("/home/dev/shop", 3), ("/home/dev/shop-tree", 2), ("/home/dev/shop", 1)]
    assert [t.path for t in found.touches] == ["/home/dev/shop/a.py", "/home/dev/shop-tree/a.py"]


@pytest.mark.feature("claude.worktrees")
def test_the_turns_of_a_rollout_tell_where_it_went_on(tmp_path: Path) -> None:
    records = [codex.meta(), codex.context(1), codex.event(2, "user_message", message="one")]
    records += [codex.context(3, cwd="/code/tree"), codex.event(4, "user_message", message="two")]
    codex.write(tmp_path / "codex", records)

    assert [s.directory for s in told(tmp_path, "codex", codex.THREAD).stays] == ["/code/app", "/code/tree"]


def test_files_are_chosen_by_glob_or_by_the_end_of_their_path(tmp_path: Path) -> None:
    main = claude.ClaudeHome(tmp_path / "claude").session()
    main.prompt("look")
    main.call("t1", "Read", "x", file_path="/home/dev/shop/src/a.py").call("t2", "Read", "x", file_path="/home/dev/shop/bsrc/a.py").save()

    assert [t.path for t in told(tmp_path, "claude", claude.SESSION, path="src/a.py").touches] == ["/home/dev/shop/src/a.py"]
    assert len(told(tmp_path, "claude", claude.SESSION, path="*.py").touches) == 2
