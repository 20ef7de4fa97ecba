"""What recorded sessions' shell output would have cost, and whether anything that was used later would have been missing.

``python -m ctx_pipeline_tests.bench.replay_outputs`` reads the store of this environment
(``CTX_HOME``) and prints a row for each kind of command. A line of a later edit's old text
counts as needed where the output held it and nothing that was read before did; so does a name
(a path, an identifier, a number) that a later call used.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.compression.compress import counting
from ctx_pipeline.compression.shell_output import kind_of, shorten
from ctx_pipeline.compression.shown_lines import RUN, ShownLines
from ctx_pipeline.compression.source import NOTICE_TOKENS
from ctx_pipeline.facts.command_runs import command_runs, printed
from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

_NAME = re.compile(r"[\w.-]*[/_.][\w./-]{4,}[\w/]|\b\d{3,}\b|\b[A-Za-z]\w{9,}\b")

LEAST = 8
"""Characters of a line that tells one place from another."""


@dataclass
class Replay:
    """Sums over sessions: by kind of command, and over all."""

    runs: Counter[str] = field(default_factory=Counter)
    raw: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    needed: int = 0
    missing: list[tuple[str, str, str]] = field(default_factory=list)
    """session, command and line that a later edit used and the shortened output lacks"""
    names: int = 0
    """names in a later call that a command's output told of first"""
    names_missing: list[tuple[str, str, str]] = field(default_factory=list)
    """session, command and such a name that the shortened output lacks"""

    def add(self, kind: str, raw: int, told: int) -> None:
        """Count an output or a read."""
        self.runs[kind] += 1
        self.raw[kind] += raw
        self.told[kind] += told

    @property
    def saved(self) -> float:
        """Share of all tokens."""
        return 1 - self.told.total() / self.raw.total() if self.raw else 0.0


def replay(settings: Settings, *, half: int | None = None) -> Replay:
    """Return what the shell output and the repeated reads of every captured session would have cost.

    ``half`` takes one half of the sessions, drawn by their ids: rules were found on the first
    (0), the second (1) was held out. Texts are kept in a folder that goes again.
    """
    tokenizer = counting()
    found = Replay()
    with tempfile.TemporaryDirectory() as folder, reading(settings) as (store, _):
        apart = replace(settings, home=Path(folder))
        for cell in store.lake.manifests("normalized"):
            for view in store.lake.read_sessions(cell, None, ("events", "tool_calls", "threads")):
                if half is None or hashlib.sha256(view.session_id.encode()).digest()[-1] % 2 == half:
                    _of_session(view, apart, lambda text: tokenizer.count_tokens(text).count, found)
    return found


@dataclass
class _Window:
    """What one thread holds: lines and names that it was given, and those that it would not have been."""

    shown: ShownLines = field(default_factory=ShownLines)
    lines: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    first: dict[str, str] = field(default_factory=dict)
    """name -> the command whose output told of it first"""
    lost: dict[str, str] = field(default_factory=dict)
    """the same of names that the shortened output lacks and nothing told of since"""


def _of_session(view: Any, settings: Settings, count: Any, found: Replay) -> None:
    wanted = _edited_lines(view)
    windows: dict[str, _Window] = defaultdict(_Window)
    results = {e.event_id: e for e in view.of_kinds("tool_result")}
    outputs = {run.call_event: (run, text) for run in command_runs(view) if (text := printed(view, run))}
    calls = {c.call_event: c for c in view.tool_calls}
    for event in view.events:
        window = windows[event.thread_id]
        if event.kind == "compaction":
            window.shown = ShownLines()
        if event.kind == "prompt":
            window.names |= _names(event.text or "")
        call = calls.get(event.event_id)
        if call is None:
            continue
        _uses(view, view.call_text(call), window, found)
        if call.call_event not in outputs:
            result = results.get(call.result_event)
            _read(call, (result.text if result is not None else "") or "", window, count, found)
            continue
        run, text = outputs[call.call_event]
        made = shorten(run.command, text, count=count, settings=settings, exit_status=run.exit, shown=window.shown)
        found.add(kind_of(run.command), made.raw_tokens, made.tokens)
        lines = {line.strip() for line in text.split("\n")}
        told = {line.strip() for line in made.text.split("\n")}
        for seq, line in wanted.get(call.thread_id, ()):
            if seq > call.seq and line in lines and line not in window.lines:
                found.needed += 1
                if line not in told and line not in made.text:
                    found.missing.append((view.session_id, run.command[:80], line[:80]))
        window.lines |= lines
        _tells(run.command, _names(text), _names(made.text), window)


