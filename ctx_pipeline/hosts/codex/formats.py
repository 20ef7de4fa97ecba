"""The fields of a rollout's lines that are known: those that are read, and those left out because they say nothing more."""

from __future__ import annotations

from ctx_pipeline.hosts.codex import records
from ctx_pipeline.model.declared import Formats

_TURNS = (
    *("approvals_reviewer", "collaboration_mode", "collaboration_mode_kind", "comp_hash", "current_date", "developer_instructions"),
    *("memory_mode", "multi_agent_mode", "multi_agent_version", "permission_profile", "personality", "realtime_active", "root_turn_id"),
    *("sandbox_policy", "timezone", "truncation_policy", "user_instructions", "workspace_roots", "dynamic_tools", "context_window"),
    *("history_mode", "model_provider", "agent_path", "time_to_first_token_ms", "duration_ms"),
)
_ITEMS = (
    *("encrypted_content", "full", "formatted_output", "stdout", "stderr", "aggregated_output", "images", "local_images", "text_elements"),
    *("memory_citation", "execution", "process_id", "internal_chat_message_metadata_passthrough", "last_agent_message", "completed_at"),
    *("action_name", "app_name", "connector_id", "link_id", "client_id", "goal", "threadId", "state", "duration", "num_turns"),
    *("replacement_history", "first_window_id", "previous_window_id", "window_id", "window_number"),
    *("latest_token_usage_record", "turn_token_usage", "new_thread_id", "sender_thread_id", "new_agent_nickname", "new_agent_role"),
)

_FORMATS = Formats(
    fields={
        "": frozenset((*records.Line.__struct_encode_fields__, "ordinal", "metadata", *records.Payload.__struct_encode_fields__)),
        "payload": frozenset((*records.Payload.__struct_encode_fields__, *_TURNS, *_ITEMS)),
        "payload.info": frozenset(records.Info.__struct_encode_fields__),
        "payload.usage": frozenset((*records.Usage.__struct_encode_fields__, "total_tokens")),
        "payload.info.last_token_usage": frozenset((*records.Usage.__struct_encode_fields__, "total_tokens")),
    }
)


def known() -> Formats:
    """Return the fields that are known."""
    return _FORMATS
