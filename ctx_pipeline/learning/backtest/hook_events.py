"""The four moments at which hooks speak, replayed: what lessons would have told beside plain text search, the newest turn, and nothing."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.learning.at_act import after_failure, before_command
from ctx_pipeline.memory.evaluation import by_group
from ctx_pipeline.memory.injection_policy import (
    AT_FAILURE,
    AT_PROMPT,
    AT_START,
    BEFORE_COMMAND,
    COMMAND_MOMENTS,
    PROVEN,
    Choice,
    kind_of,
    spoken_by_default,
    sure_enough,
)
from ctx_pipeline.memory.ranking import words_of
from ctx_pipeline.memory.session_facts import CHANGED, FAILED, RAN, RULED
from ctx_pipeline.mining.lessons.commands import as_pattern
from ctx_pipeline.shell.commands import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ctx_pipeline.memory.evaluation import Estimate
    from ctx_pipeline.memory.scope import Place
    from ctx_pipeline.memory.session_facts import About, SessionFact, Thing, Timeline
    from ctx_pipeline.model.memories import Memory

MOMENTS = (AT_START, AT_PROMPT, BEFORE_COMMAND, AT_FAILURE)
MOST_TOLD = 2
"""Lessons at a command, as the hook tells them."""


AGAIN = "again"
"""Kind of what passed when it was run once more, with nothing changed."""

QUOTED = "quoted"
"""Kind of what passed once a word that the shell expanded was quoted."""


class Moment(NamedTuple):
    """One moment of a session after the day, and what each way of telling would have given there.

    ``told`` has (kind of lesson, right) for each lesson; ``plain`` and ``newest`` say whether the first hit of a text
    search, or the newest turn, shows what came; ``elsewhere`` how many lessons of another repository would have been told.
    ``knew`` says whether a right lesson is told then or was told the session before, ``answerable`` whether anything of
    what came had happened at the place before: where nothing had, no way of telling can be right. After a failure a file that
    was changed before teaches nothing: the failure itself or what ended it must have been there.
    """

    moment: str
    session: str
    told: tuple[tuple[str, bool], ...]
    plain: bool
    newest: bool
    elsewhere: int = 0
    knew: bool = False
    answerable: bool = False


class Around(NamedTuple):
    """Where a session worked: its lessons, those of another repository, and what is asked of the raw past there."""

    place: Place
    memories: Sequence[Memory]
    others: Sequence[Memory]
    about: Callable[[Memory], About]
    searched: Callable[[str], set[Thing]]
    """a text -> what the turn of the first hit of a text search in the past of the place shows"""
    newest: set[Thing]
    """what the newest turn of the past of the place shows"""
    past: frozenset[Thing] = frozenset()
    """what happened at the place before"""


def fits(memory: Memory, about: About, came: set[Thing]) -> bool:
    """Tell whether a lesson is about something that came: its error, file, rule or check, a command or file that it advises."""
    advised = {(RAN, command) for command in about.commands} | {(CHANGED, name) for name in about.files}
    as_told = bool(advised) and bool(advised & _left_open(came))
    wants = set(map(str, memory.body.get("want", ()))) if memory.body.get("instead_of") else set()
    wanted = any(kind == RAN and not wants.isdisjoint(name.split()[:1]) for kind, name in came)
    waited = bool(memory.body.get("transient")) and (AGAIN, about.subject) in came
    quoted = memory.body.get("about") == "glob" and any(kind == QUOTED for kind, _ in came)
    return about.fits(came) or bool(advised & came) or as_told or wanted or waited or quoted


def _left_open(things: Collection[Thing]) -> set[Thing]:
    """Return the calls among things with the names that they choose left open, as lessons tell them: ``cargo test NAME``."""
    return {(RAN, pattern) for kind, name in things if kind == RAN for pattern in _patterns(name)}


@lru_cache(maxsize=4_096)
def _patterns(command: str) -> tuple[str, ...]:
    return tuple(as_pattern(step.text, step.subject) for step in steps(command) if step.words)


def at_commands(told: Timeline, here: Around, inside: Callable[[int], bool], known: set[str]) -> list[Moment]:
    """Return what would have been told before each command of a session and after each that failed; ``known`` was told already."""
    found: list[Moment] = []
    ran: set[str] = set()
    failed = {deed.events: deed for deed in told.deeds if deed.kind == FAILED}
    for deed in told.deeds:
        if deed.kind != RAN or not inside(deed.at):
            ran.update(deed.names if deed.kind == RAN else ())
            continue
        came = _came(told.deeds, deed, ran)
        command = deed.names[0]
        speaking = [m for m in before_command(command, here.memories) if m.memory_id not in known][:MOST_TOLD]
        others = len(before_command(command, here.others)[:MOST_TOLD])
        # a search for each of many thousand commands would take most of a backtest's time
        found.append(_moment(BEFORE_COMMAND, told, here, speaking, came, asked=command if speaking else "", elsewhere=others, known=known))
        known |= {m.memory_id for m in speaking}
        ran.update(deed.names)
        if error := failed.get(deed.events):
            came = _came(told.deeds, deed, ran, after=True)
            speaking = [m for m in after_failure(command, error.text, told.cwd, here.memories) if m.memory_id not in known][:MOST_TOLD]
            others = len(after_failure(command, error.text, told.cwd, here.others)[:MOST_TOLD])
            met = frozenset(error.spellings)
            found.append(_moment(AT_FAILURE, told, here, speaking, came, asked=error.text, elsewhere=others, known=known, met=met))
            known |= {m.memory_id for m in speaking}
    return found


def asked_at(
    moment: str, told: Timeline, here: Around, lessons: Sequence[Memory], *, text: str, at: int, known: Collection[str] = ()
) -> Moment:
    """Return what would have been told at a prompt or at the start, held against all that came after it; ``known`` was told already."""
    came = {t for d in told.deeds if d.at > at and (d.kind != RAN or d.check) for t in d.spellings}
    return _moment(moment, told, here, lessons, came, asked=text, known=known)


def _moment(
    moment: str,
    told: Timeline,
    here: Around,
    lessons: Iterable[Memory],
    came: set[Thing],
    *,
    asked: str,
    elsewhere: int = 0,
    known: Collection[str] = (),
    met: Collection[Thing] = frozenset(),
) -> Moment:
    right = tuple((kind_of(m), fits(m, here.about(m), came)) for m in lessons if sure_enough(m) or moment in COMMAND_MOMENTS)
    hit = here.searched(asked) if words_of(asked) else set()
    # a call counts for both whatever name it chooses; a turn in which a file of the failure was merely changed answers nothing,
    # not for lessons, and not for the search
    shown = {t for t in came if t[0] != CHANGED} if moment == AT_FAILURE and hit.isdisjoint(met) else came
    plain = not hit.isdisjoint(shown) or not _left_open(hit).isdisjoint(_left_open(shown))
    earlier = any(m.memory_id in known and fits(m, here.about(m), came) for m in here.memories)
    knew = earlier or any(fitting for _, fitting in right)
    past = here.past & (came | set(met))
    had = {t for t in past if t[0] != CHANGED} if moment == AT_FAILURE else past
    return Moment(moment, told.key, right, plain, bool(here.newest & came), elsewhere, knew, knew or bool(had))


def _came(deeds: Iterable[SessionFact], now: SessionFact, ran: set[str], *, after: bool = False) -> set[Thing]:
    """Return what a lesson could have helped with: checks to pass for the first time, failures and rules to come.

    After a failure it is what ended it, up to the next pass of the same program: the call that
    passed, what was installed or run for the first time before it, the files that were changed;
    and the same failure, should it come again.
    """
    came: set[Thing] = set()
    if after:
        return _ended(deeds, now, ran)
    for deed in deeds:
        if deed.at < now.at:
            continue
        new = deed.kind == RAN and deed.passed and deed.events != now.events and ran.isdisjoint(deed.names)
        if deed.kind in (RULED, FAILED) or (new and deed.check):
            came.update(deed.spellings)
    return came


def _ended(deeds: Iterable[SessionFact], now: SessionFact, ran: set[str]) -> set[Thing]:
    later = [d for d in deeds if d.at >= now.at and d.events != now.events]
    failed = {t for d in deeds if d.events == now.events and d.kind == FAILED for t in d.spellings}
    came = {t for d in later if d.kind == FAILED for t in d.spellings} & failed
    end = next((d for d in later if d.kind == RAN and d.passed and _alike(d.subject, now.subject)), None)
    for deed in later if end else ():
        if end is not None and deed.at > end.at:
            break
        new = deed.kind == RAN and deed.passed and ran.isdisjoint(deed.names)
        if deed.kind == CHANGED or (new and (deed.check or deed is end)):
            came.update(deed.spellings)
    if end is not None and not any(kind == CHANGED for kind, _ in came):
        came.add((AGAIN, now.subject))
    if end is not None and any(f"'{w}'" in end.names[0] or f'"{w}"' in end.names[0] for w in now.names[0].split() if set("*?[") & set(w)):
        came.add((QUOTED, now.subject))
    return came


def _alike(one: str, other: str) -> bool:
    """Tell whether two subjects are of one program, whatever launched it: ``pytest`` and ``uv run pytest``."""
    return bool(one and other) and (one == other or one.rsplit(maxsplit=1)[-1] == other.rsplit(maxsplit=1)[-1])


def table(moments: Sequence[Moment], *, choice: Choice) -> dict[str, Any]:
    """Return for each moment how many there were, and for each kind of lesson what it told beside search and the newest turn.

    ``plain`` and ``newest`` count over all moments (before a command ``plain`` over those at which
    something was told); within ``kinds`` they count at the moments at which that kind spoke, so
    that like is held against like. ``by_default`` and ``why`` say whether the kind is told where nobody accepted the lesson.
    """
    rows: dict[str, Any] = {}
    for name in MOMENTS:
        some = [m for m in moments if m.moment == name]
        counts: dict[str, Counter[str]] = {}
        for one in some:
            for kind, right in one.told:
                counts.setdefault(kind, Counter()).update(told=1, right=int(right), plain=int(one.plain), newest=int(one.newest))
        rows[name] = {
            "moments": len(some),
            "told": sum(len(m.told) for m in some),
            "right": sum(right for m in some for _, right in m.told),
            "plain": sum(m.plain for m in some),
            "newest": sum(m.newest for m in some),
            "elsewhere": sum(m.elsewhere for m in some),
            "answerable": sum(m.answerable for m in some),
            "knew": sum(m.knew for m in some),
            "against_search": against_search(some).plain(),
            "kinds": {kind: dict(sorted(count.items())) for kind, count in sorted(counts.items())},
        }
    for name, row in rows.items():
        for kind, count in row["kinds"].items():
            judged = spoken_by_default(row, kind)
            count |= {"by_default": judged.told and _spoken(name, choice), "why": judged.why}
    return rows


def against_search(moments: Iterable[Moment]) -> Estimate:
    """Return the share of moments with a right lesson, told then or before, less that with a right first hit of a text search.

    Both are asked at the same moments. Nothing is known before a command, where a search is asked only where a lesson speaks.
    """
    return by_group(((m.session, float(m.knew) - m.plain) for m in moments if m.moment != BEFORE_COMMAND), differences=True)


def _spoken(moment: str, choice: Choice) -> bool:
    return choice.commands if moment in COMMAND_MOMENTS else (choice.start == PROVEN if moment == AT_START else choice.prompts)
