"""``staleness``: lessons about files that are gone or were changed since."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ctx_pipeline.mining.filters.result import Filtered
from ctx_pipeline.recorded_paths import ABSENT, FILE, is_folder, look_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import StoredCandidate

_MOST = 16


def staleness(candidates: Sequence[StoredCandidate]) -> Filtered:
    """Marks lessons that name files of their project which are gone or were changed after the session.

    Files are looked for below the folder in which the session ran; where that folder is
    not on this machine, or cannot be looked at, nothing can be said.
    """
    marks: dict[str, list[str]] = {}
    for c in candidates:
        files = c.body.get("files")
        if not isinstance(files, list) or not c.cwd or not is_folder(c.cwd):
            continue
        root = Path(c.cwd)
        said = [note for name in files[:_MOST] if (note := _state(root, str(name), c.ts))]
        if said:
            marks[c.candidate_id] = said
    return Filtered(list(candidates), {}, marks)


def _state(root: Path, name: str, ts: int | None) -> str:
    """Return what became of a file that a lesson names; empty when it is as it was, or is none of the project's."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or name.startswith("~") or "\0" in name:
        return ""
    found = look_at(root / path, links=False)
    if found.kind == ABSENT:
        return f"gone: {name}"
    changed = found.kind == FILE and ts is not None and found.mtime_ns // 1000 > ts
    return f"changed since: {name}" if changed else ""
