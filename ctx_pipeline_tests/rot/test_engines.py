"""Every engine, with threads, failures, DSPy's cache and streams at once: each row says what the server said of that very call."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import dspy
import msgspec
import pytest

from ctx_pipeline import CtxRotCallback, CtxRotStore
from ctx_pipeline_tests.factories.openai_server import Server
from ctx_pipeline_tests.rot.test_callback import Slow, echo, model

ENGINES = pytest.mark.parametrize("engine", ["auto", "lm15", "litellm"])
INPUT, OUTPUT = 15e-8, 60e-8
"""dollars a token of gpt-4o-mini"""


def answer(messages):
    """Fail on every seventh question, repeat the others."""
    asked = messages[-1]["content"].split("#")
    return 400 if len(asked) > 1 and int(asked[1]) % 7 == 0 else echo(messages)


def rows(path):
    """Return asked text, answer, tokens, cost, error and whether the cache answered, of every call in a store."""
    with CtxRotStore(path, read_only=True) as store:
        found = []
        for session in store.get_session_ids():
            hits = {r["call_id"]: bool(msgspec.json.decode(r["payload"]).get("cache_hit")) for r in store.get_log(session)}
            for r in store.get_lm_calls_full(session):
                asked = msgspec.json.decode(r["messages_json"])[-1]["content"]
                tokens = (r["prompt_tokens"], r["completion_tokens"])
                found.append((asked, r["completion"], tokens, r["cost"], r["error"], hits[r["id"]]))
    return found


@pytest.mark.feature("rot.engines")
@pytest.mark.feature("rot.usage")
@pytest.mark.feature("rot.cache-hit")
@pytest.mark.feature("rot.failed-call")
@pytest.mark.feature("rot.threads")
@ENGINES
def test_16_threads_with_failures_and_a_cache_get_the_figures_of_their_own_calls(tmp_path, engine):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    with Server(answer) as server:
        # a callback that takes its time before ours: the newest entry of the history is another call's by then
        lm = model(server, engine=engine, cache=True, callbacks=[Slow(), callback])

        def ask(n):
            try:
                return lm(f"in {tmp_path} #{n}")
            except Exception:  # noqa: BLE001 - whichever of the engine's
                return None

        with ThreadPoolExecutor(16) as pool:
            first = list(pool.map(ask, range(1, 65)))
            second = list(pool.map(ask, range(1, 65)))
    callback.close()
    failing = [n for n in range(1, 65) if n % 7 == 0]
    assert [n for n, said in enumerate(first, 1) if said is None] == failing
    assert first == second
    charged = {text: (prompt, completion) for text, prompt, completion in server.said}
    assert len(charged) == len(server.said) == 64 - len(failing)

    found = rows(tmp_path / "a.db")
    paid = [r for r in found if r[4] is None and not r[5]]
    hits = [r for r in found if r[5]]
    failed = [r for r in found if r[4] is not None]
    assert (len(paid), len(hits), len(failed)) == (len(charged), len(charged), 2 * len(failing))
    for asked, completion, tokens, cost, _, _ in paid:
        assert completion == echo([{"content": asked}])
        assert tokens == charged[completion]
        assert cost == pytest.approx(tokens[0] * INPUT + tokens[1] * OUTPUT)
    for asked, completion, tokens, cost, _, _ in hits:
        assert (completion, tokens, cost) == (echo([{"content": asked}]), (0, 0), 0)
    for asked, completion, tokens, cost, error, _ in failed:
        assert int(asked.split("#")[1]) in failing
        assert (completion, tokens, cost) == (None, (0, 0), None)
        assert error
    assert {asked for asked, *_ in paid} == {asked for asked, *_ in hits}


@pytest.mark.feature("rot.engines")
@pytest.mark.feature("rot.streaming")
@pytest.mark.filterwarnings("ignore:Item 'summary' on TypedDict")  # LiteLLM's own types
@ENGINES
def test_streams_that_run_beside_each_other_are_charged_as_the_server_said(tmp_path, engine):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)

    async def read(question):
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        stream = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener])
        return [part async for part in stream(question=question)]

    async def all_of_them():
        return await asyncio.gather(*(read(f"how is stream {n} today?") for n in range(6)))

    with Server(echo) as server, dspy.context(lm=model(server, engine=engine), callbacks=[callback]):
        parts = asyncio.run(all_of_them())
    callback.close()
    assert min(len(p) for p in parts) > 1
    found = rows(tmp_path / "a.db")
    assert len(found) == len(server.said) == 6
    assert sorted((r[1], *r[2]) for r in found) == sorted(server.said)
    for _, _, tokens, cost, error, _ in found:
        assert (cost, error) == (pytest.approx(tokens[0] * INPUT + tokens[1] * OUTPUT), None)
