"""What a command printed in fewer tokens, by the kind of command: failures as they stand, passes as counts, the whole kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.compression import kept_outputs
from ctx_pipeline.compression.failure_lines import cut, guarded, wrong
from ctx_pipeline.compression.large_output import HALF, bounded
from ctx_pipeline.compression.output_filters import FILTERS, Filtered, as_json, progress, repeated
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.commands import steps, steps_by_piece

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.compression.large_output import Middle
    from ctx_pipeline.compression.shown_lines import ShownLines
    from ctx_pipeline.settings import Settings

MOST_LINES = 240
"""Lines of a shortened output; of more those stay that tell of failures, the first and the last ones."""

MOST_HIT_LINES = 600
"""Lines of hits, which say of each file where it has some; of more the first and the last ones stay."""

MOST_DIFF_LINES = 4_000
"""Lines of a difference: an edit may follow for which its text is needed."""

COUNTED, _SAMPLES = 1_000_000, 10
"""Characters of an output whose tokens are counted; of a longer one those of as many samples of it in all."""

_PIECE = 1 << 18
_LONGEST_LINE = 2_000
_LONG_JSON, _LONGEST_TEXT = 400, 400
_HEAD, _TAIL = 60, 100
_ANSI = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CARET_ANSI = lazy_pattern(r"\^\[\[[0-9;]{0,12}[mKJHG]")
_OWN_MARKS = lazy_pattern(r"(?m)^\[(?:ctx(?:[_ ]recall)? [0-9a-f]{12}[:\]]|[\d,]+ (?:lines|characters|bytes|rows)\b)")
"""Lines of an output that look like those that stand for what was left out: a backslash tells them apart."""

FILE = "file"
"""Kind of what shows the text of files: it stays as it is, since an edit may follow."""

_MOST_FILE = 120_000
"""Characters of it; what is longer, as a log is, is shortened as any other text."""

_NUMBERS, _NUMBERED = lazy_pattern(r"\bnl\b|\bcat -\w*n"), lazy_pattern(r"(?m)^ {1,6}(\d{1,7}\t)")
"""Commands that number the lines of a file, and the blanks that they put before the number."""

_PROGRAMS = {
    "git": "git",
    **dict.fromkeys(("gh", "glab", "act", "journalctl"), "log"),
    **dict.fromkeys(("grep", "egrep", "rg", "ag", "ack"), "search"),
    **dict.fromkeys(("ls", "find", "fd", "du"), "list"),
    "tree": "tree",
    **dict.fromkeys(("cat", "sed", "head", "tail", "nl", "bat", "awk", "less", "diff"), FILE),
    "jq": "text",  # what it prints is made of a file and is none
    **dict.fromkeys(("docker", "docker-compose", "podman", "kubectl", "helm"), "container"),
}
_INSTALLS = lazy_pattern(
    r"^(?:npm|pnpm|yarn|bun|pip3?|uv|poetry|apt(?:-get)?|brew|cargo|gem|composer|conda|go)"
    r" (?:install|add|ci|i|sync|get|fetch|update|upgrade)$"
)


class Shortened(NamedTuple):
    """An output as a model may be given it."""

    text: str
    kind: str
    """test, lint, types, build, install, git, log, search, list, tree, container, json or text; raw where it stayed as it was"""
    tokens: int
    raw_tokens: int
    handle: str
    """by which the whole is read again; empty where nothing was left out"""
    estimated: bool = False
    """whether the tokens of the output, of more than :data:`COUNTED` characters, are an estimate"""


def kind_of(command: str) -> str:
    """Return what kind of output a command line prints: that of its first check, else of its last program; ``text`` where unknown."""
    found = [step for step in steps(command) if step.subject.partition(" ")[0] not in ("cd", "echo", "export", "set", "source")]
    checks = ("test", "lint", "types", "build", "check")
    check = next((_PROGRAMS.get(step.subject.partition(" ")[0], step.purpose) for step in found if step.purpose in checks), "")
    if check or not found:
        return check or "text"
    subjects = [step.subject for step in found]
    if any(_INSTALLS.match(subject) for subject in subjects) or any(step.purpose == "install" for step in found):
        return "install"
    kinds = [_PROGRAMS[name] for s in reversed(subjects) if (name := s.partition(" ")[0]) in _PROGRAMS]
    told = [kind for kind in kinds if kind != FILE]
    return "log" if "log" in kinds else next(iter(told or kinds), "text")


def shorten(
    command: str,
    output: str,
    *,
    count: Callable[[str], int],
    settings: Settings,
    exit_status: int | None = None,
    again: str = "ctx_recall",
    shown: ShownLines | None = None,
    middle: Middle | None = None,
) -> Shortened:
    """Return an output in fewer tokens, as it was where that saves none once its last line is counted.

    Lines that may tell of a failure, and those around them, stay as they are. Secrets are
    replaced, sequences of a terminal and overwritten lines go. Where anything was left out
    the whole is kept, and the last line says by which handle it is read again: ``again`` is
    the tool or command that does. What was ``shown`` before is noted and not said again.
    Of an output of which a ``middle`` was left out that is told.
    """
    kind = kind_of(command)
    if kind == FILE and len(output) > _MOST_FILE:
        kind = "text"
    raw, estimated = _tokens(output, count)
    if middle is None and kind != FILE and len(output) > 2 * HALF:
        output, middle = _bounded(output)
    plain = kept_outputs.redacted(output if kind == FILE else _plain(output), settings)
    if _NUMBERS.search(command):
        plain = _NUMBERED.sub(r"\1", plain)
    bare = plain if kind == FILE else re.sub(r"\n{3,}", "\n\n", plain)
    quoted = bare if kind == FILE else _OWN_MARKS.sub(r"\\\g<0>", bare)
    made, kind = _made(quoted, kind, prints_files=_prints_files(command))
    if quoted != bare or middle is not None:
        made = made._replace(exact=False)
    if shown is not None:
        before = shown.without(made.lines)
        made = Filtered(before, exact=made.exact and before == made.lines)
    text = "\n".join(made.lines)
    handle = ""
    if not made.exact:
        handle = kept_outputs.handle_of(plain)
        status = f"exit {exit_status}, " if exit_status is not None else ""
        lines = plain.count("\n") + (not plain.endswith("\n"))
        kept = f"whole of {lines} line{'s' * (lines != 1)}"
        if middle is not None:
            kept = middle.extent(output.count("\n") + (not output.endswith("\n")))
            text = f"{text.rstrip()}\n{middle.note(lambda line: kept_outputs.redacted(_plain(line), settings))}"
        text = f"{text.rstrip()}\n[{again} {handle}: {status}{kept}]"
    tokens, _ = _tokens(text, count)
    if (tokens >= raw and middle is None) or (kind == FILE and text == output):
        told = Shortened(plain, "raw", raw if plain == output else _tokens(plain, count)[0], raw, "", estimated)
    else:
        told = Shortened(text, kind, tokens, raw, handle, estimated)
        if handle:
            kept_outputs.keep(plain, settings)
    if shown is not None:
        shown.add(told.text.split("\n"))
    return told


def _prints_files(command: str) -> bool:
    """Tell whether a program of a command line prints the text of files, beside what others of it print."""
    read = (members for piece, members in steps_by_piece(command) if not piece.piped)
    return any(_PROGRAMS.get(step.subject.partition(" ")[0]) == FILE for members in read for step in members)


def _bounded(output: str) -> tuple[str, Middle | None]:
    """Return an output as far as it is kept, and what is left out of its middle; it is encoded a piece at a time."""
    data, middle = bounded((output[n : n + _PIECE].encode("utf-8", "surrogatepass") for n in range(0, len(output), _PIECE)), HALF)
    return data.decode("utf-8", "surrogatepass" if middle is None or middle.lines else "replace"), middle


def _tokens(text: str, count: Callable[[str], int]) -> tuple[int, bool]:
    """Return the tokens of a text, and whether they are an estimate."""
    if len(text) <= COUNTED:
        return count(text), False
    size = COUNTED // _SAMPLES
    starts = [len(text) * number // _SAMPLES for number in range(_SAMPLES)]
    return sum(count(text[start : start + size]) for start in starts) * len(text) // COUNTED, True


def _made(plain: str, kind: str, *, prints_files: bool) -> tuple[Filtered, str]:
    if kind == FILE:
        return Filtered(plain.split("\n"), exact=True), kind
    if kind not in ("search", "test", "git") and (packed := as_json(plain)) is not None:
        return _fitting(Filtered(packed.split("\n"), exact=True)), "json"
    lines = whole = plain.split("\n")
    hunks = any(line.startswith("@@ ") for line in lines)
    if kind != "search" and not hunks:  # what was looked for may stand anywhere in a line, and an edit may follow a difference
        lines = [part for line in whole for part in _members(line)]
    makers = [FILTERS[kind]] if kind in FILTERS else []
    if kind not in ("search", "list", "tree") and not hunks:
        makers += [progress] if kind == "log" else [progress, repeated]
    found = Filtered(lines, exact=lines == whole)
    del lines, whole
    for made in makers:
        after = made(found.lines)
        found = Filtered(after.lines, found.exact and after.exact)
    most = MOST_DIFF_LINES if hunks or prints_files else MOST_HIT_LINES if kind == "search" else MOST_LINES
    return _fitting(found, most), kind


def _members(line: str) -> list[str]:
    """Return a long line that holds JSON as the lines of its members, long texts cut; any other, and a short one of a failure, as it is."""
    if len(line) <= _LONG_JSON or (len(line) <= _LONGEST_LINE and wrong(line)):
        return [line]
    packed = as_json(line, _LONG_JSON, _LONGEST_TEXT)
    return [line] if packed is None else packed.split("\n")


def _fitting(made: Filtered, most: int = MOST_LINES) -> Filtered:
    """Return at most about so many lines, cut where they are too long; what tells of failures stays."""
    lines = [cut(line, _LONGEST_LINE) for line in made.lines]
    shorter = lines != made.lines
    if len(lines) <= most:
        return Filtered(lines, made.exact and not shorter)
    stay = {*range(_HEAD), *range(len(lines) - _TAIL, len(lines))}
    for place in guarded(lines):
        if len(stay) >= most + _HEAD:
            break
        stay.add(place)
    found: list[str] = []
    last = -1
    for place in sorted(stay):
        if gap := place - last - 1:
            found.append(f"[{gap} line{'s' * (gap > 1)}]")
        found.append(lines[place])
        last = place
    return Filtered(found)


def _plain(output: str) -> str:
    """Return a text without sequences of a terminal, and of each line what stood there last."""
    text = _ANSI.sub("", output) if "\x1b" in output else output
    if "^[[" in text:  # logs of runners have it in these two letters
        text = _CARET_ANSI.sub("", text)
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    if "\b" in text:
        text = re.sub(r"[^\n]\x08", "", text)
    return text
