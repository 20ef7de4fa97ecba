"""What ccusage makes of transcripts: its rules of which lines count, run over the same files.

Checked against ccusage 20.0.24 over the published sessions and over one hand-made file a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctx_pipeline.hosts._lines import MAX_INT, read_records
from ctx_pipeline.hosts.claude_code.discovery import USAGE_KINDS
from ctx_pipeline.hosts.claude_code.usage import SYNTHETIC
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.host_records import RivalEntry, Sum
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.raw import StreamBytes

NO_MESSAGE = "it counts every line that has no message id"
NO_REQUEST = "without a request id it tells the lines of a response apart by their time, and counts each time"
OTHER_REQUEST = "it counts a response again that was logged under another request id"
SIDE_COPY = "it leaves out a side conversation's copy of a response"
PROGRESS = "it counts a subagent's message that only a progress record repeats"
SHAPE = "it leaves out lines whose counts are not whole numbers of at least 0, or without a model"
SPACED = "it leaves out lines that are not written compactly"
CLOCK = "it leaves out lines whose time has more than three decimals"

_TIME = lazy_pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?(Z|[+-]\d\d:\d\d)")
_loose = msgspec.json.Decoder(dict[str, Any])
_MARK = b'"usage":{'


class _Line:
    """A line that holds usage, and what ccusage tells it apart by."""

    __slots__ = ("entry", "message", "place", "request", "side", "time")

    def __init__(self, entry: RivalEntry, message: str, request: str, side: bool, time: str) -> None:
        self.entry, self.message, self.request, self.side, self.time = entry, message, request, side, time
        self.place = -1


def ccusage(streams: Iterable[StreamBytes]) -> list[RivalEntry]:
    """Return every line that holds usage, in the order of the files, and whether ccusage counts it."""
    found: list[RivalEntry] = []
    kept: dict[tuple[str, str], _Line] = {}
    named: dict[str, _Line] = {}
    for stream in sorted((s for s in streams if s.kind in USAGE_KINDS and s.current), key=lambda s: s.rel):
        for line in _lines(stream):
            line.place = len(found)
            if not line.entry.counted:
                found.append(line.entry)
                continue
            if not line.message:
                found.append(line.entry._replace(rule=line.entry.rule or NO_MESSAGE))
                continue
            key = (line.message, line.request or f"at {line.time}")
            before, sibling = kept.get(key), named.get(line.message)
            rule = line.entry.rule
            if before is not None:
                if not _wins(line, before):
                    continue
                line.place, rule = before.place, rule or found[before.place].rule
                found[line.place] = line.entry._replace(rule=rule)
            elif sibling is not None and (sibling.side or line.side):
                found.append(line.entry if not line.side else line.entry._replace(counted=False, rule=SIDE_COPY))
                if line.side:
                    continue
                found[sibling.place] = found[sibling.place]._replace(counted=False, rule=SIDE_COPY)
            else:
                again = "" if sibling is None else OTHER_REQUEST if line.request else NO_REQUEST
                found.append(line.entry._replace(rule=rule or again))
            kept[key] = named[line.message] = line
    return found


def _wins(line: _Line, before: _Line) -> bool:
    """Tell whether a line takes the place of one with the same ids: the main conversation's first, then the larger sum."""
    if before.side != line.side:
        return before.side
    return line.entry.tokens.total() > before.entry.tokens.total()


def _lines(stream: StreamBytes) -> Iterator[_Line]:
    records = read_records(stream, _loose)
    for number, start, end, value in zip(records.lines, records.starts, records.ends, records.values, strict=True):
        outer = value.get("data")
        inner = outer.get("message") if isinstance(outer, dict) and value.get("type") == "progress" else None
        record = inner if isinstance(inner, dict) else value
        message = record.get("message")
        usage = message.get("usage") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(usage, dict) or message.get("model") == SYNTHETIC:
            continue
        told = str(record.get("timestamp") or "")
        model = message.get("model")
        rule, counted = (PROGRESS if record is inner else ""), True
        if not (_whole(usage.get("input_tokens")) and _whole(usage.get("output_tokens")) and isinstance(model, str) and model):
            rule, counted = SHAPE, False
        elif _MARK not in stream.data[start:end]:
            rule, counted = SPACED, False
        elif not _TIME.fullmatch(told):
            rule, counted = CLOCK, False
        name, request = str(message.get("id") or ""), str(record.get("requestId") or "")
        key = name or request or str(record.get("uuid") or "")
        entry = RivalEntry(
            key,
            stream.stream,
            start,
            end,
            number,
            micros(told),
            model if isinstance(model, str) else "",
            _sum(usage),
            counted,
            rule,
            recorded=_nano(record.get("costUSD")),
            speed=_text(usage.get("speed")),
            tier=_text(usage.get("service_tier")),
            per_field=True,
        )
        side = bool(record.get("isSidechain")) or record is inner
        yield _Line(entry, name, request, side, told)
        for mark, one in _advisors(entry, usage):
            yield _Line(one, name and name + mark, request, side, told)


def _advisors(entry: RivalEntry, usage: dict[str, Any]) -> Iterator[tuple[str, RivalEntry]]:
    steps = usage.get("iterations")
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict) and step.get("type") == "advisor_message":
            mark = f"/advisor-{index}"
            yield mark, entry._replace(call=entry.call + mark, model=str(step.get("model") or ""), tokens=_sum(step), recorded=None)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _nano(value: object) -> int | None:
    return round(value * 1e9) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6 else None


def _sum(usage: dict[str, Any]) -> Sum:
    def count(value: object) -> int:
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_INT else 0

    split = usage.get("cache_creation")
    written = count(usage.get("cache_creation_input_tokens"))
    long = count(split.get("ephemeral_1h_input_tokens")) if isinstance(split, dict) else 0
    return Sum(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        max(0, written - long),
        long,
        count(usage.get("cache_read_input_tokens")),
    )
