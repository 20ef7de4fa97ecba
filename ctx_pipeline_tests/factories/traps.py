"""Files that accounting gets wrong, one trap a day of November 2026, each with the right answer worked out by hand.

``write(claude, codex)`` writes one home of each host with all of them. The traps are those
of the published comparison of usage tools and of the list of oddities of both formats.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SONNET, OPUS, GPT = "claude-sonnet-4-5-20250929", "claude-opus-4-6", "gpt-5"
CLAUDE_FOLDER = "projects/-home-sam-code-acme"


class Tokens(NamedTuple):
    """Input without cached tokens, output with reasoning, cache writes, cache reads."""

    input: int
    output: int
    written: int
    read: int

    def times(self, factor: float) -> Tokens:
        return Tokens(*(int(n * factor) for n in self))


CLAUDE = Tokens(1000, 500, 2000, 3000)
"""What most Claude traps hold once; $0.0189 at 3 in, 15 out, 3.75 written, 0.30 read."""
CODEX = Tokens(600, 200, 0, 400)
"""What most Codex traps hold once; $0.0028 at 1.25 in, 10 out, 0.125 cached."""
CLAUDE_NANO, CODEX_NANO = 18_900_000, 2_800_000


class Trap(NamedTuple):
    """One day: what lies in the files, what is right, and what ccusage 20.0.24 printed for it (None: as we do)."""

    name: str
    host: str
    day: int
    right: Tokens
    nano: int | None
    """at list prices; None where no price is known"""
    write: Callable[[Trap, Path], None]
    ccusage: Tokens | None = None
    recorded: int = 0
    guessed: bool = False
    searches: int = 0

    @property
    def date(self) -> str:
        return f"2026-11-{self.day:02d}"

    def at(self, seconds: int = 0, *, millis: int = 0, hour: int = 10) -> str:
        return f"{self.date}T{hour:02d}:{seconds // 60:02d}:{seconds % 60:02d}.{millis:03d}Z"

    def id(self, number: int = 1) -> str:
        return (
            f"{self.day:08d}-0000-4000-8000-{number:012d}" if self.host == "claude" else f"019d{self.day:04d}-0000-7000-8000-{number:012d}"
        )


def _save(path: Path, records: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(r if isinstance(r, bytes) else json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in records))


# Claude Code


def answer(trap: Trap, number: int = 1, *, session: int = 1, seconds: int = 0, hour: int = 10, **more: Any) -> dict[str, Any]:
    """Return one line of a response; ``usage``, ``model``, ``message``, ``request`` and ``counts`` change what they name."""
    counts = more.pop("counts", CLAUDE)
    used: dict[str, Any] = {"input_tokens": counts.input, "output_tokens": counts.output}
    used |= {"cache_creation_input_tokens": counts.written, "cache_read_input_tokens": counts.read} | more.pop("usage", {})
    message = {"id": more.pop("message", f"msg_{trap.day}_{number}"), "type": "message", "role": "assistant"}
    message |= {"model": more.pop("model", SONNET), "content": [{"type": "text", "text": "done"}], "usage": used}
    line = {"type": "assistant", "uuid": f"u-{trap.day}-{session}-{number}-{seconds}-{more.pop('line', 0)}", "sessionId": trap.id(session)}
    line |= {"timestamp": trap.at(seconds, hour=hour), "version": "2.1.31", "cwd": "/home/sam/code/acme", "message": message}
    request = more.pop("request", f"req_{trap.day}_{number}")
    return line | ({"requestId": request} if request else {}) | more


def _session(trap: Trap, home: Path, *lines: Any, number: int = 1, place: str = "") -> None:
    _save(home / CLAUDE_FOLDER / (place or f"{trap.id(number)}.jsonl"), list(lines))


def _plain(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))


def _streamed(trap: Trap, home: Path) -> None:
    _session(trap, home, *(answer(trap, counts=CLAUDE._replace(output=o), seconds=n) for n, o in enumerate((1, 5, 500))))


def _resumed(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    _session(trap, home, answer(trap), number=2)


def _new_agent(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    _session(trap, home, answer(trap, 2, isSidechain=True, agentId="a1"), place=f"{trap.id()}/subagents/agent-a1.jsonl")


def _old_agent(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    _session(trap, home, answer(trap, 2, isSidechain=True, agentId=f"b{trap.day}"), place=f"agent-b{trap.day}.jsonl")


def _hour_write(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, usage={"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 2000}}))


def _unpriced(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, model="claude-nobody-9"))


def _midnight(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, hour=1), answer(trap, 2, hour=23))


def _no_request(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, counts=CLAUDE._replace(output=1), request=""), answer(trap, seconds=1, request=""))


def _recorded(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, costUSD=9.99))


def _synthetic(trap: Trap, home: Path) -> None:
    error = answer(
        trap, 2, model="<synthetic>", counts=Tokens(0, 0, 0, 0), isApiErrorMessage=True, request="", message="uuid-of-the-client"
    )
    _session(trap, home, answer(trap), error)


def _searched(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, usage={"server_tool_use": {"web_search_requests": 100}}))


def _fast(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, model=OPUS, usage={"speed": "fast"}))


def _long(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap, counts=trap.right))


def _sidechain_copy(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    _session(trap, home, answer(trap, isSidechain=True, agentId="a1"), place=f"{trap.id()}/subagents/agent-a1.jsonl")


def _smaller_last(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap), answer(trap, counts=CLAUDE._replace(output=1), seconds=1))


def _logged_again(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    _session(trap, home, answer(trap, request="req_other"), number=2)


def _side_question(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    folder = f"{trap.id()}/subagents"
    replayed = answer(trap, isSidechain=True, agentId="aside_question-1", request="req_replay")
    _session(
        trap, home, replayed, answer(trap, 2, isSidechain=True, agentId="aside_question-1"), place=f"{folder}/agent-aside_question-1.jsonl"
    )


def _repeats(trap: Trap, home: Path) -> None:
    """The agent's usage stands in its file, in a progress record and in the result of the tool."""
    inner = answer(trap, 2, isSidechain=True, agentId="a1")
    progress = {"type": "progress", "uuid": "p1", "timestamp": trap.at(2), "sessionId": trap.id()}
    progress |= {"data": {"type": "agent_progress", "agentId": "a1", "message": inner}}
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
    result = {
        "type": "user",
        "uuid": "r1",
        "timestamp": trap.at(3),
        "sessionId": trap.id(),
        "message": {"role": "user", "content": [block]},
    }
    result |= {"toolUseResult": {"status": "completed", "agentId": "a1", "totalTokens": 6500, "usage": inner["message"]["usage"]}}
    iterations = [{"type": "message", "input_tokens": 1000, "output_tokens": 500}]
    _session(trap, home, answer(trap, usage={"iterations": iterations}), progress, result)
    _session(trap, home, inner, place=f"{trap.id()}/subagents/agent-a1.jsonl")


