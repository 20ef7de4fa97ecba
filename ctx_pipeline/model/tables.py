"""The tables of the lake: their columns, types, units and meaning, in one place.

A row travels through the hot path as a plain tuple in the order of these columns
(``EVENTS.row`` is the named-tuple class of the same order). The pydantic models in
:mod:`ctx_pipeline.model.row_contracts` and its siblings say the same with validation; a test
holds the two equal. Times are integers: microseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

HOSTS_NOTE = "key of the host that recorded it (list: docs/reference/hosts.md)"

EVENT_KINDS = (
    "prompt",
    "injected",
    "answer",
    "reasoning",
    "tool_call",
    "tool_result",
    "compaction",
    "session_start",
    "session_end",
    "subagent_start",
    "subagent_end",
    "title",
    "todo",
    "permission",
    "error",
    "attachment",
    "unknown",
)
"""What an event is; ``unknown`` keeps its payload as JSON in ``text``."""

ACTORS = ("user", "assistant", "tool", "system", "subagent", "hook")

TOOL_ACTIONS = ("read", "edit", "write", "search", "shell", "web", "task", "plan", "ask", "mcp", "other")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Column:
    """One column: ``type`` is str, int, float, bool, time or list (of str)."""

    name: str
    type: str
    doc: str
    unit: str = ""
    nullable: bool = False
    repeated: bool = False
    """Values repeat a lot: stored with a dictionary."""
    since: int = 1
    """Version of the table that brought the column."""
    before: str | float | bool | tuple[()] | None = None
    """What rows of earlier versions have in it."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Table:
    """One table of the lake. ``version`` rises when a column is added or its meaning changes."""

    name: str
    version: int
    doc: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    made_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables and columns that the rows of a fact table are worked out from; empty for every other table."""
    kinds: tuple[str, ...] = ()
    """Kinds of events that the rows of a fact table are worked out from; empty: all."""
    _row: Any = field(default=None, init=False, compare=False)

    @property
    def row(self) -> Any:
        """Named-tuple class with the columns as fields, made at its first use: a hook uses few of them."""
        if self._row is None:
            object.__setattr__(self, "_row", namedtuple(self.name, [c.name for c in self.columns]))  # noqa: PYI024 - fields come from data
        return self._row

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in storage order."""
        return tuple(c.name for c in self.columns)


def _host() -> Column:
    return Column("host", "str", HOSTS_NOTE, repeated=True)


def _session() -> Column:
    return Column("session_id", "str", "id of the tree of work (the root thread's id)", repeated=True)


def _thread() -> Column:
    return Column("thread_id", "str", "id of the context window: main, agent file or sub-thread", repeated=True)


def _place() -> tuple[Column, ...]:
    return (
        Column("stream", "str", "id of the captured source stream", repeated=True),
        Column("generation", "int", "which rewriting of the source, from 0", repeated=True),
        Column("start", "int", "first byte of the record in its generation", "byte"),
        Column("end", "int", "byte after the record's newline", "byte"),
        Column("line", "int", "line number in its generation, from 0"),
    )


EVENTS = Table(
    "events",
    1,
    "One row for each thing that happened in a session; content blocks of a record are rows of their own.",
    ("event_id",),
    (
        Column("event_id", "str", "stream.generation.line.block: unique, and the place it came from"),
        _host(),
        _session(),
        _thread(),
        Column("seq", "int", "order inside the thread, from 0"),
        Column("ts", "time", "when it happened (UTC); null where the host wrote no time", "us", nullable=True),
        Column("kind", "str", "one of EVENT_KINDS", repeated=True),
        Column("subtype", "str", "the host's own name of the record, e.g. system/api_error", nullable=True, repeated=True),
        Column("actor", "str", "one of ACTORS", repeated=True),
        Column("text", "str", "what was said or done, redacted; JSON for attachment and unknown", nullable=True),
        Column("parent_id", "str", "event_id of the record this one answers", nullable=True),
        Column("call_id", "str", "tool call that this event is the call or the result of", nullable=True),
        Column("call_key", "str", "model call that produced it (model_calls.call_key)", nullable=True),
        *_place(),
    ),
)

