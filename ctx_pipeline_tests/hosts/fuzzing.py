"""Hostile files of both hosts: records of every type, bent, cut, repeated and mixed; and what must hold of them.

``python -m pytest ctx_pipeline_tests/hosts/test_fuzz.py --hypothesis-profile long`` runs
a hundred times as many examples as the suite does, new ones each time.
"""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ctx_pipeline import discovery
from ctx_pipeline.model.codec import iso
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import MODEL_CALLS
from ctx_pipeline.pipeline.ingest.decoding import decode
from ctx_pipeline.redaction import Redactor
from ctx_pipeline_tests.contracts.test_hosts import assert_contract
from ctx_pipeline_tests.factories import codex as make
from ctx_pipeline_tests.factories.every_record import claude_lines, codex_lines

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNTED = [place for place, name in enumerate(MODEL_CALLS.names) if name not in {"start", "end", "line"}]
_REDACTOR = Redactor()

STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 10_000_000, 10**12 + 1, 2**63, 10**40, -(2**70), 0.5, 1e300, float("nan"), float("inf")),
    *("", "x", "\0", "\ud800", "\u202e", "a\u2028b", "../../etc/passwd", "NaN", "10", "x" * 5_000, "<cwd>" * 40, '{"output":' * 30),
    *("deep-3", "deep-90", "deep-700", "deep-5000"),
    *([], {}, [[]], [None, 1, "x"], {"type": {"type": []}}, {"type": "text"}, [{"type": "text", "text": "t"}]),
    *("2026-03-01T12:00:00", "2026-03-01T12:00:00+14:00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2099-01-01", "1e9"),
)
"""Values that no field should have, and clocks of the wrong era, zone or shape."""


_DEEP = {b'"deep-%d"' % depth: b"[" * depth + b"]" * depth for depth in (3, 90, 700, 5_000)}


def _usage_claude(number: int) -> dict[str, Any]:
    usage = {"input_tokens": number, "output_tokens": 5 * number, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10}
    message = {"id": f"m{number // 2}", "role": "assistant", "model": "claude-opus-4-7", "content": [], "usage": usage}
    return {"type": "assistant", "uuid": f"v{number}", "timestamp": f"2026-03-06T10:00:{number:02d}.000Z", "message": message}


def _usage_codex() -> list[dict[str, Any]]:
    counts = [make.tokens(300 + n, make.usage(100 * n, 60 * n, 5 * n), make.usage(100, 60, 5)) for n in (1, 1, 2, 3)]
    record = {"thread_id": make.THREAD, "response_id": "r", "usage": make.usage(9, 3, 1), "thread_token_usage": make.usage(309, 183, 16)}
    return [*counts, make.line(310, "token_usage_record", record)]


RECORDS: dict[str, list[dict[str, Any]]] = {
    "claude": [*claude_lines(), *(_usage_claude(n) for n in range(8))],
    "codex": [*codex_lines(), *_usage_codex()],
}
KINDS = {"claude": "transcript", "codex": "rollout"}


@st.composite
def bent_records(draw: st.DrawFn, host: str) -> list[dict[str, Any]]:
    """Draw some of a host's records in a drawn order, a few of their fields replaced, dropped, added or nested too deep."""
    chosen = [RECORDS[host][n] for n in draw(st.lists(st.integers(0, len(RECORDS[host]) - 1), min_size=1, max_size=12))]
    usual = [r for r in RECORDS[host] if "usage" in json.dumps(r)][: draw(st.integers(0, 5))]
    records = copy.deepcopy([*RECORDS[host][: draw(st.integers(0, 2))], *chosen, *usual])
    for _ in range(draw(st.integers(0, 8))):
        places = list(_places(records[draw(st.integers(0, 20)) % len(records)]))
        holder, key = places[draw(st.integers(0, 40)) % len(places)]
        holder[key] = copy.deepcopy(STRANGE[draw(st.integers(0, len(STRANGE) - 1))])
    return records


def _places(value: Any) -> Any:
    """Yield (container, key) of every value inside a record."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


@st.composite
def hostile_files(draw: st.DrawFn, host: str) -> bytes:
    """Draw the bytes of a file of bent records; sometimes with junk between lines, torn, doubled or re-saved by an editor."""
    lines = [json.dumps(r, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass") + b"\n" for r in draw(bent_records(host))]
    for _ in range(draw(st.integers(0, 3))):
        junk = draw(st.sampled_from([b"\0" * 64, b"\xff\xfe\n", b"[1]\n", b"\n", b'{"a":\n', b"{}", b"null\n", b"\xef\xbb\xbf", b"\r\n"]))
        lines.insert(draw(st.integers(0, len(lines))), junk)
    if draw(st.booleans()):
        lines += lines[: draw(st.integers(0, len(lines)))]
    data = b"".join(lines)
    for mark, nested in _DEEP.items():
        data = data.replace(mark, nested)
    change = draw(st.sampled_from(["none", "none", "cut", "crlf", "flip"]))
    if change == "cut":
        return data[: draw(st.integers(0, len(data)))]
    if change == "crlf":
        return b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    if change == "flip" and data:
        place = draw(st.integers(0, len(data) - 1))
        return data[:place] + bytes([draw(st.integers(0, 255))]) + data[place + 1 :]
    return data


def check(host: str, data: bytes, rel: str = "s.jsonl") -> None:
    """Fail where a file makes a reader raise, break the tables, take memory beyond its size, or where the two readers disagree."""
    declared = discovery.hosts()[host]
    kind = KINDS[host]
    identity = declared.files.identify(kind, rel, data[:65_536])
    thread = identity.thread_id if identity else "s"
    stream = StreamBytes("0" * 16, kind, rel, 0, data, thread, identity.parent_thread_id if identity else None)
    given = SessionInput(host, thread, (stream,))
    parsed = _bounded(lambda: declared.records.parse(given), len(data))
    assert_contract(given, parsed)
    decode(given, declared.records.parse, _REDACTOR, month="2026-03", size=len(data))
    assert declared.usage.read is not None
    reader = declared.usage.read
    light = _bounded(lambda: reader(given), len(data))
    if light is not None:
        assert [[row[n] for n in _COUNTED] for row in light.model_calls] == [[row[n] for n in _COUNTED] for row in parsed.model_calls]
    if declared.usage.limits is not None:
        for ts, _, percent, minutes, reset in declared.usage.limits(data):
            assert iso(ts)
            assert reset is None or iso(reset)
            assert 0 <= percent <= 1_000
            assert 0 <= minutes < 1_000_000


def _bounded(read: Callable[[], Any], size: int) -> Any:
    tracemalloc.start()
    try:
        result = read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000 + 60 * size
    return result
