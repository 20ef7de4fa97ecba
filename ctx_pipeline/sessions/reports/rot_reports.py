"""Context rot of sessions: which session is meant, where it is, and what is made of it."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from ctx_pipeline.errors import AmbiguousName, StoreError, UnknownName, UsageError
from ctx_pipeline.facts.command_runs import waiting_calls
from ctx_pipeline.facts.output_counts import is_first_count
from ctx_pipeline.facts.windows import peak
from ctx_pipeline.model.codec import iso
from ctx_pipeline.rot import database
from ctx_pipeline.rot.content import estimated_tokens
from ctx_pipeline.rot.repetition import compared_part, compared_text
from ctx_pipeline.rot.store import CtxRotStore, Watched, absorb_overflow
from ctx_pipeline.sessions.naming import find_session
from ctx_pipeline.usage.periods import day

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ctx_pipeline.model.row_contracts import ThreadRow
    from ctx_pipeline.model.session_view import SessionView


@contextmanager
def session(
    db: str | os.PathLike[str] | None = None, session_id: str | None = None, thread: str | None = None
) -> Iterator[tuple[Source, str]]:
    """Give the store that holds a session, and the session's full id.

    With ``db`` only that store is looked into. Else: the callback stores that are known
    (the default one and those that were announced), then the captured sessions of every
    host. Without an id the latest session; the first characters of an id are enough.
    ``thread`` names another context window of a captured session than the main one.
    Raises StoreError where there is no store, UnknownName with the nearest ids, UsageError
    for a thread of a callback store.
    """
    known: list[str] = []
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            if session_id is None:
                found = store.get_latest_session_id()
            else:
                ids = store.get_session_ids()
                known += ids
                found = _fitting(session_id, ids)
            if found is not None and thread is None:
                yield store, found
                return
            if found is not None and (session_id is not None or db is not None):
                raise UsageError("a session of a callback store has no threads", hint="leave --thread out")
    if db is None:
        captured = _captured(session_id, known)
        if captured is not None:
            yield captured if thread is None else captured.of(_thread(captured, thread)), captured.session_id
            return
    if session_id is None:
        raise StoreError("No sessions found.", hint="run a program with CtxRotCallback, or ctx run for the sessions of your agents")
    raise UnknownName("session", session_id, known)


def _paths(db: str | os.PathLike[str] | None) -> list[Path]:
    """Return the stores that are looked into, after what waits for them in spill files was taken in."""
    paths = [database.store_path(db)] if db is not None else stores()
    for path in paths:
        absorb_overflow(path)
    return paths


def stores() -> list[Path]:
    """Return the callback stores that exist: the default one first, then those that announced themselves."""
    from ctx_pipeline import discovery

    settings = database.settings()
    found = [database.store_path(chosen=settings)]
    for host in discovery.hosts().values():
        if host.files.announced:
            for root in settings.roots_of(host):
                inside = sorted(root.iterdir()) if root.is_dir() else [root]
                found += [p for p in inside if host.files.classify(p.name) or p == root]
    return [p for p in dict.fromkeys(found) if p.is_file()]


def watched(db: str | os.PathLike[str] | None = None) -> Watched:
    """Return the stores to watch: the one that is named, else all that are known, now and later."""
    return Watched(stores if db is None else lambda: [database.store_path(db)])


def stored_session(db: str | os.PathLike[str] | None, session_id: str) -> str:
    """Return the full id of a session of a callback store. Raises UnknownName with the nearest ids."""
    known: list[str] = []
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            known += store.get_session_ids()
    found = _fitting(session_id, known)
    if found is None:
        raise UnknownName("session", session_id, known)
    return found


def selected(
    store: CtxRotStore,
    *,
    since: str | None = None,
    until: str | None = None,
    state: str | None = None,
    timezone: str | None = None,
) -> list[str]:
    """Return the sessions of a store that began within bounds and ended in a state, the oldest first.

    ``since`` and ``until`` are days of the time zone (both whole), or ISO 8601 times.
    Raises UsageError for a day that is none.
    """
    zone = timezone or database.settings().timezone
    return store.get_session_ids(_bound(since, zone, end=False), _bound(until, zone, end=True), state)


def _bound(text: str | None, zone: str | None, *, end: bool) -> str | None:
    if text is None:
        return None
    try:
        if "T" not in text and ":" not in text:
            named = day(text, "--until" if end else "--since", zone) or date.min
            start = named + timedelta(days=1 if end else 0)
            moment = datetime(start.year, start.month, start.day, tzinfo=ZoneInfo(zone) if zone else None).astimezone(UTC)
            moment -= timedelta(microseconds=1 if end else 0)
        else:
            moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, KeyError) as error:
        raise UsageError(f"{text!r} is neither a day nor a time", hint="write 2026-11-21 or 2026-11-21T10:00:00+00:00") from error
    return moment.isoformat()


def _fitting(wanted: str, ids: Sequence[str]) -> str | None:
    if wanted in ids:
        return wanted
    fitting = [i for i in ids if i.startswith(wanted)] if wanted else []
    return fitting[0] if len(fitting) == 1 else None


def _thread(captured: CapturedSession, wanted: str) -> str:
    found = _fitting(wanted, list(captured.threads))
    if found is None:
        raise UnknownName("thread", wanted, captured.threads)
    return found


def windows(source: Source, session_id: str) -> list[dict[str, Any]]:
    """Return thread_id, kind, agent and analysis of every context window of a session; one of a callback store has one."""
    from ctx_pipeline.rot.analysis import analyze_session

    if isinstance(source, CtxRotStore):
        return [{"thread_id": session_id, "kind": "main", "agent": None, "analysis": analyze_session(source, session_id)}]
    return [
        {"thread_id": t.thread_id, "kind": t.kind, "agent": t.agent, "analysis": analyze_session(source.of(t.thread_id), session_id)}
        for t in source.threads.values()
    ]


def _captured(session_id: str | None, known: list[str]) -> CapturedSession | None:
    """Return a session of the pipeline's own store, None when it has none that fits; ids that were seen are added."""
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.storage.reader import reading

    try:
        with reading() as (store, _):
            rows = store.ledger.sessions()
            known += [r.session_id for r in rows]
            if session_id is None:
                row = max(rows, key=lambda r: (r.month, r.first_own_ts or 0), default=None)
            else:
                row = store.ledger.session(*find_session(store, session_id))
            if row is None:
                return None
            tables = ("events", "tool_calls", "model_calls", "threads")
            views = store.lake.read_sessions(Cell(row.host, row.month), session_ids=[row.session_id], tables=tables)
            view = next(iter(views), None)
    except (StoreError, UnknownName) as error:
        if isinstance(error, AmbiguousName):
            raise
        return None
    return None if view is None else CapturedSession(view)


