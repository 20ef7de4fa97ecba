"""The state of a session at any moment of it, with what people said, as a view, a snapshot, a block to go on with, a difference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.context.session_state import snapshot as blocks
from ctx_pipeline.context.session_state import snapshot as snapshots
from ctx_pipeline.context.session_state.difference import difference
from ctx_pipeline.context.session_state.state import (
    BUILT_INS,
    DEFAULT,
    CheckRun,
    Item,
    Profile,
    SessionState,
    with_notes,
)
from ctx_pipeline.context.session_state.view import view_lines
from ctx_pipeline.errors import UsageError
from ctx_pipeline.memory.safety import scan, untold
from ctx_pipeline.mining.lessons.quoting import a_name
from ctx_pipeline.model.codec import iso, plain, time_of
from ctx_pipeline.model.codec import micros as from_iso
from ctx_pipeline.model.display import short_id, truncate, visible
from ctx_pipeline.sessions.session_choice import (
    HERE,
    PREVIOUS,
    Choice,
    current_session,
    here,
    in_place,
    others_in_place,
    select_previous,
    select_session,
    started_at,
)
from ctx_pipeline.sessions.session_details import view_of
from ctx_pipeline.sessions.states.drawn import Drawn, drawn_states
from ctx_pipeline.sessions.states.noted import noted_items
from ctx_pipeline.sessions.states.state_fold import fold, resume_command, upto
from ctx_pipeline.sessions.states.times import believable
from ctx_pipeline.storage.reader import reading
from ctx_pipeline.storage.resuming import is_archived
from ctx_pipeline.storage.session_notes import Made, made_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


ENCODING = "o200k_base"
"""What counts the tokens of a block."""

SNAPSHOT = "snapshot"
"""Kind of the artifact."""

IMPORTED = "Imported from another machine: of this session nothing was captured here"
"""What is said of a state that a bundle brought."""


class Found(NamedTuple):
    """A session's state and how it was found."""

    state: SessionState
    choice: Choice
    moment: str
    """as it was asked for; ``end`` is the last event that was captured"""

    def to_json(self) -> dict[str, Any]:
        """Return the state with how it was found; its task is the one that every view of it tells."""
        task = self.state.current_task
        told = {**self.state.to_json(), "task": plain(task) if task else None}
        return {**told, "moment": self.moment, "chosen": self.choice.why, "captured": self.choice.captured}


def session_state(
    name: str | None = None, *, at: str | None = None, previous: bool = False, cwd: str | None = None, settings: Settings | None = None
) -> Found:
    """Return the state of a session at its end or at a moment.

    Without a name it is the one that :func:`ctx_pipeline.sessions.session_choice.select_session`
    means, with ``previous`` the one that a new chat goes on from.

    A moment is whatever ``ctx history --at`` takes. Raises UnknownName, UsageError, and
    StoreError where nothing was captured.
    """
    return _found(name, at, previous=previous, cwd=cwd, settings=settings)[0]


def _found(name: str | None, at: str | None, *, previous: bool, cwd: str | None, settings: Settings | None) -> tuple[Found, Drawn]:
    """Return a session and what its rows show, up to the moment."""
    with reading(settings) as (store, asked):
        choose = select_previous if previous else select_session
        choice = choose(store, asked, name, cwd=cwd)
        (drawn,) = drawn_states(store, asked, choice, at)
        return Found(_noted(store, choice, drawn), choice, at or "end"), drawn


def _noted(store: Store, choice: Choice, drawn: Drawn) -> SessionState:
    """Return a state with what people said of the session up to then."""
    return with_notes(drawn.state, noted_items(store, choice.host, choice.session_id, drawn.until))


