"""The commands of ``ctx``: thin ones, each imported when it is called."""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ctx_pipeline.cli.output import cells, one_line, say, say_row, terminal_width
from ctx_pipeline.errors import CtxError, StoreFull, missing_extra, scarce, unreadable
from ctx_pipeline.model.process import waiting

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMANDS: dict[str, tuple[str, str]] = {
    "setup": ("ctx_pipeline.cli.integrations.setup:setup", "Choose what is watched and scheduled; every change is shown first."),
    "run": ("ctx_pipeline.cli.run:run", "Bring everything up to date and build the page."),
    "sync": ("ctx_pipeline.cli.run:sync", "Capture, normalize and index what changed, and nothing else."),
    "status": ("ctx_pipeline.cli.run:status", "Show which partitions of each asset are missing, stale or fresh."),
    "backfill": ("ctx_pipeline.cli.run:backfill", "Fill the missing and stale partitions of a signal family or any asset."),
    "schedule": ("ctx_pipeline.cli.integrations.schedule:schedule", "Capture and run on a schedule of the operating system."),
    "ui": ("ctx_pipeline.cli.run:ui", "Open the asset graph in Dagster."),
    "cost": ("ctx_pipeline.cli.everyday:cost", "What agents cost today, this week, this month, in all."),
    "open": ("ctx_pipeline.cli.everyday:open_page", "Open the page in the browser."),
    "resume": ("ctx_pipeline.cli.everyday:resume", "Print the command that continues a session in its agent."),
    "help": ("ctx_pipeline.cli.everyday:show_help", "Show the commands of a group, or the help of a command."),
    "completion": ("ctx_pipeline.cli.everyday:completion", "Print what completes names in bash, zsh or fish."),
    "list": ("ctx_pipeline.cli.sessions:list_sessions", "List the sessions in the homes, captured or not."),
    "import": ("ctx_pipeline.cli.sessions:import_sessions", "Capture and normalize chosen sessions."),
    "adopt": ("ctx_pipeline.cli.export:adopt", "Import the sessions of another archive or store."),
    "show": ("ctx_pipeline.cli.sessions:show", "Show one session."),
    "render": ("ctx_pipeline.cli.usage.explain:render", "Print one session as Markdown; --share for others to read."),
    "files": ("ctx_pipeline.cli.reports.files:files", "List the files that a session changed, or the sessions that changed a file."),
    "usage": ("ctx_pipeline.cli.usage.commands:usage", "Tokens and cost by day, session, project, model, tool or window."),
    "work": ("ctx_pipeline.cli.reports.work:work", "Report what agents did: commands, tools, failure rates, transitions."),
    "hints": ("ctx_pipeline.cli.reports.work:hints", "Recommend what would save time or money, with the sessions that show it."),
    "explain": ("ctx_pipeline.cli.usage.explain:explain", "Show the model calls behind a number."),
    "history": ("ctx_pipeline.cli.history:history", "Show what was in a session's context window, at any event."),
    "session": ("ctx_pipeline.cli.session:session", "State of a session: task, progress, snapshots and handoff."),
    "run-command": ("ctx_pipeline.cli.run_command:run_command", "Run a command and print its output in fewer tokens."),
    "recall": ("ctx_pipeline.cli.run_command:recall", "Print a part of an output that was shortened."),
    "compress": ("ctx_pipeline.cli.reports.compression:compress", "Compress files, or what a session had in its context window."),
    "analyze": ("ctx_pipeline.cli.reports.compression:analyze", "Measure a file: entropy, and what every compressed form costs and keeps."),
    "benchmark": ("ctx_pipeline.cli.reports.compression:benchmark", "Measure every compressed form over a file or a sample of a project."),
    "heatmap": ("ctx_pipeline.cli.reports.files:heatmap", "Show which files agents read and changed, and which were never touched."),
    "cache": ("ctx_pipeline.cli.reports.files:cache", "Show which files the context window holds, and why files were read again."),
    "gain": ("ctx_pipeline.cli.reports.gain:gain", "Show what was spent, what the cache saved, and what was avoidable."),
    "metrics": ("ctx_pipeline.cli.reports.gain:metrics", "Show reads, repeats, tokens and cost of a session by tool, method and file."),
    "wrapped": ("ctx_pipeline.cli.reports.gain:wrapped", "Show a week, a month or everything as a card."),
    "verify": ("ctx_pipeline.cli.maintenance.commands:verify", "Check every stage, and the limits over all sessions."),
    "artifacts": ("ctx_pipeline.cli.reports.artifacts:artifacts", "List, show, search and remove snapshots and other artifacts."),
    "prices": ("ctx_pipeline.cli.usage.explain:prices", "Show list prices and install a newer list."),
    "search": ("ctx_pipeline.cli.search:search", "Search prompts, answers, commands and tool output."),
    "sql": ("ctx_pipeline.cli.search:sql", "Run a SELECT over the tables."),
    "signal": ("ctx_pipeline.cli.signal:signal", "List, run and show signals."),
    "mine": ("ctx_pipeline.cli.memory.mining:mine", "Mine sessions for memory candidates."),
    "methods": ("ctx_pipeline.cli.memory.commands:methods", "List the mining methods."),
    "memory": ("ctx_pipeline.cli.memory.commands:memory", "Memories: search, review, put into prompts (weave), notes, backtest."),
    "learn": ("ctx_pipeline.cli.memory.learn:learn", "Judge the lessons that would have saved most, write them into a rules file."),
    "mcp": ("ctx_pipeline.cli.integrations.mcp:mcp", "Serve the history and the memories to an agent over MCP."),
    "hooks": ("ctx_pipeline.cli.integrations.hooks:hooks", "Install hooks: capture sessions live, put memories into prompts."),
    "quest": ("ctx_pipeline.cli.quest:quest", "Three goals a day, drawn from your own habits."),
    "rot": ("ctx_pipeline.cli.rot:rot", "Analyze, export and watch DSPy programs and context rot."),
    "dashboard": ("ctx_pipeline.cli.page.dashboard:dashboard", "Build, open and serve the page."),
    "config": ("ctx_pipeline.cli.integrations.setup:config", "Show and change the settings."),
    "doctor": ("ctx_pipeline.cli.maintenance.commands:doctor", "Check the store and list unreadable records."),
    "repair": ("ctx_pipeline.cli.maintenance.repair:repair", "Mend damaged files of the store; name what is lost."),
    "encrypt": ("ctx_pipeline.cli.maintenance.repair:encrypt", "Encrypt the raw records of the store, or say whether they are."),
    "backup": ("ctx_pipeline.cli.maintenance.repair:backup", "Copy the store to a folder and prove the copy."),
    "restore": ("ctx_pipeline.cli.maintenance.repair:restore", "Put a backup in the place of the store."),
    "export": ("ctx_pipeline.cli.export:export", "Write the tables as files for other programs."),
    "forget": ("ctx_pipeline.cli.maintenance.commands:forget", "Remove sessions from every layer, for good."),
    "team": ("ctx_pipeline.cli.team:team", "Share usage, facts and lessons with a team, by project and policy."),
    "publish": ("ctx_pipeline.cli.team:publish", "Send what changed to the team, by the policy of each project."),
    "hub": ("ctx_pipeline.cli.team:hub", "Bring together what a team published, and build its page."),
}

