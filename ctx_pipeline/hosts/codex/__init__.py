"""Codex CLI and Codex Desktop: rollouts below ``$CODEX_HOME``, one JSONL file a thread."""

from __future__ import annotations

from ctx_pipeline.hosts.codex.counting import limits, usage
from ctx_pipeline.hosts.codex.places import ROLLOUT, STATE, classify, enter, hints, identify
from ctx_pipeline.hosts.codex.session import parse
from ctx_pipeline.model.declared import Database, Host

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
    version=1,
    roots_env="CODEX_HOME",
    roots_default=("~/.codex",),
    classify=classify,
    enter=enter,
    identify=identify,
    parse=parse,
    session_kinds=frozenset({ROLLOUT}),
    aliases=("openai-codex", "codex-cli"),
    resume="codex resume {session_id}",
    databases={
        STATE: Database(
            tables=(("threads", "id"), ("thread_spawn_edges", "child_thread_id")),
            columns={"threads": _STEADY, "thread_spawn_edges": ("parent_thread_id", "child_thread_id")},
        )
    },
    hints=hints,
    usage=usage,
    usage_kinds=frozenset({ROLLOUT}),
    limits=limits,
)
