"""What is taken out of mined candidates or marked in them before a person or a prompt sees them; one file a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.mining.filters.contradictions import contradiction
from ctx_pipeline.mining.filters.near_duplicates import near_duplicate
from ctx_pipeline.mining.filters.result import Filtered
from ctx_pipeline.mining.filters.risk import risk_aware
from ctx_pipeline.mining.filters.staleness import staleness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ctx_pipeline.model.memories import StoredCandidate

__all__ = ["FILTERS", "Filter", "Filtered", "filtered"]


class Filter(NamedTuple):
    """A filter by its name on the command line."""

    name: str
    apply: Callable[[Sequence[StoredCandidate]], Filtered]

    @property
    def describe(self) -> str:
        """What it does, in one sentence."""
        return " ".join((self.apply.__doc__ or "").partition("\n\n")[0].split())


FILTERS = {f.__name__: Filter(f.__name__, f) for f in (risk_aware, near_duplicate, contradiction, staleness)}


def filtered(candidates: Sequence[StoredCandidate], names: Iterable[str]) -> Filtered:
    """Return what the named filters keep, one after the other, with all that they dropped and marked."""
    result = Filtered(list(candidates), {}, {})
    for name in names:
        one = FILTERS[name].apply(result.kept)
        marks = dict(result.marks)
        for key, said in one.marks.items():
            marks[key] = [*marks.get(key, []), *said]
        result = Filtered(one.kept, result.dropped | one.dropped, marks)
    return result
