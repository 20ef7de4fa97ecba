"""What became of files in a session: which were changed, removed or left as they were, and what made a check stale."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.session_state.state import FileState
from ctx_pipeline.facts.command_runs import command_runs, output_of, printed, runs_by_call
from ctx_pipeline.facts.file_accesses import CHANGES, DELETE, READ, SHELL, by_path, changes_of, file_accesses, inside, last_line
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.model.display import truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.sessions.states.taken_back import follows, taken_back, undoes_earlier
from ctx_pipeline.shell.commands import command_text, steps_by_piece
from ctx_pipeline.shell.parsing import pieces

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


_LOOKED_FOR = 12
"""Files that were removed of which is looked whether a later call names them."""


def file_states(view: SessionView) -> list[FileState]:
    """Return the files that were read or changed, each under its path below the working directory where it lies there."""
    kept = [a for a in file_accesses(view) if a.did == READ or a.did in CHANGES]
    if view.threads:
        kept.sort(key=lambda a: (a.ts is None, a.ts or 0))
    undone = taken_back(view)
    order = {call: n for n, call in enumerate(dict.fromkeys(a.call_event for a in kept))}
    found: list[FileState] = []
    deleted: dict[str, Any] = {}
    for n, (path, members) in enumerate(by_path(kept, view.session.cwd).items(), 1):
        reads, last = sum(a.did == READ for a in members), max(_last_seen(view, a) for a in members)
        left = [a for a in members if a.did != READ and (a.call_event, a.path) not in undone]
        shows, changes = (left or members)[-1], len(left)
        found.append(FileState(f"F{n}", path, reads, changes, last, order[shows.call_event], shows.call_event))
        deleted[found[-1].ref] = shows if left and shows.did == DELETE else None
    newest = sorted((f for f in found if deleted[f.ref]), key=lambda f: -f.last)
    # who tells of files tells of the last ones; to look for every one of thousands takes seconds
    gone = {f.ref for n, f in enumerate(newest) if n >= _LOOKED_FOR or not _named_later(view, deleted[f.ref])}
    residue = {f.ref for f in newest[:_LOOKED_FOR] if _tidies_up(view, deleted[f.ref])}
    return [f._replace(changes=0) if f.ref in residue else f._replace(deleted=f.ref in gone) for f in found]


def _last_seen(view: SessionView, access: Any) -> int:
    """Return the last line that a call showed of a file: a command may ask for more lines than the file has. 0 where nothing tells."""
    asked = last_line(access.lines)
    run = runs_by_call(view).get(access.call_event) if asked and access.through == SHELL else None
    if run is not None and _filtered(run.command, access.path):
        return 0
    if run is None or _CUT.search(text := output_of(view, run)):
        return asked
    first, *_ = re.findall(r"\d{1,9}", access.lines.rpartition(",")[2])
    shown = text.rstrip("\n").count("\n") + 1 if text.strip() else 0
    return min(asked, int(first) + shown - 1) if shown else 0


def _filtered(command: str, path: str) -> bool:
    """Tell whether a command shows of a file only what a program let through, as ``grep`` does, or counted."""
    reads = False
    for piece in pieces(command):
        if not piece.piped:
            reads = path.rpartition("/")[2] in piece.text
        elif reads and piece.words and piece.words[0].rpartition("/")[2] not in _WHOLE_LINES:
            return True
    return False


_WHOLE_LINES = frozenset({"cat", "nl", "sed", "head", "bat", "less", "more"})
"""Programs that show of their input the lines from its first one on."""

_CUT = lazy_pattern(r"(?i)\b(?:truncated|omitted)\b")
"""What stands in an output of which a part is missing, or may stand in a file."""

_ONLY_LOOK = frozenset(
    {f"git {name}" for name in ("add", "commit", "diff", "log", "ls-files", "rm", "show", "status")}
    | {"cat", "find", "grep", "head", "ls", "rg", "rm", "stat", "tail", "test", "wc", "["}
)
"""Programs that make no file which is gone."""


def _named_later(view: SessionView, access: Any) -> bool:
    """Tell whether a later call that may make files names one that was removed: it may be there again."""
    path = access.path.rstrip("/")
    name = path.rpartition("/")[2]
    token = re.compile(rf"[\w./@~+-]*{re.escape(name)}(?![\w-])")
    later = (c for c in view.tool_calls if c.thread_id == access.thread_id and c.seq > access.seq)
    for call in later:
        text = view.call_text(call)
        told = call.paths if call.action in (READ, "edit", "write") and call.paths else token.findall(text) if name in text else ()
        if call.action not in (READ, "edit", "write", "shell"):
            told = [one for one in told if f'"{one}"' in text]  # a text of several words speaks of it, and an argument is it
        if any(_may_be(one, path) for one in told) and _may_make(call, name):
            return True
    return False


def _may_be(told: str, path: str) -> bool:
    """Tell whether words of a call may name a file: an absolute path does only where it is the file's own."""
    if told.startswith("/") or not path.startswith("/"):
        return told == path or not path.startswith("/")
    return path.endswith(f"/{told.removeprefix('./')}") or told.startswith(("~", "../"))


