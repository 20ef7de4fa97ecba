"""Parts of an agent that write themselves into its context before every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctx_pipeline.context.agent.agent import Agent
    from ctx_pipeline.context.tree.component import Component


class BaseContextScaffold:
    """Subclass it with ``scaffold_type`` and ``render``; ``self.agent`` is the agent it was given to."""

    scaffold_type = "scaffold"
    agent: Agent

    def attach(self, agent: Agent) -> None:
        """Learn which agent this belongs to."""
        self.agent = agent

    def render(self) -> Component | None:
        """Return what stands in the context during the next call, or None; it replaces what was returned before."""
        return None
