"""The documented example of a new mining method, from a file of one's own to a memory."""

from __future__ import annotations

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.mining.base import MiningContext, memory_id
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.consolidate import consolidate
from ctx_pipeline.pipeline.index import index_memory
from ctx_pipeline.pipeline.mine import mine
from ctx_pipeline.pipeline.plan import graph
from ctx_pipeline.storage import open_store
from ctx_pipeline_tests.factories.stores import CELL, normalized
from ctx_pipeline_tests.factories.views import view

SEED_EXAMPLE = """\
from ..base import MiningContext, MiningResult, MemoryCandidate, register_method, memory_id

@register_method("my_method", description="…")
def mine_my_method(ctx: MiningContext) -> MiningResult:
    candidates = [
        MemoryCandidate(
            id=memory_id(ctx.session_id, "my_method", 1),
            method="my_method",
            kind="procedure",
            text="…",
            when_to_use="…",
            evidence_refs=[ev.event_id for ev in ctx.events[:3]],
            confidence=0.6,
            priority=4,
        )
    ]
    return MiningResult(
        session_id=ctx.session_id, host=ctx.host, method="my_method",
        task_summary=ctx.task_summary(), candidates=candidates,
    )
"""
"""The example of a new method in retro's README, letter by letter."""


@pytest.fixture
def store(chosen):
    folder = chosen.home / "config" / "methods"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(SEED_EXAMPLE.replace("from ..base", "from ctx_pipeline.mining.base"), "utf-8")
    discovery.look_in(chosen.home / "config")
    discovery.reload()
    with open_store(chosen) as opened:
        yield opened
    discovery.look_in(None)
    discovery.reload()


@pytest.mark.feature("mining.seed-example")
def test_the_documented_example_of_a_new_method_runs_as_written_and_becomes_a_memory(store, chosen):
    normalized(store, view("a").prompt("go").shell("ls").answer("fine"), view("b").prompt("hm"))
    asset = graph(code_versions.versions(store.files, chosen))["mined/my_method"]
    assert (asset.stage, asset.partitioned) == ("mine", True)

    report = mine(store, chosen, methods=["my_method"], cells=[CELL])

    assert report.totals == {"sessions": 2, "candidates": 2, "errors": 0}
    rows = store.lake.read_rows("candidates", CELL, "mined/my_method")
    assert [(r.session_id, r.kind, r.text, r.when_to_use, r.confidence, r.priority, r.evidence) for r in rows if r.session_id == "a"] == [
        ("a", "procedure", "…", "…", 0.6, 4, ["a.e0", "a.e1", "a.e2"])
    ]
    mine(store, chosen, cells=[CELL])
    consolidate(store, chosen)
    index_memory(store, chosen)
    (kept,) = store.memories.memories()
    assert (kept.text, kept.methods, sorted(kept.sessions)) == ("…", ["my_method"], ["claude/a", "claude/b"])


@pytest.mark.feature("mining.seed-example")
def test_a_method_of_ones_own_is_made_again_when_its_version_rises(store, chosen):
    normalized(store, view("a").prompt("go"))
    mine(store, chosen, methods=["my_method"], cells=[CELL])
    assert mine(store, chosen, methods=["my_method"], cells=[CELL]).cells[CELL.key].status == "unchanged"
    path = chosen.home / "config" / "methods" / "mine.py"
    path.write_text(
        path.read_text("utf-8").replace('description="…"', 'description="…", version=2').replace('text="…"', 'text="new"'), "utf-8"
    )
    discovery.reload()
    mine(store, chosen, methods=["my_method"], cells=[CELL])
    assert [r.text for r in store.lake.read_rows("candidates", CELL, "mined/my_method")] == ["new"]


@pytest.mark.feature("mining.seed-example")
def test_a_method_added_after_the_versions_were_kept_is_an_asset_and_an_edited_one_has_its_new_version(store, chosen):
    assert "mined/my_method" in code_versions.versions(store.files, chosen).assets
    folder = chosen.home / "config" / "methods"
    (folder / "later.py").write_text((folder / "mine.py").read_text("utf-8").replace("my_method", "later_one"), "utf-8")
    discovery.reload()
    assert code_versions.versions(store.files, chosen).assets["mined/later_one"].startswith("1.")
    (folder / "later.py").write_text(
        (folder / "later.py").read_text("utf-8").replace('description="…"', 'description="…", version=7'), "utf-8"
    )
    discovery.reload()
    assert code_versions.versions(store.files, chosen).assets["mined/later_one"].startswith("7.")


RAISING = """
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import MemoryCandidate

def extract(view):
    yield MemoryCandidate("case", "drawn", evidence_refs=[view.events[0].event_id], structured={"a": 1})

def combine(rows):
    for row in rows:
        yield row._replace(text=f"drawn with {row.body['a']}")

LATER = Method(name="later", version=1, describe="A method that compares.", extract=extract, combine=combine, reads=("events",))
"""


@pytest.mark.feature("memory.other-versions")
def test_merging_draws_anew_what_another_version_of_a_method_drew_and_outlives_one_that_raises(store, chosen):
    path = chosen.home / "config" / "methods" / "later.py"
    path.write_text(RAISING, "utf-8")
    discovery.reload()
    normalized(store, view("a").prompt("go"))
    mine(store, chosen, cells=[CELL])
    assert texts(store, chosen) == ({"…", "drawn with 1"}, 0)

    path.write_text(RAISING.replace("version=1", "version=2").replace('"a": 1', '"b": 2').replace("['a']", "['b']"), "utf-8")
    discovery.reload()
    assert texts(store, chosen) == ({"…", "drawn with 2"}, 0)

    path.write_text(RAISING.replace("version=1", "version=3").replace("['a']", "['c']"), "utf-8")
    discovery.reload()
    assert texts(store, chosen) == ({"…"}, 1)


def texts(store, chosen):
    totals = consolidate(store, chosen, force=True).totals
    index_memory(store, chosen)
    return {m.text for m in store.memories.memories()}, totals["errors"]


@pytest.mark.feature("mining.seed-example")
def test_the_documented_helpers_say_what_the_task_was():
    built = view("a").injected("a hook").prompt("  fix\nthe loader ").prompt("now").build()
    assert MiningContext(built.session, built.events).task_summary() == "fix the loader"
    long = MiningContext(built.session, view("a").prompt("word " * 100).build().events).task_summary()
    assert len(long) <= 220
    assert long.endswith("…")
    assert MiningContext(built.session, []).task_summary() == ""
    assert memory_id("s", "m", 2) == "s:m:2"
