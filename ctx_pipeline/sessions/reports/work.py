"""What agents did, for each host and in all: commands, tools, how often they failed, and what followed what."""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts import pauses
from ctx_pipeline.facts.check_runs import check_runs
from ctx_pipeline.facts.command_runs import SEARCHES, command_runs, failed_calls, failed_program, printed, runs_by_call, without_hits
from ctx_pipeline.facts.copied_calls import copied_calls
from ctx_pipeline.facts.file_accesses import CHANGES, READ, accesses_by_call
from ctx_pipeline.facts.first_lines import first_line_of
from ctx_pipeline.mining.lessons.failures import salient_line, shorten_paths, signature
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.display import percent, table_text, truncate, visible
from ctx_pipeline.model.host_records import KEPT
from ctx_pipeline.sessions.states.handoff import RESUMED
from ctx_pipeline.storage.origin_calls import with_origin_calls
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import parse_filters
from ctx_pipeline.usage.repositories import project_names
from ctx_pipeline.usage.rollup import moment
from ctx_pipeline.usage.session_figures import Figure, figures, quarter_of
from ctx_pipeline.usage.usage_figures import selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings


ALL = "all"
_TABLES = ("events", "tool_calls", "model_calls", "command_runs", "check_runs")
_COLUMNS = {
    "check_runs": ("call_event", "kind", "result"),
    "events": ("event_id", "subtype", "text", "call_key"),
    "model_calls": ("call_key", "owner", "copy_of"),
    "tool_calls": ("call_id", "thread_id", "tool", "action", "is_error", "started", "ended", "call_event", "result_event"),
    "command_runs": ("call_event", "command", "programs", "purposes", "polls", "background", "result", "event", "started", "ended"),
}
CHECK_KINDS = ("test", "lint", "types", "build")
_LONGEST = 160
_TOP = 15


@dataclass(slots=True)
class Ran:
    """How often something ran, how often it failed, and how long it took."""

    times: int = 0
    failed: int = 0
    took: list[int] = field(default_factory=list)
    """microseconds of those that were waited for, without :attr:`waits`"""
    waits: list[int] = field(default_factory=list)
    """microseconds for which some of them waited for the person before they ran (:func:`ctx_pipeline.facts.pauses.waited`)"""

    @property
    def rate(self) -> float:
        """Share of the times that failed, 0 to 1."""
        return self.failed / self.times if self.times else 0.0

    @property
    def total_seconds(self) -> float | None:
        """What the runs took in all; None where none was waited for."""
        return round(sum(self.took) / 1e6, 1) if self.took else None

    @property
    def median_seconds(self) -> float | None:
        """Median of what the runs took; None where none was waited for."""
        return round(statistics.median(self.took) / 1e6, 1) if self.took else None

    def join(self, times: int, failed: int, took: Sequence[int], waits: Sequence[int] = ()) -> None:
        """Count so many more, of which some failed, some took so many microseconds and some waited for the person so long before."""
        self.times += times
        self.failed += failed
        self.took += took
        self.waits += waits


