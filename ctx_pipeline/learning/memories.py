"""Memories: looked up, woven into a prompt, judged and rewarded.

Retrieval runs at every prompt of an agent: plain SQLite and the standard library.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter, defaultdict
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import AmbiguousName, UnknownName, UsageError
from ctx_pipeline.learning.error_lines import error_line, words_of_error
from ctx_pipeline.learning.repository_identity import known_place
from ctx_pipeline.memory.consolidation import dangling
from ctx_pipeline.memory.prompt_block import DEFAULT_BUDGET
from ctx_pipeline.memory.prompt_block import weave as woven
from ctx_pipeline.memory.ranking import CLOSE, LEAST_COVERED, LEAST_SEARCHED, Recalled, ended, rank, words_of
from ctx_pipeline.memory.scope import place_of, visible
from ctx_pipeline.mining.filters import contradiction, staleness
from ctx_pipeline.model.memories import CASE, StoredCandidate
from ctx_pipeline.storage import wait_for_forget
from ctx_pipeline.storage.memory_index import MemoryIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ctx_pipeline.model.memories import Memory, Scored
    from ctx_pipeline.settings import Settings


_SHORTEST = 4
"""Characters from which on the inside of an id is looked at."""


def _index(settings: Settings | None, name: str = "memory.db") -> MemoryIndex:
    chosen = settings or settings_module.load()
    wait_for_forget(chosen.home)
    return MemoryIndex(chosen.home / name)


def looked_for(settings: Settings) -> bool:
    """Tell whether a run has looked for lessons: without one that none is found says nothing."""
    return _index(settings).path.exists()


def retrieve(
    query: str,
    *,
    cwd: str | None = None,
    limit: int = 10,
    accepted_only: bool = False,
    threshold: float = 0.0,
    least: float = LEAST_SEARCHED,
    settings: Settings | None = None,
) -> list[Scored]:
    """Return the memories that answer a query at a place, best first, with the parts of their scores.

    They hold at least the share ``least`` of the query's weight; with a ``threshold`` at least that, as what hooks inject does.
    Where ``least`` is that of a search and no output was pasted, those are found too that hold it together with the memories
    that came up before and after them in their session.

    Without ``cwd`` everything may be seen; with it only what holds everywhere or was
    learned in its repository; a folder that is not on this machine has the repository that
    sessions in it recorded. What is held back for review is never among them. The
    list is empty when nothing covers the query or there is no index yet. Where the
    settings name an embedding function, memories close to the query in meaning are found
    too; raises SettingsError where that cannot be loaded.
    """
    settings = settings or settings_module.load()
    index = _index(settings)
    place = known_place(cwd, index, settings.home) if cwd else None

    def allowed(scope: str, repository: str | None, where: str | None) -> bool:
        return place is None or visible(scope, repository, where, place)

    try:
        error = words_of_error(query, cwd)
        # another failure shares words with a pasted one, and its cure would harm
        least = max(least, LEAST_COVERED) if error else least
        beside = not (error or threshold) and least < LEAST_COVERED
        recalled = index.recall(words_of(query), error=error, allowed=allowed, least=least, accepted_only=accepted_only, around=beside)
        found = [Recalled(r.memory, r.score, r.covered, around=r.around) for r in recalled]
        if settings.embedder:
            found = _with_closeness(index, settings.embedder, query, cwd, found, allowed=allowed, accepted_only=accepted_only)
        return rank(
            [r for r in found if r.covered >= threshold],
            place=place,
            limit=limit,
            now=time.time_ns() // 1000,
            linked=None if threshold else index.get,
            everywhere=place is None,
            accepted_only=accepted_only,
            least=least,
        )
    finally:
        index.close()


def here() -> str | None:
    """Return the current folder where it lies in a repository, else None."""
    try:
        place = place_of(Path.cwd())
    except OSError:
        return None
    return place.cwd if place.roots else None


def _with_closeness(
    index: MemoryIndex, embedder: str, query: str, cwd: str | None, found: list[Recalled], **narrowed: Any
) -> list[Recalled]:
    """Return what words found with its cosine to the query, and what else is close to it; of a pasted output its error counts."""
    if not words_of(query):
        return found
    from ctx_pipeline.context.retrieval.embedding import load_embedding

    near = index.near(load_embedding(embedder)([error_line(query, cwd) or query])[0], embedder, **narrowed)
    known = {r.memory.memory_id for r in found}
    others = index.get([m for m, cosine in near.items() if cosine >= CLOSE and m not in known])
    return [r._replace(close=near.get(r.memory.memory_id, 0.0)) for r in found] + [Recalled(m, 0.0, 0.0, near[m.memory_id]) for m in others]


def weave(
    query: str,
    *,
    cwd: str | None = None,
    limit: int = 6,
    budget: int | None = None,
    accepted_only: bool = False,
    settings: Settings | None = None,
) -> str:
    """Return the note for a prompt, at most ``budget`` (else 800) tokens; empty when no memory answers.

    Raises BudgetTooSmall when the budget cannot hold a note at all.
    """
    found = retrieve(query, cwd=cwd, limit=limit, accepted_only=accepted_only, least=LEAST_COVERED, settings=settings)
    return woven(found, budget=budget or DEFAULT_BUDGET, here=place_of(cwd or os.curdir))


def memories(*, status: str | None = None, settings: Settings | None = None) -> list[Memory]:
    """Return every memory, or those of one status, by id."""
    index = _index(settings)
    try:
        return list(index.memories(status=status))
    finally:
        index.close()


def memory(memory_id: str, *, settings: Settings | None = None) -> Memory:
    """Return one memory or case by its id, or by characters that only its id begins or ends with; raises UnknownName or AmbiguousName."""
    index = _index(settings, "cases.db" if memory_id.startswith(CASE) else "memory.db")
    try:
        exact = index.get([memory_id])
        if exact:
            return exact[0]
        known = list(index.memories())
    finally:
        index.close()
    begun = [m for m in known if m.memory_id.startswith(memory_id)] if memory_id else []
    fitting = begun or ([m for m in known if _part_of(memory_id, m.memory_id)] if len(memory_id) >= _SHORTEST else [])
    if len(fitting) > 1:
        raise AmbiguousName("memory", memory_id, [m.memory_id for m in fitting])
    if not fitting:
        unknown = UnknownName("memory", memory_id, [m.memory_id for m in known])
        if known and not unknown.fields["near"]:  # ids of other projects help nobody
            unknown.hint = "ctx memory list shows what there is"
        raise unknown
    return fitting[0]


def _part_of(asked: str, memory_id: str) -> bool:
    return memory_id.endswith(asked) or memory_id.startswith(f"mem-{asked}")


def quotes(found: Memory, *, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return the events that a memory rests on: event_id, host, session_id, ts (ISO 8601), kind and text.

    The text is what decides, at most 200 characters on one line. Empty for a note, and for events that are no longer in the store.
    """
    if not found.evidence:
        return []
    from ctx_pipeline.storage.reader import reading
    from ctx_pipeline.storage.warehouse.session_queries import event_quotes

    with reading(settings) as (store, _):
        rows = event_quotes(store.lake, list(found.sessions), list(found.evidence))
    return [{**row, "text": excerpt(row["text"], row["kind"], found.body)} for row in rows]


