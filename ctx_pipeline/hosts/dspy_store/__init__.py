"""DSPy programs: the stores that callbacks write, one stream a session.

A session is read from the append-only log where it stands there, else from the tables
``sessions``, ``lm_calls`` and ``tool_calls`` that ctxrot documents.
"""

from __future__ import annotations

from ctx_pipeline.model.codec import LATEST, micros
from ctx_pipeline.model.declared import Database, Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.raw import Identity

STORE = "store"

_SUFFIXES = (".db", ".sqlite", ".sqlite3")


def classify(rel: str) -> str | None:
    """Return the kind of a database that lies directly in the root; journals beside it are SQLite's own."""
    path = rel.partition("#")[0]
    return STORE if "/" not in path and path.endswith(_SUFFIXES) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds stores: only the root itself does."""
    return rel in {"", "."}


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return the session of a stream ``<path>#<session>``; None for other kinds and an empty stream."""
    name = rel.rpartition("#")[2] if "#" in rel else ""
    if kind != STORE or not name or not head:
        return None
    return Identity(name, first_ts=_first_ts(head.partition(b"\n")[0]))


def _first_ts(line: bytes) -> int | None:
    from ctx_pipeline.hosts.dspy_store.rows import ERRORS, body, decoder

    try:
        row = decoder.decode(line).row
        if row is None:
            return None
        begun = body.decode(row.payload).started if row.payload else None
    except ERRORS:
        return None
    when = begun or row.at
    if when is not None:
        return when if 0 < when < LATEST else None
    return micros(row.started_at)


HOST = Host(
    key="dspy",
    title="DSPy",
    version=3,
    files=HomeFiles(
        roots_env="CTX_CALLBACK_STORE",
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=frozenset({STORE}),
        databases={
            STORE: Database(
                tables=(("log", "seq"), ("sessions", "id"), ("lm_calls", "seq"), ("tool_calls", "started_at")),
                split_by="session_id",
                split_as={"sessions": "id"},
                prefer_first=True,
                append_only=True,
            )
        },
        announced=True,
    ),
    records=Records(parse=Deferred("ctx_pipeline.hosts.dspy_store.rows:parse")),
    sensor_name="callback_store_sensor",
)
