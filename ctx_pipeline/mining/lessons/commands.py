"""The commands of a session as lessons quote them: command runs, and the forms in which a text names a command."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.begun_tasks import says_when_begun, task_begun, task_failed
from ctx_pipeline.facts.command_runs import CHECKS as _PROVING
from ctx_pipeline.facts.command_runs import command_runs, may_have_ended_before, printed, results_of
from ctx_pipeline.mining.lessons.failures import clean, looks_red, shorten_paths
from ctx_pipeline.mining.lessons.secret_names import without_secrets
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.command_risk import dangers
from ctx_pipeline.shell.commands import Step, found_nothing, steps, steps_by_piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

PROVING = _PROVING
CHECKS = PROVING | {"install", "run"}
LOOKING = frozenset(
    {
        "cat",
        "sed",
        "head",
        "tail",
        "ls",
        "rg",
        "grep",
        "find",
        "fd",
        "tree",
        "wc",
        "stat",
        "file",
        "awk",
        "nl",
        "diff",
        "less",
        "which",
        "ps",
    }
    | {"cp", "mv", "rm", "mkdir", "touch", "chmod", "ln", "kill", "pkill", "printf", "cut", "sort", "xargs", "test", "[", "[["}
)
"""Programs that look around or move files: their misses are no lessons."""

NOT_FOUND = 127
"""Exit status of a shell that does not find a program."""

_LOOKING_GIT = frozenset({"git status", "git log", "git show", "git diff", "git blame", "git grep", "git ls-files", "git rev-parse"})
_LONGEST, _QUOTE = 600, 40
_NO_SOURCES = lazy_pattern(r"^(?:/tmp/|/private/|/var/|/dev/)|/node_modules/|/\.venv/")


def outside(path: str) -> bool:
    """Tell whether a file is none of the project's own: temporary, installed, or the agent's."""
    return bool(_NO_SOURCES.search(path) or discovery.project_folder_pattern().search(path))


@dataclass(repr=False)
class Run:
    """One command that ended, with the step that counts."""

    place: int
    """number of the call in its thread, from 0"""
    call: Any
    """the call, with the result that its command ended with"""
    row: Any
    """its row of ``command_runs``"""
    step: Step
    """the step that counts: the first check of the line, else its first step"""
    output: str = ""
    maybe_later: bool = False
    """what failed may as well be a check behind the step that counts"""

    @property
    def command(self) -> str:
        """The command line."""
        return str(self.row.command)

    @property
    def failed(self) -> bool:
        """It ended badly."""
        return bool(self.row.result == "failed")

    @cached_property
    def unclear(self) -> bool:
        """It failed, and the step that counts may never have run, or may have ended well: another one may have ended the line."""
        if not self.failed or self.maybe_later:
            return self.failed
        at = next((at for at, (_, members) in enumerate(steps_by_piece(self.command)) if self.step in members), 0)
        return may_have_ended_before(self.command, at, self.step, self.output)

    @property
    def well(self) -> bool:
        """It is known to have ended well, whatever it printed."""
        return bool(self.row.result == "passed")

    @cached_property
    def passed(self) -> bool:
        """It ended well and its output speaks of no failure."""
        return self.well and not looks_red(self.output)

    def shown_by(self, view: SessionView, line: str) -> tuple[str, ...]:
        """Return the events that show a line of its output and its end."""
        start = line[-_QUOTE:].rstrip("…")
        events = (e for e in self.row.outputs if e in view.by_event)
        said = next((e for e in events if start in clean(shorten_paths(view.by_event[e].text or "", None))), None)
        return tuple(dict.fromkeys(filter(None, (said, self.call.result_event))))


def runs(view: SessionView) -> list[Run]:
    """Return the commands of a session that lessons may quote, thread by thread in order.

    Left out are those that were refused, had not ended or only look around, and those whose
    search found nothing.
    """
    found: list[Run] = []
    places: Counter[str] = Counter()
    ended = {row.call_event: row for row in command_runs(view)}
    for call in view.tool_calls:
        place = places[call.thread_id]
        places[call.thread_id] += 1
        row = ended.get(call.call_event)
        if row is not None and (run := _quoted(view, place, call, row)) is not None:
            found.append(run)
    return found


def _quoted(view: SessionView, place: int, call: Any, row: Any) -> Run | None:
    if row.result in ("refused", "running") or not row.outputs or len(row.command) > _LONGEST:
        return None
    every = steps(row.command)
    step = next((s for s in every if s.purpose in CHECKS), every[0] if every else None)
    begun = _last_begun(view, row) if row.result == "failed" else None
    step = begun.step if begun else step
    if step is not None and step.purpose == "check":
        step = step._replace(purpose=next((r.purpose for r in results_of(view, row)), "check"))
    if step is None or step.subject in _LOOKING_GIT or (step.subject.partition(" ")[0] in LOOKING and row.exit != NOT_FOUND):
        return None
    if call.is_error and found_nothing((row.command,), row.exit):
        return None
    answered = call._replace(result_event=row.outputs[-1], exit=row.exit, ended=row.ended)
    return Run(place, answered, row, step, _ends(printed(view, row)), begun is not None and begun.maybe_later)


class _Begun(NamedTuple):
    step: Step
    maybe_later: bool
    """a check behind it may have run, and have failed"""


def _last_begun(view: SessionView, row: Any) -> _Begun | None:
    """Return the check of a chain that its task runner says it began last, since those before it ended well; None without such words."""
    pieces = steps_by_piece(row.command)
    if len(pieces) == 1 or any(piece.behind not in ("", "&&") for piece, _ in pieces):
        return None
    output = printed(view, row)
    checks = [s for _, members in pieces for s in members if s.purpose in CHECKS]
    place, at = max(((task_begun(output, s), at) for at, s in enumerate(checks)), default=(-1, 0))
    if place < 0:
        return None
    behind = not all(map(says_when_begun, checks[at + 1 :]))
    return _Begun(checks[at], behind and not task_failed(output[place:], checks[at]))


_PIECE = 20_000


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _PIECE else f"{text[:_PIECE]}\n{text[-_PIECE:]}"


_FORMATS = lazy_pattern(r"(?<!--)(?<!output-)(?<!message-)\b(?:fmt|format|gofmt|prettier|black)\b")
"""Says that files are rewritten; options such as ``--output-format`` choose how findings are printed."""

_LOOKS = lazy_pattern(
    r"(?:^|\s)(?:--check|--diff|--list-different|--dry-run|-l|-d)(?:\s|=|$)|\b(?:fmt|format)[:_-]check\b|\bcheck[:_-](?:fmt|format)\b"
)
"""Says that a formatter only tells what it would change."""


def formats(text: str) -> bool:
    """Tell whether a command line rewrites files in the project's format."""
    return bool(_FORMATS.search(text)) and not _LOOKS.search(text)


