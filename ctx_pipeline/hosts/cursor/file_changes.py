"""What the tool calls of a conversation asked to make of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts._call_arguments import changes_of
from ctx_pipeline.hosts.cursor.paths import stored
from ctx_pipeline.hosts.cursor.record_types import action_of
from ctx_pipeline.hosts.record_values import mapping, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.host_records import FileChange


def changes(data: bytes) -> Iterator[FileChange]:
    """Yield the edits among the bubbles."""
    for line in data.splitlines():
        found = stored(line)
        tool = mapping(found[1].get("toolFormerData")) if found else {}
        if action_of(words(tool.get("name"))) in {"edit", "write"}:
            yield from changes_of(words(tool.get("toolCallId")), tool.get("rawArgs") or tool.get("params"))
