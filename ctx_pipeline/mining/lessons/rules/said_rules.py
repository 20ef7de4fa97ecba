"""Rules of work in a person's own words: what is wanted, what is not, and which two sayings mean the same or the opposite."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.mining.lessons.rules import rule_languages
from ctx_pipeline.mining.lessons.rules.order_scope import EXPLICIT, of_the_work_at_hand, ordered_for_ever, spelled_out
from ctx_pipeline.mining.lessons.rules.rule_forms import FORMS, HINT, OF_WORK, OPENS, TO, beginnings
from ctx_pipeline.mining.lessons.rules.unspaced_terms import SIGN, has_kana, unspaced_terms
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

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

PROGRAMS_OF_CHOICE = frozenset().union(*FAMILIES)
_PROGRAMS = PROGRAMS_OF_CHOICE | {"cargo", "mise", "git", "gh", "go", "node", "deno", "terraform", "helm", "tsc", "nix", "bazel"}

_OF_NOW = lazy_pattern(r"(?i)\b(?:this|that|these|those|it|them|now|again|above|below|one|yet|today|currently|for the moment)\b")
_REPO = lazy_pattern(
    r"(?i)\bkeep (?:it|this)\b|\b(?:in )?this (?:repo|project|repository|codebase)\b|\b(?:make sure|remember|so|important) that\b"
    r"|\bfrom now on\b"
    r"|\b(?:hate|stand|like) it (?=when\b|that\b)|\b(?:unless|if|when) (?:i|we) (?:ask|say|tell|request)\w*(?: you)?(?: (?:for"
    r"|to do))? (?:it|them|so|that)\b"
    r"|\bstop \w+ing those (?=\w+ ?\w*s\b)"
    r"|\b(?:this|it) is (?=an? [\w.+-]+ (?:project|repo|repository|codebase|monorepo)\b)"
    r"|\bthat it works\b|\bone (?=\w+ (?:\w+ )?per\b|line\b|sentence\b|paragraph\b)|\bit(?:'s| is) (?=(?:very |really )?important\b)"
    r"|\bthis machine\b|\b(?:a )?new one\b"
    r"|(?<=[a-z]s) that (?=(?:are|have|were|do|just|only|merely|you|we|\w+s?)\b)"
)
"""Words that only seem to point at something."""

_IT = lazy_pattern(r"(?i)\b(?:it|them)\b")
"""Points at what the same sentence named."""

_CHOOSES = lazy_pattern(
    rf"(?ix)^{OPENS}(?:i\ (?=prefer\b))?{TO}(?:(?:don'?t\ |do\ not\ |never\ )?use|prefer|stick\ (?:to|with)|switch\ to|go\ with|write)\b"
)
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
_FIRM = lazy_pattern(r"(?i)\b(?:always|never|from now on|going forward|in (?:the )?future|next time|as a rule|everywhere|every time)\b")
_NEGATES = lazy_pattern(r"(?i)\b(?:don'?t|do not|never|stop|avoid|not|no|without)\b")
_STOP_TEXT = """
    a against all also always an and any are as at avoid be but by do does don don't dont did for from go goes here i i'd if in instead into
    is it just keep let let's live lives make must need never no not of ok okay on only or our over please prefer put rather run should so
    stick stop sure switch than that the their then there this to under use uses used using want was we when with without write you your
    ever really want like project repo
