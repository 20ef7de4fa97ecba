"""Ports that errors and people name: whether a lesson and a failure speak of one service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from ctx_pipeline.model.memories import Memory


def same_service(memory: Memory, line: str) -> bool:
    """Tell whether a lesson started the service that a line says nothing answers from: the same port, whichever program asked."""
    from ctx_pipeline.mining.lessons.proof import SERVICE_DOWN

    error = str(memory.body.get("error") or "")
    if memory.body.get("resolution") != "setup" or not (SERVICE_DOWN.search(line) and SERVICE_DOWN.search(error)):
        return False
    return bool(_ports(error) & _ports(line))


def another_service(memory: Memory, line: str) -> bool:
    """Tell whether a lesson and a line each name a port, and none in common: what started the one service is no cure of the other."""
    mine, theirs = _ports(str(memory.body.get("error") or "")), _ports(line)
    return bool(mine and theirs) and mine.isdisjoint(theirs)


def _ports(text: str) -> set[str]:
    """Return the ports that a text names: behind the word or a host; numbers of lines, times of day and tags of images are none."""
    found = [m for m in _PORT.finditer(text) if not _NO_HOST.search(m["host"] or "") and not _is_tag(m)]
    return {m["port"] or m["named"] for m in found}


def _is_tag(found: re.Match[str]) -> bool:
    """Tell whether a name and a number are an image of a container with its version: ``postgres:15``, ``node:20-alpine``."""
    text, (start, end), port = found.string, found.span(), found["port"]
    if not _PLAIN_NAME.match(found["host"] or ""):
        return False
    before = text[max(0, start - _NEAR) : start]
    if _OF_IMAGE.search(before) or _VARIANT.match(text, end):
        return True
    called = _CALLED.search(before) or _ANSWERS.match(text, end)
    return len(port) == len("15") and port not in _SHORT_PORTS and not called


_PORT = lazy_pattern(
    r"(?i)\bport[\s=:]+(?P<named>\d{2,5})\b"
    r"|(?P<host>(?<![\w.-])(?<!(?<!/)/)[\w.-]{1,253}|\]|::1|::):(?P<port>\d{2,5})(?![\w:]|\.\d)"
)
_PLAIN_NAME = lazy_pattern(r"(?i)^(?!localhost$)[a-z][\w-]*$")
"""A name of one word: of a machine in a network of containers, or of an image."""
_SHORT_PORTS = frozenset({"21", "22", "23", "25", "53", "80"})
_NEAR = 60
"""Characters before a name that are looked at."""

_OF_IMAGE = lazy_pattern(r"(?i)\b(?:images?|manifest|pull(?:ing)?)(?:\s(?:for|named|called|of))?\W{0,3}$")
"""Stands before an image of a container."""

_VARIANT = lazy_pattern(r"(?i)-(?:alpine|slim|bookworm|bullseye|buster|trixie|jammy|focal|noble|ubi|rc|beta|alpha|nanoserver|windows)")
"""Stands behind the version of an image."""

_CALLED = lazy_pattern(r"(?i)(?:\b(?:by|to|at|from|host|server|connect|connecting|dial|tcp)\W{1,3}|://)$")
_ANSWERS = lazy_pattern(r"(?i)['\"`]?\s(?:refused|timed out|unreachable|is not reachable|did not answer)\b")
"""Stand before and behind a machine that is called."""

_NO_HOST = lazy_pattern(
    r"(?i)^(?!\d+(?:\.\d+){3}$)\d|\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|vue|svelte|go|rs|rb|java|kt|c|cc|cpp|h|hpp|cs|php|sh|ex|exs|swift"
    r"|scala|lua|sql|s?css|less|html?|ya?ml|json|toml|md|rst|txt|log|lock|cfg|ini|xml|mk|cmake|dart|zig|pl|pm|jl|hs|clj|erl|hrl|ml|nix"
    r"|gradle|kts|groovy|tf|proto|mm?|fs|vb|bat|ps1|ipynb)$|^(?:line|col|column|row|make|docker|gem|rake|just|jenkins)(?:file)?$"
)
"""Before a number and a colon: a time of day, or a file whose line it is."""


def port_of_fact(memory: Memory) -> set[str]:
    """Return the port at which a memory says that something answers."""
    return set(_PORT_SAID.findall(str(memory.body.get("place") or "")))


_PORT_SAID = lazy_pattern(r"(?:^port\s+|:)(\d{2,5})$")


def answers_elsewhere(memory: Memory, command: str, line: str) -> bool:
    """Tell whether a person said at which port that answers which a command did not reach at another one."""
    from ctx_pipeline.mining.lessons.proof import SERVICE_DOWN
    from ctx_pipeline.mining.lessons.said_rules import terms

    told, tried = port_of_fact(memory), _ports(line) | _ports(command)
    if not told or not tried or tried & told or not SERVICE_DOWN.search(line):
        return False
    named = terms(re.sub(r"[-=/:._]", " ", command)) & set(map(str, memory.body.get("about", ())))
    return bool(named or tried & set(map(str, memory.body.get("avoid", ()))))
