"""The context windows of captured sessions, from both hosts' files to trees."""

from __future__ import annotations

import json
import stat
from types import SimpleNamespace

import pytest

from ctx_pipeline import Context, ContextHistory, window_history
from ctx_pipeline import settings as settings_module
from ctx_pipeline.context.errors import InvalidSelector, ReadOnlyHistory, UnknownSnapshot
from ctx_pipeline.errors import AmbiguousName, CtxError, StoreError, UnknownName
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.sessions.windows.view import component_rows, difference, export, moment_row, selected, weights
from ctx_pipeline.sessions.windows.window_history import open_window, thread_named
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories.codex import THREAD
from ctx_pipeline_tests.factories.windows import AGENT, SECRET, SESSION, claude_home, codex_home

pytestmark = pytest.mark.feature("history.of-a-session")


def captured(folder, claude, codex):
    """Return the settings of a store into which these homes were read."""
    homes = {"CLAUDE_CONFIG_DIR": str(claude), "CODEX_HOME": str(codex)}
    settings = settings_module.load({"HOME": str(folder / "nobody"), "CTX_HOME": str(folder / "store"), "TZ": "UTC", **homes})
    with open_store(settings) as store:
        ingest(store, settings)
    return settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    claude_home(folder / "claude")
    codex_home(folder / "codex")
    return captured(folder, folder / "claude", folder / "codex")


def said(context):
    return [b["content"] for b in context.provider_thread()]


def kinds(rows):
    return [(r["kind"], r["tool"]) for r in rows]


def test_a_window_is_rebuilt_at_every_turn_and_around_the_compaction(settings):
    window = open_window("claude", SESSION[:8], settings=settings)
    rows = [moment_row(m) for m in window.moments]

    assert [r["moment"] for r in rows] == ["turn:1", "before-compaction:1", "after-compaction:1", "end"]
    assert [r["components"] for r in rows] == [5, 8, 1, 2]
    assert said(window.context(window.moments[2])) == ["The parser was slow; it is being mended."]
    assert said(window.context(window.moments[3])) == ["The parser was slow; it is being mended.", "I go on mending."]
    assert (window.model, window.approximate) == ("claude-sonnet-4-5-20250929", True)
    assert [r["time"][:19] for r in rows][:1] == ["2026-03-05T10:00:04"]


@pytest.mark.feature("history.unseen")
def test_the_unseen_part_is_what_the_call_billed_more_than_was_counted(settings):
    window = open_window("claude", SESSION, settings=settings)
    before, after = window.moments[1], window.moments[2]

    # the last call before the compaction billed 5,300 tokens, the first one after it 4,100
    assert (before.sent.billed, after.sent.billed) == (5300, 4100)
    assert before.sent.counted + before.sent.unseen == 5300
    assert window.context(after)["#unseen"].attributes == {"data_tokens": 4100 - after.tokens, "data_billed": 4100}
    assert [n.id for n in window.context(before).find("^sys .block")] == ["unseen"]


def test_a_difference_says_what_the_compaction_removed(settings):
    window = open_window("claude", SESSION, moments=("before-compaction", "after-compaction"), settings=settings)
    found = difference(window, *window.asked)

    assert kinds(found["removed"]) == [
        ("prompt", None),
        ("reasoning", None),
        ("call", "Read"),
        ("result", "Read"),
        ("answer", None),
        ("prompt", None),
        ("call", "Task"),
        ("result", "Task"),
    ]
    assert kinds(found["added"]) == [("injected", None)]
    assert [(c["id"], "data_tokens" in c["fields"]) for c in found["changed"]] == [("unseen", True)]
    assert sum(r["tokens"] for r in found["removed"]) == window.asked[0].tokens
    # whichever is named first, the earlier moment is the old one
    assert found["reordered"] is False
    assert difference(window, *window.asked[::-1]) == {**found, "reordered": True}
    assert kinds(difference(window, *window.asked, "+prompt")["removed"]) == [("prompt", None), ("prompt", None)]


