"""The folder of the page: what is in it, how small it stays, what is written again."""

from __future__ import annotations

import json
import random
import re
import stat

import pytest

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_of
from ctx_pipeline.dashboard.page import STYLES, file_of, scripts, unpacked_chunk
from ctx_pipeline.pipeline import render as stage
from ctx_pipeline.pipeline.repair import damaged_outputs, page_digests
from ctx_pipeline.pipeline.warehouse import build_warehouse
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.verified import VerifiedFiles
from ctx_pipeline.storage.warehouse import database
from ctx_pipeline_tests.factories.history import HOSTILE, build_site, tables


def _data(path):
    if path.parent.name != "panels" and path.name != "sessions.js":
        return unpacked_chunk(path.read_bytes())
    text = path.read_text("utf-8")
    found = re.fullmatch(r'ctx\.receive\("[0-9a-z-]+",(.*)\);\n', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def _sessions(site):
    listed = _data(site / "data" / "sessions.js")
    return [dict(zip(listed["columns"], row, strict=True)) for row in listed["rows"]]


def _items(site, chunk):
    """Return the items of a transcript, from the chunk and the files beside it."""
    detail = _data(site / "data" / f"{chunk}.js")
    files = {"": detail["inline"]}
    found = []
    for *_, file, place in detail["transcript"]["pieces"]:
        if file not in files:
            files[file] = _data(site / "data" / f"{chunk}-{file}.js")
        found += files[file][place]
    return found


def _chunks(site):
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in (site / "data").iterdir() if p.name != "sessions.js"}


@pytest.fixture
def site(environ, tmp_path):
    return build_site(environ, tables(12), "rows")


@pytest.mark.feature("dashboard.site")
def test_the_page_is_a_private_folder_of_plain_files(site):
    pages = {file_of(panel.page) for panel in discovery.panels()}
    assert {p.name for p in site.iterdir()} == {
        *pages,
        *STYLES,
        *scripts(discovery.panels()),
        "data",
        "panels",
        "words",
        "made.json",
        "undrawn.json",
        "digests.json",
    }
    assert {p.name for p in (site / "panels").iterdir()} == {
        "readings.js",
        "learned.js",
        *(f"{p.name}.js" for p in discovery.panels() if p.data is not None),
    }
    assert {stat.S_IMODE(p.stat().st_mode) for p in site.rglob("*") if p.is_file()} == {0o600}
    assert {stat.S_IMODE(p.stat().st_mode) for p in (site, site / "data", site / "panels")} == {0o700}
    assert [p.name for p in site.parent.iterdir() if p.name.startswith((".site", ".tmp-"))] == []


@pytest.mark.feature("dashboard.offline")
def test_nothing_in_the_page_names_another_place(site):
    pages = list(dict.fromkeys(file_of(panel.page) for panel in discovery.panels()))
    for name in pages:
        text = (site / name).read_text("utf-8")
        named = re.findall(r'(?:src|href)="(?!#)([^"]*)"', text)
        assert set(named) == {*STYLES, *scripts(discovery.panels()), "data/sessions.js", *pages}
        assert "default-src &#39;none&#39;" in text
        assert "unsafe" not in text
    for path in site.glob("*.js"):
        assert not re.search(
            r"https?:(?!//www\.w3\.org/2000/svg)|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch\(|XMLHttp",
            path.read_text("utf-8"),
        )


