"""Claude Code: transcripts, agent files and side files below ``~/.claude``."""

from __future__ import annotations

from ctx_pipeline.hosts.claude_code.discovery import SESSION_KINDS, USAGE_KINDS, classify, enter, identify, retention_days
from ctx_pipeline.hosts.claude_code.window import window
from ctx_pipeline.model.agent_config import Agent, Headless, HookFile, ReplacedOutput, ServerFile
from ctx_pipeline.model.declared import Deferred, HomeFiles, Host, Records, UsageRecords, Windows
from ctx_pipeline.model.hook_kinds import CAPTURE, WEAVE
from ctx_pipeline.model.host_records import LimitNotes, ShellAnswers

HOST = Host(
    key="claude",
    title="Claude Code",
    version=6,
    aliases=("claude-code", "claude_code", "cc"),
    files=HomeFiles(
        roots_env="CLAUDE_CONFIG_DIR",
        roots_default=("~/.claude", "~/.config/claude"),
        classify=classify,
        enter=enter,
        identify=identify,
        session_kinds=SESSION_KINDS,
        hints=Deferred("ctx_pipeline.hosts.claude_code.session:hints"),
        retention_days=retention_days,
        prompt_history=Deferred("ctx_pipeline.hosts.claude_code.session:mentions"),
        archive_name="claude-code",
        project_folder=".claude",
        state_folders=("plans", "projects", "todos", "tasks", "sessions", "memories", "shell-snapshots", "scratchpad"),
        worktree_folders=("worktrees",),
        rules_files=("CLAUDE.md", "CLAUDE.local.md"),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.claude_code.session:parse"),
        formats=Deferred("ctx_pipeline.hosts.claude_code.session:known"),
        window=window,
        directories=Deferred("ctx_pipeline.hosts.claude_code.file_changes:directories"),
        changes=Deferred("ctx_pipeline.hosts.claude_code.file_changes:changes"),
        named_command=r"(?:<command-message>[^<]{0,400}</command-message>\s*)?<command-name>\s{0,9}(/[\w:.-]{1,120})",
        leaving_commands=frozenset({"/exit", "/quit"}),
        compact_command=r"<command-name>\s*/?compact\b|^\s*/compact\b",
        command=r"<command-message>[^<]{0,400}</command-message>\s*<command-name>\s*(/[^<\s]{1,200})(?![\s\S]*<command-args>\s*[^<\s])",
        shell_command=r"<bash-input>\s*([^<][\s\S]{0,4000}?)\s*</bash-input>",
        shell_output=r"<bash-std(?:out|err)>",
        warm_up=r"\s*Warmup\s*",
        reading_agents=frozenset({"Explore", "Plan"}),
        agent_tokens=r"<usage>\s{0,9}(?:<total_tokens>|total_tokens:\s?)(\d{1,12})\b",
        approval_tools=frozenset({"ExitPlanMode", "exit_plan_mode"}),
        windows=Windows((200_000, 1_000_000), r"(?:^|/)claude-(?:opus|sonnet)-4-\d{1,2}(?:-\d{8})?$"),
        steps=("assistant", "queue-operation", "user"),
        no_steps=("isCompactSummary", "isMeta"),
    ),
    usage=UsageRecords(
        read=Deferred("ctx_pipeline.hosts.claude_code.fast_usage:usage"),
        kinds=USAGE_KINDS,
        five_hour_windows=True,
        limit_notes=LimitNotes(
            frozenset({"api_error_message", "system/api_error"}),
            Deferred("ctx_pipeline.hosts.claude_code.usage:reached"),
        ),
        other_tools={"ccusage": Deferred("ctx_pipeline.hosts.claude_code.ccusage_rules:ccusage")},
    ),
    shell=ShellAnswers(
        tools=frozenset({"bash"}),
        running=r"Command (?:running|was manually backgrounded).{0,80}? with ID: (\w{1,40})|Monitor started \(task (\w{1,40})",
        waits=r"\"(?:bash_id|shell_id|task_id)\":\s?\"(\w{1,40})",
        waits_in=("bash_id", "shell_id", "task_id"),
        goes_on=r"<status>(?:running|in_progress)</status>",
        stopped_by_call=r"Successfully (?:killed shell|stopped task)",
        stopped=r"Successfully (?:killed shell|stopped task)|<status>(?:killed|stopped)</status>",
        printed=(
            r"\A(?>(?:[^<]++|<(?!(?:stdout|output)>))*)<(?:stdout|output)>\n?([\s\S]*?)\n?</(?:stdout|output)>",
            r"\A(?>(?:[^<]++|<(?!stderr>))*)<stderr>\n?([\s\S]*?)\n?</stderr>",
        ),
        refused=r"\A(?:\[Request interrupted by user(?: for tool use)?\]|<tool_use_error>(Blocked: [^\n]{0,190}))",
        notices=frozenset({"task-notification", "queue-operation/enqueue"}),
        notice=r"\A<task-notification>\s{0,8}<task-id>(\w{1,40})</task-id>[^\0]{0,1000}?<status>(?:completed|failed|killed|stopped)</status>",
        # patterns that are looked for in whole outputs begin with a letter: others would be tried at each one
        notice_exit=r"(?:c(?<=\bc)ompleted|f(?<=\bf)ailed)(?: with)? \(?exit code (-?\d{1,10})\)?</summary>",
        exit=r"<exit_code>(-?\d{1,10})</exit_code>|^(?:Error: )?Exit code (-?\d{1,10})\b",
        exit_line=r"<exit_code>-?\d{1,10}</exit_code>|E(?<=^E)(?:rror: E)?xit code -?\d{1,10}\b",
        background=r"\"run_in_background\":\s?true",
        keeps_folder=True,
        folder_reset=r"^Shell cwd was reset to (/[^\n]{0,400})\s*\Z",
        limit_seconds=120,
        marks_errors=True,
    ),
    agent=Agent(
        called=("claude",),
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
            matchers={"PreToolUse": "Bash|Edit|MultiEdit|NotebookEdit|Write", "PostToolUseFailure": "Bash"},
            note="Sessions that are open take hooks over when they are started anew.",
            replaces=ReplacedOutput(
                "PostToolUse",
                "Bash|Read",
                Deferred("ctx_pipeline.hosts.claude_code.hook_output:output"),
                Deferred("ctx_pipeline.hosts.claude_code.hook_output:answer"),
                "of commands that succeed, and a notice for a file that stands above unchanged (since 2.1.121)",
                read=Deferred("ctx_pipeline.hosts.claude_code.hook_output:read"),
                unchanged=Deferred("ctx_pipeline.hosts.claude_code.hook_output:unchanged"),
            ),
            off_switch="disableAllHooks",
        ),
        # settings of the person and the project hold hooks; those of the empty folder are none
        headless=Headless(
            (
                *("claude", "-p", "--output-format", "stream-json", "--verbose", "--tools", ""),
                *("--strict-mcp-config", "--setting-sources", "local", "--no-session-persistence"),
            ),
            read=Deferred("ctx_pipeline.hosts.claude_code.session:read_headless"),
            method="claude_headless",
            model=("--model", "{model}"),
            without=("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID"),
        ),
    ),
)