def plain_memory(found: Memory) -> dict[str, Any]:
    """Return a memory as plain values, its structured body as an object."""
    return {**found._asdict(), "structured": found.body or None}


def condition(*, settings: Settings | None = None) -> dict[str, Any]:
    """Return how many memories there are by status, scope, kind and source, broken links, what is held back, and marks.

    ``marks`` says by memory what a reader must know of it: see :func:`ctx_pipeline.learning.memories.marks`.
    """
    chosen = settings or settings_module.load()
    known = memories(settings=chosen)
    counts = {
        f"by_{name}": dict(sorted(Counter(str(getattr(m, name)) for m in known).items())) for name in ("status", "scope", "kind", "source")
    }
    return {
        "path": str(chosen.home / "memory.db"),
        "memories": len(known),
        **counts,
        "superseded": sum(m.superseded_by is not None for m in known),
        "links": sum(len(m.links) for m in known),
        "dangling": dangling({m.memory_id: m.links for m in known}),
        "held_back": {m.memory_id: list(m.flags) for m in known if m.flags},
        "marks": marks(known),
    }


def export_skill(
    memory_id: str, *, out: Path | None = None, name: str | None = None, settings: Settings | None = None
) -> tuple[str, str, Path | None]:
    """Return the text and name of a memory as a skill, and the file it was written to, ``<out>/<name>/SKILL.md``.

    Raises UnknownName, and UsageError for a memory that is held back, rejected or retired,
    for a name that is none, and for a file that is there already with other words.
    """
    from ctx_pipeline.memory.lesson_files import skill_name, skill_text

    found = memory(memory_id, settings=settings)
    named = name or skill_name(found)
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", named) or len(named) > 64:
        raise UsageError(f"{named!r} cannot be the name of a skill", hint="small letters, digits and hyphens, at most 64")
    text = skill_text(found, named)
    if out is None:
        return text, named, None
    path = out / named / "SKILL.md"
    if path.exists() and path.read_text("utf-8", "replace") != text:
        raise UsageError(f"{path} is there already", hint="give another --name, or move it away")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return text, named, path


