"""What Codex's records do to the context window."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.host_records import OUT, SYSTEM, Change, usual

if TYPE_CHECKING:
    from collections.abc import Callable


def window(kind: str, subtype: str | None, text: str | None, record: Callable[[], bytes]) -> str | Change:
    """Return where an event stands in the window, or what its record took out of it; see :class:`Host`.

    A ``compacted`` record lists the messages that the next window begins with; where it
    lists none the window begins with what the person typed, as older versions do it.
    """
    name = subtype or ""
    if kind == "compaction":
        listed = _replacement_texts(record()) if name == "compacted" else None
        return Change("compaction", everything=True, kept=listed or (), keeps_prompts=listed is None, text=text)
    if name == "thread_rolled_back":
        return Change("rollback", turns=_turns(text))
    if name == "session_meta/instructions":
        return SYSTEM
    if kind == "injected" and (name in {"interrupt", "turn_aborted"} or name.startswith("replay/")):
        return OUT
    return usual(kind, text)


def _replacement_texts(line: bytes) -> tuple[str, ...] | None:
    """Return the texts of the messages in the history that replaced the old one; None when there is none."""
    payload = _payload(line)
    history = payload.get("replacement_history")
    if not isinstance(history, list):
        return None
    return tuple(_joined(item.get("content")) for item in history if isinstance(item, dict) and item.get("type") == "message")


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else ()
    return "\n".join(b["text"] for b in blocks if isinstance(b, dict) and isinstance(b.get("text"), str))


def _turns(text: str | None) -> int:
    asked = _payload((text or "").encode()).get("num_turns")
    return asked if isinstance(asked, int) and not isinstance(asked, bool) and asked > 0 else 0


def _payload(line: bytes) -> dict[str, Any]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    body = said.get("payload", said) if isinstance(said, dict) else None
    return body if isinstance(body, dict) else {}
