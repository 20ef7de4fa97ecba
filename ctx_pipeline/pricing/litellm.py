"""LiteLLM's published price file as a compiled list: the models of Anthropic and OpenAI under their own names."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

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
                models.append([name.lower(), ["equals", name.lower()], [[None, _rates(told)]], []])
        if models:
            claims = ["or", [model[1] for model in models]]
            providers.append({"id": maker, "names": ["equals", maker], "claims": claims, "fallback": [], "models": models})
    return {"source": source, "providers": providers} if providers else None


def _rates(told: dict[str, Any]) -> dict[str, Any]:
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
