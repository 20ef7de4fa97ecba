"""What a host declares of its settings: how a server and hooks are entered there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WEAVE = "weave"
"""What a hook does: answer with the memories that are relevant now."""

CAPTURE = "capture"
"""What a hook does: start a ``ctx sync`` and answer nothing."""


@dataclass(frozen=True, slots=True)
class ServerFile:
    """Where a host reads its MCP servers: one table that maps names to servers."""

    file: str
    """relative to the home"""
    form: str
    """json or toml"""
    table: str
    project_file: str = ""
    """the same for one project, relative to its folder"""
    beside_home: bool = False
    """The file lies beside a home at its default place, and inside one that the environment names."""
    typed: bool = False
    """A server says its transport in ``type``."""


@dataclass(frozen=True, slots=True)
class HookFile:
    """Where a host reads its hooks: a JSON file with ``hooks``: event -> groups -> commands.

    A command gets the payload as JSON on its standard input (``session_id``, ``cwd``,
    ``hook_event_name``, ``prompt``) and may print ``hookSpecificOutput`` with
    ``additionalContext``, which the model then sees.
    """

    file: str
    """relative to the home"""
    events: Mapping[str, str]
    """name of the event -> :data:`WEAVE` or :data:`CAPTURE`"""
    matchers: Mapping[str, str] = field(default_factory=dict)
    """name of the event -> which of its kinds are meant, where the event has kinds"""
    timeout_seconds: int = 10
    program: str = ""
    """Command that prints the host's version, as its first word with ``--version``."""
    since: tuple[int, ...] = ()
    """First version that runs these hooks; empty: every one that is in use."""
    instructions: str = ""
    """File in the home whose text every session reads; a block in it stands in for hooks before ``since``."""
    note: str = ""
    """What the person must do in the host for the hooks to run."""
