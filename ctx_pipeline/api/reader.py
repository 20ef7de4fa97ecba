"""Open the store for reading; moved to :mod:`ctx_pipeline.storage.reader`."""

from ctx_pipeline.storage.reader import reading, searching

__all__ = ["reading", "searching"]
