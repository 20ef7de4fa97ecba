"""Output of an agent's own shell commands in fewer tokens, in place of what the model would read: what a hook answers after a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.compression.shell_output import shorten
from ctx_pipeline.compression.shown_lines import keep_shown, shown_to, window_of
from ctx_pipeline.shell.commands import steps
from ctx_pipeline.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.compression.shell_output import Shortened
    from ctx_pipeline.settings import Settings

SHORTENED = "hook.shortened"
"""Kind of the facts in the journal: an output that a hook shortened, with its size before and after."""

LEAST, SAVES = 800, 0.15
"""Characters of an output that is looked at, and the share of them that must go: they stand for tokens, which take longer to count."""

_PATIENCE = 0.05


def replacement(payload: Mapping[str, Any], host_name: str, settings: Settings) -> dict[str, Any] | None:
    """Return what a hook prints after a command so that the model reads less; None where the output stays as it is.

    What ``ctx`` printed itself stays: a part that was asked for again must not be shortened again.
    """
    recipe = discovery.host(host_name).agent.hooks
    given = payload.get("tool_input")
    command = given.get("command") if isinstance(given, dict) else None
    if recipe is None or recipe.replaces is None or not isinstance(command, str) or _own(command):
        return None
    response = payload.get("tool_response")
    output = recipe.replaces.output(response)
    if len(output) < LEAST or (not recipe.replaces.successes and _may_have_failed(output)):
        return None
    window = window_of(payload, host_name)
    before = shown_to(window, settings)
    made = shorten(command, output, count=len, settings=_with_patterns(settings), again="ctx recall", shown=before)
    worth = made.kind != "raw" and made.tokens <= (1 - SAVES) * made.raw_tokens
    if not worth:
        before.add(output.split("\n"))
    keep_shown(window, before, settings)
    if not worth:
        return None
    _log(payload, host_name, made, settings)
    return recipe.replaces.answer(response, made.text)


def _may_have_failed(output: str) -> bool:
    from ctx_pipeline.mining.lessons.failures import looks_red

    return looks_red(output)


def _own(command: str) -> bool:
    """Tell whether a command line calls ``ctx`` itself."""
    return any(step.words and step.words[0].rpartition("/")[2] == "ctx" for step in steps(command))


def _with_patterns(settings: Settings) -> Settings:
    """Return the settings with the shapes of secrets that the person added: what is kept is redacted by them too."""
    from ctx_pipeline import settings as settings_module

    return settings_module.load(settings.environ, home=settings.home)


def _log(payload: Mapping[str, Any], host: str, made: Shortened, settings: Settings) -> None:
    session = payload.get("session_id")
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE, durable=False)
    try:
        told = {"host": host[:40], "session_id": session if isinstance(session, str) else "", "output": made.kind}
        journal.append(SHORTENED, {**told, "characters_before": made.raw_tokens, "characters_after": made.tokens}, actor="hook")
    finally:
        journal.close()
