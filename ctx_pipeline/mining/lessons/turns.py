"""Turns of a session: what the person asked for, what was done for it, and whether it was taken well."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts import turns as facts
from ctx_pipeline.facts.prompts import asked, describes, goal, tells, typed
from ctx_pipeline.mining.lessons.commands import CHECKS, PROVING, harmless, outside, runs, shown
from ctx_pipeline.mining.lessons.failures import shorten_paths

if TYPE_CHECKING:
    from ctx_pipeline.mining.lessons.commands import Run
    from ctx_pipeline.model.session_view import SessionView

_CORRECTION = re.compile(
    r"(?i)^(?:no\b|nope|wrong|not (?:what|right|quite)|that'?s (?:not|wrong)|incorrect|revert|undo|stop|hmm|wait|don'?t|why did you"
    r"|you (?:forgot|missed|broke|didn'?t)|(?:it|this|that|still) (?:doesn'?t|does not|isn'?t|fails|failing|broken))"
    r"|\b(?:still (?:fails|failing|broken|not)|doesn'?t work|not working|same error)\b"
)
_BEGINNING = 300
_WORK = frozenset({"edit", "write"})

__all__ = ["Turn", "asked", "describes", "done", "goal", "last_check", "tells", "turns", "typed_by_person"]


@dataclass
class Turn:
    """What followed one prompt in the main thread until the next."""

    prompt: Any
    following: Any = None
    """the next prompt; None for the last turn"""
    calls: list[Any] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @cached_property
    def ask(self) -> str:
        """What was typed, as one line without quoted text, blocks and tags."""
        return asked(self.prompt.text or "")

    @cached_property
    def corrected(self) -> bool:
        """The next prompt says that it was not right."""
        return self.following is not None and bool(_CORRECTION.search(asked(self.following.text or "")[:_BEGINNING]))

    @property
    def edits(self) -> list[Any]:
        """Changes of files that were made."""
        return [c for c in self.calls if c.action in _WORK and not c.is_error]


def turns(view: SessionView) -> list[Turn]:
    """Return the turns of the main thread that a prompt began, in order."""
    ran = {r.call.call_id: r for r in view.once(runs)}
    main = typed(view)[:1]
    told = [t for t in view.once(facts.turns) if t.prompt is not None and t.prompt.kind == "prompt"]
    found = [t for t in told if main and t.thread_id == main[0].thread_id]
    return [
        Turn(t.prompt, following.prompt if following else None, t.calls, [ran[c.call_id] for c in t.calls if c.call_id in ran])
        for t, following in zip_longest(found, found[1:])
    ]


typed_by_person = typed


def done(view: SessionView, turn: Turn) -> tuple[list[str], list[Any]]:
    """Return the steps of a turn, changes of the same files and repeated commands once, and the calls they come from."""
    cwd = view.session.cwd
    steps: list[str] = []
    calls: list[Any] = []
    files: list[str] = []
    ran = {r.call.call_id: r for r in turn.runs}
    for call in turn.calls:
        if call.action in _WORK and not call.is_error:
            new = [f for p in call.paths if not outside(p) and (f := shorten_paths(p, cwd)) not in files]
            files += new
            texts = [f"{call.action} `{f}`" for f in new]
        elif call.call_id in ran and ran[call.call_id].well and ran[call.call_id].step.purpose in CHECKS:
            command = harmless(ran[call.call_id], cwd)
            if not command:
                continue
            text = f"run `{shown(command, cwd)}`"
            if text in steps:  # the last of several runs is the one that counts
                place = steps.index(text)
                del steps[place], calls[place]
            texts = [text]
        else:
            continue
        steps += texts
        calls += [call] * len(texts)
    return steps, calls


def last_check(turn: Turn) -> Run | None:
    """Return the check that passed after the last change of a turn; None when there is none."""
    edits = turn.edits
    after = [r for r in turn.runs if r.step.purpose in PROVING and (not edits or r.call.seq > edits[-1].seq)]
    return after[-1] if after and after[-1].passed else None