MODEL_CALLS = Table(
    "model_calls",
    1,
    "One row for each model call and session that recorded it; only rows with owner = true are counted.",
    ("session_id", "call_key"),
    (
        Column("call_key", "str", "the host's own id of the call, else one made of its record; equal in every copy"),
        _host(),
        _session(),
        _thread(),
        Column("ts", "time", "when the call's last record was written (UTC)", "us", nullable=True),
        Column("model", "str", "model id as recorded; empty where the host did not say", repeated=True),
        Column("input", "int", "prompt tokens not served from and not written to the cache", "token"),
        Column("output", "int", "generated tokens, reasoning included", "token"),
        Column("cache_write_5m", "int", "prompt tokens written to the five-minute cache (or of unsaid lifetime)", "token"),
        Column("cache_write_1h", "int", "prompt tokens written to the one-hour cache", "token"),
        Column("cache_read", "int", "prompt tokens served from the cache", "token"),
        Column("reasoning", "int", "part of output spent on reasoning, where recorded", "token"),
        Column("context_tokens", "int", "size of the whole prompt: input + cache writes + cache read", "token"),
        Column("tier", "str", "service tier as recorded", nullable=True, repeated=True),
        Column("speed", "str", "speed as recorded (standard, fast)", nullable=True, repeated=True),
        Column("web_searches", "int", "billed web search requests", "request"),
        Column("recorded_cost", "int", "cost that the host itself wrote down", "nano-dollar", nullable=True),
        Column("cost", "int", "cost at list price on the day of the call; null where no price is known", "nano-dollar", nullable=True),
        Column("price", "str", "id of the dated price used; null where none is known", nullable=True, repeated=True),
        Column("model_guessed", "bool", "the model was not recorded and is the default of that era"),
        Column("owner", "bool", "this row is the one that counts"),
        Column("copy_of", "str", "session that owns the call, when this row is a copy", nullable=True, repeated=True),
        Column("rule", "str", "why this row is owner or copy", repeated=True),
        *_place(),
    ),
)

TOOL_CALLS = Table(
    "tool_calls",
    1,
    "One row for each tool call, joined with its result.",
    ("session_id", "thread_id", "call_id"),
    (
        Column("call_id", "str", "the host's id of the call"),
        _host(),
        _session(),
        _thread(),
        Column("seq", "int", "seq of the calling event inside the thread"),
        Column("tool", "str", "the host's name of the tool", repeated=True),
        Column("action", "str", "one of TOOL_ACTIONS", repeated=True),
        Column("paths", "list", "files named by the call or its result, as recorded"),
        Column("ranges", "list", "line ranges read or changed, as first-last, beside paths"),
        Column("argv", "list", "the command as recorded; a shell string is one element"),
        Column("exit", "int", "exit status, where recorded", nullable=True),
        Column("is_error", "bool", "the host or the exit status says that it failed"),
        Column("before_sha", "str", "SHA-256 of the file's text before an edit, where recorded", nullable=True),
        Column("after_sha", "str", "SHA-256 of the file's text after an edit, where recorded", nullable=True),
        Column("in_chars", "int", "length of the call's arguments", "char"),
        Column("out_chars", "int", "length of the result's text", "char"),
        Column("started", "time", "when the call was recorded (UTC)", "us", nullable=True),
        Column("ended", "time", "when the result was recorded (UTC); null while unanswered", "us", nullable=True),
        Column("call_event", "str", "event_id of the call"),
        Column("result_event", "str", "event_id of the result; null while unanswered", nullable=True),
    ),
)

THREADS = Table(
    "threads",
    2,
    "One row for each context window of a session.",
    ("session_id", "thread_id"),
    (
        Column("thread_id", "str", "id of the context window"),
        _host(),
        _session(),
        Column("kind", "str", "main, subagent, sidechain, review, fork or compact", repeated=True),
        Column("parent_thread_id", "str", "thread that started this one", nullable=True),
        Column("agent", "str", "agent type or nickname", nullable=True, repeated=True),
        Column("title", "str", "title, where one is known", nullable=True),
        Column("cwd", "str", "first working directory", nullable=True, repeated=True),
        Column("branch", "str", "first git branch", nullable=True, repeated=True),
        Column("version", "str", "version of the host", nullable=True, repeated=True),
        Column("models", "list", "models used, in order of first use"),
        Column("first_ts", "time", "first recorded time (UTC)", "us", nullable=True),
        Column("last_ts", "time", "last recorded time (UTC)", "us", nullable=True),
        Column("events", "int", "rows in events"),
        Column("model_calls", "int", "rows in model_calls, copies included"),
        Column("tool_calls", "int", "rows in tool_calls"),
        Column("status", "str", "completed, errored, interrupted, abandoned or unknown", repeated=True),
        Column("context_window", "int", "size of the window as the host last recorded it", "token", nullable=True, since=2),
    ),
)

