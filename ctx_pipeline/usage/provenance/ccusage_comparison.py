"""Where another tool's rules give another number from the same files: which calls, by which rule, how much.

A host declares its model of a tool's rules (``Host.rivals``); it runs over the files of
the homes as they are. Our side has the cost that the tables of usage print; where it is
a list price, both take the same list of the day, so that what differs are rules. The tool
itself takes the prices of today, which is told per model.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import UnknownChoice, UsageError
from ctx_pipeline.model.host_records import RivalEntry, Sum
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.pricing import PriceBook
from ctx_pipeline.usage.engine import calls
from ctx_pipeline.usage.groupings import Days
from ctx_pipeline.usage.homes import live_usage as live
from ctx_pipeline.usage.provenance.explain import Explained, Spot, explain, files_of, picks
from ctx_pipeline.usage.provenance.price_bridge import Bridges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.settings import Settings

VERSIONS = {"ccusage": "20.0.24"}
"""Tool -> the version whose rules are declared; older ones follow others."""

_C = {name: place for place, name in enumerate(MODEL_CALLS.names)}
_ZERO = Sum(0, 0, 0, 0, 0)
_COMPARED = ("daily", "weekly", "monthly", "session", "project", "model")
"""Tables whose cells another tool has as well."""
_EXAMPLES = 3
_OVER = 200_000
"""Tokens above which ccusage takes the long-context price, for each count by itself."""

LARGER = "of the lines of a response it takes the one with the largest sum; here each count is the largest of its lines"
ELSEWHERE = "it dates or places the call by another of its lines"
HERE_ELSEWHERE = "the call is counted here for another day, session or model"
UNSEEN = "it finds no such record in the files as they are now"
COPY = "it counts a record that is a copy here: history that a fork or resume replays"
AGAIN = "it counts the call more than once"
SEARCHES = "it does not bill web searches"
RECORDED = "it takes the cost that the log holds; here the cost mode is calculate: list prices alone"
LISTED = "it takes the list price where the log holds no cost; here the cost mode is display: recorded costs alone"
NOT_TAKEN = "it does not take the cost that the agent recorded"
TIERS = "it bills the excess of each count at the long-context price; here the prompt decides for the whole call"
OTHER_PRICE = "it prices the record under the terms of that line alone"


class Difference(NamedTuple):
    """One call on which the two disagree."""

    call: str
    host: str
    rule: str
    ours: Sum
    theirs: Sum
    ours_nano: int
    theirs_nano: int
    spots: list[Spot]

    def to_json(self) -> dict[str, Any]:
        """Return it with tokens by name and the cost in dollars."""
        return {
            **self._asdict(),
            "ours": self.ours._asdict(),
            "theirs": self.theirs._asdict(),
            "spots": [spot._asdict() for spot in self.spots],
        }


@dataclass(slots=True)
class Side:
    """What one of the two says."""

    calls: int = 0
    tokens: Sum = _ZERO
    nano: int = 0

    def add(self, tokens: Sum, nano: int) -> None:
        """Take one more."""
        self.calls += 1
        self.tokens = _plus(self.tokens, tokens)
        self.nano += nano

    def to_json(self) -> dict[str, Any]:
        """Return calls, tokens by name and dollars."""
        return {"calls": self.calls, **self.tokens._asdict(), "cost_usd": self.nano / 1e9}


@dataclass(slots=True)
class ToolComparison:
    """Both totals of a number and every difference between them."""

    what: str
    kind: str
    tool: str
    ours: Side = field(default_factory=Side)
    theirs: Side = field(default_factory=Side)
    differences: list[Difference] = field(default_factory=list)
    cost_mode: str = "auto"
    """which cost is *the* cost of our side"""
    models: Bridges = field(default_factory=Bridges)
    """in dollars, per model: today's prices against those of the day, what is counted twice or never, recorded costs"""

    def rules(self) -> list[dict[str, Any]]:
        """Return each rule with the calls, tokens and dollars that it makes more or less, the most expensive first."""
        found: dict[str, dict[str, Any]] = {}
        for one in self.differences:
            told = found.setdefault(one.rule, {"rule": one.rule, "calls": 0, "tokens": 0, "nano": 0, "examples": []})
            told["calls"] += 1
            told["tokens"] += one.theirs.total() - one.ours.total()
            told["nano"] += one.theirs_nano - one.ours_nano
            if len(told["examples"]) < _EXAMPLES:
                told["examples"].append(one)
        return sorted(found.values(), key=lambda r: (-abs(r["nano"]), -abs(r["tokens"]), r["rule"]))

    def to_json(self) -> dict[str, Any]:
        """Return both totals, the rules and every difference."""
        rules = [{"rule": r["rule"], "calls": r["calls"], "tokens": r["tokens"], "cost_usd": r["nano"] / 1e9} for r in self.rules()]
        told = {"what": self.what, "kind": self.kind, "tool": self.tool, "cost_mode": self.cost_mode}
        models = [one.to_json() for one in self.models.rows()]
        return {
            **told,
            "ours": self.ours.to_json(),
            "theirs": self.theirs.to_json(),
            "models": models,
            "bridge": self.models.total().to_json(),
            "rules": rules,
            "differences": [d.to_json() for d in self.differences],
        }


