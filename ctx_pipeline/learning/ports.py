"""Ports that errors and people name: whether a lesson and a failure speak of one service."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ctx_pipeline.model.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctx_pipeline.model.memories import Memory


def same_service(memory: Memory, line: str) -> bool:
    """Tell whether a lesson started the service that a line says nothing answers from: the same port, whichever program asked."""
    from ctx_pipeline.mining.lessons.failed_commands.proof import SERVICE_DOWN

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
    return {m["port"] or m["named"] for m in _addresses(text)}


def _addresses(text: str) -> list[re.Match[str]]:
    """Return where a text names a port."""
    return [m for m in _PORT.finditer(text) if not _NO_HOST.search(m["host"] or "") and not _is_tag(m)]


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


_PORT_SAID = lazy_pattern(r"(?:^(?:the\s+)?port\s+|:)(\d{2,5})$")


def stated_once(memory: Memory) -> bool:
    """Tell whether a person said but once where something answers, and did not accept it since."""
    return memory.status != "accepted" and (bool(memory.body.get("once")) or memory.body.get("times") == 1)


def reaches(prompt: str) -> bool:
    """Tell whether a prompt asks to start or to reach something."""
    return _REACHES.match(prompt) is not None


def is_to_be_reached(memory: Memory, prompt: str) -> bool:
    """Tell whether a prompt asks to start or to call what answers at the port of a memory, and that itself: not its docs or tests."""
    from ctx_pipeline.mining.lessons.rules.said_rules import terms

    asked = _REACHES.match(prompt)
    about, named = set(map(str, memory.body.get("about", ()))), terms(asked["what"]) if asked else frozenset()
    if not about or stated_once(memory):
        return False
    return about <= named <= about | _SERVICES and str(memory.body.get("place")).lower() not in prompt.lower()


_REACHES = lazy_pattern(
    r"(?is)^\W*(?:(?:please|now|then|ok|okay|and|also|next|can you|could you|let'?s|i want you to|you should)[,\s]+)*"
    r"(?:re)?(?:start|run|serve|launch|call|curl|hit|ping|query|reach|open|connect)(?:\s+(?:to|up))?\s+"
    r"(?P<what>[\w-]+(?:\s+[\w-]+){0,4}?)(?:\s+up)?(?=\s*(?:$|[.,;:!?\n])|\s+(?:and|then|to|with|so|again|locally|please|now|at|on|via)\b)"
)
"""Asks to start or to reach something."""

_SERVICES = frozenset({"server", "service", "app", "backend", "endpoint", "url"})


def answers_elsewhere(memory: Memory, command: str, line: str) -> bool:
    """Tell whether a person said at which port that answers which a command called on this machine, at another one.

    The call names it beside the port, as its program or in its address, or the person said that it does not answer at that port.
    """
    from ctx_pipeline.mining.lessons.failed_commands.proof import SERVICE_DOWN
    from ctx_pipeline.shell.commands import steps

    told, tried = port_of_fact(memory), _ports(line) | _ports(command)
    if not told or not tried or tried & told or stated_once(memory) or not SERVICE_DOWN.search(line):
        return False
    if not _calls_host(memory, command, line):
        return False
    every = [step for step in steps(command) if step.words]
    if all(step.words[0].rpartition("/")[2] in _SHOWS for step in every):
        return False
    about = set(map(str, memory.body.get("about", ())))
    return any(about <= _called(step.words, tried) for step in every) or bool(tried & set(map(str, memory.body.get("avoid", ()))))


def _called(words: Sequence[str], tried: set[str]) -> frozenset[str]:
    """Return the words of a call: of its program, and of the addresses that name a port that was tried."""
    from ctx_pipeline.mining.lessons.rules.said_rules import terms

    named = (words[0], *(word for word in words[1:] if tried & _ports(word)))
    return terms(re.sub(r"[-=/:._?&]", " ", " ".join(named)))


def _calls_host(memory: Memory, command: str, line: str) -> bool:
    """Tell whether a command and its error name hosts, and only that of a saying, else this machine."""
    if _ELSEWHERE.search(command):
        return False
    far = {host for host in _hosts(str(memory.body.get("place") or "")) if not _is_local(host)}
    called = _hosts(command) | _hosts(line)
    return bool(called) and all(host in far if far else _is_local(host) for host in called)


def _hosts(text: str) -> set[str]:
    """Return the hosts that a text names: in an address, before a port or as the value of an option."""
    found = {next(filter(None, match.groups()), "") for match in _HOST.finditer(text)}
    return {host.strip("[]").lower() for host in found | {m["host"] for m in _addresses(text) if m["host"] not in (None, "]")}}


def _is_local(host: str) -> bool:
    return host in ("localhost", "0.0.0.0", "::1", "::") or host.startswith("127.")  # noqa: S104


_HOST = lazy_pattern(
    r"://(?:[^\s/@]{1,80}@)?(\[[\da-f:]+\]|[\w.-]+)|(?<!\S)(\[[\da-f:]+\]):\d"
    r"|\b(?:to|at|host)\s['\"]?([\w.-]+)['\"]?(?:\s\([\da-f.:]+\))?,?\s(?:on\s)?port\b|(?<!\S)(?:-h\s?|--host(?:name)?[\s=])([\w.-]+)"
)
_ELSEWHERE = lazy_pattern(
    r"(?<![\w-])(?:ssh|(?:docker|podman|nerdctl|compose|docker-compose|kubectl)\s+(?:[^\s&|;]+\s+){0,4}?(?:exec|run))\s"
)
"""Acts on another machine or in a container, where a port is another one."""

_SHOWS = frozenset(
    {"cat", "head", "tail", "less", "more", "grep", "egrep", "rg", "ag", "ack", "sed", "awk", "nl", "sort", "cut", "wc", "jq", "git", "gh"}
)
"""Programs that show what is written, and call no service of a project."""
