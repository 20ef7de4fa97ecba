"""The context window of a recorded session, played again event by event."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctx_pipeline.context.tree.blocks import appended, without_all
from ctx_pipeline.context.tree.changes import committed
from ctx_pipeline.context.tree.context import ContextHistory
from ctx_pipeline.context.tree.new_nodes import empty
from ctx_pipeline.context.tree.tree import NONE, Record, ReplayedBirths
from ctx_pipeline.model.codec import row_micros as micros
from ctx_pipeline.model.host_records import OUT, SYSTEM, Change, usual

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ctx_pipeline.context.tree.tree import Tree
    from ctx_pipeline.tokens.tokenizers import Tokenizer

_ROLES = {"answer": "assistant", "reasoning": "assistant", "compaction": "system"}
_KINDS = {"tool_call": ("assistant", "call"), "tool_result": ("tool", "result")}
_BEGIN = frozenset({"answer", "reasoning", "tool_call"})
"""What ends the head of a window that a compaction left: the person or the model goes on."""
_LAST = 1_000_000
UNSEEN = "unseen"
"""Id, key, kind and tag of the node for what no file holds."""


class Sent(NamedTuple):
    """A model call: what it billed for its prompt, and what of that the record holds."""

    seq: int
    """``seq`` of the first event that the call wrote; the prompt is the window before it"""
    window: int
    """compactions before it"""
    billed: int
    counted: int

    @property
    def unseen(self) -> int:
        """Tokens of the prompt that no file holds: system prompt, tool schemas, pictures, hidden reasoning."""
        return max(0, self.billed - self.counted)


class Moment(NamedTuple):
    """A snapshot of a recorded window, and how full the window was."""

    episode: int
    trigger: str
    """its name, as it can be asked for: ``turn:3``, ``after-compaction:1``, ``end``"""
    seq: int
    """``seq`` of the last event that is in it; -1 before the first"""
    at: int | None
    """time of that event, microseconds since 1970"""
    components: int
    tokens: int
    """counted, without what is unseen"""
    sent: Sent | None
    """the call whose bill says how much is unseen: the last one of this window, else its first"""


class Recording(NamedTuple):
    """A window from its first event to its last: a snapshot for each moment, and every model call."""

    history: ContextHistory
    moments: list[Moment]
    calls: list[Sent]


class _Seal(NamedTuple):
    tree: Tree
    trigger: str
    seq: int
    at: int | None
    components: int
    tokens: int
    window: int
    calls: int


class _State(NamedTuple):
    tree: Tree
    added: list[Record]
    """the first ``size`` of them were added to the tree"""
    size: int
    turn: int
    window: int


def replay_window(
    events: Iterable[Any],
    *,
    effect: Callable[[Any], str | Change] | None = None,
    begins: Callable[[Any], bool] | None = None,
    billed: Mapping[str, int] | None = None,
    tools: Mapping[str, str] | None = None,
    tokenizer: Tokenizer | None = None,
    upto: int | None = None,
    marks: Collection[int] = (),
    before: Collection[int] = (),
) -> Recording:
    """Return the window of one thread with a snapshot at every turn, before and after every compaction, and at the end.

    ``events`` are rows of the table ``events`` in order, ``upto`` the last ``seq`` to play;
    ``marks`` and ``before`` are further ``seq`` to take a snapshot after and before. The
    triggers are names: ``turn:N`` (its end), ``before-compaction:N``, ``after-compaction:N``,
    likewise for clearing, rollback and rewind, a ``seq``, ``seen-by:SEQ``, ``start``, ``end``.
    ``effect`` says what an event does to the window, ``begins`` whether it begins a turn
    (without it each prompt does), ``billed`` maps a model call to the tokens of its prompt,
    ``tools`` an event to the name of its tool.

    What begins a turn and answers an earlier one takes back those in between. A node has
    the id of its event and carries ``data_seq``, ``data_tokens`` and, for tools,
    ``data_tool`` and ``tool_call_id``. What no file holds is one node ``unseen`` in the
    system header, as large as the call billed more than was counted. Playing the same
    events again gives the same trees.
    """
    steps = [(e, effect(e) if effect else usual(e.kind, e.text)) for e in events if upto is None or e.seq <= upto]
    begin = begins or _is_prompt
    first = {e.event_id: e.parent_id for e, does in steps if does and begin(e)}
    player = _Player(first, billed or {}, tools or {}, _weights(steps, tools or {}, tokenizer))
    wanted_before, wanted_after = set(before), set(marks)
    for event, does in steps:
        if event.seq in wanted_before:
            player.seal("start" if player.seq < 0 else f"seen-by:{event.seq}")
        player.play(event, does)
        if event.seq in wanted_after:
            player.seal(str(event.seq))
    return player.finished()


class _Player:
    """One pass over the events; trees are values, and what only adds to one is put into it when the tree is asked for."""

    def __init__(
        self, first: Mapping[str, str | None], billed: Mapping[str, int], tools: Mapping[str, str], weights: Mapping[str, int]
    ) -> None:
        """``first`` are the events that begin a turn, each with the one that it answers."""
        self.births = ReplayedBirths()
        self._first, self._come_back_to = first, set(first.values())
        self.billed, self.tools, self.weights = billed, tools, weights
        self._tree: Tree | None = None
        self._added: list[Record] = []
        """what came since into the tree, in order"""
        self._core = ""
        """the container that a turn's blocks stand in"""
        self.seq = -1
        self.at: int | None = None
        self.turn = self.window = self.components = self.tokens = 0
        self.calls: list[Sent] = []
        self.seals: list[_Seal] = []
        self._named: Counter[str] = Counter()
        self._by_window: dict[int, list[int]] = {}
        """compactions before -> places of the calls in ``calls``"""
        self._measured: set[str] = set()
        self._states: dict[str, _State] = {}
        self._compacted = False
        self._answered = False
        """somebody but the person spoke in the active turn"""

    def play(self, event: Any, does: str | Change) -> None:
        at = micros(event.ts)
        if at is not None:
            self.births.at_ns = at * 1000
        begins = event.event_id in self._first
        if self._compacted and (isinstance(does, Change) or begins or (does and event.kind in _BEGIN)):
            self._after_compaction()
        self._measure(event)
        if begins:
            self._turn(event)
        if isinstance(does, Change):
            self._change(event, does)
        elif does != OUT:
            self._add(event, does, event.text)
        self.seq = event.seq
        if at is not None and (does != OUT or self.at is None):
            self.at = at  # notes of the host, which it may write when the next turn begins, end no turn
        tree = self._begun()
        if event.event_id in self._come_back_to:
            self._states[event.event_id] = _State(tree, self._added, len(self._added), self.turn, self.window)

    @property
    def tree(self) -> Tree:
        """The window of now."""
        tree = self._begun()
        return self._set(appended(tree, self._added)) if self._added else tree

    def _set(self, tree: Tree) -> Tree:
        self._tree, self._added = tree, []
        self._core = tree.at_offset(tree.head, 0)[0]
        return tree

    def seal(self, trigger: str) -> None:
        """Keep the window of now."""
        self.seals.append(_Seal(self.tree, trigger, self.seq, self.at, self.components, self.tokens, self.window, len(self.calls)))

    def seal_next(self, kind: str) -> None:
        """Keep the window of now as the next of a kind of moment."""
        self._named[kind] += 1
        self.seal(f"{kind}:{self._named[kind]}")

    def finished(self) -> Recording:
        """Return the history; what was unseen is known only now, from the calls before and after each moment."""
        if self._compacted:
            self._after_compaction()
        self.seal("end")
        history = ContextHistory()
        moments = []
        for seal in self.seals:
            sent = self._sent(seal)
            tree = seal.tree if sent is None else _with_unseen(seal.tree, sent)
            episode = history.record(tree, seal.trigger, at=(seal.at or 0) / 1_000_000)
            moments.append(Moment(episode, seal.trigger, seal.seq, seal.at, seal.components, seal.tokens, sent))
        return Recording(history, moments, self.calls)

    def _begun(self) -> Tree:
        return self._tree if self._tree is not None else self._set(empty(self.births))

    def _sent(self, seal: _Seal) -> Sent | None:
        before, after = seal.calls - 1, seal.calls
        mine = self._by_window.get(seal.window, [])
        at = bisect_left(mine, seal.calls)
        chosen = mine[at - 1] if at else mine[0] if mine else before if before >= 0 else after
        return self.calls[chosen] if chosen < len(self.calls) else None

    def _measure(self, event: Any) -> None:
        key = event.call_key
        if key is None or key in self._measured:
            return
        self._measured.add(key)
        if self.billed.get(key):
            self._by_window.setdefault(self.window, []).append(len(self.calls))
            self.calls.append(Sent(event.seq, self.window, self.billed[key], self.tokens))

    def _turn(self, event: Any) -> None:
        """Begin the turn of a prompt: in an earlier tree when it answers an earlier turn, else behind the turn before it."""
        answered = self._states.get(event.parent_id or "")
        if answered is not None and answered.turn < self.turn:
            self.seal_next("before-rewind")
            self.window = answered.window
            then, tree = appended(answered.tree, answered.added[: answered.size]), self.tree
            self._count(self._set(replace(then, cycle=tree.cycle, last_ns=tree.last_ns, index=tree.index, cache=[])))
        if self._answered:
            self._answered = False
            self._set(committed(self.tree))
            self.seal_next("turn")
        self.turn += 1

    def _add(self, event: Any, stands: str, text: str | None) -> None:
        role, kind = _KINDS.get(event.kind) or (_ROLES.get(event.kind, "user"), event.kind)
        if not text and kind not in {"call", "result"}:
            return
        weight = self.weights.get(event.event_id, 0)
        extra: dict[str, Any] = {"data_seq": event.seq, "data_tokens": weight}
        tool = self.tools.get(event.event_id)
        if tool is not None:
            extra["data_tool"] = tool
        if event.call_id is not None:
            extra["tool_call_id"] = event.call_id
        system = stands == SYSTEM
        tree = self._begun()
        last = self._added[-1].created_at_ns if self._added else tree.last_ns
        self._added.append(
            Record(
                event.event_id,
                "block",
                tree.sys if system else self._core,
                cycle=tree.cycle,
                created_at_ns=max(self.births.at_ns, last + 1),
                creation_index=tree.index + len(self._added),
                tags=(event.kind, event.subtype) if event.subtype else (event.kind,),
                role="system" if system else role,
                kind=kind,
                body=text or "",
                born=tree.cycle,
                extra=extra,
            )
        )
        self.components += 1
        self.tokens += weight
        self._answered |= not system and role != "user"

    def _change(self, event: Any, change: Change) -> None:
        tree = self.tree
        if change.everything:
            self.seal_next("before-compaction")
            self._compacted = True
            self.window += 1
            self.turn += 1
            tree = _emptied(tree, _remaining(tree, change))
        if change.turns:
            self.seal_next("before-rollback")
            tree = _taken_back(tree, change.turns)
        if change.results:
            self.seal_next("before-clearing")
            tree = _cleared(tree, set(change.results))
        self._count(self._set(tree))
        if change.text:
            self._add(event, "turn", change.text)
        if change.results or change.turns:
            self.seq = event.seq
            self.seal_next("after-clearing" if change.results else "after-rollback")

    def _after_compaction(self) -> None:
        self.seal_next("after-compaction")
        self._compacted = False

    def _count(self, tree: Tree) -> None:
        self._answered = any(record.role != "user" for record in _blocks(tree, tree.head))
        weights = [r.extra.get("data_tokens", 0) for r in tree.nodes.values() if r.structure == "block"]
        self.components, self.tokens = len(weights), sum(weights)


