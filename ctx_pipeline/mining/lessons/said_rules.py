"""Rules of work in a person's own words: what is wanted, what is not, and which two sayings mean the same or the opposite."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

FAMILIES = (
    frozenset({"npm", "pnpm", "yarn", "bun"}),
    frozenset({"pip", "uv", "poetry", "pipenv", "pdm", "conda"}),
    frozenset({"black", "ruff", "yapf", "autopep8"}),
    frozenset({"prettier", "biome", "dprint"}),
    frozenset({"eslint", "oxlint"}),
    frozenset({"flake8", "pylint"}),
    frozenset({"mypy", "pyright", "ty", "pyre"}),
    frozenset({"jest", "vitest", "mocha", "ava"}),
    frozenset({"pytest", "unittest", "nose"}),
    frozenset({"docker", "podman", "nerdctl"}),
    frozenset({"make", "just", "task"}),
    frozenset({"grep", "rg", "ag"}),
)
"""Programs of which a project uses one: to want another is to want this one no longer."""

_PROGRAMS = frozenset().union(*FAMILIES) | {"cargo", "mise", "git", "gh", "go", "node", "deno", "terraform", "helm", "tsc", "nix", "bazel"}

_OPENS = (
    r"(?:(?:no|nope|ok|okay|alright|yes|yeah|yep|so|well|please|also|and|but|remember(?:\ that)?|again|wait|hey|actually|instead|then"
    r"|i\ think|i\ mean|as\ i\ said|like\ i\ said|i\ said|i\ told\ you(?:\ to)?|one\ more\ thing"
    r"|from\ now\ on|in\ (?:the\ )?future|btw|note|fyi|to\ be\ clear|important|reminder)"
    r"[,:!.\s]+)*"
)
_TO = r"(?:(?:please|you\ should|you\ must|we\ should|we\ must|let'?s|make\ sure\ (?:to|you|that\ you|we)|be\ sure\ to|try\ to|just)\s+)*"

_WHO = r"(?:we|i|this\ (?:repo|project)|the\ team)"
_HERE = r"(?:here|everywhere|in\ this\ (?:repo|project)|from\ now\ on|please|for\ \w+(?:\ \w+)?)"
_KINDS = (
    r"(?:the\ |our\ |new\ |unit\ |working\ )*(?P<what>tests?|specs?|docs?|documentation|fixtures?|migrations?|scripts?|types|components"
    r"|snapshots)"
)
_NAME = r"[\w.@/-]+"
_PATH = r"`?(?:\.{0,2}/)?(?:[\w.@-]+/)+[\w.@-]*`?"
"""A folder or file with a slash: what lies elsewhere is no place in a project."""

_PATTERNS = tuple(
    (name, lazy_pattern(rf"(?ix)^{_OPENS}{pattern}$"))
    for name, pattern in (
        (
            "pair",
            (
                rf"{_TO}(?:use|using|prefer|run|call|go\ with|stick\ (?:to|with)|switch\ to|write|want|take)\s+(?P<want>[^,;]+?),?\s+"
                r"(?:instead\ of|rather\ than|and\ not|not|over|never)\s+(?:to\ )?(?:use\s+|using\s+)?(?P<avoid>.+?)"
            ),
        ),
        (
            "pair",
            rf"{_WHO}\s+uses?\s+(?P<want>[^,;]+?),?\s+(?:instead\ of|rather\ than|and\ not|not)\s+(?P<avoid>.+?)",
        ),
        (
            "pair",
            (
                r"(?:we|i)(?:'d|\ would)?\s+(?:rather|prefer)\s+(?:to\ )?(?P<want>.+?)\s+(?:rather\ than|than|over|to|instead\ of)\s+"
                r"(?P<avoid>.+?)"
            ),
        ),
        ("pair", rf"(?P<want>{_NAME}(?:\s+{_NAME})?)\s*,?\s+please\s*[,;:]\s*(?:and\s+)?not\s+(?P<avoid>[\w.@/ -]+?)"),
        ("pair", rf"(?:please\s+)?(?P<want>{_NAME})\s*,\s*not\s+(?P<avoid>{_NAME})(?:\s*,?\s*please)?"),
        (
            "pair",
            (
                rf"{_TO}(?:don'?t|do\ not|never|stop|no)\s+(?:use\ |using\ )?(?P<avoid>{_NAME})\s*[,;:(-]+\s*(?:but\s+)?(?:please\s+)?"
                rf"use\s+(?P<want>{_NAME})\)?"
            ),
        ),
        ("pair", r"not\s+(?P<avoid>.+?),?\s+but\s+(?P<want>.+?)"),
        (
            "pair",
            (
                r".*?\b(?:i'?d\ like|i\ (?:want|would\ like)|we\ want)\s+(?:to\ (?:see|have|use)\s+)?(?P<want>.+?)\s+"
                r"(?:instead\ of|rather\ than)\s+(?P<avoid>.+?)"
            ),
        ),
        ("uses", rf"(?:in\ this\ (?:repo|project)[,\s]+)?{_WHO}\s+(?:always\ |only\ )?uses?\s+(?P<want>[^,;]+?)(?:\s+{_HERE})*"),
        ("uses", rf"{_TO}(?:always\ |only\ )?(?:use|switch\ to|stick\ (?:to|with))\s+(?P<want>{_NAME})(?:\s+{_HERE})*"),
        (
            "place",
            rf"{_KINDS}\s+(?:always\s+)?(?:go(?:es)?|lives?|belongs?|should\ (?:go|live|be))\s+(?:in|into|to|under|on)\s+(?P<want>\S+).*",
        ),
        ("place", rf"{_TO}(?:put|keep|place|write)\s+{_KINDS}\s+(?:in|into|to|under|on)\s+(?P<want>\S+).*"),
        (
            "where",
            (
                r"(?:the\ |our\ |all\ )?(?P<what>[\w-]+(?:\ [\w-]+){0,3}?)"
                r"(?:'s|\s+(?:is|are|lives?|sits?|(?:is|are)\ (?:located|kept|stored|found)))"
                rf"\s+(?:all\ )?(?:in|inside|under|at|below)\s+(?:the\ )?(?P<want>{_PATH})(?:\s+(?:folder|directory|dir))?(?:[\s,;(].*)?"
            ),
        ),
        ("please", rf"(?P<want>(?:{_NAME}\s+){{0,3}}{_NAME})\s*,?\s+please"),
        (
            "forbids",
            rf"{_TO}(?:(?:don'?t|do\ not|never|not)\s+(?:ever\ )?(?P<avoid>\w.*)|(?:avoid|stop)\s+(?P<stops>\w.*))",
        ),
        (
            "forbids",
            (
                r"(?:we|i)\s+(?:really\ |explicitly\ |generally\ |usually\ )?(?:don'?t|do\ not|never)\s+(?:want|use|do|have|like)\s+"
                r"(?P<avoid>\w.*)"
            ),
        ),
        ("forbids", r"(?:no\ more|without)\s+(?P<avoid>[\w/-]+(?:\ [\w/-]+){0,4})"),
        ("demands", rf"{_TO}(?:always|only)\s+(?P<want>\w+\s+.*)"),
        ("demands", r".*?\bmake\ sure\ that\ (?P<want>.+)"),
        ("demands", rf"{_TO}(?P<want>keep\s+.+)"),
        ("demands", r"(?:we|i)\s+(?:always|prefer)\s+(?P<want>.*)"),
        ("demands", r".*?\b(?P<want>(?:let\ me\ know|tell\ me|ask\ me|check\ with\ me)\b.*\bbefore\b.+)"),
    )
)
_HINT = lazy_pattern(
    r"(?i)\b(?:use|uses|using|prefer|rather|instead|not|don'?t|never|always|only|avoid|stop|keep|please|make sure|belongs?|lives?|goes|go"
    r"|put|want|before|without|no more|switch|stick)\b"
    r"|(?:\b(?:is|are|sits?|located|kept|stored|found)|'s)\s+(?:all )?(?:in|inside|under|at|below)\s"
)
_OF_NOW = lazy_pattern(r"(?i)\b(?:this|that|these|those|it|them|now|again|above|below|one|yet|today|currently|for the moment)\b")
_REPO = lazy_pattern(
    r"(?i)\bkeep (?:it|this)\b|\b(?:in )?this (?:repo|project|repository|codebase)\b|\b(?:make sure|remember|so) that\b|\bfrom now on\b"
)
"""Words that only seem to point at something."""
_OF_WORK = lazy_pattern(
    r"(?i)(?<![\w-])(?:prs?|pull requests?|merge requests?|commits?|committed|committing|push(?:es|ed|ing)?|merg(?:e|es|ed|ing)"
    r"|rebas(?:e|es|ed|ing)|squash(?:es|ed|ing)?|amend|branch(?:es)?|main|master|upstream|worktrees?|tests?|testing|specs?|lint(?:er|ing|s)?|format(?:ter|ting)?"
    r"|type check(?:er)?|changelog|docs|documentation|comments?|docstrings?|sudo|emojis?|mocks?|stubs?|fixtures?|snapshots?|migrations?"
    r"|dependenc(?:y|ies)|containers?|release|staging|production|hooks?|tabs|spaces|linear|jira|notion)(?![\w-])"
)
"""What of the work a rule can be about that holds in the next session too: a program's own behavior is no rule of work."""