@pytest.mark.feature("dashboard.session-chunks")
def test_a_session_row_names_its_chunk_and_the_chunk_holds_the_session(site):
    rows = {row["title"]: row for row in _sessions(site) if row["id"].endswith("000000000001")}
    row = rows["Why does the nightly import skip the last file?"]
    detail = _data(site / "data" / f"{row['chunk']}.js")

    assert len(_sessions(site)) == 12 + len(HOSTILE)
    assert (row["prompts"], row["calls"], row["tools"], row["failed"]) == (3, 4, 5, 1)
    assert row["tokens"] == 4 * (911 + 9_000 + 41_000) + 1_000 * (0 + 1 + 2 + 3) + 4 * 400 + 37 * 6
    assert row["cost"] == pytest.approx(4 * 0.031 + 0.004 * (1 + 2 + 3 + 4))
    items = _items(site, row["chunk"])
    assert [item[4] for item in items] == ["prompt", "answer", *["tool_call"] * 5, "prompt", "answer"]
    assert [tool[4] for tool in detail["tools"]] == [True, False, False, False, False]
    assert detail["tools"][0][1:4] == ["Bash", "shell", "uv run pytest -x -q tests/test_checkout.py"]
    assert [call[1:3] for call in detail["calls"]] == [["gpt-5.1-codex", 911]] * 4
    ratio = next(row for row in detail["signals"] if row[0] == "failed_command_ratio")
    assert ratio[1] == pytest.approx(0.2)
    assert ratio[5:] == [[2], 1], "the event is the result that stands in the third item, a call"
    assert [(item[6]["tool"], item[6].get("state"), item[6]["r"][:9]) for item in items[2:4]] == [
        ("Bash", "failed", "E   asser"),
        ("Bash", None, "ok"),
    ]
    assert detail["models"] == [["gpt-5.1-codex", 4, 4 * 911, 4 * 400 + 37 * 6, 4 * 9_000, 0, 4 * 41_000 + 6_000, pytest.approx(0.164)]]


@pytest.mark.feature("dashboard.safe-names")
def test_no_file_is_named_by_a_transcript(site):
    assert all(re.fullmatch(r"[0-9a-f]{24}(-i?[0-9]+)?\.js", name) for name in _chunks(site))


def _long(environ, *, events=3_000):
    """Return the page of one session with many long events, a prompt and a failure among them."""
    rows = tables(1, hostile=False)
    (only,) = rows["sessions"]
    mark = {"host": "claude", "session_id": only["session_id"], "thread_id": only["session_id"]}
    rows["events"] = [
        mark
        | {
            "event_id": f"e{n}",
            "seq": n,
            "ts": only["first_ts"],
            "kind": "reasoning",
            "text": f"{n}:" + random.Random(n).randbytes(900).hex(),
        }
        for n in range(events)
    ]
    rows["events"][1_500] |= {"kind": "prompt", "text": "in the middle"}
    rows["events"][1_700] |= {"kind": "tool_result", "text": "it failed"}
    rows["tool_calls"] = [mark | {"call_id": "t", "tool": "Bash", "action": "shell", "is_error": True, "result_event": "e1700"}]
    only["events"] = events
    return rows


@pytest.mark.feature("dashboard.whole-transcript")
def test_a_long_session_is_there_to_its_last_event_in_pieces_of_some_files(environ):
    site = build_site(environ, _long(environ), "rows")

    chunk = _sessions(site)[0]["chunk"]
    detail = _data(site / "data" / f"{chunk}.js")
    items = _items(site, chunk)
    assert [item[0] for item in items] == list(range(3_000))
    assert [item[5].partition(":")[0] for item in items[:3] + items[-1:]] == ["0", "1", "2", "2999"]
    assert len(items[7][5]) == 1_802
    assert (detail["transcript"]["total"], len(detail["transcript"]["pieces"]) > 10) == (3_000, True)
    assert sorted(p.stem.partition("-")[2] for p in (site / "data").glob(f"{chunk}*")) == ["", "0", "1"]
    assert len(json.dumps(detail["inline"])) < 1_100_000


@pytest.mark.feature("dashboard.caps-say-so")
def test_a_session_with_more_calls_than_its_tables_hold_says_how_many_there_are(environ, monkeypatch):
    monkeypatch.setattr(stage, "LIMITS", stage.LIMITS._replace(tool_calls=5, model_calls=2))
    site = build_site(environ, tables(6, hostile=False), "rows")
    row = next(row for row in _sessions(site) if row["id"].endswith("5"))
    detail = _data(site / "data" / f"{row['chunk']}.js")

    assert (len(detail["tools"]), detail["tools_total"], len(detail["calls"]), detail["calls_total"]) == (5, 9, 2, 3)
    assert len(_items(site, row["chunk"])) == 4 + 9


