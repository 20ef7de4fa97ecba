"""From a chat history to rows: what a person typed stands behind ``####``, what the program said behind ``>``, the rest is the model's.

Not everything behind ``####`` was typed: a command that chooses a mode for one question is followed by the question
once more, and the architect's answer is handed to the editor in the person's place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.hosts.record_rows import Place, Rows, Usage, longest_first
from ctx_pipeline.hosts.record_values import MOST_TOKENS, nano_dollars
from ctx_pipeline.model.codec import micros
from ctx_pipeline.model.host_records import OUT, Change, usual
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctx_pipeline.model.raw import Parsed, SessionInput, StreamBytes

_STARTED = lazy_pattern(r"# aider chat started at (\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})")
_TOKENS = lazy_pattern(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent(?:, (?P<write>[\d.,]+[kM]?) cache write)?"
    r"(?:, (?P<hit>[\d.,]+[kM]?) (?:cache hit|cached))?, (?P<received>[\d.,]+[kM]?) received\.?"
    r"(?: Cost: \$(?P<cost>[\d.,]+) (?:message|request))?"
)
_MODEL = lazy_pattern(r"(?:Main model|Model|Models): (\S+) with ")
_EDITOR_MODEL = lazy_pattern(r"Editor model: (\S+) with ")
_VERSION = lazy_pattern(r"Aider v(\S+)")
_FOLDER = lazy_pattern(r"Cur working dir: (.+)")
_MODE = lazy_pattern(r"/(?:ask|code|architect|context|help)\s+(.+)", re.DOTALL)
_EDITED = lazy_pattern(r"(?:Applied edit to|Creating empty file) (.+)")
_COMMAND = lazy_pattern(r"Running (.+)")
_COMMIT = lazy_pattern(r"Commit [0-9a-f]{7,40} .+")
_ERROR = lazy_pattern(r"(?:litellm\.\w*Error|The API provider|Model .+ has hit a token limit|.+ failed to apply)", re.IGNORECASE)
_STOPPED = lazy_pattern(r"\^C|Keyboard ?Interrupt", re.IGNORECASE)
_PREFIXES = {"k": 1_000, "M": 1_000_000}

_PROMPT, _NOTICE, _ANSWER, _HEADER = "prompt", "notice", "answer", "header"


def window(kind: str, subtype: str | None, text: str | None, _record: Callable[[], bytes]) -> str | Change:
    """Return what an event does to the window; what the program told the person was never sent."""
    return OUT if subtype in {"notice", "slash"} else usual(kind, text)


def parse(session: SessionInput) -> Parsed:
    """Return the rows of a history; each start of the program is a thread, since it begins with an empty window."""
    rows = Rows("aider", session.session_id, {"edit": "edit", "run": "shell"}, ended_by_last=True)
    read: set[tuple[str, int]] = set()
    for stream in longest_first(session):
        walk = _Walk(rows)
        blocks = list(_blocks(stream))
        for number, (kind, lines, place) in enumerate(blocks):
            rows.lines += 1
            mark = ("".join(lines), number)
            ahead = blocks[number + 1] if number + 1 < len(blocks) else None
            walk.block(kind, lines, place, known=mark in read, asked_next=_asked(ahead[1]) if ahead and ahead[0] == _PROMPT else "")
            read.add(mark)
    return rows.parsed()


def _blocks(stream: StreamBytes) -> Iterator[tuple[str, list[str], Place]]:
    """Yield the runs of lines of one speaker; blank lines belong to the run that they stand in."""
    kind, start, first, at = "", 0, 0, 0
    lines: list[str] = []
    ended: bool | None = None
    """what is typed in this chat ends with two blanks, as Aider writes it: a heading in an answer does not"""
    for number, raw in enumerate(stream.data.splitlines(keepends=True)):
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        found = _kind(text, ended) if text.strip() else kind
        if found == _HEADER:
            ended = None
        elif found == _PROMPT and ended is None:
            ended = text.endswith("  ")
        again = found == _PROMPT and text.strip() and lines and not lines[-1].strip()  # a blank line inside of a prompt is quoted too
        if found != kind or again or _STARTED.match(text):
            if lines and kind:
                yield kind, lines, Place(stream.stream, stream.generation, start, at, first)
            kind, lines, start, first = found, [], at, number
        lines.append(text)
        at += len(raw)
    if lines and kind:
        yield kind, lines, Place(stream.stream, stream.generation, start, at, first)


def _kind(line: str, ended: bool | None) -> str:
    if _STARTED.match(line):
        return _HEADER
    if (line == "####" or line.startswith("#### ")) and (not ended or line.endswith("  ")):
        return _PROMPT
    return _NOTICE if line == ">" or line.startswith("> ") else _ANSWER


def _asked(lines: list[str]) -> str:
    return "\n".join(line.removeprefix("####").strip() for line in lines if line.strip()).strip()


class _Walk:
    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.thread = rows.session_id
        self.ts: int | None = None
        self.chats = self.calls = 0
        self.model: str | None = None
        self.editor_model: str | None = None
        self.editing = False
        """the editor is at work on what the architect said"""
        self.asked = False
        self.answer = ""

    def block(self, kind: str, lines: list[str], place: Place, *, known: bool, asked_next: str = "") -> None:
        """Follow a run of lines and add its rows, unless another copy of the history gave them."""
        if kind == _HEADER:
            self._started(lines[0])
        if kind == _ANSWER and not self.asked:
            kind = _NOTICE  # more lines of the command that started the program
        handed = kind == _PROMPT and bool(self.answer) and _asked(lines).split() == self.answer.split()
        if kind == _PROMPT:
            self.asked, self.editing, self.answer = True, handed, ""
        elif kind == _ANSWER:
            self.answer = "\n".join(lines)
        for line in lines if kind == _NOTICE else ():
            self._about(line.removeprefix(">").strip())
        if known:
            return
        if kind == _HEADER:
            self.rows.event(place, "session_start", "started", "system", None, ts=self.ts, thread=self.thread)
        elif kind == _PROMPT:
            text = _asked(lines)
            mode = _MODE.fullmatch(text)
            slash = text.startswith(("/", "!")) and (mode is None or mode[1].strip() == asked_next)
            subtype = "architect" if handed else "slash" if slash else None
            self.rows.event(place, "injected" if subtype else "prompt", subtype, "user", text, ts=self.ts, thread=self.thread)
        elif kind == _ANSWER:
            text = "\n".join(lines).strip()
            if text:
                self.rows.event(place, "answer", None, "assistant", text, ts=self.ts, thread=self.thread)
        else:
            self._notice([line.removeprefix(">").strip() for line in lines], place)

    def _started(self, line: str) -> None:
        found = _STARTED.match(line)
        self.ts = micros(f"{found[1]}T{found[2]}Z") if found else None
        self.chats += 1
        self.calls = 0
        self.asked, self.editing, self.answer, self.editor_model = False, False, "", None
        self.thread = self.rows.session_id if self.chats == 1 else f"{self.rows.session_id}/{self.chats}"
        self.rows.thread(self.thread)

    def _about(self, text: str) -> None:
        """Take over the model and the version that the program names when it starts or changes them."""
        if found := _MODEL.match(text):
            self.model = found[1].rpartition("/")[2]
        elif found := _EDITOR_MODEL.match(text):
            self.editor_model = found[1].rpartition("/")[2]
        elif found := _FOLDER.match(text):
            self.rows.thread(self.thread, cwd=found[1].strip())
        elif found := _VERSION.match(text):
            self.rows.thread(self.thread, version=found[1])

    def _notice(self, lines: list[str], place: Place) -> None:
        rows, rest = self.rows, []
        for line in lines:
            if found := _TOKENS.match(line):
                self._tokens(found, place)
            elif found := _EDITED.match(line):
                call = rows.tool_call(place, None, "edit", None, {"path": found[1].strip()}, ts=self.ts, thread=self.thread)
                rows.tool_result(place, call, line, ts=self.ts, thread=self.thread)
            elif found := _COMMAND.match(line):
                rows.tool_call(place, None, "run", None, {"command": found[1].strip()}, ts=self.ts, thread=self.thread)
            elif _ERROR.match(line):
                rows.event(place, "error", "error", "system", line, ts=self.ts, thread=self.thread)
            elif _STOPPED.search(line):
                rows.event(place, "injected", "interrupt", "user", line, ts=self.ts, thread=self.thread)
            elif line:
                rest.append(line)
        if rest:
            rows.event(place, "injected", "notice", "system", "\n".join(rest), ts=self.ts, thread=self.thread)

    def _tokens(self, found: re.Match[str], place: Place) -> None:
        """Count a report: the calls since the one before it, in rounded numbers; what the cache held and took is part of what was sent."""
        sent, written, read, received = (_number(found[name]) for name in ("sent", "write", "hit", "received"))
        read = min(read, sent)
        written = min(written, sent - read)
        used = Usage(sent - read - written, received, cache_read=read, cache_write=written)
        self.calls += 1
        cost = (
            nano_dollars(float(found["cost"].replace(",", "").rstrip(".")))
            if found["cost"] and re.fullmatch(r"[\d,]*\.?\d+", found["cost"])
            else None
        )
        key = f"{self.thread}#{self.calls}"
        model = self.editor_model if self.editing and self.editor_model else self.model
        self.rows.model_call(place, key, model, used, ts=self.ts, thread=self.thread, cost=cost or None)


def _number(text: str | None) -> int:
    """Return the number of tokens that ``2,345``, ``2.3k`` or ``1.2M`` stands for; 0 for none."""
    if not text:
        return 0
    factor = _PREFIXES.get(text[-1], 1)
    try:
        value = round(float(text.rstrip("kM").replace(",", "")) * factor)
    except (ValueError, OverflowError):
        return 0
    return value if 0 <= value <= MOST_TOKENS else 0
