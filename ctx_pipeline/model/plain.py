"""Records as plain values: what ``--json``, MCP and exports print."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar


def plain(value: Any, *derived: str) -> Any:
    """Return a record as a dictionary of its fields and of the named properties, all the way down; other values as they are."""
    if isinstance(value, Plain):
        return value.to_json()
    names = getattr(value, "_fields", None) or ([f.name for f in fields(value)] if is_dataclass(value) else None)
    if names is not None:
        return {name: plain(getattr(value, name)) for name in (*names, *derived)}
    if isinstance(value, dict):
        return {key: plain(held) for key, held in value.items()}
    return [plain(one, *derived) for one in value] if isinstance(value, list | tuple) else value


class Plain:
    """A data class whose JSON is its fields, or ``shown``: names of fields and properties in their order."""

    __slots__ = ()
    shown: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        names = self.shown or tuple(f.name for f in fields(self))  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in names}
