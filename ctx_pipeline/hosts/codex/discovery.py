"""Whose a file of Codex is, from its name and first bytes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.hosts._values import safe_id
from ctx_pipeline.hosts.codex import record_types
from ctx_pipeline.hosts.codex.paths import HISTORY, INDEX, LOOSE, ROLLOUT, STATE
from ctx_pipeline.model.codec import digest, micros
from ctx_pipeline.model.lazy_pattern import lazy_pattern
from ctx_pipeline.model.raw import Identity
from ctx_pipeline.model.titles import title_in_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = lazy_pattern(r"rollout-(\d{4}-\d{2}-\d{2}(?:T\d{2}-\d{2}-\d{2})?)-?([A-Za-z0-9][A-Za-z0-9._-]*?)?\.json(?:l(?:\.zst)?)?$")
_LOOSE_LINES = 8
_LONG_LINE = 16_384
"""A first line that is longer than this is cut by the reader of heads, not by its writer."""

_ZSTD = b"\x28\xb5\x2f\xfd"


def named_id(rel: str) -> str:
    """Return the thread id that the file name carries, else a digest of the name."""
    name = rel.rpartition("/")[2]
    match = _NAME.match(name)
    return (safe_id(match.group(2)) if match else None) or "x" + digest(name)


def identify(kind: str, rel: str, head: bytes) -> Identity | None:
    """Return whose a rollout or a stream of ``codex exec --json`` is; None while its first line is not complete, and for other files."""
    if kind == LOOSE:
        return _of_loose(rel, head)
    if kind != ROLLOUT:
        return None
    if head.startswith(_ZSTD):
        cut = len(head) >= _LONG_LINE
        head = _unpacked(head)
        if not head and cut:
            return Identity(named_id(rel), first_ts=_named_ts(rel))
    head = head.lstrip(b"\xef\xbb\xbf\0 \t\r\n")
    if not head:
        return None
    if rel.endswith(".json"):
        return _of_document(rel, head)
    line, newline, _ = head.partition(b"\n")
    if newline:
        return _of_first(rel, _first(line), head)
    if len(line) >= _LONG_LINE:
        return _of_first(rel, _cut(line), head)
    return None


def _of_loose(rel: str, head: bytes) -> Identity | None:
    """Return whose a JSONL file is that its name says nothing of: one that names a session in its first lines."""
    from ctx_pipeline.hosts.codex.exec_stream import born, thread_of

    if head.startswith(_ZSTD):
        head = _unpacked(head)
    thread = safe_id(thread_of(head))
    if thread is not None:
        return Identity(thread, first_ts=born(thread))
    for line in head.split(b"\n", _LOOSE_LINES)[:_LOOSE_LINES]:
        found = _first(line.lstrip(b"\xef\xbb\xbf\0 \t\r")) if line.strip() else None
        meta = found.payload if found is not None else None
        if (
            found is not None
            and meta is not None
            and meta.id
            and (found.type == "session_meta" or (found.type is None and meta.timestamp and not meta.type))
        ):
            return _of_first(rel, found, head)
    return None


def _first(line: bytes) -> record_types.Line | None:
    try:
        value = record_types.wrapped.decode(line)
    except record_types.FAILURES:
        return _cut(line)
    if value.payload is None:
        try:
            value.payload = record_types.bare.decode(line)
        except record_types.FAILURES:
            return None
        value.type = None
    return value


def _of_first(rel: str, line: record_types.Line | None, head: bytes) -> Identity:
    ts = None
    if line is not None:
        meta = line.payload
        ts = micros(line.timestamp) or (micros(meta.timestamp) if meta else None)
        if meta is not None and line.type in {None, "session_meta"}:
            return _of_meta(rel, meta, ts)
    if ts is None:
        match = re.search(rb'(?<!\\)"timestamp"\s*:\s*"([^"\\]{10,40})"', head)
        ts = micros(match.group(1).decode("ascii", "replace")) if match else None
    return Identity(named_id(rel), first_ts=ts or _named_ts(rel))


def _of_meta(rel: str, meta: record_types.Payload, ts: int | None) -> Identity:
    thread = safe_id(meta.id) or named_id(rel)
    ts = ts or _named_ts(rel)
    root = safe_id(meta.session_id)
    root = root if root != thread else None
    spawned, parent = subagent(meta)
    parent = parent or safe_id(meta.parent_thread_id) or (safe_id(meta.forked_from_id) if spawned else None) or (root if spawned else None)
    if parent and parent != thread and (spawned or meta.parent_thread_id or meta.thread_source == "subagent"):
        return Identity(thread, parent, "part", root, ts)
    fork = safe_id(meta.forked_from_id)
    if fork and fork != thread:
        return Identity(thread, fork, "fork", None, ts)
    return Identity(thread, first_ts=ts)


def subagent(meta: record_types.Payload) -> tuple[str | None, str | None]:
    """Return what kind of subagent a thread is (thread_spawn, review, ...) and its parent, None where it is none."""
    source = record_types.value_of(meta.source)
    inner = source.get("subagent") if isinstance(source, dict) else None
    if isinstance(inner, str):
        return inner, None
    if isinstance(inner, dict) and inner:
        kind, body = next(iter(inner.items()))
        parent = body.get("parent_thread_id") if isinstance(body, dict) else None
        return (body if kind == "other" and isinstance(body, str) else kind), safe_id(parent) if isinstance(parent, str) else None
    return None, None


def _cut(line: bytes) -> record_types.Line | None:
    """Return what can be read of a first line that is cut or broken; a quote inside a string is escaped, so keys are safe to find."""

    def field(name: bytes) -> str | None:
        match = re.search(rb'(?<!\\)"' + name + rb'"\s*:\s*"([^"\\]{1,256})"', line)
        return match.group(1).decode("utf-8", "replace") if match else None

    if not (b'"session_meta"' in line or field(b"id")):
        return None
    source = re.search(rb'(?<!\\)"source"\s*:\s*(\{.*?\}+)\s*,\s*"', line)
    meta = record_types.Payload(
        id=field(b"id"),
        session_id=field(b"session_id"),
        forked_from_id=field(b"forked_from_id"),
        parent_thread_id=field(b"parent_thread_id"),
        thread_source=field(b"thread_source"),
        source=msgspec.Raw(source.group(1)) if source else msgspec.Raw(),
    )
    return record_types.Line(timestamp=field(b"timestamp"), type="session_meta", payload=meta)


def _of_document(rel: str, head: bytes) -> Identity:
    def field(name: bytes) -> str | None:
        match = re.search(rb'"session"\s*:\s*\{[^{}]*?"' + name + rb'"\s*:\s*"([^"\\]{1,256})"', head)
        return match.group(1).decode("utf-8", "replace") if match else None

    return Identity(safe_id(field(b"id")) or named_id(rel), first_ts=micros(field(b"timestamp")) or _named_ts(rel))


def _named_ts(rel: str) -> int | None:
    """Return the time in the file name (the writer's local time, taken as UTC)."""
    match = _NAME.match(rel.rpartition("/")[2])
    if not match:
        return None
    day, _, clock = match.group(1).partition("T")
    return micros(f"{day}T{clock.replace('-', ':') or '00:00:00'}Z")


def _unpacked(head: bytes) -> bytes:
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(head)
    except zstandard.ZstdError:
        return b""


def hints(kind: str, data: bytes) -> Iterator[tuple[str, str, str]]:
    """Yield what indexes of the home say of threads: title, derived_title, first_prompt, archived, parent_thread_id."""
    if kind == INDEX:
        titles = {i: n for row in _objects(data) if (i := _text(row, "id")) and (n := _text(row, "thread_name"))}
        for thread, title in sorted(titles.items()):
            yield thread, "title", title
    elif kind == HISTORY:
        known: set[str] = set()
        for row in _objects(data):
            session, said = _text(row, "session_id"), _text(row, "text")
            if session and said and session not in known and not said.startswith("/"):
                known.add(session)
                yield session, "first_prompt", said
    elif kind == STATE:
        for line in _objects(data):
            told = line.get("row")
            if isinstance(told, dict):
                yield from _of_state(told)


def _of_state(row: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    child, parent = _text(row, "child_thread_id"), _text(row, "parent_thread_id")
    if child and parent:
        yield child, "parent_thread_id", parent
        return
    thread = _text(row, "id")
    if not thread:
        return
    if name := _text(row, "name"):
        yield thread, "title", name
    if title := _text(row, "title"):
        yield thread, "derived_title", title
    if row.get("archived"):
        yield thread, "archived", "1"


def _text(row: dict[str, Any], key: str) -> str | None:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        return None
    return safe_id(value) if key in {"id", "session_id", "child_thread_id", "parent_thread_id"} else title_in_lines(value)


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        try:
            value = record_types.anything.decode(line)
        except record_types.FAILURES:
            continue
        if isinstance(value, dict):
            yield value