def checks_format(text: str) -> bool:
    """Tell whether a command line only says what a formatter would change."""
    return bool(_FORMATS.search(text) and _LOOKS.search(text))


class Form(NamedTuple):
    """A check as a project runs it: without what only shapes its output, and whether it was narrowed to some tests or files."""

    text: str
    narrowed: bool


_SHAPE = frozenset(
    {
        "2>&1",
        "-v",
        "-vv",
        "-q",
        "-s",
        "-x",
        "--tb=short",
        "--tb=line",
        "--tb=long",
        "--no-header",
        "--nocapture",
        "-count=1",
        "--color=never",
    }
)
_CHOOSE = frozenset(
    {"-run", "-k", "-t", "-g", "--filter", "--grep", "--test", "--tests", "--testNamePattern", "-p", "--package", "--lib", "--bin", "--"}
)
_ONE = lazy_pattern(r"::|\w\.\w{1,4}$|^(?!\.+/\.\.\.$)[\w.@-]*/[\w./@*-]+$|^-run=|^-k=|^--filter=")
_ASSIGNMENT = lazy_pattern(r"""^(?:(?:env\s+)?[A-Za-z_]\w*=(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])*\s+)+""")


def form(run: Run, cwd: str | None) -> Form:
    """Return the form of a check that can be counted over sessions, without values of secrets."""
    return _form(run.step.text, run.step.subject, cwd)


@lru_cache(maxsize=8192)
def _form(command: str, subject: str, cwd: str | None) -> Form:
    text = shown(command, cwd).rstrip(");& ")
    text = without_secrets(_ASSIGNMENT.sub("", text))
    program, *others = subject.split()
    shape = _SHAPE - {"-x"} if "gradle" in program else _SHAPE  # which leaves a task out there
    words = [w for w in text.split() if w not in shape and not w.startswith((">", "2>"))]
    if words[-1:] == ["--"]:
        words.pop()
    first = next((i for i, w in enumerate(words) if w.rpartition("/")[2] == program), 0)
    rest = words[first + 1 + len(others) :]
    plain_target = subject in ("cargo test", "cargo nextest") and any(not w.startswith("-") for w in rest)
    narrowed = plain_target or any(w in _CHOOSE or _ONE.search(w.strip("'\"")) for w in rest)
    return Form(" ".join(words), narrowed)


@lru_cache(maxsize=8192)
def shown(command: str, cwd: str | None) -> str:
    """Return a command line as a text quotes it: as ``whole`` does, at most 160 characters."""
    text = whole(command, cwd)
    return text if len(text) <= 160 else f"{text[:159].rstrip()}…"


