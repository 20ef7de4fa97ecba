"""``ctx hook``: what agents run. It answers at once or not at all, and never fails.

Written for a process that starts at every prompt: nothing heavy is imported, no option
is refused (an exit status of 2 would block the person's prompt), every failure is a line
in ``hooks.log``.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ctx_pipeline.cli.little_memory import ENDING, end_with_parent
from ctx_pipeline.memory.hook_words import read
from ctx_pipeline.model.hook_kinds import CAPTURE, PREPARE, SHORTEN, WEAVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ctx_pipeline.settings import Settings

LOG = "hooks.log"
DEADLINE, PREPARED = 1.0, 20.0
"""Seconds after which the hook ends without an answer, and what a hook started beside it without a result."""

_LARGEST_LOG = 256 * 1024
_LARGEST_PAYLOAD = 8 << 20
_EMPTIED = ("clear", "compact")
"""Sources of a session's start after which its window holds nothing of what it was shown."""

_COMPACTING = b'"PreCompact"'
"""Stands in the payload of a hook before a compaction."""

_ENDED = b'"SessionEnd"'
"""Stands in the payload of a hook at the end of a session."""

_LEAST_SHORTENED = 1_200
"""Bytes of a payload from which on its output may be worth shortening."""


def answer(words: Sequence[str]) -> None:
    """Answer a hook of an agent, asked on standard input, and end the process with 0."""
    from ctx_pipeline import settings as settings_module

    _end_quietly()
    _alone_where_memory_is_limited()
    # the process ends before there is anything to collect
    gc.disable()
    does, host, named = _read(words)
    try:
        settings = settings_module.bare(named.get("home"))
    except OSError:
        # a store named from a working folder that is gone: there is no log to write to either
        os._exit(0)
    late = _Late(settings, does, host)
    deadline = threading.Timer(late.seconds, late.give_up)
    deadline.daemon = True
    deadline.start()
    try:
        if does == CAPTURE:
            # an agent that keeps the pipe open must not hold it up
            _capture(settings)
        payload = sys.stdin.buffer.read(_LARGEST_PAYLOAD + 1)
        if does in (WEAVE, SHORTEN):
            answer = _weave(payload, host, named, settings, late) if does == WEAVE else _shorten(payload, host, settings)
            late.turn.acquire()  # where it was told already the process ends there
            if answer:
                _print(answer)
        elif does == PREPARE:
            _prepare(payload, host, settings)
        elif does == CAPTURE:
            if _COMPACTING in payload and len(payload) <= _LARGEST_PAYLOAD:
                _start(settings, "hook", PREPARE, host, payload=payload)
            if _ENDED in payload[:_LARGEST_PAYLOAD] and settings.in_team:
                # waits for the sync, and says in the log what it sent
                _start(settings, "publish", "--auto")
        else:
            log(settings.home, f"{does!r} is nothing that a hook does")
    except _Ended as ended:
        log(settings.home, f"{does} {host}: ended by {ended}")
    except BaseException as error:  # noqa: BLE001 - an agent goes on whatever happens here
        log(settings.home, f"{does} {host}: {type(error).__name__}: {error}")
    # no thread, handler or buffer may change the status now
    os._exit(0)


