"""A session's state as XML within a byte budget: what matters first, what had to go named, with questions that bring it back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ctx_pipeline.context.session_state.state import BUILT_INS, BUNDLE, DEFAULT, REFUSAL
from ctx_pipeline.model.codec import time_of
from ctx_pipeline.model.display import cut, shorten_ask
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ctx_pipeline.context.session_state.state import CheckRun, FileState, Item, Profile, SessionState


BUDGET = 2_048
"""Bytes of a snapshot in UTF-8."""

LEAST = 512
"""Bytes below which nothing useful fits."""

TIERS = (("task", "files"), ("decisions", "findings", "progress"), ("tests", "next_steps"), ("stats",))
"""What is kept first; within a tier the most valuable items that fit together."""

_SHARES = (0.5, 0.7, 0.8, 1.0)
"""How much of what is left a tier may take before the tiers behind it had their turn."""

_TASK, _TEXT, _STEP = 400, 240, 160
"""Longest texts, in characters; a longer one is cut and says so with an ellipsis."""

_NAME = 90
"""Bytes of a name in the first line."""

_QUERIES = 3
_WEIGHED = 80
"""Items that are weighed against each other for the last bytes of a tier, the most valuable ones; fewer than these fit there."""

_LAST_BYTES = 8_192
"""Room that is shared out with care; where there is more, the most valuable items are taken one after the other first."""

_NO_WORD = lazy_pattern(r"[^\w.-]+")
"""What a shell might read as more than a word."""

_NOT_XML = lazy_pattern("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Piece(NamedTuple):
    """One element that is kept whole or not at all."""

    section: str
    xml: str
    value: float
    name: str
    """how it is named where it had to go"""

    @property
    def size(self) -> int:
        """Bytes with its line end."""
        return len(self.xml.encode()) + 1


@dataclass(frozen=True, repr=False, eq=False)
class Snapshot:
    """The XML, and what did not fit."""

    xml: str
    kept: dict[str, int] = field(default_factory=dict)
    """section -> items in it"""
    dropped: dict[str, list[str]] = field(default_factory=dict)
    """section -> names of the items that had to go, the most valuable first"""
    queries: list[str] = field(default_factory=list)
    """commands that bring them back"""

    @property
    def size(self) -> int:
        """Bytes in UTF-8."""
        return len(self.xml.encode())


_FIRST = 1_000.0
"""Added to the worth of what a profile keeps first."""


def snapshot(state: SessionState, budget: int = BUDGET, profile: Profile = BUILT_INS[DEFAULT]) -> Snapshot:
    """Return the snapshot of a state, valid XML of at most ``budget`` bytes (at least 512).

    Tiers are filled in order, each with the subset of its items that is worth most and
    fits; what a tier leaves over goes to those behind it, and what is left at the end to
    what had been left out. Texts are escaped and cut to a few lines. What the profile keeps
    first stands in the first tier; what it leaves out is named as the rest that had to go.
    """
    budget = max(budget, LEAST)
    head = _head(state)
    tiers, unwanted = _ranked(_pieces(state), profile)
    room = budget - len(f"{head}\n</session_snapshot>\n".encode())
    everything = [p for tier in tiers for p in tier]
    if not unwanted and sum(_size(tier) for tier in tiers) <= room:
        return _made(head, everything, [], [])
    room -= _reserve(state)
    kept: list[Piece] = []
    for tier, share in zip(tiers, _SHARES, strict=True):
        chosen = _best(tier, int((room - _size(kept)) * share))
        kept += chosen
    before = set(kept)
    left = _best([p for p in everything if p not in before], room - _size(kept), opened={p.section for p in kept})
    chosen_ones = {id(p) for p in (*kept, *left)}
    kept = [p for p in everything if id(p) in chosen_ones]
    gone = [*(p for p in everything if id(p) not in chosen_ones), *unwanted]
    queries = _queries(state, gone)
    made = _made(head, kept, gone, queries)
    while made.size > budget and queries:
        queries = queries[:-1]
        made = _made(head, kept, gone, queries)
    while made.size > budget and kept:  # names of what had to go were longer than the room that was kept for them
        gone = [kept[-1], *gone]
        kept = kept[:-1]
        made = _made(head, kept, gone, queries)
    return made


def _ranked(tiers: list[list[Piece]], profile: Profile) -> tuple[list[list[Piece]], list[Piece]]:
    """Return the tiers as a profile ranks their parts, and what it leaves out; the task stays."""
    out = set(profile.leave_out) - {"task"}
    first = [p._replace(value=p.value + _FIRST) for tier in tiers for p in tier if p.section in profile.keep_first and p.section not in out]
    rest = [[p for p in tier if p.section not in out and p.section not in profile.keep_first] for tier in tiers]
    return [[*first, *rest[0]], *rest[1:]], [p for tier in tiers for p in tier if p.section in out]


def _head(state: SessionState) -> str:
    told = {"host": state.host, "session": state.session_id, "as_of": state.as_of or "", "project": state.project or ""}
    return f"<session_snapshot {' '.join(f'{name}={_within(value, _NAME)}' for name, value in told.items() if value)}>"


def _within(text: str, most: int) -> str:
    """Return a text as a quoted attribute of at most so many bytes."""
    width = most
    while len((made := attribute(text, width)).encode()) > most:
        width //= 2
    return made


def _pieces(state: SessionState) -> list[list[Piece]]:
    made = [[*_of_task(state.current_task, state.asked_since_task), *_of_files(state)], [], [], []]
    for name, items, base in (("decisions", state.decisions, 5.0), ("findings", state.findings, 4.0), ("progress", state.progress, 2.0)):
        made[1] += [_of_item(name, n, item, base) for n, item in enumerate(items)]
    if state.tests is not None:
        t = state.tests
        told = {"command": t.command, "result": t.counts, "failed_with": t.why if not t.ok else "", "stale": "yes" if t.stale else ""}
        inside = " ".join(f"{name}={attribute(value, _STEP)}" for name, value in told.items() if value)
        named = "tests" if t.purpose == "test" else f'check kind="{t.purpose}"'
        made[2].append(Piece("tests", f"<{named} {inside}/>", 9.0, t.command))
    made[2] += [
        Piece("next_steps", f"<step>{element(i.text, _STEP)}</step>", 6.0 / (n + 2) + 2, i.text) for n, i in enumerate(state.next_steps)
    ]
    figures = " ".join(f"{name}={attribute(str(count), 20)}" for name, count in state.stats.items())
    if figures:
        made[3].append(Piece("stats", f"<stats {figures}/>", 1.0, "figures"))
    return made


def _of_task(task: Item | None, last: Item | None) -> list[Piece]:
    """Return the task, with the request that came last where that only goes on with it."""
    if task is None:
        return []
    then = f" last_asked={attribute(last.text, _STEP)}" if last else ""
    return [Piece("task", f"<task source={attribute(task.by, 20)}{then}>{element(task.text, _TASK)}</task>", 100.0, "task")]


def _of_files(state: SessionState) -> list[Piece]:
    """Return a piece for each file: changed ones are worth most, later touches more than earlier ones."""
    made = []
    for changed, members in ((True, state.modified), (False, state.read)):
        for n, f in enumerate(members):
            lines = f' lines="{f.lines}"' if f.lines else ""
            xml = f'<f id="{f.ref}" path={attribute(f.path, 200)} status="{f.status}"{lines}/>'
            value = (10.0 if changed else 2.0) / (1 + n / 8) + min(f.reads + f.changes, 10) / 10
            made.append(Piece("files", xml, value, f.path))
    return made


def _of_item(section: str, n: int, item: Item, base: float) -> Piece:
    tag = {"decisions": "d", "findings": "finding", "progress": "done"}[section]
    told = {"at": item.place, "why": item.reason or "", "by": item.by if item.stated else ""}
    inside = "".join(f" {name}={attribute(value, _STEP)}" for name, value in told.items() if value)
    value = base * (3 if item.stated else 1) / (1 + n / 10)
    return Piece(section, f"<{tag}{inside}>{element(item.text, _TEXT)}</{tag}>", value, item.place or item.text)


def _best(pieces: Sequence[Piece], room: int, *, opened: Iterable[str] = ()) -> list[Piece]:
    """Return the pieces that fit into some bytes together and are worth most (a knapsack over whole bytes), in their order.

    The elements around sections are paid for first, so that whatever is chosen fits.
    """
    room -= sum(_around(section) for section in {p.section for p in pieces}.difference(opened))
    if sum(p.size for p in pieces) <= room:
        return list(pieces)
    ordered = sorted((p for p in pieces if p.size <= room), key=lambda p: -p.value)
    chosen = set()
    while ordered and room > _LAST_BYTES:
        first = ordered.pop(0)
        if first.size <= room:
            chosen.add(id(first))
            room -= first.size
    likely = [p for p in ordered if p.size <= room][:_WEIGHED]
    worth = [0.0] * (max(room, 0) + 1)
    taken: list[bytearray] = []
    for piece in likely:
        marks = bytearray(room + 1)
        own, value = piece.size, piece.value
        for size in range(room, own - 1, -1):
            with_it = worth[size - own] + value
            if with_it > worth[size] + 1e-9:
                worth[size], marks[size] = with_it, 1
        taken.append(marks)
    size = room
    for n in range(len(likely) - 1, -1, -1):
        if taken[n][size]:
            chosen.add(id(likely[n]))
            size -= likely[n].size
    return [p for p in pieces if id(p) in chosen]


_ALONE = frozenset({"task", "tests", "stats"})
"""Sections that are one element by themselves."""


def _around(section: str) -> int:
    return 0 if section in _ALONE else 2 * len(section) + 7


def _size(pieces: Iterable[Piece]) -> int:
    listed = list(pieces)
    return sum(p.size for p in listed) + sum(_around(s) for s in {p.section for p in listed})


def _reserve(state: SessionState) -> int:
    """Return bytes that are kept for what had to go and how to ask for it."""
    return 300 + len(state.session_id.encode())


def _made(head: str, kept: Sequence[Piece], gone: Sequence[Piece], queries: list[str]) -> Snapshot:
    lines = [head]
    counts: dict[str, int] = {}
    for tier in TIERS:
        for section in tier:
            members = [p.xml for p in kept if p.section == section]
            if not members:
                continue
            counts[section] = len(members)
            lines += members if section in _ALONE else [f"<{section}>", *members, f"</{section}>"]
    dropped: dict[str, list[str]] = {}
    for piece in sorted(gone, key=lambda p: -p.value):
        dropped.setdefault(piece.section, []).append(piece.name)
    if dropped:
        told = " ".join(f'{section}="{len(names)}"' for section, names in dropped.items())
        first = "; ".join(cut(names[0], 40) for names in dropped.values())
        lines.append(f"<dropped {told}>{element(first, 120)}</dropped>")
    if queries:
        lines.append(f"<recovery_queries>{''.join(f'<q>{element(q, 120)}</q>' for q in queries)}</recovery_queries>")
    return Snapshot("\n".join([*lines, "</session_snapshot>"]) + "\n", counts, dropped, queries)


def _queries(state: SessionState, gone: Sequence[Piece]) -> list[str]:
    """Return the commands that bring back what had to go, the whole state first."""
    if not gone:
        return []
    session = _NO_WORD.sub("", state.session_id)[:36]
    found = [f"ctx session status --session {session}"]
    for piece in sorted(gone, key=lambda p: -p.value):
        if piece.section == "files":
            stem = _NO_WORD.sub("", piece.name.rpartition("/")[2])[:60]
            found.append(f"ctx search --file {stem}")
        elif piece.section in ("findings", "decisions"):
            words = re.findall(r"\w{4,20}", piece.name)[:4]
            found += [f"ctx search {' '.join(words)}"] if words else []
    return list(dict.fromkeys(found))[: _QUERIES + 1]


def element(text: str, longest: int) -> str:
    """Return a text as the content of an element: cut, on one line, without what XML cannot hold."""
    # as html.escape does: its module brings every entity's name, and a hook imports this one
    return cut(_NOT_XML.sub("", text), longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def attribute(text: str, longest: int) -> str:
    """Return a text as a quoted attribute, likewise."""
    quoted = element(text, longest).replace('"', "&quot;").replace("'", "&#x27;")
    return f'"{quoted}"'


# A session's state as a few lines: the block that a fresh chat begins with.


BLOCK_BUDGET = 500
"""Tokens of a block to go on with."""

ABSENT, LOOKED = "absent", "read"
"""What a line is about that says that something was not done, and that files were read and none was changed."""

_SPARE = 20
"""Tokens that are left over where something is told at more length: lines side by side may be split into more."""

_FILES, _FEW_FILES, _ITEMS = 10, 5, 6
BLOCK_TEXT, SHORT, _ASK = 300, 160, 200
"""Characters of a text, of a short one, and of what was asked that are told; of the last one more where there is room."""


class Line(NamedTuple):
    """One statement of a block, with the events that prove it."""

    about: str
    text: str
    worth: float
    """what is kept first where not all of it fits"""
    events: tuple[str, ...] = ()
    """empty for what somebody said through ``ctx`` and for what an imported bundle says"""
    longer: tuple[str, ...] = ()
    """the same with more of what it quotes, the longest first, for where there is room; empty where that is all"""


class Block(NamedTuple):
    """The text, its tokens, what it states, and what did not fit."""

    text: str
    tokens: int
    dropped: list[str]
    """what the left-out lines are about"""
    lines: tuple[Line, ...] = ()


def lines_of(state: SessionState) -> list[Line]:
    """Return what a new chat is told, in order: what was asked and decided, what was changed and checked, what is to do, how it ended.

    Nothing is stated without an event that shows it, but for what somebody said.
    """
    made = [*_task_lines(state)]
    if fork := state.forked_from:
        text = f"Forked from {state.host} {fork.text}; how that session stood: ctx session status {fork.text}"
        made.append(Line("task", text, 93, _shown_by(fork)))
    if state.subagents_only:
        who = {0: "its subagents", 1: "one subagent"}.get(state.subagents, f"its {state.subagents} subagents")
        made.append(Line("task", f"Of this session only what {who} did is recorded", 96))
    said = {i.event for i in (state.asked_first, state.asked_before, state.asked_last, state.said_last, state.replied) if i and i.event}
    decided = [i for i in state.decisions if i.event not in said][:_ITEMS]
    made += [Line("decisions", f"Decided: {item_line(i)}", 60 - n, _shown_by(i)) for n, i in enumerate(decided)]
    if changed := worked_on(state.modified):
        many, few = (_files_line(state, changed, most) for most in (_FILES, _FEW_FILES))
        shown = tuple(f.event for f in changed[:_FILES] if f.event)
        made.append(Line("files", few, 75, shown, (many,) if many != few else ()))
    elif (read := worked_on(state.read, _SKILL)[:_ITEMS]) or (state.unseen_agents and state.answer):
        paths = f"; read: {', '.join(cut(f.path, SHORT) for f in read)}" if read else ""
        shown = tuple(f.event for f in read if f.event) if read or not state.answer else _shown_by(state.answer)
        made.append(Line(LOOKED, f"No changed file is recorded{state.unseen_changes}{paths}", 20, shown))
    stated = [i for i in state.findings if i.stated or i.by == BUNDLE]
    made += [Line("findings", f"Found: {item_line(i)}", 55 - n) for n, i in enumerate(stated[:_ITEMS])]
    # one command line that did several checks is told once, but for those that ended otherwise
    checks: dict[tuple[str, str], CheckRun] = {}
    for check in state.checks or ([state.tests] if state.tests else []):
        checks.setdefault((check.command, check.result), check)
    made += [_check_line(check, n) for n, check in enumerate(checks.values())]
    made += _commit_lines(state)
    if outside := state.outside_shown:
        stood = "; ".join(cut(i.text, BLOCK_TEXT) for i in outside)
        made.append(Line("commit", f"{stood[:1].upper()}{stood[1:]}", 66, tuple(i.event for i in outside if i.event)))
    if not (state.checks or state.tests or state.hooks_ran) and any(not _DOCUMENT.search(f.path) for f in state.modified):
        made.append(
            Line(ABSENT, "No test, type check, linter or build is recognized among its commands", 40, (state.modified[0].event or "",))
        )
    if state.next_steps:
        steps = "; ".join(cut(i.text, SHORT) for i in state.next_steps[:_ITEMS])
        more = f" and {len(state.next_steps) - _ITEMS} more" if len(state.next_steps) > _ITEMS else ""
        made.append(Line("next_steps", f"Still to do: {steps}{more}", 72, tuple(i.event for i in state.next_steps[:_ITEMS] if i.event)))
    made += _ending_lines(state)
    return made


def _ending_lines(state: SessionState) -> Iterator[Line]:
    """Yield how a session ended, and what its subagents gave."""
    if state.answer:
        longer = tuple(_answer_line(state, item.text) for item in state.answer_longer)
        yield Line("answer", _answer_line(state, state.answer.text), 74, _shown_by(state.answer), longer)
    elif state.last_call:
        became = state.last_call.text.replace("the last one", "the last tool call", 1)
        yield Line("answer", f"No answer is recorded; {became}", 74, _shown_by(state.last_call))
    if state.recap:
        yield Line("answer", f"Its own recap: “{cut(state.recap.text, _TASK)}”", 71, _shown_by(state.recap))
    if others := state.orders[:_ITEMS]:
        asked = "; ".join(f"“{cut(i.text, SHORT)}”" for i in others)
        yield Line("answer", f"Other subagents that answered were asked: {asked}", 36, tuple(i.event for i in others if i.event))
    if given := state.delivered:
        yield Line("answer", f"{given.reason}: “{given.text}”", 73, _shown_by(given))


def _commit_lines(state: SessionState) -> Iterator[Line]:
    """Yield the last commit and that nothing sent it, or that none was made."""
    branch = state.on_branch
    if state.commit:
        commit, since = f"Last commit: {state.commit.text}", state.commit.reason
        yield Line("commit", commit, 68, _shown_by(state.commit), (f"{commit} ({since})",) if since else ())
        if state.unsent and not any(" ahead of " in item.text for item in state.outside):
            yield Line(ABSENT, "No push of that commit is recorded", 39, _shown_by(state.commit))
    elif state.uncommitted:
        began = f"; it began on the branch {cut(state.branch, SHORT)}" if state.branch else ""
        shown = tuple(filter(None, (state.modified[0].event, branch.event if branch else None)))
        yield Line(ABSENT, f"It did not run git commit{f'; it {branch.text}' if branch else began}", 38, shown)
    elif state.own_uncommitted:
        yield Line(ABSENT, "Its own thread did not run git commit", 38, (state.modified[0].event or "",))


def _files_line(state: SessionState, changed: Sequence[FileState], most: int) -> str:
    more = f" and {len(changed) - most} more" if len(changed) > most else ""
    paths = ", ".join(f"{cut(f.path, SHORT)}{' (deleted)' if f.deleted else ''}" for f in changed[:most])
    return f"Changed files, the last first: {paths}{more}{state.unseen_changes}"


def _of_part(line: Line) -> Line:
    """Return a line of a part of a session: other files may have been changed in the rest."""
    text, *longer = (t.replace("files", "files in the part that was read", 1) for t in (line.text, *line.longer))
    return line._replace(text=text, longer=tuple(longer)) if line.about == "files" else line


def worked_on(files: Sequence[FileState], *beside: re.Pattern[str]) -> list[FileState]:
    """Return files without git's own and the plans in a folder of an agent's own, where there are others too."""
    return [f for f in files if not any(one.search(f.path) for one in (_GIT, _PLAN, *beside))] or list(files)


_GIT = lazy_pattern(r"(?:^|[\\/])\.git[\\/]")
_PLAN = lazy_pattern(r"^(?:/|~/|[A-Za-z]:[\\/]).*[\\/]\.[\w-]+[\\/]plans[\\/][^\\/]+\.md$")
_SKILL = lazy_pattern(r"^(?:/|~/|[A-Za-z]:[\\/]).*[\\/]\.[\w-]+[\\/](?:skills|plugins)[\\/].+\.md$")
"""An order of an agent's own, which it reads before it begins with the work."""

