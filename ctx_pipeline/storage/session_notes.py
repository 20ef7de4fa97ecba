"""What people and agents said of sessions through ``ctx``, and what was made of sessions for them: facts, each with its words in a file.

The journal holds a hash of the session's id; the words lie in ``session/`` of the store,
so that a session that is forgotten takes them along.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.hook_kinds import MADE, SAID

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ctx_pipeline.storage import Store

REMOVED = "session.removed"
"""Kind of the facts in the journal, beside :data:`MADE` and :data:`SAID`: an artifact taken away."""

FOLDER = "session"
"""Folder of the words in the store."""

NOTES = ("task", "finding", "decision", "cleared", "invalidated")
"""What a note may be; the last two are marks: the model remembers nothing any more, or no more of one file."""


class Said(NamedTuple):
    """One note."""

    fact: int
    at: str
    what: str
    by: str
    host: str
    session_id: str
    text: str
    path: str | None = None
    line: int | None = None
    reason: str | None = None
    replaces: str | None = None


class Made(NamedTuple):
    """One artifact: a snapshot, a bundle, a checkpoint, a report."""

    fact: int
    at: str
    kind: str
    host: str
    session_id: str
    name: str
    rel: str
    """its file below the store"""
    bytes: int
    content: str
    about: dict[str, Any]
    """what its maker says of it"""

    @property
    def artifact_id(self) -> str:
        """Short name, stable for ever."""
        return f"{self.kind}-{self.fact}"


class Noted(NamedTuple):
    """The sessions that something was said of."""

    keys: frozenset[str]

    def has(self, host: str, session_id: str) -> bool:
        """Tell whether a session is one of them."""
        return session_key(host, session_id) in self.keys


def session_key(host: str, session_id: str) -> str:
    """Return the name of a session in the journal; it cannot be read back."""
    return digest("session", host, session_id, size=24)


def noted(store: Store) -> Noted:
    """Return which sessions have notes."""
    facts = store.journal.facts(SAID) if store.journal.is_there() else ()
    return Noted(frozenset(str(f.payload.get("session")) for f in facts))


def notes_of(store: Store, host: str, session_id: str) -> list[Said]:
    """Return the notes of a session, oldest first."""
    key = session_key(host, session_id)
    found = []
    for fact, words in _with_words(store, SAID, key):
        found.append(Said._make((fact.id, fact.at, *(words.get(name) for name in Said._fields[2:]))))
    return found


def made_of(store: Store, host: str | None = None, session_id: str | None = None, *, kind: str | None = None) -> list[Made]:
    """Return the artifacts that are there, of one session or of all, of one kind or of all, oldest first."""
    if not store.journal.is_there():
        return []
    gone = {str(f.payload.get("words")) for f in store.journal.facts(REMOVED)}
    key = session_key(host, session_id) if host is not None and session_id is not None else None
    found = []
    for fact, words in _with_words(store, MADE, key, gone, kind):
        its, owner, session, name, content = (str(words.get(n) or "") for n in ("kind", "host", "session_id", "name", "content"))
        if kind not in {None, its}:
            continue
        about = words.get("about")
        rel = str(fact.payload.get("words"))
        found.append(
            Made(fact.id, fact.at, its, owner, session, name, rel, len(content.encode()), content, about if isinstance(about, dict) else {})
        )
    return found


def _with_words(
    store: Store, kind: str, key: str | None, gone: set[str] | frozenset[str] = frozenset(), of_kind: str | None = None
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the facts of a kind with their words; those whose words are gone are left out."""
    for fact in store.journal.facts(kind) if store.journal.is_there() else ():
        rel = str(fact.payload.get("words") or "")
        if (key is not None and fact.payload.get("session") != key) or rel in gone or not rel.startswith(f"{FOLDER}/"):
            continue
        if of_kind not in {None, fact.payload.get("kind", of_kind)}:  # what an earlier version wrote down says it in its words alone
            continue
        words = _words(store, rel)
        if words is not None:
            yield fact, words


