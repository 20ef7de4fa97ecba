"""How a host's records say that a command goes on, that a call waits for it, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShellAnswers:
    """Phrases of a host around shell commands, as patterns of :mod:`re`; an empty one matches nothing.

    Only the first ``head`` characters of arguments and answers are looked at: what a
    command prints stands behind them.
    """

    running: str = ""
    """In the answer of a call: its command goes on. The group that matched is the id by which later calls wait for it."""
    waits: str = ""
    """In the arguments of a call that runs no command: it waits for a command, writes to it or stops it; a group is its id."""
    goes_on: str = ""
    """In the answer of such a call: the command goes on."""
    stops: str = ""
    """In the arguments of such a call: the agent ends the command."""
    stopped: str = ""
    """In the answer of such a call: the agent ended the command."""
    refused: str = ""
    """In an answer marked as an error: the command was kept from running, or the person stopped it; a group is the reason."""
    output: str = ""
    """In an answer: what a program printed, as a JSON string; a group is the string."""
    notices: frozenset[str] = frozenset()
    """Subtypes of the injected events that say how a command in the background ended."""
    notice: str = ""
    """In such an event: the id of the command, a group."""
    notice_exit: str = ""
    """In such an event: the exit status, a group."""
    exit: str = ""
    """In an answer without a recorded exit status: the status of a program that the call ran; a group is the number."""
    exit_line: str = ""
    """In an answer: the line that says the exit status."""
    background: str = ""
    """In the arguments: the command is to run in the background."""
    folder: str = ""
    """Name of the argument that holds the command's working directory."""
    keeps_folder: bool = False
    """``cd`` in a command that ended well holds for the next one of the thread."""
    folder_reset: str = ""
    """At the end of an answer: the shell was put back into a folder, a group."""
    marks_errors: bool = False
    """An answered command that ended badly is always marked as an error, so that one that is not ended well."""
    head: int = 600
