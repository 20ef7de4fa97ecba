"""Changes of which nothing is left: edited back, restored by git, or of a file that git no longer shows as changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.facts.file_accesses import EDIT, by_path, changes_of
from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.sessions.states.end_state import REWRITE, at_home, shown_by_status, whole_status
from ctx_pipeline.shell.commands import steps
from ctx_pipeline.shell.files import below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.commands import Step

_KEEPS = (REWRITE | {"git add"}) - {"git checkout", "git restore", "git reset"}
"""Subcommands behind which git would restore other contents than those from before a change."""

_QUIET = frozenset({"-q", "--quiet", "-f", "--force", "-W", "--worktree", "--source=HEAD", "--no-overlay", "--progress", "--no-progress"})
"""Options with which a restored file is as it was committed."""


class _Restored(NamedTuple):
    """A command by which git put files back, and what it names: files, folders, or the whole tree."""

    run: Any
    paths: tuple[str, ...]


def follows(later: Any, earlier: Any) -> bool:
    """Tell whether a file access or a command came behind another one; in another thread their times say so."""
    if later.thread_id == earlier.thread_id:
        return bool(later.seq > earlier.seq)
    at, before = (one.started if hasattr(one, "started") else one.ts for one in (later, earlier))
    return at is not None and before is not None and bool(at > before)


def taken_back(view: SessionView) -> Mapping[tuple[str, str], str]:
    """Return call and path of each change of which nothing is left -> the call of the command that restored the file, else empty."""
    return view.once(_taken_back)


def undoes_earlier(view: SessionView, restoring: Any, run: Any) -> bool:
    """Tell whether a command took back what had been changed when another one ran."""
    undone = {key for key, by in taken_back(view).items() if by == restoring.call_event}
    return bool(undone) and any((c.call_event, c.path) in undone and not follows(c, run) for c in changes_of(view))


def _taken_back(view: SessionView) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    runs = [r for r in command_runs(view) if any(p.startswith("git ") for p in r.programs)]
    restored, statuses = list(_restored(view, runs)), [r for r in runs if at_home(r, view.session.cwd) and whole_status(r)]
    for path, members in by_path(changes_of(view), view.session.cwd).items():
        if _edited_back(view, members) or (statuses and _shown_unchanged(view, path, members, statuses, runs)):
            found |= {(c.call_event, c.path): "" for c in members}
            continue
        for one in restored:
            for change in members:
                if _covers(one, change, members) and follows(one.run, change) and not _between(_KEEPS, change, one.run, runs):
                    found[change.call_event, change.path] = one.run.call_event
    return found


def _edited_back(view: SessionView, changes: Sequence[Any]) -> bool:
    """Tell whether each edit of a file was taken back by another one."""
    open_edits: list[tuple[str, str]] = []
    for change in changes:
        asked = view.by_event.get(change.call_event)
        told = arguments_of(asked.text or "") if asked is not None and change.did == EDIT else {}
        old, new = told.get("old_string"), told.get("new_string")
        if not isinstance(old, str) or not isinstance(new, str):
            return False
        if open_edits and open_edits[-1] == (new, old):
            open_edits.pop()
        else:
            open_edits.append((old, new))
    return not open_edits


def _shown_unchanged(view: SessionView, path: str, changes: Sequence[Any], statuses: Sequence[Any], runs: Sequence[Any]) -> bool:
    """Tell whether git showed a tracked file as changed and, behind its last edit, no longer; nothing was committed or put away between."""
    if any(change.did != EDIT for change in changes):
        return False
    after = next((s for s in statuses if all(follows(s, c) for c in changes)), None)
    shown = shown_by_status(view, after) if after is not None else None
    if shown is None or any(_names(entry, path) for _, entry in shown):
        return False
    before = [s for s in statuses if follows(changes[-1], s)]
    tracked = next((s for s in before if any(known and _names(entry, path) for known, entry in shown_by_status(view, s) or ())), None)
    if tracked is None:
        return False
    first = tracked if follows(changes[0], tracked) else changes[0]
    return not _between(REWRITE, first, after, runs)


def _names(entry: str, path: str) -> bool:
    return entry == path or path.endswith(f"/{entry}") or entry.endswith(f"/{path}") or (entry.endswith("/") and f"/{entry}" in f"/{path}")


def _between(programs: frozenset[str], begin: Any, end: Any, runs: Sequence[Any]) -> bool:
    return any(programs.intersection(r.programs) and not follows(begin, r) and not follows(r, end) for r in runs if r is not begin)


def _restored(view: SessionView, runs: Sequence[Any]) -> Iterator[_Restored]:
    for run in runs:
        if run.result != "passed" or "||" in run.command or not at_home(run, run.folder):
            continue
        for step in steps(run.command):
            names = _named(step)
            if names is not None and (folder := run.folder if names else view.session.cwd):
                yield _Restored(run, tuple(below(folder, name).rstrip("/") for name in names or (".",)))


def _named(step: Step) -> tuple[str, ...] | None:
    """Return the paths that a step puts back as they were committed, none for the whole tree; None where it puts back nothing."""
    if step.subject not in ("git checkout", "git restore", "git reset"):
        return None
    words = step.words[step.words.index(step.subject.split()[1]) + 1 :]
    if step.subject == "git reset":
        return () if "--hard" in words and {"--hard", "HEAD", "-q", "--quiet"}.issuperset(words) else None
    end = words.index("--") if "--" in words else len(words)
    options, named = [w for w in words[:end] if w.startswith("-")], [w for w in words[:end] if not w.startswith("-")]
    if named[:1] == ["HEAD"] and step.subject == "git checkout":
        del named[0]
    if not _QUIET.issuperset(options) or (named and "--" in words):
        return None
    names = (*named, *words[end + 1 :])
    return names if names and not any(set(name) & set("*?[:") for name in names) else None


def _covers(one: _Restored, change: Any, changes: Sequence[Any]) -> bool:
    """Tell whether a file was put back; below a folder only one that git knows, as it does one that was edited and not made here."""
    edited = all(c.did == EDIT for c in changes)
    return any(change.path == path or (edited and change.path.startswith(f"{path}/")) for path in one.paths)
