"""A secret that a host cut in two, at any place of any stream of pieces that becomes rows, is in neither row."""

from __future__ import annotations

import base64
import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import ctx_pipeline
from ctx_pipeline import discovery
from ctx_pipeline import settings as settings_module
from ctx_pipeline.defs import launch
from ctx_pipeline.model.raw import SessionInput, StreamBytes
from ctx_pipeline.model.tables import EVENTS
from ctx_pipeline.pipeline import sync
from ctx_pipeline.pipeline.ingest import split_texts
from ctx_pipeline.pipeline.ingest.decoding import decode
from ctx_pipeline.redaction import Redactor
from ctx_pipeline.redaction.redactor import MARKER
from ctx_pipeline.storage import open_store
from ctx_pipeline.usage.provenance.source_records import record_of
from ctx_pipeline_tests.factories import claude as build
from ctx_pipeline_tests.factories import codex
from ctx_pipeline_tests.factories.secret_kinds import KINDS
from ctx_pipeline_tests.factories.stored_text import files_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Pairs = Sequence[tuple[str, str]]

REDACTOR = Redactor()
LEAST = 0.98
SHORTEST = 4
"""Letters of a part that another word may hold by chance."""
TEXT = EVENTS.names.index("text")


class Stream(NamedTuple):
    """How a host writes texts in pieces, and what a person reads in the rows of it."""

    host: str
    write: Callable[[Path, Pairs], bytes]
    read: Callable[[str], str] = str


def transcript(folder: Path) -> build.Transcript:
    return build.ClaudeHome(folder).session()


def blocks(folder: Path, pairs: Pairs) -> bytes:
    """Text blocks of one message, one line each, as the client streams them."""
    said = transcript(folder)
    for first, second in pairs:
        said.prompt("go on").answer(build.text(first), build.text(second))
    return said.data()


def thoughts(folder: Path, pairs: Pairs) -> bytes:
    said = transcript(folder)
    for first, second in pairs:
        said.prompt("go on").answer(build.thinking(first), build.thinking(second), build.text("Done."))
    return said.data()


def polled(folder: Path, pairs: Pairs) -> bytes:
    """A command in the background, read by two calls that return what is new."""
    said = transcript(folder)
    for number, pair in enumerate(pairs):
        shell = f"ab{number:04d}"
        said.call(f"t{number}", "Bash", f"Command running in background with ID: {shell}", command="make", run_in_background=True)
        for poll, piece in enumerate(pair):
            answer = f"<status>running</status>\n\n<stdout>\n{piece}\n</stdout>\n\n<timestamp>2026-03-05T10:00:00.000Z</timestamp>"
            said.call(f"t{number}p{poll}", "BashOutput", answer, bash_id=shell)
    return said.data()


def grown(folder: Path, pairs: Pairs) -> bytes:
    """A task whose whole output is returned each time."""
    said = transcript(folder)
    for number, (first, second) in enumerate(pairs):
        for poll, output in enumerate((first, first + second)):
            answer = f"<task_id>b{number:05d}</task_id>\n\n<status>running</status>\n\n<output>\n{output}\n</output>"
            said.call(f"t{number}p{poll}", "TaskOutput", answer, task_id=f"b{number:05d}", block=False)
    return said.data()


def partial_messages(folder: Path, pairs: Pairs) -> bytes:
    """Events of the stream of one message."""
    said = transcript(folder)
    for number, pair in enumerate(pairs):
        for piece in pair:
            delta = {"type": "content_block_delta", "index": number, "delta": {"type": "text_delta", "text": piece}}
            said.plain("stream_event", event=delta, uuid=f"e{number}-{len(said.records)}", session_id=build.SESSION)
    return said.data()


