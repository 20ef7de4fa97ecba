"""Asks a language model what is to be learnt from sessions, only when a person names the method."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SettingsError, UsageError
from ctx_pipeline.mining.lessons import model_lessons as asked
from ctx_pipeline.model.agent_config import HeadlessAnswer, asked_here
from ctx_pipeline.model.declared import MODEL
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline.pipeline.models import headless, model_answers
from ctx_pipeline.pipeline.models.model_judge import access
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.settings import keep_litellm_offline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store

TABLE = "mine"
"""Table of config.toml with the model of ``dspy``; its tables by the name of a method choose program, model and seconds."""

_COLUMNS = {
    "events": ("event_id", "session_id", "thread_id", "seq", "kind", "text"),
    "tool_calls": ("session_id", "thread_id", "seq", "tool", "action", "call_event", "result_event"),
}
_NANO = 1_000_000_000
_MOST_STREAM = 400_000
_MOST_TOKENS = 4_000
_MOST_WHY = 600
_FENCE = re.compile(r"^\s*```(?:json)?\s*|\s*```\s*$")


class Question(NamedTuple):
    """What would be sent about one session."""

    view: SessionView
    key: str
    record: str
    text: str
    """all of what the model reads"""


class _Answer(NamedTuple):
    told: HeadlessAnswer
    stream: str
    lessons: Mapping[str, Any] | None
    """None where the answer is not what was asked for"""


class _Asker(NamedTuple):
    model: str
    answer: Callable[[Question], _Answer]


def questions(
    store: Store,
    settings: Settings,
    method: Method,
    *,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str] | None = None,
    limit: int = 20,
    again: bool = False,
    model: str = "",
) -> Iterator[Question]:
    """Yield what is to be asked about the sessions without an answer, or about all with ``again``, the newest first.

    Texts are redacted once more with the patterns of today. What an agent was asked here
    itself is nobody's session.
    """
    redactor = Redactor(settings.patterns)
    left = limit
    for cell in sorted(cells if cells is not None else store.ledger.cells(), key=lambda c: (c.month, c.host), reverse=True):
        rows = [r for r in store.lake.read_rows("sessions", cell, "normalized") if sessions is None or r.session_id in sessions]
        rows = sorted((r for r in rows if r.prompts and not asked_here(r.cwd)), key=lambda r: (r.last_ts or 0, r.session_id), reverse=True)
        keys = {row.session_id: model_answers.key_of(method, row, model) for row in rows}
        known = {} if again else store.journal.observed(keys.values())
        due = [row for row in rows if keys[row.session_id] not in known][:left]
        views = (
            {v.session_id: v for v in store.lake.read_sessions(cell, {r.session_id for r in due}, tuple(_COLUMNS), _COLUMNS)} if due else {}
        )
        for row in due:
            view = views.get(row.session_id)
            if view is not None:
                # before texts are cut: half of a key looks like none
                view.events = [e._replace(text=redactor.redact(e.text)) if e.text else e for e in view.events]
            record = redactor.redact(asked.record(view)[0]) if view is not None else ""
            if view is not None and record:
                yield Question(view, keys[row.session_id], record, asked.question(record))
                left -= 1
        if left <= 0:
            return


def ask(
    store: Store,
    settings: Settings,
    method: Method,
    *,
    cells: Collection[Cell] | None = None,
    sessions: Collection[str] | None = None,
    limit: int = 20,
    again: bool = False,
) -> dict[str, Any]:
    """Ask about the sessions without an answer, record each answer at once, and return what came of it.

    Returns asked, failed, errors (why, by session), lessons, refused (by reason),
    input_tokens, output_tokens, cost_nano (nano-dollars, of what the provider or agent
    reports) and model. Raises SettingsError where no model is configured or the agent is
    not installed, UsageError for a method that asks nobody.
    """
    asker = _asker(settings, method)
    redactor = Redactor(settings.patterns)
    done: dict[str, Any] = {"asked": 0, "failed": 0, "errors": {}, "lessons": 0, "refused": {}}
    done |= {"input_tokens": 0, "output_tokens": 0, "cost_nano": 0, "model": asker.model}
    for question in questions(store, settings, method, cells=cells, sessions=sessions, limit=limit, again=again, model=asker.model):
        answer = asker.answer(question)
        view, said = question.view, answer.told
        spent = {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens, "cost_nano": said.cost_nano}
        done["asked"] += 1
        for name, value in spent.items():
            done[name] += value or 0
        if answer.lessons is None:
            why = _bounded(redactor.redact(said.error or "the answer is not what was asked for"))
            done["failed"] += 1
            done["errors"][f"{view.host}/{view.session_id}"] = why
            instead = {"error": why, "stream": redactor.redact(answer.stream)[:_MOST_STREAM]}
            model_answers.failed(store, method, view.session, {"model": said.model or asker.model, **spent}, instead)
            continue
        lessons = redactor.redact_values(answer.lessons)
        view.seen[method.name] = lessons
        drawn, _ = draw(method, view)
        refused = asked.believed(view, lessons).refused
        done["lessons"] += len(drawn)
        for reason, count in refused.items():
            done["refused"][reason] = done["refused"].get(reason, 0) + count
        fact = {
            "method": method.name,
            "version": method.version,
            "host": view.host,
            "session_id": view.session_id,
            "model": said.model or asker.model,
            "lessons": len(drawn),
            "refused": dict(refused),
            **spent,
        }
        model_answers.keep(store, question.key, fact, drawn, redactor.redact(answer.stream)[:_MOST_STREAM])
    return done


def _bounded(why: str) -> str:
    """Return the beginning and the end of a long reason."""
    return why if len(why) <= _MOST_WHY else f"{why[: _MOST_WHY // 3]} … {why[-_MOST_WHY * 2 // 3 :]}"


def recipient(settings: Settings, method: Method) -> tuple[str, str]:
    """Return the model that would answer and what would be run or asked, as one line; who is not there yet is said in its place."""
    try:
        if method.asks == MODEL:
            model = access(settings, TABLE).model
            return model, f"dspy with {model}"
        called = _agent(settings, method)
    except SettingsError as error:
        return "", f"nobody yet: {error.message}"
    return called.model or called.name, " ".join(part or "''" for part in (called.program, *called.arguments))


def _agent(settings: Settings, method: Method) -> headless.Agent:
    table = settings.config.get(TABLE, {})
    chosen = table.get(method.name) if isinstance(table, dict) else None
    host = next((h for h in discovery.hosts().values() if h.agent.headless is not None and h.agent.headless.method == method.name), None)
    if host is None:
        raise UsageError(f"no agent answers to {method.name}", hint="ctx methods")
    return headless.agent(settings, host, chosen if isinstance(chosen, dict) else {})


def _asker(settings: Settings, method: Method) -> _Asker:
    if not method.asks:
        raise UsageError(f"{method.name} asks nobody", hint="ctx methods")
    if method.asks == MODEL:
        found = access(settings, TABLE)
        options = {**found.options, "max_tokens": _MOST_TOKENS}
        return _Asker(found.model, lambda question: _by_dspy(found.model, options, question))
    called = _agent(settings, method)

    def answer(question: Question) -> _Answer:
        ran = headless.ask(called, question.text, asked.SCHEMA)
        return _Answer(ran.told, ran.stream, json_in(ran.told.text) if ran.told.text else None)

    return _Asker(called.model or called.name, answer)


def _by_dspy(model: str, options: Mapping[str, Any], question: Question) -> _Answer:
    """Return the typed answer of a model; an answer of another shape, and every failure of a provider, is none."""
    keep_litellm_offline()
    import dspy

    from ctx_pipeline.mining.dspy import signature

    asks = dspy.LM(model, **options)
    lessons, error = None, ""
    try:
        with dspy.context(lm=asks, callbacks=[]):
            told = dspy.Predict(signature())(record=question.record)
        lessons = {"lessons": [lesson.model_dump() for lesson in told.lessons]}
    except Exception as failure:  # noqa: BLE001 - a provider fails in as many ways as there are providers
        error = f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]}"
    usage = [entry.get("usage") or {} for entry in asks.history]
    costs = [entry.get("cost") for entry in asks.history]
    return _Answer(
        HeadlessAnswer(
            "",
            model,
            sum(int(u.get("prompt_tokens") or 0) for u in usage),
            0,
            sum(int(u.get("completion_tokens") or 0) for u in usage),
            round(sum(c for c in costs if c) * _NANO) if any(c is not None for c in costs) else None,
            error,
        ),
        "\n".join(json.dumps(entry.get("outputs"), ensure_ascii=False, default=str) for entry in asks.history),
        lessons,
    )


def json_in(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is or holds, fences and sentences around it aside; None where there is none."""
    for piece in (_FENCE.sub("", text), text[text.find("{") : text.rfind("}") + 1]):
        try:
            found = json.loads(piece)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("lessons"), list):
            return found
    return None