@pytest.mark.feature("dashboard.drawn-in-turn")
def test_the_newest_transcripts_are_drawn_first_and_the_others_by_later_runs(environ, monkeypatch):
    rows = tables(6, hostile=False)
    monkeypatch.setattr(stage, "LEAST", 1)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", sum(row["bytes"] for row in rows["sessions"][-2:]))
    monkeypatch.setattr(stage, "CAUGHT_UP", rows["sessions"][3]["bytes"])

    def drawn(site):
        """Numbers of the sessions that have a transcript."""
        return sorted(int(row["id"][-3:]) for row in _sessions(site) if _data(site / "data" / f"{row['chunk']}.js")["transcript"])

    site = build_site(environ, rows, "rows")
    assert drawn(site) == [4, 5]
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        hashes = [stage.render(store, chosen, force=True, refresh=False).cells[""].content_hash]
        assert drawn(site) == [3, 4, 5]
        hashes.append(stage.render(store, chosen, refresh=False, complete=True).cells[""].content_hash)
    assert drawn(site) == [0, 1, 2, 3, 4, 5]
    assert hashes[0] == hashes[1], "the page says the same, however much of it is drawn"


@pytest.mark.feature("dashboard.drawn-in-turn")
def test_of_a_long_history_the_sessions_that_cost_most_are_drawn_with_the_newest(environ, monkeypatch):
    rows = tables(30, hostile=False)
    monkeypatch.setattr(stage, "LEAST", max(row["bytes"] for row in rows["sessions"]))
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", 10 * stage.LEAST)
    for call in rows["model_calls"]:
        call["cost"] = 10**12 if call["session_id"] == rows["sessions"][2]["session_id"] else 1

    site = build_site(environ, rows, "rows")

    drawn = {int(row["id"][-3:]) for row in _sessions(site) if _data(site / "data" / f"{row['chunk']}.js")["transcript"]}
    assert 2 in drawn
    assert {*range(23, 30)} <= drawn
    assert len(drawn) == 10


@pytest.mark.feature("dashboard.drawn-in-turn")
def test_a_newest_session_larger_than_all_that_is_drawn_is_drawn(environ, monkeypatch):
    rows = tables(12, hostile=False)
    monkeypatch.setattr(stage, "LEAST", 1)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", 10 * max(row["bytes"] for row in rows["sessions"]))
    rows["sessions"][-1]["bytes"] = 2 * stage.DRAWN_AT_FIRST

    site = build_site(environ, rows, "rows")

    drawn = {int(row["id"][-3:]) for row in _sessions(site) if _data(site / "data" / f"{row['chunk']}.js")["transcript"]}
    assert 11 in drawn


@pytest.mark.feature("dashboard.drawn-in-place")
@pytest.mark.parametrize("written", ["schema_version", "place"])
def test_tables_of_an_older_program_or_of_another_place_leave_the_page_as_it_is(environ, monkeypatch, written):
    rows = tables(3, hostile=False)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", rows["sessions"][-1]["bytes"])
    site = build_site(environ, rows, "rows")
    waiting = stage.undrawn(site)
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        with database.connect(store.warehouse_path) as connection:
            connection.execute("UPDATE meta SET value = 'another' WHERE key = ?", [written])
        assert list(stage.draw(store, chosen)) == []

    assert stage.undrawn(site) == waiting != []


