"""How another tool would count a record: what a host's model of that tool's rules says of the files."""

from __future__ import annotations

from typing import NamedTuple


class Sum(NamedTuple):
    """Tokens in the columns of ``model_calls``; reasoning is inside ``output``."""

    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int

    def total(self) -> int:
        """Return all tokens."""
        return sum(self)


class RivalEntry(NamedTuple):
    """One record that holds usage, and what the other tool makes of it."""

    call: str
    """our key of the call that the record belongs to"""
    stream: str
    start: int
    end: int
    line: int
    ts: int | None
    model: str
    tokens: Sum
    counted: bool
    rule: str
    """the tool's rule where it differs from ours: why it counts the record again, or leaves it out; empty where both agree"""
    recorded: int | None = None
    """cost that the record holds, in nano-dollars"""
    speed: str | None = None
    tier: str | None = None
    per_field: bool = False
    """the tool prices each count's own excess over a long-context threshold, instead of the whole call by its prompt"""