def plain(scored: Scored) -> dict[str, Any]:
    """Return a scored memory as plain values."""
    return {**plain_memory(scored.memory), "score": scored.score, "parts": scored.parts, "linked_from": scored.linked_from}


# The part of an event that a memory rests on: around the words that decide, not the beginning of a long output.


WIDTH = 200
"""Characters of an excerpt, the marks of what is left out apart."""

_LED, _LEAST = 40, 4
"""Characters shown before the deciding words, and of the shortest words that decide anything."""

_SAID = ("quotes", "error", "said")
_CHANGED = ("change", "idiom")
_RAN = ("commands", "failed", "passed", "did", "steps", "narrowed", "refused")
_PLACE = re.compile(r"^\S*?:\d+(?::\d+)*:?\s+")
_MARKED = re.compile(r"`([^`]+)`")
_ENDED_WELL = re.compile(
    r"\b[1-9]\d* (?:tests? )?(?:passed|passing|succeeded)\b|\btest result: ok\b|\bAll checks passed|\bno issues found"
    r"|(?<!\d)0 (?:issues|errors|failed)\b|\bok\s+\S+\s+(?:\d[\d.]*s|\(cached\))|\bBUILD SUCCESS(?:FUL)?\b"
    r"|\bfiles? (?:left unchanged|already formatted)",
    re.IGNORECASE,
)
"""A line with which a runner of tests, a linter or a build says that all is well; the last one sums up."""


def excerpt(text: str, kind: str, body: Mapping[str, Any]) -> str:
    """Return what an event shows of a memory with this body, on one line: the words that decide with what stands around them.

    Of a result that is what was said or went wrong, else the last line that says that all is well, else its end;
    of a call the line that was changed or the command, else its beginning.
    """
    flat = " ".join(text.split())
    if len(flat) <= WIDTH:
        return flat
    for words in _deciding(kind, body):
        at = flat.find(words)
        if at >= 0:
            return _around(flat, at, len(words))
    if kind != "tool_result":
        return _around(flat, 0, 0)
    ended = list(_ENDED_WELL.finditer(flat))
    return _around(flat, ended[-1].start(), len(ended[-1][0])) if ended else _around(flat, len(flat), 0)


def _around(flat: str, at: int, length: int) -> str:
    """Return an excerpt that holds the words at a place whole where they fit: from the beginning when that holds them."""
    first = 0 if at + length <= WIDTH else max(0, min(at - min(_LED, max(0, WIDTH - length)), len(flat) - WIDTH))
    last = min(len(flat), first + WIDTH)
    return f"{'…' if first else ''}{flat[first:last]}{'…' if last < len(flat) else ''}"


