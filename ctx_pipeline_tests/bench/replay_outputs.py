"""What recorded sessions' shell output would have cost, and whether anything that was used later would have been missing.

``python -m ctx_pipeline_tests.bench.replay_outputs`` reads the store of this environment
(``CTX_HOME``) and prints a row for each kind of command. A line of a later edit's old text
counts as needed where the output held it and nothing that was read before did; so does a name
(a path, an identifier, a number) that a later call used, and a place (line 120 of a file) that
an output told of and a later read of a part of that file shows.
"""

from __future__ import annotations

import difflib
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
from ctx_pipeline.facts.file_accesses import READ, accesses_by_call
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
    places: int = 0
    """parts of files that were read later and of which an output had told a line"""
    places_missing: list[tuple[str, str, str]] = field(default_factory=list)
    """session, file and lines of such a part of which the shortened output told no line"""

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
    places: dict[str, dict[int, bool]] = field(default_factory=lambda: defaultdict(dict))
    """file -> line that an output told of -> whether the shortened one did"""
    texts: dict[str, str] = field(default_factory=dict)
    """file -> its text as it was read whole last"""


def _of_session(view: Any, settings: Settings, count: Any, found: Replay) -> None:
    wanted = _edited_lines(view)
    windows: dict[str, _Window] = defaultdict(_Window)
    results = {e.event_id: e for e in view.of_kinds("tool_result")}
    outputs = {run.call_event: (run, text) for run in command_runs(view) if (text := printed(view, run))}
    calls = {c.call_event: c for c in view.tool_calls}
    accesses = accesses_by_call(view)
    for event in view.events:
        window = windows[event.thread_id]
        if event.kind == "compaction":
            window.shown, window.texts = ShownLines(), {}
        if event.kind == "prompt":
            window.names |= _names(event.text or "")
        call = calls.get(event.event_id)
        if call is None:
            continue
        _uses(view, view.call_text(call), window, found)
        for access in accesses.get(call.call_event, ()):
            if access.did == READ:
                _goes_to(view, access, window, found)
        if call.call_event not in outputs:
            result = results.get(call.result_event)
            text = (result.text if result is not None else "") or ""
            part = {"offset", "limit", "pages"} & arguments_of(view.call_text(call)).keys()
            whole = "" if part else next((a.path for a in accesses.get(call.call_event, ()) if a.did == READ), "")
            if call.action == "read":
                _read_again(text, whole, window, count, found)
            window.lines |= _lines(text)
            _tells("", text, text, window)
            continue
        run, text = outputs[call.call_event]
        made = shorten(run.command, text, count=count, settings=settings, exit_status=run.exit, shown=window.shown)
        found.add(kind_of(run.command), made.raw_tokens, made.tokens)
        lines, told = _lines(text), _lines(made.text)
        for seq, line in wanted.get(call.thread_id, ()):
            if seq > call.seq and line in lines and line not in window.lines:
                found.needed += 1
                if line not in told and line not in made.text:
                    found.missing.append((view.session_id, run.command[:80], line[:80]))
        window.lines |= lines
        _tells(run.command, text, made.text, window)
        told_places = _places(made.text)
        for path, numbers in _places(text).items():
            for number in numbers:
                window.places[path][number] = window.places[path].get(number, False) or number in told_places.get(path, ())


def _read_again(text: str, whole: str, window: _Window, count: Any, found: Replay) -> None:
    """Count a read by a tool of what stood in the window: a notice where every line did, as a hook gives it, else the difference.

    The difference is what ``ctx_read`` answers for a file that was read ``whole`` before and has changed.
    """
    lines = text.split("\n")
    before, now = window.texts.get(whole), _unnumbered(text)
    if len(lines) >= RUN and window.shown.without(lines) == [f"[{len(lines)} lines as shown before]"]:
        raw = count(text)
        found.add("read again", raw, min(raw, NOTICE_TOKENS))
    elif len(lines) >= RUN and before is not None and before != now:
        raw = count(text)
        changed = difflib.unified_diff(before.split("\n"), now.split("\n"), "as you read it", "now", lineterm="", n=3)
        found.add("read again, changed", raw, min(raw, count("\n".join(changed))))
    window.shown.add(lines)
    if whole and text:
        window.texts[whole] = now


_NUMBER = re.compile(r"^\s*\d+(?:\t|\u2192)")


def _unnumbered(text: str) -> str:
    """Return a text as it stands in its file, without the numbers of its lines."""
    return "\n".join(_NUMBER.sub("", line) for line in text.split("\n"))