@dataclass(slots=True)
class Work:
    """The work of one host, or of all."""

    host: str
    tool_calls: Ran = field(default_factory=Ran)
    commands: Ran = field(default_factory=Ran)
    tools: dict[str, Ran] = field(default_factory=dict)
    programs: dict[str, Ran] = field(default_factory=dict)
    """program with its subcommand; a command line counts for each of its programs, and one of them fails with it"""
    checks: dict[str, Ran] = field(default_factory=dict)
    """test, lint, types and build: a command line counts once for each that one of its programs does"""
    lines: dict[str, Ran] = field(default_factory=dict)
    """whole command lines, on one line, cut at 160 characters; paths from the session's folder on"""
    transitions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(action, action of the next call in the same thread) -> times"""

    def add(self, value: Mapping[str, Any]) -> None:
        """Add what is kept of some quarters of an hour of a session (:data:`WORK`)."""
        for name, mine in (("tools", self.tools), ("programs", self.programs), ("checks", self.checks), ("lines", self.lines)):
            for key, more in value[name].items():
                mine.setdefault(key, Ran()).join(*more)
        for times, failed, *_ in value["tools"].values():
            self.tool_calls.join(times, failed, ())
        self.commands.join(*value["commands"])
        for before, after in value["transitions"].items():
            for action, times in after.items():
                self.transitions[before, action] += times

    def merge(self, other: Work) -> None:
        """Add the work of another host."""
        for mine, theirs in (
            (self.tools, other.tools),
            (self.programs, other.programs),
            (self.checks, other.checks),
            (self.lines, other.lines),
        ):
            for key, ran in theirs.items():
                mine.setdefault(key, Ran()).join(ran.times, ran.failed, ran.took, ran.waits)
        for one, ran in ((self.tool_calls, other.tool_calls), (self.commands, other.commands)):
            one.join(ran.times, ran.failed, ran.took, ran.waits)
        self.transitions.update(other.transitions)

    def to_json(self, top: int = _TOP, *, by: str = "times") -> dict[str, Any]:
        """Return the sums, and the first ``top`` of everything by one of :data:`ORDERS`."""
        return {
            "host": self.host,
            "tool_calls": self.tool_calls.times,
            "failed_tool_calls": self.tool_calls.failed,
            "tool_failure_rate": round(self.tool_calls.rate, 4),
            "commands": self.commands.times,
            "failed_commands": self.commands.failed,
            "command_failure_rate": round(self.commands.rate, 4),
            "checks": ranked(self.checks, "check", top, by=by),
            "top_tools": ranked(self.tools, "tool", top, by=by),
            "top_programs": ranked(self.programs, "program", top, by=by),
            "top_commands": ranked(self.lines, "command", top, by=by),
            "transitions": [
                {"from": a, "to": b, "times": n} for (a, b), n in sorted(self.transitions.items(), key=lambda one: (-one[1], one[0]))[:top]
            ],
        }


ORDERS = {
    "times": lambda ran: -ran.times,
    "failed": lambda ran: -ran.failed,
    "time": lambda ran: -sum(ran.took),
}
"""What names are put in order by: how often they ran, how often they failed, or how long they took in all, without waits."""


def ranked(found: dict[str, Ran], name: str, top: int, *, by: str = "times") -> list[dict[str, Any]]:
    """Return the first names with times, failures and their share, how many were timed, their seconds in all; of commands the median too.

    ``waits`` and ``waited_seconds`` are those that the seconds in all leave out (:attr:`Ran.waits`).
    """
    order = sorted(found.items(), key=lambda one: (ORDERS[by](one[1]), -one[1].times, one[0]))[:top]
    rows: list[dict[str, Any]] = []
    for key, ran in order:
        waits = ran.waits
        took = {
            "timed": len(ran.took),
            "total_seconds": ran.total_seconds,
            "waits": len(waits),
            "waited_seconds": round(sum(waits) / 1e6, 1),
        }
        took |= {} if name == "tool" else {"median_seconds": ran.median_seconds}
        rows.append({name: key, "times": ran.times, "failed": ran.failed, "failure_rate": round(ran.rate, 4), **took})
    return rows


def work(
    host: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> list[Work]:
    """Return the work of all hosts together first, then of each; of one host alone where it is named.

    Commands, and which of them failed, are those of the table ``command_runs`` and of the signals ``command_count`` and
    ``failed_command_count``: a search that found nothing did not fail. Days are those of the call, and for what followed what those of
    the later one. A session that is a copy of another as a whole is left out, and so are the calls
    that one which went on repeats. Raises StoreError when nothing was captured yet.
    """
    found: dict[str, Work] = {}
    with reading(settings) as (store, chosen):
        filters = parse_filters(chosen, host=host, project=project, since=since, until=until, timezone=timezone)
        for (name, _), values in selected(store, chosen, WORK, filters):
            for value in values:
                if value["tools"]:
                    found.setdefault(name, Work(name)).add(value)
    if found and not host:
        whole = Work(ALL)
        for one in found.values():
            whole.merge(one)
        found[ALL] = whole
    return sorted(found.values(), key=lambda one: (one.host != ALL, one.host))


def _views_with_calls(
    columns: Mapping[str, Sequence[str]], *, host: str | None, project: str | None, settings: Settings | None, **days: str | None
) -> Iterator[tuple[SessionView, set[str]]]:
    """Yield each session of a host and a project with its calls on these days, by their events; none without such a call."""
    with reading(settings) as (store, chosen):
        filters = parse_filters(chosen, host=host, project=project, **days)
        first, last = moment(filters.since, filters.timezone), moment(filters.until, filters.timezone, after=True)
        copied = store.ledger.copied_sessions()
        for cell in store.ledger.cells():
            if host not in {None, cell.host}:
                continue
            views = store.lake.read_sessions(cell, None, _TABLES, columns=columns, kinds=("tool_call", "tool_result"))
            for view in with_origin_calls(store, views):
                named = project is None or project in project_names(view.session.project, view.session.repository)
                if named and (view.host, view.session_id) not in copied:
                    meant = {c.call_event for c in view.tool_calls if _inside(c.started, first, last)} - copied_calls(view)
                    if meant:
                        yield view, meant


@dataclass(slots=True)
class Met:
    """An error that failed calls printed, numbers and names of folders left aside."""

    what: str
    """program with its subcommand, else the tool"""
    error: str
    """the line that says what is wrong, as the last call printed it; empty where none says it"""
    times: int = 0
    sessions: set[tuple[str, str]] = field(default_factory=set)
    """(host, session)"""
    newest: tuple[str, str] = ("", "")
    """the one that met it last"""
    last: int = 0
    """microseconds since 1970"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, with the session in which it came last."""
        host, session_id = self.newest
        named = {"host": host, "session_id": session_id, "last": iso(self.last) if self.last else None}
        return {"what": self.what, "error": self.error, "times": self.times, "sessions": len(self.sessions), **named}


