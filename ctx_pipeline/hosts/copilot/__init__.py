"""GitHub Copilot: chats and transcripts of VS Code, and the sessions of the Copilot CLI, joined by id."""

from __future__ import annotations

from ctx_pipeline.hosts.copilot.paths import (
    SESSION_KINDS,
    STORE,
    USAGE_KINDS,
    classify,
    enter,
    identify,
    open_sessions,
    places,
    workspace_folder,
    workspace_hints,
)
from ctx_pipeline.hosts.copilot.record_types import SHELLS, STORE_TABLES
from ctx_pipeline.model.agent_config import Agent, ServerFile
from ctx_pipeline.model.declared import Database, Deferred, HomeFiles, Host, Records, UsageRecords
from ctx_pipeline.model.host_records import LimitNotes, ShellAnswers

_USERS = (
    "$XDG_CONFIG_HOME/Code/User",
    "$XDG_CONFIG_HOME/Code - Insiders/User",
    "~/.config/Code/User",
    "~/.config/Code - Insiders/User",
    "~/Library/Application Support/Code/User",
    "~/Library/Application Support/Code - Insiders/User",
    "$APPDATA/Code/User",
    "$APPDATA/Code - Insiders/User",
    "~/.vscode-server/data/User",
    "~/.vscode-server-insiders/data/User",
)

HOST = Host(
    key="copilot",
    title="GitHub Copilot",
    version=1,
    aliases=("vscode-copilot", "vscode", "gh-copilot", "copilot-cli"),
    files=HomeFiles(
        roots_env="COPILOT_HOME",
        roots_default=("~/.copilot",),
        more_roots={
            "COPILOT_SESSION_STATE_DIRS": ("$XDG_STATE_HOME/.copilot/session-state",),
            "VSCODE_COPILOT_USER_DIRS": _USERS,
        },
        classify=classify,
        enter=enter,
        identify=identify,
        hints=workspace_hints,
        shared_folder=workspace_folder,
        session_kinds=SESSION_KINDS,
        layout=places,
        databases={STORE: Database(tables=STORE_TABLES, split_by="session_id", split_as={"sessions": "id"})},
        open_sessions=open_sessions,
        archive_name="vscode-copilot",
        rules_files=(".github/copilot-instructions.md", "AGENTS.md"),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.copilot.session:parse"),
        directories=Deferred("ctx_pipeline.hosts.copilot.file_changes:directories"),
        changes=Deferred("ctx_pipeline.hosts.copilot.file_changes:changes"),
        formats=Deferred("ctx_pipeline.hosts.copilot.session:known"),
        interruptions=frozenset({"interrupt", "abort"}),
        compact_command=r"^\s*/compact\b",
        approval_tools=frozenset({"exit_plan_mode"}),
    ),
    usage=UsageRecords(
        other_units={"premium_requests": "premium requests", "ai_credits": "AI credits", "nano_aiu": "nano-AIU"},
        kinds=USAGE_KINDS,
        limit_notes=LimitNotes(
            frozenset({"request/quota", "request/rate_limit", "session.error/quota", "session.error/rate_limit"}),
            Deferred("ctx_pipeline.hosts.copilot.limits:reached"),
        ),
    ),
    shell=ShellAnswers(
        tools=SHELLS,
        running=r"<command (?:started in (?:detached )?background )?with shellId: ([\w.-]{1,40})",
        waits=r"\"shellId\":\s?\"?([\w.-]{1,40})",
        waits_in=("shellId",),
        printed=(r"\A([\s\S]*?)(?:\s{0,4}<(?:command|exited)[^<>]{0,300}>)?\s{0,4}\Z",),
        exit_line=r"<exited with exit code -?\d{1,10}>",
        marks_errors=True,
    ),
    agent=Agent(
        called=("copilot",),
        resume="copilot --resume {session_id}",
        rules_file="AGENTS.md",
        server=ServerFile("mcp-config.json", "json", "mcpServers", typed=True),
    ),
)
