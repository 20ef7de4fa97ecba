"""A program that does one thing with a store, and kills itself at a named moment of it.

Its argument is a JSON object ``{"store", "homes", "at", "do"}``, and the session to forget; it
prints what it found. ``at`` is ``[side, event, number]``: before or after the nth event of that
name, or null. Events are ``swap NAME`` (a rename that gives a name below the store) and
``record ASSET``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctx_pipeline.settings import Settings


PROGRAM = f"from {__name__} import main; main()"


def main() -> None:
    """Do what is asked and write what was found."""
    sys.stdout.write(json.dumps(_do(json.loads(sys.argv[1]))))


def _do(request: dict[str, Any]) -> Any:
    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import open_store

    homes = {host: (Path(root),) for host, root in request["homes"].items()}
    settings = Settings(home=Path(request["store"]), demo_roots=homes, timezone="UTC")
    seen = _watch(settings.home, request["at"])
    with open_store(settings) as store:
        found = globals()[f"do_{request['do']}"](store, settings, **{name: request[name] for name in ("session",) if name in request})
    return {"found": found, "events": seen}


def do_run(store: Any, settings: Settings) -> Any:
    """Run every stage and what ``ctx run`` tells at its end."""
    from ctx_pipeline.pipeline.run import run_stages

    return run_stages(store, settings).to_json()


def do_forget(store: Any, settings: Settings, session: str) -> Any:
    """Forget a session of Claude Code."""
    from ctx_pipeline.pipeline.forget.sessions import Selection, forget

    return forget(store, settings, Selection(host="claude", session_id=session)).totals


def do_look(store: Any, settings: Settings) -> Any:
    """Return what the tail says: contents by asset, the page's own words, and whether anything is to be done."""
    from ctx_pipeline.model.raw import Cell
    from ctx_pipeline.pipeline.plan import plan
    from ctx_pipeline.pipeline.repair.missing_outputs import page_made, reconcile_missing_outputs
    from ctx_pipeline.pipeline.run_report import summary
    from ctx_pipeline.storage.warehouse import database

    lost = reconcile_missing_outputs(store)
    planned = plan(store, settings)
    rows = {key: store.ledger.asset_cell(key, Cell("", "")) for key, a in planned.assets.items() if not a.asset.partitioned}
    page = page_made(store)
    built = database.made(store.warehouse_path)
    with database.connect(store.warehouse_path, read_only=True) as db:
        sessions = [s for (s,) in db.execute("SELECT session_id FROM session_overview ORDER BY 1").fetchall()]
    return {
        "lost": lost,
        "records": {key: row.content_hash for key, row in rows.items() if row is not None and key != "search/index"},
        "partitions": contents(store, planned.assets),
        "page": page.content_hash if page else None,
        "warehouse": built.content_hash if built else None,
        "sessions": sessions,
        # the first piece of the search names rows of the index, which are counted in the order of capture
        "shown": re.sub(r'"words":\["[^"]*"', '"words":[""', (store.home / "site" / "data" / "sessions.js").read_text("utf-8")),
        "memories": [list(m) for m in store.memories.memories()],
        "cases": [list(m) for m in store.cases.memories()],
        "search": store.search.doctor(store.lake),
        "signals": {k: v for k, v in json.loads((store.home / "signals" / "aggregates.json").read_text("utf-8")).items() if k != "made_of"},
        "summary": [summary(store, settings, None, seconds=0).usage, summary(store, settings, None, seconds=0).model_calls],
        "todo": planned.tail(),
        "temporaries": [p.name for p in store.home.rglob(".tmp-*")],
    }


def contents(store: Any, assets: Iterable[str]) -> dict[str, str]:
    """Return the content hash of every partition of the assets that lie in the lake, by asset and partition."""
    return {
        f"{asset}@{cell.key}": row.content_hash
        for asset in assets
        if asset.partition("/")[0] in {"normalized", "facts", "signals", "mined"}
        for cell, row in sorted(store.ledger.asset_cells(asset).items())
    }


def _watch(home: Path, at: list[Any] | None) -> list[str]:
    """Note the events of this process, and kill it at one of them."""
    from ctx_pipeline.storage.ledger import Ledger

    seen: list[str] = []

    def watched(whole: Callable[..., Any], named: Callable[..., str]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            event = named(*args)
            seen.append(event)
            here = at is not None and at[1:] == [event, seen.count(event)]
            if here and at is not None and at[0] == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = whole(*args, **options)
            if here:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    def swap(_: object, target: object) -> str:
        path = Path(str(target))
        return f"swap {path.relative_to(home).as_posix() if path.is_relative_to(home) else path.name}"

    for name in ("replace", "rename"):
        setattr(os, name, watched(getattr(os, name), swap))
    Ledger.record_asset = watched(Ledger.record_asset, lambda _, asset, *__: f"record {asset}")  # type: ignore[method-assign]
    import ctx_pipeline.pipeline.forget.sessions as forgetting

    for name in ("_note", "drop_saved", "blank_shared", "_remove_raw", "_rederive", "_clean_up"):
        setattr(forgetting, name, watched(getattr(forgetting, name), lambda *_, name=name: f"step {name}"))
    return seen
