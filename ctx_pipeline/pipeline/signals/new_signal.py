"""A signal of one's own: the file to begin with, and the examples in it run."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.errors import DeclarationError, UnknownName, UsageError
from ctx_pipeline.model.declared import Reading, group_of
from ctx_pipeline.model.raw import Cell
from ctx_pipeline.pipeline.measure import take
from ctx_pipeline.pipeline.signals.signal_inputs import by_query
from ctx_pipeline.settings import Settings
from ctx_pipeline.storage import open_store
from ctx_pipeline.storage.lake.queries import readings_of

if TYPE_CHECKING:
    from ctx_pipeline.model.declared import Signal
    from ctx_pipeline.model.examples import Builder

GROUPS = ("activity", "outcome", "cost", "risk", "context", "behavior")

_NAME = re.compile(r"[a-z][a-z0-9_]{2,60}")
_TAKEN = frozenset({"session", "signal", "sql_signal", "base"})
"""Names that the file itself needs, and a file that would be no signal."""

_PYTHON = '''"""{title}: a signal of one's own."""

from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.model.examples import session


# kind: numeric, boolean, categorical or text. better: higher, lower or neither.
# reads: the tables the function looks at, of events, tool_calls, model_calls and threads;
# kinds and columns narrow them further, and make the backfill faster.
# Raise version when the same session would get another value.
@signal(version=1, group="{group}", kind="numeric", unit="events", better="neither", reads=("events", "tool_calls"))
def {name}(view):
    """What the number is, in one sentence.

    How to read it: which values are ordinary, which are not, and what to do then. Both
    parts are shown by ctx signal list and on the page.
    """
    # view.events and view.tool_calls are named rows in order; view.prompts is what the person typed;
    # view.call_text(call) and view.result_text(call) are a tool call's arguments and output.
    found = [e for e in view.events if e.kind == "answer" and "FILL ME IN" in (e.text or "")]
    if not view.events:
        return Reading(None, reason="the session has no events")
    return Reading(float(len(found)), tuple(e.event_id for e in found))


# Sessions made by hand, and the value that a person counts in them.
EXAMPLES = {{
    "{name}": [
        (session().prompt("make the tests pass").shell("pytest", exit=1, text="1 failed").answer("The loader is wrong."), 1),
        (session(), None),
    ],
}}
'''

_SQL = '''"""{title}: a signal of one's own, as SQL over the tables."""

from ctx_pipeline.model.declared import sql_signal
from ctx_pipeline.model.examples import session


# The query gives session_id and value, one row a session, and where it likes evidence (a list
# of event ids), reason and confidence. It sees the tables in reads, with the sessions of one
# host and month. Try it with: ctx sql "SELECT ..."
@sql_signal(version=1, group="{group}", kind="numeric", unit="events", better="neither", reads=("events",))
def {name}():
    """What the number is, in one sentence.

    How to read it: which values are ordinary, which are not, and what to do then. Both
    parts are shown by ctx signal list and on the page.
    """
    return """
        SELECT session_id, count(*) AS value, list(event_id ORDER BY seq)[:8] AS evidence
        FROM events
        WHERE kind = 'answer' AND contains(text, 'FILL ME IN')
        GROUP BY session_id
    """


# Sessions made by hand, and the value that a person counts in them.
EXAMPLES = {{
    "{name}": [
        (session().prompt("make the tests pass").answer("The loader is wrong."), 1),
        (session(), None),
    ],
}}
'''


def write(name: str, *, group: str = "activity", sql: bool = False, packaged: bool = False, settings: Settings | None = None) -> Path:
    """Write the file of a new signal and return its path; nothing is overwritten.

    It lies in ``config/signals`` of the store, or with ``packaged`` in the package of a
    checkout. Raises UsageError for a name that is no Python name in lower case, that is
    taken, or for a group that is none.
    """
    chosen = settings or settings_module.load()
    discovery.look_in(chosen.home / "config")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name in _TAKEN:
        raise UsageError(
            f"{name!r} cannot be the name of a signal",
            hint="use 3 to 61 lower-case letters, digits and underscores, and no word of Python: long_answers",
        )
    group = group_of(group)
    if group not in GROUPS:
        raise UsageError(f"there is no group {group!r}", hint=f"use one of {', '.join(GROUPS)}")
    if name in discovery.signals() or name in discovery.families():
        raise UsageError(f"there is already a signal or a family {name!r}", hint="ctx signal list")
    folder = Path(discovery.__file__).parent / "signals" if packaged else chosen.home / "config" / "signals"
    if packaged and not (folder.parents[1] / "pyproject.toml").is_file():
        raise UsageError("this is not a checkout of ctx_pipeline", hint="leave out --packaged: the file goes into your own folder")
    for part in (chosen.home, chosen.home / "config", folder):
        if not part.exists():
            part.mkdir(parents=True, mode=0o700)
    path = folder / f"{name}.py"
    title = name.replace("_", " ").capitalize()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write((_SQL if sql else _PYTHON).format(name=name, group=group, title=title))
    except FileExistsError as error:
        raise UsageError(f"{path} is there already", hint="choose another name, or fill that file in") from error
    path.chmod(0o600 if not packaged else 0o644)
    discovery.reload()
    return path


def check(names: list[str] | None = None, *, settings: Settings | None = None) -> list[dict[str, Any]]:
    """Return each example in the files of signals with what was found, without running anything else.

    Keys: signal, example (number), expected, found, reason, holds. Without names the
    signals of one's own files; raises UnknownName for a name that is no signal, and
    DeclarationError where a file cannot be used.
    """
    chosen = settings or settings_module.load()
    discovery.look_in(chosen.home / "config")
    known = discovery.signals()
    for name in names or ():
        if name not in known:
            raise UnknownName("signal", name, known)
    own = {str(path) for path in discovery.own_files()}
    broken = {path: why for path, why in discovery.left_out().items() if path in own and Path(path).parent.name == "signals"}
    if broken and not names:
        raise DeclarationError("; ".join(broken.values()), hint="mend the file or move it away")
    wanted = [known[n] for n in names] if names else [s for s in known.values() if _file(s) in own]
    return [line for s in wanted for line in _examples(s)]


def _file(declared: Signal) -> str:
    return str(getattr(sys.modules.get(declared.function.__module__), "__file__", ""))


def _examples(declared: Signal) -> list[dict[str, Any]]:
    module = sys.modules.get(declared.function.__module__)
    lines = []
    for number, (example, expected) in enumerate(getattr(module, "EXAMPLES", {}).get(declared.name, ()), 1):
        found = _by_query(declared, example) if declared.sql else take(declared, example.build())
        lines.append(
            {
                "signal": declared.name,
                "example": number,
                "expected": expected,
                "found": found.value,
                "reason": found.reason,
                "holds": found.value == expected,
            }
        )
    return lines


def _by_query(declared: Signal, example: Builder) -> Reading:
    """Return the reading of a signal that is SQL, over a lake of this one session; raises ContractError for a query that fails."""
    cell = Cell(example.host, "2026-01")
    with TemporaryDirectory() as folder, open_store(Settings(home=Path(folder))) as store:
        rows = {
            "sessions": [example.row()],
            "events": example.events,
            "tool_calls": example.calls,
            "model_calls": example.model_calls,
        }
        store.lake.replace("normalized", cell, rows, code_version="1", input_fp="", content_hash="")
        readings_of(store.lake, cell, declared.sql, declared.reads)
        found = by_query(store, cell, [declared])[declared.name]
    return found if isinstance(found, Reading) else found.get(example.session_id) or take(declared, example.build())
