"""The code location: ``dagster dev`` and ``dagster definitions validate`` load this module.

It loads on an empty machine: no home, no store, no environment variable is needed.
"""

from __future__ import annotations

from ctx_pipeline.defs.location import load

defs = load()
