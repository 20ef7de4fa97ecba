"""How commands print: aligned tables for people, JSON for programs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.display import escaped, money, percent, truncate, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
"""Every command that prints a table takes it; the shapes are in docs/json.md."""


def plain(value: object) -> str:
    """Return text of a transcript without what a terminal would obey (escapes, controls, bidi marks), tags and half characters."""
    return visible(str(value))


def one_line(value: object, width: int = 80) -> str:
    """Return text as one line of at most ``width`` characters."""
    return truncate(" ".join(plain(value).split()), width)


def say(text: object = "", *, err: bool = False, nl: bool = True, whole: bool = False, **style: Any) -> None:
    """Print text without what a terminal would obey; the only way in which commands print.

    On a terminal a line that is too long breaks between words, further in than it began.
    Text of several lines, and what is ``whole`` (a command to copy, a document), stays as it is.
    """
    said = plain(text)
    room = None if whole or not nl or "\n" in said.strip("\n") else terminal_width(err=err)
    click.secho(said if room is None else _broken(said, max(20, room)), err=err, nl=nl, color=None if colored() else False, **style)


def say_command(text: str, indent: str = "") -> None:
    """Print a command to copy on a line of its own, whatever the width."""
    say(f"{indent}{text}", whole=True, fg="cyan" if sys.stdout.isatty() else None)


OPENS_EVIDENCE = "the record that an id of evidence names: ctx explain ID"
"""Said once where ids of events are printed as evidence."""


def say_row(text: str, *, err: bool = False, **style: Any) -> None:
    """Print one line of a list, on a terminal cut to its width."""
    room = terminal_width(err=err)
    said = " ".join(plain(text).splitlines())
    say(said if room is None or cells(said) <= room else _padded(said, room, right=False).rstrip(), err=err, whole=True, **style)


def paragraph(text: str, first: str = "", behind: str = "", **style: Any) -> None:
    """Print text that breaks between words on a terminal, behind ``first`` and, on further lines, ``behind``; whole in a pipe."""
    room = terminal_width()
    said = first + plain(text)
    say(said if room is None else _broken(said, max(20, room), behind), whole=True, **style)


_INDENT = 16
"""Cells further in than which no broken line goes on."""


def _broken(text: str, room: int, behind: str | None = None) -> str:
    """Return text whose lines fit so many cells, as far as its words do; further lines begin with ``behind``."""
    if cells(text) <= room:
        return text
    if behind is None:
        first = text.lstrip("\n")
        behind = " " * min(_INDENT, len(first) - len(first.lstrip()) + 2)
    lines, line = [], ""
    for piece in re.findall(r"\s*\S+", text):
        if line.strip() and cells(line) + cells(piece) > room:
            lines.append(line)
            line = behind + piece.lstrip()
        else:
            line += piece
    return "\n".join([*lines, line])


@cache
def colored() -> bool:
    """Tell whether text may be styled: not with NO_COLOR set, and not on a terminal that is dumb."""
    from ctx_pipeline.settings import variable

    return not variable("NO_COLOR") and variable("TERM") != "dumb"


@contextmanager
def saying_why_it_waits(seconds: float = 1.5) -> Iterator[None]:
    """Say on standard error that another process is waited for, where what is done inside takes longer than so many seconds."""
    import threading

    said = threading.Timer(seconds, say, ["waiting: another process is writing to the store (at most half a minute)"], {"err": True})
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()


def confirm(question: str) -> None:
    """Return when a person agrees; at a no it ends with status 1, where nobody is there to answer as wrong usage."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        say(err=True)
        raise UsageError("nobody answered; nothing was changed", hint="--yes does not ask") from None
    if not agreed:
        say("nothing was changed", err=True)
        raise click.exceptions.Exit(1)


def flush() -> None:
    """Give what was printed to its reader now, a pipe included: the command goes on for long."""
    sys.stdout.flush()


