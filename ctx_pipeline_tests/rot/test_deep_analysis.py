"""Deep analysis, end to end against a model that follows a script."""

from __future__ import annotations

import json

import pytest

from ctx_pipeline import CtxRotStore, run_deep_analysis
from ctx_pipeline.errors import UnknownName
from ctx_pipeline.rot import deep
from ctx_pipeline.rot import deep as credentials
from ctx_pipeline.rot import deep as instructions
from ctx_pipeline.rot.deep import Material

NOON = 1_767_268_800.0

PROGRAM = """
import json, dspy
from ctx_pipeline import CtxRotStore, run_deep_analysis
from ctx_pipeline_tests.factories.interpreter import make
from ctx_pipeline_tests.factories.openai_server import Server
HEADINGS = ["Session Overview", "Context Growth", "Efficiency Trends", "Repetition Analysis", "Tool Impact", "Rot Diagnosis"]
STEPS = iter([
    "print(session_data['rot_analysis']['verdict']['severity'], get_completion_text(seq=2, max_chars=5))",
    "print(compute_repetition_score(text_a='a b c d', text_b='a b c d'), llm_query('is call 2 odd?'))",
    "print(get_tool_output(tool_call_id='t1'), get_messages_json(seq=1), repr(get_completion_text(seq=99)))",
    "SUBMIT(analysis_report=" + repr("\\n".join("## " + h + "\\ntext" for h in HEADINGS)) + ")",
])
def answer(messages):
    text = messages[-1]["content"]
    if text == "is call 2 odd?":
        return "very odd"
    if "[[ ## missing_sections ## ]]" in text:
        return "[[ ## sections ## ]]\\n{SECTION}\\n\\n[[ ## completed ## ]]"
    return "[[ ## reasoning ## ]]\\nlook\\n\\n[[ ## code ## ]]\\n```python\\n" + next(STEPS) + "\\n```\\n\\n[[ ## completed ## ]]"
with Server(answer) as server:
    with CtxRotStore("a.db", read_only=True) as store:
        result = run_deep_analysis(store, "s1", api_key="x", api_base=server.url, env_file=None, interpreter_factory=make)
    models = [a["model"] for a in server.asked]
print(json.dumps([result, models]))
"""


@pytest.fixture
def db(tmp_path):
    with CtxRotStore(tmp_path / "a.db") as store:
        store.insert_session("s1", NOON, mode="react")
        for n, text in enumerate(("hello world again", "other words entirely"), 1):
            store.insert_lm_call(
                id=f"c{n}",
                session_id="s1",
                seq=n,
                model="m",
                started_at=NOON,
                ended_at=NOON,
                prompt_tokens=100 * n,
                completion_tokens=10,
                messages_json='[{"role": "user", "content": "hi"}]',
                completion=text,
            )
        store.insert_tool_call(
            id="t1", session_id="s1", after_seq=1, tool_name="look", started_at=NOON, ended_at=NOON, input_json="{}", output_text="found it"
        )
        store.update_session_end("s1", NOON + 3, "completed")
    return tmp_path / "a.db"


@pytest.mark.feature("rot.deep-analysis")
@pytest.mark.feature("rot.deep-tools")
def test_a_model_reads_the_session_with_the_tools_and_a_missing_section_is_asked_for_again(program, db, tmp_path):
    said, _ = program(PROGRAM.replace("{SECTION}", "## Recommendations\\\\nstop earlier"))
    result, models = json.loads(said.splitlines()[-1])
    outputs = [step["output"] for step in result["trajectory"]]
    assert "none other\n[cut: 20 characters in all]" in outputs[0]
    assert '{"ngram_jaccard": 1.0, "sequence_similarity": 1.0} very odd' in outputs[1]
    assert "found it" in outputs[2]
    assert '"content": "hi"' in outputs[2]
    assert outputs[2].rstrip().endswith("''")
    assert result["missing_sections"] == []
    assert "## Session Overview" in result["report"]
    assert result["report"].rstrip().endswith("stop earlier")
    assert sorted(set(models)) == ["gpt-5.4", "gpt-5.4-mini"]
    assert models.count("gpt-5.4-mini") == 1
    assert models.count("gpt-5.4") == 5
    (folder,) = (tmp_path / "store" / "rot").iterdir()
    assert str(folder) == result["artifact"]
    assert (folder / "report.md").read_text() == result["report"]
    kept = json.loads((folder / "analysis.json").read_text())
    assert kept["trajectory"] == result["trajectory"]
    assert (folder / "report.md").stat().st_mode & 0o777 == 0o600


@pytest.mark.feature("rot.deep-analysis")
def test_a_section_that_is_not_given_the_second_time_either_is_reported(program, db):
    said, _ = program(PROGRAM.replace("{SECTION}", "nothing more to say"))
    result, models = json.loads(said.splitlines()[-1])
    assert result["missing_sections"] == ["Recommendations"]
    assert models.count("gpt-5.4") == 5


@pytest.mark.feature("rot.deep-analysis")
def test_the_command_prints_the_report_and_warns_of_what_is_missing(program, db):
    begin, _, rest = PROGRAM.partition('    with CtxRotStore("a.db"')
    words = "'rot', 'deep-analyze', '--db', 'a.db', '-y', '--api-key', 'x', '--api-base', server.url, '--env-file', ''"
    command = f"    main([{words}, '--interpreter', 'ctx_pipeline_tests.factories.interpreter:make'])\n"
    said, errors = program(f"from ctx_pipeline.cli import main\n{begin}{command}".replace("{SECTION}", "nothing"))
    assert rest
    assert "## Tool Impact" in said
    assert "warning: the report lacks Recommendations" in errors
    assert "REPL iterations: 4" in errors