def errors(
    host: str | None = None,
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
) -> list[Met]:
    """Return the errors of failed calls, those that came most often first, as :func:`work` chooses them.

    The outputs of failed calls are read, so this takes longer. Calls that were refused did not fail.
    """
    found: dict[tuple[str, str], Met] = {}
    columns = {**_COLUMNS, "command_runs": (*_COLUMNS["command_runs"], "outputs")}
    days = {"since": since, "until": until, "timezone": timezone}
    for view, meant in _views_with_calls(columns, host=host, project=project, settings=settings, **days):
        _add_errors(found, view, meant)
    return sorted(found.values(), key=lambda met: (-met.times, -met.last, met.what, met.error))


def _add_errors(found: dict[tuple[str, str], Met], view: SessionView, meant: set[str]) -> None:
    """Add what the failed ones among a session's calls of these events printed."""
    runs = runs_by_call(view)
    bad = meant & {call.call_event for call in failed_calls(view)}
    for call in view.tool_calls:
        answer = view.by_event.get(call.result_event) if call.call_event in bad else None
        if answer is None or answer.subtype in KEPT:
            continue
        run = runs.get(call.call_event)
        blamed = failed_program(run.command, printed(view, run)) if run is not None else ""
        what, text = blamed or call.tool, answer.text or ""
        said = ""
        if run is not None:  # what a tool of the agent answers begins with what is wrong, and may quote a file behind it
            text = without_hits(blamed, printed(view, run) or text)
            if blamed in SEARCHES and not text:
                continue  # of what it was given to look through something was missing, and it found what it looked for
            said = salient_line(text, view.session.cwd, of_any_form=True)
        line = said or first_line_of(text, _LONGEST)
        met = found.setdefault((what, signature(line)), Met(what, line))
        met.times += 1
        at = micros(call.started) or 0
        met.sessions.add((view.host, view.session_id))
        if at >= met.last:
            met.last, met.error, met.newest = at, line, (view.host, view.session_id)


def most_used(bounds: tuple[int | None, int | None], *, settings: Settings) -> tuple[dict[str, int], dict[str, int]]:
    """Return how often each program and each tool ran in a time, whose ends lie on borders of quarters of an hour."""
    programs, tools = Counter[str](), Counter[str]()
    with reading(settings) as (store, chosen):
        copied = store.ledger.copied_sessions()
        for _, values in figures(store, chosen, WORK, bounds=bounds, only=lambda key: key not in copied):
            for value in values:
                programs.update({name: times for name, (times, *_) in value["programs"].items()})
                tools.update({name: times for name, (times, *_) in value["tools"].items()})
    return dict(programs), dict(tools)


