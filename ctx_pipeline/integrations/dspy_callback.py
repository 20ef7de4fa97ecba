"""The callback that people import: what it stores is redacted first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.redaction import Redactor
from ctx_pipeline.rot import callback, database

if TYPE_CHECKING:
    import os


class CtxRotCallback(callback.CtxRotCallback):
    """Records the model and tool calls of a DSPy program in a SQLite store, never in its way.

    Give it to ``dspy.configure(callbacks=[CtxRotCallback()])``. ``db_path`` is the store
    (``CTX_CALLBACK_STORE`` replaces the default). With ``store_content`` messages,
    completions and tool data are kept too, secrets replaced. ``session_id`` is the session
    that is running here, else the one begun last.
    """

    def __init__(self, db_path: str | os.PathLike[str] = database.DEFAULT, store_content: bool = False) -> None:
        super().__init__(db_path, store_content, redact=Redactor().redact)
        self._store_content = store_content

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes a callback of the same store in another process."""
        return type(self), (str(self._writer.path), self._store_content)
