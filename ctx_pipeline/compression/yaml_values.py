"""YAML read without what a file can do to its reader."""

from __future__ import annotations

from typing import Any

DEEPEST = 200
"""Collections inside each other that are read: a loader in C ends the whole process at some ten thousand."""


def yaml_values(text: str) -> list[Any] | None:
    """Return the value of each document of a text, None where aliases repeat parts of it.

    Raises ValueError for what is no YAML, or nested deeper than :data:`DEEPEST`.
    """
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    opening = (yaml.BlockSequenceStartToken, yaml.BlockMappingStartToken, yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
    closing = (yaml.BlockEndToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
    depth = 0
    try:
        for token in yaml.scan(text, Loader=loader):
            if isinstance(token, yaml.AliasToken):
                return None
            depth += isinstance(token, opening) - isinstance(token, closing)
            if depth > DEEPEST:
                raise ValueError(f"more than {DEEPEST} collections inside each other")
        return list(yaml.load_all(text, Loader=loader))
    except (yaml.YAMLError, LookupError, AttributeError, RecursionError) as error:
        # a tag that its value does not fit (!!bool x, !!timestamp x) is told by any of these
        raise ValueError(f"no YAML: {error}") from error
