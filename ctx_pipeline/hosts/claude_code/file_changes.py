"""What edits made of files, and where the session was, as the client's records tell."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.host_records import FileChange, difference

if TYPE_CHECKING:
    from collections.abc import Iterator


def directories(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield (first byte of a record, working directory) where a transcript's records begin to name another one."""
    last = None
    same = b""
    """as the record before wrote it; a quote inside a text is escaped, so only a field is written so"""
    for start, line in _lines(data, b'"cwd"'):
        if same and same in line and line.count(b'"cwd"') == 1:
            continue
        record = _record(line)
        cwd = record.get("cwd") if record else None
        if isinstance(cwd, str) and cwd:
            same = _field(line)
            if cwd != last:
                last = cwd
                yield start, cwd


_CWD = re.compile(rb'"cwd"\s*:\s*"(?:[^"\\]|\\.)*"')


def _field(line: bytes) -> bytes:
    """Return the working directory as a record writes it; empty where more than one field has its name."""
    found = _CWD.search(line)
    return found[0] if found and line.count(b'"cwd"') == 1 else b""


def changes(data: bytes) -> Iterator[FileChange]:
    """Yield what the results of a transcript say that edits and writes made of their files."""
    for _, line in _lines(data, b'"toolUseResult"'):
        record = _record(line)
        if record is None:
            continue
        said = record.get("toolUseResult")
        call_id = _answered(record)
        if not isinstance(said, dict) or call_id is None or not isinstance(said.get("filePath"), str):
            continue
        before, after = _texts(said)
        diff = _patch(said.get("structuredPatch"))
        if not diff and after is not None and (before is not None or said.get("type") == "create"):
            diff = difference(before or "", after)
        if not diff and isinstance(said.get("oldString"), str) and isinstance(said.get("newString"), str):
            diff = difference(said["oldString"], said["newString"])
        if diff or after is not None:
            yield FileChange(call_id, said["filePath"], before, after, diff)


def _lines(data: bytes, mark: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (first byte, line) of the records in which a mark stands."""
    start = 0
    for line in data.splitlines(keepends=True):
        if mark in line:
            yield start, line
        start += len(line)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _answered(record: dict[str, Any]) -> str | None:
    """Return the call that a record holds the result of; None for an error and for any other record."""
    message = record.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result" and block.get("is_error") is not True:
            call_id = block.get("tool_use_id")
            return call_id if isinstance(call_id, str) else None
    return None


def _texts(said: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the whole text before and after: the original is recorded, and what an edit made of it follows."""
    before = said.get("originalFile", said.get("originalFileContents"))
    before = before if isinstance(before, str) else None
    content = said.get("content")
    if isinstance(content, str) and said.get("type") in ("create", "update"):
        return before, content
    edits = said.get("edits")
    if not isinstance(edits, list):
        edits = [{"old_string": said.get("oldString"), "new_string": said.get("newString"), "replace_all": said.get("replaceAll")}]
    if before is None or said.get("userModified") is True:
        return before, None
    after = before
    for edit in edits:
        old, new = (edit.get("old_string"), edit.get("new_string")) if isinstance(edit, dict) else (None, None)
        if not isinstance(old, str) or not isinstance(new, str) or (old and old not in after):
            return before, None
        after = after.replace(old, new, -1 if edit.get("replace_all") is True else 1) if old else new
    return before, after


def _patch(hunks: Any) -> str:
    """Return the hunks of a ``structuredPatch`` as a unified difference."""
    lines: list[str] = []
    for hunk in hunks if isinstance(hunks, list) else ():
        if not isinstance(hunk, dict) or not isinstance(hunk.get("lines"), list):
            continue
        places = [hunk.get(name) for name in ("oldStart", "oldLines", "newStart", "newLines")]
        if all(isinstance(place, int) for place in places):
            lines.append("@@ -{},{} +{},{} @@".format(*places))
        lines += [line for line in hunk["lines"] if isinstance(line, str)]
    return "\n".join(lines)
