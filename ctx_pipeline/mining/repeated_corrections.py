"""What the person has to say again and again: rules that belong in CLAUDE.md or AGENTS.md."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.prompts import answered
from ctx_pipeline.facts.turns import turns
from ctx_pipeline.mining.lessons.commands import listed, runs
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.rules.rules_files import lines_of, rules_before_agent
from ctx_pipeline.mining.lessons.rules.said_rules import (
    LONGEST,
    PROGRAMS_OF_CHOICE,
    Rule,
    contradict,
    is_firm,
    is_port,
    is_question,
    negates,
    of_now,
    replaced,
    rivals,
    rule,
    same,
    sentences,
    stands_alone,
    terms,
)
from ctx_pipeline.mining.lessons.turns import typed_by_person
from ctx_pipeline.model.declared import Method
from ctx_pipeline.model.memories import BLOCK_TAG, NOTE_TAG, MemoryCandidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

_HINT = re.compile(r"(?i)\b(?:don'?t|do not|never|stop|avoid|always|only|instead|rather|prefer|not|over|we use|i use)\b")
_CODE = re.compile(
    rf"```.*?(?:```|\Z)|<{NOTE_TAG}>.*?(?:</{NOTE_TAG}>|\Z)|<{BLOCK_TAG} .*?(?:</{BLOCK_TAG}>|\Z)|^[^\S\n]*>[^\n]*$",
    re.DOTALL | re.MULTILINE,
)
_HELD = 90
"""Likeness of a saying and a line of a rules file that holds it."""

_WORDS = (3, 30)
_WRITTEN, _BROKEN, _MOST_LINES, _MOST_SAID = "written", "broken", 80, 12
_EMPHATIC = re.compile(r"(?i)^(?:(?:no|ok|okay|please|and|but|remember|again|hey)[,:!.\s]+)*(?:never|always)\s+\w+")
_OF_NOW = re.compile(r"(?i)\b(?:this|that|these|those|it|here|now|again|above|below)\b")
_BEFORE = re.compile(
    r"(?i)^(?:(?:as|like) i (?:said|told you|asked)(?: before)?|again|i(?:'ve| have)? (?:already |just )?"
    r"(?:said|told you|asked you)(?: to)?"
    r"|how (?:many times|often) (?:do|must|should) i (?:have to )?(?:tell|ask) you(?: to)?)[,:!\s]+"
    r"|[,;.\s]+(?:(?:as|like) )?i(?:'ve| have)? (?:already )?(?:said|told you|asked(?: you)?|mentioned)(?: (?:that|this|it|so|to))?"
    r"(?: (?:before|already|twice|again|many times))?\W*$"
)
"""Says that it is not the first time."""

_REMEMBER = re.compile(r"(?i)^(?:(?:and|please|also|but|ok|okay)[,\s]+)*(?:remember|keep in mind|bear in mind|don'?t forget)\s+that\s+")
"""Says in words that it is to be remembered."""

_ONCE, _HEARD = 0.5, 0.35
"""Confidence of a rule that was laid down once, after the agent had begun to work, and of one of work that was said once in passing."""

_OPENING = re.compile(r"(?i)^(?:(?:no|ok|okay|please|also|and|but|remember|again|wait|hey|i said|i told you(?: to)?)[,:!.\s]+)+")


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield each sentence in which the person lays down how to work, and the rules that stood before the agent.

    Alone they prove nothing, see ``combine``.
    """
    yield from _written(view)
    found: dict[str, tuple[Rule, MemoryCandidate]] = {}
    begun = min((c.seq for c in view.tool_calls), default=None)
    stopped = _after_interruptions(view)
    for event, text in _sayings(view):
        after = begun is not None and event.seq > begun
        for place, sentence in enumerate(text):
            if len(sentence) > LONGEST:
                continue
            said = clean(sentence).strip(" -*•.;,\"'")
            meant = rule(_REMEMBER.sub("", _BEFORE.sub("", said)))
            if meant is None or of_now(said) or is_question(said):
                continue
            subject = " ".join(sorted(meant.want | meant.avoid))
            earlier = next((name for name, (other, _) in found.items() if name == subject or same(other, meant)), None)
            if earlier is None:
                reason = clean(text[place + 1]).strip(" -*•.!;,\"'") if place + 1 < len(text) else ""
                stop = stopped.get(event.event_id)
                shown = [stop] if after and stop and _lacks(said, meant) else []
                laid_down = bool(shown) or _laid_down(said, meant, after, stop is not None)
                files = list(dict.fromkeys(_MENTIONED.findall((event.text or "")[:4000]))) if _KEEPS_IT.match(said) else []
                drawn = _candidate(event, said, meant, reason, laid_down=laid_down, files=files[:_MOST_FILES])
                found[subject] = meant, replace(drawn, evidence_refs=(event.event_id, *shown))
            elif after and meant.of_work:
                found[earlier] = found[earlier][0], _repeated(found[earlier][1], event, said)
    yield from (candidate for _, candidate in found.values())


