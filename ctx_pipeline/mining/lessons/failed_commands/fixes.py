"""Whether a command that passed is the cure of one that failed, and how the cure is told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.facts.first_lines import first_line_of
from ctx_pipeline.mining.lessons.commands import PROVING, as_pattern, failed_part, shown, typed, whole
from ctx_pipeline.mining.lessons.failed_commands.argument_counts import arguments, may_be_quoted, refused_count, without_arguments
from ctx_pipeline.mining.lessons.failures import clean, plain_text, shorten_paths, without_place

if TYPE_CHECKING:
    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.mining.lessons.failed_commands.argument_counts import ArgumentCount

ABSENT = re.compile(r"(?i)command not found|no such command|No module named|Cannot find module|not installed|unrecognized subcommand")
"""Says that a program or module is not there: whatever it was called for, another way to call it is the cure."""

_MODULE = re.compile(r"(?:No module named|Cannot find module) (\S+)")
_COMMAND_WORD = re.compile(r"[\w@.-]+")

WRONG = re.compile(
    r"(?i)unknown|unrecogni[sz]ed|unexpected|invalid|not defined|no such|not found|does(?:n't| not) exist|not (?:supported|allowed)"
    r"|deprecated|no matching|did not match|could not resolve hostname"
)
"""Says that an argument is wrong."""

_AMBIGUOUS = re.compile(r"(?i)ambiguous|matches more than one|multiple")
_USAGE = re.compile(r"(?im)^\s*usage:\s+(\S.{3,150}?)\s*$")
_TOO_MANY = re.compile(r"(?i)unexpected argument|too many arguments|accepts \d+ arg")
_PINNED = re.compile(r"\d{4}-\d{2}-\d{2}|\d+\.\d+")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_ALIKE = 60
"""Likeness (0 to 100) from which an argument is another spelling of one that was left out."""

_LONG, _SAME, _PART, _OFFERED, _AFTER, _LISTED = 110, 50, 80, 3, 600, 2_000


class Cure(NamedTuple):
    """What works in place of a command that failed."""

    text: str
    steps: list[str]
    did: list[str]
    """what is done instead; two cures of one error differ here"""
    when: str
    error: str
    """the error as it is quoted"""
    ages: bool = False
    """it names a version, and holds as long as that"""
    resolution: str = "command"
    """``command``: another call; ``spelling``: what the program itself said about its arguments"""
    plain: bool = False
    """the output of the failure says it too: whoever meets the error reads the cure there"""
    limits: ArgumentCount | None = None
    """how many arguments the program takes, where it was given others"""


def loses(run: Run, later: Run, error: str) -> bool:
    """Tell whether a command that passed left out something that the failed one was about.

    Other tests, files or packages prove nothing of the first ones. An argument may be
    spelled in another way, and be left out where the error says that it is wrong.
    Options may go; so may members of a list with commas. What failed because a program
    is absent is cured by any call of it; what failed because its code lacks a module only
    by a call for the very same targets.
    """
    if not ABSENT.search(error):
        return bool(_lost(run, later, error))
    module = _MODULE.search(error)
    if module is None or module[1].strip("'\"") in _COMMAND_WORD.findall(run.step.text):
        return False
    return any(w not in _parts(later) for w in _targets(run))


def cure(run: Run, passed: Run, error: str, cwd: str | None) -> Cure | None:
    """Return how a command that failed is called; None when what passed proves nothing of it."""
    if counted := refused_count(error):
        return _by_count(run, passed, error, *counted)
    if loses(run, passed, error):
        return _by_usage(run, passed, error)
    first, second = _parts(run), _parts(passed)
    dropped, added = [w for w in first if w not in second], [w for w in second if w not in first]
    wrong = next((w for w in dropped if _names(error, w)), "") if not ABSENT.search(error) else ""
    if wrong and not wrong.startswith("-") and not WRONG.search(error):
        return _by_offer(run, error, wrong)
    works = whole(passed.command, cwd)
    steps, quoted = [f"run `{works}`"], without_place(error)
    fails = f"fails with “{quoted}”"
    when = f"`{typed(run.step)}` {fails}"
    other = next((a for a in added if _respelled(wrong, [a])), "") if wrong else ""
    if wrong and (other or not added or any("," in w for w in run.step.words)):
        if below := _stood_below(run, wrong, other, cwd):
            text = f"`{typed(run.step)}` {fails} where the shell stands in `{below}`: run it from the root of the project."
            return Cure(text, [f"run `{typed(run.step)}` from the root of the project"], [ROOT], when, quoted, resolution="folder")
        behind = _option(run, wrong)
        fewer = first.count(behind) > second.count(behind)
        gone = f"{behind} {wrong}" if fewer else wrong
        head = f"{typed(run.step)} {behind}" if behind and not fewer else typed(run.step)
        instead = f"use `{other}` in place of `{wrong}`" if other else f"leave out `{gone}`"
        listed = not any(w == wrong for w in run.step.words)
        more = f" (`{works}` works)" if len(works) < _LONG and not listed else ""
        plain = not other or _says(run, error, [other])
        return Cure(f"`{head}` {fails}: {instead}{more}.", [f"{instead} in `{head}`"], [works], f"`{head}` {fails}", quoted, plain=plain)
    pinned = {w for w in _words(passed, cwd) if _PINNED.search(w)} - set(_words(run, cwd))
    if pinned and run.call.ended:
        day = datetime.fromtimestamp(run.call.ended / 1_000_000, UTC).date()
        text = (
            f"on {day} `{shown(failed_part(run), cwd)}` failed with “{quoted}”; `{works}` worked. It pins a version: try without it first."
        )
        return Cure(text, steps, [works], when, quoted, ages=True)
    left_out = _left_out(run, passed)
    if left_out:
        how, rest = as_pattern(run.step.text, run.step.subject), as_pattern(passed.step.text, passed.step.subject)
        text = f"`{how}` {fails}; without {' and '.join(f'`{w}`' for w in left_out)} it works: `{rest}`."
        when = f"`{how}` is about to run, or {fails}"
        return Cure(text, [f"run `{rest}`"], [works], when, quoted, plain=_speaks_of(error, left_out))
    if ABSENT.search(error):
        when = f"`{typed(run.step)}` is about to run, or {fails}"
    return Cure(_both(run, passed, quoted, cwd), steps, [works], when, quoted, plain=_says(run, error, added))


ROOT = "from the root of the project"


def _stood_below(run: Run, wrong: str, other: str, cwd: str | None) -> str:
    """Return the folder below the project's root in which a path from the root was not found; empty for another cause."""
    folder = str(run.row.folder or "")
    below = folder.removeprefix(f"{cwd.rstrip('/')}/") if cwd else ""
    return below if below and below != folder and other == f"{str(cwd).rstrip('/')}/{wrong}" else ""


