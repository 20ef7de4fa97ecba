"""What became of a session's work in git: asked of each repository once for all its sessions."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.declared import Outside
from ctx_pipeline.recorded_paths import FOLDER, UNKNOWN, git, look_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

AFTER_SECONDS = 86_400
"""Commits so long after a session's end are counted as made after it."""

_MOST = "20000"
_MAIN = ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master", "refs/heads/main", "refs/heads/master")
_LOG = "--format=%x1e%H%x1f%ct%x1f%ae%x1f%ce"
_REVERTS = re.compile(r"This reverts commit ([0-9a-f]{40})")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_SHORTSTAT = re.compile(r"(\d+) (insertion|deletion)")
_UP = 64
_SECOND = 1_000_000


@dataclass
class _Commit:
    name: str
    at: int
    """seconds since 1970"""
    lines: dict[str, int] = field(default_factory=lambda: {"insertion": 0, "deletion": 0})


@dataclass
class _History:
    """Commits of a repository in a span of time, or why they are not known."""

    reason: str = ""
    commits: list[_Commit] = field(default_factory=list)
    reverted: set[str] = field(default_factory=set)
    main: set[str] | None = None
    """commits of the main branch; None where there is no such branch"""


def look(sessions: Sequence[Any]) -> Iterable[Mapping[str, Any]]:
    """Yield for each session row its counts of commits, or ``reason``; no name, path or message is in an answer."""
    roots = [_root(s) for s in sessions]
    spans: dict[Path, tuple[int, int]] = {}
    for s, (root, _) in zip(sessions, roots, strict=True):
        if root is not None:
            first, last = spans.get(root, (s.first_ts, s.last_ts))
            spans[root] = (min(first, s.first_ts), max(last, s.last_ts))
    histories = {root: _history(root, first // _SECOND, last // _SECOND + AFTER_SECONDS) for root, (first, last) in spans.items()}
    for s, (root, reason) in zip(sessions, roots, strict=True):
        history = histories[root] if root is not None else _History(reason)
        yield {"reason": history.reason} if history.reason else _outcome(history, s.first_ts // _SECOND, s.last_ts // _SECOND)


def _key(session: Any) -> str:
    return f"git:{digest(session.host, session.session_id, session.cwd, session.first_ts, session.last_ts)}"


GIT = Outside("git", _key, look)
"""The repository of a session's working directory."""


def _root(session: Any) -> tuple[Path | None, str]:
    """Return the top folder of the session's repository, or why there is none."""
    if not session.cwd:
        return None, "the session recorded no working directory"
    if session.first_ts is None or session.last_ts is None:
        return None, "the session has no times"
    folder = Path(session.cwd)
    if not folder.is_absolute():
        return None, "the working directory is gone"
    here = look_at(folder)
    if here.kind == UNKNOWN:
        return None, f"the working directory cannot be looked at: {here.reason}"
    if here.kind != FOLDER:
        return None, "the working directory is gone"
    for place in [folder, *folder.parents][:_UP]:
        found = look_at(place / ".git")
        if found.kind == UNKNOWN:
            return None, f"the working directory cannot be looked at: {found.reason}"
        if found.there:
            mine = not hasattr(os, "geteuid") or found.uid == os.geteuid()
            return (place, "") if mine else (None, "the repository belongs to somebody else")
    return None, "the working directory is not in a git repository"


def _history(root: Path, first: int, last: int) -> _History:
    span = (f"--since=@{first}", f"--until=@{last}")
    quiet = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-color", "--no-show-signature")
    log = git.run(root, "log", "HEAD", "--branches", *span, f"--max-count={_MOST}", _LOG, "--shortstat", *quiet, "--")
    if isinstance(log, git.Failed):
        empty = git.run(root, "rev-parse", "--verify", "--quiet", "HEAD")
        if log.reason == "error" and isinstance(empty, git.Failed) and empty.reason == "error":
            return _History() if isinstance(git.run(root, "rev-parse", "--git-dir"), str) else _History("git does not read the repository")
        return _History("git took too long" if log.reason == "timeout" else "git could not answer")
    history = _History()
    identity = _identity(root)
    for entry in log.split("\x1e")[1:]:
        head, _, stat = entry.partition("\n")
        name, at, *who = (*head.split("\x1f"), "")
        if not (_COMMIT.fullmatch(name) and at.isascii() and at.isdecimal()):  # an address may hold the separators
            continue
        if identity and identity not in who:
            continue
        commit = _Commit(name, int(at))
        commit.lines |= {kind: int(number) for number, kind in _SHORTSTAT.findall(stat)}
        history.commits.append(commit)
    reverts = git.run(
        root,
        "log",
        "HEAD",
        "--branches",
        f"--since=@{first}",
        "--grep=This reverts commit",
        "--max-count=2000",
        "--format=%b",
        *quiet,
        "--",
    )
    history.reverted = set(_REVERTS.findall(reverts)) if isinstance(reverts, str) else set()
    for ref in _MAIN:
        names = git.run(root, "rev-list", f"--since=@{first}", f"--max-count={_MOST}", ref, "--")
        if isinstance(names, str):
            history.main = set(names.split())
            break
    return history


def _identity(root: Path) -> str:
    """Return the address that the person commits with here; empty where none is set."""
    found = git.run(root, "config", "--get", "user.email", personal=True)
    return found.strip() if isinstance(found, str) else ""


def _outcome(history: _History, first: int, last: int) -> dict[str, Any]:
    during = [c for c in history.commits if first <= c.at <= last]
    after = [c for c in history.commits if last < c.at <= last + AFTER_SECONDS]
    made = during + after
    return {
        "during": len(during),
        "after": len(after),
        "added": sum(c.lines["insertion"] for c in during),
        "removed": sum(c.lines["deletion"] for c in during),
        "reverted": sum(c.name in history.reverted for c in made),
        "shipped": None if history.main is None else sum(c.name in history.main for c in made),
        "commits": [c.name[:12] for c in sorted(made, key=lambda c: c.at)[:20]],
    }
