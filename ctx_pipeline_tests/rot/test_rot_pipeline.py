"""From a running program to the pipeline's tables: nothing is registered, the store announces itself."""

from __future__ import annotations

import subprocess

import dspy
import pytest

from ctx_pipeline import CtxRotCallback, CtxRotStore, search
from ctx_pipeline import settings as settings_module
from ctx_pipeline.pipeline.ingest import ingest
from ctx_pipeline.pipeline.run import run_stages
from ctx_pipeline.sessions import session_details as sessions
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.factories.openai_server import Server


@pytest.mark.feature("rot.pipeline")
def test_the_sessions_of_a_program_are_captured_normalized_and_priced(tmp_path):
    callback = CtxRotCallback(tmp_path / "program" / "ctxrot.db", store_content=True)
    with Server(lambda _: "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]") as server:
        lm = dspy.LM("openai/gpt-4o-mini", api_base=server.url, api_key="x", cache=False)
        with dspy.context(lm=lm, callbacks=[callback]):
            dspy.Predict("question -> answer")(question="What is the capital of France?")
            dspy.Tool(lambda x: [], name="look")(x="Paris")
    callback.close()
    settings = settings_module.load()
    with open_store(settings) as store:
        assert run_stages(store, settings).failed == []
    # the page, the warehouse and the search index know the session like any other
    assert (settings.home / "site" / "index.html").is_file()
    assert [hit.host for hit in search.search("capital of France").hits] == ["dspy"]
    shown = sessions.show("dspy", callback.session_id)
    assert shown["session"]["status"] == "completed"
    with open_store(settings, read_only=True) as store:
        found = [s.session_id for s in store.ledger.sessions(host="dspy")]
    details = [sessions.show("dspy", s) for s in found]
    assert len(details) == 2
    (run,) = [d for d in details if d["usage"]["calls"]]
    assert "capital of France" in run["session"]["title"]
    used = run["usage"]
    assert (used["calls"], used["input_tokens"], used["output_tokens"]) == (1, 1001, server.said[0][2])
    assert run["unknown"] == {}
    assert run["quarantined"] == []
    # 1001 and the completion's tokens at 0.15 and 0.60 dollars per million, in nano-dollars
    assert used["cost_nano"] == pytest.approx(1001 * 150 + server.said[0][2] * 600, abs=1)


@pytest.mark.feature("rot.pipeline")
def test_a_running_session_grows_in_the_pipeline_and_an_abandoned_one_says_so(tmp_path, program):
    code = """
import dspy
from ctx_pipeline import CtxRotCallback, CtxRotStore
callback = CtxRotCallback("a.db")
class Root(dspy.Module):
    def forward(self):
        for n in range(2):
            dspy.Tool(lambda x: x, name=f"t{n}")(x=1)
            callback.flush()
            print(callback.session_id, flush=True)
            input()
with dspy.context(callbacks=[callback]):
    Root()()
"""
    process = program(code, wait=False, stdin=subprocess.PIPE)
    settings = settings_module.load()
    counts = []
    for number in range(2):
        session = process.stdout.readline().strip()
        with open_store(settings) as store:
            ingest(store, settings)
        counts.append(sessions.show("dspy", session)["session"]["tool_calls"])
        if number == 0:  # the second time it is killed while it waits, or it might end first
            process.stdin.write("\n")
            process.stdin.flush()
    processes.end(process)
    assert counts == [1, 2]
    CtxRotStore(tmp_path / "a.db").close()
    with open_store(settings) as store:
        ingest(store, settings)
    assert sessions.show("dspy", session)["session"]["status"] == "abandoned"