_EVERYDAY: dict[str, dict[str, str]] = {
    "What happened": {
        "list": "Sessions, newest first",
        "show": "One session: cost, window, what stands out; its --turns",
        "search": "Find a prompt, answer, command or error",
        "work": "Where time went (--time), what failed, how often",
        "open": "Read it all in the browser",
        "render": "A session as Markdown; --share for others to read",
    },
    "What it cost": {
        "cost": "Today, this week, this month, in all",
        "usage": "By day, session, project, model, tool",
        "explain": "The calls behind a number",
    },
    "What to do next": {
        "resume": "Continue a session in its agent",
        "hints": "What would save time or money",
        "learn": "Lessons for the next session",
        "memory": "Review and search lessons",
    },
    "Keep it going": {
        "run": "Read what is new and build the page",
        "setup": "Choose what is watched and scheduled",
        "doctor": "Check the store; records that could not be read",
    },
}
"""What ``ctx --help`` shows: a heading, then commands with one plain line each; one that does not exist is left out."""

GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "sessions": (
        "Sessions",
        ("list", "show", "search", "resume", "open", "files", "history", "session", "render", "import", "adopt", "forget"),
    ),
    "costs": ("Tokens and cost", ("cost", "usage", "explain", "prices", "gain", "metrics", "cache", "wrapped")),
    "lessons": ("Lessons and advice", ("hints", "learn", "memory", "mine", "methods", "work", "signal")),
    "agents": ("Agents and their settings", ("setup", "hooks", "mcp", "run-command", "recall", "schedule", "config", "completion")),
    "pipeline": (
        "The pipeline and its store",
        (
            "run",
            "sync",
            "status",
            "backfill",
            "ui",
            "doctor",
            "verify",
            "repair",
            "backup",
            "encrypt",
            "restore",
            "dashboard",
            "sql",
            "export",
            "forget",
        ),
    ),
    "team": ("Many machines, one team", ("team", "publish", "hub")),
    "lab": (
        "Measuring and compressing context",
        ("rot", "compress", "analyze", "benchmark", "heatmap", "cache", "history", "artifacts", "signal", "quest"),
    ),
}
"""name -> (title, commands), shown by ``ctx help NAME``; together they hold every command."""


