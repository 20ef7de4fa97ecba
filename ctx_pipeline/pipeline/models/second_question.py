"""Asks a language model once more for each repository: which of its lessons say the same, and which contradict each other."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.memory.consolidation import JOINED
from ctx_pipeline.mining.lessons.asked_models import compared_lessons as asked
from ctx_pipeline.model.codec import digest
from ctx_pipeline.model.memories import MODEL_WRITTEN, Memory
from ctx_pipeline.pipeline.consolidate import ASSET, consolidate
from ctx_pipeline.pipeline.models import model_judge, model_mining
from ctx_pipeline.pipeline.plan import WHOLE
from ctx_pipeline.redaction.redactor import Redactor
from ctx_pipeline.redaction.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.model.declared import Method
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


class Question(NamedTuple):
    """What would be sent about the lessons of one place."""

    place: str
    lessons: dict[str, Memory]
    lines: str
    """all of what the model reads beside the instructions"""


def questions(store: Store, settings: Settings, method: Method, *, again: bool = False, model: str = "") -> Iterator[Question]:
    """Yield what is to be asked of each place with two lessons of models or more; not again while no lesson came to those asked about."""
    redactor = Redactor(settings.patterns)
    known = [f for f in store.journal.observed_under(f"{model_judge.TOGETHER}{method.name}:").values() if f.get("model_asked") == model]
    places: dict[str, list[Memory]] = {}
    for row in store.lake.read_rows("memories", WHOLE, ASSET):
        memory = Memory._make(row)
        place = memory.repository or memory.cwd
        live = memory.superseded_by is None and memory.status in ("needs_review", "accepted")
        if place and live and memory.source == "mined" and memory.body.get(MODEL_WRITTEN):
            places.setdefault(place, []).append(memory)
    for place, lessons in sorted(places.items()):
        clean = _without_names(lessons, redactor)
        chosen, lines = asked.numbered(lessons, clean)
        before = not again and any({m.memory_id for m in chosen.values()} <= set(fact["lessons"]) for fact in known)
        if len(chosen) > 1 and not before:
            yield Question(place, chosen, lines)


def _without_names(lessons: list[Memory], redactor: Redactor) -> Any:
    """Return what takes secrets, logins and home folders out of a text of these lessons."""
    name = socket.gethostname()
    folders = {folder for m in lessons for folder in (m.cwd, m.repository) if folder and folder.startswith("/")}
    sharing = Sharing(folders, hosts={name, name.partition(".")[0]}, users={Path.home().name})
    for memory in lessons:
        sharing.read(memory.text)
    return lambda text: redactor.redact(sharing(redactor.redact(text)))


def ask_across(store: Store, settings: Settings, method: Method, *, limit: int = 20, again: bool = False) -> dict[str, Any]:
    """Ask about the lessons of each place and let the older of two that belong together give way; return what came of it.

    Memories are consolidated before and, where something gave way, after. Returns asked,
    failed, errors (why, by place), same, contrary, refused (by reason), input_tokens,
    output_tokens, cost_nano and model. Raises what asking about sessions raises.
    """
    consolidate(store, settings)
    asker = model_mining.asker_of_groups(settings, method)
    redactor = Redactor(settings.patterns)
    done: dict[str, Any] = {"asked": 0, "failed": 0, "errors": {}, **dict.fromkeys(asked.FIELDS, 0), "refused": {}}
    done |= {"input_tokens": 0, "output_tokens": 0, "cost_nano": 0, "model": asker.model}
    for question in questions(store, settings, method, again=again, model=asker.model):
        if done["asked"] >= limit:
            break
        answer = asker.answer(question.lines)
        said = answer.told
        spent = {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens, "cost_nano": said.cost_nano}
        done["asked"] += 1
        for name, value in spent.items():
            done[name] += value or 0
        fact: dict[str, Any] = {
            "method": method.name,
            "version": asked.VERSION,
            "model": said.model or asker.model,
            "model_asked": asker.model,
            **spent,
        }
        if answer.groups is None:
            done["failed"] += 1
            done["errors"][question.place] = redactor.redact(said.error or "the answer is not what was asked for")[:600]
            store.journal.append(model_judge.FAILED, fact)
            continue
        joined = asked.believed(question.lessons, answer.groups)
        for reason, count in joined.refused.items():
            done["refused"][reason] = done["refused"].get(reason, 0) + count
        fact |= {"lessons": sorted(m.memory_id for m in question.lessons.values()), "refused": dict(joined.refused)}
        key = f"{model_judge.TOGETHER}{method.name}:{digest(asked.VERSION, asker.model, question.place, question.lines)}"
        store.journal.observe(key, lambda fact=fact: fact, refresh=True)  # type: ignore[misc]
        store.journal.append_all(
            JOINED, [{"memory_id": p.older, "into": p.newer, "why": p.why, "method": method.name} for p in joined.pairs]
        )
        for pair in joined.pairs:
            done[pair.why] += 1
    if done["same"] or done["contrary"]:
        consolidate(store, settings)
    return done
