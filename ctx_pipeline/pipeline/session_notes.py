"""Writes down what is said of sessions and what is made of them, with secrets replaced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.session_state.state import placed
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.hook_kinds import MADE, SAID
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.storage import session_notes
from ctx_pipeline.storage.session_notes import NOTES, Made, made_of

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

LONGEST = 20_000
"""Characters of a note; a longer one is refused."""

KEPT_DAYS = 7
"""Days for which an artifact is kept that is not the newest of its kind and session."""


def note(
    store: Store,
    settings: Settings,
    what: str,
    session: tuple[str, str],
    text: str,
    *,
    by: str,
    reason: str | None = None,
    replaces: str | None = None,
) -> dict[str, Any]:
    """Write down a task, a finding, a decision, or a mark on what the model remembers, and return it as it is kept.

    A finding written as ``path:12 - text`` keeps file and line. It is there for every
    reader at once and is never taken away but with its session. Raises UsageError.
    """
    if what not in NOTES:
        raise UsageError(f"{what!r} is nothing that is noted", hint=f"one of {', '.join(NOTES)}")
    if not text.strip() and what != "cleared":
        raise UsageError(f"the {what} has no words", hint=f'write it after the command: ctx session {what} "..."')
    if max(len(t or "") for t in (text, reason, replaces)) > LONGEST:
        raise UsageError(f"a note holds {LONGEST:,} characters at most", hint="say it shorter, and name the file that has the rest")
    host, session_id = session
    redact = Redactor(settings.patterns).redact
    words: dict[str, Any] = {"what": what, "by": by, "host": host, "session_id": session_id, "text": redact(text.strip())}
    if what == "finding":
        path, line, rest = placed(words["text"])
        words |= {"text": rest} | ({"path": path} if path else {}) | ({"line": line} if line else {})
    if what == "invalidated":
        words["path"] = words["text"]
    words |= {name: redact(said.strip()) for name, said in (("reason", reason), ("replaces", replaces)) if said and said.strip()}
    session_notes.write(store, SAID, words, actor=by)
    return words


def keep(
    store: Store, settings: Settings, kind: str, session: tuple[str, str], content: str, *, name: str, about: dict[str, Any], by: str
) -> Made:
    """Keep an artifact that was made of a session (host, id), redacted, and return it with its id."""
    host, session_id = session
    words = {
        "kind": kind,
        "host": host,
        "session_id": session_id,
        "name": name,
        "content": Redactor(settings.patterns).redact(content),
        "about": about,
    }
    rel = session_notes.write(store, MADE, words, actor=by)
    kept: Made = next(m for m in reversed(made_of(store, host, session_id)) if m.rel == rel)
    return kept


class Cleaned(NamedTuple):
    """What a cleaning takes away, or would."""

    artifacts: list[Made]
    orphans: list[str]
    """files of words that no fact names, or that were to go: their writer, or remover, died in between"""
    removed: int


def clean(store: Store, *, days: int = KEPT_DAYS, really: bool, by: str, now: datetime | None = None) -> Cleaned:
    """Take away artifacts older than some days but the newest of each kind and session; without ``really`` only say which.

    Notes of people and agents stay, and so do the sessions themselves (``ctx forget``
    removes those).
    """
    limit = ((now or datetime.now(UTC)) - timedelta(days=days)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    everything = made_of(store)
    newest = {(m.kind, m.host, m.session_id): m.fact for m in everything}
    old = [m for m in everything if m.at < limit and newest[m.kind, m.host, m.session_id] != m.fact]
    orphans = _orphans(store)
    removed = session_notes.remove(store, [m.rel for m in old], by) if really else 0
    for rel in orphans if really else ():
        store.files.remove(rel)
        removed += 1
    return Cleaned(old, orphans, removed)


def _orphans(store: Store) -> list[str]:
    """Return the files that writers or removers left behind; one that was written this hour may still get its fact."""
    import time

    hour_ago = time.time() - 3_600
    return sorted(rel for rel in session_notes.orphans(store) if store.files.local(rel).stat().st_mtime < hour_ago)
