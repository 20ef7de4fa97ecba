"""Every surface says the same number: what each of them tells of a session, side by side."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ctx_pipeline import settings as settings_module
from ctx_pipeline.cli import cli
from ctx_pipeline.dashboard.panels.accounting import records
from ctx_pipeline.dashboard.panels.numbers import figures
from ctx_pipeline.facts.command_runs import command_runs, failed_calls
from ctx_pipeline.facts.copied_calls import copied_calls
from ctx_pipeline.facts.file_accesses import CHANGES, READ, inside
from ctx_pipeline.findings.evidence import history
from ctx_pipeline.findings.rules import find
from ctx_pipeline.mcp_server.report_tools import ReportTools
from ctx_pipeline.mcp_server.session_tools import SessionTools
from ctx_pipeline.pipeline.facts import make_facts
from ctx_pipeline.pipeline.measure import measure
from ctx_pipeline.pipeline.page.page_records import current
from ctx_pipeline.pipeline.sync import sync
from ctx_pipeline.search import query
from ctx_pipeline.sessions.files import accesses, session_files, summed
from ctx_pipeline.sessions.listing import listed
from ctx_pipeline.sessions.reports.gain import gain
from ctx_pipeline.sessions.reports.metrics import metrics
from ctx_pipeline.sessions.reports.repeated_reads import window_files
from ctx_pipeline.sessions.reports.rot_reports import CapturedSession
from ctx_pipeline.sessions.reports.work import work
from ctx_pipeline.sessions.reports.wrapped import wrapped
from ctx_pipeline.sessions.session_details import show, turns, view_of
from ctx_pipeline.sessions.states.state import session_state
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.origin_calls import with_origin_calls
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.engine import usage
from ctx_pipeline.usage.limits import outcomes
from ctx_pipeline.usage.repositories import by_repository
from ctx_pipeline.usage.rollup import Filters
from ctx_pipeline_tests.conftest import CORPUS, corpus
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.claude import ClaudeHome, text, tool_use
from ctx_pipeline_tests.signals.golden import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctx_pipeline.settings import Settings

_CHECKED = "ran IS NOT FALSE AND result <> 'refused' AND ts IS NOT NULL"
"""Rows of ``check_runs`` that checked something."""
_PROMPT_TOKENS = ("input_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
_GAIN_PROMPTS = ("fresh_input", "cache_write_5m", "cache_write_1h", "cache_read")


@dataclass
class Whole:
    """What is read once for all sessions of a store."""

    settings: Settings

    @cached_property
    def page(self) -> dict[tuple[str, str], Any]:
        return {(s.host, s.session_id): s for s in self.data.sessions}

    @cached_property
    def lines(self) -> dict[tuple[str, str], dict[str, Any]]:
        rows, _ = listed(limit=100_000, settings=self.settings)
        return {(r["host"], r["session_id"]): r for r in rows}

    @cached_property
    def usage(self) -> dict[tuple[str, str], dict[str, int]]:
        found: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in usage("session", stored=True, settings=self.settings).rows:
            for name in (*_PROMPT_TOKENS, "output_tokens", "calls", "cost_nano"):
                found[row["host"], row["session_id"]][name] += int(row[name] or 0)
        return found

    @cached_property
    def heat(self) -> dict[tuple[str, str], list[Any]]:
        found = defaultdict(list)
        with open_store(self.settings) as store:
            for access in accesses(store)[0]:
                found[access.host, access.session_id].append(access)
        return found

    @cached_property
    def readings(self) -> dict[tuple[str, str], dict[str, float]]:
        found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        _, rows = query("SELECT host, session_id, signal, value FROM readings WHERE value IS NOT NULL", settings=self.settings)
        for host, session, signal, value in rows:
            found[host, session][signal] = value
        return found

    @cached_property
    def data(self) -> Any:
        return current(self.settings)

    @cached_property
    def total(self) -> dict[str, Any]:
        return usage("daily", stored=True, settings=self.settings).totals

    @cached_property
    def card(self) -> dict[str, Any]:
        return wrapped("all", settings=self.settings).to_json()

    @cached_property
    def work(self) -> Any:
        return work(settings=self.settings)[0]

    @cached_property
    def copies(self) -> dict[tuple[str, str], str]:
        """Sessions that are copies as a whole: what was done in them counts for another one."""
        with reading(self.settings) as (store, _):
            return store.ledger.copied_sessions()

    @cached_property
    def repeated(self) -> Counter[str]:
        """What copies that went on repeat of their origins, by the page's names of columns."""
        found = Counter[str]()
        with reading(self.settings) as (store, _):
            for cell in store.ledger.cells():
                views = store.lake.read_sessions(cell, None, ("events", "tool_calls", "model_calls", "command_runs"))
                for view in with_origin_calls(store, views):
                    calls = set() if (view.host, view.session_id) in self.copies else copied_calls(view)
                    runs = [run for run in command_runs(view) if run.call_event in calls]
                    failed = sum(call.call_event in calls for call in failed_calls(view))
                    found.update(tool_calls=len(calls), failed_tool_calls=failed, commands=len(runs))
                    found.update(failed_commands=sum(run.result == "failed" for run in runs))
        return found

    def copied(self, name: str) -> int:
        """Return the sum of a column of the page's sessions over copies, and over what copies that went on repeat."""
        whole = sum(getattr(s, name) for s in self.data.sessions if (s.host, s.session_id) in self.copies)
        return whole + self.repeated[name]

    @cached_property
    def outcomes(self) -> Any:
        return outcomes("project", settings=self.settings)

    @cached_property
    def by_project(self) -> dict[str, int]:
        rows = by_repository(usage("project", stored=True, settings=self.settings).by_key_and_model(), ("cost_nano",))
        return {one["project"]: one["cost_nano"] for one in rows}

    @cached_property
    def tools(self) -> ReportTools:
        return ReportTools(self.settings, lambda *_a, **_k: {})

    @cached_property
    def mcp_card(self) -> dict[str, Any]:
        return self.tools.ctx_wrapped("all").value

    @cached_property
    def gain(self) -> dict[str, Any]:
        return gain("all", settings=self.settings).to_json()

    @cached_property
    def mcp_gain(self) -> dict[str, Any]:
        return self.tools.ctx_gain(period="all").value

    @cached_property
    def findings(self) -> list[Any]:
        return find(settings=self.settings)

    @cached_property
    def hints(self) -> dict[str, Any]:
        return json.loads(self.ctx("hints", "--json"))

    def ctx(self, *words: str) -> str:
        """Return what the command prints."""
        environ = {name: str(value) for name, value in self.settings.environ.items()}
        done = CliRunner(env=environ).invoke(cli, list(words))
        assert done.exit_code == 0, done.output
        return done.stdout

    def measured(self, signal: str, repeated: str = "") -> float:
        """Return the sum of a signal over all sessions but copies, without what those that went on repeat of a column of the page."""
        whole = sum(found.get(signal, 0) for key, found in self.readings.items() if key not in self.copies)
        return whole - self.repeated[repeated]

    def said(self, signal: str) -> Callable[[Any], Any]:
        """Return what reads the title of the finding over a signal from findings as plain values."""
        return lambda found: next((one["title"] for one in found if one.get("signal") == signal), None)

    def sql(self, select: str) -> dict[tuple[str, str], float]:
        """Return (host, session) -> the third column of a SELECT by session; sessions without a row are not in it."""
        kept = self.__dict__.setdefault("_sql", {})
        if select not in kept:
            kept[select] = {(row[0], row[1]): row[2] for row in query(f"{select} GROUP BY host, session_id", settings=self.settings)[1]}
        return kept[select]


