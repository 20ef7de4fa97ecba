"""Text, sizes and Markdown as people read them; no character in them steers a terminal, a page or a model."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Text and sizes as people read them.


def truncate(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters, its last one an ellipsis where something is missing."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def cut(text: str, longest: int) -> str:
    """Return a text on one line, cut with an ellipsis."""
    return truncate(" ".join(text.split()), longest)


GAP = "[…]"
"""What stands for what is left out."""

_ASKS = lazy_pattern(
    r"(?i)\b(?:(?:can|could|would|will) (?:you|we)|please|let[\u2019']?s|do you think|any (?:idea|suggestion)s?"
    r"|i(?:[\u2019']d| would)? (?:like|want|need|recommend|suggest|prefer|propose)|(?:make|offer|give) (?:me )?(?:a|an|some))\b"
)
"""Words with which somebody asks another one for something."""

_OUGHT = lazy_pattern(r"(?i)\b(?:should|must|needs? to|has to|have to)\b")
_SENTENCE_ENDS = lazy_pattern(r"(?:[.!?]['\")\]]{0,2}|\[\u2026\])\s+(?=\S)")
_REFERS = lazy_pattern(r"(?i)\b(?:it|its|they|them|their|this|that|these|those)\b")
"""Words that stand for what was said before them."""

_OF_ASK, _OF_SENTENCE, _OF_HEAD = 0.6, 0.75, 0.5
"""Shares of the room: the ask takes at most so much, one that refers to the beginning of its sentence more; a beginning ends with a
sentence where that leaves no more of it empty."""


def shorten_ask(text: str, width: int) -> str:
    """Return a request on one line in at most ``width`` characters: its beginning, and what it asks for where that stands further on.

    That is the last sentence that asks somebody, or else a last one that says what ought to be.
    """
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    begins = [0, *(found.end() for found in _SENTENCE_ENDS.finditer(text))]
    spans = list(zip(begins, [*begins[1:], len(text)], strict=True))
    asks = [span for span in spans if _ASKS.search(text, *span) or text[slice(*span)].rstrip().endswith("?")]
    begin, end = (asks or (spans[-1:] if _OUGHT.search(text, spans[-1][0]) else spans[:1]))[-1]
    most = int(width * _OF_ASK)
    if end - begin > most and (found := _ASKS.search(text, begin, end)):
        if end - begin <= width * _OF_SENTENCE and _REFERS.search(text, found.end(), end):
            most = end - begin
        else:
            begin = found.start()
    ask = truncate(text[begin:end].rstrip(), most)
    ask += f" {GAP}" if text[end:].strip() and not ask.endswith((GAP, "\u2026")) else ""
    room = width - len(ask) - len(GAP) - 2
    if begin < room or room < _LEAST_ROOM:
        return truncate(text, width)  # the beginning holds it, or as much of it as there is room for
    whole = [place for place in begins if room * _OF_HEAD < place <= room + 1]
    head = text[: whole[-1]] if whole else text[:room].rpartition(" ")[0]
    return f"{head.rstrip().removesuffix(GAP).rstrip()} {GAP} {ask}"


_LEAST_ROOM = 8
"""Characters of a beginning, at least: fewer say nothing of it."""

_LINK = lazy_pattern(r"!?\[(?!REDACTED:)([^\]\n]{1,200})\]\([^)\s]*\)?")
_OPEN_LINK = lazy_pattern(r"!?\[(?!REDACTED:)(?=[^\s\]]+$)|https?://(?:www\.)?")
_SIGNS = lazy_pattern(r"^[#>*\-\s]+|\*{2,}|`")


def title_text(title: str) -> str:
    """Return a title as one line: Markdown links by their text, without signs of emphasis, headings and code."""
    return " ".join(_SIGNS.sub("", _OPEN_LINK.sub("", _LINK.sub(r"\1", title))).split()) or " ".join(title.split())


def short_id(session_id: str, others: Iterable[str]) -> str:
    """Return as many characters of an id as tell it from the others, eight at least and whole groups behind them."""
    known = [one for one in others if one != session_id]
    return next(
        (session_id[:n] for n in (8, 13, 18, 23) if not any(one.startswith(session_id[:n]) for one in known)),
        session_id,
    )


def session_title(title: str | None) -> str:
    """Return the title of a session as one line; of one without one, that it has none."""
    return title_text(title or "") or "(no title)"


SIGNAL_WORDS = {
    "trajectory_sequence_entropy": "variety of steps",
    "trajectory_balance_score": "balance of looking and doing",
    "active_seconds": "time at work",
    "idle_seconds": "time idle",
    "session_duration_seconds": "length of the session",
    "shell_seconds": "time in the shell",
    "time_to_first_edit_seconds": "time to first edit",
    "mcp_call_count": "MCP call count",
    "capture_gap_signal": "capture gap",
    "interrupted_signal": "interrupted",
    "secret_exposure_signal": "secret exposure",
    "trajectory_4gram_repetition_ratio": "repeated runs of four steps",
    "trajectory_4gram_top": "most repeated four steps",
    "trajectory_failed_result_recovery_steps": "steps from failure to recovery",
    "trajectory_fix_validation_latency_steps": "steps from fix to check",
    "trajectory_fix_without_validation_count": "fixes without a check",
    "trajectory_max_repetition_run": "longest repetition",
    "trajectory_premature_finish_without_validation": "ended without a check",
    "user_satisfaction_lexical": "satisfaction in prompts",
}
"""What signals are called whose names are no plain words; the page's script has the same."""


