"""What a made file is: of which input, by which code, with which content. The file carries it, and the ledger's record follows the file."""

from __future__ import annotations

from typing import NamedTuple


class Made(NamedTuple):
    """The identity of one made file."""

    input_fp: str
    code_version: str
    content_hash: str
    rows: int
