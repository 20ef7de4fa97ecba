"""Every exception this package raises on purpose.

CtxError
├─ SourceError          a file of a host cannot be read (transient)
├─ ParseError           one record cannot be understood (recorded, never stops a run)
├─ StoreError           the store under CTX_HOME cannot do what was asked
│  ├─ StoreLocked       another process holds a lease or a database for too long
│  │  └─ LeaseLost      another process took over what this one was writing
│  ├─ StoreFull         the disk has no room
│  ├─ OutOfResources    the system gives no more files, memory or room
│  ├─ StoreDamaged      a file of the store contradicts its own hash or schema
│  └─ SchemaTooNew      written by a newer version of this package
├─ ContractError        rows break the table contract; names table, cell and rule
├─ DeclarationError     a host, signal, method or panel file is wrong; names file and fix
├─ SettingsError        a setting or an environment variable cannot be used
├─ UnknownName          a name was asked for that does not exist; lists the nearest
│  ├─ UnknownChoice     a word of a fixed list was misspelled; lists the nearest
│  └─ AmbiguousName     a short name means several things; lists them
├─ NothingFound         nothing in the records fits what was asked for
├─ MissingExtra         a library is not installed; names the extra that brings it
├─ UsageError           the words of a command do not fit together
└─ BudgetTooSmall       asked, minimum

A command ends with 2 where its words are wrong (UsageError, UnknownChoice) and with 1 for every other error.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class CtxError(Exception):
    """What happened, to which thing; ``hint`` says what to do about it.

    Extra keyword arguments are kept in ``fields`` so that a caller can read them
    without parsing the message.
    """

    exit_code = 1
    advice = ""
    """The hint of errors of this kind that have no better one."""

    def __init__(self, message: str, *, hint: str = "", **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.advice
        self.fields = fields

    def __str__(self) -> str:
        """Return the message, and the hint on a line of its own."""
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class SourceError(CtxError):
    """A file of a host cannot be read now; the next run tries again."""

    advice = "the next run tries again; what cannot be read: ctx doctor"


class ParseError(CtxError):
    """One record cannot be understood; it is counted, kept and skipped."""


class StoreError(CtxError):
    """The store under ``CTX_HOME`` cannot do what was asked."""

    advice = "what is wrong with the store: ctx doctor"


class StoreLocked(StoreError):
    """Another process holds a lease or a database for longer than we wait."""


class LeaseLost(StoreLocked):
    """This process stood still for so long that another one took over what it was writing."""


class StoreFull(StoreError):
    """The disk that holds ``CTX_HOME`` has no room left."""

    advice = "free some disk space and run again"


class RawLocked(StoreError):
    """Raw objects are encrypted, and the key that opens them is not there; nothing is wrong with them."""


class StoreDamaged(StoreError):
    """A file of the store contradicts its own hash, size or schema."""


class OutOfResources(StoreError):
    """The system gives this process no more files, memory or room; nothing is wrong with what is stored."""


_SCARCE = {
    errno.EMFILE: ("this process may open no more files", "raise the limit: ulimit -n 1024"),
    errno.ENFILE: ("the system has no more files to open", "end other programs"),
    errno.ENOMEM: ("there is not enough memory", "end other programs, or allow this one more: ulimit -v"),
    errno.ENOSPC: ("the disk has no room left", "free some disk space and run again"),
    errno.EDQUOT: ("the disk quota is used up", "free some disk space and run again"),
    errno.EROFS: ("the disk may only be read", "commands that only read go on: ctx list, ctx search, ctx show"),
}
_UNHARMED = "nothing that is stored was damaged"
_NO_MEMORY = re.compile(
    r"out of memory|not enough memory|(?:failed|unable|cannot|could not) (?:to )?allocate|failed to map segment|can't start new thread",
    re.IGNORECASE,
)
_NO_ROOM = re.compile(r"database or disk is full|no space left on device", re.IGNORECASE)
_NO_FILES = re.compile(r"too many open files", re.IGNORECASE)
_NOT_OPENED = re.compile(r"unable to open database file|cannot open file|failed to open", re.IGNORECASE)


def scarce(error: BaseException) -> OutOfResources | None:
    """Return what the system refused, where that is behind an error, however far; None for any other."""
    seen: BaseException | None = error
    while seen is not None:
        number = seen.errno if isinstance(seen, OSError) else None
        if number is None and (isinstance(seen, MemoryError) or (not isinstance(seen, CtxError) and _NO_MEMORY.search(str(seen)))):
            number = errno.ENOMEM
        if number is None and (_NO_FILES.search(str(seen)) or (_NOT_OPENED.search(str(seen)) and _no_more_files())):
            number = errno.EMFILE
        if number is None and not isinstance(seen, CtxError) and _NO_ROOM.search(str(seen)):
            number = errno.ENOSPC
        if number in _SCARCE:
            what, hint = _SCARCE[number]
            return OutOfResources(f"{what}; {_UNHARMED}", hint=hint)
        seen = seen.__cause__ or seen.__context__
    return None


def refusal_in(report: str) -> OutOfResources | None:
    """Return what the system refused as a report of a stage tells it; None where it tells of something else."""
    return next(
        (OutOfResources(f"{what}; {_UNHARMED}", hint=hint) for what, hint in _SCARCE.values() if f"{what}; {_UNHARMED}" in report), None
    )


def _no_more_files() -> bool:
    """Tell whether this process cannot open one more file now; libraries say only that they could not open theirs."""
    try:
        handles = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]
    except OSError:
        return True
    for handle in handles:
        os.close(handle)
    return False


def refused(error: OSError) -> None:
    """Raise OutOfResources where a file could not be read because the system gives this process no more; else return."""
    if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM} and (found := scarce(error)) is not None:
        raise found from error


def unreadable(error: BaseException) -> StoreError | None:
    """Return what a library of databases or tables raised over bytes that it cannot read as damage; None for any other error.

    What the disk or a limit of the system refused is none.
    """
    if type(error).__module__.partition(".")[0] not in {"sqlite3", "duckdb", "_duckdb", "pyarrow", "sqlalchemy"}:
        return None
    said = next(iter(str(error).splitlines()), "")
    if "disk i/o error" in said.lower():
        return StoreError(f"the disk refused a read or a write: {said}", hint="look at the disk and at ulimit -f, then run again")
    return StoreDamaged(f"a file of the store cannot be read: {said}", hint="ctx doctor names it and what makes it again")


class MissingExtra(CtxError):
    """A library that is not part of the slim installation is needed."""


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Return which extra of this package brings a module that was not found; None where none does."""
    from importlib.metadata import PackageNotFoundError, requires

    module = (error.name or "").partition(".")[0]
    try:
        declared = requires("ctx-pipeline") or []
    except PackageNotFoundError:
        return None
    brought: dict[str, set[str]] = {}
    for line in declared:
        name, _, condition = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
        if extra:
            brought.setdefault(extra[1], set()).add(re.split(r"[<>=!~ \[]", name.strip(), maxsplit=1)[0].replace("-", "_"))
    fitting = [extra for extra, modules in brought.items() if module in modules]
    if not fitting:
        return None
    least = min(fitting, key=lambda extra: len(brought[extra]))
    hint = f"pip install 'ctx-pipeline[{least}]'; everything: 'ctx-pipeline[all]'"
    return MissingExtra(f"{module} is not installed", hint=hint, extra=least)


