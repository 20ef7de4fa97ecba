"""When a model call had to pay anew for a prompt that the provider's cache had held."""

from __future__ import annotations

LOST = 0.5
"""A call that reads less than this share of what the call before left in the cache rebuilds it."""
LEAST = 1_024
"""Tokens below which providers cache nothing."""


def rebuilt(held: int, read: int) -> bool:
    """Tell whether a call that read so much rebuilt a cache in which the call before it left ``held`` tokens."""
    return held >= LEAST and read < held * LOST
