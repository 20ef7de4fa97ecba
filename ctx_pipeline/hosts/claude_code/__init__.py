"""Claude Code: transcripts, agent files and side files below ``~/.claude``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts.claude_code.discovery import SESSION_KINDS, USAGE_KINDS, classify, enter, identify, retention_days
from ctx_pipeline.hosts.claude_code.window import window
from ctx_pipeline.model.agent_config import CAPTURE, WEAVE, Agent, Headless, HookFile, ServerFile
from ctx_pipeline.model.declared import Host
from ctx_pipeline.model.lazy import Deferred
from ctx_pipeline.model.limit_notes import LimitNotes
from ctx_pipeline.model.shell_answers import ShellAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.ccusage_rules import RivalEntry
    from ctx_pipeline.model.raw import StreamBytes


def _ccusage(streams: Iterable[StreamBytes]) -> list[RivalEntry]:
    from ctx_pipeline.hosts.claude_code.ccusage_rules import ccusage

    return ccusage(streams)


HOST = Host(
    key="claude",
    title="Claude Code",
    version=5,
    roots_env="CLAUDE_CONFIG_DIR",
    roots_default=("~/.claude", "~/.config/claude"),
    classify=classify,
    enter=enter,
    identify=identify,
    parse=Deferred("ctx_pipeline.hosts.claude_code.session:parse"),
    session_kinds=SESSION_KINDS,
    aliases=("claude-code", "claude_code", "cc"),
    shell_tools=frozenset({"bash"}),
    shell_answers=ShellAnswers(
        running=r"Command (?:running|was manually backgrounded).{0,80}? with ID: (\w{1,40})|Monitor started \(task (\w{1,40})",
        waits=r"\"(?:bash_id|shell_id|task_id)\":\s?\"(\w{1,40})",
        goes_on=r"<status>(?:running|in_progress)</status>",
        stopped=r"Successfully (?:killed shell|stopped task)|<status>killed</status>",
        exit=r"<exit_code>(-?\d{1,10})</exit_code>|^(?:Error: )?Exit code (-?\d{1,10})\b",
        exit_line=r"<exit_code>-?\d{1,10}</exit_code>|^(?:Error: )?Exit code -?\d{1,10}\b",
        background=r"\"run_in_background\":\s?true",
        keeps_folder=True,
        marks_errors=True,
    ),
    hints=Deferred("ctx_pipeline.hosts.claude_code.sidefiles:hints"),
    retention_days=retention_days,
    mentions=Deferred("ctx_pipeline.hosts.claude_code.prompt_history:mentions"),
    usage=Deferred("ctx_pipeline.hosts.claude_code.fast_usage:usage"),
    usage_kinds=USAGE_KINDS,
    limit_notes=LimitNotes(
        frozenset({"api_error_message", "system/api_error"}),
        Deferred("ctx_pipeline.hosts.claude_code.limits:reached"),
    ),
    window=window,
    directories=Deferred("ctx_pipeline.hosts.claude_code.file_changes:directories"),
    changes=Deferred("ctx_pipeline.hosts.claude_code.file_changes:changes"),
    rivals={"ccusage": _ccusage},
    formats=Deferred("ctx_pipeline.hosts.claude_code.formats:known"),
    archive_name="claude-code",
    agent=Agent(
        resume="claude --resume {session_id}",
        resume_in_folder=True,
        # set for shell commands since 2.1.132 and for stdio servers since 2.1.154
        session_env=("CLAUDE_CODE_SESSION_ID",),
        rules_file="CLAUDE.md",
        server=ServerFile(".claude.json", "json", "mcpServers", project_file=".mcp.json", beside_home=True, typed=True),
        hooks=HookFile(
            "settings.json",
            {
                "SessionStart": WEAVE,
                "UserPromptSubmit": WEAVE,
                "PreToolUse": WEAVE,
                "PostToolUseFailure": WEAVE,
                "Stop": CAPTURE,
                "PreCompact": CAPTURE,
                "SessionEnd": CAPTURE,
            },
            matchers={"PreToolUse": "Bash", "PostToolUseFailure": "Bash"},
            note="Sessions that are open take hooks over when they are started anew.",
            off_switch="disableAllHooks",
        ),
        # settings of the person and the project hold hooks; those of the empty folder are none
        headless=Headless(
            (
                *("claude", "-p", "--output-format", "stream-json", "--verbose", "--tools", ""),
                *("--strict-mcp-config", "--setting-sources", "local", "--no-session-persistence"),
            ),
            read=Deferred("ctx_pipeline.hosts.claude_code.headless:read"),
            method="claude_headless",
            model=("--model", "{model}"),
            without=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        ),
    ),
)