def signal_words(name: str) -> str:
    """Return the name of a signal in words."""
    return SIGNAL_WORDS.get(name, name.removeprefix("trajectory_").replace("_", " "))


def money(nano: int) -> str:
    """Return nano-dollars as dollars and cents: $0.00, <$0.01, $4.20, -$1,234.50."""
    cents = round(abs(nano) / 1e7)
    sign = "-" if nano < 0 else ""
    return f"{sign}<$0.01" if nano and not cents else f"{sign}${cents / 100:,.2f}"


def amount(value: float) -> str:
    """Return a sum of units that are no tokens and no money: whole from a thousand on, else with up to four places."""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share as percent: 69%, 7.8%, <0.1%, 0%."""
    value = 100 * share
    if value == 0 or abs(value) >= 9.95:
        return f"{value:.0f}%"
    return "<0.1%" if 0 < value < 0.05 else f"{value:.1f}%"


def size(octets: int) -> str:
    """Return bytes with a unit of a thousand: 512 B, 4.0 kB, 1.2 MB."""
    value = float(octets)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


# Characters that nobody sees but a terminal, a page or a model obeys: the one list of them, for all text that leaves.


CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
"""C0 and C1 but for tab, line feed and carriage return; as a part of a character class, as are the others."""

DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""What changes the direction of writing."""

TAGS = "\U000e0000-\U000e0fff"
"""Tag characters and variation selectors that spell a hidden text."""

UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Format characters and fillers without a shape.

