"""Encrypts what raw holds to a key of age, or writes it in plain text again."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import StoreDamaged, UsageError
from ctx_pipeline.pipeline.capture.capturing import LEASE
from ctx_pipeline.storage.raw import encryption
from ctx_pipeline.storage.raw import segments as raw

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctx_pipeline.storage import Store


class RawState(NamedTuple):
    """How raw lies on the disk."""

    objects: int
    encrypted: int
    recipient: str
    """public key to which what is captured is encrypted; empty: it is not"""
    identity: str
    """file that must hold the private key; empty where nothing is encrypted"""
    written: int = 0
    """objects that this call wrote anew"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return self._asdict()


def state(store: Store) -> RawState:
    """Return how many raw objects there are, and how many of them are encrypted to which key."""
    key = encryption.key_of(store.files)
    paths = {piece.path for piece in store.ledger.segments()}
    encrypted = sum(raw.lies_encrypted(store.files, path) for path in paths) if key else 0
    return RawState(len(paths), encrypted, key.recipient if key and key.on else "", key.identity if key else "")


def encrypt(store: Store, identity: Path, *, progress: Callable[[int, int], None] | None = None) -> RawState:
    """Encrypt every raw object, and all that is captured from now on, to the key in a file; return what there is then.

    Done again it goes on where it was stopped; a file with the same key that lies elsewhere
    now is the key from then on. Raises UsageError for a file without a key, and where raw is
    encrypted to another one.
    """
    key, known = encryption.key_in(identity), encryption.key_of(store.files)
    if known is not None and known.recipient != key.recipient:
        raise UsageError("raw records are encrypted to another key", hint="first: ctx encrypt --off")
    encryption.keep_key(store.files, key)
    if known is None and not _opens_what_is_there(store):
        encryption.keep_key(store.files, None)
        raise UsageError("raw records are encrypted to another key", hint="name the file with that one")
    return _written(store, progress)


def decrypt(store: Store, *, progress: Callable[[int, int], None] | None = None) -> RawState:
    """Write every raw object in plain text again; return what there is then. Raises RawLocked without the key."""
    known = encryption.key_of(store.files)
    if known is None:
        return state(store)
    encryption.require(store.files)
    encryption.keep_key(store.files, known._replace(on=False))
    done = _written(store, progress)
    encryption.keep_key(store.files, None)
    return done._replace(identity="")


def _opens_what_is_there(store: Store) -> bool:
    """Tell whether the key of the store opens the first object that is encrypted: the file that named its key may be lost."""
    path = next((one.path for one in store.ledger.segments() if raw.lies_encrypted(store.files, one.path)), None)
    try:
        return path is None or bool(raw.read_segment(store.files, path))
    except StoreDamaged:
        return False


def _written(store: Store, progress: Callable[[int, int], None] | None) -> RawState:
    """Write anew what does not lie as the store says now."""
    encryption.require(store.files)
    written = 0
    with store.ledger.lease(LEASE):
        pieces = sorted(store.ledger.segments(), key=lambda piece: piece.path)
        by_path = {path: list(members) for path, members in groupby(pieces, key=lambda piece: piece.path)}
        for number, (path, members) in enumerate(by_path.items(), 1):
            rows = raw.rewrite(store.files, path)
            written += rows is not None
            if rows is None and store.files.size(path) != sum(one.stored_bytes for one in members):
                rows = raw.rows_of(raw.read_origins(store.files, path), path, store.files.size(path))
            if rows:
                store.ledger.repack(rows)
            if progress:
                progress(number, len(by_path))
    return state(store)._replace(written=written)
