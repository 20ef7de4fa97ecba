"""OpenCode: sessions as small documents below ``storage/``, later as rows of ``opencode.db``."""

from __future__ import annotations

from ctx_pipeline.hosts.opencode.discovery import DATABASE, SESSION_KINDS, classify, enter, identify
from ctx_pipeline.model.agent_config import Agent
from ctx_pipeline.model.declared import Database, Deferred, HomeFiles, Host, Records
from ctx_pipeline.model.host_records import ShellAnswers

_SESSION = ("id", "parent_id", "directory", "title", "version", "agent", "revert", "time_created", "time_compacting", "time_archived")

HOST = Host(
    key="opencode",
    title="OpenCode",
    version=1,
    aliases=("open-code",),
    files=HomeFiles(
        roots_env="OPENCODE_DATA_DIR",
        roots_default=("$XDG_DATA_HOME/opencode", "~/.local/share/opencode", "$LOCALAPPDATA/opencode"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        databases={
            DATABASE: Database(
                tables=(("session", "time_created"), ("message", "id"), ("part", "id"), ("todo", "position")),
                split_by="session_id",
                split_as={"session": "id"},
                columns={"session": _SESSION},
            )
        },
        project_folder=".opencode",
        rules_files=("AGENTS.md",),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.opencode.session:parse"),
        window=Deferred("ctx_pipeline.hosts.opencode.session:window"),
        compact_command=r"^\s*/(?:compact|summarize)\b",
        approval_tools=frozenset({"plan_exit"}),
    ),
    shell=ShellAnswers(tools=frozenset({"bash"}), folder="workdir"),
    agent=Agent(called=("opencode",), resume="opencode --session {session_id}", resume_in_folder=True, rules_file="AGENTS.md"),
)
