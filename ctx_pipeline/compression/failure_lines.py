"""Lines that may tell of a failure: they stay as they are, whatever is left out around them."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BEFORE, BEHIND = 2, 12
"""Lines around one that tells of a failure that stay as they are."""

_WORDS = (
    r"(?i)\b(?:error|errors|errored|fail(?:ed|ure|ures|s|ing)?|fatal|panic(?:ked)?|exception|traceback|assert\w*|denied|refused|cannot|can't"
    r"|could not|unable|undefined|unresolved|unexpected|not found|no such|missing|conflict|rejected|abort(?:ed)?|timed? ?out|killed"
    r"|warn(?:ing)?s?)\b"
    r"|^E\s{2,}|^>\s|✗|✘|✖|\u00d7|❌|^\s*(?:not ok|FAIL|KO)\b|\w(?:Error|Exception|Warning)\b|BackOff\b|ErrImage|OOMKilled|unhealthy"
)
_STATUSES = (
    r"\b(?:HTTP(?:/\d(?:\.\d)?)?|(?:status|response)(?:[ _-]?code)?|returned)\b[\"']?[ \t:=]{0,4}[\"']?[45]\d\d\b"
    r"|\b(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)\s.{0,500}\s[45]\d\d\b|\bHTTP/\d(?:\.\d)?\"[ \t]+[45]\d\d\b"
    r"|\b[45]\d\d (?:Bad |Unauthorized|Forbidden|Not |Method|Conflict|Gone|Unprocessable|Too Many|Internal|Service|Gateway)"
)
_WRONG = lazy_pattern(f"{_WORDS}|{_STATUSES}")
_WRONG_STATUS = lazy_pattern(f"(?i){_STATUSES}")
_NONE_WRONG = lazy_pattern(
    r"(?i)\b(?:0|no) (?:errors?|fail(?:ed|ures?)|warnings?|issues?|problems?|conflicts?)\b|\b(?:errors?|failures?|warnings?): 0\b"
)


_SIGNS = (
    *("err", "fail", "fatal", "panic", "exception", "traceback", "assert", "denied", "refused", "cannot", "can't", "could not", "unable"),
    *("undefined", "unresolved", "unexpected", "not ", "no such", "missing", "conflict", "reject", "abort", "time", "killed", "warn"),
    *("ko", "backoff", "unhealthy"),
)
"""One of them stands in every line that :data:`_WRONG` finds something in, but for its marks at the beginning and its numbers."""
_ODD = lazy_pattern("[✗✘✖\u00d7❌\u017f\u212a\u0130\u0131]")
_NUMBER = lazy_pattern(r"[45]\d\d")
_STATUS_WORDS = ("http", "status", "response", "returned", "get", "head", "post", "put", "patch", "delete", "options")
_STATUS_NAME = lazy_pattern(r"[45]\d\d [bufnmcgtis]")
"""One of the words and a number, or a number and the beginning of its name, in lower case: without a sign only those tell of a status."""


_LONGEST_KEPT = 400
"""Characters of a line up to which it is remembered whether it tells of a failure."""


def wrong(line: str) -> bool:
    """Tell whether a line may tell of a failure, by a word or a status from 400 to 599; "0 errors" alone tells of none."""
    return (_wrong if len(line) <= _LONGEST_KEPT else _wrong.__wrapped__)(line)


@lru_cache(1_024)
def _wrong(line: str) -> bool:
    pattern = _WRONG
    if line[:1] not in _MARKS and not _odd(line):
        lowered = line.lower()
        # the pattern tries each of its words at each character: nearly all lines of a long output hold no sign of any
        if not _has_sign(lowered):
            if not _may_be_status(lowered):
                return False
            pattern = _WRONG_STATUS
    return bool(pattern.search(line)) and bool(_WRONG.search(_NONE_WRONG.sub("", line)))


def _odd(text: str) -> bool:
    """Tell whether a text holds a mark of a failure, or a letter that is another one in lower case."""
    return not text.isascii() and _ODD.search(text) is not None


def _has_sign(lowered: str) -> bool:
    return any(sign in lowered for sign in _SIGNS)


def _may_be_status(lowered: str) -> bool:
    """Tell whether a line in lower case, without a sign of a failure, can hold the status of one."""
    if _STATUS_NAME.search(lowered):
        return True
    return any(word in lowered for word in _STATUS_WORDS) and _NUMBER.search(lowered) is not None


_ASKED_AT_ONCE = 16_384
"""Lines of which it is asked together whether they tell of a failure: a copy of them is made meanwhile."""


def failures(lines: list[str], places: Iterable[int]) -> set[int]:
    """Return those places whose lines may tell of a failure, as :func:`wrong` says.

    Looking for each sign in the whole text takes a twentieth of the time that asking it of each line does.
    """
    left = iter(places)
    found = set[int]()
    while looked := [(place, lines[place]) for place in islice(left, _ASKED_AT_ONCE)]:
        found |= _failures(looked)
    return found


def _failures(looked: list[tuple[int, str]]) -> set[int]:
    found = {place for place, line in looked if line[:1] in _MARKS or _odd(line)}
    asked = [(place, line.lower()) for place, line in looked if place not in found]
    text = "\n".join([line for _, line in asked])
    ends = list(accumulate(len(line) + 1 for _, line in asked))
    told = set[int]().union(*(_holding(sign, text, ends) for sign in _SIGNS))
    told.update(bisect_right(ends, match.start()) for match in _STATUS_NAME.finditer(text))
    statuses = set[int]().union(*(_holding(word, text, ends) for word in _STATUS_WORDS)) - told
    told.update(number for number in statuses if _NUMBER.search(asked[number][1]))
    found.update(asked[number][0] for number in told)
    return {place for place, line in looked if place in found and wrong(line)}


def _holding(word: str, text: str, ends: list[int]) -> Iterator[int]:
    """Yield the numbers of the lines of a text that hold a word."""
    at = text.find(word)
    while at >= 0:
        number = bisect_right(ends, at)
        yield number
        at = text.find(word, ends[number])


_MARKS = frozenset("eE>")
"""What begins a line that :data:`_WRONG` takes for one of a failure"""


_MOST_PLACES = 3
_AROUND = 100
_MOST_NAMES = 12
_CODE = lazy_pattern(r"(?<![\w`)\]}])`([A-Za-z_./][^`\n]{3,40})`(?![\w`])")
"""What a text quotes as code."""
_HEADING = lazy_pattern(r"(?m)^#{1,4} +([^\n#]{3,60})$")
"""The headings of a Markdown text."""


def cut(line: str, most: int) -> str:
    """Return the first characters of a line longer than ``most``, what stands around the first words of failure behind them.

    Of the rest the first names that it quotes as code and its headings stay too: a later call may ask for them.
    """
    if len(line) <= most:
        return line
    plain = _NONE_WRONG.sub(lambda match: " " * len(match[0]), line)
    found, at = line[:most], most
    lowered = plain.lower()
    found_in = plain if _odd(plain) or _has_sign(lowered) or _may_be_status(lowered) else ""
    for match in islice(_WRONG.finditer(found_in, most), _MOST_PLACES):
        start, end = max(at, match.start() - _AROUND), min(len(line), match.end() + _AROUND)
        if start < end:
            found += line[at:end] if start == at else f"… [{start - at:,} characters] …{line[start:end]}"
            at = end
    if at == len(line):
        return found
    names = _first_of(_CODE.findall(line, most - _AROUND), found)
    headings = _first_of(_HEADING.findall(line, most - _AROUND), found)
    told = [f"{what} in them: {listed}" for what, listed in (("code", names), ("headings", headings)) if listed]
    return f"{found}… [{'; '.join([f'{len(line) - at:,} characters', *told])}]"


def _first_of(names: list[str], found: str) -> str:
    """Return the first names, each once, that a text does not hold."""
    return ", ".join([name for name in dict.fromkeys(names) if name not in found][:_MOST_NAMES])


_FIRST, _AT_ONCE = 16, 4_096
"""Lines that are looked at together, at first and at most: who asks may need the first ones alone."""


def guarded(lines: list[str]) -> Iterator[int]:
    """Yield the places of lines that stay as they are, in order: those that may tell of a failure, with their context."""
    begin = least = 0
    size = _FIRST
    while begin < len(lines):
        end = min(begin + size, len(lines))
        for n in sorted(failures(lines, range(begin, end))):
            first, least = max(0, n - BEFORE, least), min(len(lines), n + BEHIND + 1)
            yield from range(first, least)
        begin, size = end, min(2 * size, _AT_ONCE)
