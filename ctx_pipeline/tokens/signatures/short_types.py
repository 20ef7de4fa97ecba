"""Short names of the types that most signatures are made of."""

from __future__ import annotations

import re

_STRINGS = "str string String &str &String &'static str &mut String std::string const char* const char * CharSequence"
_NUMBERS = (
    "int integer Int Integer long Long short Short byte Byte float Float double Double number Number bigint decimal Decimal"
    " i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 float32 float64"
    " uint128 uint256 int256 size_t Int32 Int64 UInt UInt32 UInt64"
)
_BOOLEANS = "bool boolean Bool Boolean"
_NOTHING = frozenset({"void", "()", "None", "Void", "Unit", "nil", "undefined", "never", "unit"})

PLAIN = {
    "str": "s",
    "string": "s",
    "String": "s",
    "&str": "s",
    "int": "n",
    "float": "n",
    "number": "n",
    "bool": "b",
    "boolean": "b",
}
"""What the plain notation shortens, and only where it is the whole type of a parameter."""

_SHORT = {
    **dict.fromkeys(re.findall(r"const char ?\*|&'static str|&mut String|\S+", _STRINGS), "s"),
    **dict.fromkeys(_NUMBERS.split(), "n"),
    **dict.fromkeys(_BOOLEANS.split(), "b"),
    **dict.fromkeys(_NOTHING, "∅"),
}
_LIST = re.compile(r"^(?:Vec|Array|List|list|std::vector|\[\])\s*(?=[<\[])")
_OPTION = re.compile(r"^(?:Option|Maybe|Optional|std::optional)\s*(?=[<\[])")


def short_type(text: str) -> str:
    """Return a type in the symbolic notation: s, n, b, ∅, [T], ?T, R; every other type as it is written."""
    text = text.strip()
    if text in _SHORT:
        return _SHORT[text]
    inner = _inside(_LIST.sub("", text)) if _LIST.match(text) else ""
    if inner:
        return f"[{short_type(inner)}]"
    inner = _inside(_OPTION.sub("", text)) if _OPTION.match(text) else ""
    if inner:
        return f"?{short_type(inner)}"
    if re.match(r"^(?:Result|std::result::Result)\s*<", text):
        return "R"
    if text.endswith("[]") and text[:-2] in _SHORT:
        return f"[{_SHORT[text[:-2]]}]"
    if text.startswith("[]") and text[2:] in _SHORT:
        return f"[{_SHORT[text[2:]]}]"
    for none in (" | None", " | null", " | undefined"):
        if text.endswith(none) and "|" not in text[: -len(none)]:
            return f"?{short_type(text[: -len(none)])}"
    if text.endswith("?") and text[:-1] in _SHORT:
        return f"?{_SHORT[text[:-1]]}"
    return text.removeprefix("impl ")


def _inside(text: str) -> str:
    """Return what stands in the one pair of brackets that a text is, empty where it is more than that or two types."""
    if not text or text[0] not in "<[" or text[-1] not in ">]":
        return ""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "<[(") - (letter in ">])")
        if (depth == 0 and place < len(text) - 1) or (depth == 1 and letter == ","):
            return ""
    return text[1:-1]
