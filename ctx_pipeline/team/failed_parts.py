"""Which members' months no hub could collect, since when and why; several hubs and workers note it at the same time.

The notes of a member are one object under a number that rises and that is only ever created, so of two that write at once the
second reads what the first one noted, and adds its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import StoreLocked
from ctx_pipeline.storage.team_tables.bucket import at_once, json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ctx_pipeline.storage.team_tables.bucket import Bucket

FAILED = "team/failed"
_TRIES = 20

Notes = dict[str, Any]
"""Month -> since when it failed, when last, how often, and why."""


class FailedParts:
    """The notes of a team."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def read(self) -> dict[str, Notes]:
        """Return member -> notes, of members of whom something failed; one listing, and a read for each of them."""
        numbers = self._numbers()
        members = list(numbers)
        found = at_once(lambda member: self._notes(member, max(numbers[member])), members)
        return {member: notes for member, notes in zip(members, found, strict=True) if notes}

    def change(self, changes: dict[str, Callable[[Notes], Notes]]) -> None:
        """Put what a function makes of the notes of each member in their place; a listing, and nothing else where nothing failed."""
        numbers = self._numbers()
        at_once(lambda member: self._change(member, changes[member], numbers.get(member, [])), list(changes))

    def forget(self, members: Collection[str]) -> None:
        """Remove the notes of all but these members."""
        self._bucket.remove(e.path for e in self._bucket.entries(FAILED) if e.path.split("/")[2] not in members)

    def _change(self, member: str, change: Callable[[Notes], Notes], numbers: list[int]) -> None:
        for _ in range(_TRIES):
            last = max(numbers, default=0)
            before = self._notes(member, last) if last else {}
            if before is not None:
                after = change(before)
                if after == before:
                    return
                if self._bucket.create(_path(member, last + 1), json.dumps(after).encode()):
                    numbers = self._numbers(member).get(member, [])
                    if last + 1 == max(numbers, default=0):
                        self._bucket.remove(_path(member, number) for number in numbers if number <= last)
                        return
                    self._bucket.remove([_path(member, last + 1)])  # others had written this number and removed it again
            numbers = self._numbers(member).get(member, [])
        raise StoreLocked(f"other hubs write what failed of {member} all the time", hint="run the command again", member=member)

    def _notes(self, member: str, number: int) -> Notes | None:
        """Return notes; None where they were replaced just now."""
        body = self._bucket.read(_path(member, number))
        return None if body is None else {month: one for month, one in json_object(body).items() if isinstance(one, dict)}

    def _numbers(self, member: str = "") -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for entry in self._bucket.entries(f"{FAILED}/{member}".rstrip("/")):
            parts = entry.path.split("/")
            if len(parts) == 4 and (number := parts[3].partition(".")[0]).isdigit():
                found.setdefault(parts[2], []).append(int(number))
        return found


def _path(member: str, number: int) -> str:
    return f"{FAILED}/{member}/{number:012}.json"