def compare_with(
    tool: str,
    what: str,
    *,
    host: str | None = None,
    model: str | None = None,
    project: str | None = None,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    by: str | None = None,
    stored: bool = False,
    settings: Settings | None = None,
) -> ToolComparison:
    """Return what ``tool`` says of a day, week, month, session, model, project or call, beside what we say, and why they differ.

    Our cost is that of the usage tables, by the cost mode; the tool believes a cost that a
    record holds, and all other records have list prices on both sides. Raises UnknownName for a tool that no host knows, and
    UsageError as :func:`ctx_pipeline.usage.provenance.explain.explain` does, and for what the tool has
    no numbers of: threads, tools, windows, stretches of time.
    """
    from ctx_pipeline import settings as settings_module

    if since or until or by not in {None, *_COMPARED}:
        raise UsageError(f"{tool} is compared by {', '.join(_COMPARED)}", hint=f"ctx explain {what} --by {by or 'daily'}")

    chosen = settings or settings_module.load()
    hosts = {h.key: h for h in discovery.hosts().values() if host in {None, h.key}}
    known = sorted({name for h in hosts.values() for name in h.usage.other_tools})
    if tool not in known:
        row = shlex.join(["ctx", "explain", what, *(["--by", by] if by else [])])
        recorded = f"the agent's own recorded cost stands beside the list price of each call: {row}"
        raise UnknownChoice("tool", tool, known, hint=f"known: {', '.join(known)}; {recorded}")
    found = explain(what, host=host, model=model, project=project, timezone=timezone, by=by, stored=stored, settings=chosen)
    result = ToolComparison(what, found.kind, tool, cost_mode=found.cost_mode)
    book, files = PriceBook.of(chosen), files_of(chosen)
    judge = _Judge(found, book, files, _everything(chosen, host))
    days = Days(timezone or chosen.timezone)
    for key, declared in hosts.items():
        if tool not in declared.usage.other_tools:
            continue
        sources = live.sources(chosen, host=key)
        sessions = live.sessions(sources, chosen)
        of_stream = {source.stream: s.session_id for s in sessions for source, _ in s.sources}
        entries = list(declared.usage.other_tools[tool](b for s in sessions for b in live.streams(s)))
        meant = picks(found, days, of_stream, model=model, project=project)
        judge.add_host(result, key, entries, {n for n, e in enumerate(entries) if meant(e)})
    return result


def _everything(settings: Settings, host: str | None) -> set[tuple[str, str]]:
    """Return (host, call key) of every call that we count, anywhere."""
    return {(c.host, row[_C["call_key"]]) for c, rows in calls(settings, host=host).owned for row in rows}


