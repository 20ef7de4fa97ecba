"""What of a long answer is told: whole sentences, and lists and tables with what heads them."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ctx_pipeline.facts.prompts import one_line
from ctx_pipeline.mining.lessons.quoting import is_figures
from ctx_pipeline.model.display import GAP, truncate
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_LEAST = 20
"""Characters that an answer with gaps says at least."""

_LONGEST = 200
"""Characters of a point of a list beyond which its first sentences stand for it."""

_ENDS = 8_000
"""Characters at each end of an answer that are read."""

_ROUNDS = 8
"""How often sentences are chosen anew for those that repeat an output."""

_MISSED = 50
"""How many that do not fit are tried."""

_WORDS = 4
"""Words from which on a sentence at the beginning says what was done."""

_FIRST, _LAST, _ASKS, _LEFT, _OTHER, _NOTHING = range(6)
"""What a unit says, the most telling first: what was done, how the answer ends, what it asks, what is left."""

_SENTENCE, _HEADING, _ITEM, _HEADER, _ROW, _CODE = "sentence", "heading", "item", "header", "row", "code"


@dataclass(repr=False, eq=False)
class _Unit:
    """A sentence, a heading, a point of a list, a row of a table, or code: told whole or not at all."""

    text: str
    kind: str
    head: int | None = None
    """what it is not told without: the words above a list, the header of a table, the sentence that it points back to"""
    group: int = 0
    """the list or table that it is a member of; 0 is none"""
    before: int | None = None
    """the point of the list or the row before it"""
    leads: bool = False
    """it says nothing without one of its members"""
    members: list[int] = field(default_factory=list)
    rank: int = _OTHER
    block: int = 0
    """the paragraph, list or table that it stands in"""


def excerpt(answer: str, room: int, echoed: Callable[[Sequence[str]], set[int]]) -> str:
    """Return what of an answer fits so many characters, in its order: what was done, how it ends, what it asks, what is left.

    ``echoed`` gives the places of texts that repeat what a tool printed: those are no words of
    the agent and are left out; what was done, how it ends and what is left are told up to there, of a row
    the cells that are the agent's own. A gap stands for what is missing, or the number of points of a
    list. Empty where too little is left.
    """
    text = answer if len(answer) <= 2 * _ENDS else f"{answer[:_ENDS]}\n\n{answer[-_ENDS:]}"
    if text.count("```") == 2 and (only := _ONLY_CODE.fullmatch(text)):
        text = only[1]
    units = _units(_LOCAL_LINK.sub(r"\1", text))
    _rank(units)
    idle = {n for n, unit in enumerate(units) if unit.rank == _NOTHING}
    idle = idle if len(idle) < len(units) else set()
    barred: set[int] = set()
    begun_only: set[int] = set()
    if sum(len(unit.text) + 1 for unit in units) > room:
        units = [replace(unit, text=_short(unit.text)) if unit.kind == _ITEM else unit for unit in units]
        barred |= idle
    for _ in range(_ROUNDS):
        kept = _fitting(units, room, barred)
        repeated = {n for place in echoed([units[n].text for n in kept]) if not _of_figures(units, n := kept[place])}
        if not repeated:
            break
        for n in sorted(repeated - begun_only):
            begun_only.add(n)
            if own := _own(units[n], echoed):
                units[n] = replace(units[n], text=own)
                repeated.discard(n)
        barred |= repeated | idle
    else:
        kept = []
    told = _joined(units, kept)
    if not kept and (long := next((unit.text for unit in units if unit.kind != _HEADING), "")) and not echoed([long]):
        return truncate(long, room)
    return told if len(told.replace(GAP, "").strip()) > (_LEAST if GAP in told else 0) else ""


def _of_figures(units: Sequence[_Unit], n: int) -> bool:
    """Tell whether a unit is a row of figures, which an agent reports as a tool printed them, or the header of some."""
    unit = units[n]
    if unit.kind == _HEADER:
        return is_figures(unit.text, header=True) and any(is_figures(units[row].text) for row in unit.members)
    return unit.kind == _ROW and is_figures(unit.text)


def _own(unit: _Unit, echoed: Callable[[Sequence[str]], set[int]]) -> str:
    """Return what of a unit that repeats an output is the agent's own; empty where that says little."""
    if unit.kind == _ROW:
        return _own_cells(unit.text, echoed)
    begun = _before_echo(unit.text, echoed) if unit.rank in (_FIRST, _LAST, _LEFT) else ""
    return begun if unit.rank == _FIRST or begun != unit.text else ""


