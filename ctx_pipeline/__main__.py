"""``python -m ctx_pipeline``: the same as ``ctx``."""

from __future__ import annotations

from ctx_pipeline.cli import process

if __name__ == "__main__":
    process()