def _sayings(view: SessionView) -> list[tuple[Any, list[str]]]:
    """Return what the person said in sentences, with the event: prompts, and answers to what the agent asked."""
    typed = [(e, sentences(_CODE.sub(" ", (e.text or "")[:4000]))) for e in typed_by_person(view)]
    asked = [c for c in view.tool_calls if c.action == "ask" and not c.is_error and c.result_event in view.by_event]
    given = [(view.by_event[c.result_event], [s for _, answer in answered(view, c) for s in sentences(answer[:4000])]) for c in asked]
    return sorted(typed + given, key=lambda saying: saying[0].seq)


_KEEPS_IT = re.compile(r"(?i)^keep (?:it|this)\b")
_MENTIONED = re.compile(r"(?<![\w@/])@((?:[\w.-]+/)+[\w-][\w.-]*\.\w{1,6})(?![\w@/])")
"""A file that a person points the agent at: what is to be kept so is that one, and not the whole project."""

_MOST_FILES = 3


def _candidate(event: Any, said: str, meant: Rule, reason: str, *, laid_down: bool, files: Sequence[str] = ()) -> MemoryCandidate:
    body: dict[str, Any] = {"quotes": [said[:300]], "form": meant.form, "want": sorted(meant.want), "avoid": sorted(meant.avoid)}
    body |= {"about": sorted(meant.about), "place": meant.place} if meant.place else {}
    body |= {"reason": reason} if _REASON.search(reason) and len(reason) <= _LONGEST_REASON else {}
    body |= {"files": list(files)} if files else {}
    marks = {"laid_down": laid_down, "of_work": meant.of_work, "everywhere": meant.everywhere}
    return MemoryCandidate(
        kind="user_preference",
        text=said,
        when_to_use=_of_files(files) or occasion(said),
        evidence_refs=(event.event_id,),
        confidence=0.3,
        priority=3,
        scope="repo",
        risk="low",
        subject=" ".join(sorted(meant.want | meant.avoid)),
        ts=event.ts,
        structured=body | {name: True for name, holds in marks.items() if holds},
    )


def _of_files(files: Sequence[object]) -> str:
    return f"{listed(list(map(str, files)))} {'is' if len(files) == 1 else 'are'} changed" if files else ""


def _repeated(first: MemoryCandidate, event: Any, said: str) -> MemoryCandidate:
    """Return a rule that the person had to say in other words after the agent had begun: it is laid down."""
    body = first.structured or {}
    quotes = [*body["quotes"], said[:300]]
    if event.event_id in first.evidence_refs or " ".join(said.lower().split()) in {" ".join(q.lower().split()) for q in body["quotes"]}:
        return first
    return replace(first, structured=body | {"quotes": quotes, "laid_down": True}, evidence_refs=(*first.evidence_refs, event.event_id))


