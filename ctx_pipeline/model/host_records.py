"""What a host's records say beyond rows: file changes, limits, permissions, shell results, window effects and ccusage's rules."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.model.session_view import SessionView


# How another tool would count a record: what a host's model of that tool's rules says of the files.


class Sum(NamedTuple):
    """Tokens in the columns of ``model_calls``; reasoning is inside ``output``."""

    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int

    def total(self) -> int:
        """Return all tokens."""
        return sum(self)


class RivalEntry(NamedTuple):
    """One record that holds usage, and what the other tool makes of it."""

    call: str
    """our key of the call that the record belongs to"""
    stream: str
    start: int
    end: int
    line: int
    ts: int | None
    model: str
    tokens: Sum
    counted: bool
    rule: str
    """the tool's rule where it differs from ours: why it counts the record again, or leaves it out; empty where both agree"""
    recorded: int | None = None
    """cost that the record holds, in nano-dollars"""
    speed: str | None = None
    tier: str | None = None
    per_field: bool = False
    """the tool prices each count's own excess over a long-context threshold, instead of the whole call by its prompt"""


# What an edit made of a file: its text before and after, where recorded, and the difference.


_LONGEST = 20_000
"""Lines of a text above which no difference is worked out: it takes time that grows with their square."""


class FileChange(NamedTuple):
    """One file that one tool call changed."""

    call_id: str
    path: str
    before: str | None
    """whole text before; None where it was not recorded, or there was no file"""
    after: str | None
    """whole text after; None where it was not recorded, or the file was removed"""
    diff: str
    """unified difference without its file headers; empty where it is not known"""

    @property
    def before_sha(self) -> str | None:
        """SHA-256 of the text before."""
        return _sha(self.before)

    @property
    def after_sha(self) -> str | None:
        """SHA-256 of the text after."""
        return _sha(self.after)


