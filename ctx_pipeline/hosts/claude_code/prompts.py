"""Parts of a user record: what the person typed, what the client added, what tools answered."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ctx_pipeline.hosts._values import hashed, without_blobs
from ctx_pipeline.hosts.claude_code.injected_text import BY_PERSON, command_arguments, injected_by, split_reminders
from ctx_pipeline.hosts.claude_code.record_types import Arguments, Block, DecodeErrors, ReadFile, ToolUseResult, arguments_decoder, encode
from ctx_pipeline.hosts.claude_code.system_records import label_of
from ctx_pipeline.hosts.claude_code.thread import Answer
from ctx_pipeline.model.host_records import APPROVED_PLAN, DENIED, REASON, REFUSED
from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import msgspec

    from ctx_pipeline.hosts.claude_code.record_types import Message
    from ctx_pipeline.hosts.claude_code.thread import Call, Gathered, Part, Place


# What a tool call did: its action, the files and lines it names, its command and exit status.


ACTIONS = {
    "Read": "read",
    "NotebookRead": "read",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "Write": "write",
    "Grep": "search",
    "Glob": "search",
    "LS": "search",
    "LSP": "search",
    "Bash": "shell",
    "BashOutput": "shell",
    "KillBash": "shell",
    "KillShell": "shell",
    "Monitor": "shell",
    "WebFetch": "web",
    "WebSearch": "web",
    "web_fetch": "web",
    "web_search": "web",
    "Agent": "task",
    "Task": "task",
    "AgentOutputTool": "task",
    "SendMessage": "task",
    "TaskOutput": "task",
    "TaskStop": "task",
    "TeamCreate": "task",
    "TeamDelete": "task",
    "Workflow": "task",
    "EnterPlanMode": "plan",
    "ExitPlanMode": "plan",
    "exit_plan_mode": "plan",
    "TaskCreate": "plan",
    "TaskGet": "plan",
    "TaskList": "plan",
    "TaskUpdate": "plan",
    "TodoRead": "plan",
    "TodoWrite": "plan",
    "AskUserQuestion": "ask",
    "ListMcpResourcesTool": "mcp",
    "ReadMcpResourceTool": "mcp",
}

_TELLING = frozenset({"read", "edit", "write", "search", "shell", "web"})
_exit = lazy_pattern(r"(?:Error: )?Exit code (-?\d{1,10})\b").match
_decode_arguments = arguments_decoder.decode
_MAX_LINE = 10**9


def action_of(tool: str) -> str:
    """Return the action of a tool by its name; ``mcp__server__tool`` is mcp, an unknown name other."""
    return ACTIONS.get(tool) or ("mcp" if tool.startswith("mcp__") else "other")


Named = tuple[list[str], list[str], list[str], "str | None"]
"""paths, ranges beside them, argv, and the SHA-256 of the text that a Write puts into its file: edits carry only a stretch"""


def arguments_of(action: str, raw: msgspec.Raw) -> Named:
    """Return the files, lines and command that a call's arguments name."""
    if action not in _TELLING:
        return [], [], [], None
    try:
        given: Arguments = _decode_arguments(raw)
    except DecodeErrors:
        return [], [], [], None
    if action == "shell":
        return [], [], [given.command] if given.command.__class__ is str else [], None
    if action == "web":
        asked = given.url if isinstance(given.url, str) else given.query
        return [], [], [asked] if isinstance(asked, str) else [], None
    path = given.file_path or given.notebook_path or given.path
    if path.__class__ is not str:
        return [], [], [], None
    if action == "read":
        return [path], _span(given.offset, given.limit), [], None
    if action == "write" and isinstance(given.content, str):
        return [path], [], [], hashlib.sha256(given.content.encode()).hexdigest()
    return [path], [], [], None


def _span(first: Any, count: Any) -> list[str]:
    """Return ``["first-last"]``, or nothing when the numbers do not say."""
    if first is not None and isinstance(first, int) and isinstance(count, int) and 0 <= first < _MAX_LINE and 0 < count < _MAX_LINE:
        return [f"{first}-{first + count - 1}"]
    return []


