"""A session's transcript in pieces that the page unpacks one by one: each call with its result, subagents at the call that started them."""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.dashboard.page import seen
from ctx_pipeline.facts.first_lines import first_line_of
from ctx_pipeline.facts.prompts import command_in
from ctx_pipeline.facts.windows import SOURCES, automatic, window_size
from ctx_pipeline.model.codec import OF_A_COPY
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.storage.warehouse.transcript_queries import EventRow, ToolRow, WholeSession

INLINE = 1_000_000
"""Bytes of JSON of the first pieces that lie in the session's own chunk."""
FILE = 4_000_000
"""Bytes of JSON of a further file, from which on the next one begins."""
PIECE, PIECE_ITEMS, AT_A_PROMPT = 200_000, 300, 60_000
"""Characters and items of a piece, and characters from which on it ends before a prompt."""
MOST_POINTS = 3_000
"""Calls that the curve of the window draws."""
_JITTER = 1_000
"""Milliseconds by which the times of records that were written at once differ."""
_SAID, _BEGAN = 240, 72
"""Characters of the reason for which a turn failed, and of what it began with."""

_encode = msgspec.json.Encoder().encode

Item = list[Any]
"""[pos, crc of the event id, thread, milliseconds, kind, text, more]"""


class Transcript(NamedTuple):
    """What the session's chunk says of its transcript, the JSON of its first pieces and of further files, and where each event stands."""

    summary: dict[str, Any]
    inline: list[bytes]
    files: dict[str, list[bytes]]
    places: dict[str, int]


def transcript(rows: WholeSession, images: Mapping[str, tuple[str, bytes]], host: str | None = None) -> Transcript:
    """Return the whole transcript of a session of a host; ``images`` are event id -> (media type, bytes).

    Every event has its position in reading order: its thread's order, a subagent's
    thread behind the call that started it. A result stands in its call. Costs are in
    dollars, times in milliseconds since 1970.
    """
    events = list(_reading_order(rows))
    models = list(dict.fromkeys(call.model for call in rows.calls))
    shown = {event_id: [media, f"i{number}"] for number, (event_id, (media, _)) in enumerate(images.items())}
    items, places = _items(rows, events, models, shown)
    pieces, inline, files = _packed(items)
    files |= {shown[event_id][1]: [b'"%b"' % base64.b64encode(data)] for event_id, (_, data) in images.items()}
    main = [call for call in rows.calls if call.thread == 0 and call.context > 0]
    largest = max(main, key=lambda call: call.context, default=None)
    recorded = rows.threads[0].window if rows.threads else None
    compacted, _ = automatic((event.event_id, event.text) for event in events if event.kind == "compaction" and event.thread == 0)
    window = window_size(recorded, largest.model if largest else None, largest.context if largest else 0, host=host, compacted=compacted)
    began: dict[str, int] = {}
    for place, event in enumerate(events):
        if event.call_key:
            began.setdefault(event.call_key, place)
    main.sort(key=lambda call: began.get(call.call_key, -1))
    summary = {
        "total": len(events),
        "clock": _clock(events),
        "pieces": pieces,
        "models": models,
        "threads": [[thread.kind, thread.agent or ""] for thread in rows.threads],
        "turns": _turns(rows, items, places),
        "curve": _thinned([[began.get(c.call_key), c.at, c.context, None if c.cost is None else c.cost / 1e9] for c in main]),
        "window": [window.tokens, SOURCES.get(window.source or "")],
        "compactions": [[place, event.at] for place, event in enumerate(events) if event.kind == "compaction" and event.thread == 0],
    }
    return Transcript(summary, inline, files, places)


def _reading_order(rows: WholeSession) -> Iterator[EventRow]:
    """Yield the events thread by thread, each thread inside the one that started it."""
    by_thread: dict[int, list[EventRow]] = {}
    for event in rows.events:
        by_thread.setdefault(event.thread, []).append(event)
    by_thread = {thread: _chained(sorted(members, key=lambda event: event.seq)) for thread, members in by_thread.items()}
    inside = _anchors(rows, by_thread)
    done: set[int] = set()
    for thread in sorted(by_thread):
        waiting = [] if thread in done else [iter(_opened(thread, by_thread, done))]
        while waiting:
            following = next(waiting[-1], None)
            if following is None:
                waiting.pop()
                continue
            yield following
            begun = [child for child in inside.get(following.event_id, ()) if child not in done]
            waiting += [iter(_opened(child, by_thread, done)) for child in reversed(begun)]


