"""Digests of the page's files, written with it: what was changed, cut or lost since is found by reading it."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from typing import TYPE_CHECKING

from ctx_pipeline.errors import refused
from ctx_pipeline.storage import temporary

if TYPE_CHECKING:
    from pathlib import Path

    from ctx_pipeline.storage.verified import VerifiedFiles

NAME = "digests.json"
UNDRAWN = "undrawn.json"
"""The chunks of the page that have no transcript yet, by name."""

CHUNKS = ("data", "words")
"""Folders of the page whose files are carried over from one page to the next."""


def is_drawn_later(rel: str) -> bool:
    """Tell whether a file of the page changes when transcripts are drawn into it, and so has its digest here alone."""
    return rel in {NAME, UNDRAWN} or _is_chunk(rel)


def _is_chunk(rel: str) -> bool:
    folder, _, name = rel.partition("/")
    return folder in CHUNKS and bool(name) and "/" not in name and name not in {".", ".."}


def read(site: Path) -> dict[str, str]:
    """Return name below the page -> digest; empty where none were written."""
    try:
        found = json.loads((site / NAME).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(name): str(told) for name, told in found.items()} if isinstance(found, dict) else {}


def of(content: bytes) -> str:
    """Return the digest of a file's bytes."""
    return hashlib.sha256(content).hexdigest()[:32]


def write(building: Path, former: Path, written: dict[str, str]) -> None:
    """Write the digests of a page that is being built: of the files ``written`` for it, and of those that the former page had."""
    before = read(former)
    found = dict(written)
    for folder in CHUNKS:
        with os.scandir(building / folder) as entries:
            for entry in entries:
                rel = f"{folder}/{entry.name}"
                if rel not in found:
                    found[rel] = before.get(rel) or of((building / rel).read_bytes())
    path = building / NAME
    path.touch(0o600)
    path.write_text(json.dumps(found, sort_keys=True), "utf-8")


def renew(site: Path, written: dict[str, str]) -> None:
    """Put the digests of files that were written into a page in the places of those that it had."""
    replace(site / NAME, json.dumps(read(site) | written, sort_keys=True).encode())


def replace(path: Path, content: bytes) -> None:
    """Put new content in the place of a file of the page, at once and whole."""
    fresh = path.with_name(temporary.name())
    fresh.touch(0o600)
    fresh.write_bytes(content)
    fresh.replace(path)


def damaged(site: Path, verified: VerifiedFiles | None = None) -> list[tuple[str, str]]:
    """Return (name, what is wrong) of the page's data scripts and lists that are not what was written; what is ``verified`` is not read."""
    found = []
    if (site / NAME).exists() and not read(site):
        found.append((NAME, "cannot be read"))
    for rel, told in sorted(read(site).items()):
        if is_drawn_later(rel):
            look = partial(_wrong_with, site / rel, told)
            if wrong := verified.wrong_with(f"{site.name}/{rel}", look, told) if verified is not None else look():
                found.append((rel, wrong))
    return found


def _wrong_with(path: Path, told: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        refused(error)
        return "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
    return "" if of(content) == told else "is not what was written"
