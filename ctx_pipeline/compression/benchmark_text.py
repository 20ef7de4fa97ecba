"""A benchmark as tables: titles, rows and columns that a terminal and Markdown share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.characters import visible
from ctx_pipeline.model.markdown import inline, table_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.compression.benchmark import Benchmark, Measured
    from ctx_pipeline.compression.replay import Replay

_FILE = {"form": "form", "tokens": "tokens", "saved": "saved", "quality": "quality", "median": "median", "p95": "p95"}
_PROJECT = {
    "form": "form",
    "tokens": "tokens",
    "saved": "saved",
    "interval": "95 % interval",
    "median_saved": "median file",
    "quality": "quality",
    "median": "median",
    "p95": "p95",
}
_BOUNDS = {"bound": "bound", "reads": "reads", "tokens": "tokens", "carried": "over all calls", "of_billed": "of billed", "what": "what"}
_SESSIONS = {
    "session": "session",
    "reads": "reads",
    "delivered": "tokens",
    "certain": "certain",
    "likely": "likely",
    "upper": "upper",
    "billed": "billed",
}
_LANGUAGES = {"language": "language", "files": "files", "tokens": "tokens", "best": "best form", "saved": "saved"}


class Page(NamedTuple):
    """What is printed of a benchmark."""

    title: str
    note: str
    tables: list[tuple[list[dict[str, Any]], dict[str, str]]]
    """rows, and key -> heading"""
    ending: str


def page_of_file(one: Measured) -> Page:
    """Return the page of one file."""
    title = f"Benchmark: {one.path} ({one.lines:,} lines, {one.tokens:,} tokens)"
    rows = [
        {
            "form": row.form,
            "tokens": row.tokens,
            "saved": f"{row.saved:.0%}" if row.saved else "",
            "quality": "" if row.quality is None else f"{row.quality.score:.0%}",
            "median": time_of(one.times[row.form].median) if row.form in one.times else "",
            "p95": time_of(one.times[row.form].p95) if row.form in one.times else "",
        }
        for row in one.rows
    ]
    return Page(title, "", [(rows, _FILE)], f"Best: {one.recommended} ({one.reason})")


def page_of_project(found: Benchmark) -> Page:
    """Return the page of a project: its forms, then its languages."""
    forms = [
        {
            "form": s.form,
            "tokens": s.tokens,
            "saved": f"{s.saved:.1%}",
            "interval": f"{s.low:.1%} to {s.high:.1%}",
            "median_saved": f"{s.median_saved:.1%}",
            "quality": "" if s.quality is None else f"{s.quality:.0%}",
            "median": time_of(s.times.median) if s.times else "",
            "p95": time_of(s.times.p95) if s.times else "",
        }
        for s in found.forms
    ]
    languages = [{**row._asdict(), "saved": f"{row.saved:.1%}"} for row in found.languages]
    left_out = f"; left out: {', '.join(f'{n:,} {why}' for why, n in found.left_out.items())}" if found.left_out else ""
    note = f"{len(found.files):,} files of {found.found:,} (seed {found.seed}), {found.tokens:,} tokens{left_out}"
    return Page(f"Benchmark: {found.root}", note, [(forms, _PROJECT), (languages, _LANGUAGES)], "")


def page_of_replay(rows: Sequence[Replay]) -> Page:
    """Return the page of replayed sessions: the bounds of all together, then each session."""
    from ctx_pipeline.compression.replay import BOUNDS, added

    total = added(rows)
    bounds = [
        {
            **one._asdict(),
            "of_billed": f"{one.carried / total.billed:.1%}" if total.billed else "",
            "what": BOUNDS[one.bound],
        }
        for one in total.bounds
    ]
    sessions = [
        {"session": f"{one.host} {one.session_id}", "reads": one.reads, "delivered": one.delivered, "billed": one.billed}
        | {bound.bound: bound.carried for bound in one.bounds}
        for one in rows
    ]
    brought = f"{total.reads:,} reads of files that brought {total.delivered:,} tokens"
    note = f"{len(rows):,} sessions, {brought}; {total.billed:,} prompt tokens billed"
    return Page("Replay", note, [(bounds, _BOUNDS), (sessions, _SESSIONS)], "")


def markdown(page: Page) -> str:
    """Return a page as Markdown: a heading and pipe tables."""
    title, note, ending = (inline(visible(text)) for text in (page.title, page.note, page.ending))
    parts = [f"# {title}", note, *("\n".join(_pipes(rows, columns)) for rows, columns in page.tables), ending]
    return "\n\n".join(filter(None, parts)) + "\n"


def _pipes(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> list[str]:
    lines = [f"| {' | '.join(columns.values())} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        cells = ("" if row.get(key) is None else f"{row[key]:,}" if isinstance(row[key], int) else str(row[key]) for key in columns)
        lines.append("| " + " | ".join(table_text(visible(text)) for text in cells) + " |")
    return lines


def time_of(microseconds: float) -> str:
    """Return a time with its unit: 850 µs, 2.3 ms."""
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"
