"""What the person has to say again and again: rules that belong in CLAUDE.md or AGENTS.md."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.turns import typed_by_person
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
_ALIKE, _HELD = 80, 90
"""Likeness of two sayings of one rule, and of a saying and a line of a rules file that holds it."""

_WORDS = (3, 30)
_WRITTEN, _MOST_LINES, _MOST_SAID = "written", 80, 12
_OTHER_RULES_FILES = ("AGENTS.md", "GEMINI.md", ".cursorrules", "copilot-instructions.md")
"""Beside those that hosts declare: what other agents read lies in the same repositories."""

_EMPHATIC = re.compile(r"(?i)^(?:(?:no|ok|okay|please|and|but|remember|again|hey)[,:!.\s]+)*(?:never|always)\s+\w+")
_OF_WORK = re.compile(
    r"(?i)\b(?:prs?|pull requests?|merge requests?|commit(?:s|ted|ting)?|push(?:es|ed|ing)?|merg(?:e|es|ed|ing)|rebas(?:e|es|ed|ing)|amend"
    r"|branch(?:es)?|main|master|upstream|worktrees?|tests?|lint(?:er|ing)?|formatter|type checker|changelog|npm|pnpm|yarn|pip|uv|poetry"
    r"|cargo|make|docker|sudo)\b"
)
"""What of the work a rule can be about that holds in the next session too: a program's own behaviour is no rule of work."""

_OF_NOW = re.compile(r"(?i)\b(?:this|that|these|those|it|here|now|again|above|below)\b")
_BEFORE = re.compile(
    r"(?i)^(?:(?:as|like) i (?:said|told you|asked)(?: before)?|again|i (?:said|told you)(?: to)?)[,:!\s]+"
    r"|[,;.\s]+(?:(?:as|like) )?i(?:'ve| have)? (?:already )?(?:said|told you|asked(?: you)?|mentioned)(?: (?:that|this|it|so|to))?"
    r"(?: (?:before|already|twice|again|many times))?\W*$"
)
"""Says that it is not the first time."""

_ONCE = 0.5
"""Confidence of a rule that was laid down once, after the agent had begun to work."""