@dataclass
class One:
    """One session as its surfaces tell it; each is asked once."""

    whole: Whole
    host: str
    session_id: str

    @property
    def key(self) -> tuple[str, str]:
        return self.host, self.session_id

    @property
    def name(self) -> str:
        return f"{self.host}:{self.session_id}"

    @property
    def settings(self) -> Settings:
        return self.whole.settings

    @cached_property
    def detail(self) -> dict[str, Any]:
        return show(self.host, self.session_id, settings=self.settings)

    @property
    def shown(self) -> dict[str, Any]:
        return self.detail["session"]

    @cached_property
    def state(self) -> Any:
        return session_state(self.name, settings=self.settings).state

    @cached_property
    def turns(self) -> list[dict[str, Any]]:
        return turns(self.host, self.session_id, settings=self.settings)

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        return summed(session_files(self.host, self.session_id, settings=self.settings).touches)

    @cached_property
    def metrics(self) -> Any:
        return metrics(self.name, settings=self.settings)

    @cached_property
    def gain(self) -> dict[str, Any]:
        return gain("session", session=self.name, settings=self.settings).to_json()

    @cached_property
    def mcp_metrics(self) -> dict[str, Any]:
        return ReportTools(self.settings, lambda *_a, **_k: {}).ctx_metrics(session_id=self.name).value

    @cached_property
    def mcp_state(self) -> dict[str, Any]:
        tools = SessionTools(self.settings, lambda *_a, **_k: {})
        return tools.ctx_session("status", session_id=self.name).value

    @cached_property
    def rot(self) -> dict[str, Any]:
        with open_store(self.settings) as store:
            view = view_of(store, *self.key, ("events", "tool_calls", "model_calls", "threads"))
        found = CapturedSession(view)
        return {"calls": found, "threads": len(found.threads)}

    @cached_property
    def deliveries(self) -> int:
        threads = self.whole.sql("SELECT host, session_id, count(DISTINCT thread_id) FROM events").get(self.key)
        return window_files(self.name, settings=self.settings).deliveries if threads == 1 else -1

    @property
    def passing_checks(self) -> int | None:
        each = self.reading("tokens_per_passing_check")
        return None if not each else round((self.reading("session_tokens") or 0) / each)

    @property
    def steps_that_check(self) -> float:
        return self.reading("trajectory_action_count_run_tests") or 0

    @property
    def commands_that_check(self) -> float:
        return self.count(f"SELECT host, session_id, count(DISTINCT call_event) FILTER (WHERE {_CHECKED}) FROM check_runs")

    def reading(self, signal: str) -> float | None:
        return self.whole.readings[self.key].get(signal)

    def count(self, select: str) -> float:
        return self.whole.sql(select).get(self.key, 0)


