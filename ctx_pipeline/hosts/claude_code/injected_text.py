"""Tells what a person typed from what Claude Code put into the user's mouth."""

from __future__ import annotations

import re
from typing import NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

INJECTED_TAGS = frozenset(
    {
        "bash-input",
        "bash-stderr",
        "bash-stdout",
        "command-args",
        "command-contents",
        "command-message",
        "command-name",
        "ide_diagnostics",
        "ide_opened_file",
        "ide_selection",
        "local-command-caveat",
        "local-command-stderr",
        "local-command-stdout",
        "new-diagnostics",
        "session-start-hook",
        "system-reminder",
        "task-notification",
        "teammate-message",
        "tick",
        "user-memory-input",
        "user-prompt-submit-hook",
    },
)
"""Tags that open a text which the client wrote, not the person."""

BY_PERSON = frozenset({"bash-input", "command-message", "command-name", "interrupt", "user-memory-input"})
"""Texts that the client wrote about something the person did."""

_TAG = lazy_pattern(r"<([a-z][a-z0-9_-]{1,40})[\s/>]")
_REMINDER = lazy_pattern(r"<system-reminder>(?:.*</system-reminder>|.*\Z)", re.DOTALL)
"""To the last end: a file that a reminder quotes may hold such a tag, and what follows it would stand there as the person's words."""

_OPENINGS = (
    ("[Request interrupted by user", "interrupt"),
    ("Caveat: The messages below were generated", "local-command-caveat"),
    ("This session is being continued from a previous conversation", "continuation"),
    ("Base directory for this skill:", "skill"),
    ("Stop hook feedback:", "hook-feedback"),
    ("Operation stopped by hook:", "hook-feedback"),
)


CLIENT_COMMANDS = frozenset(
    {
        "add-dir",
        "agents",
        "clear",
        "color",
        "compact",
        "config",
        "context",
        "cost",
        "doctor",
        "effort",
        "exit",
        "export",
        "fast",
        "help",
        "hooks",
        "ide",
        "login",
        "logout",
        "mcp",
        "memory",
        "model",
        "output-style",
        "permissions",
        "plugin",
        "rename",
        "resume",
        "rewind",
        "skills",
        "stats",
        "status",
        "statusline",
        "terminal-setup",
        "theme",
        "usage",
        "vim",
    }
)
"""Slash commands that the client carries out by itself: what is typed behind them never reaches the model as a request."""

_COMMAND = frozenset({"command-message", "command-name"})
_COMMAND_NAME = lazy_pattern(r"<command-name>\s{0,9}/?([^<\s]{1,200})")
_COMMAND_ARGUMENTS = lazy_pattern(r"<command-args>(.*?)</command-args>", re.DOTALL)


class Part(NamedTuple):
    """A stretch of a user text: ``injected`` names what put it there, None for the person's words."""

    text: str
    injected: str | None


def injected_by(text: str) -> str | None:
    """Return what wrote a user text (a tag or a name of ours), None when the person did."""
    first = text[:1]
    if first.isspace():
        text = text.lstrip()
        first = text[:1]
    if first == "<":
        match = _TAG.match(text)
        return match[1] if match and match[1] in INJECTED_TAGS else None
    if first in "[CTBSO":
        for opening, name in _OPENINGS:
            if text.startswith(opening):
                return name
    return None


def command_arguments(text: str, author: str | None) -> str:
    """Return what the person typed behind a slash command that asks the model; empty without such words."""
    if author not in _COMMAND or (found := _COMMAND_ARGUMENTS.search(text)) is None:
        return ""
    name = _COMMAND_NAME.search(text)
    return "" if name is not None and name[1] in CLIENT_COMMANDS else found[1].strip()


def split_reminders(text: str) -> list[Part]:
    """Return the person's words and the reminders that were glued to them, in order."""
    parts: list[Part] = []
    last = 0
    for match in _REMINDER.finditer(text):
        before = text[last : match.start()].strip()
        if before:
            parts.append(Part(before, injected_by(before)))
        parts.append(Part(match[0], "system-reminder"))
        last = match.end()
    rest = text[last:].strip()
    if rest or not parts:
        parts.append(Part(rest if parts else text, injected_by(rest)))
    return parts