class _ReaderGone(Exception):
    """Nobody reads the output any more."""


def _tell_left_out() -> None:
    """Name on stderr the person's files and the plug-ins that a command found it cannot use."""
    discovery = sys.modules.get("ctx_pipeline.discovery")
    found: dict[str, str] = discovery.left_out() if discovery is not None else {}
    for place, why in found.items():
        say(one_line(f"left out: {why}" if place in why else f"left out: {place}: {why}", 400), fg="yellow", err=True)
    storage = sys.modules.get("ctx_pipeline.storage")
    for sentence in storage.notices() if storage is not None else ():
        say(one_line(sentence, 400), fg="yellow", err=True)


class LazyGroup(click.Group):
    """A group whose commands are imported when they run; help needs none of them."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, tuple[str, str]] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click itself would call it a failure when the reader of the output goes (``| head``)."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGone from None
        finally:
            _tell_left_out()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of a day's work, not of the alphabet."""
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        place = self._lazy.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = place[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; an unknown one names the nearest."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            own = difflib.get_close_matches(args[0], self.list_commands(ctx), n=2) if args else []
            below = self._below(ctx) if args and ctx.parent is None and not own else {}
            near = own or [below[name] for name in (difflib.get_close_matches(args[0], below, n=2) if args else ())]
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(near)}?", ctx) from None

    def _below(self, ctx: click.Context) -> dict[str, str]:
        """Return the commands of the commands, by their last word."""
        groups = {name: command for name in self.list_commands(ctx) if isinstance(command := self.get_command(ctx, name), click.Group)}
        return {last: f"{name} {last}" for name, group in groups.items() for last in group.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the command list without importing a command."""
        rows = [(name, text) for name, (_, text) in self._lazy.items()]
        rows += [(name, command.get_short_help_str()) for name, command in sorted(self.commands.items())]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class _Root(LazyGroup):
    """The commands of every day by what they are for; the others by group."""

    def line_of(self, name: str) -> str:
        """Return what a command does, in one line."""
        return self._lazy[name][1] if name in self._lazy else ""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options, which are few."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the commands of every day, then how to find the others."""
        for heading, commands in _EVERYDAY.items():
            with formatter.section(heading):
                formatter.write_dl([(name, text) for name, text in commands.items() if name in self._lazy])
        with formatter.section("More"):
            known = [("ctx help questions", "what people ask, each with the command that answers it")]
            known += [(f"ctx help {name}", ", ".join(one for one in names if one in self._lazy)) for name, (_, names) in GROUPS.items()]
            formatter.write_dl(known)


@click.group(
    cls=_Root,
    lazy=_COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: ctx run. Without sessions of your own it shows sample ones.",
)
@click.version_option(None, "-V", "--version", package_name="ctx-pipeline", prog_name="ctx")
@click.option("--json", "as_json", is_flag=True, help="Without a command: print last week and the findings as one JSON object.")
@click.pass_context
def cli(context: click.Context, as_json: bool) -> None:
    """The records of your coding agents: what they did, what it cost, what to tell the next session.

    Without a command: this week in one look. A SESSION is the beginning of its id, latest,
    latest~2, yesterday, words of its title, its project (the newest there in which a tool was
    called) or a transcript file.
    """
    if context.invoked_subcommand not in {"forget", "doctor"}:
        _end_forgetting()
    if context.invoked_subcommand is None:
        from ctx_pipeline.cli.overview import overview

        overview(as_json=as_json)
    elif as_json:
        raise click.UsageError(f"--json goes after the command: ctx {context.invoked_subcommand} ... --json")


def _end_forgetting() -> None:
    """End a forgetting that was interrupted, whatever the command is; one that shows a session refuses where this fails."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.storage import FORGETTING

    if not (settings_module.bare().home / FORGETTING).exists():
        return
    from ctx_pipeline.cli.homes import end_forgetting

    try:
        end_forgetting(settings_module.load())
    except CtxError as error:
        say(one_line(f"a forgetting that was interrupted cannot be ended: {error.message}", 400), fg="red", err=True)


def run(args: list[str] | None = None) -> None:
    """Run ``ctx`` and exit: 0 done, 1 it failed, 2 wrong usage, 130 interrupted."""
    waiting.listeners[:] = [lambda sentence: say(sentence, err=True)]
    try:
        try:
            code = cli.main(args=args, prog_name="ctx", standalone_mode=False)
        except CtxError as error:
            from ctx_pipeline.cli.maintenance.ledger_repair import repaired

            if not repaired(error, sys.argv[1:] if args is None else args):
                raise
            code = cli.main(args=args, prog_name="ctx", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        say("interrupted", err=True)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        sys.exit(0)
    except click.UsageError as error:
        _wrong_usage(error, sys.argv[1:] if args is None else args)
    except click.ClickException as error:
        say(f"ctx: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except CtxError as error:
        _fail(error if isinstance(error, StoreFull) else scarce(error) or error)
    except (_ReaderGone, BrokenPipeError):
        # the reader has gone (ctx list | head); keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        damage = scarce(error) or unreadable(error) or (missing_extra(error) if isinstance(error, ModuleNotFoundError) else None)
        if damage is None:
            raise
        _fail(damage)


_WORDINGS = (
    (r"Invalid value for '([^']+)': (.*) is not a valid integer(?: range)?", r"\1 takes a whole number, not \2"),
    (r"Invalid value for '([^']+)': (.*) is not a valid float(?: range)?", r"\1 takes a number, not \2"),
    (r"Invalid value for '([^']+)': (.*) is not in the range (.*)", r"\1 takes a number in the range \3, not \2"),
    (r"Invalid value for '[\[{][^']+': (.*) is not one of (.*)", r"\1 is none of \2"),
    (r"Missing argument '[\[{][^']+'. Choose from: (.*)", r"say which: \1"),
    (r"Invalid value for '([^']+)': (.*) is not one of (.*)", r"\1 takes one of \3, not \2"),
    (r"Option '([^']+)' requires an argument", r"\1 takes a value"),
)
"""Sentences of click about a value, and the same as this program says it: what is wanted, then what was given."""


def _in_our_words(error: click.UsageError) -> str:
    said = " ".join(error.format_message().split()).rstrip(".")
    return next((re.sub(pattern, words, said) for pattern, words in _WORDINGS if re.fullmatch(pattern, said)), said)


def _command_path(args: list[str]) -> str:
    """Return the command that words name, as far as they name one: an option without its value knows of none."""
    command: click.Command = cli
    path = "ctx"
    for word in args:
        found = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if found is None:
            break
        command, path = found, f"{path} {word}"
    return path


def _wrong_usage(error: click.UsageError, args: list[str]) -> NoReturn:
    """Say what is wrong with the words of a command as every other error is said; the status is 2."""
    said = _in_our_words(error)
    say(f"ctx: {said[:1].lower()}{said[1:]}", err=True)
    path = error.ctx.command_path if error.ctx is not None else _command_path(args)
    say(f"hint: {path} --help", err=True)
    sys.exit(error.exit_code)


def _fail(error: CtxError) -> NoReturn:
    say(f"ctx: {error.message}", err=True)
    if error.hint:
        _say_hint(f"hint: {error.hint}")
    sys.exit(error.exit_code)


def _say_hint(hint: str) -> None:
    """Say a hint; of sessions that it lists on a terminal the ids are shortened where a line is too long, then the titles."""
    room = terminal_width(err=True)
    if room is None or all(cells(line) <= room for line in hint.splitlines()) or "\n" not in hint:
        say(hint, err=True)
        return
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.cli.session_names import short_names

    listed = re.findall(r"^  \w+/(\S+)  ", hint, re.MULTILINE)
    for whole, short in short_names(listed, settings_module.bare()).items():
        hint = hint.replace(f"/{whole}  ", f"/{short}  ")
    for line in hint.splitlines():
        say_row(line, err=True)
