"""File text out of captured sessions: what each read showed, what of it stood in the window already, what stands there at a moment."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.model.host_records import Change
from ctx_pipeline.sessions.files import CHANGED, touches_of
from ctx_pipeline.sessions.session_details import resolve, view_of
from ctx_pipeline.sessions.windows.window_effects import effects_of
from ctx_pipeline.sessions.windows.window_history import thread_named
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.sessions.files import Touch
    from ctx_pipeline.settings import Settings

_NUMBERED = re.compile(r"^\s*(\d{1,7})[→\t](.*)$")
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_REPORT = re.compile(
    r"\A(?:(?:Command|Chunk ID|Wall time|Process exited|Exit code|Original token count|Total output lines)\b[^\n]*\n)*Output:\n"
)


class Shown(NamedTuple):
    """One read of one file, as the model was shown it."""

    thread_id: str
    seq: int
    """of the result inside its thread"""
    path: str
    text: str
    """without line numbers"""
    printed: str
    """as it was"""
    lines: int
    known: int
    """lines of it that stood in the window already, unchanged"""
    calls_after: int
    """model calls of the thread that were sent it, until the window was emptied or the session ended"""
    changed_after: bool
    """the session changed the file later on"""

    @property
    def already_delivered(self) -> bool:
        """Everything that it brought stood in the window already."""
        return bool(self.lines) and self.known == self.lines


class WindowText(NamedTuple):
    """What a window holds of a file."""

    path: str
    lines: dict[int, str]
    """line number -> text"""

    @property
    def partial(self) -> bool:
        """Its first lines, or some between others, are not known."""
        return sorted(self.lines) != list(range(1, len(self.lines) + 1))

    @property
    def text(self) -> str:
        """The lines that are known; a blank one stands where others are missing."""
        parts: list[str] = []
        before = 0
        for number in sorted(self.lines):
            if before and number > before + 1:
                parts.append("")
            parts.append(self.lines[number])
            before = number
        return "\n".join(parts) + "\n"


class CapturedFiles(NamedTuple):
    """What a session's threads were shown of files."""

    host: str
    session_id: str
    thread_id: str
    """the thread whose window is told"""
    shown: list[Shown]
    held: list[WindowText]
    """files of the window at the moment, in the order in which they came into it"""
    billed: int
    """prompt tokens that all counted model calls of the session were billed"""


def captured_files(
    host: str, session_id: str, *, thread: str | None = None, at: int | None = None, settings: Settings | None = None
) -> CapturedFiles:
    """Return what reads showed in all threads of a session, and what the window of one thread holds of files.

    The thread is the main one unless another is named; ``at`` is the ``seq`` of an event of
    it, the end by default. An edit whose difference is recorded changes what is held, one
    without makes the file unknown; a compaction, clearing or rollback empties the window.
    Raises UnknownName.
    """
    with reading(settings) as (store, chosen):
        key, full = resolve(store, host, session_id)
        view = view_of(store, key, full, ("events", "tool_calls", "model_calls", "threads"))
        main = thread_named(view, thread) if thread else view.events[0].thread_id
        effects = effects_of(store, key, view.events)
        touches = touches_of(store, view, settings=chosen)
    by_event: dict[str, list[Touch]] = {}
    for touch in touches:
        by_event.setdefault(touch.event_id, []).append(touch)
    results = {c.result_event: c for c in view.tool_calls if c.result_event and not c.is_error}
    changed: dict[str, str] = {}
    """file -> when it was changed last"""
    for touch in touches:
        if touch.did in CHANGED:
            changed[touch.path] = max(changed.get(touch.path, ""), touch.ts or "")
    shown: list[Shown] = []
    held: list[WindowText] = []
    for name in dict.fromkeys(e.thread_id for e in view.events):
        events = [e for e in view.events if e.thread_id == name]
        window = _Window(name, events, effects)
        wanted = at if name == main else None
        for event in events:
            if wanted is not None and event.seq > wanted:
                held, wanted = window.files(), None
            window.play(event, results.get(event.event_id), by_event, changed)
        if name == main and (at is None or wanted is not None):
            held = window.files()
        shown += window.shown
    return CapturedFiles(key, full, main, shown, held, sum(c.context_tokens for c in view.model_calls if c.owner))