def _read(call: Any, text: str, window: _Window, count: Any, found: Replay) -> None:
    """Count a read by a tool whose lines all stood in the window already: a notice stands in place of it."""
    lines = text.split("\n")
    if call.action == "read" and len(lines) >= RUN and window.shown.without(lines) == [f"[{len(lines)} lines as shown before]"]:
        raw = count(text)
        found.add("read again", raw, min(raw, NOTICE_TOKENS))
    if call.action == "read":
        window.shown.add(lines)
    window.lines |= {line.strip() for line in lines}
    _tells("", _names(text), _names(text), window)


def _names(text: str) -> set[str]:
    """Return the words of a text by which something is named: paths, identifiers, numbers of three digits and more."""
    return set(_NAME.findall(text))


def _tells(command: str, raw: set[str], told: set[str], window: _Window) -> None:
    new = raw - window.names
    window.first.update(dict.fromkeys(new, command))
    window.lost.update(dict.fromkeys(new - told, command))
    for name in told & window.lost.keys():
        del window.lost[name]
    window.names |= raw


def _uses(view: Any, text: str, window: _Window, found: Replay) -> None:
    """Count the names that a call uses and an output told of first; once used they are known."""
    for name in _names(text) & window.first.keys():
        if window.first.pop(name):
            found.names += 1
            if name in window.lost:
                found.names_missing.append((view.session_id, window.lost.pop(name)[:80], name[:80]))
    window.names |= _names(text)


def _edited_lines(view: Any) -> dict[str, list[tuple[int, str]]]:
    """Return thread -> (seq, line) of the old text of every edit."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for call in view.tool_calls:
        if call.action != "edit":
            continue
        asked = view.call_text(call)
        body = arguments_of(asked)
        old = [str(body.get("old_string") or ""), *(str(e.get("old_string") or "") for e in body.get("edits") or () if isinstance(e, dict))]
        patch = asked if "*** Begin Patch" in asked else ""
        old.append("\n".join(line[1:] for line in patch.replace("\\n", "\n").split("\n") if line[:1] in ("-", " ")))
        found[call.thread_id] += [(call.seq, line.strip()) for text in old for line in text.split("\n") if len(line.strip()) >= LEAST]
    return found


def _row(kind: str, runs: int, raw: int, told: int) -> None:
    print(f"{kind:<10} {runs:>6} {raw:>10,} {told:>10,} {1 - told / raw if raw else 0:>6.0%}")


if __name__ == "__main__":
    for half, title in ((0, "rules were found on"), (1, "held out")):
        told = replay(settings_module.load(), half=half)
        print(f"\nhalf of the sessions: {title}\n{'kind':<10} {'runs':>6} {'tokens':>10} {'shortened':>10} {'saved':>6}")
        for kind, raw in told.raw.most_common():
            _row(kind, told.runs[kind], raw, told.told[kind])
        _row("all", told.runs.total(), told.raw.total(), told.told.total())
        print(f"lines that a later edit used: {told.needed:,}; of these missing: {len(told.missing):,}")
        print(f"names that a later call used: {told.names:,}; of these missing: {len(told.names_missing):,}")
        for row in [*told.missing, *told.names_missing][: int(sys.argv[1]) if len(sys.argv) > 1 else 0]:
            print(json.dumps(row))
