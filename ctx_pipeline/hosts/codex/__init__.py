"""Codex CLI and Codex Desktop: rollouts below ``$CODEX_HOME``, one JSONL file a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts.codex.paths import LOOSE, ROLLOUT, STATE, classify, enter, places
from ctx_pipeline.hosts.codex.window import window
from ctx_pipeline.model.agent_config import CAPTURE, WEAVE, Agent, Headless, HookFile, ServerFile
from ctx_pipeline.model.declared import Database, Host
from ctx_pipeline.model.lazy import Deferred
from ctx_pipeline.model.limit_notes import LimitNotes
from ctx_pipeline.model.shell_answers import ShellAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.ccusage_rules import RivalEntry
    from ctx_pipeline.model.raw import StreamBytes

# Codex rewrites times and token totals of its threads at every turn; without them the
# captured rows change only when a thread is added, named or archived.
_STEADY = (
    *("id", "rollout_path", "created_at", "source", "model_provider", "cwd", "title", "name", "cli_version"),
    *("git_sha", "git_branch", "git_origin_url", "agent_nickname", "agent_role", "agent_path", "thread_source"),
    *("history_mode", "archived", "archived_at"),
)


def _ccusage(streams: Iterable[StreamBytes]) -> list[RivalEntry]:
    from ctx_pipeline.hosts.codex.ccusage_rules import ccusage

    return ccusage(streams)


HOST = Host(
    key="codex",
    title="Codex",
    version=5,
    roots_env="CODEX_HOME",
    roots_default=("~/.codex",),
    classify=classify,
    enter=enter,
    identify=Deferred("ctx_pipeline.hosts.codex.discovery:identify"),
    parse=Deferred("ctx_pipeline.hosts.codex.session:parse"),
    session_kinds=frozenset({ROLLOUT, LOOSE}),
    places=places,
    aliases=("openai-codex", "codex-cli", "cx"),
    shell_tools=frozenset(
        {
            *("container.exec", "exec", "exec_command", "local_shell", "shell", "shell_command", "unified_exec"),
            *("user_shell", "command_execution"),
        }
    ),
    shell_answers=ShellAnswers(
        running=r"Process running with session ID (\d{1,20})|Script running with cell ID (\w{1,40})"
        r"|\{\"chunk_id\":[^{}\n]{0,300}?\"session_id\":(\d{1,20})",
        waits=r"\b(?:session_id|cell_id)\"?\s?:\s?\"?(\w{1,40})",
        exit=r"\{(?:\"chunk_id\":[^{}\n]{0,300}?)?\"exit_code\":(-?\d{1,10})\b",
        exit_line=r"(?:Exit code:|Process exited with code|exited with code) -?\d{1,10}",
        folder="workdir",
    ),
    databases={
        STATE: Database(
            tables=(("threads", "id"), ("thread_spawn_edges", "child_thread_id")),
            columns={"threads": _STEADY, "thread_spawn_edges": ("parent_thread_id", "child_thread_id")},
        )
    },
    hints=Deferred("ctx_pipeline.hosts.codex.discovery:hints"),
    usage=Deferred("ctx_pipeline.hosts.codex.fast_usage:usage"),
    usage_kinds=frozenset({ROLLOUT, LOOSE}),
    usage_hints={STATE: ("thread_spawn_edges",)},
    limits=Deferred("ctx_pipeline.hosts.codex.fast_usage:limits"),
    limit_notes=LimitNotes(
        frozenset({"token_count/rate_limits", "error", "stream_error", "warning"}),
        Deferred("ctx_pipeline.hosts.codex.limits:reached"),
        plan=Deferred("ctx_pipeline.hosts.codex.limits:plan"),
    ),
    window=window,
    directories=Deferred("ctx_pipeline.hosts.codex.file_changes:directories"),
    changes=Deferred("ctx_pipeline.hosts.codex.file_changes:changes"),
    rivals={"ccusage": _ccusage},
    formats=Deferred("ctx_pipeline.hosts.codex.formats:known"),
    agent=Agent(
        resume="codex resume {session_id}",
        # set for shell commands; servers are not told
        session_env=("CODEX_THREAD_ID",),
        rules_file="AGENTS.md",
        server=ServerFile("config.toml", "toml", "mcp_servers", project_file=".codex/config.toml"),
        hooks=HookFile(
            "hooks.json",
            # before a command it takes no words for the model (PreToolUse: "unsupported additionalContext"), after one it does
            {"SessionStart": WEAVE, "UserPromptSubmit": WEAVE, "PostToolUse": WEAVE, "Stop": CAPTURE, "PreCompact": CAPTURE},
            matchers={"PostToolUse": "Bash"},
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
            read=Deferred("ctx_pipeline.hosts.codex.headless:read"),
            method="codex_headless",
            model=("--model", "{model}"),
            without=("CODEX_THREAD_ID",),
        ),
    ),
)
