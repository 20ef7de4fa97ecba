"""What the callback costs a program, and how long an analysis takes."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline_tests.bench.rows import Row, many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS = 400
ROUNDS = 5

_TEXT = "a line of a text that a program sends\n" * 500

_PEER_ANALYSIS = 25.0
"""seconds that ctxrot 0.1.2 takes for the same thousand calls"""


@contextmanager
def _program(callbacks: list[Any]) -> Iterator[Any]:
    import dspy
    from dspy.utils import DummyLM

    with dspy.context(lm=DummyLM([{"answer": "Paris"}] * (CALLS * ROUNDS + 10)), callbacks=callbacks):
        yield dspy.Predict("question -> answer")


def _per_call(ask: Any) -> float:
    """Return milliseconds of one Predict with one model call, the median."""
    taken = []
    for n in range(many(CALLS, 2)):
        began = time.perf_counter()
        ask(question=f"capital {n}?")
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _nothing() -> Any:
    from dspy.utils.callback import BaseCallback

    class Nothing(BaseCallback):
        """Does nothing."""

    return Nothing()


def rot_rows() -> list[Row]:
    """Return what a run with one model call takes without callbacks, with an idle one and with ours, and an analysis."""
    from ctx_pipeline import CtxRotCallback

    with tempfile.TemporaryDirectory() as folder:
        off = CtxRotCallback(Path(folder) / "off.db")
        on = CtxRotCallback(Path(folder) / "on.db", store_content=True)
        kinds = {"none": [], "idle": [_nothing()], "off": [off], "on": [on]}
        best = dict.fromkeys(kinds, float("inf"))
        for _ in range(many(ROUNDS)):
            for name, callbacks in kinds.items():
                with _program(callbacks) as ask:
                    _per_call(ask)
                    best[name] = min(best[name], _per_call(ask))
        hooks, with_content = _hooks(off), _hooks(on, _TEXT, 500)
        # the writer works beside the caller: only the caller's own time can be compared with serialising alone
        own = min(
            (_hooks(on, _TEXT, 500, time.thread_time) - _hooks(off, "hi", 500, time.thread_time)) / _serialising(_TEXT)
            for _ in range(many(ROUNDS))
        )
        off.close()
        on.close()
        lost = off.counts.lost + on.counts.lost
    return [
        Row("dspy run with one model call, no callback", best["none"], "ms"),
        Row("dspy run, a callback that does nothing", best["idle"], "ms"),
        Row("dspy run, ours, content off (2 modules hooks, 2 model hooks)", best["off"], "ms"),
        Row("dspy run, ours, content on", best["on"], "ms"),
        Row("callback, added to one model call, content off", hooks, "ms"),
        Row("callback, added to one model call of 20 kB, content on", with_content, "ms"),
        Row("callback, content on less content off, ratio to serialising", own, "x"),
        Row("callback, ratio to a run without one", best["off"] / best["none"], "x"),
        Row("callback, rows lost", lost, ""),
        *_analysis(),
    ]


def _serialising(text: str) -> float:
    """Return milliseconds that the messages and the answer of a call take to become JSON that is kept, the median."""
    taken, kept = [], []
    for _ in range(many(500)):
        began = time.thread_time()
        kept += [msgspec.json.encode([{"role": "user", "content": text}]), msgspec.json.encode([text])]
        taken.append((time.thread_time() - began) * 1000)
    return statistics.median(taken)


def _hooks(callback: Any, text: str = "hi", calls: int = 5_000, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return milliseconds that the start and the end of a model call take in our hooks, the median."""

    class Model:
        model = "m"
        kwargs: dict[str, Any] = {"temperature": 0.0, "max_tokens": 1000}  # noqa: RUF012 - as DSPy has it
        num_retries = 3
        history: list[Any] = []  # noqa: RUF012

    model = Model()
    taken = []
    for n in range(many(calls, 20)):
        outputs = [text]
        entry = {"outputs": outputs, "usage": {"prompt_tokens": 1000, "completion_tokens": 5}, "cost": 0.001, "response": None}
        model.history.append(entry)
        inputs = {"prompt": None, "messages": [{"role": "user", "content": text}], "kwargs": {}}
        began = clock()
        callback.on_lm_start(f"c{n}", model, inputs)
        callback.on_lm_end(f"c{n}", outputs)
        taken.append((clock() - began) * 1000)
    return statistics.median(taken)


def _analysis() -> list[Row]:
    from ctx_pipeline import CtxRotStore, analyze_session

    rng = random.Random(1)
    words = [f"w{n}" for n in range(3_000)]
    base = [rng.choice(words) for _ in range(400)]
    rows = []
    for name, texts in (
        ("different", [" ".join(rng.choice(words) for _ in range(400)) for _ in range(many(1_000, 20))]),
        ("nearly equal", [" ".join([*base[:n], str(n), *base[n + 1 :]]) for n in (rng.randrange(400) for _ in range(many(1_000, 20)))]),
    ):
        with tempfile.TemporaryDirectory() as folder, CtxRotStore(Path(folder) / "a.db") as store:
            store.insert_session("s", 1.0)
            for n, text in enumerate(texts):
                store.insert_lm_call(
                    id=str(n), session_id="s", seq=n, model="m", started_at=1.0, ended_at=1.0, messages_json="[]", completion=text
                )
            began = time.process_time()
            analyze_session(store, "s")
            rows.append(Row(f"analyze 1,000 calls of 400 words, {name}", time.process_time() - began, "s", _PEER_ANALYSIS))
    return rows
