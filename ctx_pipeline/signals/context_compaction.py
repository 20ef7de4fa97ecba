"""What a compaction dropped, what of it was needed again, and what that cost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.facts.windows import compaction_facts
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.timeline import COLUMNS, MODEL_CALLS, TABLES, TOOL_CALLS, Timeline, scales, timelines
from ctx_pipeline.tokens.shingles import overlap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.model.session_view import SessionView

_KINDS = ("tool_call", "tool_result", "answer", "reasoning", "compaction", "prompt", "injected")
_COLUMNS = {
    "events": (*COLUMNS["events"], "text", "subtype"),
    "tool_calls": (*TOOL_CALLS, "action", "paths", "argv", "is_error"),
    "model_calls": MODEL_CALLS,
}
_REPEATED = 0.4
_NANO = 1_000_000_000
_SHORT = 4_000
_NEAR = 12
"""Events between the person's command and the record of the compaction: the command's own wrappers and output."""


class Compaction(NamedTuple):
    """One shortening of a thread's window."""

    event: Any
    line: Timeline | None
    trigger: str
    """auto, manual or unrecorded"""
    before: int | None
    """tokens of the prompt before it"""
    after: int | None
    """tokens of the first prompt behind it"""
    micro: bool
    """only tool results were taken out, and the conversation stayed"""


def compactions(view: SessionView) -> list[Compaction]:
    """Return the compactions of a session, the main thread's first."""
    lines = {line.thread_id: line for line in view.once(timelines)}
    command = discovery.declared_pattern("records.compact_command")
    asked = {(e.thread_id, e.seq) for e in view.of_kinds("injected", "prompt") if command.search((e.text or "")[:200])}
    found = []
    for event in view.of_kinds("compaction"):
        line = lines.get(event.thread_id)
        facts = compaction_facts(event.text)
        trigger = facts.get("trigger")
        if trigger not in {"auto", "manual"}:
            near = any((event.thread_id, event.seq - back) in asked for back in range(1, _NEAR))
            trigger = "manual" if near else "unrecorded"
        before, after = _sizes(line, event.seq)
        told = facts.get("preTokens")
        micro = "micro" in (event.subtype or "")
        before = told if isinstance(told, int) and told > 0 else before
        saved = facts.get("tokensSaved")
        if micro and before is not None and isinstance(saved, int):
            after = max(0, before - saved)
        found.append(Compaction(event, line, str(trigger), before, after, micro))
    return found


def said_of(text: str | None) -> str:
    """Return what a host's record of a compaction says, in words; its own text where that is no list of facts."""
    facts = compaction_facts(text)
    if text and not facts:
        return text
    before, saved = facts.get("preTokens"), facts.get("tokensSaved")
    how = {"auto": " by the agent itself", "manual": " on request"}.get(str(facts.get("trigger")), "")
    place = f" at {before:,} tokens" if isinstance(before, int) and before > 0 else ""
    return f"compacted{how}{place}" + (f"; {saved:,} were of tool results" if isinstance(saved, int) else "")


def _sizes(line: Timeline | None, seq: int) -> tuple[int | None, int | None]:
    if line is None:
        return None, None
    place = line.after(seq)
    before = line.calls[place - 1].context if place else None
    return before, line.calls[place].context if place < len(line.calls) else None


class NeededAfter(NamedTuple):
    """Something that had been in the window before a compaction and was fetched or said again behind it."""

    what: str
    """file, command or prompt"""
    name: str
    event: str
    tokens: float
    """billed tokens of the second result; 0 for a prompt"""


def needed_after_compaction(view: SessionView) -> list[NeededAfter]:
    """Return what was needed again: each file, command and prompt once a compaction."""
    by_thread: dict[str, list[Compaction]] = {}
    for c in view.once(compactions):
        by_thread.setdefault(c.event.thread_id, []).append(c)
    found: list[NeededAfter] = []
    for thread, members in by_thread.items():
        ends = [*(c.event.seq for c in members[1:]), None]
        found += _refetched(view, thread, members, ends)
        found += _repeated_prompts(view, thread, members, ends)
    return found