def _advised(trap: Trap, home: Path) -> None:
    """An advisor's request inside a response is not in its totals: 100 in and 10 out of the same model."""
    step = {"type": "advisor_message", "model": SONNET, "input_tokens": 100, "output_tokens": 10}
    _session(trap, home, answer(trap, usage={"iterations": [{"type": "message", "input_tokens": 1000, "output_tokens": 500}, step]}))


def _workflow(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap))
    folder = f"{trap.id()}/subagents/workflows/wf_1"
    _session(trap, home, {"type": "started", "key": "k", "agentId": "w1"}, place=f"{folder}/journal.jsonl")
    _session(trap, home, answer(trap, 2, isSidechain=True, agentId="w1"), place=f"{folder}/agent-w1.jsonl")


def _inline(trap: Trap, home: Path) -> None:
    _session(trap, home, answer(trap), answer(trap, 2, isSidechain=True, agentId="a1"))


def _damaged(trap: Trap, home: Path) -> None:
    """BOM, NULs, bad UTF-8, an array, a type of tomorrow, CRLF and half a line around the one call."""
    line = json.dumps(answer(trap), separators=(",", ":")).encode()
    broken = (b"\xef\xbb\xbf" + b'{"type":"mode","mode":"normal"}\n', b"\0\0\0\n", b'{"type":"user","message":"\xff"}\n', b"[1,2]\n")
    _session(trap, home, *broken, b'{"type":"tomorrow","x":1}\n', line + b"\r\n", line[: len(line) // 2])
    for name in ("empty", "summary-only"):
        text = b"" if name == "empty" else b'{"type":"summary","summary":"old","leafUuid":"elsewhere"}\n'
        _session(trap, home, text, place=f"{trap.id(8 if name == 'empty' else 9)}.jsonl")


def _absurd(trap: Trap, home: Path) -> None:
    """Negative, textual and enormous counts are none; the good call beside them counts."""
    bad = [{"input_tokens": -5}, {"input_tokens": "many"}, {"input_tokens": 10**13}]
    lines = [answer(trap, n + 2, counts=Tokens(0, 0, 0, 0), usage=used, seconds=n + 1) for n, used in enumerate(bad)]
    _session(trap, home, answer(trap), *lines)


# Codex


def meta(trap: Trap, number: int = 1, seconds: int = 0, **more: Any) -> dict[str, Any]:
    body = {"id": trap.id(number), "timestamp": trap.at(seconds), "cwd": "/home/sam/code/acme", "cli_version": "0.144.0", "source": "cli"}
    return {"timestamp": trap.at(seconds), "type": "session_meta", "payload": body | more}


def context(trap: Trap, seconds: int = 1, model: str = GPT) -> dict[str, Any]:
    return {"timestamp": trap.at(seconds), "type": "turn_context", "payload": {"cwd": "/home/sam/code/acme", "model": model}}


def sizes(turns: float) -> dict[str, int]:
    """Return the usage of so many turns of 1,000 in (400 cached) and 200 out (10 reasoning)."""
    told = {"input_tokens": 1000, "cached_input_tokens": 400, "output_tokens": 200, "reasoning_output_tokens": 10, "total_tokens": 1200}
    return {name: int(count * turns) for name, count in told.items()}


def tokens(trap: Trap, seconds: int, total: float | None, last: float | None = 1, *, millis: int = 0) -> dict[str, Any]:
    info = {"total_token_usage": sizes(total) if total else None, "last_token_usage": sizes(last) if last else None}
    info = {name: value for name, value in info.items() if value}
    return {"timestamp": trap.at(seconds, millis=millis), "type": "event_msg", "payload": {"type": "token_count", "info": info or None}}


def _rollout(trap: Trap, home: Path, *lines: Any, number: int = 1, folder: str = "") -> None:
    folder = folder or f"sessions/2026/11/{trap.day:02d}"
    _save(home / folder / f"rollout-{trap.date}T10-00-00-{trap.id(number)}.jsonl", list(lines))


def _turn(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1))


def _emitted_again(trap: Trap, home: Path) -> None:
    limits = tokens(trap, 2, None, None)
    _rollout(trap, home, meta(trap), context(trap), limits, *(tokens(trap, 3 + n, 1) for n in range(4)))


def _equal_turns(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1), tokens(trap, 3, 2))


