"""Where a word stands that is no command: questions, options and the help of commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.help.questions import QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def mentions(words: Sequence[str], command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return (command line, what says it) in which all the words stand: questions first, then options, then other commands.

    A word also stands in another form that begins with it.
    """
    found = [re.compile(rf"(?i)(?<!\w){re.escape(word.rstrip('s') or word)}") for word in words]

    def holds(text: str) -> bool:
        return all(pattern.search(text) for pattern in found)

    asked = [(line, question) for question, line in QUESTIONS if holds(f"{question} {line}")]
    options: list[tuple[str, str]] = []
    commands: list[tuple[str, str]] = []
    for one, inside in _all_of(command, context):
        fitting = [p for p in one.params if isinstance(p, click.Option) and not p.hidden and holds(f"{' '.join(p.opts)} {p.help or ''}")]
        needs = "".join(f" {p.human_readable_name.upper()}" for p in one.params if isinstance(p, click.Argument) and p.required)
        # many commands have the same option: it is said once
        options += [(f"{inside.command_path}{needs} {p.opts[0]}", p.help or "") for p in fitting if p.help not in {h for _, h in options}]
        if not fitting and holds(f"{inside.command_path} {one.help or ''}"):
            commands.append((inside.command_path, one.get_short_help_str(100)))
    return [*asked, *options, *commands]


def _all_of(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield the commands below a group, at any depth, each with its context."""
    if not isinstance(command, click.Group):
        yield command, context
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from _all_of(below, click.Context(below, info_name=name, parent=context))
