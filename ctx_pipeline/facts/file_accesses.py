"""Which files the tool calls of a session read, changed, searched and named: the one reading."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import asked_folder, start_folders
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.tables import FILE_ACCESSES
from ctx_pipeline.shell.commands import command_text, steps_by_piece
from ctx_pipeline.shell.files import CHANGES_FOLDER, below, entered, is_known, reads, shell_changes, works_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ctx_pipeline.model.session_view import SessionView

READ, EDIT, WRITE, DELETE, MOVE, SEARCH, MENTION = "read", "edit", "write", "delete", "move", "search", "mention"
KINDS = (READ, EDIT, WRITE, DELETE, MOVE, SEARCH, MENTION)
"""What a call does with a file. ``write`` makes it or puts another in its place; ``mention`` is a command that only names it."""

CHANGES = frozenset({EDIT, WRITE, DELETE, MOVE})
TOOL, SHELL, NESTED = "tool", "shell", "nested"
"""By which way: a tool of the host, the words of a shell command, or inside another call (only its end was recorded)."""

_SCRATCH = lazy_pattern(r"^/(?:dev|proc|sys)/|^/(?:private/)?tmp/|^/var/(?:tmp|folders)/|^(?:\.|/|~)?$")
"""Devices and scratch files."""

_FILE = lazy_pattern(r"(?!-)(?:[\w@.+~-]{0,80}/){0,16}[\w@+-][\w@.+-]{0,100}\.[A-Za-z]\w{0,9}")
"""A word that looks like a file: it has an ending."""

_NO_FILES = frozenset(
    {
        *(f"git {name}" for name in ("branch", "cherry-pick", "clone", "config", "fetch", "ls-remote", "merge", "merge-base", "pull")),
        *(f"git {name}" for name in ("push", "rebase", "remote", "rev-list", "rev-parse", "switch", "tag")),
        *("gh api", "gh run", "gh workflow", "ssh", "docker exec", "docker run", "kubectl exec"),
    }
)
"""Programs whose arguments name branches, settings, addresses or files of another machine."""
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack"})
_PATTERN_ELSEWHERE = frozenset({"-e", "-f", "--regexp", "--file", "--files"})

_PATCH_MOVE = lazy_pattern(r"^\*\*\* Update File: (.{1,1000})\n\*\*\* Move to: (.{1,1000})$", re.MULTILINE)


class _Access(NamedTuple):
    """What one call did to one file."""

    path: str
    did: str
    through: str
    lines: str = ""
    told: bool = True
    chars: int = 0
    old_path: str | None = None


def file_accesses(view: SessionView) -> list[Any]:
    """Return the rows of ``file_accesses`` of a session, in the order of its calls.

    A command ran in the folder of its row of ``command_runs``, another call in that of its thread, else
    of the session. A call that failed touched nothing, one without an answer is unknown
    and counts nothing. Devices and scratch files outside the session's folder are left
    out, and so is a search of the folder itself.
    """
    return view.fact(FILE_ACCESSES.name, _rows)


def _rows(view: SessionView) -> list[Any]:
    return accesses_in(view, lambda _call: None)


def accesses_in(view: SessionView, folder_of: Callable[[Any], str | None]) -> list[Any]:
    """Return the rows of a session whose calls ran where ``folder_of(call)`` says; None: as for :func:`file_accesses`."""
    starts = start_folders(view)
    folders = {t.thread_id: t.cwd for t in view.threads}
    session, root = view.session.cwd, (view.session.cwd or "").rstrip("/")
    found: list[Any] = []
    for call in view.tool_calls:
        if call.result_event is None and call.ended is None:
            continue
        asked = asked_folder(view.host, view.call_text(call)) if call.action == "shell" else None
        folder = asked or folder_of(call) or starts.get(call.call_event, folders.get(call.thread_id) or session)
        accesses = [a for a in _of_call(call, folder) if counts(a.path, session)]
        for place, access in enumerate(accesses):
            own = bool(root) and access.path.startswith(f"{root}/")
            found.append(
                FILE_ACCESSES.row(
                    host=view.host,
                    session_id=view.session_id,
                    thread_id=call.thread_id,
                    seq=call.seq,
                    call_event=call.call_event,
                    result_event=call.result_event,
                    place=place,
                    repository=view.session.repository if own else None,
                    tool=call.tool,
                    ts=call.started,
                    **access._asdict(),
                )
            )
    return found


def accesses_by_call(view: SessionView) -> dict[str, list[Any]]:
    """Return call event -> its accesses; calls without one are not in it."""
    found: dict[str, list[Any]] = {}
    for access in file_accesses(view):
        found.setdefault(access.call_event, []).append(access)
    return found


def reads_of(view: SessionView) -> list[Any]:
    """Return the reads: one for each file and call."""
    return [a for a in file_accesses(view) if a.did == READ]


def changes_of(view: SessionView) -> list[Any]:
    """Return the changes: one for each file and call."""
    return [a for a in file_accesses(view) if a.did in CHANGES]


def _of_call(call: Any, folder: str | None) -> Iterator[_Access]:
    if call.action == "shell":
        command = command_text(call.argv) if call.argv else ""
        if command and not call.is_error:
            yield from _of_shell(call, command, folder)
        elif command and call.exit is not None:
            yield from _mentions(command, folder, set())
        return
    if call.is_error or call.action not in (READ, EDIT, WRITE, SEARCH):
        return
    through = TOOL if call.result_event is not None else NESTED
    seen: set[str] = set()
    for place, name in enumerate(call.paths):
        path = below(folder or "", name)
        if path in seen or (call.action == SEARCH and path.rstrip("/") == (folder or "").rstrip("/")):
            continue
        seen.add(path)
        lines = call.ranges[place] if place < len(call.ranges) else ""
        chars = (call.out_chars or 0) // len(call.paths) if call.action in (READ, SEARCH) else 0
        yield _Access(path, call.action, through, lines, chars=chars)


def _of_shell(call: Any, command: str, folder: str | None) -> Iterator[_Access]:
    changes = [c for c in shell_changes(command, folder) if c.did != "folder"]
    changed = {c.path for c in changes}
    shown: dict[str, tuple[list[str], bool]] = {}
    for path, lines, told in reads(command, folder):
        ranges, known = shown.setdefault(path, ([], True))
        ranges.append(lines)
        shown[path] = (ranges, known and told)
    read = {path: one for path, one in shown.items() if path not in changed}
    for path, (ranges, told) in read.items():
        lines = ",".join(ranges) if all(ranges) else ""
        yield _Access(path, READ, SHELL, lines, told, (call.out_chars or 0) // len(read))
    for change in changes:
        yield _Access(change.path, change.did, SHELL, old_path=change.old)
    yield from _mentions(command, folder, {*shown, *changed, *(c.old for c in changes if c.old)})


def _mentions(command: str, folder: str | None, known: set[str]) -> Iterator[_Access]:
    """Yield files that a command names without reading or writing them: ``pytest tests/test_a.py``, ``git add a.py``."""
    base: str | None = folder or ""
    for piece, members in steps_by_piece(command):
        if piece.words[:1] and piece.words[0] in CHANGES_FOLDER:
            base = entered(piece.words, base)
            continue
        subject = members[0].subject if len(members) == 1 else ""
        if subject in _NO_FILES:
            continue
        at = works_in(piece.words, base)
        for word in _named(subject.partition(" ")[0], piece.words[1:]):
            name = word.partition("::")[0]
            if (
                _FILE.fullmatch(name)
                and ".." not in name.replace("../", "")
                and is_known(name, at)
                and (path := below(at or "", name)) not in known
            ):
                known.add(path)
                yield _Access(path, MENTION, SHELL)


def _named(program: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command that can be files: no pattern of a search and no condition of ``find``."""
    if program == "find":
        return words[: next((i for i, word in enumerate(words) if word.startswith("-")), len(words))]
    if program in _SEARCHES and _PATTERN_ELSEWHERE.isdisjoint(words):
        pattern = next((i for i, word in enumerate(words) if not word.startswith("-") and not word.isdigit()), len(words))
        return words[:pattern] + words[pattern + 1 :]
    return words


