"""The walk over a home, under the name that the stages know; reading without a store walks in the same way."""

from __future__ import annotations

from ctx_pipeline.walking import Seen, is_ignored, walk

__all__ = ["Seen", "is_ignored", "walk"]
