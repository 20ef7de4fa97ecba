"""What must not reach a prompt: injected orders, credentials, invisible and direction-changing characters."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctx_pipeline.memory import disguises
from ctx_pipeline.model.display import CONTROLS, DIRECTIONS, TAGS, UNSEEN, visible
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.shell.command_risk import destroys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ctx_pipeline.model.memories import Memory

    Credentials = Callable[[str], Iterable[str]]

REVIEWED = "reviewed"
"""Name in the structured body of what a check found and a person accepted after reading it."""

_HIDING = tuple(
    (flag, lazy_pattern(f"[{members}]"))
    for flag, members in (
        ("invisible-character", UNSEEN),
        ("direction-control", DIRECTIONS),
        ("tag-character", TAGS),
        ("terminal-escape", CONTROLS),
    )
)
_PIECE, _OVERLAP = 4000, 400
_WHAT = r"(?:instructions?|prompts?|rules?|directions?|guidelines?|orders?|messages?|context|conversation|training)"
_KEPT_QUIET = r"secrets?|credentials?|api\s*keys?|tokens?|passwords?|ssh\s+keys?|private\s+keys?"
_INJECTIONS = tuple(
    (tuple(words.split()), lazy_pattern(pattern))
    for words, pattern in (
        (
            "ignore disregard forget override bypass skip drop",
            rf"\b(?:ignore|disregard|forget|override|bypass|skip|drop)\b(?!:)(?:\W+\w+){{0,4}}?\W+(?:previous|prior|above|earlier|preceding|existing|former|other|system|safety)\b(?:\W+\w+){{0,3}}?\W+{_WHAT}",
        ),
        (
            "ignore disregard forget",
            rf"\b(?:ignore|disregard|forget)\s+(?:all|any|every|everything|your|these|those)\b(?:\W+\w+){{0,3}}?\W*{_WHAT}",
        ),
        ("forget", r"\bforget\s+(?:everything|all)\b.{0,30}\b(?:told|said|above|before|know)"),
        ("system", r"\b(?:reveal|print|show|repeat|leak|output|dump|tell)\b(?:\W+\w+){0,4}?\W+system\s+prompt"),
        ("you", r"\byou\s+are\s+(?:now|no\s+longer)\s+(?:a|an|the|in|bound|under|dan)\b"),
        ("instruction", r"\b(?:new|updated|real|actual)\s+(?:system\s+)?instructions?\s*:"),
        (
            "act behave pretend respond",
            r"\b(?:act|behave|pretend|respond)\s+as\s+(?:if\s+)?(?:you\s+(?:are|were|have)|an?\s+(?:unrestricted|unfiltered|jailbroken))",
        ),
        (
            "user person human operator developer",
            r"\b(?:do\s+not|don'?t|never)\s+(?:tell|inform|warn|alert|ask|mention\s+(?:this|it)\s+to)\s+(?:the\s+)?(?:user|person|human|operator|developer)\b",
        ),
        ("without", r"\bwithout\s+(?:telling|informing|asking)\s+the\s+(?:user|person|human|operator)\b"),
        (
            "<",
            r"</?\s*(?:system|assistant|human|user|instructions?|admin|developer|function_calls?|tool_call)(?:[-_ ](?:prompt|message))?\s*>",  # noqa: E501
        ),
        ("[ <", r"\[/?(?:inst|sys|system)\]|<\|(?:im_start|im_end|system|endoftext)\|>|<<sys>>"),
        (":", r"(?:^|\n)(?:#{1,4} ?)?(?:system|assistant|human) ?: ?\S"),
        ("curl wget fetch iwr", r"\b(?:curl|wget|fetch|iwr)\b[^\n|;]{0,200}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b"),
        (
            "send post upload exfiltrate forward transmit",
            rf"\b(?:send|post|upload|exfiltrate|forward|transmit)\b[^\n.]{{0,80}}(?:\b(?:{_KEPT_QUIET})|\.env)\b[^\n.]{{0,60}}\b(?:to|at)\b\s+\S*(?:https?:|www\.|@|\.\w{{2,}})",
        ),
        (
            "iwr irm webrequest restmethod downloadstring",
            r"\b(?:iwr|irm|invoke-(?:webrequest|restmethod)|downloadstring)\b[^\n]{0,200}\|\s*(?:iex|invoke-expression)\b|\b(?:iex|invoke-expression)\b[^\n]{0,80}\b(?:iwr|irm|downloadstring|invoke-(?:webrequest|restmethod))\b",
        ),
        ("curl wget", r"(?:\b(?:ba|z|da)?sh|\bsource|\beval|(?:^|[\s;&])\.)\s+(?:-c\s+)?[\"']?(?:<\(|\$\(|`)\s*(?:curl|wget)\b"),
        ("urlopen", r"\bexec\s*\([^\n]{0,80}\burlopen\b"),
        (
            "authorized_keys",
            r"(?:>>|(?<=\S)[ \t]\d?>)\s*[\"']?[^\s<>|]{0,80}authorized_keys\b|\b(?:tee|(?:curl|wget)\b[^\n]{0,200}\s-o)\b[^\n]{0,80}\bauthorized_keys\b",  # noqa: E501
        ),
        (
            "supersede overrule replace",
            r"\b(?:supersedes?|overrules?|replaces?)\s+(?:everything|anything|all|any)\b(?:\W+\w+){0,4}?\W+(?:(?:you|we|i)\b(?:\W+\w+){0,3}?\W+(?:told|given|instructed|said)\b|(?:told|given|said)\W+(?:to\W+)?you\b)",
        ),
        ("instructions", r"\b(?:from\s+now\s+on|henceforth)\b(?:\W+\w+){0,3}?\W+(?:your\s+instructions|instructions\s+come\s+from)\b"),
        (
            "pretend",
            r"\bpretend\s+(?:that\s+)?(?:to\s+be|you\s+are|you'?re)\s+(?:an?\s+)?(?:unrestricted|unfiltered|uncensored|jailbroken)\b",
        ),
        (
            "assistant agent llm model",
            (
                r"(?<![^\W_])(?:assistants?|(?:ai|coding|llm)[ _-](?:agents?|models?)|llms?|language[ _]models?)[:,]?[\s_]+(?:must|should|shall|ha(?:s|ve)[\s_]to"  # noqa: E501
                r"|needs?[\s_]to)[\s_]+(?:[^\W_]+[\s_]+){0,3}?(?:(?:upload|send|post|forward|e-?mail|exfiltrate|leak|reveal|share|paste)(?![^\W_]).{0,40}?"
                r"(?<![^\W_])(?:env|environment|keys?|secrets?|credentials?|passwords?)(?![^\W_])"
                r"|(?:run|execute|install|download|fetch)\b.{0,60}?(?:https?://|\bfrom\s+[\w-]{1,60}\.\w{2,}))"
            ),
        ),
        ("rm", r"\brm\s+-[a-z]{1,6}\s+(?:/|~|\$home)(?:\s|$|\*)"),
        ("base64", r"\bbase64\s+(?:-d|--decode)\b[^\n]{0,80}\|\s*(?:ba|z)?sh\b"),
    )
)
"""Words of which one stands in every text that a pattern matches, and the pattern: only then it is compiled, as a hook has no time to."""

_FOREIGN = tuple(
    lazy_pattern(pattern)
    for pattern in (
        r"\b(?:ignorier\w*|vergiss|vergesst|missachte\w*)\b.{0,40}\b(?:anweisung|regel|befehl|vorgabe|instruktion|anordnung)\w*",
        r"\b(?:ignore[zr]?|oublie[zr]?|n\u00e9glige[zr]?)\b.{0,40}\b(?:instructions?|consignes?|r\u00e8gles?|directives?|ordres)\b.{0,30}\b(?:pr\u00e9c\u00e9dent|ant\u00e9rieur|ci-dessus|avant)\w*",
        r"\b(?:ignora|ignore|olvida|descarta|haz caso omiso)\b.{0,40}\b(?:instrucciones|reglas|\u00f3rdenes|indicaciones)\b",
        r"\b(?:ignore|ignora|esque\u00e7a|desconsidere)\b.{0,40}\b(?:instru\u00e7\u00f5es|regras|ordens|comandos)\b",
        r"\b(?:ignora|dimentica|trascura)\b.{0,40}\b(?:istruzioni|regole|ordini|direttive)\b",
        r"\b(?:negeer|vergeet)\b.{0,40}\b(?:instructies|regels|opdrachten|aanwijzingen)\b",
        r"\b(?:ignorera|gl\u00f6m|bortse)\b.{0,40}\b(?:instruktion|regl|anvisning)\w*",
        r"\b(?:z?ignoruj|zapomnij|pomi\u0144)\b.{0,40}\b(?:instrukcj|polece|zasad|regu\u0142)\w*",
        r"\b(?:abaikan|lupakan)\b.{0,40}\b(?:instruksi|perintah|aturan)\b",
        r"(?:b\u1ecf qua|ph\u1edbt l\u1edd|qu\u00ean).{0,30}(?:h\u01b0\u1edbng d\u1eabn|ch\u1ec9 d\u1eabn|ch\u1ec9 th\u1ecb|l\u1ec7nh|quy t\u1eafc)",  # noqa: E501
        r"(?:talimat|kural|komut)\w*.{0,30}(?:yok ?say|g\u00f6rmezden|unut|dikkate alma)",
        r"(?:\u0438\u0433\u043d\u043e\u0440\u0438\u0440\u0443\u0439|\u0437\u0430\u0431\u0443\u0434\u044c|\u0456\u0433\u043d\u043e\u0440\u0443\u0439)\w*.{0,40}(?:\u0438\u043d\u0441\u0442\u0440\u0443\u043a\u0446\u0438|\u0443\u043a\u0430\u0437\u0430\u043d\u0438|\u043f\u0440\u0430\u0432\u0438\u043b|\u043a\u043e\u043c\u0430\u043d\u0434|\u0456\u043d\u0441\u0442\u0440\u0443\u043a\u0446\u0456|\u0432\u043a\u0430\u0437\u0456\u0432)\w*",
        r"(?:\u5ffd\u7565|\u65e0\u89c6|\u7121\u8996|\u5fd8\u8bb0|\u5fd8\u6389|\u5fd8\u8a18|\u4e0d\u8981\u7406\u4f1a).{0,16}(?:\u6307\u4ee4|\u6307\u793a|\u8bf4\u660e|\u89c4\u5219|\u898f\u5247|\u63d0\u793a|\u547d\u4ee4)",
        r"(?:\u6307\u793a|\u547d\u4ee4|\u30eb\u30fc\u30eb|\u6307\u4ee4).{0,12}(?:\u7121\u8996|\u5fd8\u308c)",
        r"(?:\uc9c0\uc2dc|\uba85\ub839|\uaddc\uce59|\uc9c0\uce68).{0,12}(?:\ubb34\uc2dc|\uc78a)",
        r"(?:\u062a\u062c\u0627\u0647\u0644|\u0627\u0646\u0633\u064e?|\u062a\u062c\u0627\u0648\u0632).{0,30}(?:\u062a\u0639\u0644\u064a\u0645\u0627\u062a|\u0623\u0648\u0627\u0645\u0631|\u0642\u0648\u0627\u0639\u062f)",
        r"(?:\u0928\u093f\u0930\u094d\u0926\u0947\u0936|\u0928\u093f\u092f\u092e|\u0906\u0926\u0947\u0936).{0,30}(?:\u0905\u0928\u0926\u0947\u0916\u093e|\u092d\u0942\u0932|\u0909\u092a\u0947\u0915\u094d\u0937\u093e)",
        r"\bignor(?:er|\u00e9r)\b.{0,40}\b(?:(?:instruktion|instruks|anvisning)\w*|regle(?:r|rne|ne)|ordre(?:r|rne|ne))\b",
        r"(?:ignoruj|zapome\u0148|zabudni|nedbej)\w*.{0,40}(?:pokyn|instrukc|p\u0159\xedkaz|pravid|pr\xedkaz)",
        r"ignor[a\u0103]\w*.{0,40}(?:instruc\u021biuni|reguli|indica\u021bii)",
        r"(?:figyelmen k\xedv\xfcl|felejtsd el).{0,40}(?:utas\xedt|szab\xe1ly|parancs)",
        r"(?:\xe4l\xe4 v\xe4lit\xe4|j\xe4t\xe4 huomiotta|unohda|ohita).{0,40}(?:ohje|s\xe4\xe4nn|k\xe4sky|m\xe4\xe4r\xe4y)",
        r"(?:\u03b1\u03b3\u03bd\u03cc\u03b7\u03c3|\u03b1\u03b3\u03bd\u03bf\u03ae\u03c3|\u03be\u03ad\u03c7\u03b1\u03c3|\u03be\u03b5\u03c7\u03ac\u03c3).{0,40}(?:\u03bf\u03b4\u03b7\u03b3\u03af|\u03ba\u03b1\u03bd\u03cc\u03bd|\u03b5\u03bd\u03c4\u03bf\u03bb)",
        r"(?:\u05d4\u05ea\u05e2\u05dc\u05dd|\u05d4\u05ea\u05e2\u05dc\u05de|\u05e9\u05db\u05d7).{0,30}(?:\u05d4\u05d5\u05e8\u05d0\u05d5\u05ea|\u05d4\u05e0\u05d7\u05d9\u05d5\u05ea|\u05db\u05dc\u05dc\u05d9)",
        r"(?:\u0e40\u0e1e\u0e34\u0e01\u0e40\u0e09\u0e22|\u0e25\u0e37\u0e21|\u0e44\u0e21\u0e48\u0e15\u0e49\u0e2d\u0e07\u0e2a\u0e19\u0e43\u0e08).{0,20}(?:\u0e04(?:\u0e33|\u0e4d\u0e32)\u0e2a\u0e31\u0e48\u0e07|\u0e04(?:\u0e33|\u0e4d\u0e32)\u0e41\u0e19\u0e30\u0e19|\u0e01\u0e0e)",
        r"(?:\u062f\u0633\u062a\u0648\u0631|\u0642\u0648\u0627\u0646\u06cc\u0646|\u0631\u0627\u0647\u0646\u0645\u0627).{0,30}(?:\u0646\u0627\u062f\u06cc\u062f\u0647|\u0641\u0631\u0627\u0645\u0648\u0634)",
        r"(?:\u09a8\u09bf\u09b0\u09cd\u09a6\u09c7\u09b6|\u09a8\u09bf\u09af\u09bc\u09ae|\u0986\u09a6\u09c7\u09b6).{0,30}(?:\u0989\u09aa\u09c7\u0995\u09cd\u09b7\u09be|\u09ad\u09c1\u09b2\u09c7)",
        r"(?:ignore|disregard|forget)(?:all)?(?:the)?(?:previous|prior|above)(?:instructions?|rules|prompts?)",
    )
)
"""The same order in other languages, and with its words run together."""

_FOREIGN_HINT = lazy_pattern(
    r"ignor|disregard|forget|vergiss|vergesst|missacht|oubli|olvida|descarta|haz caso|esque|desconsid|dimentic|trascura|negeer|vergeet"
    r"|bortse|zapom|zabudni|nedbej|unohda|ohita|felejtsd|abaikan|lupakan|talimat|kural|komut|[^\W\x00-\x7f]"
)
_HINT = lazy_pattern(
    r"ignor|disregard|forget|overrid|supersed|overrul|bypass|skip|drop|system|instruct|inst\]|im_start|you (?:are|were)|act as|pretend|tell|without|curl|wget"  # noqa: E501
    r"|send|post|upload|exfil|transmit|rm -|base64|assistant|prompt|[^\x00-\x7f]{2}|vergiss|vergesst|missacht|oubli|olvida|descarta|esque"
    r"|desconsid|dimentic|trascura|negeer|vergeet|bortse|zapom|zabudni|nedbej|unohda|ohita|felejtsd|abaikan|lupakan|talimat|kural|komut"
    r"|iwr|irm|webrequest|restmethod|downloadstring|urlopen|authorized_keys|henceforth|from now on|replace|huomiot|v\xe4lit\xe4|figyelmen"
    r"|agent|llm"
)
"""What every order has one of: of a disguised reading that has none nothing more is asked."""

_CREDENTIALS = tuple(
    (name, tuple(signs.split()), lazy_pattern(pattern))
    for name, signs, pattern in (
        ("private-key", "PRIVATE", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY"),
        ("aws-access-key", "AKIA ASIA", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ("anthropic-key", "sk-ant-", r"\bsk-ant-[\w-]{16,}"),
        ("openai-key", "sk-", r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}"),
        ("github-token", "gh", r"\b(?:gh[opsru]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
        ("slack-token", "xox", r"\bxox[abposr]-[\w-]{10,}"),
        ("google-key", "AIza", r"\bAIza[\w-]{30,}"),
        ("stripe-key", "k_live_ k_test_", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
        ("jwt", "eyJ", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"),
        ("url-password", "://", r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{1,60}:(?!\[REDACTED)[^\s/@]{3,200}@"),
        (
            "assignment",
            ": =",
            r"(?i)\b(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?token|auth[_-]?token)\s*[:=]\s*[\"']?(?![\"'\s]*(?:\$|<|\{|\[REDACTED|os\.|env|None\b|null\b|x{3,}|\*{3,}|getpass))[^\s\"'(){}<>,;]{6,}",
        ),
    )
)


_MOST_WORDS = 40
"""Words of a name that are read as a command."""


def scan(texts: Iterable[str | None], credentials: Credentials | None = None) -> list[str]:
    """Return what is wrong with the texts of one memory, sorted; empty when nothing is.

    Flags: ``injection``, ``invisible-character``, ``direction-control``, ``tag-character``,
    ``terminal-escape`` and ``credential:<detector>``. ``credentials`` names the detectors
    that hit a text (the caller's redaction patterns) and is asked beside the shapes known here.
    Orders are looked for in the text as a model would read it: compatibility forms
    folded, invisible characters taken out, blanks collapsed.
    """
    flags: set[str] = set()
    for text in texts:
        if text:
            found, plain = _found(text)
            flags |= found
            if credentials is not None:
                flags.update(f"credential:{name}" for name in credentials(plain))
    return sorted(flags)


@lru_cache(maxsize=4_096)
def _found(text: str) -> tuple[frozenset[str], str]:
    """Return what is wrong with a text, and the text as it reads; memories say much in the same words."""
    flags = {flag for flag, members in _HIDING if members.search(text)}
    plain = readable(text)
    disguised = (*disguises.readings(text), *(disguises.readings(plain) if plain != text else ()))
    if _orders(plain) or any(_orders(reading) for reading in disguised if _HINT.search(readable(reading).lower())):
        flags.add("injection")
    flags.update(
        f"credential:{name}" for name, signs, pattern in _CREDENTIALS if any(map(plain.__contains__, signs)) and pattern.search(plain)
    )
    return frozenset(flags), plain


@lru_cache(maxsize=8_192)
def untold(name: str | None) -> bool:
    """Tell whether the name of a file, a branch or a session stays unsaid to an agent: it gives an order, or a command that destroys."""
    if not name:
        return False
    words = readable(name).replace("/", " / ").split()[:_MOST_WORDS]
    return bool(scan([name])) or any(destroys(" ".join(words[at:])) for at in range(len(words)))


def _orders(text: str) -> bool:
    """Tell whether a text holds an order to a model."""
    forms = list(_forms(readable(text)))
    if any(p.search(form) for form in forms for words, p in _INJECTIONS if any(map(form.__contains__, words))):
        return True
    return any(p.search(form) for form in forms if _FOREIGN_HINT.search(form) for p in _FOREIGN)


def strings_of(value: Any) -> Iterator[str]:
    """Yield every text in a value of JSON, names of fields too, as a reader would see it: in JSON an escape is hidden behind signs."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield str(key)
            yield from strings_of(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from strings_of(member)


def unread(memory: Memory, texts: Iterable[str | None]) -> list[str]:
    """Return what the scan finds in texts of a memory beyond what a person has read in it and accepted all the same."""
    found = scan(texts)
    read = memory.body.get(REVIEWED) if found else None
    return [flag for flag in found if not (isinstance(read, list) and flag in read)]


def _forms(plain: str) -> Iterator[str]:
    """Yield a text line by line and as one line, in small letters and overlapping pieces, so that every search stays short."""
    lines = "\n".join(line for raw in plain.lower().splitlines() if (line := " ".join(raw.split())))
    for start in range(0, len(lines), _PIECE):
        piece = lines[start : start + _PIECE + _OVERLAP]
        yield piece
        if "\n" in piece:
            yield piece.replace("\n", " ")


def readable(text: str) -> str:
    """Return a text as it reads: compatibility forms folded, invisible, direction, tag and control characters taken out."""
    return visible(unicodedata.normalize("NFKC", text))
