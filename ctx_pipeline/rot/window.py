"""How many tokens a model's context holds, and what is taken for a model nobody knows."""

from ctx_pipeline.tokens.context_window import context_window

UNKNOWN = 200_000
"""tokens that are assumed for a model nobody knows"""

__all__ = ["UNKNOWN", "context_window"]
