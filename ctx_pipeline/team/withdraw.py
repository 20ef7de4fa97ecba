"""What this machine takes back from its team: sessions that are forgotten, or everything as it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctx_pipeline.team.membership import RECORD, demand, depart
from ctx_pipeline.team.sent_record import LEASE, read_record
from ctx_pipeline.team.table_sender import Batch, Sender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctx_pipeline.settings import Settings
    from ctx_pipeline.storage import Store


def withdraw(store: Store, settings: Settings, sessions: Iterable[tuple[str, str]]) -> int:
    """Remove the rows of sessions (host, id) from the team's tables for good and return how many sessions the team held.

    Their earlier versions go too; a hub does the same with its copies at its next refresh.
    Raises as :func:`~ctx_pipeline.team.publish.publish` does, but not where ``team.json`` is lost.
    """
    member = demand(settings)
    with store.ledger.lease(LEASE):
        record = read_record(store, member)
        keys = {f"{host}/{name}" for host, name in sessions}
        there = record.sent()
        gone = [(key, there[key]) for key in sorted(keys & there.keys())]
        held = keys & (there.keys() | record.raw.sessions.keys())
        if held:
            sender = Sender(store, member, record)
            sender.demand_own_place()
            record.untold = True
            for cell in sender.raw.revoke(keys):
                record.cells.pop(cell, None)
            if gone:
                sender.send(Batch([], gone))
                sender.erase()
            sender.write_head()
        return len(held)


def leave(store: Store, settings: Settings, *, erase: bool = False) -> int:
    """Take this machine out of its team and return how many sessions were erased there.

    Without ``erase`` what was published stays, and this machine alone can take its names again.

    What a person erases is gone from the machine's tables with all earlier versions, and from the hub at its next refresh.
    """
    member = demand(settings)
    erased = 0
    with store.ledger.lease(LEASE):
        record = read_record(store, member)
        if erase:
            erased = len(record.sent().keys() | record.raw.sessions.keys())
            sender = Sender(store, member, record)
            sender.demand_own_place()
            sender.erase_all()
        depart(settings, member, erased=erase)
        store.files.remove(RECORD)
    return erased
