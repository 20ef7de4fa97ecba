"""How much a completion says again of what earlier ones said.

The scores are those that ctxrot documents: Jaccard similarity of word 3-grams with the
completion before and with every earlier one, and the normalised indel similarity of the
texts. Instead of comparing each pair of texts, grams are looked up in lists of the texts
that have them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ONSET = 0.4
"""Jaccard similarity above which a completion counts as a repetition."""

LONGEST = 100_000
"""Characters of a text that sequence similarity looks at; its time grows with the square."""

MOST = 1_000_000
"""Characters of a text that are looked at at all; what stands behind them would cost memory and change no verdict."""

_SAID, _CALLED, _WORDS = 2_000, 200, 100
"""Characters of an agent's answer, of a tool call's arguments, and words of both together that are compared."""

_MARKER = re.compile(r"\[\[ ## \w+ ## \]\]")
_GRAM = 3
_OFTEN = 8
_BLOCK = 256


class Nearest(NamedTuple):
    """The earlier text that is most like one: its place, and the Jaccard similarity."""

    place: int
    similarity: float


def compared_part(kind: str, text: str | None) -> str:
    """Return what is compared of an agent's answer or tool call; signals and reports read the same."""
    return (text or "")[: _SAID if kind == "answer" else _CALLED]


def compared_text(parts: Sequence[str]) -> str:
    """Return what is compared of a completion: the first words of its parts."""
    return " ".join("\n".join(parts).split(None, _WORDS)[:_WORDS])


def cleaned(text: str | None) -> str:
    """Return a completion (its first million characters) without DSPy's field markers, blanks collapsed."""
    return " ".join(_MARKER.sub("", (text or "")[:MOST]).split())


def grams(text: str) -> set[tuple[str, ...]]:
    """Return the word 3-grams of a cleaned text in lower case, none for fewer than three words."""
    words = text.lower().split()
    return set(zip(*(words[n:] for n in range(_GRAM)), strict=False))


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    """Return shared grams over all grams, 0.0 when both are empty."""
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def sequence_similarity(a: str, b: str) -> float:
    """Return 1 minus the normalised indel distance of two cleaned texts, 0 to 1."""
    from rapidfuzz import fuzz

    return float(fuzz.ratio(a[:LONGEST], b[:LONGEST])) / 100


def pair_scores(text_a: str, text_b: str) -> dict[str, float]:
    """Return ngram_jaccard and sequence_similarity of two texts, rounded to 3 decimals."""
    a, b = cleaned(text_a), cleaned(text_b)
    return {"ngram_jaccard": round(jaccard(grams(a), grams(b)), 3), "sequence_similarity": round(sequence_similarity(a, b), 3)}


def compared(content: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Nearest | None]]:
    """Return the scores of each completion and the earlier one it is most like.

    Scores are seq, ngram_jaccard, sequence_similarity and cumulative_max, rounded to 3
    decimals; the first row is zeros. A missing completion counts as an empty text.
    """
    texts = [cleaned(row["completion"]) for row in content]
    sets = [grams(text) for text in texts]
    near = nearest(sets)
    rows = []
    for i, row in enumerate(content):
        before = jaccard(sets[i], sets[i - 1]) if i else 0.0
        alike = sequence_similarity(texts[i], texts[i - 1]) if i else 0.0
        found = near[i]
        rows.append(
            {
                "seq": row["seq"],
                "ngram_jaccard": round(before, 3),
                "sequence_similarity": round(alike, 3),
                "cumulative_max": round(found.similarity if found else 0.0, 3),
            }
        )
    return rows, near


def nearest(sets: Sequence[set[tuple[str, ...]]]) -> list[Nearest | None]:
    """Return for each text the earlier one with the largest Jaccard similarity, the latest of equals; None where nothing is shared."""
    import numpy as np

    ids: dict[tuple[str, ...], int] = {}
    sizes = np.array([len(s) for s in sets], dtype=np.int64)
    flat = np.fromiter((ids.setdefault(g, len(ids)) for s in sets for g in s), dtype=np.int64, count=int(sizes.sum()))
    if not ids:
        return [None] * len(sets)
    texts = np.repeat(np.arange(len(sets), dtype=np.int64), sizes)
    often = np.bincount(flat) > max(_OFTEN, len(sets) // _OFTEN)
    common = _Common(flat[often[flat]], texts[often[flat]], len(sets))
    rare = _Rare(flat[~often[flat]], texts[~often[flat]], len(ids), len(sets))
    found: list[Nearest | None] = [None] * len(sets)
    for i in range(1, len(sets)):
        shared = rare.shared(i) + common.shared(i)
        alike = shared / np.maximum(sizes[:i] + sizes[i] - shared, 1)
        best = i - 1 - int(alike[::-1].argmax())
        if alike[best] > 0:
            found[i] = Nearest(best, float(alike[best]))
    return found


class _Rare:
    """Grams of few texts: for each the texts that have it, looked up."""

    def __init__(self, grams: Any, texts: Any, kinds: int, count: int) -> None:
        import numpy as np

        self._grams = grams
        order = np.argsort(grams, kind="stable")
        self._holders = texts[order]
        self._begins = np.searchsorted(grams[order], np.arange(kinds))
        self._place = np.empty(len(order), dtype=np.int64)
        self._place[order] = np.arange(len(order))
        self._bounds = np.searchsorted(texts, np.arange(count + 1))

    def shared(self, i: int) -> Any:
        """Return how many grams text ``i`` shares with each text before it."""
        import numpy as np

        first, last = self._bounds[i], self._bounds[i + 1]
        begins = self._begins[self._grams[first:last]]
        # holders of a gram stand in the order of the texts: those before this one are the earlier texts that have it
        counts = self._place[first:last] - begins
        total = int(counts.sum())
        if not total:
            return np.zeros(i, dtype=np.int64)
        offsets = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(total)
        return np.bincount(self._holders[offsets], minlength=i)


class _Common:
    """Grams of many texts: a matrix of who has which, multiplied with itself in blocks of rows."""

    def __init__(self, grams: Any, texts: Any, count: int) -> None:
        import numpy as np

        kinds, columns = np.unique(grams, return_inverse=True)
        self._has = np.zeros((count, len(kinds)), dtype=np.float32)
        self._has[texts, columns] = 1
        self._block: Any = None
        self._from = -_BLOCK

    def shared(self, i: int) -> Any:
        """Return how many grams text ``i`` shares with each text before it; ``i`` grows from call to call."""
        if not self._has.shape[1]:
            return 0
        if i >= self._from + _BLOCK:
            self._from = i
            self._block = self._has[i : i + _BLOCK] @ self._has[: i + _BLOCK].T
        return self._block[i - self._from, :i].astype("int64")
