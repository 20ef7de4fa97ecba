"""Every form measured, over one file or a sample of a project: tokens, what is kept, how long it takes, how sure that is."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.compression.analysis import AGAIN, cached_row, recommendation, rows_of
from ctx_pipeline.compression.compress import ENCODING, SCHEMA, counting
from ctx_pipeline.compression.forms import FORMS, shortened
from ctx_pipeline.compression.project_files import project_at, sizes_of, source_at
from ctx_pipeline.compression.signatures.symbols import language_of
from ctx_pipeline.compression.source import Source
from ctx_pipeline.errors import NothingFound, UsageError
from ctx_pipeline.model.display import inline, table_text, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.compression.analysis import Row
    from ctx_pipeline.compression.replay import Replay


SAMPLE = 50
"""Files of a sample."""

SIZES = 3
"""Classes of size within a language, equally many files in each: small, medium, large."""

RESAMPLED = 1000


class Candidate(NamedTuple):
    """A file that may be drawn."""

    path: str
    language: str
    size: int
    """bytes"""


class Times(NamedTuple):
    """Repeated times of one thing, in microseconds."""

    median: float
    p95: float
    runs: int


def sample(files: Sequence[Candidate], most: int = SAMPLE, seed: int = 0) -> list[Candidate]:
    """Return a sample in the order of paths: a language and size class gets places by its share of the files, one at least.

    The same files and seed give the same sample, whatever the order of the files.
    """
    if len(files) <= most:
        return sorted(files)
    strata: dict[tuple[str, int], list[Candidate]] = {}
    by_language: dict[str, list[Candidate]] = {}
    for one in sorted(files):
        by_language.setdefault(one.language, []).append(one)
    for language, members in by_language.items():
        ranked = sorted(members, key=lambda c: (c.size, c.path))
        for place, one in enumerate(ranked):
            strata.setdefault((language, place * SIZES // len(ranked)), []).append(one)
    places = _places({key: len(members) for key, members in strata.items()}, most)
    drawn = random.Random(seed)  # noqa: S311 - a sample that anybody can draw again
    return sorted(one for key in sorted(strata) for one in drawn.sample(sorted(strata[key]), places[key]))


def _places(sizes: Mapping[tuple[str, int], int], most: int) -> dict[tuple[str, int], int]:
    """Return how many are drawn of each stratum: one of each, the largest first, then by the largest remainder of their shares."""
    order = sorted(sizes, key=lambda key: (-sizes[key], key))
    given = dict.fromkeys(sizes, 0)
    for key in order[:most]:
        given[key] = 1
    left, total = most - sum(given.values()), sum(sizes.values())
    shares = {key: sizes[key] / total * most for key in sizes}
    while left > 0:
        room = [key for key in order if given[key] < sizes[key]]
        best = max(room, key=lambda key: (shares[key] - given[key], sizes[key]))
        given[best] += 1
        left -= 1
    return given


def times(seconds: Sequence[float]) -> Times:
    """Return the median and the 95th percentile (the nearest rank above) of repeated times."""
    ranked = sorted(seconds)
    if not ranked:
        return Times(0.0, 0.0, 0)
    middle = len(ranked) // 2
    median = ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
    return Times(median * 1e6, ranked[math.ceil(0.95 * len(ranked)) - 1] * 1e6, len(ranked))


def interval(pairs: Sequence[tuple[int, int]], seed: int = 0, resampled: int = RESAMPLED) -> tuple[float, float]:
    """Return the 95 % confidence interval of the share of tokens saved, from (raw, shortened) of each file.

    A percentile bootstrap over files: the totals of files drawn with replacement, so the
    shares are weighted by tokens as the total is. One file, or none, gives no width.
    """
    if not pairs:
        return 0.0, 0.0
    drawn = random.Random(seed)  # noqa: S311 - repeatable
    found = []
    for _ in range(resampled if len(pairs) > 1 else 1):
        some = drawn.choices(pairs, k=len(pairs)) if len(pairs) > 1 else pairs
        raw = sum(one[0] for one in some)
        found.append(1 - sum(one[1] for one in some) / raw if raw else 0.0)
    found.sort()
    return found[int(0.025 * (len(found) - 1))], found[math.ceil(0.975 * (len(found) - 1))]


RUNS = 5
"""Times that each form of a file is made; a first run that is not counted comes before."""

LARGEST = 100_000
"""Bytes of a file of a project above which it is not drawn: such a file is data or was generated."""


class Measured(NamedTuple):
    """One file over every form."""

    path: str
    language: str
    lines: int
    tokens: int
    rows: list[Row]
    times: dict[str, Times]
    recommended: str
    reason: str
    seconds: dict[str, list[float]]
    """form -> every counted run"""


class Summary(NamedTuple):
    """One form over all files of a sample."""

    form: str
    tokens: int
    """a file that the form has nothing to say of counts raw"""
    saved: float
    """share of all raw tokens: large files weigh more"""
    low: float
    """95 % confidence interval of ``saved`` over files"""
    high: float
    median_saved: float
    """of the shares of the single files"""
    quality: float | None
    """mean of the files, weighted by tokens; None for what is not delivered"""
    files: int
    """files that the form has something to say of"""
    times: Times | None


class Spoken(NamedTuple):
    """One language of a sample."""

    language: str
    files: int
    tokens: int
    best: str
    """form that is recommended for most of its tokens"""
    saved: float
    """share saved when each file is read in the form recommended for it"""


class Benchmark(NamedTuple):
    """A project over every form."""

    root: str
    found: int
    """files that could be drawn"""
    left_out: dict[str, int]
    seed: int
    tokens: int
    files: list[Measured]
    forms: list[Summary]
    languages: list[Spoken]


def benchmark_file(path: Path | str, *, root: Path | None = None, runs: int = RUNS) -> Measured:
    """Return one file over every form. Raises UsageError for what is no text file."""
    source = source_at(path, root=root)
    return _measured(str(path), source, runs)


def benchmark_project(folder: Path | str, *, files: int = SAMPLE, seed: int = 0, runs: int = RUNS, root: Path | None = None) -> Benchmark:
    """Return a sample of a project over every form: drawn over languages and sizes, the same for the same seed.

    Binary files, files above :data:`LARGEST` bytes and those whose language is not known
    are left out and counted. Raises UsageError for what is no folder, or none of ``root``,
    and NothingFound where no file is left.
    """
    place = Path(folder) if root is None else root / folder
    if root is not None and not place.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"{folder}: the path leads out of the project", hint="name a folder of it")
    project = project_at(place)
    left_out = dict(project.left_out)
    candidates = []
    sizes = sizes_of(project)
    for name, size in sizes.items():
        language = language_of(name)
        why = "of no known language" if language is None else "too large" if size > LARGEST else ""
        if why:
            left_out[why] = left_out.get(why, 0) + 1
        else:
            candidates.append(Candidate(name, language or "", size))
    if missing := len(project.files) - len(sizes):
        left_out["empty, missing or too large"] = missing
    measured = []
    for one in sample(candidates, files, seed):
        try:
            source = source_at(one.path, root=project.root)
        except UsageError:
            left_out["binary"] = left_out.get("binary", 0) + 1
            continue
        measured.append(_measured(one.path, source, runs))
    if not measured:
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(left_out.items()))
        raise NothingFound(f"{folder}: no file to measure" + (f" ({reasons})" if reasons else ""), hint="name a folder with source files")
    return Benchmark(
        str(folder),
        len(candidates),
        dict(sorted(left_out.items())),
        seed,
        sum(one.tokens for one in measured),
        measured,
        [_summary(form, measured, seed) for form in (*FORMS, AGAIN)],
        _languages(measured),
    )


def _measured(path: str, source: Source, runs: int) -> Measured:
    tokenizer = counting()

    def count(text: str) -> int:
        return tokenizer.count_tokens(text).count

    rows = rows_of(source, tokenizer)
    recommended, reason = recommendation(rows)
    seconds: dict[str, list[float]] = {}
    for form in FORMS if runs else ():
        shortened(Source(source.name, source.text), form)
        seconds[form] = []
        for _ in range(runs):
            fresh = Source(source.name, source.text)
            start = time.perf_counter()
            shortened(fresh, form)
            seconds[form].append(time.perf_counter() - start)
    timed = {form: times(taken) for form, taken in seconds.items()}
    raw = rows[0].tokens or 0
    return Measured(path, source.language or "", source.lines, raw, [*rows, cached_row(raw)], timed, recommended, reason, seconds)


def _summary(form: str, files: list[Measured], seed: int) -> Summary:
    rows = [(one, next(row for row in one.rows if row.form == form)) for one in files]
    pairs = [(one.tokens, one.tokens if row.tokens is None else row.tokens) for one, row in rows]
    raw, made = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
    said = [(one.tokens, row) for one, row in rows if row.tokens is not None]
    kept = [(weight, row.quality.score) for weight, row in said if row.quality is not None]
    shares = sorted(row.saved for _, row in said)
    low, high = interval(pairs, seed)
    taken = [second for one in files for second in one.seconds.get(form, ())]
    return Summary(
        form,
        made,
        1 - made / raw if raw else 0.0,
        low,
        high,
        (shares[(len(shares) - 1) // 2] + shares[len(shares) // 2]) / 2 if shares else 0.0,
        sum(w * q for w, q in kept) / sum(w for w, _ in kept) if sum(w for w, _ in kept) else None,
        len(said),
        times(taken) if taken else None,
    )


def _languages(files: list[Measured]) -> list[Spoken]:
    found: dict[str, list[Measured]] = {}
    for one in files:
        found.setdefault(one.language, []).append(one)
    rows = []
    for language, members in found.items():
        votes: dict[str, int] = {}
        cost = 0
        for one in members:
            votes[one.recommended] = votes.get(one.recommended, 0) + one.tokens
            cost += next(row.tokens or 0 for row in one.rows if row.form == one.recommended)
        raw = sum(one.tokens for one in members)
        best = min(votes, key=lambda form: (-votes[form], form)) if votes else "raw"
        rows.append(Spoken(language, len(members), raw, best, 1 - cost / raw if raw else 0.0))
    return sorted(rows, key=lambda row: (-row.tokens, row.language))


def measured_row(one: Measured) -> dict[str, Any]:
    """Return one file as plain values, times in microseconds."""
    from ctx_pipeline.compression.compress import form_row

    timed = {form: _times(t) for form, t in one.times.items()}
    return {
        "path": one.path,
        "language": one.language or None,
        "lines": one.lines,
        "tokens": one.tokens,
        "forms": [{**form_row(row), "latency_us": timed.get(row.form)} for row in one.rows],
        "recommended": one.recommended,
        "reason": one.reason,
    }


def file_row(one: Measured) -> dict[str, Any]:
    """Return the benchmark of one file as plain values, in the shape of a project's."""
    about: dict[str, Any] = {"root": None, "encoding": ENCODING, "seed": None, "found": 1, "left_out": {}, "tokens": one.tokens}
    return {"schema": SCHEMA, **about, "forms": [], "languages": [], "files": [measured_row(one)]}


