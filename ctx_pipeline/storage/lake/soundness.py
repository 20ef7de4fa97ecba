"""Whether parts are what was written: by size and time at each look, by the digest in their name where these differ."""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ctx_pipeline.storage.lake.manifests import damaged

if TYPE_CHECKING:
    from ctx_pipeline.storage.files import Files
    from ctx_pipeline.storage.lake.manifests import Manifest, Part

_NAME = re.compile(r"part-([0-9a-f]{24})\.parquet")


class Damage(NamedTuple):
    """A manifest or a part that cannot be trusted."""

    path: str
    reason: str
    manifest: str
    """the file that names the part, or the manifest itself"""
    part: Part | None = None

    def __str__(self) -> str:
        """Return it as a sentence."""
        return f"{self.path} {self.reason}"


class Soundness:
    """What is known of the parts of one store; a part that was found to be right is looked at again when its file changes."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._parts: dict[str, Part] = {}
        self._right: dict[str, tuple[int, int]] = {}

    def know(self, manifest: Manifest) -> None:
        """Remember what a manifest says of its parts."""
        self._parts.update((part.path, part) for part in manifest.parts)

    def noted(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the times of the files that it is the first to name."""
        parts = tuple(self._timed(part) if part.mtime_ns == 0 else part for part in manifest.parts)
        return msgspec.structs.replace(manifest, parts=parts)

    def renoted(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the times of files that have others and are right; itself where there is none."""
        parts = []
        for part in manifest.parts:
            new = self._timed(part)
            parts.append(new if new.mtime_ns != part.mtime_ns and not self.what_is_wrong(part) else part)
        return (
            manifest
            if all(a is b for a, b in zip(parts, manifest.parts, strict=True))
            else msgspec.structs.replace(manifest, parts=tuple(parts))
        )

    def demand(self, path: str, part: Part | None = None) -> None:
        """Raise StoreDamaged for a part that is missing or not what its manifest and its name say."""
        known = part or self._parts.get(path)
        if what := self.what_is_wrong(known) if known is not None else self._contradicts(path):
            raise damaged(path, what)

    def what_is_wrong(self, part: Part, *, deep: bool = False) -> str:
        """Return what is wrong with a part, empty where nothing is; its bytes are read where its time is another, or ``deep``."""
        try:
            status = os.stat(self._files.local(part.path))  # noqa: PTH116 - thousands of them
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        stamp = (status.st_size, status.st_mtime_ns)
        if status.st_size != part.bytes:
            return f"has {status.st_size} bytes, not {part.bytes}"
        if not deep and (part.mtime_ns in {0, status.st_mtime_ns} or self._right.get(part.path) == stamp):
            return ""
        wrong = self._contradicts(part.path)
        if not wrong:
            self._right[part.path] = stamp
        return wrong

    def _timed(self, part: Part) -> Part:
        mtime = self._files.modified(part.path)
        return msgspec.structs.replace(part, mtime_ns=mtime) if mtime else part

    def _contradicts(self, path: str) -> str:
        named = _NAME.fullmatch(path.rpartition("/")[2])
        try:
            with self._files.local(path).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return "contradicts its digest" if named is not None and not found.startswith(named[1]) else ""
