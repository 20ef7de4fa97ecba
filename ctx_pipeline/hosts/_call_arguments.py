"""What the arguments of a tool call name: files, lines, a command, and the change that an edit asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts.record_values import MOST_TOKENS, items, mapping, read_json, text
from ctx_pipeline.model.host_records import FileChange, difference
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PATHS = (
    "path",
    "filePath",
    "file_path",
    "target_file",
    "targetFile",
    "absolute_path",
    "relative_workspace_path",
    "filename",
    "dirPath",
    "uri",
)
_MANY = ("paths", "filePaths", "files", "replacements", "edits")
_COMMANDS = ("command", "cmd", "commands")
_PATCH = lazy_pattern(r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): (.+)$", re.MULTILINE)
_PAIRS = ("view_range", "read_range")
_STARTS, _ENDS = ("startLine", "start_line", "start_line_one_indexed"), ("endLine", "end_line", "end_line_one_indexed_inclusive")


def accessed(arguments: Any, action: str) -> tuple[list[str], list[str], list[str]]:
    """Return the files, the line ranges and the command that a call's arguments name."""
    if isinstance(arguments, str):
        arguments = read_json(arguments) if arguments.startswith("{") else {"input": arguments}
    said = mapping(arguments)
    argv = [command for name in _COMMANDS for command in _texts(said.get(name))][:50] if action == "shell" else []
    if action in {"shell", "task", "ask", "plan", "mcp", "web"}:
        return [], [], argv
    paths = dict.fromkeys(_named(said))
    if action == "edit":
        patch = next((p for name in ("input", "patch", "diff") if isinstance(p := said.get(name), str)), "")
        paths |= dict.fromkeys((text(path) or "").strip() for path in _PATCH.findall(patch))
    return [path for path in paths if path][:200], _range(said), argv


def _named(said: Mapping[str, Any]) -> Iterator[str]:
    for name in _PATHS:
        yield from _texts(said.get(name))
    for name in _MANY:
        for item in items(said.get(name)):
            yield from _texts(item) if isinstance(item, str) else _named({k: v for k, v in mapping(item).items() if k in _PATHS})


def _texts(value: Any) -> Iterable[str]:
    found = [value] if isinstance(value, str) else [item for item in items(value) if isinstance(item, str)]
    return [text(item.removeprefix("file://")) or "" for item in found]


def _range(said: Mapping[str, Any]) -> list[str]:
    pair = next((found for name in _PAIRS if (found := items(said.get(name))[:2])), [])
    first = next((said[name] for name in _STARTS if name in said), pair[0] if len(pair) == 2 else None)
    last = next((said[name] for name in _ENDS if name in said), pair[1] if len(pair) == 2 else None)
    whole = type(first) is int and type(last) is int and 0 < first <= last < MOST_TOKENS
    return [f"{first}-{last}"] if whole else []


_BEFORE, _AFTER, _WHOLE = (
    ("old_str", "oldString", "old_string"),
    ("new_str", "newString", "new_string"),
    ("file_text", "content", "contents"),
)
_BLOCK = lazy_pattern(r"^[-<]{5,} SEARCH[^\n]*\n(.*?)^={5,}[^\n]*\n(.*?)^[+>]{5,} REPLACE", re.MULTILINE | re.DOTALL)
_DEEPEST = 12
"""Levels of a value in which calls are looked for."""


def changes_of(call_id: str, arguments: Any) -> Iterator[FileChange]:
    """Yield what the arguments of an edit ask for: texts to replace, blocks of them, or a whole file."""
    said = mapping(read_json(arguments) if isinstance(arguments, str) else arguments)
    for part in (said, *map(mapping, items(said.get("replacements")))):
        path = next(_named({k: v for k, v in part.items() if k in _PATHS}), "") or next(
            _named({k: v for k, v in said.items() if k in _PATHS}), ""
        )
        old, new, content = (
            next((t for name in names if (t := text(part.get(name))) is not None), None) for names in (_BEFORE, _AFTER, _WHOLE)
        )
        blocks = _BLOCK.findall(text(part.get("diff")) or "")
        if not path:
            continue
        if old is not None and new is not None:
            yield FileChange(call_id, path, None, None, difference(old, new))
        elif blocks:
            yield FileChange(call_id, path, None, None, "\n".join(difference(before, after) for before, after in blocks))
        elif content is not None:
            yield FileChange(call_id, path, None, content, difference("", content))


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a value, itself too."""
    level = [value]
    for _ in range(_DEEPEST):
        deeper: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                yield one
                deeper += one.values()
            elif isinstance(one, list):
                deeper += one
        level = [one for one in deeper if isinstance(one, dict | list)]


def values_of(data: bytes) -> Iterator[Any]:
    """Yield the value of a document, or those of the lines of a stream; what is broken is left out."""
    whole_value = read_json(data)
    if whole_value is not None:
        yield whole_value
        return
    for line in data.splitlines():
        if (value := read_json(line)) is not None:
            yield value
