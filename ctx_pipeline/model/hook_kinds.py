"""What our hooks do, and the folders whose sessions are our own questions to an agent: read by every hook, so with few imports."""

from __future__ import annotations

from ctx_pipeline.model.lazy_pattern import lazy_pattern

WEAVE = "weave"
"""What a hook does: answer with the memories that are relevant now."""

CAPTURE = "capture"
"""What a hook does: start a ``ctx sync`` and answer nothing."""

PREPARE = "prepare"
"""What the hook before a compaction starts beside its sync: keep what the session will be told after it."""

SHORTEN = "shorten"
"""What a hook does: answer with the output of a command in fewer tokens, in place of the output."""


ASKED_BOX, ASKED_FOLDER = "ctx-asked-", "ctx-mining"
"""Beginning of the name of the temporary folder in which an agent is asked, and the name of the empty one in it."""

_ASKED = lazy_pattern(rf"[/\\]{ASKED_BOX}[^/\\]+[/\\]{ASKED_FOLDER}[/\\]?$")


def asked_here(cwd: str | None) -> bool:
    """Tell whether a session ran in a folder that was made for a question: a version that saves it anyway must not be mined."""
    return bool(cwd) and _ASKED.search(str(cwd)) is not None


MADE = "session.made"
"""Kind of the facts that tell of an artifact that was made of a session, or imported."""

SAID = "session.said"
"""Kind of the facts that tell of a note on a session."""

CHOSEN = "session.profile"
"""Kind of the facts that switch the profile."""

PROFILES = "profiles"
"""Folder of the store that holds a person's own profiles."""
