"""``ctx session``."""

from __future__ import annotations

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import moment_word
from ctx_pipeline.cli.root import LazyGroup
from ctx_pipeline.cli.session_names import complete_sessions

# ctx session: what a session is about, how far it came, what was found and decided, and how to go on with it.


_ACTIONS: dict[str, tuple[str, str]] = {
    name: (f"ctx_pipeline.cli.session.{place}", text)
    for name, place, text in (
        ("status", "states:status", "Show the state of a session, at its end or at any moment."),
        ("load", "states:load", "Bring back what a session held, for the next one."),
        ("save", "states:save", "Capture what the agents wrote up to now."),
        ("task", "states:task", "Say what the session is about."),
        ("finding", "states:finding", "Note something that was found."),
        ("decision", "states:decision", "Note a decision, with its reason and what it replaces."),
        ("list", "states:list_states", "List sessions of every agent with task, calls, tokens and cost."),
        ("cleanup", "states:cleanup", "Show old snapshots and other artifacts, and delete them."),
        ("snapshot", "blocks:snapshot", "Keep what matters of a session as XML of at most 2,048 bytes."),
        ("checkpoints", "blocks:checkpoints", "List the moments of a session that are worth going back to, which nobody has to save."),
        (
            "playbook",
            "blocks:playbook",
            "Show what a session taught: rules, calls that fail, commands that check, and how often each held.",
        ),
        ("restore", "blocks:restore", "Print the newest snapshot of this repository."),
        ("resume", "blocks:resume", "Print a block for a fresh chat."),
        ("export", "blocks:export", "Write a session's state into a file for another machine."),
        ("import", "blocks:import_bundle", "Import the state of a session that another machine wrote."),
        ("profile", "states:profile", "Show the profiles, switch to one, or try one on recorded sessions."),
        ("diff", "blocks:diff", "Show what two sessions differ by, or one at two moments."),
    )
}


class Actions(LazyGroup):
    """A group that lists its actions when an unknown one is asked for."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve an action; an unknown one lists those that exist."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise click.UsageError(f"There is no action {args[0][:60]!r}: one of {', '.join(self.list_commands(ctx))}.", ctx)
        return super().resolve_command(ctx, args)


session_option = click.option(
    "--session", "-s", "name", metavar="SESSION", help="Another session, named as in ctx show.", shell_complete=complete_sessions
)


def _moment(_ctx: click.Context, _option: click.Parameter, word: str | None) -> str | None:
    return moment_word(word, for_reading().timezone) if word else word


at_option = click.option(
    "--at", metavar="MOMENT", callback=_moment, help="As of this moment, as ctx history names them: an event, a time, before-compaction:1."
)


@click.group(cls=Actions, lazy=_ACTIONS)
def session() -> None:
    """Show a session's task and progress, and note what was found.

    Without --session it is the session whose agent runs the command, else the last one that did something of
    this folder's repository, in whichever clone or worktree it ran. Everything is drawn
    from what was captured; what you say here is kept right away, for good.
    """
