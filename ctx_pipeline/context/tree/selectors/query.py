"""A parsed selector."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Condition:
    """``name op value``; ``op`` is exists, in or a sign of ``operators.py``."""

    name: str
    op: str = "exists"
    value: object = None


@dataclass(frozen=True)
class Hop:
    """One step inside a position: offsets from ``low`` to ``high``, or a word, or a step of the selector language."""

    word: str = ""
    low: int | None = None
    high: int | None = None
    step: Step | None = None


@dataclass(frozen=True)
class Step:
    """What one node has to be."""

    root: str = ""
    depths: tuple[tuple[int, int | None], ...] = ()
    positions: tuple[tuple[Hop, ...], ...] = ()
    """Places in parentheses; the first hop of each holds its depths."""
    any: bool = False
    types: tuple[str, ...] = ()
    key: str | None = None
    tags: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    sides: tuple[str, ...] = ()
    among: tuple[tuple[str, int], ...] = ()
    """first, last or nth among the matches"""

    @property
    def zone(self) -> bool:
        """Whether the step only says on which side of the core: what follows may then be the node itself."""
        return bool(self.sides) and not (self.root or self.depths or self.positions or self.any or self.types or self.key or self.tags)


@dataclass(frozen=True)
class Chain:
    """Steps with what joins each to the one before: "" for the first, " " below, ">" directly below."""

    steps: tuple[tuple[str, Step], ...]


@dataclass(frozen=True)
class Moment:
    """A point in time: kind t (0 the working state, n the n-th newest snapshot; None the oldest) or c (a cycle)."""

    kind: str
    value: int | None

    @property
    def label(self) -> str:
        """The moment as it is written."""
        if self.kind == "c":
            return f"@c{self.value}"
        if self.value is None:
            return "@t-*"
        return f"@t-{self.value}" if self.value else "@t0"


@dataclass(frozen=True)
class Query:
    """A whole selector: when, what, and how much of it."""

    text: str
    chains: tuple[tuple[Chain, ...], ...]
    """A union of alternatives; of each tuple the first chain that finds something counts."""
    moments: tuple[Moment, ...] = ()
    timed: bool = False
    every: bool = False
    """``@*``: all snapshots."""
    ranged: bool = False
    pair: bool = False
    controls: dict[str, str] = field(default_factory=dict, hash=False)
