"""What every host must hold, run over whatever discovery finds.

A host ships a sample: ``samples/<key>/home/`` is a home written by hand (a stream of a
database is a file named ``<path>#<stream name>``), ``samples/<key>/expected.json`` says
per session what its parser must make of it. The samples of a plug-in lie beside the
module that declares it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctx_pipeline import discovery
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import ACTORS, EVENT_KINDS, EVENTS, MODEL_CALLS, TABLES, TOOL_ACTIONS, TOOL_CALLS
from ctx_pipeline.model.titles import KEPT, title_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctx_pipeline.model.declared import Host
    from ctx_pipeline.model.raw import Parsed

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
HOSTS = discovery.hosts()
TYPES = {"str": str, "int": int, "float": float, "bool": bool, "time": int, "list": list}
STATUS = {"completed", "errored", "interrupted", "abandoned", "unknown"}

every_host = pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))


def samples_of(host: Host) -> Path:
    """Return the folder with a host's sample."""
    ours = SAMPLES / host.key
    return ours if ours.is_dir() else Path(str(sys.modules[host.records.parse.__module__].__file__)).parent / "samples" / host.key


def sample_sessions(host: Host) -> dict[str, SessionInput]:
    """Return the sessions of a host's sample home."""
    home = samples_of(host) / "home"
    streams: dict[str, list[StreamBytes]] = {}
    for number, path in enumerate(sorted(p for p in home.rglob("*") if p.is_file())):
        rel = path.relative_to(home).as_posix()
        kind = host.files.classify(rel.partition("#")[0])
        if kind is None or kind not in host.files.session_kinds:
            continue
        data = path.read_bytes()
        identity = host.files.identify(kind, rel, data[:65_536])
        if identity is not None:
            owner = identity.root_session_id or identity.parent_thread_id or identity.thread_id
            stream = StreamBytes(f"{number:016x}", kind, rel, 0, data, identity.thread_id, identity.parent_thread_id)
            streams.setdefault(owner, []).append(stream)
    return {owner: SessionInput(host.key, owner, tuple(found)) for owner, found in streams.items()}


def assert_contract(session: SessionInput, parsed: Parsed) -> None:
    """Fail where rows break what the tables and the raw streams say."""
    for table, rows in ((EVENTS, parsed.events), (MODEL_CALLS, parsed.model_calls), (TOOL_CALLS, parsed.tool_calls)):
        places = [table.names.index(name) for name in table.key]
        for row in rows:
            assert len(row) == len(table.columns), table.name
            for column, value in zip(table.columns, row, strict=True):
                if value is None:
                    assert column.nullable, f"{table.name}.{column.name}"
                    continue
                assert type(value) is TYPES[column.type], f"{table.name}.{column.name}: {value!r}"
                if type(value) is int:
                    assert -(2**63) <= value < 2**63, f"{table.name}.{column.name}"
                for text in value if column.type == "list" else [value]:
                    if column.type in ("list", "str"):
                        assert isinstance(text, str)
                        text.encode()
        keys = Counter(tuple(row[place] for place in places) for row in rows)
        assert not [key for key, count in keys.items() if count > 1], table.name
    _assert_events(session, [EVENTS.row(*row) for row in parsed.events], parsed)
    _assert_calls(parsed)


def _assert_events(session: SessionInput, events: list[Any], parsed: Parsed) -> None:
    sizes = {(s.stream, s.generation): len(s.data) for s in session.streams}
    ids = {e.event_id for e in events}
    threads = {t.thread_id for t in parsed.threads}
    seqs: dict[str, list[int]] = {}
    for event in events:
        assert (event.host, event.session_id) == (session.host, session.session_id)
        assert event.kind in EVENT_KINDS
        assert event.actor in ACTORS
        assert event.thread_id in threads
        assert event.parent_id is None or event.parent_id in ids
        assert event.event_id.startswith(f"{event.stream}.{event.generation}.{event.line}.")
        assert 0 <= event.start < event.end <= sizes[event.stream, event.generation]
        seqs.setdefault(event.thread_id, []).append(event.seq)
    for seq in seqs.values():
        assert seq == list(range(len(seq)))
    parents = {t.thread_id: t.parent_thread_id for t in parsed.threads}
    assert len(parents) == len(parsed.threads)
    assert {t.status for t in parsed.threads} | {parsed.facts.status} <= STATUS
    assert parsed.facts.title_source in {"custom", "ai", "summary", "prompt", "none"}
    assert sum(e.kind == "unknown" for e in events) <= sum(parsed.unknown.values())
    for bad in parsed.quarantined:
        assert 0 <= bad.start < bad.end <= sizes[bad.stream, bad.generation]
        assert bad.reason


