"""A text as a model may read it all the same: look-alike letters, spelled-out words, markup, escapes and encodings undone."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOK_ALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04cf\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406"
    "\u03b1\u03bf\u03c1\u03bd\u03b9\u03ba\u03c5\u03c4\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0131\u0251\u0261\u026a\u0280\u1d0f\u1d04\u1d07\u1d00\u0274",
    "aeopcyxijsdqwlABEKMHOPCTXIaopvikutABEHIKMNOPTYXiagirocean",
)
_DIGITS = str.maketrans("013457@$!|", "oleastasil")
_OTHER_DIGITS = str.maketrans("1", "i")
_TAGS = lazy_pattern(r"<!--|-->|<[^<>]{0,400}>")
_MARKS = lazy_pattern(r"[*_~`\\]|(?<=\w)[\u0300-\u036f\u00ad]")
_BROKEN = lazy_pattern(r"(?<=\w)[-\u2010]\s*\n\s*(?=\w)")
_SPELLED = lazy_pattern(r"(?<![A-Za-z])(?:[A-Za-z][ .\-_*|/,+\u00b7]){3,}[A-Za-z](?![A-Za-z])")
_SIGNS = lazy_pattern(r"[ .\-_*|/,+\u00b7]")
_ESCAPES = lazy_pattern(r"\\u\{?([0-9A-Fa-f]{4,6})\}?|\\x([0-9A-Fa-f]{2})|&#")
_PACKED = lazy_pattern(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = lazy_pattern(r"(?:[0-9A-Fa-f]{2}[ :]?){12,}")
_IN_WORDS = lazy_pattern(r"[A-Za-z][013457@$!|]+[A-Za-z]|\b[013457@$!|]+[a-z]")
_TURNED = lazy_pattern("vtaber|qvfertneq|sbetrg|bireevqr|vafgehpgvba|flfgrz|nffvfgnag|phey|jvgubhg|perqragvny", re.IGNORECASE)
_BACKWARDS = lazy_pattern("erongi|dragersid|tegrof|edirrevo|noitcurtsni|metsys|tnatsissa|lruc|tuohtiw|laitnederc", re.IGNORECASE)
"""Words of orders with their letters turned by thirteen places, and from behind."""

_LINES = lazy_pattern(r"(?:^[ \t>#*/-]*[A-Za-z0-9+/_-]{16,}={0,2}[ \t]*(?:\n|\Z)){2,}", re.MULTILINE)
_GAPS = lazy_pattern(r"[\s\u200b]+")
_MOST = 20_000
"""Characters that are looked at under every disguise; a lesson is far shorter."""


def _without_entities(text: str) -> str:
    if "&" not in text:
        return text
    import html  # a list of 2,231 names, for a text that may hold one

    return html.unescape(text)


def readings(text: str) -> Iterator[str]:
    """Yield other ways in which a text may be read; where nothing is disguised, few or none."""
    text = text[:_MOST]
    bare = _MARKS.sub("", _TAGS.sub(" ", _without_entities(_unescaped(unquote(text)))))
    joined = _BROKEN.sub("", bare)
    seen = {text}
    for one in (_without_entities(text), bare, joined, _MARKS.sub("", _TAGS.sub("", text)), *_folded(joined), _spelled(joined)):
        if one not in seen:
            seen.add(one)
            yield one
    for packed in _unpacked(text):
        yield packed
        yield from _folded(packed)
    if _TURNED.search(text):
        yield codecs.encode(text, "rot13")
    if _BACKWARDS.search(text):
        yield text[::-1]


def _folded(text: str) -> Iterator[str]:
    """Yield a text with look-alikes as Latin letters, and with digits as the letters that they stand for."""
    latin = text.translate(_LOOK_ALIKES)
    if latin != text:
        yield latin
    if not _IN_WORDS.search(latin):
        return
    for table in (_DIGITS, {**_DIGITS, **_OTHER_DIGITS}):
        if (told := latin.translate(table)) != latin:
            yield told


def _spelled(text: str) -> str:
    """Return a text in which words that were spelled out letter by letter are words: two blanks or another sign part them."""
    return _SPELLED.sub(lambda found: _SIGNS.sub("", found[0]), text)


def _unescaped(text: str) -> str:
    return _ESCAPES.sub(lambda found: _letter(found[1] or found[2]) if found[1] or found[2] else found[0], text)


def _letter(digits: str) -> str:
    number = int(digits, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


def _unpacked(text: str) -> Iterator[str]:
    """Yield what base64 and hexadecimal digits in a text hold, where that is text; lines that part them are closed."""
    for form in (text, *(_GAPS.sub("", found[0]) for found in _LINES.finditer(text))):
        for found in _PACKED.finditer(form):
            piece = found[0].rstrip("=").replace("-", "+").replace("_", "/")
            yield from _text(base64.b64decode, piece + "=" * (-len(piece) % 4))
        for found in _HEX.finditer(form):
            yield from _text(bytes.fromhex, re.sub(r"[ :]", "", found[0]))


def _text(decode: Callable[[str], bytes], packed: str) -> Iterator[str]:
    try:
        told = decode(packed).decode("utf-8")
    except (ValueError, binascii.Error):
        return
    if told.isprintable() or "\n" in told:
        yield told
