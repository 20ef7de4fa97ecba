"""A memory as a skill of an agent: ``SKILL.md`` as Claude Code and Codex read it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.safety import readable, scan

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory

_NAME, _DESCRIPTION = 64, 1024
"""Longest name and description of a skill; both agents refuse longer ones."""

_SECTIONS = (
    ("preconditions", "Before you begin"),
    ("steps", "Steps"),
    ("warnings", "Mind"),
    ("verification", "Check"),
    ("termination", "Done when"),
)
_LEFT = "a an and are as at be by for from in is it of on or that the this to was with after until fails failed works"
_LEFT_OUT = frozenset(_LEFT.split())


def skill_name(memory: Memory) -> str:
    """Return the name of the skill: words of its title or first line in small letters with hyphens, at most 64 signs."""
    body = _body(memory)
    title = body.get("title") or next(iter(body.get("names") or ()), None) or memory.when_to_use or memory.text
    words = [w for w in re.findall(r"[a-z0-9]+", str(title).lower()) if w not in _LEFT_OUT][:8]
    name = ""
    for word in words:
        if len(name) + len(word) + 1 > _NAME:
            break
        name = f"{name}-{word}" if name else word
    return name or memory.memory_id.lower()[:_NAME]


def skill_text(memory: Memory, name: str) -> str:
    """Return the text of ``SKILL.md``: name, when to use it, the lesson, its steps and where it comes from.

    Raises UsageError for a memory that a check holds back, or that was rejected or retired.
    """
    body = _body(memory)
    if (
        memory.flags
        or memory.status in ("needs_review", "rejected", "retired")
        or scan([memory.text, memory.when_to_use, memory.structured])
    ):
        raise UsageError(f"{memory.memory_id} is {memory.status} and no skill is made of it", hint=f"ctx memory show {memory.memory_id}")
    text = _plain(memory.text)
    when = " ".join(_plain(memory.when_to_use or "").split())
    first = " ".join(text.split())
    description = (f"{first} Use when: {when}" if when else first)[:_DESCRIPTION]
    lines = [
        "---",
        f"name: {name}",
        f"description: {json.dumps(description, ensure_ascii=False)}",
        "---",
        "",
        text,
        "",
    ]
    for key, title in _SECTIONS:
        value = body.get(key)
        items = [i for i in (value if isinstance(value, list) else [value]) if i]
        if items:
            marks = [f"{n}." for n in range(1, len(items) + 1)] if key == "steps" else ["-"] * len(items)
            lines += [f"## {title}", "", *(f"{m} {' '.join(_plain(str(i)).split())}" for m, i in zip(marks, items, strict=True)), ""]
    support = f"{memory.support} session{'s' if memory.support != 1 else ''}" if memory.support else "a note"
    lines += [f"<!-- {memory.memory_id}, {memory.kind}, from {support}; confidence {memory.confidence:g} -->", ""]
    return "\n".join(lines)


def _body(memory: Memory) -> dict[str, Any]:
    found = json.loads(memory.structured) if memory.structured else {}
    return found if isinstance(found, dict) else {}


def _plain(text: str) -> str:
    return "\n".join(readable(line) for line in text.splitlines()).strip()
