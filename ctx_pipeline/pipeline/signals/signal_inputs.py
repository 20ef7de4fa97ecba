"""Figures that several signals share and that need another room: prices, context rot."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline.facts.command_runs import waiting_calls
from ctx_pipeline.facts.output_counts import is_first_count
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.declared import Reading
from ctx_pipeline.pricing.price_book import rates_by
from ctx_pipeline.rot.repetition import compared_part, compared_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctx_pipeline.model.declared import Outside, Signal
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.pricing import PriceBook
    from ctx_pipeline.pricing.price_book import Rates
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def analyses(settings: Settings | None = None) -> Mapping[str, Callable[[SessionView], Any]]:
    """Return what :meth:`SessionView.analysis` can work out.

    ``rate_of``: (model, time, prompt tokens) -> Rates or None. ``rot``: the context-rot
    analysis of each thread with at least two model calls of its own.
    """
    rate_of = _rates(settings)
    return {"rate_of": lambda _view: rate_of, "rot": rot_by_thread}


def _rates(settings: Settings | None) -> Callable[[str, int | None, int], Rates | None]:
    def book() -> PriceBook:
        from ctx_pipeline.pricing import PriceBook

        return PriceBook() if settings is None else PriceBook.of(settings)

    return rates_by(book)


def rot_by_thread(view: SessionView) -> list[dict[str, Any]]:
    """Return, for each thread with two model calls of its own or more, what ``ctx rot analyze`` says of it.

    Beside the keys of :func:`ctx_pipeline.rot.analysis.analyze_session` that the verdict
    rests on: ``events`` (number of a call -> its first event), ``most_repeated`` (the
    call that repeats the one before it most, None where none does) and
    ``efficiency_kept`` (the last efficiency as a multiple of the first, not rounded).
    """
    calls = {(c.thread_id, c.call_key): c for c in view.model_calls if c.owner}
    waits = view.once(waiting_calls)
    threads: dict[str, _Thread] = {}
    for event in view.events:
        thread_id, key = event.thread_id, event.call_key
        thread = threads.get(thread_id)
        if key is not None:
            call = calls.pop((thread_id, key), None)
            if call is not None:
                if thread is None:
                    thread = threads[thread_id] = _Thread(waits)
                thread.add(call, event)
            if thread is not None:
                thread.wrote(event)
        elif thread is not None and event.kind == "tool_result":
            thread.results.append(event.event_id)
    chars = {t.result_event: (t.tool, t.out_chars) for t in view.tool_calls if t.result_event}
    status = next((str(t.status) for t in view.threads if t.thread_id == view.session_id), str(view.session.status))
    return [thread.analysis(chars, status) for thread in threads.values() if len(thread.calls) > 1]


class _Thread:
    def __init__(self, waits: set[str]) -> None:
        self._waits = waits
        self.calls: list[Any] = []
        self.events: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._said: dict[int, list[str]] = {}
        self._written: Counter[int] = Counter()
        self.results: list[str] = []

    def add(self, call: Any, event: Any) -> None:
        self.calls.append(call)
        self._numbers[call.call_key] = len(self.calls)
        self.events[len(self.calls)] = event.event_id

    def wrote(self, event: Any) -> None:
        number = self._numbers.get(event.call_key)
        if number is None:
            return
        self._written[number] += len(event.text or "")
        if event.kind in ("answer", "tool_call") and event.event_id not in self._waits:
            self._said.setdefault(number, []).append(compared_part(event.kind, event.text))

    def analysis(self, chars: Mapping[str, tuple[str, int]], status: str) -> dict[str, Any]:
        from ctx_pipeline.rot import context_growth as growing
        from ctx_pipeline.rot.analysis import loops, verdict
        from ctx_pipeline.rot.repetition import ONSET
        from ctx_pipeline.tokens.shingles import overlap

        numbers = range(1, len(self.calls) + 1)
        growth = [_grown(n, c, self._written[n]) for n, c in zip(numbers, self.calls, strict=True)]
        compared = overlap([compared_text(self._said.get(n, ())) for n in numbers])
        efficiency = growing.efficiency(growth)
        most = max(compared.before, default=0.0)
        repeated = [n for n, share in zip(numbers, compared.before, strict=True) if share > ONSET]
        result: dict[str, Any] = {
            "efficiency": efficiency,
            "first_counts": growing.first_counts(growth),
            "repetitions": len(repeated),
            "summary": {
                "repetition_detected": bool(repeated),
                "onset_iteration": repeated[0] if repeated else None,
                "max_repetition": round(most, 3),
                "initial_efficiency": efficiency[0]["efficiency_ratio"],
                "final_efficiency": efficiency[-1]["efficiency_ratio"],
            },
            "session": {"terminal_state": status},
            "loops": loops(growth, compared.nearest),  # type: ignore[arg-type]
            "efficiency_onset": None if growing.first_counts(growth) else growing.efficiency_onset(efficiency),
            "efficiency_kept": None if growing.first_counts(growth) else _efficiency_ratio(growth[0], growth[-1]),
            "growth": growing.shape(growth),
            "cache": growing.cache(growth),
            "tools": growing.tool_bloat(growth, self._impact(chars)),
            "completion_collapse": growing.collapse(growth),
            "cost_acceleration": growing.cost_acceleration(growth),
            "events": self.events,
            "most_repeated": compared.before.index(most) + 1 if most else None,
        }
        result["verdict"] = verdict(result)
        return result

    def _impact(self, chars: Mapping[str, tuple[str, int]]) -> list[dict[str, Any]]:
        sizes: dict[str, list[int]] = {}
        for event in self.results:
            if event in chars:
                tool, size = chars[event]
                sizes.setdefault(tool, []).append(size // 4)
        return [{"tool_name": t, "call_count": len(s), "avg_tokens": sum(s) // len(s)} for t, s in sizes.items()]


def _efficiency_ratio(first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    """Return completion over prompt of the last call as a multiple of the first's; None where the first wrote nothing."""
    written, read = first["completion_tokens"] * last["prompt_tokens"], first["prompt_tokens"] * last["completion_tokens"]
    return read / written if written and first["prompt_tokens"] else None


