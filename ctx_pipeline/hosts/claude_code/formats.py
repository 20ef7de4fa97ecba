"""The fields of a transcript's records that are known: those that are read, and those left out because they say nothing more."""

from __future__ import annotations

from ctx_pipeline.hosts.claude_code import records, system_records
from ctx_pipeline.model.declared import Formats

_ENVELOPE = (
    *("userType", "entrypoint", "slug", "sessionId", "promptId", "promptSource", "teamName", "sessionKind", "agentColor", "agentSetting"),
    *("sourceToolAssistantUUID", "sourceToolUseID", "logicalParentUuid", "isVisibleInTranscriptOnly", "thinkingMetadata", "todos"),
    *("imagePasteIds", "planContent", "interruptedMessageId", "attributionSkill", "attributionPlugin", "apiErrorStatus", "durationMs"),
)

_FORMATS = Formats(
    fields={
        "": frozenset((*records.Record.__struct_encode_fields__, *_ENVELOPE, *system_records.FIELDS)),
        "message": frozenset(
            (
                *records.Message.__struct_encode_fields__,
                *("type", "stop_reason", "stop_sequence", "stop_details", "container", "context_management", "diagnostics"),
            )
        ),
        "message.usage": frozenset((*records.Usage.__struct_encode_fields__, "inference_geo")),
    }
)


def known() -> Formats:
    """Return the fields that are known."""
    return _FORMATS
