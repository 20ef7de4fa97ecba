"""``ctx run-command`` and ``ctx recall``: a command's output in fewer tokens, and the whole of it again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from ctx_pipeline.cli.output import emit, json_option, say

if TYPE_CHECKING:
    from ctx_pipeline.compression.large_output import Middle


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--raw", is_flag=True, help="Print the output as it is.")
def run_command(words: tuple[str, ...], raw: bool) -> None:
    """Run a command and print its output in fewer tokens, with the command's own exit status.

    Failures stay as they stand, passes are counted, and the whole output is kept for
    `ctx recall`. One argument with spaces is run by the shell: ctx run-command -- 'cd app && npm test'.
    """
    from ctx_pipeline.compression.large_output import bounded

    line = words[0] if len(words) == 1 else None
    command = [os.environ.get("SHELL") or "/bin/sh", "-c", line] if line and not line.isalnum() else list(words)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603 - what the person asks to run
    except OSError as error:
        say(f"{words[0]}: {error.strerror}", err=True)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
    for name in ("SIGTERM", "SIGHUP"):  # who ends this ends the command, and is told what it printed until then
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: process.send_signal(number))
    stream = process.stdout
    assert stream is not None  # noqa: S101 - it was asked for
    data, middle = bounded(iter(lambda: stream.read(1 << 16), b""))
    status = process.wait()
    status = 128 - status if status < 0 else status
    if raw or b"\0" in data[:8192]:
        shown = data if middle is None else data.rstrip(b"\n") + f"\n{middle.note()}".encode("utf-8", "replace")
    else:
        shown = _shortened(" ".join(words), data, status, middle).encode("utf-8", "surrogateescape")
    sys.stdout.buffer.write(shown if shown is data or not shown or shown.endswith(b"\n") else shown + b"\n")
    sys.stdout.buffer.flush()
    sys.exit(status)


def _shortened(command: str, data: bytes, status: int, middle: Middle | None) -> str:
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.compression.compress import counting
    from ctx_pipeline.compression.shell_output import shorten
    from ctx_pipeline.errors import CtxError

    text = data.decode("utf-8", "surrogateescape")
    try:
        tokenizer = counting()
        made = shorten(
            command,
            text,
            count=lambda t: tokenizer.count_tokens(t).count,
            settings=settings_module.load(),
            exit_status=status,
            again="ctx recall",
            middle=middle,
        )
    except (CtxError, OSError) as error:  # the command ran: its output is never lost to a store that cannot be written
        say(f"shown as it is: {error}", err=True)
        return text if middle is None else f"{text.rstrip()}\n{middle.note()}"
    return text if made.text == text.replace("\r\n", "\n") else made.text


@click.command()
@click.argument("handle")
@click.option("--first", type=click.IntRange(1), default=1, show_default=True, help="First line.")
@click.option("--last", type=click.IntRange(1), help="Last line.")
@click.option("--pattern", help="Only lines around this text.")
@json_option
def recall(handle: str, first: int, last: int | None, pattern: str | None, as_json: bool) -> None:
    """Print a part of an output that was shortened, exactly as it was but for secrets.

    HANDLE stands in the last line of the shortened output. Outputs are kept for seven days.
    """
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.compression.kept_outputs import recall as read_again

    part = read_again(handle, settings_module.load(), first=first, last=last, pattern=pattern)
    if as_json:
        emit(part._asdict())
        return
    if pattern and not part.hits:
        say(f"(none of the {part.lines} lines has this text)", err=True)
        return
    say(part.text.removesuffix("\n"), whole=True)
    if part.more:
        words = shlex.join(["ctx", "recall", handle, *(["--pattern", pattern] if pattern else []), "--first", str(part.more)])
        say(f"(lines {part.first}-{part.last} of {part.lines}: {words})", err=True)
