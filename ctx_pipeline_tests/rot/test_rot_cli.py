"""``ctx rot``: what is printed, and how it ends."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from click.testing import CliRunner

from ctx_pipeline import CtxRotStore
from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli, main
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.rot import database
from ctx_pipeline.rot.deep import Material
from ctx_pipeline.rot.terminal import snapshot
from ctx_pipeline.rot.terminal.snapshot import take
from ctx_pipeline.sessions.reports import rot_reports as api
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.conftest import CORPUS, corpus

DAY = 86_400
NOON = 1_767_268_800.0
"""2026-01-01 12:00 UTC"""


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "a.db"
    with CtxRotStore(path) as store:
        for n, state in enumerate(("completed", "errored", None)):
            store.insert_session(f"abc{n}0000", NOON + n * DAY, mode="predict")
            store.insert_tool_call(
                id=f"early{n}", session_id=f"abc{n}0000", after_seq=0, tool_name="look", started_at=NOON, ended_at=NOON, input_json="[1]"
            )
            store.insert_lm_call(
                id=f"c{n}",
                session_id=f"abc{n}0000",
                seq=1,
                model="gpt-4o",
                started_at=NOON + n * DAY,
                ended_at=NOON + n * DAY + 1,
                prompt_tokens=100,
                completion_tokens=10,
                messages_json='[{"role":"user","content":"token ghp_' + "aB3dE5gH1jK" * 3 + 'xyz"}]',
                completion="fine",
                call_type="sub_query",
                parent_seq=1,
            )
            if state:
                store.update_session_end(f"abc{n}0000", NOON + n * DAY + 2, state)
    return str(path)


def ctx(*words, stdin=None):
    return CliRunner().invoke(cli, ["rot", *words], input=stdin, catch_exceptions=True)


def ended(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        main(["rot", *words])
    return stopped.value.code, capsys.readouterr()


@pytest.mark.feature("rot.cli-analyze")
def test_analyze_prints_the_latest_session_or_the_one_named_by_its_beginning(db):
    text = ctx("analyze", "--db", db)
    assert "Context rot of session abc20000" in text.output
    assert "Verdict: none\n  0 points of the signs of context rot: 0 none, to 2 mild, to 4 moderate, above severe\n" in text.output
    assert "#1  0.1000  (10 / 100)" in text.output
    assert "\nOutput for each token of the prompt, by call (tokens of answer / prompt): " in text.output
    assert not {"ngram", "cumul"} & {*re.findall("[a-z]+", text.output)}
    named = json.loads(ctx("analyze", "--db", db, "-s", "abc1", "--json").output)
    assert named["session"]["id"] == "abc10000"
    assert named["session"]["terminal_state"] == "errored"


@pytest.mark.feature("rot.cli-analyze")
def test_the_share_of_the_cache_is_told_only_of_prompts_whose_tokens_were_recorded(db, tmp_path):
    with CtxRotStore(tmp_path / "b.db") as store:
        store.insert_session("abc90000", NOON, mode="predict")
        store.insert_lm_call(id="c", session_id="abc90000", seq=1, model="gpt-4o", started_at=NOON, ended_at=NOON + 1, completion="4")

    assert "Cache: 0% of the prompt tokens" in ctx("analyze", "--db", db).output
    unknown = ctx("analyze", "--db", str(tmp_path / "b.db")).output
    assert "Context rot of session abc90000" in unknown
    assert "Cache:" not in unknown


@pytest.mark.feature("rot.unknown-session")
@pytest.mark.parametrize("command", ["analyze", "export"])
def test_an_unknown_session_ends_with_1_and_the_nearest_ids(db, capsys, command):
    code, said = ended(capsys, command, "--db", db, "-s", "abc00001")
    assert code == 1
    assert "abc00000" in said.err
    assert "Traceback" not in said.err


@pytest.mark.feature("rot.cli-errors")
def test_missing_damaged_and_empty_stores_end_with_1_and_a_hint(tmp_path, capsys):
    (tmp_path / "bad.db").write_text("nothing like a database " * 50)
    CtxRotStore(tmp_path / "empty.db").close()
    for name, words in (("none.db", "no callback store"), ("bad.db", "cannot be used"), ("empty.db", "No sessions found")):
        code, said = ended(capsys, "analyze", "--db", str(tmp_path / name))
        assert code == 1
        assert words in said.err
        assert "hint:" in said.err


@pytest.mark.feature("rot.export")
def test_export_selects_by_id_by_whole_days_and_by_state(db):
    def ids(*words):
        done = ctx("export", "--db", db, *words)
        assert done.exit_code == 0, done.output
        return [json.loads(line)["session_id"] for line in done.stdout.splitlines()]

    assert ids() == ["abc20000"]
    assert ids("--all") == ["abc00000", "abc10000", "abc20000"]
    assert ids("--since", "2026-01-02", "--until", "2026-01-02") == ["abc10000"]
    assert ids("--only-errored") == ["abc10000"]
    assert ids("--only-completed") == ["abc00000"]
    assert ids("-s", "abc0", "-s", "abc2", "--only-errored") == ["abc00000", "abc20000"]
    assert ctx("export", "--db", db, "--only-errored", "--only-completed").exit_code == 2
    assert ctx("export", "--db", db, "-f", "xml").exit_code == 2
    assert ctx("export", "--db", db, "--until", "someday").exit_code != 0


@pytest.mark.feature("rot.export-opentraces")
def test_an_opentraces_record_has_its_roles_its_call_types_and_the_tools_before_the_first_call(db):
    done = ctx("export", "--db", db, "-s", "abc0")
    record = json.loads(done.stdout)
    first, second = record["steps"]
    assert (first["step_index"], first["role"], first["tool_calls"][0]["tool_name"]) == (0, "agent", "look")
    assert first["tool_calls"][0]["input"] == {"input": [1]}
    assert (second["step_index"], second["call_type"], second["parent_step"], second["content"]) == (1, "subagent", 1, "fine")
    assert record["outcome"] == {"success": True, "terminal_state": "goal_reached"}
    assert record["metrics"]["total_input_tokens"] == 100
    assert "1 session exported" in done.stderr


@pytest.mark.feature("rot.export-opentraces")
def test_exported_records_validate_against_the_schema_package(db):
    schema = pytest.importorskip("opentraces_schema")
    for line in ctx("export", "--db", db, "--all").stdout.splitlines():
        trace = schema.TraceRecord.model_validate_json(line)
        assert [s.role for s in trace.steps] == ["agent", "agent"]


@pytest.mark.feature("rot.export")
def test_secrets_are_replaced_and_the_file_is_private(db, tmp_path):
    out = tmp_path / "out.jsonl"
    assert ctx("export", "--db", db, "--all", "-f", "ctxrot", "-o", str(out)).exit_code == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [set(r) for r in records] == [{"ctxrot_version", "session", "summary", "lm_calls", "tool_calls"}] * 3
    assert "ghp_" not in out.read_text()
    assert "[REDACTED:" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("rot.export")
def test_text_that_steers_a_terminal_is_escaped_and_comes_back_as_it_was(tmp_path):
    odd = "a\u202eb\u200b\x1b[31m\x9b é"
    with CtxRotStore(tmp_path / "o.db") as store:
        store.insert_session("s", NOON)
        store.insert_lm_call(id="c", session_id="s", seq=1, model="m", started_at=NOON, ended_at=NOON, completion=odd)
    done = ctx("export", "--db", str(tmp_path / "o.db"))
    assert json.loads(done.stdout)["steps"][0]["content"] == odd
    assert not set("\u202e\u200b\x1b\x9b") & set(done.stdout)


@pytest.mark.feature("rot.cli-summary")
def test_summary_lists_sessions_and_adds_up(db):
    rows = json.loads(ctx("summary", "--db", db, "--json").output)["sessions"]
    assert [(r["session_id"], r["call_count"], r["terminal_state"]) for r in rows] == [
        ("abc20000", 1, None),
        ("abc10000", 1, "errored"),
        ("abc00000", 1, "completed"),
    ]
    text = ctx("summary", "--db", db).output.splitlines()
    assert text[-2].split()[:4] == ["total", "3", "300", "30"]
    cut = ctx("summary", "--db", db, "--limit", "2")
    assert cut.stdout.splitlines()[-2].split()[:4] == ["total", "2", "200", "20"]
    assert (cut.stderr.strip(), ctx("summary", "--db", db, "--limit", "3").stderr) == ("only the newest 2: --limit shows more", "")


@pytest.mark.feature("rot.cli-tail")
def test_tail_prints_the_last_lines_and_then_what_comes(db, program):
    text = ctx("tail", "--db", db, "--no-follow", "-n", "2").output.splitlines()
    assert len(text) == 2
    assert "gpt-4o 100 in 10 out" in text[-1]
    code = f"from ctx_pipeline.cli import main; main(['rot', 'tail', '--db', {db!r}, '-n', '1'])"
    process = program(code, wait=False)
    assert "gpt-4o" in process.stdout.readline()
    with CtxRotStore(db) as store:
        store.insert_tool_call(id="new", session_id="abc20000", after_seq=1, tool_name="fresh", started_at=NOON, ended_at=NOON)
    assert "fresh" in process.stdout.readline()
    processes.end(process)


@pytest.mark.feature("rot.cli-tail-all")
def test_tail_without_a_store_follows_all_that_are_announced_also_one_that_comes_later(program, tmp_path):
    def store(name, tool, at):
        path = tmp_path / name
        with CtxRotStore(path) as made:
            if made.get_session("s") is None:
                made.insert_session("s", at)
            made.insert_tool_call(id=tool, session_id="s", after_seq=0, tool_name=tool, started_at=at, ended_at=at)
        database.announce(path, tmp_path / "store")

    store("one.db", "first", NOON)
    store("two.db", "second", NOON + 1)
    process = program("from ctx_pipeline.cli import main; main(['rot', 'tail', '-n', '3'])", wait=False)
    assert [process.stdout.readline().split()[-1] for _ in range(3)] == ["first", "session_start", "second"]
    store("two.db", "third", NOON + 2)
    assert "third" in process.stdout.readline()
    store("three.db", "fourth", NOON + 3)
    assert [process.stdout.readline().split()[2] for _ in range(2)] == ["session_start", "tool_call"]
    store("one.db", "fifth", NOON + 4)
    assert "fifth" in process.stdout.readline()


@pytest.mark.feature("rot.unknown-session")
def test_tail_of_an_unknown_session_names_the_nearest(db, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["rot", "tail", "--db", db, "--no-follow", "-s", "abc2000x"])
    assert ended.value.code == 1
    assert "abc20000" in capsys.readouterr().err


@pytest.mark.feature("rot.cli-reset")
def test_reset_asks_deletes_all_or_what_is_old_and_nothing_else(db):
    assert ctx("reset", "--db", db, stdin="n\n").exit_code != 0
    with CtxRotStore(db, read_only=True) as store:
        assert len(store.get_session_ids()) == 3
    with CtxRotStore(db) as store:
        store.insert_session("young", 4_000_000_000)
    assert ctx("reset", "--db", db, "--older-than", "30", "--yes").exit_code == 0
    with CtxRotStore(db, read_only=True) as store:
        assert store.get_session_ids() == ["young"]
        assert store.get_lm_calls_full("abc00000") == []
    assert ctx("reset", "--db", db, stdin="y\n").exit_code == 0
    with CtxRotStore(db, read_only=True) as store:
        assert store.get_session_ids() == []


@corpus
@pytest.mark.feature("rot.thread")
@pytest.mark.feature("rot.unknown-session")
def test_every_context_window_of_a_captured_session_is_analyzed_by_itself(monkeypatch, tmp_path, capsys):
    session = "ef958aa1-0e93-49f0-bb71-150f63befcd1"
    home = tmp_path / "claude"
    for path in (CORPUS / "claude" / "projects").glob(f"*/{session}*"):
        target = home / "projects" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copy)(path, target)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    settings = settings_module.load()
    with open_store(settings) as store:
        ingest(store, settings)
    rows = json.loads(ctx("analyze", "-s", "ef958aa1", "--threads", "--json").output)["threads"]
    agents = [r for r in rows if r["thread_id"] != session]
    assert len(agents) == len({r["thread_id"] for r in agents}) >= 2
    assert all(r["analysis"]["efficiency"] for r in rows)
    other = agents[0]
    one = json.loads(ctx("analyze", "-s", "ef958aa1", "--thread", other["thread_id"], "--json").output)
    assert one == other["analysis"]
    main_window = json.loads(ctx("analyze", "-s", "ef958aa1", "--json").output)
    assert main_window["efficiency"] != one["efficiency"]
    assert "more context windows: ctx rot analyze -s ef958aa1" in ctx("analyze", "-s", "ef958aa1").stderr
    heads = ctx("analyze", "-s", "ef958aa1", "--threads").output.splitlines()[0].split()
    assert heads[:3] == ["thread", "kind", "agent"]
    for words, near in ((["-s", "ef958aa1", "--thread", "nobody"], "thread"), (["-s", "ef958ab1"], session)):
        with pytest.raises(SystemExit) as ended:
            main(["rot", "analyze", *words])
        assert ended.value.code == 1
        assert near in capsys.readouterr().err


@corpus
@pytest.mark.feature("rot.any-host")
def test_captured_sessions_of_other_hosts_are_analyzed_and_exported(monkeypatch):
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(CORPUS / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(CORPUS / "codex"))
    settings = settings_module.load()
    with open_store(settings) as store:
        ingest(store, settings)
    result = json.loads(ctx("analyze", "-s", "fdd24234", "--json").output)
    assert result["session"]["mode"] == "claude"
    assert len(result["efficiency"]) == len(result["repetition"]) == 131
    assert result["growth"]["largest"] > 0
    codex = json.loads(ctx("export", "-s", "019f2387", "-f", "ctxrot").stdout)
    assert codex["session"]["mode"] == "codex"
    assert len(codex["lm_calls"]) == 209
    assert len(codex["tool_calls"]) == 365
    traced = json.loads(ctx("export", "-s", "019f2387").stdout)
    assert sum(len(s["tool_calls"]) for s in traced["steps"]) == 365
    with api.session(session_id="fdd24234") as (captured, found):
        seen = take(captured, found)
        assert len(seen.layers) == 131
        assert seen.window_known
        assert "131 calls" in snapshot.bar(seen).plain
        material = Material(captured, found)
    assert material.has_content
    assert len(material.tools()[2](seq=131)) > 0
