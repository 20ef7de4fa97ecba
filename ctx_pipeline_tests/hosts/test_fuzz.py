"""No file makes a reader raise, run out of memory, or count otherwise than the other reader."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from ctx_pipeline_tests.factories.every_record import PNG
from ctx_pipeline_tests.hosts.fuzzing import KINDS, RECORDS, check, hostile_files
from ctx_pipeline_tests.strategies import PATIENCE, examples

pytestmark = pytest.mark.timeout(PATIENCE)

every_host = pytest.mark.parametrize("host", sorted(KINDS))


@every_host
@pytest.mark.feature("hosts.fuzz")
def test_hostile_files_are_read_without_harm(host: str) -> None:
    @examples(80)
    @given(data=hostile_files(host))
    def read(data: bytes) -> None:
        check(host, data)

    read()


@every_host
@pytest.mark.feature("hosts.huge-lines")
def test_a_line_of_twenty_megabytes_costs_memory_in_proportion(host: str) -> None:
    words = PNG * 4_000
    long = {"claude": {"type": "user", "uuid": "u", "message": {"role": "user", "content": words}}}
    long["codex"] = {"timestamp": "2026-03-01T12:00:00Z", "type": "event_msg", "payload": {"type": "user_message", "message": words}}
    data = b"".join(json.dumps(r).encode() + b"\n" for r in (RECORDS[host][0], long[host], RECORDS[host][1]))
    assert len(data) > 19_000_000
    check(host, data)