def _own_cells(row: str, echoed: Callable[[Sequence[str]], set[int]]) -> str:
    """Return a row with its figures and the cells that repeat no output; empty without such a cell.

    A status is too short to tell that by itself: it is told where no output has it beside the words around it.
    """
    cells = [cell.strip() for cell in _CELL_END.split(row.strip().strip("|"))]
    worded = [n for n, cell in enumerate(cells) if any(map(str.isalpha, cell))]
    probes: list[tuple[int, str]] = []
    for n in worded:
        if len(cells[n].split()) > _WORDS:
            probes.append((n, f"| {cells[n]} |"))
        elif _STATUS.fullmatch(cells[n]):
            before, behind = " ".join(cells[:n]).split()[-_WORDS:], " ".join(cells[n + 1 :]).split()[:_WORDS]
            beside = [words for words in ([*before, cells[n]], [cells[n], *behind]) if len(" ".join(words).split()) > _WORDS]
            probes += [(n, " ".join(words)) for words in beside]
    repeated = {n for n, text in probes if echoed([text])}
    own = {n for n, _ in probes} - repeated
    shown = [cell if n in own or n not in worded else GAP for n, cell in enumerate(cells)]
    return f"| {' | '.join(shown)} |" if own else ""


def _before_echo(text: str, echoed: Callable[[Sequence[str]], set[int]]) -> str:
    """Return a sentence up to the words that repeat an output; empty where that says little, or what is left out turns what it says.

    It is whole where only its neighbors make it repeat one. What explains what is left behind a colon does not turn it.
    """
    words = text.split()

    def repeated(begin: int, end: int) -> bool:
        return bool(echoed([" ".join(words[begin:end])]))

    end = bisect_left(range(len(words)), x=True, key=lambda n: repeated(0, n + 1)) + 1
    if end > len(words):
        return text
    told = bisect_left(range(end), x=True, key=lambda n: not repeated(n + 1, end))
    turned = bool(_TURNS.search(" ".join(words[told:])) or _OPEN.fullmatch(words[told - 1]))
    if turned:
        told = next((n for n in range(told, 0, -1) if words[n - 1].endswith(":")), 0)
        said = " ".join(words[:told])
        turned = not _IS_LEFT.search(said) or bool(_NONE.search(said))
    return f"{' '.join(words[:told])} {GAP}" if told > _WORDS and not turned else ""


def _fitting(units: Sequence[_Unit], room: int, barred: set[int]) -> list[int]:
    """Return the places of the units that are told, the most telling first as far as the room goes."""
    kept: set[int] = set()
    left, missed = room, 0
    for n in sorted(range(len(units)), key=lambda n: _urgency(units[n], n)):
        if n in kept or len(units[n].text) > left or missed > _MISSED:
            continue
        wanted = _with_heads(units, n, kept, barred, left)
        size = len(_joined(units, sorted(kept | wanted))) if wanted else room + 1
        missed += size > room
        if wanted and size <= room:
            kept |= wanted
            left = room - size
    return sorted(kept)


def _urgency(unit: _Unit, n: int) -> tuple[int, int]:
    """Return the order in which units are chosen: by rank; the sentences of the end from the last one on."""
    return unit.rank, -n if unit.rank == _LAST and unit.kind == _SENTENCE else n


def _with_heads(units: Sequence[_Unit], n: int, kept: set[int], barred: set[int], room: int) -> set[int] | None:
    """Return a unit with what it is not told without, and the points of its list before it; None where that may not be told or is long."""
    wanted: set[int] = set()
    todo: list[int | None] = [n]
    while todo:
        place = todo.pop()
        if place is None or place in kept or place in wanted:
            continue
        unit = units[place]
        room -= len(unit.text) + 1
        if place in barred or room < -1:
            return None
        wanted.add(place)
        todo.append(unit.head)
        before = unit.before
        while before in barred:
            before = units[before].before
        todo.append(before)
        if unit.leads and not any(m in kept or m in wanted for m in unit.members):
            first = next((m for m in unit.members if m not in barred), None)
            if first is None:
                return None
            todo.append(first)
    return wanted


