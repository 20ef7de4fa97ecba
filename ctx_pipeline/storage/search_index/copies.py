"""The same event in several sessions: a session that was forked or resumed repeats the records of the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.storage.search_index.ranking import Ranking
    from ctx_pipeline.storage.search_index.shelf import Shelf

_MOST = 20
"""Rows that are read to see whether they are copies of one hit."""


class Alike:
    """Rows of an order that may be copies of each other: scored alike by themselves, of one kind and quarter of an hour."""

    def __init__(self, shelf: Shelf, order: Sequence[int], ranking: Ranking | None) -> None:
        self._shelf = shelf
        self._scores = ranking.scores if ranking else {}
        self._by_score: dict[float, list[int]] = {}
        self._places: dict[int, int] = {}
        if self._scores:
            for place, row in enumerate(order[: len(self._scores)]):
                if row in self._scores:
                    self._places[row] = place
                    self._by_score.setdefault(self._scores[row].alone, []).append(row)

    def of(self, row: int) -> list[int]:
        """Return rows of other sessions that may be copies of a row, in order; none for a row that was not scored."""
        score = self._scores.get(row)
        others = self._by_score.get(score.alone, ()) if score else ()
        if len(others) < 2:
            return []
        told, span = self._shelf.told_of(row), self._shelf.span_of(row)
        found = []
        for other in others:
            there = self._shelf.span_of(other)
            if there is None or span is None or there.session == span.session:
                continue
            same = self._shelf.told_of(other)
            if (same.kind, same.tool, same.quarter) == (told.kind, told.tool, told.quarter):
                found.append(other)
        return found[:_MOST]

    def place(self, row: int) -> int:
        """Return where a row that was given by :meth:`of` stands in the order."""
        return self._places[row]
