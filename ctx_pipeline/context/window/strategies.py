"""How a conversation that is too long is made to fit."""

from __future__ import annotations

import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.errors import InvalidArgument, InvalidMessage
from ctx_pipeline.context.sync_adapter import run
from ctx_pipeline.context.window.costs import Costs, in_order
from ctx_pipeline.errors import BudgetTooSmall, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.context.window.costs import Counter

    Message = Mapping[str, Any]


# Messages that belong together: a tool call stays with its results.


class Unit(NamedTuple):
    """Messages that are kept or dropped as one, by their places, and what they cost together."""

    places: tuple[int, ...]
    tokens: int
    pinned: bool = False
    priority: float = 0.0


def units_of(
    messages: Sequence[Message],
    costs: Sequence[int],
    *,
    keep_tool_pairs: bool = True,
    pin: Callable[[Message], bool] | None = None,
    priority: Callable[[Message], float] | None = None,
) -> list[Unit]:
    """Return the units in the order of their first message.

    A call and its results are found by ``tool_calls[].id`` and ``tool_call_id`` (OpenAI),
    and by ``tool_use`` and ``tool_result`` parts (Anthropic). A unit is pinned when one of
    its messages is, and has the highest priority among them.
    """
    if not pin and not priority and not (keep_tool_pairs and may_belong_together(messages)):
        return list(map(Unit, zip(range(len(costs)), strict=True), costs))
    group = list(range(len(messages)))
    if keep_tool_pairs:
        opened: dict[str, int] = {}
        for place, message in enumerate(messages):
            for call in _answers(message):
                if call in opened:
                    group[place] = group[opened[call]]
            for call in _calls(message):
                opened[call] = place
    members: dict[int, list[int]] = {}
    for place, first in enumerate(group):
        members.setdefault(first, []).append(place)
    return [
        Unit(
            tuple(places),
            sum(costs[p] for p in places),
            pinned=any(pin(messages[p]) for p in places) if pin else False,
            priority=max(float(priority(messages[p])) for p in places) if priority else 0.0,
        )
        for places in members.values()
    ]


def may_belong_together(messages: Sequence[Message]) -> bool:
    """Return whether any message has something that could make it a tool call or a result."""
    return not {"tool_calls", "tool_call_id"}.isdisjoint(chain.from_iterable(messages)) or list in {
        type(message.get("content")) for message in messages
    }


def _calls(message: Message) -> list[str]:
    calls = message.get("tool_calls")
    found = [str(c["id"]) for c in calls if isinstance(c, dict) and c.get("id")] if isinstance(calls, list) else []
    content = message.get("content")
    if isinstance(content, list):
        found += [str(p["id"]) for p in content if isinstance(p, dict) and p.get("type") == "tool_use" and p.get("id")]
    return found


def _answers(message: Message) -> list[str]:
    found = [str(message["tool_call_id"])] if message.get("tool_call_id") else []
    content = message.get("content")
    if isinstance(content, list):
        found += [str(p["tool_use_id"]) for p in content if isinstance(p, dict) and p.get("type") == "tool_result" and p.get("tool_use_id")]
    return found


def at_the_edges(units: Sequence[Unit]) -> list[tuple[int, ...]]:
    """Return the places of units, pinned first, then the highest priorities alternately at the end and at the start.

    What a model has to find is found best at both ends of a long context and worst in its
    middle (Liu et al., "Lost in the Middle", 2023). Among equal priorities the newer one
    counts as higher.
    """
    pinned = [unit.places for unit in units if unit.pinned]
    ranked = sorted((unit for unit in units if not unit.pinned), key=lambda u: (-u.priority, -u.places[0]))
    head = [unit.places for unit in ranked[1::2]]
    tail = [unit.places for unit in ranked[0::2]]
    return [*pinned, *head, *reversed(tail)]


SummarizerCallback = Callable[[list[dict[str, Any]]], Any]
"""Messages in, text out; sync or async."""

_log = logging.getLogger(__name__)


