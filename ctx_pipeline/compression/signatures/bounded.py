"""Whether a text can be parsed in a bounded time: on text that is no code of its language a parser may look for errors for minutes."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import lru_cache

SECONDS = 5.0
"""how long a parser may take over a text that looks like none of its language"""

WINDOW = 1024
"""characters of a window; the time of a parser that goes astray grows with their square"""

_MOST_WINDOWS = 64

_ASTRAY = 0.025
"""seconds of processor for a window: code and prose take a tenth of it, text that a parser despairs of three times as much"""

_PARSE = "import sys\nfrom ast_grep_py import SgRoot\nSgRoot(sys.stdin.buffer.read().decode('utf-8', 'replace'), sys.argv[1])\n"


@lru_cache(maxsize=8)
def ends_soon(text: str, language: str) -> bool:
    """Tell whether a text is parsed within bounds.

    A parser cannot be interrupted. Windows of the text are parsed first; where one of them
    takes long, another process tries the whole text and is ended after ``SECONDS``.
    """
    from ast_grep_py import SgRoot

    if len(text) <= WINDOW:
        return True
    step = max(WINDOW, len(text) // _MOST_WINDOWS)
    for start in range(0, len(text), step):
        began = time.process_time()
        SgRoot(text[start : start + WINDOW], language)
        if time.process_time() - began > _ASTRAY:
            return _parse(text, language)
    return True


def _parse(text: str, language: str) -> bool:
    command = [sys.executable, "-P", "-c", _PARSE, language]  # -P: nothing is imported from the folder one is in
    given = text.encode("utf-8", "replace")
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603 - this interpreter
    except (subprocess.TimeoutExpired, OSError):
        return False
    return done.returncode == 0