def _assert_calls(parsed: Parsed) -> None:
    events = {row[0]: EVENTS.row(*row) for row in parsed.events}
    threads = {t.thread_id for t in parsed.threads}
    for row in parsed.tool_calls:
        call = TOOL_CALLS.row(*row)
        assert call.action in TOOL_ACTIONS
        asked = events[call.call_event]
        assert (asked.kind, asked.call_id, asked.thread_id, asked.seq) == ("tool_call", call.call_id, call.thread_id, call.seq)
        if call.result_event is not None:
            answered = events[call.result_event]
            assert (answered.kind, answered.call_id) == ("tool_result", call.call_id)
    for row in parsed.model_calls:
        used = MODEL_CALLS.row(*row)
        assert used.thread_id in threads
        assert min(used.input, used.output, used.cache_write_5m, used.cache_write_1h, used.cache_read, used.reasoning) >= 0
        assert used.context_tokens == used.input + used.cache_write_5m + used.cache_write_1h + used.cache_read
        assert used.cost is None


def summary(parsed: Parsed) -> dict[str, Any]:
    """Return what a sample's expected.json says of one session."""
    calls = [MODEL_CALLS.row(*row) for row in parsed.model_calls if row[MODEL_CALLS.names.index("owner")]]
    tools = [TOOL_CALLS.row(*row) for row in parsed.tool_calls]
    return {
        "title": title_line(parsed.facts.title, KEPT),
        "title_source": parsed.facts.title_source,
        "cwd": parsed.facts.cwd,
        "branch": parsed.facts.branch,
        "version": parsed.facts.version,
        "status": parsed.facts.status,
        "threads": {t.thread_id: t.kind for t in parsed.threads},
        "events": dict(sorted(Counter(row[6] for row in parsed.events).items())),
        "prompts": [row[9] for row in parsed.events if row[6] == "prompt"],
        "model_calls": len(calls),
        "models": sorted({c.model for c in calls}),
        "input": sum(c.input for c in calls),
        "output": sum(c.output for c in calls),
        "cache_write_5m": sum(c.cache_write_5m for c in calls),
        "cache_write_1h": sum(c.cache_write_1h for c in calls),
        "cache_read": sum(c.cache_read for c in calls),
        "reasoning": sum(c.reasoning for c in calls),
        "tool_calls": [[t.tool, t.action, t.paths, t.argv, t.exit, t.is_error] for t in tools],
        "quarantined": len(parsed.quarantined),
        "unknown": parsed.unknown,
    }


@every_host
@pytest.mark.feature("hosts.contract")
def test_a_host_declares_what_the_pipeline_needs(host: Host) -> None:
    assert host.key
    assert host.key == host.key.lower()
    assert host.title
    assert host.version >= 1
    assert host.files.roots_env
    assert host.files.session_kinds
    assert host.agent.resume == "" or "{session_id}" in host.agent.resume
    assert all(table and order for database in host.files.databases.values() for table, order in database.tables)


@every_host
@pytest.mark.feature("hosts.contract")
def test_paths_of_any_shape_are_classified_the_same_twice(host: Host) -> None:
    hostile = [
        "",
        ".",
        "/",
        "a" * 5_000,
        "projects/../../etc/passwd",
        "x\n.jsonl",
        "projects//.jsonl",
        "\x00",
        "sessions/é/\udcff.jsonl",
        "-",
    ]
    for rel in hostile:
        kind = host.files.classify(rel)
        assert kind is None or isinstance(kind, str)
        assert host.files.classify(rel) == kind
        assert isinstance(host.files.enter(rel), bool)
        for name in sorted(host.files.session_kinds):
            for head in (b"", b"\xff\xfe\x00", b'{"sessionId":"../../x"}\n'):
                identity = host.files.identify(name, rel, head)
                assert identity is None or (identity.thread_id and len(identity.thread_id) < 1_000)


@every_host
@pytest.mark.feature("hosts.samples")
def test_a_sample_gives_the_rows_written_down_by_hand(host: Host) -> None:
    expected = json.loads((samples_of(host) / "expected.json").read_text())
    sessions = sample_sessions(host)
    assert sorted(sessions) == sorted(expected)
    for session_id, session in sessions.items():
        parsed = host.records.parse(session)
        assert_contract(session, parsed)
        got = summary(parsed)
        said = expected[session_id]
        assert {name: got[name] for name in said} == said, session_id
        assert {"title", "events", "model_calls", "output", "tool_calls"} <= set(said)


