"""What a working directory or a remote URL says of the repository and the project: read by every hook, so with few imports."""

from __future__ import annotations

import re

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/@]*@)?(.+)")
_SCP = lazy_pattern(r"(?:[^/@:]*@)?([^/:@]+):(?!\\)(.+)")
_DRIVE = lazy_pattern(r"[A-Za-z]:[\\/]")

UNKNOWN = "unknown"


def repository_of(remote: str | None) -> str | None:
    """Return ``host/path`` of a remote URL in any of git's spellings, without credentials; a plain path stays as it is."""
    if not remote:
        return None
    text = remote.strip()
    match = _SCHEME.fullmatch(text)
    if match:
        text = match.group(1).partition("?")[0]
    elif not _DRIVE.match(text) and (match := _SCP.fullmatch(text)):
        text = f"{match.group(1)}/{match.group(2).lstrip('/')}"
    else:
        return text or None
    return text.rstrip("/").removesuffix(".git") or None


def project_of(repository: str | None) -> str:
    """Return the last component of a repository or directory, also of one from Windows."""
    parts = [p for p in re.split(r"[\\/]+", repository or "") if p and not re.fullmatch(r"[A-Za-z]:", p)]
    return parts[-1] if parts else UNKNOWN
