"""What an agent wrote into its own memory files about the person's words: a lesson that it worded itself, which waits for a person."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.facts.prompts import typed
from ctx_pipeline.mining.lessons.failures import clean, shorten_paths
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import MODEL_WRITTEN, MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.session_view import SessionView

_FILE = lazy_pattern(r"/memory/[\w.-]{1,120}\.md$")
_DESCRIPTION = lazy_pattern(r"\A---\n(?:(?!---)[^\n]*\n){0,12}?description:[ \t]*(?P<note>[^\n]{20,400})\n(?:[^\n]*\n){0,12}?---\n")
_YAML_QUOTED = lazy_pattern(r"(?:\"(?P<double>(?:\\.|[^\"\\])*+)\"|'(?P<single>(?:''|[^'])*+)')[ \t]*\Z")
_QUOTED = lazy_pattern(r"(?<![0-9])\"(?P<straight>[^\"\n]*)\"|\u201c(?P<curly>[^\u201c\u201d\n]*)\u201d")
"""Words between marks of quoting; behind a digit a straight one opens nothing: a panel of 5"."""
_LEAST_WORDS, _LEAST_CHARS, _MOST_CHARS, _LONGEST = 4, 10, 300, 100_000


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each memory file that the agent wrote with a description and with words that the person had typed in the session before.

    Of a file that was written again the newest content is read.
    """
    written: dict[str, Any] = {}
    for call in view.tool_calls:
        if call.action == "write" and not call.is_error:
            written |= dict.fromkeys(filter(_is_memory, call.paths), call)
    for path, call in written.items():
        content = _content(view.call_text(call))
        note, found = _DESCRIPTION.search(content), _said_before(view, call, content)
        if note is None or found is None:
            continue
        prompt, said = found
        yield MemoryCandidate(
            kind="user_preference",
            text=f"{shorten_paths(clean(_without_quotes(note['note'])), view.session.cwd).rstrip('. ')}: “{said}”",
            evidence_refs=(prompt.event_id, call.call_event),
            confidence=0.5,
            priority=3,
            scope="repo",
            risk="low",
            structured={MODEL_WRITTEN: True, "quotes": [said]},
            subject=path.rpartition("/")[2].removesuffix(".md"),
            ts=prompt.ts,
        )


def _is_memory(path: str) -> bool:
    """Tell whether a file is one of those in which an agent keeps what it wants to remember of a project."""
    return _FILE.search(path) is not None and discovery.project_folder_pattern().search(path) is not None


def _content(arguments: str) -> str:
    """Return what a call wrote; empty where its arguments are cut or of another form."""
    try:
        given = json.loads(arguments) if len(arguments) <= _LONGEST else None
    except ValueError:
        return ""
    content = given.get("content") if isinstance(given, dict) else None
    return content.replace("\r\n", "\n") if isinstance(content, str) else ""


def _without_quotes(value: str) -> str:
    """Return the text of a value in YAML that may stand in quotes."""
    quoted = _YAML_QUOTED.match(value)
    if quoted is None:
        return value
    return quoted["single"].replace("''", "'") if quoted["double"] is None else quoted["double"].replace('\\"', '"')


def _said_before(view: SessionView, call: Any, content: str) -> tuple[Any, str] | None:
    """Return the newest prompt before a call of which a text quotes words, with these; None where it quotes nothing of the person."""
    every = (q["straight"] or q["curly"] or "" for q in _QUOTED.finditer(content))
    quotes = [q for q in every if _LEAST_CHARS <= len(q) <= _MOST_CHARS and len(q.split()) >= _LEAST_WORDS]
    before = [(e, _plain(e.text or "")) for e in typed(view) if e.seq < call.seq] if quotes else []
    return next(((e, clean(said)) for e, text in reversed(before) for said in quotes if f" {_plain(said)} " in f" {text} "), None)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text[:20_000].lower()))
