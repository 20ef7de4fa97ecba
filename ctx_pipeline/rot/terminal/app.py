"""The application: the feed of sessions and the screen of one, read again while programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Collapsible, ContentSwitcher, DataTable, Footer, Static, Tree

from ctx_pipeline.errors import StoreError
from ctx_pipeline.rot.content import decoded
from ctx_pipeline.rot.terminal import snapshot as drawing
from ctx_pipeline.rot.terminal.snapshot import Snapshot, safe, take

if TYPE_CHECKING:
    from textual.widgets.tree import TreeNode

    from ctx_pipeline.rot.store import Watched
    from ctx_pipeline.rot.terminal.snapshot import Node

REFRESH_SECONDS = 1.0
_SHOWN = 200
"""calls whose texts are listed"""

_COLUMNS = ("Time", "Session", "Model", "Calls", "In", "Out", "Cache%", "Cost", "Duration", "State")
_NUMBERS = frozenset({"Calls", "In", "Out", "Cache%", "Cost", "Duration"})


class Rot(App[None]):
    """Shows callback stores, or one session of any source."""

    TITLE = "ctx rot"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit", "Quit")]
    CSS = """
    DataTable, ContentSwitcher { height: 1fr; }
    #bar { height: 1; background: $panel; padding: 0 1; }
    #chart, #stats { padding: 1; }
    """

    def __init__(self, watched: Watched, session_id: str | None = None, source: Any = None) -> None:
        super().__init__()
        self.watched = watched
        self._first = None if session_id is None else Session(session_id, source)

    def on_mount(self) -> None:
        """Show the feed, and the session that was asked for on top of it."""
        self.push_screen(Feed())
        if self._first is not None:
            self.push_screen(self._first)


class Feed(Screen[None]):
    """All sessions, the newest first; enter opens one."""

    _mark: object = None

    def compose(self) -> ComposeResult:
        """Lay out the table."""
        yield DataTable(cursor_type="row")
        yield Static("", id="bar")
        yield Footer()

    def on_mount(self) -> None:
        """Read now and then again and again."""
        self.query_one(DataTable).add_columns(*(Text(name, justify="right" if name in _NUMBERS else "left") for name in _COLUMNS))
        self.read()
        self.set_interval(REFRESH_SECONDS, self.read)

    def read(self) -> None:
        """Read the sessions when the store has changed; the cursor stays on its session."""
        watched = self.app.watched  # type: ignore[attr-defined]
        mark = watched.change_mark()
        if not watched.stores:
            refused = next(iter(watched.refused.values()), None)
            there = refused is not None and any(path.exists() for path in watched.refused)
            self.query_one("#bar", Static).update(safe(refused.message) if refused and there else "waiting for a store to be made")
            return
        if mark == self._mark:
            return
        rows = watched.get_feed_sessions()
        self._mark = mark
        table = self.query_one(DataTable)
        at = table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value if table.row_count else None
        table.clear()
        for row in rows:
            table.add_row(*_feed_cells(row), key=_key(row))
        if at is not None and any(_key(r) == at for r in rows):
            table.move_cursor(row=table.get_row_index(at))
        total = sum(r["cost"] or 0 for r in rows)
        stores = len(watched.stores)
        where = f" in {stores} stores" if stores > 1 else ""
        self.query_one("#bar", Static).update(f"{len(rows)} sessions{where} │ ${total:.4f}")

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open a session."""
        if event.row_key.value is None:
            return
        session, _, path = event.row_key.value.partition("\t")
        store = self.app.watched.store_of(path)  # type: ignore[attr-defined]
        if store is not None:
            self.app.push_screen(Session(session, store))


def _key(row: dict[str, Any]) -> str:
    """Return what names a row of the feed: two stores may hold sessions of one id."""
    return f"{row['session_id']}\t{row['store']}"


def _feed_cells(row: dict[str, Any]) -> list[Text]:
    prompt = row["prompt_tokens"] or 0
    cells = (
        row["started_at"][11:19],
        row["session_id"][:12],
        row["model"],
        row["call_count"],
        f"{prompt:,}",
        f"{row['completion_tokens'] or 0:,}",
        f"{(row['cache_read_tokens'] or 0) / prompt * 100 if prompt else 0:.1f}",
        f"{row['cost'] or 0:.4f}",
        f"{(row['duration_ms'] or 0) / 1000:.1f} s",
        row["terminal_state"] or "running",
    )
    return [Text(safe(cell), justify="right" if name in _NUMBERS else "left") for name, cell in zip(_COLUMNS, cells, strict=True)]


