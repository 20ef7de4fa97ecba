"""The tables, and sessions, as plain files that other programs and people read."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import __version__, discovery
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import digest, iso
from ctx_pipeline.model.tables import TABLES
from ctx_pipeline.model.usage_rules import cost_of
from ctx_pipeline.redaction import harmless
from ctx_pipeline.rot.export import SCHEMA_VERSION
from ctx_pipeline.sessions.session_details import resolve
from ctx_pipeline.storage.files import PrivateFolder, unwritable
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.usage.periods import day
from ctx_pipeline.usage.rollup import moment

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


class Chosen(NamedTuple):
    """Which sessions an export is of: all that fit what is named."""

    host: str | None = None
    session_id: str | None = None
    """of ``host``; its first characters will do"""
    project: str | None = None
    since: str | None = None
    """first day on which sessions began, 2026-03-01"""
    until: str | None = None


def _views(store: Store, settings: Settings, chosen: Chosen, tables: tuple[str, ...]) -> Iterator[SessionView]:
    """Yield the chosen sessions with their rows, cell by cell; raises UnknownName and UsageError."""
    key, wanted = discovery.host(chosen.host).key if chosen.host else None, None
    if chosen.session_id is not None:
        key, full = resolve(store, chosen.host or "", chosen.session_id)
        wanted = {full}
    first = moment(day(chosen.since, "--since", settings.timezone), settings.timezone)
    last = moment(day(chosen.until, "--until", settings.timezone), settings.timezone, after=True)
    for cell in store.ledger.cells():
        if key not in {None, cell.host}:
            continue
        for view in store.lake.read_sessions(cell, wanted, tables):
            began, names = view.session.first_ts, {None, view.session.project, view.session.repository}
            bounded = first is not None or last is not None
            if bounded and (began is None or (first is not None and began < first) or (last is not None and began >= last)):
                continue
            if chosen.project in names:
                yield view


def markdown(
    folder: Path | str, chosen: Chosen | None = None, *, replaced: Counter[str] | None = None, settings: Settings | None = None
) -> list[str]:
    """Write each chosen session as ``folder/<host>/<day>-<project>-<session>.md`` and return these names.

    With ``replaced`` private paths, names and addresses are replaced too, and counted in it by kind.

    Files are replaced whole (0600, folders 0700) and redacted as the tables are. Raises
    StoreError when the folder lies in the store or cannot be written.
    """
    from ctx_pipeline.model.codec import iso
    from ctx_pipeline.redaction.sharing import sharing_of
    from ctx_pipeline.sessions.markdown import markdown as rendered

    target, names = Path(folder).absolute(), []
    with reading(settings) as (store, load):
        _outside(target, load)
        write = PrivateFolder(target)
        for view in _views(store, load, chosen or Chosen(), ("events", "tool_calls", "threads")):
            s = view.session
            began = (iso(s.first_ts) or "undated")[:10]
            text, project = rendered(view), s.project or "none"
            if replaced is not None:
                sharing = sharing_of(view)
                text, project = sharing(text), sharing(project)
                replaced += sharing.counts
            name = f"{_file(s.host)}/{began}-{_file(project)}-{_file(s.session_id)}.md"
            write.text(name, text)
            names.append(name)
    return names


def opentraces(
    file: Path | str, chosen: Chosen | None = None, *, replaced: Counter[str] | None = None, settings: Settings | None = None
) -> tuple[int, int]:
    """Write the chosen sessions as JSON lines of opentraces-schema; return how many sessions and traces they are.

    With ``replaced`` private paths, names and addresses are replaced too, and counted in it by kind.

    A session has a trace for each of its context windows. The file is replaced whole
    (0600). Raises StoreError when it lies in the store or cannot be written.
    """
    from ctx_pipeline.redaction.sharing import sharing_of
    from ctx_pipeline.rot.export import line

    target = Path(file).absolute()
    sessions = count = 0
    with reading(settings) as (store, load):
        _outside(target, load)
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w", encoding="utf-8") as out:
                for view in _views(store, load, chosen or Chosen(), ("events", "tool_calls", "model_calls", "threads")):
                    sessions += 1
                    lines = [line(trace) for trace in traces(view, load.cost_mode)]
                    if replaced is not None:
                        sharing = sharing_of(view)
                        for one in lines:
                            sharing.read(one)
                        lines = [json.dumps(sharing.values(json.loads(one)), ensure_ascii=False) for one in lines]
                        replaced += sharing.counts
                    out.writelines(one.encode("utf-8", "replace").decode() + "\n" for one in lines)
                    count += len(lines)
            partial.replace(target)
        except OSError as error:
            raise unwritable(target, error) from error
        finally:
            partial.unlink(missing_ok=True)
    return sessions, count


def _file(text: str) -> str:
    """Return a name that is one plain file name; any other becomes a digest."""
    return text if _PLAIN.fullmatch(text) and harmless(text) else digest(text, size=12)


def _outside(target: Path, settings: Settings) -> None:
    if target.resolve().is_relative_to(settings.home.resolve()):
        raise StoreError(f"{target} lies in the store", hint="name a folder outside it", path=str(target))


def parquet(folder: Path | str, *, settings: Settings | None = None) -> dict[str, int]:
    """Write the live rows of every table to ``folder/<table>.parquet`` and return table -> rows.

    Files are replaced whole (0600); a table without rows is not written. Raises
    StoreError when the folder lies in the store or cannot be written.
    """
    import pyarrow.parquet as pq

    target = Path(folder).absolute()
    counts: dict[str, int] = {}
    with reading(settings) as (store, chosen):
        _outside(target, chosen)
        try:
            target.mkdir(parents=True, exist_ok=True, mode=0o700)
            for table in TABLES:
                counts[table] = 0
                writer = None
                path = target / f"{table}.parquet"
                partial = target / f".{table}.parquet.{os.getpid()}"
                for part in store.lake.parts(table):
                    rows = store.lake.read_arrow(part)
                    if writer is None:
                        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
                        writer = pq.ParquetWriter(partial, rows.schema, compression="zstd")
                    writer.write_table(rows.cast(writer.schema))
                    counts[table] += rows.num_rows
                if writer is not None:
                    writer.close()
                    partial.replace(path)
        except OSError as error:
            raise unwritable(target, error) from error
    return counts


# Sessions as traces of an open schema (opentraces-schema 0.9), one for each context window.


_ENDED = {"errored": "error", "interrupted": "interrupted", "abandoned": "abandoned"}
"""status of a thread -> terminal state; that an agent ended its turn does not say that the goal was reached"""
_SPOKEN = {"prompt": "user", "compaction": "system"}
_NANO = 1e9


def traces(view: SessionView, cost_mode: str = "auto") -> Iterator[dict[str, Any]]:
    """Yield a record for each thread of a session that has a step: what was asked, said, thought and called, in order.

    Tokens and cost are those of the calls that are counted for this session: a copied
    history keeps its steps and costs nothing. The cost is that of ``cost_mode``. Texts are redacted as the tables are.
    """
    threads = {t.thread_id: t for t in view.threads}
    events, calls, tools = (_by_thread(rows) for rows in (view.events, view.model_calls, view.tool_calls))
    for thread_id in dict.fromkeys([view.session_id, *events]):
        own = (found.get(thread_id, []) for found in (events, calls, tools))
        made = _Trace(view.session, thread_id, threads.get(thread_id), cost_mode).record(*own)
        if made["steps"]:
            yield made


def _by_thread(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.thread_id, []).append(row)
    return found


class _Trace:
    """One thread on its way into a record."""

    def __init__(self, session: Any, thread_id: str, row: Any, cost_mode: str) -> None:
        self._session, self._id, self._row, self._mode = session, thread_id, row or session, cost_mode
        self._calls: dict[str, Any] = {}
        self._tools: dict[str, Any] = {}
        self._by_id: dict[str, Any] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        self._steps: list[dict[str, Any]] = []
        self._open: str | None = None
        self._billed: set[str] = set()

    def record(self, events: list[Any], calls: list[Any], tools: list[Any]) -> dict[str, Any]:
        """Return the thread, of which these are the rows, as a TraceRecord."""
        self._calls = {c.call_key: c for c in calls}
        self._tools = {t.call_event: t for t in tools}
        self._by_id = {t.call_id: t for t in tools}
        for event in events:
            self._take(event)
        session, own = self._session, [c for c in calls if c.owner]
        for call in own:  # what no event names was paid for all the same
            if call.call_key not in self._billed:
                self._agent(call)
        prompt, read = sum(c.context_tokens for c in own), sum(c.cache_read for c in own)
        first, last = self._row.first_ts, self._row.last_ts
        ended = _ENDED.get(self._row.status)
        costs = [cost for c in own if (cost := self._cost(c)) is not None]
        task = next((s["content"] for s in self._steps if s["role"] == "user"), None)
        return {
            "schema_version": SCHEMA_VERSION,
            "trace_id": f"{session.host}/{session.session_id}/{self._id}",
            "session_id": session.session_id,
            "timestamp_start": iso(first),
            "timestamp_end": iso(last),
            "execution_context": "devtime",
            "task": {"description": task, "source": "user_prompt", "repository": session.repository},
            "agent": {"name": session.host, "version": session.version, "model": next(iter(self._row.models or ()), None)},
            "environment": {"vcs": {"type": "git" if session.branch else "none", "branch": session.branch}},
            "steps": self._steps,
            "outcome": {"success": False, "terminal_state": ended} if ended else {},
            "metrics": {
                "total_steps": len(self._steps),
                "total_input_tokens": prompt,
                "total_output_tokens": sum(c.output for c in own),
                "total_cache_read_tokens": read,
                "total_cache_creation_tokens": sum(c.cache_write_5m + c.cache_write_1h for c in own),
                "total_duration_s": round((last - first) / 1e6, 3) if first is not None and last is not None else None,
                "cache_hit_rate": round(min(1.0, read / prompt), 4) if prompt else 0.0,
                "estimated_cost_usd": sum(costs) / _NANO if costs else None,
            },
            "lifecycle": "final",
            "metadata": {
                "source": "ctx_pipeline",
                "ctx_pipeline_version": __version__,
                "project": session.project,
                "title": session.title,
                "thread": getattr(self._row, "kind", "main"),
                "parent_thread": getattr(self._row, "parent_thread_id", None),
                "content_hash_of_rows": session.content_hash,
            },
        }

    def _cost(self, call: Any) -> int | None:
        return cost_of(self._mode, call.recorded_cost, call.cost)

    def _take(self, event: Any) -> None:
        if event.kind in _SPOKEN and event.text:
            self._open = None
            self._step(_SPOKEN[event.kind], event, content=event.text)
        elif event.kind in ("answer", "reasoning", "tool_call"):
            self._assistant_text(event)
        elif event.kind == "tool_result" and event.call_id in self._asked:
            tool = self._by_id.get(event.call_id)
            failed = (event.text or "failed") if tool is not None and tool.is_error else None
            self._asked[event.call_id]["observations"].append(
                {"source_call_id": event.call_id, "content": None if failed else event.text or "", "error": failed}
            )

    def _assistant_text(self, event: Any) -> None:
        if event.call_key is None or event.call_key != self._open or not self._steps or self._steps[-1]["role"] != "agent":
            self._open = event.call_key
            self._agent(event)
        step = self._steps[-1]
        if event.kind == "tool_call":
            tool = self._tools.get(event.event_id)
            call_id = event.call_id or event.event_id
            lasted = (tool.ended - tool.started) // 1000 if tool and tool.started is not None and tool.ended is not None else None
            named = {"tool_call_id": call_id, "tool_name": tool.tool if tool else "unknown", "input": _given(event.text)}
            step["tool_calls"].append({**named, "duration_ms": lasted})
            self._asked[call_id] = step
        elif event.text:
            name = "content" if event.kind == "answer" else "reasoning_content"
            step[name] = f"{step[name]}\n{event.text}" if step.get(name) else event.text

    def _agent(self, event: Any) -> None:
        """Begin a step of a model call, told by an event of it or by the call itself."""
        call = self._calls.get(event.call_key)
        used = {}
        if call is not None and call.owner and event.call_key not in self._billed:
            self._billed.add(event.call_key)
            used = {
                "input_tokens": call.context_tokens,
                "output_tokens": call.output,
                "cache_read_tokens": call.cache_read,
                "cache_write_tokens": call.cache_write_5m + call.cache_write_1h,
            }
        self._step("agent", event, model=call.model or None if call else None, tool_calls=[], observations=[], token_usage=used)

    def _step(self, role: str, event: Any, **more: Any) -> None:
        self._steps.append({"step_index": len(self._steps) + 1, "role": role, "timestamp": iso(event.ts), **more})


def _given(text: str | None) -> dict[str, Any]:
    """Return a call's arguments; what is no JSON object stands under ``input``."""
    try:
        said = json.loads(text or "{}")
    except (ValueError, RecursionError):
        said = text
    return said if isinstance(said, dict) else {"input": said}
