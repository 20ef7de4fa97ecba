"""Whether an order holds for later work or for this moment alone, and the words of people who type fast."""

from __future__ import annotations

import re
from functools import lru_cache

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_SHORT = {
    "u": "you",
    "ur": "your",
    "pls": "please",
    "plz": "please",
    "plase": "please",
    "pleas": "please",
    "msg": "message",
    "msgs": "messages",
    "dont": "don't",
    "doesnt": "doesn't",
    "didnt": "didn't",
    "thats": "that's",
    "cant": "can't",
    "shouldnt": "shouldn't",
    "mustnt": "mustn't",
    "w/o": "without",
    "bc": "because",
    "cuz": "because",
    "alwyas": "always",
    "allways": "always",
    "alway": "always",
    "alwasy": "always",
    "nver": "never",
    "nevr": "never",
    "neevr": "never",
    "insted": "instead",
    "whenver": "whenever",
    "befor": "before",
    "shoud": "should",
    "comit": "commit",
    "comits": "commits",
}
"""Short and mistyped forms of the words that rules are made of."""

_WORD = lazy_pattern(rf"(?i)(?<![\w./'-])(?:{'|'.join(map(re.escape, sorted(_SHORT, key=len, reverse=True)))})(?![\w/'-]|\.\w)")
_BY_THE_WAY = lazy_pattern(
    r"(?i)(?:[\s,]+(?:btw|by the way|ok|okay|thanks|thx|though))+\W*$|^(?:btw|by the way)\b[,:\s]*"
    r"|^(?:(?:can|could|would|will)\s+you|i\s+need\s+you\s+to)\s+(?=(?:please\s+|just\s+)*(?:always|never|stop|avoid|not"
    r"|don'?t)\s)(?!.*\?\W*$)"
)


def spelled_out(said: str) -> str:
    """Return a sentence with short and mistyped words in full, without what is said by the way."""
    return _BY_THE_WAY.sub("", _WORD.sub(lambda found: _SHORT[found[0].lower()], said.replace("\u2019", "'")))


_HERE = r"(?:(?:here\s+)?in|for|across|throughout)\s+(?:this|our|the(?:\s+whole)?)\s+(?:repo|repository|project|codebase|code\s+base)"
_LATER = (
    r"from\s+now\s+on|going\s+forward|in\s+(?:the\s+)?future"
    r"|(?:for\s+)?(?:the\s+)?next\s+time(?!\s+(?:(?:the|a|an|our)\s+)?(?:users?|customers?|clients?|visitors?|admins?|app|page|slots?|zone|step)\b)|for\s+(?:the\s+)?future(?:\s+reference)?|as\s+a\s+rule"
    r"|(?:new\s+)?rule(?=\s*:)"
)
EXPLICIT = lazy_pattern(
    rf"(?i)\b(?:{_LATER}|{_HERE})\b|^(?!.*\b(?:the|it|this|that|these|those|them)\s).*\s(?:everywhere|anywhere),?\s+please\W*$|,\s*ever\W*$"
    r"|\b(?:unless\s+(?:i|we)\s+(?:ask|say|tell|request|want)|unless\s+(?:asked|told|requested)|without\s+(?:asking|checking\s+with"
    r"|my\s+(?:ok|okay|approval|permission|consent)))\b"
    r"|^(?:whenever|every\s+time|each\s+time)\s+(?:you|we)\s|^(?:when|if)\s+you(?:'re)?\s.*\balways\b|\byou\s+(?:keep|always)\s+forget"
    r"|\b(?:files?|code)\s+you\s+(?:didn'?t|did\s+not)\s+(?:change|touch|edit|write)\b|\bin\s+(?:library|production|test|new|committed"
    r"|shared)\s+code\b|\b(?:one|\d+)\s+(?:[\w-]+\s+)?per\s+(?:file|commit|pr|test|module|function|branch)\b"
    r"|\b(?:in|for|across)\s+(?:all|every)\s+(?:(?!of\b)[\w.+-]+\s+){0,2}(?:docs|files?|tests?|modules?|commits?|prs?|scripts?|classes"
    r"|functions?|code)\b(?!\s+in\s+\S*/)"
    r"|\b(?:don'?t|do\s+not|never|only|always)\s+use\s+(?!(?:it|this|that|these|those|them)\s)[\w.-]+\s+here\b"
    r"|^(?:every|each|all)\s+new\s+(?:[\w-]+\s+)?(?:components?|endpoints?|routes?|features?|services?|scripts?|commands?|types?|modules?|files?|functions?)"
    r"\s+(?:gets?|needs?|must|has|have|should)\s"
)
"""Says in so many words that it holds later, or for the whole project."""