_CHOOSES = lazy_pattern(rf"(?ix)^{_OPENS}{_TO}(?:use|prefer|stick\ (?:to|with)|switch\ to|go\ with|write)\b")
"""Begins an order to do one thing and not another, whatever they are."""

_STEERS = lazy_pattern(
    r"(?i)^(?:yes|no|ok|okay|commit|push|continue|proceed|go|merge|rebase|fix|run|try|do|add|remove|delete|explain|show|check|help|wait|stop|revert"
    r"|undo|retry|summari[sz]e|review|update|make|create|open|write|read|look|test|build|deploy|finish|start|redo|rename|move|clean|tell|give"
    r"|sure|thanks|both|all|can|could|would|will|what|why|how|one|yep|approve|implement)\b"
)
"""Begins a request for this moment."""

_NOBODYS = frozenset(
    {"this", "that", "these", "those", "they", "he", "she", "work", "pwd", "error", "bug", "problem", "issue", "one", "same"}
)
"""Words that name nothing whose place would be known in the next session."""

_EVERYWHERE = lazy_pattern(
    r"(?i)\b(?:everywhere|in (?:all|every|any) (?:my |of my |our )?(?:projects?|repos?|repositories)|on all my machines)\b"
)
_FIRM = lazy_pattern(r"(?i)\b(?:always|never|from now on|in (?:the )?future|everywhere|every time)\b")
_NEGATES = lazy_pattern(r"(?i)\b(?:don'?t|do not|never|stop|avoid|not|no more|without)\b")
_STOP_TEXT = """
    a against all also always an and any are as at avoid be but by do does don don't dont did for from go goes here i i'd if in instead into
    is it just keep let let's live lives make must need never no not of ok okay on only or our over please prefer put rather run should so
    stick stop sure switch than that the their then there this to under use uses used using want was we when with without write you your
    ever really want like project repo
"""
_STOP = frozenset(_STOP_TEXT.split())
_WORDS = (2, 32)


