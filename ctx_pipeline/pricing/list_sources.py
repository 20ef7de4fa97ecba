"""Price lists from outside as one small compiled list: the installed genai-prices, and LiteLLM's file."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from ctx_pipeline.pricing.price_book import PRICES_FILE
from ctx_pipeline.tokens.model_tokens import WINDOWS_FILE

# The prices of the installed genai-prices as one small file that loads in milliseconds.


KEYS = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_write_mtok": "cache_write_5m",
    "cache_write_1h_mtok": "cache_write_1h",
    "cache_read_mtok": "cache_read",
    "web_searches_kcount": "web_search",
}
"""Price keys of the library that a model call can be billed by; the others are dropped."""


def compile_prices(providers: Any = None) -> dict[str, Any]:
    """Return the token prices of the installed library, or of ``providers`` in its shape, as plain JSON values.

    ``{"source": .., "providers": [{"id", "names", "claims", "fallback", "models"}]}``;
    a model is ``[id, match, prices, variants]``, a price list is
    ``[[start date or hours or null, rates], ..]`` in the library's order of precedence
    (the last that applies wins), rates are dollars per million tokens (per thousand
    searches) as decimal strings, or ``[base, [start, price], ..]`` where the price of
    all tokens depends on the size of the prompt.
    """
    from importlib.metadata import version

    if providers is None:
        from genai_prices.data import providers

    found: list[dict[str, Any]] = []
    for provider in providers:
        models = [entry for model in provider.models if (entry := _model(model)) is not None]
        if models:
            found.append(
                {
                    "id": provider.id,
                    "names": _match(provider.provider_match) if provider.provider_match else None,
                    "claims": _match(provider.model_match) if provider.model_match else None,
                    "fallback": provider.fallback_model_providers or [],
                    "models": models,
                }
            )
    return {"source": f"genai-prices {version('genai-prices')}", "providers": found}


def _model(model: Any) -> list[Any] | None:
    listed = model.prices if isinstance(model.prices, list) else [_Always(model.prices)]
    prices = [[_when(entry.constraint), _rates(entry.prices)] for entry in listed]
    if not any("input" in _rates(entry.prices) for entry in listed):
        return None
    variants = [[v.when, _when(v.constraint), _rates(v.prices)] for v in model.price_variants or ()]
    return [model.id, _match(model.match), prices, variants]


class _Always:
    constraint = None

    def __init__(self, prices: Any) -> None:
        self.prices = prices


def _when(constraint: Any) -> str | list[str] | None:
    if constraint is None:
        return None
    start = getattr(constraint, "start_date", None)
    return start.isoformat() if start else [constraint.start_time.isoformat(), constraint.end_time.isoformat()]


def _rates(prices: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, name in KEYS.items():
        value = getattr(prices, key, None)
        if isinstance(value, Decimal):
            found[name] = str(value)
        elif value is not None:
            found[name] = [str(value.base), *([tier.start, str(tier.price)] for tier in value.tiers)]
    return found


def _match(clause: Any) -> list[Any]:
    """Return a clause as [kind, text] or [kind, clauses]."""
    ((key, value),) = vars(clause).items()
    kind = key.rstrip("_")
    if kind in {"or", "and"}:
        return [kind, [_match(c) for c in value]]
    return [kind, value if kind == "regex" else value.lower()]


def compile_windows(providers: Any = None) -> list[dict[str, Any]]:
    """Return which name means a model of what context window, as :mod:`ctx_pipeline.tokens.model_tokens` reads it."""
    if providers is None:
        from genai_prices.data import providers

    return [
        {
            "id": provider.id,
            "names": _match(provider.provider_match) if provider.provider_match else None,
            "claims": _match(provider.model_match) if provider.model_match else None,
            "fallback": provider.fallback_model_providers or [],
            "models": [[_match(model.match), model.context_window] for model in provider.models],
        }
        for provider in providers
    ]


def main() -> None:
    """Write ``prices.json`` and ``windows.json`` anew."""
    for path, value in ((PRICES_FILE, compile_prices()), (WINDOWS_FILE, compile_windows())):
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
        path.write_text(text.replace('{"id":', '\n{"id":') + "\n", "utf-8")


if __name__ == "__main__":
    main()


# LiteLLM's published price file as a compiled list: the models of Anthropic and OpenAI under their own names.


_MAKERS = ("anthropic", "openai")
_RATES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_creation_input_token_cost": "cache_write_5m",
    "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
    "cache_read_input_token_cost": "cache_read",
}
_OVER = (("_above_200k_tokens", 200_000), ("_above_272k_tokens", 272_000))


def compiled(table: dict[str, Any], source: str) -> dict[str, Any] | None:
    """Return the list, or None where the table is not LiteLLM's."""
    providers = []
    for maker in _MAKERS:
        models = []
        for name, told in table.items():
            if isinstance(told, dict) and told.get("litellm_provider") == maker and "/" not in name and told.get("input_cost_per_token"):
                models.append([name.lower(), ["equals", name.lower()], [[None, _litellm_rates(told)]], []])
        if models:
            claims = ["or", [model[1] for model in models]]
            providers.append({"id": maker, "names": ["equals", maker], "claims": claims, "fallback": [], "models": models})
    return {"source": source, "providers": providers} if providers else None


def _litellm_rates(told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, name in _RATES.items():
        if isinstance(told.get(key), int | float):
            base = _million(told[key])
            tier = next(
                ([start, _million(told[key + over])] for over, start in _OVER if isinstance(told.get(key + over), int | float)), None
            )
            found[name] = base if tier is None else [base, tier]
    return found


def _million(dollars: float) -> str:
    return f"{Decimal(repr(dollars)) * 1_000_000:f}"
