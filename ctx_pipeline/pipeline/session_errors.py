"""What went wrong with single sessions after they were captured: counted, kept and named, while all other sessions go on."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ctx_pipeline.errors import CtxError, StoreError
from ctx_pipeline.model.codec import digest
from ctx_pipeline.pipeline import code_versions
from ctx_pipeline.pipeline.reports import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

    Made = TypeVar("Made")

FOLDER = "session_errors"
"""Folder of the store, a file for each asset, or asset and cell, that had an error."""

_MOST = 1_000


class SessionError(NamedTuple):
    """What went wrong with a session: in which asset, why, and how many times. Without a session it was all of a method's."""

    host: str
    session_id: str
    asset: str
    reason: str
    times: int


class SessionErrors:
    """Collects the errors of one asset, session by session."""

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str, str]] = Counter()
        self._seen: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return self._found.total()

    def note(self, host: str, session_id: str, why: str) -> None:
        """Count an error of a session; ``why`` quotes nothing of it."""
        self._found[host, session_id, why] += 1

    def saw(self, host: str, session_id: str) -> None:
        """Note that a session was looked at again, so that its errors of before are no more."""
        self._seen.add((host, session_id))

    @contextmanager
    def of(self, host: str, session_id: str) -> Iterator[None]:
        """Count what the block raises, and go on behind it; what the store raises and want of memory are nobody's own trouble."""
        try:
            yield
        except (StoreError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - one session must not stop the others
            self.note(host, session_id, reason(error))

    def without_bad(self, rows: Sequence[StoredCandidate], make: Callable[[Sequence[StoredCandidate]], Made]) -> Made:
        """Return what is made of candidates; where that raises, of those whose sessions raise nothing alone.

        Raises what ``make`` raises where no session alone is the cause.
        """
        try:
            return make(rows)
        except (StoreError, MemoryError):
            raise
        except Exception:
            by_session: dict[tuple[str, str], list[StoredCandidate]] = {}
            for row in rows:
                by_session.setdefault((row.host, row.session_id), []).append(row)
            good: list[StoredCandidate] = []
            for session, own in by_session.items():
                with self.of(*session):
                    make(own)
                    good += own
            if len(good) == len(rows):
                raise
            return make(good)

    def keep(self, store: Store, asset: str, *, others: bool = False) -> None:
        """Make these the errors of an asset, or of its cell; with ``others`` those of sessions that nobody saw stay.

        Sessions are kept as digests, which outlive a forgotten one.
        """
        rel = f"{FOLDER}/{digest(asset, size=16)}.json"
        rows = [[_named(host, session) if session else "", *rest] for (host, session, *rest) in self._rows()]
        if others and store.files.exists(rel):
            seen = {_named(*session) for session in self._seen}
            rows += [[session, *rest] for _, session, *rest in _read(store, rel) if session and session not in seen]
        if rows:
            store.files.write(rel, json.dumps({"asset": asset, "errors": rows}, sort_keys=True).encode())
        elif store.files.exists(rel):
            store.files.remove(rel)

    def _rows(self) -> list[tuple[str, str, str, int]]:
        return [(*key, count) for key, count in sorted(self._found.items())[:_MOST]]


def stored_errors(store: Store, settings: Settings) -> list[SessionError]:
    """Return the errors of all assets that there still are, of sessions that the store still holds."""
    found: list[SessionError] = []
    sessions: dict[str, tuple[str, str]] = {}
    known: Collection[str] = ()
    for rel in sorted(store.files.walk(FOLDER)):
        rows = _read(store, rel)
        sessions = sessions or (_sessions(store) if rows else {})
        known = known or (code_versions.versions(store.files, settings, keep=False).assets.keys() if rows else ())
        for asset, session, why, count in rows:
            key = asset.partition("@")[0]
            if (not session or session in sessions) and (key in known or not key.startswith("signals/")):
                found.append(SessionError(*sessions.get(session, ("", "")), asset, why, count))
    return sorted(found)


def _read(store: Store, rel: str) -> list[tuple[str, str, str, int]]:
    """Return asset, digest of the session, reason and count of a file's errors; none where it was cut, until the next run."""
    try:
        told = json.loads(store.files.read(rel))
        return [(str(told["asset"]), str(session), str(why), int(count)) for session, why, count in told["errors"]]
    except (CtxError, ValueError, KeyError, TypeError):
        return []


def _sessions(store: Store) -> dict[str, tuple[str, str]]:
    parts = [(cell.host, part) for cell, made in store.lake.manifests("normalized").items() for part in made.of_table("sessions")]
    return {_named(host, session): (host, session) for host, part in parts for session in part.live}


def _named(host: str, session_id: str) -> str:
    return digest("session error", host, session_id)
