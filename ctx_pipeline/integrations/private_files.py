"""Files outside the store that hold what sessions said: written whole, readable by their owner alone."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class PrivateFolder:
    """Writes files below one folder, each whole and for the owner alone (0600, folders 0700).

    Raises StoreError for a file that cannot be written; nothing of it is left then.
    """

    def __init__(self, target: Path) -> None:
        self._target = target

    def folder(self, path: Path) -> None:
        """Make a folder where there is none."""
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def bytes(self, rel: str, data: bytes) -> None:
        """Write a file; ``rel`` uses slashes."""
        path = self._target.joinpath(*rel.split("/"))
        partial = path.with_name(f".{path.name[:50]}.{os.getpid()}")
        try:
            self.folder(path.parent)
            try:
                with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                    file.write(data)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(path, error) from error

    def text(self, rel: str, text: str) -> None:
        """Write a text as UTF-8; what cannot be encoded becomes a question mark."""
        self.bytes(rel, text.encode("utf-8", "replace"))

    def json(self, rel: str, value: Any) -> None:
        """Write a value as JSON for people."""
        self.text(rel, json.dumps(value, ensure_ascii=False, indent=2, default=str) + "\n")

    def lines(self, rel: str, rows: Iterable[Any]) -> None:
        """Write one JSON value a line."""
        self.text(rel, "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows))


def unwritable(target: Path, error: OSError) -> StoreError:
    """Return the error that names what cannot be written, and why."""
    return StoreError(f"{target} cannot be written: {error.strerror or error}", hint="name another folder", path=str(target))