def _joined(units: Sequence[_Unit], kept: Sequence[int]) -> str:
    """Return units in their order, with what stands for those that are missing."""
    told: list[str] = []
    for before, n in zip([-1, *kept], [*kept, len(units)], strict=True):
        between = before >= 0 and n < len(units)  # what is told as one text stood so
        gone = kept and any(between or unit.rank < _NOTHING for unit in units[before + 1 : n])
        missing = _missing(units, before, n) if gone else []
        told += missing if missing != [GAP] or not told or not told[-1].endswith(GAP) else []
        told += [units[n].text] if n < len(units) else []
    return " ".join(told)


def _missing(units: Sequence[_Unit], before: int, behind: int) -> list[str]:
    """Return what stands for the units between two: of a list that goes on in them the number of its points."""
    gone = units[before + 1 : behind]
    group = units[before].group if before >= 0 else 0
    rest = [unit for unit in gone if group and unit.group == group]
    if not rest or (behind < len(units) and units[behind].group == group):
        return [GAP]
    noun = f"{'row' if rest[0].kind == _ROW else 'item'}{'' if len(rest) == 1 else 's'}"
    others = [unit for unit in gone if unit.group != group and not (unit.group and unit.head is not None and unit.head > before)]
    return [f"(and {len(rest)} more {noun})", *([GAP] if others else [])]


def _short(item: str) -> str:
    """Return the first sentences of a long point of a list."""
    ends = [found.start() for found in _FULL_STOP.finditer(item, 0, _LONGEST) if not _inside_code(item, found.start())]
    ends = [end for end in ends if len(item[:end]) > _LEAST]
    return f"{item[: ends[-1]]} {GAP}" if len(item) > _LONGEST and ends else item


# how an answer is read


_FENCE = lazy_pattern(r"\s*(?:```|~~~)")
_ONLY_CODE = lazy_pattern(r"\s*```[^\n]*\n(.*)```\s*", re.DOTALL)
"""An answer that is a text to copy."""

_IS_HEADING = lazy_pattern(r"\s{0,3}#{1,6}\s+\S|\s{0,3}(?:\*\*|__)[^*_\n]{1,100}(?:\*\*|__):?\s*$")
_IS_ITEM = lazy_pattern(r"(\s*)(?:[-*+\u2022]|\d{1,3}[.)]|[a-z]\))\s+\S")
_IS_ROW = lazy_pattern(r"\s*\|.*\|\s*$")
_UNDER_HEADER = lazy_pattern(r"\s*\|[\s|:-]+\|\s*$")
_RULE = lazy_pattern(r"\s*(?:[-*_]\s*){3,}$")
_LOCAL_LINK = lazy_pattern(r"\[([^\]\n]{1,200})\]\((?:/|\.{1,2}/|[A-Za-z]:\\|file:)[^)\s]*\)")
"""A link to a file of the machine: its text names the file."""

_FULL_STOP = lazy_pattern(
    r"(?<=[.!?])(?<!\d\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)[)\"'\]*_`\u201d]{0,3}\s+(?=\S)|(?<=[\u3002\uff01\uff1f])(?=\S)"
)
_LEADS = lazy_pattern(r"[:\uff1a][\s*_`]*$")
_PRAISE = lazy_pattern(
    r"(?i)\W*(?:(?:perfect|excellent|great|awesome|amazing|wonderful|fantastic|nice|good|sure|certainly|absolutely|of course|hello|hi"
    r"|thanks?|thank you|understood|i see|you[\u2019']re (?:absolutely )?right|i[\u2019']m sorry)\b\W*)+"
    r"|\W*(?:(?:now|ok(?:ay)?|first|next)\W+)?(?:let me|let[\u2019']s|i[\u2019']ll|i will|i[\u2019']m going to|looking at)\b.*"
)
"""What says nothing of the work: thanks, and what the agent does next in the answer itself."""

_ANNOUNCES = lazy_pattern(
    r"(?i)\W*(?:(?:and|now),? )?(?:here(?:[\u2019']s| is| are)|(?:in )?summary|the following|this is what|these are|let me)\b"
)
"""The beginning of words above headings that say no more than these."""

_TURNS = lazy_pattern(
    r"(?i)\b(?:but|except|not|no|none|only|unless|until|without|however|though|although|while|apart|besides|excluding|error\w*|broken|missing"
    r"|skip\w*|still|remain\w*|fail\w*|\w+n[\u2019']t)\b"
)
"""Words that take back, or narrow, what stands before them."""