def exported(
    db: str | os.PathLike[str] | None,
    form: str,
    *,
    ids: Sequence[str] = (),
    everything: bool = False,
    since: str | None = None,
    until: str | None = None,
    state: str | None = None,
) -> Iterator[str]:
    """Yield the chosen sessions as lines of JSON, secrets replaced, each read when it is its turn.

    Ids may name captured sessions of any host; filters look into the callback stores.
    """
    from ctx_pipeline import __version__
    from ctx_pipeline.redaction import Redactor
    from ctx_pipeline.rot import export
    from ctx_pipeline.rot.content import redacted

    redact = Redactor().redact
    zone = database.settings().timezone
    first, last = _bound(since, zone, end=False), _bound(until, zone, end=True)

    def lined(source: Source, found: str) -> str:
        return redacted(export.line(export.record(source, found, __version__, form)), redact)

    if ids or not (everything or since or until or state):
        for wanted in ids or (None,):
            with session(db, wanted) as (source, found):
                yield lined(source, found)
        return
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            for found in store.get_session_ids(first, last, state):
                yield lined(store, found)


def overview(db: str | os.PathLike[str] | None = None, limit: int = 200) -> list[dict[str, Any]]:
    """Return the sessions of the callback stores with their totals, the newest first; each names its store."""
    rows: list[dict[str, Any]] = []
    for path in _paths(db):
        with CtxRotStore(path, read_only=True) as store:
            rows += [{**row, "store": str(path)} for row in store.get_feed_sessions(limit)]
    return sorted(rows, key=lambda r: r["started_at"], reverse=True)[:limit]


def deep_cost(store: Source, session_id: str, models: tuple[str, str], max_iterations: int, max_llm_calls: int) -> tuple[int, float | None]:
    """Return the tokens that a deep analysis uses at most, and their price in dollars, None where a model has no known price."""
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.rot.deep import estimate

    most = estimate(store, session_id, max_iterations, max_llm_calls)
    book = PriceBook.of(database.settings())
    nano = 0
    for model, sent, got in ((models[0], most.main_in, most.main_out), (models[1], most.sub_in, most.sub_out)):
        cost, _ = book.cost_nano(model, None, input=sent, output=got)
        if cost is None:
            return sum(most), None
        nano += cost
    return sum(most), nano / 1e9


