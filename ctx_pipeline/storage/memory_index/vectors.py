"""Vectors of memories in ``memory.db``: made once for each text by a function that the person chose, and compared with a question's."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np

SCHEMA = """
CREATE TABLE vectors (row INTEGER PRIMARY KEY, model TEXT NOT NULL, content TEXT NOT NULL, vector BLOB NOT NULL);
"""
_BATCH = 256
_AT_ONCE = 8_192
_FORM = "<f2"
"""Half-precision numbers: a thousandth of a cosine is lost, and half of the room."""


class Embedder(NamedTuple):
    """A function that turns texts into vectors of length one, and the name under which its vectors are kept."""

    name: str
    embed: Callable[[Sequence[str]], np.ndarray]


def fill(db: sqlite3.Connection, texts: Iterable[tuple[int, str]], embedder: Embedder, old: Path | None) -> int:
    """Write the vectors of rows and return how many had to be made; those of the same words in the old file are taken over."""
    kept = _stored_vectors(old, embedder.name) if old is not None else {}
    missing: list[tuple[int, str, str]] = []
    sql = "INSERT INTO vectors VALUES (?, ?, ?, ?)"
    for row, text in texts:
        content = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if content in kept:
            db.execute(sql, [row, embedder.name, content, kept[content]])
        else:
            missing.append((row, content, text))
    for start in range(0, len(missing), _BATCH):
        some = missing[start : start + _BATCH]
        vectors = embedder.embed([text for *_, text in some]).astype(_FORM)
        db.executemany(sql, [(row, embedder.name, content, v.tobytes()) for (row, content, _), v in zip(some, vectors, strict=True)])
    return len(missing)


def nearest(
    db: sqlite3.Connection, question: np.ndarray, model: str, *, where: str, values: Sequence[object], limit: int
) -> dict[str, float]:
    """Return memory id -> cosine of the rows that lie nearest to a question's vector; ``where`` narrows the rows of ``memory``."""
    import numpy as np

    found: list[tuple[float, str]] = []
    rows = db.execute(
        "SELECT memory.memory_id, vectors.vector FROM vectors JOIN memory ON memory.rowid = vectors.row"
        f" WHERE vectors.model = ? AND length(vectors.vector) = ? AND {where}",
        [model, 2 * len(question), *values],
    )
    while some := rows.fetchmany(_AT_ONCE):
        near = np.frombuffer(b"".join(v for _, v in some), dtype=_FORM).reshape(len(some), -1).astype(np.float32) @ question
        found = sorted([*found, *zip(near.tolist(), (m for m, _ in some), strict=True)], reverse=True)[:limit]
    return {memory_id: cosine for cosine, memory_id in found}


def _stored_vectors(path: Path, model: str) -> dict[str, bytes]:
    """Return content -> vector of a model in a file; none where there is no such file or it is of another form."""
    kept: dict[str, bytes] = {}
    if path.exists():
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db, suppress(sqlite3.DatabaseError):
            kept.update(db.execute("SELECT content, vector FROM vectors WHERE model = ?", [model]))
    return kept