def safe(state: SessionState) -> SessionState:
    """Return a state as a model may be told it: what a check finds in texts of the records is left out, a person's own words stay."""

    def visible_items(items: list[Item]) -> list[Item]:
        shown = (i._replace(text=visible(i.text), reason=i.reason and visible(i.reason)) for i in items)
        return [i for i in shown if i.by == "person" or not (scan([i.text, i.reason]) or untold(i.path))]

    def one(item: Item | None) -> Item | None:
        return next(iter(visible_items([item] if item else [])), None)

    def check(run: CheckRun) -> CheckRun:
        told = run._replace(why="", command=run.purpose) if scan([run.why, run.command]) else run
        told = told._replace(since="") if scan([told.since]) else told
        return told._replace(before="") if scan([told.before]) else told

    return replace(
        state,
        title=None if untold(state.title) else state.title,
        project=state.project if a_name(state.project or "") else None,
        branch=state.branch if a_name(state.branch or "") else None,
        asked_first=one(state.asked_first),
        asked_last=one(state.asked_last),
        asked_before=one(state.asked_before),
        said_last=one(state.said_last),
        replied=one(state.replied),
        forked_from=one(state.forked_from),
        commit=one(state.commit),
        task=one(state.task),
        answer=one(state.answer),
        recap=one(state.recap),
        answer_longer=visible_items(state.answer_longer),
        delivered=one(state.delivered),
        last_call=one(state.last_call),
        findings=visible_items(state.findings),
        decisions=visible_items(state.decisions),
        progress=visible_items(state.progress),
        next_steps=visible_items(state.next_steps),
        outside=visible_items(state.outside),
        orders=visible_items(state.orders),
        files=[f for f in state.files if not untold(f.path)],
        tests=check(state.tests) if state.tests else None,
        checks=[check(run) for run in state.checks],
    )


class Restored(NamedTuple):
    """A snapshot: the XML, where it is from, and what it left out."""

    xml: str
    host: str
    session_id: str
    at: str | None
    """when it was kept; None for one that was made just now"""
    artifact_id: str | None
    dropped: dict[str, list[str]]
    queries: list[str]
    seq: int = -1
    """``seq`` of the last event that is in it"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, with its size in bytes."""
        return {**self._asdict(), "bytes": len(self.xml.encode())}


def make_snapshot(
    name: str | None = None,
    *,
    at: str | None = None,
    budget: int = snapshots.BUDGET,
    profile: Profile = BUILT_INS[DEFAULT],
    previous: bool = False,
    cwd: str | None = None,
    settings: Settings | None = None,
) -> Restored:
    """Return a snapshot of a session's state at its end or at a moment; nothing is kept.

    With ``previous`` and without a name it is the session that a new chat goes on from. The
    profile says what is kept first and left out, ``budget`` how many bytes it takes.
    """
    found = session_state(name, at=at, previous=previous, cwd=cwd, settings=settings)
    made = snapshots.snapshot(safe(found.state), budget, profile)
    return Restored(made.xml, found.state.host, found.state.session_id, None, None, made.dropped, made.queries, found.state.seq)


def restored(name: str | None = None, *, cwd: str | None = None, settings: Settings | None = None) -> Restored:
    """Return the newest kept snapshot of a session, and without a name of what is going on in this repository.

    That is the session that asks, where it kept one; else the newest one kept by any
    session here, unless a later session did something since. Where none is kept, one is
    made of the session that a new chat goes on from.
    """
    with reading(settings) as (store, asked):
        own = current_session(asked) if name is None else None
        kept = made_of(store, *own, kind=SNAPSHOT) if own else []
        if not kept:
            choice = select_previous(store, asked, name, cwd=cwd)
            kept = made_of(store, choice.host, choice.session_id, kind=SNAPSHOT)
        if not kept and choice.captured and choice.why in (HERE, PREVIOUS):
            places = {(line.host, line.session_id): line.last for line in in_place(store, cwd or here())}
            newest = places.get((choice.host, choice.session_id), 0)
            kept = [m for m in made_of(store, kind=SNAPSHOT) if (m.host, m.session_id) in places and (from_iso(m.at) or 0) >= newest]
        if kept:
            return _restored(kept[-1])
    return make_snapshot(name, previous=True, cwd=cwd, settings=settings)


def _restored(made: Made) -> Restored:
    dropped = made.about.get("dropped")
    queries = made.about.get("queries")
    return Restored(
        made.content,
        made.host,
        made.session_id,
        made.at,
        made.artifact_id,
        dropped if isinstance(dropped, dict) else {},
        queries if isinstance(queries, list) else [],
    )