def session_polls(_folder: Path, pairs: Pairs) -> bytes:
    """A command that went on, and the call that waited for the rest."""
    records = [codex.meta(), codex.context(1)]
    for number, pair in enumerate(pairs):
        ends = (f"Process running with session ID {number + 1000}", "Process exited with code 0")
        asked = (("exec_command", {"cmd": "make"}), ("write_stdin", {"session_id": number + 1000, "chars": "", "yield_time_ms": 9000}))
        for part, ((tool, arguments), end, piece) in enumerate(zip(asked, ends, pair, strict=True)):
            call = f"call_{number}_{part}"
            head = f"Chunk ID: 3c83ba\nWall time: 1.0 seconds\n{end}\nOriginal token count: 9\nOutput:\n"
            records.append(codex.item(number, "function_call", name=tool, call_id=call, arguments=json.dumps(arguments)))
            records.append(codex.item(number, "function_call_output", call_id=call, output=head + piece))
    return codex.lines(records)


def script_polls(_folder: Path, pairs: Pairs) -> bytes:
    """The same in scripts: an answer quotes what the command printed as JSON."""
    records = [codex.meta(), codex.context(1)]
    for number, pair in enumerate(pairs):
        session = number + 1000
        asked = (
            'text(JSON.stringify(await tools.exec_command({"cmd":"make"})))',
            f"text(JSON.stringify(await tools.write_stdin({{session_id:{session},chars:''}})))",
        )
        for part, (script, piece) in enumerate(zip(asked, pair, strict=True)):
            call = f"call_{number}_{part}"
            end = {"chunk_id": "3c83ba", "wall_time_seconds": 1.0} | ({"exit_code": 0} if part else {"session_id": session})
            answer = "Script completed\nWall time 1.0 seconds\nOutput:\n" + json.dumps(end | {"output": piece}, separators=(",", ":"))
            records.append(codex.item(number, "custom_tool_call", name="exec", call_id=call, input=script))
            records.append(codex.item(number, "custom_tool_call_output", call_id=call, output=answer))
    return codex.lines(records)


def message_deltas(_folder: Path, pairs: Pairs) -> bytes:
    records = [codex.meta(), codex.context(1)]
    for number, pair in enumerate(pairs):
        records += [codex.event(number, "agent_message_content_delta", item_id=f"i{number}", delta=piece) for piece in pair]
    return codex.lines(records)


def output_deltas(_folder: Path, pairs: Pairs) -> bytes:
    """Pieces of what two commands print at once, each as base64."""
    records = [codex.meta(), codex.context(1)]
    for number in range(0, len(pairs), 2):
        for part in range(2):
            for side, pair in enumerate(pairs[number : number + 2]):
                chunk = base64.b64encode(pair[part].encode()).decode()
                told = {"call_id": f"c{number + side}", "stream": "stdout", "chunk": chunk}
                records.append(codex.event(number, "exec_command_output_delta", **told))
    return codex.lines(records)


def chunk_of(row: str) -> str:
    """Return what a row of an output delta says; what was replaced stands between groups of four."""
    chunk = json.loads(row)["payload"]["chunk"]
    return "[REDACTED]".join(
        base64.b64decode(part + "=" * (-len(part) % 4)).decode("utf-8", "replace") for part in chunk.replace("]", "[").split("[")[::2]
    )


STREAMS = {
    "text blocks": Stream("claude", blocks),
    "thoughts": Stream("claude", thoughts),
    "reads of a background shell": Stream("claude", polled),
    "task output that grows": Stream("claude", grown),
    "stream events": Stream("claude", partial_messages, lambda row: json.loads(row)["event"]["delta"]["text"]),
    "polls of a session": Stream("codex", session_polls),
    "polls in scripts": Stream("codex", script_polls, lambda row: json.loads(row.partition("Output:\n")[2])["output"]),
    "message deltas": Stream("codex", message_deltas, lambda row: json.loads(row)["payload"]["delta"]),
    "output deltas": Stream("codex", output_deltas, chunk_of),
}


