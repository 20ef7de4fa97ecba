"""What could do harm: secrets, orders from tool output, destruction, writes outside the project, gaps of the capture."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from ctx_pipeline import discovery
from ctx_pipeline.facts.command_runs import command_runs
from ctx_pipeline.model.declared import Reading, signal
from ctx_pipeline.shell.command_risk import destroys, is_outside
from ctx_pipeline.shell.files import files_changed

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView

COLUMNS = {
    "events": ("event_id", "thread_id", "seq", "ts", "kind", "subtype", "text"),
    "tool_calls": ("tool", "action", "paths", "argv", "exit", "is_error", "call_event", "result_event"),
}
_MARK = re.compile(r"\[REDACTED:([a-z0-9-]{1,40})\]")
_BEFORE = 60
_MARKS = 1000
_NAME = re.compile(r"([\w.-]{2,40})[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}(?:\w{1,12} )?$")
_WINDOW = 20_000


def _secrets(view: SessionView) -> tuple[dict[str, int], list[str]]:
    """Return detector -> number of secrets, and the events of the first sight of each.

    The value is gone, so two marks are one secret when the same detector found them
    behind the same name; in one event each mark is a secret (the first 1,000 are read).
    """
    most: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], str] = {}
    for e in view.events:
        text = e.text
        if text and "[REDACTED:" in text:
            own: Counter[tuple[str, str]] = Counter()
            for mark in islice(_MARK.finditer(text), _MARKS):
                name = _NAME.search(text[max(0, mark.start() - _BEFORE) : mark.start()])
                own[mark[1], name[1].lower() if name else ""] += 1
            for key, count in own.items():
                most[key] = max(most.get(key, 0), count)
                first.setdefault(key, e.event_id)
    counts: Counter[str] = Counter()
    for (detector, _), count in most.items():
        counts[detector] += count
    return dict(sorted(counts.items())), list(first.values())


@signal(group="risk", unit="secrets", better="lower", method="regex", reads=("events",), columns=COLUMNS)
def secret_exposure_count(view: SessionView) -> Reading:
    """Secrets that stood in the session's text, each once, by the detector that found them.

    The values were replaced before any table was written, so the same secret behind the
    same name is one, and behind two names two. Every one of them went to the provider:
    rotate it, and keep the file that it came from out of the agent's reach.
    """
    counts, events = view.once(_secrets)
    return Reading(
        float(sum(counts.values())), tuple(events), confidence=0.75 if counts else 1.0, metadata={"detectors": counts} if counts else None
    )


@signal(group="risk", kind="boolean", better="lower", method="regex", reads=("events",), columns=COLUMNS)
def secret_exposure_signal(view: SessionView) -> Reading:
    """Whether any secret stood in the session's text.

    The yes or no of ``secret_exposure_count``, for lists and filters. A session with one
    is not to be shared before somebody has looked.
    """
    counts, events = view.once(_secrets)
    return Reading(bool(counts), tuple(events), confidence=0.75 if counts else 1.0)


_GAP = r"\s{1,4}"
_ORDERS = re.compile(
    "|".join(
        pattern.replace(" ", _GAP)
        for pattern in (
            (
                r"\b(?:ignore|disregard|forget|override) (?:(?:all|any|the|your|of|these|my) ){0,3}"
                r"(?:previous|prior|above|preceding|earlier|existing|original|system) (?:\w{1,20} ){0,2}instructions\b"
            ),
            r"\bnew (?:system )?instructions\s{0,4}:",
            r"\byou are now (?:an?|in|the) (?:\w{1,20} ){0,2}(?:assistant|ai|agent|mode|model|dan)\b",
            r"\b(?:do not|don't|never) tell the user\b",
            r"\b(?:reveal|print|repeat|output|show|leak) (?:me )?(?:your|the) (?:full |entire |hidden )?system prompt\b",
            r"<\|im_start\|>\s{0,4}system",
        )
    )
)
_ANCHORS = (b"instructions", b"you are now", b"tell the user", b"system prompt")
_MARKER = b"<|im_start"
_AROUND = 120
_TRIES = 20
_HIDDEN = re.compile("[\U000e0020-\U000e007f]{4}|[\u202a-\u202e\u2066-\u2069].{0,40}[\u202a-\u202e\u2066-\u2069]")
_BIDI = re.compile(rb"\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])")
"""The marks of direction as UTF-8; characters of the plane of tags begin with F3."""


@signal(
    group="risk", unit="results", better="lower", method="regex", reads=("events", "tool_calls"), columns=COLUMNS, kinds=("tool_result",)
)
def prompt_injection_count(view: SessionView) -> Reading:
    """Results of tools that hold orders to a model: "ignore previous instructions", chat markers, hidden characters.

    The first and the last 10,000 characters of each result are read; what the person and
    the host wrote is not. Files about prompt injection, tests and prompts of a project
    are hits as well, so look at the evidence: from the web or an issue it is an attack,
    from a file of the project mostly a text about one. The metadata counts by tool.
    """
    calls = {c.result_event: c for c in view.tool_calls if c.result_event}
    found = [e for e in view.of_kinds("tool_result") if e.text and _orders(e.text)]
    tools = Counter(calls[e.event_id].tool if e.event_id in calls else "unknown" for e in found)
    outside = any(calls[e.event_id].action in ("web", "mcp") for e in found if e.event_id in calls)
    return Reading(
        float(len(found)),
        tuple(e.event_id for e in found),
        confidence=1.0 if not found else 0.8 if outside else 0.5,
        metadata={"tools": dict(sorted(tools.items()))} if found else None,
    )


def _orders(text: str) -> bool:
    """Tell whether a text gives orders to a model; patterns are only tried near a word that all of them need."""
    if len(text) > _WINDOW:
        text = f"{text[: _WINDOW // 2]}\n{text[-_WINDOW // 2 :]}"
    # bytes are lowered and searched at several times the speed of text that is not ASCII
    data = text.encode("utf-8", "surrogatepass")
    if len(data) != len(text) and (b"\xf3" in data or _BIDI.search(data)) and _HIDDEN.search(text):
        return True
    data = data.lower()
    near = [anchor.decode() for anchor in _ANCHORS if anchor in data]
    if b"|" in data and _MARKER in data:
        near.append(_MARKER.decode())
    low = text.lower() if near else ""
    for anchor in near:
        at = low.find(anchor)
        tries = 0
        while at >= 0 and tries < _TRIES:
            if _ORDERS.search(low, max(0, at - _AROUND), at + _AROUND):
                return True
            at = low.find(anchor, at + _AROUND)
            tries += 1
    return False


@signal(version=3, group="risk", unit="commands", better="lower", reads=("command_runs",))
def destructive_command_count(view: SessionView) -> Reading:
    """Shell commands that destroy what no build makes anew: files, history, branches, remote state, data.

    ``rm -r`` of something that matters, ``git reset --hard``, ``git clean -f``, forced
    pushes, dropped tables, removed volumes, scripts from the web run unseen. Removing
    ``node_modules``, build output and temporary files is not counted, nor what the person
    refused. The metadata counts by kind; each is worth a rule in the permissions.
    """
    kinds: Counter[str] = Counter()
    found = []
    for run in command_runs(view):
        kind = () if run.result == "refused" else destroys(run.command, view.session.cwd)
        if kind:
            kinds.update(kind)
            found.append(run)
    metadata = {"kinds": dict(sorted(kinds.items())), "commands": [run.command[:120] for run in found[:3]]} if found else None
    return Reading(float(len(found)), tuple(run.call_event for run in found), confidence=0.8, metadata=metadata)


@signal(version=3, group="risk", unit="files", better="lower", reads=("tool_calls", "command_runs", "sessions"), columns=COLUMNS)
def writes_outside_project_count(view: SessionView) -> Reading:
    """Files outside the session's folder and repository that the agent changed, by an edit tool or in a shell.

    Temporary files and the agent's own plans and notes are not counted. Settings in the
    home folder and neighbouring projects are the usual ones; each should have been asked
    for. Unknown where the session's folder is.
    """
    cwd = view.session.cwd
    if not cwd:
        return Reading(None, reason="the session's folder is not known")
    root = discovery.checkout_of(cwd)
    first: dict[str, str] = {}
    for call in view.tool_calls:
        if call.action in ("edit", "write") and not call.is_error:
            for path in call.paths:
                if is_outside(path, root):
                    first.setdefault(path, call.call_event)
    for run in command_runs(view):
        if run.result != "refused" and run.outputs:
            for path in files_changed(run.command, cwd):
                if is_outside(path, root):
                    first.setdefault(path, run.call_event)
    return Reading(float(len(first)), tuple(first.values()), confidence=0.8, metadata={"files": sorted(first)[:20]} if first else None)


@signal(group="risk", unit="events", better="lower", reads=("events",), columns=COLUMNS, kinds=("unknown",))
def unknown_event_count(view: SessionView) -> Reading:
    """Events of a kind that this version does not know; their payload is kept.

    The host has written something new. A few are harmless; many of one kind mean that
    something counts too low until the host's file is brought up to date.
    """
    found = view.of_kinds("unknown")
    names = Counter(e.subtype or "unnamed" for e in found)
    return Reading(float(len(found)), tuple(e.event_id for e in found), metadata={"kinds": dict(names.most_common(10))} if found else None)


@signal(group="risk", unit="events", better="lower", reads=("events",), columns=COLUMNS)
def events_without_timestamps(view: SessionView) -> Reading:
    """Events for which the host recorded no time.

    Titles and summaries have none by nature. Times and durations of the session rest on
    the others: set them against the number of events before believing a duration.
    """
    found = [e for e in view.events if e.ts is None]
    kinds = Counter(e.kind for e in found)
    return Reading(
        float(len(found)), tuple(e.event_id for e in found[:8]), metadata={"kinds": dict(sorted(kinds.items()))} if found else None
    )


@signal(group="risk", unit="records", better="lower", reads=("sessions",), columns=COLUMNS)
def quarantined_record_count(view: SessionView) -> Reading:
    """Records of the session that could not be decoded; raw keeps their bytes.

    Half a line at the end of a live file is ordinary. Others are damage, or a format that
    changed: ``ctx doctor`` names them.
    """
    return Reading(float(view.session.quarantined))


@signal(group="risk", kind="boolean", better="lower", reads=("events", "sessions"), columns=COLUMNS, kinds=("unknown",))
def capture_gap_signal(view: SessionView) -> Reading:
    """Whether a part of the session is missing or not understood.

    Events of unknown kind or records that could not be decoded. Numbers of such a session
    are lower bounds. An event without a time is no gap: titles and summaries have none.
    """
    unknown = [e.event_id for e in view.of_kinds("unknown")]
    gaps: dict[str, Any] = {"unknown": len(unknown), "quarantined": view.session.quarantined}
    gaps = {name: count for name, count in gaps.items() if count}
    return Reading(bool(gaps), tuple(unknown), metadata=gaps or None)