def _chained(members: list[EventRow]) -> list[EventRow]:
    """Return a thread's events in their order, one that stands before the event that it follows behind that one."""
    here = {event.event_id for event in members}
    behind: dict[str, list[EventRow]] = {}
    found: dict[str, EventRow] = {}
    for member in members:
        if member.parent in here and member.parent not in found:
            behind.setdefault(member.parent, []).append(member)
            continue
        waiting = [member]
        while waiting:
            event = waiting.pop()
            found[event.event_id] = event
            waiting += reversed(behind.pop(event.event_id, ()))
    # events that follow each other in a circle have no order but that of the record
    return [*found.values(), *(event for event in members if event.event_id not in found)]


def _clock(events: Sequence[EventRow]) -> list[int | None]:
    """Return how many events of the main thread carry one time, as only copies do, that time, and how often times run backward."""
    times = [event.at for event in events if event.thread == 0 and event.at is not None]
    at, many = Counter(times).most_common(1)[0] if times else (None, 0)
    backward = sum(before - after > _JITTER for before, after in pairwise(times))
    return [many, at, backward] if many >= OF_A_COPY else [0, None, backward]


def _opened(thread: int, by_thread: Mapping[int, list[EventRow]], done: set[int]) -> list[EventRow]:
    done.add(thread)
    return by_thread[thread]


def _anchors(rows: WholeSession, by_thread: Mapping[int, list[EventRow]]) -> dict[str, list[int]]:
    """Return event id -> threads that begin behind it: the call whose words a thread began with, else the last event before it."""
    numbers = {thread.thread_id: number for number, thread in enumerate(rows.threads)}
    tasks = {tool.call_event for tool in rows.tools if tool.action == "task"}
    inside: dict[str, list[int]] = {}
    used: set[str] = set()
    for number in sorted(by_thread):
        if number == 0 or number >= len(rows.threads):
            continue
        parent = by_thread.get(numbers.get(rows.threads[number].parent or "", 0), [])
        members = by_thread[number]
        if not parent or parent is members:
            continue
        words = next((event.text for event in members[:4] if event.kind in {"subagent_start", "prompt"} and event.text), "")
        head = {json.dumps(words[:60], ensure_ascii=plain)[1:-1] for plain in (True, False)} if words else set()
        caller = next(
            (e for e in parent if e.event_id in tasks and e.event_id not in used and any(h in (e.text or "") for h in head)), None
        )
        if caller is None:
            begun = next((event.at for event in members if event.at is not None), None)
            times = [event.at or 0 for event in parent]
            place = len(parent) if begun is None else max(1, bisect_right(times, begun))
            caller = parent[place - 1]
        else:
            used.add(caller.event_id)
        inside.setdefault(caller.event_id, []).append(number)
    return inside


def _items(
    rows: WholeSession, events: Sequence[EventRow], models: Sequence[str], shown: Mapping[str, list[str]]
) -> tuple[list[Item], dict[str, int]]:
    """Return what the page draws, a result inside its call, and the position of every event; that of a result is its call's."""
    calls = {tool.call_event: tool for tool in rows.tools}
    answered = {tool.result_event: tool.call_event for tool in rows.tools if tool.result_event}
    used = {call.call_key: call for call in rows.calls}
    items: list[Item] = []
    by_event: dict[str, Item] = {}
    priced: dict[str, Item] = {}
    places: dict[str, int] = {}
    for place, event in enumerate(events):
        places[event.event_id] = place
        caller = by_event.get(answered.get(event.event_id, "")) if event.kind == "tool_result" else None
        if caller is not None and "r" not in caller[6]:
            caller[6] |= {"r": seen(event.text), "m": zlib.crc32(event.event_id.encode())}
            why = caller[6].get("why", "")
            if caller[6].get("state") == "failed" and not first_line_of(why, _LONGEST_WHY):
                said = (_what_failed(event.text or ""), event.text or "")
                caller[6]["why"] = seen(next(filter(None, (first_line_of(one, _LONGEST_WHY) for one in said)), ""))
            elif caller[6].get("state") == "failed" and _ONLY_COUNT.fullmatch(why):
                caller[6]["why"] = seen(_what_failed(event.text or "") or why)
            places[event.event_id] = caller[0]
            continue
        more: dict[str, Any] = {}
        if event.kind == "tool_call":
            more = _call(calls.get(event.event_id), event.text or "")
        elif event.event_id in shown:
            more["img"] = shown[event.event_id]
        kind, text = ("prompt", command) if (command := command_in(event)) else (event.kind, event.text)
        item: Item = [place, zlib.crc32(event.event_id.encode()), event.thread, event.at, kind, seen(text), more]
        items.append(item)
        by_event[event.event_id] = item
        key = event.call_key
        if key and key in used and (key not in priced or (event.kind == "answer" and priced[key][4] != "answer")):
            priced[key] = item
    for key, item in priced.items():
        c = used[key]
        cost = None if c.cost is None else c.cost / 1e9
        item[6]["u"] = [models.index(c.model), c.context, c.input, c.written, c.read, c.output, cost, int(c.owner)]
    return items, places


