"""Signs of context rot in the windows of any host: repetition, loops, efficiency, files read again, and one verdict."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.file_accesses import CHANGES, READ, accesses_by_call
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.signals.inputs.timeline import EVENTS, MODEL_CALLS, TABLES, TOOL_CALLS, timelines

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView


# Reads of what had been read before in the same window, and whether there was a reason.


AFTER_COMPACTION, AFTER_EDIT, NO_REASON = "after a compaction", "after an edit", "without reason"
_END = 10**9
_AGAIN = 0.5
"""Part of the lines of a read that an earlier one must have shown for it to be a read again."""

_Span = tuple[int, int]


class Reread(NamedTuple):
    """One file that was read again."""

    path: str
    reason: str
    event: str
    """of the call that read it again"""
    tokens: float
    """billed tokens of what came back; 0 where no call followed"""


def rereads(view: SessionView) -> list[Reread]:
    """Return the reads again of a session, thread by thread: each thread is a window of its own.

    A read counts when an earlier one in the thread showed at least half of its lines.
    Reads and changes through the shell count as far as their words name files and lines;
    failed calls neither read nor change.
    """
    sizes = {r.call_event: size for line in view.once(timelines) for r, size in zip(line.results, line.sizes, strict=True)}
    compacted: dict[str, list[int]] = {}
    for event in view.of_kinds("compaction"):
        compacted.setdefault(event.thread_id, []).append(event.seq)
    threads: dict[str, _Window] = {}
    found: list[Reread] = []
    for event, accesses in view.once(accesses_by_call).items():
        first = accesses[0]
        window = threads.get(first.thread_id)
        if window is None:
            window = threads[first.thread_id] = _Window(compacted.get(first.thread_id, []))
        shown = [a for a in accesses if a.did == READ and a.told]
        for access in shown:
            reason = window.reason(access.path, _spans(access.lines), first.seq)
            if reason:
                found.append(Reread(access.path, reason, event, sizes.get(event, 0.0) / len(shown)))
        for access in accesses:
            if access.did in CHANGES:
                window.edited[access.path] = first.seq
    return found


class _Window:
    """What one thread has read and changed so far."""

    def __init__(self, compacted: list[int]) -> None:
        self._compacted = compacted
        self._read: dict[str, list[tuple[int, list[_Span]]]] = {}
        self.edited: dict[str, int] = {}

    def reason(self, path: str, spans: list[_Span], seq: int) -> str | None:
        """Note a read and return why it repeats an earlier one; None where it does not."""
        earlier = self._read.setdefault(path, [])
        last = next((at for at, known in reversed(earlier) if _covered(spans, known) >= _AGAIN), None)
        earlier.append((seq, spans))
        if last is None:
            return None
        if bisect_right(self._compacted, seq) > bisect_right(self._compacted, last):
            return AFTER_COMPACTION
        return AFTER_EDIT if self.edited.get(path, -1) >= last else NO_REASON


def _spans(text: str) -> list[_Span]:
    """Return ranges of lines as pairs; the whole file where none is told."""
    found = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or (dash and not last)):
            found.append((int(first), int(last) if last else _END))
    return found or [(1, _END)]


def _covered(new: list[_Span], old: list[_Span]) -> float:
    """Return the part of the new lines that are among the old ones."""
    size = sum(last - first + 1 for first, last in new)
    both = sum(max(0, min(last, b) - max(first, a) + 1) for first, last in new for a, b in old)
    return both / size if size > 0 else 0.0


ROT_TABLES = ("events", "tool_calls", "command_runs", "model_calls", "threads")
ROT_KINDS = ("answer", "tool_call", "tool_result", "reasoning")
ROT_COLUMNS = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind", "call_key", "call_id", "text"),
    "tool_calls": ("thread_id", "tool", "call_event", "result_event", "out_chars", "seq"),
    "model_calls": ("call_key", "thread_id", "ts", "model", "output", "cache_read", "context_tokens", "cost", "owner"),
    "threads": ("thread_id", "status"),
}
_READ_TABLES = (*TABLES, "file_accesses")
_READ_KINDS = ("tool_call", "tool_result", "answer", "reasoning", "compaction", "prompt")
_READ_COLUMNS = {
    "events": EVENTS,
    "tool_calls": TOOL_CALLS,
    "model_calls": MODEL_CALLS,
}
_NANO = 1_000_000_000
_NONE = Reading(None, reason="fewer than two model calls of its own")


def _worst(view: SessionView) -> dict[str, Any] | None:
    """Return the analysis of the thread with the gravest verdict; None where no thread has two calls."""
    threads: list[dict[str, Any]] = view.analysis("rot") or []
    return max(threads, key=lambda t: t["verdict"]["score"], default=None)


def _why(verdict: dict[str, Any]) -> list[str]:
    """Return the signs of a verdict in words, then what it could not rest on."""
    return [*(r["text"] for r in verdict["reasons"]), *verdict["limits"]]


def _events(found: dict[str, Any], seqs: list[int]) -> tuple[str, ...]:
    events = found["events"]
    return tuple(events[s] for s in seqs if s in events)


@signal(version=2, group="context", unit="ratio", better="lower", reads=ROT_TABLES, kinds=ROT_KINDS, columns=ROT_COLUMNS)
def completion_repetition(view: SessionView) -> Reading:
    """The largest share of word 3-grams that a completion shares with the one directly before it, 0 to 1 (Jaccard).

    A completion is what the model said and which tools it called with what, but for calls
    that only wait for a command that still runs. Above 0.4 it
    repeats itself; above 0.7 it is stuck. The first 100 words of each are compared.
    Unknown with fewer than two calls.
    """
    threads: list[dict[str, Any]] = view.analysis("rot") or []
    if not threads:
        return _NONE
    best = max(threads, key=lambda t: t["summary"]["max_repetition"])
    place = best["most_repeated"]
    return Reading(best["summary"]["max_repetition"], _events(best, [place]) if place else ())


@signal(version=2, group="context", unit="completions", better="lower", reads=ROT_TABLES, kinds=ROT_KINDS, columns=ROT_COLUMNS)
def looping_completion_count(view: SessionView) -> Reading:
    """Completions that say again what was said two or more completions before, though others stand in between.

    More than 0.4 of their word 3-grams are shared with the earlier one and less with the
    one directly before. A few are ordinary (the same test command again); ten at one
    distance are a loop of that many steps. The details have each distance.
    """
    threads: list[dict[str, Any]] = view.analysis("rot") or []
    if not threads:
        return _NONE
    loops = [(loop, t) for t in threads for loop in t["loops"]]
    loops.sort(key=lambda pair: (-pair[0]["calls"], pair[0]["distance"]))
    shown = [{"distance": loop["distance"], "calls": loop["calls"], "from": loop["onset"]} for loop, _ in loops[:5]]
    evidence = [event for loop, t in loops for event in _events(t, [loop["onset"]])]
    return Reading(float(sum(loop["calls"] for loop, _ in loops)), tuple(evidence), metadata={"loops": shown} if shown else None)


@signal(version=3, group="context", unit="times", better="higher", reads=ROT_TABLES, kinds=ROT_KINDS, columns=ROT_COLUMNS)
def completion_efficiency_kept(view: SessionView) -> Reading:
    """The last completion over its prompt, as a multiple of the same share at the first call: what is left of the efficiency.

    1 is as much written for each token read as at the start; agents read more and more,
    so 0.1 is usual after fifty calls, and a fall to 0.01 means that nearly all of the
    money goes into reading. Unknown where the first call wrote nothing.
    """
    threads: list[dict[str, Any]] = view.analysis("rot") or []
    if not threads:
        return _NONE
    longest = max(threads, key=lambda t: len(t["efficiency"]))
    if longest["efficiency_kept"] is None:
        first = longest["first_counts"]
        return Reading(None, reason="calls record only the first count of their output" if first else "the first call wrote nothing")
    onset = longest["efficiency_onset"]
    details = {"first": longest["summary"]["initial_efficiency"], "last": longest["summary"]["final_efficiency"], "below_half_from": onset}
    return Reading(longest["efficiency_kept"], _events(longest, [onset] if onset else []), metadata=details)


@signal(version=3, group="context", unit="points", better="lower", reads=ROT_TABLES, kinds=ROT_KINDS, columns=ROT_COLUMNS)
def context_rot_score(view: SessionView) -> Reading:
    """The points of the signs of context rot in the thread that has most of them.

    The signs and their points are those of ``ctx rot analyze``: repetition, loops,
    falling efficiency, collapsing completions, runaway growth, tool output, a lost cache,
    rising cost. 0 is none, up to 2 mild, up to 4 moderate, above severe; 2 at most with
    fewer than twelve model calls.
    """
    found = _worst(view)
    if found is None:
        return _NONE
    verdict = found["verdict"]
    evidence = _events(found, [verdict["onset"]] if verdict["onset"] is not None else [])
    return Reading(float(verdict["score"]), evidence, metadata={"reasons": _why(verdict)})


@signal(version=3, group="context", kind="categorical", better="lower", reads=ROT_TABLES, kinds=ROT_KINDS, columns=ROT_COLUMNS)
def context_rot_verdict(view: SessionView) -> Reading:
    """How badly the context rotted: none, mild, moderate or severe, with the reasons in the details.

    From moderate on a fresh session with a short summary would have done better than
    going on; ``ctx rot analyze`` shows the session call by call. Mild at most with fewer
    than twelve model calls: too few to tell rot from the beginning of a session.
    """
    found = _worst(view)
    if found is None:
        return _NONE
    verdict = found["verdict"]
    evidence = _events(found, [verdict["onset"]] if verdict["onset"] is not None else [])
    return Reading(verdict["severity"], evidence, metadata={"score": verdict["score"], "reasons": _why(verdict)})


def _rereads(view: SessionView) -> list[Reread] | Reading:
    """Return the reads again, or why there are none to speak of."""
    if not view.session.events:
        return Reading(None, reason="the session has no events")
    return view.once(rereads)


def _top_files(found: list[Reread]) -> dict[str, Any] | None:
    if not found:
        return None
    files = Counter(r.path for r in found)
    top = [{"file": path[:200], "times": times} for path, times in sorted(files.items(), key=lambda pair: (-pair[1], pair[0]))[:5]]
    return {"reasons": dict(sorted(Counter(r.reason for r in found).items())), "files": top}


@signal(group="context", unit="reads", better="lower", reads=_READ_TABLES, kinds=_READ_KINDS, columns=_READ_COLUMNS)
def file_reread_count(view: SessionView) -> Reading:
    """Reads of files that the same window had been shown before, at least half of their lines.

    The details tell them apart: ``after a compaction`` (the text was dropped), ``after an
    edit`` (the file had changed) and ``without reason``. Reads through the shell count as
    far as the command names the file. One per edited file is checking; many without
    reason mean that the window is too long to find things in.
    """
    found = _rereads(view)
    if isinstance(found, Reading):
        return found
    return Reading(float(len(found)), tuple(r.event for r in found), metadata=_top_files(found))


@signal(group="context", unit="reads", better="lower", reads=_READ_TABLES, kinds=_READ_KINDS, columns=_READ_COLUMNS)
def file_reread_without_reason_count(view: SessionView) -> Reading:
    """Reads again of a file that had neither changed nor been dropped since: it was still in the context.

    Each pays for the same text twice, and again with every later call. A few are usual
    for an agent that checks its footing; above five, name the file's outline in the
    project's instructions or begin a fresh session for the next part.
    """
    found = _rereads(view)
    if isinstance(found, Reading):
        return found
    own = [r for r in found if r.reason == NO_REASON]
    return Reading(float(len(own)), tuple(r.event for r in own), metadata=_top_files(own))


@signal(group="context", unit="tokens", better="lower", reads=_READ_TABLES, kinds=_READ_KINDS, columns=_READ_COLUMNS)
def file_reread_tokens(view: SessionView) -> Reading:
    """Tokens that came back with files that were read again, whatever the reason.

    The details split them by reason; ``dollars`` is their first reading at the price of
    input, where one is known, without what carrying them through later calls cost.
    """
    found = _rereads(view)
    if isinstance(found, Reading):
        return found
    tokens: Counter[str] = Counter()
    for r in found:
        tokens[r.reason] += round(r.tokens)
    details: dict[str, Any] = {"tokens": dict(sorted(tokens.items()))} if found else {}
    lines = view.once(timelines)
    rate_of = view.analysis("rate_of")
    call = lines[0].calls[-1] if lines else None
    rates = rate_of(call.model, call.ts, call.context) if rate_of and call and found else None
    if rates:
        details["dollars"] = round(sum(tokens.values()) * rates.input) / _NANO
    largest = sorted(found, key=lambda r: (-r.tokens, r.event))
    return Reading(float(sum(tokens.values())), tuple(r.event for r in largest), confidence=0.8, metadata=details or None)
