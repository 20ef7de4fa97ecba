"""What of a session reached git: commits, lines, what was taken back, what was shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.shell.commands import command_text, steps
from ctx_pipeline.signals.inputs.repository import GIT

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

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
