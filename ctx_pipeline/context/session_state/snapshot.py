"""A session's state as XML within a byte budget: what matters first, what had to go named, with questions that bring it back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from ctx_pipeline.model.display import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.context.session_state.state import Item, SessionState

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

_NO_WORD = re.compile(r"[^\w.-]+")
"""What a shell might read as more than a word."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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


@dataclass(frozen=True)
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


def snapshot(state: SessionState, budget: int = BUDGET) -> Snapshot:
    """Return the snapshot of a state, valid XML of at most ``budget`` bytes (at least 512).

    Tiers are filled in order, each with the subset of its items that is worth most and
    fits; what a tier leaves over goes to those behind it, and what is left at the end to
    what had been left out. Texts are escaped and cut to a few lines.
    """
    budget = max(budget, LEAST)
    head = _head(state)
    tiers = _pieces(state)
    room = budget - len(f"{head}\n</session_snapshot>\n".encode())
    everything = [p for tier in tiers for p in tier]
    if sum(_size(tier) for tier in tiers) <= room:
        return _made(head, everything, [], [])
    room -= _reserve(state)
    kept: list[Piece] = []
    for tier, share in zip(tiers, _SHARES, strict=True):
        chosen = _best(tier, int((room - _size(kept)) * share))
        kept += chosen
    left = _best([p for p in everything if p not in kept], room - _size(kept), opened={p.section for p in kept})
    chosen_ones = {id(p) for p in (*kept, *left)}
    kept = [p for p in everything if id(p) in chosen_ones]
    gone = [p for p in everything if id(p) not in chosen_ones]
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
    made = [[*_of_task(state.task), *_of_files(state)], [], [], []]
    for name, items, base in (("decisions", state.decisions, 5.0), ("findings", state.findings, 4.0), ("progress", state.progress, 2.0)):
        made[1] += [_of_item(name, n, item, base) for n, item in enumerate(items)]
    if state.tests is not None:
        t = state.tests
        told = {"command": t.command, "result": t.counts, "failed_with": t.why if not t.ok else "", "stale": "yes" if t.stale else ""}
        inside = " ".join(f"{name}={attribute(value, _STEP)}" for name, value in told.items() if value)
        made[2].append(Piece("tests", f"<tests {inside}/>", 9.0, t.command))
    made[2] += [
        Piece("next_steps", f"<step>{element(i.text, _STEP)}</step>", 6.0 / (n + 2) + 2, i.text) for n, i in enumerate(state.next_steps)
    ]
    figures = " ".join(f"{name}={attribute(str(count), 20)}" for name, count in state.stats.items())
    if figures:
        made[3].append(Piece("stats", f"<stats {figures}/>", 1.0, "figures"))
    return made


def _of_task(task: Item | None) -> list[Piece]:
    if task is None:
        return []
    return [Piece("task", f"<task source={attribute(task.by, 20)}>{element(task.text, _TASK)}</task>", 100.0, "task")]


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
    told = {"at": item.place, "why": item.reason or "", "by": item.by if item.told else ""}
    inside = "".join(f" {name}={attribute(value, _STEP)}" for name, value in told.items() if value)
    value = base * (3 if item.told else 1) / (1 + n / 10)
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
        for size in range(room, piece.size - 1, -1):
            with_it = worth[size - piece.size] + piece.value
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
    return escape(cut(_NOT_XML.sub("", text), longest))


def attribute(text: str, longest: int) -> str:
    """Return a text as a quoted attribute, likewise."""
    return quoteattr(cut(_NOT_XML.sub("", text), longest))