def _totals_only(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), *(tokens(trap, 2 + n, n, None) for n in (1, 2, 3)))


def _no_context(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), tokens(trap, 2, 1))


def _forked(trap: Trap, home: Path) -> None:
    """The child holds its own meta, the parent's, the parent's turn stamped anew, then a turn of its own."""
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1))
    again = (meta(trap, 2, 600), meta(trap, 1, 600), context(trap, 600), tokens(trap, 600, 1, millis=4))
    _rollout(trap, home, *again, tokens(trap, 640, 2), number=2)


def _copied_slowly(trap: Trap, home: Path) -> None:
    """A busy disk wrote the copy of three turns 400 ms apart; the fork's own turn follows a minute later."""
    _rollout(trap, home, meta(trap), context(trap), *(tokens(trap, 2 + n, n) for n in (1, 2, 3)))
    copy = [tokens(trap, 600, number, millis=400 * (number - 1)) for number in (1, 2, 3)]
    _rollout(trap, home, meta(trap, 2, 600, forked_from_id=trap.id()), context(trap, 600), *copy, tokens(trap, 660, 4), number=2)


def _reset(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1), tokens(trap, 60, 0.5, 0.5))


def _unpriced_gpt(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap, model="gpt-nobody"), tokens(trap, 2, 1))