def _refetched(view: SessionView, thread: str, members: list[Compaction], ends: list[int | None]) -> list[NeededAfter]:
    """Return files read and commands run both before and after; a file that was changed in between has been read for a reason."""
    line = members[0].line
    sizes = {r.call_event: size for r, size in zip(line.results, line.sizes, strict=True)} if line else {}
    calls = sorted((c for c in view.tool_calls if c.thread_id == thread and not c.is_error), key=lambda c: c.seq)
    seqs = [c.seq for c in calls]
    first: dict[tuple[str, str], int] = {}
    for call in calls:
        for key in _keys(call):
            first.setdefault(key, call.seq)
    found: list[NeededAfter] = []
    for compaction, end in zip(members, ends, strict=True):
        start = compaction.event.seq
        done: set[tuple[str, str]] = set()
        for call in calls[bisect_right(seqs, start) : None if end is None else bisect_left(seqs, end)]:
            for key in _keys(call):
                if first[key] < start and key not in done:
                    done.add(key)
                    found.append(NeededAfter(*key, call.result_event or call.call_event, sizes.get(call.call_event, 0.0)))
            if call.action in {"edit", "write"}:
                done.update(("file", path) for path in call.paths)
    return found


def _keys(call: Any) -> Iterable[tuple[str, str]]:
    if call.action == "read":
        return [("file", path) for path in call.paths]
    if call.action == "shell":
        command = " ".join(" ".join(call.argv)[:_SHORT].split())
        return [("command", command)] if command else []
    return []


def _repeated_prompts(view: SessionView, thread: str, members: list[Compaction], ends: list[int | None]) -> list[NeededAfter]:
    """Return prompts behind a compaction that repeat, by their 3-grams, one before it."""
    own = [e for e in view.prompts if e.thread_id == thread]
    near = overlap([(e.text or "")[:_SHORT] for e in own]).nearest
    seqs = [e.seq for e in own]
    found = []
    for compaction, end in zip(members, ends, strict=True):
        start = compaction.event.seq
        behind = slice(bisect_right(seqs, start), None if end is None else bisect_left(seqs, end))
        for e, like in zip(own[behind], near[behind], strict=True):
            if not compaction.micro and like and like.similarity > _REPEATED and own[like.place].seq < start:
                found.append(NeededAfter("prompt", " ".join((e.text or "").split())[:80], e.event_id, 0.0))
    return found


def _none(view: SessionView) -> Reading | None:
    """Return the reading of a session that no compaction touched."""
    if not view.session.events:
        return Reading(None, reason="the session has no events")
    return None if view.once(compactions) else Reading(None, reason="the session was never compacted")


def _reading(view: SessionView, what: str) -> Reading:
    missing = _none(view)
    if missing:
        return missing
    found = [a for a in view.once(needed_after_compaction) if a.what == what]
    names = [a.name[:120] for a in found[:5]]
    return Reading(float(len(found)), tuple(a.event for a in found), metadata={f"{what}s": names} if names else None)


@signal(version=2, group="context", unit="compactions", better="lower", reads=TABLES, kinds=_KINDS, columns=_COLUMNS)
def compaction_count(view: SessionView) -> Reading:
    """How often the host put a summary in the place of the history in a context window of the session.

    Each one trades what was known for room. More than one in a session means that the
    task was larger than the window: split it, or delegate reading to subagents. Where the
    host only took out old tool results, the conversation stayed: these clearings are told beside it and not counted.
    """
    if not view.session.events:
        return Reading(None, reason="the session has no events")
    every = view.once(compactions)
    found = [c for c in every if not c.micro]
    told: dict[str, Any] = {"triggers": dict(sorted(Counter(c.trigger for c in found).items()))} if found else {}
    told |= {"clearings": len(every) - len(found)} if len(every) > len(found) else {}
    return Reading(float(len(found)), tuple(c.event.event_id for c in found), metadata=told or None)