def _sql(select: str) -> Callable[[One], float]:
    return lambda one: one.count(f"SELECT host, session_id, {select}")


def _signal(name: str) -> Callable[[One], float | None]:
    return lambda one: one.reading(name)


def _cost(nano: float | None) -> float | None:
    return None if nano is None else round(nano / 1e9, 6)


_CHANGED_SQL = ", ".join(f"'{did}'" for did in sorted(CHANGES))

_PROMPTS_SQL = "SELECT event_id FROM events WHERE kind = 'prompt'"

NUMBERS: tuple[tuple[str, str, Callable[[One], Any]], ...] = (
    ("prompts", "show", lambda one: one.shown["prompts"]),
    ("prompts", "session status", lambda one: one.state.stats["prompts"]),
    ("prompts", "signal", _signal("user_message_count")),
    ("prompts", "page", lambda one: one.whole.page[one.key].prompts),
    ("prompts", "sql events", _sql("count(*) FILTER (WHERE kind = 'prompt') FROM events")),
    ("prompts", "sql turns", _sql(f"count(*) FILTER (WHERE prompt_event IN ({_PROMPTS_SQL})) FROM turns")),
    ("turns", "show", lambda one: len(one.turns)),
    ("turns", "sql turns", _sql("count(prompt_event) FROM turns")),
    ("prompts", "mcp", lambda one: one.mcp_state["stats"]["prompts"]),
    ("interruptions", "signal", _signal("interruption_count")),
    ("interruptions", "sql turns", _sql("count(*) FILTER (WHERE ended = 'interrupted') FROM turns")),
    ("tool calls", "show", lambda one: one.shown["tool_calls"]),
    ("tool calls", "session status", lambda one: one.state.stats["tool_calls"]),
    ("tool calls", "signal", _signal("tool_call_count")),
    ("tool calls", "page", lambda one: one.whole.page[one.key].tool_calls),
    ("tool calls", "list", lambda one: one.whole.lines[one.key]["tool_calls"]),
    ("tool calls", "sql", _sql("count(*) FROM tool_calls")),
    ("files read", "session status", lambda one: sum(f.reads > 0 for f in one.state.files)),
    ("files read", "files", lambda one: sum(f["reads"] > 0 for f in one.files)),
    ("files read", "signal", _signal("unique_files_read")),
    ("files read", "sql", _sql("count(DISTINCT path) FILTER (WHERE did = 'read') FROM file_accesses")),
    ("files read", "mcp", lambda one: sum(f["reads"] > 0 for f in one.mcp_state["files"])),
    ("files changed", "session status", lambda one: len(one.state.modified)),
    ("files changed", "files", lambda one: sum(f["changes"] > 0 for f in one.files)),
    ("files changed", "signal", _signal("unique_files_edited")),
    ("files changed", "sql", _sql(f"count(DISTINCT path) FILTER (WHERE did IN ({_CHANGED_SQL})) FROM file_accesses")),
    ("files changed", "heatmap", lambda one: len({a.path for a in one.whole.heat[one.key] if a.kind in CHANGES})),
    ("reads", "session status", lambda one: sum(f.reads for f in one.state.files)),
    ("reads", "files", lambda one: sum(f["reads"] for f in one.files)),
    ("reads", "metrics", lambda one: one.metrics.reads),
    ("reads", "cache", lambda one: None if one.deliveries < 0 else one.deliveries),
    ("reads", "heatmap", lambda one: sum(a.kind == READ for a in one.whole.heat[one.key])),
    ("reads", "sql", _sql("count(*) FILTER (WHERE did = 'read') FROM file_accesses")),
    ("reads", "mcp", lambda one: one.mcp_metrics["reads"]),
    ("failed calls", "show", lambda one: one.shown["failed_tool_calls"]),
    ("failed calls", "signal", _signal("failed_tool_call_count")),
    ("failed calls", "page", lambda one: one.whole.page[one.key].failed_tool_calls),
    ("commands", "signal", _signal("command_count")),
    ("commands", "page", lambda one: one.whole.page[one.key].commands),
    ("commands", "sql", _sql("count(*) FROM command_runs")),
    ("failed commands", "signal", _signal("failed_command_count")),
    ("failed commands", "page", lambda one: one.whole.page[one.key].failed_commands),
    ("failed commands", "sql", _sql("count(*) FILTER (WHERE result = 'failed') FROM command_runs")),
    ("test runs", "signal", _signal("test_run_count")),
    ("test runs", "sql", _sql("count(DISTINCT call_event) FILTER (WHERE kind = 'test' AND ran IS NOT FALSE) FROM check_runs")),
    ("lint runs", "signal", _signal("lint_run_count")),
    ("lint runs", "sql", _sql(f"count(DISTINCT call_event) FILTER (WHERE kind = 'lint' AND {_CHECKED}) FROM check_runs")),
    ("passing checks", "signal", lambda one: one.passing_checks),
    ("passing checks", "sql", _sql(f"count(*) FILTER (WHERE result = 'passed' AND {_CHECKED}) FROM check_runs")),
    ("checking commands", "steps at most", lambda one: None if one.steps_that_check <= one.commands_that_check else one.steps_that_check),
    ("checking commands", "sql", lambda one: one.commands_that_check),
    ("model calls", "session status", lambda one: one.state.stats["model_calls"]),
    ("model calls", "metrics", lambda one: one.metrics.totals["calls"]),
    ("model calls", "page", lambda one: one.whole.page[one.key].usage.calls),
    ("model calls", "list", lambda one: one.whole.lines[one.key]["model_calls"]),
    ("model calls", "usage", lambda one: one.whole.usage[one.key]["calls"]),
    ("model calls", "gain", lambda one: one.gain["calls"]),
    ("model calls", "sql", _sql("count(*) FILTER (WHERE owner) FROM model_calls")),
    ("prompt tokens", "session status", lambda one: one.state.stats["prompt_tokens"]),
    ("prompt tokens", "usage", lambda one: sum(one.whole.usage[one.key][name] for name in _PROMPT_TOKENS)),
    ("prompt tokens", "page", lambda one: sum(getattr(one.whole.page[one.key].usage, name) for name in _PROMPT_TOKENS)),
    ("output tokens", "session status", lambda one: one.state.stats["output_tokens"]),
    ("output tokens", "usage", lambda one: one.whole.usage[one.key]["output_tokens"]),
    ("output tokens", "metrics", lambda one: one.metrics.totals["output"]),
    ("output tokens", "page", lambda one: one.whole.page[one.key].usage.output_tokens),
    ("cost", "usage", lambda one: _cost(one.whole.usage[one.key]["cost_nano"])),
    ("cost", "page", lambda one: _cost(one.whole.page[one.key].usage.cost_nano)),
    ("cost", "list", lambda one: _cost(one.whole.lines[one.key]["cost_nano"])),
    ("cost", "metrics", lambda one: _cost(one.metrics.totals["cost_nano"])),
    ("cost", "show", lambda one: _cost(one.detail["usage"]["cost_nano"] or 0)),
    ("cost", "mcp", lambda one: _cost(one.mcp_metrics["totals"]["cost_nano"])),
    ("context peak", "signal", _signal("context_peak_tokens")),
    ("context peak", "page", lambda one: one.whole.page[one.key].peak_context_tokens or None),
    ("task", "session status", lambda one: one.state.current_task.text if one.state.current_task else None),
    ("task", "list", lambda one: one.whole.lines[one.key]["task"]),
    ("task", "mcp", lambda one: (one.mcp_state["task"] or {}).get("text")),
    ("project", "show", lambda one: one.shown["project"]),
    ("project", "session status", lambda one: one.state.project),
    ("project", "page", lambda one: one.whole.page[one.key].project),
    ("project", "list", lambda one: one.whole.lines[one.key]["project"]),
    ("title", "show", lambda one: one.shown["title"]),
    ("title", "session status", lambda one: one.state.title),
    ("title", "page", lambda one: one.whole.page[one.key].title),
)
"""(name of the number, surface that tells it, how it is read there); None: the surface does not tell it of this session."""


