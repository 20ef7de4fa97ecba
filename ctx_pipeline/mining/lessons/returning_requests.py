"""Requests that a person types in one session after the other in the same order: "why did this fail", then "make a pr"."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ctx_pipeline.mining.lessons.commands import listed, typed
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.mining.lessons.rules.said_rules import sentences, terms
from ctx_pipeline.mining.lessons.turns import turns
from ctx_pipeline.model.memories import MemoryCandidate
from ctx_pipeline.shell.command_risk import dangers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctx_pipeline.mining.lessons.turns import Turn
    from ctx_pipeline.model.memories import StoredCandidate
    from ctx_pipeline.model.session_view import SessionView

SUBJECT = "requests"
_LEAST = 3
"""Sessions of a project in which two requests follow each other."""

_WORDS, _TURNS, _STEPS = 12, 12, 4
_LEAST_SAID = 2
"""Words of the first request: one alone ("investigate") says nothing of what is asked."""
_HALF = 0.5
"""Share of the sessions that ran a command for a request, from which it is a step of it."""

_ADDRESS = re.compile(r"\[[^\]\n]*\]\([^)\s]*\)|\S+://\S+|#\d+|\S*/\S+")
_ASKS = frozenset(
    {"why", "how", "what", "when", "where", "who", "did", "can", "could", "would", "may", "maybe", "keep", "still", "now", "then", "yes"}
    | {"thank", "good", "great", "continue", "go", "look", "check", "sorry", "hmm", "hi", "hello", "lets", "let's", "ahead"}
    | {"again", "whys", "i'd", "me", "u", "pls", "plz"}
)
"""Words that say how something is asked and not what."""

_IS = re.compile(r"['\u2019](?:s|re)\b")
_PR = re.compile(
    r"(?i)\b(?:(?:open|make|create|raise|submit|file|put up|send)\s+(?:(?:up|a|an|the|me|new|draft)\s+)*)?"
    r"(?:pull[- ]requests?|merge[- ]requests?|prs?|mrs?)\b"
)
"""The wish for a pull request in its many words."""


def extract(view: SessionView) -> Iterator[MemoryCandidate]:
    """Yield what was asked in a session in order, with the commands that each request led to; alone it proves nothing."""
    asked: list[dict[str, Any]] = []
    prompts: list[Any] = []
    sent_back = False
    for turn in view.once(turns)[:_TURNS]:
        said = [s for s in _requests(turn.ask) if _meant(s)]
        corrects, sent_back = sent_back, turn.corrected
        if said and not corrects:  # words of a person who was not content are no request that wants to be a habit
            asked.append({"said": said, "ran": _ran(turn)})
            prompts.append(turn.prompt)
    if len(asked) > 1:
        yield MemoryCandidate(
            kind="case",
            text=f"{len(asked)} requests: {' → '.join(a['said'][-1] for a in asked[:_STEPS])}",
            evidence_refs=tuple(p.event_id for p in prompts[:_STEPS]),
            confidence=0.1,
            priority=1,
            risk="low",
            structured={"asked": asked},
            subject=SUBJECT,
            ts=prompts[0].ts,
        )


def _requests(ask: str) -> list[str]:
    """Return the sentences of a prompt that are short enough to return, with an ellipsis for addresses and numbers."""
    plain = (clean(_ADDRESS.sub(" … ", piece)).strip(" .!,:;-…") for piece in sentences(ask))
    return [p for p in plain if p and len(p.split()) <= _WORDS]


def _meant(said: str) -> frozenset[str]:
    """Return the words that say what is asked for; a pull request is one word, whatever it is called."""
    return terms(_PR.sub("pr", _IS.sub("", said))) - _ASKS


def _ran(turn: Turn) -> list[str]:
    return list(dict.fromkeys(typed(r.step) for r in turn.runs if r.passed and " " in r.step.subject and not dangers(r.command)))


def combine(rows: Sequence[StoredCandidate]) -> Iterator[StoredCandidate]:
    """Return the pairs of requests that at least three sessions of a repository made one after the other, as a procedure."""
    told = [(c, [[(_meant(s), s) for s in a["said"]] for a in c.body["asked"]]) for c in rows]
    often = Counter(key for _, asked in told for key in {words for some in asked for words, _ in some})
    keys = _by_rarest_word(key for key, times in often.items() if times > 1)
    pairs: dict[tuple[frozenset[str], frozenset[str]], dict[str, tuple[StoredCandidate, int, int]]] = defaultdict(dict)
    for c, asked in told:
        met = [{key for words, _ in some for word in words for key in keys.get(word, ()) if key <= words} for some in asked]
        for first, second in combinations(range(len(asked)), 2):
            for one in met[first]:
                for other in met[second] - met[first]:
                    if not one & other:
                        pairs[one, other].setdefault(c.candidate_id, (c, first, second))
    found = [(len(by), pair) for pair, by in pairs.items() if len(by) >= _LEAST]
    used: set[str] = set()
    for _, (one, other) in sorted(found, key=lambda f: (-f[0], sorted(f[1][0]), sorted(f[1][1]))):
        by = {name: where for name, where in pairs[one, other].items() if name not in used}
        if len(by) >= _LEAST:
            used |= by.keys()
            yield from _procedure(one, other, list(by.values()), {c.candidate_id: asked for c, asked in told})


def _by_rarest_word(keys: Iterable[frozenset[str]]) -> dict[str, list[frozenset[str]]]:
    """Return each set of words under the one of its words that fewest of the sets hold."""
    known = [key for key in keys if key]
    times = Counter(word for key in known for word in key)
    found: dict[str, list[frozenset[str]]] = defaultdict(list)
    for key in known:
        found[min(key, key=lambda word: (times[word], word))].append(key)
    return found


def _procedure(
    one: frozenset[str], other: frozenset[str], seen: Sequence[tuple[StoredCandidate, int, int]], asked: dict[str, list[Any]]
) -> Iterator[StoredCandidate]:
    sessions = len(seen)
    words = [
        Counter(s for c, *turn in seen for held, s in asked[c.candidate_id][turn[place]] if key <= held).most_common(1)[0][0]
        for place, key in ((0, one), (1, other))
    ]
    ran = [
        [
            command
            for command, times in Counter(r for c, *turn in seen for r in c.body["asked"][turn[place]]["ran"]).items()
            if times >= _HALF * sessions
        ][:_STEPS]
        for place in (0, 1)
    ]
    if len(words[0].split()) < _LEAST_SAID:
        return
    does = [f" ({listed(commands)})" if commands else "" for commands in ran]
    text = f"in {sessions} sessions the person asked “{words[0]}”{does[0]} and then “{words[1]}”{does[1]}"
    steps = [*(f"run `{c}`" for c in ran[0]), f"the person then asks: {words[1]}", *(f"run `{c}`" for c in ran[1])]
    subject = f"requests: {' '.join(sorted(one))}"
    body = {"subject": subject, "signature": f"{subject} then {' '.join(sorted(other))}", "steps": steps, "sessions": sessions}
    for c, *_ in seen:
        yield c._replace(
            kind="procedure",
            text=text,
            when_to_use=f"the person asks “{words[0]}”",
            structured=json.dumps(body, ensure_ascii=False, sort_keys=True),
            confidence=min(0.85, 0.4 + 0.1 * sessions),
            priority=3,
        )