class _Window:
    """The files in one thread's window, played event by event."""

    def __init__(self, thread_id: str, events: Sequence[Any], effects: Mapping[str, str | Change]) -> None:
        self._thread = thread_id
        self._effects = effects
        self._held: dict[str, dict[int, str]] = {}
        self.shown: list[Shown] = []
        self._emptied = [e.seq for e in events if isinstance(effects[e.event_id], Change)]
        first: dict[str, int] = {}
        for event in events:
            if event.call_key:
                first.setdefault(event.call_key, event.seq)
        self._calls = sorted(first.values())

    def play(self, event: Any, call: Any, by_event: Mapping[str, list[Touch]], changed: Mapping[str, str]) -> None:
        """Let one event change the window."""
        does = self._effects[event.event_id]
        if isinstance(does, Change):
            self._held.clear()
            return
        if call is None or not does:
            return
        touches = by_event.get(call.call_event, ())
        if len(touches) == 1 and touches[0].did == "read" and event.text:
            self._read(event, touches[0], changed)
        for touch in touches:
            if touch.did in CHANGED:
                self._change(touch)

    def _read(self, event: Any, touch: Touch, changed: Mapping[str, str]) -> None:
        lines = _lines(event.text, touch.lines)
        if not lines:
            return
        held = self._held.setdefault(touch.path, {})
        known = sum(map(eq, map(held.get, lines), lines.values())) if held else 0
        held.update(lines)
        until = next((seq for seq in self._emptied if seq > event.seq), None)
        ends = len(self._calls) if until is None else bisect_left(self._calls, until)
        sent = ends - bisect_right(self._calls, event.seq)
        later = changed.get(touch.path, "") > (touch.ts or "")
        text = "\n".join(lines.values()) + "\n"
        self.shown.append(Shown(self._thread, event.seq, touch.path, text, event.text, len(lines), known, sent, later))

    def _change(self, touch: Touch) -> None:
        lines = self._held.pop(touch.path, None)
        after = applied(lines or {}, touch.diff) if touch.diff and (lines or touch.did == "write") else None
        if after:
            self._held[touch.path] = after

    def files(self) -> list[WindowText]:
        """Return what the window holds now."""
        return [WindowText(path, dict(lines)) for path, lines in self._held.items() if lines]


def _lines(text: str, ranges: str) -> dict[int, str]:
    """Return line number -> text of what a read printed: numbered lines, else plain ones from the first line that was asked for."""
    rows = _rows(_REPORT.sub("", text))
    numbered = {int(match[1]): match[2] for row in rows if (match := _NUMBERED.match(row))}
    if numbered and len(numbered) * 2 > len(rows):
        return numbered
    if "," in ranges:
        return {}
    first = re.match(r"\d+", ranges)
    return dict(enumerate(rows, int(first[0]) if first else 1))


def _rows(text: str) -> list[str]:
    """Return the lines of a text as an agent counts them: a form feed or another separator of Unicode ends none."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def applied(lines: Mapping[int, str], diff: str) -> dict[int, str] | None:
    """Return known lines of a file after a unified difference, None for one that cannot be read.

    Lines that were not known before are known where the difference tells them.
    """
    hunks: list[tuple[int, int, list[str]]] = []
    for row in _rows(diff):
        if match := _HUNK.match(row):
            first, count = int(match[1]), int(match[2] if match[2] is not None else 1)
            hunks.append((first + 1 if count == 0 else first, count, []))
        elif hunks and row[:1] in {" ", "+", ""}:
            hunks[-1][2].append(row[1:])
        elif not hunks or row[:1] not in {"-", "\\"}:
            return None
    if not hunks:
        return None
    made = dict(lines)
    for first, count, after in reversed(hunks):
        shift = len(after) - count
        made = {n + shift if n >= first + count else n: text for n, text in made.items() if not first <= n < first + count}
        made.update(enumerate(after, first))
    return dict(sorted(made.items()))