def _sha(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def difference(before: str, after: str) -> str:
    """Return the unified difference of two texts without file headers; empty for equal and for very long ones."""
    old, new = before.splitlines(), after.splitlines()
    if before == after or max(len(old), len(new)) > _LONGEST:
        return ""
    import difflib

    return "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=3))[2:])


def counted(diff: str) -> tuple[int, int]:
    """Return how many lines a difference adds and removes."""
    lines = diff.splitlines()
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


# What a host's records say of its plan and of limits that were reached.


PLAN, REQUESTS = "plan", "requests"
"""What was reached: the use that a plan includes, or how many requests the provider answers in a while."""


class LimitNote(NamedTuple):
    """One record that says that a limit was reached."""

    kind: str
    """:data:`PLAN` or :data:`REQUESTS`"""
    name: str = ""
    """the limit's own name, such as ``five-hour`` or ``weekly``; empty where it is not said"""
    resets_at: int | None = None
    """microseconds since 1970; None where it is not said"""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LimitNotes:
    """Where a host writes about limits, and what it means."""

    subtypes: frozenset[str]
    """subtypes of the events that can say so"""
    reached: Callable[[str, str, int], Iterable[LimitNote]]
    """reached(subtype, text, time of the event) yields the limits that an event says were reached"""
    plan: Callable[[bytes], str | None] | None = None
    """The plan that the last lines of a session stream name; None where they name none."""


def named(minutes: int) -> str:
    """Return the usual name of a limit by the length of its window."""
    names = {300: "five-hour", 1440: "daily", 10_080: "weekly"}
    return names.get(minutes, f"{minutes}-minute" if minutes > 0 else "")


# How rows say that a tool call was kept from running, and with which words of the person: facts that only a host
# sets.


REFUSED = "refused"
"""Subtype of a result that the host wrote because the person said no, and of the permission event with what the person typed."""

DENIED = "denied"
"""Subtype of a result that the host wrote because a rule, a mode or an interruption kept the call from running."""

KEPT = frozenset({REFUSED, DENIED})
"""Subtypes of the results of calls that never ran."""

RECAP = "system/away_summary"
"""Subtype of the injected event in which an agent that was left waiting says how the work stands and what comes next."""

BILLED = "billed"
"""Subtype of the attachments that say what a host billed in other units than tokens and dollars: an object with the model and amounts."""

REASON = ("permission", REFUSED, "user")
"""Kind, subtype and actor of the event that holds the words with which the person refused a call; its call_id names the call."""

APPROVED_PLAN = "approved_plan"
"""Subtype of the injected event by which the person began the work on the agent's own plan: the plan follows its first line."""

_PLAN_HEAD = 4_000
_PLAN_SIGNS = lazy_pattern(r"(?i)^[#>*\s]*(?:(?:implementation )?plan(?:\s*[:\u2014]|\s+[\u2013-]\s|[\s*]*$))?[*\s]*")
_BARE = lazy_pattern(r"(?i)\W*(?:\d{1,2}[.)]\s*)?(?:context|overview|summary|background|introduction|goals?|objectives?)\W*")
"""A heading that any plan may have."""


def plan_heading(plan: str) -> str:
    """Return the first line of a plan that says something; empty where none does."""
    lines = [said for line in plan[:_PLAN_HEAD].splitlines() if (said := _PLAN_SIGNS.sub("", line).strip())]
    return next((line for line in lines if not _BARE.fullmatch(line)), lines[0] if lines else "")


def approved_plan(kind: str, subtype: str | None, text: str | None) -> str:
    """Return the heading of the plan that an event begins the work on; empty for another event."""
    return plan_heading((text or "").partition("\n")[2]) if kind == "injected" and (subtype or "").startswith(APPROVED_PLAN) else ""


def words_of_refusals(view: SessionView) -> list[Any]:
    """Return the events that hold what the person typed when a call was refused, in order; a refusal without words has none."""
    return [e for e in view.of_kinds(REASON[0]) if (e.kind, e.subtype, e.actor) == REASON]


# How a host's records say that a command goes on, that a call waits for it, and how it ended.


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ShellAnswers:
    """Phrases of a host around shell commands, as patterns of :mod:`re`; an empty one matches nothing.

    Only the first ``head`` characters of arguments and answers are looked at: what a
    command prints stands behind them.
    """

    tools: frozenset[str] = frozenset()
    """Names of the tools that run shell commands, in small letters: a search for ``bash`` or ``shell`` means all of them."""
    embedded: str = ""
    """In the arguments of a tool that runs a program: a call of the shell in it. The group is its command as a JSON string."""
    listed: str = ""
    """The same where the command is a variable, from a list in the program. The group is there where it is joined from a list of words."""
    running: str = ""
    """In the answer of a call: its command goes on. The group that matched is the id by which later calls wait for it."""
    waits: str = ""
    """In the arguments of a call that runs no command: it waits for a command, writes to it or stops it; a group is its id."""
    waits_in: tuple[str, ...] = ()
    """Names of the arguments that give this id: arguments without any of them are passed over at once."""
    yields: str = ""
    """In the arguments: milliseconds after which a call is answered though its command goes on, a group."""
    goes_on: str = ""
    """In the answer of such a call: the command goes on."""
    stops: str = ""
    """In the arguments of such a call: the agent ends the command."""
    stopped: str = ""
    """In the answer of such a call, or in a notice: the command was ended before its own end."""
    stopped_by_call: str = ""
    """In the answer of such a call: this very call ended the command."""
    refused: str = ""
    """In an answer marked as an error: the command was kept from running, or the person stopped it; a group is the reason."""
    output: str = ""
    """In an answer: what a program printed, as a JSON string; a group is the string."""
    printed: tuple[str, ...] = ()
    """In an answer without such strings: what a program printed, a group of each; the n-th goes on in the n-th of the next answer."""
    notices: frozenset[str] = frozenset()
    """Subtypes of the injected events that say how a command in the background ended."""
    notice: str = ""
    """In such an event: the id of the command, a group."""
    notice_exit: str = ""
    """In such an event: the exit status, a group."""
    exit: str = ""
    """In an answer without a recorded exit status: the status of a program that the call ran; a group is the number."""
    exit_line: str = ""
    """In an answer: the line that says the exit status."""
    background: str = ""
    """In the arguments: the command is to run in the background."""
    folder: str = ""
    """Name of the argument that holds the command's working directory."""
    keeps_folder: bool = False
    """``cd`` in a command that ended well holds for the next one of the thread."""
    folder_reset: str = ""
    """At the end of an answer: the shell was put back into a folder, a group."""
    limit_seconds: int = 0
    """Seconds after which the host ends a command that was called without a limit of its own; 0 where that is not known."""
    marks_errors: bool = False
    """An answered command that ended badly is always marked as an error, so that one that is not ended well."""
    head: int = 600


# What records do to the context window of their thread.


TURN = "turn"
"""An event stands in the window, in its turn."""

SYSTEM = "system"
"""An event stands in the window, in its system header."""

OUT = ""
"""An event was never sent to the model."""

_STANDING = frozenset({"prompt", "injected", "answer", "reasoning", "tool_call", "tool_result", "subagent_start"})


class Change(NamedTuple):
    """What a record took out of the window, and what it put there instead."""

    reason: str
    """compaction, clearing or rollback"""
    everything: bool = False
    """All turns are gone, but for what is kept."""
    kept: tuple[str, ...] = ()
    """Texts of messages that stay when everything goes."""
    keeps_prompts: bool = False
    """Everything that the person typed stays when everything goes."""
    results: tuple[str, ...] = ()
    """Tool calls whose results were blanked."""
    turns: int = 0
    """How many of the newest turns were taken back."""
    text: str | None = None
    """What the record itself adds, such as a summary."""


def usual(kind: str, text: str | None) -> str | Change:
    """Return what an event of a kind does where its host says nothing of its own."""
    if kind == "compaction":
        return Change("compaction", everything=True, text=text)
    return TURN if kind in _STANDING else OUT
