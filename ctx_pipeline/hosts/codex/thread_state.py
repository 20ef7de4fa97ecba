"""What is known of a thread while its lines are walked, and how rows are added."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._values import picture, safe_id, without_blobs
from ctx_pipeline.hosts.codex.discovery import subagent
from ctx_pipeline.hosts.codex.items import automated
from ctx_pipeline.hosts.codex.record_types import LARGEST, written
from ctx_pipeline.hosts.codex.rows import OWN, REPLAYED, Rows, Tool
from ctx_pipeline.hosts.codex.usage import GUESSED_MODEL
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.hosts.codex import tools
    from ctx_pipeline.hosts.codex.items import Families
    from ctx_pipeline.hosts.codex.record_types import Block, Payload
    from ctx_pipeline.hosts.codex.thread_lines import Entry
    from ctx_pipeline.hosts.codex.usage import Call, Counter

_CWD = lazy_pattern(r"<cwd>([^<]{1,4096})</cwd>|^Current working directory: (.{1,4096})$", re.MULTILINE)

_PICTURES = 99
"""Images of one record that are noted, at most."""
_RUNNING = 50
"""Calls before an end event among which the script that made its call is looked for."""


class Walk:
    """State of the walk over one thread; rows and facts stand in its fields afterwards."""

    def __init__(self, session_id: str, thread_id: str, siblings: frozenset[str], families: Families, counter: Counter) -> None:
        self.families = families
        self.counter = counter
        self.rows = Rows(session_id, thread_id)
        self.siblings = siblings
        self.meta: Payload | None = None
        self.cwd: str | None = None
        self.name: str | None = None
        self.first_prompt: str | None = None
        self.asked = False
        """whether the agent that started the thread said what it asks"""
        self.status = "unknown"
        self.model: str | None = None
        """model of the latest turn_context"""
        self.tier: str | None = None
        self.context: dict[str, Any] | None = None
        self.held: int | None = None
        """tokens in the window at the latest model call"""
        self.window: int | None = None
        """tokens that the window holds, as last recorded"""
        self.limits = b""
        self.parent: str | None = None
        self.ended = 0
        """tool calls of turns that have ended: no script among them still runs"""
        self.searches: deque[tuple[str | None, int]] = deque()
        """ended web searches whose call comes after: call id and seq of the end event"""
        self.origin: str | None = None
        self.origin_session: str | None = None

    def count(self, entry: Entry, call: Call | None, payload: Payload, *, copied: bool = False) -> None:
        """Add a model call; ``copied`` when its line is replayed history of another thread."""
        if call is None:
            return
        rows = self.rows
        self.held = call.context
        own = origin = rows.thread_id
        model, copy_of, named = self.model, None, False
        if entry.type == "token_usage_record":
            origin = safe_id(payload.thread_id) or (self.origin if copied else None) or own
            copied = origin != own
            named = payload.response_id is not None
            model = payload.model or model
        elif copied:
            origin = self.origin or own
        elif model is None and payload.info is not None:
            model = payload.info.model
        key = call.key if named else f"{origin}:{call.key}"
        if copied:
            known = self.origin is not None or entry.type == "token_usage_record"
            copy_of = self.origin_session or safe_id(payload.session_id)
            if known and origin in self.siblings:
                copy_of = rows.session_id
            if copy_of == rows.session_id:
                # the original stands in the same session, where a key is used once
                key = f"{key}@{own}"
        rows.call(
            entry, call, key, model or GUESSED_MODEL, guessed=not model, tier=self.tier, copy_of=copy_of, rule=REPLAYED if copied else OWN
        )

    def holds(self, tokens: object) -> None:
        """Keep how many tokens the window holds, where a record says so in a number within reason."""
        if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens <= LARGEST:
            self.window = tokens

    def prompt(self, entry: Entry, text: str, subtype: str) -> None:
        """Add what the person typed, or in a thread that an agent started, what that asks.

        A blank text and what the host's own automation wrote are no prompts.
        """
        if not text or text.isspace() or automated(text):
            self.inject(entry, text, subtype, "system")
            return
        if self.first_prompt is None and text.strip():
            self.first_prompt = text.strip()
        if self.meta is not None and (subagent(self.meta)[0] or self.meta.thread_source == "subagent"):
            self.parent = self.rows.event(entry, "injected" if self.asked else "subagent_start", "agent_prompt", "assistant", text)
            self.asked = True
            return
        self.parent = self.rows.event(entry, "prompt", subtype, "user", text)

    def inject(self, entry: Entry, text: str, subtype: str, actor: str) -> None:
        """Add what the host put into the context; the first working directory is read from it in files without one."""
        if self.cwd is None and (match := _CWD.search(text, 0, 20_000)):
            self.cwd = (match.group(1) or match.group(2)).strip()
        self.rows.event(entry, "injected", subtype, actor, text)

    def say(self, entry: Entry, kind: str, text: str | None, subtype: str) -> None:
        """Add what the model said or thought."""
        blank = kind == "answer" and (not text or text.isspace())
        self.rows.assistant_event(entry, "injected" if blank else kind, subtype, text, parent=self.parent)

    def pictures(self, entry: Entry, content: str | list[Block] | None, actor: str, *, call_id: str | None = None) -> None:
        """Add what is kept of the images in content blocks: their type, hash and size."""
        if not isinstance(content, list):
            return
        urls = [block.image_url for block in content if isinstance(block.image_url, str)]
        for number, url in enumerate(urls[:_PICTURES], 1):
            self.rows.event(entry, "attachment", "input_image", actor, written(picture(url)), call_id=call_id, block=number)

    def note(self, entry: Entry, subtype: str, *, kind: str = "attachment", actor: str = "system", text: str | None = None) -> None:
        """Add a record that is kept as it is: its payload as JSON, or the text given."""
        self.rows.event(entry, kind, subtype, actor, payload_text(entry) if text is None else text)

    def call(self, entry: Entry, call_id: str | None, touched: tools.FileAccess, text: str, subtype: str) -> Tool:
        """Add a tool call."""
        return self.rows.tool(entry, call_id, touched, text, subtype, parent=self.parent)

    def call_inside(self, entry: Entry, call_id: str | None, touched: tools.FileAccess, text: str, subtype: str) -> Tool:
        """Add a tool call that only its end event tells of, as the child of the script that made it: the one that still runs."""
        running = [
            t.call_event
            for t in self.rows.tools[max(self.ended, len(self.rows.tools) - _RUNNING) :]
            if t.name == "exec" and t.result_event is None
        ]
        parent = running[0] if len(running) == 1 else self.parent
        return self.rows.tool(entry, call_id, touched, text, subtype, parent=parent)

    def unknown(self, entry: Entry, payload: Payload | None) -> None:
        """Count a record of a type we do not know and keep it whole."""
        label = entry.type or "?"
        if payload is not None and payload.type:
            label = f"{label}/{payload.type}" if entry.type else payload.type
        label = label[:100]
        self.rows.unknown[label] = self.rows.unknown.get(label, 0) + 1
        self.note(entry, label, kind="unknown")


def payload_text(entry: Entry) -> str:
    """Return the record as JSON text, as it was written."""
    if entry.block:
        return without_blobs(written(entry.payload))
    return without_blobs(entry.stream.data[entry.start : entry.end].decode("utf-8", "replace").strip())