@dataclass
class TruncationResult:
    """What a strategy kept, and what became of the rest."""

    messages: list[dict[str, Any]]
    tokens_before: int = 0
    tokens_after: int = 0
    dropped_ids: list[Any] = field(default_factory=list)
    summarized_ids: list[Any] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class TruncationStrategy(ABC):
    """Makes messages fit.

    The options of all strategies:

    ``keep_tool_pairs`` (True): a tool call and its results are kept or dropped as one.
    ``pin_system`` (False): messages of the role system are never dropped.
    ``pin``: a function that says which messages are never dropped.
    ``priority``: a field name or a function; what has less goes first, the older first among equals.
    ``contiguous`` (False, recent_only): stop at the first message that does not fit.
    ``placement`` ("time"): "edges" puts the highest priorities at both ends of the window,
    where models find things best, and the lowest in its middle.
    """

    name = ""

    def __init__(
        self,
        *,
        keep_tool_pairs: bool = True,
        pin_system: bool = False,
        pin: Callable[[Message], bool] | None = None,
        priority: str | Callable[[Message], float] | None = None,
        contiguous: bool = False,
        placement: str = "time",
    ) -> None:
        if placement not in {"time", "edges"}:
            raise UsageError(f"placement is {placement!r}", hint='use "time" or "edges"')
        self.keep_tool_pairs = keep_tool_pairs
        self.contiguous = contiguous
        self.placement = placement
        self._pin = (lambda m: m.get("role") == "system" or bool(pin and pin(m))) if pin_system else pin
        self._priority = (lambda m: float(m.get(priority) or 0)) if isinstance(priority, str) else priority

    def apply(self, messages: Sequence[Message], max_tokens: int, tokenizer: Counter | Costs) -> TruncationResult:
        """Return the messages that fit, in order, with what was dropped or summarised.

        The tokens are those of the whole request, the start of the answer included.
        Raises BudgetTooSmall when the pinned messages alone do not fit.
        """
        costs = tokenizer if isinstance(tokenizer, Costs) else Costs(tokenizer)
        ordered = in_order(messages)
        return self.apply_counted(ordered, costs.of(ordered), max_tokens, costs)

    def apply_counted(self, ordered: Sequence[Message], counts: Sequence[int], max_tokens: int, costs: Costs) -> TruncationResult:
        """Do the same for messages that are in order and counted already."""
        before = costs.total(counts)
        if before <= max_tokens and self.placement == "time":
            return TruncationResult([*ordered], before, before)  # type: ignore[list-item]
        budget = max_tokens - costs.priming
        places = self.places(counts, budget) if self._unbound(ordered) else None
        if places is not None:
            held = set(places)
            result = TruncationResult(
                [ordered[p] for p in places],  # type: ignore[misc]
                before,
                costs.total([counts[p] for p in places]),
                [m.get("id") for p, m in enumerate(ordered) if p not in held],
            )
        else:
            result = self._apply_units(Window(ordered, counts, self.units(ordered, counts), budget, costs), before, max_tokens)
        if not result.messages and ordered:
            result.metadata.setdefault("over_budget_ids", [m.get("id") for m, c in zip(ordered, counts, strict=True) if c > budget])
        result.metadata.setdefault("strategy", self.name)
        return result

    def _apply_units(self, window: Window, before: int, max_tokens: int) -> TruncationResult:
        least = sum(unit.tokens for unit in window.units if unit.pinned)
        if least > max(window.budget, 0):
            raise BudgetTooSmall(
                f"the pinned messages need {least + window.costs.priming} tokens and the budget is {max_tokens}",
                hint="raise max_tokens, or pin less",
                asked=max_tokens,
                minimum=least + window.costs.priming,
            )
        result = TruncationResult([]) if before <= max_tokens else self.fit(window)
        kept = result.metadata.pop("kept", window.units)
        summary = result.metadata.pop("summary", None)
        result.messages, result.tokens_after = window.in_order(kept, self.placement, summary)
        result.tokens_before = before
        return result

    def places(self, counts: Sequence[int], budget: int) -> list[int] | None:
        """Return the places of the kept messages where every message stands alone, or None to ask :meth:`fit`."""
        del counts, budget
        return None

    def _unbound(self, messages: Sequence[Message]) -> bool:
        """Whether every message may be kept or dropped by itself, with none before the others."""
        if self._pin or self._priority or self.placement != "time":
            return False
        return not self.keep_tool_pairs or not may_belong_together(messages)

    def units(self, messages: Sequence[Message], counts: Sequence[int]) -> list[Unit]:
        """Return the messages as units of what is kept together."""
        return units_of(messages, counts, keep_tool_pairs=self.keep_tool_pairs, pin=self._pin, priority=self._priority)

    @abstractmethod
    def fit(self, window: Window) -> TruncationResult:
        """Return a result whose metadata names the kept units."""


