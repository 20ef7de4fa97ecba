"""The command that resumes a captured session in its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline import discovery

if TYPE_CHECKING:
    from ctx_pipeline.storage import Store


def resuming(store: Store, host: str, session_id: str, folder: str | None, *, archived: bool = False) -> str:
    """Return the command that resumes a session which began in a folder; empty where nothing does.

    An agent cannot resume a session of which its subagents alone left a transcript, and takes an archived one out of the archive first.
    ``archived`` says so of a session that is not captured yet.
    """
    known = discovery.hosts().get(host)
    if known is None or store.ledger.of_subagents_alone(host, session_id):
        return ""
    return known.resuming(session_id, folder, archived=archived or is_archived(store, host, session_id))


def is_archived(store: Store, host: str, session_id: str) -> bool:
    """Tell whether a captured session is in an archive that its agent takes sessions out of."""
    known = discovery.hosts().get(host)
    if known is None or not known.agent.unarchive:
        return False
    said = store.ledger.archived(host, session_id)
    return (host, session_id) in store.archived if said is None else said
