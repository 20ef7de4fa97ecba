"""What it costs to say that a file is in the context already."""

from __future__ import annotations

NOTICE_TOKENS = 20
"""Tokens of a notice in place of a file that is in the context, unchanged: the one figure for it, in analyses, benchmarks and replays.

A notice names the file and how many of its lines stand above; with a path of four folders
it has at most so many tokens of o200k_base.
"""


def notice(path: str, lines: int) -> str:
    """Return the notice of a file, with the last four parts of its path."""
    short = "/".join(path.replace("\\", "/").split("/")[-4:])
    return f"[{short}: unchanged, {lines} lines above]"
