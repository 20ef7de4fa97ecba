"""How long retrieval takes over 100,000 memories."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from pathlib import Path

from ctx_pipeline.memory.ranking import LEAST_COVERED, rank, words_of
from ctx_pipeline.memory.scope import Place, visible
from ctx_pipeline.model.memories import Memory
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.lessons.memory_files import import_authored
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.memory_index import MemoryIndex
from ctx_pipeline_tests.bench.rows import Row, many

ITEMS = 100_000
QUERIES = 200
_PROGRAMS = (
    "pytest",
    "go test",
    "cargo test",
    "npm run build",
    "mise run lint",
    "ruff check",
    "mypy",
    "docker build",
    "terraform plan",
    "uv sync",
)
_KINDS = ("failure_trigger", "tool_lesson", "user_preference")


def synthetic(items: int | None = None, *, seed: int = 7) -> list[Memory]:
    """Return memories whose words are drawn with Zipf's frequencies, over 200 repositories."""
    items = items or many(ITEMS)
    rng = random.Random(seed)
    words = [
        f"{rng.choice('bcdfglmnprst')}{rng.choice('aeiou')}{rng.choice('bcdfglmnprst')}{rng.choice('aeiou')}{n:x}" for n in range(20_000)
    ]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    drawn = iter(rng.choices(words, weights, k=items * 20))
    made = []
    for n in range(items):
        program = rng.choice(_PROGRAMS)
        said = " ".join(next(drawn) for _ in range(18))
        name = f"{next(drawn)}_{next(drawn)}.py"
        made.append(
            Memory(
                f"mem-{n:012x}",
                rng.choice(_KINDS),
                f"`{program}` failed with “{said}”; it passed after changes in `src/{name}`.",
                f"`{program}` fails",
                repository=f"github.com/acme/project-{rng.randrange(200)}",
                confidence=rng.random(),
                support=rng.randrange(1, 5),
                last_ts=1_790_000_000_000_000 + n,
            )
        )
    return made


def queries(memories: list[Memory], count: int = QUERIES, *, seed: int = 11) -> list[str]:
    """Return questions that hold some words of one memory among ordinary ones."""
    rng = random.Random(seed)
    asked = []
    for memory in rng.sample(memories, count):
        words = memory.text.split("“")[1].split("”")[0].split()
        asked.append(f"why does the build fail with {' '.join(rng.sample(words, 4))} when I run the tests")
    return asked


def memory_rows() -> list[Row]:
    """Return the time of a rebuild, and of a retrieval the median, the 95th percentile and the longest."""
    memories = synthetic()
    with tempfile.TemporaryDirectory() as folder:
        index = MemoryIndex(Path(folder) / "memory.db")
        began = time.perf_counter()
        index.rebuild(memories)
        rebuilt = time.perf_counter() - began
        rows = [Row(f"memory: rebuild over {ITEMS:,} items", rebuilt)]
        for label, place in (("everywhere", None), ("one repository", Place("/w/p", ("/w/p",), ("github.com/acme/project-7",)))):
            times, found = [], 0
            for query in queries(memories, many(QUERIES, 5)):
                began = time.perf_counter()
                hits = index.recall(
                    words_of(query), allowed=lambda s, r, c, at=place: at is None or visible(s, r, c, at), least=LEAST_COVERED
                )
                ranked = rank(hits, place=place, now=1_800_000_000_000_000, linked=index.get, everywhere=place is None)
                times.append(time.perf_counter() - began)
                found += bool(ranked)
            ordered = sorted(times)
            rows.append(Row(f"memory: retrieve, {label}, median", statistics.median(ordered) * 1000, "ms"))
            rows.append(Row(f"memory: retrieve, {label}, 95th percentile", ordered[int(len(ordered) * 0.95)] * 1000, "ms"))
            rows.append(Row(f"memory: retrieve, {label}, longest", ordered[-1] * 1000, "ms"))
            rows.append(Row(f"memory: retrieve, {label}, answered", found / len(times), "share"))
        index.close()
    return rows


if __name__ == "__main__":
    for row in memory_rows():
        print(f"{row.name:60} {row.value:10.3f} {row.unit}")


def import_rows() -> list[Row]:
    """Return what four times the notes cost, as a multiple; linear work makes it four at most, quadratic work sixteen."""
    took = {}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder, "store"))
        store = open_store(settings)
        for count in (many(250, 5), many(1000, 20)):
            notes = Path(folder, str(count))
            notes.mkdir()
            for n in range(count):
                (notes / f"n{n}.md").write_text(f"Lesson {n} of many: [[n{(n * 7) % count}]]\n")
            began = time.process_time()
            import_authored(store, settings, notes)
            consolidate(store, settings)
            index_memory(store, settings)
            took[count] = time.process_time() - began
    few, more = sorted(took)
    return [Row("memory: import of 1,000 notes against 250", took[more] / took[few], "x")]