def patch_moves(text: str) -> list[tuple[str, str]]:
    """Return (old name, new name) of the files that the text of a patch renames, as typed."""
    return [(m[1].strip(), m[2].strip()) for m in _PATCH_MOVE.finditer(text)]


_DOCUMENT = lazy_pattern(r"\.(?:md|mdx|rst|adoc|txt)$|(?:^|/)(?:LICENSE|CHANGELOG|NOTICE|AUTHORS)$", re.IGNORECASE)


@lru_cache(maxsize=8192)
def is_document(path: str) -> bool:
    """Tell whether a file is text for people, by its name: no source and no data of a program."""
    return bool(_DOCUMENT.search(path))


def counts(path: str, folder: str | None) -> bool:
    """Tell whether a path is somebody's work: whatever lies in the session's folder, and elsewhere no device and no scratch file."""
    root = (folder or "").rstrip("/")
    return bool(path) and (bool(root and path.startswith(f"{root}/")) or not _SCRATCH.search(path))


def inside(path: str, folder: str | None) -> str:
    """Return a path below a folder without the folder."""
    root = (folder or "").rstrip("/")
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path


def last_line(lines: str) -> int:
    """Return the last line of ranges written as ``first-last``; 0 where they do not tell."""
    return max((int(n) for n in re.findall(r"\d{1,9}", lines)), default=0)


def by_path(accesses: Iterable[Any], folder: str | None) -> dict[str, list[Any]]:
    """Return path below the folder -> its accesses, in order of the first."""
    found: dict[str, list[Any]] = {}
    for access in accesses:
        found.setdefault(inside(access.path, folder), []).append(access)
    return found
