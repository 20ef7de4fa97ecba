"""One entry of a conversation, and what every store does to it: nothing but give it an id and a time."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from ctx_pipeline.context.errors import InvalidArgument, InvalidMessage

Message = dict[str, Any]
"""A message as a provider takes it: ``role``, ``content`` and whatever else; ``id`` and ``timestamp`` are ours."""


_HINT = "keep text, finite numbers, lists and mappings with names of text in it; times as text, bytes as base64"


def now() -> str:
    """Return the current time as ISO 8601 text in UTC."""
    return datetime.now(UTC).isoformat()


@dataclass
class Interaction:
    """An entry with its id, its content, its metadata and its time (UTC, ISO 8601)."""

    content: Any = None
    metadata: dict[str, Any] | None = None
    id: str = field(default_factory=lambda: str(uuid4()))
    timestamp: str = field(default_factory=now)
    fields: dict[str, Any] = field(default_factory=dict)
    """The other fields of the message, such as ``role`` and ``name``."""

    def to_dict(self) -> Message:
        """Return the message; ``metadata`` is left out where there is none."""
        message = {"id": self.id, **self.fields, "content": copy.deepcopy(self.content), "timestamp": self.timestamp}
        if self.metadata is not None:
            message["metadata"] = copy.deepcopy(self.metadata)
        return message

    @classmethod
    def from_dict(cls, message: Mapping[str, Any]) -> Interaction:
        """Return the interaction of a message, with every field kept as it is."""
        own = copy.deepcopy(dict(message))
        return cls(
            content=own.pop("content", None),
            metadata=own.pop("metadata", None),
            id=str(uuid4()) if (given := own.pop("id", None)) is None else given,
            timestamp=now() if (at := own.pop("timestamp", None)) is None else at,
            fields=own,
        )


def messages_of(context: Sequence[object]) -> list[Message]:
    """Return copies of the entries as messages that have an id and a time; nothing else is changed.

    An entry that is neither a mapping nor an Interaction becomes ``{"content": {"data": entry}}``.
    Times that are missing rise by a microsecond, so that the order of a batch survives
    sorting. Raises InvalidMessage when the whole is no sequence of entries.
    """
    if isinstance(context, (str, bytes, Mapping)) or not isinstance(context, Sequence):
        raise InvalidMessage(
            f"a context is a list of messages, not {type(context).__name__}",
            hint='pass a list: [{"role": "user", "content": "..."}]',
        )
    moment = datetime.now(UTC)
    messages = []
    for number, entry in enumerate(context):
        try:
            message = _copied(entry)
        except RecursionError as error:
            raise InvalidMessage(f"message {number} is nested too deeply", hint="write the inner part as text") from error
        if message.get("id") is None:
            message["id"] = str(uuid4())
        if message.get("timestamp") is None:
            message["timestamp"] = (moment + timedelta(microseconds=number)).isoformat()
        messages.append(message)
    return messages


def encoded(context: Sequence[object]) -> list[tuple[str, str]]:
    """Return (id, JSON) of each entry as a message. Raises InvalidMessage for what JSON would give back as something else."""
    rows = []
    for message in messages_of(context):
        try:
            body = msgspec.json.encode(message)
            kept = _comes_back(message, msgspec.json.decode(body))
            rows.append((str(message["id"]), body.decode()))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidMessage(f"message {message['id']!r} cannot be written as JSON: {error}", hint=_HINT) from error
        if not kept:
            raise InvalidMessage(f"message {message['id']!r} would come back from JSON as something else", hint=_HINT)
    return rows


def _comes_back(saved: Any, back: Any) -> bool:
    """Return whether JSON gives back what was saved; it knows only one kind of sequence, so a tuple may become a list."""
    if saved == back:
        return True
    if isinstance(saved, dict) and isinstance(back, dict):
        return saved.keys() == back.keys() and all(_comes_back(value, back[name]) for name, value in saved.items())
    if isinstance(saved, (list, tuple)) and isinstance(back, list):
        return len(saved) == len(back) and all(map(_comes_back, saved, back))
    return False


def _copied(entry: object) -> Message:
    if isinstance(entry, Interaction):
        return entry.to_dict()
    return copy.deepcopy(dict(entry)) if isinstance(entry, Mapping) else {"content": {"data": copy.deepcopy(entry)}}


def check_session(session_id: object) -> None:
    """Raise InvalidArgument for what is no text that UTF-8 can write; every store takes the same ids."""
    if not isinstance(session_id, str):
        raise InvalidArgument(
            f"a session id is text, not {type(session_id).__name__}",
            hint=f'write "{session_id}"' if isinstance(session_id, int) else "give it a name",
        )
    if any("\ud800" <= letter <= "\udfff" for letter in session_id):
        raise InvalidArgument(f"the session id {session_id!r} is no text that UTF-8 can write", hint="leave lone surrogates out")


def check_count(k: object) -> None:
    """Raise InvalidArgument for a ``k`` that is neither a whole number nor None."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int)):
        raise InvalidArgument(f"k is {k!r}", hint="a whole number, or None for all")


def last(messages: list[Message], k: int | None) -> list[Message]:
    """Return the last ``k`` messages; all of them for None, none for zero or less."""
    check_count(k)
    if k is None:
        return messages
    return messages[-k:] if k > 0 else []
