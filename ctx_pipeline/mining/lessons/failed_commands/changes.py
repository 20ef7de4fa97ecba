"""What a change of a file did, in one line: the line that became another one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.quoting import code
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.session_view import SessionView

_WIDTH = 110
_LEAST_LINE = 6
_LARGEST = 40_000
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)\(")
_SILENT = re.compile(
    r"(?i)\bnolint\b|#\s*noqa\b|type:\s*ignore|pyright:\s*ignore|pylint:\s*disable|eslint-disable|@ts-(?:ignore|expect-error|nocheck)"
    r"|#!?\[(?:allow|expect)\(|@SuppressWarnings|rubocop:disable|shellcheck disable|biome-ignore|NOSONAR|nosec\b"
)
_SILENCER = re.compile(
    r"(?:#|//|/\*)\s*(?:nolint|noqa|nosec|NOSONAR|type:\s*ignore|pyright:\s*ignore|pylint:\s*disable|eslint-disable|biome-ignore"
    r"|@ts-(?:ignore|expect-error|nocheck)|rubocop:disable|shellcheck disable)[\w:=,()\[\]./@-]{0,60}"
)
_TEST = re.compile(r"(?:^|[/_.\-])(?:tests?|specs?|e2e)(?:[/_.\-]|$)|(?:Test|Spec)s?\.\w+$", re.IGNORECASE)


class Change(NamedTuple):
    """One line of a change: what it was (empty where it is new) and what it became."""

    before: str
    after: str


class KeyChange(NamedTuple):
    """The part of some changes that has most to do with an error."""

    change: Change
    call: Any
    removed: list[str]
    """lines that the call took out there"""
    added: list[str]
    line: str
    """``change.before`` uncut"""


class Idiom(NamedTuple):
    """A call of the program that another one stands for."""

    old: str
    new: str
    line: str
    """the line that has the new call"""


def is_test(path: str) -> bool:
    """Tell whether a file is a test by its name or folder."""
    return bool(_TEST.search(path))


def key_change(view: SessionView, calls: Iterable[Any], error: str) -> KeyChange | None:
    """Return the line of some changes that has most to do with an error; None where the calls do not show what they changed.

    Where the program was changed its tests say nothing; a single change of the program
    needs no word in common. Of equally near lines the last counts, since it came right
    before the error was gone.
    """
    words = {w.lower() for w in _WORD.findall(error)}
    all_hunks = [(all(map(is_test, call.paths)), call, *hunk) for call in calls for hunk in hunks(view.call_text(call))]
    own = [h for h in all_hunks if not h[0]] or all_hunks
    sole = len(own) == 1 and not own[0][0]
    best: tuple[int, int, KeyChange] | None = None
    for place, (_, call, removed, added) in enumerate(own):
        fresh = [line for line in added if line not in removed and len(line) >= _LEAST_LINE and _shown(line)]
        gone = [line for line in removed if line not in added and len(line) >= _LEAST_LINE]
        for line in fresh:
            before = _nearest(line, gone)
            near = len(words & {w.lower() for w in _WORD.findall(f"{line} {before}")})
            if (near or (sole and before)) and bool(_shown(before)) is bool(before) and (best is None or (near, place) > best[:2]):
                best = (
                    near,
                    place,
                    KeyChange(Change(truncate(_shown(before), _WIDTH), truncate(_shown(line), _WIDTH)), call, removed, added, before),
                )
    return best[2] if best is not None else None


def idiom(significant_terms: KeyChange, error: str) -> Idiom | None:
    """Return the call that an error names and the one that was put in its place; None when that is not plain.

    Plain is a new call whose last name is the same (``os.Chdir`` and ``t.Chdir``), or the
    only new call of the change.
    """
    gone = _calls(significant_terms.removed) - _calls(significant_terms.added)
    fresh = _calls(significant_terms.added) - _calls(significant_terms.removed)
    old = next((c for c in sorted(gone, key=len, reverse=True) if re.search(rf"(?<![\w.]){re.escape(c)}(?!\w)", error)), "")
    if not old:
        return None
    same = sorted(c for c in fresh if c.rpartition(".")[2] == old.rpartition(".")[2]) or (sorted(fresh) if len(fresh) == 1 else [])
    line = next((shown for line in significant_terms.added if same and f"{same[0]}(" in line and (shown := _shown(line))), "")
    return Idiom(old, same[0], truncate(line, _WIDTH)) if line else None


def _calls(lines: list[str]) -> set[str]:
    return {found for line in lines for found in _CALLED.findall(line)}


def silences(line: str) -> bool:
    """Tell whether a line tells a linter or type checker to overlook what it found there."""
    return bool(_SILENT.search(line))


def written_before(view: SessionView, significant_terms: KeyChange) -> bool:
    """Tell whether the line that was changed had been written earlier in the same session."""
    if not significant_terms.line:
        return False
    earlier = (c for c in view.tool_calls if c.action in ("edit", "write") and not c.is_error and c.seq < significant_terms.call.seq)
    paths = set(significant_terms.call.paths)
    return any(significant_terms.line in _written(view.call_text(c)) for c in earlier if paths & set(c.paths))


def _nearest(line: str, others: list[str]) -> str:
    from rapidfuzz import fuzz, process

    holds = next((o for o in others if o in line or line in o), None)
    if holds is not None:
        return holds
    found = process.extractOne(line, others, scorer=fuzz.ratio, score_cutoff=55) if others else None
    return found[0] if found else ""


def _shown(line: str) -> str:
    """Return a line as a lesson shows it: its code, and of a comment what tells a linter to overlook it; empty where there is neither."""
    silent = _SILENCER.search(line)
    return " ".join(filter(None, (code(line), silent[0] if silent else "")))


def hunks(arguments: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines that a call took out and put in, from the arguments of an edit or the text of a patch."""
    if len(arguments) > _LARGEST:
        return
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        found = arguments
    if isinstance(found, dict):
        several = found.get("edits")
        for edit in several if isinstance(several, list) else [found]:
            if isinstance(edit, dict) and isinstance(edit.get("new_string"), str) and isinstance(edit.get("old_string"), str):
                yield _lines(edit["old_string"]), _lines(edit["new_string"])
        found = next((found[k] for k in ("patch", "input") if isinstance(found.get(k), str)), "")
    if isinstance(found, str) and "*** Begin Patch" in found:
        yield from _of_patch(found)


def _written(arguments: str) -> set[str]:
    """Return the lines that a call put in, those of a whole file too."""
    if len(arguments) > _LARGEST:
        return set()
    made = {line for removed, added in hunks(arguments) for line in added if line not in removed}
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return made
    content = found.get("content") if isinstance(found, dict) else None
    return made | set(_lines(content)) if isinstance(content, str) else made


def _of_patch(text: str) -> Iterator[tuple[list[str], list[str]]]:
    for hunk in re.split(r"(?m)^(?:@@.*|\*\*\* .*)$", text):
        removed = [line[1:] for line in hunk.splitlines() if line.startswith("-")]
        added = [line[1:] for line in hunk.splitlines() if line.startswith("+")]
        if added:
            yield _lines("\n".join(removed)), _lines("\n".join(added))


def _lines(text: str) -> list[str]:
    return [line for raw in text.splitlines() if (line := clean(raw).replace("`", "'"))]
