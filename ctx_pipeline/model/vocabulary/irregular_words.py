"""Irregular forms of English words, for what looks for words."""

from __future__ import annotations

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

GROUPS = {form: group for group in IRREGULAR for form in group}
"""form -> all forms of its word"""
