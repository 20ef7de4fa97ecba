"""The tree as the messages a provider gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctx_pipeline.context.tree.forest import Tree


def provider_thread(tree: Tree) -> list[dict[str, Any]]:
    """Return the blocks as ``{id, role, kind, content}``: system header, turns from the oldest, active head.

    In each turn what stands before the core, the core, what stands after it. A block
    without a role has the role system in the system header and user in a turn; one
    without a kind is text.
    """
    view = tree.view
    thread = []
    for place, record in enumerate(view.records):
        if record.structure != "block" or record.body is None:
            continue
        role = record.role or ("system" if view.depths[place] == -1 else "user")
        thread.append({"id": record.id, "role": role, "kind": record.kind or "text", "content": record.content})
    return thread
