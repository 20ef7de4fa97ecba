"""Intervals of 95 % around shares and differences; the same input gives the same figures."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Z = 1.959963984540054
RESAMPLES = 1_000
SEED = 20_261_121


class Estimate(NamedTuple):
    """A figure with its interval; all None where nothing was there to estimate from."""

    value: float | None
    low: float | None
    high: float | None
    of: int
    """how many the figure rests on"""

    def plain(self) -> dict[str, float | int | None]:
        """Return it as plain values, rounded to four places."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in self._asdict().items()}


NOTHING = Estimate(None, None, None, 0)


def wilson(right: float, of: int) -> Estimate:
    """Return a share with Wilson's score interval (E. B. Wilson, 1927)."""
    if not of:
        return NOTHING
    share = right / of
    centre = share + _Z**2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2))
    below = 1 + _Z**2 / of
    return Estimate(share, max(0.0, (centre - spread) / below), min(1.0, (centre + spread) / below), of)


def of_groups(groups: Sequence[Sequence[float]]) -> Estimate:
    """Return a share, the mean of all values of 0 to 1, with an interval from resampling whole groups: values of one session are alike."""
    held = [g for g in groups if g]
    if not held:
        return NOTHING
    sums = [(math.fsum(g), len(g)) for g in held]
    value = math.fsum(s for s, _ in sums) / sum(n for _, n in sums)
    if len(sums) < 2:
        return Estimate(value, None, None, sum(n for _, n in sums))
    draw = random.Random(SEED)  # noqa: S311 - statistics
    means = sorted(
        math.fsum(s for s, _ in chosen) / sum(n for _, n in chosen)
        for chosen in (draw.choices(sums, k=len(sums)) for _ in range(RESAMPLES))
    )
    low, high = _middle(means)
    if low == high:  # sessions that all agree tell nothing by being drawn again
        _, low, high, _ = wilson(value * len(sums), len(sums))  # type: ignore[assignment]
    return Estimate(value, low, high, sum(n for _, n in sums))


def by_group(values: Iterable[tuple[str, float]]) -> Estimate:
    """Return the same of (group, value) pairs in any order of the groups."""
    groups: dict[str, list[float]] = {}
    for group, value in values:
        groups.setdefault(group, []).append(float(value))
    return of_groups([groups[key] for key in sorted(groups)])


def difference(with_it: Sequence[float], without: Sequence[float]) -> Estimate:
    """Return mean of the first minus mean of the second with its bootstrap interval; no interval with fewer than two on a side."""
    if not with_it or not without:
        return NOTHING
    value = math.fsum(with_it) / len(with_it) - math.fsum(without) / len(without)
    of = len(with_it) + len(without)
    if min(len(with_it), len(without)) < 2:
        return Estimate(value, None, None, of)
    draw = random.Random(SEED)  # noqa: S311 - statistics

    def mean(values: Sequence[float]) -> float:
        return math.fsum(draw.choices(values, k=len(values))) / len(values)

    return Estimate(value, *_middle(sorted(mean(with_it) - mean(without) for _ in range(RESAMPLES))), of)


def _middle(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the borders of the middle 95 %."""
    cut = int(len(ordered) * 0.025)
    return ordered[cut], ordered[-1 - cut]
