"""Where Codex keeps its sessions, and what else ``$CODEX_HOME`` may name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROLLOUT, HISTORY, INDEX, STATE, LOOSE = "rollout", "history", "index", "state", "loose"
"""Kinds of its files; a loose one is JSONL that only its content tells apart."""

_SESSIONS = frozenset({"sessions", "archived_sessions"})
_STREAMS = "exec"
"""Folder of a home for the output of ``codex exec --json``."""

_HOME = _SESSIONS | {"config.toml", "auth.json", "history.jsonl", "session_index.jsonl", "version.json"}
_LINES = (".jsonl", ".jsonl.zst")


def classify(rel: str) -> str | None:
    """Return the kind of a file of the home, or None when it is not captured (credentials, logs, settings)."""
    folder, _, name = rel.rpartition("/")
    if not folder:
        if name in {"history.jsonl", "session_index.jsonl"}:
            return HISTORY if name == "history.jsonl" else INDEX
        path = name.partition("#")[0]
        return STATE if path.startswith("state_") and path.endswith(".sqlite") else None
    top = folder.partition("/")[0]
    if top == _STREAMS:
        return LOOSE if name.endswith(_LINES) else None
    if top not in _SESSIONS or not name.startswith("rollout-"):
        return None
    return ROLLOUT if name.endswith((".jsonl", ".jsonl.zst", ".json")) else None


def enter(rel: str) -> bool:
    """Tell whether a folder of the home holds rollouts or streams."""
    return rel in {"", "."} or rel.partition("/")[0] in {*_SESSIONS, _STREAMS}


def places(root: Path) -> tuple[Callable[[str], str | None], Callable[[str], bool]] | None:
    """Return how a root that is no home is read: a file or folder of loose JSONL; None for a home.

    A home has a state database, a folder of sessions or a file that Codex itself keeps
    there. Any other root is searched for rollouts and streams of ``codex exec --json``.
    """
    try:
        names = {entry.name for entry in os.scandir(root)}
    except NotADirectoryError:
        return _loose, _enter_any
    except OSError:
        return None
    if names & _HOME or any(name.startswith("state_") and name.endswith(".sqlite") for name in names):
        return None
    return _loose, _enter_any


def _loose(rel: str) -> str | None:
    name = rel.rpartition("/")[2]
    if name.startswith("rollout-") and name.endswith((".jsonl", ".jsonl.zst", ".json")):
        return ROLLOUT
    return LOOSE if name.endswith(_LINES) and not name.startswith(".") else None


def _enter_any(rel: str) -> bool:
    return not rel.rpartition("/")[2].startswith(".") or rel == "."
