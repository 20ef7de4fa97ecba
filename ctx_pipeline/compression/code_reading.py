"""Reading code for an agent: a file or a part of it, its signatures, what changed since it was read, a search, a tree."""

from __future__ import annotations

import codecs
import difflib
import errno
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression.project_files import (
    BEYOND,
    MOST_REPOSITORIES,
    REPOSITORIES,
    UTF_16,
    Project,
    bytes_at,
    files_by_git,
    is_plain_text,
    project_at,
    source_at,
)
from ctx_pipeline.compression.signatures.symbols import lines as signature_lines
from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.prompt_block import name_for_agent
from ctx_pipeline.model.display import NOT_IN_CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ctx_pipeline.compression.source import Source

PART = 24_000
"""Characters of a file that are given at a time."""

LONGEST_LINE = 2 * PART
"""Characters of one line, as a minified file has, that are given."""

MOST_HITS = 40
"""Hits of a page."""

MOST_COUNTED = 10_000
"""Hits behind which a search ends."""

LONGEST_HIT = 240
"""Characters of a line that are shown."""

_LONGEST_LOOKED = 2_000
"""Bytes of a line that ripgrep tells; of a longer one those around the hit are read from the file."""

_MOST_ALIKE = 5

SECONDS = 20.0
"""Time that a search may take."""

_MOST_NAMED = 20
_KEPT_TEXTS, _KEPT_CHARS, _KEPT_LINES = 200, 20_000_000, 200_000


class Excerpt(NamedTuple):
    """What an agent is given of a file."""

    text: str
    first: int
    last: int
    lines: int
    how: str
    """full, lines, signatures, diff, unchanged, or rewritten: the same lines with other line ends"""
    more: int = 0
    """the line to read on from; 0 at the end"""
    odd: str = ""
    """what an edit must know of the file: its line ends, that it is no UTF-8, or in which lines characters are not shown"""


class Given(NamedTuple):
    """A file as it was given: its text, and what of it the text does not say."""

    text: str
    written: int
    odd: str


class Reads:
    """What one agent was given of which file, so that it is not given the same again; at most ``chars`` characters of files."""

    def __init__(self, chars: int = _KEPT_CHARS) -> None:
        self._chars = chars
        self._texts: OrderedDict[Path, Given] = OrderedDict()
        self._lines: OrderedDict[Path, dict[int, int]] = OrderedDict()
        """number of a line that was asked for -> hash of its text as it was given"""

    def has_lines(self, path: Path, first: int, lines: Sequence[str]) -> bool:
        """Tell whether these lines were all asked for before and stand as they were given; note that they are given now."""
        now = {number: hash(text) for number, text in enumerate(lines, first)}
        before = self._lines.setdefault(path, {})
        same = all(before.get(number) == made for number, made in now.items())
        before.update(now)
        self._lines.move_to_end(path)
        while len(self._lines) > 1 and (len(self._lines) > _KEPT_TEXTS or sum(map(len, self._lines.values())) > _KEPT_LINES):
            self._lines.popitem(last=False)
        return same

    def last(self, path: Path) -> Given | None:
        """Return a file as it was given whole last; None where it never was."""
        return self._texts.get(path)

    def given(self, path: Path, source: Source) -> None:
        """Note that a file was given whole."""
        self._texts[path] = Given(source.text, source.written, source.odd)
        self._texts.move_to_end(path)
        while len(self._texts) > _KEPT_TEXTS or sum(len(one.text) for one in self._texts.values()) > self._chars:
            self._texts.popitem(last=False)


def root_of(path: str, roots: Sequence[Path]) -> tuple[Path, Path]:
    """Return the allowed folder that a path lies in, links followed, and the real path.

    Raises UsageError for one outside of all, one with a NUL, and one that the system refuses to look at: a name too long, a closed folder.
    """
    if "\0" in path:
        raise UsageError("the path has a NUL character, which no name of a file has", hint="give the path without it")
    for root in roots:
        base = root.resolve()
        try:
            real = (base / path).resolve()
        except (OSError, RuntimeError, ValueError):
            if _goes_round(base / path):
                raise UsageError(
                    f"{path[:300]}: it is a link that leads back to itself", hint="name a file or a folder of the project"
                ) from None
            continue
        if real.is_relative_to(base):
            try:
                real.exists()
            except OSError as error:
                raise UsageError(f"{path[:300]}: {error.strerror}", hint="name a file or a folder of the project") from error
            return base, real
    raise UsageError(f"{path[:300]}: the path leads out of the project", hint="a person allows a folder with ctx mcp --allow FOLDER")