def _says(run: Run, error: str, words: list[str]) -> bool:
    """Tell whether the output of a failure names all of these words right after its error."""
    at = max(0, run.output.find(error[:40]))
    near = run.output[at : at + len(error) + _LISTED]
    return bool(words) and all(re.search(rf"(?<![\w-]){re.escape(w)}(?![\w-])", near) for w in words)


def _speaks_of(error: str, options: list[str]) -> bool:
    """Tell whether an error has for each of these options a word that begins as it does: ``--lib`` and "library"."""
    said = re.findall(r"[a-z]+", error.lower())
    names = [o.lstrip("-").partition("=")[0].lower() for o in options]
    return all(len(n) >= _LEAST_NAME and any(w.startswith(n) for w in said) for n in names)


_LEAST_NAME = 3

_HERE = re.compile(
    r"(?:(?:source|\.)\s+\S*\bactivate\s*(?:&&|;)\s*)|(?:\./)?(?:\.?v?env|node_modules)/\.?bin/|(?:\./)?vendor/bin/|\bpython3?\s+-m\s+|^npx\s+"
)
"""What calls a program from an environment that lies in the folder itself."""


def in_folder(run: Run, passed: Run) -> bool:
    """Tell whether a command is another one only in that its program is called from an environment in the folder."""
    first, second = (" ".join(r.command.strip("() ").split()) for r in (run, passed))
    return first != second and _HERE.sub("", second) == first


def _left_out(run: Run, passed: Run) -> list[str]:
    """Return the options that were left out where nothing else changed; else nothing."""
    gone = [w for w in _parts(run) if w not in _parts(passed)]
    alike = set(_parts(passed)) <= set(_parts(run)) and before(run) == before(passed)
    return gone if alike and all(w.startswith("-") for w in gone) else []


def _parts(run: Run) -> list[str]:
    """Return the arguments of a command, members of a list with commas one by one."""
    return [part for word in run.step.words[1:] for part in word.split(",") if part]


def _lost(run: Run, later: Run, error: str) -> list[str]:
    kept = _parts(later)
    added = [w for w in kept if w not in _parts(run)]
    return [w for w in _targets(run) if w not in kept and not (_names(error, w) and _faulty(error)) and not _respelled(w, added)]


def _targets(run: Run) -> list[str]:
    """Return what a call is about: its arguments that are neither options, lists nor its own subcommand."""
    return [w for w in run.step.words[1:] if not w.startswith("-") and "," not in w and w not in run.step.subject.split()]


def _faulty(error: str) -> bool:
    return bool(WRONG.search(error) or _AMBIGUOUS.search(error))


def _names(error: str, word: str) -> bool:
    return len(word) > 1 and re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", error) is not None


def _respelled(word: str, added: list[str]) -> bool:
    from rapidfuzz import fuzz

    low = word.lower()
    return any(low in a.lower() or a.lower() in low or fuzz.ratio(low, a.lower()) >= _ALIKE for a in added if len(a) > 1)