@dataclass
class Window:
    """The messages of one call of a strategy."""

    messages: Sequence[Message]
    counts: Sequence[int]
    units: list[Unit]
    budget: int
    costs: Costs

    def ids(self, units: Sequence[Unit]) -> list[Any]:
        """Return the ids of the messages of units, in the order of the conversation."""
        return [self.messages[place].get("id") for place in sorted(p for unit in units for p in unit.places)]

    def in_order(self, units: Sequence[Unit], placement: str, summary: tuple[dict[str, Any], int] | None) -> tuple[list[Any], int]:
        """Return the messages of the kept units in their final order, a summary before them, and their tokens."""
        groups = at_the_edges(units) if placement == "edges" else [tuple(sorted(p for unit in units for p in unit.places))]
        messages: list[Any] = [self.messages[place] for group in groups for place in group]
        counts = [self.counts[place] for group in groups for place in group]
        if summary:
            pinned = sorted(place for unit in units if unit.pinned for place in unit.places)
            head = sum(1 for at, place in enumerate(pinned) if at == place)
            messages.insert(head, summary[0])
            counts.append(summary[1])
        return messages, self.costs.total(counts)


class TruncateOldestStrategy(TruncationStrategy):
    """Drops from the front until the rest fits."""

    name = "truncate_oldest"

    def places(self, counts: Sequence[int], budget: int) -> list[int]:
        """Return the longest run of places at the end that fits."""
        left = budget
        for place in range(len(counts) - 1, -1, -1):
            left -= counts[place]
            if left < 0:
                return list(range(place + 1, len(counts)))
        return list(range(len(counts)))

    def fit(self, window: Window) -> TruncationResult:
        """Drop the lowest priority first, among equals the oldest."""
        total = sum(unit.tokens for unit in window.units)
        free = [unit for unit in window.units if not unit.pinned]
        dropped: set[Unit] = set()
        for unit in sorted(free, key=lambda u: u.priority):
            if total <= window.budget:
                break
            dropped.add(unit)
            total -= unit.tokens
        kept = [unit for unit in window.units if unit not in dropped]
        return TruncationResult([], dropped_ids=window.ids(list(dropped)), metadata={"kept": kept})


class RecentOnlyStrategy(TruncationStrategy):
    """Keeps what fits, from the newest backwards; an older message may fit where a larger one did not."""

    name = "recent_only"

    def places(self, counts: Sequence[int], budget: int) -> list[int]:
        """Return the places of what still fits, counted from the newest."""
        left = budget
        kept: list[int] = []
        for place in range(len(counts) - 1, -1, -1):
            if counts[place] <= left:
                kept.append(place)
                left -= counts[place]
            elif self.contiguous or left <= 0:
                break
        return kept[::-1]

    def fit(self, window: Window) -> TruncationResult:
        """Keep the pinned, then by priority and from the newest whatever still fits."""
        left = window.budget - sum(unit.tokens for unit in window.units if unit.pinned)
        kept = {unit for unit in window.units if unit.pinned}
        for unit in sorted(window.units, key=lambda u: (-u.priority, -u.places[0])):
            if unit.pinned:
                continue
            if unit.tokens <= left:
                kept.add(unit)
                left -= unit.tokens
            elif self.contiguous:
                break
        return TruncationResult(
            [],
            dropped_ids=window.ids([unit for unit in window.units if unit not in kept]),
            metadata={"kept": [unit for unit in window.units if unit in kept]},
        )


