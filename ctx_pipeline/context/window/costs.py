"""What each message costs in tokens."""

from __future__ import annotations

import copy
from itertools import chain
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