"""
_STOP = frozenset(_STOP_TEXT.split())
_WORDS = (2, 32)
LONGEST = 400
"""Characters of a sentence that can be a rule: what is longer is pasted."""


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
    """Return the rule of work that a sentence lays down; None for one that lays down none.

    A sentence that tells or explains something beside an order ("don't mock it in tests, we got burned by that") is read
    by its parts: one of them must say by itself that it holds for later work.
    """
    said = sentence.strip(_AROUND)
    few = len(said.split()) < _WORDS[0] and not rule_languages.enough(said)
    if few or len(said) > LONGEST or len(said.split()) > _WORDS[1] or is_question(said):
        return None
    typed = spelled_out(said.rstrip("?"))
    if rule_languages.asks_or_tells(typed):
        return None
    meant = _laid_down_in(typed)
    if (meant is None or not (meant.of_work or meant.form == "pair")) and rule_languages.is_english(typed):
        meant = next(_in_parts(typed), meant)
    if meant is not None and is_port(meant.place) and _OF_ONE_CASE.search(typed):
        return None
    return meant and meant._replace(text=said, firm=meant.firm or is_firm(typed))


def is_port(place: str) -> bool:
    """Tell whether a place is a port, and no folder."""
    return _PORT.search(place) is not None


_PORT = lazy_pattern(r"^(?:the\s+)?port\s|:\d+$")
_OF_ONE_CASE = lazy_pattern(
    r"(?i)\b(?:chang(?:e|es|ed|ing)|mov(?:e|es|ed|ing)|switch|should|shall|must|needs?|want|wrong(?:ly)?|replac\w+"
    r"|staging|stage|prod|production|preview|live|remote\w*|cloud|machine|laptop|box|vm"
    r"|containers?|dockers?|docker-compose|compose|kubernetes|k8s|cluster|pods?|ci|pipelines?"
    r"|only|while|when|whenever|if|unless|until|before|after|during|old|legacy|was|were|used to|previous(?:ly)?|formerly"
    r"|temporar\w+|for now|today|currently|at the moment|sometimes|usually)\b"
)
"""Says that a port is another one elsewhere or later."""


def _in_parts(said: str) -> Iterator[Rule]:
    """Yield the rules of the parts of a sentence that say by themselves that they hold for later work."""
    parts = [part.strip(_AROUND) for part in _PARTS.split(said)]
    if len(parts) < _WORDS[0] or _TELLS.search(said):
        return
    for part in parts:
        meant = _laid_down_in(part, beside=True) if len(part.split()) >= _WORDS[0] else None
        if meant is None or (_chooses_a_program(meant) and _OF_A_PART.search(said)):
            continue
        if meant.of_work and (EXPLICIT.search(said) or stands_alone(meant)):
            yield meant


_OF_A_PART = lazy_pattern(
    r"(?i)\b(?:the\s+other\s+(?:one|project|repo|app|package|half|part|service)|the\s+others\s+(?:use|are|with)|except|elsewhere)"
    r"|\b(?:don'?t|do\s+not|never|stop|not)\s+(?:use|using)\s+[\w.-]+\s+(?:for|in)\s+(?!(?:this|that|it|everything|anything|all|now|here|install\w*|packages?|dependenc\w+"
    r"|(?:our|my|the)\s+(?:repo|repository|project|codebase|future))\b)"
)
"""Says that another program is used elsewhere, or that this one is for a part of the work."""


def is_question(said: str) -> bool:
    """Tell whether a saying asks something: "could you please always …?" orders it."""
    return said.endswith(("?", "\uff1f")) and not _POLITE.match(said)


_POLITE = lazy_pattern(
    rf"(?ix)^{OPENS}(?:can|could|would|will)\s+(?:you|u)\s+(?:(?:please|pls|plz)\s+(?:always|never|stop|make\s+sure)|(?:always|never|stop|make\s+sure)\s(?=.*,?\s(?:please|pls|plz)\W*$))"
)
"""Begins an order in the form of a question."""

_AROUND = " -*\u2022.;,\"'!()\u3002\uff01"
_PARTS = lazy_pattern(
    r"(?i)[,;]\s+|(?<=[ ]this):\s+|(?<=thing):\s+|(?<=future):\s+|(?<=[ ]rule):\s+|(?<=remember):\s+|(?<=[ ]time):\s+"
    r"|\s+[-\u2013\u2014]+\s+"
    r"|\s+(?=(?:because|since|so\s+that|as\s+we)\s)|\s+and\s+(?=(?:always|never|don'?t|do\s+not)\s)"
)
"""Parts a sentence where an order can end and its reason begin."""


_TELLS = lazy_pattern(
    r"(?i)^(?:that|this(?!\s+(?:project|repo|repository|codebase)\b)|it|he|she|they|there|these|those|which|because|since)\b|\bso\s+(?:\w+\s+){1,6}(?:can|may|could|would)\s"
)
"""Tells or explains something, and orders nothing in any of its parts."""


def _laid_down_in(said: str, *, beside: bool = False) -> Rule | None:
    """Return the rule of a sentence, in English or another language; ``beside`` a part of one, whose "it" the other part names."""
    if beside and rule_languages.asks_or_tells(said):
        return None
    meant = _in_form(said, beside=beside) if HINT.search(said) else None
    if meant is not None and (meant.form == "pair" or meant.place):
        return meant
    other = rule_languages.found_in(said, FAMILIES)
    if other is None or (meant is not None and other.form != "pair") or _OF_A_PART.search(said):
        return meant
    want, avoid = terms(other.want), terms(other.avoid)
    return Rule(other.form, said, want, avoid, other.firm or is_firm(said), of_work=True, everywhere=bool(_EVERYWHERE.search(said)))


def _in_form(said: str, *, beside: bool) -> Rule | None:
    """Return the rule of the first form that a sentence fits."""
    places = beginnings(said)
    for form, pattern in FORMS:
        for place in places:
            found = pattern.match(said, place)
            if found is not None:
                meant = _meant(said, form, found.groupdict(), beside=beside)
                if meant is not None:
                    return meant
                break
    return None


def _meant(said: str, form: str, parts: dict[str, str | None], *, beside: bool = False) -> Rule | None:
    """Return the rule of a sentence of a form; None where its words are no rule."""
    want, avoid = terms(parts.get("want") or ""), terms(parts.get("avoid") or parts.get("stops") or "")
    if not (want or avoid) or (form in ("uses", "please") and not _named(said, want, form)):
        return None
    if form == "moved" and not any(want & family and avoid & family for family in FAMILIES):
        return None
    about, place = terms(parts.get("what") or ""), ""
    if about - _NOBODYS:
        place = (parts["want"] or "").strip(".,;:()`'\"").removeprefix("./").rstrip("/")
        want |= about
    elif form == "where":
        return None
    if form == "pair" and (not want or not avoid or (avoid & PROGRAMS_OF_CHOICE and _OF_A_PART.search(said))):
        return None
    bare = _REPO.sub("", said)
    tools = bool((want | avoid) & _PROGRAMS)
    chooses = form in ("pair", "moved") and bool(_CHOOSES.match(said))
    for_ever = _for_ever(said)
    of_work = not _OF_PRODUCT.match(said) and (tools or chooses or bool(place) or for_ever or bool(OF_WORK.search(said)))
    bare = _IT.sub("", bare) if beside or for_ever else bare
    of_work = of_work and (form in ("where", "moved") or not _OF_NOW.search(bare))
    form = "pair" if form == "moved" else form
    firm, everywhere = is_firm(said), bool(_EVERYWHERE.search(said))
    return Rule(form, said, want - avoid, avoid, firm, of_work, everywhere, about if place else frozenset(), place)


def _named(said: str, want: frozenset[str], form: str) -> bool:
    """Tell whether a short saying is about a tool or a way of working, and not a request of this moment."""
    if form == "please" and _STEERS.match(_OPENING.sub("", said)):
        return False
    return bool(want & _PROGRAMS) or bool(OF_WORK.search(said))


_OF_PRODUCT = lazy_pattern(
    rf"(?ix)^{OPENS}{TO}(?:always|never|only|don'?t|do\ not)\s+(?:ever\s+)?(?:show|display|render|hide|send|charge|notify|redirect"
    rf"|allow|let|block|play|scroll|animate"
    r"|highlight|email|expose|grant|accept|reject|suggest|recommend|offer)\s+(?!(?:me|us)\b)"
    r"|.*\b(?:is|are|be|stays?)\s+(?:\w+\s+)?(?:shown|drawn|displayed|rendered|visible|hidden|clickable|centered|highlighted)\b"
)
"""Orders what a program does for its users: an agent that works on it does none of it itself."""

_TYPE = frozenset({"any"})
"""A type whose name is a word as well: alone it is what is meant."""


@lru_cache(16_384)  # as of one word: each merging asks for the same sentences
def terms(text: str) -> frozenset[str]:
    """Return the words that say what a rule is about, plurals as singulars."""
    said = re.findall(r"[\w./@'-]+", text.lower())
    if not text.isascii() and SIGN.search(text):
        japanese = has_kana(text)
        said = [word for token in said for word in (unspaced_terms(token, japanese=japanese) if SIGN.search(token) else (token,))]
    return frozenset(filter(None, map(_term, said))) or frozenset(_TYPE & {text.strip(" `'\"").lower()})


@lru_cache(16_384)  # people say the same words again and again
def _term(said: str) -> str:
    """Return what a word says of a rule, empty where it says nothing."""
    word = said.strip(".,!:;()'\"`").rstrip("/").removeprefix("./")
    return _stem(word) if word and word not in _STOP else ""


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 6 and word.endswith("ing"):
        stem = word[:-3]
        return stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "aeiouslz" else stem
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


@lru_cache(1_024)  # the same rules are held against every command
def core(said: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a saying wants or forbids, and what it limits that to: "squash" and "release" of "never squash on release"."""
    head = _LIMITS.split(_OPENING.sub("", _FROM_NOW_ON.sub("", said.replace("\u2019", "'"))), maxsplit=1)
    rest = _REASONS.split(head[1], maxsplit=1)[0] if len(head) > 1 else ""
    return terms(_REASONS.split(head[0], maxsplit=1)[0]), terms(rest)