class Resume(NamedTuple):
    """A block for a fresh chat."""

    text: str
    tokens: int
    budget: int
    dropped: list[str]
    host: str
    session_id: str
    cold_tokens: int
    """about what the files that the session read hold, which a cold start would read again"""
    command: str = ""
    """what resumes the session in its agent; empty where nothing does"""
    statements: tuple[dict[str, Any], ...] = ()
    """what the block states: about, text and the events that prove it"""


def resume_block(
    name: str | None = None,
    *,
    budget: int = blocks.BLOCK_BUDGET,
    profile: Profile = BUILT_INS[DEFAULT],
    cwd: str | None = None,
    settings: Settings | None = None,
) -> Resume:
    """Return a block of at most ``budget`` tokens (o200k_base) for a new chat, and what it stands for.

    Without a name it tells of the last other session of the repository that did something,
    and names up to two more that were active on the same day.
    """
    found, drawn = _found(name, None, previous=True, cwd=cwd, settings=settings)
    command, beside = _beside(found, cwd, settings)
    made = blocks.block(safe(found.state), counter(), budget, beside=beside, profile=profile, zone=_zone_of(settings))
    said = tuple({"about": line.about, "text": line.text, "events": list(line.events)} for line in made.lines)
    about = (found.state.host, found.state.session_id)
    return Resume(made.text, made.tokens, budget, made.dropped, *about, drawn.cold_tokens, command, said)


def _beside(found: Found, cwd: str | None, settings: Settings | None) -> tuple[str, list[str]]:
    """Return the command that resumes a session, and the lines that stand below its block."""
    if not found.choice.captured:
        return "", [IMPORTED] if found.state.as_of else []
    with reading(settings) as (store, asked):
        row = store.ledger.session(found.state.host, found.state.session_id)
        folder = row.rows.get("cwd") if row else None
        # nothing resumes a session of which only subagents left a transcript
        host, session_id = found.state.host, found.state.session_id
        archived = is_archived(store, host, session_id)
        command = "" if found.state.subagents_only else resume_command(host, session_id, folder, archived=archived)
        told = [f"Resume it with: {command}"] if command else []
        if found.choice.why != PREVIOUS:
            return command, told
        others = others_in_place(store, cwd or here(), current_session(asked), started_at(asked))
        last = others[0].last if others else 0
        for line in others[1:3]:
            known = store.ledger.session(line.host, line.session_id)
            title = str(known.rows.get("title") or "") if known else ""
            if last - line.last <= _SAME_DAY:
                words = f" “{truncate(visible(title), 80)}”" if title and not untold(title) else ""
                short, at = short_id(line.session_id, [one.session_id for one in others]), time_of(iso(line.last), asked.timezone)
                told.append(f"Another session here: {line.host} {short}{words}, last active {at}")
    return command, told


def _zone_of(settings: Settings | None) -> str | None:
    return settings.timezone if settings else None


_SAME_DAY = 86_400_000_000


class Loaded(NamedTuple):
    """A session's state for the next one, with what it costs to tell it."""

    found: Found
    block: blocks.Block
    """what a new chat is told"""
    cold_tokens: int
    """about what the session's own reads brought in"""
    command: str = ""
    """what resumes the session in its agent"""

    @property
    def tokens(self) -> int:
        """Tokens of the block."""
        return self.block.tokens

    def to_json(self) -> dict[str, Any]:
        """Return the state with the two sizes."""
        return {**self.found.to_json(), "tokens": self.tokens, "cold_tokens": self.cold_tokens, "command": self.command}


def loaded(
    name: str | None = None, *, profile: Profile = BUILT_INS[DEFAULT], cwd: str | None = None, settings: Settings | None = None
) -> Loaded:
    """Return the last other session of this repository that did something, or a named one, with its size beside a cold start.

    Its block takes at most the tokens of the profile.
    """
    found, drawn = _found(name, None, previous=True, cwd=cwd, settings=settings)
    command, beside = _beside(found, cwd, settings)
    made = blocks.block(safe(found.state), counter(), profile.resume_tokens, beside=beside, profile=profile, zone=_zone_of(settings))
    return Loaded(found, made, drawn.cold_tokens, command)


def counter() -> Callable[[str], int]:
    """Return what counts tokens of our own texts."""
    from ctx_pipeline.tokens.tokenizers import tokenizer_from_name

    tokenizer = tokenizer_from_name(ENCODING)
    return lambda text: tokenizer.count_many([text])[0]


