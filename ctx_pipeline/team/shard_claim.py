"""The right to work on a member's shard, over workers that share nothing but the bucket: objects that are only ever created.

Each claim has a token that rises. Whoever takes a shard over first creates the commit of the token before as void,
so that its holder, if it still runs, cannot commit any more. Conditional creation is all that is asked of the bucket.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreLocked
from ctx_pipeline.storage.team_tables.bucket import json_object
from ctx_pipeline.storage.team_tables.delta import Fenced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctx_pipeline.storage.team_tables.bucket import Bucket

SHARDS = "shards"
"""Folder with one shard a member: claims, commits, and the objects of its store, encrypted."""

SECONDS = 120.0
"""Seconds after which the claim of a worker that does not renew it is free."""

_KEPT = 50
"""Tokens whose claims and commits stay: a worker that stalled through more of them is not found."""


class Claim:
    """A shard that this process holds."""

    def __init__(self, bucket: Bucket, member: str, token: int, seconds: float) -> None:
        self._bucket, self._member, self.token, self._seconds = bucket, member, token, seconds
        self._folder = f"{SHARDS}/{member}"
        self._ended = threading.Event()

    def state(self) -> Mapping[str, Any]:
        """Return what the last commit says; empty where nobody committed yet."""
        return committed(self._bucket, self._member)

    def commit(self, state: Mapping[str, Any]) -> None:
        """Make a state the shard's own; raises Fenced where another worker took it over."""
        body = json.dumps({**state, "token": self.token}).encode()
        if not _created(self._bucket, _commit_path(self._member, self.token), body):
            raise Fenced(
                f"another worker took over the shard of {self._member}",
                hint="nothing is lost: it does the same work",
                member=self._member,
                token=self.token,
            )

    def tidy(self) -> None:
        """Remove claims and commits of long ago."""
        names = [e.path for e in self._bucket.entries(self._folder) if e.path.split("/")[2] in {"claims", "commits"}]
        self._bucket.remove(path for path in names if (_token_of(path) or self.token) < self.token - _KEPT)

    def write(self, until: float) -> None:
        """Say until when the shard is held."""
        self._bucket.write(_claim_path(self._member, self.token), _claim_body(until))

    def renew(self) -> None:
        """Say again and again that the shard is held, until :meth:`end`."""

        def beat() -> None:
            while not self._ended.wait(self._seconds / 3):
                # the next beat tries again; who commits is decided by the commit
                with suppress(Exception):
                    self.write(time.time() + self._seconds)

        threading.Thread(target=beat, daemon=True, name="ctx-shard").start()

    def end(self) -> None:
        """Give the shard back."""
        self._ended.set()
        self.write(0.0)


@contextmanager
def claimed(bucket: Bucket, member: str, *, seconds: float = SECONDS) -> Iterator[Claim]:
    """Hold a member's shard inside the block; raises StoreLocked where another worker does."""
    last = _last_claim(bucket, member)
    if worker := holder(bucket, member, last):
        raise StoreLocked(f"{worker} works on the shard of {member}", hint="ask again later; what waits is kept", member=member)
    claim = Claim(bucket, member, last + 1, seconds)
    if not _created(bucket, _claim_path(member, claim.token), _claim_body(time.time() + seconds)):
        raise StoreLocked(f"another worker has just taken the shard of {member}", hint="ask again later", member=member)
    if last:
        # the worker before cannot commit from here on
        bucket.create(_commit_path(member, last), b'{"void": true}')
    claim.renew()
    try:
        yield claim
    finally:
        claim.end()


def holder(bucket: Bucket, member: str, token: int | None = None) -> str:
    """Return who holds a member's shard now, and for how long unless it goes on; empty where nobody does."""
    held = json_object(bucket.read(_claim_path(member, token))) if (token := token or _last_claim(bucket, member)) else {}
    until = held.get("until")
    left = (until if isinstance(until, int | float) else 0.0) - time.time()
    return f"{held.get('worker', 'another worker')} (for at most {left:.0f} s more unless it goes on)" if left > 0 else ""


def _last_claim(bucket: Bucket, member: str) -> int:
    return max((t for e in bucket.entries(f"{SHARDS}/{member}/claims") if (t := _token_of(e.path)) is not None), default=0)


def committed(bucket: Bucket, member: str) -> Mapping[str, Any]:
    """Return the newest state of a shard; empty where there is none."""
    paths = [e.path for e in bucket.entries(f"{SHARDS}/{member}/commits") if _token_of(e.path) is not None]
    for path in sorted(paths, reverse=True):
        found = json_object(bucket.read(path))
        if found and not found.get("void"):
            return found
    return {}


def _created(bucket: Bucket, path: str, body: bytes) -> bool:
    """Create an object; true also where it was created and the answer was lost, so that it was asked for again."""
    return bucket.create(path, body) or bucket.read(path) == body


def _claim_body(until: float) -> bytes:
    return json.dumps({"worker": f"{socket.gethostname()}:{os.getpid()}", "until": until}).encode()


def _claim_path(member: str, token: int) -> str:
    return f"{SHARDS}/{member}/claims/{token:012}.json"


def _commit_path(member: str, token: int) -> str:
    return f"{SHARDS}/{member}/commits/{token:012}.json"


def _token_of(path: str) -> int | None:
    name = path.rpartition("/")[2].partition(".")[0]
    return int(name) if name.isdigit() and len(name) < 16 else None
