"""What ``claude -p --output-format stream-json`` prints: one record a message, the last one with the answer and its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.agent_config import HeadlessAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NANO = 1_000_000_000


def read(records: Iterable[Mapping[str, Any]]) -> HeadlessAnswer:
    """Return what the ``result`` record says; an error where the stream ended without one."""
    model: str | None = None
    for record in records:
        if record.get("type") == "system" and isinstance(record.get("model"), str):
            model = record["model"]
        if record.get("type") == "result":
            return _result(record, model)
    return HeadlessAnswer("", model, error="the stream ended without a result")


def _result(record: Mapping[str, Any], model: str | None) -> HeadlessAnswer:
    usage = record.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    cached = _count(usage.get("cache_read_input_tokens"))
    fresh = _count(usage.get("input_tokens")) + _count(usage.get("cache_creation_input_tokens"))
    cost = record.get("total_cost_usd")
    text = record.get("result")
    text = text if isinstance(text, str) else ""
    failed = bool(record.get("is_error")) or record.get("subtype") != "success"
    return HeadlessAnswer(
        "" if failed else text,
        model,
        fresh + cached,
        cached,
        _count(usage.get("output_tokens")),
        round(cost * _NANO) if isinstance(cost, int | float) and 0 <= cost < 1e6 else None,
        (text or str(record.get("subtype") or "an error"))[:300] if failed else "",
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