def _done(view: SessionView, _settings: Settings) -> dict[int | None, Any]:
    """Return what a session's agents did, by the quarter of an hour of the call; a name -> times, failures and microseconds of runs.

    A call that is a copy is no more than what the first one behind it followed.
    """
    found: dict[int | None, dict[str, Any]] = defaultdict(_nothing)
    before: dict[str, str] = {}
    bad = {call.call_event for call in failed_calls(view)}
    runs = runs_by_call(view)
    queued, copied = pauses.queued(view.tool_calls), copied_calls(view)
    quarters, waits, took_alone = {}, dict[str, int](), dict[str, tuple[int, int]]()
    for call in view.tool_calls:
        if call.call_event in copied:
            before[call.thread_id] = call.action
            continue
        quarters[call.call_event] = quarter = quarter_of(micros(call.started))
        run, answer = runs.get(call.call_event), view.by_event.get(call.result_event)
        refused = (run is not None and run.result == "refused") or (answer is not None and answer.subtype in KEPT)
        took = None
        if call.started is not None and call.ended is not None and not refused:
            waits[call.call_event] = waited = max(0, pauses.waited(view, call) - queued.get(call.call_event, 0))
            took = call.ended - call.started - waited, waited
        _count(found[quarter]["tools"], call.tool, call.call_event in bad, took)
        if call.thread_id in before:
            after = found[quarter]["transitions"].setdefault(before[call.thread_id], {})
            after[call.action] = after.get(call.action, 0) + 1
        before[call.thread_id] = call.action
    for run in command_runs(view):
        if run.call_event not in quarters:
            continue
        value = found[quarters[run.call_event]]
        failed = run.result == "failed"
        took = None
        if run.started is not None and run.ended is not None and not run.background and run.result != "refused":
            waited = waits.get(run.call_event, 0)
            took = run.ended - run.started - waited, waited
        _count(value, "commands", failed, took)
        line = " ".join(shorten_paths(run.command, view.session.cwd).split()).removesuffix(" 2>&1")
        _count(value["lines"], truncate(line, _LONGEST), failed, took)
        blamed = failed_program(run.command, printed(view, run)) if failed else ""
        programs = list(dict.fromkeys(filter(None, run.programs)))
        alone = took if len(programs) == 1 else None
        for program in programs:
            _count(value["programs"], program[:100], program == blamed, alone)
        if alone is not None:
            took_alone[run.call_event] = alone
    results = defaultdict[tuple[str, str], set[str]](set)
    for check in check_runs(view):
        if check.kind in CHECK_KINDS and check.call_event in quarters and check.result != "refused":
            results[check.call_event, check.kind].add(check.result)
    for (event, kind), ended in results.items():
        _count(found[quarters[event]]["checks"], kind, "failed" in ended, took_alone.get(event))
    return dict(found)


_NAMES = ("tools", "programs", "checks", "lines")


def _nothing() -> dict[str, Any]:
    return {**{name: {} for name in _NAMES}, "commands": [0, 0, [], []], "transitions": {}}


def _count(found: dict[str, Any], name: str, failed: bool, took: tuple[int, int] | None) -> None:
    """Count one more, which took so many microseconds and waited for the person so many before; None where it was not waited for."""
    _join(found, name, (1, int(failed), [] if took is None else took[:1], [took[1]] if took and took[1] else []))


def _join(found: dict[str, Any], name: str, more: Sequence[Any]) -> None:
    known = found.get(name)
    if known is None:
        found[name] = [more[0], more[1], list(more[2]), list(more[3])]
        return
    for place, part in enumerate(more):
        known[place] += part


def _done_in_all(values: Iterable[Any]) -> dict[str, Any]:
    total = _nothing()
    for value in values:
        for kind in _NAMES:
            for name, more in value[kind].items():
                _join(total[kind], name, more)
        _join(total, "commands", value["commands"])
        for before, after in value["transitions"].items():
            for action, times in after.items():
                known = total["transitions"].setdefault(before, {})
                known[action] = known.get(action, 0) + times
    return total


WORK = Figure("work", 7, _done, _done_in_all, _COLUMNS, ("tool_call", "tool_result"), of_origins=True)


def utc(micros: int | None) -> datetime | None:
    """Return a moment in microseconds as the tables hold it: UTC without a zone."""
    return None if micros is None else datetime.fromtimestamp(micros / 1e6, UTC).replace(tzinfo=None)


def _inside(ts: int | None, first: int | None, last: int | None) -> bool:
    if first is None and last is None:
        return True
    return ts is not None and (first is None or ts >= first) and (last is None or ts < last)


