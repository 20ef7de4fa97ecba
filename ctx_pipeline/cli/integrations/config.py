"""``ctx config``: the settings in force, and how they are changed."""

from __future__ import annotations

import json

import click

from ctx_pipeline.cli.output import emit, json_option, say, table


@click.group()
def config() -> None:
    """Show and change the settings in `$CTX_HOME/config.toml`."""


@config.command()
@json_option
def show(as_json: bool) -> None:
    """Show every setting with its value and where that is from."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import config_edit

    settings = settings_module.load()
    found = config_edit.values(settings)
    if as_json:
        emit(
            {"path": str(config_edit.path_of(settings)), "settings": [{"key": v.key, "value": v.value, "origin": v.origin} for v in found]}
        )
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
    from ctx_pipeline.integrations import config_edit

    if bool(words) == take_out:
        raise UsageError("say what the setting is to be", hint="ctx config set KEY VALUE, or ctx config set KEY --default")
    made = config_edit.change(settings_module.load(), key, words)
    if as_json:
        emit({"key": made.key, "value": made.value, "origin": made.origin})
        return
    say(f"{made.key} = {_display(made.value)} (from {made.origin})")
    if made.origin in config_edit.VARIABLES.values():
        say(f"the variable {made.origin} overrides the file")


@config.command()
@json_option
def path(as_json: bool) -> None:
    """Print where the file lies, whether or not it is there."""
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import config_edit

    found = config_edit.path_of(settings_module.bare())
    if as_json:
        emit({"path": str(found), "exists": found.is_file()})
    else:
        say(found)


def _display(value: object) -> str:
    return "(not set)" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