SESSIONS = Table(
    "sessions",
    2,
    "One row for each session: one tree of work of one host.",
    ("host", "session_id"),
    (
        _session(),
        _host(),
        Column("month", "str", "month of the first event (UTC), which with the host is the partition", repeated=True),
        Column("title", "str", "title to show", nullable=True),
        Column("title_source", "str", "custom, ai, summary, prompt or none", repeated=True),
        Column("cwd", "str", "first working directory", nullable=True, repeated=True),
        Column(
            "repository",
            "str",
            "identity of the repository: remote URL without credentials, else the cwd, of a worktree the checkout that it lies in",
            nullable=True,
            repeated=True,
        ),
        Column("project", "str", "short name to show for the repository", repeated=True),
        Column("branch", "str", "first git branch", nullable=True, repeated=True),
        Column(
            "last_branch",
            "str",
            "git branch of the main thread's last record, where the host notes it with each one",
            nullable=True,
            repeated=True,
            since=2,
        ),
        Column("version", "str", "version of the host", nullable=True, repeated=True),
        Column("models", "list", "models used, in order of first use"),
        Column("first_ts", "time", "first recorded time (UTC)", "us", nullable=True),
        Column("last_ts", "time", "last recorded time (UTC)", "us", nullable=True),
        Column("parent_session", "str", "session that this one was forked from", nullable=True),
        Column(
            "status", "str", "archived, else that of the main thread: completed, errored, interrupted, abandoned or unknown", repeated=True
        ),
        Column("threads", "int", "context windows"),
        Column("events", "int", "rows in events"),
        Column("prompts", "int", "events of kind prompt"),
        Column("model_calls", "int", "rows in model_calls, copies included"),
        Column("tool_calls", "int", "rows in tool_calls"),
        Column("failed_tool_calls", "int", "tool calls with is_error"),
        Column("unknown", "int", "events of kind unknown"),
        Column("quarantined", "int", "records that could not be decoded"),
        Column("lines", "int", "records read"),
        Column("bytes", "int", "bytes read", "byte"),
        Column("content_hash", "str", "SHA-256 over the session's event and tool-call rows in key order"),
    ),
)

READINGS = Table(
    "readings",
    1,
    "One row for each reading of a signal over a session.",
    ("host", "session_id", "signal"),
    (
        _host(),
        _session(),
        Column("signal", "str", "name of the signal", repeated=True),
        Column("family", "str", "file that declares it", repeated=True),
        Column("version", "int", "declared version of the signal", repeated=True),
        Column("kind", "str", "numeric, boolean, categorical or text", repeated=True),
        Column("value", "float", "the number; 1 or 0 for a boolean", nullable=True),
        Column("label", "str", "the label or text", nullable=True, repeated=True),
        Column("unit", "str", "unit of value", repeated=True),
        Column("confidence", "float", "how sure the method is, 0 to 1"),
        Column("evidence", "list", "event_ids that the reading rests on (at most 8)"),
        Column("reason", "str", "why there is no value", nullable=True, repeated=True),
        Column("metadata", "str", "further figures as JSON", nullable=True),
        Column("input", "str", "hashes of the session's rows that the signal read and of its code: while they stay, the reading stays"),
    ),
)

