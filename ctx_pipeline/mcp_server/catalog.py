"""Which tools there are, and in which module each is: imported when it is listed or called, since a server starts with each session."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ctx_pipeline.mcp_server.client_sessions import Remembered
    from ctx_pipeline.mcp_server.memory_tools import Judge
    from ctx_pipeline.mcp_server.session_tools import Act
    from ctx_pipeline.settings import Settings

MEMORY, READ, ALL = "memory", "read", "all"
PROFILES: dict[str, tuple[str, ...]] = {
    MEMORY: ("search_history", "read_session", "retrieve_memories", "update_memory_utility", "ctx_session"),
    READ: ("ctx_read", "ctx_shell", "ctx_search", "ctx_tree", "ctx_recall", "ctx_session"),
    ALL: (),
}
"""Name of a set -> the tools that a client is shown; none stands for all. What is not shown answers all the same."""

WRITES = frozenset({"accept_memory", "update_memory_utility", "ctx_session", "ctx_cache", "ctx_gain", "ctx_artifacts", "ctx_shell"})

TOOLS: dict[str, str] = {
    **dict.fromkeys(("search_history", "list_sessions", "read_session"), "history"),
    **dict.fromkeys(("retrieve_memories", "show_memory", "accept_memory", "update_memory_utility"), "memories"),
    **dict.fromkeys(("get_usage", "get_signals"), "figures"),
    **dict.fromkeys(("ctx_compress", "ctx_analyze", "ctx_benchmark"), "compression"),
    "ctx_session": "sessions",
    **dict.fromkeys(
        ("get_findings", "ctx_heatmap", "ctx_cache", "ctx_metrics", "ctx_gain", "ctx_wrapped", "ctx_artifacts", "ctx_verify"), "reports"
    ),
    **dict.fromkeys(("ctx_read", "ctx_shell", "ctx_search", "ctx_tree", "ctx_recall"), "code"),
}
"""Name of a tool -> the attribute of a :class:`Catalog` that has it, in the order in which they are listed."""


class Catalog:
    """The tools of one server."""

    def __init__(self, settings: Settings, judge: Judge, act: Act, allowed: Sequence[Path], remembered: Remembered | None) -> None:
        self._settings = settings
        self._judge = judge
        self._act = act
        self._allowed = allowed
        self._remembered = remembered

    def tool(self, name: str) -> Callable[..., Any]:
        """Return the tool of a name of :data:`TOOLS`."""
        found: Callable[..., Any] = getattr(getattr(self, TOOLS[name]), name)
        return found

    @cached_property
    def history(self) -> object:
        """Search and sessions as they were."""
        from ctx_pipeline.mcp_server.history_tools import HistoryTools

        return HistoryTools(self._settings)

    @cached_property
    def memories(self) -> object:
        """Lessons."""
        from ctx_pipeline.mcp_server.memory_tools import MemoryTools

        return MemoryTools(self._settings, self._judge)

    @cached_property
    def figures(self) -> object:
        """Usage and signals."""
        from ctx_pipeline.mcp_server.figure_tools import FigureTools

        return FigureTools(self._settings)

    @cached_property
    def compression(self) -> object:
        """Shorter forms of files."""
        from ctx_pipeline.mcp_server.compression_tools import CompressionTools

        return CompressionTools(self._settings)

    @cached_property
    def sessions(self) -> object:
        """What a session is about."""
        from ctx_pipeline.mcp_server.session_tools import SessionTools

        return SessionTools(self._settings, self._act)

    @cached_property
    def reports(self) -> object:
        """Reports over sessions."""
        from ctx_pipeline.mcp_server.report_tools import ReportTools

        return ReportTools(self._settings, self._act)

    @cached_property
    def code(self) -> object:
        """The project's files and what commands printed."""
        from ctx_pipeline.mcp_server.code_tools import CodeTools
        from ctx_pipeline.mcp_server.project_root import project_root

        reads = self._remembered.current_reads if self._remembered else None
        return CodeTools(self._settings, project_root, self._allowed, reads=reads)
