"""Former name of :mod:`ctx_pipeline.mining._commands`, for the session fold."""

from ctx_pipeline.mining._commands import Run, runs, shown

__all__ = ["Run", "runs", "shown"]
