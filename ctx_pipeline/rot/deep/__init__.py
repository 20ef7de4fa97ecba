"""Deep analysis: a language model with a Python interpreter reads a session and writes a report."""

from __future__ import annotations

from ctx_pipeline.rot.deep.running import run_deep_analysis

__all__ = ["run_deep_analysis"]
