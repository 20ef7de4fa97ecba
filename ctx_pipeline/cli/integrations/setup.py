"""``ctx setup``: a person's first choices, shown before anything is done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.integrations.schedule import EVERY, jobs
from ctx_pipeline.cli.output import confirm, emit, json_option, plain, say, table
from ctx_pipeline.model.display import size

if TYPE_CHECKING:
    from ctx_pipeline.integrations.setup import Choice, Home
    from ctx_pipeline.settings import Settings


@click.command()
@click.option("--hosts", metavar="NAMES", help="Hosts to watch, separated by commas; all that are found by default.")
@click.option("--ignore", multiple=True, metavar="GLOB", help="Paths that are never captured; may be repeated.")
@click.option("--hooks", metavar="NAMES", help="Hosts that get hooks: capture as they write, and memories at prompts.")
@click.option("--schedule/--no-schedule", default=None, help=f"Capture every {EVERY} minutes and run at night by the operating system.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask; what is not given is left as it is.")
@json_option
def setup(
    hosts: str | None, ignore: tuple[str, ...], hooks: str | None, schedule: bool | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Choose what is watched and scheduled.

    Asks for what the options do not say, shows every change with the command that makes
    it alone, and asks once more before anything is done. The agents' own files are only
    touched where hooks are wanted. Run it again at any time: what is set stays set.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import setup as setting_up

    settings = settings_module.load()
    found = setting_up.homes(settings)
    counted = _counted(settings, found)
    if not as_json:
        _show(settings, found, counted)
    asks = not (yes or dry_run or as_json)
    choice = _ask_choices(found, _keys(hosts), ignore, _keys(hooks) or [], schedule=schedule, nightly=settings.nightly, asks=asks)
    steps = setting_up.steps(settings, choice)
    if not as_json:
        say("nothing to change" if not steps else "this will be done:")
        for number, step in enumerate(steps, 1):
            say(f"  {number}. {plain(step.what)}")
            say(f"     by itself: {step.command}")
    if dry_run or not steps:
        done = [{**step._asdict(), "done": False, "problem": "", "hint": ""} for step in steps]
    else:
        if not yes:
            confirm("Do it?")
        done = setting_up.carry_out(settings, choice)
    if as_json:
        emit({"homes": counted, "steps": done})
    else:
        for one in done:
            if one["problem"]:
                say(f"not done: {one['what']}: {one['problem']}\n  {one['hint']}", err=True, fg="red")
        say("now: ctx run")
    if any(one["problem"] for one in done):
        raise SystemExit(1)


def _keys(text: str | None) -> list[str] | None:
    from ctx_pipeline import discovery

    return None if text is None else [discovery.host(name.strip()).key for name in text.split(",") if name.strip()]


def _counted(settings: Settings, found: list[Home]) -> list[dict[str, Any]]:
    from ctx_pipeline.usage.homes import live_usage as live

    rows = []
    for home in found:
        own = [s for s in live.sources(settings, host=home.host) if s.root == str(home.path)]
        rows.append(
            {"host": home.host, "path": str(home.path), "sessions": len(own), "bytes": sum(s.size for s in own), "hooks": home.hooks}
        )
    return rows


def _show(settings: Settings, found: list[Home], counted: list[dict[str, Any]]) -> None:
    for home, row in zip(found, counted, strict=True):
        say(f"{home.title}: {plain(str(home.path))}, {row['sessions']:,} session files, {size(row['bytes'])}")
    if not found:
        say("no home of an agent is here; ctx run shows sample sessions")
    say(f"the store: {plain(str(settings.home))}, readable by you alone; nothing leaves this machine")


def _ask_choices(
    found: list[Home],
    hosts: list[str] | None,
    ignore: tuple[str, ...],
    hooks: list[str],
    *,
    schedule: bool | None,
    nightly: str,
    asks: bool,
) -> Choice:
    """Return what the options say, and what the person answers where they say nothing."""
    from ctx_pipeline.integrations.setup import Choice, left_out_of

    watched = hosts if hosts is not None else [home.host for home in found]
    if asks and hosts is None:
        watched = [home.host for home in found if click.confirm(f"Watch {home.title} in {plain(str(home.path))}?", default=True, err=True)]
    if asks and not ignore:
        said = click.prompt("Folders never to capture (globs, spaces between; empty: none)", default="", show_default=False, err=True)
        ignore = tuple(said.split())
    wanted = dict.fromkeys(hooks)
    for home in found if asks and not hooks else ():
        if home.hooks and home.host in watched and click.confirm(f"Enter hooks in {plain(home.hooks)}?", default=False, err=True):
            wanted[home.host] = None
    if asks and schedule is None:
        schedule = click.confirm(f"Capture every {EVERY} minutes and run at {nightly} by the operating system?", default=False, err=True)
    return Choice(left_out_of(found, watched), ignore, tuple(wanted), tuple(jobs(EVERY, nightly)) if schedule else ())


# ctx config: the settings in force, and how they are changed.


@click.group()
def config() -> None:
    """Show and change the settings in `$CTX_HOME/config.toml`."""


@config.command()
@json_option
def show(as_json: bool) -> None:
    """Show every setting with its value and where that is from."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import setup

    settings = settings_module.load()
    found = setup.values(settings)
    if as_json:
        emit({"path": str(setup.path_of(settings)), "settings": [{"key": v.key, "value": v.value, "origin": v.origin} for v in found]})
        return
    table(
        [{"key": v.key, "value": _display(v.value), "origin": v.origin} for v in found],
        {"key": "setting", "value": "value", "origin": "from"},
    )


@config.command("set", context_settings={"ignore_unknown_options": True})  # a project's folder begins with a dash
@click.argument("key")
@click.argument("words", nargs=-1, metavar="VALUE...")
@click.option("--default", "take_out", is_flag=True, help="Take the setting out of the file: its default holds again.")
@json_option
def change(key: str, words: tuple[str, ...], take_out: bool, as_json: bool) -> None:
    """Write one setting; the rest of the file stays as it is.

    KEY is a name of `ctx config show`, such as timezone, ignore.paths,
    redaction.patterns.NAME or prices."MODEL".input. Several values are a list.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.errors import UsageError
    from ctx_pipeline.integrations import setup

    if bool(words) == take_out:
        raise UsageError("say what the setting is to be", hint="ctx config set KEY VALUE, or ctx config set KEY --default")
    made = setup.change(settings_module.load(), key, words)
    if as_json:
        emit({"key": made.key, "value": made.value, "origin": made.origin})
        return
    say(f"{made.key} = {_display(made.value)} (from {made.origin})")
    if made.origin in setup.VARIABLES.values():
        say(f"the variable {made.origin} overrides the file")


@config.command()
@json_option
def path(as_json: bool) -> None:
    """Print the path of the file, whether or not it exists."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import setup

    found = setup.path_of(settings_module.bare())
    if as_json:
        emit({"path": str(found), "exists": found.is_file()})
    else:
        say(found)


def _display(value: object) -> str:
    return "(not set)" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
