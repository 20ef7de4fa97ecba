"""Tells a call that was kept from running from one that ran, by what the client wrote and no tool can print."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.model.permissions import DENIED, REFUSED

if TYPE_CHECKING:
    from ctx_pipeline.hosts.claude_code.records import ToolUseResult

_MARK = "User rejected tool use"
"""``toolUseResult`` of a refusal without words (2.1.29 and later); an error's begins with ``Error: ``, so that no tool can write it."""

_NO = re.compile(
    r"The user doesn't want to (?:proceed with this tool use\. The tool use was rejected \(eg\. if it was a file edit, the new_string was"
    r" NOT written to the file\)\.|take this action right now\.) "
    r"(?:STOP what you are doing and wait for the user to tell you how to proceed\."
    # the first until about 2.1.0, the second from then on
    r"|The user provided the following reason for the rejection:\s{1,4}(?P<old>\S.*?)"
    r"|To tell you how to proceed, the user said:\n(?P<new>.*?))"
    r"(?:\n\nNote: The user's next message may contain a correction or preference\.[^\n]*)?",
    re.DOTALL,
)
_KEPT = re.compile(
    r"\[Request interrupted by user for tool use\]|The operation was cancell?ed\."
    r"|(?:This (?:Bash )?command (?:requires|contains)|\w{1,30} requested permissions? to|Permission (?:to use|for this) )[^\n]{0,2000}"
    r"|[^\n]{0,200} was blocked\. For security[^\n]{0,2000}",
    re.DOTALL,
)
"""What the client answers where a rule or a mode asks the person, who is not there, or says no, and for a call that was interrupted."""

_PREFIXED = (2, 0, 37)
"""The first version seen whose failed commands begin with ``Exit code``; before, their output stood alone and could say anything."""

_OWN = frozenset({"read", "edit", "write", "search", "web", "task", "plan", "ask"})
"""Actions of tools of the client whose errors begin with words of its own; what is neither these nor a shell is somebody else's."""


class Kept(NamedTuple):
    """A call that never ran: how (a subtype), and what the person typed when it was refused."""

    how: str
    said: str = ""


def kept_from_running(text: str, result: ToolUseResult | str | list | None, action: str, version: str | None) -> Kept | None:
    """Return how an error says that its call never ran; None where it ran, or where a tool could have printed the same record.

    The whole text has to be one of the client's sentences, and ``toolUseResult`` its mark
    or the same text as an error of a tool whose own errors cannot begin so. Servers of
    others (MCP) may say anything: of their tools only the mark counts.
    """
    if not isinstance(result, str):
        return None
    sentence = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    marked = result in (_MARK, sentence)
    if not marked and not (result == f"Error: {sentence}" and (action in _OWN or (action == "shell" and _at_least(version, _PREFIXED)))):
        return None
    refused = _NO.fullmatch(sentence)
    if refused is not None:
        return Kept(REFUSED, (refused["old"] or refused["new"] or "").strip())
    if result == _MARK:
        return Kept(REFUSED)
    return Kept(DENIED) if _KEPT.fullmatch(sentence) else None


def _at_least(version: str | None, wanted: tuple[int, ...]) -> bool:
    parts = re.findall(r"\d{1,9}", version or "")[:3]
    return tuple(map(int, parts)) >= wanted
