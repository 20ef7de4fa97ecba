"""What the pipeline made: listed, searched with a rank that saturates, indexed when it changed, removed with its rows."""

from __future__ import annotations

import pytest

from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.pipeline.forget.sessions import Selection, forget
from ctx_pipeline.sessions.artifacts import documents_below
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.text_index import LONGEST_CHUNK, ArtifactIndex, Document, chunks_of
from ctx_pipeline_tests.sessions.conftest import WORK, Shop

PAGE = """intro line

# Prices

All prices are in cents.

```python
# not a heading
```

## Rounding

Rounding happens once, at the till.

# Basket
An empty basket costs nothing.
"""


def indexed(own: Shop, monkeypatch, *words: str):
    return own.json(monkeypatch, "artifacts", *words)


@pytest.mark.feature("session.artifacts", "session.artifact-registry")
def test_a_snapshot_registers_itself_and_is_listed_shown_and_removed(own: Shop, monkeypatch):
    kept = own.json(monkeypatch, "session", "snapshot")
    (listed,) = indexed(own, monkeypatch, "list")["artifacts"]

    assert (listed["artifact_id"], listed["kind"], listed["session_id"]) == (kept["artifact_id"], "snapshot", WORK)
    assert listed["bytes"] == kept["bytes"]
    assert own.ctx(monkeypatch, "artifacts", "show", kept["artifact_id"]).stdout == kept["xml"]
    assert own.ctx(monkeypatch, "artifacts", "remove", kept["artifact_id"]).stdout == f"{kept['artifact_id']} removed\n"
    assert own.ctx(monkeypatch, "artifacts").stdout == "nothing was made yet\n"
    assert isinstance(own.ctx(monkeypatch, "artifacts", "show", "snapshot-99").exception, UnknownName)
    assert isinstance(own.ctx(monkeypatch, "artifacts", "show").exception, UsageError)


@pytest.mark.feature("session.artifacts-index", "session.artifacts-search")
def test_documents_are_indexed_when_they_change_and_removing_one_removes_its_rows(own: Shop, monkeypatch):
    page = own.clone / "docs" / "shop.md"
    page.write_text(PAGE)
    (own.clone / "docs" / "picture.png").write_bytes(b"\0")
    first = indexed(own, monkeypatch, "index", str(own.clone / "docs"))
    second = indexed(own, monkeypatch, "status")
    page.write_text(PAGE.replace("till", "counter"))
    third = indexed(own, monkeypatch, "status")

    assert first == {"documents": 1, "chunks": 4, "added": 1, "changed": 0, "unchanged": 0, "removed": 0}
    assert (second["added"], second["unchanged"]) == (0, 1)
    assert (third["changed"], third["chunks"]) == (1, 4)
    (hit,) = indexed(own, monkeypatch, "search", "counter")["results"]
    assert (hit["name"], hit["heading"], hit["line"], hit["snippet"]) == (
        "shop.md",
        "Prices > Rounding",
        11,
        "## Rounding\n\nRounding happens once, at the [counter].\n",
    )
    assert indexed(own, monkeypatch, "search", "till")["results"] == []
    indexed(own, monkeypatch, "remove", hit["document"])
    assert indexed(own, monkeypatch, "search", "counter")["results"] == []
    assert page.exists()
    assert b"counter" not in (own.settings.home / "artifacts.db").read_bytes()


def test_a_document_that_cannot_be_read_any_more_is_left_out(own: Shop, monkeypatch):
    page = own.clone / "docs" / "shop.md"
    page.write_text(PAGE)
    indexed(own, monkeypatch, "index", str(page))
    page.unlink()
    page.mkdir()

    assert indexed(own, monkeypatch, "search", "till")["results"] == []
    assert own.ctx(monkeypatch, "artifacts", "--kind", "document").stdout == "nothing of the kind document is there\n"


def test_a_cleanup_takes_what_goes_out_of_the_index_too(own: Shop, monkeypatch):
    for name in ("marmalade", "jam"):
        own.ctx(monkeypatch, "session", "task", name)
        own.ctx(monkeypatch, "session", "snapshot")
    indexed(own, monkeypatch, "status")
    assert b"marmalade" in (own.settings.home / "artifacts.db").read_bytes()
    own.ctx(monkeypatch, "session", "cleanup", "--days", "0", "--yes")

    assert b"marmalade" not in (own.settings.home / "artifacts.db").read_bytes()
    assert [hit["name"] for hit in indexed(own, monkeypatch, "search", "jam")["results"]] == [f"snapshot of {WORK[:12]}"]


@pytest.mark.feature("session.artifacts-search")
def test_saying_a_word_often_does_not_outrank_saying_what_was_asked(tmp_path):
    texts = {"often": "token " * 200, "right": "the token of the till is refreshed each day", "other": "the till is green"}
    index = ArtifactIndex(tmp_path / "a.db")
    index.sync(Document(name, name, "document", "1", lambda text=text: text) for name, text in texts.items())

    assert index.search("token refreshed till", limit=3)[0].document == "right"
    # said two hundred times it counts less than twice
    once, often = sorted(index.search("token", limit=3), key=lambda f: f.document == "often")
    assert often.score < 2 * once.score
    assert index.search("nothing-like-it", limit=3) == []
    assert index.search('" OR *', limit=3) == []
    index.close()


@pytest.mark.feature("session.artifacts-search")
def test_chunks_follow_headings_and_cut_no_word():
    found = chunks_of(PAGE)

    assert [(c.heading, c.line) for c in found] == [("", 1), ("Prices", 3), ("Prices > Rounding", 11), ("Basket", 15)]
    assert "# not a heading" in found[1].body
    long = "\n".join(f"word{n} " * 10 for n in range(100))
    parts = chunks_of(f"# Long\n{long}")
    assert len(parts) > 1
    assert all(len(c.body) <= LONGEST_CHUNK + 100 for c in parts)
    assert " ".join(" ".join(c.body for c in parts).split()) == " ".join(f"# Long\n{long}".split())


@pytest.mark.feature("session.artifacts-index")
def test_forgetting_a_session_takes_its_artifacts_out_of_the_index(own: Shop, monkeypatch):
    own.json(monkeypatch, "session", "snapshot")
    assert indexed(own, monkeypatch, "search", "discounts")["results"]
    with open_store(own.settings) as store:
        forget(store, own.settings, Selection("claude", WORK))

    assert indexed(own, monkeypatch, "search", "discounts")["results"] == []
    assert b"discounts" not in (own.settings.home / "artifacts.db").read_bytes()


def test_what_is_no_document_is_refused(own: Shop):
    with pytest.raises(UsageError, match="is no document"):
        documents_below([str(own.clone / "nowhere.md")])
    assert documents_below([str(own.clone / "docs")]) == []
