"""Inflected forms and synonyms of an English word: what a question in other words than the text's is looked for as well."""

from __future__ import annotations

from ctx_pipeline.model.vocabulary.irregular_words import GROUPS
from ctx_pipeline.model.vocabulary.synonyms import SYNONYMS

ENDINGS = (
    "ations",
    "ation",
    "ingly",
    "ments",
    "ings",
    "ions",
    "ment",
    "ness",
    "able",
    "ing",
    "ion",
    "ies",
    "ied",
    "ers",
    "ed",
    "er",
    "es",
    "ly",
    "s",
)
"""Endings that are taken off a word, the longest first."""

ADDED = ("", "s", "ed", "ing", "er", "ers", "ion", "ions", "ation", "able", "ly", "ment", "e", "es")
"""Endings that a stem may have."""

SHORTEST = 3
_VOWELS = frozenset("aeiouy")


def forms_of(word: str) -> tuple[str, ...]:
    """Return other spellings that a word may have as another form (uploading: upload, uploads, uploaded), without itself.

    Many of them are no words: an index that has no row of one says so soon. Empty for words with digits or other
    letters than English ones, and for words of fewer than four letters but for irregular ones (ran: run).
    """
    group = GROUPS.get(word)
    regular = _regular(group[0] if group else word)
    group = group or next((GROUPS[form] for form in regular if form in GROUPS), ())
    return tuple(form for form in dict.fromkeys((*regular, *group)) if form != word)


def synonyms_of(word: str) -> tuple[str, ...]:
    """Return the words that developers use for a word or one of its forms (deleting: drop, erase, remove), as the groups have them."""
    own = (word, *forms_of(word))
    found = dict.fromkeys(other for form in own for other in _OTHERS.get(form, ()))
    return tuple(other for other in found if other not in own)


_OTHERS: dict[str, tuple[str, ...]] = {}
"""word -> the other words of its groups"""
for _group in SYNONYMS:
    for _word in _group:
        _OTHERS[_word] = (*_OTHERS.get(_word, ()), *(other for other in _group if other != _word))


def _regular(word: str) -> list[str]:
    """Return the spellings that endings make of a word."""
    if len(word) < SHORTEST + 1 or not (word.isascii() and word.isalpha()):
        return []
    stem = _stem(word)
    found = [stem + ending for ending in ADDED]
    if stem[-1] == "y" and stem[-2] not in _VOWELS:
        found += [stem[:-1] + ending for ending in ("ies", "ied", "ier")]
    elif stem[-1] not in _VOWELS and stem[-1] not in "wxhs" and stem[-2] in _VOWELS and stem[-3] not in _VOWELS:
        found += [stem + stem[-1] + ending for ending in ("ed", "ing", "er", "ers")]
    return [form for form in found if len(form) >= SHORTEST]


def _stem(word: str) -> str:
    """Return a word without its ending; the word itself where too little would be left."""
    for ending in ENDINGS:
        shortest = SHORTEST + (ending == "ly")
        if word.endswith(ending) and len(word) - len(ending) >= shortest and not (ending == "s" and word[-2] in "su"):
            stem = word[: -len(ending)]
            if not _VOWELS.intersection(stem):
                continue
            if ending in ("ies", "ied"):
                return stem + "y"
            doubled = stem[-1] == stem[-2] and stem[-1] not in "lsz"
            return stem[:-1] if doubled and len(stem) > SHORTEST else stem
    return word[:-1] if word.endswith("e") and len(word) > SHORTEST + 1 else word
