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


class InvalidVector(CtxError, ValueError):
    """An embedding is no list of finite numbers of the expected length."""


class EmbeddingFailed(CtxError):
    """An embedding function raised, or gave back something that is no vector."""


class NoSuchSession(CtxError, ValueError):
    """A session was asked for that the store does not hold."""

    def __init__(self, session_id: str, advice: str = "") -> None:
        super().__init__(f"Session {session_id!r} does not exist.{advice}", session_id=session_id)


class NoSuchInteraction(CtxError, ValueError):
    """A session holds no interaction of that id."""

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

    code, status = "INVALID_PLACEMENT", 400


class InvalidLifecycle(InvalidPlacement):
    """A ttl below zero, a cadence below one, or both of a kind that excludes the other."""


class DuplicateContainer(PactError, ValueError):
    """A turn holds two core containers, or a tree two active heads."""

    code, status = "DUPLICATE_CONTAINER", 409


class ConflictingUpdate(PactError, ValueError):
    """Two nodes of one id, or a change of something that is sealed."""

    code, status = "CONFLICTING_UPDATE", 409


class OverlapWouldViolateODI(ConflictingUpdate):
    """A younger instance of a key would not stand above every older one."""

    code = "OverlapWouldViolateODI"


class ParentMissing(PactError, LookupError):
    """A node names a parent that is not there."""

    code, status = "PARENT_ID_MISSING", 422


class NothingThere(PactError, KeyError):
    """A place or selector names no component."""

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
