"""Hypothesis strategies: small homes of both hosts as files, in the shapes that the hosts write.

A home is ``{path: bytes}``. Sessions share keys as real ones do: forks begin with their
parent's lines, agents lie in old and new places, spawned threads replay their parent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ctx_pipeline_tests.factories import codex as make

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Files = dict[str, bytes]

LONG = settings.default is not None and settings.default.max_examples > 1_000
"""Whether pytest was started with ``--hypothesis-profile long``."""

PATIENCE = 7_200 if LONG else 300
"""Seconds that a drawn test may take."""


def examples(few: int) -> settings:
    """Return settings for so many examples, the same in every run; in a long run for a hundred times as many new ones."""
    count = few * 100 if LONG else few
    return settings(max_examples=count, derandomize=not LONG, deadline=None, suppress_health_check=list(HealthCheck))


WORDS = st.sampled_from(["mend it", "größer", "読む", "a\u2028b", "🦊🦊", "tab\there", "", "<div>", "x" * 300])
COUNTS = st.integers(0, 5_000)


def put(home: Path, files: Files) -> None:
    """Write the files of a home, in the order given."""
    for rel, data in files.items():
        path = home / rel
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def uuid(number: int) -> str:
    """Return the UUID of a made-up session."""
    return f"{number:08x}-0000-4000-8000-{number:012x}"


def as_lines(records: Sequence[Any]) -> bytes:
    """Return records as the bytes of a JSONL file, text in UTF-8 as the hosts write it."""
    return b"".join(json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in records)


@st.composite
def claude_records(draw: st.DrawFn, session: str, mark: str, *, minute: int, agent: str | None = None) -> list[dict[str, Any]]:
    """Draw the records of one transcript: prompts, answers of one to three lines, tool calls, notices without uuid."""
    records: list[dict[str, Any]] = []
    last: str | None = None

    def add(record: dict[str, Any]) -> None:
        nonlocal last
        number = len(records)
        records.append(
            {"parentUuid": last, "isSidechain": agent is not None, "sessionId": session, "cwd": "/home/sam/code/acme", "version": "2.1.90"}
            | ({"agentId": agent} if agent else {})
            | record
            | {"uuid": f"{mark}-{number}", "timestamp": f"2026-03-05T10:{minute:02d}:{number % 60:02d}.000Z"}
        )
        last = records[-1]["uuid"]

    for turn in range(draw(st.integers(1, 3))):
        add({"type": "user", "message": {"role": "user", "content": draw(WORDS)}})
        if draw(st.booleans()):
            records.append({"type": "ai-title", "aiTitle": draw(WORDS), "sessionId": session})
        output = draw(COUNTS)
        usage = {"input_tokens": draw(COUNTS), "cache_read_input_tokens": draw(COUNTS), "cache_creation_input_tokens": draw(COUNTS)}
        call = f"toolu_{mark}_{turn}"
        blocks: list[dict[str, Any]] = [{"type": "text", "text": draw(WORDS)}] * draw(st.integers(0, 2))
        blocks.append({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": draw(WORDS)}})
        for index, block in enumerate(blocks):
            said = usage | {"output_tokens": output if index == len(blocks) - 1 else output // 2}
            message = {
                "id": f"msg_{mark}_{turn}",
                "role": "assistant",
                "model": "claude-opus-4-5-20251101",
                "content": [block],
                "usage": said,
            }
            add({"type": "assistant", "requestId": f"req_{mark}_{turn}", "message": message})
        result = {"type": "tool_result", "tool_use_id": call, "content": draw(WORDS)}
        add({"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": {"stdout": "", "interrupted": False}})
    return records


@st.composite
def claude_homes(draw: st.DrawFn) -> Files:
    """Draw a Claude home: a session, agents of both layouts, a fork of its lines with or without a pointer, side files, titles of it."""
    parent, fork = uuid(1), uuid(2)
    slug = "projects/-home-sam-code-acme"
    own = draw(claude_records(parent, "p", minute=1))
    files = {f"{slug}/{parent}.jsonl": as_lines(own)}
    if draw(st.booleans()):
        files[f"{slug}/{parent}/subagents/agent-a1.jsonl"] = as_lines(draw(claude_records(parent, "a1", minute=2, agent="a1")))
    if draw(st.booleans()):
        files[f"{slug}/agent-b2.jsonl"] = as_lines(draw(claude_records(parent, "b2", minute=3, agent="b2")))
    if draw(st.booleans()):
        pointer = {"forkedFrom": {"sessionId": parent, "messageUuid": "x"}} if draw(st.booleans()) else {}
        copied = [r | {"sessionId": fork} | (pointer if "uuid" in r else {}) for r in own[: draw(st.integers(1, len(own)))]]
        added = draw(claude_records(fork, "f", minute=4)) if draw(st.booleans()) else []
        files[f"{slug}/{fork}.jsonl"] = as_lines([*copied, *added])
    if draw(st.booleans()):
        replay = [r | {"isSidechain": True, "agentId": "aside_question-9"} for r in own]
        side = draw(claude_records(parent, "q9", minute=5, agent="aside_question-9"))
        files[f"{slug}/{parent}/subagents/agent-aside_question-9.jsonl"] = as_lines([*replay, *side])
    if draw(st.booleans()):
        quiet = uuid(3)
        answer = {"role": "assistant", "id": "msg_quiet", "content": [{"type": "text", "text": "done"}]}
        files[f"{slug}/{quiet}.jsonl"] = as_lines([{"type": "assistant", "sessionId": quiet, "uuid": "quiet-1", "message": answer}])
        typed = draw(st.lists(WORDS, min_size=2, max_size=4))
        files["history.jsonl"] = as_lines([{"display": words, "timestamp": 1, "sessionId": quiet} for words in typed])
    if draw(st.booleans()):
        files[f"todos/{parent}-agent-{parent}.json"] = b'[{"content":"measure","status":"pending"}]'
    leaves = [r["uuid"] for r in own if "uuid" in r]
    if leaves and draw(st.booleans()):
        told = [
            {"type": "summary", "summary": draw(WORDS), "leafUuid": draw(st.sampled_from(leaves))} for _ in range(draw(st.integers(1, 3)))
        ]
        files[f"{slug}/{uuid(4)}.jsonl"] = as_lines(told)
    return files


@st.composite
def codex_records(draw: st.DrawFn, thread: str, begin: float, **meta: Any) -> list[dict[str, Any]]:
    """Draw the records of one thread: turns with calls, repeated token counts and rate limits."""
    records = [make.meta(begin, thread, **meta), make.context(begin + 1, draw(st.sampled_from(["gpt-5.5", "gpt-5.5-codex"])))]
    total = [0, 0, 0]
    for number in range(1, draw(st.integers(1, 4)) + 1):
        now = begin + 10 * number
        asked = draw(COUNTS) + 1
        last = (asked, draw(st.integers(0, asked)), draw(COUNTS))
        total = [t + n for t, n in zip(total, last, strict=True)]
        records.append(make.event(now, "user_message", message=draw(WORDS)))
        arguments = json.dumps({"cmd": draw(WORDS)})
        call = f"call_{thread[-3:]}_{number}"
        records.append(make.item(now + 2, "function_call", name="exec_command", call_id=call, arguments=arguments))
        records.append(make.item(now + 3, "function_call_output", call_id=call, output=draw(WORDS)))
        records += [make.tokens(now + 4 + n, make.usage(*total), make.usage(*last)) for n in range(draw(st.integers(1, 2)))]
    return records


def restamped(records: Sequence[dict[str, Any]], seconds: float) -> list[dict[str, Any]]:
    """Return a parent's records as Codex copies them into a fork: all at the time of the fork."""
    return [r | {"timestamp": make.at(seconds + n / 1000)} for n, r in enumerate(records)]


