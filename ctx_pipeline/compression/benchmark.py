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
from ctx_pipeline.compression.signatures.languages import language_of
from ctx_pipeline.compression.source import Source
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.compression.analysis import Row

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
    are left out and counted. Raises UsageError for what is no folder, or none of ``root``.
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