_WORKS = (
    r"use|run|re-?run|write|edit|touch|modify|hard-?code|commit|push|force|merge|squash|rebase|amend|check|verify|validate|ask|install|upgrade|create|refactor|rename"
    r"|read|import|export|declare|deploy|skip|ignore|disable|format|reformat|lint|test|mock|stub|document|comment|assume|guess|leave|start|finish|put|name"
    r"|prefix|answer|reply|respond|approve|review|apologi[sz]e|summari[sz]e|update|delete|remove|revert|add|change|bump|pin|explain"
    r"|prefer|follow|work|try|make\s+sure"
)
"""What somebody who works on code does; what a program does for its users ("always show the name") is no order about work."""

_ALWAYS = lazy_pattern(
    r"(?i)^(?:(?:and|but|also|so|ok|okay|no|please|remember|then)[,:!\s]+)*(?:(?:you|we)\s+(?:should|must|have\s+to|need\s+to)\s+|(?:please|make\s+sure\s+to|just)\s+)*"
    rf"(?:always|never(?:\s+ever)?)\s+(?:{_WORKS})\b"
    r"|\s(?:after|before)\s+(?:every|each)\s+\w+\W*$"
)
"""Orders with always or never, or at each return of a moment of work."""


@lru_cache(4096)
def ordered_for_ever(said: str) -> bool:
    """Tell whether a sentence orders something for all later work, whatever it is about."""
    return bool(EXPLICIT.search(said) or _ALWAYS.search(said))


_MARKS = lazy_pattern(
    r"(?i)\b(?:we|our|here|every|each|all|whenever|no\s+more|i\s+(?:always|never|prefer|hate|don'?t\s+want|do\s+not\s+want|told)"
    r"|you\s+(?:keep|always|never)|supposed\s+to|commit\s+messages?|unless|until|without\s+(?:asking|my|me))\b"
    r"|\b(?:before|after|when)\s+(?:you\s+|we\s+|i\s+)?(?:ever\s+)?[a-z]+(?:ing)?\b"
)
"""Words of one who speaks of all work, or of a moment of it that comes again."""

_PROPOSES = lazy_pattern(
    r"(?i)^(?:(?:ok|okay|no|yes|and|so|please|then|actually|but|remember(?:\s+that)?)[,:!\s]+)*(?:let'?s\b(?!.*\b(?:unless|until|without)\b)|i(?:'d|\s+would)\s+rather\b)"
)
"""Proposes something for the work at hand."""

_MOMENT = lazy_pattern(
    r"(?i)\b(?:the|a|an)\s+(?:first|second|third|last|other|old|new|existing|same|current|previous|latter|former)\b|\bcalled\b|(?<!`)\bjust\s|^only\b"
)
"""Words of one who speaks of the work at hand."""

_IN_PLACE_OF_THE = lazy_pattern(r"(?i)\bhere\s+(?:instead\s+of|rather\s+than|over|not)\s+the\s")
"""One thing at this place in place of a certain other one."""

_ONE_VERSION = lazy_pattern(r"(?i)^\W*(?:only\s+)?[a-z+]+\s?\d[\d.]*\+?(?:\s+only)?\b(?:\s+(?:on|in|for)\s.*)?\W*$")
"""Names a version and says neither whose it is nor why."""

_AMOUNTS = lazy_pattern(r"(?i)\b(?:instead\s+of|rather\s+than|over|not)\s+(?:the\s+)?\d[\d.,]*\s*(?:%|[a-z]{1,2}\b)?\W*$")
"""An amount in place of another one: a setting of the work at hand."""