def _archived(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1), folder="archived_sessions")


def _resumed_meta(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1), meta(trap, 1, 60), tokens(trap, 61, 1), tokens(trap, 90, 2))


def _usage_record(trap: Trap, home: Path) -> None:
    """A usage record beside the count of the same call, and a copy of it inside a compaction."""
    body = {"thread_id": trap.id(), "response_id": "resp_a", "usage": sizes(1), "thread_token_usage": sizes(1)}
    record = {"timestamp": trap.at(2), "type": "token_usage_record", "payload": body}
    compacted = {"timestamp": trap.at(5), "type": "compacted", "payload": {"message": "", "latest_token_usage_record": body}}
    _rollout(trap, home, meta(trap), context(trap), record, tokens(trap, 3, 1), compacted)


def _packed(trap: Trap, home: Path) -> None:
    """The same thread plain and packed, and in the archive: one turn."""
    lines = (meta(trap), context(trap), tokens(trap, 2, 1))
    for folder in ("", "archived_sessions"):
        _rollout(trap, home, *lines, folder=folder)
    plain = home / f"sessions/2026/11/{trap.day:02d}" / f"rollout-{trap.date}T10-00-00-{trap.id()}.jsonl"
    plain.with_suffix(".jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))


def _packed_alone(trap: Trap, home: Path) -> None:
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1))
    plain = home / f"sessions/2026/11/{trap.day:02d}" / f"rollout-{trap.date}T10-00-00-{trap.id()}.jsonl"
    plain.with_suffix(".jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    plain.unlink()


def _switched(trap: Trap, home: Path) -> None:
    """The second turn is another model's: 600 x 2.5 + 400 x 0.25 + 200 x 15 millionths of a dollar."""
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1), context(trap, 3, "gpt-5.4"), tokens(trap, 4, 2))


def _spawned(trap: Trap, home: Path) -> None:
    """A spawned thread without its parent's history: its totals start from zero and are its own."""
    _rollout(trap, home, meta(trap), context(trap), tokens(trap, 2, 1))
    source = {"subagent": {"thread_spawn": {"parent_thread_id": trap.id(), "depth": 1}}}
    _rollout(trap, home, meta(trap, 2, 60, source=source), context(trap, 61), tokens(trap, 90, 0.5, 0.5), number=2)


def _paginated(trap: Trap, home: Path) -> None:
    said = {"type": "item_completed", "item": {"type": "AgentMessage", "id": "i1", "content": [{"type": "text", "text": "done"}]}}
    item = {"timestamp": trap.at(2), "type": "event_msg", "payload": said}
    _rollout(trap, home, meta(trap, history_mode="paginated"), context(trap), item, tokens(trap, 3, 1))


