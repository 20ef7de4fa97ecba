"""One entry of a conversation, and what every store does to it: nothing but give it an id and a time."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from ctx_pipeline.context.errors import InvalidMessage

Message = dict[str, Any]
"""A message as a provider takes it: ``role``, ``content`` and whatever else; ``id`` and ``timestamp`` are ours."""


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
            id=own.pop("id", None) or str(uuid4()),
            timestamp=own.pop("timestamp", None) or now(),
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
        if isinstance(entry, Interaction):
            message = entry.to_dict()
        elif isinstance(entry, Mapping):
            message = copy.deepcopy(dict(entry))
        else:
            message = {"content": {"data": copy.deepcopy(entry)}}
        if message.get("id") is None:
            message["id"] = str(uuid4())
        if message.get("timestamp") is None:
            message["timestamp"] = (moment + timedelta(microseconds=number)).isoformat()
        messages.append(message)
    return messages


def last(messages: list[Message], k: int | None) -> list[Message]:
    """Return the last ``k`` messages; all of them for None, none for zero or less."""
    if k is None:
        return messages
    return messages[-k:] if k > 0 else []
