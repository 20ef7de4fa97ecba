"""What the person has to say again and again: rules that belong in CLAUDE.md or AGENTS.md."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ctx_pipeline.mining._failures import clean
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import BLOCK_TAG, NOTE_TAG, MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_RULE = re.compile(
    r"""(?ix)^(?:(?:no|ok|okay|please|also|and|but|remember|again|wait|hey)[,:!.\s]+)*
    (?:(?:please|you\ should|you\ must|we|i\ (?:said|told\ you)(?:\ to)?|make\ sure\ (?:to|you|that\ you))\s+)?
    (?: (?:don'?t|do\ not|never|stop|avoid|always)\s+\w+.*
      | (?:use|prefer|run)\s+\S+.*\b(?:instead|rather\ than|not|over|never|always)\b.*
      | (?:only|always)\s+\w+\s+.*
      | (?:we|i)\s+(?:use|always|never|don'?t\ use|prefer)\s+.* )$"""
)
_HINT = re.compile(r"(?i)\b(?:don'?t|do not|never|stop|avoid|always|only|instead|rather|prefer|not|over|we use|i use)\b")
_ABOUT_NOW = re.compile(
    r"(?i)\b(?:yet|for now|right now|this time|today|at the moment|worry|forget|know|understand"
    r"|think|see|want|need|believe|remember|care|mind|have)\b"
)
_CODE = re.compile(
    rf"```.*?(?:```|\Z)|<{NOTE_TAG}>.*?(?:</{NOTE_TAG}>|\Z)|<{BLOCK_TAG} .*?(?:</{BLOCK_TAG}>|\Z)|^[^\S\n]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_STOP_TEXT = """
    a all also always an and any are as at avoid be but by do does don dont did for from here i if in instead is it just make must
    need never no not of ok okay on only or please prefer rather should so stop sure than that the there this to use used using was we
    when with you your
"""
_STOP = frozenset(_STOP_TEXT.split())
_ALIKE = 80
_WORDS = (3, 30)


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each sentence in which the person lays down how to work; alone it proves nothing, see ``combine``."""
    seen: set[str] = set()
    for event in view.prompts:
        if not _HINT.search(event.text or ""):
            continue
        for sentence in re.split(r"(?<=[.!?;])\s+|\n+", _CODE.sub(" ", (event.text or "")[:4000])):
            said = clean(sentence).strip(" -*•.\"'")
            if not _WORDS[0] <= len(said.split()) <= _WORDS[1] or not _RULE.match(said) or _ABOUT_NOW.search(said) or said.endswith("?"):
                continue
            subject = " ".join(sorted(_content(said)))
            if not subject or subject in seen:
                continue
            seen.add(subject)
            yield MemoryCandidate(
                kind="user_preference",
                text=said,
                evidence_refs=(event.event_id,),
                confidence=0.3,
                priority=3,
                scope="repo",
                risk="low",
                subject=subject,
                ts=event.ts,
                structured={"quotes": [said[:300]]},
            )


def _content(said: str) -> set[str]:
    return {w for w in re.findall(r"[\w./@-]+", said.lower()) if w not in _STOP}


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the rules that the person laid down in at least two sessions, each with its quotes.

    A rule heard in several repositories holds for the person and not for one of them.
    """
    from rapidfuzz import fuzz

    groups: list[list[StoredCandidate]] = []
    for candidate in sorted(candidates, key=lambda c: (c.ts or 0, c.candidate_id)):
        for group in groups:
            if _negates(group[0].text) == _negates(candidate.text) and fuzz.token_sort_ratio(group[0].subject, candidate.subject) >= _ALIKE:
                group.append(candidate)
                break
        else:
            groups.append([candidate])
    for group in groups:
        sessions = {(c.host, c.session_id) for c in group}
        if len(sessions) < 2:
            continue
        everywhere = len({c.repository for c in group}) > 1
        quotes = list(dict.fromkeys(q for c in group for q in c.body.get("quotes", [])))[:5]
        body = json.dumps({"subject": group[0].subject, "quotes": quotes, "times": len(group)}, ensure_ascii=False, sort_keys=True)
        share = min(0.9, 0.4 + 0.15 * len(sessions))
        for candidate in group:
            yield candidate._replace(
                text=group[-1].text,
                structured=body,
                scope="user" if everywhere else "repo",
                confidence=share,
                priority=5,
            )


def _negates(said: str) -> bool:
    return bool(re.search(r"(?i)\b(?:don'?t|do not|never|stop|avoid|not)\b", said))


REPEATED_CORRECTIONS = Method(
    name="repeated_corrections",
    version=1,
    describe=(
        "Rules of work that the person typed in at least two sessions, with the quotes.\n\n"
        "Only the person's own words are read. What was said once stays a candidate of its session and never becomes a memory; "
        "what was said in several repositories becomes a preference of the person."
    ),
    extract=extract,
    combine=combine,
    reads=("events",),
    kinds=("prompt",),
)
