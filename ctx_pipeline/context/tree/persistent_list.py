"""A sequence that shares its parts with the sequences it was made from."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CHUNK = 64


class Row:
    """An immutable sequence in chunks of up to 64: a change copies one chunk and the list of chunks."""

    __slots__ = ("_chunks", "_size")

    def __init__(self, chunks: tuple[tuple[Any, ...], ...] = (), size: int = 0) -> None:
        self._chunks = chunks
        self._size = size

    @classmethod
    def of(cls, items: Iterable[Any]) -> Row:
        """Return a row of items."""
        every = tuple(items)
        return cls(tuple(every[n : n + _CHUNK] for n in range(0, len(every), _CHUNK)), len(every))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._chunks)

    def __reversed__(self) -> Iterator[Any]:
        return chain.from_iterable(map(reversed, reversed(self._chunks)))

    def __getitem__(self, place: int) -> Any:
        chunk, inside = self._locate(place)
        return self._chunks[chunk][inside]

    def inserted(self, place: int, item: Any) -> Row:
        """Return the row with an item before a place, 0 to the length."""
        if not self._chunks:
            return Row(((item,),), 1)
        chunk, inside = self._locate(place) if place < self._size else (len(self._chunks) - 1, len(self._chunks[-1]))
        old = self._chunks[chunk]
        new = (*old[:inside], item, *old[inside:])
        if len(new) <= _CHUNK:
            parts: tuple[tuple[Any, ...], ...] = (new,)
        elif inside == len(old):
            parts = (old, (item,))  # growing at an end leaves full chunks behind
        else:
            parts = (new[: _CHUNK // 2], new[_CHUNK // 2 :])
        return Row((*self._chunks[:chunk], *parts, *self._chunks[chunk + 1 :]), self._size + 1)

    def removed(self, place: int) -> Row:
        """Return the row without the item at a place."""
        chunk, inside = self._locate(place)
        old = self._chunks[chunk]
        new = (*old[:inside], *old[inside + 1 :])
        parts = (new,) if new else ()
        return Row((*self._chunks[:chunk], *parts, *self._chunks[chunk + 1 :]), self._size - 1)

    def replaced(self, place: int, item: Any) -> Row:
        """Return the row with another item at a place."""
        chunk, inside = self._locate(place)
        old = self._chunks[chunk]
        new = (*old[:inside], item, *old[inside + 1 :])
        return Row((*self._chunks[:chunk], new, *self._chunks[chunk + 1 :]), self._size)

    def find(self, item: Any) -> int:
        """Return the place of an item, -1 when it is not there."""
        before = 0
        for chunk in self._chunks:
            if item in chunk:
                return before + chunk.index(item)
            before += len(chunk)
        return -1

    def _locate(self, place: int) -> tuple[int, int]:
        if not 0 <= place < self._size:
            raise IndexError(place)
        if len(self._chunks[0]) > place:
            return 0, place
        for number, end in enumerate(accumulate(map(len, self._chunks))):
            if place < end:
                return number, place - (end - len(self._chunks[number]))
        raise IndexError(place)
