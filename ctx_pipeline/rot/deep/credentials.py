"""Keys and addresses of the model's provider, in the documented order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def resolve(api_key: str | None, api_base: str | None, env_file: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return api_key and api_base as far as they are known.

    The argument goes before ``OPENAI_API_KEY``/``OPENAI_API_BASE``, these before
    ``API_KEY``/``API_BASE``; a variable of the environment goes before one of ``env_file``.
    """
    known = {**(read_env_file(Path(env_file)) if env_file else {}), **environ}
    found = {
        "api_key": api_key or known.get("OPENAI_API_KEY") or known.get("API_KEY"),
        "api_base": api_base or known.get("OPENAI_API_BASE") or known.get("API_BASE"),
    }
    return {name: value for name, value in found.items() if value}


def read_env_file(path: Path) -> dict[str, str]:
    """Return the ``KEY=VALUE`` lines of a file, quotes taken off; nothing for a file that cannot be read."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip() and not name.startswith("#"):
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[name.strip()] = value[1:-1] if quoted else value
    return found
