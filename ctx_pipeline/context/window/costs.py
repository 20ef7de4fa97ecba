"""What each message costs in tokens."""

from __future__ import annotations

import copy
import re
from datetime import UTC, datetime
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ctx_pipeline.context.errors import InvalidMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


IMAGE_TOKENS = 765
LOW_DETAIL_TOKENS = 85
"""A 1024 x 1024 picture in high detail, and any picture in low detail, as OpenAI bills them."""
_CACHE_CHARACTERS = 64_000_000


class Counter(Protocol):
    """The part of a tokenizer that is used here."""

    def count_tokens(self, text: str) -> Any:
        """Return a result with ``count`` and ``approximate``."""
        ...


class _Cache:
    """Tokens by text, emptied when the texts are too many characters."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.characters = 0


class Costs:
    """Counts messages with one tokenizer, each different text once."""

    def __init__(self, tokenizer: Counter) -> None:
        self._tokenizer = tokenizer
        self._cache = _Cache()
        self._many = getattr(tokenizer, "count_many", None)
        self._cheap = getattr(tokenizer, "name", "") == "fallback_word_count"
        self.overhead: int = getattr(tokenizer, "message_overhead", 0)
        self.priming: int = getattr(tokenizer, "reply_priming", 0)
        said = getattr(tokenizer, "approximate", None)
        self.estimated = bool(tokenizer.count_tokens("test").approximate if said is None else said)
        """Whether the tokenizer only estimates."""
        self.approximate = self.estimated
        """The same, and True as soon as something without a text was counted."""

    def of_one_window(self) -> Costs:
        """Return the same for one window, which says of itself whether it is approximate; what is known of texts is shared."""
        made = copy.copy(self)
        made.approximate = self.estimated
        return made

    def of(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the tokens of each message: its content, name, tool calls and the tokenizer's overhead."""
        contents = [message.get("content") for message in messages]
        if set(map(type, contents)) <= {str} and {"tool_calls", "name"}.isdisjoint(chain.from_iterable(messages)):
            counts = self._count(contents)  # type: ignore[arg-type]
            return [count + self.overhead for count in counts] if self.overhead else counts
        texts: list[str] = []
        spans: list[tuple[int, int, int]] = []
        for message in messages:
            first = len(texts)
            fixed = self.overhead + _texts(message, texts, self)
            spans.append((first, len(texts), fixed))
        counts = self._count(texts)
        return [fixed + sum(counts[first:end]) for first, end, fixed in spans]

    def total(self, counts: Sequence[int]) -> int:
        """Return what a request with messages of these costs takes; none at all without messages."""
        return sum(counts) + self.priming if counts else 0

    def _count(self, texts: list[str]) -> list[int]:
        if self._cheap and self._many:
            return list(self._many(texts))
        cache = self._cache
        if cache.characters > _CACHE_CHARACTERS:
            cache.known, cache.characters = {}, 0
        known = cache.known  # another thread may put a new one in its place meanwhile
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            counted = self._many(missing) if self._many else [self._tokenizer.count_tokens(text).count for text in missing]
            known.update(zip(missing, counted, strict=True))
            cache.characters += sum(map(len, missing))
        return [known[text] for text in texts]


def _texts(message: Mapping[str, Any], texts: list[str], costs: Costs) -> int:
    """Add what must be counted of a message to ``texts``; return the tokens of what has a fixed price."""
    fixed = _content(message.get("content"), texts, costs)
    if message.get("name"):
        texts.append(str(message["name"]))
    calls = message.get("tool_calls")
    if isinstance(calls, (list, tuple)):
        texts += [_json(call.get("function", call) if isinstance(call, dict) else call) for call in calls]
    return fixed


def _content(content: object, texts: list[str], costs: Costs) -> int:
    match content:
        case None:
            return 0
        case str():
            texts.append(content)
            return 0
        case list() | tuple():
            return sum(_part(part, texts, costs) for part in content)
        case dict() if len(content) == 1 and isinstance(text := content.get("text", content.get("data")), str):
            texts.append(text)
            return 0
        case _:
            texts.append(_json(content))
            return 0


def _part(part: Any, texts: list[str], costs: Costs) -> int:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            texts.append(text)
            return 0
        case {"type": "image_url" | "image" | "input_image"}:
            costs.approximate = True
            image = part.get("image_url")
            low = isinstance(image, dict) and image.get("detail") == "low"
            return LOW_DETAIL_TOKENS if low or part.get("detail") == "low" else IMAGE_TOKENS
        case {"type": "tool_result", "content": str() | list() as inner}:
            return _content(inner, texts, costs)
        case {"type": "input_audio" | "audio" | "file" | "document" | "video"}:
            costs.approximate = True
            texts.append(_json({k: v for k, v in part.items() if isinstance(v, str) and len(v) < 2000}))
            return IMAGE_TOKENS
        case _:
            return _content(part, texts, costs) if not isinstance(part, (list, tuple)) else _content(_json(part), texts, costs)


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)
    except RecursionError as error:
        raise InvalidMessage("a message is nested too deeply", hint="write the inner part as text") from error


# The order of messages: by instant, then by id; what has no time stays behind what it followed.


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