def benchmark_row(found: Benchmark) -> dict[str, Any]:
    """Return a project's benchmark as plain values."""
    return {
        "schema": SCHEMA,
        "root": found.root,
        "encoding": ENCODING,
        "seed": found.seed,
        "found": found.found,
        "left_out": found.left_out,
        "tokens": found.tokens,
        "forms": [
            {
                "form": s.form,
                "tokens": s.tokens,
                "saved": round(s.saved, 4),
                "saved_low": round(s.low, 4),
                "saved_high": round(s.high, 4),
                "median_saved": round(s.median_saved, 4),
                "quality": None if s.quality is None else round(s.quality, 4),
                "files": s.files,
                "latency_us": None if s.times is None else _times(s.times),
            }
            for s in found.forms
        ],
        "languages": [{**row._asdict(), "saved": round(row.saved, 4)} for row in found.languages],
        "files": [measured_row(one) for one in found.files],
    }


def _times(t: Times) -> dict[str, float | int]:
    return {"median": round(t.median, 1), "p95": round(t.p95, 1), "runs": t.runs}


# A benchmark as tables: titles, rows and columns that a terminal and Markdown share.


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
    return Page(title, "", [(rows, _columns(_FILE, timed=bool(one.times)))], f"Best: {one.recommended} ({one.reason})")


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
    columns = _columns(_PROJECT, timed=any(s.times for s in found.forms))
    return Page(f"Benchmark: {found.root}", note, [(forms, columns), (languages, _LANGUAGES)], "")


def _columns(columns: dict[str, str], *, timed: bool) -> dict[str, str]:
    """Return the columns of a table, without those of times where no run was timed."""
    return columns if timed else {key: heading for key, heading in columns.items() if key not in {"median", "p95"}}


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