class Session(Screen[None]):
    """One session: growth chart or RLM tree, statistics, texts."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("t", "show('stats')", "Statistics"),
        Binding("c", "show('content')", "Content"),
        Binding("r", "show('tree')", "Tree"),
    ]

    def __init__(self, session_id: str, store: Any) -> None:
        super().__init__()
        self._store = store
        self._session_id = session_id
        self._mark: object = None
        self._snapshot: Snapshot | None = None
        self._main = "chart"
        self._listed = 0

    def compose(self) -> ComposeResult:
        """Lay out the panels."""
        with ContentSwitcher(initial="chart"):
            yield Static("reading …", id="chart")
            yield Tree[None]("session", id="tree")
            with VerticalScroll(id="stats"):
                for name in ("grid", "timeline", "tools", "rot"):
                    yield Static("", id=f"stats-{name}")
            yield VerticalScroll(id="content")
        yield Static("", id="bar")
        yield Footer()

    def on_mount(self) -> None:
        """Read now and then again and again."""
        self.read()
        self.set_interval(REFRESH_SECONDS, self.read)

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.draw()

    def read(self) -> None:
        """Take a new snapshot, beside the loop, when the store has changed."""
        store = self._store
        try:
            mark = store.change_mark() if hasattr(store, "change_mark") else "captured"
        except StoreError as error:
            self.query_one("#bar", Static).update(safe(error.message))
            return
        if mark != self._mark:
            self._mark = mark
            self.run_worker(self._take, thread=True, exclusive=True)

    def _take(self) -> None:
        try:
            snapshot = take(self._store, self._session_id)
        except StoreError:
            self._mark = None
            return
        self.app.call_from_thread(self._took, snapshot)

    def _took(self, snapshot: Snapshot) -> None:
        if self not in self.app.screen_stack:  # the person went back meanwhile
            return
        if self._snapshot is None and snapshot.is_rlm:
            self._main = "tree"
            self.query_one(ContentSwitcher).current = "tree"
        self._snapshot = snapshot
        self.draw()

    def draw(self) -> None:
        """Draw the snapshot."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        self.query_one("#chart", Static).update(drawing.chart(snapshot, self.size.width - 2, max(5, self.size.height - 8)))
        for name, draw in (("grid", drawing.grid), ("timeline", drawing.timeline), ("tools", drawing.tools), ("rot", drawing.rot)):
            self.query_one(f"#stats-{name}", Static).update(Text(f"\n{name}\n", style="bold") + draw(snapshot))
        self.query_one("#bar", Static).update(drawing.bar(snapshot))
        self._grow(self.query_one(Tree), snapshot)

    def _grow(self, tree: Tree[None], snapshot: Snapshot) -> None:
        tree.clear()
        tree.root.expand()
        if snapshot.nested:
            for node in snapshot.calls:
                _hang(tree.root, node)
            return
        for label, below in drawing.branches(snapshot):
            branch = tree.root.add(label, expand=True)
            for leaf in below:
                branch.add_leaf(leaf)

    def action_back(self) -> None:
        """Go back to the feed."""
        self.app.pop_screen()

    def action_show(self, name: str) -> None:
        """Show a panel, or what was shown first when it is shown already."""
        switcher = self.query_one(ContentSwitcher)
        switcher.current = (self._main if self._main != name else "chart") if switcher.current == name else name
        if switcher.current == "content":
            self._list()

    def _list(self) -> None:
        rows = self._store.get_lm_call_content(self._session_id)
        panel = self.query_one("#content", VerticalScroll)
        if not rows and not panel.children:
            panel.mount(Static("the program stores no content (store_content=True)"))
        for row in rows[self._listed : _SHOWN]:
            panel.mount(Call(row))
        self._listed = max(self._listed, min(len(rows), _SHOWN))


def _hang(above: TreeNode[None], node: Node) -> None:
    if not node.children:
        above.add_leaf(drawing.label(node))
        return
    branch = above.add(drawing.label(node), expand=True)
    for child in node.children:
        _hang(branch, child)


class Call(Collapsible):
    """A call's messages and completion; they are put together when it is opened first."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row
        preview = safe(row["completion"] or "")[:80].replace("\n", " ")
        super().__init__(
            Static("", id="text"), title=f"#{row['seq']}  {row['prompt_tokens']:,} in  {row['completion_tokens']:,} out  {preview}"
        )

    def on_collapsible_expanded(self, event: Collapsible.Expanded) -> None:
        """Fill in the texts."""
        event.stop()
        text = Text()
        messages = decoded(self._row["messages_json"] or "[]")
        for message in messages if isinstance(messages, list) else [{"role": "messages", "content": messages}]:
            role = message.get("role", "?") if isinstance(message, dict) else "?"
            content = message.get("content", "") if isinstance(message, dict) else message
            text.append(f"{safe(role)}\n", style="bold").append(f"{safe(content)}\n\n")
        text.append("completion\n", style="bold").append(safe(self._row["completion"] or ""))
        self.query_one("#text", Static).update(text)