CANDIDATES = Table(
    "candidates",
    1,
    "One row for each memory candidate that a mining method drew from one session.",
    ("candidate_id",),
    (
        Column("candidate_id", "str", "SHA-256 prefix over method, session, kind and text"),
        _host(),
        _session(),
        Column("method", "str", "mining method", repeated=True),
        Column("version", "int", "declared version of the method", repeated=True),
        Column(
            "kind",
            "str",
            "procedure, skill, failure_trigger, user_preference, repo_convention, tool_lesson, risk_rule or case",
            repeated=True,
        ),
        Column("text", "str", "the lesson, redacted"),
        Column("when_to_use", "str", "the situation it is for", nullable=True),
        Column("structured", "str", "body as JSON", nullable=True),
        Column("evidence", "list", "event_ids that it rests on"),
        Column("confidence", "float", "0 to 1"),
        Column("priority", "int", "1 to 5"),
        Column("scope", "str", "user, repo, task or global", repeated=True),
        Column("risk", "str", "low, medium or high", repeated=True),
        Column("repository", "str", "repository it was learned in", nullable=True, repeated=True),
        Column("cwd", "str", "working directory it was learned in", nullable=True, repeated=True),
        Column("ts", "time", "when the evidence happened (UTC)", "us", nullable=True),
    ),
)

MEMORIES = Table(
    "memories",
    1,
    "One row for each memory: like candidates of all sessions in one cluster, with what people said of it.",
    ("memory_id",),
    (
        Column("memory_id", "str", "mem- and 12 hex digits over kind, scope, repository and subject: stable while the cluster grows"),
        Column("kind", "str", "as in candidates", repeated=True),
        Column("text", "str", "the lesson, redacted"),
        Column("when_to_use", "str", "the situation it is for", nullable=True),
        Column("structured", "str", "body as JSON", nullable=True),
        Column("status", "str", "candidate, accepted, needs_review, rejected or retired", repeated=True),
        Column("flags", "list", "what the safety scan found; any flag keeps the memory out of prompts"),
        Column("source", "str", "mined or authored", repeated=True),
        Column("methods", "list", "mining methods that drew it"),
        Column("scope", "str", "user, repo, task or global", repeated=True),
        Column("repository", "str", "repository it holds for", nullable=True, repeated=True),
        Column("cwd", "str", "directory it was learned in", nullable=True, repeated=True),
        Column("risk", "str", "low, medium or high", repeated=True),
        Column("confidence", "float", "0 to 1, rises with support"),
        Column("priority", "int", "1 to 5"),
        Column("support", "int", "sessions that it was drawn from"),
        Column("sessions", "list", "host/session_id of these sessions, oldest first (at most 16)"),
        Column("evidence", "list", "event_ids that it rests on (at most 16)"),
        Column("candidates", "list", "candidate_ids in the cluster"),
        Column("links", "list", "memory ids that its text names as [[id]]"),
        Column("superseded_by", "str", "newer memory about the same subject that says otherwise", nullable=True),
        Column("utility", "float", "0.5 at first; moved by 0.2 * (reward - utility) with each reward"),
        Column("uses", "int", "rewards received"),
        Column("first_ts", "time", "first evidence (UTC)", "us", nullable=True),
        Column("last_ts", "time", "last evidence (UTC)", "us", nullable=True),
    ),
)

TOKEN_COUNTS = Table(
    "token_counts",
    1,
    "One row for each event whose text stands in a context window: its tokens by a public encoding. Filled at night or by backfill.",
    ("event_id", "encoding"),
    (
        Column("event_id", "str", "the event (events.event_id)"),
        _host(),
        _session(),
        Column("kind", "str", "kind of the event", repeated=True),
        Column("content", "str", "SHA-256 prefix (32 hex digits) of the text: equal texts are counted once"),
        Column("encoding", "str", "public encoding: that of the session's model, else o200k_base", repeated=True),
        Column("tokens", "int", "tokens of the text", "token"),
        Column("chars", "int", "characters of the text", "char"),
        Column("exact", "bool", "the encoding is the model's own, and the text was counted whole"),
    ),
)

_COMMAND_SOURCES = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype", "text", "call_id"),
    "tool_calls": (
        *("call_id", "thread_id", "seq", "tool", "action", "argv", "exit", "is_error"),
        *("started", "ended", "call_event", "result_event"),
    ),
    "threads": ("thread_id", "cwd"),
}
_RESULT = "passed, failed, refused (kept from running, or stopped by the person), running (last seen running) or unknown"