@pytest.mark.feature("dashboard.drawn-in-place")
def test_what_is_left_is_drawn_into_an_open_page_whose_files_keep_their_names(environ, monkeypatch):
    rows = tables(6, hostile=False)
    monkeypatch.setattr(stage, "LEAST", 1)
    monkeypatch.setattr(stage, "DRAWN_AT_FIRST", rows["sessions"][-1]["bytes"])
    monkeypatch.setattr(stage, "_AT_ONCE", 100_000)
    site = build_site(environ, rows, "rows")
    chosen = settings_of.load(environ)
    listed = {row["id"][-3:]: row["chunk"] for row in _sessions(site)}
    index = (site / "data" / "sessions.js").read_bytes()
    with open_store(chosen) as store:
        damaged_outputs.note(store)
        one = list(stage.draw(store, chosen, listed["002"]))
        left = stage.undrawn(site)
        rest = list(stage.draw(store, chosen))
        sound = page_digests.damaged(site)
        told = [
            path
            for deep in (None, VerifiedFiles(store.files))
            for path, _ in damaged_outputs.damaged(store, deep=deep)
            if path.startswith("site")
        ]
        whole = _chunks(site)
        stage.render(store, chosen, force=True, refresh=False, complete=True)

    assert one == [4]
    assert sorted(left) == sorted(listed[name] for name in ("000", "001", "003", "004"))
    assert rest == [2, 0]
    assert (site / "data" / "sessions.js").read_bytes() == index
    assert all(_data(site / "data" / f"{name}.js")["transcript"]["total"] for name in listed.values())
    assert _chunks(site) == whole, "a page drawn anew takes them over"
    assert stage.undrawn(site) == []
    assert sound == told == [], "the digests of the page are those of the new files"


@pytest.mark.feature("dashboard.drawn-in-place")
@pytest.mark.parametrize("name", [page_digests.NAME, page_digests.UNDRAWN])
@pytest.mark.parametrize("content", [b"", b"[", b'{"data/x.js": "0"}'])
def test_a_damaged_list_of_the_pages_files_is_told_and_the_page_drawn_again(environ, name: str, content: bytes):
    site = build_site(environ, tables(2, hostile=False), "rows")
    with open_store(settings_of.load(environ)) as store:
        damaged_outputs.note(store)
        (site / name).write_bytes(content)
        told = [path for path, _ in damaged_outputs.damaged(store, deep=VerifiedFiles(store.files)) if path.startswith("site")]
        damaged_outputs.note_damaged(store, told)
        damaged_outputs.release_damaged(store, settings_of.load(environ))

    assert told
    assert not (site / "index.html").exists(), "a page that is not there is what the next run draws"


@pytest.mark.feature("dashboard.one-repository-a-row")
def test_two_remotes_of_one_short_name_are_two_projects_on_every_part_of_the_page(environ):
    rows = tables(6, hostile=False)
    for number, session in enumerate(rows["sessions"]):
        session |= {"project": "api", "repository": f"github.com/{('acme', 'zeta')[number % 2]}/api"}

    site = build_site(environ, rows, "rows")

    names = {"acme/api", "zeta/api"}
    index = (site / "index.html").read_text("utf-8")
    assert set(re.findall(r'data-project="([^"]*)"', index)) == names
    assert {row["project"] for row in _sessions(site)} == names
    assert set(_data(site / "panels" / "accounting.js")["projects"]) == names


@pytest.mark.feature("dashboard.incremental")
def test_only_the_drill_down_of_a_changed_session_is_written_again(environ, tmp_path):
    before = _chunks(build_site(environ, tables(6, hostile=False), "rows"))
    rows = tables(6, hostile=False)
    rows["sessions"][2]["content_hash"] = "it grew"

    after = _chunks(build_site(environ, rows, "more"))

    assert len(before) == len(after) == 6
    assert len(after.items() & before.items()) == 5


@pytest.mark.feature("dashboard.incremental")
def test_a_new_reading_and_a_new_memory_reach_the_drill_down_of_their_session(environ, tmp_path):
    before = _chunks(build_site(environ, tables(6, hostile=False), "rows"))
    rows = tables(6, hostile=False)
    rows["readings"][5]["value"] = 0.9
    rows["memories"].append({**rows["memories"][0], "memory_id": "mem-new", "sessions": ["claude/0198c0de-0000-7000-8000-000000000002"]})

    after = _chunks(build_site(environ, rows, "more"))

    assert len(after.items() & before.items()) == 4


