"""One session as Markdown, from the tables: what was asked, said and done, tool output and diffs included, secrets taken out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ctx_pipeline.errors import UnknownName
from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.display import fenced, inline, prose, visible
from ctx_pipeline.redaction.sharing import sharing_of
from ctx_pipeline.sessions.session_details import resolve
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from ctx_pipeline.settings import Settings

LONGEST = 20_000
"""Characters of one text that are shown; the rest is cut with a note."""

FOLDED = 40
"""Lines of one script, change or output above which a person is shown its beginning and its end."""

_END = 10
"""Of these the ones at the end."""

_HEADS = {
    "prompt": "User",
    "answer": "Assistant",
    "reasoning": "Reasoning",
    "tool_call": "Tool call",
    "tool_result": "Tool result",
    "compaction": "Compaction",
    "error": "Error",
    "todo": "To do",
}
_FENCED = frozenset({"tool_call", "tool_result", "error", "todo"})
_PATCH = "*** Begin Patch"


def render(
    host: str,
    session_id: str,
    *,
    longest: int = LONGEST,
    folded: int = 0,
    replaced: Counter[str] | None = None,
    settings: Settings | None = None,
) -> str:
    """Return the session as Markdown; a text above ``longest`` characters is cut and says by how much.

    With ``folded`` a script, change or output of more lines is told by its beginning and its end.

    With ``replaced`` private paths, names and addresses are replaced too, and counted in it by kind.

    Raises UnknownName for an id that no captured session has or begins with.
    """
    with reading(settings) as (store, _):
        key, full = resolve(store, host, session_id)
        row = store.ledger.session(key, full)
        views = list(store.lake.read_sessions(row.partition, [full], ("events", "tool_calls", "threads"))) if row is not None else []
    if not views:
        raise UnknownName(f"{key} session", full, ())
    text = markdown(views[0], longest=longest, folded=folded)
    if replaced is None:
        return text
    sharing = sharing_of(views[0])
    text = sharing(text)
    replaced += sharing.counts
    return text


def markdown(view: Any, *, longest: int = LONGEST, folded: int = 0) -> str:
    """Return a session view with its events, tool calls and threads as Markdown."""
    return "\n".join(_lines(view, longest, folded)) + "\n"


def _lines(view: Any, longest: int, folded: int) -> Iterator[str]:
    session = view.session
    yield f"# {_inline(session.title or session.session_id)}"
    yield ""
    for name, value in (
        ("session", session.session_id),
        ("host", session.host),
        ("project", session.project),
        ("branch", session.branch),
        ("models", ", ".join(session.models)),
        ("from", _utc(session.first_ts)),
        ("to", _utc(session.last_ts)),
        ("forked from", session.parent_session),
    ):
        if value:
            yield f"- {name}: {_inline(value)}"
    yield "- times in UTC"
    threads = {t.thread_id: t for t in view.threads}
    tools = {t.call_event: t for t in view.tool_calls}
    thread = None
    for event in view.events:
        if event.kind not in _HEADS or not (event.text or "").strip():
            continue
        if event.thread_id != thread:
            thread = event.thread_id
            facts = threads.get(thread)
            if thread != session.session_id:
                yield ""
                yield f"## {_inline((facts.agent or facts.kind) if facts else 'thread')} {_inline(thread)}"
        yield ""
        tool = tools.get(event.event_id)
        head = f"{_HEADS[event.kind]}{f' {_inline(tool.tool)}' if tool else ''}"
        yield f"### {head}{f', {_utc(event.ts)}' if event.ts is not None else ''}"
        yield ""
        yield from _body(event.kind, event.text, longest, folded)


def _utc(ts: int | None) -> str | None:
    """Return a time as it is read in any zone: a session is shared with people elsewhere."""
    told = iso(ts)
    return f"{told[:19].replace('T', ' ')} UTC" if told else None


def _body(kind: str, text: str, longest: int, folded: int = 0) -> Iterator[str]:
    text = visible(text)
    language = ""
    if kind == "tool_call" and (changed := _diff(text)) is not None:
        text, language = changed, "diff"
    elif kind == "tool_call" and folded and (script := _script(text))[0].count("\n") >= folded:
        if script[1]:
            yield from _body(kind, json.dumps(script[1], ensure_ascii=False), longest)
            yield ""
        text, language = visible(script[0]), "sh"
    if folded and kind in _FENCED and text.count("\n") >= folded:
        text = _fold(text, folded, longest)
        longest = len(text)
    cut = len(text) - longest
    shown = text[:longest]
    yield from fenced(shown, language) if kind in _FENCED else [prose(shown)]
    if cut > 0:
        yield ""
        yield f"*{cut:,} characters cut*"


def _fold(text: str, most: int, longest: int) -> str:
    """Return so many lines of a text that has more, and one that counts those which are left out.

    Where these lines together are longer than ``longest``, each long one is cut and says by how much.
    """
    lines = text.split("\n")
    left = len(lines) - most
    kept = [*lines[: most - _END], *lines[-_END:]]
    if sum(map(len, kept)) > longest:
        width = longest // most
        kept = [f"{line[:width]}[{len(line) - width:,} characters cut]" if len(line) > width else line for line in kept]
    return "\n".join([*kept[:-_END], f"[{left:,} {'line' if left == 1 else 'lines'} folded: --whole]", *kept[-_END:]])


def _script(text: str) -> tuple[str, dict[str, Any]]:
    """Return the command line that a call's arguments hold, and the other arguments; empty where they hold none."""
    said = arguments_of(text)
    name = next((name for name in ("command", "cmd") if isinstance(said.get(name), str)), None)
    return ("", {}) if name is None else (said.pop(name), said)


def _diff(text: str) -> str | None:
    """Return the change that an edit's arguments describe as removed and added lines, or its patch; None for any other call."""
    if text.startswith(_PATCH):
        return text
    said = arguments_of(text)
    for name in ("input", "patch"):
        if isinstance(said.get(name), str) and said[name].startswith(_PATCH):
            return str(said[name])
    path = said.get("file_path")
    head = [f"--- {path}", f"+++ {path}"] if isinstance(path, str) else []
    several = said.get("edits") if head else None
    edits = several if isinstance(several, list) else [said]
    changes = [_change(edit) for edit in edits]
    if edits and all(changes):
        return "\n".join(
            [*head, *(line for number, change in enumerate(changes) for line in (*(["@@"] if number else []), *(change or ())))]
        )
    if head and isinstance(said.get("content"), str):
        return "\n".join([f"+++ {path}", *(f"+{line}" for line in said["content"].splitlines())])
    return None


def _change(edit: Any) -> list[str] | None:
    """Return what one edit removes and adds; None where it says neither."""
    if not isinstance(edit, dict) or not isinstance(edit.get("old_string"), str) or not isinstance(edit.get("new_string"), str):
        return None
    return [*(f"-{line}" for line in edit["old_string"].splitlines()), *(f"+{line}" for line in edit["new_string"].splitlines())]


def _inline(value: object) -> str:
    return inline(visible(str(value)))