@st.composite
def codex_homes(draw: st.DrawFn) -> Files:
    """Draw a Codex home: a thread, a declared fork, a spawned thread that replays it, an archived copy."""
    parent, fork, child = (f"019ca9d4-0000-7000-8000-{n:012d}" for n in (1, 2, 3))
    own = draw(codex_records(parent, 0))
    files = {make.rel(parent): as_lines(own)}
    if draw(st.booleans()):
        more = draw(codex_records(fork, 2_000))[1:]
        files[make.rel(fork)] = as_lines([make.meta(1_000, fork, forked_from_id=parent), *restamped(own, 1_000), *more])
    if draw(st.booleans()):
        source = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
        copied = restamped(own, 3_000) if draw(st.booleans()) else []
        more = draw(codex_records(child, 4_000))[1:]
        files[make.rel(child)] = as_lines([make.meta(3_000, child, source=source, session_id=parent), *copied, *more])
    if draw(st.booleans()):
        files[make.rel(parent, folder="archived_sessions")] = files[make.rel(parent)]
    if draw(st.booleans()):
        quiet = "019ca9d4-0000-7000-8000-000000000004"
        files[make.rel(quiet)] = as_lines([make.meta(5_000, quiet)])
        typed = draw(st.lists(WORDS, min_size=2, max_size=4))
        files["history.jsonl"] = as_lines([{"session_id": quiet, "ts": 1, "text": words} for words in typed])
        files["session_index.jsonl"] = as_lines([{"id": parent, "thread_name": words} for words in typed])
    return files