def _takes_back(wants: Rule, forbids: Rule) -> bool:
    """Tell whether a rule wants just what another forbids, in other words and without a limit of its own."""
    if not wants.want or wants.avoid or not forbids.avoid or forbids.want:
        return False
    (wanted, when), (forbidden, where) = core(wants.text), core(forbids.text)
    common = (wanted & forbidden) - OBJECTS
    return bool(common) and (wanted ^ forbidden) | where | when <= common | OBJECTS


def akin(one: str, other: str) -> bool:
    """Tell whether two words are forms of one: "config" and "configuration"."""
    least = _LEAST_AKIN if one.isascii() else _LEAST_AKIN_SIGNS
    return one == other or (min(len(one), len(other)) >= least and (one.startswith(other) or other.startswith(one)))


def _tools(words: frozenset[str]) -> frozenset[str]:
    return words & _PROGRAMS


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


_LEAST_PLURAL, _LEAST_AKIN, _LEAST_AKIN_SIGNS = 3, 4, 2
OBJECTS = frozenset(
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

_FROM_NOW_ON = lazy_pattern(r"(?i)[,\s]*\b(?:from now on|in (?:the )?future|every time|here|any ?more|any longer)\b")
_OPENING = lazy_pattern(rf"(?ix)^{OPENS}{TO}")
_LIMITS = lazy_pattern(
    r"(?i)\s(?=(?:in|on|to|into|with|from|for|at|by|under|against|when|whenever|while|if|unless|until|before|after|except|during|without)\s)"
)
_REASONS = lazy_pattern(r"(?i)\s*[,;:(]|\s[-\u2013\u2014]+\s|\s(?=(?:because|since|so|as we|it|they)\s)|[.!?](?:\s|$)")

_ALIKE = 0.6
"""Share of common words from which two sayings are one rule."""


_NOW = lazy_pattern(
    r"(?i)\b(?:yet|for now|right now|this time|today|at the moment|worry|forget|mind|know|understand|think|believe|care|bother)\b"
    r"|\b(?:in|for|with)\s+this\s+(?:prs?|mr|pull\s+request|merge\s+request|commit|branch|change|session|task|issue|ticket|sprint|round)\b"
    r"|\bfor\s+later\b"
    r"|\b(?:can|could|would|will)\s+(?:you|u)\s+(?:(?:please|pls|plz|just)\s+)*stop\b(?!\s+\w+ing\s+(?!(?:the|this|that|these|those|it|my|your|now)\b))"
    r"(?!.*\b(?:always|every|each|all\s+the\s+time)\b)"
)
_ASKS = lazy_pattern(
    r"(?i)\b(?:keep|always) forget\w* to\b|\b(?:let me know|tell me|ask me|check with me)\b.*\bbefore\b|\b(?:don'?t|do not"
    r"|never) forget to\b.*\b(?:every|each|always|before|after|whenever)\b"
)
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

    A wish for one thing ("draft PR please"), an order about the work at hand ("don't push"), an answer without
    a verb ("not as a comment, but as a document") and what is asked of one file do not.
    """
    english = rule_languages.is_english(meant.text) or _in_form(meant.text, beside=True) is not None
    if _chooses_a_program(meant) or _for_ever(spelled_out(meant.text)):
        return True
    if meant.form == "please":
        last = re.sub(r"(?i)\W*please\W*$", "", meant.text).rsplit(" ", 1)[-1]
        return _stem(last.lower()) != last.lower()
    if meant.firm:
        return True
    if _OF_CHAT.search(meant.text) or (meant.form != "where" and _ONE_FILE.search(meant.text)):
        return False
    return not of_the_work_at_hand(meant.form, spelled_out(meant.text), in_english=english)


def _for_ever(said: str) -> bool:
    """Tell whether a sentence orders something for all later work, and does not specify what the product is to do or to look like."""
    specifies = _SUBJECT.match(said)
    return ordered_for_ever(said) and (specifies is None or bool(OF_WORK.search(specifies[1]) or _OF_CODE.search(specifies[1])))


_SUBJECT = lazy_pattern(
    r"(?i)^(?:(?:in|for)\s+(?:this|our|the)\s+(?:repo|repository|project|codebase)[,:]?\s+)?((?:the|an?|every|each|all|any|our|my"
    r"|its)\s+(?:[\w-]+\s+){1,5}?)"
    r"(?:must|should|shall|can|may|needs?|has|have|is|are|always|never)\b"
)
_OF_CODE = lazy_pattern(
    r"(?i)\b(?:code|functions?|methods?|class(?:es)?|components?|modules?|files?|imports?|exports?|endpoints?|routes?|features?"
    r"|services?|scripts?|commands?|types?"
    r"|secrets?|packages?|helpers?|hooks?|changes?|bugs?|fix(?:es)?|errors?|exceptions?|names?|variables?|strings?|dates?|quer(?:y"
    r"|ies)|tables?|columns?)\s"
)
"""What people who write code lay down rules for; a button, a header, a user or an order is what the product is about."""


def _chooses_a_program(meant: Rule) -> bool:
    """Tell whether a rule says which program of a family a project uses, or does not use."""
    named = any((meant.want | meant.avoid) & family for family in FAMILIES)
    return named and (meant.form in ("pair", "uses", "please") or bool(_USES_NONE.search(meant.text)))


_USES_NONE = lazy_pattern(r"(?i)\b(?:use|using|used)\b")
_OF_CHAT = lazy_pattern(rf"(?ix)^{OPENS}(?:let'?s\s+)?not\s")
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
