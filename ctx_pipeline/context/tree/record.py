"""What a tree stores of a node: its headers and its content, never changed in place."""

from __future__ import annotations

import copy
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import msgspec

_SEGMENTS = frozenset({"seg", "mt", "message_turn"})
_CONTAINERS = frozenset({"cont", "mc", "message_container"})
REGIONS = {"^sys": "sys", "^seq": "seq", "^ah": "ah", "^root": "root", "root": "root"}


class Stage(msgspec.Struct, frozen=True):
    """A stop in the life of a component: a place (depth, path) and for how many cycles it stays there."""

    place: tuple[int, ...]
    ttl: int | None


class Record(msgspec.Struct, frozen=True):
    """A node as it is stored. Its offset is not in here: it follows from where its parent lists it."""

    id: str
    node_type: str
    parent_id: str | None
    ttl: int | None = None
    priority: int = 0
    cycle: int = 0
    created_at_ns: int = 0
    creation_index: int = 0
    cad: int | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    role: str | None = None
    kind: str | None = None
    body: Any = None
    born: int = 0
    """The cycle from which the ttl counts."""
    removable: bool = False
    stages: tuple[Stage, ...] = ()
    stage: int = 0
    rounds: int = 0
    """How often the stages start again; -1 for ever."""
    extra: dict[str, Any] = {}
    given: tuple[str, ...] | None = None
    """The headers an imported node had, when it did not have all of them."""
    iso: str | None = None

    @property
    def content(self) -> Any:
        """The content; a copy of it when it is not plain text."""
        return self.body if isinstance(self.body, (str, int, float, bool, type(None))) else copy.deepcopy(self.body)

    @property
    def created_at_iso(self) -> str:
        """The time of creation as ISO 8601 in UTC, with microseconds."""
        if self.iso is not None:
            return self.iso
        seconds, rest = divmod(self.created_at_ns, 1_000_000_000)
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def structure(self) -> str:
        """The canonical class: root, sys, seq, ah, seg, cont or block."""
        name = self.node_type
        if name in REGIONS:
            return REGIONS[name]
        head = name.partition(":")[0]
        if head in _SEGMENTS:
            return "seg"
        return "cont" if head in _CONTAINERS else "block"

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON of the content and the ``content_*`` and ``data_*`` fields, in hex."""
        hashed = {"content": self.body} | {k: v for k, v in self.extra.items() if k.startswith(("content_", "data_"))}
        text = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def order(self) -> tuple[int, int, str]:
        """What siblings at one offset are sorted by."""
        return self.created_at_ns, self.creation_index, self.id
