"""Claude Code: transcripts, agent files and side files below ``~/.claude``."""

from __future__ import annotations

from ctx_pipeline.hosts.claude_code.counting import KINDS, usage
from ctx_pipeline.hosts.claude_code.places import SESSION_KINDS, classify, enter, identify, retention_days
from ctx_pipeline.hosts.claude_code.session import parse
from ctx_pipeline.hosts.claude_code.sidefiles import hints
from ctx_pipeline.model.declared import Host

HOST = Host(
    key="claude",
    title="Claude Code",
    version=1,
    roots_env="CLAUDE_CONFIG_DIR",
    roots_default=("~/.claude", "~/.config/claude"),
    classify=classify,
    enter=enter,
    identify=identify,
    parse=parse,
    session_kinds=SESSION_KINDS,
    aliases=("claude-code", "claude_code", "cc"),
    resume="claude --resume {session_id}",
    hints=hints,
    retention_days=retention_days,
    usage=usage,
    usage_kinds=KINDS,
)