def _done(name: str) -> Callable[[Any], Any]:
    """Return what adds up a column of the page's sessions, those that are copies left out as in ``ctx work``."""
    return lambda whole: _of_page(name)(whole) - whole.copied(name)


def _of_page(name: str) -> Callable[[Whole], Any]:
    return lambda whole: sum(getattr(s, name) for s in whole.data.sessions)


def _figure(name: str) -> Callable[[Whole], str]:
    return lambda whole: next(figure for title, figure, _ in figures(whole.data) if title == name)


def _by_use(rows: Any, name: str, uses: str = "uses") -> Any:
    """Return how often the three commonest were used; which of two of the same count comes first is nobody's statement."""
    return tuple(sorted((r[uses] for r in rows if r[name]), reverse=True)[:3])


def _uses(ran: Any) -> Any:
    return tuple(sorted((one.times for one in ran.values()), reverse=True)[:3])


def _projects(costs: dict[str, int]) -> Any:
    return tuple(sorted((name, nano) for name, nano in costs.items() if nano))


def _titles(found: Any) -> Any:
    return tuple(one["title"] for one in found)


TOTALS: tuple[tuple[str, str, Callable[[Whole], Any]], ...] = (
    ("cost", "usage", lambda w: w.total["cost_nano"]),
    ("cost", "wrapped", lambda w: w.card["cost_nano"]),
    ("cost", "gain", lambda w: w.gain["spent_nano"]),
    ("cost", "page", lambda w: w.data.usage.cost_nano),
    ("cost", "sessions of the page", lambda w: sum(s.usage.cost_nano for s in w.data.sessions)),
    ("cost", "mcp wrapped", lambda w: w.mcp_card["cost_nano"]),
    ("cost", "mcp gain", lambda w: w.mcp_gain["spent_nano"]),
    ("cost", "panel accounting", lambda w: sum(row[11] for row in records(w.data)["rows"])),
    ("cost by project", "usage", lambda w: _projects(w.by_project)),
    ("cost by project", "outcomes", lambda w: _projects({one.key: one.cost_nano for one in w.outcomes[0]})),
    ("cost by project", "page", lambda w: _projects({one.project: one.usage.cost_nano for one in w.data.projects})),
    ("cost of what the cache held", "gain", lambda w: next(s["nano"] for s in w.gain["streams"] if s["stream"] == "cache_read")),
    ("cost of what the cache held", "findings", lambda w: history(w.settings, Filters(timezone="UTC"), ()).cache_read_nano),
    ("model calls", "usage", lambda w: w.total["calls"]),
    ("model calls", "wrapped", lambda w: w.card["calls"]),
    ("model calls", "gain", lambda w: w.gain["calls"]),
    ("model calls", "mcp wrapped", lambda w: w.mcp_card["calls"]),
    ("model calls", "panel accounting", lambda w: sum(row[10] for row in records(w.data)["rows"])),
    ("tokens", "usage", lambda w: sum(w.total[name] for name in (*_PROMPT_TOKENS, "output_tokens"))),
    ("tokens", "wrapped", lambda w: w.card["tokens"]),
    ("tokens", "page", lambda w: w.data.usage.tokens),
    ("tokens", "mcp wrapped", lambda w: w.mcp_card["tokens"]),
    ("saved by the cache", "wrapped", lambda w: w.card["saved_by_cache_nano"]),
    ("saved by the cache", "gain", lambda w: w.gain["saved_by_cache_nano"]),
    ("saved by the cache", "mcp gain", lambda w: w.mcp_gain["saved_by_cache_nano"]),
    ("sessions with calls", "wrapped", lambda w: w.card["sessions"]),
    ("sessions with calls", "gain", lambda w: w.gain["sessions"]),
    ("sessions with calls", "usage", lambda w: sum(one["calls"] > 0 for one in w.usage.values())),
    ("sessions with calls", "outcomes", lambda w: w.outcomes[1].sessions),
    ("sessions with calls", "page", lambda w: sum(s.usage.calls > 0 for s in w.data.sessions)),
    ("programs", "wrapped", lambda w: _by_use(w.card["commands"], "command")),
    ("programs", "mcp wrapped", lambda w: _by_use(w.mcp_card["commands"], "command")),
    ("programs", "work", lambda w: _uses(w.work.programs)),
    ("tools", "wrapped", lambda w: _by_use(w.card["tools"], "tool")),
    ("tools", "work", lambda w: _uses(w.work.tools)),
    ("tool calls", "work", lambda w: w.work.tool_calls.times),
    ("tool calls", "page", _done("tool_calls")),
    ("tool calls", "outcomes", lambda w: w.outcomes[1].units["tool_calls"] + w.outcomes[1].left_out[1]),
    ("tool calls counted once", "work", lambda w: f"{w.work.tool_calls.times:,}"),
    ("tool calls counted once", "panel numbers", _figure("Tool calls")),
    ("tool calls counted once", "work", lambda w: f"{w.work.tool_calls.times:,}"),
    ("tool calls counted once", "panel numbers", _figure("Tool calls")),
    ("failed calls", "work", lambda w: w.work.tool_calls.failed),
    ("failed calls", "page", _done("failed_tool_calls")),
    ("failed calls", "signal", lambda w: w.measured("failed_tool_call_count", "failed_tool_calls")),
    ("commands", "work", lambda w: w.work.commands.times),
    ("commands", "page", _done("commands")),
    ("failed commands", "work", lambda w: w.work.commands.failed),
    ("failed commands", "page", _done("failed_commands")),
    ("prompts", "panel numbers", _figure("Prompts")),
    ("prompts", "page", lambda w: f"{sum(s.prompts for s in w.data.sessions if not s.copy_of):,}"),
    ("sessions", "panel numbers", _figure("Sessions")),
    ("sessions", "list", lambda w: f"{len(w.lines):,}"),
    ("findings", "api", lambda w: _titles(one.to_json() for one in w.findings)),
    ("findings", "hints", lambda w: _titles(w.hints["findings"])),
    ("findings", "page", lambda w: _titles(one.to_json() for one in w.data.findings)),
    ("interruptions", "hints", lambda w: w.said("interruption_count")(w.hints["findings"])),
    ("interruptions", "signal", lambda w: _said_of(w, "interruption_count", "The agent was stopped")),
    ("corrections", "hints", lambda w: w.said("user_correction_count")(w.hints["findings"])),
    ("corrections", "signal", lambda w: _said_of(w, "user_correction_count", "The person corrected the agent")),
)
"""(name of the number, surface that tells it, how it is read there) of numbers over all sessions."""


