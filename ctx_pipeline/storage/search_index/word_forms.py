"""Inflected forms of an English word: what a question in other words than the text's is looked for as well."""

from __future__ import annotations

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

_IRREGULAR_TEXT = """
    beat beaten; become became; begin began begun; bend bent; bite bit bitten; bleed bled; blow blew blown; break broke
    broken; bring brought; build built; burn burnt; buy bought; catch caught; choose chose chosen; come came; creep
    crept; deal dealt; dig dug; draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat ate eaten;
    fall fell fallen; feed fed; feel felt; fight fought; find found; flee fled; fly flew flown; forbid forbade
    forbidden; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given;
    go went gone; grow grew grown; hang hung; hear heard; hide hid hidden; hold held; keep kept; know knew known; lay
    laid; lead led; leap leapt; learn learnt; leave left; lend lent; lose lost; make made; mean meant; meet met;
    override overrode overridden; overwrite overwrote overwritten; pay paid; rebuild rebuilt; ride rode ridden; ring
    rang rung; rise rose risen; run ran; say said; see saw seen; seek sought; sell sold; send sent; shake shook shaken;
    shine shone; shoot shot; show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept;
    slide slid; speak spoke spoken; spend spent; stand stood; steal stole stolen; stick stuck; strike struck; swear
    swore sworn; sweep swept; swim swam swum; swing swung; take took taken; teach taught; tear tore torn; tell told;
    think thought; throw threw thrown; undo undid undone; understand understood; wake woke woken; wear wore worn; win
    won; withdraw withdrew withdrawn; write wrote written; child children; foot feet; man men; mouse mice; person
    people; shelf shelves; tooth teeth; woman women; index indices; vertex vertices; matrix matrices; criterion
    criteria; analysis analyses
"""
IRREGULAR = tuple(tuple(group.split()) for group in _IRREGULAR_TEXT.split(";"))
"""Words whose forms no ending makes, the base form first."""

_IRREGULAR = {form: group for group in IRREGULAR for form in group}

SHORTEST = 3
_VOWELS = frozenset("aeiouy")


def forms_of(word: str) -> tuple[str, ...]:
    """Return other spellings that a word may have as another form (uploading: upload, uploads, uploaded), without itself.

    Many of them are no words: an index that has no row of one says so soon. Empty for words with digits or other
    letters than English ones, and for words of fewer than four letters but for irregular ones (ran: run).
    """
    group = _IRREGULAR.get(word)
    regular = _regular(group[0] if group else word)
    group = group or next((_IRREGULAR[form] for form in regular if form in _IRREGULAR), ())
    return tuple(form for form in dict.fromkeys((*regular, *group)) if form != word)


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
