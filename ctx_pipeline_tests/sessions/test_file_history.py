"""Which sessions changed a file, over all sessions: newest first, with what they changed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.cli import cli
from ctx_pipeline.sessions.copy_order import alike, origins_first
from ctx_pipeline.sessions.copy_order import own as own_of
from ctx_pipeline.sessions.files import Access
from ctx_pipeline.settings import Settings
from ctx_pipeline_tests.factories import claude
from ctx_pipeline_tests.usage.conftest import ingested

FILE = "/home/dev/shop/src/till.py"
OLDER, NEWER, READER = (f"{n}0000000-1111-4111-8111-111111111111" for n in (1, 2, 3))


def edit(main: claude.Transcript, call_id: str, old: str, new: str, path: str = FILE) -> None:
    """Append an edit as the client records it, with the patch of the whole file."""
    lines = [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
    patch = [{"oldStart": 1, "oldLines": len(old.splitlines()), "newStart": 1, "newLines": len(new.splitlines()), "lines": lines}]
    done = {"filePath": path, "oldString": old, "newString": new, "originalFile": old, "structuredPatch": patch}
    main.call(call_id, "Edit", "ok", structured=done, file_path=path, old_string=old, new_string=new)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what runs a command over three sessions: two that changed a file, the newest of which only read it."""
    home = claude.ClaudeHome(tmp_path / "claude")
    first = home.session(OLDER, started=datetime(2026, 3, 5, 10, 0, tzinfo=UTC))
    first.prompt("count the till")
    edit(first, "a1", "a\nb\n", "a\n")
    edit(first, "a2", "a\n", "a\nc\nd\n")
    first.save()
    second = home.session(NEWER, started=datetime(2026, 3, 7, 10, 0, tzinfo=UTC))
    second.prompt("round the till")
    edit(second, "b1", "c\n", "e\n")
    edit(second, "b2", "x\n", "y\n", "/home/dev/shop/src/other.py")
    second.save()
    third = home.session(READER, started=datetime(2026, 3, 8, 10, 0, tzinfo=UTC))
    third.prompt("look").call("c1", "Read", "a", file_path=FILE).save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    for name, value in (("CTX_HOME", settings.home), ("CLAUDE_CONFIG_DIR", tmp_path / "claude"), ("TZ", "UTC")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))

    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, list(words))

    return run


@pytest.mark.feature("files.history")
def test_the_sessions_that_changed_a_file_are_listed_newest_first_with_what_they_changed(shop) -> None:
    lines = shop("files", "src/till.py").stdout.splitlines()

    assert lines[0].split() == ["last", "changed", "session", "project", "title", "edits", "lines"]
    assert [line.split()[0] + " " + line.split()[2] for line in lines[1:3]] == [f"2026-03-07 {NEWER}", f"2026-03-05 {OLDER}"]
    assert lines[1].endswith("round the till      1  +1 -1")
    assert lines[2].endswith("count the till      2  +4 -3")
    assert lines[3:] == [
        "2 sessions changed it; times in UTC",
        "1 session only read it: ctx list --file src/till.py",
        "every change: ctx files src/till.py --diff; of one session: ctx files SESSION --path src/till.py --diff",
    ]


@pytest.mark.feature("files.history")
def test_the_command_that_is_named_prints_the_differences(shop) -> None:
    of_one = shop("files", OLDER, "--path", "src/till.py", "--diff").stdout
    of_all = shop("files", "src/till.py", "--diff").stdout

    assert of_one.count(f" edit {FILE} ") == 2
    assert of_all.index(NEWER) < of_all.index(OLDER)
    assert of_all.count(f" edit {FILE} ") == 3
    assert "\n+e\n" in of_all


@pytest.mark.feature("files.history")
def test_a_folder_and_a_bare_name_are_files_too_and_a_session_is_still_a_session(shop) -> None:
    told = json.loads(shop("files", "./src", "--json").stdout)
    assert [(one["session_id"], one["changes"], one["files"]) for one in told["sessions"]] == [
        (NEWER, 2, ["src/other.py", "src/till.py"]),
        (OLDER, 2, ["src/till.py"]),
    ]
    assert told["only_read"] == 1
    assert " src/other.py and 1 more\n" in shop("files", "src/*").stdout
    assert "last read" in shop("files", NEWER[:8]).stdout
    assert "last read" in shop("files", "round the till").stdout
    assert shop("files", NEWER, "--path", "src", "--json").stdout.count('"edit"') == 2
    refused = shop("files", "src/none.py")
    assert "no session or file called 'src/none.py'" in str(refused.exception)


@pytest.mark.feature("files.history-copies")
def test_a_copy_is_no_session_of_its_own_and_one_that_went_on_has_what_it_did_itself(tmp_path, monkeypatch) -> None:
    home = claude.ClaudeHome(tmp_path / "claude")
    origin = home.session(OLDER).prompt("count the till")
    edit(origin, "a1", "a\nb\n", "a\n")
    copied = [record | {"sessionId": NEWER} for record in origin.records]
    origin.prompt("thanks").answer(claude.text("bye")).save()
    whole, went_on = home.session(READER), home.session(NEWER, started=datetime(2026, 3, 6, 10, 0, tzinfo=UTC), mark="n")
    # every id is another one, and the times are those of the origin
    whole.records = json.loads(json.dumps(copied).replace(NEWER, READER).replace("msg_", "msg_z").replace("a1", "z1"))
    went_on.records = copied
    edit(went_on, "b1", "c\n", "e\n")
    whole.save()
    went_on.save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    for name, value in (("CTX_HOME", settings.home), ("CLAUDE_CONFIG_DIR", tmp_path / "claude"), ("TZ", "UTC")):
        monkeypatch.setenv(name, str(value))

    told = json.loads(CliRunner().invoke(cli, ["files", "src/till.py", "--json"]).stdout)
    printed = CliRunner().invoke(cli, ["files", "src/till.py"]).stdout

    assert [(one["session_id"], one["changes"], one["added"], one["removed"], one["copies"]) for one in told["sessions"]] == [
        (NEWER, 1, 1, 1, []),
        (OLDER, 1, 1, 2, [READER]),
    ]
    assert told["only_read"] == 0
    assert "\n2 sessions changed it (1 copy of one left out); times in UTC\n" in printed
    assert CliRunner().invoke(cli, ["files", "src/till.py", "--diff"]).stdout.count(f" edit {FILE} ") == 2
    (heat,) = json.loads(CliRunner().invoke(cli, ["heatmap", "--all", "--json"]).stdout)["files"]
    assert (heat["path"], heat["edit"], heat["sessions"]) == ("src/till.py", 2, 2)


