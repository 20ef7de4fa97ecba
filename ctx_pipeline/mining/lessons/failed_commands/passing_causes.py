"""Why a command failed that passes when it is run again later: the network, a rate limit, a lock, a job that has not ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.mining.lessons.commands import PROVING
from ctx_pipeline.shell.commands import command_text
from ctx_pipeline.shell.files import files_changed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ctx_pipeline.mining.lessons.commands import Run

_JOB = "a job that has not ended"
_CAUSES = {
    "the network": r"temporary failure in name resolution|could not resolve host|network is unreachable|getaddrinfo (?:failed|E[A-Z_]+)"
    r"|\bENOTFOUND\b|\bEAI_AGAIN\b|\bECONNRESET\b|\bETIMEDOUT\b|connection (?:reset|timed out)|TLS handshake timeout|read timed out"
    r"|no route to host|\b50[234]\b (?:bad gateway|service|gateway)|dial tcp: lookup",
    "a rate limit": r"\brate limit\b|too many requests|(?:\bHTTP\S{0,6}|\bstatus(?: code)?|returned error)[\s:=(]{1,3}429\b"
    r"|\bquota exceeded|\boverloaded_error\b|\b(?:server|api|model)(?: is)?(?: currently)? overloaded\b",
    "a lock": r"index\.lock|could not (?:get|acquire|obtain) lock|database is locked|resource temporarily unavailable|file lock on"
    r"|another (?:git )?process (?:seems|is)|could not lock",
    _JOB: r"is still in progress|still running|not yet (?:ready|available|complete)",
}
PASSING = {
    "the network": "the network could not be reached",
    "a rate limit": "a rate limit was reached",
    "a lock": "another process held a lock",
    _JOB: "a job had not ended yet",
}
"""Cause of a failure that passes by itself -> the clause that says it."""

_PATTERNS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _CAUSES.items())

_QUOTED = re.compile(r"\"[^\"]*\"|(?<!\w)'(?![^\s']*\.lock')[^']*'|`[^`]*`|\u2018[^\u2019]*\u2019|\u201c[^\u201d]*\u201d")
"""What a line quotes, but for the name of a lock: code or data, and no word of the program itself."""

_CODE = re.compile(
    r"(?i)assert|\bexpect|\bwant(?:ed)?\b|\bgot\b|\breceived\b|\bpanicked\b|\bundeclared\b|^\s*>?\s*\d+\s*\||^\s*\d+:\d+\s"
    r"|\.[a-z]\w{0,4}(?::\d+(?::\d+)?:|:\d+:\d+|:\d+\s|\(\d+,\d+\))"
)
"""A line of a file, or of what a test compares."""

_NETWORK = re.compile(
    r"(?:git (?:push|pull|fetch|clone|ls-remote|submodule)|docker (?:pull|push|login)|podman (?:pull|push|login)|npm (?:publish|view|login)"
    r"|gh|glab|curl|wget|ssh|scp|sftp|rsync|aws|gcloud|az|kubectl|twine)\b"
)
"""Programs whose work is a call to another machine."""

_ENDS = re.compile(
    r"(?:^|[;&|(\s])(?:(?:rm|kill|pkill|killall|systemctl)\s|git (?:checkout|switch|stash|reset|restore|apply|pull|merge|rebase|revert)\b"
    r"|docker(?:[- ]compose)? (?:restart|down|stop|up)\b)"
)
"""Takes away what held a lock, or puts other files or services in place: the failure did not pass by itself."""

_TAIL = 4000


class Passing(NamedTuple):
    """The cause of a failure that passes by itself."""

    cause: str = ""
    seen: bool = False
    """its session shows it: the same command passed later, nothing having been changed"""


def transient(run: Run, error: str) -> str:
    """Return the cause that an error line gives for a failure which passes by itself; empty for any other.

    A program that calls another machine is believed as it prints; what any other quotes is
    left out, and a check is not believed where its line quotes anything.
    """
    if _CODE.search(error):
        return ""
    if not _calls_out(run):
        said = _QUOTED.sub(" ", error)
        if run.step.purpose in PROVING and said != error:
            return ""
        error = said
    found = next((name for name, pattern in _PATTERNS if pattern.search(error)), "")
    return "" if found == _JOB and run.step.purpose in PROVING else found


def passing(run: Run, error: str, later: Sequence[Run], calls: Sequence[Any]) -> Passing:
    """Return why a failure passes by itself; none where a change of files may have ended it.

    ``later`` are the runs behind it, ``calls`` all calls of its thread.
    """
    cause = transient(run, error)
    if not cause and run.step.purpose == "install":
        cause = next(iter(_at_end(run)), "")
    if not cause:
        return Passing()
    passed = next((r for r in later if r.step.subject == run.step.subject and r.passed), None)
    if any(map(_changes, calls[run.place + 1 : passed.place if passed else None])) and (passed or not _calls_out(run)):
        return Passing()
    same = [r for r in later if r.command == run.command]
    again = cause == _JOB or any(r.failed and cause in _at_end(r) for r in same)
    return Passing(cause, any(r is passed for r in same) or (again and _calls_out(run)))


def _at_end(run: Run) -> list[str]:
    """Return the causes that the last lines of an output give."""
    return [cause for line in run.output[-_TAIL:].splitlines() if (cause := transient(run, line))]


def needs_proof(purpose: str) -> bool:
    """Tell whether several sessions with the same failure prove nothing of its cause: the program that is tested may be at fault."""
    return purpose in PROVING and purpose != "build"


def _calls_out(run: Run) -> bool:
    return run.step.purpose == "install" or bool(_NETWORK.match(run.step.subject))


def _changes(call: Any) -> bool:
    """Tell whether a call changed files, or ended what may have been in the way."""
    if call.action == "shell":
        line = command_text(call.argv)
        return bool(_ENDS.search(line) or files_changed(line))
    return call.action in ("edit", "write") and not call.is_error