def _said_of(whole: Whole, signal: str, words: str) -> str | None:
    """Return the sentence that a finding must say where it says one."""
    there = whole.said(signal)(whole.hints["findings"]) is not None
    return f"{words} {whole.measured(signal):,.0f} times" if there else None


def differences(settings: Settings, *, every: int = 1) -> list[str]:
    """Return one line for each session and number that surfaces tell differently; of many sessions every nth."""
    whole = Whole(settings)
    found = []
    for host, session_id in query("SELECT host, session_id FROM sessions ORDER BY 1, 2", settings=settings)[1][::every]:
        one = One(whole, host, session_id)
        told: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, surface, read in NUMBERS:
            value = read(one)
            if value is not None:
                told[name][surface] = value
        found += [f"{name} of {one.name}: {values}" for name, values in told.items() if len(set(values.values())) > 1]
    told = defaultdict(dict)
    for name, surface, read in TOTALS:
        value = read(whole)
        if value is not None:
            told[name][surface] = value
    return [*found, *(f"{name} of all: {values}" for name, values in told.items() if len(set(values.values())) > 1)]


def filled(home: Path, claude: Path, codex_home: Path) -> Settings:
    """Return the settings of a store with the sessions of two homes, their facts and their readings."""
    environ = {"HOME": str(home), "CTX_HOME": str(home / "store"), "CLAUDE_CONFIG_DIR": str(claude), "CODEX_HOME": str(codex_home)}
    chosen = settings_module.load({**environ, "TZ": "UTC"})
    with open_store(chosen) as store:
        sync(store, chosen)
        make_facts(store, chosen)
        measure(store, chosen)
    return chosen