_DOCUMENT = lazy_pattern(
    r"(?i)(?:\.(?:md|mdx|markdown|rst|txt|adoc|json|jsonc|ya?ml|toml|ini|cfg|conf|lock|csv|svg)|(?:^|/)(?:licen[cs]e|notice|authors|changelog|readme|codeowners))$"
)
"""A text, settings or data: a file that no test and no linter of code speaks of."""


def _answer_line(state: SessionState, text: str) -> str:
    quoted = f"“{text}”" if text else "not quoted here, since words of it stand in what tools printed"
    if state.subagents_only or state.answer_of_subagent:
        order = f", which its agent asked “{cut(state.answer.reason, BLOCK_TEXT)}”" if state.answer and state.answer.reason else ""
        return f"The last answer of a subagent{order}: {quoted}"
    ended = f"; {state.last_call.text}" if state.last_call else ""
    if state.calls_since:
        calls = "the last tool call" if state.calls_since == 1 else f"the last {state.calls_since:,} tool calls"
        return f"No answer follows {calls}{ended}; {'the answer to an earlier prompt' if state.asked_since else 'said before'}: {quoted}"
    if state.unanswered:
        return f"What was said last has no answer{ended}; the answer before: {quoted}"
    return f"The last answer{ended}: {quoted}"


