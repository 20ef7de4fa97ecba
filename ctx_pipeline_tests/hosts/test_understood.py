"""Every type, subtype, block and item that the hosts are known to write is understood."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline_tests.factories.every_record import CLAUDE, CODEX, PNG, claude_lines, codex_lines, encoded

if TYPE_CHECKING:
    from ctx_pipeline.model.raw import Parsed
    from ctx_pipeline_tests.factories.every_record import Row

KINDS = {"claude": "transcript", "codex": "rollout"}
TABLES = {"claude": (CLAUDE, claude_lines), "codex": (CODEX, codex_lines)}


def parsed_alone(host: str, data: bytes) -> Parsed:
    stream = StreamBytes("0" * 16, KINDS[host], "s.jsonl", 0, data, "s")
    return discovery.hosts()[host].records.parse(SessionInput(host, "s", (stream,)))


@pytest.mark.feature("hosts.understood")
@pytest.mark.parametrize("row", CLAUDE, ids=lambda row: f"{row[0]['type']}-{row[2]}")
def test_a_record_of_claude_code_becomes_its_event(row: Row) -> None:
    parsed = parsed_alone("claude", encoded(claude_lines([row])))
    assert [e[6:8] for e in parsed.events] == [row[1:]]
    assert parsed.unknown == {}
    assert not parsed.quarantined


@pytest.mark.feature("hosts.understood")
def test_every_record_of_codex_becomes_its_event_in_one_thread() -> None:
    parsed = parsed_alone("codex", encoded(codex_lines()))
    assert parsed.unknown == {}
    assert not parsed.quarantined
    first_of_line = {e.line: (e.kind, e.subtype) for e in reversed([EVENTS.row(*row) for row in parsed.events])}
    assert [first_of_line.get(line) for line in range(len(CODEX))] == [row[1:] for row in CODEX]


@pytest.mark.feature("codex.images")
@pytest.mark.parametrize("host", sorted(TABLES))
def test_no_picture_stands_in_a_text(host: str) -> None:
    rows, lines = TABLES[host]
    parsed = parsed_alone(host, encoded(lines(rows)))
    assert not [e[7] for e in parsed.events if e[9] and PNG[:200] in e[9]]
    digest = hashlib.sha256(base64.b64decode(PNG)).hexdigest()
    assert sum(digest in (e[9] or "") for e in parsed.events) > 10
