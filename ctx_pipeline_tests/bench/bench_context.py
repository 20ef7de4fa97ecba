"""What stores, windows, searches and context trees cost; budgets from the issue, the peers' figures beside them."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

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
from ctx_pipeline_tests.bench.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable


def best(work: Callable[[], object], times: int = 5) -> float:
    """Return the seconds of the fastest of some runs."""
    found = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - began)
    return found


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
    talk = messages(100_000)
    part = talk[:20_000]
    exact = tokenizer_from_name("gpt-4")
    once = best(lambda: exact.count_many([m["content"] for m in part]), 2)
    fresh = best(lambda: ContextBuilder(exact).build(part, 10_000), 2)
    return [
        Row("window: 100k messages, words, all fit (peer 0.6 s)", best(lambda: ContextBuilder().build(talk, 10**9), 3), "s", 0.3),
        Row("window: 100k messages, words, truncated (peer 1.7-2.4 s)", best(lambda: ContextBuilder().build(talk, 100_000), 3), "s", 0.3),
        Row("window: 20k messages, tiktoken, against encoding once", fresh / once, "x", 1.15),
    ]


def _stores() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        memory = SQLiteMemory(Path(folder) / "chat.db")
        memory.sync.save_context("s", messages(20_000))
        rows = [
            Row(
                "store: append to 20k messages (peer 195 ms)",
                1000 * best(lambda: memory.sync.append_context("s", messages(1)), 20),
                "ms",
                5,
            ),
            Row("store: load the last of 20k (peer 39 ms)", 1000 * best(lambda: memory.sync.load_context("s", 1), 20), "ms", 5),
        ]
        memory.close()
    return rows


def _searches() -> list[Row]:
    store = InMemoryEmbeddingStore()
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(10_000, 768))

    async def search() -> float:
        for number, vector in enumerate(vectors):
            await store.add("s", str(number), vector)
        found = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            await store.search("s", vectors[7], 5)
            found = min(found, time.perf_counter() - began)
        return found

    return [Row("search: 10k vectors of 768 dimensions (peer 60 ms)", 1000 * asyncio.run(search()), "ms", 5)]


def _trees() -> list[Row]:
    context = Context()
    for number in range(10_000):
        context.pact_insert("d0, 1", TextContent(f"c{number}", key=f"k{number}", tags=[f"t{number % 10}"]))
    rows = [Row("tree: seal 10k components (peer 1.8-2.1 s)", 1000 * best(lambda: context.seal("x")), "ms", 5)]
    for selector in (".block", "+t3", "#k5", "^ah .block", ".block[ttl=null]", ".block[priority<=0]", "^ah > .block:first"):
        context.select(selector)
        took = best(lambda s=selector: context.select(s))  # type: ignore[misc]
        rows.append(Row(f"tree: select {selector} of 10k, warm", 1000 * took, "ms", 5))
    rows.append(Row("tree: commit with 10k components (peer 54 ms)", 1000 * best(context.commit, 3), "ms", 5))
    return rows


def _histories() -> list[Row]:
    tracemalloc.start()
    context = Context()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(10_000):
        context.add_user(f"message {number}")
        context.commit()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    rows = [
        Row("history: memory of 10k snapshots of a growing context", used / 1e6, "MB", 150),
        Row("history: open snapshot 5,000 of 10,000", 1000 * best(lambda: context.history.at_snapshot(5000)["d1, 0, 0"]), "ms", 5),
        Row("history: difference of two neighbours, 20k nodes", best(lambda: context.history.diff(9_999, 10_000), 3), "s", 0.5),
    ]
    with tempfile.TemporaryDirectory() as folder:
        kept = Context(history=ContextHistory(Path(folder) / "history.jsonl"))
        for number in range(10_000):
            kept.pact_insert("d0, 1", f"c{number}")
        kept.seal("x")
        kept.pact_insert("d0, 1", "one more")
        rows.append(Row("history: seal 10k components to disk, one changed", 1000 * best(lambda: kept.seal("x"), 3), "ms", 50))
    return rows
