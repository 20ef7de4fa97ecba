"""Memories that reach a session unasked: chosen sparingly, logged, and withheld at random where an experiment is wanted.

Runs in a hook at every prompt: plain SQLite and the standard library.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import CtxError
from ctx_pipeline.learning.machine_facts import holds_here
from ctx_pipeline.learning.repository_identity import place_among
from ctx_pipeline.memory.injection_policy import (
    ACCEPTED,
    AT_FAILURE,
    AT_PROMPT,
    AT_START,
    BEFORE_COMMAND,
    LEAST_WORDS,
    MEASURED,
    PROMPT_WORDS,
    THRESHOLD,
    Choice,
    at_start,
    for_prompt,
    kind_of,
    spoken_by_default,
)
from ctx_pipeline.memory.prompt_block import estimate, weave
from ctx_pipeline.memory.ranking import Recalled, ended, words_of
from ctx_pipeline.memory.scope import visible
from ctx_pipeline.model.memories import Scored
from ctx_pipeline.storage.journal import Journal
from ctx_pipeline.storage.memory_index import MemoryIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage.memory_index import Recall

INJECTED = "hook.injected"
"""Kind of the facts in the journal; what is logged under ``hook.`` makes nothing stale."""

START = "SessionStart"
PROMPT = "UserPromptSubmit"
BEFORE, FAILED, ENDED = "PreToolUse", "PostToolUseFailure", "PostToolUse"
"""Events before a command or a change of a file, after a command that failed, and (of hosts that do not tell them apart) after any."""

COMMANDS = (BEFORE, FAILED, ENDED)
HOOKED = (START, PROMPT, *COMMANDS)
"""Events at which memories are told unasked; what a session asked for itself stands under ``retrieve`` or ``weave``."""

REWARDED = "memory.rewarded"
"""Kind of the facts that say what a memory was worth, by a person, an agent, or what its session shows."""

__all__ = [
    "HOOKED",
    "INJECTED",
    "PROMPT",
    "START",
    "THRESHOLD",
    "Choice",
    "in_control_group",
    "inject",
    "injections",
    "log_injected",
    "shares",
]

_LOOKED_BACK = 400
_PATIENCE = 0.05
_FEW = 12
"""Memories as of which words weigh at a prompt, however few there are."""

_AT_COMMAND, _MOST_AT_COMMAND = 120, 2
"""Memories with a word of a command that are looked at, and those that are told."""

_MOST_PATHS, _MOST_PARTS = 8, 24
"""Changed paths that are looked up, and names in all of them together."""

_EMPTIED = ("clear", "compact")
"""Sources of a session start after which the window holds nothing of what was injected before."""


def inject(payload: Mapping[str, Any], *, host: str, choice: Choice, settings: Settings, preview: bool = False) -> str:
    """Return the note for a hook's payload; empty where nothing is relevant enough, known to the session already, or withheld.

    What is returned was logged, but for a ``preview``: a journal that cannot be written gives an error and no
    note. Unknown fields of the payload are left alone, fields of a wrong kind count as missing.
    """
    event, session, prompt = (_text(payload, name) for name in ("hook_event_name", "session_id", "prompt"))
    path = settings.home / "memory.db"
    command, output, changed = _act(payload, event) if event in COMMANDS and choice.commands else ("", "", "")
    if (
        event not in HOOKED
        or not session
        or not path.exists()
        or (event in COMMANDS and not (output if event != BEFORE else command or changed))
    ):
        return ""
    cwd = _text(payload, "cwd")
    index = MemoryIndex(path)
    try:
        place = place_among(cwd, index, settings.home) if cwd.startswith("/") and "\0" not in cwd else None
        if changed:
            found = _at_change(index, changed, place, choice)
        elif event in COMMANDS:
            found = _at_command(index, command, output, place, choice)
        else:
            found = _at_start(index, place, choice) if event == START else _for_prompt(index, prompt, place, choice)
    finally:
        index.close()
    own = f"{host}/{session}"
    found = [s for s in found if set(s.memory.sessions) != {own}]
    if not found:
        return ""
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE, durable=False, read_only=preview)
    try:
        if not (event == START and _text(payload, "source") in _EMPTIED):
            known = _known(journal, host, session)
            found = [s for s in found if s.memory.memory_id not in known]
        found = _default_kinds(journal, event, found)
        chosen = found[: choice.limit]
        note = weave(chosen, budget=choice.budget) if chosen else ""
        if not note or preview:
            return note
        told = [s for s in chosen if s.memory.memory_id in note]
        withheld = in_control_group(session, choice.holdout)
        journal.append(
            INJECTED,
            {
                "host": host,
                "session_id": session,
                "event": event,
                "memories": [{"memory_id": s.memory.memory_id, "score": s.score} for s in told],
                "tokens": estimate(note),
                "withheld": withheld,
                "holdout": choice.holdout,
                "threshold": choice.threshold if event == PROMPT else None,
            },
            actor="hook",
        )
    finally:
        journal.close()
    return "" if withheld else note


def in_control_group(session_id: str, share: float) -> bool:
    """Tell whether a session is one of those from which memories are withheld; always the same for one session and share."""
    drawn = int.from_bytes(hashlib.sha256(f"holdout {session_id}".encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return drawn < share * 2**64


def log_injected(scored: Sequence[Scored], *, host: str, session_id: str, event: str, settings: Settings) -> None:
    """Log memories that a session asked for itself (``event`` says how), so that it shows whether it used them; never raises.

    What was asked for is no part of an experiment: nothing of it is withheld.
    """
    if not scored or not session_id or not settings.home.is_dir():
        return
    journal = Journal(settings.home / "journal.db", patience=_PATIENCE, durable=False)
    try:
        payload = {
            "host": host,
            "session_id": session_id[:200],
            "event": event,
            "memories": [{"memory_id": s.memory.memory_id, "score": s.score} for s in scored],
            "tokens": sum(estimate(s.memory.text) for s in scored),
            "withheld": False,
            "holdout": 0.0,
            "threshold": None,
        }
        journal.append(INJECTED, payload, actor="agent")
    except CtxError:
        return
    finally:
        journal.close()


def injections(*, limit: int = 20, settings: Settings) -> list[dict[str, Any]]:
    """Return what was injected, asked for or withheld, newest first, and what became of it.

    Each has at, host, session_id, event, tokens, withheld, holdout, threshold and
    memories: memory_id, score, and once its session was judged outcome, reward and
    evidence (sign -> event ids); these are None before.
    """
    journal = Journal(settings.home / "journal.db", read_only=True)
    try:
        facts = journal.newest(INJECTED, limit)
        judged = _judged(journal) if facts else {}
    finally:
        journal.close()
    return [
        {"at": f.at, **f.payload, "memories": [{**m, **_outcome(judged, f.payload, m)} for m in f.payload.get("memories", ())]}
        for f in facts
    ]


def shares(*, settings: Settings) -> dict[str, Any]:
    """Return over the whole log: sessions told and withheld, the share withheld, memories told, those judged, and their outcomes."""
    journal = Journal(settings.home / "journal.db", read_only=True)
    try:
        facts = journal.facts(INJECTED) if journal.is_there() else []
        judged = _judged(journal) if facts else {}
    finally:
        journal.close()
    sides: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    told: set[tuple[str, str, str]] = set()
    for fact in facts:
        session = (str(fact.payload.get("host")), str(fact.payload.get("session_id")))
        if fact.payload.get("event") in HOOKED:
            sides[bool(fact.payload.get("withheld"))].add(session)
        if not fact.payload.get("withheld"):
            told |= {(*session, str(m["memory_id"])) for m in fact.payload.get("memories", ())}
    outcomes = Counter(str(judged[key]["outcome"]) for key in told if key in judged)
    both = len(sides[True] | sides[False])
    return {
        "sessions_told": len(sides[False]),
        "sessions_withheld": len(sides[True]),
        "withheld_share": round(len(sides[True]) / both, 4) if both else None,
        "memories_told": len(told),
        "memories_judged": sum(outcomes.values()),
        "outcomes": dict(sorted(outcomes.items())),
    }


def _judged(journal: Journal) -> dict[tuple[str, str, str], Mapping[str, Any]]:
    """Return (host, session, memory) -> the last measured reward."""
    # not for the hook at a prompt
    from ctx_pipeline.memory.session_facts import MEASURED

    return {
        (str(f.payload.get("host")), str(f.payload.get("session_id")), str(f.payload.get("memory_id"))): f.payload
        for f in journal.facts(REWARDED)
        if f.payload.get("source") == MEASURED
    }


def _outcome(
    judged: Mapping[tuple[str, str, str], Mapping[str, Any]], payload: Mapping[str, Any], memory: Mapping[str, Any]
) -> dict[str, Any]:
    key = (str(payload.get("host")), str(payload.get("session_id")), str(memory.get("memory_id")))
    if not key[0]:  # whoever asked over HTTP told its session alone
        key = next((known for known in judged if known[1:] == key[1:]), key)
    found: Mapping[str, Any] = {} if payload.get("withheld") else judged.get(key, {})
    return {name: found.get(name) for name in ("outcome", "reward", "evidence")}


def _act(payload: Mapping[str, Any], event: str) -> tuple[str, str, str]:
    """Return the command of an event, what it printed, and the file that is changed in its place; empty texts for what there is not."""
    from ctx_pipeline.learning.at_act import command_of, output_of
    from ctx_pipeline.learning.file_rules import file_of

    command = command_of(payload)
    return command, output_of(payload) if command and event != BEFORE else "", file_of(payload) if event == BEFORE and not command else ""


# What speaks of acts is imported at a prompt and at an act: the start of a session needs none of it.


def _for_prompt(index: MemoryIndex, prompt: str, place: Place | None, choice: Choice) -> list[Scored]:
    words = words_of(prompt)[:PROMPT_WORDS]
    if len(words) < LEAST_WORDS or not choice.prompts:
        return []
    from ctx_pipeline.learning.ask_first import at_every_act
    from ctx_pipeline.learning.at_act import asks_where, at_prompt
    from ctx_pipeline.learning.error_lines import words_of_error
    from ctx_pipeline.learning.ports import port_of_fact

    recall = partial(
        index.recall,
        words,
        allowed=lambda scope, repository, where: visible(scope, repository, where, place),
        accepted_only=choice.accepted_only,
        as_of=_FEW,
    )
    hits = recall(error=words_of_error(prompt, place.cwd if place else None), least=choice.threshold)
    # who orders an act was asked; before the act itself the rule is told all the same. A port is told of what is to be reached alone
    hits = [h for h in hits if not (choice.commands and at_every_act(h.memory)) and not port_of_fact(h.memory)]
    near = recall(limit=_AT_COMMAND) if asks_where(prompt) else []
    placed = at_prompt(prompt, [h.memory for h in near if not ended(h.memory, _now())], heard_at_act=choice.commands)[:_MOST_AT_COMMAND]
    held = (Recalled(h.memory, h.score, h.covered, held=h.held) for h in hits)
    found = for_prompt(held, place=place, choice=choice, now=_now(), first=next(iter(placed), None))
    found = [s for s in found if holds_here(s.memory)]
    known = {s.memory.memory_id for s in found}
    return [*(Scored(m, 0.0, {}) for m in placed if m.memory_id not in known), *found]


def _at_command(index: MemoryIndex, command: str, output: str, place: Place | None, choice: Choice) -> list[Scored]:
    """Return what speaks of a command, or of the error that it met, at most two."""
    if place is None:
        return []
    from ctx_pipeline.learning.ask_first import words_for
    from ctx_pipeline.learning.at_act import after_failure, before_command, looked_for
    from ctx_pipeline.learning.error_lines import words_of_error
    from ctx_pipeline.mining.lessons.failures import UNFORMATTED, unformatted
    from ctx_pipeline.shell.acts import acts

    line = [*words_of_error(f"{output}\n", place.cwd), *sorted(looked_for(command, output))] if output else []
    line += [UNFORMATTED] if output and unformatted(output) else []
    does = [] if output else sorted({word for act in acts(command, place.cwd) for word in words_for(act)} | _parts_changed(command, place))
    known = _with_word_of(index, " ".join([*does, command, *line]), place, choice)
    memories = [r.memory for r in known.values()]
    chosen = after_failure(command, output, place.cwd, memories) if output else before_command(command, memories, place.cwd, place.roots)
    return [Scored(m, known[m.memory_id].covered, {}) for m in chosen[:_MOST_AT_COMMAND]]


def _at_change(index: MemoryIndex, path: str, place: Place | None, choice: Choice) -> list[Scored]:
    """Return the rules that forbid to change a file of the repository, at most two."""
    from ctx_pipeline.learning.file_rules import before_change
    from ctx_pipeline.learning.named_files import base_of, from_base

    base = base_of(path, place.roots, place.cwd) if place else ""
    if not base:
        return []
    known = _with_word_of(index, " ".join(sorted(_parts([from_base(path, base)]))), place, choice)
    chosen = before_change(path, [r.memory for r in known.values()], base)
    return [Scored(m, known[m.memory_id].covered, {}) for m in chosen[:_MOST_AT_COMMAND]]


def _with_word_of(index: MemoryIndex, text: str, place: Place | None, choice: Choice) -> dict[str, Recall]:
    """Return id -> memory of those that hold at a place and have a word of a text, and have not ended."""
    recalled = index.recall(
        words_of(text)[:PROMPT_WORDS],
        allowed=lambda scope, repository, where: visible(scope, repository, where, place),
        accepted_only=choice.accepted_only,
        limit=_AT_COMMAND,
    )
    return {r.memory.memory_id: r for r in recalled if not ended(r.memory, _now())}


def _parts_changed(command: str, place: Place) -> set[str]:
    """Return the names in the paths of what a command line writes, moves or deletes, by which a rule may speak of it."""
    from ctx_pipeline.learning.named_files import base_of, from_base
    from ctx_pipeline.shell.files import shell_changes

    paths = [path for change in shell_changes(command, place.cwd) for path in (change.path, change.old) if path]
    return _parts([from_base(path, base_of(path, place.roots, place.cwd)) for path in paths])


def _parts(paths: Sequence[str]) -> set[str]:
    """Return the names in paths, from both ends of each toward its middle until there are enough."""
    names = [[part for part in path.split("/") if part] for path in paths[:_MOST_PATHS]]
    found = dict.fromkeys(
        end for depth in range(_MOST_PARTS) for parts in names for end in (*parts[depth : depth + 1], *parts[~depth:][:1])
    )
    return set(list(found)[:_MOST_PARTS])


def _at_start(index: MemoryIndex, place: Place | None, choice: Choice) -> list[Scored]:
    held = index.of_places(
        allowed=lambda scope, repository, where: visible(scope, repository, where, place), accepted_only=choice.accepted_only
    )
    return [s for s in at_start(held, place=place, choice=choice, now=_now()) if holds_here(s.memory)]


_MOMENTS = {START: AT_START, PROMPT: AT_PROMPT, BEFORE: BEFORE_COMMAND, FAILED: AT_FAILURE, ENDED: AT_FAILURE}


def _default_kinds(journal: Journal, event: str, found: Sequence[Scored]) -> list[Scored]:
    """Return what was accepted, and of the rest the kinds of lessons that are told at this moment by the newest backtest."""
    kept = journal.newest(MEASURED, 1) if any(s.memory.status != ACCEPTED for s in found) else []
    row = kept[0].payload.get("moments", {}).get(_MOMENTS[event]) if kept else None
    return [s for s in found if s.memory.status == ACCEPTED or row is None or spoken_by_default(row, kind_of(s.memory)).told]


def _known(journal: Journal, host: str, session: str) -> set[str]:
    """Return the memories that were injected into a session before."""
    facts: Sequence[Any] = journal.newest(INJECTED, _LOOKED_BACK)
    mine = [f.payload for f in facts if (f.payload.get("host"), f.payload.get("session_id")) == (host, session)]
    return {m["memory_id"] for payload in mine for m in payload["memories"]}


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str):
        return ""
    # half characters are no text that a log could give back
    return value if name == "prompt" else value[:4_096].encode("utf-8", "replace").decode()


def _now() -> int:
    return time.time_ns() // 1000
