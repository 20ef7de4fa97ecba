"""Changes of which nothing is left: edited back, restored by git, or of a file that git no longer shows as changed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import command_runs, printed
from ctx_pipeline.facts.file_accesses import EDIT, by_path, changes_of
from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.end_state import REWRITE, at_home, shown_by_status, whole_status
from ctx_pipeline.shell.commands import steps_by_piece
from ctx_pipeline.shell.files import below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.shell.commands import Step

_KEEPS = (REWRITE | {"git add"}) - {"git checkout", "git restore", "git reset"}
"""Subcommands behind which git would restore other contents than those from before a change."""

_QUIET = frozenset({"-q", "--quiet", "-f", "--force", "-W", "--worktree", "--source=HEAD", "--no-overlay", "--progress", "--no-progress"})
"""Options with which a restored file is as it was committed."""


_SEEN_TO_RUN = frozenset({"", ";", "\n"})
"""What stands before a program of a command line that runs whatever became of those before it."""
_MAYBE = lazy_pattern(r"\|\||(?:^|[\s;(])(?:if|for|while|until|case)\s|(?<![&>])&(?![&>\d])|\(\)\s*\{")
"""Words with which a part of a command line may not run, or not yet."""
_NOT_RESTORED = lazy_pattern(r"(?m)^(?:error|fatal): |^Updated 0 paths")
_MOVED = lazy_pattern(
    r"(?m)^(?:Switched to |Already on |HEAD is now at |Previous HEAD |Note: |branch '|Updated \d+ paths? from (?!the index))"
)
"""What git prints where it took the words behind ``checkout`` for a branch or a commit."""


_NOT_KNOWN = lazy_pattern(r"/\.?worktrees/|/\.env(?:\.[\w.]+)?$|\.local(?:\.\w+)?$")
"""Files below a folder that its git leaves alone, as a rule: of other worktrees, and settings of one machine."""


class _Restored(NamedTuple):
    """A command by which git put files back, and what it names: files, folders, or the whole tree."""

    run: Any
    paths: tuple[str, ...]


class _Ordered:
    """Commands that are looked for behind something, by their thread."""

    def __init__(self, runs: Iterable[Any]) -> None:
        self._threads: dict[str, list[Any]] = {}
        for run in sorted(runs, key=_place):
            self._threads.setdefault(run.thread_id, []).append(run)

    def first_behind(self, change: Any) -> Any:
        """Return the first one behind a change; None where there is none."""
        own = self._threads.get(change.thread_id, ())
        at = bisect_right(own, change.seq, key=_place)
        return own[at] if at < len(own) else next((r for r in self._of_others(change) if follows(r, change)), None)

    def between(self, begin: Any, end: Any) -> bool:
        """Tell whether there may be one from one moment to another."""
        own = self._threads.get(begin.thread_id, ())
        at = bisect_left(own, begin.seq, key=_place)
        at += at < len(own) and own[at] is begin
        return (at < len(own) and not follows(own[at], end)) or any(
            not follows(begin, r) and not follows(r, end) for r in self._of_others(begin)
        )

    def _of_others(self, one: Any) -> Iterator[Any]:
        return (r for thread, runs in self._threads.items() if thread != one.thread_id for r in runs)


def _place(run: Any) -> int:
    return int(run.seq)


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
    return any(not follows(change, run) for change in view.once(_undone_by).get(restoring.call_event, ()))


def _undone_by(view: SessionView) -> dict[str, list[Any]]:
    undone, found = taken_back(view), defaultdict[str, list[Any]](list)
    for change in changes_of(view):
        if by := undone.get((change.call_event, change.path)):
            found[by].append(change)
    return found


def _taken_back(view: SessionView) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    runs = [r for r in command_runs(view) if any(p.startswith("git ") for p in r.programs)]
    changes = by_path(changes_of(view), view.session.cwd)
    restored = list(_restored(view, runs, {c.path for members in changes.values() for c in members}))
    statuses = _Statuses(view, runs)
    keeps = _Ordered(r for r in runs if _KEEPS.intersection(r.programs))
    for path, members in changes.items():
        if _edited_back(view, members) or statuses.shown_unchanged(path, members):
            found |= {(c.call_event, c.path): "" for c in members}
            continue
        # below a folder only a file that git knows, as it does one that was edited, not made here, and never shown as untracked
        known = all(c.did == EDIT for c in members) and not any(not known for _, known in statuses.of(path))
        names = {c.path for c in members}
        covering = _Ordered(one.run for one in restored if any(_covers(p, name, known) for p in one.paths for name in names))
        for change in members:
            by = covering.first_behind(change)
            if by is not None and not keeps.between(change, by):
                found[change.call_event, change.path] = by.call_event
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


class _Statuses:
    """What git showed of the whole tree, each time that it was asked."""

    def __init__(self, view: SessionView, runs: Sequence[Any]) -> None:
        runs_here = [r for r in runs if at_home(r, view.session.cwd) and whole_status(r)]
        self._shown = [(run, shown_by_status(view, run)) for run in runs_here]
        self._rewrites = _Ordered([*(r for r in runs if REWRITE.intersection(r.programs)), *view.of_kinds("prompt")])
        self._by_name: dict[str, list[tuple[Any, bool, str]]] = defaultdict(list)
        self._folders: list[tuple[Any, bool, str]] = []
        for run, entries in self._shown:
            for known, entry in entries or ():
                (self._folders if entry.endswith("/") else self._by_name[entry.rpartition("/")[2]]).append((run, known, entry))

    def of(self, path: str) -> Iterator[tuple[Any, bool]]:
        """Yield each status that showed a file, or its folder, with whether git knew it."""
        named = (*self._by_name.get(path.rpartition("/")[2], ()), *self._folders)
        return ((run, known) for run, known, entry in named if _names(entry, path))

    def shown_unchanged(self, path: str, changes: Sequence[Any]) -> bool:
        """Tell whether git showed a tracked file as changed and, behind its last edit, no longer.

        Nothing was committed or put away between, and no person said anything, who may have done it.
        """
        if not self._shown or any(change.did != EDIT for change in changes):
            return False
        shown = list(self.of(path))
        tracked = next((run for run, known in shown if known and follows(changes[-1], run)), None)
        lasts = {c.thread_id: c for c in changes}.values()
        after, entries = next(((s, found) for s, found in self._shown if all(follows(s, c) for c in lasts)), (None, None))
        if tracked is None or entries is None or any(run is after for run, _ in shown):
            return False
        return not self._rewrites.between(tracked if follows(changes[0], tracked) else changes[0], after)


def _names(entry: str, path: str) -> bool:
    return entry == path or path.endswith(f"/{entry}") or entry.endswith(f"/{path}") or (entry.endswith("/") and f"/{entry}" in f"/{path}")


def _restored(view: SessionView, runs: Sequence[Any], changed: Collection[str]) -> Iterator[_Restored]:
    for run in runs:
        if run.result != "passed" or not run.folder or not at_home(run, run.folder):
            continue
        for piece, members in steps_by_piece(run.command):
            for step in members:
                names = _named(step)
                if names is None or not _ran(view, run, piece.behind):
                    continue
                paths = tuple(below(run.folder, name).rstrip("/") for name in names or (".",))
                if (
                    names
                    and _may_move(step)
                    and (_MOVED.search(printed(view, run)) or not any(_covers(paths[0], c, True) for c in changed))
                ):
                    continue
                yield _Restored(run, paths)


def _ran(view: SessionView, run: Any, behind: str) -> bool:
    """Tell whether a program of a command line that ended well ran itself, and put something back."""
    text = printed(view, run)
    if _MAYBE.search(run.command) or _NOT_RESTORED.search(text):
        return False
    chained = all(piece.behind in ("", "&&", "|") for piece, _ in steps_by_piece(run.command))
    return chained or (behind in _SEEN_TO_RUN and "/dev/null" not in run.command)


def _may_move(step: Step) -> bool:
    """Tell whether the words of a step may name a branch or a commit."""
    return step.subject == "git checkout" and not {"--", "HEAD", "."}.intersection(step.words)


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
    if not _QUIET.issuperset(options) or (named and "--" in words) or (_may_move(step) and {"-q", "--quiet"}.intersection(options)):
        return None
    names = (*named, *words[end + 1 :])
    return names if names and not any(set(name) & set("*?[:") for name in names) else None


def _covers(path: str, name: str, folder: bool) -> bool:
    """Tell whether a path that was put back is a file, or with ``folder`` one that it lies in."""
    return name == path or (folder and name.startswith(f"{path}/") and not _NOT_KNOWN.search(name, len(path)))
