"""What of a session reached git: commits, lines, what was taken back, what was shipped."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.declared import Outside, Reading, signal
from ctx_pipeline.recorded_paths import FOLDER, UNKNOWN, git, look_at
from ctx_pipeline.shell.commands import command_text, steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView


# What became of a session's work in git: asked of each repository once for all its sessions.


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


_TABLES = ("sessions", "tool_calls")
_COLUMNS = {"tool_calls": ("action", "argv", "call_event", "is_error")}


def _commands(view: SessionView) -> tuple[str, ...]:
    """Return the calls in which the agent itself committed."""
    return tuple(
        call.call_event
        for call in view.tool_calls
        if call.action == "shell"
        and not call.is_error
        and any("commit" in word for word in call.argv)
        and any(step.subject == "git commit" for step in steps(command_text(call.argv)))
    )


def _seen(view: SessionView) -> tuple[dict[str, Any], Reading | None]:
    found = view.seen.get("git")
    if found is None:
        return {}, Reading(None, reason="nobody has looked at the repository")
    return found, Reading(None, reason=found["reason"]) if found.get("reason") else None


def _count(view: SessionView, name: str) -> Reading:
    found, missing = _seen(view)
    if missing:
        return missing
    details = {"commits": found["commits"]} if found["commits"] else None
    return Reading(float(found[name]), view.once(_commands), confidence=0.9, metadata=details)


@signal(group="outcome", unit="commits", better="higher", method="external", reads=_TABLES, columns=_COLUMNS, outside=GIT)
def git_commits_made_during(view: SessionView) -> Reading:
    """Commits of the person's own in the session's repository between its first and last event, on any local branch.

    The agent's commits and those the person made beside it are not told apart; the
    evidence is the agent's own ``git commit``. Commits by others that were fetched do not
    count where the person's address is configured. Looked up once and kept in the
    journal; ``ctx signal run --refresh-observations`` looks again. Unknown, with the
    reason, without a repository.
    """
    return _count(view, "during")


@signal(group="outcome", unit="commits", better="higher", method="external", reads=_TABLES, columns=_COLUMNS, outside=GIT)
def git_commits_after(view: SessionView) -> Reading:
    """Commits of the person's own in the day after the session's last event.

    Work is often reviewed and committed by hand after the agent has ended: a session
    with none during and one after has landed all the same. Looked up when the session
    was first measured; look again with ``--refresh-observations`` a day later.
    """
    return _count(view, "after")


@signal(group="outcome", unit="lines", method="external", reads=_TABLES, columns=_COLUMNS, outside=GIT)
def git_lines_committed(view: SessionView) -> Reading:
    """Lines added and removed by the commits made during the session.

    Set it against the money the session cost, or against the lines the agent edited:
    much edited and little committed was thrown away. The details have both directions.
    """
    found, missing = _seen(view)
    if missing:
        return missing
    details = {"added": found["added"], "removed": found["removed"]}
    return Reading(float(found["added"] + found["removed"]), view.once(_commands), confidence=0.9, metadata=details)


@signal(group="outcome", unit="commits", better="lower", method="external", reads=_TABLES, columns=_COLUMNS, outside=GIT)
def git_commits_reverted(view: SessionView) -> Reading:
    """Commits of the session, or of the day after it, that a later commit says it reverts.

    Each is work that was paid for, reviewed, and taken back. Only the note that
    ``git revert`` writes is read; work undone by hand is not seen. Null without commits.
    """
    found, missing = _seen(view)
    if missing is None and not found["during"] + found["after"]:
        missing = Reading(None, reason="the session left no commit")
    return missing or _count(view, "reverted")


@signal(group="outcome", unit="ratio", better="higher", method="external", reads=_TABLES, columns=_COLUMNS, outside=GIT)
def git_shipped_share(view: SessionView) -> Reading:
    """The share of the session's commits, and of the day after it, that the main branch contains, 0 to 1.

    The main branch is the remote's where one is known, else main or master. A squash or
    rebase makes new commits, so that work merged that way counts as not shipped. Null
    without commits or without such a branch.
    """
    found, missing = _seen(view)
    if missing:
        return missing
    made = found["during"] + found["after"]
    if not made:
        return Reading(None, reason="the session left no commit")
    if found["shipped"] is None:
        return Reading(None, reason="the repository has no main branch")
    return Reading(found["shipped"] / made, view.once(_commands), confidence=0.8, metadata={"shipped": found["shipped"], "commits": made})
