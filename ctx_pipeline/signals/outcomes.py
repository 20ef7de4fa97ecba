"""How the session went: failed commands, interruptions, corrections."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ctx_pipeline.model.commands import command_text, found_nothing
from ctx_pipeline.model.declared import Reading, signal

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

_TOOLS = ("tool_calls",)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^[^\S\n]*>[^\n]*$", re.DOTALL | re.MULTILINE)
_CORRECTION = re.compile(
    r"""
    (?:^|[.!?;:,\n]\ ?|\b(?:please|and|but|also|so)\ )
    (?:
        (?:oh\ )?(?:no|nope|wait)\b[,.! -]{1,4}(?:that|this|it|the|i|you|we|not|don'?t|do\ not|please|use|stop|again|still|actually|just)\b
      | (?:(?:it|that|this|they|which)\ )?still\ (?:doesn'?t|does\ not|don'?t|do\ not|isn'?t|not|fails?|
            failing|broken|wrong|the\ same|see(?:ing)?|get(?:ting)?)\b
      | (?:don'?t|do\ not|never|stop)\ (?:\w+\ )?(?:do|doing|use|using|run|running|add|adding|delete|deleting|remove|removing|
            change|changing|touch|touching|edit|editing|create|creating|make|making|commit|committing|
            write|writing|assume|assuming|saying|guess|guessing)\b
      | (?:that|this|it)(?:'s|\ is|\ was)\ (?:not\ (?:right|correct|true|what|how|working|it)|wrong|
            incorrect|broken|still\ (?:wrong|broken|failing))
      | (?:that|this|it)\ (?:does\ not|doesn'?t|didn'?t|did\ not)\ (?:work|fix|help|compile)
      | (?:that(?:'s|\ is)\ )?not\ (?:what|exactly\ what)\ (?:i|we)\ (?:asked|meant|wanted|said)
      | i\ (?:said|told\ you|asked\ (?:you\ )?(?:for|to)|meant)\b
      | you(?:'re|\ are)\ (?:not\ (?:correct|right)|wrong|mistaken)\b
      | you\ (?:forgot|missed|broke|misunderstood|misread|should(?:n'?t|\ not)\ have|were\ not\ supposed|ignored|didn'?t|did\ not)\b
      | (?:please\ )?(?:revert|undo|roll\ back)\ (?:that|this|it|your|the|those|these|last|all)\b
      | (?:let'?s\ )?use\ \S+(?:\ \S+){0,3},?\ (?:and\ )?(?:instead|not)\b
      | why\ (?:did|are|have|would)\ you\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FIRST_WORDS = 2000
_INTERRUPT = re.compile(r"\s*(?:\[Request interrupted by user|<turn_aborted>)")
_INTERRUPTS = ("interrupt", "turn_aborted")
_STOPS = ("injected", "error", "session_end", "subagent_end", "permission")


def _shell(view: SessionView) -> list[Any]:
    return [c for c in view.tool_calls if c.action == "shell"]


def _failed(call: Any) -> bool:
    """Tell whether a shell call ran and failed; a refused or unanswered call did not run."""
    if not call.is_error or call.result_event is None:
        return False
    return call.exit is not None and call.exit != 0 and not found_nothing(call.argv, call.exit)


def _evidence(calls: list[Any]) -> tuple[str, ...]:
    return tuple(c.result_event or c.call_event for c in calls)


@signal(group="outcome", unit="commands", better="lower", reads=_TOOLS)
def failed_command_count(view: SessionView) -> Reading:
    """Shell commands that ran and ended with a non-zero exit status.

    Each command counts once, however many records it left. A search that found nothing
    (grep, rg, diff with status 1) is an answer and not a failure; a command that the
    person refused never ran. Some failures are healthy: a red test before the fix. Look
    at the share and at what failed twice. Unknown when commands ran but the host kept no
    exit status.
    """
    commands = [c for c in _shell(view) if c.result_event is not None]
    failed = [c for c in commands if _failed(c)]
    if commands and not failed and all(c.exit is None and c.is_error for c in commands):
        return Reading(None, reason="the host recorded no exit status")
    return Reading(
        float(len(failed)), _evidence(failed), metadata={"commands": [command_text(c.argv)[:120] for c in failed[:3]]} if failed else None
    )


@signal(group="outcome", unit="ratio", better="lower", reads=_TOOLS)
def failed_command_ratio(view: SessionView) -> Reading:
    """Share of answered shell commands that ended with a non-zero exit status, 0 to 1.

    The same commands as ``failed_command_count`` are counted above and below the line,
    so the two never disagree. Above 0.3 the agent is usually fighting the environment
    (missing tools, wrong directory) and not the task. Unknown without a command.
    """
    commands = [c for c in _shell(view) if c.result_event is not None]
    if not commands:
        return Reading(None, reason="no shell command was answered")
    failed = [c for c in commands if _failed(c)]
    return Reading(len(failed) / len(commands), _evidence(failed), metadata={"failed": len(failed), "commands": len(commands)})


@signal(group="outcome", kind="boolean", better="lower", reads=("events",), kinds=_STOPS)
def interrupted_signal(view: SessionView) -> Reading:
    """Whether the person stopped the agent in the middle of a turn.

    Only the host's own record of an interruption counts; the word in a prompt or in a
    program's output does not. One is ordinary, several mean that the agent went where
    the person did not want it to go. Unknown for a session without events.
    """
    if not view.session.events:
        return Reading(None, reason="the session has no events")
    stops = [e for e in view.events if e.kind in _STOPS]
    found = [e for e in stops if e.subtype in _INTERRUPTS and e.actor == "user"] or [e for e in stops if _INTERRUPT.match(e.text or "")]
    return Reading(bool(found), tuple(e.event_id for e in found), metadata={"count": len(found)} if found else None)


def _corrects(text: str) -> bool:
    """Tell whether a prompt corrects; code, quotes and runs of blanks are taken out first."""
    said = _CODE.sub("\n", text[:_FIRST_WORDS])
    return bool(_CORRECTION.search("\n".join(line for raw in said.splitlines() if (line := " ".join(raw.split())))))


@signal(group="cost", unit="messages", better="lower", method="regex", reads=("events",), kinds=("prompt",))
def user_correction_count(view: SessionView) -> Reading:
    """Prompts in which the person corrects the agent: "no, that's wrong", "don't use X", "I said ...".

    Only what the person typed is read: no injected text, no command wrapper, no quoted
    code; the first prompt is the task and cannot be a correction. English phrases, so the
    count is a lower bound for other languages. Each correction is a turn that was paid
    for twice; the same one in several sessions belongs in CLAUDE.md or AGENTS.md.
    """
    if not view.prompts:
        return Reading(None, reason="the person typed nothing in this session")
    found = [e for e in view.prompts[1:] if _corrects(e.text or "")]
    return Reading(float(len(found)), tuple(e.event_id for e in found), confidence=0.7)
