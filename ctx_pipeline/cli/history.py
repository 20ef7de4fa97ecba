"""``ctx history``: what was in a session's context window, at any event."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import click

from ctx_pipeline.cli.homes import for_reading
from ctx_pipeline.cli.output import (
    emit,
    fill,
    json_option,
    local_time,
    moment_word,
    one_line,
    plain,
    say,
    say_row,
    table,
    tokens,
    zone_name,
)
from ctx_pipeline.cli.session_names import session_argument
from ctx_pipeline.errors import UsageError
from ctx_pipeline.model.display import percent, session_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctx_pipeline.sessions.windows.window_history import SessionWindow

_WIDTH = 100
MARKS = {"removed": "- ", "added": "+ ", "changed": "~ "}


@click.command()
@session_argument()
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
    end, turn:N, before-compaction:N, after-compaction:N (clearing and rollback likewise),
    before-rewind:N, or seen-by:EVENT for what the model was sent when it wrote that event.
    In a SELECTOR @t0 is that moment and @t-1 the one above it in the list. What no file holds
    (system prompt, tool schemas) is one component `unseen`, as large as the call billed more
    than was counted.
    """
    from ctx_pipeline.sessions.windows import view
    from ctx_pipeline.sessions.windows.view import selected
    from ctx_pipeline.sessions.windows.window_history import open_window

    if file is not None and (selector or weigh):
        raise UsageError("--export writes the whole window", hint="leave --select and --tokens out, or take --json for a part")
    if file is not None and at is not None and file.endswith(".jsonl"):
        raise UsageError(f"{file} gets every moment", hint="leave --at out, or name a file ending in .json for one window")
    if diff and (at is not None or weigh or file):
        raise UsageError("--diff stands alone, or with --select", hint="ctx history HOST ID --diff before-compaction after-compaction")
    settings = for_reading()
    zone = settings.timezone
    moments = ["end" if word is None else moment_word(word, zone) or "" for word in diff or (at,)]
    window = open_window(host, session_id, thread=thread, moments=moments, settings=settings)
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
    picked = selected(window, moment, selector) if selector is not None else None
    if weigh and picked and (picked.differences or picked.every):
        raise UsageError("--tokens weighs one window", hint="give --select one moment, or leave --tokens out")
    found = picked.rows if picked else view.component_rows(window.context(moment))
    here = view.moment_row(picked.moment if picked else moment)
    if as_json:
        answer = view.overview(window) | {"at": here}
        if picked and picked.differences:
            emit(answer | {"differences": picked.differences})
        else:
            emit(answer | {"components": found} | ({"weights": view.weights(found)} if weigh else {}))
        return
    if picked and picked.differences:
        _range(picked.differences, limit)
        return
    if at is None and selector is None and not weigh:
        _print_snapshots(window, zone)
    if picked and picked.every:
        say(f"in the windows up to {here['moment']} ({_event(here)}): {_components(len(found))}", bold=True)
    else:
        _head(here, window, zone)
    if weigh:
        _weights(view.weights(found))
    elif selector is None:
        _tree(found, limit)
    else:
        _listed((("", row) for row in found), len(found), limit)


def _print_snapshots(window: SessionWindow, zone: str | None) -> None:
    from ctx_pipeline.sessions.windows import view

    say(one_line(session_title(window.title), 120), bold=True)
    thread = window.thread
    about = f"{thread.kind} thread, {thread.events:,} events, {window.model or 'no model'}; times in {zone_name(zone)}"
    say(f"{window.host} {plain(window.session_id)}, {about}")
    if window.largest:
        say(fill(window.largest, *window.size))
    for other in window.threads:
        if other.thread_id != thread.thread_id and other.events:
            say(f"  --thread {plain(other.thread_id)}: {plain(other.agent or other.kind)}, {other.events:,} events")
    say()
    rows = []
    for last, moment in zip((None, *window.moments[:-1]), window.moments, strict=True):
        row = view.moment_row(moment)
        note = f"counted {tokens(row['over_tokens'])} above the bill" if row["over_tokens"] else ""
        if last is not None and moment.trigger.startswith("after-"):
            gone, lost = last.components - moment.components, last.tokens - moment.tokens
            note = f"{f'{_components(gone)}, ' if gone > 0 else ''}{tokens(max(0, lost))} tokens gone"
        rows.append(
            {
                "moment": row["moment"],
                "seq": str(row["seq"]),
                "time": local_time(row["time"], zone, seconds=True),
                "components": row["components"],
                "counted": tokens(row["counted_tokens"]),
                "unseen": "" if row["unseen_tokens"] is None else tokens(row["unseen_tokens"]),
                "window": "" if row["billed_tokens"] is None else tokens(row["billed_tokens"]),
                "note": note,
            }
        )
    heads = {n: n for n in ("moment", "time", "components", "counted", "unseen", "window", "note")}
    table(rows, {"moment": "moment", "seq": "event", **heads}, drop=("components", "note", "time"), keep=("moment",))
    say("turn:N is the end of turn N; when turns began: ctx show --turns")
    say("window: tokens that the call was billed for; unseen: the part of it that no file holds (system prompt, tool schemas)")
    if any(row["note"].endswith(" above the bill") for row in rows):
        say("counted above window: the tokenizer here counts the texts as more tokens than the provider billed")
    say("component: a message, tool call or tool result; d0, d1: turns counted back from the newest, as in a SELECTOR")
    say()