def test_a_subagent_has_a_window_of_its_own(settings):
    window = open_window("claude", SESSION, thread=AGENT, settings=settings)
    whole = open_window("claude", SESSION, settings=settings)

    assert said(window.context(window.moments[-1])) == ["count the files", "There are 7 files."]
    assert {(t.kind, t.agent is not None) for t in whole.threads} >= {("main", False)}
    assert [t.thread_id for t in whole.threads if t.thread_id != SESSION] == [window.thread.thread_id]
    with pytest.raises(UnknownName, match="thread"):
        open_window("claude", SESSION, thread="nobody", settings=settings)


def named(settings, word, **more):
    window = open_window("claude", SESSION, moments=(word,), settings=settings, **more)
    return window.asked[0], said(window.context(window.asked[0]))


def test_a_moment_is_named_in_every_way_that_people_name_one(settings):
    window = open_window("claude", SESSION, settings=settings)
    rows = component_rows(window.context(window.moments[1]))
    call = next(r for r in rows if r["tool"] == "Read" and r["kind"] == "call")

    assert named(settings, call["seq"])[1] == ["make the parser faster", "Look first.", call["text"]]
    assert named(settings, call["id"]) == named(settings, "toolu_1") == named(settings, str(call["seq"]))
    assert named(settings, "start")[1] == []
    assert named(settings, "end")[1][-1] == "I go on mending."
    assert named(settings, "turn:1")[1][-1] == "It is slow because of x."
    assert named(settings, "turn")[1] == named(settings, "end")[1]
    assert named(settings, "2026-03-05T10:00:00")[1] == ["make the parser faster"]
    assert named(settings, "2026-03-05T11:00:00+01:00")[1] == ["make the parser faster"]
    assert named(settings, "2020-01-01")[1] == []
    # what the model was sent when it made the call: not its own thinking, which the same call wrote
    assert named(settings, "seen-by:toolu_1")[1] == ["make the parser faster"]
    assert named(settings, f"seen-by:{call['seq']}")[0].sent.billed == 5000


def test_an_event_of_a_subagent_chooses_its_thread(settings):
    window = open_window("claude", SESSION, thread=AGENT, settings=settings)
    answer = component_rows(window.context(window.moments[-1]))[-1]

    assert named(settings, answer["id"])[1] == ["count the files", "There are 7 files."]
    assert named(settings, 0, thread=AGENT)[1] == ["count the files"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nonsense", "there is no event or moment 'nonsense'"),
        ("", "a moment has no name"),
        ("999", "the thread has no event 999"),
        ("before-compaction:2", "there is no before-compaction:2"),
        ("turn:0", "there is no turn:0"),
        ("2026-13-45", "is not a time"),
        ("seen-by:0", "no model wrote event 0"),
        ("seen-by:toolu_9", "there is no event or moment 'toolu_9'"),
    ],
)
def test_a_moment_that_is_not_there_is_an_error_that_says_how_to_name_one(settings, word, message):
    with pytest.raises(CtxError, match=message) as caught:
        named(settings, word)
    assert caught.value.hint


def test_selectors_find_components_by_tag_weight_tool_and_time(settings):
    window = open_window("claude", SESSION, moments=("before-compaction",), settings=settings)

    def found(selector):
        return kinds(selected(window, window.asked[0], selector).rows)

    assert found("+tool_result") == [("result", "Read"), ("result", "Task")]
    assert found(".block[data_tokens>100]") == [("unseen", None), ("result", "Read")]
    assert found("{data_tool='Task'}") == [("call", "Task"), ("result", "Task")]
    assert found("(d1)") == kinds(component_rows(window.context(window.asked[0])))[1:6]
    assert found("^sys") == [("unseen", None)]
    with pytest.raises(InvalidSelector):
        found(".block{{")
    with pytest.raises(UnknownSnapshot):
        found("@t-9 .block")