def emit(value: object) -> None:
    """Print a value as JSON; keys keep their order, text stays readable, what a terminal would obey is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None, default=str)
    click.echo(escaped(text))


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    *,
    total: Mapping[str, Any] | None = None,
    whole: str = "",
    drop: Sequence[str] = (),
    paths: Collection[str] = (),
    keep: Collection[str] = (),
    room_for: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Print rows as an aligned table; numbers stand to the right.

    ``columns`` maps a key of the rows to its heading. On a terminal no line is wider than
    it: the columns named by ``drop`` go, the first one first, then texts are shortened,
    then further columns go from the right; of the columns ``paths`` the end stays, those of
    ``keep`` are not shortened, those of ``room_for`` not below so many cells. A pipe
    without COLUMNS gets every column whole, with text cut at 90 characters but for the
    column ``whole``, which should be the last one, and for ``paths``.
    """
    keys = list(columns)
    as_text = {key: lambda value: " ".join(plain(value or "").split()) for key in (whole, *paths) if key}
    texts = {key: [as_text.get(key, cell_text)(row.get(key)) for row in rows] for key in keys}
    last = {key: cell_text(total.get(key)) for key in keys} if total is not None else None
    right = {key: all(isinstance(row.get(key), int | float | None) for row in rows) or _figures(texts[key]) for key in keys}
    widths = {key: max(map(cells, [columns[key], *texts[key], *([last[key]] if last else [])])) for key in keys}
    room = terminal_width()
    if room is not None:
        fixed = {key for key in keys if right[key] or key in keep or all(_FIXED.fullmatch(text) for text in texts[key])}
        least = {
            key: widths[key] if key in fixed else min(widths[key], max(cells(columns[key]), room_for.get(key, _LEAST))) for key in keys
        }
        order = [*(key for key in drop if key in widths), *(key for key in reversed(keys[1:]) if key not in drop)]
        while order and sum(least[key] + 2 for key in keys) - 2 > room:
            keys.remove(order.pop(0))
        _shorten(widths, least, keys, room)

    def line(of: Mapping[str, str]) -> str:
        return "  ".join(_padded(of[key], widths[key], right=right[key], end=key in paths) for key in keys).rstrip()

    say(line(columns), whole=True, bold=True)
    for number in range(len(rows)):
        say(line({key: texts[key][number] for key in keys}), whole=True)
    if last:
        say(line(last), whole=True, bold=True)
    hidden = [heading for key, heading in columns.items() if key not in keys and heading.strip()]
    if hidden:
        say(f"({', '.join(hidden)}: in a wider terminal, or --json)", dim=True)


_LEAST = 14
"""Cells below which a column of text goes rather than being shortened further."""
_FIXED = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d)?)?|[\da-f-]{8,20}(?:…[\da-f-]+)?|")
"""Days, times and beginnings of ids: shortened they say nothing."""
_MORE = re.compile(r" and [\d,]+ more$")
"""At the end of a text that names the first of several: it stays where the text is shortened."""
_FIGURE = re.compile(r"[-+]?<?\$?[\d,.]+ ?(?:%|[kMG]|[kMG]?B|s)?|unpriced|")


def _figures(texts: Sequence[str]) -> bool:
    """Tell whether a column of text holds amounts, which stand to the right."""
    return any(texts) and all(_FIGURE.fullmatch(text) for text in texts)


def _shorten(widths: dict[str, int], least: Mapping[str, int], keys: Sequence[str], room: int) -> None:
    """Take cells from the widest columns of text until the line fits."""
    over = sum(widths[key] + 2 for key in keys) - 2 - room
    while over > 0:
        widest = max(keys, key=lambda key: widths[key] - least[key])
        if widths[widest] <= least[widest]:
            widths[keys[0]] = max(1, widths[keys[0]] - over)
            return
        widths[widest] -= 1
        over -= 1


_SHORTEST = 8
"""Cells below which the end of a path says nothing."""


def _cut(text: str, width: int) -> str:
    while text and cells(text) > width:
        text = text[:-1]
    return text.rstrip(" -_.")


