"""Response items: messages, reasoning, tool calls and their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctx_pipeline.hosts._values import hashed, without_blobs
from ctx_pipeline.hosts.codex import tools
from ctx_pipeline.hosts.codex.record_types import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctx_pipeline.hosts.codex.record_types import Block, Payload
    from ctx_pipeline.hosts.codex.thread_lines import Entry
    from ctx_pipeline.hosts.codex.thread_state import Walk


# Which records say what was said: a text stands in a rollout twice, as item and as event.


_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
    "<skills_instructions>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<app-context>",
    "<user_shell_command>",
    "<user_action>",
    "<model_switch>",
    "<personality_spec>",
    "<hook_prompt",
    "<goal_context>",
    "<recommended_plugins>",
    "Warning: ",
)


_AUTOMATION = ("<heartbeat>",)
"""How a message begins that a schedule of the host sends in the person's name."""


class Families:
    """The texts that events of a thread say, so that items which repeat them are left out."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.prompts: set[str] = set()
        self.answers: set[str] = set()
        self.thoughts: set[str] = set()
        """texts of reasoning items: the event repeats these"""
        self.typed = False
        self.compacted = False
        self.searches = 0
        for entry in entries:
            payload = entry.payload
            if payload is None:
                continue
            kind = payload.type
            if entry.type == "event_msg":
                if kind == "token_count":
                    continue
                if kind == "user_message":
                    self.typed = True
                    if isinstance(payload.message, str):
                        self.prompts.add(payload.message.strip())
                elif kind == "agent_message":
                    if isinstance(payload.message, str):
                        self.answers.add(payload.message.strip())
                elif kind == "item_completed" and payload.item is not None:
                    text = joined(payload.item.content) or payload.item.text or ""
                    if payload.item.type == "UserMessage":
                        self.typed = True
                        self.prompts.add(text.strip())
                    elif payload.item.type == "AgentMessage":
                        self.answers.add(text.strip())
            elif kind == "reasoning":
                for part in (payload.summary, payload.content):
                    if isinstance(part, list):
                        self.thoughts.update(block.text.strip() for block in part if block.text)
            elif kind == "web_search_call":
                self.searches += 1
            elif entry.type == "compacted":
                self.compacted = True


def joined(content: str | list[Block] | None) -> str:
    """Return the text of content blocks, joined by newlines."""
    if isinstance(content, str):
        return content
    if not content:
        return ""
    if len(content) == 1:
        return content[0].text or ""
    return "\n".join(block.text for block in content if block.text)


def injected(text: str) -> bool:
    """Tell whether a user message is one that the host wrote."""
    return text.lstrip().startswith(_INJECTED)


def automated(text: str) -> bool:
    """Tell whether a user message was sent by a schedule of the host and typed by nobody."""
    return text.lstrip().startswith(_AUTOMATION)


def _message(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = joined(payload.content)
    role = payload.role
    if role == "assistant":
        if text.strip() not in walk.families.answers:
            walk.say(entry, "answer", text, _with_phase("message/assistant", payload))
    elif role == "user":
        _user(walk, entry, payload, text)
    else:
        walk.inject(entry, text, f"message/{role}"[:100], "system")


def _user(walk: Walk, entry: Entry, payload: Payload, text: str) -> None:
    families = walk.families
    if not families.typed:
        if injected(text):
            walk.inject(entry, text, "message/user", "system")
        else:
            walk.prompt(entry, text, "message/user")
        walk.pictures(entry, payload.content, "user")
        return
    if text.strip() in families.prompts:
        walk.pictures(entry, payload.content, "user")
        return
    blocks = payload.content
    if isinstance(blocks, list) and any((block.text or "").strip() in families.prompts for block in blocks if block.text):
        walk.pictures(entry, blocks, "user")
        return
    walk.inject(entry, text, "message/user", "system")


def _with_phase(subtype: str, payload: Payload) -> str:
    return f"{subtype}/{payload.phase}"[:100] if payload.phase else subtype


def _reasoning(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = joined(payload.summary) or joined(payload.content)
    walk.say(entry, "reasoning", text or None, "reasoning")


def _function_call(walk: Walk, entry: Entry, payload: Payload) -> None:
    name = payload.name or payload.type or "function_call"
    text = _written(payload.arguments if payload.arguments is not None else payload.input)
    touched = tools.file_access(name, payload.namespace, text)
    tool = walk.call(entry, payload.call_id, touched, text, payload.type or "function_call")
    if payload.status == "failed":
        tool.is_error = True


def _local_shell(walk: Walk, entry: Entry, payload: Payload) -> None:
    command = tuple(payload.action.command or ()) if payload.action else ()
    text = written(command)
    walk.call(entry, payload.call_id or payload.id, tools.FileAccess("local_shell", "shell", (), command), text, "local_shell_call")


def _web_search(walk: Walk, entry: Entry, payload: Payload) -> None:
    action = payload.action
    text = " ".join(t for t in (action.query, action.url, action.pattern) if t) if action else ""
    call_id = payload.call_id or payload.id
    ended = walk.searches.popleft() if walk.searches else None
    tool = walk.call(entry, call_id or (ended[0] if ended else None), tools.FileAccess("web_search", "web"), text, "web_search_call")
    tool.is_error = payload.status == "failed"
    if ended:
        walk.rows.adopt(ended[1], tool)


def _output(walk: Walk, entry: Entry, payload: Payload) -> None:
    end = tools.ending(payload.output)
    asked = walk.rows.open.get(payload.call_id or "")
    kept = tools.kept_from_running(asked.name, asked.action, end) if asked is not None else None
    tool = walk.rows.result(entry, payload.call_id, end.text, kept or payload.type or "function_call_output")
    if isinstance(payload.output, list):
        walk.pictures(entry, payload.output, "tool", call_id=payload.call_id)
    if tool is not None:
        if end.exit is not None:
            tool.exit = end.exit
        if end.failed or kept:
            tool.is_error = True


def _tool_search(walk: Walk, entry: Entry, payload: Payload) -> None:
    text = _written(payload.arguments)
    walk.call(entry, payload.call_id or payload.id, tools.FileAccess("tool_search", "other"), text, "tool_search_call")


def _tool_search_output(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.rows.result(
        entry, payload.call_id or payload.id, without_blobs(bytes(payload.tools).decode("utf-8", "replace")), "tool_search_output"
    )


def _image(walk: Walk, entry: Entry, payload: Payload) -> None:
    touched = tools.FileAccess("image_generation", "other")
    tool = walk.call(entry, payload.call_id or payload.id, touched, payload.revised_prompt or "", "image_generation_call")
    tool.is_error = payload.status == "failed"
    if made := bytes(payload.result).decode("utf-8", "replace").strip('"'):
        digest, size = hashed(made)
        text = written({"type": "image", "sha256": digest, "bytes": size})
        walk.rows.event(entry, "attachment", "image_generation_call/result", "tool", text, call_id=tool.call_id, block=1)


def _agent_message(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, "agent_message", kind="injected", actor="subagent", text=joined(payload.content))


def _unknown(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, payload.type or "response_item")


def _encrypted(walk: Walk, entry: Entry, payload: Payload) -> None:
    walk.note(entry, payload.type or "compaction", text="")


def _written(arguments: str | dict[str, Any] | list[Any] | None) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else written(arguments)


ITEMS: dict[str, Callable[[Walk, Entry, Payload], None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "local_shell_call": _local_shell,
    "local_shell_call_output": _output,
    "web_search_call": _web_search,
    "tool_search_call": _tool_search,
    "tool_search_output": _tool_search_output,
    "image_generation_call": _image,
    "agent_message": _agent_message,
    "ghost_snapshot": _unknown,
    "additional_tools": _unknown,
    "compaction": _encrypted,
    "compaction_summary": _encrypted,
    "context_compaction": _encrypted,
}
"""What adds the rows of a response item, by its type; one without a type is a message where it has a role."""
