"""Messages in, messages that fit out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import InvalidArgument, InvalidMessage
from ctx_pipeline.context.interactions import Interaction
from ctx_pipeline.context.window.costs import Costs, in_order
from ctx_pipeline.context.window.strategies import get_strategy
from ctx_pipeline.errors import UsageError
from ctx_pipeline.tokens.tokenizers import FallbackWordCountTokenizer, tokenizer_from_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.tokens.tokenizers import Tokenizer

MessageFilter = Callable[[dict[str, Any]], bool]
"""Says for a message whether it stays."""

MetricsCallback = Callable[[dict[str, Any]], None]
"""Gets ``{total_tokens, message_count, strategy_used, approximate, metadata}`` once a build."""


@dataclass
class BuildResult:
    """The messages within the budget, what they cost, and what was done."""

    messages: list[dict[str, Any]]
    total_tokens: int
    """Tokens of the request: contents, the overhead of each message, the start of the answer."""
    approximate: bool
    """True when the tokens are an estimate: counted by words, calibrated, or with pictures in them."""
    strategy_used: str
    """Name of the strategy, ``none`` when everything fitted."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """``truncation_applied``; after a truncation ``tokens_before``, ``dropped_ids``, ``summarized_ids``, ``iterations``."""


class ContextBuilder:
    """Builds the window of a model from a conversation; the same input gives the same output, and the input stays as it is."""

    def __init__(self, tokenizer: Tokenizer | None = None, default_strategy: str = "truncate_oldest") -> None:
        self._model: str | None = None
        self._tokenizer = tokenizer if tokenizer is not None else FallbackWordCountTokenizer()
        self._default = default_strategy
        self._costs = Costs(self._tokenizer)

    @classmethod
    def from_model(cls, model_name: str, *, default_strategy: str = "truncate_oldest", **options: Any) -> ContextBuilder:
        """Return a builder that counts as a model does and knows its window; options go to the tokenizer. Never downloads."""
        made = cls(tokenizer_from_name(model_name, **options), default_strategy)
        made._model = model_name
        return made

    @property
    def context_window(self) -> int | None:
        """Tokens that the model's context holds, prompt and answer together; None for an unknown model and without one."""
        from ctx_pipeline.tokens.model_tokens import context_window

        return context_window(self._model)

    def build(  # noqa: PLR0917 - the documented signature
        self,
        messages: Iterable[Any],
        max_tokens: int | None = None,
        strategy: str | None = None,
        strategy_opts: Mapping[str, Any] | None = None,
        pre_filter: MessageFilter | None = None,
        post_filter: MessageFilter | None = None,
        metrics_callback: MetricsCallback | None = None,
    ) -> BuildResult:
        """Return the messages that fit into ``max_tokens``, by default into the whole window of the model, sorted by (time, id).

        ``pre_filter`` and ``post_filter`` say for a message whether it stays, before and
        after the truncation. A budget of zero or less keeps nothing that has tokens. Raises
        UsageError without a budget where no window is known, ValueError for an unknown
        strategy, InvalidArgument (a TypeError) for an option that it has not and for a budget
        that is no number, InvalidMessage for what is no message, and BudgetTooSmall when
        pinned messages alone are over the budget.
        """
        if max_tokens is None:
            max_tokens = self.context_window
        if max_tokens is None:
            raise UsageError("there is no budget, and no window of a model is known", hint="pass max_tokens")
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, (int, float)) or math.isnan(max_tokens):
            raise InvalidArgument(f"max_tokens is {max_tokens!r}", hint="a number of tokens, such as 4000")
        if strategy_opts is not None and not isinstance(strategy_opts, Mapping):
            raise InvalidArgument(f"strategy_opts is {type(strategy_opts).__name__}", hint='a mapping, such as {"pin_system": True}')
        if messages is None or isinstance(messages, (str, bytes, Mapping)):
            raise InvalidMessage(f"messages is {type(messages).__name__}, not a list", hint='pass [{"role": ..., "content": ...}]')
        name = strategy or self._default
        chosen = get_strategy(name, **(strategy_opts or {}))
        entries = list(messages)
        given = entries if set(map(type, entries)) <= {dict} else [_message(entry, place) for place, entry in enumerate(entries)]
        ordered: list[Any] = in_order([m for m in given if pre_filter(m)] if pre_filter else given)
        costs = self._costs.of_one_window()
        counts = costs.of(ordered)
        before = costs.total(counts)
        if before <= max_tokens and chosen.placement == "time":
            kept = [m for m in ordered if post_filter(m)] if post_filter else ordered
            total = costs.total(costs.of(kept)) if post_filter else before
            result = BuildResult(kept, total, costs.approximate, "none", {"truncation_applied": False})
        else:
            fitted = chosen.apply_counted(ordered, counts, max_tokens, costs)
            kept, total = fitted.messages, fitted.tokens_after
            if post_filter:
                kept = [m for m in kept if post_filter(m)]
                total = costs.total(costs.of(kept))
            result = BuildResult(
                kept,
                total,
                costs.approximate,
                name,
                {
                    "truncation_applied": before > max_tokens,
                    "tokens_before": fitted.tokens_before,
                    "dropped_ids": fitted.dropped_ids,
                    "summarized_ids": fitted.summarized_ids,
                    "iterations": 1,
                    **fitted.metadata,
                },
            )
        if metrics_callback:
            metrics_callback(
                {
                    "total_tokens": result.total_tokens,
                    "message_count": len(result.messages),
                    "strategy_used": result.strategy_used,
                    "approximate": result.approximate,
                    "metadata": result.metadata,
                }
            )
        return result


def _message(entry: object, place: int) -> dict[str, Any]:
    if type(entry) is dict:
        return entry
    if isinstance(entry, Interaction):
        return entry.to_dict()
    if isinstance(entry, Mapping):
        return dict(entry)
    raise InvalidMessage(f"message {place} is {type(entry).__name__}, not a mapping", hint='pass {"role": ..., "content": ...}')
