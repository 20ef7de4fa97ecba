"""How commands print: aligned tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.model.characters import escaped, visible
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
"""Every command that prints a table takes it; the shapes are in docs/json.md."""


def plain(value: object) -> str:
    """Return text of a transcript without what a terminal would obey (escapes, controls, bidi marks), tags and half characters."""
    return visible(str(value))


def one_line(value: object, width: int = 80) -> str:
    """Return text as one line of at most ``width`` characters."""
    return truncate(" ".join(plain(value).split()), width)


def say(text: object = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text without what a terminal would obey; the only way in which commands print."""
    click.secho(plain(text), err=err, nl=nl, **style)


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


def flush() -> None:
    """Give what was printed to its reader now, a pipe included: the command goes on for long."""
    sys.stdout.flush()


def emit(value: object) -> None:
    """Print a value as JSON; keys keep their order, text stays readable, what a terminal would obey is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None, default=str)
    click.echo(escaped(text))


def table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, total: Mapping[str, Any] | None = None, whole: str = ""
) -> None:
    """Print rows as an aligned table; numbers stand to the right.

    ``columns`` maps a key of the rows to its heading. No line is wrapped, so that a
    pipe gets whole lines; text is cut at 90 characters but for the column ``whole``,
    which should be the last one.
    """
    body = [[" ".join(plain(row.get(key) or "").split()) if key == whole else cell_text(row.get(key)) for key in columns] for row in rows]
    last = [cell_text(total.get(key)) for key in columns] if total is not None else None
    right = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in columns]
    heads = list(columns.values())
    widths = [max(len(line[i]) for line in [heads, *body, *([last] if last else [])]) for i in range(len(heads))]

    def line(cells: list[str]) -> str:
        return "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)).rstrip()

    say(line(heads), bold=True)
    for cells in body:
        say(line(cells))
    if last:
        say(line(last), bold=True)


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


def counted(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun: 1 candidate, 2 candidates."""
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def tokens(count: int) -> str:
    """Return a token count with a unit: 950, 12.3 k, 4.1 M, 1.2 G."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def dollars(nano: int | None) -> str:
    """Return nano-dollars as text with two decimals, or four below ten cents."""
    if nano is None:
        return "unpriced"
    value = nano / 1e9
    return f"${value:,.4f}" if 0 < value < 0.1 else f"${value:,.2f}"


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
