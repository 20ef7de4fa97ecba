"""A context: a tree that is changed place by place, sealed into a history, and read by selectors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.errors import AmbiguousKey, InvalidPlacement, NothingThere, ReadOnlyHistory
from ctx_pipeline.context.tree.changes import UpdateResult, changed, committed, deleted, inserted
from ctx_pipeline.context.tree.component import Component, Node, TextContent, node_at, place_of
from ctx_pipeline.context.tree.dump import dumped, loaded
from ctx_pipeline.context.tree.history import History
from ctx_pipeline.context.tree.new_nodes import empty
from ctx_pipeline.context.tree.selectors.evaluation import matched
from ctx_pipeline.context.tree.selectors.parsing import parse
from ctx_pipeline.errors import CtxError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctx_pipeline.context.tree.tree import Tree


def provider_thread(tree: Tree) -> list[dict[str, Any]]:
    """Return the blocks as ``{id, role, kind, content}``: system header, turns from the oldest, active head.

    In each turn what stands before the core, the core, what stands after it. A block
    without a role has the role system in the system header and user in a turn; one
    without a kind is text.
    """
    view = tree.view
    thread = []
    for place, record in enumerate(view.records):
        if record.structure != "block" or record.body is None:
            continue
        role = record.role or ("system" if view.depths[place] == -1 else "user")
        thread.append({"id": record.id, "role": role, "kind": record.kind or "text", "content": record.content})
    return thread


_END = 1_000_000
"""An offset beyond any other: the next free one."""


class Context:
    """The context of an agent as a PACT tree: system header, sealed turns, active head.

    Depth -1 is the system header, 0 the active head, 1 the newest sealed turn. Places are
    written ``"d0, 1, 0"`` or ``[0, 1, 0]``, selectors as PACT has them. What a place or a
    selector gives is a :class:`Node`, which stays as it was read.
    """

    def __init__(self, *, history: ContextHistory | None = None) -> None:
        self._tree = empty()
        self._episode = 0
        self._history = history
        self._sealed_in: int | None = None
        self._lock = threading.RLock()

    # -- reading -----------------------------------------------------------------------

    @property
    def current_episode(self) -> int:
        """The number of the newest snapshot that this context made or came from; 0 before the first."""
        return self._episode

    @property
    def cycle(self) -> int:
        """How many commits there were; ttl and cadence count in these."""
        return self._tree.cycle

    @property
    def read_only(self) -> bool:
        """Whether this is a context out of the history."""
        return self._sealed_in is not None

    @property
    def history(self) -> ContextHistory:
        """The history that :meth:`seal` writes to; made when it is first asked for."""
        if self._history is None:
            self._history = ContextHistory()
        return self._history

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Turns, containers and components by their ids, in canonical order; the regions are left out."""
        return Nodes(self._tree)

    def __getitem__(self, place: Any) -> Node:
        """Return the one node at a place or of a selector. Raises NothingThere (a KeyError) and AmbiguousKey."""
        steps = place_of(place)
        if steps is not None:
            return self._node(node_at(self._tree, steps))
        found = self.find(place)
        if not found:
            raise NothingThere(f"nothing matches {place!r}", selector=place)
        if len(found) > 1:
            raise AmbiguousKey(f"{len(found)} nodes match {place!r}", hint="narrow it, or use find() for all of them", selector=place)
        return found[0]

    def __contains__(self, place: object) -> bool:
        try:
            self[place]
        except LookupError:
            return False
        return True

    def __repr__(self) -> str:
        sealed = ", read-only" if self.read_only else ""
        return f"<Context at episode {self._episode}, turns {len(self)}, nodes {len(self._tree.nodes)}{sealed}>"

    def __len__(self) -> int:
        """Return how many turns there are, the active head included."""
        return 1 + sum(1 for _ in self._tree.children(self._tree.seq))

    def get_by_key(self, key: str) -> Node | None:
        """Return the newest component of a key, or None."""
        found = self._tree.keys.get(key, ())
        return self._node(max(found, key=lambda node_id: self._tree.nodes[node_id].order)) if found else None

    def get_by_tags(self, tags: Iterable[str] | str, *, match: str = "all") -> list[Node]:
        """Return the components that have all of the tags (``match="any"``: one of them), in canonical order."""
        wanted = [tags] if isinstance(tags, str) else list(tags)
        view = self._tree.view
        sets = [set(view.by_tag.get(tag, ())) for tag in wanted]
        places = set.union(*sets) if match == "any" and sets else set.intersection(*sets) if sets else set()
        return [self._node(view.records[place].id) for place in sorted(places)]

    def select(self, selector: str, **options: Any) -> Any:
        """Return the ids of the nodes that a selector means, in canonical order.

        A selector over a range of time (``@t0..@t-3``) gives the differences between its
        snapshots instead; options ``include_content``, ``content_mode`` and ``context_lines``
        shape them. Raises InvalidSelector and, for a time that is not there, UnknownSnapshot.
        """
        query = parse(selector)
        if query.ranged or query.every or any(m.kind == "c" or m.value != 0 for m in query.moments):
            return self.history.select(query, self, **options)
        view = self._tree.view
        return [view.records[place].id for place in matched(view, query)]

    def find(self, selector: str) -> list[Node]:
        """Return the nodes that a selector means, in canonical order: of now, or of the one snapshot that it names.

        Raises UsageError for a selector of several snapshots, which :meth:`select` takes.
        """
        query = parse(selector)
        tree = self.history.tree_of(selector, self) if query.timed else self._tree
        view = tree.view
        return [Node(tree, view.records[place]) for place in matched(view, query)]

    def provider_thread(self) -> list[dict[str, Any]]:
        """Return the messages a provider gets, without committing anything."""
        return provider_thread(self._tree)

    # -- changing ----------------------------------------------------------------------

    def pact_insert(self, selector: Any, component: Component | str) -> UpdateResult:
        """Insert a component at a place, or after what a selector names; what stands there moves outward.

        Raises InvalidPlacement, NothingThere, OverlapWouldViolateODI when an instance of
        the key stands as high, and ConflictingUpdate for a sealed core.
        """
        with self._changing("pact_insert"):
            self._tree, result = inserted(self._tree, selector, component)
            return result

    def pact_update(
        self, selector: Any, component: Component | str | None = None, mode: str = "replace", content: Any = None
    ) -> UpdateResult:
        """Replace what a place or selector names by a component, or only its content; ``mode="append"`` inserts behind it."""
        with self._changing("pact_update"):
            self._tree, result = changed(self._tree, selector, component, mode, content)
            return result

    def pact_delete(self, selector: Any = None, *, key: str | None = None, id: str | None = None) -> UpdateResult:  # noqa: A002 - the documented name
        """Delete what a place, selector, key or id names; a tool call and its result go together."""
        with self._changing("pact_delete"):
            self._tree, result = deleted(self._tree, selector, key=key, node_id=id)
            return result

    def add_system(self, content: str, **fields: Any) -> Node:
        """Add a text to the system header."""
        return self._added((-1, _END), TextContent(content, role="system", **fields))

    def add_user(self, content: str, **fields: Any) -> Node:
        """Add what the user says to the message of the active head."""
        return self._added((0, 0), TextContent(content, **{"role": "user", **fields}))

    def add_assistant(self, content: str, **fields: Any) -> Node:
        """Add what the assistant answers to the message of the active head."""
        return self._added((0, 0), TextContent(content, **{"role": "assistant", **fields}))

    def add(self, component: Component) -> Node:
        """Add a component to the message of the active head."""
        return self._added((0, 0), component)

    def seal(self, trigger: str) -> int:
        """Keep the state of now as a snapshot and return its episode; no turn moves and nothing ages.

        The episode is advanced first, so that ids are unique in a history and equal
        :attr:`current_episode`.
        """
        with self._changing("seal"):
            self._episode = self.history.record(self._tree, trigger, after=self._episode)
            return self._episode

    def commit(self, trigger: str = "commit") -> int:
        """End a cycle: expire, seal the active head into a turn, bring back what recurs; keep a snapshot and return its episode."""
        with self._changing("commit"):
            self._tree = committed(self._tree)
            return self.seal(trigger)

    def render(self) -> list[dict[str, Any]]:
        """Return the messages a provider gets, and commit."""
        with self._changing("render"):
            thread = self.provider_thread()
            self.commit("render")
            return thread

    # -- copies ------------------------------------------------------------------------

    def model_dump(self) -> dict[str, Any]:
        """Return the whole context as a JSON object; equal contexts give equal objects."""
        return dumped(self._tree, self._episode)

    def to_json(self) -> str:
        """Return :meth:`model_dump` as JSON text, the same bytes for the same context."""
        return json.dumps(self.model_dump(), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any] | str | bytes) -> Context:
        """Return a new context from ``snapshots[n]["context"]``, from :meth:`model_dump`, or from their JSON.

        Raises SchemaTooNew for a newer version, and DuplicateContainer, ConflictingUpdate or
        InvalidPlacement for a tree that cannot be.
        """
        try:
            tree, episode = loaded(json.loads(snapshot) if isinstance(snapshot, (str, bytes)) else snapshot)
        except CtxError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError, RecursionError) as error:
            raise InvalidPlacement(
                f"this is no snapshot: {error}", hint="pass snapshots[n]['context'], model_dump() or their JSON"
            ) from error
        return cls._of(tree, episode)

    @classmethod
    def _of(cls, tree: Tree, episode: int, history: ContextHistory | None = None, *, sealed: bool = False) -> Context:
        made = cls(history=history)
        made._tree, made._episode = tree, episode
        made._sealed_in = episode if sealed else None
        return made

    def attach(self, history: ContextHistory) -> None:
        """Write to another history from now on."""
        self._history = history

    def _node(self, node_id: str) -> Node:
        return Node(self._tree, self._tree.record(node_id))

    def _added(self, place: tuple[int, ...], component: Component) -> Node:
        return self._node(self.pact_insert(place, component).updated_components[0].id)

    def _changing(self, what: str) -> threading.RLock:
        if self._sealed_in is not None:
            raise ReadOnlyHistory(what, self._sealed_in)
        return self._lock


