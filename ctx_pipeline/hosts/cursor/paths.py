"""Which files of Cursor are captured, and whose they are."""

from __future__ import annotations

import base64
import json
from typing import Any

from ctx_pipeline.hosts._values import secretless
from ctx_pipeline.model.codec import LATEST, digest, micros
from ctx_pipeline.model.declared import WITHHELD
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

STATE, TRANSCRIPT = "state", "transcript"
SESSION_KINDS = frozenset({STATE, TRANSCRIPT})
COMPOSER, BUBBLE = "composerData:", "bubbleId:"

_FOLDER = "agent-transcripts"
_SAFE = lazy_pattern(r"[A-Za-z0-9._-]{1,128}\Z")
_UUID = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


def classify(rel: str) -> str | None:
    """Return the stream kind of a path relative to a home, None when it is not captured."""
    if rel == "globalStorage/state.vscdb":
        return STATE
    parts = rel.split("/")
    inside = len(parts) > 3 and parts[0] == "projects" and parts[2] == _FOLDER
    return TRANSCRIPT if inside and parts[-1].endswith((".jsonl", ".txt")) else None


def enter(rel: str) -> bool:
    """Return whether a folder of a home can hold captured files."""
    parts = rel.split("/")
    if rel in {"", ".", "globalStorage", "projects"}:
        return True
    return parts[0] == "projects" and (len(parts) == 2 or (parts[2] == _FOLDER and len(parts) <= 6))


def safe_id(name: str) -> str:
    """Return the id itself when it is harmless, else a digest of it; that of an id with a secret in it says so."""
    if not (_SAFE.match(name) and name.strip(".")):
        return digest("cursor id", name)
    return name if _UUID.match(name) or secretless(name) else WITHHELD + digest("cursor id", name, size=24)


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a stream is; a conversation without a message is nobody's yet."""
    if not head.strip():
        return None
    if kind == STATE:
        name = rel.rpartition("#")[2] if "#" in rel else ""
        rows = [row for line in head.split(b"\n", 3)[:3] if (row := stored(line)) is not None]
        spoken = any(key.startswith(BUBBLE) or value.get("conversation") for key, value in rows)
        times = [ts for _, value in rows if (ts := time_of(value.get("createdAt"))) is not None]
        return Identity(safe_id(name), first_ts=min(times, default=None)) if name and (spoken or not rows) else None
    parts = rel.split("/")
    session = safe_id(parts[-1].removesuffix(".jsonl").removesuffix(".txt"))
    if len(parts) > 5 and parts[-2] == "subagents":
        parent = safe_id(parts[-3])
        return Identity(f"{parent}/{session}", parent, "part", parent)
    return Identity(session, first_ts=asked_at(head.decode("utf-8", "replace")))


def stored(line: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return key and value of a captured row of keys and values; None for what is none."""
    try:
        row = json.loads(line)["row"]
        key, value = row["key"], row["value"]
        if isinstance(value, str) and not value.lstrip().startswith("{"):
            value = base64.b64decode(value, validate=True)
        found = json.loads(value)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return (key, found) if isinstance(key, str) and isinstance(found, dict) else None


def time_of(value: Any) -> int | None:
    """Return microseconds since 1970 of milliseconds or of an ISO text."""
    if isinstance(value, str):
        return micros(value)
    whole = type(value) is int and 946_684_800_000 <= value < LATEST // 1_000
    return value * 1_000 if whole else None


_ASKED = lazy_pattern(
    r"<timestamp>\s*(?:[A-Z][a-z]+, )?([A-Z][a-z]{2}) (\d{1,2}), (\d{4}), (\d{1,2}):(\d{2}) ([AP])M"
    r" \(UTC(?:([+-])(\d{1,2})(?::(\d{2}))?)?\)"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def asked_at(said: str) -> int | None:
    """Return microseconds since 1970 of the time that stands before a question, to the minute; None where there is none."""
    found = _ASKED.search(said)
    if found is None or found[1] not in _MONTHS:
        return None
    hour = int(found[4]) % 12 + (12 if found[6] == "P" else 0)
    zone = f"{found[7]}{int(found[8]):02d}:{found[9] or '00'}" if found[7] else "Z"
    return micros(f"{found[3]}-{_MONTHS.index(found[1]) + 1:02d}-{int(found[2]):02d}T{hour:02d}:{found[5]}:00{zone}")
