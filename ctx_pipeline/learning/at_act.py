"""Which memories speak of a command that is about to run, or of one that just failed: by its words, never by likeness alone.

Read by a hook at every command of an agent: the standard library, and of ours what parses a command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.memories import RULE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ctx_pipeline.model.memories import Memory
    from ctx_pipeline.shell.commands import Step

_ABOUT_TO_RUN = lazy_pattern(r"^`([^`]+)` is about to run")
_TEXTS = lazy_pattern(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_PLACEHOLDER = frozenset({"NAME", "FILE", "path/", "./path/", "./path/...", "path/...", "FILE::NAME"})
_LEAST_WORDS, _MOST_OF = 2, 0.5
"""Words of a rule that a command must have, and their share, to be what the rule forbids."""

_ALIKE = 0.86
"""Likeness of two findings of one named rule of a linter or compiler."""

LONGEST = 4_000
"""Characters of a command that are looked at."""


def command_of(payload: Mapping[str, Any]) -> str:
    """Return the shell command of a hook's payload; empty for another tool."""
    given = payload.get("tool_input")
    command = given.get("command", given.get("cmd")) if isinstance(given, dict) else None
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        command = command[-1] if len(command) == len(("bash", "-lc", "x")) and command[1:2] in (["-lc"], ["-c"]) else " ".join(command)
    return command[:LONGEST] if isinstance(command, str) else ""


def output_of(payload: Mapping[str, Any]) -> str:
    """Return what a failed command printed; empty where a payload does not show a failure."""
    said = payload.get("error", payload.get("error_message"))
    if isinstance(said, str):
        return said
    answer = payload.get("tool_response")
    if isinstance(answer, dict):
        status = next((answer[n] for n in ("exit_code", "exitCode", "code") if isinstance(answer.get(n), int)), None)
        text = "\n".join(str(answer[n]) for n in ("output", "stdout", "stderr", "error") if isinstance(answer.get(n), str))
        return text if (_red(text) if status is None else status) else ""
    return answer if isinstance(answer, str) and _red(answer) else ""


def _red(text: str) -> bool:
    from ctx_pipeline.mining.lessons.failures import looks_red

    return looks_red(text)


def before_command(command: str, memories: Iterable[Memory]) -> list[Memory]:
    """Return the memories that speak of a command that is about to run, the surest first.

    A rule that wants another program, or forbids what the words say; a refusal of the
    same command; a cure of exactly this call, or of any call of the program it names.
    """
    from ctx_pipeline.shell.commands import steps

    every = [step for step in steps(command) if step.words]
    programs = {step.words[0].rpartition("/")[2] for step in every}
    found = [m for m in memories if _speaks(m, command, every, programs)]
    return sorted(found, key=lambda m: (m.kind not in RULE_KINDS, -m.confidence, m.memory_id))


def _speaks(memory: Memory, command: str, every: Sequence[Step], programs: set[str]) -> bool:
    body = memory.body
    if memory.kind in RULE_KINDS:
        if memory.kind == "risk_rule":
            return body.get("refused") == f"`{command.strip()}`"
        instead = set(map(str, body.get("instead_of", ())))
        return bool(instead & programs) or (not body.get("want") and _forbidden(command, body.get("avoid", ())))
    if body.get("once") and not body.get("warning"):
        return False
    told = " ".join(command.split())
    if body.get("resolution") in ("command", "spelling") and told in map(str, body.get("did", ())):
        return False
    about = _ABOUT_TO_RUN.match(memory.when_to_use or "")
    if about is not None:
        return any(_begins(step, about[1]) for step in every)
    failed = str(body.get("failed") or "")
    return body.get("resolution") == "command" and bool(failed) and failed in (told, *(" ".join(s.text.split()) for s in every))


def _forbidden(command: str, avoided: Iterable[str]) -> bool:
    from ctx_pipeline.mining.lessons.said_rules import terms

    wanted = set(map(str, avoided))
    held = wanted & terms(re.sub(r"[-=/]", " ", _TEXTS.sub(" ", command)))
    return len(held) >= _LEAST_WORDS and len(held) >= _MOST_OF * len(wanted)


def _begins(step: Step, pattern: str) -> bool:
    """Tell whether a step begins as a pattern does; a placeholder stands for one word."""
    words = step.text.split()
    asked = pattern.split()
    return len(words) >= len(asked) and all(
        a in (w, w.rpartition("/")[2]) or (a in _PLACEHOLDER and not w.startswith("-")) for a, w in zip(asked, words, strict=False)
    )


def after_failure(command: str, output: str, cwd: str | None, memories: Iterable[Memory]) -> list[Memory]:
    """Return the memories of the error that a command just met, a cure before a warning; none where its line is another one."""
    from ctx_pipeline.mining.lessons.failures import quoted_as_name, salient_line, signature, without_place
    from ctx_pipeline.shell.commands import steps

    every = [step for step in steps(command) if step.words]
    of_tests = any(s.purpose == "test" for s in every)
    lines = [line for form in (False, True) if (line := salient_line(output, cwd, of_tests=of_tests, of_any_form=form))]
    if not lines:
        return []
    forms = {signature(form) for line in lines for form in (line, quoted_as_name(line), without_place(line))}
    line = "\n".join(lines)
    subjects = {step.subject for step in every} | {step.words[0].rpartition("/")[2] for step in every}
    found = [m for m in memories if _same_error(m, forms, line) and _same_program(m, subjects)]
    return sorted(found, key=lambda m: (bool(m.body.get("warning")), -m.confidence, m.memory_id))


def _same_error(memory: Memory, forms: set[str], line: str) -> bool:
    body = memory.body
    if memory.kind in RULE_KINDS or (body.get("once") and not body.get("warning")):
        return False
    known = str(body.get("signature") or "")
    if known in forms:
        return True
    rule = str(body.get("rule") or "")
    if not (rule and known and rule in line):
        return False
    from difflib import SequenceMatcher

    return any(SequenceMatcher(None, known, form).ratio() >= _ALIKE for form in forms)


def _same_program(memory: Memory, subjects: set[str]) -> bool:
    subject = str(memory.body.get("subject") or "")
    return not subject or subject in subjects or subject.partition(" ")[0] in subjects
