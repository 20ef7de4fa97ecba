"""Keys of a configuration file that a program refused, and the key that was put in their place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.mining.lessons.commands import outside, runs, typed
from ctx_pipeline.mining.lessons.failed_commands.changes import hunks
from ctx_pipeline.mining.lessons.failed_commands.proof import throwaway
from ctx_pipeline.mining.lessons.failures import plain_text, salient_line, shorten_paths, signature
from ctx_pipeline.model.memories import MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.session_view import SessionView

_REFUSED = re.compile(
    r"(?i)\b(?:unrecogni[sz]ed|unknown|unexpected|unsupported|invalid|additional)\s+(?:configuration\s+|config\s+|top-level\s+)?"
    r"(?:keys?|propert(?:y|ies)|fields?|options?|settings?|attributes?|entr(?:y|ies))(?:\(s\))?[^'\"`\n]{0,40}['\"`](?P<key>[A-Za-z][\w.-]{2,60})['\"`]"
)
_FILE = re.compile(r"(?:\.(?:json5?|jsonc|ya?ml|toml|ini|cfg|conf|properties)|(?:^|/)\.\w+rc|\.config\.[cm]?[jt]s)$")
_KEYS = re.compile(r"['\"]?(?<![\w.-])([A-Za-z][\w.-]{2,60})['\"]?\s*[:=]")
_ALIKE = 45
"""Likeness of two keys from which one stands for the other."""


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield a candidate for each refused key that a change took out of a file, where no run after it names it until one passes."""
    threads: dict[str, list[Run]] = {}
    for run in view.once(runs):
        threads.setdefault(run.call.thread_id, []).append(run)
    for members in threads.values():
        for place, run in enumerate(members):
            found = _REFUSED.search(plain_text(run.output)) if run.failed and not throwaway(run, view.session.cwd) else None
            if found is not None:
                again = [r for r in members[place + 1 :] if r.step.subject == run.step.subject and r.row.folder == run.row.folder]
                passed = next((r for r in again if r.passed), None)
                if passed is not None and not any(found["key"] in r.output for r in again[: again.index(passed) + 1]):
                    yield from _candidate(view, run, again[0], passed, found["key"])


def _candidate(view: SessionView, run: Run, later: Run, passed: Run, key: str) -> Iterator[MemoryCandidate]:
    cwd = view.session.cwd
    edits = [c for c in view.tool_calls if c.thread_id == run.call.thread_id and run.call.seq < c.seq < later.call.seq]
    for call in edits:
        paths = [p for p in call.paths if not outside(p) and _FILE.search(p)]
        if call.action not in ("edit", "write") or call.is_error or not paths:
            continue
        for removed, added in hunks(view.call_text(call)):
            gone, fresh = _keys(removed) - _keys(added), _keys(added) - _keys(removed)
            if key not in gone:
                continue
            file, other = shorten_paths(paths[0], cwd), _nearest(key, sorted(fresh))
            error = salient_line(run.output, cwd)
            cured = f"the key is `{other}`" if other else "leave it out"
            yield MemoryCandidate(
                kind="failure_trigger",
                text=f"`{typed(run.step)}` refuses the key `{key}` in `{file}`: {cured}",
                when_to_use=f"`{file}` is changed, or `{typed(run.step)}` refuses the key `{key}`",
                evidence_refs=tuple(
                    dict.fromkeys(
                        (run.call.call_event, run.call.result_event, call.call_event, passed.call.call_event, passed.call.result_event)
                    )
                ),
                confidence=0.6,
                priority=4,
                risk="low",
                structured={"error": error, "signature": signature(error), "resolution": "key", "files": [file], "did": []}
                | {"steps": [f"use `{other}` in place of `{key}` in `{file}`" if other else f"leave out `{key}` in `{file}`"]},
                subject=run.step.subject,
                ts=run.call.ended,
            )
            return


def _keys(lines: Sequence[str]) -> set[str]:
    return {key for line in lines for key in _KEYS.findall(line)}


def _nearest(key: str, others: Sequence[str]) -> str:
    """Return the key that was put in place of another: the most alike of the new ones, or none."""
    from rapidfuzz import fuzz, process

    found = process.extractOne(key, others, scorer=fuzz.ratio, score_cutoff=_ALIKE) if others else None
    return found[0] if found else ""