class SchemaTooNew(StoreError):
    """The store was written by a newer version of this package."""


class ContractError(CtxError):
    """Rows break the table contract; the cell is held back, the others go on."""

    advice = "the partition keeps its previous data; this is a defect of ctx_pipeline or of a plug-in: please report it"


class DeclarationError(CtxError):
    """A host, signal, method or panel file is wrong."""


class SettingsError(CtxError):
    """A setting or an environment variable cannot be used."""


class UsageError(CtxError):
    """The words of a command do not fit together."""

    exit_code = 2


class NothingFound(CtxError):
    """Nothing in the records fits what was asked for."""


class BudgetTooSmall(CtxError):
    """A token budget is below what the smallest useful answer needs."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> list[str]:
    """Return at most three names that may have been meant: those of which it begins a word, the last first; else those most like it."""
    import difflib

    names = sorted(set(known))
    begins_word = re.compile(rf"(?<![^\W_]){re.escape(name)}")
    longer = [n for n in names if n.startswith(name)] or [n for n in names if begins_word.search(n)]
    if len(name) > 2 and longer:
        return longer[-3:][::-1]
    near = difflib.get_close_matches(name, names, n=3, cutoff=cutoff)
    holding = [n for n in names if name in n][-3:][::-1] if len(name) > 2 else []
    if holding and not difflib.get_close_matches(name, near, cutoff=0.75):
        return holding
    if not near and len(name) > 3:  # the first characters of a long id, with a mistake in them
        begins = {n[: len(name)]: n for n in names}
        near = [begins[b] for b in difflib.get_close_matches(name, begins, n=3, cutoff=0.7)]
    return near


class UnknownName(CtxError):
    """A name was asked for that does not exist; the nearest existing ones are listed."""

    def __init__(self, noun: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        names = sorted(set(known))
        near = nearest(name, names)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        known_ones = f"known: {', '.join(names[:5])}{more}" if names else f"there is no {noun} at all yet"
        super().__init__(
            f"there is no {noun} called {name!r}",
            hint=hint or (f"did you mean {', '.join(near)}?" if near else known_ones),
            noun=noun,
            name=name,
            near=near,
        )


class UnknownChoice(UnknownName):
    """A word that must be one of a fixed list is not in it."""

    exit_code = 2


class AmbiguousName(UnknownName):
    """A name, or the first characters of one, means several things; they are listed."""

    def __init__(self, noun: str, name: str, fitting: Iterable[str], *, hint: str = "") -> None:
        names = sorted(set(fitting))
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        CtxError.__init__(
            self,
            f"{name!r} means {len(names)} {noun}s",
            hint=hint or f"name one of {', '.join(names[:10])}{more}",
            noun=noun,
            name=name,
            near=names,
        )
