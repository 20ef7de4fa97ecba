"""Lessons as Markdown files: notes that a person writes, skills of an agent (``SKILL.md``), and how good a skill is."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.errors import ParseError, UsageError
from ctx_pipeline.memory.prompt_block import estimate
from ctx_pipeline.memory.ranking import NOT_WHEN, VALID_UNTIL, a_day
from ctx_pipeline.memory.safety import readable, strings_of, unread
from ctx_pipeline.model.display import inline, prose
from ctx_pipeline.model.memories import KINDS, RISKS, SCOPES
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import Memory


# Notes that a person writes in Markdown: front matter, names they go by, and what became of words where numbers
# belong.


LARGEST = 200_000
"""Bytes of a note; a larger file is no note."""

_FENCE = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"(?m)^#[ \t]+(\S.*?)[ \t]*#*$")
_AUTHORED_STATUSES = ("candidate", "accepted", "retired")
_SCOPE_WORDS = {"repository": "repo", "project": "repo"}
_SYNONYMS = {"when": "when_to_use", "origin_repo": "repository", "repo": "repository", "type": "kind"} | {
    "expires": VALID_UNTIL,
    "expires_at": VALID_UNTIL,
    "do_not_use_when": NOT_WHEN,
}
_NUMBERS = {"confidence": (0.0, 1.0), "priority": (1.0, 5.0)}
_CHOICES = {"kind": KINDS, "scope": SCOPES, "risk": RISKS, "status": _AUTHORED_STATUSES}
DEFAULTS = {"kind": "case", "scope": "repo", "status": "accepted", "risk": "medium", "confidence": "0.8", "priority": "3"}
"""What holds where a word is not understood."""

_NO_YAML = "the front matter is no YAML"
_ID = re.compile(r"[^\w./:@+-]+")


class NotANote(ParseError, ValueError):
    """A file that cannot become a memory; the message says why."""

    advice = "write it as Markdown with a heading or front matter, or take it out of the folder"


@dataclass(frozen=True)
class Note:
    """One note: what a memory is made of, and what of its front matter was left aside."""

    path: str
    """relative to the folder of the notes, with forward slashes"""
    fields: dict[str, Any]
    names: list[str] = field(default_factory=list)
    """what links may call it: file name, path, title and aliases"""
    problems: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    """why a person must read it before it reaches a prompt"""
    unplaced: str = ""
    """why it is not known where it holds; held back for it unless a repository is known"""

    @property
    def stem(self) -> str:
        """File name without its ending."""
        return self.path.rpartition("/")[2].removesuffix(".md")


def read_note(path: str, data: bytes) -> Note:
    """Return the note that the bytes of a file hold; raises NotANote.

    UTF-8 with or without a mark, UTF-16 with one, else Windows-1252 are read, with any line
    ends. Front matter is YAML between two lines of three dashes at the top. A value that
    does not fit its field is left out, so that the documented default holds, and named.
    What is said badly about where a note holds never makes it hold everywhere.
    """
    if len(data) > LARGEST:
        raise NotANote(f"larger than {LARGEST:,} bytes")
    text, problems = _decoded(data)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    held: list[str] = []
    matter: dict[Any, Any] = {}
    found = _FENCE.match(text)
    if found:
        read = _yaml(found.group(1))
        if isinstance(read, dict):  # else two rules drawn across a page
            matter, text = read, text[found.end() :]
        elif read is None:
            held.append(_NO_YAML)
            text = text[found.end() :]
    body = text.strip()
    if not body:
        raise NotANote("nothing is written in it")
    fields: dict[str, Any] = {"text": body}
    names: list[str] = []
    for raw, value in matter.items():
        key = str(raw).strip().lower()
        key = _SYNONYMS.get(key, key)
        if key in ("aliases", "alias", "title"):
            names += _strings(value)
        elif key == "tags":
            fields["tags"] = _strings(value)
        elif key in ("id", "when_to_use", "repository", VALID_UNTIL, NOT_WHEN, *_NUMBERS, *_CHOICES):
            kept = _fitting(key, value)
            if kept is None:
                problems += [_refused(key, value)] if value is not None else []
            else:
                fields[key] = kept
    said = {_SYNONYMS.get(k, k): v for k, v in ((str(raw).strip().lower(), v) for raw, v in matter.items())}
    unplaced = ""
    if "scope" not in fields and ("repository" in said or said.get("scope") is not None):
        fields["scope"] = "repo"
        if "repository" not in fields:
            word = next(k for k in ("scope", "repository") if k in said)
            unplaced = f"its {word} is not understood" if said[word] is not None else f"its {word} is empty"
    heading = _HEADING.search(body)
    stem = path.removesuffix(".md")
    own = [stem.rpartition("/")[2], stem, *([heading.group(1)] if heading else []), *names]
    return Note(path, fields, list(dict.fromkeys(name for n in own if (name := " ".join(n.split())[:200]))), problems, held, unplaced)


def _refused(key: str, value: Any) -> str:
    """Return that a value is not understood, what would be, and what holds instead."""
    told = f"{key}: {str(value)[:40]!r} is not understood"
    if key not in DEFAULTS:
        return told
    known = f"one of {', '.join(_CHOICES[key])}" if key in _CHOICES else "a number from {:g} to {:g}".format(*_NUMBERS[key])
    return f"{told} ({known}; {DEFAULTS[key]} is taken)"


def _decoded(data: bytes) -> tuple[str, list[str]]:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace"), []
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        if b"\0" in data:
            raise NotANote("not a text") from None
        return data.decode("cp1252", "replace"), ["not UTF-8, read as Windows-1252"]


def _yaml(text: str) -> Any:
    """Return the value of a YAML text, an empty dict for an empty one; None where it is no YAML."""
    import yaml

    try:
        value = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        return None
    return {} if value is None else value


def _fitting(key: str, value: Any) -> Any:
    """Return the value as its field wants it; None when it does not fit."""
    if key in _NUMBERS:
        least, most = _NUMBERS[key]
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            number = float(value)
        except ValueError:
            return None
        return min(most, max(least, number)) if math.isfinite(number) else None
    if isinstance(value, dict | list) or value is None:
        return None
    if key == VALID_UNTIL:
        return a_day(value)
    text = " ".join(str(value).split())
    if key in _CHOICES:
        word = text.lower()
        word = _SCOPE_WORDS.get(word, word) if key == "scope" else word
        return word if word in _CHOICES[key] else None
    return (memory_name(text) or None) if key == "id" else text or None


def memory_name(text: str) -> str:
    """Return a text as the id of a memory: no blanks or signs that a shell would read, at most 120 characters."""
    return _ID.sub("-", text).strip("-.")[:120]


def _strings(value: Any) -> list[str]:
    items = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else [value]
    return [str(i).strip() for i in items[:50] if isinstance(i, str | int | float | dt.date) and str(i).strip()]


# A memory as a skill of an agent: SKILL.md as Claude Code and Codex read it.


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


# How good a skill or procedure is as a thing to follow, by five parts that can be checked.


GRADED = ("skill", "procedure")
LETTERS = (("A", 0.85), ("B", 0.7), ("C", 0.5))
"""Grade and the least mean of the parts that it takes; D below."""

_CAPS = ((0.5, "C"), (0.66, "B"))
"""Share of steps that can be done below which a grade is at most this letter: a list of files is not a way to do something."""

_VAGUE = re.compile(
    r"(?:please |then |now )?(?:change|edit|write|modify|update|add|create|touch|fix|adjust|open|read|check|see (?:whether|if)|look at)?"
    r"\s*(?:(?:the )?files?\s*)?`[^`\s]+`(?:\s*(?:,|and)\s*`[^`\s]+`)*(?: and \d+ more)?"
    r"(?: changes with it| changed with it| too| as well)?[.:]?",
    re.IGNORECASE,
)
"""A step that only names files: which change is to be made is left open."""

_HARM = {"low": 0.0, "medium": 0.3, "high": 0.8}
_SHORT, _LONG = 150, 1_000
"""Tokens up to which a skill costs nothing to speak of, and from which it costs too much."""


class Grade(NamedTuple):
    """A letter and the parts that it is the mean of, each 0 to 1."""

    letter: str
    parts: dict[str, float]


def grade(memory: Memory, marks: Sequence[str] = ()) -> Grade | None:
    """Return the grade of a skill or procedure; None for other kinds.

    ``safety`` is what the checks and its risk leave, ``completeness`` the share of when
    to use it, steps, end and check that it names, ``executability`` the share of steps
    that can be done: they name a command, or a file and what becomes of it ("change `F`"
    says too little), ``upkeep`` 0 when a file of it is gone and 0.5 when one
    was changed since (``marks`` of :func:`ctx_pipeline.learning.memories.marks`), and ``cost``
    falls from 1 at 150 tokens to 0 at 1,000. Where less than half of the steps can be done
    the letter is at most C, where less than two thirds can, B.
    """
    if memory.kind not in GRADED:
        return None
    body = memory.body
    steps = [s for s in body.get("steps") or () if isinstance(s, str)]
    ends = body.get("termination") or body.get("outcome")
    checks = body.get("verification") or [s for s in steps if s.startswith("run `")]
    tokens = sum(estimate(str(t)) for t in (memory.text, memory.when_to_use or "", *steps))
    parts = {
        "safety": 0.0 if memory.flags else 1.0 - _HARM[memory.risk],
        "completeness": sum(map(bool, (memory.when_to_use, steps, ends, checks))) / 4,
        "executability": sum(map(_can_be_done, steps)) / len(steps) if steps else 0.0,
        "upkeep": 0.0 if any(m.startswith("gone") for m in marks) else 0.5 if any(m.startswith("changed") for m in marks) else 1.0,
        "cost": min(1.0, max(0.0, (_LONG - tokens) / (_LONG - _SHORT))),
    }
    mean = sum(parts.values()) / len(parts)
    letter = next((name for name, least in LETTERS if mean >= least), "D")
    letter = max(letter, next((most for least, most in _CAPS if parts["executability"] < least), "A"))
    return Grade(letter, {name: round(value, 2) for name, value in parts.items()})


def _can_be_done(step: str) -> bool:
    return "`" in step and not _VAGUE.fullmatch(step.strip())