def _patches_inside_a_call() -> Iterator[dict[str, Any]]:
    yield from codex.session(prompt="Move the parser into its own file", calls=1)[:-2]
    yield codex.event(40, "task_started", model_context_window=258_400)
    yield codex.item(41, "custom_tool_call", name="exec", call_id="cell", input="await tools.apply_patch(patch)")
    yield codex.event(42, "patch_apply_end", call_id="inner", success=True, changes={"/code/app/parser.py": {"type": "update"}})
    yield codex.item(43, "custom_tool_call_output", call_id="cell", output="Script completed")
    yield codex.event(44, "turn_aborted", turn_id="x", reason="interrupted")
    yield codex.event(50, "user_message", message="push")
    yield codex.event(51, "agent_message", message="pushed", phase="final_answer")


def _odd_transcript(folder: Path) -> None:
    main = ClaudeHome(folder).session("77777777-7777-4777-8777-777777777777", cwd="/home/dev/shop", mark="odd")
    main.prompt("<command-name>/plan</command-name>\n<command-args>Add the logo to web/header.ts</command-args>")
    main.call("o1", "Read", "x" * 400, file_path="/home/dev/shop/web/header.ts")
    main.records[-2:] = reversed(main.records[-2:])
    main.call("o2", "Bash", "a\nb", command="sed -n '1,2p' a.py && cat b.py | grep x && rm -f c.py && mkdir -p lib")
    main.call("o3", "Bash", "Exit code 1\nno", is_error=True, command="cat missing.py")
    main.answer(text("\n\n"), tool_use("o4", "Edit", file_path="/home/dev/shop/web/header.ts", old_string="a", new_string="b"))
    main.prompt("[Request interrupted by user for tool use]").prompt("[Request interrupted by user]")
    main.prompt("1").answer(text("done"))
    main.save()