_OPENING = re.compile(r"(?i)^(?:(?:no|ok|okay|please|also|and|but|remember|again|wait|hey|i said|i told you(?: to)?)[,:!.\s]+)+")


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each sentence in which the person lays down how to work, and the rules that stood before the agent.

    Alone they prove nothing, see ``combine``.
    """
    yield from _written(view)
    seen: set[str] = set()
    begun = min((c.seq for c in view.tool_calls), default=None)
    for event in typed_by_person(view):
        if not _HINT.search(event.text or ""):
            continue
        sentences = re.split(r"(?<=[.!?;])\s+|\n+", _CODE.sub(" ", (event.text or "")[:4000]))
        for place, sentence in enumerate(sentences):
            said = clean(sentence).strip(" -*•.;,\"'")
            if not _WORDS[0] <= len(said.split()) <= _WORDS[1] or not _RULE.match(said) or _ABOUT_NOW.search(said) or said.endswith("?"):
                continue
            subject = " ".join(sorted(_content(said)))
            if not subject or subject in seen:
                continue
            seen.add(subject)
            reason = clean(sentences[place + 1]).strip(" -*•.!;,\"'") if place + 1 < len(sentences) else ""
            told = {"quotes": [said[:300]]} | ({"reason": reason} if _REASON.search(reason) and len(reason) <= _LONGEST_REASON else {})
            yield MemoryCandidate(
                kind="user_preference",
                text=said,
                when_to_use=occasion(said),
                evidence_refs=(event.event_id,),
                confidence=0.3,
                priority=3,
                scope="repo",
                risk="low",
                subject=subject,
                ts=event.ts,
                structured=told | ({"laid_down": True} if _laid_down(said, event.seq, begun) else {}),
            )


def occasion(said: str) -> str | None:
    """Return when a rule is to be thought of: before what it forbids, at the time that it names, or what it is about, if anything."""
    told = _OPENING.sub("", _BEFORE.sub("", said)).strip(" !.")
    replaced = _IN_PLACE.search(told)
    if replaced:
        return f"{replaced[1].strip()} is about to be used"
    forbidden = _FORBIDS.search(told)
    if forbidden:
        doing = forbidden[1] or forbidden[2]
        if forbidden[1] or doing.split()[0].endswith("ing"):
            return f"you are about to {'' if forbidden[1] else 'be '}{doing}"
    time = _AT.search(told)
    about = ", ".join(dict.fromkeys(w for w in _names(told) if w in _content(told)))
    return time[1] if time else f"work is about {about}" if about else None


_IN_PLACE = re.compile(
    r"(?i)^(?:.*?\b)?(?:use|prefer|run)\s+[^,;]+?,?\s+(?:instead\s+of|rather\s+than|not|over|never)\s+(?:use\s+)?([^,;()]+)"
)
_FORBIDS = re.compile(r"(?i)^(?:[^,;]*?\b)?(?:(?:don'?t|do not|never)\s+(?:ever\s+)?(.+)|(?:avoid|stop)\s+(.+))$")
_AT = re.compile(r"(?i)\b((?:before|after|when|whenever|while|if)\s+.+)$")
_REASON = re.compile(r"(?i)^(?:because|since|otherwise|so that|the reason|(?:it|this|that)(?:'s| is) because)\b|\binstead$")
"""Begins the sentence behind a rule that says why it holds, or ends one that says what is done in place."""

_LONGEST_REASON = 200


def _laid_down(said: str, at: int, begun: int | None) -> bool:
    """Tell whether a sentence lays down how work is done from now on.

    It says that it is not said for the first time, or "never" or "always" once the agent
    had begun: what it did called for the rule.
    """
    told = _BEFORE.sub("", said)
    before = told != said and len(told.split()) >= _WORDS[0]
    called_for = begun is not None and at > begun and bool(_EMPHATIC.match(said) and _OF_WORK.search(said))
    return (before or called_for) and not _OF_NOW.search(told)


def _written(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield the rules of the files that the host put before the agent, or that were read or changed in the session."""
    texts: list[tuple[str, Any]] = []
    files = (*_OTHER_RULES_FILES, *discovery.declared_texts("files.rules_files"))
    named = re.compile(rf"(?:{'|'.join(map(re.escape, files))})\b")
    for event in view.of_kinds("injected"):
        found = named.search((event.text or "")[:4000])
        if found:
            texts.append((found[0], event))
    for call in view.tool_calls:
        if call.is_error or not any(p.endswith(files) for p in call.paths):
            continue
        file = next((f for p in call.paths for f in files if p.endswith(f)), "")
        if file:
            both = (call.call_event, call.result_event if call.action == "read" else None)
            texts += [(file, view.by_event[e]) for e in both if e in view.by_event]
    rules: dict[str, None] = {}
    for _, event in texts:
        for line in re.split(r"\\n|\n|(?<=[.!?;])\s+", (event.text or "")[:40_000]):
            if not _HINT.search(line):
                continue
            said = re.sub(r"^\s*\d+\s*[→:]", "", clean(line)).strip(" -*•.\"'`")
            if _WORDS[0] <= len(said.split()) <= _WORDS[1] and len(rules) < _MOST_LINES:
                rules.setdefault(said)
    if rules:
        file, event = texts[0]
        yield MemoryCandidate(
            kind="case",
            text=f"{len(rules)} rules of {file} stood before the agent",
            evidence_refs=(event.event_id,),
            confidence=0.1,
            priority=1,
            risk="low",
            structured={"what": _WRITTEN, "file": file, "rules": list(rules)},
            subject="rules file",
            ts=event.ts,
        )


def _content(said: str) -> set[str]:
    return {w for w in _names(said) if w not in _STOP}