_OPEN = lazy_pattern(
    r"(?i)(?:and|or|nor|but|so|yet|that|which|who|because|since|as|if|when|where|while|whereas|although|though|unless|until|than|whether|once"
    r"|about|above|across|after|against|along|among|around|at|before|behind|below|beside|besides|between|beyond|by|down|during|except|for|from|in"
    r"|into|like|near|of|off|on|onto|out|over|past|per|through|throughout|to|toward|towards|under|up|upon|via|with|within|without)[,;:]?"
)
"""A conjunction or preposition: what ends in one has its sense in the words behind."""

_POINTS_BACK = lazy_pattern(
    r"(?i)\W*(?:it|its|this|that|these|those|they|their|both|neither|either|such|also|so|then|otherwise|instead|however|but|and|or"
    r"|because|therefore|thus|the (?:same|former|latter|rest))\b"
)
"""The beginning of a sentence that says nothing without the one before it."""

_IS_LEFT = lazy_pattern(
    r"(?i)\b(?:not (?:yet|done|run|tested|pushed|committed|included|verified|covered|able)|still|remain(?:s|ing)?|left|next steps?|to-?do"
    r"|pending|outstanding|queued|blocked|unresolved|(?:could|did|wo)n[\u2019']t|can(?:not|[\u2019']t)|(?:could|did) not"
    r"|fail(?:s|ed|ing|ure)?|caveats?|note|manual(?:ly)?|you(?:[\u2019']ll| will)? need|needs?|must|recommend(?:s|ed|ations?)?"
    r"|root cause)\b"
)

_STATUS = lazy_pattern(
    r"(?i)\W*(?:(?:accepted|addressed|all|already|applied|been|blocked|closed|completed?|corrected|deferred|done|failed|failing|fixed|handled|here"
    r"|in|intended|invalid|is|kept|later|left|mended|merged|missing|no|none|not|now|ok|open|outdated|part(?:ly|ially)|pass(?:ed|es|ing)|pending"
    r"|progress|ready|rejected|remains|removed|resolved|reverted|skipped|still|tested|todo|unchanged|unclear|unknown|untested|valid|verified|was"
    r"|won[\u2019']?t fix|yes|yet)\b\W*){1,4}"
)
"""How something stands, in words that order nothing."""
_CELL_END = lazy_pattern(r"(?<!\\)\|")
_NONE = lazy_pattern(r"(?i)\b(?:no|none|nothing|not|never|without|\w+n[\u2019']t)\b")


def _units(answer: str) -> list[_Unit]:
    """Return an answer as units, each with what heads it."""
    units: list[_Unit] = []
    for number, (kind, lines) in enumerate(_blocks(answer)):
        if not one_line(" ".join(lines)):
            continue
        begun = len(units)
        heading = begun - 1 if units and units[-1].kind == _HEADING else None
        sentence = next((n for n in reversed(range(begun)) if units[n].kind == _SENTENCE), None)
        above = sentence if heading is None else heading
        if kind == _SENTENCE:
            lead = sentence if sentence == begun - 1 and _LEADS.search(units[begun - 1].text) else heading
            for text in _sentences(one_line(" ".join(lines))):
                before = len(units) - 1 if len(units) > begun else lead if lead is not None else sentence
                told = text.replace("**", "") if text.count("**") % 2 else text  # its other end stands in another sentence
                units.append(_Unit(told, kind, before if _POINTS_BACK.match(text) else None))
            _head(units, range(begun, begun + 1), lead)
        elif kind == _ITEM:
            _list(units, lines, above)
        elif kind == _ROW:
            header, *rows = [one_line(line) for line in lines if not _UNDER_HEADER.match(line)] or lines
            units.append(_Unit(header, _HEADER))
            units += [_Unit(row, kind, group=begun + 1, before=n if n > begun else None) for n, row in enumerate(rows, begun)]
            _head(units, range(begun, begun + 1), above)
            _head(units, range(begun + 1, len(units)), begun)
        else:
            units.append(_Unit(one_line(" ".join(lines)), kind))
            led = begun and _LEADS.search(units[begun - 1].text) and not _ANNOUNCES.match(units[begun - 1].text)
            _head(units, range(begun, begun + 1), above if kind != _HEADING else begun - 1 if heading is not None or led else None)
        for unit in units[begun:]:
            unit.block = number
    return units


