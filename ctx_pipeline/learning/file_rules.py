"""Which rules forbid to change a file: what they say is done to which files, and the file that a tool is about to write or edit."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.learning.named_files import CHANGING, files_of_verb, from_base, is_one_of
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import RULE_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from ctx_pipeline.model.memories import Memory

_LONGEST = 4_000
"""Characters of a path that is looked at."""


def file_of(payload: Mapping[str, Any]) -> str:
    """Return the path of the file that a tool of a hook's payload is about to write or edit; empty for another tool."""
    given = payload.get("tool_input")
    if not isinstance(given, dict) or _NEW_TEXT.isdisjoint(given):
        return ""
    path = next((given[name] for name in ("file_path", "notebook_path") if isinstance(given.get(name), str)), "")
    return posixpath.normpath(path) if path and len(path) <= _LONGEST and "\0" not in path else ""


_NEW_TEXT = frozenset({"content", "new_string", "edits", "new_source"})
"""What a tool that changes a file is given, and one that reads it is not."""


def before_change(path: str, memories: Iterable[Memory], base: str) -> list[Memory]:
    """Return the rules that forbid to change a file below ``base`` that is about to be written or edited, the surest first."""
    found = [m for m in memories if may_speak(m) and _forbids_change(m, from_base(path, base))]
    return sorted(found, key=lambda m: (-m.confidence, m.memory_id))


def _forbids_change(memory: Memory, path: str) -> bool:
    if memory.kind not in RULE_KINDS or memory.kind == "risk_rule" or memory.body.get("want"):
        return False
    rule = file_rule(memory)
    if rule is None or rule.verb in _MADE_OTHERWISE:
        return False
    return is_one_of(path, rule.names) and of_kinds(path, rule.kinds)


_MADE_OTHERWISE = frozenset({"delete", "remove", "rename", "move"})
"""What is done to a file otherwise than by writing it."""


def may_speak(memory: Memory) -> bool:
    """Tell whether a memory is no order about the work at hand, unless a person accepted it."""
    return not memory.body.get("at_hand") or memory.status == "accepted"


def avoided(memory: Memory, what: frozenset[str], where: frozenset[str]) -> frozenset[str]:
    """Return what a rule says is to be avoided, without the words for where every change goes."""
    return (frozenset(map(str, memory.body.get("avoid", ()))) & (what | where)) - (where & NO_BRANCHES)


def forbids(said: str, what: frozenset[str]) -> re.Match[str] | None:
    """Return where a rule says which act it forbids, in lower case as its first group; None where that is none of these words."""
    return next((found for found in _FORBIDS.finditer(said.lower()) if found[1] in what), None)


class FileRule(NamedTuple):
    """What a rule forbids to do to files that it names."""

    verb: str
    names: frozenset[str]
    """files and folders; none where it holds under a condition"""
    kinds: frozenset[str]
    """what narrows them: the tests of a folder"""


def file_rule(memory: Memory) -> FileRule | None:
    """Return which change of which files a rule forbids; None where it speaks of something else."""
    from ctx_pipeline.mining.lessons.rules.said_rules import OBJECTS, core, terms

    what, where = core(memory.text)
    forbidden = forbids(memory.text, what)
    if forbidden is None or forbidden[1] not in CHANGING or not (names := files_of_verb(memory.text, forbidden.end())):
        return None
    narrower = (what & avoided(memory, what, where)) - {forbidden[1]} - OBJECTS - SAYS_HOW
    kinds = narrower - _ANY_FILE if terms(" ".join(names)) <= where else frozenset[str]()
    return FileRule(forbidden[1], frozenset() if _UNDER_CONDITION.search(memory.text) else names, kinds)


def of_kinds(path: str, kinds: Collection[str]) -> bool:
    """Tell whether a path has words for all kinds of files: for tests one of tests."""
    from ctx_pipeline.mining.lessons.rules.said_rules import akin, terms

    words = terms(re.sub(r"[/._-]", " ", path))
    return all(any(akin(kind, word) for word in words) for kind in kinds)


_ANY_FILE = frozenset({"generated", "folder", "directory", "content", "thing", "source", "existing", "vendored", "compiled", "built"})
"""Words for the files of a folder that narrow nothing."""

_UNDER_CONDITION = lazy_pattern(r"(?i)\b(?:when|while|if|unless|until|before|after|except)\b")

SAYS_HOW = frozenset(
    {"my", "directly", "straight", "anything", "something", "ever", "again", "yourself", "automatically", "blindly", "work", "stuff"}
)
"""Words beside the act of a rule that narrow nothing."""

NO_BRANCHES = frozenset({"git", "github", "gitlab", "bitbucket", "repo", "repository", "remote", "server", "history", "version", "vcs"})
"""Where every commit and push goes: a rule that names one limits nothing by it."""

_FORBIDS = lazy_pattern(r"\b(?:never|don['\u2019]?t|do not|stop|avoid|no)\s+(?:ever\s+|use\s+|using\s+)?([a-z][\w-]*)")
