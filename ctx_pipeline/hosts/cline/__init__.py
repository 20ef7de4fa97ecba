"""Cline and Roo Code: task folders of the extensions, and the sessions of Cline's command line."""

from __future__ import annotations

from ctx_pipeline.hosts.cline.paths import SESSION_KINDS, USAGE_KINDS, classify, enter, hints, identify
from ctx_pipeline.hosts.cline.record_types import SHELLS
from ctx_pipeline.model.agent_config import Agent, ServerFile
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records, UsageRecords
from ctx_pipeline.model.host_records import ShellAnswers

_EDITORS = ("Code", "Code - Insiders", "Cursor", "VSCodium", "Windsurf")
_USERS = (
    *(f"{base}/{name}/User" for base in ("~/.config", "~/Library/Application Support", "$APPDATA") for name in _EDITORS),
    "~/.vscode-server/data/User",
    "~/.cursor-server/data/User",
)


def _stores(extension: str) -> tuple[str, ...]:
    """Return where the editors keep an extension's files."""
    return tuple(f"{user}/globalStorage/{extension}" for user in _USERS)


_RECORDS = Records(parse=Deferred("ctx_pipeline.hosts.cline.task:parse"), changes=Deferred("ctx_pipeline.hosts.cline.file_changes:changes"))
_USAGE = UsageRecords(kinds=USAGE_KINDS)
_SHELL = ShellAnswers(tools=SHELLS)

HOST = Host(
    key="cline",
    title="Cline",
    version=1,
    aliases=("claude-dev",),
    files=HomeFiles(
        roots_env="CLINE_DATA_DIR",
        roots_default=("$CLINE_DIR/data", "~/.cline/data"),
        more_roots={"CLINE_STORAGE_DIRS": _stores("saoudrizwan.claude-dev")},
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        hints=hints,
        project_folder=".clinerules",
        rules_files=(".clinerules", "AGENTS.md"),
    ),
    records=_RECORDS,
    usage=_USAGE,
    shell=_SHELL,
    agent=Agent(called=("cline",), server=ServerFile("settings/cline_mcp_settings.json", "json", "mcpServers")),
)

ROO = Host(
    key="roo",
    title="Roo Code",
    version=1,
    aliases=("roo-code", "roo-cline"),
    files=HomeFiles(
        roots_env="ROO_STORAGE_DIRS",
        roots_default=_stores("rooveterinaryinc.roo-cline"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        hints=hints,
        project_folder=".roo",
        rules_files=(".roorules", "AGENTS.md"),
    ),
    records=_RECORDS,
    usage=_USAGE,
    shell=_SHELL,
    agent=Agent(called=("roo",), server=ServerFile("settings/mcp_settings.json", "json", "mcpServers", project_file=".roo/mcp.json")),
)
