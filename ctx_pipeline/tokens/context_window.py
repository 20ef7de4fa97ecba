"""How many tokens a model's context holds."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUTES = ("-aws", "-bedrock", "-azure", "-vertex", "-gcp", "-gke")


@lru_cache(maxsize=256)
def context_window(model: str | None) -> int | None:
    """Return the tokens of a model's context window, None for an unknown one; the provider's prefix may stand before the name."""
    if not model:
        return None
    from genai_prices.data_snapshot import get_snapshot

    provider, _, last = model.rpartition("/")
    for name in dict.fromkeys(_names(last)):
        for who in (provider.partition("/")[0] or None, None):
            try:
                _, found = get_snapshot().find_provider_model(name, None, who, None)
            except LookupError:
                continue
            if found.context_window:
                return int(found.context_window)
    return None


def _names(name: str) -> Iterator[str]:
    """Yield a model's name, then without what a fine-tuning or a route has put around it."""
    yield name
    base = name.removeprefix("ft:").partition(":")[0] if name.startswith("ft:") else name
    for suffix in _ROUTES:
        base = base.removesuffix(suffix)
    yield base
