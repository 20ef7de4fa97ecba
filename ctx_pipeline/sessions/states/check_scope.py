"""What a check was asked to check: whether a later run checked the same again, or more."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from ctx_pipeline.mining.lessons.failures import shorten_paths
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.commands import steps


class Scope(NamedTuple):
    """What a check runs, without the options that only shape its output."""

    kind: str
    tool: str
    task: str
    """the task of a task runner; empty where the tool itself was called"""
    narrowed: frozenset[str]
    """options that choose, with their values"""
    settings: frozenset[str]
    """options that change what is checked, or that nobody knows"""
    targets: frozenset[str]
    """files, folders, packages and names of tests; empty for everything"""

    def within(self, later: Scope) -> bool:
        """Tell whether another run checks all that this one does."""
        if self[:3] != later[:3] or self.settings != later.settings or not later.narrowed <= self.narrowed:
            return False
        wide = [_below(target) for target in later.targets]
        return not wide or (bool(self.targets) and all(any(_holds(w, t) for w in wide) for t in self.targets))

    def parts(self) -> list[Scope]:
        """Return the scope of each target by itself; the whole one where it has none."""
        return [self._replace(targets=frozenset({target})) for target in sorted(self.targets)] or [self]


def scope_of(check: Any, cwd: str | None) -> Scope:
    """Return the scope of a row of ``check_runs``; one without a program is alike only to itself."""
    return _scope(check.kind, str(check.runner or ""), check.program or "", cwd)


@lru_cache(maxsize=4096)
def _scope(kind: str, runner: str, program: str, cwd: str | None) -> Scope:
    step = next((s for s in steps(program) if s.purpose == kind), None) or next(iter(steps(program)), None)
    if step is None:
        return Scope(kind, runner, program, *[frozenset[str]()] * 3)
    words = [w.strip("'\"") for w in step.text.split()]
    names = step.subject.split()
    begin = 0
    for name in names:
        begin = next((i + 1 for i in range(begin, len(words)) if words[i].rpartition("/")[2] == name.rpartition("/")[2]), begin)
    tool = runner or names[0]
    task = "" if tool in names else step.subject
    narrowed: set[str] = set()
    settings: set[str] = set()
    targets: set[str] = set()
    if words[begin : begin + 1] and words[begin] in _VERBS:
        names, begin = [*names, words[begin]], begin + 1
    rest = iter(words[begin:])
    for word in rest:
        if _SHAPES.fullmatch(word):
            if _SHAPES_BY.fullmatch(word):
                next(rest, "")
        elif _CHOOSES.match(word):
            narrowed.add(word.replace("=", " ", 1) if "=" in word else f"{word} {next(rest, '')}")
        elif _SETS.fullmatch(word):
            settings.add(f"{word} {next(rest, '')}")
        elif word.startswith("-"):
            settings.add(word)
        elif target := shorten_paths(word, cwd).removeprefix("./").rstrip("/"):
            targets.add(target)
    verb = " ".join(names[1:]) if names[0] == tool else ""
    return Scope(kind, f"{tool} {verb}".rstrip(), task, frozenset(narrowed), frozenset(settings), frozenset(targets))


def _below(target: str) -> str:
    return "" if target in {".", "..."} else target.removesuffix("/...")


def _holds(wide: str, target: str) -> bool:
    """Tell whether a target is another, or lies in it; a path may be told from a folder below the project."""
    part = _below(target)
    return (
        not wide
        or part == wide
        or part.startswith((f"{wide}/", f"{wide}::", f"{wide}["))
        or part.endswith(f"/{wide}")
        or wide.endswith(f"/{part}")
    )


_SHAPES_BY = lazy_pattern(r"-[nj]|-?-(?:timeout|jobs|numprocesses|maxfail|retries|workers)")
_SHAPES = lazy_pattern(
    rf"-[vqsx]+|-r[fEsxXapPwAN]+|-j?\d+|{_SHAPES_BY.pattern}(?:=\S+)?|-count=1|-race|\d?>>?(?:&\d|\S*)|\\"
    r"|--(?:tb|color|colors|reporter|durations|output-format|format|verbosity)=\S+"
    r"|--(?:verbose|quiet|no-header|nocapture|no-cov|exitfirst|fix|no-fail-fast|force|failed-first|ff)"
)
"""Options that change what is printed, how fast, or what is mended, and not what is checked; some with the word behind them."""
_CHOOSES = lazy_pattern(
    r"(?:-[kmtgp]|-run|--(?:filter|grep|tests?|testNamePattern|package|bin|select|ignore|exclude|deselect|lf|last-failed))(?:=|$)"
)
_SETS = lazy_pattern(r"-tags|--(?:features|target|config|project|profile)")
"""Options that choose, and that set what is checked, by the word behind them."""
_VERBS = frozenset({"check", "run", "test", "lint", "verify", "audit", "validate"})
