"""Little memory: libraries end their process before Python can say why, so a child does the work and its parent says it."""

from __future__ import annotations

import io
import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

LEAST = 1 << 30
"""Bytes of address space from which on no command was seen to be ended by a library."""

_NO_MEMORY = 75
"""Status of a child that ended without asking Python, as a library does."""

_BY_ITSELF, _SAID = b".", b"!"
"""What a child marks: that Python ended, that it said an error."""

_KILLED = {-getattr(signal, name) for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGKILL") if hasattr(signal, name)}
"""How a library, or the system, ends a process for want of memory; some exit instead, and Python is not asked."""


def guard() -> None:
    """Return at once, or in a child where this process is allowed less than :data:`LEAST`; its parent exits as the child does."""
    if not _is_little() or not hasattr(os, "fork") or sys.stderr is None:
        return
    import shutil
    import tempfile

    try:
        # what libraries write themselves is told only where the child ends by itself
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - entered below
    except OSError:
        return
    with kept as written:
        ended, ending = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            child = os.fork()
        except OSError:
            _fail()
        if not child:
            end_with_parent()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            _prepare(written.fileno(), ending)
            return
        os.set_blocking(ended, False)

        def pass_on(number: int, _frame: Any) -> None:
            with suppress(ProcessLookupError):
                os.kill(child, number)

        for number in ENDING:
            signal.signal(number, pass_on)
        if sys.stdin is not None and sys.stdin.isatty():  # a terminal interrupts both
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        marks = _marks(ended)
        if status in _KILLED or (status > 0 and _BY_ITSELF not in marks):
            if _SAID in marks:  # it said why, and a library ended it after that
                os._exit(1)
            _fail()
        written.seek(0)
        shutil.copyfileobj(written, sys.stderr.buffer)
        sys.stderr.flush()
    os._exit(status if status >= 0 else 128 - status)


ENDING = {signal.SIGTERM, signal.SIGINT, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ())}
"""Signals that end a command; a parent gives them on to its child."""

_ON_PARENTS_END = 1
"""PR_SET_PDEATHSIG of Linux."""


def end_with_parent() -> None:
    """Let the system end this child with its parent, where it can."""
    with suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_ON_PARENTS_END, int(signal.SIGTERM))


def _is_little() -> bool:
    try:
        import resource
    except ImportError:  # no POSIX system
        return False
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return most != resource.RLIM_INFINITY and most < LEAST


def _marks(pipe: int) -> bytes:
    try:
        return os.read(pipe, 100)
    except BlockingIOError:
        return b""


class _ErrorStream(io.TextIOWrapper):
    """The errors that a child says itself: the first one is marked."""

    mark: int | None = None

    def write(self, text: str, /) -> int:
        done = super().write(text)
        if self.mark is not None and text.startswith("ctx: "):
            os.write(self.mark, _SAID)
            self.mark = None
        return done


def _prepare(written: int, ending: int) -> None:
    """Send what libraries write into a file, say when Python ends by itself, and end where a thread has no memory to begin."""
    import atexit

    atexit.register(os.write, ending, _BY_ITSELF)
    sys.stderr.flush()
    own = os.fdopen(os.dup(2), "wb")
    sys.stderr = errors = _ErrorStream(own, encoding=sys.stderr.encoding, errors=sys.stderr.errors, line_buffering=True)
    errors.mark = ending
    os.dup2(written, 2)
    usual = sys.unraisablehook

    # whoever started the thread would wait for it for ever
    def ended(told: Any) -> None:
        if isinstance(told.exc_value, MemoryError) or told.exc_type is MemoryError:
            os._exit(_NO_MEMORY)
        usual(told)

    def failed(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if issubclass(kind, MemoryError | SystemError):  # the interpreter's own: it had none to say what was wrong
            os._exit(_NO_MEMORY)
        shown(kind, error, trace)

    shown = sys.excepthook
    sys.unraisablehook, sys.excepthook = ended, failed


def _fail() -> NoReturn:
    from ctx_pipeline.errors import scarce

    if error := scarce(MemoryError()):
        sys.stderr.write(f"ctx: {error.message}\nhint: {error.hint}\n")
        sys.stderr.flush()
    os._exit(1)
