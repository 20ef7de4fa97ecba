"""The commands of a session as lessons quote them: what was run, to what end, and whether it passed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.mining._failures import clean, looks_red, shorten_paths
from ctx_pipeline.model.commands import Step, command_text, found_nothing, steps
from ctx_pipeline.model.proposals import dangers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.session_view import SessionView

CHECKS = frozenset({"test", "lint", "types", "build", "install", "run"})
_LOOKING = frozenset(
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

_LOOKING_GIT = frozenset({"git status", "git log", "git show", "git diff", "git blame", "git grep", "git ls-files", "git rev-parse"})
_LONGEST, _QUOTE = 600, 40
OUTSIDE = re.compile(r"^(?:/tmp/|/private/|/var/|/dev/)|/\.(?:claude|codex)/|/node_modules/|/\.venv/")


@dataclass
class Run:
    """One shell call with what it ran and how it ended."""

    place: int
    call: Any
    command: str
    step: Step
    """the step that counts: the first check of the line, else its last step"""
    failed: bool
    output: str = ""
    told: tuple[str, ...] = ()
    """events of all that it printed; the last one is how it ended"""

    @cached_property
    def passed(self) -> bool:
        """It ended well and its output speaks of no failure."""
        return not self.failed and not looks_red(self.output)

    def shown_by(self, view: SessionView, line: str) -> tuple[str, ...]:
        """Return the events that show a line of its output and its end."""
        start = line[-_QUOTE:].rstrip("…")
        said = next((e for e in self.told if e in view.by_event and start in clean(shorten_paths(view.by_event[e].text or "", None))), None)
        return tuple(dict.fromkeys(filter(None, (said, self.call.result_event))))


# Codex answers after some seconds although the command goes on; its end stands in the answer to a later poll.
_RUNNING = re.compile(r"Process running with session ID (\d+)")
_POLLED = re.compile(r'"session_id"\s*:\s*(\d+)')
_HEADER, _PIECE = 400, 20_000


def _polls(view: SessionView) -> dict[tuple[str, str], list[Any]]:
    """Return thread and number of a command that went on -> the calls that asked for more of it, in order."""
    found: dict[tuple[str, str], list[Any]] = {}
    for call in view.tool_calls:
        if call.action == "shell" and not call.argv and (match := _POLLED.search(view.call_text(call))):
            found.setdefault((call.thread_id, match[1]), []).append(call)
    return found


def _ended(view: SessionView, call: Any) -> tuple[Any, str, tuple[str, ...]] | None:
    """Return a call with the result that its command ended with, all that it printed, and the events of that; None: nobody saw it end."""
    output = view.result_text(call)
    going = _RUNNING.search(output[:_HEADER]) if call.exit is None else None
    if going is None:
        return call, output, (call.result_event,)
    seen = [call.result_event]
    texts = [_ends(output)]
    for poll in view.once(_polls).get((call.thread_id, going[1]), ()):
        if poll.seq > call.seq:
            texts.append(_ends(view.result_text(poll)))
            seen.append(poll.result_event)
            if poll.exit is not None:
                shown = {"result_event": poll.result_event, "exit": poll.exit, "is_error": poll.is_error, "ended": poll.ended}
                return call._replace(**shown), "\n".join(texts), tuple(seen)
    return None


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _PIECE else f"{text[:_PIECE]}\n{text[-_PIECE:]}"


def run_of(view: SessionView, place: int, call: Any) -> Run | None:
    """Return what a call ran; None where it is unanswered, looks around, or only says that a search found nothing."""
    if call.action != "shell" or call.result_event is None or not call.argv:
        return None
    command = command_text(call.argv)
    if len(command) > _LONGEST:
        return None
    found = steps(command)
    if not found:
        return None
    step = next((s for s in found if s.purpose in CHECKS), found[0])
    if step.subject.partition(" ")[0] in _LOOKING or step.subject in _LOOKING_GIT:
        return None
    ended = _ended(view, call)
    if ended is None:
        return None
    call, output, told = ended
    failed = call.is_error and bool(call.exit) and not found_nothing(call.argv, call.exit)
    if call.is_error and not failed:
        return None
    return Run(place, call, command, step, failed, output, told)


def runs(view: SessionView) -> list[Run]:
    """Return what the shell calls of a session ran, thread by thread in order; ``place`` counts the calls of the thread."""
    found: list[Run] = []
    places: Counter[str] = Counter()
    for call in view.tool_calls:
        place = places[call.thread_id]
        places[call.thread_id] += 1
        if call.action == "shell" and (run := run_of(view, place, call)) is not None:
            found.append(run)
    return found


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
_ONE = re.compile(r"::|\w\.\w{1,4}$|^(?!\.+/\.\.\.$)[\w.@-]*/[\w./@*-]+$|^-run=|^-k=|^--filter=")
_ASSIGNMENT = re.compile(r"^(?:[A-Za-z_]\w*=\S*\s+)+")


def form(run: Run, cwd: str | None) -> Form:
    """Return the form of a check that can be counted over sessions."""
    return _form(run.step.text, run.step.subject, cwd)


@lru_cache(maxsize=8192)
def _form(command: str, subject: str, cwd: str | None) -> Form:
    text = shown(command, cwd).rstrip(");& ")
    text = _ASSIGNMENT.sub("", text) if "=" in text else text
    words = [w for w in text.split() if w not in _SHAPE and not w.startswith((">", "2>"))]
    program, *others = subject.split()
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


_WORDS = re.compile(r"\"[^\"]*\"|'[^']*'|\S+")
_NAMED = ("cargo", "mise", "just", "task")
"""Programs whose plain words behind the task choose tests."""


def as_pattern(text: str, subject: str) -> str:
    """Return a narrowed check with its choice left open: ``go test -run NAME ./path/``."""
    words = _WORDS.findall(text)
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


_TEST_FILE = re.compile(r"/(?:test|spec)[_-][\w-]+$|/[\w-]+[_-](?:test|spec)$", re.IGNORECASE)
"""A test without an ending, as in tests that are shell scripts."""

_THERE = re.compile(r"^cd (?:\.|~?/?[\w./@+-]*)\s*(?:&&|;)\s*")
_CUT = re.compile(r"\s*(?:2>&1)?\s*\|\s*(?:head|tail)\b[^|;&]*$")


def listed(items: Sequence[str], total: int = 0) -> str:
    """Return items in code marks, with how many of ``total`` are left out."""
    more = f" and {total - len(items)} more" if total > len(items) else ""
    return ", ".join(f"`{i}`" for i in items) + more
