"""What a process worked out of a session is given again while its rows are the same, and never behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.session_notes import note
from ctx_pipeline.sessions import file_placement, files
from ctx_pipeline.sessions.reports import metrics as session_metrics
from ctx_pipeline.sessions.reports import repeated_reads
from ctx_pipeline.sessions.session_memo import SessionMemo
from ctx_pipeline.sessions.states import drawn
from ctx_pipeline.sessions.states.state import compared, loaded, make_snapshot, resume_block, session_state
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.claude import ClaudeHome
from ctx_pipeline_tests.sessions.conftest import LATER, WORK, Shop, captured


def grown(shop: Shop, *names: str) -> None:
    """Let a session edit these files, and capture it."""
    home = ClaudeHome(Path(shop.settings.environ["CLAUDE_CONFIG_DIR"]))
    work = home.session(LATER, cwd=str(shop.clone), mark="l").prompt("Write the changelog of the shop in CHANGELOG.md, for users")
    for n, name in enumerate(names):
        work.call(f"e{n}", "Edit", "ok", file_path=f"{shop.clone}/{name}", old_string="a", new_string="b")
    work.save()
    with open_store(shop.settings) as store:
        ingest(store, shop.settings)


@pytest.mark.feature("session.read-once")
def test_the_rows_of_a_session_are_read_once_for_all_that_is_asked_of_its_end_until_they_change(own: Shop, monkeypatch):
    grown(own, "a.md")
    read: list[str] = []
    view_of = drawn.view_of
    monkeypatch.setattr(drawn, "view_of", lambda store, host, name, tables: read.append(name) or view_of(store, host, name, tables))
    named, settings = f"claude:{LATER}", own.settings

    def changed() -> list[str]:
        state = session_state(named, settings=settings).state
        assert loaded(named, settings=settings).found.state == state
        assert resume_block(named, settings=settings).text
        assert make_snapshot(named, settings=settings).seq == state.seq
        return [f.path for f in state.modified]

    assert changed() == ["a.md"]
    assert read == [LATER]
    with open_store(settings) as store:
        note(store, settings, "finding", ("claude", LATER), "the rate is a text", by="person")
    assert [i.text for i in session_state(named, settings=settings).state.findings] == ["the rate is a text"]
    assert read == [LATER], "what people say is no row of the session"
    grown(own, "a.md", "b.md")
    assert changed() == ["b.md", "a.md"]
    assert read == [LATER, LATER]


@pytest.mark.feature("session.diff")
def test_at_its_start_nothing_was_done_or_said_and_both_moments_are_read_at_once(own: Shop, monkeypatch):
    with open_store(own.settings) as store:
        note(store, own.settings, "decision", ("claude", WORK), "round to cents", by="person")
    read: list[str] = []
    view_of = drawn.view_of
    monkeypatch.setattr(drawn, "view_of", lambda store, host, name, tables: read.append(name) or view_of(store, host, name, tables))

    at_start = session_state(f"claude:{WORK}", at="start", settings=own.settings).state
    assert (at_start.files, at_start.decisions, at_start.asked_first) == ([], [], None)
    read.clear()
    told = compared(f"claude:{WORK}", moments=("start", None), settings=own.settings)
    assert read == [WORK]
    assert "round to cents" in str(told)
    assert "shop/cart.py" in str(told)


@pytest.mark.feature("session.heatmap")
def test_touches_are_read_again_of_the_session_that_changed_alone(own: Shop, monkeypatch):
    grown(own, "a.md")
    read: list[str] = []
    told = file_placement.file_accesses
    monkeypatch.setattr(file_placement, "file_accesses", lambda view: read.append(view.session_id) or told(view))

    def touched() -> dict[str, int]:
        return {f.path: f.accesses for f in files.heat(cwd=str(own.clone), settings=own.settings).files}

    before = touched()
    assert before["a.md"] == 1
    slim, read[:] = set(read), []
    assert LATER in slim
    with monkeypatch.context() as patch:
        patch.setattr("ctx_pipeline.storage.lake.Lake.read_sessions", lambda *_, **__: pytest.fail("nothing has changed"))
        patch.setattr(file_placement, "_of_session", lambda *_: pytest.fail("no folder lies elsewhere"))
        assert touched() == before
    grown(own, "a.md", "b.md", "a.md")
    assert touched() == before | {"a.md": 2, "b.md": 1}
    assert captured(own.clone.parent).settings.home == own.settings.home


@pytest.mark.feature("session.read-once")
def test_metrics_and_the_window_within_them_are_made_of_one_reading(own: Shop, monkeypatch):
    window = repeated_reads.window_files(f"claude:{WORK}", settings=own.settings)
    read: list[str] = []
    view_of = session_metrics.view_of
    for module in (session_metrics, repeated_reads):
        monkeypatch.setattr(module, "view_of", lambda store, host, name, tables: read.append(name) or view_of(store, host, name, tables))

    told = session_metrics.metrics(f"claude:{WORK}", settings=own.settings)
    assert read == [WORK]
    assert told.window.to_json() == window.to_json()


@pytest.mark.feature("session.read-once")
def test_what_was_asked_for_longest_ago_goes_first_and_a_value_of_other_rows_is_never_given(own: Shop):
    with open_store(own.settings) as store:
        memo: SessionMemo[str] = SessionMemo(3)
        for n in range(3):
            memo.put(store, ("claude", str(n)), "rows", f"made {n}")
        assert memo.get(store, ("claude", "0"), "rows") == "made 0"
        memo.put(store, ("claude", "3"), "rows", "made 3")
        assert [memo.get(store, ("claude", str(n)), "rows") for n in range(4)] == ["made 0", None, "made 2", "made 3"]
        assert memo.get(store, ("claude", "0"), "other rows") is None
        memo.put(store, ("claude", "4"), "", "of unknown rows")
        assert memo.get(store, ("claude", "4"), "") is None
        memo.put(store, ("claude", "5"), "rows", "large", size=9)
        assert [memo.get(store, ("claude", str(n)), "rows") for n in (0, 2, 3, 5)] == [None, None, None, "large"]