class SummarizeOldestStrategy(TruncationStrategy):
    """Replaces the oldest messages by one summary, which a function of yours writes, sync or async."""

    name = "summarize_oldest"

    def __init__(self, summarizer: SummarizerCallback | None = None, chunk_size: int = 5, **options: Any) -> None:
        super().__init__(**options)
        if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
            raise UsageError(f"chunk_size is {chunk_size!r}", hint="summarise at least one message at a time")
        self.summarizer = summarizer
        self.chunk_size = chunk_size

    def fit(self, window: Window) -> TruncationResult:
        """Summarise chunk by chunk until the rest fits; every chunk takes in the summary before it.

        Without a summarizer, when it raises, or when no summary is small enough, the oldest
        messages are dropped instead and ``fallback_reason`` says why.
        """
        if self.summarizer is None:
            return self._fallback(window, "no_summarizer")
        waiting = [unit for unit in window.units if not unit.pinned]
        total = sum(unit.tokens for unit in window.units)
        summary: dict[str, Any] | None = None
        cost = 0
        taken: list[Unit] = []
        summarized = 0
        while total + cost > window.budget and len(taken) < len(waiting):
            room = max(1, self.chunk_size - (summary is not None))
            chunk = waiting[len(taken) : len(taken) + room]
            taken += chunk
            places = sorted([p for unit in chunk for p in unit.places])
            total -= sum([unit.tokens for unit in chunk])
            summarized += len(places)
            old = [dict(window.messages[p]) for p in places]
            try:
                text = self._summary([summary, *old] if summary else old)
            except Exception:  # noqa: BLE001 - a summarizer is somebody else's code
                _log.warning("the summarizer failed; the oldest messages are dropped instead", exc_info=True)
                return self._fallback(window, "summarizer_failed")
            first = window.messages[taken[0].places[0]]
            summary = {
                "id": f"summary_{first.get('id')}",
                "role": "system",
                "content": text,
                "timestamp": first.get("timestamp"),
                "metadata": {"is_summary": True, "summarized_count": summarized},
            }
            cost = window.costs.of([summary])[0] if total <= window.budget else 0  # counted once it decides
        if total + cost > window.budget or summary is None:
            return self._fallback(window, "summary_too_large")
        gone = set(map(id, taken))
        return TruncationResult(
            [],
            summarized_ids=window.ids(taken),
            metadata={"kept": [unit for unit in window.units if id(unit) not in gone], "summary": (summary, cost)},
        )

    def _summary(self, messages: list[dict[str, Any]]) -> str:
        assert self.summarizer is not None  # noqa: S101 - fit returns before this without one
        made = self.summarizer(messages)
        text = run(_awaited(made)) if inspect.isawaitable(made) else made
        if not isinstance(text, str):
            raise InvalidMessage(f"a summarizer returns text, not {type(text).__name__}")
        return text

    @staticmethod
    def _fallback(window: Window, reason: str) -> TruncationResult:
        result = TruncateOldestStrategy().fit(window)
        result.metadata |= {"fallback_reason": reason, "strategy": SummarizeOldestStrategy.name}
        return result


async def _awaited(made: Any) -> Any:
    return await made


STRATEGIES: dict[str, type[TruncationStrategy]] = {
    strategy.name: strategy for strategy in (TruncateOldestStrategy, RecentOnlyStrategy, SummarizeOldestStrategy)
}


def get_strategy(name: str, **options: Any) -> TruncationStrategy:
    """Return a strategy with options. Raises ValueError for an unknown name, InvalidArgument for an option that it has not."""
    if name not in STRATEGIES:
        raise UnknownStrategy(name)
    strategy = STRATEGIES[name]
    known = _options(strategy)
    for option in options:
        if option not in known:
            raise InvalidArgument(f"{name} has no option {option!r}", hint=f"its options are {', '.join(sorted(known))}")
    return strategy(**options)


def _options(strategy: type[TruncationStrategy]) -> set[str]:
    made = (inspect.signature(vars(kind)["__init__"]) for kind in strategy.__mro__[:-1] if "__init__" in vars(kind))
    names = {p.name for signature in made for p in signature.parameters.values() if p.kind in {p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD}}
    return names - {"self"}


class UnknownStrategy(UsageError, ValueError):
    """No strategy has that name."""

    advice = "name one of the strategies that are listed, or pass one of your own"

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown strategy: {name}. Available: {sorted(STRATEGIES)}", name=name)
