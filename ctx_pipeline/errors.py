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
│  └─ NothingYet         nothing was captured here yet: to a model an answer, and no error
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
    errno.EFBIG: ("a file reached the largest size that this process may write", "raise the limit: ulimit -f unlimited"),
    errno.EDQUOT: ("the disk quota is used up", "free some disk space and run again"),
    errno.EROFS: ("the disk may only be read", "commands that only read go on: ctx list, ctx search, ctx show"),
}
_UNHARMED = "nothing that is stored was damaged"

_SQLITE_NOMEM, _SQLITE_IOERR, _SQLITE_FULL, _SQLITE_CANTOPEN, _SQLITE_IOERR_NOMEM = 7, 10, 13, 14, 3082
_TELLING = {
    "_duckdb": ("IOException", "TransactionException", "FatalException"),
    "builtins": ("ImportError",),
    "deltalake": ("DeltaError", "CommitFailedError"),
    "zstd": ("ZstdError",),
    "zstandard": ("ZstdError",),
}
"""Library -> errors that say in words what the system refused; none of them quotes what is stored."""
_AT_THE_END = rf"(?i)({'|'.join(re.escape(os.strerror(n)) for n in _SCARCE)})(?: \(os error \d+\))?[\s.]*$"
_NUMBERS = {os.strerror(number).lower(): number for number in _SCARCE}
_NO_MEMORY = r"(?i)(?:failed|unable|cannot|could not) (?:to )?allocate|failed to map segment|not enough memory|out of memory"
_NO_THREAD = "can't start new thread"


def scarce(error: BaseException) -> OutOfResources | None:
    """Return what the system refused, where that is behind an error, however far; None for any other.

    Known by number, by code of SQLite or by type: a text may quote a session, which says what it likes.
    """
    seen: BaseException | None = error
    while seen is not None:
        number = _refusal(seen)
        if number in _SCARCE:
            what, hint = _SCARCE[number]
            return OutOfResources(f"{what}; {_UNHARMED}", hint=hint)
        seen = seen.__cause__ or seen.__context__
    return None


def _refusal(error: BaseException) -> int | None:
    """Return the number of the system's error that one error stands for by itself, where that is known."""
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, MemoryError) or (type(error) is RuntimeError and str(error) == _NO_THREAD):
        return errno.ENOMEM
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return _of_sqlite(code)
    library, name = type(error).__module__.partition(".")[0], type(error).__name__
    if (library, name) == ("_duckdb", "OutOfMemoryException"):
        return errno.ENOMEM
    if name not in _TELLING.get(library, ()):
        return None
    said = next(iter(str(error).splitlines()), "")
    if found := re.search(_AT_THE_END, said):
        return _NUMBERS[found[1].lower()]
    if re.search(_NO_MEMORY, said):
        return errno.ENOMEM
    return errno.EMFILE if _no_more_files() else None


def _of_sqlite(code: int) -> int | None:
    if code in {_SQLITE_NOMEM, _SQLITE_IOERR_NOMEM}:
        return errno.ENOMEM
    plain = code & 0xFF
    if plain == _SQLITE_FULL:
        return errno.ENOSPC
    if plain == _SQLITE_CANTOPEN and _no_more_files():
        return errno.EMFILE
    # SQLite keeps the system's number to itself
    return errno.EFBIG if plain == _SQLITE_IOERR and _files_are_limited() else None


def _files_are_limited() -> bool:
    """Tell whether this process may write files of some size only."""
    try:
        import resource
    except ImportError:
        return False
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY


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
    if getattr(getattr(error, "orig", error), "sqlite_errorcode", 0) & 0xFF == _SQLITE_IOERR:
        return StoreError(f"the disk refused a read or a write: {said}", hint="look at the disk, then run again")
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


class NothingYet(NothingFound):
    """Nothing was captured yet that could be told; asking was right."""


class BudgetTooSmall(CtxError):
    """A token budget is below what the smallest useful answer needs."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
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


_SHORT_LIST = 12
"""Words of a fixed list that fit in one line."""


class UnknownChoice(UnknownName):
    """A word that must be one of a fixed list is not in it; the nearest are told, else the whole list where it is short."""

    exit_code = 2

    def __init__(self, noun: str, name: str, known: Iterable[str], *, hint: str = "") -> None:
        names = sorted(set(known))
        all_of_them = "" if len(names) > _SHORT_LIST or nearest(name, names) else f"known: {', '.join(names)}"
        super().__init__(noun, name, names, hint=hint or all_of_them)


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