def compared(
    first: str | None,
    second: str | None = None,
    *,
    moments: tuple[str | None, str | None] = (None, None),
    for_model: bool = False,
    cwd: str | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Return what two sessions differ by, or one session at two moments (then ``second`` is None).

    ``for_model`` leaves out what :func:`safe` leaves out.
    """
    older, newer = _both(first, second, moments, cwd, settings)

    def end(one: Found) -> dict[str, Any]:
        return {"host": one.state.host, "session_id": one.state.session_id, "moment": one.moment, "as_of": one.state.as_of}

    return {
        "schema": 1,
        "from": end(older),
        "to": end(newer),
        **difference(*(safe(one.state) if for_model else one.state for one in (older, newer))),
    }


def _both(
    first: str | None, second: str | None, moments: tuple[str | None, str | None], cwd: str | None, settings: Settings | None
) -> tuple[Found, Found]:
    """Return two sessions, or one at two moments, whose rows are read once then."""
    if second:
        one, other = (session_state(n, at=at, cwd=cwd, settings=settings) for n, at in zip((first, second), moments, strict=True))
        return one, other
    with reading(settings) as (store, asked):
        choice = select_session(store, asked, first, cwd=cwd)
        shown = zip(drawn_states(store, asked, choice, *moments), moments, strict=True)
        one, other = (Found(_noted(store, choice, drawn), choice, at or "end") for drawn, at in shown)
        return one, other


def unnamed(xml: str, dropped: dict[str, list[str]], name: str, seq: int, *, settings: Settings | None = None) -> list[str]:
    """Return what the records of a session held at an event that a snapshot of then neither holds nor names as left out.

    Paths of files, places of findings and texts of decisions count.
    """
    state = safe(session_state(name, at=str(seq), settings=settings).state)
    there = [*(f.path for f in state.files), *(i.place for i in state.findings if i.place), *(i.place or i.text for i in state.decisions)]
    left = {one for names in dropped.values() for one in names}
    return [one for one in dict.fromkeys(there) if snapshots.attribute(one, 60).strip("'\"…") not in xml and one not in left]


class SnapshotRecall(NamedTuple):
    """How much of what was used behind a boundary, and had been there before it, a snapshot at the boundary held."""

    moment: str
    used: int
    held: int
    missed: list[str]

    @property
    def share(self) -> float | None:
        """Held / used; None where nothing was used again."""
        return self.held / self.used if self.used else None


def snapshot_recall(
    name: str | None = None, *, budget: int = snapshots.BUDGET, cwd: str | None = None, settings: Settings | None = None
) -> list[SnapshotRecall]:
    """Return for each compaction of a session what a snapshot right before it would have kept of the files used again behind it."""
    view = _whole_view(name, cwd, settings)
    main = view.events[0].thread_id
    marks = [e for e in view.events if e.kind == "compaction" and e.thread_id == main]
    ends = [*marks[1:], view.events[-1]] if marks else []
    return [
        _recalled(view, f"before-compaction:{n}", (mark.seq - 1, mark.ts), _upto_event(view, end), budget)
        for n, (mark, end) in enumerate(zip(marks, ends, strict=True), 1)
    ]


INTERVAL = 15
"""Tool calls between two checkpoints, unless a profile or ``LEAN_CTX_CHECKPOINT_INTERVAL`` says otherwise; 0 is none."""

_PAUSE_SECONDS = 900
_WORK = frozenset({"prompt", "answer", "tool_call", "tool_result"})
"""Kinds of events behind which a state is another one; errors and notices leave it as it was."""
_MOST_CHECKPOINTS = 200


class Checkpoint(NamedTuple):
    """A moment of a session at which its state is worth having, and what a snapshot there held of what was used afterwards."""

    moment: str
    """as ``--at`` takes it"""
    why: str
    """interval, compaction or pause"""
    at: str | None
    """None where the record's time cannot be believed: it has none, that of a copy, or one before that of an earlier record"""
    tool_calls: int
    """so many had been made"""
    used: int | None
    """files known at the moment that were used again up to the end; None where that was not measured"""
    held: int | None
    """of these, in the snapshot"""


def checkpoint_interval(settings: Settings, interval: int) -> int:
    """Return how many tool calls lie between two checkpoints: as the environment says, else ``interval``. Raises UsageError."""
    said = settings.environ.get("LEAN_CTX_CHECKPOINT_INTERVAL", "")
    if said and not said.isdecimal():
        raise UsageError(f"LEAN_CTX_CHECKPOINT_INTERVAL is no number: {said[:40]!r}", hint="a number of tool calls; 0 is none")
    return int(said) if said else interval


def checkpoints(
    name: str | None = None,
    *,
    budget: int = snapshots.BUDGET,
    interval: int = INTERVAL,
    recall: bool = True,
    cwd: str | None = None,
    settings: Settings,
) -> list[Checkpoint]:
    """Return the checkpoints of a session, which nobody has to ask for: every state stands in the records.

    Without ``recall`` it is not measured what a snapshot held, which takes a tenth of a second
    each. They lie after every ``interval`` tool calls of its main thread (where the
    environment does not say another number), before each compaction, and before a pause of a
    quarter of an hour unless nothing was said or done since the last one.
    """
    every = checkpoint_interval(settings, interval)
    view = _whole_view(name, cwd, settings)
    main = [e for e in view.events if e.thread_id == view.events[0].thread_id]
    made = compactions = 0
    marks: list[tuple[Any, int | None, str, str, int]] = []
    before, then, worked = main[0], None, False
    for e, now in zip(main, believable(main), strict=True):
        paused = now is not None and then is not None and now - then >= _PAUSE_SECONDS * 1_000_000
        if e.kind == "compaction":
            compactions += 1
            marks.append((e, now, "compaction", f"before-compaction:{compactions}", made))
            worked = False
        elif paused and made and worked:
            marks.append((before, then, "pause", before.event_id, made))
            worked = False
        worked = worked or e.kind in _WORK
        if e.kind == "tool_call":
            made += 1
            if every and made % every == 0:
                marks.append((e, now, "interval", e.event_id, made))
                worked = False
        before, then = e, now
    later = _upto_event(view, view.events[-1]) if recall else None
    found = []
    for event, at, why, moment, calls in marks[-_MOST_CHECKPOINTS:]:
        place = (event.seq - (why == "compaction"), event.ts)
        measured = _recalled(view, moment, place, later, budget) if later else None
        found.append(Checkpoint(moment, why, iso(at), calls, measured and measured.used, measured and measured.held))
    return found


def _whole_view(name: str | None, cwd: str | None, settings: Settings | None) -> Any:
    with reading(settings) as (store, asked):
        choice = select_session(store, asked, name, cwd=cwd)
        return view_of(store, choice.host, choice.session_id, ("events", "tool_calls", "model_calls", "threads"))


def _upto_event(view: Any, end: Any) -> SessionState:
    main = view.events[0].thread_id
    return fold(upto(view, main, end.seq if end.thread_id == main else 10**9, _micros(end.ts)))


def _recalled(view: Any, moment: str, place: tuple[int, Any], later: SessionState, budget: int) -> SnapshotRecall:
    """Return what a snapshot at a ``seq`` and time of the main thread held of the files that a later state shows to be used."""
    seq, ts = place
    before = fold(upto(view, view.events[0].thread_id, seq, _micros(ts)))
    touched = {f.path: f.reads + f.changes for f in before.files}
    used = [f.path for f in later.files if f.path in touched and f.reads + f.changes > touched[f.path]]
    xml = snapshots.snapshot(safe(before), budget).xml
    held = [path for path in used if snapshots.attribute(path, 200) in xml]
    return SnapshotRecall(moment, len(used), len(held), [p for p in used if p not in held])


def _micros(ts: Any) -> int | None:
    from ctx_pipeline.model.codec import row_micros as micros

    return micros(ts)


def view_of_state(state: SessionState) -> list[str]:
    """Return the compact view of a state, one section a line or a few."""
    return view_lines(state)


def unknown_action(action: str, known: tuple[str, ...]) -> UsageError:
    """Return the error for an action that does not exist; it lists those that do."""
    return UsageError(f"there is no action {action[:60]!r}", hint=f"one of {', '.join(known)}")