def rows_of(stream: Stream, folder: Path, pairs: Pairs, redactor: Redactor = REDACTOR) -> list[tuple]:
    """Return the event rows of a session in which the pairs are pieces."""
    session, kind, rel = (
        (codex.THREAD, "rollout", codex.rel())
        if stream.host == "codex"
        else (build.SESSION, "transcript", f"projects/-home-dev-shop/{build.SESSION}.jsonl")
    )
    source = StreamBytes("0" * 15 + "1", kind, rel, 0, stream.write(folder, pairs), session, None, current=True)
    host = discovery.hosts()[stream.host]
    given = SessionInput(stream.host, session, (source,), {})
    return decode(given, host.records.parse, redactor, month="2026-03", size=1, shell=host.shell).events


def read(stream: Stream, rows: list[tuple], number: int) -> list[str]:
    """Return what the rows of a pair say, in order."""
    found = []
    for row in rows:
        try:
            said = stream.read(row[TEXT] or "")
        except (ValueError, KeyError, TypeError):
            continue
        if f"PAIR {number:03d}" in said:
            found.append(said)
    return found


@pytest.mark.feature("redaction.split")
@pytest.mark.parametrize("name", STREAMS)
def test_nearly_every_kind_that_is_cut_anywhere_is_in_neither_piece(name: str, tmp_path: Path) -> None:
    stream = STREAMS[name]
    pairs, parts = [], []
    for number, kind in enumerate(KINDS):
        rng = random.Random(f"{kind.name} {name}")
        planted = kind.draw(rng)
        at = planted.text.index(planted.secret) + rng.randrange(1, len(planted.secret))
        begin = planted.text.index(planted.secret)
        pairs.append((f"PAIR {number:03d}\n{planted.text[:at]}", f"{planted.text[at:]}\n\n\nPAIR {number:03d}\n"))
        parts.append((planted.text[begin:at], planted.text[at : begin + len(planted.secret)]))

    rows = rows_of(stream, tmp_path, pairs)

    leaks = []
    for number, (kind, cut) in enumerate(zip(KINDS, parts, strict=True)):
        said = read(stream, rows, number)
        assert len(said) == 2 or (said and stream.read is chunk_of), kind.name
        if any(len(part) >= SHORTEST and part in MARKER.sub("", text) for part in cut for text in said):
            leaks.append((kind.name, cut, said))
    assert 1 - len(leaks) / len(KINDS) >= LEAST, leaks


