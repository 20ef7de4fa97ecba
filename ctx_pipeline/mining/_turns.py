"""Turns of a session: what the person asked for, what was done for it, and whether it was taken well."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining._commands import CHECKS, OUTSIDE, PROVING, harmless, runs, shown
from ctx_pipeline.mining._failures import clean, shorten_paths
from ctx_pipeline.model.memories import NOTE_TAG

if TYPE_CHECKING:
    from ctx_pipeline.mining._commands import Run
    from ctx_pipeline.model.session_view import SessionView

_NOT_SAID = re.compile(
    rf"```.*?(?:```|\Z)|<{NOTE_TAG}>.*?(?:</{NOTE_TAG}>|\Z)|<[a-z][\w-]*>.*?</[a-z][\w-]*>|\[(?:Image|Request)[^\]]*\]", re.DOTALL
)
_CORRECTION = re.compile(
    r"(?i)^(?:no\b|nope|wrong|not (?:what|right|quite)|that'?s (?:not|wrong)|incorrect|revert|undo|stop|hmm|wait|don'?t|why did you"
    r"|you (?:forgot|missed|broke|didn'?t)|(?:it|this|that|still) (?:doesn'?t|does not|isn'?t|fails|failing|broken))"
    r"|\b(?:still (?:fails|failing|broken|not)|doesn'?t work|not working|same error)\b"
)
_TASK = re.compile(
    r"(?i)^(?:\W*(?:hey|hi|ok(?:ay)?|so|now|then|and|also|please|claude|codex|can|could|would|you|we|let'?s|i'?d|i|want|need|like|to|just|help"
    r"|new|feature:|me|us|should)\b\W*)*"
    r"(?:add|fix|implement|make|update|remove|change|refactor|ensure|replace|use|create|support|write|move|rename|convert|handle|simplify"
    r"|improve|migrate|upgrade|build|set|invert|bump|port|allow|show|extend|drop|split|extract|enable|disable|validate|test|document"
    r"|optimi[sz]e|integrate|rewrite|send|mark|reuse|address|resolve|restrict|prevent|expose|parse|cache|log)\b"
)
_POINTS = re.compile(
    r"(?i)\b(?:these|those|them|above|below|again)\b"
    r"|\b(?:for|of|to|with|do|about|in|from|make|fix|like|on|invert|remove|change|update|use|reuse|if|is|add|does|keep|just)\s+(?:that|this|it)\b"
    r"|\b(?:that|this)\s+(?:\w+\s+)?(?:logic|behaviou?r|way|one|thing|test|method|code|file|function|comment|problem|issue|error|part|bit|line"
    r"|section|page)\b|^\W*(?:could|can|would)\s+(?:we|you)\s+(?:also\s+)?just\b|\bthe others\b|\bon the PR\b"
)
"""A prompt with one of these can only be understood by who was there."""

_NAME = re.compile(r"[`_/\d]|[a-z][A-Z]|\w\.\w|\w-\w+-\w|\w\(\)")
_ASIDE = re.compile(
    r"(?i)^(?:(?:hey|hi|hello|ok(?:ay)?|so|now|then|alright|perfect|great|thanks|claude|codex)\b[\s,.!:-]*)*"
    r"(?:(?:can|could|would) (?:you|we) (?:please |also |now )*|please )?(?=\w)"
)
_TELLING_WORDS = 8
"""A shorter prompt has to name a file, a command or a part of the program."""

_PAGE, _BEGINNING = 4000, 300
_WORK = frozenset({"edit", "write"})
_LEAST_WORDS, _MOST_WORDS, _TITLE = 6, 80, 120


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
    """Return the turns of the main thread in order."""
    asks = typed_by_person(view)
    if not asks:
        return []
    thread = asks[0].thread_id
    found = [Turn(p, following) for p, following in zip_longest(asks, asks[1:])]
    ran = {r.call.call_id: r for r in view.once(runs)}
    place = 0
    for call in view.tool_calls:
        if call.thread_id != thread:
            continue
        while place + 1 < len(found) and found[place + 1].prompt.seq < call.seq:
            place += 1
        if call.seq > found[place].prompt.seq:
            found[place].calls.append(call)
            if call.call_id in ran:
                found[place].runs.append(ran[call.call_id])
    return found


def typed_by_person(view: SessionView) -> list[Any]:
    """Return the prompts of the main thread in order: in the others it is an agent that asks."""
    threads = {e.thread_id for e in view.events}
    main = view.session_id if view.session_id in threads else view.events[0].thread_id if threads else ""
    return [p for p in view.prompts if p.thread_id == main]


def asked(text: str) -> str:
    """Return what the person asks for in a prompt, as one line."""
    text = text[:_PAGE]
    if "```" in text or "<" in text or "[" in text:
        text = _NOT_SAID.sub(" ", text)
    return clean(text)


def tells(ask: str) -> bool:
    """Tell whether a prompt says by itself what is to be done: neither "go on" nor a question nor a page nor "do that too"."""
    return bool(_TASK.match(ask)) and describes(ask)


def describes(ask: str) -> bool:
    """Tell whether a prompt can be understood by who was not there, be it an order or what somebody sees go wrong."""
    title = goal(ask)
    return _LEAST_WORDS <= len(ask.split()) <= _MOST_WORDS and not _POINTS.search(title) and _names(title)


def _names(title: str) -> bool:
    return len(title.split()) >= _TELLING_WORDS or bool(_NAME.search(title))


def goal(ask: str) -> str:
    """Return a prompt as a title, at most 120 characters."""
    ask = _ASIDE.sub("", ask)
    sentences = re.split(r"(?<=[.!?])\s", ask) if len(ask) > _TITLE else [ask]
    first = next((t for t in sentences if len(t.split()) >= _LEAST_WORDS), sentences[0])
    return first.rstrip(" .:;") if len(first) <= _TITLE else f"{first[: _TITLE - 1].rsplit(' ', 1)[0].rstrip(' ,.;')}…"


def done(view: SessionView, turn: Turn) -> tuple[list[str], list[Any]]:
    """Return the steps of a turn, changes of the same files and repeated commands once, and the calls they come from."""
    cwd = view.session.cwd
    steps: list[str] = []
    calls: list[Any] = []
    files: list[str] = []
    ran = {r.call.call_id: r for r in turn.runs}
    for call in turn.calls:
        if call.action in _WORK and not call.is_error:
            new = [f for p in call.paths if not OUTSIDE.search(p) and (f := shorten_paths(p, cwd)) not in files]
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