def _option(run: Run, value: str) -> str:
    """Return the option that a value stands behind; empty when there is none."""
    words = run.step.words
    place = next((i for i, w in enumerate(words) if value in w.split(",")), 0)
    return words[place - 1] if place > 1 and words[place - 1].startswith("-") else ""


def _words(run: Run, cwd: str | None) -> list[str]:
    return whole(run.command, cwd).split()


def _by_usage(run: Run, passed: Run, error: str) -> Cure | None:
    """Return the usage that a program printed when it was given more arguments than it takes."""
    told = _USAGE.search(run.output)
    program = run.step.words[0].rpartition("/")[2] if run.step.words else ""
    if told is None or not _TOO_MANY.search(error) or told[1].split()[0].rpartition("/")[2] != program:
        return None
    quoted = error
    for word in sorted(run.step.words[1:], key=len, reverse=True):
        quoted = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", "NAME", quoted) if word not in run.step.subject.split() else quoted
    how, works = as_pattern(run.step.text, run.step.subject), as_pattern(passed.step.text, passed.step.subject)
    if how == works:
        return None
    fails = f"fails with “{quoted}”"
    text = f"`{how}` {fails}; `{works}` works."
    return Cure(text, [f"call it as `{works}`"], [works], f"`{how}` is about to run, or {fails}", quoted, resolution="spelling", plain=True)


def _by_count(run: Run, passed: Run, error: str, limits: ArgumentCount, given: int) -> Cure | None:
    """Return how many arguments a subcommand takes, where the typed ones are as many as it counted and a call with fewer or more passed.

    The refusal is the first line of the output: behind another it may be that of a program that this one called. The call
    that passed names the same target: its arguments are some of the failed call's, or these and more. What was refused is not
    quoted: it may be a secret at a wrong place.
    """
    if run.step.purpose in PROVING or first_line_of(plain_text(run.output), len(error) + 1) != error:
        return None
    first, second = arguments(run.step), arguments(passed.step)
    if first is None or second is None or typed(run.step) != typed(passed.step) or len(first) != given or not limits.takes(len(second)):
        return None
    fewer, more = (first, second) if len(first) < len(second) else (second, first)
    if more[: len(fewer)] != fewer:
        return None
    head, in_full = typed(run.step), may_be_quoted(passed.step, first[len(second) :])
    works = " ".join(passed.step.text.split()) if in_full else without_arguments(passed.step, second)
    text = f"`{head}` takes {limits}: `{without_arguments(run.step, first)}` fails with “{error}”; `{works}` works."
    step = f"give `{head}` {limits}"
    return Cure(text, [step], [step], f"`{head}` fails with “{error}”", error, resolution="spelling", limits=limits)


def _by_offer(run: Run, error: str, wrong: str) -> Cure | None:
    """Return an argument with the version that a program asked for because it was ambiguous; what else is offered is not told."""
    at = run.output.find(error[:40])
    after = run.output[at + len(error) :][:_AFTER] if at >= 0 else ""
    offered = re.findall(rf"(?<![\w-]){re.escape(wrong)}[@:=#/]v?{_VERSION.pattern}(?![\w.@:/+-])", after)
    offered = list(dict.fromkeys(_VERSION.sub("X.Y.Z", spelled) for spelled in offered))[:_OFFERED]
    if not offered:
        return None
    head = " ".join(filter(None, (typed(run.step), _option(run, wrong), wrong)))
    spelled = " or ".join(f"`{o}`" for o in offered)
    fails = f"`{head}` fails with “{without_place(error)}”"
    text = f"{fails}: name one of those that it lists, as in {spelled}."
    step = f"name {spelled} in place of `{wrong}`, as listed"
    return Cure(text, [step], offered, fails, without_place(error), resolution="spelling", plain=True)


def _both(run: Run, passed: Run, error: str, cwd: str | None) -> str:
    """Return how a command failed and the one that works; of two that are alike where they differ."""
    commands = failed_part(run), passed.command
    failed, works = (shown(command, cwd) for command in commands)
    first, second = (clean(shorten_paths(command, cwd)).replace("`", "'").split() for command in commands)
    head = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    alike = len(" ".join(first[:head])) >= _SAME and min(len(failed), len(works)) >= _LONG
    left, right = " ".join(first[head:]), " ".join(second[head:])
    if not alike or max(len(left), len(right)) > _PART:
        return f"`{failed}` fails with “{error}”; `{works}` works."
    instead = f"with `{right}` in place of `{left}`" if left and right else f"without `{left}`" if left else f"with `{right}` added"
    return f"`{' '.join(first[:3])} …{' ' + left if left else ''}` fails with “{error}”; {instead} it works."


def changed(run: Run, passed: Run) -> bool:
    """Tell whether the command itself became another one, beyond pipes, redirections and filters behind it."""
    return run.step.text.split() != passed.step.text.split() or before(run) != before(passed)


def before(run: Run) -> str:
    """Return what stands before the step that counts: a change of folder or of the environment is part of the cure."""
    return " ".join(run.command.partition(run.step.text)[0].split())
