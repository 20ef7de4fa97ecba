"""The records of coding agents as an event-sourced pipeline.

Public names are resolved when they are first used, so that ``import ctx_pipeline``
costs next to nothing inside other people's programs.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_PUBLIC: dict[str, str] = {
    "CtxError": "ctx_pipeline.errors",
    "Settings": "ctx_pipeline.settings",
    "load_settings": "ctx_pipeline.api.sessions",
}

__all__ = sorted([*_PUBLIC, "__version__"])  # noqa: PLE0605 - names are data, resolved below


def __getattr__(name: str) -> Any:
    """Import a public name from where it lives (PEP 562)."""
    import importlib

    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
