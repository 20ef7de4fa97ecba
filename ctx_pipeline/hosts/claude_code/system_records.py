"""Records that are neither a prompt nor an answer: system notices, attachments, progress, titles, modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.hosts._values import without_blobs
from ctx_pipeline.hosts.claude_code.injected_text import injected_by
from ctx_pipeline.hosts.claude_code.record_types import (
    Attachment,
    DecodeErrors,
    Progress,
    Record,
    attachment_decoder,
    encode,
    progress_decoder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec


class Notice(NamedTuple):
    """What a record says. ``unknown`` is the label to count when its type is new to us."""

    kind: str
    subtype: str
    actor: str
    text: str | None
    unknown: str | None = None


_SYSTEM = {
    "informational": "injected",
    "local_command": "injected",
    "away_summary": "injected",
    "bridge_status": "injected",
    "memory_saved": "injected",
    "scheduled_task_fire": "injected",
    "task_notification": "injected",
    "thinking": "reasoning",
    "api_error": "error",
    "model_refusal_fallback": "error",
    "agents_killed": "subagent_end",
    "permission_retry": "permission",
    "compact_boundary": "compaction",
    "microcompact_boundary": "compaction",
    "turn_duration": "attachment",
    "stop_hook_summary": "attachment",
}

_WHOLE = frozenset({"api_error", "turn_duration", "stop_hook_summary"})
"""Notices whose figures stand beside the text: their record is kept as JSON."""

_ATTACHMENTS = {
    "agent_listing_delta": ("attachment", "system"),
    "auto_mode": ("permission", "system"),
    "auto_mode_exit": ("permission", "system"),
    "command_permissions": ("permission", "system"),
    "date_change": ("attachment", "system"),
    "deferred_tools_delta": ("attachment", "system"),
    "diagnostics": ("attachment", "system"),
    "directory": ("attachment", "user"),
    "edited_text_file": ("attachment", "system"),
    "file": ("attachment", "user"),
    "goal_status": ("attachment", "system"),
    "hook_additional_context": ("attachment", "hook"),
    "hook_blocking_error": ("error", "hook"),
    "hook_cancelled": ("attachment", "hook"),
    "hook_non_blocking_error": ("error", "hook"),
    "hook_success": ("attachment", "hook"),
    "hook_system_message": ("attachment", "hook"),
    "mcp_instructions_delta": ("attachment", "system"),
    "opened_file_in_ide": ("attachment", "system"),
    "plan_mode": ("permission", "system"),
    "plan_mode_exit": ("permission", "system"),
    "plan_mode_reentry": ("permission", "system"),
    "selected_lines_in_ide": ("attachment", "system"),
    "skill_listing": ("attachment", "system"),
    "task_reminder": ("todo", "system"),
    "todo_reminder": ("todo", "system"),
    "ultra_effort_enter": ("attachment", "system"),
}

_PROGRESS = {
    "agent_progress": "subagent",
    "bash_progress": "tool",
    "hook_progress": "hook",
    "mcp_progress": "tool",
    "query_update": "tool",
    "search_results_received": "tool",
    "skill_progress": "tool",
    "waiting_for_task": "tool",
}

_BARE = frozenset(
    {
        "agent-color",
        "agent-setting",
        "attribution-snapshot",
        "bridge-session",
        "content-replacement",
        "last-prompt",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "pr-link",
        "speculation-accept",
        "tag",
        "task-summary",
        "tombstone",
        "worktree-state",
    },
)
"""Record types whose whole line is kept as an attachment."""

FIELDS = (
    *("level", "cause", "error", "retryInMs", "retryAttempt", "maxRetries", "messageCount", "hasOutput", "hookCount", "hookErrors"),
    *("hookInfos", "preventedContinuation", "stopReason", "toolUseID", "parentToolUseID", "url", "key", "messageId", "isSnapshotUpdate"),
    *("lastPrompt", "prNumber", "prUrl", "prRepository", "bridgeSessionId", "lastSequenceNum"),
)
"""Fields of these records that are known and not read one by one: the line is kept, or they say nothing more."""


def _snapshot(record: Record, whole: Callable[[], str]) -> Notice:
    return Notice("attachment", record.type or "", "system", raw_text(record.snapshot) or whole())


def _queue(record: Record, _: Callable[[], str]) -> Notice:
    return Notice("injected", f"queue-operation/{record.operation or 'none'}", "user", plain(record.content))


def _workflow_result(record: Record, whole: Callable[[], str]) -> Notice:
    return Notice("subagent_end", "workflow/result", "subagent", raw_text(record.result) or whole())


def _text_of(kind: str, actor: str, field: str) -> Callable[[Record, Callable[[], str]], Notice]:
    """Return what reads a record that says one text."""
    return lambda record, _: Notice(kind, record.type or "", actor, getattr(record, field))


def _system(record: Record, whole: Callable[[], str]) -> Notice:
    subtype = record.subtype
    if subtype is None:
        return Notice("injected", "system", "system", plain(record.content))
    kind = _SYSTEM.get(subtype)
    label = f"system/{label_of(subtype)}"
    if kind is None:
        return Notice("unknown", label, "system", whole(), label)
    if kind == "compaction":
        text = raw_text(record.compact_metadata) or raw_text(record.microcompact_metadata) or whole()
        return Notice(kind, label, "system", text)
    if subtype in _WHOLE:
        return Notice(kind, label, "hook" if subtype == "stop_hook_summary" else "system", whole())
    return Notice(kind, label, "system", plain(record.content) or whole())


def _attachment(record: Record, whole: Callable[[], str]) -> Notice:
    raw = record.attachment
    try:
        value: Attachment = attachment_decoder.decode(raw)
    except DecodeErrors:
        return Notice("unknown", "attachment/none", "system", whole(), "attachment/none")
    name = value.type if isinstance(value.type, str) else None
    if name == "queued_command":
        return _queued(value)
    label = f"attachment/{label_of(name)}"
    known = _ATTACHMENTS.get(name or "")
    if known is None:
        return Notice("unknown", label, "system", raw_text(raw), label)
    return Notice(known[0], label, known[1], raw_text(raw))


def _queued(value: Attachment) -> Notice:
    """Return a prompt that was typed while the model worked; it may stand nowhere else."""
    text = value.prompt if isinstance(value.prompt, str) else _texts(value.prompt)
    author = injected_by(text)
    if author is None and value.command_mode == "task-notification":
        author = "task-notification"
    if author:
        return Notice("injected", author, "system", text)
    return Notice("prompt", "queued_command", "user", text)


def _texts(value: object) -> str:
    """Return the joined text of content blocks that were decoded without a schema."""
    if not isinstance(value, list):
        return ""
    return "\n".join(b["text"] for b in value if isinstance(b, dict) and isinstance(b.get("text"), str))


def _progress(record: Record, whole: Callable[[], str]) -> Notice:
    """Return a progress notice without the output and the messages that it repeats."""
    try:
        value: Progress = progress_decoder.decode(record.data)
    except DecodeErrors:
        return Notice("unknown", "progress/none", "system", whole(), "progress/none")
    name = value.type if isinstance(value.type, str) else None
    label = f"progress/{label_of(name)}"
    actor = _PROGRESS.get(name or "")
    if actor is None:
        return Notice("unknown", label, "system", raw_text(record.data), label)
    return Notice("attachment", label, actor, encode(value).decode())


def plain(content: object) -> str | None:
    """Return the text of a record's own ``content``: a string or text blocks."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(block if isinstance(block, str) else block.text or "" for block in content)
    return None


