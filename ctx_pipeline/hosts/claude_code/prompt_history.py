"""Who is named in the prompt history, and when: sessions whose transcripts may be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.hosts.claude_code.records import DecodeErrors

if TYPE_CHECKING:
    from collections.abc import Iterator

_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class _Said(msgspec.Struct, gc=False, rename="camel"):
    session_id: str | None = None
    display: str | None = None
    timestamp: Any = None


_decode = msgspec.json.Decoder(_Said).decode


def mentions(kind: str, data: bytes) -> Iterator[tuple[str, int]]:
    """Yield (session, microseconds since 1970) for each prompt of the history; slash commands open no transcript and are passed over."""
    if kind != "history":
        return
    for line in data.split(b"\n"):
        try:
            said = _decode(line)
        except DecodeErrors:
            continue
        at = said.timestamp
        if not said.session_id or not said.display or said.display.startswith("/") or isinstance(at, bool):
            continue
        if isinstance(at, int | float) and 0 < at <= _LATEST:
            yield said.session_id, int(at * 1000)
