"""Wiki links between memories: ``[[id]]``, ``[[id|shown]]``, ``[[id#part]]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINK = re.compile(r"\[\[([^\]\[|#\n]{1,200})(?:[|#][^\]\[\n]{0,200})?\]\]")


def links_of(*texts: str | None) -> list[str]:
    """Return the ids that the texts name, each once, in order."""
    return list(dict.fromkeys(target.strip() for text in texts if text for target in _LINK.findall(text) if target.strip()))


def dangling(links: dict[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return memory id -> ids that it names and that do not exist."""
    found = {source: [t for t in targets if t not in links] for source, targets in links.items()}
    return {source: missing for source, missing in found.items() if missing}
