"""No bytes make the Codex parser raise or break the contract of the tables."""

from __future__ import annotations

import json
import random

import pytest

from ctx_pipeline.hosts.codex import HOST
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS, MODEL_CALLS, TOOL_CALLS
from ctx_pipeline_tests.factories import codex as make

STRANGE = (
    None,
    True,
    -1,
    2**63,
    10**400,
    1.5,
    "",
    "\ud800",
    "\u202e",
    "x" * 70_000,
    [],
    {},
    [[[]]],
    {"type": {"type": []}},
    [None],
    {"a": 10**400},
)
TYPES = {"str": str, "int": int, "bool": bool, "time": int, "list": list, "float": float}


def everything() -> list:
    """A thread with a record of nearly every kind."""
    return [
        *make.session(),
        make.item(40, "reasoning", summary=[{"type": "summary_text", "text": "t"}]),
        make.item(41, "local_shell_call", call_id="s", action={"command": ["ls"]}),
        make.item(42, "web_search_call", action={"type": "search", "query": "q"}),
        make.event(43, "web_search_end", call_id="w", query="q"),
        make.event(44, "exec_command_end", call_id="e", command=["ls"], exit_code=1),
        make.event(45, "patch_apply_end", call_id="p", success=True, changes={"a": {"type": "add", "content": "c"}}),
        make.event(46, "mcp_tool_call_end", call_id="m", invocation={"server": "s", "tool": "t"}, result={"Ok": {}}),
        make.event(47, "item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "x"}]}),
        make.line(48, "token_usage_record", {"thread_id": make.THREAD, "response_id": "r", "usage": make.usage(9, 3, 1)}),
        make.line(49, "compacted", {"message": "m"}),
        make.event(50, "error", message="bad"),
        make.meta(51, make.PARENT),
    ]


def spoilt(value, chance, rng):
    """The value with some of its parts replaced by strange ones."""
    if rng.random() < chance:
        return rng.choice(STRANGE)
    if isinstance(value, dict):
        return {k: spoilt(v, chance, rng) for k, v in value.items()}
    if isinstance(value, list):
        return [spoilt(v, chance, rng) for v in value]
    return value


def check(data: bytes) -> None:
    identity = HOST.files.identify("rollout", make.rel(), data[:65_536])
    thread = identity.thread_id if identity else make.THREAD
    parsed = HOST.records.parse(SessionInput("codex", thread, (StreamBytes("0" * 16, "rollout", make.rel(), 0, data, thread),)))
    for table, rows in ((EVENTS, parsed.events), (MODEL_CALLS, parsed.model_calls), (TOOL_CALLS, parsed.tool_calls)):
        keys = set()
        for row in rows:
            assert len(row) == len(table.columns)
            for column, value in zip(table.columns, row, strict=True):
                assert (column.nullable and value is None) or type(value) is TYPES[column.type], (column.name, value)
                if isinstance(value, int):
                    assert abs(value) < 2**63
                elif isinstance(value, str):
                    value.encode()
            keys.add(tuple(getattr(table.row(*row), k) for k in table.key))
        assert len(keys) == len(rows)


@pytest.mark.feature("codex.hostile-lines")
@pytest.mark.parametrize("seed", range(40))
def test_strange_values_anywhere_never_raise(seed):
    rng = random.Random(seed)
    records = [spoilt(r, rng.choice((0.01, 0.05, 0.3)), rng) for r in everything()]
    check(b"".join(json.dumps(r).encode() + b"\n" for r in records))


@pytest.mark.feature("codex.hostile-lines")
@pytest.mark.parametrize("seed", range(40))
def test_flipped_and_missing_bytes_never_raise(seed):
    rng = random.Random(seed)
    data = bytearray(make.lines(everything()))
    for _ in range(rng.randrange(1, 60)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    begin = rng.randrange(len(data))
    del data[begin : begin + rng.randrange(200)]
    check(bytes(data))


@pytest.mark.feature("codex.hostile-lines")
@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\x00" * 100, b"{}\n", b"[]\n", b"\xef\xbb\xbf{}\r\n", b"{" * 5000 + b"\n", b'{"a":' * 2000 + b"}" * 2000 + b"\n"]
)
def test_degenerate_files_never_raise(data):
    check(data)
