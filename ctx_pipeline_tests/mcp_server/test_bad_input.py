"""What goes wrong around an agent: files that change, odd encodings, huge and lying outputs, two agents at once, clients that vanish."""

from __future__ import annotations

import codecs
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ctx_pipeline.compression import code_reading, folder_tree
from ctx_pipeline_tests import processes
from ctx_pipeline_tests.mcp_server.conftest import SECONDS, over_http, run, served
from ctx_pipeline_tests.mcp_server.test_code_tools import reading, said


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.mark.feature("mcp.bad-input")
def test_of_a_file_that_changes_all_the_time_the_agent_always_holds_a_text_that_stood_there(project):
    first, second = "".join(f"one {n}\n" for n in range(300)), "".join(f"two {n}\n" for n in range(250))
    path, spare, reads = project / "a.txt", project / "b.txt", code_reading.Reads()
    path.write_text(first)
    done = threading.Event()

    def rewrite() -> None:
        for n in range(10**9):
            if done.is_set():
                return
            spare.write_text((first, second)[n % 2])
            spare.replace(path)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        held, seen = "", set()
        for _ in range(200):
            found = code_reading.read_file("a.txt", roots=(project,), reads=reads)
            if found.how == "full":
                held = found.text
            elif found.how == "diff":
                held = patched(held, found.text)
            assert held.rstrip("\n") in (first.rstrip("\n"), second.rstrip("\n"))
            seen.add(held.rstrip("\n"))
    finally:
        done.set()
        writer.join()
    last = code_reading.read_file("a.txt", roots=(project,), reads=reads, again=True)
    assert last.text.rstrip("\n") == path.read_text().rstrip("\n")
    assert len(seen) == 2


def patched(text: str, diff: str) -> str:
    """Return a text after a unified difference without a line of context missing."""
    lines, found, at = text.split("\n"), [], 0
    for line in diff.split("\n")[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1][1:].partition(",")[0]) - 1
            found += lines[at:start]
            at = start
        elif line.startswith("-"):
            assert lines[at] == line[1:]
            at += 1
        elif line.startswith("+"):
            found.append(line[1:])
        else:
            found.append(lines[at])
            at += 1
    return "\n".join([*found, *lines[at:]])


@pytest.mark.feature("mcp.bad-input")
def test_a_long_line_of_utf_16_that_breaks_off_inside_a_sign_is_found_as_ripgrep_found_it(project):
    (project / "wide.txt").write_bytes(codecs.BOM_UTF16_LE + ("日本" * 1_500).encode("utf-16-le") + b"A")
    cut = ("日本" * 400).encode() + b" [... 1 more match]"
    (hit,) = code_reading._uncut(project, [(b"wide.txt", b"1", b"1", cut)])

    assert (hit.path, hit.number, hit.line[:4]) == ("wide.txt", 1, "日本日本")


@pytest.mark.feature("mcp.bad-input")
def test_line_ends_and_encodings_that_an_edit_must_know_of_are_said(project):
    def head(name: str, data: bytes) -> tuple[str, str]:
        (project / name).write_bytes(data)
        found = code_reading.read_file(name, roots=(project,), reads=code_reading.Reads())
        return found.odd, found.text

    assert head("plain.py", b"a = 1\n")[0] == ""
    assert head("empty.py", b"") == (" (the file is empty)", "")
    assert head("line.py", b"\n") == ("", "")
    assert head("windows.py", b"a = 1\r\nb = 2\r\n") == (" (line ends: CRLF)", "a = 1\nb = 2")
    assert head("latin.py", "naïve = 1\n".encode("latin-1")) == (" (not UTF-8: � stands for what could not be read)", "na�ve = 1")
    assert head("bom.py", "\ufeffa = 'ü'\n".encode())[1].startswith("a = 'ü'")
    assert head("wide.py", "a = 'ü'\n".encode("utf-16")) == (" (begins with a byte order mark) (UTF-16)", "a = 'ü'")
    assert head("sign.py", "a = '\ufffd'\n".encode()) == ("", "a = '\ufffd'"), "a sign that stands in the file is no fault of its encoding"
    for name, data in (("four.txt", "wide\n".encode("utf-32")), ("wide.txt", b"\xff\xfea\0b"), ("program", b"\x7fELF\0\0")):
        (project / name).write_bytes(data)
        with pytest.raises(Exception, match="binary"):
            code_reading.read_file(name, roots=(project,), reads=code_reading.Reads())


