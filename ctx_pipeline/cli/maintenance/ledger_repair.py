"""A lost ledger is made again from raw by the command that misses it, and the command goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline.cli.output import say
from ctx_pipeline.errors import StoreDamaged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.errors import CtxError

_MENDS_ITSELF = "--rebuild-ledger"


def repaired(error: CtxError, words: Sequence[str]) -> bool:
    """Make the ledger again where an error says that it cannot be read; tell whether the command is worth another try.

    What was there before and after is said on standard error.
    """
    path = Path(str(error.fields.get("path", "")))
    if not isinstance(error, StoreDamaged) or path.name != "ledger.db" or _MENDS_ITSELF in words:
        return False
    from ctx_pipeline import settings as settings_module
    from ctx_pipeline.pipeline.repair.rebuild import rebuild_lost_ledger
    from ctx_pipeline.storage import Store

    settings = replace(settings_module.load(), home=path.parent)
    say(f"ctx: {error.message}; it is made again from what was captured", err=True)
    with Store(path.parent, first_month=settings.first_month) as store:
        report = rebuild_lost_ledger(store, settings)
    for line in report.lines() if report is not None else ["another process has made it again"]:
        say(line, err=True)
    return True
