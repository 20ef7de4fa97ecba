"""What a model call cost at the list price of its day."""

from __future__ import annotations

from ctx_pipeline.pricing.price_book import PriceBook, PriceNote

__all__ = ["PriceBook", "PriceNote"]