def report(found: list[Work], *, top: int = _TOP) -> str:
    """Return the work as Markdown: a part for all hosts together and one for each."""
    lines = ["# What the agents did", ""]
    for one in found:
        lines += [f"## {'All agents' if one.host == ALL else one.host}", ""]
        calls = one.tool_calls
        lines.append(
            f"{one.commands.times:,} commands, {percent(one.commands.rate)} failed; {calls.times:,} tool calls,"
            f" {percent(calls.rate)} failed."
        )
        lines.append("")
        for title, name, members in (
            ("Checks", "check", one.checks),
            ("Programs", "program", one.programs),
            ("Commands", "command", one.lines),
            ("Tools", "tool", one.tools),
        ):
            lines += [f"### {title}", "", f"| {name} | times | failed | | seconds | median |", "|---|---:|---:|---:|---:|---:|"]
            lines += [
                f"| {_code(r[name])} | {r['times']:,} | {r['failed']:,} | {r['failure_rate']:.0%}"
                f" | {_seconds(r['total_seconds'])} | {_seconds(r.get('median_seconds'))} |"
                for r in ranked(members, name, top)
            ]
            lines.append("")
        lines += ["### What followed what", "", "| action | next | times |", "|---|---|---:|"]
        lines += [f"| {t['from']} | {t['to']} | {t['times']:,} |" for t in one.to_json(top)["transitions"]]
        lines.append("")
    return "\n".join(lines)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.1f}"


def _code(text: str) -> str:
    """Return a text as code in a cell of a table; as plain words where an escaped stroke in it would part the cell."""
    plain = visible(text)
    if "\\|" in plain:
        return table_text(plain)
    fence = "`" * (max(map(len, re.findall("`+", plain)), default=0) + 1)
    pad = " " if "`" in plain else ""
    code = " ".join(plain.split()).replace("|", "\\|")
    return f"{fence}{pad}{code}{pad}{fence}"


# Whether a resume block helps: how much was done between a compaction and the next change, with one and without.


_RESUME_EFFECT_COLUMNS = {"events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype")}
_EMPTIES = "micro"
"""Part of the name of a compaction after which no block is given: it only empties old results."""


class Side(NamedTuple):
    """The compactions on one side: how many were followed by a change, and the median calls before it."""

    compactions: int
    changed: int
    median_calls: float | None
    median_reads: float | None


def resume_effect(*, settings: Settings) -> dict[str, Side]:
    """Return ``with`` and ``without`` a block: tool calls, and reads among them, from each compaction to the first change behind it."""
    steps: dict[str, list[tuple[int, int] | None]] = {"with": [], "without": []}
    with reading(settings) as (store, _):
        facts = store.journal.facts(RESUMED) if store.journal.is_there() else []
        told: dict[tuple[str, str], list[int]] = {}
        for fact in facts:
            told.setdefault((str(fact.payload.get("host")), str(fact.payload.get("session_id"))), []).append(from_iso(fact.at) or 0)
        for cell in store.lake.manifests("normalized"):
            for view in store.lake.read_sessions(cell, None, ("events", "tool_calls"), _RESUME_EFFECT_COLUMNS, {"compaction"}):
                marks = [e for e in view.events if _EMPTIES not in (e.subtype or "")]
                answered = {_last(marks, at) for at in told.get((view.host, view.session_id), ())}
                for mark in marks:
                    steps["with" if mark.event_id in answered else "without"].append(_steps(view, mark))
    return {side: _summed(found) for side, found in steps.items()}


def _last(marks: Sequence[Any], at: int) -> str | None:
    """Return the event of the last compaction before a moment, which is the one that a block then answered."""
    before = [(micros(m.ts), m.event_id) for m in marks if (micros(m.ts) or 0) <= at]
    return max(before, key=lambda pair: pair[0] or 0)[1] if before else None


def _steps(view: Any, mark: Any) -> tuple[int, int] | None:
    """Return the calls and the reads behind a compaction up to the first change; None where none followed."""
    calls = reads = 0
    known = view.once(accesses_by_call)
    for call in view.tool_calls:
        if call.thread_id != mark.thread_id or call.seq < mark.seq:
            continue
        did = {a.did for a in known.get(call.call_event, ())}
        if did & CHANGES:
            return calls, reads
        calls += 1
        reads += READ in did
    return None


def _summed(found: Sequence[tuple[int, int] | None]) -> Side:
    known = [pair for pair in found if pair is not None]
    calls, reads = ([pair[place] for pair in known] for place in (0, 1))
    return Side(len(found), len(known), statistics.median(calls) if calls else None, statistics.median(reads) if reads else None)
