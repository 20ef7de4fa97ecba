"""What stores, windows, searches and context trees cost, in CPU time; budgets from the issue, the peers' figures beside them."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ctx_pipeline import (
    Context,
    ContextBuilder,
    ContextHistory,
    InMemoryEmbeddingStore,
    SQLiteMemory,
    TextContent,
    tokenizer_from_name,
)
from ctx_pipeline.context.recorded import replay_window
from ctx_pipeline_tests.bench.rows import Row, many

if TYPE_CHECKING:
    from collections.abc import Callable


def best(work: Callable[[], object], times: int = 5) -> float:
    """Return the CPU seconds of the cheapest of some runs, all threads together."""
    found = float("inf")
    for _ in range(times):
        began = time.process_time()
        work()
        found = min(found, time.process_time() - began)
    return found


def each(work: Callable[[], object], times: int = 200) -> float:
    """Return the CPU milliseconds of one of many short runs."""
    times = many(times)
    return 1000 * min(best(lambda: [work() for _ in range(times)], 1) for _ in range(3)) / times


def messages(count: int, *, seed: int = 3) -> list[dict[str, str]]:
    """Return messages of 50 different words, a second apart."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(5000)]
    return [
        {
            "id": str(number),
            "role": "user",
            "content": " ".join(rng.choices(words, k=50)),
            "timestamp": f"2024-01-{1 + number // 86400:02d}T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
        }
        for number in range(count)
    ]


def context_rows() -> list[Row]:
    """Return every figure of the context library."""
    return [*_windows(), *_stores(), *_searches(), *_trees(), *_histories()]


def _windows() -> list[Row]:
    talk = messages(many(100_000))
    part = talk[: many(20_000)]
    exact = tokenizer_from_name("gpt-4")
    once = best(lambda: exact.count_many([m["content"] for m in part]), 2)
    fresh = best(lambda: ContextBuilder(exact).build(part, 10_000), 2)
    kept = ContextBuilder(exact)
    kept.build(part, 10_000)
    again = best(lambda: kept.build(part, 10_000), 2)
    return [
        Row("window: 100k messages, words, all fit", best(lambda: ContextBuilder().build(talk, 10**9), 3), "s", 0.6),
        Row("window: 100k messages, words, truncated", best(lambda: ContextBuilder().build(talk, 100_000), 3), "s", 1.7),
        Row("window: 100k messages, words, summarised five at a time", best(lambda: _summarised(talk), 2), "s", 44),
        Row("window: 20k messages, tiktoken, against encoding once", fresh / once, "x"),
        Row("window: 20k messages, tiktoken, built again, against encoding", again / once, "x"),
    ]


def _summarised(talk: list[dict[str, Any]]) -> Any:
    return ContextBuilder().build(talk, 100_000, "summarize_oldest", {"summarizer": lambda _: "so far"})


def _stores() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        memory = SQLiteMemory(Path(folder) / "chat.db")
        memory.sync.save_context("s", messages(many(20_000)))
        one = messages(1)
        rows = [
            Row("store: append to 20k messages", each(lambda: memory.sync.append_context("s", one), 50), "ms", 195),
            Row("store: load the last of 20k", each(lambda: memory.sync.load_context("s", 1), 50), "ms", 39),
        ]
        memory.close()
    return rows


def _searches() -> list[Row]:
    store = InMemoryEmbeddingStore()
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(many(10_000), 768))

    async def fill() -> None:
        for number, vector in enumerate(vectors):
            await store.add("s", str(number), vector)
        await store.search("s", vectors[7], 5)

    async def search() -> None:
        for _ in range(20):
            await store.search("s", vectors[7], 5)

    asyncio.run(fill())
    # wall time: the threads of the linear algebra library count their waiting as CPU time
    took = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        asyncio.run(search())
        took = min(took, time.perf_counter() - began)
    return [Row("search: 10k vectors of 768 dimensions", 1000 * took / 20, "ms", 60)]


_SELECTORS = {
    ".block": 175.0,
    "+t3": 24.0,
    "#k5": 0.1,
    "^ah .block": 63.0,
    ".block[ttl=null]": 175.0,
    ".block[priority<=0]": None,
    "^ah > .block:first": None,
}
"""Selector -> milliseconds of the peer, where it understands it."""


def _trees() -> list[Row]:
    context = Context()
    for number in range(many(10_000)):
        context.pact_insert("d0, 1", TextContent(f"c{number}", key=f"k{number}", tags=[f"t{number % 10}"]))
    rows = [Row("tree: seal 10k components", each(lambda: context.seal("x")), "ms", 1800)]
    for selector, peer in _SELECTORS.items():
        context.select(selector)
        rows.append(Row(f"tree: select {selector} of 10k, warm", each(lambda s=selector: context.select(s), 50), "ms", peer))  # type: ignore[misc]
    rows.append(Row("tree: select, the slowest of seven selectors of 10k, warm", max(row.value for row in rows[1:]), "ms"))
    rows.append(Row("tree: commit with 10k components", each(context.commit, 50), "ms", 54))
    return [*rows, *_changes(context)]


def _changes(context: Context) -> list[Row]:
    """Return what a seal after one change keeps in memory, in a context of ten thousand components."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(100):
        context.pact_insert("d0, 1", f"one more {number}")
        context.seal("x")
    used = (tracemalloc.get_traced_memory()[0] - before) / 100
    tracemalloc.stop()
    # the peer keeps a full copy: RSS rises by 47 MB over three seals
    return [Row("tree: memory of one change and its seal, 10k components", used / 1000, "kB", 15_700)]


def _histories() -> list[Row]:
    tracemalloc.start()
    context = Context()
    before = tracemalloc.get_traced_memory()[0]
    count = many(10_000)
    for number in range(count):
        context.add_user(f"message {number}")
        context.commit()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    history = context.history
    rows = [
        Row("history: memory of 10k snapshots of a growing context", used / 1e6, "MB"),
        Row("history: open snapshot 5,000 of 10,000", each(lambda: history.at_snapshot(count // 2)["d1, 0, 0"], 50), "ms"),
        Row("history: list 10,000 triggers", best(lambda: [s["trigger"] for s in history.snapshots.values()])),
        Row("history: difference of two neighbours, 20k nodes", best(lambda: history.diff(count - 1, count), 3)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        kept = Context(history=ContextHistory(Path(folder) / "history.jsonl"))
        for number in range(count):
            kept.pact_insert("d0, 1", f"c{number}")
        kept.seal("x")
        kept.pact_insert("d0, 1", "one more")
        rows.append(Row("history: seal 10k components to disk, one changed", 1000 * best(lambda: kept.seal("x"), 3), "ms", 2300))
        size = Path(folder, "history.jsonl").stat().st_size
        for _ in range(20):
            kept.pact_insert("d0, 1", "y")
            kept.seal("x")
        grown = (Path(folder, "history.jsonl").stat().st_size - size) / 20
        rows.append(Row("history: bytes on disk of one change and its seal", grown / 1000, "kB", 17_300))
    return [*rows, *_recorded()]


def _recorded() -> list[Row]:
    """Return what rebuilding the window of a session of ten thousand events costs."""
    kinds = ("prompt", "answer", "tool_call", "tool_result", "answer")
    events = [
        SimpleNamespace(
            event_id=f"e{n}", seq=n, kind=kinds[n % 5], text=f"text {n}", call_id=None, call_key=None, parent_id=None, subtype=None, ts=n
        )
        for n in range(many(10_000))
    ]
    return [Row("history: window of a session of 10k events", best(lambda: replay_window(events), 2))]
