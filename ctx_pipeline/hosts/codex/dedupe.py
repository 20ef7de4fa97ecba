"""Which records say what was said: a text stands in a rollout twice, as item and as event.

Typed prompts are user_message events where the file has any, else finished items of
type UserMessage, else user messages that do not look injected. An answer or a thought
is taken from the event unless no event says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.hosts.codex.records import Block
    from ctx_pipeline.hosts.codex.threads import Entry

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
