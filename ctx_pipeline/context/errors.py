"""What can go wrong in the context library; every error is a CtxError and, where one fits, a built-in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.errors import CtxError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


class InvalidArgument(UsageError, TypeError):
    """An argument is of a kind that cannot be used here."""


class InvalidMessage(CtxError, TypeError):
    """A message is not a mapping that JSON can hold."""

    advice = "a message is a mapping such as {'role': 'user', 'content': 'text'}"


class InvalidVector(CtxError, ValueError):
    """An embedding is no list of finite numbers of the expected length."""

    advice = "give one list of finite numbers for each text, all of the length that the store holds"


class EmbeddingFailed(CtxError):
    """An embedding function raised, or gave back something that is no vector."""

    advice = "try the function by itself on one text: it takes a list of texts and returns a vector for each"


class NoSuchSession(CtxError, ValueError):
    """A session was asked for that the store does not hold."""

    advice = "create it first, or list those that exist"

    def __init__(self, session_id: str, advice: str = "") -> None:
        super().__init__(f"Session {session_id!r} does not exist.{advice}", session_id=session_id)


class NoSuchInteraction(CtxError, ValueError):
    """A session holds no interaction of that id."""

    advice = "list the session's interactions for the ids that it holds"

    def __init__(self, session_id: str, interaction_id: str) -> None:
        super().__init__(
            f"Interaction {interaction_id!r} not found in session {session_id!r}.",
            session_id=session_id,
            interaction_id=interaction_id,
        )


class PactError(CtxError):
    """A tree operation is refused; ``code`` and ``status`` are the ones of PACT 1.0."""

    code = "INTERNAL_ERROR"
    status = 500

    def body(self) -> dict[str, object]:
        """Return the error as PACT's error object."""
        return {"error": {"code": self.code, "message": self.message, "details": {k: repr(v) for k, v in self.fields.items()}}}


class InvalidSelector(PactError, ValueError):
    """A selector does not fit the grammar; ``position`` counts characters from 0."""

    code, status = "INVALID_SELECTOR", 400

    def __init__(self, selector: str, position: int, problem: str, hint: str) -> None:
        place = f"{selector}\n  {' ' * position}^"
        super().__init__(f"{problem} at character {position}:\n  {place}", hint=hint, selector=selector, position=position)
        self.position = position


class InvalidPlacement(PactError, ValueError):
    """A component cannot stand where it was asked to."""

    advice = "a component stands in the core of a turn, before it or behind it: docs/context.md"

    code, status = "INVALID_PLACEMENT", 400


class InvalidLifecycle(InvalidPlacement):
    """A ttl below zero, a cadence below one, or both of a kind that excludes the other."""


class DuplicateContainer(PactError, ValueError):
    """A turn holds two core containers, or a tree two active heads."""

    code, status = "DUPLICATE_CONTAINER", 409


class ConflictingUpdate(PactError, ValueError):
    """Two nodes of one id, or a change of something that is sealed."""

    advice = "give every node an id of its own, and change the active turn only"

    code, status = "CONFLICTING_UPDATE", 409


class OverlapWouldViolateODI(ConflictingUpdate):
    """A younger instance of a key would not stand above every older one."""

    code = "OverlapWouldViolateODI"


class ParentMissing(PactError, LookupError):
    """A node names a parent that is not there."""

    advice = "name a node that stands in the tree, or put it in first"

    code, status = "PARENT_ID_MISSING", 422


class NothingThere(PactError, KeyError):
    """A place or selector names no component."""

    advice = "look what is there first: context.select(...), context.get_by_key(...)"

    code, status = "INVALID_PLACEMENT", 400
    __str__ = CtxError.__str__


class AmbiguousKey(PactError, LookupError):
    """One component was asked for and several match."""

    code, status = "AmbiguousKey", 409


class ReadOnlyHistory(PactError, TypeError):
    """A context out of the history cannot be changed."""

    code, status = "NOT_AUTHORIZED", 403

    def __init__(self, what: str, episode: int) -> None:
        super().__init__(
            f"{what}: the context of episode {episode} is history and read-only",
            hint="make a context of its own with Context.from_snapshot(historical.model_dump())",
            episode=episode,
        )


class UnknownSnapshot(CtxError, KeyError):
    """No snapshot has that episode; the nearest ones are listed."""

    __str__ = CtxError.__str__

    def __init__(self, asked: object, known: Iterable[int], *, written: str = "") -> None:
        """``written`` is what a selector puts before a number, such as ``@c``."""
        numbers = set(known)
        digits = str(asked).removeprefix(written)
        number = int(digits) if digits.lstrip("-").isdecimal() and len(digits) < 10 else 0
        near = sorted(sorted(numbers, key=lambda e: (abs(e - number), e))[:3])
        names = ", ".join(f"{written}{n}" for n in near)
        super().__init__(
            f"there is no snapshot {asked!r}",
            hint=f"the nearest are {names}" if near else "seal the context first: context.seal(trigger=...)",
            asked=asked,
            near=near,
        )
