"""Codex CLI and Codex Desktop: rollouts below ``$CODEX_HOME``, one JSONL file a thread."""

from __future__ import annotations

from ctx_pipeline.hosts.codex.paths import LOOSE, ROLLOUT, STATE, classify, enter, places
from ctx_pipeline.hosts.codex.window import window
from ctx_pipeline.model.agent_config import Agent, Headless, HookFile, ReplacedOutput, ServerFile
from ctx_pipeline.model.declared import Database, Deferred, HomeFiles, Host, Records, UsageRecords
from ctx_pipeline.model.hook_kinds import CAPTURE, WEAVE
from ctx_pipeline.model.host_records import LimitNotes, ShellAnswers

# Codex rewrites times and token totals of its threads at every turn; without them the
# captured rows change only when a thread is added, named or archived.
_STEADY = (
    *("id", "rollout_path", "created_at", "source", "model_provider", "cwd", "title", "name", "cli_version"),
    *("git_sha", "git_branch", "git_origin_url", "agent_nickname", "agent_role", "agent_path", "thread_source"),
    *("history_mode", "archived", "archived_at"),
)


HOST = Host(
    key="codex",
    title="Codex",
    version=9,
    aliases=("openai-codex", "codex-cli", "cx"),
    files=HomeFiles(
        roots_env="CODEX_HOME",
        roots_default=("~/.codex",),
        classify=classify,
        enter=enter,
        identify=Deferred("ctx_pipeline.hosts.codex.discovery:identify"),
        session_kinds=frozenset({ROLLOUT, LOOSE}),
        layout=places,
        databases={
            STATE: Database(
                tables=(("threads", "id"), ("thread_spawn_edges", "child_thread_id")),
                columns={"threads": _STEADY, "thread_spawn_edges": ("parent_thread_id", "child_thread_id")},
            )
        },
        hints=Deferred("ctx_pipeline.hosts.codex.discovery:hints"),
        project_folder=".codex",
        state_folders=("plans", "projects", "todos", "tasks", "sessions", "memories", "shell-snapshots", "scratchpad"),
        rules_files=("AGENTS.md",),
    ),
    records=Records(
        parse=Deferred("ctx_pipeline.hosts.codex.session:parse"),
        formats=Deferred("ctx_pipeline.hosts.codex.session:known"),
        window=window,
        directories=Deferred("ctx_pipeline.hosts.codex.file_changes:directories"),
        changes=Deferred("ctx_pipeline.hosts.codex.file_changes:changes"),
        interruptions=frozenset({"interrupt", "turn_aborted"}),
        compact_command=r"^\s*/compact\b",
        approval_tools=frozenset({"request_permissions"}),
        steps=("event_msg", "response_item"),
    ),
    usage=UsageRecords(
        read=Deferred("ctx_pipeline.hosts.codex.fast_usage:usage"),
        kinds=frozenset({ROLLOUT, LOOSE}),
        hint_streams={STATE: ("thread_spawn_edges",)},
        five_hour_windows=True,
        limits=Deferred("ctx_pipeline.hosts.codex.fast_usage:limits"),
        limits_in_event=Deferred("ctx_pipeline.hosts.codex.fast_usage:limits_in_event"),
        limit_notes=LimitNotes(
            frozenset({"token_count/rate_limits", "error", "stream_error", "warning"}),
            Deferred("ctx_pipeline.hosts.codex.usage:reached"),
            plan=Deferred("ctx_pipeline.hosts.codex.usage:plan"),
        ),
        other_tools={"ccusage": Deferred("ctx_pipeline.hosts.codex.ccusage_rules:ccusage")},
    ),
    shell=ShellAnswers(
        tools=frozenset(
            {
                *("container.exec", "exec", "exec_command", "local_shell", "shell", "shell_command", "unified_exec"),
                *("user_shell", "command_execution"),
            }
        ),
        # since 0.140 a model may write calls of its tools in JavaScript
        embedded=r"""tools\.exec_command\(\s*\{\s*"?cmd"?\s*:\s*("(?:[^"\\]|\\.)*")""",
        listed=r"""tools\.exec_command\(\s*\{\s*(?:"?cmd"?\s*:\s*)?\w+(\.join\(\s*["'] ["']\s*\))?\s*[,}]""",
        running=r"Process running with session ID (\d{1,20})|Script running with cell ID (\w{1,40})"
        r"|\{\"chunk_id\":[^{}\n]{0,300}?\"session_id\":(\d{1,20})",
        # a script that reads the command's first answer alone ends at that time, and says nothing of a command that goes on
        yields=r"\byield_time_ms\"?\s?:\s?(\d{1,7})\b",
        waits=r"\b(?:session_id|cell_id)\"?\s?:\s?\"?(\w{1,40})",
        waits_in=("session_id", "cell_id"),
        stops=r"\bchars\"?:\s?\"\\(?:u0003|x03)",
        refused=r"\A(?:Script failed\n[^{}]{0,200}?Script error:\n)?exec_command failed for [\s\S]{0,4000}?Rejected\("
        r"(?:[\s\S]{0,4000}?\b(rejected: [^\n\"\\]{1,190}))?",
        output=r"\"output\":\s?(\"(?:[^\"\\]|\\.)*\")",
        printed=(r"O(?<=^O)utput:\n([\s\S]*)",),
        exit=r"\{\s{0,8}(?:\"chunk_id\":[^{}]{0,300}?)?\"exit_code\":\s?(-?\d{1,10})\b",
        exit_line=r"(?:Exit code:|Process exited with code|exited with code|\"exit_code\":) ?-?\d{1,10}\b",
        folder="workdir",
    ),
    agent=Agent(
        called=("codex",),
        resume="codex resume {session_id}",
        resume_in_folder=True,
        unarchive="codex unarchive {session_id}",  # since 0.136
        # set for shell commands; servers are not told
        session_env=("CODEX_THREAD_ID",),
        rules_file="AGENTS.md",
        server=ServerFile("config.toml", "toml", "mcp_servers", project_file=".codex/config.toml"),
        hooks=HookFile(
            "hooks.json",
            {
                "SessionStart": WEAVE,
                "UserPromptSubmit": WEAVE,
                "PreToolUse": WEAVE,
                "PostToolUse": WEAVE,
                "Stop": CAPTURE,
                "PreCompact": CAPTURE,
            },
            matchers={"PreToolUse": "Bash", "PostToolUse": "Bash"},
            # before a command 0.124 refuses words for the model ("unsupported additionalContext"); the source of 0.144 takes them
            events_since={"PreToolUse": (0, 144)},
            replaces=ReplacedOutput(
                "PostToolUse",
                "Bash",
                Deferred("ctx_pipeline.hosts.codex.hook_output:output"),
                Deferred("ctx_pipeline.hosts.codex.hook_output:answer"),
                "of commands that tell of no failure",
                successes=False,
            ),
            program="codex",
            # 0.114 began with two events, 0.116 added the prompt's
            since=(0, 116),
            instructions="AGENTS.md",
            note="Codex runs a new hook only once it is trusted: review them with /hooks. Early versions need "
            "[features] codex_hooks = true.",
        ),
        # a feature that a version does not know is passed over in -c, while --disable refuses it
        headless=Headless(
            (
                *("codex", "exec", "--json", "--sandbox", "read-only", "--skip-git-repo-check", "--ephemeral"),
                *("--ignore-user-config", "--ignore-rules", "--output-schema", "{schema}"),
                *("-c", "features.shell_tool=false", "-c", "features.unified_exec=false", "-c", 'web_search="disabled"'),
            ),
            read=Deferred("ctx_pipeline.hosts.codex.exec_stream:read_headless"),
            method="codex_headless",
            model=("--model", "{model}"),
            without=("CODEX_THREAD_ID",),
        ),
    ),
)