@pytest.mark.feature("redaction.split")
@pytest.mark.parametrize("name", STREAMS)
def test_code_that_is_cut_anywhere_stays_as_it_is(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    code = [path.read_text("utf-8") for path in sorted(Path(ctx_pipeline.__file__).parent.rglob("*.py"))][:300]
    pairs = []
    for number, text in enumerate(code):
        at = rng.randrange(1, len(text) - 1) if len(text) > 10 else 0
        piece = text[max(0, at - 1_500) : at], text[at : at + 1_500]
        pairs.append((f"PAIR {number:03d}\n{piece[0]}", f"{piece[1]}\n\n\nPAIR {number:03d}\n"))
    whole = ["".join(pair) for pair in pairs]
    shown = {number for number, text in enumerate(whole) if REDACTOR.find(text) or REDACTOR.find(json.dumps(text))}

    rows = rows_of(STREAMS[name], tmp_path, pairs)

    assert len(shown) < len(pairs) / 10
    told = {number: read(STREAMS[name], rows, number) for number in set(range(len(pairs))) - shown}
    changed = [
        n for n, said in told.items() if len(said) != 2 or any(piece not in text for piece, text in zip(pairs[n], said, strict=True))
    ]
    # the code is this package's own, cut at drawn places: now and then a piece in base64 reads like a secret
    assert len(changed) <= len(pairs) / 100, [pairs[n] for n in changed]


@pytest.mark.feature("redaction.split")
def test_pieces_of_different_commands_are_not_joined(tmp_path: Path) -> None:
    said = transcript(tmp_path)
    for shell in ("ab0001", "ab0002"):
        said.call(f"t{shell}", "Bash", f"Command running in background with ID: {shell}", command="make", run_in_background=True)
    for shell, piece in (("ab0001", "PAIR 001\npassword: "), ("ab0002", "a1b2c3d4e5f6\nPAIR 001")):
        said.call(f"p{shell}", "BashOutput", f"<status>running</status>\n\n<stdout>\n{piece}\n</stdout>", bash_id=shell)

    apart = rows_of(Stream("claude", lambda _folder, _pairs: said.data()), tmp_path, ())
    together = rows_of(STREAMS["reads of a background shell"], tmp_path, [("PAIR 001\npassword: ", "a1b2c3d4e5f6\nPAIR 001")])

    assert any("a1b2c3d4e5f6" in (row[TEXT] or "") for row in apart)
    assert not any("a1b2c3d4e5f6" in (row[TEXT] or "") for row in together)


@pytest.mark.feature("redaction.split")
def test_the_rest_of_a_secret_that_comes_later_takes_its_beginning_out_of_every_file(environ) -> None:
    """The first piece looks like no secret; the second comes after a whole run."""
    halves = ("ghp_a1B2c3D4e5F6g7H8", "i9J0k1L2m3N4o5P6q7R8")
    home = build.ClaudeHome(Path(environ["CLAUDE_CONFIG_DIR"]))
    session = home.session()
    session.prompt("start the server")
    session.call("t1", "Bash", "Command running in background with ID: ab0001", command="serve", run_in_background=True)
    session.call("t2", "BashOutput", f"<status>running</status>\n\n<stdout>\nuses {halves[0]}\n</stdout>", bash_id="ab0001")
    session.answer(build.text("It runs."))
    session.save()
    settings = settings_module.load(environ)
    assert launch.run(settings).failed == []
    assert files_with(settings.home, halves[0], skip=("raw",))

    session.call("t3", "BashOutput", f"<status>completed</status>\n\n<stdout>\n{halves[1]} now\n</stdout>", bash_id="ab0001")
    session.answer(build.text("It ended."))
    session.save()
    with open_store(settings) as store:
        sync.sync(store, settings)
        rows = [e for cell in store.lake.manifests("normalized") for e in store.lake.read_rows("events", cell, "normalized")]
    assert launch.run(settings).failed == []
    with open_store(settings) as store:
        store.lake.collect_garbage(older_than=0)

    cut = [row for row in rows if "[REDACTED:github-token]" in (row.text or "")]
    assert len(cut) == 2
    shown = [record_of(row.event_id, settings=settings).text for row in (*cut, rows[0])]
    assert ["[REDACTED:github-token]" in text for text in shown] == [True, True, False]
    assert not any(half in text for half in halves for text in shown)
    assert {half: files_with(settings.home, half, half.lower(), skip=("raw",)) for half in halves} == {half: [] for half in halves}
    assert all(files_with(settings.home / "raw", half) for half in halves)


@pytest.mark.feature("redaction.split")
@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_a_secret_that_comes_letter_by_letter_is_seen_though_a_letter_comes_twice(tmp_path, longest: int) -> None:
    drawn = random.Random(longest)
    said = transcript(tmp_path)
    secrets = []
    for _ in range(40):
        secret = "ghp_" + "".join(drawn.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=36))
        pieces, rest = [], f"it is {secret} now"
        while rest:
            size = drawn.randint(1, longest)
            pieces.append(rest[:size])
            rest = rest[size:]
        said.prompt("go on").answer(*map(build.text, pieces))
        secrets.append(secret)
    rows = rows_of(Stream("claude", lambda _folder, _pairs: said.data()), tmp_path, ())

    shown = "".join(row[TEXT] or "" for row in rows)

    assert [secret for secret in secrets if secret in shown or secret[4:20] in shown] == []


@pytest.mark.feature("redaction.split")
@pytest.mark.parametrize("host", ["claude", "copilot", "codex"])
@pytest.mark.parametrize("text", ["\n" * 200_000, "<output>\n" * 20_000, "<stdout>" * 20_000, "<command " * 20_000, "Output:\n" * 20_000])
def test_what_a_command_printed_is_found_in_linear_time(host: str, text: str) -> None:
    began = time.process_time()

    split_texts._outputs(text, discovery.hosts()[host].shell)

    assert time.process_time() - began < 3