@every_host
@pytest.mark.feature("hosts.pure-parse")
def test_parsing_twice_gives_equal_rows_and_leaves_the_input_alone(host: Host) -> None:
    for session in sample_sessions(host).values():
        before = [s.data for s in session.streams]
        first, second = host.records.parse(session), host.records.parse(session)
        assert (first.events, first.model_calls, first.tool_calls) == (second.events, second.model_calls, second.tool_calls)
        assert [s.data for s in session.streams] == before
        turned = replace(session, streams=session.streams[::-1])
        assert sorted(host.records.parse(turned).events) == sorted(first.events)


@every_host
@pytest.mark.feature("hosts.samples")
def test_a_copy_of_a_stream_adds_nothing(host: Host) -> None:
    for session in sample_sessions(host).values():
        copies = tuple(replace(s, stream=f"copy{s.stream[4:]}", current=False) for s in session.streams)
        once, twice = host.records.parse(session), host.records.parse(replace(session, streams=session.streams + copies))
        assert_contract(replace(session, streams=session.streams + copies), twice)
        assert len(twice.events) == len(once.events)
        assert [row[:17] for row in sorted(twice.model_calls)] == [row[:17] for row in sorted(once.model_calls)]
        assert len(twice.tool_calls) == len(once.tool_calls)


@every_host
@pytest.mark.feature("hosts.hostile-bytes")
@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\n\n  \n",
        b"\x00" * 4_096 + b"\n",
        b"\xff\xfe\xfa\n",
        b'123\n[1,2]\nnull\n"x"\n',
        b'{"type":"user"',
        b'{"type":5,"timestamp":{},"payload":7,"message":[],"uuid":[]}\n',
        b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}\n",
        b'{"type":"assistant","message":{"usage":{"input_tokens":' + b"9" * 400 + b"}}}\n",
        b'{"type":"user","message":{"content":"\\ud800"},"payload":{"type":"message","content":"\\ud800"}}\n',
        b'\xef\xbb\xbf{"type":"user"}\r\n{"type":"later-invention","body":{"a":1}}\r\n',
        b'{"type":"user"}{"type":"user"}\n{"type":\n"user"}\n',
    ],
    ids=["empty", "blank", "nul", "not-utf8", "not-objects", "cut", "wrong-types", "deep", "huge-number", "surrogate", "bom-crlf", "glued"],
)
def test_hostile_bytes_never_raise(host: Host, junk: bytes) -> None:
    for kind in sorted(host.files.session_kinds):
        stream = StreamBytes("0" * 16, kind, "x.jsonl", 0, junk, "s")
        session = SessionInput(host.key, "s", (stream,))
        assert_contract(session, host.records.parse(session))
    for session in sample_sessions(host).values():
        streams = tuple(replace(s, data=s.data + junk + s.data) for s in session.streams)
        mixed = replace(session, streams=streams)
        assert_contract(mixed, host.records.parse(mixed))


@every_host
@pytest.mark.feature("hosts.hostile-bytes")
def test_any_value_of_any_wrong_type_is_survived(host: Host) -> None:
    chance = random.Random(11)
    wrong = [None, True, -1, 1e300, 2**70, "", "x", [], [1], {}, {"type": "x"}, [[]], "<a", "2026-01-01T00:00:00.000Z"]

    def bend(value: Any, share: float) -> Any:
        if chance.random() < share:
            return chance.choice(wrong)
        if isinstance(value, dict):
            return {k: bend(v, share) for k, v in value.items()}
        if isinstance(value, str) and (inner := _inside(value)) is not None:
            inside, written = inner
            return written(json.dumps(bend(inside, share)))
        return [bend(v, share) for v in value] if isinstance(value, list) else value

    def bent(data: bytes, share: float) -> bytes:
        try:
            return json.dumps(bend(json.loads(data), share)).encode()
        except ValueError:
            return b"".join(bent(line, share) + b"\n" for line in data.splitlines()) if b"\n" in data.strip() else data

    for session in sample_sessions(host).values():
        for share in (0.02, 0.1, 0.3) * 8:
            changed = replace(session, streams=tuple(replace(s, data=bent(s.data, share)) for s in session.streams))
            assert_contract(changed, host.records.parse(changed))