def _words(store: Store, rel: str) -> dict[str, Any] | None:
    """Return the words of a file; None for one that is gone or torn."""
    with suppress(OSError, StoreError, ValueError):
        words = json.loads(store.files.read(rel))
        return words if isinstance(words, dict) else None
    return None


def write(store: Store, fact: str, words: Mapping[str, Any], actor: str) -> str:
    """Write words about the session that they name into a file, then the fact that they were said or made; return the file's name.

    The file comes first: a crash in between leaves a file that nothing names, never a fact
    without its words. Any number of processes may write.
    """
    data = json.dumps(words, ensure_ascii=False).encode("utf-8", "replace")
    key = session_key(str(words["host"]), str(words["session_id"]))
    rel = f"{FOLDER}/{digest(key, data, time.time_ns(), os.urandom(8).hex(), size=24)}.json"
    store.files.write(rel, data)
    about = {"kind": words["kind"]} if "kind" in words else {}
    store.journal.append(fact, {"session": key, "words": rel, **about}, actor=actor)
    return rel


def remove(store: Store, rels: Collection[str], actor: str) -> int:
    """Take away the words of artifacts and say so in the journal; return how many were there."""
    there = [rel for rel in rels if store.files.exists(rel)]
    store.journal.append_all(REMOVED, [{"words": rel} for rel in there], actor=actor)
    _take_away(store, there)
    return len(there)


def forget(store: Store, sessions: Collection[tuple[str, str]], text: str | None = None) -> int:
    """Remove the words of all notes and artifacts of these sessions, and those that contain a text; return how many.

    Words that no fact names are looked at too: their writer died before it could say what
    it had written.
    """
    keys = {session_key(host, session) for host, session in sessions}

    def meant(words: dict[str, Any]) -> bool:
        about = session_key(str(words.get("host")), str(words.get("session_id")))
        return about in keys or bool(text and any(text in said for said in _strings(words)))

    found = [rel for rel in store.files.walk(FOLDER) if (words := _words(store, rel)) is not None and meant(words)]
    _take_away(store, found)
    return len(found)


def rewrite(store: Store, change: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Write the words anew that ``change`` gives back otherwise, and return how many files that were."""
    changed = {}
    for rel in store.files.walk(FOLDER):
        words = _words(store, rel)
        if words is not None and (other := change(words)) != words:
            changed[rel] = other
    _out_of_index(store, changed)
    for rel, words in changed.items():
        store.files.write(rel, json.dumps(words, ensure_ascii=False).encode("utf-8", "replace"))
    return len(changed)


def orphans(store: Store) -> list[str]:
    """Return the files of words that no fact names, or that a fact takes away: their writer, or remover, died in between."""

    def named(kind: str) -> set[str]:
        return {str(f.payload.get("words")) for f in store.journal.facts(kind)} if store.journal.is_there() else set()

    there = (named(SAID) | named(MADE)) - named(REMOVED)
    return [rel for rel in store.files.walk(FOLDER) if rel not in there]


def _take_away(store: Store, rels: Collection[str]) -> None:
    """Remove files of words, and what the index holds of them."""
    if not rels:
        return
    _out_of_index(store, rels)
    for rel in rels:
        store.files.remove(rel)


def _out_of_index(store: Store, rels: Collection[str]) -> None:
    """Take artifacts out of the index; a search puts in again what is there."""
    if not rels:
        return
    from ctx_pipeline.storage.text_index import FILE, ArtifactIndex

    if store.files.exists(FILE) and store.journal.is_there():
        wanted = set(rels)
        facts = [f for f in store.journal.facts(MADE) if f.payload.get("words") in wanted]
        named = [(f.id, words) for f in facts if (words := _words(store, str(f.payload["words"]))) is not None]
        index = ArtifactIndex(store.home / FILE)
        try:
            index.remove([f"{words.get('kind')}-{fact}" for fact, words in named])
        finally:
            index.close()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key)
            yield from _strings(member)
    elif isinstance(value, list):
        for member in value:
            yield from _strings(member)
