"""Rules of which name means which model or provider, as the compiled lists of models have them."""

from __future__ import annotations

import re
from typing import Any

_COMPACT_DATE = re.compile(r"-(\d{4})(\d\d)(\d\d)$")


def applies(clause: list[Any], name: str) -> bool:
    """Tell whether a clause of the price list matches a lower-case name."""
    kind, value = clause
    match kind:
        case "equals":
            return bool(name == value)
        case "starts_with":
            return name.startswith(value)
        case "ends_with":
            return name.endswith(value)
        case "contains":
            return value in name
        case "regex":
            return re.search(value, name) is not None
        case "or":
            return any(applies(c, name) for c in value)
        case "and":
            return all(applies(c, name) for c in value)
        case _:
            return False


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as it is and with the date at its end in parts: ``gpt-5.2-20251211`` is listed as ``gpt-5.2-2025-12-11``."""
    return tuple(dict.fromkeys((name, _COMPACT_DATE.sub(r"-\1-\2-\3", name))))
