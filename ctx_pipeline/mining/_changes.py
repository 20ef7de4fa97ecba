"""What a change of a file did, in one line: the line that became another one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining._failures import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.session_view import SessionView

_WIDTH = 110
_LEAST_LINE = 6
_LARGEST = 40_000
_WORD = re.compile(r"[A-Za-z_]\w{3,}")
_COMMENT = re.compile(r"^(?:#(?!\[)|//(?!nolint)|--|\*|/\*|<!--|\"\"\")")
_TEST = re.compile(r"(?:^|[/_.\-])(?:tests?|specs?|e2e)(?:[/_.\-]|$)|(?:Test|Spec)s?\.\w+$", re.IGNORECASE)


class Change(NamedTuple):
    """One line of a change: what it was (empty where it is new) and what it became."""

    before: str
    after: str


def is_test(path: str) -> bool:
    """Tell whether a file is a test by its name or folder."""
    return bool(_TEST.search(path))


def telling_change(view: SessionView, calls: Iterable[Any], error: str) -> Change | None:
    """Return the line of some changes that has most to do with an error; None where the calls do not show what they changed.

    Where the program was changed its tests say nothing; a single change of the program
    needs no word in common. Of equally near lines the last counts, since it came right
    before the error was gone.
    """
    words = {w.lower() for w in _WORD.findall(error)}
    all_hunks = [(all(map(is_test, call.paths)), *hunk) for call in calls for hunk in _hunks(view.call_text(call))]
    hunks = [h for h in all_hunks if not h[0]] or all_hunks
    sole = len(hunks) == 1 and not hunks[0][0]
    best: tuple[int, int, Change] | None = None
    for place, (_, removed, added) in enumerate(hunks):
        fresh = [line for line in added if line not in removed and len(line) >= _LEAST_LINE and not _COMMENT.match(line)]
        gone = [line for line in removed if line not in added and len(line) >= _LEAST_LINE]
        for line in fresh:
            before = _nearest(line, gone)
            near = len(words & {w.lower() for w in _WORD.findall(f"{line} {before}")})
            if (near or (sole and before)) and (best is None or (near, place) > best[:2]):
                best = near, place, Change(_short(before), _short(line))
    return best[2] if best is not None else None


def _nearest(line: str, others: list[str]) -> str:
    from rapidfuzz import fuzz, process

    holds = next((o for o in others if o in line or line in o), None)
    if holds is not None:
        return holds
    found = process.extractOne(line, others, scorer=fuzz.ratio, score_cutoff=55) if others else None
    return found[0] if found else ""


def _short(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1].rstrip()}…"


def _hunks(arguments: str) -> Iterator[tuple[list[str], list[str]]]:
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


def _of_patch(text: str) -> Iterator[tuple[list[str], list[str]]]:
    for hunk in re.split(r"(?m)^(?:@@.*|\*\*\* .*)$", text):
        removed = [line[1:] for line in hunk.splitlines() if line.startswith("-")]
        added = [line[1:] for line in hunk.splitlines() if line.startswith("+")]
        if added:
            yield _lines("\n".join(removed)), _lines("\n".join(added))


def _lines(text: str) -> list[str]:
    return [line for raw in text.splitlines() if (line := clean(raw).replace("`", "'"))]
