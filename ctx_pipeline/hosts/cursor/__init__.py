"""Cursor: conversations in its state database, and the transcripts of its agents."""

from __future__ import annotations

from ctx_pipeline.hosts.cursor.paths import BUBBLE, COMPOSER, SESSION_KINDS, STATE, classify, enter, identify
from ctx_pipeline.hosts.cursor.record_types import SHELLS
from ctx_pipeline.model.agent_config import Agent, ServerFile
from ctx_pipeline.model.declared import Database, Deferred, HomeFiles, Host, Records, UsageRecords
from ctx_pipeline.model.host_records import ShellAnswers

HOST = Host(
    key="cursor",
    title="Cursor",
    version=1,
    files=HomeFiles(
        roots_env="CURSOR_HOME",
        roots_default=("~/.cursor",),
        more_roots={
            "CURSOR_USER_DIRS": (
                "$XDG_CONFIG_HOME/Cursor/User",
                "~/.config/Cursor/User",
                "~/Library/Application Support/Cursor/User",
                "$APPDATA/Cursor/User",
            )
        },
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        # the other table, and other keys of this one, hold tokens of the person's account
        databases={STATE: Database(tables=(("cursorDiskKV", "key"),), key_prefixes={"cursorDiskKV": (COMPOSER, BUBBLE)})},
        project_folder=".cursor",
        state_folders=("projects",),
        worktree_folders=("worktrees",),
        rules_files=(".cursorrules", "AGENTS.md"),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.cursor.session:parse"),
        changes=Deferred("ctx_pipeline.hosts.cursor.file_changes:changes"),
        formats=Deferred("ctx_pipeline.hosts.cursor.session:known"),
    ),
    usage=UsageRecords(kinds=frozenset({STATE}), other_units={"requests": "requests", "cents": "cents as recorded by Cursor"}),
    shell=ShellAnswers(tools=SHELLS, background=r"\"is_background\":\s?true"),
    agent=Agent(
        called=("cursor",),
        resume="cursor-agent --resume={session_id}",
        resume_in_folder=True,
        rules_file="AGENTS.md",
        server=ServerFile("mcp.json", "json", "mcpServers", project_file=".cursor/mcp.json"),
    ),
)
