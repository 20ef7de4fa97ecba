"""One session in figures: reads and what was repeated, tokens and money by tool, way and file, all of one total."""

from __future__ import annotations

import re
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.file_accesses import MENTION, READ, accesses_by_call, inside, reads_of
from ctx_pipeline.sessions.reports.repeated_reads import TABLES, window_of
from ctx_pipeline.sessions.reports.session_gain import prices_of, repeated
from ctx_pipeline.sessions.session_choice import select_session
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.groupings import share_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctx_pipeline.sessions.reports.repeated_reads import Window
    from ctx_pipeline.settings import Settings

SCHEMA = 1
"""Version of the JSON shape."""

WAYS = {
    "read whole": "a file read without saying which lines",
    "read lines": "some lines of a file",
    "search": "a search over files",
    "change": "a file edited or written",
    "shell": "a command",
    "web": "a page or a search of the web",
    "agent": "work given to a subagent",
    "other": "any other tool",
    "answer": "a call that asked for no tool",
}
"""How a model call's asking is told; every call counts once, shared by what it asked for."""

_ACTIONS = {"search": "search", "edit": "change", "write": "change", "shell": "shell", "web": "web", "task": "agent"}
_SUMS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
_COLUMNS = ("uses", "calls", *_SUMS, "cost_nano")
_ANSWER, _NO_FILE = "(answer)", "(no file)"
_FENCED = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_LINE = 12
"""Characters from which on a line of code can be told from others."""

_LOOKED_BACK = 20
"""Reads whose lines an answer may echo."""

CEP = {"cached": 0.4, "fresh_reads": 0.3, "own_words": 0.2, "narrow_reads": 0.1}
"""Weights of the parts of the context efficiency score (0 to 100); a part without data is left out and the others weigh more."""


class Metrics(NamedTuple):
    """The figures of a session."""

    host: str
    session_id: str
    totals: dict[str, Any]
    """calls, tokens by kind, unpriced_calls and cost_nano, which is None where no call has a price"""
    by_tool: list[dict[str, Any]]
    by_way: list[dict[str, Any]]
    by_file: list[dict[str, Any]]
    """rows with name, uses, calls' tokens and cost_nano; each list sums to the totals"""
    window: Window
    reads: int
    """one for each file and call, as everywhere"""
    repeated_reads: int
    """calls whose reads all stood in the window, every line of them"""
    bounced: int
    """reads that something forced to be done again: a compaction, other or more lines"""
    echo: float | None
    """share of the code lines in answers that had been read shortly before; None where no answer held code"""
    cep: float | None
    cep_parts: dict[str, float | None]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        names = (
            "host",
            "session_id",
            "totals",
            "by_tool",
            "by_way",
            "by_file",
            "reads",
            "repeated_reads",
            "bounced",
            "echo",
            "cep",
            "cep_parts",
        )
        return {
            "schema": SCHEMA,
            **{n: getattr(self, n) for n in names},
            "files": [f.to_json() for f in self.window.files],
            "causes": self.window.causes,
        }


def metrics(name: str | None = None, *, cwd: str | None = None, settings: Settings) -> Metrics:
    """Return the figures of a session. Raises UnknownName and UsageError."""
    with reading(settings) as (store, _):
        choice = select_session(store, settings, name, cwd=cwd)
        view = view_of(store, choice.host, choice.session_id, TABLES)
        window = window_of(store, settings, choice, view)
    _, cost_of = prices_of(settings, None)
    ways = _shared(view, cost_of)
    reads = reads_of(view)
    again = repeated(view)
    echoed = echo(view)
    told = cep_parts(ways.totals, reads, again, echoed)
    return Metrics(
        choice.host,
        choice.session_id,
        ways.totals,
        ways.rows["tool"],
        ways.rows["way"],
        ways.rows["file"],
        window,
        len(reads),
        sum(share >= 1 for share in again.values()),
        sum(a.cause in ("compaction", "cleared", "rewind", "other lines", "more lines") for a in window.again),
        echoed,
        cep(told),
        told,
    )


class _Shared(NamedTuple):
    totals: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]]


def _shared(view: Any, cost_of: Callable[[Any], int | None]) -> _Shared:
    """Return the session's calls shared out by tool, way and file: whole tokens and nano-dollars, the rest of a division to the first."""
    asked: dict[str, list[Any]] = {}
    for call in view.tool_calls:
        event = view.by_event.get(call.call_event)
        if event is not None and event.call_key:
            asked.setdefault(event.call_key, []).append(call)
    owned = [m for m in view.model_calls if m.owner]
    accesses = view.once(accesses_by_call)
    paths = {event: [inside(a.path, view.session.cwd) for a in found if a.did != MENTION] for event, found in accesses.items()}
    files = {event: list(dict.fromkeys(found)) for event, found in paths.items() if found}
    names: Mapping[str, Callable[[Any], Sequence[str]]] = {
        "tool": lambda c: [c.tool],
        "way": lambda c: [way(c, accesses.get(c.call_event, ()))],
        "file": lambda c: files.get(c.call_event, [_NO_FILE]),
    }
    costs = [cost_of(m) for m in owned]
    totals: dict[str, Any] = {"calls": len(owned), **{n: sum(getattr(m, n) for m in owned) for n in _SUMS}}
    totals |= {"unpriced_calls": costs.count(None), "cost_nano": _priced(sum(c or 0 for c in costs), costs.count(None), len(costs))}
    billed = [(asked.get(m.call_key, ()), [getattr(m, n) or 0 for n in _SUMS], c) for m, c in zip(owned, costs, strict=True)]
    rows = {by: _rows(billed, of, "answer" if by == "way" else _ANSWER) for by, of in names.items()}
    return _Shared(totals, rows)


