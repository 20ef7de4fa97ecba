"""A hook as an agent runs it, but with time to answer on a machine that is busy."""

from __future__ import annotations

import sys

SECONDS = 100.0

_PROGRAM = """
import sys
from ctx_pipeline.cli.integrations import hook; from ctx_pipeline.cli import main
hook.DEADLINE = float(sys.argv.pop(1))
main()
"""


def command(*words: str) -> list[str]:
    """Return ``ctx hook`` with words, which gives up after a bound of its own."""
    return [sys.executable, "-P", "-c", _PROGRAM, str(SECONDS), "hook", *words]
