"""The terminal view, driven by keys, over a store that is being written."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Collapsible, ContentSwitcher, DataTable, Footer, Static, Tree

from ctx_pipeline import CtxRotStore
from ctx_pipeline.rot import store as watching
from ctx_pipeline.rot.store import Watched
from ctx_pipeline.rot.terminal import app as view
from ctx_pipeline.rot.terminal import snapshot as drawing
from ctx_pipeline.rot.terminal.snapshot import take, tool_costs
from ctx_pipeline.tokens.model_tokens import context_window

NOON = 1_767_268_800.0


def call(store, session, seq, prompt, *, completion="said", **more):
    store.insert_lm_call(
        id=f"{session}{seq}",
        session_id=session,
        seq=seq,
        model="openai/gpt-4o-mini",
        started_at=NOON + seq,
        ended_at=NOON + seq + 0.5,
        prompt_tokens=prompt,
        completion_tokens=100,
        messages_json='[{"role": "user", "content": "a \\u001b[31mred\\u001b[0m question"}]',
        completion=completion,
        **more,
    )


@pytest.fixture
def store(tmp_path):
    with CtxRotStore(tmp_path / "a.db") as made:
        made.insert_session("s1", NOON, mode="react")
        call(made, "s1", 1, 1000)
        made.insert_tool_call(
            id="t1", session_id="s1", after_seq=1, tool_name="read", started_at=NOON, ended_at=NOON + 1, output_tokens_est=800
        )
        call(made, "s1", 2, 100_000)
        call(made, "s1", 3, 20_000)
        yield made


def drive(store, session, steps):
    async def go():
        app = view.Rot(Watched(lambda: [store.path]), session, store if session else None)
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            await app.workers.wait_for_complete()
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(go())


async def until(pilot, done):
    """Give the view the time it needs until something holds."""
    for _ in range(1_000):
        if done():
            return
        await pilot.pause(0.05)
    assert done()


def column(app, number):
    """Return the texts of a column of the feed, none while another screen is shown."""
    if not isinstance(app.screen, view.Feed):
        return []
    table = app.screen.query_one(DataTable)
    return [str(table.get_row_at(n)[number]) for n in range(table.row_count)]


def shown(app, selector):
    return str(app.screen.query_one(selector, Static).render())


@pytest.mark.feature("rot.view-feed")
def test_the_feed_lists_sessions_follows_the_store_and_opens_one(store, monkeypatch):
    monkeypatch.setattr(view, "REFRESH_SECONDS", 0.05)

    async def steps(app, pilot):
        table = app.screen.query_one(DataTable)
        assert [str(c) for c in table.get_row_at(0)][1:6] == ["s1", "openai/gpt-4o-mini", "3", "121,000", "300"]
        call(store, "s1", 4, 30_000)
        await until(pilot, lambda: column(app, 3) == ["4"])
        store.insert_session("s2", NOON + 60)
        call(store, "s2", 61, 500)
        await until(pilot, lambda: column(app, 1) == ["s2", "s1"])
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, view.Session))
        left = app.screen
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, view.Feed) and not left.is_running)
        left._took(take(store, "s1"))  # what was read for a screen that is gone by then

    drive(store, None, steps)


@pytest.mark.feature("rot.view-bar")
def test_the_line_with_the_figures_stands_above_the_keys_in_both_screens(store):
    async def steps(app, pilot):
        for screen in (app.screen, app.screen_stack[-2]):
            bar, keys = screen.query_one("#bar").region, screen.query_one(Footer).region
            assert (bar.height, bar.y + 1, keys.y + keys.height) == (1, keys.y, 30)
            app.pop_screen()
            await pilot.pause()

    drive(store, "s1", steps)


@pytest.mark.feature("rot.window")
def test_a_prompt_larger_than_the_usual_window_was_sent_into_a_larger_one(store):
    call(store, "s1", 5, 600_000)
    snapshot = take(store, "s1")
    assert snapshot.window == 1_000_000
    assert round(sum(drawing.shares_of_window(snapshot).values())) == 100
    rows = drawing.chart(snapshot, 100, 20).plain.splitlines()
    assert (rows[0][:10], rows[19][:10]) == ("1,050,000 ", "   52,500 ")
    call(store, "s1", 6, 3_000_000)
    assert take(store, "s1").window == 3_000_000


@pytest.mark.feature("rot.view-session")
def test_a_session_shows_chart_statistics_and_texts_by_its_keys(store, monkeypatch):
    monkeypatch.setattr(view, "REFRESH_SECONDS", 0.05)

    async def steps(app, pilot):
        assert "window 128,000" in shown(app, "#chart")
        assert "78.1% of 128,000 │ 3 calls" in shown(app, "#bar")
        call(store, "s1", 4, 30_000)
        await until(pilot, lambda: "4 calls" in shown(app, "#bar"))
        await pilot.press("t")
        assert app.screen.query_one(ContentSwitcher).current == "stats"
        assert "#2 [1,000 + 98,200 + 800 = 100,000] -> 100" in shown(app, "#stats-timeline")
        assert "#3 [compressed -> 20,000]" in shown(app, "#stats-timeline")
        assert "read  1 call, ~800 tok" in shown(app, "#stats-tools")
        assert "verdict: " in shown(app, "#stats-rot")
        await pilot.press("c")
        await pilot.pause()
        calls = list(app.screen.query(Collapsible))
        assert len(calls) == 4
        calls[0].collapsed = False
        await pilot.pause()
        text = str(calls[0].query_one("#text", Static).render())
        assert "question" in text
        assert "\x1b" not in text
        await pilot.press("t", "t")
        assert app.screen.query_one(ContentSwitcher).current == "chart"

    drive(store, "s1", steps)


@pytest.mark.feature("rot.view-tree")
def test_a_recursive_session_is_shown_as_a_tree_first(store):
    store.insert_session("rlm1", NOON, mode="rlm")
    call(store, "rlm1", 1, 1000, call_type="action", iteration=1, completion="[[ ## code ## ]]\nprint(1)")
    call(store, "rlm1", 2, 50, call_type="sub_query", iteration=1, parent_seq=1, completion="an answer")
    call(store, "rlm1", 3, 2000, call_type="extract", iteration=2)

    async def steps(app, pilot):
        assert app.screen.query_one(ContentSwitcher).current == "tree"
        first, last = app.screen.query_one(Tree).root.children
        assert str(first.label).startswith("Iter 1  1,000/100  0.5 s")
        assert [str(n.label) for n in first.children] == ["print(1)", "sub_query #2 50/100 an answer"]
        assert str(last.label).endswith("[extract]")

    drive(store, "rlm1", steps)


@pytest.mark.feature("rot.view-waits")
def test_the_view_waits_for_a_store_that_is_not_there_yet(tmp_path, monkeypatch):
    monkeypatch.setattr(view, "REFRESH_SECONDS", 0.05)

    async def go():
        app = view.Rot(Watched(lambda: [tmp_path / "later.db"]))
        async with app.run_test() as pilot:
            await pilot.pause()
            assert "waiting" in shown(app, "#bar")
            with CtxRotStore(tmp_path / "later.db") as store:
                store.insert_session("s", NOON)
                call(store, "s", 1, 10)
            await until(pilot, lambda: app.screen.query_one(DataTable).row_count == 1)

    asyncio.run(go())


@pytest.mark.feature("rot.view-all-stores")
def test_the_feed_shows_all_stores_and_opens_each_session_from_its_own(store, tmp_path, monkeypatch):
    monkeypatch.setattr(view, "REFRESH_SECONDS", 0.05)
    monkeypatch.setattr(watching, "LOOK_SECONDS", 0.05)
    paths = [store.path]

    async def go():
        app = view.Rot(Watched(lambda: paths))
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: app.screen.query_one(DataTable).row_count == 1)
            with CtxRotStore(tmp_path / "b.db") as other:
                other.insert_session("s1", NOON + 100)
                call(other, "s1", 200, 777)
            paths.append(tmp_path / "b.db")
            await until(pilot, lambda: column(app, 4) == ["777", "121,000"])
            assert "2 sessions in 2 stores" in shown(app, "#bar")
            app.screen.query_one(DataTable).move_cursor(row=0)
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, view.Session))
            await until(pilot, lambda: "in 777 out" in shown(app, "#bar"))
            await pilot.press("escape")
            await pilot.pause()
            assert app.screen.query(DataTable)

    asyncio.run(go())


@pytest.mark.feature("rot.view-chart")
def test_bars_stack_their_layers_and_the_line_stands_only_near_the_window(store):
    snapshot = take(store, "s1")
    lines = drawing.chart(snapshot, 60, 10).plain.splitlines()
    assert len(lines) == 12
    assert lines[-2].split() == ["·", "·", "▾"]
    assert any("─" in line for line in lines[:10])
    store.insert_session("small", NOON)
    call(store, "small", 1, 1000)
    assert "─" not in drawing.chart(take(store, "small"), 60, 10).plain
    many = [{**snapshot.layers[0], "seq": n} for n in range(500)]
    wide = drawing.chart(snapshot.__class__(**{**snapshot.__dict__, "layers": many}), 60, 4).plain.splitlines()
    assert max(len(line) for line in wide[:4]) <= 60
    shares = drawing.shares_of_window(snapshot)
    assert shares["output"] == pytest.approx(100 / 128_000 * 100)
    assert sum(shares.values()) == pytest.approx(100)


@pytest.mark.feature("rot.view-tool-cost")
def test_a_tools_part_of_the_context_is_its_share_of_what_was_gained(tmp_path):
    with CtxRotStore(tmp_path / "b.db") as store:
        store.insert_session("s", NOON)
        call(store, "s", 1, 1000)
        for name, size in (("a", 300), ("b", 100)):
            store.insert_tool_call(
                id=name, session_id="s", after_seq=1, tool_name=name, started_at=NOON, ended_at=NOON, output_tokens_est=size
            )
        call(store, "s", 2, 2000)
        # the completion before had 100 tokens: 300 of 500, and 100 of 500, of 1,000 tokens gained
        assert tool_costs(take(store, "s")) == [
            {"tool_name": "a", "calls": 1, "raw": 300, "context": 600},
            {"tool_name": "b", "calls": 1, "raw": 100, "context": 200},
        ]


@pytest.mark.feature("rot.window")
@pytest.mark.parametrize(
    ("model", "tokens"), [("openai/gpt-4o-mini", 128_000), ("gpt-4o-mini", 128_000), ("no-such-model", None), (None, None)]
)
def test_the_context_window_of_a_model(model, tokens):
    assert context_window(model) == tokens


@pytest.mark.feature("rot.call-tree")
def test_a_nested_program_is_drawn_as_it_called(tmp_path):
    import dspy

    from ctx_pipeline import CtxRotCallback

    class Outer(dspy.Module):
        def forward(self, question):
            dspy.Tool(lambda x: "y" * 400, name="look")(x=1)
            raise ValueError("not \x1b[31mtoday")

    callback = CtxRotCallback(tmp_path / "c.db")
    with dspy.context(callbacks=[callback]), pytest.raises(ValueError, match="today"):
        Outer()(question="q")
    callback.close()

    async def steps(app, pilot):
        await pilot.press("r")
        (root,) = app.screen.query_one(Tree).root.children
        assert str(root.label) == "Outer  failed: not today"
        assert [str(n.label) for n in root.children] == ["look  +100 tok"]

    with CtxRotStore(tmp_path / "c.db", read_only=True) as store:
        drive(store, callback.session_id, steps)


@pytest.mark.feature("rot.view-grid")
def test_the_grid_fills_its_cells_by_the_shares_of_the_window(store):
    from rich.text import Text

    snapshot = take(store, "s1")
    # 20,000 of 128,000 tokens: 1,000 input and the rest of tools and reasoning; 15.6 % and 0.1 % output
    drawn = drawing.grid(snapshot)
    assert isinstance(drawn, Text)
    rows = drawn.plain.splitlines()
    assert [row.count("■") for row in rows[:5]] == [20] * 5
    styles = [str(span.style) for span in drawn.spans][:100]
    filled = [s for s in styles if s != "#3a3a3a"]
    assert len(filled) == sum(round(share) for name, share in drawing.shares_of_window(snapshot).items() if name != "free") == 16
    assert "free 84.3%" in rows[5]