def _last(path: str, width: int) -> str:
    """Return the end of a path in so many cells, from the beginning of a folder on where one begins soon."""
    if cells(path) <= width:
        return path
    while cells(path) > width - 1:
        path = path[1:]
    folder = path.find("/")
    return f"…{path[folder:] if 0 <= folder <= len(path) // 3 else path}"


def _padded(text: str, width: int, *, right: bool, end: bool = False) -> str:
    """Return text of exactly so many cells of a terminal, a path cut at its beginning, behind its project, where the ``end`` says more."""
    if cells(text) > width and end:
        project, colon, path = text.partition(": ")
        room = max(width // 3, width - len(colon) - cells(path))
        name = project if cells(project) <= room else f"{_cut(project, room - 1)}…"
        left = width - cells(name) - len(colon)
        text = f"{name}{colon}{_last(path, left)}" if colon and left >= _SHORTEST else _last(text, width)
    elif cells(text) > width:
        found = _MORE.search(text)
        tail = found[0] if found and cells(found[0]) + _LEAST // 2 < width else ""
        text = text.removesuffix(tail)
        while cells(text) > width - 1 - cells(tail):
            text = text[:-1]
        text = f"{text.rstrip()}…{tail}"
    space = " " * (width - cells(text))
    return space + text if right else text + space


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: some signs take two, some none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def terminal_width(*, err: bool = False) -> int | None:
    """Return the cells of a line of the terminal; None for a pipe or a file, which take lines of any length unless COLUMNS says one."""
    from ctx_pipeline.settings import variable

    if (sys.stderr if err else sys.stdout).isatty():
        return shutil.get_terminal_size().columns
    said = variable("COLUMNS")
    return int(said) if said.isdecimal() and int(said) else None


def cell_text(value: Any) -> str:
    """Return the text of one table cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return one_line(value, 90)


def shares(rows: Sequence[Mapping[str, Any]], of: str, whole: int) -> list[str]:
    """Return what part of a whole each row's amount is, in percent; nothing where the whole is nothing."""
    return ["" if not whole else percent(int(row.get(of) or 0) / whole) for row in rows]


def short_ids(ids: Collection[str], among: Collection[str]) -> dict[str, str]:
    """Return each id with as many first characters as tell it from the others and those ``among`` which it is named, 8 to 20.

    Where these are not enough, with its end. Every one of them names its session on the command line.
    """
    wanted = set(ids)
    order = sorted(wanted.union(among))
    found = {}
    for before, name, behind in zip(["", *order], order, [*order[1:], ""], strict=False):
        if name not in wanted:
            continue
        length = 8
        while length < len(name) and (before.startswith(name[:length]) or behind.startswith(name[:length])):
            length += 1
        found[name] = name[:length] if length <= _ID else _with_end(name, order)
    return found


def _with_end(name: str, others: Collection[str]) -> str:
    """Return the first eight characters of an id and as many of its last ones as tell it from the others."""
    begin, alike = name[:8], [other for other in others if other[:8] == name[:8]]
    ends = (name[-length:] for length in range(4, len(name) - 8))
    return next((f"{begin}…{end}" for end in ends if sum(other.endswith(end) for other in alike) == 1), name)


_ID = 20
"""Characters of an id at most: enough for ids that begin with the same millisecond."""


def local_time(moment: int | str | None, zone: str | None, *, seconds: bool = False) -> str:
    """Return a moment (microseconds since 1970, or ISO 8601) on the clock of a zone, as 2026-10-03 17:17; nothing for none."""
    from datetime import datetime, timedelta
    from zoneinfo import ZoneInfo

    if moment is None or moment == "":
        return ""
    try:
        if isinstance(moment, str):
            when = datetime.fromisoformat(moment)
            when = when.replace(tzinfo=ZoneInfo("UTC")) if when.tzinfo is None else when
        else:
            when = datetime(1970, 1, 1, tzinfo=ZoneInfo("UTC")) + timedelta(microseconds=moment)
        return when.astimezone(ZoneInfo(zone) if zone else None).strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return str(moment)[:16]


def moment_word(word: str | None, zone: str | None) -> str | None:
    """Return the word for a moment of a window; a time without an offset is read on the clock of a zone."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    try:
        at = datetime.fromisoformat(word) if word and word[:4].isdecimal() and "-" in word else None
    except ValueError:
        return word
    if at is None or at.tzinfo is not None:
        return word
    return (at.replace(tzinfo=ZoneInfo(zone)) if zone else at.astimezone()).isoformat()


def zone_name(zone: str | None) -> str:
    """Return the name of a zone, or of this machine's own."""
    from datetime import datetime

    return zone or f"local time ({datetime.now().astimezone().tzname()})"


def more_rows(total: int, shown: int) -> None:
    """Say how many rows were left out, and how to see them."""
    if total > shown:
        say(f"{total - shown:,} more: --limit {total}")


def counted(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun: 1 candidate, 2 candidates."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def tokens(count: int) -> str:
    """Return a token count with a unit: 950, 12.3 k, 4.1 M, 1.2 G."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def fill(used: int, size: int | None, source: str | None) -> str:
    """Return how full a window was at most, of how many tokens, and what says so."""
    from ctx_pipeline.facts.windows import SOURCES

    of = f", {used / size:.0%} of {size:,} ({SOURCES[source]})" if size and source else "; how many it holds is not known"
    return f"at most {tokens(used)} tokens in the window{of}"


def first_counts(calls: int, missing: int) -> str:
    """Return the sentence for calls whose record holds only the first count of their output: every total that leaves it out says so."""
    made = counted(calls, "call records", "calls record")
    return f"{made} only the first count of the output: about {tokens(missing)} output tokens are not counted here"


def unrecorded_agents(agents: int, told: int) -> str:
    """Return the sentence for subagents that were started and of which the history has no record."""
    own = ("its", "answer tells") if agents == 1 else ("their", "answers tell")
    spent = f" ({own[0]} {own[1]} about {tokens(told)} tokens, which no total holds)" if told else ""
    return f"{counted(agents, 'subagent was', 'subagents were')} started whose records are not in the history{spent}"


def dollars(nano: int | None) -> str:
    """Return nano-dollars as dollars and cents; unpriced for None."""
    return "unpriced" if nano is None else money(nano)


def age(seconds: float) -> str:
    """Return an age in its largest unit: 40 s, 12 min, 5 h, 31 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


class ProgressLine:
    """A progress bar on a terminal, a line a stage elsewhere; silent when told so."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._said: set[str] = set()

    def __enter__(self) -> Callable[[str, int, int], None]:
        """Return the callback (stage, done, total)."""
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self.update

    def update(self, stage: str, done: int, total: int) -> None:
        """Show that a stage has done so many of so many."""
        if self._quiet:
            return
        if self._bar is not None:
            if stage not in self._tasks:
                self._tasks[stage] = self._bar.add_task(stage, total=total)
            self._bar.update(self._tasks[stage], completed=done, total=total)
        elif stage not in self._said:
            self._said.add(stage)
            say(f"{stage} …", err=True)

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


# Keeps a short command from loading what it does not need.


def reading_text(value: float | None, unit: str, kind: str, *, exact: bool = False) -> str:
    """Return a reading with its unit, rounded: 83%, $14.20, 166.5 k tokens, 45 min, 22 messages; an exact one to six digits."""
    if value is None:
        return ""
    if kind == "boolean":
        return "yes" if value else "no"
    if exact:
        number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
    elif unit == "ratio":
        return f"{value:.0%}"
    elif unit == "dollars":
        return dollars(round(value * 1e9))
    elif unit == "seconds":
        return age(value)
    else:
        number = tokens(round(value)) if unit == "tokens" else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    return f"{number} {re.sub('(?<=[cs]h)es$|s$', '', unit) if value == 1 else unit}".rstrip()


def without_numpy() -> None:
    """Let pyarrow start without numpy, which it loads when it is there and which takes a third of a search and a fifth of a sync.

    Only for processes of our own: whoever else shares the interpreter may want arrays.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("numpy", None)
