"""What the tool calls of a task asked to make of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts._call_arguments import changes_of, objects_in, values_of
from ctx_pipeline.hosts.cline.record_types import action_of
from ctx_pipeline.hosts.record_values import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.host_records import FileChange


def changes(data: bytes) -> Iterator[FileChange]:
    """Yield the edits among the calls that were sent to the model."""
    for value in values_of(data):
        for block in objects_in(value):
            if block.get("type") == "tool_use" and action_of(words(block.get("name"))) in {"edit", "write"}:
                yield from changes_of(words(block.get("id")), block.get("input"))