def _goes_round(path: Path) -> bool:
    """Tell whether links on the way to a path lead in a circle."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    except ValueError:
        return False
    return False


def read_file(
    path: str,
    *,
    roots: Sequence[Path],
    reads: Reads,
    mode: str = "auto",
    first: int | None = None,
    last: int | None = None,
    again: bool = False,
    count: Callable[[str], int] = len,
) -> Excerpt:
    """Return a file, exactly as it stands but for its line ends, or a part of it.

    ``auto`` gives the lines that are named, else a line that says "unchanged" where this
    agent was given the same text whole before (``again`` gives it anew), a diff where that
    is smaller than the text, else the text. Lines that it asks for again and that stand as
    they did are one line too. ``signatures`` gives declarations with their
    lines, where that is smaller; with lines those that stand in them or around them. Raises UsageError for a path outside of the allowed
    folders, a binary file, one above a megabyte, and lines that are not there.
    """
    root, real = root_of(path, roots)
    if not real.exists():
        raise UsageError(f"{path}: there is no such file", hint=_alike(real.name, project_at(root).files, "files") or "name a file")
    source = source_at(real, root=root, name=path)
    found = _excerpt(source, real, reads, (mode, first, last), again=again, count=count)
    empty = "" if source.text else " (the file is empty)"
    return found._replace(odd=source.odd + empty + _not_shown(source.text, found))


def _alike(name: str, paths: Iterable[str], what: str) -> str:
    """Return which paths of a project may be meant: those of the name in other folders, else of names like it."""
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    names = [name] if name in by_name else difflib.get_close_matches(name, by_name, n=3, cutoff=0.75)
    found = [path for one in names for path in by_name[one]]
    more = f" and {len(found) - _MOST_ALIKE} more" if len(found) > _MOST_ALIKE else ""
    return f"{what} like it: {', '.join(map(name_for_agent, found[:_MOST_ALIKE]))}{more}" if found else ""


def _files_and_folders(root: Path) -> list[str]:
    """Return the paths of a project, each folder before what is in it."""
    files = project_at(root).files
    return list(dict.fromkeys("/".join(parts[:n]) for file in files for parts in [file.split("/")] for n in range(1, len(parts) + 1)))


def _not_shown(text: str, found: Excerpt) -> str:
    """Return in which of the lines that are given characters are left out because a reader could not see what they do."""
    if NOT_IN_CODE.search(text) is None:
        return ""
    places = [n for n, line in enumerate(text.split("\n"), 1) if found.first <= n <= found.last and NOT_IN_CODE.search(line)]
    if not places:
        return ""
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    return f" (not exact: control or invisible characters are left out in line{'s' * (len(places) > 1)} {_named(places)}{more})"


def _named(places: Sequence[int]) -> str:
    return ", ".join(map(str, places[:_MOST_NAMED]))


def _excerpt(
    source: Source,
    real: Path,
    reads: Reads,
    asked: tuple[str, int | None, int | None],
    *,
    again: bool,
    count: Callable[[str], int],
) -> Excerpt:
    mode, first, last = asked
    text, total = source.text, max(1, source.lines)
    part = _lines(text, first or 1, last or total, total) if first is not None or last is not None or mode == "lines" else None
    if mode == "signatures":
        begin, end = first or 1, last or total
        symbols = [one for one in source.outline.symbols if one.first <= end and one.last >= begin]
        drawn = "\n".join(signature_lines(symbols, located=True, documented=False))
        if drawn and count(drawn) < count(text if part is None else part.text):
            return Excerpt(_beginning(drawn, "declarations"), begin, min(end, total), total, "signatures")
    if part is not None:
        return _unless_known(reads, real, part, again=again, count=count)
    before = reads.last(real)
    if mode in ("auto", "diff") and before is not None and not again:
        if before.text == text:
            if before.written != source.written:
                reads.given(real, source)
                then = before.odd.strip() or "(plain)"
                return Excerpt(
                    f"changed since you read it, but only in line ends or encoding: then {then}, now{source.odd or ' (plain)'}",
                    1,
                    total,
                    total,
                    "rewritten",
                )
            # a context that was compacted since has lost the text
            said = f"unchanged since you read it: {total} line{'s' * (total != 1)} (again=true gives them)"
            if mode == "diff" or count(said) < count(text):  # a few lines are told again in fewer tokens
                return Excerpt(said, 1, total, total, "unchanged")
        else:
            diff = "\n".join(difflib.unified_diff(before.text.split("\n"), text.split("\n"), "as you read it", "now", lineterm="", n=3))
            if len(diff) <= PART and (mode == "diff" or count(diff) < count(text)):
                reads.given(real, source)
                return Excerpt(diff, 1, total, total, "diff")
            if mode == "diff":  # what it was not given it is told again
                return Excerpt(_beginning(diff, "the difference"), 1, total, total, "diff")
    whole = _lines(text, 1, total, total)._replace(how="full")
    if whole.more or whole.text != text.removesuffix("\n"):  # of a long file this is the first part
        return _unless_known(reads, real, whole, again=again or mode == "full", count=count)
    reads.given(real, source)
    return whole


def _beginning(text: str, what: str) -> str:
    """Return as many lines of a text as one answer holds, and what else there is of it."""
    if len(text) <= PART:
        return text
    end = text.rfind("\n", 0, PART)
    told = text[: end if end > 0 else PART]
    of_line = 0 if end > 0 else len(text.partition("\n")[0]) - PART
    more = text.count("\n") - told.count("\n")
    left = [f"{of_line} more characters of that line"] if of_line > 0 else []
    left += [f"{more} more line{'s' * (more > 1)} of {what}"] if more else []
    return f"{told}\n[{', '.join(left)}: mode=lines with first and last gives the file]"


def _unless_known(reads: Reads, real: Path, part: Excerpt, *, again: bool, count: Callable[[str], int]) -> Excerpt:
    """Return lines, or one line that says that they were all asked for before and stand as they were given."""
    if reads.has_lines(real, part.first, part.text.split("\n")) and not again:
        said = f"lines {part.first}-{part.last} of {part.lines} stand as you read them (again=true gives them)"
        if count(said) < count(part.text):
            return Excerpt(said, part.first, part.last, part.lines, "unchanged", part.more)
    return part


def _lines(text: str, first: int, last: int, total: int) -> Excerpt:
    if first < 1 or first > total:
        raise UsageError(f"the file has lines 1 to {total}", hint="name some of them")
    if last < first:
        raise UsageError(f"the last line, {last}, is before the first one, {first}", hint="give them in their order")
    chosen = text.split("\n")[first - 1 : last]
    size = kept = 0
    for line in chosen:
        size += len(line) + 1
        if kept and size > PART:
            break
        kept += 1
    end = first + kept - 1
    told = "\n".join(chosen[:kept])
    if len(told) > LONGEST_LINE:
        told = f"{told[:LONGEST_LINE]}\n[{len(told) - LONGEST_LINE:,} characters more in line {end}, which are not given]"
    return Excerpt(told, first, min(end, total), total, "lines", end + 1 if kept < len(chosen) and end < total else 0)


class Found(NamedTuple):
    """Hits by file, the best first."""

    text: str
    hits: int
    files: int
    shown: int
    more: bool = False
    """there is a next page"""
    ended: bool = False
    """the search ended before it saw all files"""


class Hit(NamedTuple):
    """A line in which a search found something."""

    path: str
    number: int
    line: str
    at: int
    """characters of the line before the first match"""


_DECLARES = r"\b(?:def|class|fn|func|function|struct|enum|trait|interface|type|const|let|var|impl|module|package|#define)\s+(?:\w+\s+)?"


def search_code(
    pattern: str,
    *,
    roots: Sequence[Path],
    path: str = ".",
    regex: bool = False,
    glob: str | None = None,
    skip: int = 0,
    limit: int = MOST_HITS,
) -> Found:
    """Return hits in the project's files: declarations first, tests last, the same line of many files once.

    ripgrep searches (what git ignores is left out); where it is not installed git, outside of a
    repository Python. It ends behind :data:`MOST_COUNTED` hits. Raises UsageError for a path outside or without a
    text file, a bad pattern and a search that takes too long.
    """
    if "\n" in pattern or "\0" in pattern:
        raise UsageError("the pattern has a line break or a NUL: lines are searched one by one", hint="give a part of one line")
    root, real = root_of(path, roots)
    if not real.exists():
        hint = _alike(real.name, _files_and_folders(root), "paths") or "name a folder or a file, or leave the path out"
        raise UsageError(f"{path}: there is no such file or folder", hint=hint)
    if not real.is_dir():
        source_at(real, root=root, name=path)
    found = _by_ripgrep(pattern, root, real, regex=regex, glob=glob)
    beyond = False
    if found is None:
        found, beyond = _without_ripgrep(pattern, root, real, regex=regex, glob=glob)
    if glob and not found and not any(map(_glob_matcher(glob), _names_below(root, real))):
        raise UsageError(
            f"no file below {path} matches the glob {glob}", hint="for example *.py or src/**/*.ts; it counts from the project"
        )
    ended = beyond or len(found) > MOST_COUNTED
    del found[MOST_COUNTED:]
    declares = re.compile(_DECLARES + (re.escape(pattern) if not regex else ""))
    by_text: dict[str, list[tuple[str, int]]] = {}
    for hit in found:
        by_text.setdefault(_around_match(hit, len(pattern)), []).append((hit.path, hit.number))
    ranked = sorted(by_text.items(), key=lambda one: (not (not regex and declares.search(one[0])), _is_test(one[1][0][0]), one[1][0]))
    shown = ranked[skip : skip + limit]
    lines: list[str] = []
    last = ""
    for text, places in shown:
        name, number = places[0]
        if name != last:
            lines.append(name_for_agent(name))
            last = name
        also = f"  (also in {len(places) - 1} more: {name_for_agent(places[1][0])}:{places[1][1]})" if len(places) > 1 else ""
        lines.append(f" {number}: {text}{also}")
    end = skip + len(shown)
    return Found("\n".join(lines), len(found), len({hit.path for hit in found}), end, end < len(ranked), ended)


def _around_match(hit: Hit, width: int) -> str:
    """Return the line of a hit; of a long one its beginning, or what stands around a match of about this width behind that."""
    line = hit.line.strip()
    if len(line) <= LONGEST_HIT:
        return line
    at = hit.at - (len(hit.line) - len(hit.line.lstrip()))
    begin = max(0, at - LONGEST_HIT // 2) if LONGEST_HIT - width < at < len(line) else 0
    end = begin + LONGEST_HIT
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


def _names_below(root: Path, real: Path) -> Iterator[str]:
    """Give the paths of a folder's files, or of a file, from the root of the project."""
    for name in project_at(real).files if real.is_dir() else [""]:
        yield (real / name).relative_to(root).as_posix()


