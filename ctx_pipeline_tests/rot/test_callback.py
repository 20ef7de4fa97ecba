"""What the callback stores of a DSPy program, against a server that says what it charged."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dspy
import msgspec
import pytest
from dspy.utils.callback import BaseCallback

from ctx_pipeline import CtxRotCallback, CtxRotStore
from ctx_pipeline_tests.factories.openai_server import Server

ANSWER = "[[ ## answer ## ]]\n{}\n\n[[ ## completed ## ]]"


def echo(messages):
    """Answer with the question, so that every completion says whose it is."""
    text = messages[-1]["content"]
    asked = text.partition("## question ## ]]\n")[2].partition("\n")[0] if "## question ##" in text else text
    return ANSWER.format(asked)


def model(server, **more):
    return dspy.LM("openai/gpt-4o-mini", api_base=server.url, api_key="x", **{"cache": False, "num_retries": 0, **more})


class Many(dspy.Module):
    """Asks three questions at once, then one more."""

    def __init__(self):
        super().__init__()
        self.ask = dspy.Predict("question -> answer")

    def forward(self, question):
        dspy.Parallel(num_threads=3, disable_progress_bar=True)([(self.ask, {"question": f"{question}{n}"}) for n in range(3)])
        return self.ask(question=question)


def stored(path):
    return CtxRotStore(path, read_only=True)


def payloads(store, session, kind):
    return [msgspec.json.decode(r["payload"]) for r in store.get_log(session) if r["kind"] == kind]


@pytest.mark.feature("rot.usage")
@pytest.mark.feature("rot.engines")
@pytest.mark.parametrize("engine", ["auto", "lm15", "litellm"])
def test_tokens_and_cost_are_what_the_server_said_row_by_row(tmp_path, engine):
    callback = CtxRotCallback(tmp_path / "a.db")
    with Server(echo) as server, dspy.context(lm=model(server, engine=engine), callbacks=[callback]):
        ask = dspy.Predict("question -> answer")
        for question in ("one", "two", "three"):
            ask(question=question)
    callback.close()
    store = stored(tmp_path / "a.db")
    rows = [store.get_growth_data(s)[0] for s in store.get_session_ids()]
    assert [(r["prompt_tokens"], r["completion_tokens"]) for r in rows] == [(p, c) for _, p, c in server.said] != []
    # gpt-4o-mini: 0.15 and 0.60 dollars per million tokens
    assert [r["cost"] for r in rows] == pytest.approx([p * 15e-8 + c * 60e-8 for _, p, c in server.said])


@pytest.mark.feature("rot.usage")
@pytest.mark.feature("rot.all-completions")
def test_cached_and_reasoning_tokens_and_the_manner_of_the_call_are_kept(tmp_path):
    told = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 600},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    with Server(lambda _: "hi", usage=told) as server, dspy.context(callbacks=[callback]):
        model(server, temperature=0.3, n=2)("Hello", max_tokens=77)
    callback.close()
    store = stored(tmp_path / "a.db")
    (session,) = store.get_session_ids()
    (call,) = payloads(store, session, "lm_call")
    requests = len(server.asked)
    once = {"prompt_tokens": 1000, "completion_tokens": 50, "cache_read_tokens": 600, "reasoning_tokens": 30}
    assert call["usage"] == {name: count * requests for name, count in once.items()}
    assert call["completions"] == ["hi", "hi"]
    assert call["finish_reason"] == "stop"
    assert (call["parameters"]["temperature"], call["parameters"]["max_tokens"], call["parameters"]["num_retries"]) == (0.3, 77, 0)
    assert not any("key" in name or "api" in name for name in call["parameters"])


@pytest.mark.feature("rot.cache-hit")
@pytest.mark.parametrize("engine", ["auto", "litellm"])
def test_an_answer_from_dspys_cache_costs_nothing(tmp_path, engine):
    callback = CtxRotCallback(tmp_path / "a.db")
    with Server(echo) as server, dspy.context(callbacks=[callback]):
        lm = model(server, cache=True, engine=engine)
        for _ in range(3):
            lm(f"asked thrice in {tmp_path}")
    callback.close()
    assert len(server.asked) == 1
    store = stored(tmp_path / "a.db")
    rows = store.get_growth_data(store.get_latest_session_id())
    assert [(r["prompt_tokens"], r["cost"] > 0) for r in rows] == [(1001, True), (0, False), (0, False)]


@pytest.mark.feature("rot.failed-call")
def test_a_failed_call_has_an_error_and_no_tokens_of_the_call_before(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    answers = iter(["fine", 500])
    with Server(lambda _: next(answers)) as server, dspy.context(callbacks=[callback]):
        lm = model(server)
        lm("first")
        with pytest.raises(Exception, match="out of order"):
            lm("second")
    callback.close()
    store = stored(tmp_path / "a.db")
    first, second = store.get_lm_calls_full(store.get_latest_session_id())
    assert (first["completion"], first["prompt_tokens"], first["error"]) == ("fine", 1001, None)
    assert (second["completion"], second["prompt_tokens"], second["cost"]) == (None, 0, None)
    assert "out of order" in second["error"]


@pytest.mark.feature("rot.session-state")
def test_a_session_says_how_its_outermost_module_ended(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")
    answers = iter([ANSWER.format("yes"), 400, 400])
    with Server(lambda _: next(answers)) as server, dspy.context(lm=model(server), callbacks=[callback]):
        ask = dspy.ChainOfThought("question -> answer")
        with pytest.raises(Exception):  # noqa: B017 - whichever of DSPy's
            ask(question="?")
    callback.close()
    store = stored(tmp_path / "a.db")
    session = store.get_session(callback.session_id)
    assert (session["mode"], session["terminal_state"], session["model"]) == ("chainofthought", "errored", "openai/gpt-4o-mini")
    assert session["started_at"] < session["ended_at"]


class Slow(BaseCallback):
    def on_lm_end(self, call_id, outputs, exception=None):
        time.sleep(0.002)


@pytest.mark.feature("rot.threads")
def test_16_threads_on_one_model_never_mix_up_their_calls(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    with Server(echo) as server:
        lm = model(server, callbacks=[Slow(), callback])
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: lm(f"question {n}"), range(200)))
    callback.close()
    store = stored(tmp_path / "a.db")
    rows = store.get_lm_calls_full(store.get_latest_session_id())
    charged = {text: (p, c) for text, p, c in server.said}
    assert sorted(r["seq"] for r in rows) == list(range(1, 201))
    for row in rows:
        asked = msgspec.json.decode(row["messages_json"])[0]["content"]
        assert row["completion"] == ANSWER.format(asked)
        assert (row["prompt_tokens"], row["completion_tokens"]) == charged[row["completion"]]


@pytest.mark.feature("rot.two-callbacks")
def test_two_callbacks_in_one_process_both_store_everything(tmp_path):
    one, two = CtxRotCallback(tmp_path / "1.db"), CtxRotCallback(tmp_path / "2.db")
    with Server(echo) as server, dspy.context(lm=model(server), callbacks=[one, two]):
        Many()(question="q")
    for callback, name in ((one, "1.db"), (two, "2.db")):
        callback.close()
        store = stored(tmp_path / name)
        (session,) = store.get_session_ids()
        assert store.get_session(session)["terminal_state"] == "completed"
        assert store.get_session_summary(session)["total_calls"] == 4


@pytest.mark.feature("rot.tree")
def test_parallel_children_hang_below_the_module_that_started_them(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")
    with Server(echo) as server, dspy.context(lm=model(server), callbacks=[callback]):
        Many()(question="q")
    callback.close()
    store = stored(tmp_path / "a.db")
    (session,) = store.get_session_ids()
    log = store.get_log(session)
    names = {r["call_id"]: msgspec.json.decode(r["payload"])["module"] for r in log if r["kind"] == "module_start"}
    (root,) = [c for c, name in names.items() if name == "Many"]
    predicts = [r for r in log if r["kind"] == "module_start" and names[r["call_id"]] == "Predict"]
    assert len(predicts) == 4
    assert {r["parent_call_id"] for r in predicts} == {root}
    assert [names[r["parent_call_id"]] for r in log if r["kind"] == "lm_call"] == ["Predict"] * 4
    assert store.get_session(session)["mode"] == "many"


@pytest.mark.feature("rot.tree")
def test_react_with_tools_is_one_session_and_tools_stand_behind_the_call_that_asked(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    step = "[[ ## next_thought ## ]]\nhm\n\n[[ ## next_tool_name ## ]]\n{}\n\n[[ ## next_tool_args ## ]]\n{}\n\n[[ ## completed ## ]]"
    answers = iter(
        [step.format("count", '{"word": "a"}'), step.format("finish", "{}"), "[[ ## reasoning ## ]]\nr\n\n" + ANSWER.format("0")]
    )

    def count(word: str) -> int:
        """Count."""
        return 0

    with Server(lambda _: next(answers)) as server, dspy.context(lm=model(server), callbacks=[callback]):
        dspy.ReAct("question -> answer", tools=[count])(question="how many?")
    callback.close()
    store = stored(tmp_path / "a.db")
    (session,) = store.get_session_ids()
    tools = store.get_tool_calls_full(session)
    assert (tools[0]["tool_name"], tools[0]["after_seq"]) == ("count", 1)
    assert (tools[0]["input_json"], tools[0]["output_text"]) == ('{"word":"a"}', "0")
    assert store.get_session_summary(session)["total_calls"] == 3
    assert store.get_session(session)["mode"] == "react"


@pytest.mark.feature("rot.falsy-output")
@pytest.mark.parametrize(("output", "text"), [(0, "0"), (False, "False"), ([], "[]"), ({}, "{}"), ("", ""), (None, "None")])
def test_falsy_tool_outputs_are_kept_as_they_are(tmp_path, output, text):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)

    def tool(x: int):
        """Return what the test wants."""
        return output

    with dspy.context(callbacks=[callback]):
        dspy.Tool(tool)(x=1)
    callback.close()
    store = stored(tmp_path / "a.db")
    session = store.get_latest_session_id()
    assert payloads(store, session, "tool_call")[0]["output"] == output
    assert store.get_tool_call_content(session)[0]["output_text"] == text


@pytest.mark.feature("rot.async")
def test_gathered_runs_are_sessions_of_their_own_and_asyncify_stays_in_its_own(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")

    async def both():
        ask = dspy.Predict("question -> answer")
        await asyncio.gather(*(ask.acall(question=f"g{n}") for n in range(5)))
        await asyncio.gather(*(dspy.asyncify(Many())(question=f"m{n}") for n in range(2)))

    with Server(echo) as server, dspy.context(lm=model(server), callbacks=[callback]):
        asyncio.run(both())
    callback.close()
    store = stored(tmp_path / "a.db")
    found = sorted((store.get_session(s)["mode"], store.get_session_summary(s)["total_calls"]) for s in store.get_session_ids())
    assert found == [("many", 4)] * 2 + [("predict", 1)] * 5


@pytest.mark.feature("rot.streaming")
def test_a_streamed_answer_is_stored_like_any_other(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)

    async def read():
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        stream = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener])
        return [part async for part in stream(question="how are you streamed today?")]

    with Server(echo) as server, dspy.context(lm=model(server), callbacks=[callback]):
        parts = asyncio.run(read())
    assert len(parts) > 1
    callback.close()
    store = stored(tmp_path / "a.db")
    (row,) = store.get_lm_calls_full(store.get_latest_session_id())
    ((text, prompt, completion),) = server.said
    assert (row["completion"], row["prompt_tokens"], row["completion_tokens"]) == (text, prompt, completion)


@pytest.mark.feature("rot.session-id")
def test_the_session_id_is_that_of_the_running_call_then_the_last(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")
    seen = []

    class Nested(dspy.Module):
        def forward(self, question):
            seen.append(callback.session_id)

    assert callback.session_id is None
    with dspy.context(callbacks=[callback]):
        Nested()(question="1")
        Nested()(question="2")
    callback.close()
    store = stored(tmp_path / "a.db")
    assert seen == store.get_session_ids()
    assert len(set(seen)) == 2
    assert callback.session_id == seen[1]


@pytest.mark.feature("rot.content")
def test_without_store_content_no_text_is_stored_and_with_it_secrets_are_not(tmp_path):
    secret = "sk-proj-" + "Ab3dEf6hIj9k" * 4
    off, on = CtxRotCallback(tmp_path / "off.db"), CtxRotCallback(tmp_path / "on.db", store_content=True)
    with Server(lambda _: "a plain answer") as server, dspy.context(callbacks=[off, on]):
        model(server)(f"my key is {secret}, what is the capital?")
    off.close()
    on.close()
    assert b"capital" not in (tmp_path / "off.db").read_bytes()
    data = (tmp_path / "on.db").read_bytes()
    assert b"what is the capital?" in data
    assert secret.encode() not in data
    assert b"[REDACTED:" in data
    assert stored(tmp_path / "off.db").get_lm_call_content(off.session_id) == []


@pytest.mark.feature("rot.odd-values")
def test_messages_and_outputs_that_are_no_json_are_stored_as_text(tmp_path):
    class Odd:
        def __str__(self):
            raise ValueError

    round_trip: list = []
    round_trip.append(round_trip)
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    with dspy.context(callbacks=[callback]):
        for value in (Odd(), round_trip, "half \ud83d of a pair", 2**90, {1: {2: b"\xff"}}):
            dspy.Tool(lambda x, value=value: value, name="odd")(x=1)
    callback.close()
    store = stored(tmp_path / "a.db")
    outputs = [p["output"] for p in payloads(store, callback.session_id, "tool_call")]
    assert outputs[0] == "<Odd>"
    assert outputs[2:4] == ["half ? of a pair", 2**90]
    assert callback.counts.lost == 0
    assert len(outputs) == 5


@pytest.mark.feature("rot.durations")
def test_durations_follow_the_clock_that_nobody_sets(tmp_path, monkeypatch):
    callback = CtxRotCallback(tmp_path / "a.db")
    real = time.time_ns
    shift = iter(range(0, 10**15, 10**10))
    monkeypatch.setattr(time, "time_ns", lambda: real() - next(shift))
    with dspy.context(callbacks=[callback]):
        dspy.Tool(lambda x: time.sleep(0.02), name="t")(x=1)
    callback.close()
    (tool,) = stored(tmp_path / "a.db").get_tool_calls_full(callback.session_id)
    assert 20 <= tool["duration_ms"] < 60_000


@pytest.mark.feature("rot.late-children")
def test_a_child_that_outlives_its_parent_still_joins_its_session(tmp_path):
    import contextvars

    callback = CtxRotCallback(tmp_path / "a.db")
    late = []

    class Starter(dspy.Module):
        def forward(self, question):
            late.append(contextvars.copy_context())

    with dspy.context(callbacks=[callback]):
        Starter()(question="x")
        thread = threading.Thread(target=late[0].run, args=(lambda: dspy.Tool(lambda x: 1, name="late")(x=1),))
        thread.start()
        thread.join()
    callback.close()
    store = stored(tmp_path / "a.db")
    (session,) = store.get_session_ids()
    assert [t["tool_name"] for t in store.get_tool_calls_full(session)] == ["late"]


@pytest.mark.feature("rot.bare-calls")
def test_calls_outside_modules_share_one_session_of_their_own(tmp_path):
    callback = CtxRotCallback(tmp_path / "a.db")
    with Server(echo) as server, dspy.context(lm=model(server), callbacks=[callback]):
        dspy.settings.lm("one")
        dspy.Predict("question -> answer")(question="q")
        dspy.settings.lm("two")
        dspy.Tool(lambda x: x, name="t")(x=1)
    callback.close()
    store = stored(tmp_path / "a.db")
    found = {store.get_session(s)["mode"]: s for s in store.get_session_ids()}
    assert set(found) == {"direct", "predict"}
    assert store.get_session_summary(found["direct"])["total_calls"] == 2
    assert [t["tool_name"] for t in store.get_tool_calls_full(found["direct"])] == ["t"]
    assert store.get_session(found["direct"])["terminal_state"] == "completed"


@pytest.mark.feature("rot.all-completions")
@pytest.mark.parametrize("engine", ["auto", "litellm"])
def test_tool_calls_and_reasoning_of_an_answer_are_kept(tmp_path, engine):
    asked = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "moon"}'}}
    callback = CtxRotCallback(tmp_path / "a.db", store_content=True)
    said = {"content": "wait", "tool_calls": [asked], "reasoning_content": "the moon it is"}
    with Server(lambda _: said) as server, dspy.context(callbacks=[callback]):
        look = {
            "type": "function",
            "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
        }
        model(server, engine=engine)("where?", tools=[look])
    callback.close()
    (call,) = payloads(stored(tmp_path / "a.db"), callback.session_id, "lm_call")
    assert call["completions"] == ["wait"]
    assert call["tool_calls"][0]["function"]["name"] == "look"
    assert msgspec.json.decode(call["tool_calls"][0]["function"]["arguments"]) == {"at": "moon"}
    assert call["reasoning"] == "the moon it is"
