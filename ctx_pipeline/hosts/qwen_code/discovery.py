"""Which files of a home are chat records, and whose each is."""

from __future__ import annotations

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.gemini_cli import discovery as gemini
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

CHAT, AGENT = "records", "agent"
SESSION_KINDS = frozenset({CHAT, AGENT, *gemini.SESSION_KINDS})

_CHAT = lazy_pattern(r"(?:projects|tmp)/[^/]+/chats/([^/]+)\.jsonl")
_AGENT = lazy_pattern(r"projects/[^/]+/subagents/([^/]+)/(agent-[^/]+)\.jsonl")
_FOLDER = lazy_pattern(r"projects(?:/[^/]+(?:/(?:chats|subagents(?:/[^/]+)?))?)?|tmp(?:/[^/]+(?:/chats)?)?")
_SESSION = lazy_pattern(rb'"sessionId"\s*:\s*"([^"\\]{1,256})"')
_TIME = lazy_pattern(rb'"timestamp"\s*:\s*"([^"\\]{10,40})"')
_FORK = lazy_pattern(rb'"forkedFrom"\s*:\s*\{\s*"sessionId"\s*:\s*"([^"\\]{1,256})"')


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home."""
    if not rel.startswith(("projects/", "tmp/")):
        return None
    if (kind := gemini.classify(rel)) is not None:
        return None if kind == gemini.SUBAGENT else kind
    if _CHAT.fullmatch(rel):
        return CHAT
    return AGENT if _AGENT.fullmatch(rel) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds records."""
    return rel in {"", "."} or _FOLDER.fullmatch(rel) is not None


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a file is: the session of its first record, a subagent of it, or a branch of another one."""
    if kind in gemini.SESSION_KINDS:
        return gemini.identify(kind, rel, head)
    if kind not in SESSION_KINDS or not head.strip():
        return None
    line = head.lstrip().partition(b"\n")[0]
    said = _SESSION.search(line) or _SESSION.search(head)
    when = _TIME.search(line)
    first = micros(when.group(1).decode("ascii", "replace")) if when else None
    session = safe_id(said.group(1).decode("utf-8", "replace") if said else None)
    if kind == AGENT:
        inside = _AGENT.fullmatch(rel)
        name = safe_id(inside.group(2) if inside else rel.rpartition("/")[2].removesuffix(".jsonl"))
        parent = session or safe_id(inside.group(1) if inside else None)
        if name is None:
            return None
        return Identity(f"{parent}/{name}", parent, "part", None, first) if parent else Identity(name, first_ts=first)
    thread = session or safe_id(rel.rpartition("/")[2].removesuffix(".jsonl"))
    if thread is None:
        return None
    fork = _FORK.search(line)
    parent = safe_id(fork.group(1).decode("utf-8", "replace")) if fork else None
    if parent and parent != thread:
        return Identity(thread, parent, "fork", None, first)
    return Identity(thread, first_ts=first)
