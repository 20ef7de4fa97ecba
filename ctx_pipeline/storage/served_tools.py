"""What the schemas of the tools that a server showed last take in a prompt, counted when they are shown."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILE = "served_tools.json"
"""Name in the store."""


class ServedTools(NamedTuple):
    """A set of tools as a client was shown it last."""

    profile: str
    tools: int
    tokens: int


def note(home: Path, profile: str, schemas: list[dict[str, object]], count: Callable[[str], int]) -> None:
    """Keep what the schemas take, counted only where they are others than those that were counted last; nothing without a store."""
    text = json.dumps(schemas, ensure_ascii=False, separators=(",", ":"))
    of = digest(profile, text)
    with suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads((home / FILE).read_bytes())["of"] == of:
            return
    if home.is_dir():
        told = {"of": of, "profile": profile, "tools": len(schemas), "tokens": count(text)}
        Files(home).write(FILE, json.dumps(told).encode())


def served(home: Path) -> ServedTools | None:
    """Return what was noted last; None where no server showed its tools yet."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads((home / FILE).read_bytes())
        return ServedTools(str(told["profile"]), int(told["tools"]), int(told["tokens"]))
    return None
