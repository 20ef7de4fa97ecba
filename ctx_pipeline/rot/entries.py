"""From a row of the log to what is stored of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.model.callback_log import encode
from ctx_pipeline.rot.content import encoded
from ctx_pipeline.rot.redacting import redacted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.model.callback_log import LogRow
    from ctx_pipeline.rot.database import Entry

LONGEST = 400_000_000
"""Characters of a row's JSON; a longer one is stored without its texts. SQLite takes 1,000,000,000 bytes."""

_BARE = frozenset({"model", "started", "ended", "usage", "cost", "number", "tool", "after_number", "output_tokens_est", "finish_reason"})


def entry(row: LogRow, redact: Callable[[str], str] | None) -> Entry:
    """Return a row as it is stored, secrets replaced. Nothing raises: what cannot be stored is said in ``error``."""
    try:
        text = _text(row, redact)
    except Exception as error:  # noqa: BLE001 - a text that cannot be encoded or checked is not stored
        text = encode({"error": f"not stored: {type(error).__name__}"})
    return (row.at, row.session_id, row.kind, row.call_id, row.parent_call_id, text.encode())


def _text(row: LogRow, redact: Callable[[str], str] | None) -> str:
    try:
        text = encode(row.payload)
    except Exception:  # noqa: BLE001 - a value of somebody's class may raise anything
        text = bytes(encoded(row.payload)).decode()
    if len(text) > LONGEST:
        kept = {name: value for name, value in row.payload.items() if name in _BARE}
        text = encode({**kept, "error": f"texts not stored: {len(text):,} characters"})
    row.payload.clear()  # a long text is held once from here on
    return text if redact is None else redacted(text, redact)