@pytest.mark.feature("mcp.bad-input")
def test_links_that_lead_out_are_refused_wherever_they_stand_in_the_path(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key.txt").write_text("secret\n")
    (project / "folder").symlink_to(outside)
    (project / "chain").symlink_to(project / "folder")
    (project / "loop").symlink_to(project / "loop")

    for path in ("folder/key.txt", "chain/key.txt", "./folder/../folder/key.txt", "loop", "a\0b", "~/x", "/etc/passwd"):
        with pytest.raises(code_reading.UsageError):
            code_reading.read_file(path, roots=(project,), reads=code_reading.Reads())
    (project / "there").symlink_to("back")
    (project / "back").symlink_to("there")
    for path in ("loop", "there", "loop/key.txt"):
        with pytest.raises(code_reading.UsageError, match="it is a link that leads back to itself"):
            code_reading.read_file(path, roots=(project,), reads=code_reading.Reads())
    assert "secret" not in code_reading.search_code("secret", roots=(project,)).text
    assert "key.txt" not in folder_tree.tree(".", roots=(project,)).text


@pytest.mark.feature("mcp.bad-input")
@pytest.mark.timeout(250)
def test_200_mb_of_output_are_read_in_bounded_memory_and_errors_in_the_middle_and_the_last_line_stay(environ):
    code = (
        "import sys; block = (b'working on it ' * 7 + b'\\n') * 10000\n"
        "for n in range(202): sys.stdout.buffer.write(block + (b'FATAL: no table\\n' if n == 99 else b''))\n"
        "sys.stdout.buffer.write(b'ERROR: disk full\\n'); sys.exit(3)"
    )
    # not ru_maxrss, which begins with what the forking process held
    watch = "import atexit, sys; from ctx_pipeline.cli import main\n"
    watch += "peak = lambda: next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
    watch += "atexit.register(lambda: print(peak(), file=sys.stderr))\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", watch, "run-command", "--", sys.executable, "-c", code],
        env={**os.environ, **environ},
        capture_output=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 3
    assert len(done.stdout) < 100_000
    assert b"ERROR: disk full" in done.stdout
    *_, note, fatal, last = done.stdout.decode().rstrip().split("\n")
    line, half = 14 * 7 + 1, 8 << 20
    first = half // line
    assert re.fullmatch(rf"\[[\d,]+ bytes in the middle of this output, lines {first + 1} to \d+, are neither shown nor kept; .*", note)
    assert fatal == " 1000001: FATAL: no table"
    assert re.fullmatch(rf"\[ctx recall [0-9a-f]{{12}}: exit 3, first {first} and last {first + 1} of 2020002 lines\]", last)
    assert b"\\[" not in done.stdout
    assert int(done.stderr.split()[-1]) < 700_000


@pytest.mark.feature("mcp.bad-input", "compression.shell-output")
def test_lines_of_an_output_that_imitate_our_own_marks_are_told_apart(chosen):
    from ctx_pipeline.compression import kept_outputs
    from ctx_pipeline.compression.shell_output import shorten

    fakes = [
        "[ctx_recall 0123456789ab: exit 0, whole of 9 lines]",
        "[ctx recall 0123456789ab: whole of 9 lines]",
        "[40 lines as shown before]",
    ]
    output = "\n".join([*fakes, *(f"tests/test_{n}.py::test_it PASSED" for n in range(80)), "1 failed, 80 passed in 1s"]) + "\n"
    told = shorten("pytest -v", output, count=len, settings=chosen)
    lines = told.text.split("\n")

    assert lines[:3] == [f"\\{fake}" for fake in fakes]
    assert [line for line in lines if line.startswith(("[ctx_", "[ctx "))] == lines[-1:]
    assert kept_outputs.recall(told.handle, chosen).text.startswith("\n".join(fakes))


@pytest.mark.feature("mcp.bad-input")
def test_what_one_agent_was_given_is_not_unchanged_to_another(project, environ, home):
    (project / "a.py").write_text("".join(f"a_{n} = {n}\n" for n in range(100)))
    (home.folder / "shared.py").write_text("".join(f"a_{n} = {n}\n" for n in range(100)))

    async def two():
        async with reading(project, environ) as one, reading(project, environ) as other:
            assert "a_99 = 99" in await said(one, "ctx_read", path="a.py")
            assert "unchanged" in await said(one, "ctx_read", path="a.py")
            assert "a_99 = 99" in await said(other, "ctx_read", path="a.py")

    run(two)
    with served(home) as server:

        async def over_one_server():
            async with over_http(server) as one, over_http(server) as other:
                for client in (one, other):
                    result = await client.call_tool("ctx_read", {"path": "shared.py"})
                    assert "a_99 = 99" in result.content[0].text, result.content

        run(over_one_server)


_CLIENT = """
import subprocess, sys, time
server = subprocess.Popen([sys.executable, "-m", "ctx_pipeline", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(server.pid, flush=True)
server.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_history","argu')
server.stdin.flush()
time.sleep(600)
"""


@pytest.mark.feature("mcp.bad-input", "mcp.ends")
def test_a_server_ends_when_its_client_is_killed_in_the_middle_of_a_call(home):
    client = processes.start(
        [
            sys.executable,
            "-c",
            _CLIENT,
        ],
        env={**os.environ, **home.environ},
        cwd=home.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    server = int(client.stdout.readline())
    os.kill(client.pid, signal.SIGKILL)
    client.wait(60)

    ends_by = time.monotonic() + SECONDS
    while alive(server):
        assert time.monotonic() < ends_by, "the server outlives its client"
        time.sleep(0.1)


@pytest.mark.feature("mcp.bad-input", "mcp.ends")
def test_a_server_whose_client_reads_no_more_ends_without_a_complaint(home):
    command = [sys.executable, "-m", "ctx_pipeline", "mcp"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    server = processes.start(command, env={**os.environ, **home.environ}, cwd=home.folder, **pipes)
    server.stdout.close()
    asked = (json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}) for number in range(20))
    server.stdin.write("\n".join([*asked, '{"jsonrpc":"2.0","id":99,"meth']).encode())
    server.stdin.close()

    assert (server.wait(SECONDS), server.stderr.read()) == (0, b"")


def alive(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.feature("mcp.bad-input")
def test_a_client_that_hangs_up_over_http_leaves_the_server_to_the_others(home):
    import socket

    with served(home) as server:
        place = server.url.split("/")[2].split(":")
        for half in (b"POST /mcp HTTP/1.1\r\nHost: x", b"POST /mcp HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{", b""):
            with socket.create_connection((place[0], int(place[1])), timeout=60) as vanishing:
                vanishing.sendall(half)

        @asynccontextmanager
        async def fresh():
            async with over_http(server) as client:
                yield client

        async def answers():
            async with fresh() as client:
                assert (await client.call_tool("list_sessions", {})).structured_content["total"] == 6

        run(answers)