COMMAND_RUNS = Table(
    "command_runs",
    2,
    "One row for each command that an agent gave to a shell, joined with the polls that waited for it; a poll is no row.",
    ("session_id", "call_event"),
    (
        _host(),
        _session(),
        _thread(),
        Column("seq", "int", "seq of the calling event inside the thread"),
        Column("call_event", "str", "event_id of the call"),
        Column("tool", "str", "the host's name of the tool", repeated=True),
        Column("command", "str", "the command line, without a shell's -c around it"),
        Column("programs", "list", "programs it runs, in order, with their subcommand or target: go test, npm run build"),
        Column("purposes", "list", "what each program is for: test, lint, types, build, install, run or other; beside programs"),
        Column("argv", "list", "words of the main program (the first that checks, else the first), without wrappers and redirections"),
        Column("folder", "str", "where the main program ran: as recorded, moved by cd; null where unknown", nullable=True, repeated=True),
        Column("environment", "list", "assignments in front of the main program, NAME=value"),
        Column("pipeline", "list", "programs that the main program's output went through"),
        Column("background", "bool", "started in the background: its output is not waited for"),
        Column("polls", "list", "event_ids of the calls that waited for it or wrote to it, in order"),
        Column("outputs", "list", "event_ids of what it printed, in order"),
        Column("result", "str", _RESULT, repeated=True),
        Column("exit", "int", "exit status, where one is known", nullable=True),
        Column("event", "str", "event_id of the record that shows the result"),
        Column("line", "str", "line of that record that shows it, at most 200 characters", nullable=True),
        Column("started", "time", "when the call was recorded (UTC)", "us", nullable=True),
        Column("ended", "time", "when the last result was recorded (UTC); null while unanswered", "us", nullable=True),
    ),
    made_of=_COMMAND_SOURCES,
    kinds=("tool_call", "tool_result", "injected"),
)

CHECK_RUNS = Table(
    "check_runs",
    2,
    "One row for each test runner, linter, type checker or build that a command ran.",
    ("session_id", "call_event", "place"),
    (
        _host(),
        _session(),
        _thread(),
        Column("seq", "int", "seq of the calling event inside the thread"),
        Column("call_event", "str", "event_id of the call (command_runs.call_event)"),
        Column("place", "int", "order inside the command, from 0"),
        Column("runner", "str", "what ran: pytest, go, ruff, ...; the program where its output names none", repeated=True),
        Column("kind", "str", "test, lint, types or build", repeated=True),
        Column("program", "str", "the program as typed, wrappers included; empty where the output alone shows the runner"),
        Column("ran", "bool", "whether anything was checked: false for a listing of tests or a run that found none", nullable=True),
        Column("passed", "int", "how many passed; null where no count was printed", nullable=True),
        Column("failed", "int", "how many failed, or problems found; null where no count was printed", nullable=True),
        Column("skipped", "int", "how many were skipped; null where no count was printed", nullable=True),
        Column("unit", "str", "what is counted: test, package, file, problem, error; empty without counts", repeated=True),
        Column("result", "str", _RESULT, repeated=True),
        Column("event", "str", "event_id of the record that shows the result"),
        Column("line", "str", "line of that record that shows it, at most 200 characters", nullable=True),
        Column("ts", "time", "when the last result was recorded (UTC)", "us", nullable=True),
    ),
    made_of=_COMMAND_SOURCES,
    kinds=("tool_call", "tool_result", "injected"),
)

TURNS = Table(
    "turns",
    3,
    "One row for each turn: a prompt, a command that the model carried out or a plan that the person approved, what followed it in its thread up to the next, and how that ended.",
    ("session_id", "thread_id", "number"),
    (
        _host(),
        _session(),
        _thread(),
        Column("number", "int", "place in the thread, from 0"),
        Column(
            "prompt_event",
            "str",
            "event_id of the prompt or command; null for a stretch before the first that the person stopped",
            nullable=True,
        ),
        Column("first_event", "str", "event_id of its first event"),
        Column("last_event", "str", "event_id of its last event"),
        Column("began", "time", "when its first event was recorded (UTC)", "us", nullable=True),
        Column(
            "finished",
            "time",
            "when the agent did the last thing in it: an answer, a call or its result, an error (UTC); null where a copy stamped all of it",
            "us",
            nullable=True,
        ),
        Column(
            "ended",
            "str",
            "answered, interrupted (by the person), failed (an error stands last) or open (something else stands last; it may still run)",
            repeated=True,
        ),
        Column("answer_event", "str", "event_id of the final answer; null without one", nullable=True),
        Column("interruption_event", "str", "event_id by which the person stopped it; null where nobody did", nullable=True),
        Column("compactions", "list", "event_ids of its compactions"),
        Column("tool_calls", "int", "tool calls in it"),
        Column("model_calls", "int", "model calls in it"),
        Column("worked", "int", "from began to finished without the pauses", "us", nullable=True, since=3),
        Column(
            "pauses",
            "list",
            "stretches above half an hour in which nothing was recorded and no tool ran, as first-last in microseconds since 1970",
            since=3,
            before=(),
        ),
    ),
    made_of={
        "events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype", "actor", "text", "call_key"),
        "tool_calls": ("thread_id", "seq", "action", "started", "ended", "call_event"),
    },
    kinds=("prompt", "injected", "answer", "reasoning", "tool_call", "tool_result", "error", "compaction"),
)

