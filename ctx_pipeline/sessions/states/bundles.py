"""A session's state as a file for another machine, with what was redacted named; and back."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline import discovery
from ctx_pipeline.context.session_state.state import BUNDLE, Item, SessionState, from_json
from ctx_pipeline.errors import UnknownName, UsageError
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.sessions.session_choice import names_of
from ctx_pipeline.sessions.states.state import session_state
from ctx_pipeline.storage.reader import reading

if TYPE_CHECKING:
    from ctx_pipeline.settings import Settings

SCHEMA = 1
"""Version of the file."""

LARGEST = 2_000_000
"""Bytes of a bundle."""

_REDACTED = re.compile(r"\[REDACTED:([\w.-]{1,80})\]")
_ID = re.compile(r"[\w.-]{1,200}")
_MOST_NAMES, _LONGEST_NAME = 20, 300


class Bundle(NamedTuple):
    """What a bundle holds; whoever said something in its state is told as the bundle."""

    state: SessionState
    redacted: dict[str, int]
    """detector -> how often it had replaced something"""
    repository: list[str]
    """names of the session's repository on any machine; empty where nothing tells"""


def exported(name: str | None = None, *, at: str | None = None, cwd: str | None = None, settings: Settings) -> dict[str, Any]:
    """Return the bundle of a session: its state, the names of its repository, and how often each detector had replaced something."""
    state = session_state(name, at=at, cwd=cwd, settings=settings).state
    with reading(settings) as (store, _):
        row = store.ledger.session(state.host, state.session_id)
    names = names_of(state.repository, row.rows.get("cwd") if row else None)
    told = Redactor(settings.patterns).redact_values({"state": state.to_json(), "repository": names})
    found = Counter(_REDACTED.findall(json.dumps(told, ensure_ascii=False)))
    return {"schema": SCHEMA, "what": BUNDLE, **told, "redacted": dict(sorted(found.items()))}


def read(data: bytes) -> Bundle:
    """Return what a file holds; raises UsageError for one that is no bundle."""
    if len(data) > LARGEST:
        raise UsageError(f"the file is larger than {LARGEST:,} bytes", hint="ctx session export makes bundles")
    try:
        value = json.loads(data)
        state = from_json(value["state"] if (value["what"], value["schema"]) == (BUNDLE, SCHEMA) else {})
        redacted = {str(k): int(v) for k, v in dict(value.get("redacted") or {}).items()}
        names = [str(name)[:_LONGEST_NAME] for name in list(value.get("repository") or ())[:_MOST_NAMES]]
        host = discovery.host(state.host).key
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, UnknownName) as error:
        raise UsageError(f"the file is not a bundle: {type(error).__name__}", hint="ctx session export makes bundles") from error
    if not _ID.fullmatch(state.session_id):
        raise UsageError("the file names no session", hint="ctx session export makes bundles")

    def marked(items: list[Item]) -> list[Item]:
        return [i._replace(by=BUNDLE) if i.stated else i for i in items]

    return Bundle(
        replace(
            state,
            host=host,
            task=marked([state.task])[0] if state.task else None,
            findings=marked(state.findings),
            decisions=marked(state.decisions),
            progress=marked(state.progress),
            next_steps=marked(state.next_steps),
        ),
        redacted,
        names,
    )
