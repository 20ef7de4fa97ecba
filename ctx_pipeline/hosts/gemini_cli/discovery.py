"""Which files of a home are chat recordings, and whose each is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

if TYPE_CHECKING:
    from pathlib import Path

CHAT, SUBAGENT, LOGS = "chat", "subagent", "logs"
SESSION_KINDS = frozenset({CHAT, SUBAGENT})

_CHAT = lazy_pattern(r"(?:(?:tmp|data)/)?[^/]+/chats/session-[^/]+\.jsonl?")
_SUBAGENT = lazy_pattern(r"(?:(?:tmp|data)/)?[^/]+/chats/([^/]+)/([^/]+)\.jsonl")
_LOGS = lazy_pattern(r"(?:(?:tmp|data)/)?[^/]+/logs\.json")
_FOLDER = lazy_pattern(r"(?:tmp|data)|(?:(?:tmp|data)/)?[^/]+(?:/chats(?:/[^/]+)?)?")
_PASSED_OVER = frozenset({"antigravity", "bin", "commands", "extensions", "history", "skills"})
_SESSION = lazy_pattern(rb'"sessionId"\s*:\s*"([^"\\]{1,256})"')
_STARTED = lazy_pattern(rb'"(?:startTime|timestamp)"\s*:\s*"([^"\\]{10,40})"')

_DURATION = lazy_pattern(r"(\d{1,6})\s*([hdwm])")
_HOURS = {"h": 1, "d": 24, "w": 168, "m": 720}
_DEFAULT_DAYS = 30


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home, or of its folder ``tmp``."""
    if _CHAT.fullmatch(rel):
        return CHAT
    if _SUBAGENT.fullmatch(rel):
        return SUBAGENT
    return LOGS if _LOGS.fullmatch(rel) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds recordings."""
    return rel in {"", "."} or (_FOLDER.fullmatch(rel) is not None and rel.partition("/")[0] not in _PASSED_OVER)


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a recording is: its records name the session, else its file does; None for one without a byte."""
    if kind not in SESSION_KINDS or not head.strip():
        return None
    said = _SESSION.search(head)
    named = rel.rpartition("/")[2].removesuffix("l").removesuffix(".json")
    thread = safe_id(said.group(1).decode("utf-8", "replace") if said else None) or safe_id(named)
    if thread is None:
        return None
    when = _STARTED.search(head)
    first = micros(when.group(1).decode("ascii", "replace")) if when else None
    inside = _SUBAGENT.fullmatch(rel)
    parent = safe_id(inside.group(1)) if inside and kind == SUBAGENT else None
    if parent and parent != thread:
        return Identity(thread, parent, "part", None, first)
    return Identity(thread, first_ts=first)


def retention_days(root: Path) -> int | None:
    """Return the days of ``general.sessionRetention`` in the settings: 30 where they say nothing, None where it is off."""
    try:
        said = json.loads((root / "settings.json").read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return _DEFAULT_DAYS
    general = said.get("general") if isinstance(said, dict) else None
    chosen = general.get("sessionRetention") if isinstance(general, dict) else None
    if not isinstance(chosen, dict):
        return _DEFAULT_DAYS
    if chosen.get("enabled") is False:
        return None
    age = _DURATION.fullmatch(chosen["maxAge"].strip()) if isinstance(chosen.get("maxAge"), str) else None
    return max(1, int(age[1]) * _HOURS[age[2]] // 24) if age else _DEFAULT_DAYS