FILE_ACCESSES = Table(
    "file_accesses",
    2,
    "One row for each file that an answered tool call read, changed, searched or named; a failed call touched nothing.",
    ("session_id", "call_event", "place"),
    (
        _host(),
        _session(),
        _thread(),
        Column("seq", "int", "seq of the calling event inside the thread"),
        Column("call_event", "str", "event_id of the call"),
        Column("result_event", "str", "event_id of the result; null where only the end of the call was recorded", nullable=True),
        Column("place", "int", "order inside the call, from 0"),
        Column("path", "str", "the file: absolute where the call or its folder says so; the new name after a move"),
        Column("repository", "str", "repository of the session where the file lies in the session's folder", nullable=True, repeated=True),
        Column(
            "did", "str", "read, edit, write (made or replaced), delete, move, search or mention (a command only names it)", repeated=True
        ),
        Column("through", "str", "tool, shell, or nested (inside another call, of which only the end was recorded)", repeated=True),
        Column("tool", "str", "the host's name of the tool", repeated=True),
        Column("lines", "str", "first-last, several joined by commas; empty: all of the file, or not known"),
        Column("told", "bool", "false where a filter, a pattern or a count from the end chose which lines were shown"),
        Column("chars", "int", "characters that it brought into the window; of several files in one call, each the same part", "char"),
        Column("old_path", "str", "name before a move, where it is known", nullable=True),
        Column("ts", "time", "when the call was recorded (UTC)", "us", nullable=True),
    ),
    made_of={
        "events": _COMMAND_SOURCES["events"],
        "tool_calls": (
            *("call_id", "thread_id", "seq", "tool", "action", "paths", "ranges", "argv", "exit", "is_error", "out_chars"),
            *("started", "ended", "call_event", "result_event"),
        ),
        "threads": ("thread_id", "cwd"),
    },
    kinds=("tool_call", "tool_result", "injected"),
)

FACTS: dict[str, Table] = {t.name: t for t in (COMMAND_RUNS, CHECK_RUNS, TURNS, FILE_ACCESSES)}
"""Tables written by the stage ``facts``: one reading of a session for everything that comes after.

A row is made anew when the source of its function in :data:`FACT_MAKERS` changes, or the table's version is raised."""

FACT_MAKERS = {
    "command_runs": "ctx_pipeline.facts.command_runs:command_runs",
    "check_runs": "ctx_pipeline.facts.check_runs:check_runs",
    "turns": "ctx_pipeline.facts.turns:turn_rows",
    "file_accesses": "ctx_pipeline.facts.file_accesses:file_accesses",
}
"""Fact table -> the function that works out its rows from a session."""

FACTS_ASSET = "facts/tables"
FACTS_VERSION = " ".join(f"{t.name}.{t.version}" for t in FACTS.values())
"""Declared versions of all fact tables: they are made together, with one commit point."""

TABLES: dict[str, Table] = {
    t.name: t for t in (EVENTS, MODEL_CALLS, TOOL_CALLS, THREADS, SESSIONS, *FACTS.values(), READINGS, CANDIDATES, MEMORIES, TOKEN_COUNTS)
}

NORMALIZED = ("events", "sessions", "threads", "model_calls", "tool_calls")
"""Tables written by the stage ``normalize``."""


def asset_of(table: str) -> str:
    """Return the asset key of a table that signals and methods read."""
    return FACTS_ASSET if table in FACTS else f"normalized/{table}"