def _inside(value: str) -> tuple[Any, Callable[[str], str]] | None:
    """Return the object that a text holds as JSON, plain or in base64, and what writes it back; None where there is none."""
    with contextlib.suppress(ValueError):
        if value.startswith("{"):
            return json.loads(value), str
        if value.startswith("ey"):
            return json.loads(base64.b64decode(value, validate=True)), lambda said: base64.b64encode(said.encode()).decode()
    return None


@every_host
@pytest.mark.feature("hosts.hostile-bytes")
def test_bytes_that_were_changed_lost_or_doubled_are_survived(host: Host) -> None:
    chance = random.Random(7)

    def changed(data: bytes) -> bytes:
        for _ in range(chance.randint(1, 4)):
            at, size = chance.randrange(len(data) + 1), chance.choice((1, 3, 40, 400))
            piece = data[at : at + size]
            middle = chance.choice((b"", piece * 2, bytes(chance.randrange(256) for _ in piece), piece[::-1], b"\n"))
            data = data[:at] + middle + data[at + size :]
        return data

    for session in sample_sessions(host).values():
        for _ in range(40):
            hurt = replace(session, streams=tuple(replace(s, data=changed(s.data)) for s in session.streams))
            assert_contract(hurt, host.records.parse(hurt))


@every_host
@pytest.mark.feature("hosts.samples")
def test_an_older_generation_with_less_in_it_adds_no_call(host: Host) -> None:
    for session in sample_sessions(host).values():
        halves = [s.data[: s.data.rfind(b"\n", 0, len(s.data) // 2) + 1] for s in session.streams]
        older = tuple(replace(s, data=half, current=False) for s, half in zip(session.streams, halves, strict=True) if half)
        now = tuple(replace(s, generation=1) for s in session.streams)
        alone, beside = (host.records.parse(replace(session, streams=streams)) for streams in (now, now + older))
        assert_contract(replace(session, streams=now + older), beside)
        assert sorted(row[0] for row in beside.model_calls) == sorted(row[0] for row in alone.model_calls)


@every_host
@pytest.mark.feature("hosts.hostile-bytes")
def test_a_stream_cut_anywhere_is_read_up_to_the_cut(host: Host) -> None:
    for session in sample_sessions(host).values():
        longest = max(len(s.data) for s in session.streams)
        for cut in range(0, longest, max(1, longest // 40)):
            short = replace(session, streams=tuple(replace(s, data=s.data[:cut]) for s in session.streams))
            assert_contract(short, host.records.parse(short))


@every_host
@pytest.mark.feature("hosts.hostile-bytes")
def test_changes_of_files_name_calls_of_the_session_and_survive_broken_bytes(host: Host) -> None:
    changes = host.records.changes
    if changes is None:
        return
    for session in sample_sessions(host).values():
        calls = {row[0] for row in host.records.parse(session).tool_calls}
        for stream in session.streams:
            for change in changes(stream.data):
                assert change.call_id in calls
                assert change.path
            for cut in range(0, len(stream.data), max(1, len(stream.data) // 20)):
                list(changes(stream.data[:cut] + b"\x00\xff{" + stream.data[cut:]))


@pytest.mark.feature("hosts.discovery")
def test_the_hosts_of_the_package_are_found_by_folder_scan() -> None:
    assert {"claude", "codex", "dspy"} <= set(HOSTS)
    assert set(TABLES) >= {"events", "model_calls", "tool_calls"}


@pytest.mark.feature("search.resume")
def test_a_resume_command_is_quoted_for_a_shell_and_no_folder_is_made_up():
    claude, codex = discovery.host("claude"), discovery.host("codex")
    assert claude.resuming("s-1", "/home/sam/my code/$HOME") == "cd '/home/sam/my code/$HOME' && claude --resume s-1"
    assert claude.resuming("s; rm -rf ~", None) == "claude --resume 's; rm -rf ~'"
    for folder in ("relative", "", "/home/\x1b[2J", "/a\nb"):
        assert claude.resuming("s-1", folder) == "claude --resume s-1"
    assert codex.resuming("s-1", "/home/sam/code") == "cd /home/sam/code && codex resume s-1"
    assert codex.resuming("s-1", "/home/sam/code", archived=True) == "cd /home/sam/code && codex unarchive s-1 && codex resume s-1"
    assert claude.resuming("s-1", None, archived=True) == "claude --resume s-1"