def _priced(nano: int, unpriced: int, calls: int) -> int | None:
    """Return what calls cost together; None where none of them has a price."""
    return None if calls and unpriced == calls else nano


def _rows(
    billed: Sequence[tuple[Sequence[Any], list[int], int | None]], of: Callable[[Any], Sequence[str]], none: str
) -> list[dict[str, Any]]:
    """Return a row a name: of each call, with the tools that it asked for, its amounts and cost, every name has its share."""
    shares: dict[str, list[tuple[int, ...]]] = {}
    for asked, tokens, cost in billed:
        wanted = [name for tool in asked for name in of(tool)]
        many, unpriced = len(wanted), cost is None
        amounts = [*tokens, cost or 0]
        for number, name in enumerate(wanted or [none]):
            share = [share_of(amount, many, number) for amount in amounts] if many > 1 else amounts
            shares.setdefault(name, []).append((bool(wanted), number == 0, *share, number == 0 and unpriced, unpriced, 1))
    # all shares of a row at once: added one by one they took most of the time
    sums = {name: [sum(column) for column in zip(*parts, strict=True)] for name, parts in shares.items()}
    told = []
    for name, one in sorted(sums.items(), key=lambda pair: (-pair[1][len(_COLUMNS) - 1], -pair[1][0], pair[0])):
        *columns, nano = one[: len(_COLUMNS)]
        figures = dict(zip(_COLUMNS, columns, strict=False)) | {"unpriced_calls": one[-3], "cost_nano": _priced(nano, one[-2], one[-1])}
        told.append({"name": name, **figures})
    return told


def way(call: Any, accesses: Sequence[Any]) -> str:
    """Return how a tool call is told: a name of :data:`WAYS`."""
    reads = [a for a in accesses if a.did == READ]
    if reads:
        return "read lines" if all(a.lines for a in reads) else "read whole"
    if call.action == READ:
        return "read lines" if any(call.ranges) else "read whole"
    return _ACTIONS.get(call.action, "other")


def echo(view: Any) -> float | None:
    """Return the share of code lines in answers (of twelve characters and more) that the last twenty reads before them had shown."""
    shown: deque[_Shown] = deque(maxlen=_LOOKED_BACK)
    results = {a.result_event for a in reads_of(view)}
    said = same = 0
    for e in view.events:
        if e.event_id in results:
            shown.append(_Shown(e.text or ""))
        elif e.kind == "answer" and e.text and "```" in e.text:
            lines = [line for block in _FENCED.findall(e.text) for line in _code_lines(block)]
            said += len(lines)
            same += sum(any(line in one.lines for one in shown) for line in lines)
    return same / said if said else None


class _Shown:
    """What a read showed; its lines are split when an answer with code is compared with it, once."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def lines(self) -> set[str]:
        return _code_lines(self._text)


_NUMBERED = re.compile(r"^\s{0,8}\d{1,7}(?:→|\t|: )")


def _code_lines(text: str) -> set[str]:
    found = (_NUMBERED.sub("", line).strip() for line in text[:400_000].splitlines())
    return {line for line in found if len(line) >= _LINE}


def cep_parts(totals: Mapping[str, int], reads: Sequence[Any], again: Mapping[str, float], echoed: float | None) -> dict[str, float | None]:
    """Return the parts of the score, each 0 to 1, higher is better; None without data.

    ``cached``: prompt tokens from the provider's cache. ``fresh_reads``: reads that brought
    something new. ``own_words``: code in answers that had not just been read.
    ``narrow_reads``: reads that said which lines.
    """
    prompt = sum(totals[n] for n in _SUMS if n != "output")
    return {
        "cached": totals["cache_read"] / prompt if prompt else None,
        "fresh_reads": 1 - sum(again.values()) / len(reads) if reads else None,
        "own_words": None if echoed is None else 1 - echoed,
        "narrow_reads": sum(bool(a.lines) for a in reads) / len(reads) if reads else None,
    }


def cep(told: Mapping[str, float | None]) -> float | None:
    """Return the context efficiency score, 0 to 100: the weighted mean of the parts that have data; None where none has."""
    known = {n: v for n, v in told.items() if v is not None}
    weight = sum(CEP[n] for n in known)
    return round(100 * sum(CEP[n] * v for n, v in known.items()) / weight, 1) if weight else None