def _is_prompt(event: Any) -> bool:
    return bool(event.kind == "prompt")


def _weights(steps: list[tuple[Any, str | Change]], tools: Mapping[str, str], tokenizer: Tokenizer | None) -> dict[str, int]:
    """Return event id -> tokens of its text and, for a call, of the tool's name."""
    if tokenizer is None:
        return {}
    texts = {}
    for event, does in steps:
        text = does.text if isinstance(does, Change) else event.text if does != OUT else None
        name = tools.get(event.event_id, "") if event.kind == "tool_call" else ""
        if text or name:
            texts[event.event_id] = f"{name} {text or ''}" if name else text or ""
    return dict(zip(texts, tokenizer.count_many(list(texts.values())), strict=True))


def _blocks(tree: Tree, turn: str) -> list[Record]:
    core = tree.at_offset(turn, 0)
    return [tree.nodes[key] for key, _ in tree.children(core[0])] if core else []


def _turns(tree: Tree) -> list[str]:
    """Return the ids of the sealed turns, oldest first."""
    return list(tree.kids.get(tree.seq, NONE).core)


def _remaining(tree: Tree, change: Change) -> set[str]:
    """Return the ids of what a compaction leaves; of equal texts the newest."""
    wanted = Counter(text for text in change.kept if text)
    kept: set[str] = set()
    if not wanted and not change.keeps_prompts:
        return kept
    for turn in (tree.head, *reversed(_turns(tree))):
        for record in reversed(_blocks(tree, turn)):
            if wanted.get(record.body, 0) > 0:
                wanted[record.body] -= 1
                kept.add(record.id)
            elif change.keeps_prompts and "prompt" in record.tags:
                kept.add(record.id)
    return kept


