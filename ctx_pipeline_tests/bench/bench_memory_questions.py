"""How often retrieval finds the memory that answers a question: questions with known answers, built from the sessions of a home.

What failed is asked in three ways: with the part of the output that says so, as an agent
would paste it (``failure``), with the line alone (``line``), and in small letters without
signs, as a person would tell it (``told``). Work is asked with prompts of the same session
that the memory does not quote, habits of a project in plain words. Nothing answers
questions about other things (``nothing``), nor failures of the same projects that no
memory quotes (``unlearnt``). ``lexical`` is what ``ctx memory retrieve`` does, ``hybrid``
what it does where ``memory.embedder`` names a function, here the packaged model of the
extra ``embeddings`` or the one that ``--embedder`` names.

The weight of long queries, the words of project habits, the line of an error and the
closeness that counts were chosen while looking at some homes: docs/memory.md says which.
Judge by a home of your own.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.context.retrieval.embedding import load_embedding
from ctx_pipeline.errors import CtxError
from ctx_pipeline.memory.consolidation import consolidate
from ctx_pipeline.memory.ranking import CLOSE, LEAST_COVERED, Recalled, rank, words_of
from ctx_pipeline.memory.scope import Place, visible
from ctx_pipeline.mining.lessons.commands import runs
from ctx_pipeline.mining.lessons.failures import salient_line, signature
from ctx_pipeline.mining.lessons.turns import asked, tells
from ctx_pipeline.model.session_view import SessionView
from ctx_pipeline.model.tables import EVENTS, SESSIONS, TOOL_CALLS
from ctx_pipeline.pipeline.mine import draw
from ctx_pipeline.storage.memory_index import Embedder, MemoryIndex
from ctx_pipeline_tests.bench.rows import Row
from ctx_pipeline_tests.factories.homes import parse_home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from ctx_pipeline.model.memories import Memory

HABITS = {
    "tests": "how do I run the tests in this project?",
    "lint and format": "which command lints and formats the code here",
    "type check": "how are types checked",
    "build": "how do I build it",
    "order of checks": "what should be checked before I commit, and in which order?",
}
NOTHING = (
    "what is the capital of Portugal",
    "how do I knead sourdough",
    "configure the espresso machine",
    "who won the chess olympiad",
    "translate this poem into Finnish",
    "the zebra with a hat",
    "book a table for two on Friday",
    "how tall is the lighthouse",
    "with the and how do I",
    "what did we have for lunch",
)


class Question(NamedTuple):
    """A question, where it is asked, and the ids that answer it; empty when nothing does."""

    kind: str
    text: str
    cwd: str
    answers: frozenset[str]


PACKAGED = "ctx_pipeline.context.retrieval.embedding:packaged_embed_fn"


def memory_question_rows(home: Path, embedder: str = PACKAGED) -> list[Row]:
    """Return shares of questions that are answered first, among the first five, the mean reciprocal rank, and of silence kept."""
    views = _views(home)
    memories = consolidate(_mined(views))
    asked_of = questions(memories, views)
    rows = [Row("memories / questions", len(memories), ""), Row("questions with an answer", sum(bool(q.answers) for q in asked_of), "")]
    with tempfile.TemporaryDirectory() as folder:
        index = MemoryIndex(Path(folder) / "memory.db")
        vectors = _vectors(embedder)
        index.rebuild(memories, embedder=Embedder(embedder, vectors) if vectors else None)
        rows += figures("lexical", asked_of, lambda q: answers(index, q))
        if vectors is not None:
            rows += figures("hybrid", asked_of, lambda q: answers(index, q, Embedder(embedder, vectors)))
        index.close()
    return rows


def figures(name: str, asked_of: Sequence[Question], ask: Callable[[Question], list[str]]) -> list[Row]:
    """Return the figures of one way to answer, by kind of question and of all."""
    ranks: dict[str, list[int]] = defaultdict(list)
    silent: dict[str, list[bool]] = defaultdict(list)
    for q in asked_of:
        found = ask(q)
        if q.answers:
            place = next((n for n, memory_id in enumerate(found, 1) if memory_id in q.answers), 0)
            ranks[q.kind].append(place)
            ranks["all"].append(place)
        else:
            silent[q.kind].append(not found)
    rows = []
    for kind, places in sorted(ranks.items()):
        total = len(places)
        rows += [
            Row(f"{name}, {kind} ({total}): first", sum(p == 1 for p in places) / total, ""),
            Row(f"{name}, {kind} ({total}): in five", sum(0 < p <= 5 for p in places) / total, ""),
            Row(f"{name}, {kind} ({total}): mean reciprocal rank", sum(1 / p for p in places if p) / total, ""),
        ]
    return rows + [Row(f"{name}, {kind} ({len(kept)}): silent", sum(kept) / len(kept), "") for kind, kept in sorted(silent.items())]


def questions(memories: Sequence[Memory], views: Sequence[SessionView]) -> list[Question]:
    """Return the questions whose answers are known from where the memories come from."""
    sessions = {f"{v.host}/{v.session_id}": v for v in views}
    made: list[Question] = []
    for m in memories:
        body = json.loads(m.structured) if m.structured else {}
        view = sessions.get(m.sessions[0]) if m.sessions else None
        if view is None or not m.cwd:
            continue
        if body.get("error") and len(m.evidence) > 1 and m.evidence[1] in view.by_event:
            output = view.by_event[m.evidence[1]].text or ""
            at = output.find(str(body["error"])[:30])
            pasted = output[max(0, at - 300) : at + 300] if at >= 0 else output[-600:]
            same = {o.memory_id for o in memories if o.repository == m.repository and _of(o, "signature") == body.get("signature")}
            made += [Question(f"failure{way}", text, m.cwd, frozenset(same)) for way, text in _ways(pasted, m.cwd)]
        elif m.kind == "procedure" and body.get("goal"):
            rest = [a for p in view.prompts if tells(a := asked(p.text or "")) and a[:60] not in m.text]
            mine = {o.memory_id for o in memories if set(o.sessions) & set(m.sessions) and o.kind in ("procedure", "skill")}
            made += [Question("work", a, m.cwd, frozenset(mine)) for a in rest[:2]]
        elif m.kind == "repo_convention":
            made += [Question("habit", HABITS[k], m.cwd, frozenset({m.memory_id})) for k in body.get("kinds", ()) if k in HABITS]
    learned = [signature(f"{m.text} {m.structured or ''}") for m in memories]
    for view in views:
        for run in view.once(runs):
            error = salient_line(run.output, view.session.cwd) if run.failed else ""
            if error and view.session.cwd and not any(signature(error) in said for said in learned):
                at = run.output.find(error[:30])
                pasted = run.output[max(0, at - 300) : at + 300]
                made += [Question(f"unlearnt{way}", text, view.session.cwd, frozenset()) for way, text in _ways(pasted, view.session.cwd)]
    anywhere = next((m.cwd for m in memories if m.cwd), "/")
    return made + [Question("nothing", text, anywhere, frozenset()) for text in NOTHING]


def _ways(pasted: str, cwd: str) -> list[tuple[str, str]]:
    """Return a failure as it is pasted, as its line alone, and as a person would tell it."""
    line = salient_line(pasted, cwd)
    told = " ".join(signature(line).replace("#", " ").replace(".", " ").split())
    return [("", pasted), *([(", line", line), (", told", f"why do I get {told}")] if told else [])]


def _of(memory: Memory, key: str) -> object:
    return json.loads(memory.structured).get(key) if memory.structured else None


def _views(home: Path) -> list[SessionView]:
    found = []
    for key, host in discovery.hosts().items():
        folder = next((home / name for name in (f".{key}", key) if (home / name).is_dir()), None)
        for session_id, parsed in parse_home(host, folder).items() if folder else ():
            blank = dict.fromkeys(SESSIONS.names)
            row = SESSIONS.row(**blank | {"session_id": session_id, "host": key, "cwd": parsed.facts.cwd, "repository": parsed.facts.cwd})
            found.append(
                SessionView(row, [EVENTS.row._make(r) for r in parsed.events], [TOOL_CALLS.row._make(r) for r in parsed.tool_calls])
            )
    return found


def _mined(views: Sequence[SessionView]) -> list:
    rows = []
    for method in discovery.methods().values():
        if method.deterministic:
            drawn = [c for v in views for c in draw(method, v)[0]]
            rows += method.combine(drawn) if method.combine else drawn
    return rows


def answers(index: MemoryIndex, q: Question, embedder: Embedder | None = None, limit: int = 5) -> list[str]:
    """Return the ids that retrieval gives at the question's place, best first."""
    place = Place(q.cwd, (q.cwd,))
    line = salient_line(q.text, q.cwd) if "\n" in q.text.strip() else ""

    def allowed(scope: str, repository: str | None, cwd: str | None) -> bool:
        return visible(scope, repository, cwd, place)

    words = words_of(q.text)
    found = [Recalled(*r) for r in index.recall(words, error=words_of(line), allowed=allowed, least=LEAST_COVERED)]
    if embedder is not None and words:
        near = index.near(embedder.embed([line or q.text])[0], embedder.name, allowed=allowed)
        known = {r.memory.memory_id for r in found}
        found = [r._replace(close=near.get(r.memory.memory_id, 0.0)) for r in found]
        found += [
            Recalled(m, 0.0, 0.0, near[m.memory_id]) for m in index.get([i for i, c in near.items() if c >= CLOSE and i not in known])
        ]
    return [s.memory.memory_id for s in rank(found, place=place, limit=limit, now=1_800_000_000_000_000, linked=index.get)]


def _vectors(embedder: str) -> Callable[[Sequence[str]], np.ndarray] | None:
    try:
        made = load_embedding(embedder)
        made(["a text"])
    except CtxError:
        return None
    return made
