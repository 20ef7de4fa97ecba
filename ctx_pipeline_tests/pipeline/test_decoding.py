"""What decoding hands on of one session: rows, the same by column, and their hash."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from ctx_pipeline.model.raw import Parsed, SessionInput
from ctx_pipeline.model.tables import EVENTS, TOOL_CALLS
from ctx_pipeline.pipeline.ingest.decoding import SessionRows, decode
from ctx_pipeline.redaction import Redactor

AT = 1_772_582_400_000_000
"""2026-03-04 00:00 UTC in microseconds"""
KEY = "ghp_Qw3rTy7uI0pAs9dFgH2jKl5zXc8vBn1mQw3r"
HIDDEN = "[REDACTED:github-token]"


def event(number: int, **more: Any) -> tuple:
    known = {"event_id": f"e.{number}", "seq": number, "ts": AT + number, "kind": "answer", "actor": "assistant", "text": f"word {number}"}
    return _row(EVENTS, {**known, **more})


def tool(number: int, **more: Any) -> tuple:
    known = {"call_id": f"c{number}", "action": "shell", "argv": [f"make {number}"], "started": AT, "call_event": f"e.{number}"}
    return _row(TOOL_CALLS, {**known, **more})


def _row(table: Any, known: dict[str, Any]) -> tuple:
    empty: dict[str, Any] = {"str": "", "int": 0, "bool": False, "time": None, "list": []}
    shared = {"host": "claude", "session_id": "s", "thread_id": "s"}
    return tuple({**shared, **known}.get(c.name, None if c.nullable else empty[c.type]) for c in table.columns)


def decoded(events: list[tuple], tools: list[tuple]) -> SessionRows:
    given = SessionInput("claude", "s", ())
    return decode(given, lambda _: Parsed(events=events, tool_calls=tools), Redactor(), month="2026-03", size=0)


@pytest.mark.feature("ingest.content-hash")
@pytest.mark.parametrize(("events", "tools"), [(0, 0), (1, 0), (15, 1), (16, 17), (256, 255), (700, 300)])
def test_the_content_hash_is_that_of_all_rows_as_one_message(events, tools):
    rows = ([event(n) for n in range(events)], [tool(n) for n in range(tools)])
    found = decoded(*rows)
    assert found.content_hash == hashlib.sha256(msgspec.msgpack.encode(rows)).hexdigest()
    assert found.session[-1] == found.content_hash


@pytest.mark.feature("ingest.content-hash")
def test_any_changed_value_changes_the_hash():
    rows = ([event(n) for n in range(300)], [tool(0)])
    other = (rows[0], [tool(0, argv=["make 1"])])
    last = ([*rows[0][:-1], event(299, text="word")], rows[1])
    assert len({decoded(*given).content_hash for given in (rows, other, last)}) == 3


@pytest.mark.feature("ingest.columns")
def test_the_columns_say_what_the_rows_say_with_secrets_replaced_in_both():
    found = decoded([event(0), event(1, text=f"use {KEY}", call_id=KEY)], [tool(1, argv=["echo", KEY]), tool(2)])
    for table, rows, columns in ((EVENTS, found.events, found.event_columns), (TOOL_CALLS, found.tool_calls, found.tool_columns)):
        assert [dict(zip(table.names, row, strict=True)) for row in rows] == [
            dict(zip(table.names, row, strict=True)) for row in zip(*columns, strict=True)
        ]
    assert list(found.event_columns[EVENTS.names.index("text")]) == ["word 0", f"use {HIDDEN}"]
    assert list(found.tool_columns[TOOL_CALLS.names.index("argv")]) == [["echo", HIDDEN], ["make 2"]]
    assert KEY not in repr(found)


@pytest.mark.feature("ingest.columns")
def test_a_session_without_rows_has_empty_columns():
    found = decoded([], [])
    assert (len(found.event_columns), len(found.tool_columns)) == (len(EVENTS.names), len(TOOL_CALLS.names))
    assert {len(column) for column in (*found.event_columns, *found.tool_columns)} == {0}
    assert found.model_calls == []


@pytest.mark.feature("ingest.columns")
def test_rows_of_mixed_threads_stand_thread_by_thread_in_their_order():
    mixed = [event(n, thread_id="s/a" if n % 2 else "s") for n in range(6)]
    found = decoded(mixed, [tool(1, thread_id="s/a"), tool(0)])
    assert [e[EVENTS.names.index("seq")] for e in found.events] == [0, 2, 4, 1, 3, 5]
    assert [t[TOOL_CALLS.names.index("call_id")] for t in found.tool_calls] == ["c0", "c1"]
    counts = [(row[0], row[13], row[15]) for row in found.threads]
    assert counts == [("s", 3, 1), ("s/a", 3, 1)]
