"""The order of messages: by instant, then by id; what has no time stays behind what it followed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DIGITS = re.compile(r"(\d+)")
_BEFORE_ALL = float("-inf")


def in_order(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages sorted by (instant, id), stable.

    Times may be ISO 8601 text with any offset (without one UTC is meant), seconds since
    1970, or datetimes. A message without a readable time keeps its place behind the
    message before it. Ids compare as text with numbers by value, so ``"9"`` stands before ``"10"``.
    """
    stamps = [message.get("timestamp") for message in messages]
    instants: list[Any]
    if _plain(stamps):
        instants = stamps
    else:
        instants = []
        at: Any = _BEFORE_ALL
        for stamp in stamps:
            instant = _instant(stamp)
            at = at if instant is None else instant
            instants.append(at)
    places: Sequence[int] = range(len(stamps))
    rising = sorted(instants) == instants
    if not rising:
        places = sorted(places, key=instants.__getitem__)
    if len(set(instants)) == len(instants):
        return [*messages] if rising else [messages[place] for place in places]
    ordered: list[int] = []
    for _, run in groupby(places, key=instants.__getitem__):
        ordered += _by_id(list(run), messages, stamps)
    return [messages[place] for place in ordered]


def _by_id(run: list[int], messages: Sequence[Mapping[str, Any]], stamps: Sequence[object]) -> list[int]:
    """Return places of one instant: those with a time by id, then those without one as they came."""
    if len(run) == 1:
        return run
    timed = [place for place in run if _instant(stamps[place]) is not None]
    ids = [messages[place].get("id") for place in timed]
    if all(type(key) is str and len(key) < 16 and key.isdecimal() for key in ids):
        timed.sort(key=lambda place: (int(messages[place]["id"]), messages[place]["id"]))
    else:
        timed.sort(key=lambda place: id_key(messages[place].get("id")))
    held = set(timed)
    return timed + [place for place in run if place not in held]


def deterministic_sort_key(message: Mapping[str, Any]) -> tuple[float, tuple[Any, ...]]:
    """Return what a message sorts by: its instant (before all others without one), then its id with numbers by value.

    :func:`in_order`, which the builder uses, gives the same order to messages that all
    have a time; it keeps those without one behind the message before them.
    """
    instant = _instant(message.get("timestamp"))
    return (_BEFORE_ALL if instant is None else instant, id_key(message.get("id")))


def id_key(value: object) -> tuple[Any, ...]:
    """Return what an id sorts by; ids of any kind compare with each other."""
    parts = _DIGITS.split("" if value is None else str(value))
    return tuple((1, int(part), part) if place % 2 else (0, 0, part) for place, part in enumerate(parts))


def _plain(stamps: Sequence[object]) -> bool:
    """Whether all times are text of one form in UTC, so that text order is time order."""
    texts: Sequence[Any] = stamps
    if set(map(type, texts)) != {str} or len(texts[0]) < 11 or len(set(map(len, texts))) > 1:
        return False
    ending = slice(-1, None) if texts[0].endswith("Z") else slice(-6, None)
    return set(map(itemgetter(ending), texts)) <= {"Z", "+00:00"} and set(map(itemgetter(4), texts)) == {"-"}


def _instant(stamp: object) -> float | None:
    if isinstance(stamp, datetime):
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
        return float(stamp) if stamp == stamp else None  # noqa: PLR0124 - NaN is no time
    if not isinstance(stamp, str):
        return None
    try:
        return _instant(datetime.fromisoformat(stamp))
    except (ValueError, OverflowError):
        return None