def _may_make(call: Any, name: str) -> bool:
    """Tell whether a call makes a file or shows that it is there; a command does where it writes it or gives it to a program that may."""
    if call.action != "shell":
        return call.action not in ("search", "plan", "ask") and not (call.action == READ and call.is_error)
    by_piece = steps_by_piece(command_text(call.argv))
    return any(
        any(name in written for written in piece.writes) or any(name in s.text and s.subject not in _ONLY_LOOK for s in members)
        for piece, members in by_piece
    )


def changed_since(view: SessionView, run: Any) -> str:
    """Return what was changed behind a run, the last first: files that the agent changed, else what git or a formatter ran; else empty."""
    if edited := edited_since(view, run):
        return edited
    later = (other for other in command_runs(view) if other.result == "passed" and follows(other, run))
    rewrote = (one for one in later if _rewrites(view, one) or undoes_earlier(view, one, run))
    return next((f"`{truncate(shown(one.command, view.session.cwd), _NAMED)}`" for one in rewrote), "")


_NAMED = 60
"""Characters of a path, and of the command that changed files."""

_SINCE = 3
"""Files that are named as changed behind a run."""


def edited_since(view: SessionView, run: Any) -> str:
    """Return the files that the agent changed behind a run, the last first; empty where it changed none."""
    found: dict[str, None] = {}
    for change in reversed(changes_of(view)):
        if len(found) > _SINCE:
            break  # to look at every one of thousands takes seconds
        path = inside(change.path, view.session.cwd)
        undone = (change.call_event, change.path) in taken_back(view)
        if path not in found and not undone and follows(change, run) and not _tidies_up(view, change):
            found[path] = None
    more = " and more" if len(found) > _SINCE else ""
    return ", ".join(truncate(path, _NAMED) for path in list(found)[:_SINCE]) + more


_REWRITTEN = lazy_pattern(r"(?m)^[1-9]\d{0,6} files? reformatted\b")
UNCHANGED = lazy_pattern(r"(?i)\balready up[ -]to[ -]date\b|\bis up to date\b")
_BY_GIT = frozenset(f"git {name}" for name in ("am", "apply", "cherry-pick", "merge", "pull", "rebase", "revert"))
"""Subcommands of git that bring other contents into the files."""

_SUBMODULES = lazy_pattern(r"(?m)^(?:Submodule path '[^'\n]*': (?:checked out|merged in|rebased into)|Cloning into |Cleared directory )")
"""What ``git submodule`` says where it did so: of one that is as it should be it says nothing."""


def _rewrites(view: SessionView, run: Any) -> bool:
    """Tell whether a command changed files that none of its words names."""
    if any(program in _BY_GIT for program in run.programs):
        return not UNCHANGED.search(printed(view, run))
    if "git submodule" in run.programs and _SUBMODULES.search(printed(view, run)):
        return True
    return "lint" in run.purposes and _REWRITTEN.search(printed(view, run)) is not None


_MADE_BY_TOOLS = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox", ".venv", "venv", "node_modules", ".next", ".turbo"}
    | {"build", "dist", "target", "out", "coverage", ".coverage", "htmlcov", ".nyc_output", "test-results", "playwright-report"}
)
"""Folders and files that builds, tests and tools leave behind."""


def _tidies_up(view: SessionView, change: Any) -> bool:
    """Tell whether a change removes an output of tools, by its name, or what git showed as untracked and no call wrote or read."""
    if change.did != DELETE:
        return False
    path = change.path.rstrip("/")
    name = path.rpartition("/")[2]
    if name in _MADE_BY_TOOLS or name.endswith((".egg-info", ".pyc", ".log", ".tmp")):
        return True
    if any(a.did != DELETE and f"{a.path}/".startswith(f"{path}/") for a in file_accesses(view) if a.did in CHANGES or a.did == READ):
        return False
    shown_untracked = re.compile(rf"(?m)^\?\? (?:\S*/)?{re.escape(name)}/?$")
    before = (e for e in view.of_kinds("tool_result") if e.thread_id == change.thread_id and e.seq < change.seq)
    return any(shown_untracked.search(e.text) for e in before if e.text and "?? " in e.text)
