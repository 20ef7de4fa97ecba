"""Aider: the chat history that it keeps in Markdown beside a project's files."""

from __future__ import annotations

import re

from ctx_pipeline.model.agent_config import Agent
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity

HISTORY = "history"

_FIRST = lazy_pattern(rb"^# aider chat started at (\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})", re.MULTILINE)


def classify(rel: str) -> str | None:
    """Return the kind of a file of a project's folder."""
    return HISTORY if rel == ".aider.chat.history.md" or (rel.endswith(".history.md") and "/" not in rel) else None


def enter(rel: str) -> bool:
    """Tell whether a folder holds histories: only the named one does."""
    return rel in {"", "."}


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a history is: it has no id, so the time of its first chat stands for one."""
    found = _FIRST.search(head) if kind == HISTORY and rel is not None else None
    if found is None:
        return None
    day, clock = (part.decode("ascii") for part in found.groups())
    return Identity(f"{day}T{clock.replace(':', '-')}", first_ts=micros(f"{day}T{clock}Z"))


HOST = Host(
    key="aider",
    title="Aider",
    version=1,
    files=HomeFiles(
        roots_env="AIDER_CHAT_HISTORY_FILE",
        roots_default=("~/.aider.chat.history.md",),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=frozenset({HISTORY}),
        rules_files=("CONVENTIONS.md",),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.aider.history:parse"),
        window=Deferred("ctx_pipeline.hosts.aider.history:window"),
    ),
    agent=Agent(called=("aider",), rules_file="CONVENTIONS.md"),
)