def _lines(text: str) -> set[str]:
    """Return the lines of a text without their numbers and the blanks around them."""
    return {line.strip() for line in _unnumbered(text).split("\n")}


def _names(text: str) -> set[str]:
    """Return the words of a text by which something is named: paths, identifiers, numbers of three digits and more."""
    return set(_NAME.findall(text))


_FOLDER = re.compile(r"(?m)^(?:\[\d+ lines of passes(?:, \d+ [a-z ]+)*, in )?(\S+)/: ([^]\n]+)\]?$")
_SHARED, _BEHIND = re.compile(r'="([^"\n]+?)…'), re.compile(r'(?:^|,)…([^",\n]+)')


def _joined(told: str) -> list[str]:
    """Return the cells of tables whose beginning the head of their column has."""
    found, shared = list[str](), list[str]()
    for line in told.split("\n"):
        shared = _SHARED.findall(line) if " objects] " in line else shared
        found += [f"{start}{rest}" for rest in _BEHIND.findall(line) for start in shared]
    return found


def _tells(command: str, raw: str, told: str, window: _Window) -> None:
    """Note what an output named; a path counts as told where it stands behind its folder, a cell where it does behind its head."""
    given = "\n".join([told, *(f"{match[1]}/{name}" for match in _FOLDER.finditer(told) for name in match[2].split()), *_joined(told)])
    numbers = set(re.findall(r"\d+", told))

    def stands(name: str) -> bool:
        return name in numbers if name.isdecimal() else name in given

    names = _names(raw)
    new = names - window.names
    window.first.update(dict.fromkeys(new, command))
    window.lost.update({name: command for name in new if not stands(name)})
    for name in [name for name in window.lost if stands(name)]:
        del window.lost[name]
    window.names |= names


_HIT = re.compile(r"^((?:\.{0,2}/)?[^\s:][^:\n]{0,300}?\.\w{1,10}):(\d{1,7})[:-]")
_UNDER, _REST = re.compile(r"^ (\d{1,7})[:-]"), re.compile(r"^ \[\d+ more: (.+)\]$")


def _places(text: str) -> dict[str, set[int]]:
    """Return file -> lines of it that hits tell of, as searches print them and as they stand below their file."""
    found: dict[str, set[int]] = defaultdict(set)
    path = ""
    for line in text.split("\n"):
        if hit := _HIT.match(line):
            found[hit[1].removeprefix("./")].add(int(hit[2]))
        elif path and (under := _UNDER.match(line)):
            found[path].add(int(under[1]))
        elif path and (rest := _REST.match(line)):
            found[path].update(int(word) for word in rest[1].split() if word.isdecimal())
        else:
            path = line.removeprefix("./") if line and not line[0].isspace() else ""
    return found


def _goes_to(view: Any, access: Any, window: _Window, found: Replay) -> None:
    """Count a read of some lines of a file of which an output told one: the agent knew where to look."""
    if not (span := re.match(r"(\d+)-(\d+)", access.lines)):
        return
    first, last = int(span[1]), int(span[2])
    for path, numbers in window.places.items():
        inside = [number for number in numbers if first <= number <= last]
        if not inside or not (access.path == path or access.path.endswith(f"/{path}")):
            continue
        found.places += 1
        if not any(numbers[number] for number in inside):
            found.places_missing.append((view.session_id, path, access.lines))
        for number in inside:
            del numbers[number]


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
    print(f"{kind:<20} {runs:>6} {raw:>10,} {told:>10,} {1 - told / raw if raw else 0:>6.0%}")


if __name__ == "__main__":
    for half, title in ((0, "rules were found on"), (1, "held out")):
        told = replay(settings_module.load(), half=half)
        print(f"\nhalf of the sessions: {title}\n{'kind':<20} {'runs':>6} {'tokens':>10} {'shortened':>10} {'saved':>6}")
        for kind, raw in told.raw.most_common():
            _row(kind, told.runs[kind], raw, told.told[kind])
        _row("all", told.runs.total(), told.raw.total(), told.told.total())
        print(f"lines that a later edit used: {told.needed:,}; of these missing: {len(told.missing):,}")
        print(f"names that a later call used: {told.names:,}; of these missing: {len(told.names_missing):,}")
        print(f"lines of files that a later read went to: {told.places:,}; of these missing: {len(told.places_missing):,}")
        for row in [*told.missing, *told.names_missing, *told.places_missing][: int(sys.argv[1]) if len(sys.argv) > 1 else 0]:
            print(json.dumps(row))
