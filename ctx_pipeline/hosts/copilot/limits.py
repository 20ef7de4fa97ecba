"""Limits that Copilot's records say were reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.host_records import PLAN, REQUESTS, LimitNote

if TYPE_CHECKING:
    from collections.abc import Iterator


def reached(subtype: str, _text: str, _ts: int) -> Iterator[LimitNote]:
    """Yield the limit that an error names: the plan's quota, or the provider's rate."""
    yield LimitNote(PLAN if subtype.endswith("/quota") else REQUESTS)