def result_lines(result: ToolUseResult) -> tuple[str | None, list[str]]:
    """Return the file that a result names and its line ranges, several joined by commas."""
    file = result.file
    if isinstance(file, ReadFile):
        path = file.file_path if isinstance(file.file_path, str) else None
        return path, _span(file.start_line, file.num_lines)
    path = result.file_path if isinstance(result.file_path, str) else None
    hunks = result.structured_patch
    if not hunks:
        return path, []
    spans = [span for hunk in hunks for span in _span(hunk.new_start, hunk.new_lines)]
    return path, [",".join(spans)] if spans else []


def exit_of(text: str, result: ToolUseResult | str | list | None, *, failed: bool) -> int | None:
    """Return the exit status of a shell call, None where it is not recorded.

    A command that fails is answered by ``Exit code N``; an answer of a finished
    command without it is the record of status 0, unless the client explains a status
    that it does not count as an error or the command went on in the background.
    """
    match = _exit(text) if text[:1] == "E" else None
    if match:
        status = int(match[1])
        return status if abs(status) < 1 << 31 else None
    if failed or result.__class__ is not ToolUseResult:
        return None
    if isinstance(result.exit_code, int):
        return int(result.exit_code) if abs(result.exit_code) < 1 << 31 else None
    if isinstance(result.interrupted, bool) and not (result.interrupted or result.return_code_interpretation or result.background_task_id):
        return 0
    return None


_MARK = "User rejected tool use"
"""``toolUseResult`` of a refusal without words (2.1.29 and later); an error's begins with ``Error: ``, so that no tool can write it."""

_NO = lazy_pattern(
    r"The user doesn't want to (?:proceed with this tool use\. The tool use was rejected \(eg\. if it was a file edit, the new_string was"
    r" NOT written to the file\)\.|take this action right now\.) "
    r"(?:STOP what you are doing and wait for the user to tell you how to proceed\."
    # the first until about 2.1.0, the second from then on
    r"|The user provided the following reason for the rejection:\s{1,4}(?P<old>\S.*?)"
    r"|To tell you how to proceed, the user said:\n(?P<new>.*?))"
    r"(?:\n\nNote: The user's next message may contain a correction or preference\.[^\n]*)?",
    re.DOTALL,
)
_KEPT = lazy_pattern(
    r"\[Request interrupted by user for tool use\]|The operation was cancell?ed\."
    r"|(?:This (?:Bash )?command (?:requires|contains)|\w{1,30} requested permissions? to|Permission (?:to use|for this) )[^\n]{0,2000}"
    r"|[^\n]{0,200} was blocked\. For security[^\n]{0,2000}",
    re.DOTALL,
)
"""What the client answers where a rule or a mode asks the person, who is not there, or says no, and for a call that was interrupted."""

_PREFIXED = (2, 0, 37)
"""The first version seen whose failed commands begin with ``Exit code``; before, their output stood alone and could say anything."""

_OWN = frozenset({"read", "edit", "write", "search", "web", "task", "plan", "ask"})
"""Actions of tools of the client whose errors begin with words of its own; what is neither these nor a shell is somebody else's."""


class Kept(NamedTuple):
    """A call that never ran: how (a subtype), and what the person typed when it was refused."""

    how: str
    said: str = ""


def kept_from_running(text: str, result: ToolUseResult | str | list | None, action: str, version: str | None) -> Kept | None:
    """Return how an error says that its call never ran; None where it ran, or where a tool could have printed the same record.

    The whole text has to be one of the client's sentences, and ``toolUseResult`` its mark
    or the same text as an error of a tool whose own errors cannot begin so. Servers of
    others (MCP) may say anything: of their tools only the mark counts.
    """
    if not isinstance(result, str):
        return None
    sentence = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    marked = result in (_MARK, sentence)
    if not marked and not (result == f"Error: {sentence}" and (action in _OWN or (action == "shell" and _at_least(version, _PREFIXED)))):
        return None
    refused = _NO.fullmatch(sentence)
    if refused is not None:
        return Kept(REFUSED, (refused["old"] or refused["new"] or "").strip())
    if result == _MARK:
        return Kept(REFUSED)
    return Kept(DENIED) if _KEPT.fullmatch(sentence) else None


def _at_least(version: str | None, wanted: tuple[int, ...]) -> bool:
    parts = re.findall(r"\d{1,9}", version or "")[:3]
    return tuple(map(int, parts)) >= wanted


_FILES = frozenset({"read", "edit", "write"})
_SPILLED = "<persisted-output>"
_SPILLED_TO = "Full output saved to: "