def _is_test(name: str) -> bool:
    return bool(re.search(r"(?:^|/)(?:tests?|spec|__tests__)/|(?:^|[_./-])(?:test|spec)[_.-]|_test\.", name))


def _by_ripgrep(pattern: str, root: Path, real: Path, *, regex: bool, glob: str | None) -> list[Hit] | None:
    program = shutil.which("rg") or shutil.which("rg", path=sysconfig.get_path("scripts"))
    if program is None:
        return None
    words = [
        program,
        "--no-config",
        "--no-follow",
        "--line-number",
        "--column",
        "--no-heading",
        "--with-filename",
        "--color=never",
        "--hidden",
        "--null",
        f"--max-columns={_LONGEST_LOOKED}",
    ]
    words += ["--max-columns-preview", f"--max-count={MOST_COUNTED + 1}", "--max-filesize=1M", "--sort=path"]
    words += [] if regex else ["--fixed-strings"]
    words += [
        "--smart-case",
        *(["--glob", glob] if glob else []),
        "--glob",
        "!.git",
        "--regexp",
        pattern,
        "--",
        str(real.relative_to(root) or "."),
    ]
    with (
        tempfile.TemporaryFile() as wrong,
        subprocess.Popen(words, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=wrong) as running,  # noqa: S603 - ripgrep, with words of our own
    ):
        late = threading.Timer(SECONDS, running.kill)
        late.start()
        lines = list(islice(running.stdout or (), MOST_COUNTED + 1))
        if len(lines) > MOST_COUNTED:
            running.kill()
        status = running.wait()
        late.cancel()
        wrong.seek(0)
        said = wrong.read(10_000).decode("utf-8", "replace").strip().splitlines()
    if len(lines) <= MOST_COUNTED and status < 0:
        raise UsageError(f"the search took longer than {SECONDS:g} seconds", hint="name a folder or a glob")
    if len(lines) <= MOST_COUNTED and status > 1:
        raise UsageError(
            f"the pattern cannot be searched: {said[-1][:200] if said else 'no reason given'}", hint="without regex it is plain text"
        )
    told = (re.match(rb"([^\0]*)\0(\d+):(\d+):(.*)", line.rstrip(b"\r\n"), re.DOTALL) for line in lines)
    return _uncut(root, [match.groups() for match in told if match])


