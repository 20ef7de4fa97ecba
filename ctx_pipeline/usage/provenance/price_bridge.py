"""In dollars, per model, why another tool's cost differs: prices of today, calls counted more or less, terms, recorded costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.host_records import Sum


@dataclass(slots=True)
class Bridge:
    """From our cost of one model to another tool's, in nano-dollars; the four steps add up to the difference exactly."""

    model: str
    here: int = 0
    """what the tables of usage count: by the cost mode, recorded or the list price on the day of the call"""
    prices: int = 0
    """the same calls at today's list, less ``here``"""
    more: int = 0
    """what the tool counts twice, or counts though it is a copy, at today's list"""
    less: int = 0
    """what the tool never counts, at today's list; not above zero"""
    terms: int = 0
    """the same tokens under other terms: thresholds, speed, searches, a recorded cost taken over"""
    there: int = 0
    """what the tool says, at today's list"""
    recorded: int = 0
    """what the host itself wrote down"""
    recorded_here: int = 0
    """list price on the day of the calls that the host wrote a cost of"""
    recorded_calls: int = 0

    def take(self, ours: Sum, theirs: Sum, *, here: int, today: int, there: int) -> None:
        """Add one call: its tokens on both sides, our cost on its day and today, and the tool's of today."""
        self.here += here
        self.prices += today - here
        self.there += there
        if ours == theirs:
            self.terms += there - today
        elif theirs.total() >= ours.total():
            self.more += there - today
        else:
            self.less += there - today

    def to_json(self) -> dict[str, Any]:
        """Return the amounts in dollars."""
        usd = {
            "here_usd": self.here,
            "price_change_usd": self.prices,
            "counted_more_usd": self.more,
            "counted_less_usd": self.less,
            "terms_usd": self.terms,
            "there_usd": self.there,
            "recorded_usd": self.recorded,
            "recorded_calls_at_list_usd": self.recorded_here,
        }
        return {"model": self.model, **{name: nano / 1e9 for name, nano in usd.items()}, "recorded_calls": self.recorded_calls}


@dataclass(slots=True)
class Bridges:
    """The bridge of every model."""

    by_model: dict[str, Bridge] = field(default_factory=dict)

    def of(self, model: str) -> Bridge:
        """Return a model's bridge."""
        return self.by_model.setdefault(model, Bridge(model))

    def rows(self) -> list[Bridge]:
        """Return the models with most cost first."""
        return sorted(self.by_model.values(), key=lambda one: (-one.here, one.model))

    def total(self) -> Bridge:
        """Return the sum of all models."""
        return added("total", self.by_model.values())


def added(name: str, bridges: Iterable[Bridge]) -> Bridge:
    """Return the sum of several bridges."""
    whole = Bridge(name)
    for one in bridges:
        for amount in ("here", "prices", "more", "less", "terms", "there", "recorded", "recorded_here", "recorded_calls"):
            setattr(whole, amount, getattr(whole, amount) + getattr(one, amount))
    return whole
