"""Asks a language model what is to be learned from sessions, only when a person names the method."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.errors import SettingsError, UsageError
from ctx_pipeline.mining.lessons.asked_models import compared_lessons
from ctx_pipeline.mining.lessons.asked_models import model_lessons as asked
from ctx_pipeline.mining.lessons.asked_models.model_answers import lessons_in
from ctx_pipeline.mining.lessons.asked_models.sent_record import begins_with_plan
from ctx_pipeline.model.agent_config import HeadlessAnswer
from ctx_pipeline.model.declared import MODEL
from ctx_pipeline.model.hook_kinds import ASKED_BOX, ASKED_FOLDER, asked_here
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline.pipeline.models import model_judge
from ctx_pipeline.pipeline.models.lesson_program import instructions
from ctx_pipeline.pipeline.models.model_judge import access
from ctx_pipeline.pipeline.models.outgoing_record import TABLES, outgoing_record
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.settings import keep_litellm_offline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from ctx_pipeline.mining.lessons.asked_models.model_answers import ReadLessons
    from ctx_pipeline.model.agent_config import Headless
    from ctx_pipeline.model.declared import Host, Method
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store
    from ctx_pipeline.storage.journal import Journal


# Runs an agent's command line without a person: one question in, JSON lines out, in an empty folder and within
# limits.


SECONDS = 300.0
"""How long an agent may take over one question, unless the settings say otherwise."""

_MOST_BYTES = 16_000_000
_COMPLAINT = "complaint"
_MOST_COMPLAINT = 8_000
_LOOK = 0.05


class Agent(NamedTuple):
    """An agent as it is called here: what is run, with which environment, for how long, under which model's name."""

    name: str
    recipe: Headless
    program: str
    arguments: tuple[str, ...]
    environ: dict[str, str]
    seconds: float
    model: str | None


class Ran(NamedTuple):
    """What a run of an agent gave."""

    told: HeadlessAnswer
    stream: str


def agent(settings: Settings, host: Host, chosen: Mapping[str, Any]) -> Agent:
    """Return the agent of a host with what the settings choose of it: program, model, seconds. Raises SettingsError where it is missing."""
    recipe = host.agent.headless
    if recipe is None:
        raise SettingsError(f"{host.title} cannot be asked without a person", hint="ctx methods")
    named = str(chosen.get("program") or recipe.command[0])
    program = shutil.which(named, path=settings.environ.get("PATH"))
    if program is None:
        raise SettingsError(
            f"{named} is not installed, or not on PATH", hint=f"install {host.title}, or choose another method: ctx methods"
        )
    model = str(chosen["model"]) if chosen.get("model") else None
    more = tuple(part.replace("{model}", model) for part in recipe.model) if model else ()
    seconds = chosen.get("seconds")
    return Agent(
        host.key,
        recipe,
        program,
        (*recipe.command[1:], *more),
        {name: value for name, value in settings.environ.items() if name not in recipe.without},
        float(seconds) if isinstance(seconds, int | float) and seconds > 0 else SECONDS,
        model,
    )


def ask_agent(called: Agent, question: str, schema: Mapping[str, Any]) -> Ran:
    """Ask once and return what was said with the stream as it came; never raises for what the agent does.

    The agent and all that it started are ended when it ends, when its time is over, or
    when it prints more than sixteen million bytes.
    """
    with tempfile.TemporaryDirectory(prefix=ASKED_BOX, ignore_cleanup_errors=True) as box:
        folder = Path(box, ASKED_FOLDER)
        folder.mkdir(mode=0o700)
        asked, said, form = Path(box, "question"), Path(box, "stream"), Path(box, "schema.json")
        asked.write_text(question, "utf-8")
        form.write_text(json.dumps(schema), "utf-8")
        command = [called.program, *(part.replace("{schema}", str(form)) for part in called.arguments)]
        ended = _run(command, folder, asked, said, called)
        complaint = _last_words(said.with_name(_COMPLAINT)) if ended else ""
        stream = said.read_bytes()[:_MOST_BYTES].decode("utf-8", "replace") if said.exists() else ""
    told = called.recipe.read(_records(stream))
    if ended and not told.text:
        told = told._replace(error="; ".join(filter(None, (ended, told.error, complaint))))
    return Ran(told, stream)


def _last_words(complained: Path) -> str:
    """Return the end of what the agent printed to stderr, as one line of whole words: half of a key would look like none."""
    try:
        with complained.open("rb") as file:
            before = max(0, complained.stat().st_size - _MOST_COMPLAINT)
            file.seek(before)
            words = file.read().decode("utf-8", "replace").split()
    except OSError:
        return ""
    return " ".join(words[1:] if before else words)


