"""How memories are printed: one field by field, several as a list."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from ctx_pipeline.cli.output import OPENS_EVIDENCE, counted, local_time, one_line, plain, say, table
from ctx_pipeline.model.repository_names import project_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.memory.lesson_files import Grade
    from ctx_pipeline.model.memories import Memory

_TIMES = ("first_ts", "last_ts")
_QUOTE, _MIND, _NARROWEST = 240, 60, 40
_HEADS = {"memory_id": "id", "kind": "kind", "status": "status", "support": "sessions", "project": "project"}


def print_memory(memory: Memory, minded: Sequence[str], graded: Grade | None, quoted: Sequence[dict[str, Any]], zone: str | None) -> None:
    """Print a memory field by field: its body as lines, times on the clock of a zone, and of each event it rests on a short quote."""
    from ctx_pipeline.learning.memories import sayings

    texts = {q["event_id"]: q for q in quoted}
    for name, value in memory._asdict().items():
        if value in (None, "", [], ()):
            continue
        if name == "structured":
            _body(memory, zone)
        elif name == "evidence":
            _evidence(memory, texts, zone)
        elif name in _TIMES:
            say(f"{name}: {local_time(value, zone)}")
        else:
            say(f"{name}: {', '.join(map(plain, value)) if isinstance(value, list | tuple) else plain(value)}")
    if graded:
        say(f"grade: {graded.letter} ({', '.join(f'{name} {value:g}' for name, value in graded.parts.items())})")
    for mark in minded:
        say(f"mind: {plain(mark)}")
    for said in sayings(memory):
        say(f"  said again: “{one_line(str(said.get('quote')), 200)}” ({plain(str(said.get('session')))})")


def print_list(memories: Sequence[Memory], minded: Mapping[str, Sequence[str]]) -> None:
    """Print memories with their whole texts: piped a line each, on a terminal with the text wrapped below its id."""
    rows = [
        {
            **m._asdict(),
            "project": project_of(m.repository or m.cwd) if m.repository or m.cwd else "",
            "mind": one_line("; ".join(minded.get(m.memory_id, ())), _MIND),
        }
        for m in memories
    ]
    if not memories or not sys.stdout.isatty():
        marked = {"mind": "mind"} if any(r["mind"] for r in rows) else {}
        table(rows, {**_HEADS, **marked, "text": "text"}, whole="text")
        return
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for m in memories:
        sessions = counted(m.support, "session") if m.support else ""
        parts = (m.memory_id, m.kind, m.status, sessions, project_of(m.repository or m.cwd) if m.repository or m.cwd else "")
        say(one_line("  ".join(filter(None, parts)), width), bold=True)
        for said in (m.text, *(f"mind: {mark}" for mark in minded.get(m.memory_id, ()))):
            text = " ".join(plain(said).split())
            say(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))


def _body(memory: Memory, zone: str | None) -> None:
    say("body:")
    for key, value in memory.body.items():
        if key == "said":
            continue
        items = value if isinstance(value, list) else [value]
        shown = [local_time(i, zone) if key.endswith("_ts") and isinstance(i, int) else _value(i) for i in items]
        if len(shown) == 1:
            say(f"  {plain(key)}: {shown[0]}")
        else:
            say(f"  {plain(key)}:")
            for item in shown:
                say(f"    - {item}")


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return one_line(", ".join(f"{k} {v}" for k, v in value.items()), 400)
    return one_line(value, 400)


def _evidence(memory: Memory, texts: dict[str, dict[str, Any]], zone: str | None) -> None:
    say("evidence:")
    for event in memory.evidence:
        found = texts.get(event)
        told = f"  {local_time(found['ts'], zone)}  {found['kind']}: {one_line(found['text'], _QUOTE)}" if found else ""
        say(f"  {plain(event)}{told}")
    if memory.evidence:
        say(OPENS_EVIDENCE, dim=True)
