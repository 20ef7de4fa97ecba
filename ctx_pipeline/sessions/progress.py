"""How far a session came: what was asked, changed, checked, planned and decided so far, drawn from its rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.command_runs import CHECKS, command_runs, printed
from ctx_pipeline.facts.file_accesses import changes_of, inside
from ctx_pipeline.facts.prompts import requests
from ctx_pipeline.facts.task import arguments_of
from ctx_pipeline.mining.lessons.commands import shown
from ctx_pipeline.mining.lessons.failures import clean, salient_line, shorten_paths
from ctx_pipeline.mining.lessons.quoting import own_words, repeats
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView

_ENDED = frozenset({"completed", "done", "deleted", "cancelled", "canceled"})
_PROMPTS, _FILES, _ITEMS, _DECISIONS = 3, 12, 8, 4
_LONG, _SHORT = 400, 160
_CREATED = re.compile(r"#(\w+)")
_NOT_THE_WINDOW = "microcompact"
"""Part of the name of a compaction that only empties old results."""


class Progress(NamedTuple):
    """Lines about a session at one moment; empty where there is nothing to say."""

    task: list[str]
    """what the person asked for, the oldest known first"""
    files: list[str]
    """changed files, the last changed first"""
    check: str
    """the last command that checked the work, and how it ended"""
    plan: list[str]
    """what of the plan is not done"""
    decisions: list[str]
    """what the person was asked, with the answer or without one"""
    said: str
    """how the agent's last answer ended, without sentences that repeat what a tool printed"""
    compaction: str
    """event id of the compaction before which this was so; empty when there was none"""


def progress(view: SessionView, cwd: str | None) -> Progress:
    """Return how far the main thread of a session was when its window was last emptied, or is now when it never was."""
    events = [e for e in view.events if e.thread_id == view.session_id] or view.events
    emptied = [n for n, e in enumerate(events) if e.kind == "compaction" and _NOT_THE_WINDOW not in (e.subtype or "")]
    before = events[: emptied[-1]] if emptied else events
    seen = {e.event_id for e in before}
    calls = [c for c in view.tool_calls if c.call_event in seen]
    prompts = requests([e.text for e in before if e.kind == "prompt"])
    answers = [e.text for e in before if e.kind == "answer" and e.text]
    return Progress(
        task=[truncate(text, _LONG) for text in dict.fromkeys([*prompts[:1], *prompts[-_PROMPTS:]])],
        files=_files(view, calls, cwd),
        check=_check(view, calls, cwd),
        plan=[truncate(item, _SHORT) for item in _plan(view, calls) if not repeats(view, item)],
        decisions=list(_decisions(view, calls)),
        said=own_words(view, _end(clean(answers[-1]))) if answers else "",
        compaction=events[emptied[-1]].event_id if emptied else "",
    )


def _files(view: SessionView, calls: Sequence[Any], cwd: str | None) -> list[str]:
    """Return the changed files, the last changed first, and how many more there were."""
    seen = {c.call_event for c in calls}
    changes = [a for a in changes_of(view) if a.call_event in seen]
    changed = dict.fromkeys(shorten_paths(clean(inside(a.path, cwd)), cwd) for a in reversed(changes))
    files = list(changed)
    return files if len(files) <= _FILES else [*files[:_FILES], f"and {len(files) - _FILES} more"]


def _check(view: SessionView, calls: Sequence[Any], cwd: str | None) -> str:
    """Return the last test run, else the last other check: its command, how it ended, and whether files were changed since."""
    places = {c.call_event: n for n, c in enumerate(calls)}
    checks = [r for r in command_runs(view) if r.call_event in places and _purpose(r)]
    if not checks:
        return ""
    tests = [r for r in checks if _purpose(r) == "test"]
    last = max(tests or checks, key=lambda r: places[r.call_event])
    why = salient_line(printed(view, last), cwd, of_tests=bool(tests)) if last.result == "failed" else ""
    said = {"running": "had not ended", "unknown": "ran, and its output does not show how it ended"}.get(last.result, last.result)
    text = f"`{shown(last.command, cwd)}` {said}{f' with “{truncate(why, _SHORT)}”' if why else ''}"
    since = any(places.get(a.call_event, -1) > places[last.call_event] for a in changes_of(view))
    return f"{text}; files were changed since" if since else text


def _purpose(run: Any) -> str:
    return next((p for p in run.purposes if p in CHECKS), "")


class Planned(NamedTuple):
    """An item of a plan: what is to be done, its status (``pending``, ``in_progress``, ``completed``), and the call that said so last."""

    text: str
    status: str
    call: Any

    @property
    def ended(self) -> bool:
        """It is done or given up."""
        return self.status in _ENDED


def planned(view: SessionView, calls: Sequence[Any]) -> list[Planned]:
    """Return the items of the last list, or of the tasks that were made one by one."""
    listed: list[Planned] | None = None
    tasks: dict[str, Planned] = {}
    for call in calls:
        body = arguments_of(view.call_text(call)) if call.action == "plan" else {}
        items = next((v for v in body.values() if isinstance(v, list)), None)
        if items is not None:
            listed = [_item(i, call) for i in items if isinstance(i, dict)]
        elif isinstance(body.get("subject"), str) and (made := _CREATED.search(view.result_text(call))):
            tasks[made.group(1)] = Planned(clean(body["subject"]), "pending", call)
        elif str(body.get("taskId")) in tasks:
            before = tasks[str(body["taskId"])]
            subject = clean(str(body["subject"])) if body.get("subject") else before.text
            tasks[str(body["taskId"])] = Planned(subject, str(body.get("status") or before.status), call)
    return [item for item in (listed if listed is not None else tasks.values()) if item.text]


def _plan(view: SessionView, calls: Sequence[Any]) -> list[str]:
    """Return what of the plan is not done."""
    left = [item for item in planned(view, calls) if not item.ended]
    return [f"{i.text} (begun)" if i.status == "in_progress" else i.text for i in left][:_ITEMS]


def _item(item: Mapping[str, Any], call: Any) -> Planned:
    said = next((str(item[key]) for key in ("content", "step", "subject", "text") if item.get(key)), "")
    return Planned(clean(said), str(item.get("status") or ""), call)


def asked_of_person(view: SessionView, calls: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield each question that was put to the person, its answer (empty without one) and the call."""
    for call in calls:
        if call.action != "ask":
            continue
        questions = arguments_of(view.call_text(call)).get("questions")
        wanted = [str(q["question"]) for q in questions if isinstance(q, dict) and q.get("question")] if isinstance(questions, list) else []
        said = truncate(clean(" / ".join(wanted)), _SHORT)
        if said:
            yield said, "" if call.is_error else truncate(clean(view.result_text(call)), _LONG), call


def _decisions(view: SessionView, calls: Sequence[Any]) -> Iterator[str]:
    """Yield the last questions that were put to the person, each with its answer."""
    for said, answer, _ in asked_of_person(view, [c for c in calls if c.action == "ask"][-_DECISIONS:]):
        yield f"“{said}” {f'→ {answer}' if answer else 'was not answered'}"


def _end(text: str) -> str:
    return text if len(text) <= _LONG else f"…{text[1 - _LONG :].lstrip()}"