class ContextHistory(History):
    """The snapshots of a context by episode. With a path they are also appended to a file, and read from it when it exists.

    The file holds one JSON object a line, with only what changed since the snapshot
    before; half a last line (a crash) is set aside, any other damage raises StoreDamaged.
    Safe for threads; with a path also for processes.
    """

    def at_snapshot(self, episode: int) -> Context:
        """Return the context as it was, read-only. Raises UnknownSnapshot, a KeyError that names the nearest."""
        found = self.snapshot(episode)
        return Context._of(found.tree, found.episode, self, sealed=True)  # noqa: SLF001 - the two are one design

    @classmethod
    def from_session(
        cls, host: str, session_id: str, *, thread: str | None = None, at: str | int | None = None, settings: Any = None
    ) -> ContextHistory:
        """Return the context window of a captured session as a history: a snapshot at every turn and around every compaction.

        ``session_id`` may be the first characters of an id, ``thread`` names a subagent's or
        fork's window, ``at`` the moment at which the history ends (an event's ``seq`` or id,
        ``turn:3``, ``after-compaction:1``). Needs a store made by ``ctx run``; the rest of
        the class does without one. Raises UnknownName and UsageError.
        """
        # by its public name: the context library imports nothing of the layers above it
        from ctx_pipeline import window_history

        found: ContextHistory = window_history(host, session_id, thread=thread, at=at, settings=settings)
        return found


class Nodes(Mapping[str, Node]):
    """The nodes of a tree by id, without the regions."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __getitem__(self, node_id: str) -> Node:
        return Node(self._tree, self._tree.record(node_id))

    def __iter__(self) -> Iterator[str]:
        return (r.id for r in self._tree.view.records if r.structure not in {"root", "sys", "seq", "ah"})

    def __len__(self) -> int:
        return sum(1 for _ in self)