def _head(units: list[_Unit], members: range, head: int | None) -> None:
    """Say what heads some units."""
    if head is not None:
        lead = units[head]
        lead.leads = lead.kind in (_HEADING, _HEADER) or _LEADS.search(lead.text) is not None
        lead.members += members
        for n in members:
            units[n].head = head


def _list(units: list[_Unit], lines: Sequence[str], above: int | None) -> None:
    """Add the points of a list; those that stand deeper are headed by the point above them."""
    begun = len(units)
    open_items: list[tuple[int, int]] = []
    """indentation and place of the points that the next one may stand under"""
    for line in lines:
        found = _IS_ITEM.match(line)
        if found is None:
            units[-1].text += f" {line.strip()}"
            continue
        beside = None
        while open_items and open_items[-1][0] >= len(found[1]):
            beside = open_items.pop()[1]
        group = len(units) + 1 if beside is None else units[beside].group
        units.append(_Unit(line.strip(), _ITEM, group=group, before=beside))
        _head(units, range(len(units) - 1, len(units)), open_items[-1][1] if open_items else above)
        open_items.append((len(found[1]), len(units) - 1))
    for unit in units[begun:]:
        unit.text = one_line(unit.text)


def _blocks(answer: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs, headings, lists, tables and code of an answer with their lines; quotations are read as code."""
    kind, lines, fenced, blank = "", list[str](), False, False
    for line in answer.splitlines():
        within = kind == _ITEM and (not blank or line[:1].isspace())
        if fenced:
            now = kind
            fenced = not _FENCE.match(line)
        elif not line.strip() or _RULE.match(line):
            blank = True
            continue
        elif _FENCE.match(line):
            now, fenced = kind if within else _CODE, True
        elif _IS_HEADING.match(line):
            now = _HEADING
        elif _IS_ITEM.match(line):
            now = _ITEM
        elif _IS_ROW.match(line):
            now = _ROW
        elif line.lstrip().startswith(">"):
            now = _CODE
        else:
            now = _ITEM if within else _SENTENCE
        begins = now != kind or now == _HEADING or (blank and now != _ITEM)
        if lines and begins:
            yield kind, lines
            lines = []
        kind, blank = now, False
        lines.append(line)
    if lines:
        yield kind, lines


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; a full stop in code ends none."""
    begin = 0
    for found in _FULL_STOP.finditer(text):
        end = found.start() + len(found[0].rstrip())
        if not _inside_code(text, end):
            yield text[begin:end]
            begin = found.end()
    if text[begin:]:
        yield text[begin:]


def _inside_code(text: str, end: int) -> bool:
    return text.count("`", 0, end) % 2 == 1


def _rank(units: Sequence[_Unit]) -> None:
    """Say how telling each unit is."""
    for unit in units:
        bare = all(units[m].kind == _SENTENCE for m in unit.members)
        ends = not unit.members and unit is not units[-1] and _LEADS.search(unit.text)
        idle = bare and (ends or _PRAISE.fullmatch(unit.text) or not any(map(str.isalnum, unit.text)))
        said = _NOTHING if idle else _LEFT if _IS_LEFT.search(unit.text) else _OTHER
        lead = units[unit.head] if unit.head is not None else unit
        if lead.rank == _NOTHING:
            unit.head = None
        led = lead.rank if lead.leads else _OTHER
        unit.rank = led if unit.kind in (_ITEM, _HEADER, _ROW, _CODE) else said if said == _NOTHING else min(said, led)
        if unit.kind == _SENTENCE and unit.text.rstrip("*_ ").endswith(("?", "\uff1f")):
            unit.rank = _ASKS
    _rank_ends(units)


def _rank_ends(units: Sequence[_Unit]) -> None:
    """Say of which units an answer begins and ends."""
    sentences = [unit for unit in units if unit.kind == _SENTENCE and unit.rank != _NOTHING]
    for n, unit in enumerate(sentences):
        if unit.leads and n:
            break
        unit.rank = _FIRST
        if unit.leads or len(unit.text.split()) >= _WORDS or not unit.text.isascii():
            break
    last = units[-1].block if units else 0
    while last and next((unit.rank == _ASKS for unit in units if unit.block == last), True):
        last -= 1  # what a question is about stands above it
    for unit in units:
        if unit.block >= last:
            unit.rank = min(unit.rank, _LAST)
            lead = units[unit.head] if unit.head is not None else unit
            lead.rank = min(lead.rank, _LAST) if lead.leads else lead.rank
