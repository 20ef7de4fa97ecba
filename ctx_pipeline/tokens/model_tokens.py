"""What a model holds and bills: its context window, and its token counts against a public encoding."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.name_rules import applies, spellings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# How many tokens a model's context holds.


WINDOWS_FILE = Path(__file__).with_name("windows.json")
"""Which name means a model of what window, compiled from the installed genai-prices, whose import takes longer than all else here."""

_ROUTES = ("-aws", "-bedrock", "-azure", "-vertex", "-gcp", "-gke")


@lru_cache(maxsize=256)
def context_window(model: str | None) -> int | None:
    """Return the tokens of a model's context window, None for an unknown one; the provider's prefix may stand before the name."""
    if not model:
        return None
    prefix, _, last = model.lower().rpartition("/")
    for name in dict.fromkeys(_names(last)):
        for provider in (_named(prefix.partition("/")[0].strip()), _maker(name)):
            if provider is not None and (found := _window(provider, name)):
                return found
    return None


@cache
def _providers() -> dict[str, dict[str, Any]]:
    return {provider["id"]: provider for provider in json.loads(WINDOWS_FILE.read_bytes())}


def _named(name: str) -> dict[str, Any] | None:
    """Return the provider of a name or of a spelling of it."""
    listed = _providers().get(name)
    return listed or next((p for p in _providers().values() if p["names"] and applies(p["names"], name)), None) if name else None


def _maker(model: str) -> dict[str, Any] | None:
    """Return the first provider that claims names of this kind."""
    return next((p for p in _providers().values() if p["claims"] and applies(p["claims"], model)), None)


def _window(provider: dict[str, Any], name: str) -> int | None:
    """Return the window of the first model of a provider, or of those that it falls back to, that a name means."""
    for spelling in spellings(name):
        for owner in (provider, *(_providers()[key] for key in provider["fallback"] if key in _providers())):
            for rule, window in owner["models"]:
                if applies(rule, spelling):
                    return int(window) if window else None
    return None


def _names(name: str) -> Iterator[str]:
    """Yield a model's name, then without what a fine-tuning or a route has put around it."""
    yield name
    base = name.removeprefix("ft:").partition(":")[0] if name.startswith("ft:") else name
    for suffix in _ROUTES:
        base = base.removesuffix(suffix)
    yield base


# What a model bills against what a public encoding counts.


@dataclass(frozen=True)
class Calibration:
    """Billed tokens as a multiple of the tokens of a public encoding."""

    factor: float
    error: float
    """Mean absolute error of the fit as a share of the billed tokens, 0.1 for ten percent."""
    pairs: int
    encoding: str = "o200k_base"

    def scale(self, counted: int) -> int:
        """Return the billed tokens to expect, rounded up."""
        return math.ceil(counted * self.factor)


def calibrate(pairs: Iterable[tuple[int, int]], *, encoding: str = "o200k_base") -> Calibration:
    """Return the factor that fits (counted, billed) pairs best: the median of their ratios, weighted by size.

    The median ignores the calls whose request held something that no file shows. Raises
    UsageError without any pair above zero.
    """
    ratios = sorted((billed / counted, counted) for counted, billed in pairs if counted > 0 and billed > 0)
    if not ratios:
        raise UsageError("no pair of counted and billed tokens is above zero", hint="give calls that have both")
    half = sum(weight for _, weight in ratios) / 2
    seen = 0
    factor = ratios[-1][0]
    for ratio, weight in ratios:
        seen += weight
        if seen >= half:
            factor = ratio
            break
    error = sum(abs(ratio - factor) / ratio * weight for ratio, weight in ratios) / (2 * half)
    return Calibration(factor, error, len(ratios), encoding)


FACTORS = {
    "claude-opus-4-7": Calibration(1.59, 0.09, 66),
    "claude-": Calibration(1.16, 0.1, 438),
    "gemini": Calibration(1.05, 0.15, 0),
    "llama": Calibration(1.05, 0.1, 0),
    "mistral": Calibration(1.15, 0.15, 0),
    "deepseek": Calibration(1.05, 0.15, 0),
    "qwen": Calibration(1.05, 0.1, 0),
}
"""Part of a model's name -> calibration, the first that fits counts.

The measured ones compare what one call billed more than the call before it with the text that
came in between, over published sessions; ``pairs`` 0 marks a prior that no measured call stands
behind.
"""
