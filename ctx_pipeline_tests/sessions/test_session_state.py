"""The state of a session: what its records show, what people say, at any moment, found from any clone."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace

import pytest

from ctx_pipeline.context.session_state.state import placed
from ctx_pipeline.errors import NothingFound, UnknownName, UsageError
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.session_notes import keep, note
from ctx_pipeline.sessions.states.state import session_state
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.session_notes import REMOVED, orphans
from ctx_pipeline_tests.factories.claude import ClaudeHome, text
from ctx_pipeline_tests.factories.codex import THREAD
from ctx_pipeline_tests.sessions.conftest import KEY, LATER, WORK, Shop


def state(shop: Shop, name: str = f"claude:{WORK}", **more):
    return session_state(name, settings=shop.settings, **more).state


def texts(items):
    return [i.text for i in items]


@pytest.mark.feature("session.status", "session.native-edits", "session.tests")
def test_the_records_alone_tell_task_plan_files_and_tests(shop: Shop):
    found = state(shop)

    assert (found.task.text, found.task.by) == ("Fix the sum of the cart in shop/cart.py so that discounts are taken off", "prompt")
    assert texts(found.progress) == ["find the sum"]
    assert texts(found.next_steps) == ["mend the sum (begun)", "write the changelog"]
    assert texts(found.decisions) == ["Round to cents, or to whole euros? → To cents"]
    # Edit of the agent, and what its shell wrote
    assert [(f.ref, f.path, f.reads, f.changes) for f in found.modified] == [("F3", "CHANGELOG.md", 0, 1), ("F1", "shop/cart.py", 2, 1)]
    assert [(f.ref, f.path, f.reads) for f in found.read] == [("F2", "shop/prices.py", 1)]
    assert (found.tests.command, found.tests.passed, found.tests.failed, found.tests.ok, found.tests.stale) == (
        "pytest -q",
        5,
        0,
        True,
        False,
    )
    assert {name: found.stats[name] for name in ("prompts", "tool_calls", "compactions")} == {
        "prompts": 1,
        "tool_calls": 9,
        "compactions": 1,
    }


@pytest.mark.feature("session.native-edits")
def test_a_patch_of_the_other_agent_modifies_files_too_and_secrets_are_out(shop: Shop):
    found = state(shop, f"codex:{THREAD}")

    assert [(f.path, f.reads, f.changes) for f in found.modified] == [("shop/cart.py", 1, 1)]
    assert KEY not in str(found.to_json())
    assert "[REDACTED:anthropic-key]" in found.task.text


@pytest.mark.feature("session.auto-findings")
def test_findings_are_drawn_from_checks_and_claims_and_never_from_reads(shop: Shop):
    found = state(shop).findings

    assert [(i.place, i.text) for i in found] == [
        ("", "`pytest -q` failed, then passed: assert 3 == 4"),
        ("shop/prices.py:7", "the rate is read from a string, not a number"),
    ]
    assert all(i.event for i in found)


@pytest.mark.feature("session.as-of")
def test_the_state_at_an_earlier_moment_knows_nothing_of_what_came_later(shop: Shop):
    before = state(shop, at="before-compaction:1")

    assert before.tests.counts == "4/5 passed"
    assert (before.tests.ok, before.tests.why) == (False, "assert 3 == 4")
    assert before.findings[0].text == "`pytest -q` failed when it last ran: assert 3 == 4"
    assert [(f.path, f.reads) for f in before.modified] == [("shop/cart.py", 1)]
    assert before.stats["compactions"] == 0
    assert state(shop, at="start").files == []


@pytest.mark.feature("session.repository-scope")
def test_without_a_name_it_is_the_newest_session_of_the_repository_from_any_clone_or_subfolder(shop: Shop):
    # the session of March 5 ran in one clone, that of March 1 in the other
    for folder in (shop.clone, shop.clone / "docs", shop.other):
        assert state(shop, None, cwd=str(folder)).session_id == WORK
    with pytest.raises(NothingFound, match="no session of this folder's repository"):
        state(shop, None, cwd=str(shop.clone.parent / "nowhere"))


@pytest.mark.feature("session.repository-scope")
def test_a_worktree_is_its_repository(shop: Shop, tmp_path):
    main = shop.clone / ".git" / "worktrees" / "w"
    main.mkdir(parents=True, exist_ok=True)
    (main / "commondir").write_text("../..\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}\n")

    assert state(shop, None, cwd=str(tree)).session_id == WORK


@pytest.mark.feature("session.load")
def test_the_session_whose_agent_asks_is_meant_first(shop: Shop):
    asking = replace(shop.settings, environ={**shop.settings.environ, "CODEX_THREAD_ID": THREAD})
    found = session_state(settings=asking, cwd=str(shop.clone))

    assert (found.state.session_id, found.choice.why, found.choice.captured) == (THREAD, "asking", True)


@pytest.mark.parametrize("name", ["nobody", "claude:nobody", "codex/ffff"])
def test_an_unknown_session_is_an_error_that_names_it(shop: Shop, name: str):
    with pytest.raises(UnknownName, match=name.partition(":")[2].partition("/")[2] or "nobody|ffff"):
        state(shop, name)


def said(shop: Shop, what: str, words: str, **more):
    with open_store(shop.settings) as store:
        return note(store, shop.settings, what, ("claude", WORK), words, by=more.pop("by", "person"), **more)


@pytest.mark.feature("session.notes", "session.save")
def test_what_a_person_says_stands_first_and_thirty_notes_are_all_there(own: Shop):
    said(own, "task", "Make discounts right")
    for n in range(30):
        said(own, "finding", f"finding number {n}")
    found = state(own)

    assert (found.task.text, found.task.by) == ("Make discounts right", "person")
    assert texts(found.findings)[:30] == [f"finding number {n}" for n in range(29, -1, -1)]
    assert texts(found.findings)[30:] == [
        "`pytest -q` failed, then passed: assert 3 == 4",
        "the rate is read from a string, not a number",
    ]


@pytest.mark.feature("session.finding-place")
@pytest.mark.parametrize(
    ("words", "path", "line", "rest"),
    [
        ("auth.ts:45 - expiry is not checked", "auth.ts", 45, "expiry is not checked"),
        ("src/auth.ts — expiry — is not checked", "src/auth.ts", None, "expiry — is not checked"),
        ("C:\\shop\\cart.py:3 - off by one", "C:\\shop\\cart.py", 3, "off by one"),
        ("the cache - it seems - is cold", None, None, "the cache - it seems - is cold"),
        ("caching - it is cold", None, None, "caching - it is cold"),
        ("no place at all", None, None, "no place at all"),
    ],
)
def test_a_finding_is_taken_apart_into_place_and_text(words, path, line, rest):
    assert placed(words) == (path, line, rest)


@pytest.mark.feature("session.finding-place")
def test_a_finding_written_as_place_and_text_keeps_file_and_line(own: Shop):
    kept = said(own, "finding", "auth.ts:45 - expiry is not checked")
    first = state(own).findings[0]

    assert (kept["path"], kept["line"], kept["text"]) == ("auth.ts", 45, "expiry is not checked")
    assert (first.text, first.path, first.line, first.place) == ("expiry is not checked", "auth.ts", 45, "auth.ts:45")


@pytest.mark.feature("session.decision-reason")
def test_a_decision_keeps_its_reason_and_takes_the_place_of_the_one_it_replaces(own: Shop):
    said(own, "decision", "Keep sums as floats")
    said(own, "decision", "Keep sums as cents", reason="floats lose a cent", replaces="Keep sums as floats")
    found = state(own).decisions

    assert [(d.text, d.reason, d.by) for d in found] == [
        ("Keep sums as cents", "floats lose a cent", "person"),
        ("Round to cents, or to whole euros? → To cents", None, "question"),
    ]
    assert found[0].replaces == "Keep sums as floats"


@pytest.mark.feature("session.notes")
def test_a_note_is_redacted_and_refused_when_it_is_empty_or_a_book(own: Shop):
    assert said(own, "finding", f"the key is {KEY}")["text"] == "the key is [REDACTED:anthropic-key]"
    with pytest.raises(UsageError, match="has no words"):
        said(own, "task", "  ")
    with pytest.raises(UsageError, match="20,000 characters"):
        said(own, "task", "x" * 20_001)
    with pytest.raises(UsageError, match="nothing that is noted"):
        said(own, "opinion", "x")


@pytest.mark.feature("session.notes")
def test_forgetting_the_session_takes_its_notes_along_and_leaves_no_trace(own: Shop):
    said(own, "finding", "the marmalade is in the cellar")
    with open_store(own.settings) as store:
        note(store, own.settings, "finding", ("codex", THREAD), "the other one stays", by="person")
        forget(store, own.settings, Selection("claude", WORK))

    left = b"".join(p.read_bytes() for p in own.settings.home.rglob("*") if p.is_file())
    assert b"marmalade" not in left
    assert WORK.encode() not in left
    assert texts(state(own, f"codex:{THREAD}").findings)[0] == "the other one stays"


@pytest.mark.feature("session.notes")
def test_forgetting_a_text_takes_the_notes_that_hold_it(own: Shop):
    said(own, "finding", "the marmalade is in the cellar")
    with open_store(own.settings) as store:
        forget(store, own.settings, Selection(text="marmalade"))

    assert b"marmalade" not in b"".join(p.read_bytes() for p in (own.settings.home / "session").rglob("*.json"))


def test_what_a_writer_or_a_remover_left_when_it_died_is_forgotten_and_cleaned_up(own: Shop):
    said(own, "finding", "the marmalade is in the cellar")
    with open_store(own.settings) as store:
        (note_of,) = store.files.walk("session")
        store.files.write("session/dead.json", store.files.read(note_of))
        kept = keep(store, own.settings, "snapshot", ("claude", WORK), "<a/>", name="x", about={}, by="person")
        store.journal.append(REMOVED, {"words": kept.rel}, actor="person")
        assert set(orphans(store)) == {"session/dead.json", kept.rel}
        forget(store, own.settings, Selection("claude", WORK))
        assert list(store.files.walk("session")) == []


@pytest.mark.feature("session.save")
def test_files_of_notes_are_private(own: Shop):
    said(own, "task", "quietly")
    files = list((own.settings.home / "session").rglob("*.json"))

    assert [oct(p.stat().st_mode & 0o777) for p in files] == ["0o600"]


def _writer(settings: Settings, name: str) -> None:
    with open_store(settings) as store:
        for n in range(10):
            note(store, settings, "finding", ("claude", WORK), f"{name} {n}", by="agent")


@pytest.mark.feature("session.two-writers")
def test_two_processes_that_write_at_once_lose_nothing(own: Shop):
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_writer, args=(own.settings, name), daemon=True) for name in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(100)
    assert [w.exitcode for w in writers] == [0, 0]

    found = {i.text for i in state(own).findings if i.stated}
    assert found == {f"{name} {n}" for name in ("one", "two") for n in range(10)}


@pytest.mark.feature("session.inferred")
def test_an_approved_plan_that_is_newer_than_the_prompt_is_the_task_and_says_so(own: Shop):
    later = ClaudeHome(own.clone.parent / "claude").session(LATER, cwd=str(own.clone), mark="l")
    later.prompt("hm")
    todos = [{"content": "count the boxes", "status": "in_progress", "activeForm": "x"}]
    later.call("p1", "TodoWrite", "ok", todos=todos).save()
    with open_store(own.settings) as store:
        ingest(store, own.settings)
    assert (state(own, LATER).task.text, state(own, LATER).task.by) == ("count the boxes", "todos")

    later.call("p2", "ExitPlanMode", "User has approved your plan.", plan="# Move the boxes\n\n1. lift").save()
    with open_store(own.settings) as store:
        ingest(store, own.settings)
    assert (state(own, LATER).task.text, state(own, LATER).task.by) == ("Move the boxes", "plan")

    later.prompt("Rename the module boxes.py to crates.py and update its imports").answer(text("done")).save()
    with open_store(own.settings) as store:
        ingest(store, own.settings)
    assert state(own, LATER).task.by == "prompt"
    assert state(own, LATER).project == "shop"