def _alone_where_memory_is_limited() -> None:
    """Go on in a child, which a library may end for want of memory: its words go nowhere, and this process ends with 0."""
    try:
        import resource
    except ImportError:  # no POSIX system
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    if child := os.fork():
        for number in _heeded():
            signal.signal(number, lambda number, _frame: os.kill(child, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.waitpid(child, 0)
        os._exit(0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    end_with_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    if os.getppid() != parent:
        os._exit(0)


class _Late:
    """What a hook does whose time is over: it tells what was ready, and has what it could not work out kept for the next one."""

    def __init__(self, settings: Settings, does: str, host: str) -> None:
        self.answer = b""
        self.logs: Callable[[], bool] | None = None
        """what logs that the answer is told, and tells whether it is for the first time; none where that was done"""
        self.payload = b""
        """of the start of a session, while where the last one stood is worked out"""
        self.seconds = PREPARED if does == PREPARE else DEADLINE
        self.turn = threading.Lock()
        """who has it tells, and nobody after that"""
        self._settings, self._does, self._host = settings, does, host

    def tell(self, answer: bytes, logs: Callable[[], bool] | None = None) -> None:
        """Have this told where the time is over, once it was logged."""
        self.logs, self.answer = logs, answer

    def give_up(self) -> None:
        """End the process with 0."""
        try:
            ready = self.answer if self.turn.acquire(blocking=False) else b""
            try:
                if ready and self.logs and not self.logs():
                    ready = b""
            except Exception as error:  # noqa: BLE001 - what was not logged is not told
                ready = b""
                log(self._settings.home, f"{self._does} {self._host}: {type(error).__name__}: {error}")
            if self._does != CAPTURE:  # that one has begun, and waits for the end of the payload alone
                told = f", told what was ready: {len(ready):,} bytes" if ready else ""
                log(self._settings.home, f"{self._does} {self._host}: no answer within {self.seconds:g} s{told}")
            if ready:
                _print(ready)
            if self.payload:
                _start(self._settings, "hook", PREPARE, self._host, payload=self.payload)
        finally:
            os._exit(0)


class _Ended(BaseException):
    """A signal said that nobody waits for the answer: what was begun is cleared away."""


def _end_quietly() -> None:
    """Let a signal that ends a command end this one as everything else does: without a word, a temporary file or a child that goes on."""

    def ended(number: int, _frame: object) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise _Ended(signal.Signals(number).name)

    for number in _heeded():
        signal.signal(number, ended)


def _heeded() -> list[signal.Signals]:
    """Return the signals that end this process: who starts one under nohup has it ignore some."""
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def _read(words: Sequence[str]) -> tuple[str, str, dict[str, str]]:
    """Return what to do, for which host, and the options; what is unknown is left alone."""
    plain, named = read(words)
    does, host, *_ = [*plain, "", ""]
    return does, host, named


def _print(answer: bytes) -> None:
    """Write all of an answer: a pipe takes a long one in parts."""
    while answer:
        answer = answer[os.write(1, answer) :]


def _shorten(data: bytes, host: str, settings: Settings) -> bytes:
    """Return the answer by which the model reads a shorter output; nothing where the output stays as it is."""
    if len(data) < _LEAST_SHORTENED or len(data) > _LARGEST_PAYLOAD or not settings.home.is_dir():
        return b""
    import json

    from ctx_pipeline.compression.hook_output import replacement

    payload: Any = json.loads(data)
    told = replacement(payload, host, settings) if isinstance(payload, dict) else None
    return json.dumps(told).encode() if told else b""


def _weave(data: bytes, host: str, named: dict[str, str], settings: Settings, late: _Late) -> bytes:
    """Return what goes to the agent: nothing, or JSON with the note as additional context."""
    if not settings.home.is_dir():
        return b""
    from ctx_pipeline.storage import FORGETTING

    if (settings.home / FORGETTING).exists():
        _start(settings, "forget", "--finish")
        return b""
    from ctx_pipeline import recorded_paths

    # every answer looks at a folder: the helper starts while this process imports
    recorded_paths.begin()
    import json

    from ctx_pipeline.learning.injection import inject
    from ctx_pipeline.memory.injection_policy import parse_options

    payload: Any = json.loads(data) if len(data) <= _LARGEST_PAYLOAD else None
    if not isinstance(payload, dict):
        raise TypeError("the payload is no JSON object")
    if "outputs" in named and payload.get("source") in _EMPTIED:
        from ctx_pipeline.compression.shown_lines import forget_shown, window_of

        forget_shown(window_of(payload, host), settings)
    late.payload = data
    note = _resume(payload, host, named, settings, late)
    late.payload = b""
    late.tell(_context(payload, note) if note else b"")
    try:
        note += inject(payload, host=host[:40], choice=parse_options(named), settings=settings)
    except Exception as error:
        if not note:
            raise
        log(settings.home, f"{WEAVE} {host}: {type(error).__name__}: {error}")
    if not note:
        return b""
    return _context(payload, note)


def _context(payload: dict[str, Any], note: str) -> bytes:
    """Return a note as the answer of a hook."""
    import json

    return json.dumps({"hookSpecificOutput": {"hookEventName": payload["hook_event_name"], "additionalContext": note}}).encode()


def _prepare(data: bytes, host: str, settings: Settings) -> None:
    """Keep what the session will be told after its compaction: that takes longer than the hook after it may."""
    import json

    from ctx_pipeline.sessions.states.handoff import prepare
    from ctx_pipeline.storage import FORGETTING

    payload: Any = json.loads(data)
    if isinstance(payload, dict) and settings.home.is_dir() and not (settings.home / FORGETTING).exists():
        prepare(payload, host=host[:40], settings=settings)


def _resume(payload: dict[str, Any], host: str, named: dict[str, str], settings: Settings, late: _Late) -> str:
    """Return where the session stood, right after its window was emptied, or where the last one here stood; never raises."""
    wanted = "no-resume" not in named if payload.get("source") == "compact" else "handoff" in named
    if payload.get("hook_event_name") != "SessionStart" or not wanted:
        return ""
    try:
        from ctx_pipeline.sessions.states.handoff import resume

        text = resume(payload, host=host[:40], settings=settings, spare=lambda text, logs: late.tell(_context(payload, text), logs))
    except Exception as error:  # noqa: BLE001 - the memories are told all the same
        log(settings.home, f"resume {host}: {type(error).__name__}: {error}")
        return ""
    if text:
        log(settings.home, f"resume {host}: {len(text):,} characters for session {payload.get('session_id')}")
    return text


def _capture(settings: Settings) -> None:
    """Start a sync that outlives this process and the agent's own."""
    _start(settings, "sync", "--figures")


def _start(settings: Settings, *words: str, payload: bytes = b"") -> None:
    """Start a command of ours that outlives this process and the agent's own, and hand it what the agent said."""
    import subprocess

    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # -P: a module of the agent's working folder must not stand in for one of ours
    command = [sys.executable, "-P", "-m", "ctx_pipeline", *words]
    with open(_opened(settings.home), "ab") as errors:
        os.utime(errors.fileno())  # `ctx doctor` tells when a hook last ran
        started = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.PIPE if payload else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            cwd=settings.home,
            env={**os.environ, "CTX_HOME": str(settings.home)},
        )
    if started.stdin:
        with started.stdin:
            started.stdin.write(payload)


def log(home: Path, text: str) -> None:
    """Add a line to the log of hooks, where there is a store; never raises."""
    try:
        if not home.is_dir():
            return
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        said = "".join(ch if ch.isprintable() else " " for ch in text)
        descriptor = _opened(home)
        try:
            os.write(descriptor, f"{at} {' '.join(said.split())[:500]}\n".encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except OSError:
        return


def _opened(home: Path) -> int:
    """Return the log, opened to add to it; a long one is kept once as ``hooks.log.1``."""
    path = home / LOG
    try:
        if path.stat().st_size > _LARGEST_LOG:
            path.replace(home / f"{LOG}.1")
    except FileNotFoundError:
        pass
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
