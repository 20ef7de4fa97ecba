"""What patches made of files, and where the thread was, as the rollout's records tell."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.host_records import FileChange, difference
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_SECTION = lazy_pattern(r"^\*\*\* (Update|Add|Delete) File: (.+)$", re.MULTILINE)
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ENDED, _CALLED = "patch_apply_end", frozenset({"function_call", "custom_tool_call", "local_shell_call"})


def directories(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield (first byte of a record, working directory) where a rollout's heads and turns begin to name another one."""
    last = None
    for start, kind, payload in _records(data, b'"cwd"'):
        cwd = payload.get("cwd") if kind in ("session_meta", "turn_context") else None
        if isinstance(cwd, str) and cwd and cwd != last:
            last = cwd
            yield start, cwd


def changes(data: bytes) -> Iterator[FileChange]:
    """Yield what the ends of patches say that they made of files; of a patch without an end, what it asked for."""
    asked: dict[str, list[FileChange]] = {}
    for _, _, payload in _records(data, b"*** Begin Patch", b'"patch_apply_end"'):
        call_id = payload.get("call_id")
        if not isinstance(call_id, str):
            continue
        if payload.get("type") == _ENDED:
            asked.pop(call_id, None)
            told = payload.get("changes") if payload.get("success") is not False else None
            for path, change in told.items() if isinstance(told, dict) else ():
                if isinstance(change, dict):
                    yield _applied(call_id, path, change)
        elif payload.get("type") in _CALLED and (patch := _envelope(payload)):
            asked[call_id] = list(_sections(call_id, patch))
    for found in asked.values():
        yield from found


def _records(data: bytes, *marks: bytes) -> Iterator[tuple[int, str, dict[str, Any]]]:
    start = 0
    for line in data.splitlines(keepends=True):
        if any(mark in line for mark in marks):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            payload = record.get("payload", record) if isinstance(record, dict) else None
            if isinstance(record, dict) and isinstance(payload, dict):
                yield start, str(record.get("type")), payload
        start += len(line)


def _applied(call_id: str, path: str, change: dict[str, Any]) -> FileChange:
    content, diff = change.get("content"), change.get("unified_diff")
    text = content if isinstance(content, str) else None
    kind = change.get("type")
    if kind == "add":
        return FileChange(call_id, path, None, text, difference("", text or ""))
    if kind == "delete":
        return FileChange(call_id, path, text, None, difference(text or "", ""))
    return FileChange(call_id, path, None, None, diff.rstrip("\n") if isinstance(diff, str) else "")


def _envelope(payload: dict[str, Any]) -> str:
    """Return the patch in a call's arguments, also one that a shell command holds; empty where there is none."""
    for name in ("input", "arguments", "action"):
        given: Any = payload.get(name)
        if isinstance(given, str) and given.startswith("{"):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                continue
        for text in _texts(given):
            if _BEGIN in text:
                return text[text.index(_BEGIN) + len(_BEGIN) :].partition(_END)[0]
    return ""


def _texts(given: Any) -> Iterator[str]:
    if isinstance(given, str):
        yield given
    elif isinstance(given, dict):
        for value in given.values():
            yield from _texts(value) if not isinstance(value, dict) else ()
    elif isinstance(given, list):
        yield from (value for value in given if isinstance(value, str))


def _sections(call_id: str, patch: str) -> Iterator[FileChange]:
    """Yield the files of a patch; its hunks name no line numbers."""
    heads = list(_SECTION.finditer(patch))
    ends = [head.start() for head in heads[1:]] + [len(patch)]
    for head, end in zip(heads, ends, strict=False):
        body = patch[head.end() : end].strip("\n")
        lines = [line for line in body.split("\n") if not line.startswith("*** ")]
        after = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+")) if head[1] == "Add" else None
        yield FileChange(call_id, head[2].strip(), None, after, "\n".join(lines) if body else "")
