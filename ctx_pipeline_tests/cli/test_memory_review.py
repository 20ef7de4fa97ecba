"""A person reviews memories from the command line: each word of theirs is one fact of the journal, and the last one counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from ctx_pipeline_tests.cli.conftest import Ctx


def facts(ctx: Ctx) -> list[str]:
    with closing(sqlite3.connect(ctx.store / "journal.db")) as journal:
        return [kind for (kind,) in journal.execute("SELECT kind FROM facts WHERE kind LIKE 'memory.%' ORDER BY id")]


def statuses(ctx: Ctx, *words: str) -> dict[str, str]:
    return {m["memory_id"]: m["status"] for m in ctx.json("memory", "list", *words)["memories"]}


def found(ctx: Ctx, query: str) -> list[str]:
    return [m["memory_id"] for m in ctx.json("memory", "retrieve", "--everywhere", "--query", query)["memories"]]


@pytest.mark.feature("memory.review")
def test_memories_are_listed_shown_accepted_rejected_and_retired_and_each_change_is_one_fact(bare: Ctx):
    notes = bare.folder / "notes"
    notes.mkdir()
    for name, text in (
        ("walrus", "The walrus is fed at noon."),
        ("otter", "The otter sleeps until ten."),
        ("heron", "The heron eats alone."),
    ):
        (notes / f"{name}.md").write_text(text, "utf-8")
    bare("memory", "import-authored", "notes")
    before = facts(bare)

    assert statuses(bare) == dict.fromkeys(("walrus", "otter", "heron"), "accepted")
    assert "The otter sleeps until ten." in bare("memory", "show", "otter").stdout
    assert bare.json("memory", "reject", "otter")["status"] == "rejected"
    assert bare.json("memory", "retire", "heron")["status"] == "retired"
    assert bare.json("memory", "accept", "walrus")["status"] == "accepted"

    assert statuses(bare) == {"walrus": "accepted", "otter": "rejected", "heron": "retired"}
    assert statuses(bare, "--status", "retired") == {"heron": "retired"}
    assert facts(bare)[len(before) :] == ["memory.rejected", "memory.retired", "memory.accepted"]
    assert [found(bare, animal) for animal in ("walrus", "otter", "heron")] == [["walrus"], [], []]

    bare("memory", "accept", "otter")
    assert statuses(bare)["otter"] == "accepted"
    assert found(bare, "otter") == ["otter"]
    assert facts(bare)[-1] == "memory.accepted"