_ONLY_COUNT = lazy_pattern(
    r"\W{0,4}(?:Found )?\d{1,7} (?:issue|error|problem|warning)s?(?: in \d{1,7} files?)?(?: \([^()\n]{1,60}\))?[.:]?"
    r"|\W{0,4}\d{1,7} fixable with the `--fix` option.{0,80}"
    r"|(?:error: )?could not compile `[^`\n]{1,80}`(?: \([^()\n]{1,40}\))? due to .{1,60}"
)
"""What a linter says last: how much is wrong, and not what."""
_LONGEST_WHY = 200


def _what_failed(text: str) -> str:
    """Return the line of an output that says what is wrong; empty where none does."""
    from ctx_pipeline.mining.lessons.failures import salient_line

    return salient_line(text, of_any_form=True)


def _call(tool: ToolRow | None, asked: str) -> dict[str, Any]:
    """Return what is said of a call beside its words; only what is known, and the commands that ran where its words are a script."""
    if tool is None:
        return {}
    state = tool.result or ("failed" if tool.is_error else "")
    said = {"tool": tool.tool, "action": tool.action, "state": state, "exit": tool.exit, "took": tool.took}
    if state == "failed" and tool.line:
        said["why"] = tool.line
    if tool.command and tool.command != asked and not asked.startswith("{"):
        said["ran"] = seen(tool.command)
    return {name: value for name, value in said.items() if value not in {None, ""}}


def _turns(rows: WholeSession, items: Sequence[Item], places: Mapping[str, int]) -> list[list[Any]]:
    """Return the turns of the main thread, in order.

    Each is [first and last position, how it ended, why, calls, tool calls, output tokens, cost, what it began with].
    """
    said = {item[0]: item for item in items}
    found: list[list[Any]] = []
    for turn in rows.turns:
        if turn.thread or turn.first_event not in places or turn.last_event not in places:
            continue
        first, last = places[turn.first_event], places[turn.last_event]
        why = ""
        if turn.ended == "interrupted":
            why = _words(said.get(places.get(turn.interruption_event or "", -1)))
        elif turn.ended == "failed":
            why = _words(next((said[p] for p in range(last, first - 1, -1) if p in said and said[p][4] == "error"), None))
        found.append([first, last, turn.ended, why, 0, 0, 0, None, _words(said.get(first))[:_BEGAN]])
    found.sort(key=lambda told: told[0])
    starts = [told[0] for told in found]
    for item in items:
        place = bisect_right(starts, item[0]) - 1
        if place < 0:
            continue
        told = found[place]
        told[5] += item[4] == "tool_call"
        if (usage := item[6].get("u")) and usage[7]:
            told[4] += 1
            told[6] += usage[5]
            if usage[6] is not None:
                told[7] = (told[7] or 0.0) + usage[6]
    return found


def _words(item: Item | None) -> str:
    return " ".join(item[5].split())[:_SAID] if item else ""


def _packed(items: Sequence[Item]) -> tuple[list[list[Any]], list[bytes], dict[str, list[bytes]]]:
    """Return the pieces ([first and last position, items, time, end of the file's name, place in it]) and their JSON."""
    pieces: list[list[Any]] = []
    inline: list[bytes] = []
    files: dict[str, list[bytes]] = {}
    held, inside = inline, 0
    for members in _split(items):
        text = _encode(members)
        if inside and inside + len(text) > (INLINE if held is inline else FILE):
            held, inside = files.setdefault(str(len(files)), []), 0
        name = "" if held is inline else str(len(files) - 1)
        pieces.append([members[0][0], members[-1][0], len(members), members[0][3], name, len(held)])
        held.append(text)
        inside += len(text)
    return pieces, inline, files


def _split(items: Sequence[Item]) -> Iterator[list[Item]]:
    members: list[Item] = []
    size = 0
    for item in items:
        long = len(item[5]) + len(item[6].get("r", ""))
        begins = item[4] == "prompt" and item[2] == 0
        if members and (size + long > PIECE or len(members) >= PIECE_ITEMS or (begins and size > AT_A_PROMPT)):
            yield members
            members, size = [], 0
        members.append(item)
        size += long
    if members:
        yield members


def _thinned(points: list[list[Any]]) -> list[list[Any]]:
    """Return at most MOST_POINTS of the points, evenly, the last among them."""
    step = -(-len(points) // MOST_POINTS) or 1
    kept = points[::step]
    return kept if not points or kept[-1] is points[-1] else [*kept, points[-1]]