def test_a_selector_of_the_past_names_the_window_that_it_read(settings):
    window = open_window("claude", SESSION, moments=("end", "before-compaction"), settings=settings)
    end, before = window.asked

    def read(moment, selector):
        found = selected(window, moment, selector)
        return found.moment.trigger, found.every, [row["text"] for row in found.rows]

    prompts = ["make the parser faster", "then mend it"]
    assert read(end, "@t-2 +prompt") == read(before, "@t0 +prompt") == ("before-compaction:1", False, prompts)
    assert read(end, "@t-1 +prompt") == ("after-compaction:1", False, [])
    assert read(end, "@t-3 +prompt") == ("turn:1", False, prompts[:1])
    assert read(end, "@c1 +prompt")[0] == "after-compaction:1"  # the last of that cycle
    # each component once, also those that a compaction took out, in the order of events
    assert read(end, "@* +prompt") == ("end", True, prompts)
    assert [row[:2] for row in kinds(selected(window, end, "@* .block").rows)].count(("unseen", None)) == 1


def test_a_range_names_its_moments_and_has_components_as_rows(settings):
    window = open_window("claude", SESSION, settings=settings)
    found = selected(window, window.asked[0], "@history +prompt").differences

    assert [(s["label"], s["moment"]) for s in found["snapshots"]] == [
        ("@t0", "end"),
        ("@t-1", "after-compaction:1"),
        ("@t-2", "before-compaction:1"),
        ("@t-3", "turn:1"),
    ]
    assert [{word: [r["text"] for r in rows] for word, rows in d["components"].items()} for d in found["diffs"]] == [
        {"removed": [], "added": [], "changed": []},
        {"removed": ["make the parser faster", "then mend it"], "added": [], "changed": []},
        {"removed": [], "added": ["then mend it"], "changed": []},
    ]


def test_a_name_that_several_threads_have_lists_them():
    names = [f"s/agent-{n}" for n in "abc"]
    threads = [SimpleNamespace(thread_id="s", agent=None), *(SimpleNamespace(thread_id=n, agent="general-purpose") for n in names)]
    view = SimpleNamespace(events=[SimpleNamespace(thread_id=t.thread_id) for t in threads], threads=threads)

    assert thread_named(view, "agent-b") == "s/agent-b"
    for word in ("general-purpose", "agent-"):
        with pytest.raises(AmbiguousName, match=f"'{word}' means 3 threads") as caught:
            thread_named(view, word)
        assert caught.value.hint == "name one of agent-a, agent-b, agent-c"
    with pytest.raises(UnknownName, match="there is no thread called 'general'"):
        thread_named(view, "general")


def test_the_weights_add_up_to_the_window(settings):
    window = open_window("claude", SESSION, moments=("before-compaction",), settings=settings)
    moment = window.asked[0]
    groups = weights(component_rows(window.context(moment)))

    assert sum(g["tokens"] for g in groups) == moment.tokens + moment.sent.unseen
    assert groups == sorted(groups, key=lambda g: -g["tokens"])
    assert groups[0]["kind"] == "unseen"
    assert sum(g["share"] for g in groups) == pytest.approx(1, abs=0.01)


def test_codex_keeps_the_messages_that_its_record_lists_also_when_a_secret_was_taken_out_of_them(settings):
    window = open_window("codex", THREAD, settings=settings)
    before, after = window.moments[0], window.moments[1]
    kept = said(window.context(after))

    assert [m.trigger for m in window.moments] == ["before-compaction:1", "after-compaction:1", "end"]
    assert kept[0] == "You are careful."
    assert len(kept) == 2
    assert kept[1].startswith("use the token [REDACTED:")
    assert SECRET not in json.dumps([window.history.at_snapshot(n).model_dump() for n in window.history.snapshots])
    assert kinds(difference(window, before, after)["removed"]) == [("call", "exec_command"), ("result", "exec_command")]
    assert window.approximate is False
    assert window.context(after)["^sys > .block:first"].role == "system"


def test_the_window_is_a_history_that_is_read_and_never_written(settings):
    history = ContextHistory.from_session("claude", SESSION[:8], settings=settings)
    at_the_end = history.at_snapshot(max(history.snapshots))

    assert [s["trigger"] for s in history.snapshots.values()] == ["turn:1", "before-compaction:1", "after-compaction:1", "end"]
    assert history.by_trigger("after-compaction:1") == [3]
    assert at_the_end.select("@t-1 .block") == history.at_snapshot(3).select(".block")
    with pytest.raises(ReadOnlyHistory):
        at_the_end.add_user("more")
    ended = ContextHistory.from_session("claude", SESSION, at="turn:1", settings=settings)
    assert [s["trigger"] for s in ended.snapshots.values()] == ["turn:1"]
    assert (
        window_history("claude", SESSION, thread=AGENT, settings=settings).at_snapshot(1).find("+answer")[0].content == "There are 7 files."
    )


