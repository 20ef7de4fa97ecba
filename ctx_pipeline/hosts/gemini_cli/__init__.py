"""Gemini CLI: chat recordings below ``~/.gemini/tmp``, documents of earlier versions and JSONL of later ones."""

from __future__ import annotations

from ctx_pipeline.hosts.gemini_cli.discovery import LOGS, SESSION_KINDS, classify, enter, identify, retention_days
from ctx_pipeline.model.agent_config import Agent, ServerFile
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.host_records import ShellAnswers

__all__ = ["HOST", "LOGS"]

HOST = Host(
    key="gemini_cli",
    title="Gemini CLI",
    version=1,
    aliases=("gemini", "gemini-cli"),
    files=HomeFiles(
        roots_env="GEMINI_DATA_DIR",
        roots_default=("$GEMINI_CLI_HOME/.gemini", "~/.gemini"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        retention_days=retention_days,
        prompt_history=Deferred("ctx_pipeline.hosts.gemini_cli.conversation:prompt_history"),
        project_folder=".gemini",
        rules_files=("GEMINI.md",),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.gemini_cli.conversation:parse"),
        formats=Deferred("ctx_pipeline.hosts.gemini_cli.conversation:known"),
        window=Deferred("ctx_pipeline.hosts.gemini_cli.conversation:window"),
        compact_command=r"^\s*/(?:compress|summarize)\b",
        approval_tools=frozenset({"exit_plan_mode"}),
    ),
    shell=ShellAnswers(
        tools=frozenset({"run_shell_command"}),
        exit=r"^Exit Code: (-?\d{1,10})\b",
        exit_line=r"^Exit Code: -?\d{1,10}\b",
        background=r"\"is_background\":\s?true",
        folder="dir_path",
    ),
    agent=Agent(
        called=("gemini",),
        resume="gemini --resume {session_id}",
        resume_in_folder=True,
        rules_file="GEMINI.md",
        server=ServerFile("settings.json", "json", "mcpServers", project_file=".gemini/settings.json"),
    ),
)
