"""What a session planned, and what its agent asked the person."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.facts.task import arguments_of
from ctx_pipeline.mining.lessons.failures import clean
from ctx_pipeline.model.display import truncate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.session_view import SessionView

_ENDED = frozenset({"completed", "done", "deleted", "cancelled", "canceled"})
_LONG, _SHORT = 400, 160
_CREATED = re.compile(r"#(\w+)")


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