@pytest.fixture
def forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what runs a command over a session and its fork, whose id is the smaller one, and which ended before its origin went on."""
    home = claude.ClaudeHome(tmp_path / "claude")
    origin, fork = home.session(NEWER), home.session(OLDER, started=datetime(2026, 3, 7, 10, 0, tzinfo=UTC), mark="n")
    origin.prompt("count the till")
    edit(origin, "a1", "a\nb\n", "a\n")
    origin.call("a2", "Read", "a", file_path="/home/dev/shop/src/price.py")
    fork.records = [
        record | {"sessionId": OLDER, "forkedFrom": {"sessionId": NEWER, "messageUuid": record["uuid"]}} for record in origin.records
    ]
    fork.prompt("and the door").call("b1", "Read", "a", file_path="/home/dev/shop/src/door.py").save()
    origin.started = datetime(2026, 3, 9, 10, 0, tzinfo=UTC)
    origin.prompt("go on").call("c1", "Read", "a", file_path="/home/dev/shop/src/lamp.py").save()
    settings = ingested(Settings(home=tmp_path / "store", timezone="UTC", demo_roots={"claude": (tmp_path / "claude",)}))
    for name, value in (("CTX_HOME", settings.home), ("CLAUDE_CONFIG_DIR", tmp_path / "claude"), ("TZ", "UTC")):
        monkeypatch.setenv(name, str(value))

    def run(*words: str) -> str:
        return CliRunner().invoke(cli, list(words)).stdout

    return run


@pytest.mark.feature("files.history-copies")
def test_what_a_fork_repeats_is_its_origins_also_where_the_origin_went_on_longer(forked) -> None:
    (one,) = json.loads(forked("files", "src/till.py", "--json"))["sessions"]
    assert (one["session_id"], one["changes"], one["copies"]) == (NEWER, 1, [OLDER])

    heat = {one["path"]: one for one in json.loads(forked("heatmap", "--all", "--json"))["files"]}
    assert (heat["src/till.py"]["edit"], heat["src/till.py"]["sessions"]) == (1, 1)
    listed = json.loads(forked("list", "--file", "src/till.py", "--json"))
    assert [one["session_id"] for one in listed.get("sessions", listed)] == [NEWER]


@pytest.mark.feature("files.history-copies")
def test_a_fork_that_went_on_reads_a_file_once_with_its_origin(forked) -> None:
    assert json.loads(forked("files", "src/price.py", "--json")) == {"path": "src/price.py", "sessions": [], "only_read": 1}
    assert json.loads(forked("files", "src/door.py", "--json"))["only_read"] == 1
    heat = {one["path"]: one for one in json.loads(forked("heatmap", "--all", "--json"))["files"]}
    assert (heat["src/price.py"]["read"], heat["src/price.py"]["sessions"]) == (1, 1)


@pytest.mark.feature("files.history-copies")
def test_sessions_that_hold_calls_of_each_other_are_all_put_in_order() -> None:
    a, b, c, d = (("toy", name) for name in "abcd")
    ended = {a: 3, b: 2, c: 1, d: 0}
    assert origins_first(ended, (), {}) == [d, c, b, a]
    assert origins_first(ended, [d], {c: {a, ("toy", "gone")}, a: {a}}) == [b, a, c, d]
    assert origins_first(ended, (), {a: {b}, b: {a}, d: {a}}) == [c, b, a, d]


_SESSIONS = [("toy", name) for name in "abcd"]
_TOUCHES = st.lists(st.tuples(st.sampled_from(_SESSIONS), st.sampled_from("xy"), st.sampled_from(["read", "edit"]), st.integers(0, 3)))


@pytest.mark.feature("files.history-copies")
@given(
    _TOUCHES,
    st.dictionaries(st.sampled_from(_SESSIONS), st.sampled_from("abcde"), max_size=2),
    st.dictionaries(st.sampled_from(_SESSIONS), st.sampled_from(["/one", "/two"])),
)
def test_sessions_that_cannot_repeat_another_are_told_whole_without_a_comparison(touches, copied, began) -> None:
    done: dict[tuple[str, str], list[Access]] = {}
    for key, path, kind, ts in touches:
        done.setdefault(key, []).append(Access(path, kind, ts, *key, "p", 0, path))
    order = sorted(done, key=lambda key: (key in copied, key))

    def own(sessions) -> dict[tuple[str, str], list[Access]]:
        found = own_of(sessions, done, copied, lambda a: (a.host, began.get((a.host, a.session_id)), a.kind, a.recorded, a.ts))
        return {key: mine for key, mine, _ in found}

    compared = alike(done, copied, began)
    whole = {key: accesses for key, accesses in done.items() if key not in compared}
    assert whole | own([key for key in order if key in compared]) == own(order)