def user_parts(state: Gathered, place: Place, message: Message) -> list[Part]:
    """Return the events of a user record, blocks in order."""
    content = message.content
    if not isinstance(content, list):
        return _texts(state, place, content)
    parts: list[Part] = []
    for block in content:
        if isinstance(block, str):
            parts += _texts(state, place, block)
            continue
        kind = block.type
        if kind == "tool_result":
            if len(content) == 1:
                return answer_call(state, place, block, 0)
            parts += answer_call(state, place, block, len(parts))
        elif kind == "text":
            parts += _texts(state, place, block.text)
        elif kind in ("image", "document"):
            parts.append(attached(block, None))
        else:
            parts.append(unknown_block(state, f"user/{label_of(kind)}", block, place))
    return parts or [("injected", "empty", "system", None, None)]


def _texts(state: Gathered, place: Place, text: str | None) -> list[Part]:
    """Return prompt and injected parts of one user text."""
    if not text or text.isspace():
        return [("injected", "empty", "system", text, None)]
    record = place.record
    if record.is_compact_summary:
        return [("injected", "compact-summary", "system", text, None)]
    author = injected_by(text)
    if author is None:
        if record.origin is not None and record.origin.kind not in (None, "human", "user"):
            author = record.origin.kind
        elif place.thread.kind != "main":
            started = place.seq > 0
            return [("injected" if started else "subagent_start", "agent_prompt", "assistant", text, None)]
        elif record.is_meta:
            author = "meta"
        elif text.startswith(_APPROVED) and (bytes(record.plan_content)[:1] == b'"' or _READ_MORE in text):
            return _plan(state, place, text)
    if author is not None:
        wrapper: Part = ("injected", author, "user" if author in BY_PERSON else "system", text, None)
        typed = "" if record.is_meta or place.thread.kind != "main" else command_arguments(text, author)
        return [wrapper, _typed(state, place, typed, "command-args")] if typed else [wrapper]
    if "<system-reminder>" not in text:
        return [_typed(state, place, text, None)]
    return [
        _typed(state, place, words, None) if injected is None else ("injected", injected, "system", words, None)
        for words, injected in split_reminders(text)
    ]


_APPROVED = "Implement the following plan:\n"
"""Opens the agent's plan, with which the client begins anew once the person approved it; what the person types so has no such record."""

_READ_MORE = "\n\nIf you need specific details from before exiting plan mode"
_COMMENT = "\n\nUser feedback on this plan: "


def _plan(state: Gathered, place: Place, text: str) -> list[Part]:
    """Return the plan that the person approved, and what they typed to it."""
    plan, _, typed = text.rpartition(_COMMENT) if _COMMENT in text else (text, "", "")
    if place.thread.replays(place.ts, text):
        return [("injected", "replay", "system", text, None)]
    if not typed.strip():
        return [("injected", APPROVED_PLAN, "user", text, None)]
    return [("injected", f"{APPROVED_PLAN}/commented", "user", plan, None), _typed(state, place, typed, "plan-feedback")]


def user_texts(state: Gathered, place: Place, text: str | None, subtype: str | None) -> list[Part]:
    """Return the event of a text that a record other than a message says the person typed."""
    if not text or text.isspace():
        return [("injected", "empty", "system", text, None)]
    return [_typed(state, place, text, subtype)]


def _typed(state: Gathered, place: Place, words: str, subtype: str | None) -> Part:
    """Return the prompt of words that the person typed; words that a resumed client wrote again at their old time are a replay."""
    state.prompts.add(words.strip())
    if place.thread.replays(place.ts, words):
        return ("injected", "replay", "system", words, None)
    return ("prompt", subtype, "user", words, None)


