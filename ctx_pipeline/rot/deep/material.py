"""What the model is given of a session: figures at once, texts through tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UnknownName
from ctx_pipeline.rot.analysis import analyze_session
from ctx_pipeline.rot.repetition import pair_scores

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.rot.analysis import Sessions

_ROWS = 400
"""Calls whose rows are given whole; of a longer session every n-th, with the first and the last."""


class Material:
    """A session as data for the interpreter, and the tools that read its texts. Raises UnknownName."""

    def __init__(self, store: Sessions, session_id: str) -> None:
        session = store.get_session(session_id)
        if session is None:
            raise UnknownName("session", session_id, ())
        self.analysis = analyze_session(store, session_id)
        self._content = {row["seq"]: row for row in store.get_lm_call_content(session_id)}
        self._tools = {row["tool_call_id"]: row for row in store.get_tool_call_content(session_id)}
        growth = store.get_growth_data(session_id)
        self.data: dict[str, Any] = {
            "rot_analysis": {
                **self.analysis,
                "repetition": _thinned(self.analysis["repetition"]),
                "efficiency": _thinned(self.analysis["efficiency"]),
            },
            "summary": store.get_session_summary(session_id),
            "session": session,
            "growth": _thinned(growth),
            "tool_impact": store.get_tool_impact(session_id),
            "tools_by_iteration": {str(seq): tools for seq, tools in store.get_tools_by_iteration(session_id).items()},
            "content": [{n: r[n] for n in ("seq", "prompt_char_count", "completion_char_count")} for r in self._content.values()],
            "tool_content": [{n: r[n] for n in ("tool_call_id", "output_char_count")} for r in self._tools.values()],
        }

    @property
    def has_content(self) -> bool:
        """Whether texts were stored."""
        return bool(self._content)

    @property
    def chars(self) -> int:
        """Characters of all completions and tool outputs."""
        return sum(len(r["completion"] or "") for r in self._content.values()) + sum(
            len(r["output_text"] or "") for r in self._tools.values()
        )

    def tools(self) -> list[Callable[..., str]]:
        """Return the tools; each returns text, empty for what is unknown or was not stored."""

        def compute_repetition_score(text_a: str, text_b: str) -> str:
            """Return the 3-gram Jaccard and the sequence similarity of two texts as JSON."""
            return json.dumps(pair_scores(text_a, text_b))

        def compute_all_repetition_scores() -> str:
            """Return the repetition scores of every completion as a JSON list."""
            return json.dumps(self.analysis["repetition"] or [])

        def get_completion_text(seq: int, max_chars: int = 0) -> str:
            """Return what the model said at a call; with max_chars only its beginning."""
            return _cut(self._content.get(int(seq), {}).get("completion"), max_chars)

        def get_messages_json(seq: int, max_chars: int = 0) -> str:
            """Return the messages of a call as JSON; with max_chars only their beginning."""
            return _cut(self._content.get(int(seq), {}).get("messages_json"), max_chars)

        def get_tool_output(tool_call_id: str, max_chars: int = 0) -> str:
            """Return what a tool returned; with max_chars only its beginning."""
            return _cut(self._tools.get(str(tool_call_id), {}).get("output_text"), max_chars)

        return [compute_repetition_score, compute_all_repetition_scores, get_completion_text, get_messages_json, get_tool_output]


def _cut(text: str | None, most: int) -> str:
    text = text or ""
    return text if most <= 0 or len(text) <= most else f"{text[:most]}\n[cut: {len(text):,} characters in all]"


def _thinned(rows: list[Any] | None) -> list[Any] | None:
    if rows is None or len(rows) <= _ROWS:
        return rows
    step = -(-len(rows) // _ROWS)
    kept = rows[::step]
    return kept if kept[-1] is rows[-1] else [*kept, rows[-1]]