def _task_lines(state: SessionState) -> Iterator[Line]:
    first, last, task = state.asked_first, state.asked_last, state.task
    asked = {i.event for i in (first, last, state.asked_before) if i}
    between = task is not None and task.by == "prompt" and task.event not in asked
    if task and (task.stated or task.by in ("plan", BUNDLE)):
        approved = "Approved plan" if task.by == "plan" else "Task"
        text = task.text.removeprefix("Plan: ") if task.by == "plan" else task.text
        yield Line("task", f"{approved}: {cut(text, BLOCK_TEXT)}", 100, _shown_by(task))
    several = last or between or state.asked_before or state.said_last or state.replied
    again = state.asked_again
    if first:
        when = " first and last" if again else " first" if several else ""
        asked_again = _shown_by(last) if again and last else ()
        yield from (line._replace(events=(*line.events, *asked_again)) for line in _asked(state, first, when, 95))
    if task and between:
        yield from _asked(state, task, " later" if first else "", 92)
    if state.asked_before:
        yield from _asked(state, state.asked_before, " before", 88)
    if state.replied:
        yield Line("task", f"Replied before: “{cut(state.replied.text, SHORT)}”{offer(state.replied)}", 87, _shown_by(state.replied))
    if last and not again:
        yield from _asked(state, last, " last", 90, offer(last))
    said = state.said_last
    if said and (offer(said) or not (_PICK.fullmatch(said.text) or _AGREES.fullmatch(said.text))):
        yield Line("task", f"Said last{_refusing(said)}: “{cut(said.text, SHORT)}”{offer(said)}", 89, _shown_by(said))


