"""Blocks of a text that repeat an earlier one, exactly or nearly."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

LIKE = 0.7
"""Jaccard similarity of word pairs from which a block counts as a copy of another."""

LEAST_LINES = 3
"""Lines of the shortest block that is looked at; shorter ones are alike by chance."""

_HOLDERS = 50
"""Earlier blocks with a pair of words that are looked at; else time would grow with the square of the blocks."""

_WORD = re.compile(r"\w+|[^\w\s]")


class Block(NamedTuple):
    """Lines between blank ones."""

    first: int
    """from 1"""
    last: int
    lines: tuple[str, ...]


class Repeat(NamedTuple):
    """A block that says again what an earlier one said."""

    block: Block
    of: Block
    likeness: float
    """Jaccard similarity of their word pairs, 1.0 for the same words in the same order"""


def blocks(text: str) -> list[Block]:
    """Return the blocks of a text: runs of lines that are not blank."""
    found: list[Block] = []
    held: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            held.append(line)
        elif held:
            found.append(Block(number - len(held), number - 1, tuple(held)))
            held = []
    return found


def repeats(text: str, like: float = LIKE) -> list[Repeat]:
    """Return the blocks that are like an earlier one, in their order, each with the earlier block that it is most like.

    Compared is what stands in the blocks (pairs of words), never where they stand; an
    original is never itself a copy, and of equally like ones the first counts.
    """
    originals: list[tuple[Block, frozenset[tuple[str, str]]]] = []
    holders: dict[tuple[str, str], list[int]] = {}
    found: list[Repeat] = []
    same: dict[tuple[str, ...], Block] = {}
    for block in blocks(text):
        if len(block.lines) < LEAST_LINES:
            continue
        stripped = tuple(line.strip() for line in block.lines)
        if stripped in same:
            found.append(Repeat(block, same[stripped], 1.0))
            continue
        words = _WORD.findall("\n".join(block.lines))
        pairs = frozenset(pairwise(words))
        shared: Counter[int] = Counter()
        for pair in pairs:
            shared.update(holders.get(pair, ()))
        best, of = 0.0, None
        for place, common in sorted(shared.items()):
            alike = common / (len(pairs) + len(originals[place][1]) - common)
            if alike > best:
                best, of = alike, originals[place][0]
        if of is not None and best >= like:
            found.append(Repeat(block, of, best))
            continue
        for pair in pairs:
            known = holders.setdefault(pair, [])
            if len(known) < _HOLDERS:
                known.append(len(originals))
        same[stripped] = block
        originals.append((block, pairs))
    return found


def without_repeats(text: str, mark: str = "") -> str:
    """Return the text with a pointer in place of each repeated block; a line that its original does not have stays behind it.

    ``mark`` stands before each pointer: what opens a comment in the language of the text.
    So every line of the text is still there at least once. A copy stays whole where the
    pointer would be longer than what it replaces.
    """
    lines = text.split("\n")
    for repeat in reversed(repeats(text)):
        known = {line.strip() for line in repeat.of.lines}
        own = [line for line in repeat.block.lines if line.strip() not in known]
        indent = re.match(r"\s*", repeat.block.lines[0])
        pointer = f"{indent[0] if indent else ''}{mark}… as lines {repeat.of.first}-{repeat.of.last}{' but:' if own else ''}"
        if len(pointer) + sum(map(len, own)) < sum(map(len, repeat.block.lines)):
            lines[repeat.block.first - 1 : repeat.block.last] = [pointer, *own]
    return "\n".join(lines)
