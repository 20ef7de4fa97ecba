"""Data chunks: JSON inside a script file, safe wherever a browser may meet it."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec

from ctx_pipeline.model.characters import HIDDEN, SEPARATORS, escaped

_encode = msgspec.json.Encoder().encode


def chunk(name: str, value: Any) -> bytes:
    r"""Return a script that hands ``value`` to the page under ``name``.

    Angle brackets, ampersands and the two line separators of JavaScript are written as
    escapes (``\u003c``), so that neither ``</script>`` nor ``<!--<script>`` nor U+2028 has a
    meaning. Keys of objects must be the caller's own words: ``__proto__`` in a literal is
    not data.
    """
    return b"ctx.receive(" + script_json(name) + b"," + script_json(value) + b");\n"


def script_json(value: Any) -> bytes:
    """Return JSON that is also safe inside HTML and inside a script, without characters that nobody sees."""
    text = _encode(value)
    for plain, written in ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026")):
        text = text.replace(plain, written)
    # every control of ASCII is an escape already
    return text if text.isascii() else HIDDEN.sub(lambda found: escaped(found[0]) if found[0] in SEPARATORS else "", text.decode()).encode()


def packed(value: Any) -> str:
    """Return a value as base64 of zlib over JSON; texts in it must have gone through :func:`seen`."""
    return base64.b64encode(zlib.compress(_encode(value), 1)).decode()


def seen(text: str | None) -> str:
    """Return a text without the characters that nobody sees."""
    if not text:
        return ""
    return text if text.isascii() else HIDDEN.sub(lambda found: found[0] if found[0] in SEPARATORS else "", text)
