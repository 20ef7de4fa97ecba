"""What ``codex exec --json`` prints: items as they are completed, then the turn with its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.agent_config import HeadlessAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def read(records: Iterable[Mapping[str, Any]]) -> HeadlessAnswer:
    """Return the last message of the agent with the tokens of all turns; an error where no turn was completed.

    The stream names neither the model nor a cost.
    """
    text, error = "", ""
    done = False
    tokens = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    for record in records:
        kind = record.get("type")
        item = record.get("item")
        if (
            kind == "item.completed"
            and isinstance(item, dict)
            and item.get("type") == "agent_message"
            and isinstance(item.get("text"), str)
        ):
            text = item["text"]
        elif kind == "turn.completed":
            done, error = True, ""
            usage = record.get("usage")
            for name, value in (usage if isinstance(usage, dict) else {}).items():
                if name in tokens and isinstance(value, int) and value > 0:
                    tokens[name] += value
        elif kind in ("turn.failed", "error"):
            told = record.get("error")
            done = False
            error = str(told.get("message") if isinstance(told, dict) else record.get("message") or kind)[:300]
    if not done:
        text, error = "", error or "the stream ended without a completed turn"
    return HeadlessAnswer(text, None, tokens["input_tokens"], tokens["cached_input_tokens"], tokens["output_tokens"], None, error)
