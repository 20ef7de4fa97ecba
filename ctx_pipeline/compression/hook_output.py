"""What an agent's own tools printed or read in fewer tokens, in place of what the model would read: what a hook answers after a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.compression.shell_output import shorten
from ctx_pipeline.compression.shown_lines import keep_shown, shown_to, window_of
from ctx_pipeline.shell.commands import steps
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.tokens.estimates import near_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctx_pipeline.model.agent_config import ReplacedOutput
    from ctx_pipeline.settings import Settings

SHORTENED = "hook.shortened"
"""Kind of the facts in the journal: an output that a hook shortened, with its size before and after."""

LEAST, SAVES = 800, 0.15
"""Characters of an output that is looked at, and the share of its tokens that must go; a hook has no time to count them exactly."""

_PATIENCE = 0.05


def replacement(payload: Mapping[str, Any], host_name: str, settings: Settings) -> dict[str, Any] | None:
    """Return what a hook prints after a tool so that the model reads less; None where the output stays as it is.

    What ``ctx`` printed itself stays: a part that was asked for again must not be shortened again.
    """
    recipe = discovery.host(host_name).agent.hooks
    if recipe is not None and recipe.replaces is not None and (held := recipe.replaces.read(payload.get("tool_response"))):
        return _repeated_read(payload, host_name, recipe.replaces, held, settings)
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
    made = shorten(command, output, count=near_count, settings=_with_patterns(settings), again="ctx recall", shown=before)
    worth = made.kind != "raw" and made.tokens <= (1 - SAVES) * made.raw_tokens
    if not worth:
        before.add(output.split("\n"))
    keep_shown(window, before, settings)
    if not worth:
        return None
    _log(payload, host_name, made.kind, (output, made.text), settings)
    return recipe.replaces.answer(response, made.text)


def _repeated_read(
    payload: Mapping[str, Any], host_name: str, replaces: ReplacedOutput, held: tuple[str, int, str], settings: Settings
) -> dict[str, Any] | None:
    """Return a notice in place of a file whose every line, with its number, this window was shown before; None for another.

    Read once more the text is given again: what stood above may be gone without a compaction.
    """
    path, first, text = held
    if len(text) < LEAST:
        return None
    lines = text.split("\n")
    placed = [f"{path}:{number}:{line}" for number, line in enumerate(lines, first)]
    window = window_of(payload, host_name)
    before = shown_to(window, settings)
    known = before.holds(placed)
    if known:
        before.forget(placed)
    else:
        before.add(placed)
    keep_shown(window, before, settings)
    if not known:
        return None
    notice = f"[lines {first}-{first + len(lines) - 1} of this file stand above, unchanged; read once more for their text]"
    _log(payload, host_name, "read", (text, notice), settings)
    return replaces.unchanged(payload.get("tool_response"), notice)


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


def _log(payload: Mapping[str, Any], host: str, kind: str, texts: tuple[str, str], settings: Settings) -> None:
    session = payload.get("session_id")
    told: dict[str, Any] = {"host": host[:40], "session_id": session if isinstance(session, str) else "", "output": kind}
    for when, text in zip(("before", "after"), texts, strict=True):
        told |= {f"characters_{when}": len(text), f"tokens_{when}": near_count(text)}
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE, durable=False)
    try:
        journal.append(SHORTENED, told, actor="hook")
    finally:
        journal.close()
