"""Which files of a project stand for it: a seeded sample over languages and sizes, and how sure a figure from it is."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