def _names(said: str) -> list[str]:
    return re.findall(r"[\w./@-]+", said.lower())


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the rules that the person laid down in two sessions, or although they stood in a file, with quotes and what came after.

    A rule is proposed when the second session says it, one of "never" or "always" that was
    laid down amid the work, or that says it was said before, at once, with less confidence. What later sessions say counts as
    said again: since then, and since it first stood in a rules file before the agent. A
    rule heard in several repositories holds for the person and not for one of them.
    """
    from rapidfuzz import fuzz

    written = [c for c in candidates if c.body.get("what") == _WRITTEN]
    groups: list[list[StoredCandidate]] = []
    for candidate in sorted((c for c in candidates if c.body.get("what") != _WRITTEN), key=lambda c: (c.ts or 0, c.candidate_id)):
        for group in groups:
            if _negates(group[0].text) == _negates(candidate.text) and fuzz.token_sort_ratio(group[0].subject, candidate.subject) >= _ALIKE:
                group.append(candidate)
                break
        else:
            groups.append([candidate])
    for group in groups:
        # a fork repeats its parent's prompts with their times
        sessions = list({(c.ts or c.candidate_id, c.text, c.repository or c.cwd): c for c in reversed(group)}.values())[::-1]
        told = list(dict.fromkeys((c.host, c.session_id) for c in sessions))
        stood = _stood(group, written, [_saying(c) for c in sessions])
        once = len(told) < 2 and not stood.get("again_since_written")
        if once and not any(c.body.get("laid_down") for c in group):
            continue
        everywhere = len({c.repository for c in group}) > 1
        quotes = list(dict.fromkeys(q for c in group for q in c.body.get("quotes", [])))[:5]
        proposed = next((c.ts for c in sessions if once or (c.host, c.session_id) in told[1:]), None)
        body = {
            "subject": group[0].subject,
            "signature": " ".join(group[0].text.lower().split()),
            "quotes": quotes,
            "times": len(sessions),
            "line": _line(group[-1].text),
            "proposed_ts": proposed,
            "again": count_since(later := [_saying(c) for c in sessions if (c.host, c.session_id) not in told[:2]], proposed),
            "said": later[-_MOST_SAID:],
            **stood,
        }
        reason = next((str(c.body["reason"]) for c in reversed(group) if c.body.get("reason")), "")
        body |= {"reason": reason} if reason else {}
        share = _ONCE if once else min(0.9, 0.4 + 0.15 * len(told))
        for candidate in group:
            yield candidate._replace(
                text=_BEFORE.sub("", group[-1].text).strip("! ") + (f": “{reason}”" if reason else ""),
                when_to_use=occasion(group[-1].text),
                structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
                scope="user" if everywhere else "repo",
                confidence=share,
                priority=4 if once else 5,
            )


def _saying(candidate: StoredCandidate) -> dict[str, Any]:
    return {"ts": candidate.ts, "session": f"{candidate.host}/{candidate.session_id}", "quote": candidate.text[:300]}


def count_since(sayings: Sequence[dict[str, Any]], since: int | None) -> int:
    """Return how many sayings are later than a time in microseconds; none where there is no time."""
    return sum(since is not None and (s["ts"] or 0) > since for s in sayings)


def _stood(group: Sequence[StoredCandidate], written: Sequence[StoredCandidate], sayings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return since when the rule stood in a file before the agent, in which, and how often it was said again; empty where it never did."""
    from rapidfuzz import fuzz

    subject = " ".join(sorted(_content(group[0].text)))
    places = {c.repository or c.cwd for c in group}
    for c in sorted(written, key=lambda c: (c.ts or 0, c.candidate_id)):
        if (c.repository or c.cwd) not in places:
            continue
        for rule in c.body["rules"]:
            if _negates(rule) == _negates(group[0].text) and fuzz.token_set_ratio(subject, " ".join(sorted(_content(rule)))) >= _HELD:
                return {"written_in": c.body["file"], "written_ts": c.ts, "again_since_written": count_since(sayings, c.ts)}
    return {}


def _line(said: str) -> str:
    """Return a rule as a line for a rules file."""
    text = _OPENING.sub("", _BEFORE.sub("", said)).strip(" !.")
    return f"- {text[:1].upper()}{text[1:]}."


def _negates(said: str) -> bool:
    return bool(re.search(r"(?i)\b(?:don'?t|do not|never|stop|avoid|not)\b", said))


REPEATED_CORRECTIONS = Method(
    name="repeated_corrections",
    version=5,
    describe=(
        "Rules of work that the person typed in two sessions, or although a rules file had them, with the quotes.\n\n"
        "Only the person's own words are read. What was said once stays a candidate of its session, but for a rule with never or "
        "always about commits, branches, tests or tools, and one that says it was said before, typed after the agent had begun to work; "
        "what was said in several repositories becomes a preference of the person. `again` counts the sessions that said it once "
        "more after it was proposed, `again_since_written` those after it stood in a rules file of the project: a rule that is "
        "written down and said again is not followed."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("prompt", "injected", "tool_call", "tool_result"),
)