def _grown(number: int, call: Any, characters: int) -> dict[str, Any]:
    return {
        "seq": number,
        "prompt_tokens": call.context_tokens,
        "completion_tokens": call.output,
        "first_count": is_first_count(call.output, characters),
        "cache_read_tokens": call.cache_read,
        "cost": call.cost,
    }


# What signals ask outside the tables: asked once, kept in the journal, replayed on every rebuild.


JUDGED = "judge:"
"""Beginning of the name of a judge's answer in ``view.seen``, before the signal's name."""


def observed(
    store: Store, missing: Mapping[str, Sequence[Signal]], rows: Mapping[str, Any], *, refresh: bool = False
) -> dict[str, dict[str, Any]]:
    """Return session id -> name -> what was seen, for the signals that each session lacks.

    What nobody has looked at yet is asked now, a whole cell at once; ``refresh`` asks
    again, and an answer that only says why there is none (``reason``) does not replace
    one that was seen. A judge is never asked here: only what it has answered is replayed.
    """
    outside: dict[str, Outside] = {}
    asked: dict[str, list[str]] = {}
    judged: dict[str, tuple[str, str]] = {}
    for session, signals in missing.items():
        for name, found in {s.outside.name: s.outside for s in signals if s.outside}.items():
            outside[name] = found
            asked.setdefault(name, []).append(session)
        judged |= {judge_key(s, rows[session]): (session, s.name) for s in signals if s.judge}
    seen: dict[str, dict[str, Any]] = {}
    for name, what in outside.items():
        sessions = {what.key(rows[session]): rows[session] for session in asked[name]}
        before = store.journal.observed(sessions) if refresh else {}
        answers = store.journal.observe_all(sessions, partial(_ask, what, before), refresh=refresh)
        for key, row in sessions.items():
            seen.setdefault(row.session_id, {})[name] = answers[key]
    for key, answer in store.journal.observed(judged).items():
        session, signal = judged[key]
        seen.setdefault(session, {})[f"{JUDGED}{signal}"] = answer
    return seen


def _ask(what: Outside, before: Mapping[str, Mapping[str, Any]], sessions: Sequence[Any]) -> Iterable[Mapping[str, Any]]:
    """Yield an answer for each session; one that is now out of sight keeps what was seen of it ``before``."""
    for session, answer in zip(sessions, what.ask(sessions), strict=True):
        known = before.get(what.key(session))
        yield known if known and answer.get("reason") and not known.get("reason") else answer


def judge_key(signal: Signal, session: Any) -> str:
    """Return the key of a judge's answer: another version of the question, or more events, are another question."""
    return f"{JUDGED}{signal.name}:{digest(signal.version, session.host, session.session_id, session.content_hash)}"


NO_NUMBER = "the query gives no number"


def by_query(store: Store, cell: Cell, signals: Iterable[Signal]) -> dict[str, dict[str, Reading] | Reading]:
    """Return signal name -> session id -> reading of the signals that are SQL; one reading for all where the query failed."""
    from ctx_pipeline.errors import ContractError
    from ctx_pipeline.storage.lake.queries import readings_of

    found: dict[str, dict[str, Reading] | Reading] = {}
    for s in signals:
        if s.sql:
            try:
                rows = readings_of(store.lake, cell, s.sql, s.reads)
            except ContractError as error:
                found[s.name] = Reading(None, reason=error.message, confidence=0.0)
            else:
                found[s.name] = {session: _reading(s, row) for session, row in rows.items()}
    return found


def _reading(signal: Signal, row: Mapping[str, Any]) -> Reading:
    value, evidence = row["value"], row.get("evidence") or ()
    if value is not None and signal.kind in {"numeric", "boolean"}:
        try:
            value = float(value)
        except (TypeError, ValueError):
            return Reading(None, reason=NO_NUMBER, confidence=0.0)
    return Reading(
        value if value is None or isinstance(value, float) else str(value),
        (str(evidence),) if isinstance(evidence, str) else tuple(str(e) for e in evidence if e is not None),
        None if row.get("reason") is None else str(row["reason"]),
        1.0 if row.get("confidence") is None else float(row["confidence"]),
    )
