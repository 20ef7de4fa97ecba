"""What models answered about sessions: the fact in the journal, its words in a file of the store that can be forgotten."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.memories import StoredCandidate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.journal import Journal

ASKED = "mine:"
"""Beginning of the key of an observation that is a model's answer, before the method's name."""

FAILED = "mining.failed"
"""Kind of the fact that a question had no answer, with what it cost all the same."""

_FOLDER = "answers"
_SPENT = ("input_tokens", "output_tokens", "cost_nano")


def key_of(method: Method, session: Any, model: str) -> str:
    """Return the key of an answer: another version of the method, another model, or more events, are another question."""
    return f"{ASKED}{method.name}:{digest(method.version, session.host, session.session_id, session.content_hash, model)}"


def keep(store: Store, key: str, fact: Mapping[str, Any], candidates: Collection[StoredCandidate], stream: str) -> None:
    """Write the words of an answer, then the fact that it was given; a newer answer to the same question counts from then on."""
    words = json.dumps({"candidates": [list(c) for c in candidates], "stream": stream}, ensure_ascii=False).encode("utf-8", "replace")
    rel = _write(store, key, words)
    store.journal.observe(key, lambda: {**fact, "words": rel}, refresh=True)


def failed(store: Store, method: Method, session: Any, fact: Mapping[str, Any], said: Mapping[str, str]) -> None:
    """Write down that a question had no answer; what was ``said`` instead may quote the session and lies with the words."""
    words = json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")
    rel = _write(store, f"{FAILED}:{method.name}:{session.host}:{session.session_id}:{time.time_ns()}", words)
    store.journal.append(FAILED, {"method": method.name, "host": session.host, "session_id": session.session_id, **fact, "words": rel})


def _write(store: Store, key: str, words: bytes) -> str:
    rel = f"{_FOLDER}/{digest(key, words, size=24)}.json"
    store.files.write(rel, words)
    return rel


def candidates(store: Store, method: str | None = None) -> list[StoredCandidate]:
    """Return what models drew from sessions, of each method and session the newest answer; forgotten ones are gone."""
    newest: dict[tuple[str, str, str], str] = {}
    for fact in store.journal.observed_under(ASKED if method is None else f"{ASKED}{method}:").values():
        newest[str(fact.get("method")), str(fact.get("host")), str(fact.get("session_id"))] = str(fact.get("words"))
    found: list[StoredCandidate] = []
    for rel in newest.values():
        with suppress(OSError, StoreError, ValueError, TypeError):
            found += [StoredCandidate._make(row) for row in json.loads(store.files.read(rel))["candidates"]]
    return sorted(found, key=lambda c: (c.method, c.host, c.session_id, c.candidate_id))


def spent(journal: Journal) -> dict[str, dict[str, Any]]:
    """Return by method: answers, failed questions, input and output tokens, and nano-dollars, as far as the providers said."""
    facts = journal.observations(ASKED)
    lost = [fact.payload for fact in journal.facts(FAILED)]
    found: dict[str, dict[str, Any]] = {}
    for name, members in (("answers", facts), ("failed", lost)):
        for fact in members:
            row = found.setdefault(str(fact["method"]), {"answers": 0, "failed": 0, **dict.fromkeys(_SPENT, 0)})
            row[name] += 1
            for part in _SPENT:
                row[part] += fact.get(part) or 0
    return found


def forget(store: Store, sessions: Collection[tuple[str, str]]) -> int:
    """Remove the words of all answers and failures about these sessions and return how many; the facts without words stay."""
    chosen = set(sessions)
    removed = 0
    for answer in [*store.journal.observations(ASKED), *(fact.payload for fact in store.journal.facts(FAILED))]:
        if (answer.get("host"), answer.get("session_id")) in chosen and answer.get("words"):
            removed += store.files.exists(str(answer["words"]))
            store.files.remove(str(answer["words"]))
    return removed
