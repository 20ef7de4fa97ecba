"""Rules of work beyond the forms of English sentences: one program of a family and not the other; always and never in other languages."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Said(NamedTuple):
    """What a sentence wants and what it avoids, in its own words, and whether that holds always."""

    form: str
    """pair, uses, forbids or demands"""
    want: str
    avoid: str
    firm: bool


_NO = (
    r"not|no|n['’]?t(?:\s+(?:ever\s+)?(?:use|run|call))?|never(?:\s+use)?|(?:stop|avoid|keep|keeps)(?:\s+using)?|instead\s+of|rather\s+than|over|without"
    r"|nicht|kein\w{0,2}|nie(?:mals)?|(?:an)?statt|anstelle\s+von"
    r"|pas(?:\s+de)?|jamais|au\s+lieu\s+de|plut[oô]t\s+que|[ée]vite[rz]?"
    r"|no\s+(?:uses?|utilices?|usar)|nunca|en\s+(?:vez|lugar)\s+de|evita|não(?:\s+us[ea]r?)?|em\s+vez\s+de|ao\s+invés\s+de"
    r"|non(?:\s+usare)?|mai|invece\s+di|niet|geen|nooit|in\s+plaats\s+van|не(?:\s+используй\w*)?|никогда\s+не(?:\s+используй\w*)?|вместо"
)
_NO_GLUED = r"不要(?:再)?(?:使用|用)?|别(?:再)?用|不用|而不是|不是|勿用|禁止使用"
_NO_BEHIND = r"(?:is|was|['’]s)\s+(?:wrong|not\s+(?:used|allowed))|isn['’]?t|ではなく|じゃなく|は使わ|を使わない|말고|대신|(?:verwenden|benutzen)\s+wir\s+nicht"
"""What stands before, or behind, the program that is not wanted."""

_USE = (
    r"(?:be)?nutz(?:e|en|t)|verwende(?:n|t)?|nimm|nehmen|utilis(?:e|ez|er|ons)|emploie|usa|usamos|utiliza(?:mos)?|usare|usiamo|gebruik(?:en)?"
    r"|используй(?:те)?|используем|юзай|使用|请用|我们用|用|改用"
)
_USE_BEHIND = r"(?:be)?nutz(?:e|en|t)|verwenden|nehmen|を使|でお願い|쓰|사용"
_ALWAYS = r"immer|stets|grunds[äa]tzlich|toujours|siempre|sempre|altijd|всегда|始终|一律|总是|必须|务必|必ず|常に|항상"
_NEVER = r"nie|niemals|auf\s+keinen\s+fall|jamais|nunca|jamás|mai|nooit|никогда|永远不要|绝不|绝对不要|千万不要|決して|しないで|절대"
_NONE = r"(?:bitte\s+)?keine?n?|pas\s+de|aucune?|sin|nada\s+de|sem|nessuna?|geen|без|禁止|不要"
"""Begins a saying that wants none of something."""

_WORK = (
    r"commit\w*|push\w*|main|master|branch\w*|tests?|testen|prs?|pull[ -]requests?|lint\w*|rebas\w*|squash\w*|mocks?|emojis?|force[ -]push\w*"
    r"|kommentare?n?|commentaires?|comentarios?|comentários?|commenti|комментари\w*|коммит\w*|пуш\w*|тест\w*|docs|doku|dokumentation|abhängigkeit\w*|dépendances?|dependencias?|documentation|changelog"
    r"|antwort\w*|kommentier\w*|docstrings?|imports?|readmes?"
    r"|提交|测试|推送|注释|分支|コミット|テスト|プッシュ|コメント|ブランチ|커밋|테스트|주석"
)
_OF_NOW = lazy_pattern(
    r"(?i)\b(?:this|that|these|those|yet|jetzt|gerade|noch\s+nicht|diesmal|dies\w{0,2}|das|maintenant|cette?|ça|pas\s+encore|ahora|esto|todavía|agora|isso|ainda"
    r"|adesso|questo|nu|dit|nog\s+niet|сейчас|это\w*|пока)\b|现在|这个|暂时|今は|これ|지금|이거"
)
_WORD_OF = r"(?<![\w.@/-]){}(?![\w@/-])"
_ASIAN = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENGLISH = lazy_pattern(
    r"(?i)\b(?:the|is|are|was|be|been|to|of|and|in|it|this|that|we|you|i|for|with|not|don'?t|doesn'?t|should|why|when|what|how|as|at"
    r"|by|then|please|never|always)\b"
)
_GERMAN = lazy_pattern(
    r"(?i)(?<!\w)(?:bitte|nicht|immer|nie|niemals|bevor|jede[mrsn]?|uns|wir|und|auch|ohne|keine?n?|auf|f[üu]r|sind)(?!\w)"
)
"""Words of German that no English sentence has, beside "in" or "was", which both have."""

_ALWAYS_SAID, _NEVER_SAID = (lazy_pattern(rf"(?i)(?<!\w)(?:{words})(?!\w)|(?:{words})(?=[\u3040-\u9fff])") for words in (_ALWAYS, _NEVER))
_WORK_SAID = lazy_pattern(
    rf"(?i)(?<![\w/.-])(?:{_WORK})(?![\w/.-])|提交|测试|推送|注释|分支|コミット|テスト|プッシュ|コメント|ブランチ|커밋|테스트|주석"
)
_NONE_OF_WORK = lazy_pattern(
    rf"(?i)^(?!sin\s.*\sno\s)(?:{_NONE})\s*(?:\w+\s+)?(?:{_WORK})(?:\s+(?:im|in|auf|an|bei|zu|dans|en|sur|nel|nella|no|na|nos|nas|op|в|на|для|für|pour|para|per|bitte|ohne|sans)\b.*)?$"
    r"|^(?:禁止|不要)"
)
"""Wants none of a kind of work, and says nothing of what happened to it."""

_REPORTS = lazy_pattern(
    rf"(?i)^(?:{_ALWAYS}|{_NEVER})\s+(?:wenn|wo|que|quand|che|когда|als|wanneer|me|te|se|nos|he|ha|has|hemos|ho|hai|vu|vist[aeo]|не\s+\w+л[аои]?"
    r"|(?!direkt|erst|zuerst)\w+t\s+(?:der|die|das|mein\w*))\b"
    r"|\b(?:immer|nog|noch)\s+(?:noch|wieder|nie|nicht)\b|\bnog\s+altijd|toujours\s+(?:pas|en|le\s+m[êe]me|la\s+m[êe]me)\b|\bhetzelfde\b"
    r"|\b(?:ist|sind|war(?:en)?|hat(?:te)?|est|sont|ont|è|sono|era[n]?|está[n]?|é|são|estão|is|zijn|was|был\w*|\w+(?:ait|aient|aba|aban|ía|ían))\b"
    r"|\b(?:всегда|никогда\s+не)\s+\w+[аеиуюя]т(?:ся)?\b"
    r"|\b(?:fehler|problem|erreur|problème|error|errore|problema|fout|ошиб|проблем|falha|échou|bloqu|пада|красн)\w*"
    r"|\b(?:fehl|kaputt|rot|stürzt|rouge|ross[oa]|roj[oa]|rood|fall[aeo]n?)\b"
    r"|失败|不通过|超时|错误|问题|无法|不了|失敗|落ちる|エラー|必ずしも|실패|오류"
)
"""Tells what goes wrong: that it always does is no demand."""

_NONE_SAID = lazy_pattern(r"(?i)(?<!\w)(?:keine?[nrms]?|nichts?|pas|rien|aucune?|no|nada|não|non|nessuna?|geen|niet|не|ничего)(?!\w)")
_NOBODY = (
    r"der|die|das|den|dem|ein\w{0,2}|ich|du|er|sie|es|ihr|man|mein\w{0,2}|unser\w{0,2}|dieser?|jeder?|le|la|les|l|un|une|je|j|tu|il|elle|on|vous|ils|mon|ma|mes"
    r"|el|los|las|una|unos|yo|él|ella|ellos|mis?|nuestr\w+|os?|as?|um|uma|eu|ele|ela|meus?|minhas?|i|gli|lo|io|lui|lei|miei?|de|het|een|ik|hij|ze|mijn|он|она|они"
    r"|оно|я|ты|вы|мо[йияё]\w*|наш\w*|y|e|et|und|en|и"
)
"""Begins a sentence that tells of something or somebody, and orders nothing."""

_BEGINS_WITH_SOMEBODY = lazy_pattern(rf"(?i)^(?:{_NOBODY})(?!\w)")

_ADVERB = rf"(?:{_ALWAYS}|{_NEVER})"
_ORDER = lazy_pattern(
    rf"(?i)^(?:bitte|por\s+favor|s['’]il\s+(?:te|vous)\s+pla[iî]t|per\s+favore|alsjeblieft|пожалуйста|{_ADVERB}"
    r"|vor|nach|bevor|nachdem|avant|après|antes|después|depois|prima|dopo|voor|перед|после)(?!\w)"
    rf"|^(?:tu\s+dois|vous\s+devez|on\s+doit|il\s+faut|du\s+(?:musst|sollst)|man\s+muss|debes|tienes\s+que|hay\s+que|devi|devi?amo|você\s+deve|je\s+moet)\s+{_ADVERB}(?!\w)"
    r"|^on\s+n(?:e\s+|['’])\w+\s+jamais(?!\w)"
    rf"|^(?!(?:{_NOBODY}|(?:{_WORK}))(?!\w))(?:ne\s+|n['’]|non?\s+|não\s+|не\s+)?[^\W\d]+(?:\s+(?:{_WORK}))?\s+{_ADVERB}(?!\w)"
    rf"|^(?:{_WORK})\s+(?:kommen|geh[öo]ren|m[üu]ssen|sollen|sollten|d[üu]rfen|bleiben|schreib\w+"
    rf"|mach\w+)\s+(?:\w+\s+){{0,4}}?{_ADVERB}(?!\w)"
    r"|^(?:wir|nous|on|nosotros|noi|wij|we)\s+(?:schreib\w+|mach\w+|committ?en|benenn\w+|dokumentier\w+|[ée]crivons|escribimos"
    r"|scriviamo|schrijven)\s"
    rf"|^(?!(?:{_NOBODY})(?!\w))[\w-]+(?:\s+(?!(?:{_NOBODY})(?!\w))[\w-]+)?\s+{_ADVERB}\s+(?:\w+\s+){{0,6}}?(?:auf|in|im|mit|vor|nach"
    rf"|en|avec|avant|con|antes|em|com|met|voor|op|на|в|с|перед)\s"
)
"""An order of Europe: the adverb or an imperative opens it, or what it is about does, with how it is done."""

_AS_A_FORM = lazy_pattern(
    rf"(?i)^(?:{_WORK})(?:\s+\w+)?\s+(?:bitte|immer|nur)\s+(?:immer\s+|nur\s+)?(?:auf|in|mit|ohne|als|nach)\s"
    r"|^(?:bitte\s+)?(?:vor|nach)\s+jede[mrn]\s.*\w{2,}(?:en|n)$"
)
"""Names a kind of work and how all of it is done, or what is done before or after each."""

_WE_WRITE = lazy_pattern(
    r"(?i)^(?:wir|nous|on|nosotros|noi|wij|we)\s+\w+\s.*\b(?:auf|en|in|in\s+het)\s+(?:deutsch|englisch|anglais|français|ingl[ée]s"
    r"|inglese|engels)\b"
)
_STOPS = lazy_pattern(
    r"(?i)^(?:bitte\s+)?(?:h[öo]r(?:t|en\s+sie)?\s+(?:bitte\s+|endlich\s+)?auf|arr[êe]te[zr]?\s+(?:de\s|d['’])|deja\s+de|smetti\s+di"
    r"|par[ea]\s+de|stop\s+met|хватит|перестань)(?!\w).*\w"
)
"""Wants that something is no longer done, in another language."""

_UNASKED = lazy_pattern(
    r"(?i)(?<!\w)(?:ohne\s+(?:(?:mich\s+)?(?:vorher\s+)?zu\s+fragen|(?:vorherige\s+)?(?:r[üu]cksprache|r[üu]ckfrage|absprache"
    r"|zustimmung|erlaubnis))"
    r"|sans\s+(?:me\s+)?demander|sin\s+(?:preguntar\w*|permiso)|sem\s+perguntar|senza\s+(?:chiedere|permesso)|zonder\s+(?:te\s+vragen"
    r"|toestemming|overleg)|без\s+спроса)"
)
"""What is not to be done unasked holds for all work."""

_ORDER_OF_ASIA = lazy_pattern(
    rf"^(?:请|始终|一律|绝不|勿)|^(?:必ず|常に)[^が]*する$|(?:永远不要|绝对不要|千万不要|必须|前(?:{_ALWAYS}))|(?:{_ALWAYS}|绝不)(?:先|用|使用|以|运行|写|跑|保持|添加|检查)"
    r"|(?:て|で|ください|下さい|こと|ように|ましょう|しろ|せよ|な)$|(?:줘|세요|주십시오|할\s?것|말\s?것|해야\s?\S*|마|마라|해라|하자|합시다)$"
)
_USES = lazy_pattern(rf"(?<!\w)(?:{_USE}|benutzen|verwenden|utilise[rsz]?|uses?|usar|usando|utili[cz]\w+)(?!\w)|使|用|쓰|사용|お願い")
_USE_SAID = lazy_pattern(rf"(?<!\w)(?:{_USE})(?!\w)")
"""Speaks of the use of a program, also among words that are English ones as well."""

_ORDERS = lazy_pattern(
    r"(?:(?:^|[,;:.(-]\s*|\b(?:please|always|only|just|we|to|but|should|must|and|so|then)\s+)(?:use|using|run|prefer|want)"
    r"|\b(?:(?:tests?|types?|code|formatting|linting|docs|them)\s+with|we(?:['’]re|\s+are)\s+(?:on|using)|it['’]?s|it\s+is|(?:should|must)\s+be))(?:\s+(?:the|a|only|always))?$"
)
"""Stands before the program that is to be used, in English."""

_NEGATIONS = lazy_pattern(rf"(?<!\w)(?:{_NO})(?!\w)|{_NO_GLUED}|{_NO_BEHIND}")
_FILLERS = lazy_pattern(
    r"(?<!\w)(?:please|here|no|nope|only|always|but|in|for|this|the|our|repo|project|use|bitte|hier|immer|sondern|nur|por\s+favor|aquí|siempre|sempre"
    r"|ici|toujours|per\s+favore|qui|sino|mais|ma|но|а|здесь|всегда)(?!\w)"
)
"""Words beside two programs that tell nothing of how they work."""

_LONGEST = 14
"""Words of a saying about programs alone; a longer one tells a story."""

_AMBIGUOUS = frozenset({"make", "just", "task", "nose", "black", "ava", "bun", "ty", "rg", "ag"})
"""Programs whose names are words as well, or too short to be known without the form of a sentence."""


_QUESTION = lazy_pattern(
    r"(?i)^(?:(?:ok|okay|and|but|so|hey|hm+|und|aber|et|mais|y|pero|e|ma|а|но)[,:\s]+)*(?:why|how|who|where|which|what(?:'s)?|whether|if(?!\s+you\b[^,]*,\s+(?:please\s+)?(?:always|never|ask)\b)"
    r"|(?:do|can|could|would|will|shall|should|have|has)\s+(?:you|we|i|they|it|this|that|the|he|she|somebody|someone)"
    r"|don['’]?t\s+(?:you|we|they)|(?:is|are|was|were|did|does|has|had|isn|aren|wasn|weren|didn|doesn|hasn|can|couldn|wouldn|won|shouldn)(?:['’]?t)?\s"
    r"(?!(?:not|never|always|be)\b)"
    r"|warum|wieso|weshalb|wie|was|wann|wenn(?!\s+du\b[^,]*,\s+(?:bitte\s+)?(?:immer|nie)\b)|falls|ob|(?:kann|könnt?e?|soll|sollt?e?|hast|habt|ist|sind|wird|werden)(?:st|n)?\s"
    r"|pourquoi|comment|est-ce|quand|si|peux-tu|pouvez-vous|as-tu|por\s+qué|cómo|cuándo|puedes|podrías|por\s*qu[eê]|como|quando|se|você\s+pode"
    r"|perch[eé]|come|puoi|waarom|hoe|wanneer|als|kun|kan|почему|зачем|как|когда|если|можешь)\b"
    r"|为什么|怎么|能不能|是不是|如果|[吗呢]$|なぜ|どうして|(?:ます|です)か$|왜|(?:까|나요)$"
)
"""What is asked, or holds under a condition alone, with its question mark or without."""

_TELLS = lazy_pattern(
    r"(?i)^(?:oh\s+(?:great|nice|wow|sure)|wow\b|yeah\s+right|(?:yeah|oh|wow|right|sure|haha|lol)(?:\s+\w+)?,\s+(?:always|never)\s"
    r"|sure,\s|great,\s|(?:\w+\s?)?error:|warning:"
    r"|(?:the|my|our|their|his|her|some|most|an?)\s+(?:(?!(?:always|never|should|must|to)\b)[\w-]+\s+){1,3}?(?:tells?|wants?"
    r"|recommends?|suggests?|states?|claims?|complains?|insists?|advis\w+)\s)"
)
_QUOTES = lazy_pattern(
    r"(?i)\b(?:says|reads|wrote|writes|according\s+to)\b|(?<!\bi )\bsaid\b"
    r"|\b(?:he|she|they|someone|somebody|docs|readme)\s+(?:say|told|tells)\b"
)
_OF_QUOTES = ("say", "read", "wr", "according", "said", "tell", "told")
"""Tells what somebody else, or a text, lays down, or is said in irony: what begins so, what stands in it, and parts of its words."""


def asks_or_tells(sentence: str) -> bool:
    """Tell whether a sentence is a question, a condition or what somebody else says, whether or not a mark of it ends it."""
    lowered = sentence.lower() if sentence.isascii() else ""
    return bool(
        _QUESTION.search(sentence)
        or _TELLS.match(sentence)
        or ((not lowered or any(word in lowered for word in _OF_QUOTES)) and _QUOTES.search(sentence))
    )


def is_english(sentence: str) -> bool:
    """Tell whether a sentence has words of English that no other language has."""
    return bool(_ENGLISH.search(sentence)) and not _GERMAN.search(sentence)


def found_in(sentence: str, families: Iterable[frozenset[str]]) -> Said | None:
    """Return what a sentence that neither asks nor tells lays down by the programs that it names, or in another language."""
    found = _of_programs(sentence, families) or (_of_work(sentence) if not is_english(sentence) else None)
    return None if found is None or _OF_NOW.search(sentence) else found


def enough(sentence: str) -> bool:
    """Tell whether a sentence is long enough to lay something down although blanks part less than two words in it."""
    return len(_ASIAN.findall(sentence)) >= 3


def _of_programs(sentence: str, families: Iterable[frozenset[str]]) -> Said | None:
    """Return the program that is wanted and the one that is not, where the words around them say which is which."""
    if len(sentence.split()) > _LONGEST:
        return None
    text = sentence.lower().replace("`", "")
    for family in families:
        named = [p for p in _sure_names(family) if p in text and _place(text, p) >= 0]
        if not named or len(named) > 2:
            continue
        avoided = [p for p in named if _avoided(text, p)]
        wanted = [p for p in named if p not in avoided]
        if len(avoided) == 1 and len(wanted) == 1:
            return Said("pair", wanted[0], avoided[0], firm=False) if _orders_one(text, wanted[0], named) else None
        if avoided or len(named) > 1:
            if len(avoided) == 1 and not wanted and not _ENGLISH.search(sentence) and _USES.search(text):
                return Said("forbids", "", avoided[0], firm=bool(_NEVER_SAID.search(text)))
            continue
        if not _ENGLISH.search(sentence) and _wanted(text, named[0]):
            return Said("uses", named[0], "", firm=bool(_ALWAYS_SAID.search(text)))
    return None


@cache
def _sure_names(family: frozenset[str]) -> tuple[str, ...]:
    """Return the programs of a family whose names are no other words."""
    return tuple(sorted(family - _AMBIGUOUS))


@cache
def _alone(program: str) -> re.Pattern[str]:
    return lazy_pattern(rf"(?<![a-z0-9_.@/-]){program}(?![a-z0-9_@/-]|\.\w)")


def _place(text: str, program: str) -> int:
    found = _alone(program).search(text)
    return found.start() if found else -1


_AVOIDED_BEFORE = lazy_pattern(
    rf"(?:(?<!\w)(?:{_NO})|n['’]t(?:\s+use)?|(?:{_NO_GLUED}))(?:\s+(?:to\s+use|use|using|utilise[rz]?|us[ae]r?))?\s*(?:the\s+)?$"
)
_AVOIDED_BEHIND = lazy_pattern(rf"(?:{_NO_BEHIND})|(?:nicht|niet)(?!\w)")


def _avoided(text: str, program: str) -> bool:
    at = _place(text, program)
    before, behind = text[:at].rstrip(" '\"*“"), text[at + len(program) :].lstrip(" '\"*”")
    return bool(_AVOIDED_BEFORE.search(before) or _AVOIDED_BEHIND.match(behind))


def _orders_one(text: str, wanted: str, named: Sequence[str]) -> bool:
    """Tell whether a sentence of two programs orders the one: where it names it, or as it says nothing else of them."""
    before = text[: _place(text, wanted)].rstrip(" '\"*“")
    ordered = _ORDERS.search(before) or (_USE_SAID if _ENGLISH.search(text) else _USES).search(text)
    rest = _NEGATIONS.sub(" ", re.sub("|".join(named), " ", text))
    return bool(ordered) or not _FILLERS.sub(" ", rest).strip(" ,.;:!()'\"-–—、，。")


_WANTED_BEFORE = lazy_pattern(
    rf"(?<!\w)(?:{_USE}|{_ALWAYS})(?:\s+(?:hier|immer|nur|aquí|siempre|sempre|toujours|ici))?$|(?:使用|请用|我们用|改用|用)$"
)
_WANTED_BEHIND = lazy_pattern(_USE_BEHIND)


def _wanted(text: str, program: str) -> bool:
    at = _place(text, program)
    before, behind = text[:at].rstrip(" '\"*“"), text[at + len(program) :].lstrip(" '\"*”")
    return bool(_WANTED_BEFORE.search(before) or _WANTED_BEHIND.match(behind))


def _of_work(sentence: str) -> Said | None:
    """Return what a sentence of another language demands always or never of commits, tests, branches and the like."""
    unasked = _UNASKED.search(sentence) is not None and not _BEGINS_WITH_SOMEBODY.match(sentence)
    if unasked and (_NEVER_SAID.search(sentence) or _NONE_SAID.search(sentence)):
        return Said("forbids", "", sentence, firm=True)
    if not _WORK_SAID.search(sentence) or _REPORTS.search(sentence):
        return None
    if _STOPS.match(sentence):
        return Said("forbids", "", sentence, firm=True)
    if _NONE_OF_WORK.match(sentence):
        return Said("forbids", "", sentence, firm=False)
    if _AS_A_FORM.match(sentence):
        return Said("demands", sentence, "", firm=True)
    if not (_ORDER_OF_ASIA if enough(sentence) else _ORDER).search(sentence):
        return None
    if _NEVER_SAID.search(sentence):
        return Said("forbids", "", sentence, firm=True)
    return Said("demands", sentence, "", firm=True) if _ALWAYS_SAID.search(sentence) or _WE_WRITE.match(sentence) else None
