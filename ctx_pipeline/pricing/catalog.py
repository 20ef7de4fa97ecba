"""Which entry of the price list a recorded model name means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = 2
"""Rises when a name comes to mean another entry: calls that are stored are priced anew."""

ROUTES = {
    "bedrock": "aws",
    "vertex": "google",
    "vertex_ai": "google",
    "vertexai": "google",
    "azure_ai": "azure",
    "gemini": "google",
    "models": "",
}
"""First part of a name such as ``vertex_ai/claude-..`` that is no provider's own id."""

_LONG_CONTEXT = re.compile(r"\[\d+[mk]\]$")
_VENDOR = re.compile(r"^(?:[a-z-]+\.)?(anthropic|openai|meta|mistral|deepseek|qwen|moonshotai?|minimax|zai|google)\.")
_CLOUD_VERSION = re.compile(r"(?:-v\d+)?(?::\d+)?$")
_SERVED_BY = re.compile(r"-(?:aws|bedrock|azure|vertex|gcp|gke)$")
_FINE_TUNED = "ft:"
_FINE_TUNER = "openai"
"""Who names fine-tuned models ``ft:<base>:<organization>:<suffix>:<id>``; the list has prices of their own for them."""


class Entry(NamedTuple):
    """One model of the price list, still undecided about date and terms."""

    provider: str
    model: str
    prices: list[Any]
    variants: list[Any]


class Catalog:
    """The compiled price list with its own rules of which name means which model."""

    def __init__(self, compiled: dict[str, Any]) -> None:
        self.source = str(compiled["source"])
        self._providers: dict[str, dict[str, Any]] = {p["id"]: p for p in compiled["providers"]}

    def find(self, name: str, host_provider: str | None = None) -> Entry | None:
        """Return the entry that a recorded model name means, or None.

        Dated, undated, ``[1m]``, Bedrock, Vertex, fine-tuned and ``provider/model``
        spellings are understood, and names with the platform as their last part.
        ``host_provider`` is who served the call, where the host recorded it; without it
        and without a hint in the name the maker's own list price is meant.
        """
        name = _LONG_CONTEXT.sub("", name.strip().lower())
        if not name or name.startswith("<"):
            return None
        for provider, spelling in self._tries(name, host_provider):
            found = self._match(provider, spelling)
            if found is not None:
                return found
        return None

    def _tries(self, name: str, host_provider: str | None) -> Iterator[tuple[str, str]]:
        served_by = self._provider(host_provider) if host_provider else None
        if served_by:
            yield served_by, name
        tail = name.rpartition("/")[2]
        if "/" in name:
            head = name.partition("/")[0]
            routed = ROUTES.get(head) or self._provider(head)
            if routed:
                yield routed, name.partition("/")[2]
                yield routed, tail
        bare = _VENDOR.sub("", tail)
        if bare != tail and "aws" in self._providers:
            yield "aws", tail
        if "@" in tail and "google" in self._providers:
            yield "google", tail
        if tail.startswith(_FINE_TUNED):
            yield _FINE_TUNER, tail
        plain = _CLOUD_VERSION.sub("", bare).replace("@", "-")
        for spelling in dict.fromkeys((name, tail, bare, plain, _SERVED_BY.sub("", plain))):
            for provider, rules in self._providers.items():
                if rules["claims"] and applies(rules["claims"], spelling):
                    yield provider, spelling
        for spelling in dict.fromkeys((tail, plain)):
            for provider in self._makers():
                yield provider, spelling

    def _makers(self) -> Iterator[str]:
        """Yield the providers that make models, since several resellers list the same ones."""
        for provider in ("x-ai", "deepseek", "moonshotai", "zai", "minimax", "mistral", "cohere", "meta", "perplexity", "cursor"):
            if provider in self._providers:
                yield provider

    def _provider(self, name: str) -> str | None:
        name = name.lower().strip()
        if name in self._providers:
            return name
        return next((p for p, rules in self._providers.items() if rules["names"] and applies(rules["names"], name)), None)

    def _match(self, provider: str, name: str) -> Entry | None:
        rules = self._providers.get(provider)
        if rules is None:
            return None
        for spelling in dict.fromkeys((name, re.sub(r"-(\d{4})(\d\d)(\d\d)$", r"-\1-\2-\3", name))):
            for owner in (rules, *(self._providers[p] for p in rules["fallback"] if p in self._providers)):
                for model, clause, prices, variants in owner["models"]:
                    if applies(clause, spelling):
                        return Entry(owner["id"], model, prices, variants)
        return None


def applies(clause: list[Any], name: str) -> bool:
    """Tell whether a clause of the price list matches a lower-case name."""
    kind, value = clause
    match kind:
        case "equals":
            return bool(name == value)
        case "starts_with":
            return name.startswith(value)
        case "ends_with":
            return name.endswith(value)
        case "contains":
            return value in name
        case "regex":
            return re.search(value, name) is not None
        case "or":
            return any(applies(c, name) for c in value)
        case "and":
            return all(applies(c, name) for c in value)
        case _:
            return False
