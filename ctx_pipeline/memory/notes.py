"""Notes that a person writes in Markdown: front matter, names they go by, and what became of words where numbers belong."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, field
from typing import Any

from ctx_pipeline.errors import ParseError
from ctx_pipeline.memory.lifetime import NOT_WHEN, VALID_UNTIL, a_day
from ctx_pipeline.model.memories import KINDS, RISKS, SCOPES

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
