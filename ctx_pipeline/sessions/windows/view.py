"""A window of a session as rows: its components, what they weigh, what two moments differ by."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline.context.recorded import UNSEEN
from ctx_pipeline.context.tree.context import ContextHistory
from ctx_pipeline.errors import StoreError
from ctx_pipeline.model.codec import iso
from ctx_pipeline.sessions.windows.selection import change_rows, component_row
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.context.recorded import Moment
    from ctx_pipeline.context.tree.context import Context
    from ctx_pipeline.sessions.windows.history import SessionWindow
    from ctx_pipeline.settings import Settings

SCHEMA = 1
"""Version of the JSON shapes of this page."""


def moment_row(moment: Moment) -> dict[str, Any]:
    """Return a moment: its name, how many components and tokens, and what of it no file holds.

    ``over_tokens`` is above 0 where more was counted than the call billed: the host had
    shortened something without a record of it.
    """
    sent = moment.sent
    return {
        "episode": moment.episode,
        "moment": moment.trigger,
        "seq": moment.seq,
        "time": iso(moment.at),
        "components": moment.components,
        "counted_tokens": moment.tokens,
        "unseen_tokens": sent.unseen if sent else None,
        "billed_tokens": sent.billed if sent else None,
        "over_tokens": max(0, sent.counted - sent.billed) if sent else 0,
    }


def component_rows(context: Context) -> list[dict[str, Any]]:
    """Return the components of a window in the order in which the model reads them."""
    return [component_row(node) for node in context.find(".block")]


def weights(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return tokens by what they are (prompts, answers, results of each tool, unseen), the heaviest first, with their share."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["kind"] or "", row["tool"] or "")
        one = groups.setdefault(key, {"kind": key[0], "tool": key[1], "components": 0, "tokens": 0})
        one["components"] += 1
        one["tokens"] += row["tokens"]
    total = sum(one["tokens"] for one in groups.values())
    for one in groups.values():
        one["share"] = round(one["tokens"] / total, 4) if total else 0.0
    return sorted(groups.values(), key=lambda g: (-g["tokens"], g["kind"], g["tool"]))


def difference(window: SessionWindow, one: Moment, other: Moment, selector: str | None = None) -> dict[str, Any]:
    """Return what came, went and changed from the earlier of two moments to the later one, each as component rows.

    ``reordered`` says that the later moment was named first.
    """
    older, newer = sorted((one, other), key=lambda m: m.episode)
    change = window.history.diff(older.episode, newer.episode, selector)
    return {
        "from": moment_row(older),
        "to": moment_row(newer),
        "reordered": older is not one,
        **change_rows(change, window.context(older), window.context(newer)),
    }


def overview(window: SessionWindow) -> dict[str, Any]:
    """Return the session, its threads and every moment."""
    return {
        "schema": SCHEMA,
        "host": window.host,
        "session_id": window.session_id,
        "title": window.title,
        "thread_id": window.thread.thread_id,
        "model": window.model,
        "approximate": window.approximate,
        "threads": [asdict(line) for line in window.threads],
        "moments": [moment_row(moment) for moment in window.moments],
    }


def export(window: SessionWindow, moment: Moment, path: Path | str, *, settings: Settings | None = None) -> dict[str, Any]:
    """Write a window to a file (0600, replaced whole) and return what it holds.

    A name that ends in ``.jsonl`` gets the whole history, which ``ContextHistory(path)``
    opens; any other the window at the moment, which ``Context.from_snapshot`` takes. The
    same session gives the same bytes. Raises StoreError for a file in the store or one
    that cannot be written.
    """
    import tempfile

    target = Path(path).absolute()
    with reading(settings) as (_, chosen):
        if target.resolve().is_relative_to(chosen.home.resolve()):
            raise StoreError(f"{target} lies in the store", hint="name a file outside it", path=str(target))
    whole = target.suffix == ".jsonl"
    partial = target
    try:
        handle, name = tempfile.mkstemp(prefix=".ctx-", dir=target.parent)
        os.close(handle)
        partial = Path(name)
        if whole:
            kept = ContextHistory(partial)
            for snapshot in window.history:
                kept.record(snapshot.tree, snapshot.trigger, at=snapshot.created_at)
        else:
            partial.write_text(window.context(moment).to_json() + "\n", encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}", hint="name another file", path=str(target)) from error
    finally:
        if partial != target:
            partial.unlink(missing_ok=True)
    return {"file": str(target), "snapshots": len(window.history) if whole else 1, "bytes": target.stat().st_size}


def component_text(row: dict[str, Any]) -> str:
    """Return what a component says, in words; what no file holds is named."""
    if row["kind"] == UNSEEN:
        return "system prompt, tool schemas, pictures, hidden reasoning: billed, and in no file"
    if row["kind"] == "result" and "cleared" in row.get("tags", ()):
        return "(cleared by the host)"
    text = row["text"]
    return text if isinstance(text, str) else "" if text is None else json.dumps(text, ensure_ascii=False)
