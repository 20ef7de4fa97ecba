"""Compiled templates of the page, kept where Python keeps its own bytecode: compiling them takes longer than filling them."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import jinja2

from ctx_pipeline.model.codec import digest

if TYPE_CHECKING:
    from pathlib import Path

    from jinja2.bccache import Bucket


class CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Jinja's cache of bytecode in one folder, of templates that were compiled with some options; without a folder to write, none.

    A template whose source changed, and a file that cannot be read, is compiled anew.
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        compiled_by = digest(
            jinja2.__version__, sys.implementation.cache_tag, sorted((name, str(value)) for name, value in options.items())
        )
        super().__init__(str(folder), f"%s.{compiled_by}.jinja")

    def get_cache_key(self, name: str, filename: str | None = None) -> str:  # noqa: ARG002 - Jinja's signature
        """Return the name: all templates lie in one folder."""
        return name

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load what was compiled before."""
        try:
            super().load_bytecode(bucket)
        except Exception:  # noqa: BLE001 - whatever is wrong with the file, the source is there
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled, where Python may keep its own."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)