_RUNS = lazy_pattern(
    r"(?i)\b(?:run|execute|start|launch)\s+(?:any\s+|the\s+)?(?:[\w-]+\s+)?(?:tests?|servers?|builds?|checks?|app|suite)\W*$"
)
_TAKES = lazy_pattern(r"(?i)(?:^|\s)(?:a|an|for\s+the)\s|(?<![\w.])\d+(?![\w.])")
_ONE_HERE = lazy_pattern(r"(?i)^(?:please\s+)?use\s+an?\s.*\s(?:instead\s+of|rather\s+than)\s+an?\s.*\shere\W*$")
_OVER_THE = lazy_pattern(
    r"(?i)\b(?:instead\s+of|rather\s+than|over|not|use)\s+the\s+.*\b(?:the|an?)\s|\b(?:instead\s+of|rather\s+than|over|not)\s+the\s"
)
_PLURAL = lazy_pattern(
    r"(?i)(?<![\w'-])(?!(?:always|this|its|docs|across|is|was|has|does|as|us|yes|class|pass|less)\b)[a-z-]{2,}[^\Ws]s(?![\w'-])"
)
_DEFINITE = lazy_pattern(
    r"(?i)\b(?:the|a|an|my|your|his|these|those|this|that|last|two|three|both)\s+(?:(?!(?:in|for|of|with|on|to|from|by)\s)[\w`.-]+\s+){0,2}?$"
)
_STANDS = lazy_pattern(
    r"(?i)\b(?:main|master|develop|production|prod|staging|lock\s?files?|generated|vendor|sudo|force|default\s+exports?|markdown|conventional|composition"
    r"|inheritance|(?:in\s+(?:typescript|javascript|python|rust|kotlin|java|c\+\+|golang))|emojis?|comments?|mock(?:ing|s)|docstrings?"
    r"|print|logger|tabs|quotes|semicolons?|imports?|type\s+hints?|global\s+state|hard-?code\w*)\b"
)
"""What stands in a repository for good, or is a way to write."""

_ACT = lazy_pattern(
    r"(?i)^(?:bitte\s+)?(?:keine?n?|pas\s+de|aucune?|sin|nada\s+de|sem|nessuna?|geen|без|不要)\s*(?:commits?|push\w*|merges?|rebas\w*|prs?|pull\s?requests?"
    r"|tests?|коммит\w*|пуш\w*|тест\w*|提交|推送|测试)\W*$"
)
"""Wants an act of the work left out, in another language: what is said of a moment."""


def of_the_work_at_hand(form: str, said: str, *, in_english: bool = True) -> bool:
    """Tell whether an order is about the work at hand: nothing in it says that it holds for more than this.

    Who speaks of what holds later says always or never, we, every, or before you commit, or speaks of things of a kind
    ("default exports"); who speaks of the moment names one thing ("the tests", "a dict") or nothing at all ("don't push").
    """
    if ordered_for_ever(said) or form == "where":
        return False
    if _ACT.search(said) or not in_english:
        return bool(_ACT.search(said))
    if form == "pair" and _IN_PLACE_OF_THE.search(said):
        return True
    if form == "pair" and (_ONE_HERE.search(said) or _AMOUNTS.search(said)):
        return True
    if _PROPOSES.match(said) or _MARKS.search(said):
        return bool(_PROPOSES.match(said))
    if _MOMENT.search(said) or _ONE_VERSION.match(said):
        return True
    if form == "pair":
        kinds = _of_a_kind(said)
        return bool(_OVER_THE.search(said) or (_TAKES.search(said) and not kinds) or re.search(r"(?i)\bfor\s+the\s", said))
    if form == "forbids":
        return bool(_RUNS.search(said)) or not (_STANDS.search(said) or _of_a_kind(said))
    if form == "place" and re.match(r"(?i)\W*(?:please\s+)?(?:put|keep|place|write)\s+(?:the|this|that|a|an)\s", said):
        return True
    return form == "demands" and bool(re.match(r"(?i)\W*(?:please\s+)?(?:keep|make\s+sure\s+that)\s+(?:the|this|your|my)\s", said))


def _of_a_kind(said: str) -> bool:
    """Tell whether things are named of which no certain ones are meant: "mocks", not "the mocks"."""
    return any(not _DEFINITE.search(said[max(0, found.start() - 60) : found.start()]) for found in _PLURAL.finditer(said))
