"""What recorded sessions' shell output would have cost, and whether anything that was used later would have been missing.

``python -m ctx_pipeline_tests.bench.replay_outputs`` reads the store of this environment
(``CTX_HOME``) and prints a row for each kind of command. A line of a later edit's old text
counts as needed where the output held it and nothing that was read before did.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctx_pipeline import settings as settings_module
from ctx_pipeline.compression.compress import counting
from ctx_pipeline.compression.shell_output import kind_of, shorten
from ctx_pipeline.facts.command_runs import command_runs, printed
from ctx_pipeline.facts.prompts import arguments_of
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

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

    @property
    def saved(self) -> float:
        """Share of all tokens."""
        return 1 - self.told.total() / self.raw.total() if self.raw else 0.0


def replay(settings: Settings) -> Replay:
    """Return what the shell output of every captured session would have cost; texts are kept in a folder that goes again."""
    tokenizer = counting()
    found = Replay()
    with tempfile.TemporaryDirectory() as folder, reading(settings) as (store, _):
        apart = replace(settings, home=Path(folder))
        for cell in store.lake.manifests("normalized"):
            for view in store.lake.read_sessions(cell, None, ("events", "tool_calls", "threads")):
                _of_session(view, apart, lambda text: tokenizer.count_tokens(text).count, found)
    return found


def _of_session(view: Any, settings: Settings, count: Any, found: Replay) -> None:
    wanted = _edited_lines(view)
    known: dict[str, set[str]] = defaultdict(set)
    results = {e.event_id: e for e in view.of_kinds("tool_result")}
    outputs: dict[str, Any] = {}
    for run in command_runs(view):
        text = printed(view, run)
        if text:
            outputs[run.call_event] = (run, text)
    for call in view.tool_calls:
        if call.call_event not in outputs:
            read = results.get(call.result_event)
            known[call.thread_id].update(line.strip() for line in (read.text if read is not None and read.text else "").split("\n"))
            continue
        run, text = outputs[call.call_event]
        made = shorten(run.command, text, count=count, settings=settings, exit_status=run.exit)
        kind = kind_of(run.command)
        found.runs[kind] += 1
        found.raw[kind] += made.raw_tokens
        found.told[kind] += made.tokens
        lines = {line.strip() for line in text.split("\n")}
        for seq, line in wanted.get(call.thread_id, ()):
            if seq > call.seq and line in lines and line not in known[call.thread_id]:
                found.needed += 1
                if line not in made.text:
                    found.missing.append((view.session_id, run.command[:80], line[:80]))
        known[call.thread_id].update(lines)


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


if __name__ == "__main__":
    told = replay(settings_module.load())
    print(f"{'kind':<10} {'runs':>6} {'tokens':>10} {'shortened':>10} {'saved':>6}")
    for kind, raw in told.raw.most_common():
        print(f"{kind:<10} {told.runs[kind]:>6} {raw:>10,} {told.told[kind]:>10,} {1 - told.told[kind] / raw if raw else 0:>6.0%}")
    print(f"{'all':<10} {told.runs.total():>6} {told.raw.total():>10,} {told.told.total():>10,} {told.saved:>6.0%}")
    print(f"lines that a later edit used: {told.needed:,}; of these missing: {len(told.missing):,}")
    for row in told.missing[:20]:
        print(json.dumps(row))
