"""``ctx history``: what was in a session's context window, at any event."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import emit, json_option, one_line, plain, say, table, tokens
from ctx_pipeline.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.api.windows import SessionWindow

_NAMES = {"call": "call", "result": "result", "injected": "injected", "prompt": "prompt", "unseen": "unseen"}
_WIDTH = 100


@click.command()
@click.argument("host")
@click.argument("session_id")
@click.option("--at", "at", metavar="MOMENT", help="The window at this moment.")
@click.option("--diff", "diff", nargs=2, metavar="A B", help="What the window lost and gained between two moments.")
@click.option("--select", "selector", metavar="SELECTOR", help="Only what a PACT selector means, such as '+tool_result' or '#unseen'.")
@click.option("--tokens", "weigh", is_flag=True, help="What the tokens are spent on.")
@click.option("--thread", help="A subagent's or fork's window: its id, the first characters of it, or the agent's name.")
@click.option("--limit", default=60, show_default=True, type=click.IntRange(0), help="Components to print; 0 prints all.")
@click.option("--export", "file", type=click.Path(dir_okay=False), help="Write the window as JSON; FILE.jsonl gets the whole history.")
@json_option
def history(
    host: str,
    session_id: str,
    at: str | None,
    diff: tuple[str, str] | None,
    selector: str | None,
    weigh: bool,
    thread: str | None,
    limit: int,
    file: str | None,
    as_json: bool,
) -> None:
    """Show what was in the context window of a session, as a tree.

    Without options: every moment of the window (turns, compactions), then the window at the end.

    MOMENT is an event's number or id, a tool call's id, a time (2026-10-03T14:00), start,
    end, turn:N, before-compaction:N, after-compaction:N, or seen-by:EVENT for what the model
    was sent when it wrote that event. What no file holds (system prompt, tool schemas) is one
    component `unseen`, as large as the call billed more than was counted.
    """
    from ctx_pipeline.api import window_view as view
    from ctx_pipeline.api.windows import open_window

    if diff and (at or weigh or file):
        raise UsageError("--diff stands alone, or with --select", hint="ctx history HOST ID --diff before-compaction after-compaction")
    settings = for_reading()
    window = open_window(host, session_id, thread=thread, moments=diff or (at or "end",), settings=settings)
    moment = window.asked[0]
    if file is not None:
        written = view.export(window, moment, file, settings=settings)
        if as_json:
            emit(written)
        else:
            say(f"{written['snapshots']:,} snapshot{'s' if written['snapshots'] != 1 else ''} in {written['file']}")
        return
    if diff:
        _difference(view.difference(window, window.asked[0], window.asked[1], selector), limit, as_json=as_json)
        return
    context = window.context(moment)
    found = view.component_rows(context) if selector is None else view.selected(context, selector)
    here = view.moment_row(window, moment)
    if as_json:
        answer = view.overview(window) | {"at": here}
        if isinstance(found, dict):
            emit(answer | {"differences": found})
        else:
            emit(answer | {"components": found} | ({"weights": view.weights(found)} if weigh else {}))
        return
    if isinstance(found, dict):
        _range(found)
        return
    if at is None and selector is None and not weigh:
        _moments(window)
    _head(here, window)
    if weigh:
        _weights(view.weights(found))
    elif selector is None:
        _tree(found, limit)
    else:
        _listed((("", row) for row in found), len(found), limit)


def _moments(window: SessionWindow) -> None:
    from ctx_pipeline.api import window_view as view

    say(one_line(window.title or window.session_id, 120), bold=True)
    thread = window.thread
    say(f"{window.host} {plain(window.session_id)}, {thread.kind} thread, {thread.events:,} events, {window.model or 'no model'}")
    for other in window.threads:
        if other.thread_id != thread.thread_id and other.events:
            say(f"  --thread {plain(other.thread_id)}: {plain(other.agent or other.kind)}, {other.events:,} events")
    say()
    rows = []
    for last, moment in zip((None, *window.moments[:-1]), window.moments, strict=True):
        row = view.moment_row(window, moment)
        note = f"counted {tokens(row['over_tokens'])} above the bill" if row["over_tokens"] else ""
        if last is not None and moment.trigger.startswith("after_"):
            gone, lost = last.components - moment.components, last.tokens - moment.tokens
            note = f"{f'{_components(gone)}, ' if gone > 0 else ''}{tokens(max(0, lost))} tokens gone"
        rows.append(
            {
                "moment": row["moment"],
                "seq": str(row["seq"]),
                "time": (row["time"] or "")[:19],
                "components": row["components"],
                "counted": tokens(row["counted_tokens"]),
                "unseen": "" if row["unseen_tokens"] is None else tokens(row["unseen_tokens"]),
                "note": note,
            }
        )
    heads = {n: n for n in ("moment", "time", "components", "counted", "unseen", "note")}
    table(rows, {"moment": "moment", "seq": "event", **heads})
    say()


def _head(here: dict[str, Any], window: SessionWindow) -> None:
    unseen = "" if here["unseen_tokens"] is None else f" and {tokens(here['unseen_tokens'])} unseen"
    about = "about " if window.approximate else ""
    say(
        f"window at {here['moment']} (event {here['seq']}{', ' + here['time'][:19] if here['time'] else ''}): "
        f"{_components(here['components'])}, {about}{tokens(here['counted_tokens'])} tokens{unseen}",
        bold=True,
    )


def _tree(rows: Sequence[dict[str, Any]], limit: int) -> None:
    """Print one line a component below a line for each turn, the newest ones when there are too many."""
    shown = rows if not limit or len(rows) <= limit else [*[r for r in rows if r["place"][0] == -1][:limit], *rows[-limit:]]
    hidden = len(rows) - len(shown)
    weights: dict[int, list[int]] = {}
    for row in rows:
        one = weights.setdefault(row["place"][0], [0, 0])
        one[0] += 1
        one[1] += row["tokens"]
    depth = None
    for row in shown:
        if row["place"][0] != depth:
            if depth == -1 and hidden:
                say(f"  … {hidden:,} components before these: --limit 0 prints all")
            depth = row["place"][0]
            name = {-1: "system", 0: "d0 active turn"}.get(depth, f"d{depth} turn")
            count, weight = weights[depth]
            say(f"{name}, {_components(count)}, {tokens(weight)} tokens", bold=True)
        _line("  ", row)
    if hidden and all(r["place"][0] != -1 for r in shown):
        say(f"  … {hidden:,} older components: --limit 0 prints all")


def _line(mark: str, row: dict[str, Any], before: int | None = None) -> None:
    from ctx_pipeline.api.window_view import told

    what = one_line(_what(row), 24)
    weight = f"{row['tokens']:,}" if before is None else f"{before:,} → {row['tokens']:,}"
    seq = "" if row["seq"] is None else row["seq"]
    say(f"{mark}{seq:>6}  {what:<24} {weight:>8}  {one_line(told(row), _WIDTH)}".rstrip())


def _components(count: int) -> str:
    return f"{count:,} component{'' if count == 1 else 's'}"


def _what(row: dict[str, Any]) -> str:
    return f"{row['kind'] or ''} {row['tool'] or ''}".strip()


def _listed(rows: Iterable[tuple[str, dict[str, Any]]], count: int, limit: int) -> None:
    for mark, row in itertools.islice(rows, limit or None):
        _line(mark or "  ", row)
    if limit and count > limit:
        say(f"  … {count - limit:,} more: --limit 0 prints all")
    if not count:
        say("  nothing")


def _weights(groups: Sequence[dict[str, Any]]) -> None:
    rows = [{**g, "what": _what(g), "percent": f"{100 * g['share']:.1f} %"} for g in groups]
    total = {"what": "total", "components": sum(g["components"] for g in groups), "tokens": sum(g["tokens"] for g in groups)}
    table(rows, {"what": "what", "components": "components", "tokens": "tokens", "percent": "share"}, total=total)


def _difference(found: dict[str, Any], limit: int, *, as_json: bool) -> None:
    if as_json:
        emit({"schema": 1, **found})
        return
    from ctx_pipeline.api.window_view import weights

    for word in ("from", "to"):
        here = found[word]
        say(f"{word:<5}{here['moment']} (event {here['seq']}): {_components(here['components'])}, {tokens(here['counted_tokens'])} tokens")
    for word in ("removed", "added", "changed"):
        rows = found[word]
        say()
        say(f"{word}: {_components(len(rows))}, {tokens(sum(r['tokens'] for r in rows))} tokens", bold=True)
        if word != "changed":
            heaviest = [f"{_what(g)} {g['components']:,} ({tokens(g['tokens'])})" for g in weights(rows)[:6]]
            if len(rows) > 1:
                say(one_line(f"mostly {', '.join(heaviest)}", 160))
        mark = {"removed": "- ", "added": "+ ", "changed": "~ "}[word]
        for row in rows[: limit or None]:
            _line(mark, row, row.get("tokens_before"))
        if limit and len(rows) > limit:
            say(f"  … {len(rows) - limit:,} more: --limit 0 prints all")


def _range(found: dict[str, Any]) -> None:
    for step in found["diffs"]:
        stats = step["stats"]
        counts = ", ".join(f"{stats[word]} {word}" for word in ("added", "removed", "changed"))
        say(f"{step['from']['label']} to {step['to']['label']}: {counts}")
        for mark, names in (("+", step["added_ids"]), ("-", step["removed_ids"]), ("~", [c["id"] for c in step["changed"]])):
            for name in names:
                say(f"  {mark} {plain(name)}")
