"""Snapshots: what they keep, what they cost, how they differ, and how they live on disk."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import threading
import tracemalloc

import msgspec
import pytest

from ctx_pipeline import Context, ContextHistory, TextContent
from ctx_pipeline.context.errors import PactError, ReadOnlyHistory, UnknownSnapshot
from ctx_pipeline.errors import SchemaTooNew, StoreDamaged, StoreError, UsageError


def with_note():
    context = Context()
    context.pact_insert("d0, 1, 0", TextContent("Important data", key="k", tags=["t"]))
    return context


@pytest.mark.feature("history.seal")
@pytest.mark.feature("context.history.seal")
def test_an_episode_is_advanced_first_and_is_the_id():
    context = with_note()

    assert [context.seal("a"), context.seal("b")] == [1, 2]
    assert context.current_episode == 2
    assert list(context.history.snapshots) == [1, 2]
    assert context.history.at_snapshot(1).current_episode == 1
    with pytest.raises(UsageError, match="needs a trigger"):
        context.seal(" ")


@pytest.mark.feature("history.serialize")
@pytest.mark.feature("history.snapshots")
@pytest.mark.feature("context.history.snapshots")
def test_a_snapshot_has_the_documented_fields_and_goes_through_json():
    context = with_note()
    episode = context.seal("why")
    data = context.history.snapshots[episode]

    assert list(data) == ["episode", "trigger", "created_at", "context"]
    assert (data["episode"], data["trigger"], type(data["created_at"])) == (1, "why", float)
    for text in (json.dumps(data), json.dumps(data, indent=2), json.dumps(dict(data)), json.dumps(pickle.loads(pickle.dumps(data)))):
        assert Context.from_snapshot(json.loads(text)["context"])["#k"].content == "Important data"
    assert dict(data.items())["context"] == data["context"] == data.get("context") == list(data.values())[3]


@pytest.mark.feature("context.history.snapshots")
def test_listing_triggers_writes_no_context_out(monkeypatch):
    context = with_note()
    context.seal("why")
    monkeypatch.setattr("ctx_pipeline.context.tree.history.dumped", lambda *_a: pytest.fail("a context was written out"))

    assert {n: s["trigger"] for n, s in context.history.snapshots.items()} == {1: "why"}


@pytest.mark.feature("history.bad-input")
@pytest.mark.feature("history.snapshots")
@pytest.mark.feature("context.history.snapshots")
def test_a_snapshot_can_be_forgotten_and_an_unknown_one_names_the_nearest():
    context = with_note()
    for _ in range(6):
        context.seal("x")
    del context.history.snapshots[5]

    with pytest.raises(KeyError, match="the nearest are 3, 4, 6"):
        context.history.at_snapshot(5)
    with pytest.raises(UnknownSnapshot):
        context.history.snapshots["5"]
    with pytest.raises(UsageError, match="made by sealing"):
        context.history.snapshots[9] = {}
    assert context.seal("y") == 7


@pytest.mark.feature("history.bad-input")
@pytest.mark.feature("history.at-snapshot")
@pytest.mark.feature("context.history.read-only")
def test_the_past_cannot_be_written():
    context = with_note()
    past = context.history.at_snapshot(context.seal("x"))

    for write in (
        lambda: past.pact_insert("d0, 1", "x"),
        lambda: past.pact_update("#k", content="x"),
        lambda: past.pact_delete(key="k"),
        lambda: past.seal("x"),
        past.render,
        past.commit,
        lambda: past.add_user("x"),
    ):
        with pytest.raises(ReadOnlyHistory, match="read-only"):
            write()
    assert past.to_json() == json.dumps(context.history.snapshots[1]["context"], separators=(",", ":"))


@pytest.mark.feature("history.at-snapshot")
@pytest.mark.feature("context.history.read-only")
def test_the_past_stays_when_the_present_changes():
    context = with_note()
    past = context.history.at_snapshot(context.seal("x"))
    before = past.to_json()
    context.pact_update("#k", content="changed")
    context.add_user("hello")
    context.commit()
    context.pact_delete("d1, 1")

    assert past.to_json() == before
    assert past["d0, 1, 0"].content == past[0, 1, 0].content == past.get_by_key("k").content == "Important data"
    assert [n.content for n in past.get_by_tags(["t"])] == ["Important data"]


@pytest.mark.feature("history.from-snapshot")
@pytest.mark.feature("context.history.restore")
def test_a_restored_context_is_the_snapshot_and_goes_on_in_the_same_history():
    context = with_note()
    context.seal("a")
    context.pact_delete(key="k")
    context.seal("b")
    again = Context.from_snapshot(context.history.snapshots[1]["context"])
    again.attach(context.history)

    assert again.current_episode == 1
    assert again.get_by_key("k").content == "Important data"
    assert again.seal("c") == 3


@pytest.mark.feature("history.diff")
@pytest.mark.feature("context.history.diff")
def test_a_difference_names_what_came_went_changed_and_moved():
    context = Context()
    for name in ("stays", "goes", "changes"):
        context.pact_insert("d0, 9", TextContent(name, id=name))
    context.add_user("hello", id="said")
    context.seal("before")
    turn = context[0].id
    context.pact_delete(id="goes")
    context.pact_update("{id='changes'}", content="changed")
    context.pact_insert("d0, 9", TextContent("new", id="new"))
    context.commit()
    found = context.history.diff(1, 2)
    by_id = {c["id"]: c for c in found["changed"]}

    assert (found["added"][0], found["removed"]) == ("new", ["goes"])
    assert by_id["changes"]["fields"] == ["content_hash", "offset"]
    assert by_id["changes"]["offset_changed"] == {"previous_offset": 3, "new_offset": 2}
    assert by_id[turn]["parent_changed"] == {"previous_parent_id": "root", "new_parent_id": "seq"}
    assert by_id[turn]["delta"] == {"nodeType": {"from": "^ah", "to": "seg"}}
    assert set(by_id) == {"changes", turn}
    assert context.history.diff(1, 2, "{id='new'}") == {"added": ["new"], "removed": [], "changed": []}
    assert context.history.diff(2, 2) == {"added": [], "removed": [], "changed": []}


@pytest.mark.feature("history.cost")
@pytest.mark.feature("context.history.sharing")
def test_a_snapshot_costs_what_changed():
    context = Context()
    for number in range(5000):
        context.pact_insert((0, number + 1), f"n{number}")
    context.seal("first")
    tracemalloc.start()
    for _ in range(100):
        context.pact_insert("d0, 1", "one more")
        context.seal("again")
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    # a full copy of 5,000 nodes is above a megabyte; a hundred snapshots of one change each stay below two
    assert used < 2_000_000
    assert len(context.history.at_snapshot(1)["d0"].children) == 5001


@pytest.mark.feature("history.concurrent")
@pytest.mark.feature("context.history.concurrent")
def test_seals_of_many_threads_are_unique():
    context = with_note()
    made = []

    def seal():
        made.extend(context.seal("x") for _ in range(50))

    threads = [threading.Thread(target=seal) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(made) == list(range(1, 401))


@pytest.mark.feature("history.persist-path")
@pytest.mark.feature("context.history.memory-only")
def test_a_seal_writes_nothing_without_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with_note().seal("x")

    assert sorted(tmp_path.rglob("*")) == before


def grown(path):
    context = Context(history=ContextHistory(path))
    context.pact_insert("d0, 1", TextContent("one", key="a", tags=["t"], attributes={"data_x": [1]}))
    context.pact_insert("d0, 1", TextContent("sticky", ttl=1, cad=1))
    context.seal("first")
    context.add_user("hello")
    context.pact_insert("d0, -1", TextContent("pre", ttl=0))
    context.commit()
    context.pact_update("#a", content="changed")
    context.pact_insert("d0, 1", "new")
    context.seal("last")
    return context


@pytest.mark.feature("history.persistence")
@pytest.mark.feature("context.history.file")
def test_a_history_is_read_from_its_file_as_it_was(tmp_path):
    context = grown(tmp_path / "history.jsonl")
    again = ContextHistory(tmp_path / "history.jsonl")

    assert {n: s.copy() for n, s in again.snapshots.items()} == {n: s.copy() for n, s in context.history.snapshots.items()}
    assert again.at_snapshot(3).get_by_key("a").content == "changed"
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("context.history.file")
def test_a_line_holds_what_changed(tmp_path):
    context = Context(history=ContextHistory(tmp_path / "history.jsonl"))
    for number in range(500):
        context.pact_insert("d0, 1", f"n{number}")
    context.seal("much")
    context.pact_insert("d0, 1", "one more")
    context.seal("little")
    _, first, second = (tmp_path / "history.jsonl").read_bytes().splitlines()

    assert len(first) > 50_000
    assert len(second) < 1_500


@pytest.mark.feature("context.history.file")
def test_a_forgotten_snapshot_stays_forgotten(tmp_path):
    context = grown(tmp_path / "history.jsonl")
    del context.history.snapshots[2]

    assert list(ContextHistory(tmp_path / "history.jsonl").snapshots) == [1, 3]


@pytest.mark.feature("context.history.file-damage")
def test_half_a_last_line_is_set_aside_and_the_history_goes_on(tmp_path):
    path = tmp_path / "history.jsonl"
    torn = b'{"v":1,"episode":4,"trigger":"' + b"x" * 50_000
    grown(path)
    with path.open("ab") as file:
        file.write(torn)
    history = ContextHistory(path)
    context = Context.from_snapshot(history.snapshots[3]["context"])
    context.attach(history)

    assert context.seal("after the crash") == 4
    assert path.read_bytes().endswith(b"\n")
    assert list(ContextHistory(path).snapshots) == [1, 2, 3, 4]
    assert [p.read_bytes() for p in tmp_path.glob("*.torn-*")] == [torn]


@pytest.mark.feature("context.history.file-damage")
def test_a_damaged_line_is_reported_and_nothing_is_written(tmp_path):
    path = tmp_path / "history.jsonl"
    grown(path)
    lines = path.read_bytes().splitlines(keepends=True)
    unknown = (b'{"note":"by hand"}\n', b'{"schema":1,"spec_version":"PACT/1.0.0"}\n', b"{}\n")
    stray = (b'{"episode":2,"trigger":"x"}\n', lines[2].replace(b'"pre"', b'"up"').replace(b'"core"', b'"up"').replace(b'"post"', b'"up"'))
    for broken in (b"{nonsense}\n", b"[]\n", b"\xff\n", b"\n", *unknown, *stray):
        path.write_bytes(lines[0] + lines[1] + broken + lines[3])
        before = path.read_bytes()
        with pytest.raises(StoreDamaged, match="line 3"):
            ContextHistory(path)
        assert path.read_bytes() == before


@pytest.mark.feature("context.history.version")
def test_a_history_file_says_its_version_and_a_newer_one_is_not_guessed_at(tmp_path):
    path = tmp_path / "history.jsonl"
    grown(path)
    header, *lines = path.read_bytes().splitlines(keepends=True)

    assert json.loads(header) == {"schema": 1, "spec_version": "PACT/1.0.0"}
    assert list(ContextHistory(path).snapshots) == [1, 2, 3]
    for newer in (b'{"schema":2,"spec_version":"PACT/1.0.0","more":[]}\n', b'{"schema":1,"spec_version":"PACT/2.0.0"}\n'):
        path.write_bytes(newer + b"".join(lines))
        with pytest.raises(SchemaTooNew, match=r"history\.jsonl"):
            ContextHistory(path)
    for nonsense in (b'{"schema":"zz","spec_version":"PACT/1.0.0"}\n', b'{"schema":0,"spec_version":"PACT/1.0.0"}\n'):
        path.write_bytes(nonsense + b"".join(lines))
        with pytest.raises(StoreDamaged, match="line 1"):
            ContextHistory(path)


@pytest.mark.feature("context.history.version")
def test_a_history_file_from_before_the_header_is_read_and_goes_on(tmp_path):
    path = tmp_path / "history.jsonl"
    grown(path)
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    old = ContextHistory(path)
    context = Context(history=old)
    context.seal("after")

    assert [s.trigger for s in ContextHistory(path)][-1] == "after"
    assert list(ContextHistory(path).snapshots) == [1, 2, 3, 4]
    assert b"schema" not in path.read_bytes()


@pytest.mark.feature("context.history.file-damage")
def test_a_history_that_cannot_be_opened_says_which_file(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "history.jsonl"):
        with pytest.raises(StoreError, match="cannot be opened") as caught:
            ContextHistory(path)
        assert str(path) in caught.value.message
        assert caught.value.hint


def _seal_from_a_process(path, number):
    context = Context(history=ContextHistory(path))
    for turn in range(5):
        context.pact_insert("d0, 1", f"{number}-{turn}")
        context.seal(f"{number}-{turn}")


@pytest.mark.feature("history.concurrent")
@pytest.mark.feature("context.history.concurrent")
def test_processes_share_one_file_without_losing_a_snapshot(tmp_path):
    path = tmp_path / "history.jsonl"
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=_seal_from_a_process, args=(path, n)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(200)
    history = ContextHistory(path)

    assert [w.exitcode for w in workers] == [0] * 6
    assert list(history.snapshots) == list(range(1, 31))
    last = next(n for n in history.snapshots if history.snapshots[n]["trigger"] == "3-4")
    assert [n.content for n in history.at_snapshot(last).find("^ah > .block")] == ["3-4", "3-3", "3-2", "3-1", "3-0"]


@pytest.mark.feature("history.triggers")
def test_snapshots_are_found_by_their_trigger_and_by_their_turn():
    context = Context()
    for text in ("one", "two"):
        context.seal("before_turn")
        context.add_user(text)
        context.commit("after_turn")

    assert context.history.by_trigger("before_turn") == [1, 3]
    assert context.history.by_trigger("after_turn") == [2, 4]
    assert context.history.by_trigger("never") == []
    # the newest snapshot of cycle 1 was taken before the second turn
    assert [context["@c1 (d1, 0, 0)"].content, context["@c2 (d1, 0, 0)"].content] == ["one", "two"]


@pytest.mark.feature("history.memory")
def test_ten_thousand_snapshots_of_a_growing_context_are_read_compared_and_forgotten():
    context = Context()
    for number in range(10_000):
        context.add_user(f"message {number}")
        context.commit()
    history = context.history

    assert len(history.snapshots) == 10_000
    assert history.at_snapshot(1)["d1, 0, 0"].content == "message 0"
    assert history.at_snapshot(7_000)["d7000, 0, 0"].content == "message 0"
    # a turn, its message, and the core and head that wait for the next one
    assert len(history.diff(9_999, 10_000)["added"]) == 3
    shared = set(map(id, history.snapshot(5_000).tree.nodes.values())) & set(map(id, history.snapshot(10_000).tree.nodes.values()))
    assert len(shared) >= 14_998
    del history.snapshots[5_000]
    assert 5_000 not in history.snapshots


@pytest.mark.feature("history.no-noise")
def test_nothing_is_printed_and_nothing_is_unpickled(tmp_path, capsys, monkeypatch):
    def refuse(*_arguments, **_named):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "dump", "dumps", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    context = Context(history=ContextHistory(tmp_path / "history.jsonl"))
    context.pact_insert("d0, 1", TextContent("x", key="k"))
    context.add_user("hello")
    context.render()
    context.select("@t-1..@t0 .block")
    again = ContextHistory(tmp_path / "history.jsonl")
    Context.from_snapshot(again.snapshots[1]["context"])

    assert again.at_snapshot(1).to_json() == context.history.at_snapshot(1).to_json()
    assert capsys.readouterr() == ("", "")


@pytest.mark.feature("history.errors")
@pytest.mark.parametrize(
    ("wrong", "code", "status"),
    [
        (lambda c: c.select(".block{{"), "INVALID_SELECTOR", 400),
        (lambda c: c.pact_insert("d9, 1", "x"), "INVALID_PLACEMENT", 400),
        (lambda c: c.pact_insert("d0, 1", TextContent("x", key="k")), "OverlapWouldViolateODI", 409),
        (lambda c: c.history.at_snapshot(1).add_user("x"), "NOT_AUTHORIZED", 403),
        (lambda c: c[".block"], "AmbiguousKey", 409),
        (lambda c: c.pact_update("d1, 0, 0", content="x"), "CONFLICTING_UPDATE", 409),
    ],
)
def test_the_documented_error_codes_are_raised(wrong, code, status):
    context = Context()
    context.add_user("one")
    context.commit()
    context.pact_insert("d0, 1", TextContent("x", key="k"))
    with pytest.raises(PactError) as caught:
        wrong(context)

    assert (caught.value.code, caught.value.status) == (code, status)
    assert caught.value.body()["error"]["code"] == code
    assert caught.value.body()["error"]["message"] == caught.value.message


@pytest.mark.feature("context.history.concurrent")
def test_forgetting_a_snapshot_loses_none_that_somebody_else_has_written_since(tmp_path):
    path = tmp_path / "history.jsonl"
    mine = Context(history=ContextHistory(path))
    first = mine.seal("mine")
    other = Context(history=ContextHistory(path))
    other.add_user("said elsewhere")
    second = other.seal("theirs")
    del mine.history.snapshots[first]

    assert [s.trigger for s in ContextHistory(path)] == ["theirs"]
    assert [b["content"] for b in mine.history.at_snapshot(second).provider_thread()] == ["said elsewhere"]
    assert list(tmp_path.glob("*.torn-*")) == []
    with pytest.raises(UnknownSnapshot):
        del other.history.snapshots[first]


@pytest.mark.feature("history.serialize")
def test_a_writer_that_looks_into_a_dicts_memory_never_writes_a_snapshot_without_its_context():
    context = with_note()
    context.seal("why")

    with pytest.raises(TypeError, match="_Unwritten"):
        msgspec.json.encode(context.history.snapshots[1])
    text = msgspec.json.encode(context.history.snapshots[1].copy())
    assert Context.from_snapshot(json.loads(text)["context"])["#k"].content == "Important data"


@pytest.mark.feature("tree.time")
def test_nodes_are_found_in_the_snapshot_that_a_selector_names():
    context = Context()
    context.add_user("then")
    context.seal("a")
    context.add_user("now")

    assert [n.content for n in context.find("@t-1 .block")] == ["then"]
    assert [n.content for n in context.find("@t0 .block")] == [n.content for n in context.find(".block")] == ["then", "now"]
    assert context["@t-1 .block"].content == "then"
    with pytest.raises(UsageError, match="several snapshots"):
        context.find("@t0..@t-1 .block")


@pytest.mark.feature("context.history.seal")
def test_a_history_and_a_context_say_what_they_hold():
    context = with_note()

    assert repr(context.history) == "<ContextHistory of 0 snapshots>"
    context.seal("a")
    context.seal("b")
    assert repr(context.history) == "<ContextHistory of 2 snapshots, episodes 1 to 2>"
    assert repr(context.history.at_snapshot(1)).startswith("<Context at episode 1, turns 1, nodes ")
    assert repr(context.history.at_snapshot(1)).endswith(", read-only>")
