"""The two documents themselves, where they lie beside the checkout: every example in them runs as it is written there.

Only imports are changed, to our name; the sentence-transformers lines become the packaged
model's function. The examples of the first stand between fences, those of the second
stand bare in the text and are the longest runs of lines that are Python.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ctx_pipeline_tests.context.loopback import openai_server

SEEDS = Path(__file__).resolve().parents[3] / "shared" / "seeds"
STORES, HISTORY = SEEDS / "001_e654492f7f15b5d9.txt", SEEDS / "004_7cf35086127c56c2.txt"
LONGEST = 45

beside = pytest.mark.skipif(not SEEDS.is_dir(), reason="../shared/seeds is not beside this checkout")


def fenced(text):
    """Return the runnable examples between fences; what only lists signatures is none."""
    found = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [code for code in found if parses(code) and not code.startswith(("ContextBuilder(", "SessionStore("))]


def bare(text):
    """Return the runs of lines that are Python and more than names and words."""
    lines, blocks, at = text.splitlines(), [], 0
    while at < len(lines):
        ends = range(min(len(lines), at + LONGEST), at, -1)
        end = next((e for e in ends if lines[at].strip() and parses("\n".join(lines[at:e]))), None)
        if end is not None:
            blocks.append("\n".join(lines[at:end]))
        at = end if end is not None else at + 1
    return blocks


def parses(code):
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return False
    words = (ast.Name, ast.Constant, ast.BinOp, ast.BoolOp, ast.Compare, ast.Tuple, ast.Set, ast.Dict)
    return bool(body) and not any(
        (isinstance(s, ast.Expr) and isinstance(s.value, words)) or (isinstance(s, ast.AnnAssign) and s.value is None) for s in body
    )


def ours(code):
    code = re.sub(r"from (contextstore|egregore)[\w.]* import", "from ctx_pipeline import", code)
    code = re.sub(r"from sentence_transformers import .*", "from ctx_pipeline import packaged_embed_fn", code)
    code = re.sub(r"model = SentenceTransformer\(.*\)", "", code)
    return code.replace("return model.encode(texts).tolist()", "return packaged_embed_fn(texts)")


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    """A model on this machine that answers every call."""
    monkeypatch.chdir(tmp_path)
    with openai_server() as (url, seen):
        for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield seen


@beside
@pytest.mark.feature("context.seed-examples.stores")
def test_every_example_of_the_stores_runs_as_written(capsys):
    pytest.importorskip("wordllama")
    blocks = fenced(STORES.read_text("utf-8"))
    names = {"__name__": "example"}
    for code in blocks:
        exec(compile(ours(code), "example", "exec"), names)

    out = capsys.readouterr().out
    assert len(blocks) == 12
    assert "'content': 'Hi there!'" in out
    assert "Python is a programming language." in out
    assert re.search(r"^msg-1: \d\.\d{3} - Hello!$", out, re.MULTILINE)
    names["client"].close()


PRELUDE = """
import json
from ctx_pipeline import *
agent = Agent(provider="openai:gpt-4")
agent.context.pact_insert("d0, 1, 0", TextContent(content="x", key="user_pref", tags=["important", "tag"]))
for n in range(12):
    snapshot_id = agent.context.seal(trigger=f"before_calculator_{n}")
snapshot_data = agent.history.snapshots[5]
with open("snapshot_5.json", "w") as f:
    json.dump(snapshot_data, f)
historical, snapshots, context = agent.history.at_snapshot(10), agent.history.snapshots, agent.context
"""


def history_blocks():
    if not HISTORY.is_file():
        return []
    return [
        pytest.param(code, id=f"{number}-{code.split(chr(10))[0][:30]}") for number, code in enumerate(bare(HISTORY.read_text("utf-8")))
    ]


@beside
@pytest.mark.feature("context.seed-examples.history")
@pytest.mark.parametrize("code", history_blocks() or [pytest.param("", id="none")])
def test_every_example_of_the_history_runs_as_written(code):
    names = {"__name__": "example"}
    exec(compile(PRELUDE, "prelude", "exec"), names)
    if code.startswith(("note =", "from egregore import Agent")) and "pact_insert" in code:
        names["agent"].context.pact_delete("d0, 1, 0")
    exec(compile(ours(code), "example", "exec"), names)

    for definition in [v for k, v in names.items() if k.startswith("test_")]:
        definition()


@beside
@pytest.mark.feature("context.seed-examples.history")
def test_all_statements_of_the_history_page_are_in_the_examples():
    text = HISTORY.read_text("utf-8")
    blocks = "\n".join(bare(text))
    calls = re.findall(r"^ *(?:\w+ = )?(?:agent|context|historical|undoable|explorer|json)\.[\w.]+[(\[].*$", text, re.MULTILINE)

    assert len(calls) > 40
    assert [c for c in calls if c.strip() not in blocks and "->" not in c] == []
