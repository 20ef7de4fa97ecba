"""A memory as a skill of an agent: ``SKILL.md`` as Claude Code and Codex read it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.safety import readable, strings_of, unread
from ctx_pipeline.model.markdown import inline, prose
from ctx_pipeline.shell.commands import steps

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
    """Return the name of the skill: words in small letters with hyphens, at most 64 signs.

    A note's own title names it; what was mined is named after what it does (the files that
    it changes, the commands that it runs), since a request that was typed once names no skill.
    """
    body = _body(memory)
    own = next(iter(body.get("names") or ()), None)
    title = (own or body.get("title")) if memory.source == "authored" else _does(body) or own or body.get("title")
    title = title or memory.when_to_use or memory.text
    words = list(dict.fromkeys(w for w in re.findall(r"[a-z0-9]+", str(title).lower()) if w not in _LEFT_OUT))[:8]
    name = ""
    for word in words:
        if len(name) + len(word) + 1 > _NAME:
            break
        name = f"{name}-{word}" if name else word
    return name or memory.memory_id.lower()[:_NAME]


_FILE = re.compile(r"(?:edit|write|change) `([^`]+)`")
_COMMAND = re.compile(r"(?:run )?`?([^`]+?)`?$")


def _does(body: dict[str, Any]) -> str:
    """Return what the steps of a mined memory do, in words: "change export docs check make test"; empty where they do not say it."""
    told = [s for s in body.get("steps") or () if isinstance(s, str)]
    files = list(dict.fromkeys(m[1].rpartition("/")[2].partition(".")[0] for s in told if (m := _FILE.match(s))))
    whole = [s for s in told if not _FILE.match(s) and (s.startswith(("run `", "`")) or ("`" not in s and _is_command(s)))]
    ran = [m[1] for s in whole if (m := _COMMAND.match(s))]
    given = body.get("verification") or ()
    checks = [str(v).strip("`") for v in ([given] if isinstance(given, str) else given)] if files else []
    subjects = list(dict.fromkeys(step.subject for line in (checks[:1] or ran) for step in steps(line)))
    if files:
        return " ".join(["change", *files[:_NAMED], *(["check", subjects[-1]] if subjects else [])])
    return " ".join(["run", *subjects[:_NAMED]]) if subjects else ""


def _is_command(text: str) -> bool:
    return any(step.purpose != "other" for step in steps(text))


_NAMED = 2
"""Files and commands in a name."""


def skill_text(memory: Memory, name: str) -> str:
    """Return the text of ``SKILL.md``: name, when to use it, the lesson, its steps and where it comes from.

    Raises UsageError for a memory that a check holds back, or that was rejected or retired.
    """
    body = _body(memory)
    held = memory.flags or unread(memory, [memory.text, memory.when_to_use, *strings_of(body)])
    if held or memory.status in ("needs_review", "rejected", "retired"):
        raise UsageError(f"{memory.memory_id} is {memory.status} and no skill is made of it", hint=f"ctx memory show {memory.memory_id}")
    text = prose(_plain(memory.text))
    when = inline(_plain(memory.when_to_use or ""))
    first = inline(_plain(memory.text))
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
            lines += [f"## {title}", "", *(f"{m} {inline(_plain(str(i)))}" for m, i in zip(marks, items, strict=True)), ""]
    support = f"{memory.support} session{'s' if memory.support != 1 else ''}" if memory.support else "a note"
    lines += [f"*{inline(f'{memory.memory_id}, {memory.kind}, from {support}; confidence {memory.confidence:g}')}*", ""]
    return "\n".join(lines)


def _body(memory: Memory) -> dict[str, Any]:
    found = json.loads(memory.structured) if memory.structured else {}
    return found if isinstance(found, dict) else {}


def _plain(text: str) -> str:
    return "\n".join(readable(line) for line in text.splitlines()).strip()