@lru_cache(maxsize=8192)
def whole(command: str, cwd: str | None) -> str:
    """Return a command line as a step quotes it: one line, paths shortened, without what cuts its output."""
    text = clean(shorten_paths(command, cwd) if "/" in command or cwd else command).replace("`", "'")
    text = _THERE.sub("", text) if cwd and command.startswith(f"cd {cwd} ") else text
    text = _CUT.sub("", text) if "|" in text else text
    return text.removesuffix("2>&1").rstrip() if text.endswith(" 2>&1") else text


def harmless(run: Run, cwd: str | None) -> str:
    """Return the line of a check as ``whole`` does; the check alone where the line also publishes or destroys, empty where it does."""
    if not dangers(run.command):
        return whole(run.command, cwd)
    return "" if dangers(run.step.text) else whole(run.step.text, cwd)


_TWO_LEVELS = frozenset({"gh", "glab", "docker", "aws", "gcloud", "kubectl"})
"""Programs whose subcommands have subcommands."""


def failed_part(run: Run) -> str:
    """Return the last command of a chain where that is the one that counts, with what it needs of the shell; any other line whole."""
    *before, last = (part.strip() for part in run.command.split("&&"))
    if not before or not last.startswith(run.step.text) or _OTHERWISE.search(run.command):
        return run.command
    return " && ".join([*(part for part in before if part.startswith(_SETS_SHELL)), last])


_OTHERWISE = lazy_pattern(r"\|\||[;\n]|<<")
_SETS_SHELL = ("cd ", "source ", ". ", "export ")


def typed(step: Step) -> str:
    """Return a step as it was typed up to its subcommand or task: ``mise run lint``, ``uv run pytest``, ``gh pr view``."""
    words = _ASSIGNMENT.sub("", step.text.lstrip("( ")).split()
    parts = step.subject.split()
    end = next((i for i, w in enumerate(words) if w.rpartition("/")[2] == parts[0].rpartition("/")[2]), None)
    if end is None:
        return step.subject
    for part in parts[1:]:
        end = next((i for i in range(end + 1, len(words)) if words[i] == part), end)
    if parts[0] in _TWO_LEVELS and re.fullmatch(r"[a-z][a-z-]+", "".join(words[end + 1 : end + 2])):
        end += 1
    return " ".join(words[: end + 1])


SHELL_WORDS = lazy_pattern(r"\"[^\"]*\"|'[^']*'|\S+")
_NAMED = ("cargo", "mise", "just", "task")
"""Programs whose plain words behind the task choose tests."""


def as_pattern(text: str, subject: str) -> str:
    """Return a narrowed check with its choice left open: ``go test -run NAME ./path/``."""
    words = SHELL_WORDS.findall(text)
    last = subject.rsplit(maxsplit=1)[-1]
    first = next((i + 1 for i, w in enumerate(words) if w.rpartition("/")[2] == last), 1)
    made = words[:first]
    for before, word in zip(words[first - 1 :], words[first:], strict=False):
        found = _opened(before, word, subject)
        if made[-2:] != [found, found]:
            made.append(found)
    return " ".join(made)


def _opened(before: str, word: str, subject: str) -> str:
    bare = word.strip("'\"")
    if before in _CHOOSE and before != "--" and not word.startswith("-"):
        return "NAME"
    if word.startswith("-"):
        return f"{word.partition('=')[0]}=NAME" if word.partition("=")[0] in _CHOOSE and "=" in word else word
    if "::" in bare:
        return "FILE::NAME" if "/" in bare or "." in bare.partition("::")[0] else "NAME"
    if re.search(r"\w\.\w{1,4}$", bare) or _TEST_FILE.search(bare):
        return "FILE"
    if "/" in bare and not re.fullmatch(r"\.+/(?:\.\.\.)?", bare):
        return ("./" if bare.startswith("./") else "") + "path/" + ("..." if bare.endswith("/...") else "")
    return "NAME" if subject.split(maxsplit=1)[0] in _NAMED and re.fullmatch(r"\w[\w:-]*", bare) else word


_TEST_FILE = lazy_pattern(r"/(?:test|spec)[_-][\w-]+$|/[\w-]+[_-](?:test|spec)$", re.IGNORECASE)
"""A test without an ending, as in tests that are shell scripts."""

_THERE = lazy_pattern(r"^cd (?:\.|~?/?[\w./@+-]*)\s*(?:&&|;)\s*")
_CUT = lazy_pattern(r"\s*(?:2>&1)?\s*\|\s*(?:head|tail)\b[^|;&]*$")


def listed(items: Sequence[str], total: int = 0) -> str:
    """Return items in code marks, with how many of ``total`` are left out."""
    more = f" and {total - len(items)} more" if total > len(items) else ""
    return ", ".join(f"`{i}`" for i in items) + more
