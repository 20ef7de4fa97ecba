"""Lines that many files share, written once."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAST_FILES = 3
LEAST_LETTERS = 10
MOST_ENTRIES = 50
_SIGN = re.compile(r"§\d+")


class Coded(NamedTuple):
    """Texts in which shared lines stand as ``§1``, ``§2``, …, and the book that says what these mean; empty where it would not pay."""

    book: list[str]
    texts: list[str]

    @property
    def legend(self) -> str:
        """The book as text, an entry a line."""
        return "\n".join(f"§{number} {line}" for number, line in enumerate(self.book, 1))


def coded(texts: Sequence[str], count: Callable[[str], int]) -> Coded:
    """Return the texts with lines that three or more of them hold in a book, where all together is cheaper than before.

    A line pays when what its places save is more than its entry costs. Indentation stays.
    Texts that hold such a sign already are left alone.
    """
    plain = Coded([], list(texts))
    if len(texts) < LEAST_FILES or any(_SIGN.search(text) for text in texts):
        return plain
    holders: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for text in texts:
        lines = [line.strip() for line in text.split("\n")]
        places.update(lines)
        holders.update(set(lines))
    shared = [line for line, held in holders.items() if held >= LEAST_FILES and len(line) >= LEAST_LETTERS]
    gains = {line: (places[line] - 1) * (count(line) - 3) - 4 for line in shared}
    book = sorted((line for line in shared if gains[line] > 0), key=lambda line: (-gains[line], line))[:MOST_ENTRIES]
    if not book:
        return plain
    signs = {line: f"§{number}" for number, line in enumerate(book, 1)}
    made = Coded(book, [_replaced(text, signs) for text in texts])
    return made if count(made.legend) + sum(map(count, made.texts)) < sum(map(count, texts)) else plain


def _replaced(text: str, signs: dict[str, str]) -> str:
    lines = []
    for line in text.split("\n"):
        sign = signs.get(line.strip())
        lines.append(line if sign is None else line[: len(line) - len(line.lstrip())] + sign)
    return "\n".join(lines)


def spelled_out(code: Coded) -> list[str]:
    """Return the texts with every sign replaced by its line; blanks at the ends of replaced lines are gone."""
    return [re.sub(r"(?m)^(\s*)§(\d+)$", lambda match: match[1] + code.book[int(match[2]) - 1], text) for text in code.texts]
