"""The rules of findings: each has a name, the fewest cases that it speaks of, one text, and the command that acts on it."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import settings as settings_module
from ctx_pipeline.dashboard.figures import count, plural, share, short
from ctx_pipeline.facts.expiring import SOON
from ctx_pipeline.findings.evidence import NAMED, history, history_of_all
from ctx_pipeline.findings.week import week
from ctx_pipeline.memory.safety import scan
from ctx_pipeline.model.display import money, session_title
from ctx_pipeline.model.readings import FAILED_AT_LEAST, Example, Finding, at_first, ranked
from ctx_pipeline.storage.own_sessions import holds_sessions
from ctx_pipeline.usage.engine import parse_filters, usage
from ctx_pipeline.usage.groupings import Days
from ctx_pipeline.usage.homes import live_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duckdb import DuckDBPyConnection

    from ctx_pipeline.dashboard.data import Week
    from ctx_pipeline.findings.evidence import History, Key, Measured
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.usage.engine import Usage


_NANO = 1e9


class Rule(NamedTuple):
    """A rule; ``look`` returns its finding, whose ``cases`` must reach ``least``, or None."""

    name: str
    least: int
    look: Callable[[History], Finding | None]
    signals: tuple[str, ...] = ()
    """the measurements that it reads"""
    quiet: bool = False
    """its findings are one line at the end, not something to look at each day"""


LEAST_USD = 0.25
"""Dollars at stake below which money alone is no finding."""


class Habit(NamedTuple):
    """A rule on one signal: sessions whose reading is at least so high."""

    signal: str
    at_least: float
    title: str
    """with ``{sum}`` for the readings of the sessions that show it, added up"""
    advice: str
    goal: str
    """what a day without the habit keeps to"""
    needs: tuple[str, float] = ("", 0.0)
    """a second signal and the least that it must read in the same session"""
    whole: bool = False
    """the sum is that of every session, and not only of those that show the habit"""


def findings(history: History, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """Return what the rules find, by what is at stake: what is urgent, then dollars, then time, then how common it is.

    Money alone is no finding below :data:`LEAST_USD`.
    """
    found = [(rule, one) for rule in (RULES if rules is None else rules) if (one := rule.look(history)) is not None]
    enough = [(rule, one) for rule, one in found if one.cases >= rule.least and (one.signal or one.usd is None or one.usd >= LEAST_USD)]
    return ranked([one._replace(rule=rule.name, quiet=rule.quiet) for rule, one in enough])


def _leaving(history: History) -> Finding | None:
    lost = [one for one in history.homes if one.uncaptured]
    if not lost:
        return None
    files = sum(one.uncaptured for one in lost)
    first = max(lost, key=lambda one: one.uncaptured)
    return Finding(
        "",
        f"{first.title} deletes transcripts after {first.days} days: {count(files)} in {first.root} go within {SOON} days",
        "ctx run",
        "None of them is captured. What ctx run captures stays, whatever the agent deletes.",
        cases=files,
        urgent=True,
    )


def _leaving_captured(history: History) -> Finding | None:
    files = sum(one.leaving - one.uncaptured for one in history.homes)
    if not files:
        return None
    titles = ", ".join(dict.fromkeys(one.title for one in history.homes if one.leaving > one.uncaptured))
    what = f"{plural(files, 'transcript')} of {titles} {'is' if files == 1 else 'are'} about to be deleted"
    return Finding("", what, "ctx list", "All of it is captured. To keep the originals, raise the agent's retention setting.", cases=files)


def _damaged(history: History) -> Finding | None:
    return Finding("", history.damaged, "ctx run", urgent=True) if history.damaged else None


def _unread(history: History) -> Finding | None:
    hit = [one for one in history.sessions.values() if one.quarantined]
    records = sum(one.quarantined for one in hit)
    detail = f"In {plural(len(hit), 'session')}. Their bytes are kept; nothing of them is counted."
    return Finding("", f"{plural(records, 'record')} could not be read", "ctx doctor", detail, cases=records)


def _unknown(history: History) -> Finding | None:
    hit = [one for one in history.sessions.values() if one.unknown]
    records = sum(one.unknown for one in hit)
    detail = f"In {plural(len(hit), 'session')}; kept with their payload. An agent may have changed its format."
    return Finding("", f"{plural(records, 'record')} of an unknown kind", "ctx doctor", detail, cases=records)


def _secrets(history: History) -> Finding | None:
    stored = sum(history.replaced.values())
    found = history.replaced if stored else history.newest.secrets
    kinds = ", ".join(f"{name} {count(n)}" for name, n in sorted(found.items(), key=lambda r: (-r[1], r[0]))[:4])
    if stored:
        title, command = f"{plural(stored, 'secret')} in your transcripts", "ctx doctor --redactions"
        detail = f"{kinds}. Replaced in tables, search and page; your transcripts and the raw copies still hold them. Rotate them."
        return Finding("", title, command, detail, cases=stored)
    number = sum(found.values())
    title = f"{plural(number, 'secret')} in plain text in the newest {plural(history.newest.sessions, 'transcript')}: {kinds}"
    return Finding("", title, "ctx run", "Rotate them.", cases=number)


def failed_commands(history: History) -> dict[Key, tuple[int, int]]:
    """Return the sessions whose commands were judged -> (failed, all commands)."""
    failed, made = (history.readings.get(name, {}) for name in ("failed_command_count", "command_count"))
    return {key: (round(one.value), round(made[key].value)) for key, one in failed.items() if key in made}


def _failures(history: History) -> Finding | None:
    many = {key: pair for key, pair in failed_commands(history).items() if pair[0] >= FAILED_AT_LEAST}
    if not many:
        return None
    worst = max(many, key=lambda key: (many[key][0], key))
    failed, made = many[worst]
    more = f" {plural(len(many) - 1, 'other session')} had {FAILED_AT_LEAST} or more." if len(many) > 1 else ""
    return Finding(
        "",
        f"{count(failed)} of {plural(made, 'command')} failed in one session",
        _show(worst),
        f"{_named(history, worst)}.{more}",
        "Write down how the project is built and tested in the file of rules that the agent reads.",
        cases=len(many),
        of=len(failed_commands(history)),
        signal="failed_command_count",
        examples=_examples(history, {key: float(pair[0]) for key, pair in many.items()}),
    )


def _expensive(history: History) -> Finding | None:
    paid = {key: one["cost_nano"] for key, one in history.spent.items() if one["cost_nano"] > 0}
    if not paid:
        return None
    top = sorted(paid, key=lambda key: (-paid[key], key))
    few = top[: max(1, len(top) // 10)]
    part, first = sum(paid[key] for key in few), history.spent[top[0]]
    who = "One" if len(few) == 1 else count(len(few))
    return Finding(
        "",
        f"{who} of the {plural(len(paid), 'session')} with a cost made {share(part, history.totals['cost_nano'])} of the cost",
        f"ctx explain {shlex.quote(top[0][1])}",
        f"The most expensive, {_named(history, top[0])}, cost {money(paid[top[0]])} over {plural(first['calls'], 'call')}.",
        cases=len(paid),
        of=len(paid),
        usd=part / _NANO,
        examples=_examples(history, {key: paid[key] / _NANO for key in few}),
    )


def _tool_output(history: History) -> Finding | None:
    seen = history.newest
    part = seen.tool_output_nano / seen.cost_nano if seen.cost_nano else 0.0
    if part < 0.1:
        return None
    measured = f"what the newest {plural(seen.sessions, 'session')} cost" if seen.sessions > 1 else "what the newest session cost"
    title = f"About {part:.0%} of {measured}, {money(seen.tool_output_nano)}, was tool output sent again"
    text = "ctx hooks install HOST --outputs shortens it for the agent."
    return Finding("", title, "ctx gain --period all", text, usd=seen.tool_output_nano / _NANO, cases=seen.sessions)


def _resent(history: History) -> Finding | None:
    cost, again = history.totals["cost_nano"], history.cache_read_nano
    if not cost or again / cost < 0.2:
        return None
    title = f"{min(1.0, again / cost):.0%} of the cost, {money(again)}, was context sent again from the cache"
    advice = "Begin a new chat for a new task: all that a chat holds is sent with each of its calls."
    return Finding("", title, "ctx usage session --cache --sort tokens", "", advice, usd=again / _NANO, cases=len(history.spent))


def _subagents(history: History) -> Finding | None:
    cost, theirs = history.totals["cost_nano"], history.subagents_nano
    if not cost or theirs / cost < 0.1:
        return None
    return Finding("", f"Subagents made {theirs / cost:.0%} of the cost", "ctx usage thread", usd=theirs / _NANO, cases=len(history.spent))


def _unpriced(history: History) -> Finding | None:
    rows = [row for row in history.models if row["unpriced_calls"] and _tokens(row)]
    if not rows:
        return None
    names = ", ".join((row["model"] or "a model without a name")[:60] for row in rows[:3])
    calls, tokens = sum(row["unpriced_calls"] for row in rows), short(sum(_tokens(row) for row in rows))
    of = f"{names}{' and others' if len(rows) > 3 else ''}"
    detail = f"{plural(calls, 'call')} of {of}, {tokens} tokens, {'are' if calls > 1 else 'is'} left out of the cost."
    return Finding("", f"No price is known for {plural(len(rows), 'model')}", "ctx usage model --json", detail, cases=calls)


_CACHED = 0.6
"""Share of the prompt tokens from the cache below which something keeps breaking it; agents reach 0.9 by themselves."""


def _caching(history: History) -> Finding | None:
    sums = history.totals
    written = sums["cache_write_5m_tokens"] + sums["cache_write_1h_tokens"]
    prompt = sums["input_tokens"] + written + sums["cache_read_tokens"]
    if prompt < 1_000_000 or sums["cache_read_tokens"] >= _CACHED * prompt:
        return None
    return Finding(
        "",
        f"Only {share(sums['cache_read_tokens'], prompt)} of all prompt tokens came from the cache",
        "ctx usage model --cache",
        f"{short(sums['cache_read_tokens'])} were read from it, {short(written)} written and {short(sums['input_tokens'])} sent fresh. "
        "Sessions are resumed after the cache expired, or their beginning keeps changing.",
        cases=sums["calls"],
    )


def _compactions(history: History) -> Finding | None:
    shortened = {key: one.value for key, one in history.readings.get("compaction_count", {}).items() if one.value}
    if sum(shortened.values()) < 2:
        return None
    worst = max(shortened, key=lambda key: (shortened[key], key))
    filled = history.readings.get("context_peak_share", {})
    many = sum(filled[key].value >= FILLED for key in shortened if key in filled)
    where, full = _named(history, worst), f"in {count(many)} the window was at least 70% full"
    return Finding(
        "",
        f"History was compacted {_times(round(sum(shortened.values())))}",
        _show(worst),
        f"In {plural(len(shortened), 'session')}, most often in {where}; {full}." if len(shortened) > 1 else f"In {where}.",
        cases=len(shortened),
        of=len(history.readings["compaction_count"]),
        signal="compaction_count",
        examples=_examples(history, shortened),
    )


def _reviews(history: History) -> Finding | None:
    waiting = history.lessons.get("needs_review", 0)
    title = f"{plural(waiting, 'lesson')} {'waits' if waiting == 1 else 'wait'} for a review"
    detail = "Something in the text looked like an instruction or a secret; flagged lessons are never given to an agent."
    command = "ctx memory list --status needs_review"
    return Finding("", title, command, detail, cases=waiting)


FILLED = 0.7
"""Share of the window from which on a session was long for it."""

HABITS = (
    Habit(
        "file_reread_without_reason_count",
        3,
        "Files were read again {sum:,.0f} times though they were still in the context, unchanged",
        "Name the outline of large files in the project's instructions, or begin a fresh session for the next part.",
        "No file read again three times without need",
    ),
    Habit(
        "cache_rebuild_tokens",
        100_000,
        "{sum:,.0f} tokens that the cache had held were paid for again",
        "Answer within the cache's five minutes, or end a session before a break; do not change tools or models in the middle.",
        "Fewer than 100,000 tokens of the cache paid for again",
    ),
    Habit(
        "failed_command_ratio",
        0.3,
        "At least 30% of the commands failed",
        "Write down how the project is built and tested, in the project's instructions.",
        "Fewer than 30% of the commands fail",
        needs=("failed_command_count", 5),
    ),
    Habit(
        "trajectory_repeated_action_without_progress",
        3,
        "A call was repeated unchanged {sum:,.0f} times and returned nothing new",
        "Stop the agent at the second repetition and say what is different.",
        "No call repeated unchanged three times without anything new",
    ),
    Habit(
        "trajectory_premature_finish_without_validation",
        1,
        "The last change of a file was never checked",
        "Say which command checks a change, in the project's instructions.",
        "The last change of a file is checked",
    ),
    Habit(
        "user_correction_count",
        2,
        "The person corrected the agent {sum:,.0f} times",
        "Accept what it taught (ctx memory list).",
        "At most one correction in a session",
        whole=True,
    ),
    Habit(
        "user_message_count",
        35,
        "A session went on over {sum:,.0f} messages in all, each with the whole window again",
        "One task a session.",
        "Fewer than 35 messages in a session",
    ),
    Habit(
        "context_peak_share",
        FILLED,
        "The context window was at least 70% full",
        "Split the task, or let subagents read.",
        "No context window more than 70% full",
    ),
    Habit(
        "compaction_recovery_tokens",
        10_000,
        "{sum:,.0f} tokens were fetched again after a compaction had dropped them",
        "Compact by hand after a finished step, not in the middle of one.",
        "Fewer than 10,000 tokens fetched again after a compaction",
    ),
    Habit(
        "code_search_count",
        25,
        "{sum:,.0f} searches of the project's files",
        "Name where things are, in the project's instructions.",
        "Fewer than 25 searches of the project's files in a session",
    ),
    Habit(
        "interruption_count",
        2,
        "The agent was stopped {sum:,.0f} times",
        "Ask for a plan before it begins.",
        "The agent is stopped once at most",
        whole=True,
    ),
    Habit(
        "command_not_found_count",
        2,
        "{sum:,.0f} commands did not exist",
        "Say which tools this machine has.",
        "At most one command that does not exist",
    ),
)


def showing(habit: Habit, history: History) -> dict[Key, Measured]:
    """Return the sessions that show a habit, with what its signal reads there."""
    second, least = habit.needs
    also = history.readings.get(second, {})
    return {
        key: one
        for key, one in history.readings.get(habit.signal, {}).items()
        if one.value >= habit.at_least and (not second or (key in also and also[key].value >= least))
    }


def _where(habit: Habit, sessions: int, measured: int) -> str:
    """Return in how many of the measured sessions it was, and from which reading on where the sum is theirs alone."""
    part = habit.at_least > 1 and not habit.whole and "{sum" in habit.title
    least = f" with {habit.at_least:,.0f} or more" if part else ""
    return f"In {'the ' if part else ''}{count(sessions)} of {plural(measured, 'measured session')}{least}."


def _rule_of(habit: Habit) -> Rule:
    def look(history: History) -> Finding | None:
        found = showing(habit, history)
        if not found:
            return None
        costs = [one.usd for one in found.values() if one.usd is not None]
        examples = _examples(history, {key: one.value for key, one in found.items()})
        every = {key: one for key, one in history.readings[habit.signal].items() if one.value > 0} if habit.whole else found
        command = f"ctx list --signal {habit.signal}" + (f" --at-least {habit.at_least:g}" if habit.at_least != 1 else "")
        if habit.needs[0]:
            command = f"ctx signal show {shlex.quote(examples[0].host)} {shlex.quote(examples[0].session_id)}"
        return Finding(
            "",
            habit.title.format(sum=sum(one.value for one in every.values())),
            f"ctx signal evidence {habit.signal}" if habit.whole else command,
            _where(habit, len(every), len(history.readings[habit.signal])),
            habit.advice,
            cases=len(every),
            of=len(history.readings[habit.signal]),
            usd=round(sum(costs), 4) if costs else None,
            signal=habit.signal,
            examples=examples,
        )

    return Rule(habit.signal.replace("_", "-"), 2, look, tuple(name for name in (habit.signal, habit.needs[0]) if name))


RULES: tuple[Rule, ...] = (
    Rule("uncaptured-transcripts-expire", 1, _leaving),
    Rule("captured-transcripts-expire", 1, _leaving_captured),
    Rule("damaged-readings", 1, _damaged),
    Rule("unreadable-records", 1, _unread, quiet=True),
    Rule("unknown-records", 1, _unknown, quiet=True),
    Rule("secrets-in-transcripts", 1, _secrets, quiet=True),
    Rule("failed-commands", 1, _failures, ("failed_command_count", "command_count")),
    Rule("most-expensive-sessions", 5, _expensive),
    Rule("tool-output-sent-again", 1, _tool_output),
    Rule("context-sent-again", 1, _resent),
    Rule("subagents", 1, _subagents),
    Rule("models-without-a-price", 1, _unpriced),
    Rule("lessons-to-review", 1, _reviews),
    Rule("cache-share", 1, _caching),
    Rule("compactions", 1, _compactions, ("compaction_count", "context_peak_share")),
    *(_rule_of(habit) for habit in HABITS),
)


def signals_read() -> set[str]:
    """Return the signals that any rule reads."""
    return {signal for rule in RULES for signal in rule.signals}


def _tokens(row: Any) -> int:
    return sum(row[name] for name in row if name.endswith("_tokens") and name != "reasoning_tokens")


def _examples(history: History, values: dict[Key, float]) -> tuple[Example, ...]:
    strongest = sorted(values.items(), key=lambda one: (-one[1], one[0]))[:NAMED]
    known = history.sessions
    return tuple(
        Example(*key, session_title(known[key].title) if key in known else key[1], known[key].project if key in known else "", value)
        for key, value in strongest
    )


def _named(history: History, key: Key) -> str:
    text = session_title(history.sessions[key].title) if key in history.sessions else key[1]
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text[:77] + '…' if len(text) > 78 else text}\N{RIGHT DOUBLE QUOTATION MARK}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{count(number)} times")


def _show(key: Key) -> str:
    return f"ctx show {shlex.quote(key[0])} {shlex.quote(key[1])}"


# The findings of a person's history, and what bare ctx shows of it: last week's usage and the first of them.


class Overview(NamedTuple):
    """Seven days, what to look at in them, and what is told in one line; ``usage`` by day, where it was asked for."""

    usage: Usage | None
    findings: list[Finding]
    week: Week | None
    quiet: list[Finding]
    of_all: bool = False
    """nothing stood out in these days: the findings are of the whole history"""


def find(
    *,
    since: str | None = None,
    until: str | None = None,
    timezone: str | None = None,
    host: str | None = None,
    project: str | None = None,
    settings: Settings | None = None,
    now: int | None = None,
    warehouse: DuckDBPyConnection | None = None,
) -> list[Finding]:
    """Return every finding of the sessions that the filters select, by what is at stake; ``now`` in microseconds since 1970.

    With a store its tables are read as they are, without one the homes. A connection to a
    ``warehouse`` that is up to date is read in place of the tables. Their commands show what
    the filters select.
    """
    chosen = settings or settings_module.load()
    filters = parse_filters(chosen, since=since, until=until, timezone=timezone, host=host, project=project)
    found = findings(history(chosen, filters, signals_read(), now=now, warehouse=warehouse))
    asked = {"since": since, "until": until, "host": host, "project": project}
    options = "".join(f" --{name} {shlex.quote(value)}" for name, value in asked.items() if value)
    return [one._replace(command=f"{one.command}{options}") if one.command.startswith(_NARROWED) else one for one in found]


_NARROWED = ("ctx list --signal ", "ctx usage ", "ctx signal evidence ")
"""Commands that take the days, host and project of a report."""


def for_model(found: list[Finding]) -> list[Finding]:
    """Return findings as an agent may read them: without titles of sessions, and without a detail that reads like an order to it."""
    safe = [one._replace(examples=tuple(shown._replace(title="") for shown in one.examples)) for one in found]
    return [one._replace(detail="") if scan([one.detail]) else one for one in safe]


def overview(*, settings: Settings | None = None, now: int | None = None, daily: bool = True) -> Overview:
    """Return the seven days up to today, or the last ones with usage, and their first three findings; ``now`` in microseconds since 1970.

    Findings are of these days, by the money and time at stake; where nothing stands out in
    them, of the whole history. What is about to be lost comes first, whenever it was written.
    Without ``daily`` there is no usage by day.
    """
    with live_usage.one_look():
        return _overview(settings or settings_module.load(), now, daily=daily)


def _overview(chosen: Settings, now: int | None, *, daily: bool) -> Overview:
    at = int(time.time() * 1e6) if now is None else now
    today = Days(chosen.timezone).day(at)
    shown = week(chosen, today)
    days = {"since": (shown.since if shown else today).isoformat(), "until": (shown.until if shown else today).isoformat()}
    everything = lasting_findings(chosen, now=at)
    of_week = find(since=days["since"], until=days["until"], settings=chosen, now=at)
    lasting = [one for one in everything if one.urgent]
    staked = [one for one in of_week if one.at_stake]
    of_all = shown is not None and not (lasting or staked)
    if of_all:
        staked = [one for one in find(settings=chosen, now=at) if one.at_stake]
    newest = [one for one in everything if not one.urgent and one.usd and not holds_sessions(chosen.home)]
    return Overview(
        usage("daily", since=days["since"], until=days["until"], settings=chosen) if daily else None,
        at_first(ranked([*lasting, *staked, *newest])),
        shown,
        [one for one in everything if one.quiet],
        of_all,
    )


def lasting_findings(settings: Settings, *, now: int) -> list[Finding]:
    """Return what is so whatever the period: transcripts about to go, records that could not be read, secrets, the newest files."""
    return findings(history_of_all(settings, now=now))