class Rule(NamedTuple):
    """One rule: ``want`` and ``avoid`` are the terms it is about, as sets of small stems."""

    form: str
    """pair, uses, place, please, forbids or demands"""
    text: str
    want: frozenset[str]
    avoid: frozenset[str]
    firm: bool
    """it says always or never"""
    of_work: bool
    """it is about tools, tests, commits or the like, and names nothing that only this session knows"""
    everywhere: bool
    about: frozenset[str] = frozenset()
    """what belongs or lies at ``place``"""
    place: str = ""
    """a folder or file, without a slash at its end"""


def rule(sentence: str) -> Rule | None:
    """Return the rule of work that a sentence lays down; None for one that lays down none."""
    said = sentence.strip(" -*•.;,\"'!()")
    if not _WORDS[0] <= len(said.split()) <= _WORDS[1] or said.endswith("?") or not _HINT.search(said):
        return None
    for form, pattern in _PATTERNS:
        found = pattern.match(said)
        if found is None:
            continue
        parts = found.groupdict()
        want, avoid = terms(parts.get("want") or ""), terms(parts.get("avoid") or parts.get("stops") or "")
        if not (want or avoid) or (form in ("uses", "please") and not _named(said, want, form)):
            continue
        about, place = terms(parts.get("what") or ""), ""
        if about - _NOBODYS:
            place = parts["want"].strip(".,;:()`'\"").removeprefix("./").rstrip("/")
            want |= about
        elif form == "where":
            continue
        if form == "pair" and (not want or not avoid):
            continue
        bare = _REPO.sub("", said)
        tools = bool((want | avoid) & _PROGRAMS)
        chooses = form == "pair" and bool(_CHOOSES.match(said))
        of_work = (tools or chooses or bool(place) or bool(_OF_WORK.search(said))) and (form == "where" or not _OF_NOW.search(bare))
        firm, everywhere = is_firm(said), bool(_EVERYWHERE.search(said))
        return Rule(form, said, want - avoid, avoid, firm, of_work, everywhere, about if place else frozenset(), place)
    return None


