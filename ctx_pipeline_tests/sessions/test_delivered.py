"""What a window holds of files at any moment, and why files came in again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.errors import UsageError
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.reports.repeated_reads import CAUSES, Delivery, _lines, covered, window_files
from ctx_pipeline.storage import open_store
from ctx_pipeline.tokens.tokenizers import ModelTokenizer
from ctx_pipeline_tests.factories.claude import ClaudeHome, Transcript, text, tool_use, usage
from ctx_pipeline_tests.sessions.conftest import LATER, WORK, Shop


def files(found):
    return [(f.ref, f.path, f.lines, f.whole, f.reads, f.changed) for f in found.files]


@pytest.mark.feature("session.cache")
def test_a_window_lists_its_files_as_of_any_moment(shop: Shop):
    before = window_files(WORK, at="before-compaction:1", settings=shop.settings)
    after = window_files(WORK, at="after-compaction:1", settings=shop.settings)
    end = window_files(WORK, settings=shop.settings)

    assert files(before) == [("F1", "shop/cart.py", 30, False, 1, True), ("F2", "shop/prices.py", 0, True, 1, False)]
    assert files(after) == []
    assert files(end) == [("F1", "shop/cart.py", 0, True, 1, False)]
    assert all(f.tokens > 10 for f in (*before.files, *end.files))


@pytest.mark.feature("session.cache", "session.cache-causes")
def test_a_session_that_read_nothing_is_told_in_a_sentence_that_says_what_to_ask(own: Shop, monkeypatch, tmp_path):
    quiet = "44444444-4444-4444-8444-444444444444"
    ClaudeHome(Path(own.settings.environ["CLAUDE_CONFIG_DIR"])).session(quiet, cwd="/nowhere", mark="q").prompt("hello").save()
    with open_store(own.settings) as store:
        ingest(store, own.settings)
    for words in (("cache", quiet), ("cache", "causes", quiet)):
        first = own.ctx(monkeypatch, *words, cwd=tmp_path).stdout.splitlines()[0]
        assert first.startswith("this session read no file, so its window holds none; ask for another one: ctx cache status SESSION")


@pytest.mark.feature("session.cache", "session.cache-causes")
def test_status_and_causes_are_printed(shop: Shop, monkeypatch):
    lines = shop.ctx(monkeypatch, "cache", "status", "--at", "before-compaction:1").stdout.splitlines()
    told = shop.json(monkeypatch, "cache", "--session", WORK)
    assert shop.json(monkeypatch, "cache", WORK) == shop.json(monkeypatch, "cache", "status", WORK[:8]) == told

    assert lines[0] == "Cache: 2 files at before-compaction:1"
    assert lines[1].startswith("F1=shop/cart.py [30L, ")
    assert lines[1].endswith("t, read 1x]  changed since")
    assert [(a["path"], a["cause"]) for a in told["again"]] == [("shop/cart.py", "compaction")]
    assert told["causes"]["compaction"]["times"] == 1
    assert "1 file delivered again, of 3 reads" in shop.ctx(monkeypatch, "cache", "causes").stdout


@pytest.fixture
def write(own: Shop):
    """Write a later session with some calls and return the causes of what came in again."""

    def causes(make, **more):
        later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
        make(later)
        later.save()
        with open_store(own.settings) as store:
            ingest(store, own.settings)
        found = window_files(LATER, settings=own.settings, **more)
        return [(a.delivery.path, a.cause) for a in found.again]

    return causes


def read(t: Transcript, call: str, first: int = 0, last: int = 0, *, name: str = "a.py", result: str = "x = 1\n") -> Transcript:
    limits = {"offset": first, "limit": last - first + 1} if first else {}
    body = {"filePath": f"{t.cwd}/{name}", "content": result, "numLines": last - first + 1, "startLine": first or 1, "totalLines": 100}
    structured = {"type": "text", "file": body} if first else None
    return t.call(call, "Read", result, structured=structured, file_path=f"{t.cwd}/{name}", **limits)


@pytest.mark.feature("session.cache-causes")
@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda t: read(read(t, "r1"), "r2"), "redundant"),
        (lambda t: read(read(t, "r1", 1, 50), "r2", 10, 20), "redundant"),
        (lambda t: read(read(t, "r1", 1, 50), "r2", 51, 60), "other lines"),
        (lambda t: read(read(t, "r1", 1, 50), "r2", 41, 60), "more lines"),
        (
            lambda t: read(read(t, "r1").call("e1", "Edit", "ok", file_path=f"{t.cwd}/a.py", old_string="a", new_string="b"), "r2"),
            "changed",
        ),
        (lambda t: read(read(t, "r1").call("e1", "Bash", "", command="sed -i s/a/b/ a.py"), "r2"), "changed"),
        (lambda t: read(read(t, "r1").call("e1", "Bash", "", command="sed -i s/a/b/ other.py"), "r2"), "redundant"),
        (lambda t: (read(t, "r1"), t.compact(9000, "so far"), read(t, "r2")), "compaction"),
    ],
)
def test_each_cause_is_named(write, make, cause):
    assert write(make) == [("a.py", cause)]


@pytest.mark.feature("session.cache-causes")
def test_only_what_stands_there_or_came_in_again_is_counted_in_tokens(write, monkeypatch):
    counted: list[str] = []
    plain = ModelTokenizer.count_many
    monkeypatch.setattr(ModelTokenizer, "count_many", lambda self, texts: (counted.extend(texts), plain(self, texts))[1])

    def work(t: Transcript) -> None:
        read(t, "r1", name="once.py", result="read once, and taken\n")
        read(t, "r2", name="twice.py", result="read twice: first\n")
        t.compact(9000, "so far")
        read(t, "r3", name="twice.py", result="read twice: second\n")
        read(t, "r4", name="held.py", result="read once, and held\n")

    assert write(work) == [("twice.py", "compaction")]
    assert sorted(counted) == ["read once, and held\n", "read twice: second\n"]


def slow(t: Transcript) -> None:
    """Read a file, wait ten minutes, read it again."""
    t.answer(tool_use("r1", "Read", file_path=f"{t.cwd}/a.py"), usages=[usage(10, 5, written=5000)])
    t.result("r1", "x = 1\n")
    for n in range(600):
        t.plain("mode", n=n)
    t.answer(tool_use("r2", "Read", file_path=f"{t.cwd}/a.py"), usages=[usage(10, 5, written=5000)])
    t.result("r2", "x = 1\n")
    t.answer(text("done"))


@pytest.mark.feature("session.cache-ttl")
@pytest.mark.parametrize(("ttl", "cause"), [(None, "idle"), (0, "redundant"), (900, "redundant"), (60, "idle")])
def test_the_life_of_a_cached_prompt_is_modelled_and_can_be_set_or_switched_off(write, ttl, cause):
    assert write(slow, ttl=ttl) == [("a.py", cause)]


@pytest.mark.feature("session.cache-ttl")
def test_calls_that_wrote_an_hours_cache_keep_it_for_an_hour(write):
    def hourly(t: Transcript) -> None:
        slow(t)
        t.answer(text("more"), usages=[usage(10, 5, written=5000, hour=5000)])

    assert write(hourly) == [("a.py", "redundant")]


@pytest.mark.feature("session.cache-causes")
def test_two_reads_in_one_breath_are_redundant(write):
    def both(t: Transcript) -> None:
        t.answer(*(tool_use(n, "Read", file_path=f"{t.cwd}/a.py") for n in ("r1", "r2")))
        t.result("r1", "x\n").result("r2", "x\n")

    assert write(both) == [("a.py", "redundant")]


@pytest.mark.feature("session.cache-marks")
def test_marks_are_notes_and_change_what_the_model_holds(own: Shop, monkeypatch):
    assert (
        own.ctx(monkeypatch, "cache", "invalidate", "shop/cart.py").stdout
        == f"noted: the model of claude {WORK[:12]} holds no more of shop/cart.py\n"
    )
    assert own.json(monkeypatch, "cache")["files"] == []
    before = own.json(monkeypatch, "cache", "--at", "before-compaction:1")
    assert [f["path"] for f in before["files"]] == ["shop/prices.py"]
    own.ctx(monkeypatch, "cache", "clear")
    assert own.json(monkeypatch, "cache", "--at", "before-compaction:1")["files"] == []
    assert isinstance(own.ctx(monkeypatch, "cache", "invalidate").exception, UsageError)


@pytest.mark.feature("session.cache-marks")
def test_an_agent_that_clears_without_a_name_clears_its_own_window(own: Shop, monkeypatch):
    older, newest = own.json(monkeypatch, "list")["sessions"][::-1]
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID" if older["host"] == "claude" else "CODEX_THREAD_ID", older["session_id"])

    assert own.json(monkeypatch, "cache", "clear")["session_id"] == older["session_id"] != newest["session_id"]


@pytest.mark.parametrize(
    ("wanted", "there", "share"),
    [
        ("1-10", ["1-10"], 1.0),
        ("1-10", ["1-5", "6-10"], 1.0),
        ("1-10", ["6-20"], 0.5),
        ("1-10", ["11-20"], 0.0),
        ("5-", ["1-"], 1.0),
        ("all", ["all"], 1.0),
        ("all", ["1-10"], 0.5),
        ("3-4", ["all"], 1.0),
        ("1-10", [], 0.0),
    ],
)
def test_the_share_of_lines_that_stood_there(wanted, there, share):
    assert covered(wanted, there) == share


def test_ranges_become_intervals_apart_from_each_other():
    assert _lines(["5-9,1-3", "8-12", "4-4"]) == [(1, 12)]
    assert _lines(["1-2", "9-7"]) == [(1, 2)]


def test_every_cause_says_what_it_means():
    assert all(len(why) > 20 for why in CAUSES.values())
    assert "arrived" in Delivery._fields