_TWO = CLAUDE.times(2)
TRAPS = (
    Trap("one plain call", "claude", 1, CLAUDE, CLAUDE_NANO, _plain),
    Trap("a streamed response on three lines whose output grows", "claude", 2, CLAUDE, CLAUDE_NANO, _streamed),
    Trap("a resumed session: the same message in two files", "claude", 3, CLAUDE, CLAUDE_NANO, _resumed),
    Trap("a subagent below subagents/", "claude", 4, _TWO, 2 * CLAUDE_NANO, _new_agent),
    Trap("a subagent beside its session", "claude", 5, _TWO, 2 * CLAUDE_NANO, _old_agent),
    Trap("a one-hour cache write, twice the price of input", "claude", 6, CLAUDE, 23_400_000, _hour_write),
    Trap("a model without a price", "claude", 7, CLAUDE, None, _unpriced),
    Trap("calls at 1 and 23 o'clock of one day", "claude", 8, _TWO, 2 * CLAUDE_NANO, _midnight),
    Trap("no request id, the same message twice", "claude", 9, CLAUDE, CLAUDE_NANO, _no_request, Tokens(2000, 501, 4000, 6000)),
    Trap("a cost of $9.99 in the log", "claude", 10, CLAUDE, CLAUDE_NANO, _recorded, recorded=9_990_000_000),
    Trap("an answer that the client made itself", "claude", 11, CLAUDE, CLAUDE_NANO, _synthetic),
    Trap("a hundred web searches", "claude", 12, CLAUDE, CLAUDE_NANO + 1_000_000_000, _searched, searches=100),
    Trap("fast mode, six times the price", "claude", 13, CLAUDE, 189_000_000, _fast),
    Trap("a prompt above 200,000 tokens", "claude", 14, Tokens(1000, 500, 2000, 250_000), 182_250_000, _long),
    Trap("the same response in the main and in an agent file", "claude", 15, CLAUDE, CLAUDE_NANO, _sidechain_copy),
    Trap("a streamed response whose smaller line comes last", "claude", 16, CLAUDE, CLAUDE_NANO, _smaller_last),
    Trap("a response logged again under another request id", "claude", 17, CLAUDE, CLAUDE_NANO, _logged_again, _TWO),
    Trap("one plain turn", "codex", 1, CODEX, CODEX_NANO, _turn),
    Trap("a token count written again three times", "codex", 2, CODEX, CODEX_NANO, _emitted_again),
    Trap("two turns of the same size", "codex", 3, CODEX.times(2), 2 * CODEX_NANO, _equal_turns),
    Trap("only running totals", "codex", 4, CODEX.times(3), 3 * CODEX_NANO, _totals_only),
    Trap("no turn context: the model is the default of its time", "codex", 5, CODEX, CODEX_NANO, _no_context, guessed=True),
    Trap("a fork that replays its parent, then one turn", "codex", 6, CODEX.times(2), 2 * CODEX_NANO, _forked, CODEX.times(3)),
    Trap("totals that fall after a compaction", "codex", 7, CODEX.times(1.5), CODEX_NANO * 3 // 2, _reset),
    Trap("a model without a price", "codex", 8, CODEX, None, _unpriced_gpt),
    Trap("a session in the archive", "codex", 9, CODEX, CODEX_NANO, _archived),
    # oddities of the formats beyond those
    Trap("a side question that replays its parent", "claude", 18, _TWO, 2 * CLAUDE_NANO, _side_question),
    Trap("an agent's usage repeated in progress, result and iterations", "claude", 19, _TWO, 2 * CLAUDE_NANO, _repeats),
    Trap("an advisor inside a response", "claude", 20, Tokens(1100, 510, 2000, 3000), CLAUDE_NANO + 450_000, _advised),
    Trap("an agent of a workflow", "claude", 21, _TWO, 2 * CLAUDE_NANO, _workflow),
    Trap("a sidechain inside the transcript", "claude", 22, _TWO, 2 * CLAUDE_NANO, _inline),
    Trap("damaged lines and files around one call", "claude", 23, CLAUDE, CLAUDE_NANO, _damaged),
    Trap("absurd numbers beside one call", "claude", 24, CLAUDE, CLAUDE_NANO, _absurd, Tokens(10**13 + 1000, 500, 2000, 3000)),
    Trap("a meta written again at resume", "codex", 10, CODEX.times(2), 2 * CODEX_NANO, _resumed_meta),
    Trap("a usage record beside its count and in a compaction", "codex", 11, CODEX, CODEX_NANO, _usage_record),
    Trap("one thread plain, packed and archived", "codex", 12, CODEX, CODEX_NANO, _packed),
    Trap("a packed thread alone", "codex", 13, CODEX, CODEX_NANO, _packed_alone, Tokens(0, 0, 0, 0)),
    Trap("a model switched in mid-thread", "codex", 14, CODEX.times(2), CODEX_NANO + 4_600_000, _switched),
    Trap("a spawned thread that starts from zero", "codex", 15, CODEX.times(1.5), CODEX_NANO * 3 // 2, _spawned),
    Trap("a paginated thread", "codex", 16, CODEX, CODEX_NANO, _paginated),
    Trap("a fork whose copy was written slowly", "codex", 17, CODEX.times(4), 4 * CODEX_NANO, _copied_slowly),
)


def write(claude: Path, codex: Path) -> None:
    """Write every trap into the home of its host."""
    for trap in TRAPS:
        trap.write(trap, claude if trap.host == "claude" else codex)