def _named(said: str, want: frozenset[str], form: str) -> bool:
    """Tell whether a short saying is about a tool or a way of working, and not a request of this moment."""
    if form == "please" and _STEERS.match(_OPENING.sub("", said)):
        return False
    return bool(want & _PROGRAMS) or bool(_OF_WORK.search(said))


def terms(text: str) -> frozenset[str]:
    """Return the words that say what a rule is about, plurals as singulars."""
    return frozenset(filter(None, map(_term, re.findall(r"[\w./@'-]+", text.lower()))))


@lru_cache(16_384)  # people say the same words again and again
def _term(said: str) -> str:
    """Return what a word says of a rule, empty where it says nothing."""
    word = said.strip(".,!:;()'\"`").rstrip("/").removeprefix("./")
    return _stem(word) if word and word not in _STOP else ""


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 6 and word.endswith("ing"):
        return word[:-3]
    plural = len(word) > _LEAST_PLURAL and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if plural or word in ("prs", "mrs") else word


def is_firm(said: str) -> bool:
    """Tell whether a saying says always or never, or that it holds from now on."""
    return bool(_FIRM.search(said))


def negates(said: str) -> bool:
    """Tell whether a saying forbids something."""
    return bool(_NEGATES.search(said))


def same(one: Rule, other: Rule) -> bool:
    """Tell whether two rules mean the same: they want the same tool, or have most of their words and their polarity in common."""
    if _tools(one.want) and _tools(one.want) == _tools(other.want):
        return True
    if one.place and one.place == other.place:
        return any(akin(a, b) for a in one.about for b in other.about)
    if bool(one.want) != bool(other.want) or contradict(one, other):
        return False
    return _overlap(one.want | one.avoid, other.want | other.avoid) >= _ALIKE


def contradict(one: Rule, other: Rule) -> bool:
    """Tell whether two rules cannot both hold: one wants what the other avoids, or another program of the same family."""
    mine, theirs = _tools(one.want), _tools(other.want)
    rivals = any(mine & f and theirs & f for f in FAMILIES) and mine != theirs and not mine & theirs
    crossed = any(a and b and _overlap(a, b) >= _ALIKE for a, b in ((one.want, other.avoid), (one.avoid, other.want)))
    moved = bool(one.place and other.place) and one.place != other.place and bool(one.about & other.about)
    return rivals or crossed or moved or any(_takes_back(a, b) for a, b in ((one, other), (other, one)))