def raw_text(raw: msgspec.Raw) -> str:
    """Return the JSON text of an undecoded field; empty when the field is absent or null."""
    text = str(raw, "utf-8", "replace")
    return "" if text == "null" else without_blobs(text)


def label_of(name: str | None) -> str:
    """Return a name fit for a counter: short, printable, never empty."""
    if not name:
        return "none"
    short = name[:60]
    return short if short.isprintable() else ascii(short)[1:-1][:60]


_RECORDS: dict[str, Callable[[Record, Callable[[], str]], Notice]] = {
    "system": _system,
    "attachment": _attachment,
    "progress": _progress,
    "file-history-snapshot": _snapshot,
    "summary": _text_of("title", "system", "summary"),
    "custom-title": _text_of("title", "user", "custom_title"),
    "ai-title": _text_of("title", "system", "ai_title"),
    "agent-name": _text_of("title", "system", "agent_name"),
    "permission-mode": _text_of("permission", "user", "permission_mode"),
    "mode": _text_of("permission", "user", "mode"),
    "queue-operation": _queue,
    "started": lambda _, whole: Notice("subagent_start", "workflow/started", "subagent", whole()),
    "result": _workflow_result,
    **dict.fromkeys(_BARE, lambda record, whole: Notice("attachment", record.type or "", "system", whole())),
}
"""What reads a record that is neither a prompt nor an answer, by its type."""


def notice(record: Record, line: Callable[[], bytes]) -> Notice:
    """Return what a record other than user and assistant says; ``line`` gives its bytes where they are kept whole."""

    def whole() -> str:
        return without_blobs(line().decode("utf-8", "replace").strip())

    read = _RECORDS.get(record.type or "")
    if read is not None:
        return read(record, whole)
    label = f"record/{label_of(record.type)}"
    return Notice("unknown", label, "system", whole(), label)
