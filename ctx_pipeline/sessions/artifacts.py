"""What the pipeline made and kept: snapshots and other artifacts of sessions, the page, and documents that a person added."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.recorded_paths import FILE as FILE_THERE
from ctx_pipeline.recorded_paths import look_at, read
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.session_notes import made_of
from ctx_pipeline.storage.text_index import FILE, ArtifactIndex, Document, Found, Synced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

DOCUMENT = "session.document"
"""Kind of the facts that add a person's document, or take it away."""

LARGEST = 2_000_000
"""Bytes of a document; a larger one is not indexed."""

ENDINGS = frozenset(
    {".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc", ".json", ".yaml", ".yml", ".toml", ".sql", ".proto", ".tf", ".sh"}
)
"""Endings of documents."""
_SITE = "site/index.html"


class Artifact(NamedTuple):
    """One thing that is there."""

    artifact_id: str
    kind: str
    name: str
    at: str | None
    bytes: int
    host: str | None
    session_id: str | None
    path: str | None
    """where it lies, for what is a file of its own"""


def artifacts(*, kind: str | None = None, settings: Settings) -> list[Artifact]:
    """Return everything that is there, oldest first; documents last."""
    with reading(settings) as (store, _):
        found = [*_made(store), *_documents(store)]
    return [a for a in found if kind in {None, a.kind}]


def _made(store: Store) -> Iterator[Artifact]:
    for m in made_of(store):
        yield Artifact(m.artifact_id, m.kind, m.name, m.at, m.bytes, m.host, m.session_id, None)
    if store.files.exists(_SITE):
        path = store.files.local(_SITE)
        yield Artifact("site", "report", "the page of ctx dashboard", None, path.stat().st_size, None, None, str(path))


def _documents(store: Store) -> Iterator[Artifact]:
    for path in sorted(_added(store)):
        found = look_at(path)
        if found.kind == FILE_THERE and read(path, 1) is not None:
            yield Artifact(f"doc-{digest('document', path, size=12)}", "document", Path(path).name, None, found.size, None, None, path)


def _added(store: Store) -> list[str]:
    known: dict[str, bool] = {}
    for fact in store.journal.facts(DOCUMENT) if store.journal.is_there() else ():
        known[str(fact.payload.get("path"))] = not fact.payload.get("removed")
    return [path for path, there in known.items() if there]


def content(artifact_id: str, *, settings: Settings) -> tuple[Artifact, str]:
    """Return an artifact with its text, secrets out; raises UnknownName."""
    with reading(settings) as (store, _):
        one = _named(store, artifact_id)
        kept = next((m for m in made_of(store) if m.artifact_id == one.artifact_id), None)
        if kept is not None:
            return one, kept.content
    return one, _text(one.path or "", settings)


def _named(store: Store, artifact_id: str) -> Artifact:
    known = {a.artifact_id: a for a in (*_made(store), *_documents(store))}
    if artifact_id not in known:
        raise UnknownName("artifact", artifact_id[:80], known)
    return known[artifact_id]


def _text(path: str, settings: Settings) -> str:
    return Redactor(settings.patterns).redact((read(path, LARGEST) or b"").decode("utf-8", "replace"))


def documents_below(paths: list[str]) -> list[str]:
    """Return the documents that paths name, folders with all below them but what is hidden; raises UsageError for what is none."""
    found: dict[str, None] = {}
    for name in paths:
        path = Path(os.path.abspath(name))  # noqa: PTH100 - links stay as they are named
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
                found |= dict.fromkeys(f"{folder}/{n}" for n in sorted(names) if _fits(Path(folder, n)))
        elif _fits(path):
            found[str(path)] = None
        else:
            raise UsageError(
                f"{name} is no document", hint=f"a file of at most {LARGEST:,} bytes that ends in {', '.join(sorted(ENDINGS))}"
            )
    return list(found)


def _fits(path: Path) -> bool:
    try:
        return not path.name.startswith(".") and path.suffix.lower() in ENDINGS and path.is_file() and path.stat().st_size <= LARGEST
    except OSError:
        return False


def indexed(*, afresh: bool = False, settings: Settings) -> tuple[Synced, dict[str, int]]:
    """Bring the index to what is there now, and return what changed and how much it holds; ``afresh`` makes it anew."""
    with reading(settings) as (store, _):
        wanted = list(_wanted(store, settings))
        if afresh:
            store.files.remove(FILE)
        index = ArtifactIndex(store.home / FILE)
        try:
            return index.sync(wanted), index.counts()
        finally:
            index.close()


def _wanted(store: Store, settings: Settings) -> Iterator[Document]:
    for m in made_of(store):
        yield Document(m.artifact_id, m.name, m.kind, m.rel, lambda m=m: m.content)  # type: ignore[misc]
    for a in _documents(store):
        path = a.path or ""
        found = look_at(path)
        yield Document(a.artifact_id, a.name, a.kind, f"{found.size} {found.mtime_ns}", lambda path=path: _text(path, settings))  # type: ignore[misc]


def search(query: str, *, limit: int = 10, settings: Settings) -> list[Found]:
    """Return the chunks of artifacts and documents that hold some of the words, best first; what is new is indexed before."""
    if not query.strip():
        raise UsageError("there is nothing to look for", hint="ctx artifacts search WORDS")
    indexed(settings=settings)
    index = ArtifactIndex(settings.home / FILE)
    try:
        return index.search(query, limit=limit)
    finally:
        index.close()


def of_id(artifact_id: str, *, settings: Settings) -> dict[str, Any]:
    """Return what taking an artifact away needs: its file of words, or its path; raises UnknownName, UsageError for the page."""
    with reading(settings) as (store, _):
        one = _named(store, artifact_id)
        kept = next((m for m in made_of(store) if m.artifact_id == one.artifact_id), None)
    if kept is None and one.kind != "document":
        raise UsageError("the page is made anew by every run", hint="ctx dashboard build")
    return {"artifact_id": one.artifact_id, "rel": kept.rel if kept else None, "path": one.path}