def occasion(said: str) -> str | None:
    """Return when a rule is to be thought of: before what it forbids, at the time that it names, or what it is about, if anything."""
    told = _OPENING.sub("", _BEFORE.sub("", said)).strip(" !.")
    replaced = _IN_PLACE.search(told)
    if replaced:
        return f"{replaced[1].strip()} is about to be used"
    forbidden = _FORBIDS.search(told)
    if forbidden:
        doing = forbidden[1] or forbidden[2]
        if wished := _WISHES.match(doing):
            return f"{wished[1]} would be added or used"
        if forbidden[1] or doing.split()[0].endswith("ing"):
            return f"you are about to {'' if forbidden[1] else 'be '}{doing}"
    time = _AT.search(told)
    about = ", ".join(
        list(dict.fromkeys(w for w in _names(told) if terms(w) and len(w) > 1 and w not in _LITTLE and w not in discovery.hosts()))[
            :_MOST_ABOUT
        ]
    )
    return time[1] if time else f"work is about {about}" if about else None


_IN_PLACE = re.compile(
    r"(?i)^(?:.*?\b)?(?:use|prefer|run)\s+[^,;]+?,?\s+(?:instead\s+of|rather\s+than|not|over|never)\s+(?:use\s+)?([^,;()]+)"
)
_WISHES = re.compile(r"(?i)(?:want|like|need|have|see)\s+(?:to\s+(?:have|see|use)\s+)?(.+)")
"""A wish: what somebody does not want is not to want it."""

_LITTLE_TEXT = """
    about again agent ask asked because before but can could each even every everything except explicitly generally get had has
    have having him his how its just kind lot may maybe might more most much my new no none off often other out own per quite
    really same see she simply since some something specifically still such sure them themselves these they thing things those
    though told too up us usually very way well were what where which while who why will would yes yet
"""
_LITTLE, _MOST_ABOUT = frozenset(_LITTLE_TEXT.split()), 6
"""Words that say nothing of what a rule is about."""

_FORBIDS = re.compile(r"(?i)^(?:[^,;]*?\b)?(?:(?:don'?t|do not|never)\s+(?:ever\s+)?(.+)|(?:avoid|stop)\s+(.+))$")
_AT = re.compile(r"(?i)\b((?:before|after|when|whenever|while|if)\s+.+)$")
_REASON = re.compile(r"(?i)^(?:because|since|otherwise|so that|the reason|(?:it|this|that)(?:'s| is) because)\b|\binstead$")
"""Begins the sentence behind a rule that says why it holds, or ends one that says what is done in place."""

_LONGEST_REASON = 200


def _after_interruptions(view: SessionView) -> dict[str, str]:
    """Return the prompts that came right after the person had stopped the agent, with the event that shows the stop."""
    made = view.once(turns)
    return {
        following.prompt.event_id: turn.interruption.event_id
        for turn, following in pairwise(made)
        if turn.interruption is not None and following.prompt is not None and turn.thread_id == following.thread_id
    }


def _laid_down(said: str, meant: Rule, begun: bool, stopped: bool) -> bool:
    """Tell whether a sentence lays down how work is done from now on.

    It says that it is to be remembered, that it is not said for the first time, or "never" or "always" once the agent
    had begun, or the person stopped the agent for it: what it did called for the rule.
    """
    if _REMEMBER.match(said):
        return True
    told = _BEFORE.sub("", said)
    before = told != said and len(told.split()) >= _WORDS[0]
    called_for = begun and meant.of_work and (bool(_EMPHATIC.match(said)) or stopped)
    return (before or called_for) and not _OF_NOW.search(told)


def _lacks(said: str, meant: Rule) -> bool:
    """Tell whether a sentence says what the project does not have or use, and not what is lacking just now."""
    return (
        meant.form == "forbids"
        and (not meant.of_work or _HERE.search(said) is not None)
        and _OF_PROJECT.match(said) is not None
        and not _JUST_NOW.search(_HERE.sub(" ", said))
        and not _ASKS_BACK.search(said)
        and _WORDS[0] < len(said.split()) <= _WORDS[1]
    )