def _deciding(kind: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of a body that decide in an event of this kind, also as JSON writes them, the most telling first."""
    for name in (*_CHANGED, *_RAN) if kind == "tool_call" else _SAID:
        for found in _strings(body.get(name)):
            flat = " ".join(found.split()).rstrip("…")
            bare = _PLACE.sub("", flat)
            # paths in an error are shortened, so that its end is looked for too
            looked_for = _MARKED.findall(flat) if name == "steps" else (flat, bare, bare[-60:].lstrip())
            for words in dict.fromkeys(w for w in looked_for if len(w) >= _LEAST):
                yield words
                escaped = json.dumps(words, ensure_ascii=False)[1:-1]
                if escaped != words:
                    yield escaped


def _strings(value: Any) -> list[str]:
    """Return the texts of a value: of a change the new line before the old one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [value[k] for k in ("line", "after", "new", "before", "old") if isinstance(value.get(k), str) and value[k]]
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


# Tasks that were solved before and are like one that is to be done.


def cases(query: str, *, cwd: str | None = None, limit: int = 5, settings: Settings | None = None) -> list[Scored]:
    """Return the solved tasks that are like the one in words, best first; empty where none is.

    With ``cwd`` only those of its repository are looked at. A case is a memory of kind
    ``case``: ``task``, ``steps``, ``files`` and ``verification`` stand in its body, and its
    evidence names the prompt, the changes and the check.
    """
    settings = settings or settings_module.load()
    wait_for_forget(settings.home)
    with closing(MemoryIndex(settings.home / "cases.db")) as index:
        place = known_place(cwd, index, settings.home) if cwd else None

        def allowed(scope: str, repository: str | None, where: str | None) -> bool:
            return place is None or visible(scope, repository, where, place)

        recalled = index.recall(words_of(query), allowed=allowed, least=LEAST_COVERED)
        found = [Recalled(r.memory, r.score, r.covered) for r in recalled]
        return rank(found, place=place, limit=limit, now=time.time_ns() // 1000, linked=index.get, everywhere=place is None)


# What a reader must know of stored memories: superseded, contradicted, about files that are gone or changed, or said
# again.


_ENDED = ("rejected", "retired")


def marks(memories: Sequence[Memory]) -> dict[str, list[str]]:
    """Return memory id -> what a reader must know of it, in words; memories without a mark are left out.

    Both of two memories that say the opposite are marked, whatever their order; a
    memory that was rejected or retired contradicts nobody. Files are looked for on
    this machine, below the folder in which the last session ran.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for m in memories:
        if m.superseded_by:
            found[m.memory_id].append(f"superseded by {m.superseded_by}")
    rows = [_as_candidate(m) for m in memories if m.status not in _ENDED and not m.superseded_by]
    for apply in (contradiction, staleness):
        for memory_id, said in apply(rows).marks.items():
            found[memory_id] += said
    now = time.time_ns() // 1000
    for m in memories:
        found[m.memory_id] += [f"ended on {m.body['valid_until']}"] if ended(m, now) else []
        found[m.memory_id] += repeated_since(m)
    return {memory_id: said for memory_id, said in sorted(found.items()) if said}


def repeated_since(memory: Memory) -> list[str]:
    """Return how often a rule was said once more after it was proposed, accepted, or stood in a rules file; empty for all else."""
    body = memory.body
    found = []
    for since, name, count in (
        ("it was proposed", "proposed_ts", "again"),
        (f"it stood in {body.get('written_in')}", "written_ts", "again_since_written"),
        ("it was accepted", "accepted_ts", "again_since_accepted"),
    ):
        if isinstance(body.get(name), int) and isinstance(body.get(count), int):
            times = body[count]
            found += [f"said again {times} time{'s' if times > 1 else ''} since {since} ({_day(body[name])})"] if times else []
    if isinstance(body.get("broken"), int):
        found.append(f"broken {body['times']} time{'s' if body['times'] != 1 else ''} since it stood in {body['written_in']}")
    return found


def sayings(memory: Memory) -> list[dict[str, Any]]:
    """Return what later sessions said of a rule: time, session and quote, oldest first."""
    told = memory.body.get("said")
    return [s for s in told if isinstance(s, dict)] if isinstance(told, list) else []


def _as_candidate(memory: Memory) -> StoredCandidate:
    return StoredCandidate(
        memory.memory_id,
        "",
        "",
        "",
        0,
        memory.kind,
        memory.text,
        memory.when_to_use,
        memory.structured,
        list(memory.evidence),
        memory.confidence,
        memory.priority,
        memory.scope,
        memory.risk,
        memory.repository,
        memory.cwd,
        memory.last_ts,
    )


def _day(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1_000_000, UTC).date().isoformat()