def _uncut(root: Path, told: Iterable[tuple[bytes, ...]]) -> list[Hit]:
    """Return hits of ripgrep: path, line, column and text; what it cut, and ended with words of its own, is read from the file."""
    found: list[Hit] = []
    last, lines = b"", list[bytes]()
    for name, number, column, text in told:
        path, line, begin = name.decode("utf-8", "replace").removeprefix("./"), text, 0
        if len(text) > _LONGEST_LOOKED:
            if name != last:
                last, lines = name, _lines_of(root / os.fsdecode(name), root)
            line = text[:_LONGEST_LOOKED]
            if int(number) <= len(lines) and int(column) <= len(lines[int(number) - 1]):
                begin = max(0, int(column) - 1 - _LONGEST_LOOKED // 2)
                line = lines[int(number) - 1][begin : begin + _LONGEST_LOOKED]
        found.append(_hit(path, number, int(column) - begin, line))
    return found


def _lines_of(path: Path, root: Path) -> list[bytes]:
    """Return the lines of a text file without its byte order mark; none where it cannot be read any more."""
    data = bytes_at(path, root)
    if isinstance(data, str):
        return []
    return (data.decode("utf-16", "replace").encode() if data.startswith(UTF_16) else data.removeprefix(codecs.BOM_UTF8)).split(b"\n")


def _hit(path: str, number: str | bytes, column: str | int, line: bytes) -> Hit:
    """Return a hit of a program that tells the column in bytes, from 1."""
    before = line[: int(column) - 1].decode("utf-8", "replace")
    return Hit(path, int(number), line.decode("utf-8", "replace"), len(before))


def _without_ripgrep(
    pattern: str, root: Path, real: Path, *, regex: bool, glob: str | None, levels: int = REPOSITORIES, until: float = 0.0
) -> tuple[list[Hit], bool]:
    """Return hits, and whether there are more files than are looked at; ``levels`` of repositories inside are looked into."""
    until = until or time.monotonic() + SECONDS
    flags = re.IGNORECASE if pattern == pattern.lower() else 0
    try:
        look = re.compile(pattern if regex else re.escape(pattern), flags)
    except re.error as error:
        raise UsageError(f"the pattern cannot be searched: {error}", hint="without regex it is plain text") from None
    chosen = _glob_matcher(glob) if glob else None
    if real.is_dir() and (found := _by_git(pattern, root, real, regex=regex, chosen=chosen)) is not None:
        kept = files_by_git(real)
        inside = kept.inside[:MOST_REPOSITORIES] if kept and levels else []
        beyond = kept is not None and len(inside) < len(kept.inside)
        for name in inside if len(found) <= MOST_COUNTED else ():
            if time.monotonic() > until:
                raise UsageError(f"the search took longer than {SECONDS:g} seconds", hint="name a folder or a glob")
            inner, cut = _without_ripgrep(pattern, root, real / name, regex=regex, glob=glob, levels=levels - 1, until=until)
            found, beyond = found + inner, beyond or cut
        if found or not kept or not kept.is_ignored:
            return found, beyond
    found = []
    project = project_at(real) if real.is_dir() else Project(real.parent, [real.name], {}, by_git=False)
    for name in project.files:
        file = project.root / name
        if chosen and not chosen(file.relative_to(root).as_posix()):
            continue
        try:
            text = source_at(file, root=root).text
        except UsageError:
            continue
        if not look.search(text) and not regex:
            continue
        shown = file.relative_to(root).as_posix()
        lines = enumerate(text.split("\n"), 1)
        found += [Hit(shown, n, line, match.start()) for n, line in lines if (match := look.search(line))]
        if len(found) > MOST_COUNTED:
            break
    return found, BEYOND in project.left_out


_HIT = re.compile(r"([^\0]+)\0(\d+)[\0:](\d+)[\0:]([^\n]*)(?:\n|\Z)")
"""From the end of the one before: a name may hold a line break."""


def _by_git(pattern: str, root: Path, real: Path, *, regex: bool, chosen: Callable[[str], bool] | None) -> list[Hit] | None:
    """Return hits in the files that git does not ignore; None outside of a repository, and where git cannot search or has too much to say.

    What is binary its bytes tell, as for ripgrep: attributes of a repository call lock files and generated ones so.
    """
    from ctx_pipeline.recorded_paths.git import Failed, run

    if not pattern.isascii():
        return None  # git takes it for bytes, which have no case
    case = ["--ignore-case"] if pattern == pattern.lower() else []
    words = [
        "grep",
        "--untracked",
        "--line-number",
        "--column",
        "--text",
        "--null",
        "--no-color",
        "--perl-regexp" if regex else "--fixed-strings",
    ]
    said = run(real, *words, *case, "-e", pattern, seconds=SECONDS, whole=True)
    if isinstance(said, Failed):
        if said.reason == "timeout":
            raise UsageError(f"the search took longer than {SECONDS:g} seconds", hint="name a folder or a glob")
        return [] if said.status == 1 else None
    found: list[Hit] = []
    allowed: dict[str, str] = {}
    for name, number, column, text in map(re.Match.groups, _HIT.finditer(said)):
        if name not in allowed:
            shown = (real / name).relative_to(root).as_posix()
            wanted = (chosen is None or chosen(shown)) and is_plain_text(real, name)
            allowed[name] = shown if wanted else ""
        if allowed[name]:
            found.append(_hit(allowed[name], number, column, text.rstrip("\r").encode()))
            if len(found) > MOST_COUNTED:
                break
    return found


_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}


def _glob_matcher(glob: str) -> Callable[[str], bool]:
    """Return what tells whether a glob means a path, about as ripgrep takes it: without a slash any name; with ! all others."""
    others, plain = glob.startswith("!"), glob.removeprefix("!").rstrip("/")
    # several in a row mean the same, and would be tried in every way in which they share a path
    plain = re.sub(r"(?:\*\*/)+", "**/", re.sub(r"\*{3,}", "**", plain))
    parts = re.split(r"(\*\*/|\*\*|[*?]|\[[^\]/]+\])" if "{" not in plain else r"(\*\*/|\*\*|[*?{},]|\[[^\]/]+\])", plain.removeprefix("/"))
    made = "".join(_WILD.get(part) or (re.escape(part) if n % 2 == 0 else part.replace("[!", "[^")) for n, part in enumerate(parts))
    try:
        look = re.compile(f"{'' if '/' in plain else '(?:.*/)?'}(?:{made}){'(?:/.*)?' if others else ''}")
    except re.error:
        raise UsageError("the glob cannot be read", hint="for example *.py or src/**/*.ts") from None
    return lambda name: bool(look.fullmatch(name)) != others