@pytest.mark.feature("dashboard.incremental")
def test_a_memory_that_is_found_once_more_is_told_anew_and_no_session_that_it_rests_on_is_drawn_anew(environ):
    rows = tables(6, hostile=False)
    before = _chunks(build_site(environ, rows, "rows"))
    rows["memories"][0] |= {"status": "accepted", "text": "Compare Decimal values: in 2 sessions.", "evidence": ["0.2", "0.3", "5.1"]}

    site = build_site(environ, rows, "more")

    assert _chunks(site) == before
    told = {memory: rest for memory, *rest in _data(site / "panels" / "learned.js")}
    assert told["mem-000000000000"] == ["failure_trigger", "Compare Decimal values: in 2 sessions.", "accepted"]
    rows["memories"][0]["evidence"] = ["0.2", "0.4"]
    after = _chunks(build_site(environ, rows, "other"))
    assert len(after.items() & before.items()) == 5, "of the session itself another event is evidence now"


@pytest.mark.feature("dashboard.small-index", "page.two-gigabytes")
def test_what_is_loaded_at_the_start_stays_small_however_long_the_history(environ, tmp_path):
    """Two gigabytes of the load generator are 1,780 sessions."""
    site = build_site(environ, tables(1_800), "rows")
    index = (site / "index.html").read_text("utf-8")
    started = [site / name for name in re.findall(r'(?:src|href)="(?!#)([^"]*)"', index) if not name.endswith(".html")]

    assert len(_sessions(site)) == 1_800 + len(HOSTILE)
    assert len(index) < 300_000
    assert sum(path.stat().st_size for path in started) < 800_000
    assert not [path for path in started if path.parent.name == "panels"]
    assert len([path for path in started if path.parent.name == "data"]) == 1


@pytest.mark.feature("dashboard.swap")
def test_a_render_that_fails_keeps_the_old_page(environ, tmp_path, site, monkeypatch):
    index = (site / "index.html").read_bytes()
    monkeypatch.setattr(stage.page, "files", lambda *_: {"index.html": b"new", "no/such/folder": b""})
    chosen = settings_of.load(environ)

    with open_store(chosen) as store, pytest.raises(stage.StoreError, match="could not be written"):
        stage.render(store, chosen, force=True, refresh=False)

    assert (site / "index.html").read_bytes() == index
    assert [p.name for p in site.parent.iterdir() if p.name.startswith((".site", ".tmp-"))] == []


@pytest.mark.feature("dashboard.swap")
def test_a_run_killed_between_the_two_renames_loses_no_page(environ, site):
    chosen = settings_of.load(environ)
    chunks = _chunks(site)
    site.rename(site.with_name(".site.999.old"))

    with open_store(chosen) as store:
        report = stage.render(store, chosen, force=True, refresh=False)

    assert report.totals["chunks_kept"] == len(chunks)
    assert [p.name for p in site.parent.iterdir() if p.name.startswith((".site", ".tmp-"))] == []


@pytest.mark.feature("dashboard.unchanged")
def test_an_empty_store_has_a_page_and_a_second_run_has_nothing_to_do(environ):
    chosen = settings_of.load(environ)
    with open_store(chosen) as store:
        first = [build_warehouse(store, chosen), stage.render(store, chosen)]
        again = [build_warehouse(store, chosen), stage.render(store, chosen)]
        index = (store.home / "site" / "index.html").read_text("utf-8")

    assert [report.cells[""].status for report in first] == ["done", "done"]
    assert [report.cells[""].status for report in again] == ["unchanged", "unchanged"]
    assert [r.cells[""].content_hash for r in again] == [r.cells[""].content_hash for r in first]
    assert "No session has been captured yet." in index


@pytest.mark.feature("dashboard.stale-warehouse")
def test_a_warehouse_that_is_older_than_the_tables_is_made_anew_first(environ, site):
    chosen = settings_of.load(environ)

    with open_store(chosen) as store:
        report = stage.render(store, chosen)

    assert report.totals["sessions"] == 0
    assert "No session has been captured yet." in (site / "index.html").read_text("utf-8")
