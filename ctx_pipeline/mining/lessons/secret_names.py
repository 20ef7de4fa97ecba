"""Which assignments of a command line are those of secrets, by their names."""

from __future__ import annotations

from ctx_pipeline.model.lazy_pattern import lazy_pattern

_NAME_PARTS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = lazy_pattern(
    r"(?i).*(?:token|secrets?|passw(?:or)?d|passphrase|credentials?|cookie|webhook|(?:api|private|access|secret|signing)keys?)"
    r"|keys?|(?:pg|my)?pass|pwd|pat|jwt|o?auth"
)
"""A part of a name that says that the value is a secret: not the one of ``MAX_TOKENS`` or ``TOKENIZERS_PARALLELISM``."""

_NO_SECRET = lazy_pattern(r"(?i)true|false|\d{1,4}")
"""A value that is none under whatever name."""

_ASSIGNMENTS = lazy_pattern(
    r"""(?<!\S)(?P<name>-{0,2}[A-Za-z_][\w.-]*=|--(?!no-)[A-Za-z][\w.-]*\s+(?!-|[A-Za-z_]\w*=[^=\s]))"""
    r"""(?P<value>(?:'[^']*(?:'|$)|"[^"]*(?:"|$)|\\.|[^\s'"\\])+)"""
)
"""A variable or an option with its value, which may be quoted, and cut inside of its quotes."""


def without_secret(assignment: str) -> str:
    """Return a name with its value, which is left open where the name is one of a secret."""
    name, _, value = assignment.partition("=")
    return f"{name}=..." if _is_secret(name, value) else assignment


def without_secrets(command: str) -> str:
    """Return a command line whose variables and options with the name of a secret have their values left open."""
    return _ASSIGNMENTS.sub(lambda found: f"{found['name']}..." if _is_secret(found["name"], found["value"]) else found[0], command)


def _is_secret(name: str, value: str) -> bool:
    return any(map(_SECRET.fullmatch, _NAME_PARTS.findall(name))) and not _NO_SECRET.fullmatch(value)