def test_a_window_goes_on_as_a_context_of_ones_own(settings):
    history = ContextHistory.from_session("claude", SESSION, at="turn:1", settings=settings)
    mine = Context.from_snapshot(history.snapshots[max(history.snapshots)]["context"])
    mine.add_user("what if")

    assert said(mine)[-2:] == ["It is slow because of x.", "what if"]


@pytest.mark.feature("history.cli")
def test_a_window_and_a_whole_history_are_written_as_json_the_same_every_time(settings, tmp_path):
    window = open_window("claude", SESSION, moments=("after-compaction",), settings=settings)
    one = export(window, window.asked[0], tmp_path / "window.json", settings=settings)
    export(window, window.asked[0], tmp_path / "window.json", settings=settings)
    again = open_window("claude", SESSION, moments=("after-compaction",), settings=settings)
    export(again, again.asked[0], tmp_path / "again.json", settings=settings)
    every = export(window, window.asked[0], tmp_path / "history.jsonl", settings=settings)

    assert (one["snapshots"], every["snapshots"]) == (1, 4)
    assert (tmp_path / "window.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    assert stat.S_IMODE((tmp_path / "history.jsonl").stat().st_mode) == stat.S_IMODE((tmp_path / "window.json").stat().st_mode) == 0o600
    back = Context.from_snapshot(json.loads((tmp_path / "window.json").read_text()))
    assert said(back) == ["The parser was slow; it is being mended."]
    opened = ContextHistory(tmp_path / "history.jsonl")
    assert [s["trigger"] for s in opened.snapshots.values()] == [m.trigger for m in window.moments]
    assert opened.at_snapshot(3).to_json() == window.history.at_snapshot(3).to_json()
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["again.json", "history.jsonl", "window.json"]


@pytest.mark.feature("history.cli")
def test_a_window_is_not_written_into_the_store_or_where_nothing_can_be_written(settings, tmp_path):
    window = open_window("claude", SESSION, settings=settings)

    with pytest.raises(StoreError, match="lies in the store"):
        export(window, window.asked[0], settings.home / "window.json", settings=settings)
    with pytest.raises(StoreError, match="cannot be written"):
        export(window, window.asked[0], tmp_path / "no" / "window.json", settings=settings)


@corpus
def test_a_real_compaction_of_each_host_is_seen_before_and_after(tmp_path):
    settings = captured(tmp_path, CORPUS / "claude", CORPUS / "codex")
    claude = open_window("claude", "062a8bdd", moments=("before-compaction:1", "after-compaction:1"), settings=settings)
    codex = open_window("codex", "019f2387", moments=("before-compaction:2", "after-compaction:2"), settings=settings)
    small = open_window("claude", "fdd24234", settings=settings)

    # Claude Code wrote 167,174 tokens into the record of this compaction; the last call before it billed 166,548
    assert [(m.components, m.sent.billed) for m in claude.asked] == [(321, 166548), (1, 51732)]
    assert claude.context(claude.asked[1]).find(".block")[-1].content.startswith("This session is being continued")
    # Codex keeps its instructions, the rules of the repository and the prompt
    assert [m.components for m in codex.asked] == [455, 4]
    assert codex.context(codex.asked[1]).find("+prompt")[0].content.startswith("/goal simplify this repo")
    cleared = [m for m in small.moments if "clearing" in m.trigger]
    assert len(cleared) == 4
    # the record says 21,294 tokens saved, counted by the host; ours is an estimate for a model without a public tokenizer
    assert cleared[0].tokens - cleared[1].tokens == pytest.approx(21294, rel=0.5)
    # what is unseen (system prompt and tool schemas) is about the same at every call of one window
    sizes = [c.unseen for c in claude.calls if c.window == 0 and c.seq < 320]
    assert max(sizes) < 1.2 * min(sizes)