def _emptied(tree: Tree, kept: set[str]) -> Tree:
    for turn in (*_turns(tree), tree.head):
        blocks = _blocks(tree, turn) if kept or turn == tree.head else []
        if turn != tree.head and not any(record.id in kept for record in blocks):
            tree = tree.without(turn)
            continue
        tree = without_all(tree, [record.id for record in blocks if record.id not in kept])
    return tree


def _taken_back(tree: Tree, turns: int) -> Tree:
    blocks = _blocks(tree, tree.head)
    tree = without_all(tree, [record.id for record in blocks])
    left = turns - 1 if blocks else turns
    for turn in _turns(tree)[::-1][:left]:
        tree = tree.without(turn)
    return tree


def _cleared(tree: Tree, calls: set[str]) -> Tree:
    """Return the tree with the results of calls emptied; the calls stay."""
    for record in list(tree.nodes.values()):
        if record.kind == "result" and record.extra.get("tool_call_id") in calls and record.body:
            extra = {**record.extra, "data_tokens": 0}
            tree = tree.with_record(msgspec.structs.replace(record, body="", tags=(*record.tags, "cleared"), extra=extra))
    return tree


def _with_unseen(tree: Tree, sent: Sent) -> Tree:
    extra = {"data_tokens": sent.unseen, "data_billed": sent.billed}
    first = tree.nodes[tree.root].created_at_ns
    node = Record(UNSEEN, "block", tree.sys, role="system", kind=UNSEEN, key=UNSEEN, tags=(UNSEEN,), extra=extra, created_at_ns=first)
    return tree.placed(node, _LAST)