@pytest.mark.feature("facts.one-number")
def test_every_surface_says_the_same_of_every_session(tmp_path: Path) -> None:
    homes = [shutil.copytree(SAMPLES / name, tmp_path / name) for name in ("claude", "codex")]
    codex.write(homes[1], list(_patches_inside_a_call()))
    _odd_transcript(homes[0])
    assert differences(filled(tmp_path / "one", *homes)) == []


@corpus
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.feature("facts.one-number")
def test_every_surface_says_the_same_of_published_sessions(tmp_path: Path) -> None:
    """Every ninth session; all of them take ten minutes: CTX_EVERY_SESSION=1."""
    chosen = filled(tmp_path, CORPUS / "claude", CORPUS / "codex")
    found = differences(chosen, every=1 if os.environ.get("CTX_EVERY_SESSION") else 9)
    praised = "SELECT host, session_id FROM readings WHERE (signal, label) IN (('session_grade', 'A'), ('context_rot_verdict', 'severe'))"
    found += [f"grade A beside severe rot: {row}" for row in query(f"{praised} GROUP BY ALL HAVING count(*) > 1", settings=chosen)[1]]
    assert found == [], "\n".join([f"{len(found)} differences", *found[:40]])


@pytest.mark.feature("facts.one-number")
def test_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _odd_transcript(tmp_path / "claude")
    chosen = filled(tmp_path / "one", tmp_path / "claude", tmp_path / "codex")
    monkeypatch.setattr("ctx_pipeline_tests.facts.test_surfaces.NUMBERS", (*NUMBERS[:1], ("prompts", "another", lambda _: 99)))
    (line,) = differences(chosen)
    assert line.startswith("prompts of claude:77777777")
    assert inside("/a/b", "/a") == "b"


def test_the_work_of_all_sessions_is_the_sum_of_their_commands(tmp_path: Path) -> None:
    chosen = filled(tmp_path / "one", SAMPLES / "claude", SAMPLES / "codex")
    whole = Whole(chosen)
    told = work(settings=chosen)[0]
    assert told.commands.times == sum(found["command_count"] for found in whole.readings.values() if "command_count" in found) > 0