def core(said: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a saying wants or forbids, and what it limits that to: "squash" and "release" of "never squash on release"."""
    head = _LIMITS.split(_OPENING.sub("", _FROM_NOW_ON.sub("", said)), maxsplit=1)
    rest = _REASONS.split(head[1], maxsplit=1)[0] if len(head) > 1 else ""
    return terms(_REASONS.split(head[0], maxsplit=1)[0]), terms(rest)


def _takes_back(wants: Rule, forbids: Rule) -> bool:
    """Tell whether a rule wants just what another forbids, in other words and without a limit of its own."""
    if not wants.want or wants.avoid or not forbids.avoid or forbids.want:
        return False
    (wanted, when), (forbidden, where) = core(wants.text), core(forbids.text)
    common = (wanted & forbidden) - _OBJECTS
    return bool(common) and (wanted ^ forbidden) | where | when <= common | _OBJECTS


def akin(one: str, other: str) -> bool:
    """Tell whether two words are forms of one: "config" and "configuration"."""
    return one == other or (min(len(one), len(other)) >= _LEAST_AKIN and (one.startswith(other) or other.startswith(one)))


def _tools(words: frozenset[str]) -> frozenset[str]:
    return words & _PROGRAMS


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


_LEAST_PLURAL, _LEAST_AKIN = 3, 4
_OBJECTS = frozenset(
    [
        "pr",
        "pull",
        "request",
        "merge",
        "branch",
        "commit",
        "main",
        "master",
        "repo",
        "code",
        "change",
        "file",
        "every",
        "each",
        "new",
        "git",
    ]
)
"""What most of the work is about: a rule is not another one for naming it."""

_FROM_NOW_ON = lazy_pattern(r"(?i)[,\s]*\b(?:from now on|in (?:the )?future|every time|here)\b")
_OPENING = lazy_pattern(rf"(?ix)^{_OPENS}{_TO}")
_LIMITS = lazy_pattern(
    r"(?i)\s(?=(?:in|on|to|into|with|from|for|at|by|under|against|when|whenever|while|if|unless|until|before|after|except|during|without)\s)"
)
_REASONS = lazy_pattern(r"(?i)\s*[,;:(]|\s[-\u2013\u2014]+\s|\s(?=(?:because|since|so|as we|it|they)\s)|[.!?](?:\s|$)")

_ALIKE = 0.6
"""Share of common words from which two sayings are one rule."""


_NOW = lazy_pattern(
    r"(?i)\b(?:yet|for now|right now|this time|today|at the moment|worry|forget|mind|know|understand|think|believe|care|bother)\b"
)
_ASKS = lazy_pattern(r"(?i)\b(?:let me know|tell me|ask me|check with me)\b.*\bbefore\b")
_BETWEEN = lazy_pattern(
    r"(?<=[.!?;])\s+|\n+|\s{1,40}-{1,2}\s+|\s{1,40}but\s+(?=make\s+sure\b)|\s{0,40}\((?=no\s)"
    r"|\s{1,40}(?:and\s{1,40})?while\s+(?=keeping\s+(?:it|this|everything)\b)|(?<=\w|\)),?\s+(?=(?:and\s+)?remember\s+that\b)"
)
_KEEPS = lazy_pattern(r"(?i)^keeping\s+(?:it|this|everything)\s+[^,;]+")


def sentences(text: str) -> list[str]:
    """Return the pieces of a prompt of which each can be a rule."""
    pieces = (piece for piece in _BETWEEN.split(text) if piece)
    return [f"keep{kept[0].removeprefix('keeping')}" if (kept := _KEEPS.match(piece)) else piece for piece in pieces]


def of_now(said: str) -> bool:
    """Tell whether a saying is about this moment, or about what somebody thinks."""
    return bool(_NOW.search(said)) and not _ASKS.search(said)


def stands_alone(meant: Rule) -> bool:
    """Tell whether a rule that was said once says to who was not there what holds for later work.

    A wish for one thing ("draft PR please"), "let's not" of the moment, an answer without
    a verb ("not as a comment, but as a document") and what is asked of one file do not.
    """
    if meant.firm or _tools(meant.want | meant.avoid):
        return True
    if meant.form == "please":
        last = re.sub(r"(?i)\W*please\W*$", "", meant.text).rsplit(" ", 1)[-1]
        return _stem(last.lower()) != last.lower()
    return not _OF_CHAT.search(meant.text) and (bool(meant.place) or not _ONE_FILE.search(meant.text))


_OF_CHAT = lazy_pattern(rf"(?ix)^{_OPENS}(?:let'?s\s+)?not\s")
_ONE_FILE = lazy_pattern(r"(?<![\w.@/-])[\w.@-]*/[\w./@-]*\w\.[A-Za-z]\w{0,4}\b")


def rivals(words: frozenset[str]) -> frozenset[str]:
    """Return the programs of which a project that wants these uses none."""
    return frozenset().union(*(f for f in FAMILIES if words & f)) - words


def replaced(meant: Rule) -> frozenset[str]:
    """Return the programs that a rule wants another one for: those it names, else the others of the family."""
    named = _tools(meant.avoid)
    if not _tools(meant.want):
        return frozenset()
    return (named | rivals(meant.want)) - meant.want if named else rivals(meant.want)
