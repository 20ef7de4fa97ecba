"""What Copilot's tool calls asked to make of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.hosts._call_arguments import changes_of, objects_in, values_of
from ctx_pipeline.hosts.copilot.record_types import action_of
from ctx_pipeline.hosts.record_values import mapping, read_json, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.host_records import FileChange


def changes(data: bytes) -> Iterator[FileChange]:
    """Yield the edits of events, transcripts, chats and logs of mutations, each call once."""
    seen: set[str] = set()
    for value in values_of(data):
        for call in objects_in(value):
            name, call_id = words(call.get("name")) or words(call.get("toolName")), words(call.get("toolCallId")) or words(call.get("id"))
            if call_id and "arguments" in call and call_id not in seen and action_of(name) in {"edit", "write"}:
                seen.add(call_id)
                yield from changes_of(call_id, call["arguments"])


def directories(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield (first byte of a record, working directory) where events begin to name another one."""
    start, last = 0, ""
    for line in data.splitlines(keepends=True):
        body = mapping(mapping(read_json(line)).get("data")) if b'"cwd"' in line else {}
        folder = words(mapping(body.get("context")).get("cwd")) or words(body.get("cwd"))
        if folder and folder != last:
            last = folder
            yield start, folder
        start += len(line)
