"""How long hostile text is redacted: prefixes of secrets, keys and escapes repeated without an end.

What is quadratic in the length of a text takes hours here.
"""

from __future__ import annotations

import base64
import random
import time

from ctx_pipeline.redaction import Redactor
from ctx_pipeline_tests.bench.rows import Row, many

_LINE = base64.b64encode(random.Random(3).randbytes(48)).decode()
PREFIXES = (
    *(
        "sk-",
        "sk-a1",
        "eyJaaaaaaaaaa.",
        "TOKEN_",
        "api_key: ",
        "twilio ",
        "AccountKey=",
        "Bearer ",
        "ghp_",
        "MTA",
        " -u a:",
        "hooks.slack.com/services/",
    ),
    *(
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----" + "A" * 31 + " ",
        "://a:b",
        "://" + "a" * 90 + ":",
        ":AA1234567890",
    ),
    *("\\\\\\\\", "password\\\\\\\\", 'password="'),
)
NAMES = ("password=", "api_key=", "password=1a", "secret=\\/")
KEYS = (
    *("-----END PRIVATE KEY-----", "Private-Lines: 1\n", f"-----BEGIN PRIVATE KEY-----\n{_LINE}\n", f"{_LINE}\n-----END PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----\\n", f"{_LINE}\\n", "-----BEGIN ", f"Private-Lines: 1\n{_LINE}"),
)
ESCAPES = (
    *("\x1b", "\x1b[", "\x1b]0;a", "\x1b[m", "\x1b[mghp_", "\x1b[mpassword=1a", "\x1b[mtwilio ", "\x1b[0m\nsk-a1", "SKa\x1b[m"),
    *("%25", "&amp;", "\\u0041", "\\\\\\\\u", "\\x1b[", "^[["),
)


def hostile_rows() -> list[Row]:
    """Return the processor time of the slowest repeated piece of each sort."""
    sorts = (("prefixes", PREFIXES, 1_000_000), ("names", NAMES, 500_000), ("keys", KEYS, 500_000), ("escapes", ESCAPES, 200_000))
    return [
        Row(f"redaction: {characters:,} characters of {sort}, the slowest", max(_seconds(unit, many(characters)) for unit in units))
        for sort, units, characters in sorts
    ]


def _seconds(unit: str, characters: int) -> float:
    redactor = Redactor()
    redactor.redact(unit)
    text = unit * max(1, characters // len(unit))
    began = time.process_time()
    redactor.redact(text)
    redactor.suspects([text])
    return time.process_time() - began