# A captured session of any host, by the method names of a callback store.


NANO = 1_000_000_000
_ROLES = {"prompt": "user", "injected": "system", "answer": "assistant", "reasoning": "assistant", "tool_call": "assistant"}
_STATES = ("completed", "errored", "abandoned")


class CapturedSession:
    """One context window of a captured session: the main one, or the thread that is named.

    What the agent said and which tools it called is a call's completion; what stands
    between two calls is the later one's messages (agents do not record the whole prompt).
    """

    def __init__(self, view: SessionView, thread_id: str | None = None) -> None:
        self._view = view
        self.host = view.host
        self.session_id = view.session_id
        rows = {t.thread_id: t for t in view.threads}
        self.thread_id = thread_id or (view.session_id if view.session_id in rows else next(iter(rows), view.session_id))
        self._row = rows.get(self.thread_id, view.session)
        events = [e for e in view.events if e.thread_id == self.thread_id]
        first: dict[str, int] = {}
        for number, event in enumerate(events):
            if event.call_key is not None:
                first.setdefault(event.call_key, number)
        calls = [c for c in view.model_calls if c.thread_id == self.thread_id and c.owner]
        calls.sort(key=lambda c: (first.get(c.call_key, len(events)), c.ts or 0))
        self._calls = {c.call_key: c for c in calls}
        self._numbers = {key: number for number, key in enumerate(self._calls, 1)}
        self._said: dict[int, list[tuple[str, str, str]]] = {}
        self._written: Counter[str] = Counter()
        self._messages: dict[int, list[dict[str, str]]] = {}
        self._tools: list[dict[str, Any]] = []
        self._walk(events, {t.call_event: t for t in view.tool_calls})

    @property
    def threads(self) -> dict[str, ThreadRow]:
        """Context windows of the session that asked a model, by id, in the order of their beginning."""
        asked = {c.thread_id for c in self._view.model_calls if c.owner}
        rows = sorted(self._view.threads, key=lambda t: (t.thread_id != self._view.session_id, t.first_ts or 0, t.thread_id))
        return {t.thread_id: t for t in rows if t.thread_id in asked}

    def of(self, thread_id: str) -> CapturedSession:
        """Return another context window of the session."""
        return CapturedSession(self._view, thread_id)

    def _walk(self, events: list[Any], tools: dict[str, Any]) -> None:
        at = 0
        waiting: list[dict[str, str]] = []
        results = {e.call_id: e.text or "" for e in events if e.kind == "tool_result" and e.call_id}
        for event in events:
            number = self._numbers.get(event.call_key) if event.call_key is not None else None
            if number is not None:
                self._written[event.call_key] += len(event.text or "")
            if number is not None and number != at:
                at = number
                self._messages[at], waiting = waiting, []
            if event.kind in {"answer", "tool_call"} and number is not None:
                self._said.setdefault(at, []).append((event.kind, event.text or "", event.event_id))
            elif event.kind in _ROLES or event.kind == "tool_result":
                waiting.append({"role": _ROLES.get(event.kind, "tool"), "content": event.text or ""})
            tool = tools.get(event.event_id)
            if tool is not None:
                self._tools.append(self._tool(tool, at, event.text, results.get(event.call_id)))

    @staticmethod
    def _tool(tool: Any, after: int, arguments: str | None, output: str | None) -> dict[str, Any]:
        lasted = (tool.ended - tool.started) // 1000 if tool.started is not None and tool.ended is not None else None
        return {
            "id": tool.call_id,
            "session_id": tool.session_id,
            "after_seq": after,
            "tool_name": tool.tool,
            "started_at": iso(tool.started),
            "ended_at": iso(tool.ended),
            "duration_ms": lasted,
            "output_tokens_est": estimated_tokens(output or ""),
            "error": (output or "")[:500] if tool.is_error else None,
            "input_json": arguments,
            "output_text": output,
            "output_char_count": None if output is None else len(output),
        }

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """Return id, times, model, size of the window where known, mode and state; the mode is the host's key."""
        row, models = self._row, list(self._row.models or ())
        fullest = peak(self._view, self.thread_id)
        return {
            "id": session_id,
            "started_at": iso(row.first_ts),
            "ended_at": iso(row.last_ts),
            "model": models[0] if models else None,
            "context_window": fullest.window.tokens if fullest else getattr(row, "context_window", None),
            "mode": self.host,
            "terminal_state": row.status if row.status in _STATES else None,
        }

    def get_session_summary(self, session_id: str) -> dict[str, Any]:
        """Return the totals of the calls."""
        calls = self.get_growth_data(session_id)
        prompt, read = sum(c["prompt_tokens"] for c in calls), sum(c["cache_read_tokens"] for c in calls)
        first, last = self._row.first_ts, self._row.last_ts
        return {
            "total_calls": len(calls),
            "total_prompt": prompt,
            "total_completion": sum(c["completion_tokens"] for c in calls),
            "total_cache_read": read,
            "cache_hit_pct": round(read / prompt * 100 if prompt else 0.0, 1),
            "total_cost": sum(c["cost"] or 0 for c in calls),
            "total_duration_ms": (last - first) // 1000 if first is not None and last is not None else 0,
            "max_prompt_tokens": max((c["prompt_tokens"] for c in calls), default=0),
        }

    def get_growth_data(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return tokens, cost and model of each call; a prompt's tokens are all that was in the context."""
        return [
            {
                "seq": self._numbers[key],
                "prompt_tokens": c.context_tokens,
                "completion_tokens": c.output,
                "first_count": is_first_count(c.output, self._written[key]),
                "cache_read_tokens": c.cache_read,
                "cache_write_tokens": c.cache_write_5m + c.cache_write_1h,
                "cost": None if c.cost is None else c.cost / NANO,
                "model": c.model,
            }
            for key, c in self._calls.items()
        ]

    def get_lm_call_content(self, session_id: str) -> list[dict[str, Any]]:
        """Return what was said at each call."""
        rows = []
        for call in self.get_growth_data(session_id):
            messages, text = self._messages.get(call["seq"], []), "\n".join(text for _, text, _ in self._said.get(call["seq"], ()))
            rows.append(
                {
                    "seq": call["seq"],
                    "messages_json": json.dumps(messages, ensure_ascii=False),
                    "completion": text,
                    "prompt_char_count": sum(len(m["content"]) for m in messages),
                    "completion_char_count": len(text),
                    "prompt_tokens": call["prompt_tokens"],
                    "completion_tokens": call["completion_tokens"],
                }
            )
        return rows

    def get_compared_content(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return what repetition compares of each call: that of the signals, without calls that waited for a command."""
        waits = self._view.once(waiting_calls)
        parts = {seq: [compared_part(kind, text) for kind, text, event in said if event not in waits] for seq, said in self._said.items()}
        return [{"seq": seq, "completion": compared_text(parts.get(seq, ()))} for seq in self._numbers.values()]

    def get_tool_impact(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return tool_name, call_count and avg_tokens of each tool, the largest first."""
        sizes: dict[str, list[int]] = {}
        for tool in self._tools:
            sizes.setdefault(tool["tool_name"], []).append(tool["output_tokens_est"])
        rows = [{"tool_name": name, "call_count": len(s), "avg_tokens": sum(s) // len(s)} for name, s in sizes.items()]
        return sorted(rows, key=lambda r: -r["avg_tokens"])

    def get_tools_by_iteration(self, session_id: str) -> dict[int, list[dict[str, Any]]]:  # noqa: ARG002 - the protocol's
        """Return the tools that ran after each call."""
        found: dict[int, list[dict[str, Any]]] = {}
        for tool in self._tools:
            found.setdefault(tool["after_seq"], []).append({n: tool[n] for n in ("tool_name", "output_tokens_est", "duration_ms")})
        return found

    def get_tool_call_content(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return input and output of each tool call, in order."""
        return [{"tool_call_id": t["id"], **{n: t[n] for n in ("input_json", "output_text", "output_char_count")}} for t in self._tools]

    def get_lm_calls_full(self, session_id: str) -> list[dict[str, Any]]:
        """Return every column of the calls."""
        content = {c["seq"]: c for c in self.get_lm_call_content(session_id)}
        rows = []
        for (key, c), call in zip(self._calls.items(), self.get_growth_data(session_id), strict=True):
            place = {"started_at": iso(c.ts), "ended_at": iso(c.ts), "duration_ms": None, "error": None}
            kind = {"call_type": None, "iteration": None, "parent_seq": None}
            rows.append({"id": key, "session_id": session_id, **call, **place, **content[call["seq"]], **kind})
        return rows

    def get_tool_calls_full(self, session_id: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the protocol's
        """Return every column of the tool calls, in order."""
        return self._tools

    def get_rlm_tree_data(self, session_id: str) -> list[dict[str, Any]]:
        """Return the calls; none of them has a place in an RLM."""
        return self.get_lm_calls_full(session_id)


if TYPE_CHECKING:
    Source = CtxRotStore | CapturedSession