@pytest.mark.feature("rot.deep-refused")
def test_without_deno_and_without_another_interpreter_it_is_refused_before_anything_is_spent(db, monkeypatch):
    monkeypatch.setattr(deep, "has_deno", lambda: False)
    with CtxRotStore(db, read_only=True) as store, pytest.raises(RuntimeError, match="interpreter_factory"):
        run_deep_analysis(store, "s1")


@pytest.mark.feature("rot.deep-refused")
def test_with_a_deno_whose_sandbox_does_not_start_it_is_refused_before_anything_is_spent(program, db):
    folder = db.parent / "bin"
    folder.mkdir()
    (folder / "deno").write_text("#!/bin/sh\necho 'deno 2.9.8'\n")
    (folder / "deno").chmod(0o755)
    said, _ = program("""
import os, sys
sys.modules["deno"] = None  # the Python package of it would be found before the program
os.environ["PATH"] = os.path.abspath("bin") + os.pathsep + os.environ["PATH"]
from ctx_pipeline import CtxRotStore, run_deep_analysis
from ctx_pipeline.rot import deep as sandbox
from ctx_pipeline_tests.factories.openai_server import Server
sandbox.find_spec = lambda name: None
with Server(lambda messages: "an answer") as server, CtxRotStore("a.db", read_only=True) as store:
    try:
        run_deep_analysis(store, "s1", api_key="x", api_base=server.url, env_file=None)
    except RuntimeError as error:
        print(error, error.hint, len(server.asked), sep="|")
""")
    message, hint, asked = said.strip().rsplit("|", 2)
    assert "Deno is there, but the sandbox" in message
    assert "interpreter_factory" in hint
    assert asked == "0"


@pytest.mark.feature("rot.deep-analysis")
def test_an_unknown_session_is_named(db):
    with CtxRotStore(db, read_only=True) as store, pytest.raises(UnknownName):
        run_deep_analysis(store, "nobody", interpreter_factory=object)


@pytest.mark.feature("rot.deep-credentials")
def test_credentials_come_in_the_documented_order(tmp_path):
    file = tmp_path / ".env"
    file.write_text("# a comment\nexport OPENAI_API_KEY='from file'\nAPI_BASE=\"http://file\"\nnonsense\n")
    both = {"OPENAI_API_KEY": "specific", "API_KEY": "general"}
    assert credentials.resolve("given", None, str(file), both) == {"api_key": "given", "api_base": "http://file"}
    assert credentials.resolve(None, None, str(file), both)["api_key"] == "specific"
    assert credentials.resolve(None, None, str(file), {})["api_key"] == "from file"
    assert credentials.resolve(None, None, None, {"API_KEY": "general"}) == {"api_key": "general"}
    assert credentials.resolve(None, None, str(tmp_path / "none"), {}) == {}


@pytest.mark.feature("rot.deep-material")
def test_the_material_begins_with_the_verdict_and_a_long_session_is_thinned(tmp_path):
    with CtxRotStore(tmp_path / "long.db") as store:
        store.insert_session("s", NOON)
        for n in range(1, 1002):
            store.insert_lm_call(id=f"c{n}", session_id="s", seq=n, model="m", started_at=NOON, ended_at=NOON, prompt_tokens=n)
        data = Material(store, "s").data
    assert next(iter(data)) == "rot_analysis"
    seqs = [row["seq"] for row in data["growth"]]
    assert (seqs[0], seqs[-1]) == (1, 1001)
    assert len(seqs) <= 401


@pytest.mark.feature("rot.deep-sections")
def test_the_repetition_section_is_only_asked_for_where_texts_were_stored():
    assert len(instructions.headings(has_content=True)) == 7
    assert "Repetition Analysis" not in instructions.headings(has_content=False)
    report = "# session overview, CONTEXT GROWTH, efficiency trends, tool impact, rot diagnosis"
    assert instructions.missing(report, has_content=False) == ["Recommendations"]


@pytest.mark.feature("rot.deep-versions")
def test_the_budget_goes_by_the_name_of_the_installed_version():
    class Old:
        def __init__(self, signature, max_iterations=20, interpreter=None):
            """Take what DSPy 3.1 takes."""

    class New:
        def __init__(self, signature, max_iters=20, interpreter_factory=None):
            """Take what DSPy 3.3 takes."""

    assert deep._versioned(Old, 7, lambda: "made") == {"max_iterations": 7, "interpreter": "made"}
    assert deep._versioned(New, 7, list) == {"max_iters": 7, "interpreter_factory": list}


@pytest.mark.feature("rot.deep-cost")
def test_the_command_says_what_it_costs_at_most_and_asks(db, monkeypatch):
    from click.testing import CliRunner

    from ctx_pipeline.cli import cli

    done = CliRunner().invoke(
        cli, ["rot", "deep-analyze", "--db", str(db), "-m", "openai/gpt-4o", "--sub-model", "gpt-4o-mini"], input="n\n"
    )
    assert done.exit_code == 1
    # 17 steps: 3,000 each and all earlier ones, 1,500 out; 30 questions over 1,011 tokens, 800 out
    assert "at most 538,830 tokens" in done.output
    assert "at most $1.42" in done.output