def _asked(state: SessionState, item: Item, when: str, worth: int, answers: str = "") -> Iterator[Line]:
    """Yield what the person asked for; nothing for the plan that the task is, of which the person typed no word."""
    if item.by != "plan":
        few, *more = dict.fromkeys(shorten_ask(item.text, width) for width in (_ASK, BLOCK_TEXT, _TASK))
        said = [f"Asked{when}{_refusing(item)}: {_quoted(text)}{answers}" for text in (few, *reversed(more))]
        yield Line("task", said[0], worth, _shown_by(item), tuple(said[1:]))
    elif state.task is None or state.task.event != item.event:
        yield Line("task", f"Approved a plan{when}: {cut(item.text, BLOCK_TEXT)}", worth, _shown_by(item))


def _quoted(text: str) -> str:
    """Return a request in quotation marks, without what is ours of one that is nothing but a pasted output."""
    ours = _PASTED.match(text)
    return f"{ours[0]}“{text[ours.end() :]}”" if ours else f"“{text}”"


_PASTED = lazy_pattern(r"pasted output (?:ending in|with): ")
_PICK = lazy_pattern(r"\W*(?:\d{1,2}|[A-Za-z])\W*")
"""A choice among things that are not told."""

_AGREES = lazy_pattern(
    r"(?i)\W*(?:(?:yes|yep|yeah|y|ok(?:ay)?|sure|please|right|correct|exactly|no|nope|thanks?|you|thank|so|very|much|really|well|done"
    r"|excellent|great|good|nice|perfect|awesome|amazing|fantastic|wonderful|brilliant|lovely|cool|work|job|all|that|it'?s?|is|looks?)\b\W*)+"
)
"""An answer to a question, which says nothing without it, and praise."""


