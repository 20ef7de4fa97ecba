"""The record of a session as it leaves the machine: without secrets, logins and home folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.mining.lessons.asked_models.sent_record import KINDS, sent_record
from ctx_pipeline.redaction.sharing import sharing_of

if TYPE_CHECKING:
    from ctx_pipeline.model.session_view import SessionView
    from ctx_pipeline.redaction.redactor import Redactor

TABLES = ("events", "tool_calls", "threads")
"""What of a session is read to make its record."""


def outgoing_record(view: SessionView, redactor: Redactor) -> str:
    """Return the record of a session for a model; the view keeps the texts of such events as they were sent.

    Texts are redacted once more with the patterns of today; paths of the person, user names,
    mail addresses and hosts are replaced.
    """
    sharing = sharing_of(view)
    # before texts are cut: half of a key or of a login looks like none
    texts = {e.event_id: redactor.redact(e.text) for e in view.events if e.text}
    for text in texts.values():
        sharing.read(text)
    sent = {e.event_id: sharing.of_read(texts[e.event_id]) for e in view.events if e.text and e.kind in KINDS}
    view.events = [e._replace(text=sent[e.event_id]) if e.event_id in sent else e for e in view.events]
    return redactor.redact(sent_record(view).text)