ZWJ and ZWNJ are among them: they hide words from a search, and without them a text in any
script can still be read. The selectors for text and emoji (U+FE0E, U+FE0F) are not, nor
are the visible number signs that Unicode counts as format characters.
"""

SEPARATORS = "\x85\u2028\u2029"
"""Line ends of Unicode that many programs take for none."""

HALVES = "\ud800-\udfff"

HIDDEN = lazy_pattern(f"[{CONTROLS}{DIRECTIONS}{TAGS}{UNSEEN}{SEPARATORS}{HALVES}]")
"""Everything that :func:`visible` takes out or turns into a line feed."""

NOT_IN_CODE = lazy_pattern(f"(?![\x0c\u00ad\u200c\u200d])[{CONTROLS}\r{DIRECTIONS}{TAGS}{UNSEEN}{SEPARATORS}{HALVES}]")
"""What :func:`code_text` takes out: all of :data:`HIDDEN` but form feeds, soft hyphens and joiners, which are ordinary text in a file."""

SEQUENCE = lazy_pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,2000}(?:\x07|\x1b\\|\x9c)"
)
"""What colors text, moves a cursor or names a window of a terminal."""

_ENDS = lazy_pattern(f"\r\n?|[{SEPARATORS}]")


def visible(text: str) -> str:
    """Return a text as a reader sees it: no sequence for a terminal, no character of :data:`HIDDEN`; every line end is a line feed."""
    if "\r" not in text and HIDDEN.search(text) is None:
        return text
    return HIDDEN.sub("", _ENDS.sub("\n", SEQUENCE.sub("", text)))


def code_text(text: str) -> str:
    """Return the text of a file with all that an edit of it must repeat: only characters of :data:`NOT_IN_CODE` are left out."""
    return NOT_IN_CODE.sub("", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    r"""Return JSON with every character of :data:`HIDDEN` as an escape (``\u202e``): the same value for a reader of JSON."""
    return HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


# Text of others inside Markdown: it keeps its headings, lists and code and brings no HTML, no image and no link but
# to the web.


_OPENS = lazy_pattern(r"[ \t]*(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_SIGN = lazy_pattern(r"\\[!-/:-@\[-`{-~]|(?P<run>`+)")
_RUNS = lazy_pattern(r"`+")
_BREAK = lazy_pattern(r"\r\n?|\n")
_TAG = lazy_pattern(r"<(?=[A-Za-z/!?])")
_MARKDOWN_LINK = lazy_pattern(r"\](?=\((?!https?://[^\s<>()]+\))|\[|:)")
_IMAGE = lazy_pattern(r"!\[")


def fenced(text: str, language: str = "") -> list[str]:
    """Return code in a fence that nothing in the text closes: the fence, the text, the fence."""
    fence = "`" * max(3, *(len(run) + 1 for run in _RUNS.findall(text)), 3)
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def prose(text: str) -> str:
    """Return Markdown of others, inert: what stands in its fences is as it was, and a fence that it leaves open is closed.

    A fence begins at the margin, since one in a list ends with the list, whatever its text says.
    """
    told = _BREAK.split(text.rstrip("\r\n"))
    later = Counter(map(len, _RUNS.findall(text)))
    lines: list[str] = []
    fence = ""
    for line in told:
        later.subtract(map(len, _RUNS.findall(line)))
        if fence:
            ended = re.fullmatch(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*", line)
            lines.append(line)
            fence = "" if ended else fence
        elif opened := _OPENS.fullmatch(line):
            fence = opened["fence"]
            lines.append(fence + opened["info"])
        else:
            lines.append(_inert(line, later))
    return "\n".join([*lines, fence] if fence else lines)


def inline(text: object) -> str:
    """Return text of others on one line of Markdown, inert."""
    return _inert(" ".join(str(text).split()))


def table_text(text: object) -> str:
    """Return text of others as a cell of a table, inert and without code."""
    return _dead(" ".join(str(text).split()).replace("\\", "\\\\").replace("`", "'")).replace("|", "\\|")


def _inert(line: str, later: Mapping[int, int] | None = None) -> str:
    """Return a line without HTML and links outside its code; ``later`` counts the runs of backticks in the lines behind it by length.

    A run without a partner would find one behind its line and is taken literally. A stroke
    in code parts the cells of a table, so that a line with one is taken to have no code.
    """
    parts: list[str] = []
    at = plain = 0
    while (found := _SIGN.search(line, at)) is not None:
        at, run = found.end(), found["run"]
        if run is None:
            continue
        closed = re.compile(rf"(?<!`){run}(?!`)").search(line, at)
        if closed is None and later is not None and not later[len(run)]:
            continue
        parts.append(_dead(line[plain : found.start()]))
        if closed is None:
            parts.append("\\`" * len(run))
        else:
            code, at = line[found.start() : closed.end()], closed.end()
            parts.append(_dead(code) if "|" in line else code)
        plain = at
    return "".join([*parts, _dead(line[plain:])])


def _dead(text: str) -> str:
    return _MARKDOWN_LINK.sub(r"]\\", _IMAGE.sub(r"!\\[", _TAG.sub("&lt;", text)))
