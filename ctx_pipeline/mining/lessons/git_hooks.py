"""Hooks of git that a project's commits and pushes run, as the managers of hooks announce them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.mining.lessons.commands import listed
from ctx_pipeline.mining.lessons.failures import plain_text
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

SUBJECT = "git hooks"
_LEAST = 2
_SHOWN = 4
_HOOKS = {"git commit": "pre-commit", "git push": "pre-push"}
_BEGINNING = 20_000
_LEFTHOOK = re.compile(r"lefthook v[\d.]+\s+hook: (?P<hook>[a-z][a-z-]+)")
_LEFTHOOK_STEP = re.compile(r"^\u2503\s+([\w:.-]{2,40}) \u276f", re.MULTILINE)
_HUSKY = re.compile(r"^husky - (?P<hook>[a-z][a-z-]+) (?:hook|script)", re.MULTILINE)
_STAGED = re.compile(r"Preparing lint-staged|Running tasks for staged files")
_PRE_COMMIT = re.compile(r"^(?P<step>\S[^\n]{1,60}?)\.{3,}(?:\([^)\n]{1,40}\))?(?:Passed|Failed|Skipped)$", re.MULTILINE)


def announced(output: str, subject: str) -> tuple[str, str, list[str]] | None:
    """Return manager, hook and steps that the output of ``git commit`` or ``git push`` names; None where it names no manager."""
    text = plain_text(output[:_BEGINNING])
    if found := _LEFTHOOK.search(text):
        return "lefthook", found["hook"], list(dict.fromkeys(_LEFTHOOK_STEP.findall(text)))
    if found := _HUSKY.search(text):
        return "husky", found["hook"], ["lint-staged"] if _STAGED.search(text) else []
    if _STAGED.search(text):
        return "lint-staged", _HOOKS[subject], []
    if len(named := [m["step"].strip() for m in _PRE_COMMIT.finditer(text)]) > 1:
        return "pre-commit", _HOOKS[subject], list(dict.fromkeys(named))
    return None


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield for each hook that ran how often it did, how many of these commands failed, and its steps."""
    ran: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    named: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in command_runs(view):
        subject = next((s.subject for s in steps(row.command) if s.subject in _HOOKS), "") if row.result in ("passed", "failed") else ""
        output = "\n".join(e.text or "" for o in row.outputs if (e := view.by_event.get(o)) is not None) if subject else ""
        found = announced(output, subject) if output else None
        if found is not None:
            manager, hook, members = found
            key = (subject, manager, hook)
            ran[key].append(row)
            named[key] += [m for m in members if m not in named[key]]
    for (subject, manager, hook), rows in ran.items():
        failed = sum(row.result == "failed" for row in rows)
        yield MemoryCandidate(
            kind="repo_convention",
            text=_text(subject, f"{hook} hook of {manager}", named[subject, manager, hook], ran=len(rows), failed=failed),
            evidence_refs=tuple(e for row in rows[-2:] for e in (row.call_event, *row.outputs[-1:])),
            confidence=0.3,
            priority=2,
            risk="low",
            structured={"command": subject, "manager": manager, "hook": hook, "parts": named[subject, manager, hook]}
            | {"ran": len(rows), "failed": failed},
            subject=SUBJECT,
            ts=max((row.ended for row in rows if row.ended), default=None),
        )


def _text(command: str, hook: str, parts: Sequence[str], *, ran: int, failed: int) -> str:
    said = f" ({listed(list(parts)[:_SHOWN], len(parts))})" if parts else ""
    count = f"; {failed} of {ran} {'commits' if command == 'git commit' else 'pushes'} that ran it failed" if failed else ""
    return f"`{command}` runs the {hook} here{said}{count}"


def combine(candidates: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Yield one fact for each hook of a repository that ran at least twice; its steps are those of the newest session."""
    import json

    groups: dict[tuple[str, str], list[StoredCandidate]] = defaultdict(list)
    for c in candidates:
        groups[str(c.body["command"]), str(c.body["hook"])].append(c)
    for (subject, hook), members in sorted(groups.items()):
        newest = members[-1].body
        same = [c for c in members if c.body["manager"] == newest["manager"]]
        ran, failed = (sum(int(c.body[name]) for c in same) for name in ("ran", "failed"))
        if ran < _LEAST:
            continue
        text = _text(subject, f"{hook} hook of {newest['manager']}", newest["parts"], ran=ran, failed=failed)
        body = {"subject": SUBJECT, "signature": f"{subject} {hook}", "fact": True, "sessions": len({(c.host, c.session_id) for c in same})}
        body |= {name: newest[name] for name in ("command", "manager", "hook", "parts")} | {"ran": ran, "failed": failed}
        for c in same:
            yield c._replace(
                text=text,
                when_to_use=f"`{subject}` is about to run",
                structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
                confidence=0.6,
                priority=4 if failed else 3,
            )
