"""``ctx session export`` and ``import``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import counted, emit, json_option, plain, say
from ctx_pipeline.cli.session.group import at_option, session_option


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@session_option
@at_option
@json_option
def export(file: Path, name: str | None, at: str | None, as_json: bool) -> None:
    """Write a session's state into FILE, secrets out, and say what was taken out."""
    from ctx_pipeline.cli.session.writing import act
    from ctx_pipeline.context.session_state.state import BUNDLE
    from ctx_pipeline.integrations.private_files import PrivateFolder
    from ctx_pipeline.sessions.bundle import exported

    made = exported(name, at=at, settings=for_reading())
    PrivateFolder(file.absolute().parent).json(file.name, made)
    host, session_id = made["state"]["host"], made["state"]["session_id"]
    about = {"redacted": made["redacted"]}
    content = json.dumps(made["state"], ensure_ascii=False)
    kept = act("keep", kind=BUNDLE, host=host, session_id=session_id, content=content, name=f"bundle of {session_id[:12]}", about=about)
    if as_json:
        emit({"file": str(file), "host": host, "session_id": session_id, "redacted": made["redacted"], "artifact_id": kept["artifact_id"]})
        return
    say(f"{plain(file)}: {host} {plain(session_id)}")
    say(_redacted(made["redacted"]))


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def import_bundle(file: Path, as_json: bool) -> None:
    """Take in the state of a session from FILE; `ctx session load --session ID` shows it.

    A session that is captured here keeps its own state.
    """
    from ctx_pipeline.cli.session.writing import act
    from ctx_pipeline.context.session_state.state import BUNDLE
    from ctx_pipeline.sessions.bundle import LARGEST, read

    with file.open("rb") as opened:
        state, redacted = read(opened.read(LARGEST + 1))
    content = json.dumps(state.to_json(), ensure_ascii=False)
    title = f"bundle of {state.session_id[:12]}"
    kept = act("keep", kind=BUNDLE, host=state.host, session_id=state.session_id, content=content, name=title, about={"redacted": redacted})
    if as_json:
        emit({"host": state.host, "session_id": state.session_id, "redacted": redacted, "artifact_id": kept["artifact_id"]})
        return
    say(f"{state.host} {plain(state.session_id)}: {counted(len(state.findings), 'finding')}, {counted(len(state.files), 'file')}")
    say(_redacted(redacted))


def _redacted(found: dict[str, int]) -> str:
    return "redacted: " + ", ".join(f"{plain(name)} {count}x" for name, count in found.items()) if found else "nothing had to be redacted"
