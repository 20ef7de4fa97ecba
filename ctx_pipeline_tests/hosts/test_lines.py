"""From bytes to records: the ladder from one call over the whole file down to quarantine."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctx_pipeline.hosts._lines import read_records
from ctx_pipeline.model.raw import StreamBytes


class Usage(msgspec.Struct):
    tokens: int = 0


class Message(msgspec.Struct):
    content: str | list[dict] | None = None
    usage: Usage | None = None


class Record(msgspec.Struct):
    type: str = ""
    message: Message | None = None


DECODER = msgspec.json.Decoder(Record)


def read(data: bytes):
    return read_records(StreamBytes("s", "transcript", "x.jsonl", 0, data, "t"), DECODER)


@pytest.mark.feature("lines.ladder")
def test_clean_lines_have_their_numbers_and_byte_ranges():
    found = read(b'{"type":"a"}\n{"type":"b"}\r\n{"type":"c"}\n')

    assert [v.type for v in found.values] == ["a", "b", "c"]
    assert list(zip(found.lines, found.starts, found.ends, strict=True)) == [(0, 0, 13), (1, 13, 27), (2, 27, 40)]
    assert (found.quarantined, found.repaired) == ([], 0)


@pytest.mark.feature("lines.ladder")
@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b'\xef\xbb\xbf{"type":"a"}', Record("a")),
        (b'{"type":"\xff"}', Record("\ufffd")),
        (b'{"type":5}', Record("")),
        (b'{"type":"a","message":{"usage":{"tokens":1.5}}}', Record("a", Message(None, Usage(0)))),
        (b'{"type":"a","message":{"content":{}}}', Record("a", Message(None, None))),
        (b'{"type":"a\tb"}', Record("a\tb")),
        (b'{"type":"\\ud800"}', Record("?")),
        (b'\x00\x00{"type":"a"}\x00', Record("a")),
    ],
)
def test_a_damaged_record_keeps_what_can_be_kept(line: bytes, kept: Record):
    found = read(b'{"type":"before"}\n' + line + b"\n")

    assert list(found.values) == [Record("before"), kept]
    assert (found.quarantined, found.repaired) == ([], 1)


@pytest.mark.feature("lines.quarantine")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"123", "expected an object, found a number"),
        (b"[1,2]", "expected an object, found a list"),
        (b"null", "expected an object, found null"),
        (b"\x00\x00\x00", "only NUL bytes"),
        (b'{"type":"cut', "not JSON: Unterminated string starting at"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b"plain words", "not JSON: Expecting value"),
    ],
)
def test_what_is_no_record_is_counted_with_its_place_and_reason_and_the_rest_goes_on(line: bytes, reason: str):
    found = read(b'{"type":"a"}\n' + line + b'\n\n{"type":"b"}\n')

    assert [v.type for v in found.values] == ["a", "b"]
    assert [(q.line, q.start, q.end, q.reason) for q in found.quarantined] == [(1, 13, 14 + len(line), reason)]
    assert found.count == 3


@pytest.mark.feature("lines.joined")
@pytest.mark.parametrize("broken", [b"", b"[1]\n"], ids=["clean", "beside a broken line"])
def test_two_records_glued_to_one_line_are_both_read(broken: bytes):
    found = read(b'{"type":"a"} {"type":"b"}\n{"type":"c"}\n' + broken)

    assert [v.type for v in found.values] == ["a", "b", "c"]
    assert (list(found.lines), found.glued, len(found.quarantined)) == ([0, 0, 1], True, len(broken[:1]))
    assert list(found.ends)[1:] == [26, 39]


@pytest.mark.feature("lines.joined")
def test_a_record_that_an_editor_spread_over_lines_is_one():
    data = b'{\n  "type": "a"\n}\n\n{"type":"b"}'
    found = read(data)

    assert [v.type for v in found.values] == ["a", "b"]
    assert [(line, data[s:e]) for line, s, e in zip(found.lines, found.starts, found.ends, strict=True)] == [
        (0, data[:18]),
        (4, data[19:]),
    ]


@pytest.mark.feature("lines.ladder")
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_give_records_or_reasons_inside_the_file(lines: list[bytes]):
    data = b"\n".join(lines)
    found = read(data)

    assert len(found.values) == len(found.lines) == len(found.starts) == len(found.ends)
    assert all(0 <= start < end <= len(data) for start, end in zip(found.starts, found.ends, strict=True))
    assert all(0 <= q.start < q.end <= len(data) and q.reason for q in found.quarantined)