def answer_call(state: Gathered, place: Place, block: Block, index: int) -> list[Part]:
    """Return the result event of a tool call (images in it and the words of a refusal follow) and join it with its call."""
    call_id = block.tool_use_id
    content = block.content
    images: list[Part] = []
    if isinstance(content, str):
        text = content
    elif content is None:
        text = ""
    else:
        text = _joined(state, content, call_id, place, images)
    result = place.record.tool_use_result
    if text[:1] == "<" and text.startswith(_SPILLED):
        text = _whole(state, text, result)
    failed = block.is_error is True
    kind = block.type
    structured = result if isinstance(result, ToolUseResult) else None
    thread = place.thread
    if structured is not None and (agent := structured.agent_id).__class__ is str:
        state.spawned.setdefault(agent, thread.thread_id)
    call = thread.calls.get(call_id) if call_id is not None else None
    answer = Answer(f"{place.event}{index}", place.ts, text, result, failed)
    if call is not None and call.result_event is None:
        failed = join(call, answer)
    elif call is None and call_id is not None:
        thread.early.setdefault(call_id, answer)
    kept = kept_from_running(text, result, call.action, place.record.version) if failed and call is not None else None
    subtype = kept.how if kept is not None else None if kind == "tool_result" else kind
    parts: list[Part] = [("tool_result", subtype, "tool", text, call_id), *images]
    if kept is not None and kept.said:
        permission, refused, person = REASON
        parts.append((permission, refused, person, kept.said, call_id))
    return parts


def join(call: Call, answer: Answer) -> bool:
    """Give a call what its result says, and return whether it failed."""
    call.result_event, call.ended, call.out_chars = answer.event, answer.ts, len(answer.text)
    failed, result = answer.failed, answer.result
    if call.action == "shell":
        status = exit_of(answer.text, result, failed=failed)
        if status is not None:
            call.exit = status
            failed = failed or status != 0
    elif isinstance(result, ToolUseResult) and call.action in _FILES:
        path, ranges = result_lines(result)
        if path is not None and not call.paths:
            call.paths = [path]
        if ranges and call.paths:
            call.ranges = ranges
    if failed:
        call.is_error = True
        call.after_sha = None
    return failed


def _joined(state: Gathered, content: list[Block | str] | Block, call_id: str | None, place: Place, images: list[Part]) -> str:
    """Return the text of a result's blocks; images and documents are put into ``images``."""
    if isinstance(content, Block):
        return content.text or encode(content.type or "").decode()
    texts = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif block.type == "text":
            texts.append(block.text or "")
        elif block.type in ("image", "document"):
            images.append(attached(block, call_id))
        elif block.type == "tool_reference":
            texts.append(block.tool_name or "")
        elif block.text is not None:
            texts.append(block.text)
        else:
            kind, subtype, actor, text, _ = unknown_block(state, f"result/{label_of(block.type)}", block, place)
            images.append((kind, subtype, actor, text, call_id))
    return "\n".join(texts)


def _whole(state: Gathered, stub: str, result: ToolUseResult | str | list | None) -> str:
    """Return the text of a spilled result, found by its file name alone; the stub when it was not captured."""
    told = result.persisted_output_path if isinstance(result, ToolUseResult) else None
    if not isinstance(told, str):
        _, _, rest = stub.partition(_SPILLED_TO)
        told = rest.partition("\n")[0]
    name = told.strip().replace("\\", "/").rpartition("/")[2]
    return state.spilled.get(name, stub)


def attached(block: Block, call_id: str | None) -> Part:
    """Return the event of an image or document: what it is, where it came from, hash and size of its data."""
    source = block.source
    facts: dict[str, str | int | None] = {"type": block.type}
    if source is not None:
        facts |= {"source": source.type, "media_type": source.media_type, "url": source.url}
        if data := str(source.data, "utf-8", "replace").strip('"'):
            facts["sha256"], facts["bytes"] = hashed(data)
    text = encode({k: v for k, v in facts.items() if v is not None}).decode()
    return ("attachment", block.type, "tool" if call_id else "user", text, call_id)


def unknown_block(state: Gathered, label: str, block: Block, place: Place) -> Part:
    """Return the event of a block of an unknown type, its JSON kept whole, and count it."""
    label = f"block/{label}"
    state.count_unknown(label)
    return ("unknown", label, "system", without_blobs(_find(place.line(), block.type)), None)


def _find(raw: bytes, kind: str | None) -> str:
    """Return the JSON of the first block of this type in a line, the whole line when there is none."""
    line = raw.decode("utf-8", "replace").strip()
    try:
        value = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return line
    waiting = [value.get("message")] if isinstance(value, dict) else []
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, dict):
            if item.get("type") == kind and item is not value.get("message"):
                return json.dumps(item, ensure_ascii=False).encode("utf-8", "replace").decode()
            waiting.append(item.get("content"))
    return line
