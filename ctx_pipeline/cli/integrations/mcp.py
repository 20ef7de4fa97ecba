"""``ctx mcp``: the server, and its entry in an agent's settings."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline import loopback
from ctx_pipeline.cli.output import confirm, emit, json_option, say
from ctx_pipeline.model.process.gc_pause import without_collector

if TYPE_CHECKING:
    from ctx_pipeline.integrations.config_patch import Change
    from ctx_pipeline.settings import Settings

TOKEN = "mcp-token"  # noqa: S105 - the name of a file

_TOOLS = "The tools a client is shown: lessons and history, reading code and output, or every one."


@click.group(invoke_without_command=True)
@click.option("--http", is_flag=True, help="Serve over HTTP on loopback, for clients that know the token.")
@click.option("--port", default=0, type=click.IntRange(0, 65_535), help="With --http: the port; without it a free one.")
@click.option("--tools", "profile", type=click.Choice(["memory", "read", "all"]), default="memory", show_default=True, help=_TOOLS)
@click.option("--structured", is_flag=True, help="Answer with JSON values and their schemas, for programs; a model reads the text.")
@click.option(
    "--allow",
    "allowed",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder outside the project to read.",
)
@click.pass_context
def mcp(context: click.Context, http: bool, port: int, profile: str, structured: bool, allowed: tuple[Path, ...]) -> None:
    """Serve the history and the memories to an agent (Model Context Protocol).

    Without --http it speaks over standard input and output, as an agent starts it. Tools
    that are not listed still answer a client that knows their names.
    """
    if context.invoked_subcommand is not None:
        return
    # the SDK's 550 models are built while it is imported; pydantic would first read the metadata of every installed package
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with without_collector():  # modules live as long as the server
        if http:
            from ctx_pipeline.sessions.session_choice import without_session

            for name in os.environ.keys() - without_session(os.environ).keys():
                del os.environ[name]
        from ctx_pipeline import settings as settings_module
        from ctx_pipeline.cli.session.writing import act
        from ctx_pipeline.mcp_server import server

        settings = settings_module.load()
        if not http:
            settings = replace(settings, environ={**settings.environ, settings_module.SERVER_STARTED: str(time.time_ns() // 1_000)})
        served = server.build(settings, _judge, act, profile=profile, structured=structured, allowed=allowed, one_agent=not http)
    if not http:
        server.serve_stdio(served)
        return
    listener = loopback.listen(port)
    token = _token(settings)
    say(loopback.address(listener, server.PATH))
    say(f"token: in {settings.home / TOKEN}", err=True)
    server.serve_http(served, listener=listener, token=token)


def _judge(verb: str, memory_id: str, **payload: Any) -> dict[str, Any]:
    """Write what an agent said of a memory to the journal, as the commands of ``ctx memory`` do."""
    from ctx_pipeline.cli.memory import commands

    return commands._judge(verb, memory_id, **payload)  # noqa: SLF001 - one way to judge for every adapter


def _token(settings: Settings) -> str:
    """Return the token of this store's server, made when there is none."""
    from ctx_pipeline.storage.files import Files

    files = Files(settings.home)
    files.folder(settings.home)
    if not files.exists(TOKEN):
        files.write(TOKEN, loopback.new_token().encode())
    os.chmod(files.local(TOKEN), 0o600)  # noqa: PTH101 - a token that others could read is none
    return files.read(TOKEN).decode("ascii", "replace").strip()


_scope = click.option(
    "--scope", type=click.Choice(["user", "project"]), default="user", show_default=True, help="For all projects, or for this folder."
)


@mcp.command()
@click.argument("host")
@_scope
@click.option("--tools", "profile", type=click.Choice(["memory", "read", "all"]), help=f"{_TOOLS} Without it the server decides.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
def install(host: str, scope: str, profile: str | None, yes: bool, as_json: bool) -> None:
    """Add the server to an agent's settings, after a backup; running it again changes nothing.

    HOST is claude or codex. The rest of the file is kept; one that cannot be parsed stays as it is.
    """
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import agent_config

    settings = settings_module.load()
    found = discovery.host(host)
    paths = agent_config.server_paths(settings, found, project=_project(scope))
    if not yes:
        confirm(f"Enter the server ctx in {', '.join(map(str, paths))}?")
    tell([agent_config.install_server(settings, found, path, profile=profile) for path in paths], as_json)


@mcp.command()
@click.argument("host")
@_scope
@json_option
def uninstall(host: str, scope: str, as_json: bool) -> None:
    """Take the server out again: byte for byte as it was where nobody changed the file since."""
    from ctx_pipeline import discovery
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.integrations import agent_config

    settings = settings_module.load()
    found = discovery.host(host)
    paths = agent_config.server_paths(settings, found, project=_project(scope))
    tell([agent_config.uninstall_server(settings, found, path) for path in paths], as_json)


def _project(scope: str) -> Path | None:
    return Path.cwd() if scope == "project" else None


WORDS = {
    "added": "installed in",
    "unchanged": "is installed already in",
    "restored": "removed, as it was before:",
    "removed": "removed from",
    "absent": "is not installed in",
}


def tell(changes: list[Change], as_json: bool, **more: Any) -> None:
    """Print what was done to which file."""
    if as_json:
        emit({"files": [{"path": str(c.path), "did": c.did, "backup": str(c.backup) if c.backup else None} for c in changes], **more})
        return
    for change in changes:
        say(f"{WORDS[change.did]} {change.path}" + (f"  (backup: {change.backup})" if change.backup else ""))
