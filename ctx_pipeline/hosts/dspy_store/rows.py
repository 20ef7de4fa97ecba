"""From the facts of a DSPy session to rows of the tables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.hosts.dspy_store.facts import KNOWN, Fact, Facts, Usage
from ctx_pipeline.model.raw import Parsed, SessionFacts, ThreadFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.raw import SessionInput

HOST = "dspy"
NANO = 1_000_000_000
STATES = frozenset({"completed", "errored", "abandoned", "interrupted"})

_MARKER = re.compile(r"\[\[ ## \w+ ## \]\]")
_FORM = re.compile(r"\n\s*Respond with (?:the corresponding output fields|a JSON object)\b.*", re.DOTALL)
"""what DSPy's adapters write behind a program's question"""

_TITLE = 200


def parse(session: SessionInput) -> Parsed:
    """Return the rows of one session of a callback store."""
    facts = Facts(session.streams)
    rows = _Rows(session.session_id)
    for fact in facts.facts:
        rows.add(fact)
    parsed = Parsed(
        facts=SessionFacts(
            title=rows.title,
            title_source="prompt" if rows.first_prompt else "none",
            cwd=rows.cwd,
            repository=rows.cwd,
            version=rows.version,
            status=rows.status,
        ),
        events=rows.events,
        model_calls=rows.model_calls,
        tool_calls=rows.tool_calls,
        quarantined=facts.quarantined,
        unknown=facts.unknown,
        repaired=facts.repaired,
        lines=facts.count,
    )
    parsed.threads.append(
        ThreadFacts(session.session_id, agent=rows.mode, title=rows.title, cwd=rows.cwd, version=rows.version, status=rows.status)
    )
    return parsed


class _Rows:
    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.events: list[tuple] = []
        self.model_calls: list[tuple] = []
        self.tool_calls: list[tuple] = []
        self.mode: str | None = None
        self.cwd: str | None = None
        self.version: str | None = None
        self.first_prompt: str | None = None
        self.status = "unknown"
        self._asked: str | None = None
        self._systems: set[str] = set()
        self._parent: str | None = None
        self._blocks: dict[tuple[str, int, int], int] = {}

    @property
    def title(self) -> str | None:
        text = " ".join(_MARKER.sub(" ", _FORM.sub("", self.first_prompt or "")).split())
        return text[:_TITLE] or self.mode

    def add(self, fact: Fact) -> None:
        body = fact.payload
        if fact.kind == "lm_call":
            self._lm_call(fact)
        elif fact.kind == "tool_call":
            self._tool_call(fact)
        elif fact.kind == "session_start":
            self.mode = self.mode or body.mode
            self.cwd = self.cwd or body.cwd
            self.version = self.version or body.version
            self._event(fact, "session_start", "system", body.mode, ts=fact.at)
        elif fact.kind == "session_end":
            self.status = body.state if body.state in STATES else "unknown"
            self._event(fact, "session_end", "system", body.state, ts=fact.at)
        elif fact.kind in KNOWN:
            self._event(fact, "error" if body.error else "attachment", "system", body.error or body.module, ts=fact.at)
        else:
            text = fact.stream.data[fact.start : fact.end].decode("utf-8", "replace").strip()
            self._event(fact, "unknown", "system", text, ts=fact.at)

    def _lm_call(self, fact: Fact) -> None:
        body = fact.payload
        began = body.started if body.started is not None else fact.at
        ended = body.ended if body.ended is not None else fact.at
        self._messages(fact, began)
        key = fact.call_id or f"{self.session_id}:{fact.stream.stream}.{fact.line}"
        if body.reasoning:
            self._event(fact, "reasoning", "assistant", body.reasoning, ts=ended, key=key)
        if body.error is not None:
            self._event(fact, "error", "system", body.error, ts=ended)
        else:
            text = "\n".join(_plain(c) for c in body.completions) if body.completions else None
            self._event(fact, "answer", "assistant", text, ts=ended, key=key, parent=self._parent)
        usage = body.usage or Usage()
        prompt, output = usage.prompt_tokens or 0, usage.completion_tokens or 0
        if body.error is not None and not (prompt or output):
            return
        if body.cache_hit:
            # DSPy answered from its own cache: nothing was asked for and nothing is billed
            usage, prompt, output = Usage(), 0, 0
        read = min(usage.cache_read_tokens or 0, prompt)
        written = min(usage.cache_write_tokens or 0, prompt - read)
        cost = 0 if body.cache_hit else _nano(body.cost)
        fresh = prompt - read - written
        self.model_calls.append(
            (
                *(key, HOST, self.session_id, self.session_id, ended, body.model or ""),
                *(fresh, output, written, 0, read, usage.reasoning_tokens or 0, prompt),
                *(None, None, 0, cost, None, None, False, True, None, "own"),
                *_place(fact),
            )
        )

    def _messages(self, fact: Fact, began: int | None) -> None:
        """Add what was asked, once: a program sends its history again with every call."""
        asked = None
        for role, text in _message_texts(fact.payload.messages):
            if role in {"system", "developer"}:
                if text not in self._systems:
                    self._systems.add(text)
                    self._event(fact, "injected", "system", text, ts=began)
            elif role == "user":
                asked = text
        if asked is not None and asked != self._asked:
            self._asked = asked
            self.first_prompt = self.first_prompt or asked
            self._parent = self._event(fact, "prompt", "user", asked, ts=began)

    def _tool_call(self, fact: Fact) -> None:
        body = fact.payload
        began = body.started if body.started is not None else fact.at
        ended = body.ended if body.ended is not None else fact.at
        call_id = fact.call_id or f"{fact.stream.stream}.{fact.line}"
        arguments = "" if body.inputs is None else _plain(body.inputs)
        output = body.error if body.error is not None else "" if body.output is None else _plain(body.output)
        seq = len(self.events)
        call = self._event(fact, "tool_call", "assistant", arguments, ts=began, call_id=call_id, parent=self._parent)
        result = self._event(fact, "tool_result", "tool", output, ts=ended, call_id=call_id, parent=call)
        self.tool_calls.append(
            (
                *(call_id, HOST, self.session_id, self.session_id, seq, body.tool or "unknown", "other", [], [], [], None),
                *(body.error is not None, None, None, len(arguments), len(output), began, ended, call, result),
            )
        )

    def _event(
        self,
        fact: Fact,
        kind: str,
        actor: str,
        text: str | None,
        *,
        ts: int | None,
        key: str | None = None,
        call_id: str | None = None,
        parent: str | None = None,
    ) -> str:
        place = _place(fact)
        where = (fact.stream.stream, fact.stream.generation, fact.line)
        block = self._blocks.get(where, 0)
        self._blocks[where] = block + 1
        event_id = f"{place[0]}.{place[1]}.{fact.line}.{block}"
        subtype = f"{fact.kind}/{fact.payload.call_type}"[:100] if fact.payload.call_type else fact.kind[:100]
        seq = len(self.events)
        head = (event_id, HOST, self.session_id, self.session_id, seq, ts)
        self.events.append((*head, kind, subtype, actor, text, parent, call_id, key, *place))
        return event_id


def _place(fact: Fact) -> tuple:
    return (fact.stream.stream, fact.stream.generation, fact.start, fact.end, fact.line)


def _message_texts(messages: Any) -> Iterator[tuple[str, str]]:
    if isinstance(messages, str):
        yield "user", messages
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            content = message.get("content")
            if isinstance(content, list):
                content = "\n".join(b["text"] for b in content if isinstance(b, dict) and isinstance(b.get("text"), str))
            if isinstance(content, str) and content:
                yield str(message.get("role")), content


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return str(value["text"])
    try:
        return msgspec.json.encode(value, order="sorted").decode()
    except (msgspec.MsgspecError, OverflowError, ValueError, RecursionError, TypeError):
        return repr(value)


def _nano(cost: float | None) -> int | None:
    if cost is None or not 0 <= cost < 1_000_000:
        return None
    return round(cost * NANO)
