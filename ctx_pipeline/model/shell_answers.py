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
    stopped: str = ""
    """In the answer of such a call: the agent ended the command."""
    noticed: str = ""
    """In a record that the host injects: a command that went on has ended; the group is its id."""
    noticed_exit: str = ""
    """In such a record: the exit status; a group is the number."""
    noticed_stopped: str = ""
    """In such a record: the command was ended from outside."""
    noticed_failed: str = ""
    """In such a record: the command failed."""
    exit: str = ""
    """In an answer without a recorded exit status: the status of a program that the call ran; a group is the number."""
    exit_line: str = ""
    """In an answer: the line that says the exit status."""
    background: str = ""
    """In the arguments: the command is to run in the background."""
    folder: str = ""
    """Name of the argument that holds the command's working directory."""
    keeps_folder: bool = False
    """One shell serves all commands of a thread, so that ``cd`` holds for the next one."""
    marks_errors: bool = False
    """An answered command that ended badly is always marked as an error, so that one that is not ended well."""
    head: int = 600
