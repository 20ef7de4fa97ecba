"""RLM: actions, sub-queries (also batched, from threads of their own) and the final extract form one tree."""

from __future__ import annotations

import pytest

from ctx_pipeline import CtxRotStore
from ctx_pipeline.rot.terminal.snapshot import call_tree

PROGRAM = """
import dspy
from ctx_pipeline import CtxRotCallback
from ctx_pipeline_tests.factories.interpreter import rlm
from ctx_pipeline_tests.factories.openai_server import Server
FIRST = "print(llm_query('one')); print(llm_query_batched(['two', 'three']))"
def answer(messages):
    text = messages[-1]["content"]
    if len(text) < 50:
        return "sub " + text
    if "## code ##" not in "".join(m["content"] for m in messages):
        return "[[ ## answer ## ]]\\nextracted\\n\\n[[ ## completed ## ]]"
    code = {code}
    return "[[ ## reasoning ## ]]\\nlook\\n\\n[[ ## code ## ]]\\n```python\\n" + code + "\\n```\\n\\n[[ ## completed ## ]]"
with Server(answer) as server:
    lm = dspy.LM("openai/gpt-4o-mini", api_base=server.url, api_key="x", cache=False, num_retries=0)
    callback = CtxRotCallback("a.db", store_content=True)
    dspy.configure(lm=lm, callbacks=[callback])
    print(rlm("question -> answer", 2)(question="q").answer)
    callback.close()
"""


def calls(path):
    store = CtxRotStore(path, read_only=True)
    (session,) = store.get_session_ids()
    assert store.get_session(session)["mode"] == "rlm"
    return [(r["call_type"], r["iteration"], r["parent_seq"]) for r in store.get_rlm_tree_data(session)]


@pytest.mark.feature("rot.rlm-tree")
def test_sub_queries_name_the_action_that_asked_them(program, tmp_path):
    said, _ = program(PROGRAM.replace("{code}", 'FIRST if "sub one" not in text else "SUBMIT(answer=\'done\')"'))
    assert said.strip() == "done"
    found = calls(tmp_path / "a.db")
    assert found == [("action", 1, None), *[("sub_query", 1, 1)] * 3, ("action", 2, None)]


@pytest.mark.feature("rot.rlm-tree")
def test_the_call_that_extracts_the_answer_in_the_end_is_no_action(program, tmp_path):
    said, _ = program(PROGRAM.replace("{code}", "\"print('again')\""))
    assert said.strip() == "extracted"
    assert calls(tmp_path / "a.db") == [("action", 1, None), ("action", 2, None), ("extract", 3, None)]


MIXED = """
import dspy
from ctx_pipeline import CtxRotCallback
from ctx_pipeline_tests.factories.interpreter import rlm
from ctx_pipeline_tests.factories.openai_server import Server
STEPS = iter(["look", "finish"])
def answer(messages):
    text = "".join(m["content"] for m in messages)
    if "next_tool_name" in text:
        fields = {"next_thought": "t", "next_tool_name": next(STEPS), "next_tool_args": "{}"}
    elif "## code ##" in text:
        fields = {"reasoning": "r", "code": "SUBMIT(answer=llm_query('one'))"}
    elif len(text) < 50:
        return "sub"
    else:
        fields = {"reasoning": "r", "answer": "a"}
    return "\\n\\n".join(f"[[ ## {n} ## ]]\\n{v}" for n, v in fields.items()) + "\\n\\n[[ ## completed ## ]]"
def look():
    return "seen"
class Whole(dspy.Module):
    def __init__(self):
        super().__init__()
        self.act = dspy.ReAct("question -> answer", tools=[look])
        self.ask = dspy.Predict("question -> answer")
        self.read = rlm("question -> answer", 3)
    def forward(self, question):
        self.act(question=question)
        dspy.Parallel(num_threads=2, disable_progress_bar=True)([(self.ask, {"question": q}) for q in "ab"])
        return self.read(question=question)
with Server(answer) as server:
    lm = dspy.LM("openai/gpt-4o-mini", api_base=server.url, api_key="x", cache=False, num_retries=0)
    callback = CtxRotCallback("a.db")
    dspy.configure(lm=lm, callbacks=[callback])
    Whole()(question="q")
    callback.close()
"""


@pytest.mark.feature("rot.call-tree")
def test_a_program_of_react_parallel_and_rlm_is_one_tree(program, tmp_path):
    program(MIXED)
    store = CtxRotStore(tmp_path / "a.db", read_only=True)
    (session,) = store.get_session_ids()
    (whole,) = call_tree(store.get_log(session))
    assert whole.name == "Whole"

    def drawn(node):
        return {node.name: [drawn(child) for child in node.children]} if node.children else node.name

    model = "openai/gpt-4o-mini"
    act, *asked, read = whole.children
    steps = [{"Predict": [model]}, "look", {"Predict": [model]}, "finish"]
    assert drawn(act) == {"ReAct": [*steps, {"ChainOfThought": [{"Predict": [model]}]}]}
    # dspy.Parallel itself is no module call: what it runs hangs below the module that used it
    assert [drawn(node) for node in asked] == [{"Predict": [model]}] * 2
    assert drawn(read) == {"RLM": [{"Predict": [model]}, model]}
    assert [c.body.get("call_type") for c in (read.children[0].children[0], read.children[1])] == ["action", "sub_query"]
    assert whole.tokens == (store.get_session_summary(session)["total_prompt"], store.get_session_summary(session)["total_completion"])
