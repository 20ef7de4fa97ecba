"""Rules of work beyond the forms of English sentences: one program of a family and not the other; always and never in other languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable


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
_ALWAYS = r"immer|stets|grunds[äa]tzlich|toujours|siempre|sempre|altijd|всегда|始终|总是|一律|必ず|常に|항상"
_NEVER = r"nie|niemals|auf\s+keinen\s+fall|jamais|nunca|jamás|mai|nooit|никогда|永远不要|绝不|绝对不要|千万不要|決して|しないで|절대"
_NONE = r"(?:bitte\s+)?keine?n?|pas\s+de|aucune?|sin|nada\s+de|sem|nessuna?|geen|без|禁止|不要"
"""Begins a saying that wants none of something."""

_WORK = (
    r"commit\w*|push\w*|main|master|branch\w*|tests?|testen|prs?|pull[ -]requests?|lint\w*|rebas\w*|squash\w*|mocks?|emojis?|force[ -]push\w*"
    r"|kommentare?n?|commentaires?|comentarios?|comentários?|commenti|комментари\w*|коммит\w*|пуш\w*|тест\w*|docs|dokumentation|documentation|changelog"
    r"|提交|测试|推送|注释|分支|コミット|テスト|プッシュ|コメント|ブランチ|커밋|테스트|주석"
)
_OF_NOW = lazy_pattern(
    r"(?i)\b(?:this|that|these|those|yet|jetzt|noch\s+nicht|diesmal|dies\w{0,2}|das|maintenant|cette?|ça|pas\s+encore|ahora|esto|todavía|agora|isso|ainda"
    r"|adesso|questo|nu|dit|nog\s+niet|сейчас|это\w*|пока)\b|现在|这个|暂时|今は|これ|지금|이거"
)
_WORD_OF = r"(?<![\w.@/-]){}(?![\w@/-])"
_ASIAN = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ENGLISH = lazy_pattern(
    r"(?i)\b(?:the|is|are|was|be|been|to|of|and|in|it|this|that|we|you|i|for|with|not|don'?t|doesn'?t|should|why|when|what|how|as|at|by|then)\b"
)
_ALWAYS_SAID, _NEVER_SAID = (lazy_pattern(rf"(?i)(?<!\w)(?:{words})(?!\w)|(?:{words})(?=[\u3040-\u9fff])") for words in (_ALWAYS, _NEVER))
_WORK_SAID = lazy_pattern(
    rf"(?i)(?<![\w/.-])(?:{_WORK})(?![\w/.-])|提交|测试|推送|注释|分支|コミット|テスト|プッシュ|コメント|ブランチ|커밋|테스트|주석"
)
_NONE_OF = lazy_pattern(rf"(?i)^(?:{_NONE})\s*\S")
_LONGEST = 14
"""Words of a saying about programs alone; a longer one tells a story."""

_AMBIGUOUS = frozenset({"make", "just", "task", "nose", "black", "ava", "bun", "ty", "rg", "ag"})
"""Programs whose names are words as well, or too short to be known without the form of a sentence."""


def found_in(sentence: str, families: Iterable[frozenset[str]]) -> Said | None:
    """Return what a sentence lays down by the programs that it names, or in another language; None for others."""
    if _OF_NOW.search(sentence):
        return None
    return _of_programs(sentence, families) or (_of_work(sentence) if not _ENGLISH.search(sentence) else None)


def enough(sentence: str) -> bool:
    """Tell whether a sentence is long enough to lay something down although blanks part less than two words in it."""
    return len(_ASIAN.findall(sentence)) >= 3


def _of_programs(sentence: str, families: Iterable[frozenset[str]]) -> Said | None:
    """Return the program that is wanted and the one that is not, where the words around them say which is which."""
    if len(sentence.split()) > _LONGEST:
        return None
    text = sentence.lower().replace("`", "")
    for family in families:
        known = family - _AMBIGUOUS
        named = [p for p in sorted(known) if _place(text, p) >= 0]
        if not named or len(named) > 2:
            continue
        avoided = [p for p in named if _avoided(text, p)]
        wanted = [p for p in named if p not in avoided]
        if len(avoided) == 1 and len(wanted) == 1:
            return Said("pair", wanted[0], avoided[0], firm=False)
        if avoided or len(named) > 1:
            if len(avoided) == 1 and not wanted and not _ENGLISH.search(sentence):
                return Said("forbids", "", avoided[0], firm=bool(_NEVER_SAID.search(text)))
            continue
        if not _ENGLISH.search(sentence) and _wanted(text, named[0]):
            return Said("uses", named[0], "", firm=bool(_ALWAYS_SAID.search(text)))
    return None


def _place(text: str, program: str) -> int:
    found = lazy_pattern(rf"(?<![a-z0-9_.@/-]){program}(?![a-z0-9_@/-]|\.\w)").search(text)
    return found.start() if found else -1


def _avoided(text: str, program: str) -> bool:
    at = _place(text, program)
    before, behind = text[:at].rstrip(" '\"*“"), text[at + len(program) :].lstrip(" '\"*”")
    return bool(
        lazy_pattern(
            rf"(?:(?<!\w)(?:{_NO})|n['’]t(?:\s+use)?|(?:{_NO_GLUED}))(?:\s+(?:to\s+use|use|using|utilise[rz]?|us[ae]r?))?\s*(?:the\s+)?$"
        ).search(before)
        or lazy_pattern(rf"^(?:{_NO_BEHIND})").match(behind)
        or lazy_pattern(r"^(?:nicht|niet)(?!\w)").match(behind)
    )


def _wanted(text: str, program: str) -> bool:
    at = _place(text, program)
    before, behind = text[:at].rstrip(" '\"*“"), text[at + len(program) :].lstrip(" '\"*”")
    near = rf"(?<!\w)(?:{_USE}|{_ALWAYS})(?:\s+(?:hier|immer|nur|aquí|siempre|sempre|toujours|ici))?$|(?:使用|请用|我们用|改用|用)$"
    return bool(lazy_pattern(near).search(before) or lazy_pattern(rf"^(?:{_USE_BEHIND})").match(behind))


def _of_work(sentence: str) -> Said | None:
    """Return what a sentence of another language demands always or never of commits, tests, branches and the like."""
    if not _WORK_SAID.search(sentence):
        return None
    if _NEVER_SAID.search(sentence):
        return Said("forbids", "", sentence, firm=True)
    if _ALWAYS_SAID.search(sentence):
        return Said("demands", sentence, "", firm=True)
    return Said("forbids", "", sentence, firm=False) if _NONE_OF.match(sentence) else None
