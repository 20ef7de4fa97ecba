"""Fact tables and the function that works out the rows of each from a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.facts.file_accesses import file_accesses
from ctx_pipeline.facts.turns import turn_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctx_pipeline.model.session_view import SessionView

MAKERS: Mapping[str, Callable[[SessionView], list[Any]]] = {
    "command_runs": command_runs,
    "check_runs": check_runs,
    "turns": turn_rows,
    "file_accesses": file_accesses,
}
"""Name of each table of :data:`ctx_pipeline.model.tables.FACTS` -> session to rows, in the order of the threads."""
