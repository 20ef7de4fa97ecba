"""What is forgotten is in no file of the store any more, and does not come back."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from ctx_pipeline import CapturedMemory, SQLiteMemory
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import AmbiguousName, StoreDamaged, StoreLocked, UsageError
from ctx_pipeline.integrations import adopt
from ctx_pipeline.maintenance import doctor
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline import capture, run
from ctx_pipeline.pipeline.forget import sessions as forget_stage
from ctx_pipeline.pipeline.forget.sessions import Selection, finish, forget, remembered, select
from ctx_pipeline.pipeline.forget.shared_files import Needles, blank, keep_out, line_hash, lines_about, lines_like, spellings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.raw.segments import read_segment
from ctx_pipeline.usage.engine import usage
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.stored_text import files_with

GONE = "aaaaaaaa-0000-4000-8000-000000000001"
KEPT = "bbbbbbbb-0000-4000-8000-000000000002"
MARK = "zebrafinch"
KEPT_MARK = "kingfisher"


@pytest.fixture
def home(environ):
    made = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    for session, mark, slug in ((GONE, MARK, "-home-dev-shop"), (KEPT, KEPT_MARK, "-home-dev-bank")):
        transcript = made.session(session, slug=slug, cwd=slug.replace("-", "/"))
        transcript.prompt(f"please mend the {mark} parser and say why it broke")
        transcript.call(f"toolu_{mark}", "Bash", f"{mark} output of the command", is_error=True, command=f"grep {mark} src")
        transcript.prompt(f"no, that is wrong: always use the {mark} parser")
        transcript.answer(build.text(f"The {mark} parser works now."))
        transcript.save()
    lines = [
        {"display": f"please mend the {mark} parser and say why it broke", "timestamp": 1772704800000, "project": "/p", "sessionId": s}
        for s, mark in ((GONE, MARK), (KEPT, KEPT_MARK))
    ]
    made.file("history.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    return made


@pytest.fixture
def settings(environ, home):
    return settings_module.load(environ)


@pytest.fixture
def store(settings):
    with open_store(settings) as opened:
        run.run_stages(opened, settings)
        yield opened


@pytest.mark.feature("forget.everywhere", "facts.forgotten")
def test_a_forgotten_session_is_in_no_file_of_the_store(store, settings):
    assert any(name.startswith("lake/command_runs/") for name in files_with(store.home, MARK))
    assert {name.partition("/")[0] for name in files_with(store.home, MARK)} >= {"raw", "lake", "search.db", "serving", "site"}
    report = forget(store, settings, Selection(host="claude", session_id=GONE))
    store.close()
    assert files_with(store.home, MARK) == []
    assert files_with(store.home, KEPT_MARK)
    assert report.totals["sessions"] == 1
    assert [row.session_id for row in store.ledger.sessions()] == [KEPT]


@pytest.mark.feature("forget.everywhere", "forget.saved")
def test_copies_in_saved_conversations_go_and_the_rest_of_them_stays(store, settings):
    memory = CapturedMemory(settings)
    gone, kept = (memory.sync.load_context(f"claude/{session}") for session in (GONE, KEPT))
    mine = {"id": "m1", "role": "user", "content": "a note of my own", "timestamp": "2026-03-05T10:00:00Z"}
    bare = {"role": "user", "content": gone[0]["content"]}
    summary = {"id": f"summary_{gone[0]['id']}", "role": "system", "content": f"they spoke of {MARK}s"}
    memory.sync.save_context("all of it", gone)
    memory.sync.save_context("both", [*gone, mine, bare, summary, *kept])
    memory.sync.save_context(f"notes on {GONE}", [{"content": f"{MARK} and more"}])
    memory.sync.save_context("empty", [])
    memory.close()
    assert files_with(store.home, MARK)
    report = forget(store, settings, Selection(host="claude", session_id=GONE))
    store.close()

    assert files_with(store.home, MARK) == []
    assert report.totals["saved"] == 2 * len(gone) + 3
    own = SQLiteMemory(store.home / "contexts.db")
    assert own.sync.sessions() == ["both", "empty"]
    assert own.sync.load_context("both") == [mine, *kept]
    own.close()


@pytest.mark.feature("forget.saved")
def test_a_forgotten_text_leaves_saved_conversations_and_what_was_set_aside_in_them(store, settings):
    memory = CapturedMemory(settings)
    memory.sync.save_context("notes", [{"id": "1", "content": "the pass\u00adword is gr\u00fcn-tee"}, {"id": "2", "content": "kept"}])
    with sqlite3.connect(store.home / "contexts.db") as db:
        db.execute("INSERT INTO ctx_quarantine VALUES ('notes', 'now', 'damaged', '{\"content\": \"gr\u00fcn-tee')")
    memory.close()
    report = forget(store, settings, Selection(text="gr\u00fcn-tee"))
    store.close()

    assert files_with(store.home, "gr\u00fcn-tee") == []
    assert (report.totals["sessions"], report.totals["saved"]) == (0, 2)
    own = SQLiteMemory(store.home / "contexts.db")
    assert [m["id"] for m in own.sync.load_context("notes")] == ["2"]
    own.close()


@pytest.mark.feature("forget.does-not-return")
def test_the_next_run_does_not_take_it_back_though_the_file_is_there_and_grows(store, settings, home):
    forget(store, settings, Selection(host="claude", session_id=GONE))
    path = home.root / "projects" / "-home-dev-shop" / f"{GONE}.jsonl"
    with path.open("ab") as file:
        file.write(json.dumps({"type": "summary", "summary": f"{MARK} again", "leafUuid": "u"}).encode() + b"\n")
    moved = home.root / "projects" / "-home-dev-moved" / f"{GONE}.jsonl"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    run.run_stages(store, settings)
    store.close()
    assert files_with(store.home, MARK) == []
    assert [row.session_id for row in store.ledger.sessions()] == [KEPT]


@pytest.mark.feature("forget.does-not-return")
def test_a_copy_under_another_name_is_neither_captured_nor_counted_nor_taken_over(store, settings, home, tmp_path):
    forget(store, settings, Selection(host="claude", session_id=GONE))
    path = home.root / "projects" / "-home-dev-shop" / f"{GONE}.jsonl"
    other = "cccccccc-0000-4000-8000-00000000000c"
    copied = path.read_bytes() + json.dumps({"type": "summary", "summary": f"{MARK} again", "leafUuid": "u"}).encode() + b"\n"
    path.with_name(f"{other}.jsonl").write_bytes(copied)
    archive = tmp_path / "archive"
    own = archive / "raw" / "claude-code" / other
    own.mkdir(parents=True)
    (own / "transcript.jsonl").write_bytes(copied)
    source = f"/home/sam/.claude/projects/-home-dev-shop/{other}.jsonl"
    (own / "import_meta.json").write_text(json.dumps({"host": "claude-code", "session_id": other, "source_transcript": source}))
    assert list(usage("session", settings=settings).by_session()) == [("claude", KEPT)]
    assert [entry.does for entry in adopt.plan(store, settings, archive)] == [adopt.FORGOTTEN]
    run.run_stages(store, settings)
    store.close()
    assert files_with(store.home, MARK) == []
    assert [row.session_id for row in store.ledger.sessions()] == [KEPT]


@pytest.mark.feature("forget.every-byte")
def test_what_a_link_in_the_store_leads_to_is_searched_too(store, settings, tmp_path):
    outside = tmp_path / "outside"
    (outside / "more").mkdir(parents=True)
    (outside / "more" / "notes.txt").write_text(f"see {GONE}")
    (outside / "round").symlink_to(outside)
    (store.home / "elsewhere").symlink_to(outside)
    (store.home / "link.txt").symlink_to(outside / "more" / "notes.txt")
    report = forget(store, settings, Selection(host="claude", session_id=GONE))
    assert report.searched.found == ["link.txt", "elsewhere/more/notes.txt"]


@pytest.mark.feature("forget.keeps-the-rest")
def test_a_file_that_only_begins_like_a_forgotten_one_is_captured(store, settings, home):
    forget(store, settings, Selection(host="claude", session_id=GONE))
    path = home.root / "projects" / "-home-dev-shop" / f"{GONE}.jsonl"
    other = "cccccccc-0000-4000-8000-00000000000c"
    lines = path.read_bytes().splitlines(keepends=True)
    path.with_name(f"{other}.jsonl").write_bytes(b"".join(lines[:-1]).replace(GONE.encode(), other.encode()))
    run.run_stages(store, settings)
    assert [row.session_id for row in store.ledger.sessions()] == [KEPT, other]


@pytest.mark.feature("forget.keeps-the-rest")
def test_the_other_session_keeps_its_rows_search_and_page(store, settings):
    kept = {cell.key: store.lake.read_rows("events", cell, "normalized") for cell in store.lake.manifests("normalized")}
    before = [e for rows in kept.values() for e in rows if e.session_id == KEPT]
    forget(store, settings, Selection(host="claude", session_id=GONE))
    after = [e for cell in store.lake.manifests("normalized") for e in store.lake.read_rows("events", cell, "normalized")]
    assert after == before
    assert store.search.query(KEPT_MARK)
    assert not store.search.query(MARK)
    report = run.run_stages(store, settings)
    assert report.sessions == 1
    assert (store.home / "site" / "index.html").exists()


@pytest.mark.feature("forget.by-text")
def test_text_selects_every_session_that_contains_it(store, settings):
    assert select(store, Selection(text=MARK)).sessions == [("claude", GONE)]
    assert select(store, Selection(text="parser works now")).sessions == [("claude", GONE), ("claude", KEPT)]
    assert select(store, Selection(text="nobody said this")).sessions == []
    forget(store, settings, Selection(text=MARK))
    store.close()
    assert files_with(store.home, MARK) == []


@pytest.mark.feature("forget.by-project")
def test_a_project_selects_its_sessions(store):
    assert select(store, Selection(project="/home/dev/shop")).sessions == [("claude", GONE)]


@pytest.mark.feature("forget.by-date")
def test_a_day_selects_the_sessions_that_ended_before_it(store):
    assert select(store, Selection(before="2026-03-05")).sessions == []
    assert select(store, Selection(before="2026-03-06")).sessions == [("claude", GONE), ("claude", KEPT)]
    with pytest.raises(UsageError):
        select(store, Selection(before="yesterday"))


@pytest.mark.feature("forget.preview")
def test_the_preview_counts_and_changes_nothing(store):
    preview = select(store, Selection(host="claude", session_id=GONE))
    assert preview.streams == 1
    (source,) = store.ledger.session_streams("claude", GONE)
    assert preview.bytes == Path(source.path).stat().st_size
    assert len(preview.examples) == 1
    assert len(store.ledger.sessions()) == 2
    with pytest.raises(UsageError):
        select(store, Selection())
    assert select(store, Selection(host="claude", session_id="nobody")).sessions == []


@pytest.mark.feature("forget.tombstone")
def test_the_tombstone_says_hashes_only(store, settings):
    forget(store, settings, Selection(host="claude", session_id=GONE))
    (fact,) = store.journal.facts("tombstone")
    assert GONE not in json.dumps(fact.payload)
    assert {(s.host, s.kind, s.hash) for s in remembered(store)} <= {(s.host, s.kind, s.hash) for s in store.ledger.tombstones()}
    assert {s.kind for s in remembered(store)} == {"stream", "thread", "content"}


@pytest.mark.feature("forget.shared-files")
@pytest.mark.parametrize(
    "place",
    [
        "ctx_pipeline.storage.raw.segments.replace_segment",
        "ctx_pipeline.storage.ledger.Ledger.commit_capture",
        "ctx_pipeline.storage.ledger.Ledger.compact",
    ],
)
def test_lines_of_a_shared_file_go_and_the_others_stay_wherever_forgetting_breaks_off(store, settings, home, monkeypatch, place):
    def full(*_args: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(place, full)
        with pytest.raises(OSError, match="No space"):
            forget(store, settings, Selection(host="claude", session_id=GONE))
    (home.root / "history.jsonl").unlink()
    finish(store, settings)

    (source,) = [s for s in store.ledger.sources().values() if s.rel == "history.jsonl"]
    (segment,) = store.ledger.segments_of([source.stream])[source.stream]
    origin, data = read_segment(store.files, segment.path)
    assert KEPT in data.decode()
    assert origin.sha256 == segment.sha256
    assert files_with(store.home, MARK) == []
    run.run_stages(store, settings)
    assert files_with(store.home, MARK) == []


@pytest.mark.feature("forget.shared-files")
def test_shared_lines_are_blanked_and_the_file_goes_on(store, settings, home):
    forget(store, settings, Selection(host="claude", session_id=GONE))
    source = next(s for s in store.ledger.sources().values() if s.rel == "history.jsonl")
    (segment,) = store.ledger.segments_of([source.stream])[source.stream]
    first, second = read_segment(store.files, segment.path)[1].splitlines()
    assert first.strip() == b""
    assert KEPT in second.decode()
    with (home.root / "history.jsonl").open("ab") as file:
        file.write(json.dumps({"display": "later", "timestamp": 1772704900000, "project": "/p", "sessionId": KEPT}).encode() + b"\n")
    capture.capture(store, settings)
    assert [s.generation for s in store.ledger.segments_of([source.stream])[source.stream]] == [0, 0]


@pytest.mark.feature("forget.everywhere")
def test_forgetting_everything_leaves_an_empty_store_that_runs(store, settings):
    forget(store, settings, Selection(before="2027-01-01"))
    report = run.run_stages(store, settings)
    assert report.sessions == 0
    store.close()
    assert files_with(store.home, MARK) == files_with(store.home, KEPT_MARK) == []


def test_blanking_keeps_length_and_line_breaks():
    needles = Needles(frozenset({"id-1"}), spellings("sécret"))
    data = "one\r\nhas s\\u00e9cret inside\r\nand sécret\nlast".encode()
    spans = lines_about(data, needles)
    out = blank(data, spans)
    assert len(spans) == 2
    assert len(out) == len(data)
    assert out.splitlines() == [b"one", b" " * 22, b" " * 11, b"last"]
    assert lines_like(data, {line_hash("and sécret".encode())}) == [spans[1]]


@pytest.mark.feature("forget.everywhere")
def test_a_forgetting_that_was_cut_off_is_finished_by_the_same_command(store, settings, monkeypatch):
    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ctx_pipeline.pipeline.forget.sessions._rederive", cut)
        with pytest.raises(KeyboardInterrupt):
            forget(store, settings, Selection(host="claude", session_id=GONE))
    assert files_with(store.home, MARK)
    forget(store, settings, Selection(host="claude", session_id=GONE))
    store.close()
    assert files_with(store.home, MARK) == []
    assert files_with(store.home, KEPT_MARK)


@pytest.mark.feature("forget.interrupted")
@pytest.mark.parametrize("place", ["blank_shared", "_remove_raw", "_rederive"])
def test_a_forgetting_by_text_that_was_cut_off_is_finished_by_the_same_call(store, settings, monkeypatch, place):
    original = getattr(forget_stage, place)

    def cut(*given):
        if place != "_rederive":
            original(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(forget_stage, place, cut)
        with pytest.raises(KeyboardInterrupt):
            forget(store, settings, Selection(text=MARK))
    assert files_with(store.home, MARK)
    assert select(store, Selection(text=MARK)).sessions == [("claude", GONE)]
    forget(store, settings, Selection(text=MARK))
    store.close()
    assert files_with(store.home, MARK) == files_with(store.home, GONE) == []
    assert files_with(store.home, KEPT_MARK)


@pytest.mark.feature("forget.interrupted")
def test_finishing_ends_what_was_begun_and_does_nothing_where_nothing_was(store, settings, monkeypatch):
    assert finish(store, settings) is None
    with monkeypatch.context() as patch:
        patch.setattr(forget_stage, "_rederive", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            forget(store, settings, Selection(text=MARK))
    assert finish(store, settings).totals["sessions"] == 1
    assert finish(store, settings) is None
    store.close()
    assert files_with(store.home, MARK) == []


@pytest.mark.feature("forget.by-text")
def test_text_is_found_in_a_compressed_rollout_and_in_every_generation(environ, settings):
    import zstandard

    root = Path(environ["CODEX_HOME"])
    packed = codex.write(root, codex.session(codex.THREAD, prompt=f"look for the {MARK}"), codex.THREAD, "archived_sessions")
    packed.with_name(packed.name + ".zst").write_bytes(zstandard.compress(packed.read_bytes()))
    packed.unlink()
    with open_store(settings) as store:
        run.run_stages(store, settings)
        assert select(store, Selection(text=f"look for the {MARK}")).sessions == [("codex", codex.THREAD)]
        source = next(s for s in store.ledger.sources().values() if s.session_id == KEPT)
        path = Path(source.path)
        path.write_bytes(path.read_bytes().replace(KEPT_MARK.encode(), b"sandpiper"))
        capture.capture(store, settings)
        assert select(store, Selection(text=f"mend the {KEPT_MARK} parser")).sessions == [("claude", KEPT)]
        assert select(store, Selection(text="mend the sandpiper parser")).sessions == [("claude", KEPT)]


@pytest.mark.feature("forget.by-text")
def test_a_raw_object_that_is_missing_is_no_proof_that_a_text_is_not_there(store):
    (source,) = store.ledger.session_streams("claude", KEPT)
    (segment,) = store.ledger.segments_of([source.stream])[source.stream]
    store.files.remove(segment.path)
    with pytest.raises(StoreDamaged, match="is missing"):
        select(store, Selection(text="nobody said this"))


@pytest.mark.feature("forget.beside-other-writers")
def test_a_part_that_another_stage_has_written_and_not_yet_committed_stays(store, settings):
    elsewhere = Cell("claude", "2025-01")
    part = store.lake.write_rows("signals/activity", elsewhere, "readings", store.lake.read_rows("readings", _cell(store))[:1])
    assert part.sessions == (GONE,)
    kept = store.lake.write_rows("signals/activity", elsewhere, "readings", [r for r in _readings(store) if r.session_id == KEPT])
    forget(store, settings, Selection(host="claude", session_id=GONE))
    assert store.files.exists(kept.path)
    assert not store.files.exists(part.path)


@pytest.mark.feature("forget.beside-other-writers")
def test_a_stage_that_is_writing_a_cell_of_the_session_is_waited_for(store, settings, monkeypatch):
    monkeypatch.setattr("ctx_pipeline.pipeline.forget.rows.WAIT", 0.2)
    with store.ledger.lease(f"signals/activity@{_cell(store).key}"), pytest.raises(StoreLocked):
        forget(store, settings, Selection(host="claude", session_id=GONE))
    forget(store, settings, Selection(host="claude", session_id=GONE))
    run.run_stages(store, settings)
    assert all(store.files.exists(p.path) for m in store.lake.manifests("signals/activity").values() for p in m.parts)
    store.close()
    assert files_with(store.home, MARK) == []


def _cell(store):
    return next(iter(store.lake.manifests("normalized")))


def _readings(store):
    return store.lake.read_rows("readings", _cell(store))


@pytest.mark.feature("forget.ambiguous-project")
def test_a_name_of_two_projects_is_refused_and_both_are_named(store, settings, home):
    for number, place in enumerate(("/w-a/api", "/w-b/api")):
        transcript = home.session(f"cccccccc-0000-4000-8000-00000000000{number}", slug=place.replace("/", "-"), cwd=place)
        transcript.prompt("hello there")
        transcript.answer(build.text("hello"))
        transcript.save()
    run.run_stages(store, settings)
    with pytest.raises(AmbiguousName) as refused:
        select(store, Selection(project="api"))
    assert "/w-a/api" in refused.value.hint
    assert "/w-b/api" in refused.value.hint
    assert select(store, Selection(project="/w-b/api")).sessions == [("claude", "cccccccc-0000-4000-8000-000000000001")]
    assert select(store, Selection(project="shop")).sessions == [("claude", GONE)]


@pytest.mark.feature("forget.shared-files")
def test_a_rebuilt_ledger_still_knows_the_file_whose_lines_were_blanked(store, settings, home):
    history = home.root / "history.jsonl"
    history.write_bytes(history.read_bytes() + b'{"display": "a long prompt of somebody", "timestamp": 1, "sessionId": "x"}\n' * 3)
    index = home.file("projects/-home-dev-shop/sessions-index.json", {"entries": [{"sessionId": GONE, "summary": f"about {MARK}"}]})
    state = Path(settings.demo_roots.get("codex", [home.root.parent / "codex"])[0]) / "state_5.sqlite"
    state.parent.mkdir(exist_ok=True)
    codex.state_database(state, [{"id": "t1", "title": f"{MARK} title"}, {"id": "t2", "title": "other"}])
    run.run_stages(store, settings)
    forget(store, settings, Selection(text=MARK))
    held = [s.path for s in store.ledger.segments()]
    doctor.rebuild_ledger(store, settings)
    with history.open("ab") as file:
        file.write(json.dumps({"display": "later", "timestamp": 1772704900000, "project": "/p", "sessionId": KEPT}).encode() + b"\n")
    capture.capture(store, settings)
    assert index.exists()
    assert {s.path for s in store.ledger.segments()} > set(held)
    assert all(s.generation == 0 for s in store.ledger.segments())
    store.close()
    assert files_with(store.home, MARK) == []


@pytest.mark.feature("forget.stays-out-of-shared-files")
def test_a_rewritten_shared_file_brings_no_forgotten_line_back(store, settings, home):
    forget(store, settings, Selection(host="claude", session_id=GONE))
    assert keep_out(store) == 0
    history = home.root / "history.jsonl"
    first, second = history.read_bytes().splitlines(keepends=True)
    history.write_bytes(second + first)
    capture.capture(store, settings)
    assert files_with(store.home, MARK)
    assert keep_out(store) == 1
    assert keep_out(store) == 0
    store.close()
    assert files_with(store.home, MARK) == []
    assert files_with(store.home / "raw", KEPT_MARK)
    capture.capture(store, settings)
    assert files_with(store.home, MARK) == []


@pytest.mark.feature("forget.preview-copies")
def test_the_preview_names_the_forks_that_keep_a_copy(environ, settings):
    fork, second = codex.THREAD[:-1] + "d", codex.THREAD[:-1] + "e"
    root = Path(environ["CODEX_HOME"])
    codex.write(root, codex.session(codex.THREAD), codex.THREAD)
    for thread, parent in ((fork, codex.THREAD), (second, fork)):
        records = codex.session(thread, begin=100)
        records[0]["payload"]["forked_from_id"] = parent
        codex.write(root, records, thread)
    with open_store(settings) as store:
        run.run_stages(store, settings)
        preview = select(store, Selection(host="codex", session_id=codex.THREAD))
        assert (preview.sessions, preview.copies) == ([("codex", codex.THREAD)], [("codex", fork), ("codex", second)])
        assert select(store, Selection(host="codex", session_id=second)).copies == [("codex", fork)]


@pytest.mark.feature("forget.preview-copies")
@pytest.mark.parametrize("what", ["line", "call"])
def test_a_copy_that_names_no_origin_is_known_by_its_lines_or_calls_and_goes_when_asked(store, settings, home, what):
    other = "cccccccc-0000-4000-8000-00000000000c"
    path = home.root / "projects" / "-home-dev-shop" / f"{GONE}.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    chosen = [one for one in lines if one["type"] == ("user" if what == "line" else "assistant")]
    for n, one in enumerate(chosen):
        one["sessionId"] = other
        if what == "call":
            one["uuid"] = f"dddddddd-0000-4000-8000-{n:012d}"
    path.with_name(f"{other}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in chosen))
    run.run_stages(store, settings)
    meant = Selection(host="claude", session_id=GONE)
    assert (select(store, meant).sessions, select(store, meant).copies) == ([("claude", GONE)], [("claude", other)])
    forget(store, settings, replace(meant, copies=True))
    store.close()
    assert files_with(store.home, MARK) == []
    assert [row.session_id for row in store.ledger.sessions()] == [KEPT]


@pytest.mark.feature("forget.shared-files")
def test_a_text_in_a_title_of_the_thread_database_leaves_the_tables_too(environ, settings):
    root = Path(environ["CODEX_HOME"])
    codex.write(root, codex.session(codex.THREAD), codex.THREAD)
    codex.state_database(root / "state_5.sqlite", [{"id": codex.THREAD, "title": "about the sandpiper"}])
    with open_store(settings) as store:
        run.run_stages(store, settings)
        assert any(name.startswith("lake/") for name in files_with(store.home, "sandpiper"))
        assert forget(store, settings, Selection(text="sandpiper")).totals["sessions"] == 0
        store.close()
        assert files_with(store.home, "sandpiper") == []
        assert store.ledger.session("codex", codex.THREAD) is not None


@pytest.mark.feature("forget.everywhere")
def test_the_case_of_a_forgotten_session_goes_and_that_of_the_other_stays(environ, settings):
    made = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    for session, mark in ((GONE, MARK), (KEPT, KEPT_MARK)):
        cwd = f"/home/dev/{mark}"
        transcript = made.session(session, slug=cwd.replace("/", "-"), cwd=cwd)
        transcript.prompt(f"add a flag --{mark} to the settings parser in cli.py")
        transcript.call(f"toolu_{mark}1", "Edit", "updated", file_path=f"{cwd}/cli.py", old_string="a", new_string="b")
        transcript.call(f"toolu_{mark}2", "Bash", "3 passed", command="make test")
        transcript.save()
    with open_store(settings) as store:
        run.run_stages(store, settings)
        assert "cases.db" in files_with(store.home, MARK)
        forget(store, settings, Selection(host="claude", session_id=GONE))
        assert [m.sessions for m in store.cases.memories()] == [[f"claude/{KEPT}"]]
    assert files_with(store.home, MARK) == []
    assert "cases.db" in files_with(store.home, KEPT_MARK)