@signal(group="context", kind="categorical", reads=TABLES, kinds=_KINDS, columns=_COLUMNS)
def compaction_trigger(view: SessionView) -> Reading:
    """What set off the compactions: auto (the window was full), manual (the person asked), unrecorded, or mixed.

    ``auto`` comes at the worst moment, in the middle of a step; a manual one after a
    finished step loses less. Hosts that do not write down the trigger are unrecorded
    unless the person's command stands right before it.
    """
    missing = _none(view)
    if missing:
        return missing
    found = view.once(compactions)
    triggers = {c.trigger for c in found}
    return Reading(triggers.pop() if len(triggers) == 1 else "mixed", tuple(c.event.event_id for c in found))


@signal(group="context", unit="tokens", reads=TABLES, kinds=_KINDS, columns=_COLUMNS)
def compaction_dropped_tokens(view: SessionView) -> Reading:
    """Tokens that compactions took out of the windows: the prompt before each less the first prompt behind it.

    The size before is the host's own figure where it recorded one, else the prompt of
    the last call. Read it beside what was needed again: much dropped and little fetched
    again is a good compaction. Unknown where nothing was called behind any of them.
    """
    missing = _none(view)
    if missing:
        return missing
    known = [(c, c.before, c.after) for c in view.once(compactions) if c.before is not None and c.after is not None]
    if not known:
        return Reading(None, reason="no model call stands behind a compaction")
    steps = [{"before": before, "after": after, "trigger": c.trigger} for c, before, after in known]
    total = sum(max(0, before - after) for _, before, after in known)
    return Reading(float(total), tuple(c.event.event_id for c, _, _ in known), metadata={"compactions": steps[:10]})


@signal(name="compaction_files_read_again", group="context", unit="files", better="lower", reads=TABLES, kinds=_KINDS, columns=_COLUMNS)
def compaction_files_reread(view: SessionView) -> Reading:
    """Files that had been read before a compaction and were read again behind it, once each and compaction.

    They were in the window and were dropped. A file that was changed behind the
    compaction does not count, since reading it again is checking. Put what is always
    needed into a short file of the project. Unknown without a compaction.
    """
    return _reading(view, "file")


@signal(
    name="compaction_commands_run_again", group="context", unit="commands", better="lower", reads=TABLES, kinds=_KINDS, columns=_COLUMNS
)
def compaction_commands_rerun(view: SessionView) -> Reading:
    """Shell commands that had been run before a compaction and were run again behind it, once each and compaction.

    Test runs belong to the work and are expected here; listings, searches and prints of
    files are the loss. Failed ones are left out. Unknown without a compaction.
    """
    return _reading(view, "command")


@signal(name="compaction_prompts_said_again", group="context", unit="prompts", better="lower", reads=TABLES, kinds=_KINDS, columns=_COLUMNS)
def compaction_prompts_repeated(view: SessionView) -> Reading:
    """Prompts behind a compaction in which the person says again what they had said before it.

    More than 0.4 of the word 3-grams are shared with one earlier prompt. Each is an
    instruction that the summary lost; it belongs in the project's instructions. Unknown
    without a compaction.
    """
    return _reading(view, "prompt")


@signal(group="context", unit="tokens", better="lower", reads=TABLES, kinds=_KINDS, columns=_COLUMNS)
def compaction_recovery_tokens(view: SessionView) -> Reading:
    """Tokens of the files and command outputs that were fetched again after compactions: the price of forgetting.

    Above what the compactions dropped (``compaction_dropped_tokens``) they saved
    nothing. ``dollars`` in the details is the first reading of these tokens at the price of
    input, where one is known. Unknown without a compaction.
    """
    missing = _none(view)
    if missing:
        return missing
    found = sorted((a for a in view.once(needed_after_compaction) if a.tokens), key=lambda a: (-a.tokens, a.event))
    total = sum(a.tokens for a in found)
    lines = view.once(timelines)
    details: dict[str, Any] = {"fetched": len(found), "scale": scales(lines)}
    rate_of = view.analysis("rate_of")
    call = lines[0].calls[-1] if lines else None
    rates = rate_of(call.model, call.ts, call.context) if rate_of and call else None
    if rates:
        details["dollars"] = round(total * rates.input) / _NANO
    return Reading(float(round(total)), tuple(a.event for a in found), confidence=0.8, metadata=details)