_OF_PROJECT = re.compile(r"(?i)(?:(?:no|but|and|because|as|since)[,\s]+)*we\s+(?:don'?t|do\s+not|never)\s+(?:have|use)\s")
_JUST_NOW = re.compile(
    r"(?i)\b(?:this|that|these|those|it|them|one|ones|time|enough|yet|now|still|today|currently|at\s+the\s+moment|any\s?more|to"
    r"|problems?|issues?|questions?|access|permissions?|results?|feedback|much|lots?\s+of|coverage|memory|ideas?|if|when|until|unless)\b"
)
"""Points at what is before the reader, or says what is lacking at a moment or in a case."""
_HERE = re.compile(r"(?i)\bin\s+this\s+(?:repo|repository|project|codebase|service|app)\b")
"""Names the whole project, though it points at it."""
_ASKS_BACK = re.compile(r"(?i)(?:\b(?:do|did|have|are)\s+we|,?\s(?:right|correct|ok|okay|no|huh))\W*$")
"""Ends what asks whether it is so: "we never use it, do we"."""


def _written(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield the rules of each file that the host put before the agent, or that was read or changed, and which of them were broken."""
    for file, events in rules_before_agent(view).items():
        rules: dict[str, Any] = {}
        for event in events:
            for line in lines_of(event.text or ""):
                if not _HINT.search(line):
                    continue
                said = re.sub(r"^\s*\d+\s*[→:]", "", clean(line)).strip(" -*•.\"'`")
                if _WORDS[0] <= len(said.split()) <= _WORDS[1] and len(rules) < _MOST_LINES:
                    rules.setdefault(said, event)
        if rules:
            yield MemoryCandidate(
                kind="case",
                text=f"{len(rules)} rules of {file} stood before the agent",
                evidence_refs=(events[0].event_id,),
                confidence=0.1,
                priority=1,
                risk="low",
                structured={"what": _WRITTEN, "file": file, "rules": list(rules)},
                subject=f"rules file {file}",
                ts=events[0].ts,
            )
        for said, event in rules.items():
            if event.kind != "tool_call":  # what an edit says holds the lines that it takes out
                yield from _broken(view, file, said, event)


def _broken(view: SessionView, file: str, said: str, event: Any) -> Iterator[MemoryCandidate]:
    """Yield a rule of a file that names a program to avoid, where one of these ran after the rule stood before the agent."""
    words = set(re.findall(r"[\w-]+", said.lower()))
    meant = rule(said) if len(words & PROGRAMS_OF_CHOICE) > 1 else None
    # a rule with a limit ("in website/") is not told, since of its words only programs are
    if meant is None or meant.form != "pair" or (meant.want | meant.avoid) - PROGRAMS_OF_CHOICE or not stands_alone(meant):
        return
    wanted, avoided = meant.want & PROGRAMS_OF_CHOICE, meant.avoid & PROGRAMS_OF_CHOICE - meant.want
    times: dict[str, tuple[str, str]] = {}
    for run in view.once(runs):
        program = run.step.words[0].rpartition("/")[2] if run.step.words else ""
        if wanted and program in avoided and run.row.seq > event.seq and run.call.thread_id == event.thread_id:
            times.setdefault(run.row.call_event, (program, run.step.subject))
    if times:
        # a file of a repository is anybody's: of its words only the names of known programs are told
        told = f"use {listed(sorted(wanted))}, not {listed(sorted(avoided))}"
        body = {"what": _BROKEN, "file": file, "form": meant.form, "want": sorted(wanted), "avoid": sorted(avoided)}
        yield MemoryCandidate(
            kind="user_preference",
            text=told,
            when_to_use=f"{listed(sorted(avoided))} is about to be used",
            evidence_refs=(event.event_id, *list(times)[:_MOST_SAID]),
            confidence=_ONCE,
            priority=4,
            scope="repo",
            risk="low",
            subject=" ".join(sorted(wanted | avoided)),
            ts=event.ts,
            structured=body | {"ran": list(dict.fromkeys(subject for _, subject in times.values())), "times": len(times)},
        )


def _content(said: str) -> frozenset[str]:
    return terms(said)


def _names(said: str) -> list[str]:
    return re.findall(r"[\w./@-]+", said.lower())


def combine(candidates: Sequence[StoredCandidate]) -> Iterable[StoredCandidate]:
    """Return the rules that the person laid down in two sessions, or although they stood in a file, with quotes and what came after.

    A rule is proposed when the second session says it, one of "never" or "always" that was
    laid down amid the work, or that says it was said before, at once, with less confidence. What later sessions say counts as
    said again: since then, and since it first stood in a rules file before the agent. A
    rule heard in several repositories holds for the person and not for one of them.
    """
    written = [c for c in candidates if c.body.get("what") == _WRITTEN]
    meanings: list[Rule] = []
    groups: list[list[StoredCandidate]] = []
    sayings = (c for c in candidates if c.body.get("what") not in (_WRITTEN, _BROKEN))
    for candidate in sorted(sayings, key=lambda c: (c.ts or 0, c.candidate_id)):
        meant = _rule_of(candidate)
        group = next((g for meaning, g in zip(meanings, groups, strict=True) if same(meaning, meant)), None)
        if group is None:
            meanings.append(meant)
            groups.append([candidate])
        else:
            group.append(candidate)
    told = [t for group in groups if (t := _proposed(group, written)) is not None]
    told += _not_kept([c for c in candidates if c.body.get("what") == _BROKEN])
    placed = [_placed(t) for t in told]
    for place, rule_ in enumerate(told):
        here = placed[place]
        later = next((o for o, there in zip(told[::-1], placed[::-1], strict=True) if there is not here and _overrules(there, here)), None)
        earlier = [o.text for o, there in zip(told, placed, strict=True) if there is not here and _overrules(here, there)]
        body = rule_.body | ({"overruled_by": later.body["signature"]} if later else {}) | ({"before": earlier} if earlier else {})
        for candidate in rule_.group:
            yield candidate._replace(
                text=rule_.text,
                when_to_use=rule_.when,
                structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
                scope="user" if rule_.everywhere else "repo",
                confidence=rule_.confidence,
                priority=rule_.priority,
            )


def _not_kept(broken: Sequence[StoredCandidate]) -> list[_Proposal]:
    """Return the rules of files that agents broke after these stood before them, each with how often and in how many sessions."""
    groups: dict[tuple[str | None, str], list[StoredCandidate]] = {}  # by text: the opposite rule has the same subject
    for c in sorted(broken, key=lambda c: (c.ts or 0, c.candidate_id)):
        groups.setdefault((c.repository or c.cwd, c.text), []).append(c)
    return [_not_kept_of(group) for group in groups.values()]


def _not_kept_of(group: list[StoredCandidate]) -> _Proposal:
    # a fork repeats its parent's calls with their times
    once = list({(c.ts or c.candidate_id, c.text): c for c in reversed(group)}.values())
    sessions, last = len({(c.host, c.session_id) for c in once}), group[-1]
    ran = list(dict.fromkeys(str(subject) for c in group for subject in c.body["ran"]))
    often = f"{sessions} session{'s' if sessions > 1 else ''}"
    body = {
        "subject": last.subject,
        "signature": " ".join(last.text.lower().split()),
        "times": sum(int(c.body["times"]) for c in once),
        "broken": sessions,
        "line": f"- {last.text[:1].upper()}{last.text[1:]}.",
        "instead_of": last.body["avoid"],
        "written_in": last.body["file"],
        "written_ts": group[0].ts,
        **{name: last.body[name] for name in ("form", "want", "avoid")},
    }
    text = f"{last.text}: {last.body['file']} says so, and {listed(ran[:3])} ran all the same in {often}"
    return _Proposal(group, text, last.when_to_use, body, False, min(0.9, 0.4 + 0.1 * sessions), 4)


class _Proposal(NamedTuple):
    """A rule that is proposed, with the sayings it was drawn from, oldest first."""

    group: list[StoredCandidate]
    text: str
    when: str | None
    body: dict[str, Any]
    everywhere: bool
    confidence: float
    priority: int


def _rule_of(candidate: StoredCandidate) -> Rule:
    body = candidate.body
    want, avoid, about = (frozenset(map(str, body.get(name, ()))) for name in ("want", "avoid", "about"))
    marks = bool(body.get("of_work")), bool(body.get("everywhere"))
    return Rule(str(body.get("form", "")), candidate.text, want, avoid, is_firm(candidate.text), *marks, about, str(body.get("place", "")))


def _proposed(group: list[StoredCandidate], written: Sequence[StoredCandidate]) -> _Proposal | None:
    """Return a rule as it is proposed; None for one that was said once about the task alone."""
    # a fork repeats its parent's prompts with their times
    sessions = list({(c.ts or c.candidate_id, c.text, c.repository or c.cwd): c for c in reversed(group)}.values())[::-1]
    told = list(dict.fromkeys((c.host, c.session_id) for c in sessions))
    stood = _stood(group, written, [_saying(c) for c in sessions])
    once = len(told) < 2 and not stood.get("again_since_written")
    laid_down = any(c.body.get("laid_down") for c in group)
    if once and not laid_down and (stood or not any(c.body.get("of_work") for c in group)):
        return None
    at_hand = once and not stands_alone(_rule_of(group[0]))
    if at_hand and not any(_asked_to_remember(c.text) for c in group):
        return None
    laid_down = laid_down and not at_hand
    everywhere = len({c.repository for c in group}) > 1 or any(c.body.get("everywhere") for c in group)
    proposed = next((c.ts for c in sessions if once or (c.host, c.session_id) in told[1:]), None)
    last = max(group, key=lambda c: (bool(c.body.get("avoid")) and bool(c.body.get("want")), c.ts or 0, c.candidate_id))
    body = {
        "subject": group[0].subject,
        "signature": " ".join(group[0].text.lower().split()),
        "quotes": list(dict.fromkeys(q for c in group for q in c.body.get("quotes", [])))[:5],
        "times": len(sessions),
        "line": _line(last),
        "want": last.body.get("want", []),
        "avoid": last.body.get("avoid", []),
        "instead_of": sorted(replaced(_rule_of(last))),
        **{name: last.body[name] for name in ("form", "place") if last.body.get(name)},
        "proposed_ts": proposed,
        "again": count_since(later := [_saying(c) for c in sessions if (c.host, c.session_id) not in told[:2]], proposed),
        "said": later[-_MOST_SAID:],
        **stood,
    }
    body |= {"about": sorted({a for c in group for a in c.body.get("about", ())})} if last.body.get("place") else {}
    heard = once and not laid_down
    reason = next((str(c.body["reason"]) for c in reversed(group) if c.body.get("reason")), "")
    body |= ({"reason": reason} if reason else {}) | ({"once": True} if heard else {}) | ({"at_hand": True} if at_hand else {})
    confidence = _HEARD if heard else _ONCE if once else min(0.9, 0.4 + 0.15 * len(told))
    text = _REMEMBER.sub("", _BEFORE.sub("", last.text)).strip("! ") + (f": “{reason}”" if reason else "")
    return _Proposal(group, text, _when(last), body, everywhere, confidence, 3 if heard else 4 if once else 5)


def _asked_to_remember(said: str) -> bool:
    """Tell whether a saying asks to be remembered, or says that it is not the first of its kind."""
    return bool(_REMEMBER.match(said) or _BEFORE.search(said))


class _Placed(NamedTuple):
    """When a rule was said last, in those words, and where it was said."""

    ts: int
    said: Rule
    places: frozenset[str | None]


def _placed(told: _Proposal) -> _Placed:
    last = told.group[-1]
    return _Placed(last.ts or 0, _rule_of(last), frozenset(c.repository or c.cwd for c in told.group))


def _overrules(later: _Placed, earlier: _Placed) -> bool:
    """Tell whether one rule was said after another that cannot hold beside it, at a place that both hold at."""
    return later.ts > earlier.ts and not later.places.isdisjoint(earlier.places) and contradict(later.said, earlier.said)


def _when(candidate: StoredCandidate) -> str | None:
    """Return when a rule is to be thought of: for its files, before another program of the family is used, or as its words say."""
    if of_files := _of_files(candidate.body.get("files", ())):
        return of_files
    meant = _rule_of(candidate)
    if is_port(meant.place):
        return f"{' or '.join(sorted(meant.about))} is started or called"
    if meant.place:
        return f"{' or '.join(sorted(meant.about))} is written or looked for"
    others = sorted(replaced(meant) & (meant.avoid or replaced(meant)))
    return f"{', '.join(others)} is about to be used" if others else occasion(candidate.text)


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
        for line in c.body["rules"]:
            if negates(line) == negates(group[0].text) and fuzz.token_set_ratio(subject, " ".join(sorted(_content(line)))) >= _HELD:
                return {"written_in": c.body["file"], "written_ts": c.ts, "again_since_written": count_since(sayings, c.ts)}
    return {}


_ASKS_FOR = re.compile(r"(?i)^(?:let'?s\s+(?!not\b)|make\s+sure\s+that\s+you\s+)")
_LETS_NOT = re.compile(r"(?i)^(?:let'?s|please|i(?:'d|\s+would)\s+rather)\s+not\s+")
_RATHER = re.compile(r"(?i)^(?:i|we)(?:'d|\s+would)\s+rather\s+(?:you\s+(?=(?:use|run|prefer|write)\b))?(?!you\b)(.+)$")
_PLEASE = re.compile(r"(?i),?\s*please$")
"""What asks for a rule and is none of it."""


def _preferred(found: re.Match[str]) -> str:
    """Return "I'd rather do A than B" as what is preferred."""
    return f"prefer to {re.sub(' than ', ' rather than ', found[1], count=1) if ' rather than ' not in found[1] else found[1]}"


def _line(candidate: StoredCandidate) -> str:
    """Return a rule as a line for a rules file."""
    text = _OPENING.sub("", _REMEMBER.sub("", _BEFORE.sub("", candidate.text))).strip(" !.")
    text = _PLEASE.sub("", _ASKS_FOR.sub("", _RATHER.sub(_preferred, _LETS_NOT.sub("do not ", text))))
    if candidate.body.get("form") == "please" and not candidate.body.get("avoid"):
        text = f"Use {text}" if rivals(frozenset(candidate.body.get("want", ()))) else text
    where = _of_files(candidate.body.get("files", ()))
    return f"- {f'Where {where}: ' if where else ''}{text[:1].upper()}{text[1:]}."


REPEATED_CORRECTIONS = Method(
    name="repeated_corrections",
    version=21,
    describe=(
        "Rules of work that the person typed in two sessions, or although a rules file had them, with the quotes.\n\n"
        "Only the person's own words are read, answers to the agent's questions among them. "
        "What was said once stays a candidate of its session, but for a rule about commits, "
        "branches, tests or tools that tells what holds for later work to who was not there; it is surer where it says never or "
        "always, or that it was said before, and was typed after the agent had begun to work; so is what the project does not have or "
        "use, said right after the person stopped the agent; "
        "what was said in several repositories becomes a preference of the person. `again` counts the sessions that said it once "
        "more after it was proposed, `again_since_written` those after it stood in a rules file of the project: a rule that is "
        "written down and said again is not followed. A rule of such a file is told where a program that it says not to use ran after "
        "the agent had read it; `broken` counts the sessions."
    ),
    extract=extract,
    combine=combine,
    reads=("events", "tool_calls", "command_runs"),
    kinds=("prompt", "injected", "tool_call", "tool_result"),
)
