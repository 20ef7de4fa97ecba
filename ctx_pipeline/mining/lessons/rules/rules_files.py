"""Rules files, such as CLAUDE.md and AGENTS.md, that stood before an agent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.mining.lessons.commands import outside
from ctx_pipeline.mining.lessons.rules.said_rules import terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.session_view import SessionView

_OTHER_RULES_FILES = ("AGENTS.md", "GEMINI.md", ".cursorrules", "copilot-instructions.md")
"""Beside those that hosts declare: what other agents read lies in the same repositories."""

_IN_FOLDER = re.compile(r"/(\.\w+/rules/[\w./-]+\.mdc?)$")
_READ = 40_000
"""Characters of a file that are looked at."""

_WINDOW = 3
"""Lines of a rules file that say one thing together."""

_LONG_LINE = 300
"""Characters of a line that is a whole paragraph: its sentences count as lines."""

_COVERED = 0.6
"""Share of the content words of a lesson that such lines hold when they say the same."""


def rules_before_agent(view: SessionView) -> dict[str, list[Any]]:
    """Return rules file -> the events with its text: put before the agent by its host, read, or changed."""
    texts: dict[str, list[Any]] = {}
    files = (*_OTHER_RULES_FILES, *discovery.declared_texts("files.rules_files"))
    named = re.compile(rf"(?:{'|'.join(map(re.escape, files))})\b")
    for event in view.of_kinds("injected"):
        found = named.search((event.text or "")[:4000])
        if found:
            texts.setdefault(found[0], []).append(event)
    cwd = f"{(view.session.cwd or '').rstrip('/')}/"
    for call in view.tool_calls:
        paths = [] if call.is_error else [p.replace("\\", "/") for p in call.paths]
        file = next((f for p in paths if (f := _rules_file(p, files)) and _governs(p.removesuffix(f), cwd)), "")
        both = (call.call_event, call.result_event if call.action == "read" else None)
        if file and (known := [view.by_event[e] for e in both if e in view.by_event]):
            texts.setdefault(file, []).extend(known)
    return texts


def lines_of(text: str, *, sentences: bool = True) -> Iterator[str]:
    """Yield the lines of a rules file as an event holds them, by sentences unless that is turned off."""
    yield from re.split(r"\\n|\n|(?<=[.!?;])\s+" if sentences else r"\\n|\n", text[:_READ])


def rule_windows(view: SessionView) -> list[frozenset[str]]:
    """Return the content words of each few lines of the rules files that the agent was shown; what an edit writes is not shown."""
    found: list[frozenset[str]] = []
    for events in rules_before_agent(view).values():
        for event in events:
            if event.kind != "tool_call":
                whole = lines_of(event.text or "", sentences=False)
                parts = (part for line in whole for part in (lines_of(line) if len(line) > _LONG_LINE else (line,)))
                lines = [terms(part) for part in parts if part.strip()]
                found += [frozenset().union(*lines[n : n + _WINDOW]) for n in range(len(lines))]
    return found


def stands_in_rules(words: frozenset[str], windows: Sequence[frozenset[str]]) -> bool:
    """Tell whether few lines of a rules file hold most of the content words of a lesson."""
    return bool(words) and any(len(words & window) >= _COVERED * len(words) for window in windows)


def _rules_file(path: str, files: Sequence[str]) -> str:
    """Return the name of the rules file at a path: declared by a host, in the folder of rules of one, or a README; empty for others."""
    declared = next((f for f in files if path.endswith(f)), "")
    in_folder = _IN_FOLDER.search(path) if discovery.project_folder_pattern().search(path) else None
    return declared or (in_folder[1] if in_folder else "README.md" if path.endswith("/README.md") and not outside(path) else "")


def _governs(folder: str, cwd: str) -> bool:
    """Tell whether a rules file's folder, or what it is the folder of an agent's settings of, is that of the session or one around it."""
    return cwd == "/" or cwd.startswith(re.sub(r"(^|/)\.\w+/$", r"\1", folder))
