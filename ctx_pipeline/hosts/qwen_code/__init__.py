"""Qwen Code: chat records below ``~/.qwen/projects``, and the recordings of its first versions, which are Gemini CLI's."""

from __future__ import annotations

from ctx_pipeline.hosts.qwen_code.discovery import SESSION_KINDS, classify, enter, identify
from ctx_pipeline.model.agent_config import Agent, ServerFile
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.host_records import ShellAnswers

HOST = Host(
    key="qwen_code",
    title="Qwen Code",
    version=1,
    aliases=("qwen", "qwen-code"),
    files=HomeFiles(
        roots_env="QWEN_RUNTIME_DIR",
        roots_default=("$QWEN_HOME", "~/.qwen"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        prompt_history=Deferred("ctx_pipeline.hosts.gemini_cli.conversation:prompt_history"),
        project_folder=".qwen",
        rules_files=("QWEN.md",),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.qwen_code.session:parse"),
        formats=Deferred("ctx_pipeline.hosts.qwen_code.session:known"),
        window=Deferred("ctx_pipeline.hosts.qwen_code.session:window"),
        compact_command=r"^\s*/(?:compress|summarize)\b",
        approval_tools=frozenset({"exit_plan_mode"}),
    ),
    shell=ShellAnswers(
        tools=frozenset({"run_shell_command"}),
        exit=r"^Exit Code: (-?\d{1,10})\b",
        exit_line=r"^Exit Code: -?\d{1,10}\b",
        background=r"\"is_background\":\s?true",
        folder="directory",
    ),
    agent=Agent(
        called=("qwen",),
        resume="qwen --resume {session_id}",
        resume_in_folder=True,
        rules_file="QWEN.md",
        server=ServerFile("settings.json", "json", "mcpServers", project_file=".qwen/settings.json"),
    ),
)