class _Judge:
    """Compares the entries of a tool with the calls behind a number."""

    def __init__(self, found: Explained, book: PriceBook, files: dict[str, str], everywhere: set[tuple[str, str]]) -> None:
        self._made = found.calls
        self._mode = found.cost_mode
        self._book = book
        self._files = files
        self._everywhere = everywhere
        self._now = int(time.time() * 1e6)

    def add_host(self, result: ToolComparison, host: str, entries: list[RivalEntry], meant: set[int]) -> None:
        """Add a host's totals and differences to the result."""
        ours = {m.row[_C["call_key"]]: m for m in self._made if m.row[_C["host"]] == host}
        here: dict[str, list[RivalEntry]] = {}
        others: dict[str, list[RivalEntry]] = {}
        for number, entry in enumerate(entries):
            (here if number in meant and entry.counted else others).setdefault(entry.call, []).append(entry)
        _paired(ours, here)
        for key in dict.fromkeys((*ours, *here)):
            made, theirs = ours.get(key), here.get(key, [])
            mine = _tokens(made.row) if made else _ZERO
            nano = (made.cost or 0) if made else 0
            their_sum, their_nano, their_today = _ZERO, 0, 0
            for entry in theirs:
                cost = self._cost(entry)
                their_sum, their_nano = _plus(their_sum, entry.tokens), their_nano + cost
                their_today += self._cost(entry._replace(ts=self._now))
                result.theirs.add(entry.tokens, cost)
            bridge = result.models.of(made.row[_C["model"]] if made else theirs[0].model)
            bridge.take(mine, their_sum, here=nano, today=self._today(made.row) if made else 0, there=their_today)
            if made and (recorded := made.row[_C["recorded_cost"]]) is not None:
                bridge.recorded, bridge.recorded_here = bridge.recorded + recorded, bridge.recorded_here + (made.row[_C["cost"]] or 0)
                bridge.recorded_calls += 1
            if made:
                result.ours.add(mine, nano)
            if (mine, nano) == (their_sum, their_nano):
                continue
            rule = self._rule(host, made.row if made else None, theirs, others.get(key, []))
            spots = [self._spot(e) for e in (theirs or others.get(key, []))[:_EXAMPLES]] or ([made.spot] if made else [])
            result.differences.append(Difference(key, host, rule, mine, their_sum, nano, their_nano, spots))

    def _rule(self, host: str, row: tuple | None, theirs: list[RivalEntry], others: list[RivalEntry]) -> str:
        """Return why the two disagree on a call."""
        said = next((e.rule for e in theirs if e.rule), "")
        if row is None:
            return said or (HERE_ELSEWHERE if (host, theirs[0].call) in self._everywhere else COPY)
        if not theirs:
            if any(e.counted for e in others):
                return ELSEWHERE
            return next((e.rule for e in others if e.rule), UNSEEN)
        if len(theirs) > 1:
            return said or AGAIN
        if theirs[0].tokens != _tokens(row):
            return said or LARGER
        return self._cost_rule(row, theirs[0])

    def _cost_rule(self, row: tuple, entry: RivalEntry) -> str:
        if entry.recorded is not None and self._mode == "calculate":
            return RECORDED
        if entry.recorded is None and self._mode != "calculate" and row[_C["recorded_cost"]] is not None:
            return NOT_TAKEN
        if self._mode == "display" and row[_C["recorded_cost"]] is None:
            return LISTED
        if row[_C["web_searches"]]:
            return SEARCHES
        if entry.per_field and row[_C["context_tokens"]] > _OVER:
            return TIERS
        return OTHER_PRICE

    def _today(self, row: tuple) -> int:
        """Return what a call would cost by the list of today; what the agent recorded stays as it is."""
        ((nano, _),) = self._book.cost_rows([(*row[: _C["ts"]], self._now, *row[_C["ts"] + 1 :])])
        return cost_of(self._mode, row[_C["recorded_cost"]], nano) or 0

    def _cost(self, entry: RivalEntry) -> int:
        """Return what the tool makes of an entry, at our prices."""
        if entry.recorded is not None:
            return entry.recorded
        prompt = entry.tokens.total() - entry.tokens.output
        if not entry.per_field or max(entry.tokens) <= _OVER:
            return self._at(entry, entry.tokens, prompt if not entry.per_field else 0)
        below = Sum(*(min(count, _OVER) for count in entry.tokens))
        above = Sum(*(max(0, count - _OVER) for count in entry.tokens))
        return self._at(entry, below, 0) + self._at(entry, above, _OVER + 1)

    def _at(self, entry: RivalEntry, tokens: Sum, prompt: int) -> int:
        nano, _ = self._book.cost_nano(entry.model, entry.ts, **tokens._asdict(), context_tokens=prompt, tier=entry.tier, speed=entry.speed)
        return nano or 0

    def _spot(self, entry: RivalEntry) -> Spot:
        return Spot(self._files.get(entry.stream, entry.stream), entry.start, entry.end, entry.line)


def _paired(ours: dict[str, Any], here: dict[str, list[RivalEntry]]) -> None:
    """Give entries under a key of their own (a record beside a count) to the call of the same file and tokens."""
    alone = {(m.row[_C["stream"]], _tokens(m.row)): key for key, m in ours.items() if key not in here}
    for key in [k for k in here if k not in ours]:
        for entry in list(here[key]):
            twin = alone.pop((entry.stream, entry.tokens), None)
            if twin is not None:
                here[key].remove(entry)
                here.setdefault(twin, []).append(entry)
        if not here[key]:
            del here[key]


def _tokens(row: tuple) -> Sum:
    return Sum(*(row[_C[name]] for name in Sum._fields))


def _plus(a: Sum, b: Iterable[int]) -> Sum:
    return Sum(*(x + y for x, y in zip(a, b, strict=True)))