def _head(here: dict[str, Any], window: SessionWindow, zone: str | None) -> None:
    unseen = "" if here["unseen_tokens"] is None else f" and {tokens(here['unseen_tokens'])} unseen"
    about = "about " if window.approximate else ""
    say(
        f"window at {here['moment']} ({_event(here)}{', ' + local_time(here['time'], zone, seconds=True) if here['time'] else ''}): "
        f"{_components(here['components'])}, {about}{tokens(here['counted_tokens'])} tokens{unseen}",
        bold=True,
    )


def _tree(rows: Sequence[dict[str, Any]], limit: int) -> None:
    """Print one line a component below a line for each turn, the newest ones when there are too many."""
    system = [row for row in rows if row["place"][0] == -1]
    turns = rows[len(system) :]
    shown = rows
    if limit and len(rows) > limit:
        head = system[: limit - 1] if turns else system[-limit:]
        shown = [*head, *turns[len(turns) - min(len(turns), limit - len(head)) :]]
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
            name = {-1: "system", 0: "newest turn (d0)", 1: "1 turn back (d1)"}.get(depth, f"{depth} turns back (d{depth})")
            count, weight = weights[depth]
            say(f"{name}, {_components(count)}, {tokens(weight)} tokens", bold=True)
        _line("  ", row)
    if hidden and all(r["place"][0] != -1 for r in shown):
        say(f"  … {hidden:,} older components: --limit 0 prints all")


def _line(mark: str, row: dict[str, Any], before: int | None = None) -> None:
    from ctx_pipeline.sessions.windows.view import component_text

    what = one_line(_what(row), 24)
    weight = f"{row['tokens']:,}" if before is None else f"{before:,} → {row['tokens']:,}"
    seq = "" if row["seq"] is None else row["seq"]
    say_row(f"{mark}{seq:>6}  {what:<24} {weight:>8}  {one_line(component_text(row), _WIDTH)}".rstrip())


def _event(here: dict[str, Any]) -> str:
    return f"event {here['seq']}" if here["seq"] >= 0 else "before the first event"


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
    rows = [{**g, "what": _what(g), "percent": percent(g["share"])} for g in groups]
    total = {"what": "total", "components": sum(g["components"] for g in groups), "tokens": sum(g["tokens"] for g in groups)}
    table(rows, {"what": "what", "components": "components", "tokens": "tokens", "percent": "share"}, total=total)


def _difference(found: dict[str, Any], limit: int, *, as_json: bool) -> None:
    if as_json:
        emit({"schema": 1, **found})
        return
    from ctx_pipeline.sessions.windows.view import weights

    for word in ("from", "to"):
        here = found[word]
        say(f"{word:<5}{here['moment']} ({_event(here)}): {_components(here['components'])}, {tokens(here['counted_tokens'])} tokens")
    if found["reordered"]:
        say(f"{found['to']['moment']} is the later one: what follows goes from {found['from']['moment']} to it")
    if not any(found[word] for word in ("removed", "added", "changed")):
        say("no component differs")
    for word in ("removed", "added", "changed"):
        rows = found[word]
        if not rows:
            continue
        say()
        weight = tokens(sum(r["tokens"] for r in rows))
        if word == "changed":
            weight = f"{tokens(sum(r['tokens_before'] for r in rows))} → {weight}"
        say(f"{word}: {_components(len(rows))}, {weight} tokens", bold=True)
        if word != "changed":
            heaviest = [f"{_what(g)} {g['components']:,} ({tokens(g['tokens'])})" for g in weights(rows)[:6]]
            if len(rows) > 1:
                say(one_line(f"mostly {', '.join(heaviest)}", 160))
        for row in rows[: limit or None]:
            _line(MARKS[word], row, row.get("tokens_before"))
        if limit and len(rows) > limit:
            say(f"  … {len(rows) - limit:,} more: --limit 0 prints all")


def _range(found: dict[str, Any], limit: int) -> None:
    """Print what each moment of a range has that the one before it had not, and the other way round; the newest first."""
    for step in found["diffs"]:
        rows = step["components"]
        older, newer = (f"{step[end]['moment']} ({step[end]['label']})" for end in ("to", "from"))
        say(f"{older} to {newer}: {', '.join(f'{len(rows[word])} {word}' for word in MARKS)}", bold=True)
        marked = [(mark, row) for word, mark in MARKS.items() for row in rows[word]]
        for mark, row in marked[: limit or None]:
            _line(mark, row, row.get("tokens_before"))
        if limit and len(marked) > limit:
            say(f"  … {len(marked) - limit:,} more: --limit 0 prints all")
