"""What is left of forgotten sessions beside the tables: ids in the journal and in logs, temporary files, and a last look at every file."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ctx_pipeline.model.codec import digest
from ctx_pipeline.storage import FORGETTING, temporary
from ctx_pipeline.storage.byte_search import LEAST, Searched, Wanted, search

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctx_pipeline.storage import Store

_LOGS = ("hooks.log", "hooks.log.1")
_HISTORY = "dagster"
"""Folder with the history of runs, which can do without."""

_SET_ASIDE = ".damaged"
"""In the name of every file that was set aside."""


def rename_in_journal(store: Store, ids: Collection[str]) -> int:
    """Put a digest in the place of these ids in all facts of the journal and return how many facts changed."""
    if not store.journal.path.exists():
        return 0
    return store.journal.rename({one: f"forgotten-{digest('forgotten', one, size=24)}" for one in ids})


def clean_logs(store: Store, ids: Collection[str]) -> None:
    """Remove the lines of the hooks' logs that name one of these ids."""
    wanted = [one.encode("utf-8", "surrogatepass") for one in ids if len(one) >= LEAST]
    for rel in _LOGS:
        if not store.files.exists(rel):
            continue
        lines = store.files.read(rel).splitlines(keepends=True)
        kept = [line for line in lines if not any(one in line for one in wanted)]
        if len(kept) < len(lines):
            store.files.write(rel, *kept)


def clear_temporaries(store: Store) -> None:
    """Remove the temporary files that processes left behind, and those of earlier versions, which nobody writes during a forgetting."""
    for found in list(temporary.everywhere(store.home)):
        if found.left or not found.named:
            temporary.remove(store.home, found)


def look_everywhere(store: Store, ids: Collection[str], paths: Collection[str], texts: Collection[bytes]) -> Searched:
    """Return what every file of the store was looked through for, and which still hold an id, a path or a text.

    A temporary file that does is removed, unless a living process of this machine writes
    it. So are the history of runs, which begins anew, and files that were set aside as damaged.
    """
    names = [one for one in ids if len(one) >= LEAST]
    paths = [path for path in paths if not any(one in path for one in names)]
    wanted = Wanted([*(one.encode("utf-8", "surrogatepass") for one in (*names, *paths)), *texts])
    report = search(store.home, wanted, leave_out={FORGETTING})
    if any(rel.startswith(f"{_HISTORY}/") for rel in report.found):
        shutil.rmtree(store.home / _HISTORY, ignore_errors=True)
    for rel in report.found:
        if _SET_ASIDE in rel.rpartition("/")[2]:
            store.files.remove(rel)
    if any(temporary.PREFIX in rel for rel in report.found):
        for found in list(temporary.everywhere(store.home)):
            if found.ended is not False and any(rel == found.rel or rel.startswith(f"{found.rel}/") for rel in report.found):
                temporary.remove(store.home, found)
    report.found = [rel for rel in report.found if store.files.exists(rel)]
    return report