def _run(command: list[str], folder: Path, asked: Path, said: Path, called: Agent) -> str:
    """Run to the end and return why there is no answer; empty when it ended well."""
    complained = said.with_name(_COMPLAINT)
    try:
        with asked.open("rb") as question, said.open("wb") as stream, complained.open("wb") as complaint:
            process = subprocess.Popen(  # noqa: S603 - the program that the person installed, arguments from the host's file
                command,
                stdin=question,
                stdout=stream,
                stderr=complaint,
                cwd=folder,
                env=called.environ,
                start_new_session=True,
            )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    ended = ""
    until = time.monotonic() + called.seconds
    try:
        while process.poll() is None and not ended:
            if time.monotonic() > until:
                ended = f"no answer within {called.seconds:g} seconds"
            elif max(said.stat().st_size, complained.stat().st_size) > _MOST_BYTES:
                ended = "it printed too much"
            else:
                time.sleep(_LOOK)
    finally:
        _end(process)
    return ended or (f"it ended with status {process.returncode}" if process.returncode else "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the agent's process group."""
    kill = getattr(os, "killpg", None)
    with suppress(ProcessLookupError, PermissionError):
        if kill is not None:
            kill(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _records(stream: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a stream; lines that are none are passed over."""
    for line in stream.splitlines():
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


TABLE = "mine"
"""Table of config.toml with the model of ``dspy``; its tables by the name of a method choose program, model and seconds."""

_NANO = 1_000_000_000
_MOST_STREAM = 400_000
_MOST_TOKENS = 4_000
_MOST_WHY = 600
_OF_PLANS = ("event_id", "session_id", "thread_id", "seq", "kind", "subtype")
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


class Grouped(NamedTuple):
    """An answer about lessons of one repository."""

    told: HeadlessAnswer
    groups: Mapping[str, Any] | None
    """None where the answer is not what was asked for"""


class AskerOfGroups(NamedTuple):
    """Who is asked about lessons, and how."""

    model: str
    answer: Callable[[str], Grouped]


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

    Texts are redacted once more with the patterns of today, and logins, home folders and
    names replaced. What an agent was asked here itself is nobody's session, nor is one in
    which nobody typed anything and no plan was approved.
    """
    redactor = Redactor(settings.patterns)
    left = limit
    for cell in sorted(cells if cells is not None else store.ledger.cells(), key=lambda c: (c.month, c.host), reverse=True):
        rows = [r for r in store.lake.read_rows("sessions", cell, "normalized") if sessions is None or r.session_id in sessions]
        begun = _begun_with_plan(store, cell, {r.session_id for r in rows if r.tool_calls and not r.prompts})
        rows = [r for r in rows if (r.prompts or r.session_id in begun) and not asked_here(r.cwd)]
        rows.sort(key=lambda r: (r.last_ts or 0, r.session_id), reverse=True)
        keys = {row.session_id: model_judge.key_of(method, row, model) for row in rows}
        known = {} if again else store.journal.observed(keys.values())
        due = [row for row in rows if keys[row.session_id] not in known][:left]
        views = {v.session_id: v for v in store.lake.read_sessions(cell, {r.session_id for r in due}, TABLES)} if due else {}
        for row in due:
            view = views.get(row.session_id)
            record = outgoing_record(view, redactor) if view is not None else ""
            if view is not None and record:
                yield Question(view, keys[row.session_id], record, asked.question(record))
                left -= 1
        if left <= 0:
            return


def _begun_with_plan(store: Store, cell: Cell, sessions: set[str]) -> set[str]:
    """Return those of the sessions that the person began by approving the agent's plan."""
    views = store.lake.read_sessions(cell, sessions, ("events",), {"events": _OF_PLANS}, ("injected",)) if sessions else ()
    return {v.session_id for v in views if any(map(begins_with_plan, v.events))}


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

    Returns asked, failed, errors (why, by session), lessons, refused (by reason), missing
    (fields of which the default counts, by name), input_tokens, output_tokens, cost_nano (nano-dollars, of what the provider or agent
    reports) and model. Raises SettingsError where no model is configured or the agent is
    not installed, UsageError for a method that asks nobody.
    """
    asker = _asker(settings, method, store.journal)
    redactor = Redactor(settings.patterns)
    done: dict[str, Any] = {"asked": 0, "failed": 0, "errors": {}, "lessons": 0, "refused": {}, "missing": {}}
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
            model_judge.failed(store, method, view.session, {"model": said.model or asker.model, **spent}, instead)
            continue
        lessons = redactor.redact_values(answer.lessons)
        view.seen[method.name] = lessons
        drawn, _ = draw(method, view)
        _, refused, missing = asked.believed(view, lessons)
        done["lessons"] += len(drawn)
        for name, counts in (("refused", refused), ("missing", missing)):
            done[name] = dict(Counter(done[name]) + counts)
        fact = {
            "method": method.name,
            "version": method.version,
            "host": view.host,
            "session_id": view.session_id,
            "model": said.model or asker.model,
            "lessons": len(drawn),
            "refused": dict(refused),
            "missing": dict(missing),
            **spent,
        }
        model_judge.keep(store, question.key, fact, drawn, redactor.redact(answer.stream)[:_MOST_STREAM])
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


def _agent(settings: Settings, method: Method) -> Agent:
    table = settings.config.get(TABLE, {})
    chosen = table.get(method.name) if isinstance(table, dict) else None
    host = next((h for h in discovery.hosts().values() if h.agent.headless is not None and h.agent.headless.method == method.name), None)
    if host is None:
        raise UsageError(f"no agent is configured for {method.name}", hint="ctx methods")
    return agent(settings, host, chosen if isinstance(chosen, dict) else {})


def _asker(settings: Settings, method: Method, journal: Journal) -> _Asker:
    if not method.asks:
        raise UsageError(f"{method.name} asks nobody", hint="ctx methods")
    if method.asks == MODEL:
        found = access(settings, TABLE)
        options = {**found.options, "max_tokens": _MOST_TOKENS}
        told = instructions(journal)
        return _Asker(found.model, lambda question: _by_dspy(found.model, options, question, told))
    called = _agent(settings, method)

    def answer(question: Question) -> _Answer:
        ran = ask_agent(called, question.text, asked.SCHEMA)
        return _Answer(ran.told, ran.stream, _listed(lessons_in(ran.told.text)))

    return _Asker(called.model or called.name, answer)


def _by_dspy(model: str, options: Mapping[str, Any], question: Question, told_by: str) -> _Answer:
    """Return the typed answer of a model; of one that does not fit, or that broke off, what can be read of it."""
    from ctx_pipeline.mining.dspy import signature

    said = _predicted(model, options, lambda: signature(told_by), once=True, record=question.record)
    read = lessons_in(said.text)
    if said.answer is not None and not (read and read.cut):
        return _Answer(said.told, said.outputs, {"lessons": [lesson.model_dump() for lesson in said.answer.lessons]})
    lessons = _listed(read)
    error = "" if lessons else "the answer broke off before its first lesson was complete" if read and read.cut else said.told.error
    return _Answer(said.told._replace(error=error), said.outputs, lessons)


def _listed(read: ReadLessons | None) -> dict[str, Any] | None:
    return {"lessons": read.lessons, asked.CUT: read.cut} if read and read.answers else None


class _Said(NamedTuple):
    """What a request to a model gave."""

    told: HeadlessAnswer
    """what it cost, or why there is no answer"""
    outputs: str
    """all that came, one JSON value a line"""
    text: str
    """the words of the last answer"""
    answer: Any
    """the typed answer; None where there is none"""


def _predicted(model: str, options: Mapping[str, Any], signature: Callable[[], Any], *, once: bool = False, **inputs: str) -> _Said:
    """Ask, and where the answer does not fit ask for JSON, unless ``once``: then what came is read by who asked."""
    keep_litellm_offline()
    import dspy

    asks = model_judge.language_model(dspy.LM, model, options)
    answer, error = None, ""
    try:
        with dspy.context(lm=asks, callbacks=[], adapter=dspy.ChatAdapter(use_json_adapter_fallback=not once)):
            answer = dspy.Predict(signature())(**inputs)
    except Exception as failure:  # noqa: BLE001 - a provider fails in as many ways as there are providers
        error = f"{type(failure).__name__}: {' '.join(str(failure).split())[:300]}"
    usage = [entry.get("usage") or {} for entry in asks.history]
    costs = [entry.get("cost") for entry in asks.history]
    told = HeadlessAnswer(
        "",
        model,
        sum(int(u.get("prompt_tokens") or 0) for u in usage),
        0,
        sum(int(u.get("completion_tokens") or 0) for u in usage),
        round(sum(c for c in costs if c) * _NANO) if any(c is not None for c in costs) else None,
        error,
    )
    outputs = [entry.get("outputs") or [] for entry in asks.history]
    last = outputs[-1][-1] if outputs and outputs[-1] else ""
    text = last.get("text") if isinstance(last, dict) else last
    written = "\n".join(json.dumps(each, ensure_ascii=False, default=str) for each in outputs)
    return _Said(told, written, text if isinstance(text, str) else "", answer)


def asker_of_groups(settings: Settings, method: Method) -> AskerOfGroups:
    """Return who is asked which lessons belong together. Raises as asking about sessions does."""
    if method.asks == MODEL:
        found = access(settings, TABLE)
        options = {**found.options, "max_tokens": _MOST_TOKENS}

        def by_dspy(lines: str) -> Grouped:
            from ctx_pipeline.mining.dspy import grouping

            said = _predicted(found.model, options, grouping, lessons=lines)
            groups = None if said.answer is None else {name: getattr(said.answer, name) for name in compared_lessons.FIELDS}
            return Grouped(said.told, groups)

        return AskerOfGroups(found.model, by_dspy)
    called = _agent(settings, method)

    def by_agent(lines: str) -> Grouped:
        ran = ask_agent(called, compared_lessons.question(lines), compared_lessons.SCHEMA)
        return Grouped(ran.told, _groups_in(ran.told.text))

    return AskerOfGroups(called.model or called.name, by_agent)


def _groups_in(text: str) -> dict[str, Any] | None:
    """Return the groups that a text is or holds, fences and sentences around them aside; None where there are none."""
    for piece in (_FENCE.sub("", text), text[text.find("{") : text.rfind("}") + 1]):
        try:
            found = json.loads(piece)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and all(isinstance(found.get(name), list) for name in compared_lessons.FIELDS):
            return found
    return None