def offer(item: Item) -> str:
    """Return the question of the agent that a few words of the person answer, as they go on; empty where there is none."""
    return f" to “{cut(item.reason, SHORT)}”" if item.reason and item.by != REFUSAL else ""


def _refusing(item: Item) -> str:
    return f", refusing {cut(item.reason or 'a call', SHORT)}" if item.by == REFUSAL else ""


def _check_line(check: CheckRun, place: int) -> Line:
    why = f" with “{cut(check.why, SHORT)}”" if check.why and not check.ok else ""
    kind = {"test": "test run", "types": "type check", "lint": "lint or format run", "build": "build"}.get(check.purpose, "check")
    by = f", in the {check.hook} hook" if check.hook else ", by the person" if check.by_person else ""
    return Line(
        "tests", f"Last {kind}{by}: `{cut(check.command, SHORT)}` {check.outcome}{why}{check.aged}", 70 - 10 * place, (check.event or "",)
    )


def _shown_by(item: Item) -> tuple[str, ...]:
    return (item.event,) if item.event else ()


def block(
    state: SessionState,
    count: Callable[[str], int],
    budget: int = BLOCK_BUDGET,
    *,
    safe: Callable[[str], str | None] = lambda text: text,
    beside: Sequence[str] = (),
    whole: bool = True,
    profile: Profile = BUILT_INS[DEFAULT],
    zone: str | None = None,
) -> Block:
    """Return the block of a state, at most ``budget`` tokens as ``count`` counts them.

    Lines are chosen by worth: one too large is left out, a smaller one may still fit.
    ``safe`` gives a line as it may be told, or None for one that may not. ``beside`` are
    lines that stand at the end: how to resume the session, who else worked here. Of a
    state of a part of a session (not ``whole``) nothing is said not to have been done, and its files are those of the part. ``zone`` is
    that of its time. A profile says which parts stay first and which are not told; the task is always one of them.
    """
    title = f", “{cut(state.title, 80)}”" if state.title and state.titled and not _begins(state) else ""
    head = f"Where the work on {cut(state.project or state.session_id, 60)} stood ({state.host}, {time_of(state.as_of, zone)}{title}):"
    said_of = [line if whole else _of_part(line) for line in lines_of(state) if whole or line.about not in (ABSENT, LOOKED)]
    said_of = [line for line in said_of if line.about == "task" or line.about not in profile.leave_out]
    first = {*profile.keep_first, "task"}
    said_of = [line._replace(worth=line.worth + _FIRST) if line.about in first else line for line in said_of]
    # how to go on from here is one line, and stays
    told = [*said_of, *(Line("beside", text, 94 if not n else 35 - n) for n, text in enumerate(beside))]
    lines = [line._replace(text=said) for line in told if (said := safe(line.text)) is not None]
    head = safe(head) or f"Where the last session stood ({state.host}):"
    left = budget - count(head + "\n")
    kept: set[int] = set()
    for n in sorted(range(len(lines)), key=lambda n: -lines[n].worth):
        cost = count(f"- {lines[n].text}\n")
        if cost <= left:
            kept.add(n)
            left -= cost
    growing = sorted(kept, key=lambda n: (lines[n].about != "answer", -lines[n].worth))
    while growing:  # each a step at a time, how the work ended first
        n = growing.pop(0)
        *rest, more = lines[n].longer or ("",)
        told_longer = safe(more) if more else None
        cost = count(f"- {told_longer}\n") - count(f"- {lines[n].text}\n") if told_longer else left
        if told_longer and cost <= left - _SPARE:
            lines[n] = lines[n]._replace(text=told_longer, longer=tuple(rest))
            left -= cost
            growing.append(n)
    while kept:
        text = "\n".join([head, *(f"- {lines[n].text}" for n in sorted(kept))]) + "\n"
        tokens = count(text)
        if tokens <= budget:  # what stands side by side may be split into other tokens than what stands alone
            dropped = [lines[n].about for n in range(len(lines)) if n not in kept]
            return Block(text, tokens, dropped, tuple(lines[n] for n in sorted(kept)))
        kept.discard(min(kept, key=lambda n: lines[n].worth))
    return Block("", 0, [line.about for line in lines])


def _begins(state: SessionState) -> bool:
    """Tell whether the title is the beginning of what was asked."""
    asked = " ".join((state.asked_first.text if state.asked_first else "").lower().split())
    return " ".join((state.title or "").lower().split()).rstrip("….")[:60] in asked


def item_line(item: Item) -> str:
    """Return an item with its place in front of it and its reason behind it."""
    place = f"{item.place}: " if item.place else ""
    why = f" (because {cut(item.reason, SHORT)})" if item.reason else ""
    return f"{place}{cut(item.text, BLOCK_TEXT)}{why}"
